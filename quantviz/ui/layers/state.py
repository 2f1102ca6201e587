"""State of the page of layers in the session: opened from the address, changed by the controls, undone."""

from __future__ import annotations

from typing import Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.layer_state import LayerState, read_link
from quantviz.ui.shell import address

_STATE = "layers_state"
_PROBLEMS = "layers_problems"
_PAST = "layers_past"
_FUTURE = "layers_future"
#: Steps that undo reaches back.
_MOST_STEPS = 50
#: Changes that are no step of their own: what is looked at.
_LOOKS = frozenset({"cell", "channel", "lines", "shown"})


def current_state() -> LayerState:
    """Return the state; that of the address where this asks for another one."""
    if address.asks_anew() or _STATE not in st.session_state:
        st.session_state[_STATE], st.session_state[_PROBLEMS] = read_link(st.query_params.to_dict())
    return cast(LayerState, st.session_state[_STATE])


def problems() -> tuple[QuantVizError, ...]:
    """Return the errors of the address's parts that could not be used."""
    return cast("tuple[QuantVizError, ...]", st.session_state.get(_PROBLEMS, ()))


def change_state(**changes: Any) -> None:
    """Change some fields of the state; a step, unless they are only of what is looked at."""
    put_state(current_state().replace(**changes), step=not changes.keys() <= _LOOKS)


def put_state(new: LayerState, *, step: bool = True) -> None:
    """Take another state, as a step that can be undone or as a correction of the present one."""
    old = current_state()
    if step and new != old:
        st.session_state[_PAST] = (*_steps(_PAST), old)[-_MOST_STEPS:]
        st.session_state[_FUTURE] = ()
        st.session_state[_PROBLEMS] = ()
    st.session_state[_STATE] = new


def can_turn(*, back: bool) -> bool:
    """Return whether there is a step to undo, or one that was undone."""
    return bool(_steps(_PAST if back else _FUTURE))


def turn(*, back: bool) -> None:
    """Undo the last step, or do the one again that was undone last."""
    here, there = (_PAST, _FUTURE) if back else (_FUTURE, _PAST)
    steps = _steps(here)
    if not steps:
        return
    st.session_state[there] = (*_steps(there), current_state())
    st.session_state[here] = steps[:-1]
    st.session_state[_STATE] = steps[-1]
    st.session_state[_PROBLEMS] = ()


def _steps(name: str) -> tuple[LayerState, ...]:
    return cast("tuple[LayerState, ...]", st.session_state.get(name, ()))
