"""Show the signs of a class on a page: why a control is locked, a link's problem, and the projector."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import streamlit as st

from quantviz.lab.classroom import Classroom
from quantviz.ui.components.class_wall import running, show_wall
from quantviz.ui.components.component import component, last_message
from quantviz.ui.shell.classroom import (
    classroom,
    enter,
    letters,
    locked,
    note_letters,
    problem,
    wall,
)
from quantviz.ui.shell.words import plain, say, say_error

#: In the session: the classroom before the projector was switched on.
_BEFORE = "classroom_before"
#: The key of the component that reports the size of letters, and its script.
_LETTERS = "letters"


def show_room() -> None:
    """Show the classroom's signs, above everything else on every page."""
    damage = problem()
    if damage:
        st.warning(say("room.damaged") if damage.key.startswith("link.classroom") else say_error(damage))
    if classroom().projector:
        st.html(Path(__file__).parents[1] / "shell" / "projector.css")
    if wall():
        show_wall()
        if (now := running()) and now.stands_over:
            from quantviz.ui.components.class_votes import show_strip  # needs torch

            show_strip(now)
    elif classroom().projector:
        with st.container(key="projector", horizontal=True, width="content"):
            if classroom().hidden:
                show_all = partial(enter, dataclasses.replace(classroom(), hidden=frozenset()))
                st.button(
                    say("room.show_all"), key="project_all", icon=":material/visibility:", on_click=show_all
                )
            st.button(
                say("room.leave"),
                key="leave_projector",
                icon=":material/close:",
                on_click=project,
                args=(False,),
                help=say("room.leave_help"),
            )


def project(on: bool, shown: Classroom | None = None) -> None:
    """Switch the projector on, with the visible parts of `shown`, or off: then all is as before."""
    if on:
        st.session_state[_BEFORE] = classroom()
        # The teacher's own hand is on it: nothing is locked.
        enter(dataclasses.replace(shown or classroom(), locked=frozenset(), projector=True))
    else:
        enter(dataclasses.replace(st.session_state.pop(_BEFORE, classroom()), projector=False))


def show_prompt() -> None:
    """Show the teacher's question; where every result is hidden there is always one."""
    room = classroom()
    words = plain(room.prompt) or (say("room.predict") if room.asks_to_predict else "")
    # On the wall it is clear whose question it is.
    who = "" if room.projector else f"**{say('room.prompt')}** "
    if words:
        with st.container(key="class_prompt"):
            st.markdown(who + words)


def show_lock(group: str) -> None:
    """Say why the controls of a group are grey, where a teacher has locked them."""
    if locked(group):
        st.caption(f"🔒 {say('room.locked')}")


def follow_letters() -> None:
    """Have the browser report the size of its letters where the server knows another one.

    On a projector figures grow with the wall.
    """
    if classroom().projector:
        return
    reported = last_message(_LETTERS, _LETTERS, "size")
    if reported is not None:
        note_letters(reported)
    component("quantviz_letters", _LETTERS)(key=_LETTERS, data={"known": letters()})
