"""Once a process: import what is heavy after the first paint, and leave it out of each garbage collection."""

from __future__ import annotations

import gc

import streamlit as st


@st.cache_resource(show_spinner=False)
def warm_up() -> bool:
    """Import torch, plotly and what draws, then freeze them; later calls return at once.

    Streamlit collects garbage after every run, and walking torch's objects each time would take
    longer than the run itself.
    """
    import quantviz.explanation
    import quantviz.figures.number_line
    import quantviz.figures.panels
    import quantviz.measures  # noqa: F401

    gc.collect()
    gc.freeze()
    return True
