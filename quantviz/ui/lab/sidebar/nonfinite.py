"""NaN and Inf in the tensor: their number and place, and the choice of their treatment.

A tensor that the scheme refuses is not lost: it waits beside the message until one of the other choices is
made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.errors import Note
from quantviz.lab.state import LabState
from quantviz.schemes.scheme import NONFINITE
from quantviz.sources import Source
from quantviz.ui.components.classroom_signs import show_lock
from quantviz.ui.components.controls import choose_among
from quantviz.ui.components.small_parts import show_error_beside
from quantviz.ui.components.tensor_cache import facts_of
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.words import say, say_note

if TYPE_CHECKING:
    from quantviz.tensors.conversion import NonFinite

#: The key of the place of the note on NaN and Inf.
NOTE = "nonfinite_note"


def found_in(source: Source) -> NonFinite | None:
    """Return the counts and first place of NaN and Inf in the tensor; None where all values are finite."""
    # Where the source is marked finite, the page paints its frame before torch comes in.
    return None if source.finite else facts_of(source).found


def take(new: LabState) -> None:
    """Take a state with another tensor; if its scheme refuses NaN and Inf in it, it waits and this raises."""
    found = found_in(new.source)
    if found and new.scheme.nonfinite == "refuse":
        errors.wait(new)
        raise found.refusal()
    session.put(new)


def show_error_and_choice(field: str) -> None:
    """Show the error of the last input in `field`, and the choice that its tensor waits for."""
    if show_error_beside(field):
        show_choice(field)


def show_choice(place: str) -> None:
    """Show the choices for NaN and Inf in the waiting tensor, beside the message that it was refused."""
    if errors.waiting() is not None:
        _show_choice(f"nonfinite_{place}", "refuse", _choose)
        show_lock("range")


def _choose(choice: str) -> None:
    waiting = errors.waiting()
    if waiting is not None:
        session.put(waiting.replace(scheme=waiting.scheme.replace(nonfinite=choice)))


def heeded(state: LabState) -> bool:
    """Return whether there is a choice to be shown: there are NaN or Inf, or it was made."""
    return state.scheme.nonfinite != "refuse" or found_in(state.source) is not None


def note_of(state: LabState) -> Note | None:
    """Return the note on what the scheme does with the NaN and Inf of the tensor; None without any."""
    found = found_in(state.source)
    choice = state.scheme.nonfinite
    return found.note(choice) if found and choice != "refuse" else None


def show_note(note: Note) -> None:
    """Show a note of a result; that on NaN and Inf in a place that the browser finds."""
    place = st.container(key=NOTE) if note.key.startswith("nonfinite_") else st
    place.info(say_note(note))


def show_nonfinite(state: LabState) -> None:
    """Show the choice for NaN and Inf among the controls of the range."""
    if heeded(state):
        found = found_in(state.source)
        if found:
            counts = {"count": found.count, "nan": found.nan, "inf": found.inf, "minus_inf": found.minus_inf}
            st.caption(say("nonfinite.found", **counts, index=found.first))
        _show_choice("nonfinite", state.scheme.nonfinite, _set)


def _set(choice: str) -> None:
    with errors.caught_beside("range"):
        found = found_in(session.state().source)
        if found and choice == "refuse":
            raise found.refusal()
        session.put_scheme(nonfinite=choice)


def _show_choice(key: str, now: str, take: Callable[[str], None]) -> None:
    words = {name: f"{say(f'nonfinite.{name}.name')}\n{say(f'nonfinite.{name}.help')}" for name in NONFINITE}
    question = say("nonfinite.question")
    choose_among(key, "row", question, words, now, take, lock="range", look="qv-below")
