"""The round in the session: read from the address, changed by tries; the scheme is the desk's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.page_state import History
from quantviz.lab.state import LabState
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.golf import (
    HOLES,
    TEE,
    GolfRound,
    Hole,
    HoleResults,
    problems,
    recipes_within,
    score,
)
from quantviz.tensors.views import View
from quantviz.ui.components.tensor_cache import facts_of, heavy_fact
from quantviz.ui.shell import session
from quantviz.ui.shell.page_owner import PageOwner

if TYPE_CHECKING:
    from quantviz.analysis.recipe_ranking import RecipeRow

#: In the session: the outcome of the last press of *Try it*, and the holes whose par was requested.
_OUTCOME = "golf_outcome"
_ASKED = "golf_asked"


@dataclass(frozen=True)
class TryOutcome:
    """The outcome of the last press of *Try it*."""

    #: The number of the try, from 1; None where there is none.
    number: int | None = None
    #: Whether the same try was made before.
    again: bool = False
    #: Reason why it could not be tried.
    refused: QuantVizError | None = None
    #: Whether there is a try because the button was pressed, and not from a link.
    pressed: bool = False


class _GolfOwner(PageOwner[GolfRound]):
    """The owner of the round: another round lays out its last try."""

    def read(self, params: Mapping[str, str]) -> History[GolfRound]:
        """Return the history of a link, laid out."""
        return _laid_out(super().read(params))

    def follow(self, history: History[GolfRound], params: Mapping[str, str]) -> History[GolfRound]:
        """Return the history of the browser's Back or Forward, laid out."""
        return _laid_out(super().follow(history, params))

    @property
    def can_undo(self) -> bool:
        """Return whether there is a choice since the last try to undo, or a try."""
        return session.OWNER.can_undo or super().can_undo

    @property
    def can_redo(self) -> bool:
        """Return whether there is a step that was undone, and nothing was chosen since."""
        return session.OWNER.can_redo or (super().can_redo and not session.OWNER.can_undo)

    def undo(self) -> None:
        """Undo the last choice since the last try; else the last step of the round, and lay out what was
        before it.
        """
        if session.OWNER.can_undo:
            session.OWNER.undo()
        elif self.can_undo:
            self.take(_laid_out(self.history().undo()))

    def redo(self) -> None:
        """Do the step again that was undone last, and lay it out."""
        if session.OWNER.can_redo:
            session.OWNER.redo()
        elif self.can_redo:
            self.take(_laid_out(self.history().redo()))


OWNER = _GolfOwner(GolfRound)


def settle() -> bool:
    """Compute new tries, leave out refused ones, and return whether the controls were set anew."""
    played = OWNER.state
    wrong = []
    result = outcome()
    for hole, schemes in played.tries.items():
        for at, scheme in enumerate(schemes, 1):
            try:
                score_of(HOLES[hole], scheme)
            except QuantVizError as problem:
                played = played.without_try(hole, scheme)
                if result.pressed:
                    result = TryOutcome(refused=problem.again())
                else:
                    wrong.append(QuantVizError("golf.link_try", number=at, hole=hole, reason=problem.again()))
    OWNER.amend(played, *wrong)
    st.session_state[_OUTCOME] = result
    if wrong:
        _laid_out(OWNER.history())
    return bool(wrong)


def outcome() -> TryOutcome:
    """Return the outcome of the last press of *Try it*."""
    return cast(TryOutcome, st.session_state.get(_OUTCOME, TryOutcome()))


# ---- results --------------------------------------------------------------------------------------


def score_of(hole: Hole, scheme: Scheme) -> RecipeRow:
    """Return bits and error of a try: computed once for all sessions."""
    return heavy_fact(hole.source, f"golf {scheme}", partial(score, scheme=scheme))


def standing(hole: str) -> HoleResults:
    """Return the standing of a hole of the round."""
    played_hole = HOLES[hole]
    recipes = heavy_fact(played_hole.source, "golf recipes", recipes_within)
    tries = OWNER.state.tries.get(hole, ())
    return HoleResults(played_hole, recipes, tuple(score_of(played_hole, scheme) for scheme in tries))


# ---- changes ----------------------------------------------------------------------------------------


def _laid_out(history: History[GolfRound]) -> History[GolfRound]:
    """Return a round's history, with the controls set to the last try on its hole, or to the hole's start."""
    played = history.now
    st.session_state[_OUTCOME] = TryOutcome(len(played.here) or None)
    lay_out(played.hole, played.here[-1] if played.here else TEE)
    return history


def lay_out(hole: str, scheme: Scheme) -> None:
    """Set the controls to a scheme, on the tensor of a hole."""
    source = HOLES[hole].source
    session.lay_out(LabState(source, scheme, View.of(source.shape), (0,) * len(source.shape)))


def turn_to(hole: str) -> None:
    """Play another hole."""
    if hole not in HOLES:
        return
    OWNER.put(OWNER.state.at(hole))
    _laid_out(OWNER.history())


def try_scheme() -> None:
    """Try the scheme in the controls; `settle` computes it."""
    played = OWNER.state
    scheme = session.state().scheme
    refused = next(problems(HOLES[played.hole], scheme), None)
    if refused:
        st.session_state[_OUTCOME] = TryOutcome(refused=refused)
        return
    best = {each.scheme for name in played.tries if (each := standing(name).best)}
    new = played.with_try(scheme, best)
    OWNER.put(new)
    if new != played:
        session.lay_out(session.state())  # an undo now takes the try back
    st.session_state[_OUTCOME] = TryOutcome(new.here.index(scheme) + 1, scheme in played.here, pressed=True)


def clear_tries() -> None:
    """Clear the tries on the present hole."""
    OWNER.put(OWNER.state.without_tries())
    st.session_state[_OUTCOME] = TryOutcome()


def ask_for_par() -> None:
    """Have the recipe of par shown."""
    st.session_state[_ASKED] = {*st.session_state.get(_ASKED, ()), OWNER.state.hole}


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
