"""Runs of a model that were dropped together, compared op by op: the report of `quantviz runs`."""

from __future__ import annotations

import streamlit as st

from quantviz.ui.lab.dropped_files import RUNS, DroppedFiles, dropped_files
from quantviz.ui.shell.words import language, plain, say

#: Height of the report in pixels; it scrolls.
_HEIGHT = 900
_REPORT = "checkpoints_runs_report"


def show_runs() -> None:
    """Show the dropped runs beside the first one, which is taken for the reference.

    Raises:
        QuantVizError: They cannot be compared.
    """
    dropped = dropped_files(RUNS)
    st.caption(plain(say("drop.reference", file=dropped.files[0].name)))
    st.iframe(_report(dropped), height=_HEIGHT)


def _report(dropped: DroppedFiles) -> str:
    """Return the report of the dropped runs, made once for a session and its language."""
    key = dropped, language()
    made = st.session_state.get(_REPORT)
    if made is None or made[0] != key:
        from quantviz.export.runs_report import runs_html
        from quantviz.models.runs import compare_runs

        reference, *others = (str(each.path) for each in dropped.files)
        made = key, runs_html(compare_runs(reference, others), language=language())
        st.session_state[_REPORT] = made
    return str(made[1])
