"""The round in the session: read from the address, changed by tries; the scheme is the desk's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.golf import (
    HOLES,
    TEE,
    GolfRound,
    Hole,
    HoleResults,
    problems,
    read_round,
    recipes_within,
    score,
    write_round,
)
from quantviz.tensors.views import View
from quantviz.ui.lab.tensor import facts_of, heavy_fact
from quantviz.ui.shell import address, session
from quantviz.ui.shell.classroom import parameters
from quantviz.ui.shell.words import language

if TYPE_CHECKING:
    from quantviz.analysis.recipe_ranking import RecipeRow

#: In the session: the round, the errors of its link, the outcome of the last press of *Try it*, and the holes
#: whose par was requested.
_ROUND = "golf_round"
_PROBLEMS = "golf_problems"
_OUTCOME = "golf_outcome"
_ASKED = "golf_asked"
#: Whether the round has tries that were not computed yet.
_UNSEEN = "golf_unseen"
#: Whether a button of ours has changed the round for this run.
_MOVED = "golf_moved"


@dataclass(frozen=True)
class Outcome:
    """The outcome of the last press of *Try it*."""

    #: The number of the try, from 1; None where there is none.
    number: int | None = None
    #: Whether the same try was made before.
    again: bool = False
    #: Reason why it could not be tried.
    refused: QuantVizError | None = None
    #: Whether there is a try because the button was pressed, and not from a link.
    pressed: bool = False


def open_round() -> GolfRound:
    """Return the round: that of the address in a new session or after Back, else the session's."""
    # A button of ours may be faster than the address.
    moved = st.session_state.pop(_MOVED, False)
    anew = address.asks_anew() and not moved
    if anew or _ROUND not in st.session_state:
        st.session_state[_ROUND], st.session_state[_PROBLEMS] = read_round(st.query_params.to_dict())
        st.session_state[_UNSEEN] = True
        _set_out()
    return current_round()


def current_round() -> GolfRound:
    """Return the round."""
    return cast(GolfRound, st.session_state[_ROUND])


def link_problems() -> tuple[QuantVizError, ...]:
    """Return a problem for each parameter of the address that is not valid."""
    return cast("tuple[QuantVizError, ...]", st.session_state.get(_PROBLEMS, ()))


def settle() -> bool:
    """Compute new tries, leave out refused ones, and return whether the controls were set anew."""
    if not st.session_state.get(_UNSEEN):
        return False
    played = current_round()
    wrong = []
    result = outcome()
    for hole, schemes in played.tries.items():
        for at, scheme in enumerate(schemes, 1):
            try:
                score_of(HOLES[hole], scheme)
            except QuantVizError as problem:
                played = played.without_try(hole, scheme)
                if result.pressed:
                    result = Outcome(refused=problem.again())
                else:
                    wrong.append(QuantVizError("golf.link_try", number=at, hole=hole, reason=problem.again()))
    st.session_state[_ROUND] = played
    st.session_state[_OUTCOME] = result
    st.session_state[_UNSEEN] = False
    if wrong:
        st.session_state[_PROBLEMS] = (*link_problems(), *wrong)
        _set_out()
    return bool(wrong)


def outcome() -> Outcome:
    """Return the outcome of the last press of *Try it*."""
    return cast(Outcome, st.session_state.get(_OUTCOME, Outcome()))


def show_link() -> None:
    """Write the round to the address."""
    address.write({**write_round(current_round()), "lang": language(), **parameters()})


# ---- results --------------------------------------------------------------------------------------


def score_of(hole: Hole, scheme: Scheme) -> RecipeRow:
    """Return bits and error of a try: computed once for all sessions."""
    return heavy_fact(hole.source, f"golf {scheme}", partial(score, scheme=scheme))


def standing(hole: str) -> HoleResults:
    """Return the standing of a hole of the round."""
    played_hole = HOLES[hole]
    recipes = heavy_fact(played_hole.source, "golf recipes", recipes_within)
    tries = current_round().tries.get(hole, ())
    return HoleResults(played_hole, recipes, tuple(score_of(played_hole, scheme) for scheme in tries))


# ---- changes ----------------------------------------------------------------------------------------


def _put(played: GolfRound, result: Outcome) -> None:
    st.session_state[_ROUND] = played
    st.session_state[_OUTCOME] = result
    st.session_state[_PROBLEMS] = ()
    st.session_state[_MOVED] = True


def _set_out() -> None:
    """Set the controls to the last try on the hole, or to the hole's start."""
    played = current_round()
    st.session_state[_OUTCOME] = Outcome(len(played.here) or None)
    set_controls(played.here[-1] if played.here else TEE)


def set_controls(scheme: Scheme) -> None:
    """Set the controls to a scheme, on the tensor of the hole that is played."""
    source = HOLES[current_round().hole].source
    session.lay_out(LabState(source, scheme, View.of(source.shape), (0,) * len(source.shape)))


def turn_to(hole: str) -> None:
    """Play another hole."""
    _put(current_round().at(hole), Outcome())
    _set_out()


def try_scheme() -> None:
    """Try the scheme in the controls; `settle` computes it."""
    played = current_round()
    scheme = session.state().scheme
    refused = next(problems(HOLES[played.hole], scheme), None)
    if refused:
        _put(played, Outcome(refused=refused))
        return
    best = {each.scheme for name in played.tries if (each := standing(name).best)}
    new = played.with_try(scheme, best)
    _put(new, Outcome(new.here.index(scheme) + 1, scheme in played.here, pressed=True))
    st.session_state[_UNSEEN] = True


def clear_tries() -> None:
    """Clear the tries on the present hole."""
    _put(current_round().without_tries(), Outcome())


def ask_for_par() -> None:
    """Have the recipe of par shown."""
    st.session_state[_ASKED] = {*st.session_state.get(_ASKED, ()), current_round().hole}


def par_is_shown(now: HoleResults) -> bool:
    """Return whether the recipe of par is shown: the player wanted to see it, or has beaten it."""
    requested = now.hole.id in st.session_state.get(_ASKED, ())
    return requested or (now.score is not None and now.score > 0)


def remember_facts(hole: Hole) -> None:
    """Remember the start of a range set by hand."""
    facts = facts_of(hole.source)
    st.session_state[session.FACTS] = {
        "lo": facts.lo,
        "hi": facts.hi,
        "scale": (facts.hi - facts.lo) / 15,
        "zero_point": 0,
    }
