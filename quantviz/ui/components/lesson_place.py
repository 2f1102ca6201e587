"""Place of the learner in the lessons. The lessons show it; the Lab and the teacher's page turn to it."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from quantviz.ui.shell import errors

#: In the session: the place, the errors of the address, and the state that the learner looks at.
PLACE = "lesson_place"
PROBLEMS = "lesson_problems"
LOOK = "lesson_look"
#: The element that gets the focus, as a CSS selector, and the number of such elements before.
_FOCUS = "lesson_focus"
_LIST_HEADING = "h1.qv-title:not([data-step])"
#: Another step begins at its top; the script runs anew where its text is another.
_TO_THE_TOP = (
    """<script data-step="{step}">document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0);</script>"""
)
#: The button that was pressed is gone, and with it the keyboard's focus. The new element may come after the
#: script.
_TO_FOCUS = """<script data-turn="{turn}">
(() => {{
  const until = Date.now() + 4000;
  const find = () => {{
    const found = document.querySelector('{selector}');
    if (!found) return Date.now() < until && setTimeout(find, 50);
    found.tabIndex = -1;
    found.focus();
  }};
  find();
}})();
</script>"""


@dataclass(frozen=True)
class LessonPlace:
    """Place of the learner in the lessons."""

    #: None for the list of all lessons.
    lesson: str | None = None
    #: Number of the step, from 0.
    step: int = 0


def go(lesson: str | None, step: int = 0) -> None:
    """Turn to a step, counted from 0, or without a lesson to the list of all."""
    st.session_state[PLACE] = LessonPlace(lesson, step)
    st.session_state[PROBLEMS] = ()
    st.session_state.pop(LOOK, None)
    errors.clear()
    go_on_from(f'[data-step="{lesson}/{step}"]' if lesson else _LIST_HEADING)


def go_on_from(selector: str) -> None:
    """Put the keyboard's focus there, once it is on the page."""
    turn, _ = st.session_state.get(_FOCUS, (0, ""))
    st.session_state[_FOCUS] = (turn + 1, selector)


def show_focus(step: str = "") -> None:
    """Have the browser begin another `step` at its top, and put the focus where a press is to lead."""
    turn, selector = st.session_state.get(_FOCUS, (0, ""))
    top = _TO_THE_TOP.format(step=step) if step else ""
    # Where nothing was pressed yet, the page begins where the browser begins it.
    focus = _TO_FOCUS.format(turn=turn, selector=selector) if turn else ""
    with st.container(key="lesson_focus"):
        for script in (top, focus):
            st.html(script or "<span></span>", unsafe_allow_javascript=True)
