"""The bug gallery page: one tensor through a correct and a broken program, and "spot the bug"."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.controls import Control, show_controls, undo_controls
from quantviz.ui.components.page_header import show_header, write_title
from quantviz.ui.components.refusals import error_beside, show_error_beside, show_page_errors
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.gallery.board import SIGNS, show_board
from quantviz.ui.gallery.both_ways import BugComparison, run_both_ways
from quantviz.ui.gallery.program import given_words, place_words, show_program
from quantviz.ui.gallery.state import DRAG, OWNER, GalleryState, bug_of, case_of, own_seed
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import plain, say

if TYPE_CHECKING:
    from quantviz.teaching.gallery import Bug, ProgramLine


_SEED = "bugs_seed"


def show_page() -> None:
    """Show the chosen bug both ways, or a puzzle, and write the address."""
    state = show_head()
    if state.spotting:
        show_puzzle(state)
    else:
        show_comparison(state)
    OWNER.show_link()


def show_head() -> GalleryState:
    """Show the title and its controls."""
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
        modes = {"compare": say("bugs.page.compare"), "spot": say("bugs.page.spot")}
        now = "spot" if state.spotting else "compare"
        mode = Control("mode", "row", say("bugs.page.mode"), value=now, choices=modes)
        show_controls("gallery_mode", OWNER, mode, *undo_controls(OWNER), look="qv-unnamed")
        show_copy_link()
    return state


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
    with st.container(key="gallery_after"):
        if state.at is not None:
            st.markdown(happens)
        st.markdown(bug_words("practice", shown.bug.id))
        show_program(shown)


def _note(shown: BugComparison) -> str:
    if shown.case.id == "random":
        return say("bugs.page.random_bites") if bool(shown.lit.any()) else say("bugs.page.random_hides")
    return say(f"bugs.{shown.bug.id}.notes.{shown.case.id}")


def bug_words(what: str, bug: str) -> str:
    return f"**{say(f'bugs.page.{what}')}** {plain(say(f'bugs.{bug}.{what}'))}"


def show_puzzle(state: GalleryState) -> None:
    """Show the broken result and its program; once its line was found, both ways side by side."""
    shown = run_both_ways(state)
    tried = state.tries.get(state.puzzle, ())
    _puzzle_head(state)
    goal = f"**{say('bugs.spot.goal')}:** {plain(say(f'bugs.{shown.bug.id}.goal'))}"
    if shown.bug.broken.key in tried:
        _solved(shown, goal)
        return
    with st.container(key="gallery_words"):
        st.markdown(goal)
    with st.container(key="gallery_alone"):
        show_board(shown, telling=False)
    st.markdown(plain(say("bugs.spot.ask", place=place_words(shown))))
    with st.container(key="gallery_lines", gap="xsmall"):
        for at, line in enumerate(shown.broken.lines):
            _line_button(shown, at, line, tried)


def _puzzle_head(state: GalleryState) -> None:
    from quantviz.teaching.gallery import BUGS, puzzle

    count = len(BUGS)
    solved = [lines for each, lines in state.tries.items() if puzzle(each).broken.key in lines]
    first = sum(len(lines) == 1 for lines in solved)
    with st.container(key="gallery_choices", horizontal=True, gap="small", vertical_alignment="center"):
        words = say("bugs.spot.score", solved=len(solved), all=count, first=first)
        st.markdown(f"**{plain(say('bugs.spot.number', number=state.puzzle, all=count))}** · {plain(words)}")
        show_controls("gallery_another", OWNER, Control("another", "button", say("bugs.spot.another")))


def _line_button(shown: BugComparison, at: int, line: ProgramLine, tried: tuple[str, ...]) -> None:
    """Show a line to point at; under one that was pointed at, why it is not the cause."""
    mark = f"{SIGNS['broken']} " if line.key in tried else ""
    label = (
        f"{mark}{at + 1} &nbsp; `{line.code}` &nbsp; → {plain(given_words(shown.broken, at, shown.place))}"
    )
    show_button(label, f"gallery_line_{at}", _point, line.key, disabled=bool(mark), width="stretch")
    if mark:
        st.markdown(
            f"**{say('bugs.spot.wrong', line=at + 1)}** {plain(say(f'bugs.{shown.bug.id}.why.{line.key}'))}"
        )


def _point(key: str) -> None:
    state = OWNER.state
    tried = state.tries.get(state.puzzle, ())
    if key not in tried:
        OWNER.change(tries=MappingProxyType({**state.tries, state.puzzle: (*tried, key)}))


def _solved(shown: BugComparison, goal: str) -> None:
    at = shown.broken.lines.index(shown.bug.broken)
    name = say(f"bugs.{shown.bug.id}.name")
    st.success(
        f"**{plain(say('bugs.spot.right', line=at + 1, name=name))}** "
        f"{plain(say(f'bugs.{shown.bug.id}.happens'))}"
    )
    show_board(shown)
    st.markdown(bug_words("practice", shown.bug.id))
    st.markdown(goal)
    show_program(shown)
