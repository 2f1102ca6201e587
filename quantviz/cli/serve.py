"""`quantviz serve`: run the app, from an installed package as from a clone."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click

import quantviz
from quantviz.errors import QuantVizError

#: What the app imports besides what the core needs.
_NEEDED = ("pandas", "PIL", "plotly", "safetensors", "segno", "streamlit")


def app_file() -> Path:
    """Return the path of the app: inside an installed package, else at the top of the clone.

    Raises:
        QuantVizError: If neither is there.
    """
    package = Path(quantviz.__file__).parent
    for path in (package / "_app" / "app.py", package.parent / "app.py"):
        if path.is_file():
            return path
    raise QuantVizError("app_not_found", folder=package)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("streamlit_options", nargs=-1, type=click.UNPROCESSED)
def serve(streamlit_options: tuple[str, ...]) -> None:
    """Run the app in the browser. Options are Streamlit's own, such as --server.port 8502."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise QuantVizError("app_needs", missing=", ".join(missing))
    command = [sys.executable, "-m", "streamlit", "run", str(app_file()), *streamlit_options]
    if os.name == "posix":
        # Takes this process's place, so that a signal sent to it ends the server.
        os.execv(sys.executable, command)
    sys.exit(subprocess.call(command))
