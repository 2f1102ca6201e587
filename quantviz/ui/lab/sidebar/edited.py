"""Values of the tensor that were set by hand, and the way back."""

from __future__ import annotations

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.words import number, plain, say

#: Cells that are named.
_NAMED = 4


def show_edits(state: LabState) -> None:
    """Say which cells were set by hand, with a button that puts their values back; nothing where none was."""
    edits = state.source.edits
    if not edits:
        return
    cells = say("edited.comma").join(
        say("edited.cell", place=", ".join(map(str, cell)), value=number(value, 7))
        for cell, value in edits[:_NAMED]
    )
    said = (
        say("edited.all", cells=cells)
        if len(edits) <= _NAMED
        else say("edited.first", count=len(edits), cells=cells)
    )
    st.caption(plain(said))
    st.button(
        say("edited.put_back"),
        key="put_back",
        on_click=errors.safely(_put_back),
        disabled=locked("tensor"),
        width="stretch",
    )


def _put_back() -> None:
    now = session.state()
    session.put(now.replace(source=now.source.unedited))
