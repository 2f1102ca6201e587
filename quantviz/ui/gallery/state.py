"""The state of the gallery, read from the address and changed by its controls.

It is one frozen value in the session under `gallery_state`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.sources.random import LARGEST_SEED
from quantviz.ui.shell import address
from quantviz.ui.shell.classroom import parameters
from quantviz.ui.shell.words import language

if TYPE_CHECKING:
    from quantviz.teaching.gallery import Bug, Case


_STATE = "gallery_state"
PROBLEMS = "gallery_problems"
#: The address at which a control has last changed the state, while it is older than the state.
_CHANGED = "gallery_changed"


@dataclass(frozen=True)
class GalleryState:
    """The choices of the gallery; an empty id is the first one there is."""

    bug: str = ""
    case: str = ""
    #: The seed of a random tensor; none for the case's own.
    seed: int | None = None
    #: The value of the bug's handle; none where one of the bug's cases is shown.
    at: float | None = None
    #: Row and column of the cell looked at; none for the one where the results lie farthest apart.
    cell: tuple[int, int] | None = None
    spotting: bool = False
    #: The puzzle's number, from 1.
    puzzle: int = 1
    #: The lines pointed at in each puzzle, by number, the last one last.
    tries: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


def current_state() -> GalleryState:
    """Return the current state: the controls' own, or the one that the browser's Back went to."""
    before = cast("GalleryState | None", st.session_state.get(_STATE))
    # The browser may go Back before the run of a change has come to its end: that address is another one.
    older = st.session_state.get(_CHANGED) == st.query_params.to_dict()
    anew = address.asks_anew() and not older
    if anew or before is None:
        state, st.session_state[PROBLEMS] = _opening()
        # Solved puzzles stay solved.
        st.session_state[_STATE] = dataclasses.replace(state, tries=before.tries) if before else state
    return cast(GalleryState, st.session_state[_STATE])


def _opening() -> tuple[GalleryState, tuple[QuantVizError, ...]]:
    """Return the state of the address, and a problem for each parameter that is not valid."""
    from quantviz.teaching.bug_handles import HANDLES, value_written
    from quantviz.teaching.gallery import find_bug, puzzle

    query = st.query_params
    problems = []
    state = opening_of(bug_of(GalleryState()).id)
    try:
        if "spot" in query:
            is_number = query["spot"].isascii() and query["spot"].isdigit() and len(query["spot"]) < 6
            state = dataclasses.replace(state, spotting=True)
            puzzle(int(query["spot"]) if is_number else 0)
            return dataclasses.replace(state, puzzle=int(query["spot"])), ()
        if "bug" in query:
            state = GalleryState(find_bug(query["bug"]).id)
            if "at" in query and state.bug in HANDLES:
                state = dataclasses.replace(state, at=HANDLES[state.bug].start)
                state = dataclasses.replace(state, at=value_written(state.bug, query["at"]))
            elif "case" in query:
                state = dataclasses.replace(state, case=find_bug(state.bug).case(query["case"]).id)
            if "seed" in query and state.at is None:
                seed = query["seed"]
                if not (seed.isascii() and seed.isdigit() and len(seed) < 12 and int(seed) <= LARGEST_SEED):
                    raise QuantVizError("bugs.bad_seed", got=seed, most=LARGEST_SEED)
                state = dataclasses.replace(state, seed=int(seed))
    except QuantVizError as problem:
        problems.append(problem)
    return state, tuple(problems)


def opening_of(bug_id: str) -> GalleryState:
    """Return the first state of a bug: where its handle first shows it, else on the first of its cases."""
    from quantviz.teaching.bug_handles import HANDLES, first_shown

    return GalleryState(bug_id, at=first_shown(bug_id).value if bug_id in HANDLES else None)


def change_state(**changes: Any) -> None:
    st.session_state[_CHANGED] = st.query_params.to_dict()
    st.session_state[_STATE] = dataclasses.replace(current_state(), **changes)
    st.session_state[PROBLEMS] = ()


def show_bug(bug_id: str) -> None:
    """Show a bug as it is first shown."""
    opening = opening_of(bug_id)
    change_state(bug=bug_id, case="", seed=None, cell=None, at=opening.at)


def show_link() -> None:
    """Write the address: the bug and its tensor, or a puzzle's number, which does not reveal the bug."""
    state = current_state()
    wanted = {"lang": language(), **parameters()}
    st.session_state.pop(_CHANGED, None)
    if state.spotting:
        wanted = {"spot": str(state.puzzle), **wanted}
    elif state.at is not None:
        wanted = {"bug": bug_of(state).id, "at": f"{state.at:g}", **wanted}
    else:
        bug = bug_of(state)
        case = case_of(state, bug)
        named = {"case": case.id} if case is not bug.cases[0] else {}
        seeded = (
            {} if state.seed is None or own_seed(case) in (None, state.seed) else {"seed": str(state.seed)}
        )
        wanted = {"bug": bug.id, **named, **seeded, **wanted}
    address.write(wanted)


def bug_of(state: GalleryState) -> Bug:
    from quantviz.teaching.gallery import BUGS, puzzle

    if state.spotting:
        return puzzle(state.puzzle)
    return BUGS[state.bug] if state.bug else next(iter(BUGS.values()))


def case_of(state: GalleryState, bug: Bug) -> Case:
    return bug.case(state.case) if state.case and not state.spotting else bug.cases[0]


def own_seed(case: Case) -> int | None:
    return getattr(case.source, "seed", None)
