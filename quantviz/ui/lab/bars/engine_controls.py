"""A recipe, whose arithmetic, and its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.schemes.conventions import CHOICES, CONVENTION_GROUPS, CONVENTIONS, FIELDS, Convention
from quantviz.schemes.recipes import ALL_RECIPES, RECIPE_GROUPS, RECIPES, current_recipe
from quantviz.ui.components.choice import choose_among, show_button, widen_list
from quantviz.ui.components.classroom_signs import show_lock
from quantviz.ui.components.refusals import error_beside, show_error_beside
from quantviz.ui.components.scheme_words import (
    changes,
    convention_name,
    convention_option,
    field_help,
    field_name,
    purpose_words,
    value_words,
)
from quantviz.ui.lab.learning import explained
from quantviz.ui.shell import errors, session, widgets
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.words import plain, say, say_error, say_recipe, sentences

#: Choice for a scheme that is no recipe.
_OWN = "own"
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
RULES: Mapping[str, str] = MappingProxyType({f"rule_{name.replace('.', '_')}": name for name in CHOICES})


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


def show_recipe(state: LabState, *, more: str = "") -> None:
    """Show the recipe that the scheme is; `more` is explained with it."""
    now = current_recipe(state.scheme, state.source.shape) or _OWN
    asked = st.session_state.get(_RECIPE, now)
    offered = {_OWN, *ALL_RECIPES} - {*RECIPES}
    # An engine's own recipe is among them while the scheme is that.
    names = (*(name for name in dict.fromkeys((now, asked)) if name in offered), *RECIPES)
    words = {name: say("recipe.own") if name == _OWN else say_recipe(name, state.source) for name in names}
    widen_list(say("recipe.label"))
    choose_among(
        st.selectbox,
        _RECIPE,
        say("recipe.label"),
        words,
        now,
        _set_recipe,
        lock="scheme",
        filter_mode="contains",
        help="\n\n".join(filter(None, (explained(_RECIPE, say("recipe.help")), more))),
    )


def refuse_recipe(state: LabState) -> None:
    """Say why the recipe that was chosen is impossible on this tensor."""
    _refused(_RECIPE, "recipe.does_not_fit", lambda name: say_recipe(name, state.source))


def _set_recipe(name: str) -> None:
    if name == _OWN:
        return
    with errors.caught_beside(_RECIPE):
        session.choose(_RECIPE, name)


# ---- whose arithmetic ---------------------------------------------------------------------------


def show_convention(state: LabState) -> None:
    """Show whose arithmetic the scheme uses."""
    convention = state.scheme.chosen
    about = f"**{plain(convention_name(convention))}**: {plain(say(f'conventions.{convention.id}.help'))}"
    widen_list(say("arithmetic.label"))
    choose_among(
        st.selectbox,
        _CONVENTION,
        say("arithmetic.label"),
        {name: convention_option(name) for group in CONVENTION_GROUPS.values() for name in group},
        convention.id,
        _set_convention,
        lock="scheme",
        filter_mode="contains",
        help=explained(_CONVENTION, f"{say('arithmetic.help')}\n\n{about}"),
    )
    _refused(_CONVENTION, "arithmetic.does_not_fit", lambda name: convention_name(CONVENTIONS[name]))
    limited = say("arithmetic.limited") if convention.offer.limited else ""
    st.caption(plain(sentences(purpose_words(convention), limited)))


def _set_convention(name: str) -> None:
    with errors.caught_beside(_CONVENTION):
        session.choose(_CONVENTION, name)


def _refused(control: str, key: str, name_of: Callable[[str], str]) -> None:
    """Say why the choice is impossible, beside its control, which still shows it."""
    error = error_beside(control)
    if error:
        st.error(say(key, name=plain(name_of(st.session_state[control])), reason=say_error(error)))


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
        with st.container(key="rules_fields"):
            for name in (*_FIRST, *(name for name in FIELDS if name not in _FIRST)):
                _rule(state, name, name in changed)


def _rule(state: LabState, name: str, changed: bool) -> None:
    key = _key(name)
    value = state.scheme.chosen.get(name)
    label = f"**{plain(field_name(name))}**" if changed else plain(field_name(name))
    with st.container(key=f"{key}_field", gap=None):
        if name in CHOICES:
            # A choice of None would show as nothing chosen.
            words = {str(choice): value_words(name, choice) for choice in CHOICES[name]}
            choose_among(
                st.selectbox,
                key,
                label,
                words,
                str(value),
                lambda _: _set_rule(name),
                lock="scheme",
                help=explained(key, field_help(name)),
            )
        else:
            whole = isinstance(value, int)
            st.number_input(
                label,
                0 if whole else 0.0,
                key=widgets.show(key, value),
                format=None if whole else "%.6g",
                on_change=errors.safely(_set_rule),
                args=(name,),
                help=explained(key, field_help(name)),
                disabled=locked("scheme"),
            )
        show_error_beside(key)


def _key(name: str) -> str:
    return f"rule_{name.replace('.', '_')}"


def _set_rule(name: str) -> None:
    given = st.session_state[_key(name)]
    with errors.caught_beside(_key(name)):
        session.put_scheme(convention=with_rule(session.state().scheme.chosen, name, given))


def with_rule(convention: Convention, name: str, given: Any) -> Convention:
    """Return a convention with another rule, as its control gives it: a number, or a choice as text."""
    value = next((choice for choice in CHOICES.get(name, ()) if str(choice) == given), given)
    return convention.replace(**{name: value})


def _set_rules(convention_id: str) -> None:
    with errors.caught_beside(_RULES):
        session.put_scheme(convention=convention_id)
