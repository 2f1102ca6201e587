"""The pages of the app, in the sections of its navigation."""

from __future__ import annotations

import copy
from typing import Any

import streamlit as st

from quantviz.ui.shell.streamlit_private import StreamlitPage
from quantviz.ui.shell.words import remembered, say


def sections() -> dict[str, list[StreamlitPage]]:
    """Return the pages of each section, under its name: the front door alone is in the first, which has none.

    They are this run's own: Streamlit marks the one that it shows.
    """
    return {name: [*map(copy.copy, pages)] for name, pages in _sections().items()}


@remembered
def _sections() -> dict[str, list[StreamlitPage]]:
    # Reached from a page to which they belong: the lessons, or the layers.
    hidden: dict[str, Any] = {"visibility": "hidden"}
    named = {
        "learn": [
            _page("learn/lessons"),
            _page("learn/formats"),
            _page("learn/bugs"),
            _page("learn/golf", **hidden),
        ],
        "explore": [
            _page("explore/checkpoints"),
            _page("explore/layers"),
            _page("explore/attention", **hidden),
            _page("lab/playground", "lab"),
        ],
        "teach": [_page("learn/teacher")],
    }
    home = _page("home/home", default=True)
    return {"": [home], **{say(f"pages.sections.{name}"): pages for name, pages in named.items()}}


def _page(script: str, name: str = "", **more: Any) -> StreamlitPage:
    name = name or script.partition("/")[2]
    return st.Page(f"pages/{script}.py", title=say(f"pages.{name}"), url_path=name, **more)
