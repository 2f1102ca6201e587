"""Once a process: import what is heavy after the first paint, and leave it out of each garbage collection."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator

import streamlit as st

#: Seconds the browser gets to fetch and paint the frame before the imports begin.
_HEAD_START = 0.6
#: Seconds after which the importing thread lets others run, in place of Python's 0.005.
_SHORT_TURN = 0.0002


@st.cache_resource(show_spinner=False)
def warm_up() -> bool:
    """Import torch, plotly, pandas and what draws, then freeze them; later calls return at once.

    Streamlit collects garbage after every run, and walking torch's objects each time would take
    longer than the run itself.
    """
    with _others_first():
        # Streamlit imports it when a page first needs it; plotly, in another session's thread, would meet it half imported.
        import pandas  # noqa: F401

        import quantviz.comparison
        import quantviz.explanation
        import quantviz.figures.formats
        import quantviz.figures.histograms
        import quantviz.figures.number_line
        import quantviz.figures.panels
        import quantviz.figures.recipe_plot
        import quantviz.measures  # noqa: F401

    gc.collect()
    gc.freeze()
    return True


@contextlib.contextmanager
def _others_first() -> Iterator[None]:
    """Hold up nobody: this process also serves the scripts with which the browser paints the frame."""
    if "torch" in sys.modules:
        yield
        return
    time.sleep(_HEAD_START)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SHORT_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
