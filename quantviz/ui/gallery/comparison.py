"""A bug compared: the two lines that differ, and the result of each on the tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from quantviz.sources.random import LARGEST_SEED
from quantviz.ui.components.choice import choose
from quantviz.ui.gallery.board import show_board
from quantviz.ui.gallery.both_ways import Shown, run_both_ways
from quantviz.ui.gallery.program import show_program
from quantviz.ui.gallery.state import (
    OWNER,
    GalleryState,
    case_of,
    own_seed,
)
from quantviz.ui.shell import errors, widgets
from quantviz.ui.shell.words import plain, say

if TYPE_CHECKING:
    from quantviz.teaching.gallery import Bug

#: The choice of the tensor that a hand drags; no case has this id.
_DRAG = "drag"


def _choices(state: GalleryState, bug: Bug) -> None:
    """Show the choice of the bug, of the tensor or the handle, and of a random tensor's seed."""
    from quantviz.teaching.bug_handles import HANDLES
    from quantviz.teaching.gallery import BUGS

    chosen = _DRAG if state.at is not None else case_of(state, bug).id

    with st.container(key="gallery_choices", horizontal=True, gap="small", vertical_alignment="center"):
        choose(
            st.selectbox,
            say("bugs.page.bug"),
            tuple(BUGS),
            key=widgets.show("gallery_bug", bug.id),
            on_change=errors.safely(lambda: OWNER.put(OWNER.state.of_bug(st.session_state["gallery_bug"]))),
            format_func=lambda name: f"{tuple(BUGS).index(name) + 1} · {say(f'bugs.{name}.name')}",
            label_visibility="collapsed",
        )
        cases = ((_DRAG,) if bug.id in HANDLES else ()) + tuple(each.id for each in bug.cases)
        choose(
            st.segmented_control,
            say("bugs.page.tensor"),
            cases,
            # Its own key for each bug: the cases have other names.
            key=widgets.show(f"gallery_case_{bug.id}", chosen),
            required=True,
            on_change=errors.safely(lambda: _show_case(bug, st.session_state[f"gallery_case_{bug.id}"])),
            format_func=lambda name: _case_name(bug, name),
            label_visibility="collapsed",
            width="content",
        )
        case_seed = own_seed(case_of(state, bug))
        if case_seed is not None and chosen != _DRAG:
            st.markdown(say("bugs.page.seed"), width="content")
            st.number_input(
                say("bugs.page.seed"),
                0,
                LARGEST_SEED,
                key=widgets.show("gallery_seed", case_seed if state.seed is None else state.seed),
                step=1,
                on_change=errors.safely(
                    lambda: OWNER.change(seed=int(st.session_state["gallery_seed"]), cell=None)
                ),
                label_visibility="collapsed",
                width=130,
            )


def _show_case(bug: Bug, name: str) -> None:
    if name == _DRAG:
        OWNER.put(OWNER.state.of_bug(bug.id))
    else:
        OWNER.change(case=name, seed=None, cell=None, at=None)


def _case_name(bug: Bug, name: str) -> str:
    if name == _DRAG:
        return say("bugs.page.drag")
    return say("bugs.page.random") if name == "random" else say(f"bugs.{bug.id}.cases.{name}")


def show_comparison(state: GalleryState) -> None:
    """Show the chosen bug: the common belief, the two lines, the two rows, the whole program."""
    shown = run_both_ways(state)
    _choices(state, shown.bug)
    belief, happens = (bug_words(what, shown.bug.id) for what in ("belief", "happens"))
    with st.container(key="gallery_words"):
        # A learner who drags sees the effect before the sentence.
        st.markdown(belief if state.at is not None else f"{belief} &nbsp; {happens} {plain(_note(shown))}")
    show_board(shown)
    if state.at is not None:
        st.markdown(happens)
    st.markdown(bug_words("practice", shown.bug.id))
    show_program(shown)


def _note(shown: Shown) -> str:
    if shown.case.id == "random":
        return say("bugs.page.random_bites") if bool(shown.lit.any()) else say("bugs.page.random_hides")
    return say(f"bugs.{shown.bug.id}.notes.{shown.case.id}")


def bug_words(what: str, bug: str) -> str:
    return f"**{say(f'bugs.page.{what}')}** {plain(say(f'bugs.{bug}.{what}'))}"
