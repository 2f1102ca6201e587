"""Origins of the Lab's state: the step of a lesson, a model's map, a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import streamlit as st

from quantviz.lab.scenarios import SCENARIOS, scenario_of
from quantviz.lab.state import LabState
from quantviz.ui.shell import undo

#: The lesson's step that the state was opened from.
_LESSON = "lab_origin"
#: The tensor that was opened from a model's map.
_MAP = "lab_from_map"
#: The scenario that this session has seen the state of, as long as its tensor is on the screen.
_SCENARIO = "lab_scenario"
#: The session's keys of a workspace's origins.
KEYS = (_LESSON, _SCENARIO)


@dataclass(frozen=True)
class LessonStep:
    """The step of a lesson that a state of the Lab was opened from."""

    lesson: str
    #: Number of the step, from 0.
    step: int
    opened: LabState


def came_from_lesson(lesson: str, step: int, opened: LabState) -> None:
    """Remember the way back to a lesson's step, counted from 0."""
    st.session_state[_LESSON] = LessonStep(lesson, step, opened)
    st.session_state[_SCENARIO] = None


def came_from_map(now: LabState) -> None:
    """Remember that there is a way back to a model's map."""
    st.session_state[_MAP] = now.source.unedited


def forget() -> None:
    """Forget the lesson's step, as another tensor is taken."""
    st.session_state[_LESSON] = None


def forget_undone() -> None:
    """Forget a lesson's step whose opening is undone, as a new change follows: redo no longer reaches it."""
    if _is_undone(st.session_state.get(_LESSON)):
        forget()


def is_from_map(now: LabState) -> bool:
    """Return whether the tensor was opened from a model's map."""
    return bool(st.session_state.get(_MAP) == now.source.unedited)


def lesson_step(now: LabState) -> LessonStep | None:
    """Return the step of origin, while its tensor is on the screen and its opening not undone."""
    origin = cast("LessonStep | None", st.session_state.get(_LESSON))
    same = origin and origin.opened.source.unedited == now.source.unedited
    return origin if same and not _is_undone(origin) else None


def way_back(now: LabState) -> LessonStep | None:
    """Return the step to go back to: the state's origin, or the one an undo has just left."""
    origin = cast("LessonStep | None", st.session_state.get(_LESSON))
    if _is_undone(origin):
        return origin
    return lesson_step(now)


def _is_undone(origin: LessonStep | None) -> bool:
    """Return whether it was undone that the state was opened from a lesson; redo does it again."""
    return origin is not None and undo.is_undone(origin.opened)


def scenario(now: LabState) -> str | None:
    """Return the seen scenario that the state began with, while its tensor is on the screen."""
    name = scenario_of(now.source.unedited)
    if name is not None and (now.scheme, now.baseline) == (SCENARIOS[name].scheme, SCENARIOS[name].baseline):
        st.session_state[_SCENARIO] = name
    elif st.session_state.get(_SCENARIO) != name:
        st.session_state[_SCENARIO] = None
    return cast("str | None", st.session_state.get(_SCENARIO))
