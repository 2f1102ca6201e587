"""The JavaScript of the pages, read from beside this file. Without streamlit."""

from pathlib import Path


def read_script(name: str) -> str:
    """Return the text of a script of this folder."""
    return (Path(__file__).parent / f"{name}.js").read_text(encoding="utf-8")
