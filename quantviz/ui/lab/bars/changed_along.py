"""Notes on further changes to the scheme by a choice or another tensor, so that none goes unnoticed."""

from __future__ import annotations

from collections.abc import Collection

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.ui.components.scheme_words import part_words
from quantviz.ui.shell import session
from quantviz.ui.shell.session import Adapted
from quantviz.ui.shell.words import plain, say, sentences, shape_text


def show_what_changed_along(state: LabState) -> None:
    """Show the further changes that the last choice, or the tensor, brought with it."""
    change = session.adapted()
    if change and change.others:
        with st.container(key="changed_along"):
            st.caption(plain(_said(change, state)))


def _said(change: Adapted, state: LabState) -> str:
    if change.asked == ("granularity",) and change.others == ("calibration",):
        _, after = _parts(change, change.others, state)
        return say("strip.range_again", after=after)
    if change.asked:
        before, after = _parts(change, change.others, state)
        name = part_words(change.after, change.asked[0], state.source)
        return say("strip.adapted", name=name, before=before, after=after)
    if change.after == change.before.with_every_value():
        before, after = _parts(change, change.others, state)
        return say("strip.without_search", before=before, after=after)
    # Another tensor is the reason: its values have another sign, or its shape has no such blocks.
    signs = change.before.number_format.signed != change.after.number_format.signed
    told = []
    if signs:
        before, after = _parts(change, ("format",), state)
        why = "for_picture" if state.source.unedited.picture else "for_both_signs"
        told.append(say(f"strip.{why}", before=before, after=after))
    rest = tuple(name for name in change.others if not (signs and name == "format"))
    if rest:
        before, after = _parts(change, rest, state)
        shape = shape_text(state.source.shape)
        told.append(say("strip.stands_in", shape=shape, before=before, after=after))
    return sentences(*told)


def _parts(change: Adapted, names: Collection[str], state: LabState) -> tuple[str, str]:
    """Return the named parts of the scheme before and after, in words."""
    before, after = (
        ", ".join(part_words(scheme, name, state.source) for name in names)
        for scheme in (change.before, change.after)
    )
    return before, after
