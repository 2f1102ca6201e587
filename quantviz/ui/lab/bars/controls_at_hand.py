"""The Lab's controls of the scheme, answered by the browser before the server is asked."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.controls import (
    CONTROLS,
    choice_of,
    chosen_granularity,
    fits,
    granularities,
    with_calibration,
    with_granularity,
)
from quantviz.lab.state import LabState
from quantviz.schemes.recipes import current_recipe
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.hand_choices import ReachedSchemes, opened_list, show_choices
from quantviz.ui.lab.bars.engine_controls import RULES, with_rule
from quantviz.ui.lab.picture.tensor_panels import PANELS_KEY
from quantviz.ui.lab.sidebar.nonfinite import NOTE, note_of
from quantviz.ui.lab.sidebar.sidebar import BY_HAND, range_lines, range_words
from quantviz.ui.shell import session, widgets
from quantviz.ui.shell.classroom import locked, visible
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import language, say, say_recipe

if TYPE_CHECKING:
    from quantviz.analysis.study import Study

#: The list on a phone in place of the granularity's buttons.
_PHONE_SCALE = "phone_scale"
#: Lists of many schemes, each with a program of its own.
_LONG = ("format", "recipe", "convention", "calibration")


@fragment
def show_controls_at_hand(study: Study, state: LabState) -> None:
    """Send the browser the schemes that the controls on the page lead to. It runs by itself when a long list
    is opened.
    """
    now = session.state()
    if (now.source, now.scheme) != (state.source, state.scheme):
        return  # the whole page is about to follow
    known = {*CONTROLS, _PHONE_SCALE, *RULES, "calibration", "nonfinite"}
    shown = {key: words for key, words in widgets.names_shown().items() if key in known}
    lists = [key for key in shown if key in (*_LONG, *RULES) and key != opened_list()]
    blocks = _by_granularity(state)
    names = {key: _reached(key, words, state, blocks) for key, words in shown.items() if key not in lists}
    reached = ReachedSchemes(
        names,
        _buttons(state, blocks),
        lists,
        lambda scheme: _shown_under(scheme, state, shown),
        _numbers(state),
        range_lines(state) if visible("range") else {},
    )
    show_choices(study, state.scheme, PANELS_KEY, reached)


def _numbers(state: LabState) -> dict[str, float]:
    """Return the numbers of the calibration by the names of their fields, where they can be typed."""
    calibration = state.scheme.calibration
    if not isinstance(calibration, BY_HAND):
        return {}
    return dataclasses.asdict(calibration) if visible("range") and not locked("range") else {}


def _by_granularity(state: LabState) -> dict[str, Scheme]:
    """Return the scheme of each granularity that is possible, by its name."""
    now = chosen_granularity(state)
    found = {}
    for name, granularity in granularities(state).items():
        if name != now and not fits(state, granularity):
            continue
        with contextlib.suppress(QuantVizError):
            found[name] = session.reached(with_granularity(state, granularity))
    return found


def _reached(
    key: str, words: Mapping[Any, str], state: LabState, blocks: Mapping[str, Scheme]
) -> dict[str, Scheme]:
    """Return the scheme of each choice by its words; `blocks` are those of granularities."""
    found = {}
    for choice, name in words.items():
        if choice == st.session_state.get(key):
            found[name] = state.scheme
            continue
        if key == _PHONE_SCALE:
            found |= {name: blocks[choice]} if choice in blocks else {}
            continue
        with contextlib.suppress(QuantVizError):
            if key == "nonfinite":
                found[name] = session.fitting(state.scheme.replace(nonfinite=choice))
            else:
                found[name] = session.reached(_scheme_after(key, choice, state))
    return found


def _shown_under(scheme: Scheme, state: LabState, words: Mapping[str, Mapping[Any, str]]) -> dict[str, str]:
    """Return the words that the page shows under a scheme beside the numbers: its controls, of the
    granularity the button's key, the range in a line, and the note on NaN and Inf.
    """
    fmt = scheme.number_format
    there = state.replace(scheme=scheme)
    pressed = chosen_granularity(there)
    ids = {"format": choice_of(fmt), "bits": fmt.bits, "mode": scheme.mode, _PHONE_SCALE: pressed}
    shown = {key: words[key][each] for key, each in ids.items() if each in words.get(key, ())}
    if "recipe" in words:
        recipe = current_recipe(scheme, state.source.shape)
        shown["recipe"] = say_recipe(recipe, state.source) if recipe else say("recipe.own")
    if visible("range"):
        shown["range_expander"] = range_words(there)
    if note := note_of(there):
        shown[NOTE] = note.message(language())
    return shown | ({"granularity": f"per_{pressed}"} if pressed else {})


def _scheme_after(key: str, choice: Any, state: LabState) -> Scheme:
    if key == "calibration":
        return with_calibration(state, choice, st.session_state.get(session.FACTS, {}))
    if key in RULES:
        return state.scheme.replace(convention=with_rule(state.scheme.chosen, RULES[key], choice))
    return CONTROLS[key].scheme(state, choice)


def _buttons(state: LabState, blocks: Mapping[str, Scheme]) -> dict[str, Scheme]:
    """Return the scheme of each button by its key: of those of granularities, and of undo and redo."""
    found = {}
    if visible("scheme") and not locked("scheme"):
        found = {f"per_{name}": scheme for name, scheme in blocks.items()}
    history = session.OWNER.history()
    for name, there in (("undo", history.undo().now), ("redo", history.redo().now)):
        if there == history.now or not visible("actions"):
            continue
        if there.replace(scheme=state.scheme, chosen=state.chosen) == state:
            found[name] = there.scheme
    return found
