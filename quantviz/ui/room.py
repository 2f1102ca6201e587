"""The classroom of the session: what the teacher's link asked for, kept over page switches."""

from __future__ import annotations

from typing import cast

import streamlit as st

from quantviz.classroom import Classroom
from quantviz.errors import QuantVizError

#: The link's parameter.
PARAMETER = "k"
_ROOM, _PROBLEM = "classroom", "classroom_problem"
#: How much larger figures are on a projector.
_PROJECTED = 1.5


def classroom() -> Classroom:
    """The session's classroom: what its first address asked for."""
    if _ROOM not in st.session_state:
        try:
            st.session_state[_ROOM] = Classroom.parse(st.query_params.get(PARAMETER, ""))
        except QuantVizError as problem:
            st.session_state[_ROOM], st.session_state[_PROBLEM] = Classroom(), problem
    return cast(Classroom, st.session_state[_ROOM])


def enter(room: Classroom) -> None:
    """Take another classroom."""
    st.session_state[_ROOM] = room
    st.session_state.pop(_PROBLEM, None)


def problem() -> QuantVizError | None:
    """What of the address' classroom could not be had."""
    return cast("QuantVizError | None", st.session_state.get(_PROBLEM))


def parameters() -> dict[str, str]:
    """The classroom as it stands in a page's address."""
    form = str(classroom())
    return {PARAMETER: form} if form else {}


def enlarge() -> float:
    """How many times larger than usual figures are drawn."""
    return _PROJECTED if classroom().projector else 1.0
