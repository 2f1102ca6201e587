"""The bug gallery page: one tensor through a correct and a broken program, and "spot the bug"."""

from __future__ import annotations

from typing import cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.ui.components.choice import choose
from quantviz.ui.components.clipboard import copy_button
from quantviz.ui.components.language_switch import show_language
from quantviz.ui.gallery.comparison import show_comparison
from quantviz.ui.gallery.puzzle import show_puzzle
from quantviz.ui.gallery.state import (
    PROBLEMS,
    GalleryState,
    bug_of,
    change_state,
    current_state,
    show_link,
    showing,
)
from quantviz.ui.shell import session
from quantviz.ui.shell.startup import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import plain, say, say_error

_MODES = ("compare", "spot")


def show_page() -> None:
    """Show the chosen bug both ways, or a puzzle, and write the address."""
    state = show_controls()
    if state.spotting:
        show_puzzle(state)
    else:
        show_comparison(state)
    show_link()


def show_controls() -> GalleryState:
    """Show title and choices."""
    with st.sidebar:
        show_language()
    with st.container(key="header", horizontal=True, vertical_alignment="center", gap="small"):
        # Torch comes in only after this is painted.
        hint = st.markdown(f"# {say('bugs.page.title')}", width="stretch")
        actions = st.container(
            key="actions",
            horizontal=True,
            gap="small",
            width="content",
            wrap=False,
            vertical_alignment="center",
        )
    warm_up()
    from quantviz.teaching.gallery import BUGS

    state = current_state()
    # A puzzle does not tell which bug it is.
    name_tab(
        say("pages.bugs"), say("bugs.page.spot") if state.spotting else say(f"bugs.{bug_of(state).id}.name")
    )
    words = say("bugs.page.hint_spot", all=len(BUGS)) if state.spotting else say("bugs.page.hint")
    hint.markdown(f"# {say('bugs.page.title')}\n\n{plain(words)}", width="stretch")
    with actions:
        choose(
            st.segmented_control,
            say("bugs.page.mode"),
            _MODES,
            key=showing("gallery_mode", _MODES[state.spotting]),
            required=True,
            on_change=session.safely(
                lambda: change_state(spotting=st.session_state["gallery_mode"] == "spot", cell=None)
            ),
            format_func=lambda name: say("bugs.page.spot") if name == "spot" else say("bugs.page.compare"),
            label_visibility="collapsed",
        )
        copy_button(
            "copy_link", say("lab.copy_link"), say("lab.copied"), explanation=say("lab.copy_link_help")
        )
    for problem in cast(tuple[QuantVizError, ...], st.session_state.get(PROBLEMS, ())):
        st.warning(say_error(problem))
    return state
