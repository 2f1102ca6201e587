"""What of the classroom shows on a page: a lock's reason, a link's problem, and the projector."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import streamlit as st

from quantviz.ui.shell.classroom import classroom, enter, locked, problem
from quantviz.ui.shell.words import say


def show_room() -> None:
    """Show what every page tells of its classroom, above everything else."""
    if problem():
        st.warning(say("room.damaged"))
    if classroom().projector:
        st.html(Path(__file__).parents[1] / "shell" / "projector.css")
        with st.container(key="projector", width="content"):
            st.button(
                say("room.leave"),
                key="leave_projector",
                on_click=project,
                args=(False,),
                help=say("room.leave_help"),
            )


def project(on: bool) -> None:
    """Switch the session's projector on or off."""
    enter(dataclasses.replace(classroom(), projector=on))


def show_lock(group: str) -> None:
    """Say why the controls of a group are grey, where a teacher has locked them."""
    if locked(group):
        st.caption(f"🔒 {say('room.locked')}")
