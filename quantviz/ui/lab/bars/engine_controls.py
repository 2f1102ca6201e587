"""A recipe, whose arithmetic, and its rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.lab.typed_numbers import read_number
from quantviz.schemes.conventions import CHOICES, CONVENTION_GROUPS, CONVENTIONS, FIELDS, Convention
from quantviz.schemes.recipes import ALL_RECIPES, RECIPE_GROUPS, RECIPES, current_recipe
from quantviz.ui.components.classroom_signs import show_lock
from quantviz.ui.components.controls import Control, show_controls
from quantviz.ui.components.scheme_words import (
    changes,
    convention_name,
    convention_option,
    field_help,
    field_name,
    purpose_words,
    value_words,
)
from quantviz.ui.components.small_parts import show_button, show_error_beside
from quantviz.ui.lab.learning import explained
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.words import plain, say, say_recipe, sentences

#: Choice for a scheme that is no recipe.
OWN = "own"
_RECIPE = "recipe"
_CONVENTION = "convention"
_RULES = "rules"
#: The rules that are changed most, first.
_FIRST = (
    "ties",
    "seed",
    "overflow",
    "scale.rule",
    "scale.format",
    "zero_in_range",
    "zero_domain",
    "narrow_range",
    "reduce_range",
)
#: Rules that are chosen from a list, by the keys of their controls.
RULES: Mapping[str, str] = {f"rule_{name.replace('.', '_')}": name for name in CHOICES}


def show_arithmetic(state: LabState) -> None:
    """Show whose arithmetic the scheme uses, and its rules."""
    show_convention(state)
    _rules(state)
    show_lock("scheme")


# ---- recipe -------------------------------------------------------------------------------------


def group_of(recipe_id: str) -> str:
    """Return the name of the group that a recipe belongs to."""
    return next(
        say(f"recipes.groups.{group}") for group, recipes in RECIPE_GROUPS.items() if recipe_id in recipes
    )


def recipe_control(state: LabState, *, more: str = "") -> Control:
    """Return the control of the recipe that the scheme is; `more` is explained with it."""
    now = current_recipe(state.scheme, state.source.shape) or OWN
    # An engine's own recipe is among them while the scheme is that.
    names = dict.fromkeys((*({now} - {*RECIPES}), OWN, *RECIPES))
    words = {name: say("recipe.own") if name == OWN else say_recipe(name, state.source) for name in names}
    about = "\n\n".join(filter(None, (explained(_RECIPE, say("recipe.help")), more)))
    return Control(
        _RECIPE,
        "list",
        say("recipe.label"),
        about,
        now,
        words,
        # It cannot be chosen: other controls lead to it.
        reasons={OWN: words[OWN]},
        disabled=locked("scheme"),
        take=partial(_take_all, _RECIPE),
    )


def _take_all(control: str, name: str) -> None:
    """Take a recipe, or an engine's arithmetic; an error is shown beside its control, by its name."""
    if name not in (ALL_RECIPES if control == _RECIPE else CONVENTIONS):
        return
    with errors.caught_beside(control):
        try:
            session.choose(control, name)
        except QuantVizError as problem:
            if control == _RECIPE:
                named = say_recipe(name, session.state().source)
                raise QuantVizError("recipe_does_not_fit", name=named, reason=problem) from None
            named = convention_name(CONVENTIONS[name])
            raise QuantVizError("arithmetic_does_not_fit", name=named, reason=problem) from None


# ---- whose arithmetic ---------------------------------------------------------------------------


def show_convention(state: LabState, look: str = "") -> None:
    """Show whose arithmetic the scheme uses, in one of the looks of controls."""
    convention = state.scheme.chosen
    about = f"**{plain(convention_name(convention))}**: {plain(say(f'conventions.{convention.id}.help'))}"
    control = Control(
        _CONVENTION,
        "list",
        say("arithmetic.label"),
        explained(_CONVENTION, f"{say('arithmetic.help')}\n\n{about}"),
        convention.id,
        {name: convention_option(name) for group in CONVENTION_GROUPS.values() for name in group},
        disabled=locked("scheme"),
        take=partial(_take_all, _CONVENTION),
    )
    show_controls(_CONVENTION, session.OWNER, control, look=look)
    show_error_beside(_CONVENTION)
    limited = say("arithmetic.limited") if convention.offer.limited else ""
    st.caption(plain(sentences(purpose_words(convention), limited)))


# ---- its rules ----------------------------------------------------------------------------------


def _rules(state: LabState) -> None:
    convention = state.scheme.chosen
    changed = changes(convention)
    label = say("arithmetic.rules_changed", count=len(changed)) if changed else say("arithmetic.rules")
    rules = st.popover(
        label, key=_RULES, help=say("arithmetic.rules_help"), width="stretch", on_change="rerun"
    )
    with rules:
        unchanged = not changed or locked("scheme")
        show_button(
            say("arithmetic.as_engine"), "rules_as_engine", _set_rules, convention.id, disabled=unchanged
        )
        if not rules.open:
            return
        order = (*_FIRST, *(name for name in FIELDS if name not in _FIRST))
        show_controls(
            "rules_fields",
            session.OWNER,
            *(_rule(state, name, name in changed) for name in order),
            look="qv-grid",
        )
        for name in order:
            show_error_beside(_key(name))


def _rule(state: LabState, name: str, changed: bool) -> Control:
    key = _key(name)
    value = state.scheme.chosen.get(name)
    label = f"{field_name(name)}{' •' if changed else ''}"
    about = explained(key, field_help(name))
    words = {str(choice): value_words(name, choice) for choice in CHOICES.get(name, ())}
    shown = str(value) if words else f"{value:.6g}"
    take = partial(_set_rule, name)
    return Control(
        key, "list" if words else "text", label, about, shown, words, disabled=locked("scheme"), take=take
    )


def _key(name: str) -> str:
    return f"rule_{name.replace('.', '_')}"


def _set_rule(name: str, form: str) -> None:
    with errors.caught_beside(_key(name)):
        now = session.state().scheme.chosen
        given: Any = form
        if name not in CHOICES:
            number = read_number(form)
            given = int(number) if isinstance(now.get(name), int) and number.is_integer() else number
        session.put_scheme(convention=with_rule(now, name, given))


def with_rule(convention: Convention, name: str, given: Any) -> Convention:
    """Return a convention with another rule, as its control gives it: a number, or a choice as text."""
    value = next((choice for choice in CHOICES.get(name, ()) if str(choice) == given), given)
    return convention.replace(**{name: value})


def _set_rules(convention_id: str) -> None:
    with errors.caught_beside(_RULES):
        session.put_scheme(convention=convention_id)
