"""Typing or pasting a tensor, and editing its cells in place."""

from __future__ import annotations

import math
from collections.abc import Mapping

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.sources.tensor_text import parse_tensor
from quantviz.sources.typed import Typed
from quantviz.ui.components.component import written
from quantviz.ui.components.small_parts import error_beside, show_button
from quantviz.ui.components.tensor_cache import tensor_of
from quantviz.ui.lab.sidebar.nonfinite import show_choice, take
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.words import number, plain, say, say_error

#: The largest side whose cells can be edited in place.
EDITABLE = 16

_TEXT = "typed_text"
_BASE = "cells_base"
_VERSION = "cells_version"

#: Edited cells that are named.
_NAMED = 4


def start_typing() -> None:
    """Begin with a copy of the tensor at hand where it is small, else with a small example."""
    now = session.state()
    small = math.prod(now.source.shape) <= EDITABLE * EDITABLE
    typed = Typed.of(tensor_of(now.source).tolist()) if small else Typed.of([[0.5, -1.25], [2.0, 0.75]])
    kept = now.replace(source=typed, held=None) if small else now.with_source(typed)
    session.put(kept)


def show_typed(state: LabState) -> None:
    """Show the text, and below it the cells while they are few."""
    typed = state.source.original
    if not isinstance(typed, Typed):
        return
    if error_beside(_TEXT) is None and st.session_state.get("typed_shown") != typed:
        st.session_state[_TEXT] = typed.to_text()
        st.session_state["typed_shown"] = typed
    fixed = locked("tensor")
    st.text_area(
        say("typed.label"),
        key=_TEXT,
        height=120,
        on_change=errors.safely(_read),
        help=say("typed.help"),
        disabled=fixed,
    )
    _complaint()
    if len(typed.shape) <= 2 and max(typed.shape) <= EDITABLE and not fixed:
        _cells(typed)


def _read(decimal_comma: bool | None = None) -> None:
    with errors.caught_beside(_TEXT):
        typed = parse_tensor(st.session_state[_TEXT], decimal_comma=decimal_comma)
        _take(typed)
        # An ambiguous decimal comma is shown as it was read; else the text stays as it was typed.
        st.session_state["typed_shown"] = typed if decimal_comma is None else None


def _take(typed: Typed) -> None:
    """Look at a typed tensor; one with NaN or Inf may wait for a choice of their treatment."""
    take(session.state().with_source(typed))


def _complaint() -> None:
    error = error_beside(_TEXT)
    if not error:
        return
    st.error(say_error(error))
    show_choice("typed")
    if error.key == "typed.comma_ambiguous":
        with st.container(horizontal=True):
            show_button(say("typed.decimal_comma"), "typed_decimal", _read, True)
            show_button(say("typed.separating_comma"), "typed_separating", _read, False)


# ---- cells --------------------------------------------------------------------------------------


def _cells(typed: Typed) -> None:
    """Show a grid of cells; edits are laid over a base, so that typing on keeps the place in the grid."""
    base = st.session_state.get(_BASE)
    if base is None or _edited(base, _edits(base)) != typed:
        base = st.session_state[_BASE] = typed
        st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1
    rows = typed.shape[0] if len(typed.shape) == 2 else 1
    cols = typed.shape[-1]
    st.data_editor(
        {str(col): [base.values[row * cols + col] for row in range(rows)] for col in range(cols)},
        key=_editor_key(),
        on_change=errors.safely(_take_edits),
        hide_index=True,
        num_rows="fixed",
        column_config={
            str(col): st.column_config.NumberColumn(width=56, format="%.6g") for col in range(cols)
        },
        alt=say("typed.cells"),
    )


def _editor_key() -> str:
    return f"cells_{st.session_state.get(_VERSION, 0)}"


def _edits(base: Typed) -> Mapping[int, Mapping[str, float | None]]:
    """Return the edits of a base: the numbers by row and column."""
    rows, cols = (1, *base.shape)[-2:]
    columns = frozenset(map(str, range(cols)))

    def fits(lines: Mapping[int, Mapping[str, object]]) -> bool:
        numbers = (value for changed in lines.values() for value in changed.values())
        return all(row < rows and changed.keys() <= columns for row, changed in lines.items()) and not any(
            isinstance(value, str) for value in numbers
        )

    return written(_editor_key(), fits)


def _take_edits() -> None:
    with errors.caught_beside(_TEXT):
        base = st.session_state[_BASE]
        new = _edited(base, _edits(base))
        now = session.state()
        if new == now.source:  # a cell was emptied: a tensor has no holes, so it shows its value again
            st.session_state[_BASE] = None
        else:
            session.put(now.replace(source=new, held=None))


def _edited(base: Typed, edits: Mapping[int, Mapping[str, float | None]]) -> Typed:
    values = list(base.values)
    cols = base.shape[-1]
    for row, changed in edits.items():
        for col, value in changed.items():
            # A cell that was emptied keeps its value: a tensor has no holes.
            if value is not None:
                values[row * cols + int(col)] = value
    return Typed(tuple(values), base.shape)


def show_edits(state: LabState) -> None:
    """Say which cells were set by hand, with a button that puts their values back; nothing where none was."""
    edits = state.source.edits
    if not edits:
        return
    cells = say("edited.comma").join(
        say("edited.cell", place=", ".join(map(str, cell)), value=number(value, 7))
        for cell, value in edits[:_NAMED]
    )
    key = "edited.all" if len(edits) <= _NAMED else "edited.first"
    st.caption(plain(say(key, count=len(edits), cells=cells)))
    fixed = locked("tensor")
    show_button(say("edited.put_back"), "put_back", _put_back, disabled=fixed, width="stretch")


def _put_back() -> None:
    now = session.state()
    session.put(now.replace(source=now.source.unedited))
