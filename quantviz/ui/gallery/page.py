"""The bug gallery page: one tensor through a correct and a broken program, and "spot the bug"."""

from __future__ import annotations

import streamlit as st

from quantviz.ui.components.choice import choose
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.page_header import show_header, show_steps, write_title
from quantviz.ui.components.refusals import show_page_errors
from quantviz.ui.gallery.comparison import show_comparison
from quantviz.ui.gallery.puzzle import show_puzzle
from quantviz.ui.gallery.state import OWNER, GalleryState, bug_of, change_state
from quantviz.ui.shell import errors, widgets
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import say

_MODES = ("compare", "spot")


def show_page() -> None:
    """Show the chosen bug both ways, or a puzzle, and write the address."""
    state = show_controls()
    if state.spotting:
        show_puzzle(state)
    else:
        show_comparison(state)
    OWNER.show_link()


def show_controls() -> GalleryState:
    """Show title and choices."""
    title, actions = show_header(say("pages.bugs"))
    show_page_errors(*OWNER.problems)
    warm_up()
    from quantviz.teaching.gallery import BUGS

    state = OWNER.state
    # A puzzle's title does not reveal its bug.
    name_tab(
        say("pages.bugs"), say("bugs.page.spot") if state.spotting else say(f"bugs.{bug_of(state).id}.name")
    )
    words = say("bugs.page.hint_spot", all=len(BUGS)) if state.spotting else say("bugs.page.hint")
    write_title(title, say("pages.bugs"), words)
    with actions:
        choose(
            st.segmented_control,
            say("bugs.page.mode"),
            _MODES,
            key=widgets.show("gallery_mode", _MODES[state.spotting]),
            required=True,
            on_change=errors.safely(
                lambda: change_state(spotting=st.session_state["gallery_mode"] == "spot", cell=None)
            ),
            format_func=lambda name: say("bugs.page.spot") if name == "spot" else say("bugs.page.compare"),
            label_visibility="collapsed",
        )
        show_steps(OWNER)
        show_copy_link()
    return state
