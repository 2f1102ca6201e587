"""A bug compared: the two lines that differ, and the result of each on the tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from quantviz.ui.components.controls import Control, show_controls
from quantviz.ui.components.refusals import error_beside, show_error_beside
from quantviz.ui.gallery.board import show_board
from quantviz.ui.gallery.both_ways import Shown, run_both_ways
from quantviz.ui.gallery.program import show_program
from quantviz.ui.gallery.state import DRAG, OWNER, GalleryState, case_of, own_seed
from quantviz.ui.shell.words import plain, say

if TYPE_CHECKING:
    from quantviz.teaching.gallery import Bug

_SEED = "bugs_seed"


def _choices(state: GalleryState, bug: Bug) -> None:
    """Show the choice of the bug, of the tensor or the handle, and of a random tensor's seed."""
    from quantviz.teaching.bug_handles import HANDLES
    from quantviz.teaching.gallery import BUGS

    case = case_of(state, bug)
    chosen = DRAG if state.at is not None else case.id
    names = {name: f"{at} · {say(f'bugs.{name}.name')}" for at, name in enumerate(BUGS, 1)}
    offered = ([DRAG] if bug.id in HANDLES else []) + [each.id for each in bug.cases]
    cases = {name: _case_name(bug, name) for name in offered}
    controls = [
        Control("bug", "list", say("bugs.page.bug"), value=bug.id, choices=names),
        Control("case", "row", say("bugs.page.tensor"), value=chosen, choices=cases),
    ]
    seed = own_seed(case) if state.seed is None else state.seed
    if own_seed(case) is not None and chosen != DRAG:
        wrong = error_beside(_SEED) is not None
        controls.append(Control("seed", "text", say("bugs.page.seed"), value=str(seed), wrong=wrong))
    show_controls("gallery_choices", OWNER, *controls, look="qv-inside")
    show_error_beside(_SEED)


def _case_name(bug: Bug, name: str) -> str:
    if name == DRAG:
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
