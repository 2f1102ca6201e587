"""Schemes that the choices in the Lab's controls lead to: the browser shows them before the server does."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeAlias

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.controls import (
    CONTROLS,
    bits_choice,
    calibrations,
    choice_of,
    chosen_granularity,
    with_calibration,
)
from quantviz.lab.state import LabState
from quantviz.live.hand_payload import describe_variants, is_light
from quantviz.schemes.calibration import Given
from quantviz.schemes.conventions import CHOICES
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import current_recipe
from quantviz.schemes.scheme import NONFINITE, Scheme
from quantviz.ui.components.controls import Answers, opened_list, show_controls
from quantviz.ui.components.tensor_cache import kept
from quantviz.ui.lab.bars.scheme_bar import OWN, RULES, with_rule
from quantviz.ui.lab.picture.tensor_panels import PANELS_KEY
from quantviz.ui.lab.sidebar.nonfinite import NOTE, heeded, note_of
from quantviz.ui.lab.sidebar.sidebar import BY_HAND, range_lines, range_words
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import classroom, left_out, locked, visible
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import language

if TYPE_CHECKING:
    from quantviz.analysis.study import Study

_KEY = "answers"
#: The schemes of the choices of each control, by their forms.
_Reached: TypeAlias = dict[str, dict[str, Scheme]]
#: Beginnings of the fields of lists of many schemes, each with a program of its own.
_LONG = ("format", "recipe", "convention", "calibration", "rule_")


@fragment
def show_answers(study: Study, state: LabState) -> None:
    """Send what the controls on the page lead to. It runs by itself when a long list is opened."""
    now = session.state()
    if (now.source, now.scheme) != (state.source, state.scheme):
        return  # the whole page is about to follow
    opened, steps = opened_list(_KEY), _steps(state)
    facts = st.session_state.get(session.FACTS, {})
    # Whoever goes to and fro between two choices asks for the same ones again.
    to_undo = tuple(scheme for each in steps.values() for scheme in each.values())
    room = classroom().locked, left_out(), language()
    key = ("answers", state, opened, tuple(steps), to_undo, tuple(facts.items()), *room)
    answers = kept(state.source, key, lambda: _answers(study, state, opened, steps))
    show_controls(_KEY, None, answers=answers)


def _answers(study: Study, state: LabState, opened: str | None, steps: _Reached) -> Answers:
    offered = _offered(state)
    there = {key: each for key, each in offered.items() if key == opened or not key.startswith(_LONG)}
    reached = {key: _reached(key, choices, state) for key, choices in there.items()} | steps
    schemes = dict.fromkeys(each for choices in reached.values() for each in choices.values())
    at_once = (each for each in schemes if _is_at_once(each, study.shape))
    known, programs = describe_variants(at_once, study.shape, study.x.dtype, language=language())
    usual = _words_under(state.scheme, state)
    variants = {
        str(each): {
            **variant,
            "values": tuple(_values_under(each, state).values()),
            "told": dict(_words_under(each, state).items() - usual.items()),
        }
        for each, variant in known.items()
    }
    calibration = {
        "id": state.scheme.calibration.id,
        "numbers": _numbers(state),
        "lines": range_lines(state) if visible("range") else {},
    }
    return Answers(
        chart=PANELS_KEY,
        scheme=str(state.scheme),
        fields=tuple(_values_under(state.scheme, state)),
        told=usual,
        names={
            key: {form: str(each) for form, each in choices.items() if each in known}
            for key, choices in reached.items()
        },
        lists=_LONG if offered else (),
        calibration=calibration,
        setting=f"{study.shape} {study.x.dtype} {study.nonfinite}",
        schemes=variants,
        **programs,
    )


def _offered(state: LabState) -> dict[str, Collection[Any]]:
    """Return the choices of each control that is shown and not locked, by its field."""
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


def _reached(key: str, choices: Collection[Any], state: LabState) -> dict[str, Scheme]:
    """Return the scheme of each choice by its form."""
    found = {}
    for choice in choices:
        with contextlib.suppress(QuantVizError):
            if key == "nonfinite":
                found[choice] = session.fitting(state.scheme.replace(nonfinite=choice))
            else:
                found[str(choice)] = session.reached(_scheme_after(key, choice, state))
    return found


def _scheme_after(key: str, choice: Any, state: LabState) -> Scheme:
    if key == "calibration":
        return with_calibration(state, choice, st.session_state.get(session.FACTS, {}))
    if key in RULES:
        return state.scheme.replace(convention=with_rule(state.scheme.chosen, RULES[key], str(choice)))
    return CONTROLS[key].scheme(state, choice)


def _steps(state: LabState) -> _Reached:
    """Return the schemes of undo and redo, which have no choices."""
    found = {}
    history = session.OWNER.history()
    for name, there in (("undo", history.undo().now), ("redo", history.redo().now)):
        if there == history.now or not visible("actions"):
            continue
        if there.replace(scheme=state.scheme, chosen=state.chosen) == state:
            found[name] = {"": there.scheme}
    return found


def _is_at_once(scheme: Scheme, shape: Shape) -> bool:
    """Return whether a browser quantizes with a scheme within a frame: without a search for a range."""
    calibration = scheme.calibration
    return (calibration.of_values or isinstance(calibration, Given)) and is_light(scheme, shape)


def _values_under(scheme: Scheme, state: LabState) -> dict[str, str]:
    """Return the values of the controls that follow a scheme, by their fields."""
    fmt = scheme.number_format
    return {
        "format": choice_of(fmt),
        "bits": bits_choice(fmt),
        "mode": scheme.mode,
        "granularity": chosen_granularity(state.replace(scheme=scheme)) or "",
        "recipe": current_recipe(scheme, state.source.shape) or OWN,
    }


def _words_under(scheme: Scheme, state: LabState) -> dict[str, str]:
    """Return the range in a line, and the note on NaN and Inf, under a scheme, by their places."""
    there = state.replace(scheme=scheme)
    words = {"range_expander": range_words(there)} if visible("range") else {}
    note = note_of(there)
    return words | ({NOTE: note.message(language())} if note else {})
