"""The Lab's controls of the scheme, answered by the browser before the server is asked."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.controls import (
    CONTROLS,
    calibrations,
    choice_of,
    chosen_granularity,
    fits,
    granularities,
    with_calibration,
    with_granularity,
)
from quantviz.lab.state import LabState
from quantviz.schemes.conventions import CHOICES
from quantviz.schemes.recipes import current_recipe
from quantviz.schemes.scheme import NONFINITE, Scheme
from quantviz.ui.components.hand_choices import ReachedSchemes, opened_list, show_choices
from quantviz.ui.lab.bars.engine_controls import OWN, RULES, with_rule
from quantviz.ui.lab.picture.tensor_panels import PANELS_KEY
from quantviz.ui.lab.sidebar.nonfinite import NOTE, heeded, note_of
from quantviz.ui.lab.sidebar.sidebar import BY_HAND, range_lines, range_words
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import locked, visible
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import language

if TYPE_CHECKING:
    from quantviz.analysis.study import Study

#: Beginnings of the keys of lists of many schemes, each with a program of its own.
_LONG = ("format", "recipe", "convention", "calibration", "rule_")
#: The controls that show other choices under another scheme.
_SHOWN = ("format", "bits", "mode", "granularity", "recipe")


@fragment
def show_controls_at_hand(study: Study, state: LabState) -> None:
    """Send the browser the schemes that the controls on the page lead to. It runs by itself when a long list
    is opened.
    """
    now = session.state()
    if (now.source, now.scheme) != (state.source, state.scheme):
        return  # the whole page is about to follow
    offered = _offered(state)
    lists = [key for key in offered if key.startswith(_LONG) and key != opened_list()]
    blocks = _by_granularity(state)
    names = {
        key: _reached(key, choices, state, blocks) for key, choices in offered.items() if key not in lists
    }
    reached = ReachedSchemes(
        names | _steps(state),
        _LONG if offered else (),
        _SHOWN,
        lambda scheme: _values_under(scheme, state),
        lambda scheme: _words_under(scheme, state),
        _numbers(state),
        range_lines(state) if visible("range") else {},
    )
    show_choices(study, state.scheme, PANELS_KEY, reached)


def _offered(state: LabState) -> dict[str, Collection[Any]]:
    """Return the choices of each control that is shown and not locked, by its key."""
    offered: dict[str, Collection[Any]] = {}
    if visible("scheme") and not locked("scheme"):
        offered |= {key: control.choices(state) for key, control in CONTROLS.items()}
        offered |= {key: CHOICES[name] for key, name in RULES.items()}
    if visible("range") and not locked("range"):
        offered["calibration"] = calibrations(state)
        offered |= {"nonfinite": NONFINITE} if heeded(state) else {}
    return offered


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
    key: str, choices: Collection[Any], state: LabState, blocks: Mapping[str, Scheme]
) -> dict[str, Scheme]:
    """Return the scheme of each choice by its form; `blocks` are those of granularities."""
    if key == "granularity":
        return dict(blocks)
    found = {}
    for choice in choices:
        with contextlib.suppress(QuantVizError):
            if key == "nonfinite":
                found[choice] = session.fitting(state.scheme.replace(nonfinite=choice))
            else:
                found[str(choice)] = session.reached(_scheme_after(key, choice, state))
    return found


def _values_under(scheme: Scheme, state: LabState) -> tuple[str, ...]:
    """Return the choices that the controls `_SHOWN` show under a scheme."""
    fmt = scheme.number_format
    return (
        choice_of(fmt),
        str(fmt.bits) if fmt.family == "integer" else "",
        scheme.mode,
        chosen_granularity(state.replace(scheme=scheme)) or "",
        current_recipe(scheme, state.source.shape) or OWN,
    )


def _words_under(scheme: Scheme, state: LabState) -> dict[str, str]:
    """Return the range in a line, and the note on NaN and Inf, under a scheme, by their places."""
    there = state.replace(scheme=scheme)
    words = {"range_expander": range_words(there)} if visible("range") else {}
    note = note_of(there)
    return words | ({NOTE: note.message(language())} if note else {})


def _scheme_after(key: str, choice: Any, state: LabState) -> Scheme:
    if key == "calibration":
        return with_calibration(state, choice, st.session_state.get(session.FACTS, {}))
    if key in RULES:
        return state.scheme.replace(convention=with_rule(state.scheme.chosen, RULES[key], str(choice)))
    return CONTROLS[key].scheme(state, choice)


def _steps(state: LabState) -> dict[str, dict[str, Scheme]]:
    """Return the schemes of undo and redo, which have no choices."""
    found = {}
    history = session.OWNER.history()
    for name, there in (("undo", history.undo().now), ("redo", history.redo().now)):
        if there == history.now or not visible("actions"):
            continue
        if there.replace(scheme=state.scheme, chosen=state.chosen) == state:
            found[name] = {"": there.scheme}
    return found
