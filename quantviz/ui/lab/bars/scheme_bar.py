"""The row above the picture: the scheme, as a recipe or in its own decisions. On a phone it is the bar at the
bottom, with the two decisions that change the picture most, and unfolds to the rest.

The scheme after a choice is that of `CONTROLS`; `errors.caught_beside` keeps the error of an impossible one.
Choices that the convention's engine does not offer are left out or grey.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.controls import (
    CONTROLS,
    INTEGERS,
    bits_choice,
    choice_of,
    chosen_granularity,
    family,
    fits,
    granularities,
    possible_modes,
)
from quantviz.lab.state import LabState
from quantviz.lab.typed_numbers import read_number
from quantviz.schemes.conventions import CHOICES, CONVENTIONS, FIELDS, Convention
from quantviz.schemes.formats import FORMATS, NumberFormat, entry_of
from quantviz.schemes.granularity import Granularity, PerChannel, PerTensor
from quantviz.schemes.recipes import ALL_RECIPES, RECIPE_GROUPS, RECIPES, current_recipe
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.classroom_signs import show_lock
from quantviz.ui.components.controls import Control, show_controls
from quantviz.ui.components.scheme_words import (
    changes,
    convention_name,
    convention_options,
    field_help,
    field_name,
    format_name,
    levels_of,
    part_words,
    purpose_words,
    value_words,
)
from quantviz.ui.components.small_parts import show_button, show_error_beside
from quantviz.ui.lab.learning import explained
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import classroom, locked
from quantviz.ui.shell.session import Adapted
from quantviz.ui.shell.words import (
    language,
    plain,
    recipe_names,
    remembered,
    say,
    say_axis,
    sentences,
    shape_text,
)

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
    known = {OWN: say("recipe.own"), **recipe_names(state.source.axes)}
    words = {name: known[name] for name in names}
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
                named = recipe_names(session.state().source.axes)[name]
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
        convention_options(),
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


#: The controls that have a place of their own for errors.
_CONTROLS_WITH_ERRORS = ("format", "bits", "mode")


def show_scheme(state: LabState, *, changes: bool = True) -> None:
    """Show the recipe, number format, mode, and granularity; labels stand inside their controls.

    With `changes`, the further changes of a choice are shown below; the Lab's title has a place for them.
    """
    controls = tuple(_controls(state))
    sized = any(each.field in _SIZES for each in controls)
    show_controls("scheme", session.OWNER, *controls, look="qv-inside qv-sized" if sized else "qv-inside")
    # There in every run: the parts below it keep their place, and with it a key or a finger on them.
    with st.container(key="reasons"):
        _reasons(state, changes=changes)


def _controls(state: LabState) -> Iterator[Control]:
    if not classroom().projector:
        yield recipe_control(state, more=_explained(state.scheme))
    fmt = state.scheme.number_format
    words = {
        name: say(f"strip.{name}") if name in INTEGERS else format_name(name)
        for name in CONTROLS["format"].choices(state)
    }
    yield scheme_control("format", "list", say("strip.format"), words, choice_of(fmt))
    yield _bits(state)
    modes = {name: say(f"modes.{name}.name") for name in CONTROLS["mode"].choices(state)}
    yield scheme_control("mode", "row", say("strip.mode"), modes, state.scheme.mode)
    yield granularity_control(state)
    yield from _sizes(state)
    # It unfolds the bar of a phone to all of them.
    yield Control("settings", "fold", say("phone.all"), take=lambda _: None)


@remembered
def _bits_words(scheme: Scheme) -> dict[str, str]:
    """Return the words of all bits of a scheme's format: their number, and how many levels they give."""
    levels = {bits: levels_of(scheme.with_format(fmt.id), language()) for bits, fmt in family(scheme).items()}
    return {
        bits: f"{fmt.bits}\n{say('phone.bits', bits=fmt.bits)}\n{say('phone.levels', levels=levels[bits])}"
        for bits, fmt in family(scheme).items()
    }


def _bits(state: LabState) -> Control:
    """Return the control of the bits: a row of numbers of integers, and a slider over them on a phone; of
    other formats, which only a phone shows, a slider over those of their family.
    """
    words = _bits_words(state.scheme)
    now = state.scheme.number_format
    kind = "steps" if now.family == "integer" else "range"
    control = scheme_control("bits", kind, say("strip.bits"), words, bits_choice(now))
    return dataclasses.replace(control, disabled=control.disabled or len(words) < 2, phone="range")


def scheme_control(
    key: str, kind: str, label: str, words: Mapping[Any, str], now: Any, help: str = ""
) -> Control:
    """Return one of `CONTROLS` with its choices in words; a teacher can lock them."""
    return Control(
        key,
        kind,
        label,
        help,
        str(now),
        {str(choice): name for choice, name in words.items()},
        disabled=locked("scheme"),
        take=partial(take_choice, key),
    )


def take_choice(key: str, form: str) -> None:
    """Take a choice of one of `CONTROLS`; an error is shown beside it."""
    with errors.caught_beside(key if key in _CONTROLS_WITH_ERRORS else "strip"):
        for choice in CONTROLS[key].choices(session.state()):
            if str(choice) == form:
                session.choose(key, choice)


def _explained(scheme: Scheme) -> str:
    """Return the help on format, bits and mode: their controls have no room for labels."""
    fmt = scheme.number_format
    help_on = {"format": _format_help(fmt), "bits": say("strip.bits_help"), "mode": say("strip.mode_help")}
    if len(possible_modes(scheme)) == 1:
        help_on["mode"] += " " + _why_one_mode(scheme)
    parts = (f"**{say(f'strip.{name}')}** · {explained(name, words)}" for name, words in help_on.items())
    return "\n\n".join(parts)


def _format_help(fmt: NumberFormat) -> str:
    """Return the help on the format, with a link to all its values."""
    words = plain(say(f"formats.{entry_of(fmt.id)}.help"))
    about = say("strip.format_line", name=plain(format_name(fmt.id)), help=words)
    link = ""
    if fmt.id in FORMATS:
        link = f" [{say('strip.format_page')}](formats?a={fmt.id}&lang={language()})"
    return f"{say('strip.format_help')}\n\n{about}{link} ·"


def _why_one_mode(scheme: Scheme) -> str:
    if scheme.number_format.kind != "integer":
        return plain(say("strip.integers_only", name=format_name(scheme.format)))
    return plain(say("strip.not_offered_here", name=convention_name(scheme.arithmetic)))


# ---- one scale for … ----------------------------------------------------------------------------


def why_not(state: LabState, granularity: Granularity) -> str | None:
    """Return the reason why a granularity is not possible here; None where it is."""
    shape = state.source.shape
    convention = state.scheme.arithmetic
    if not convention.offer.has_granularity(granularity, state.scheme.format):
        return say("strip.not_offered_here", name=convention_name(convention))
    if problem := next(iter(granularity.shape_problems(shape, convention.tail)), None):
        return say("strip.one_axis") if len(shape) == 1 else problem.message(language())
    return None


def other_granularities(state: LabState) -> tuple[Granularity, ...]:
    """Return the other granularities to try: channels in place of one scale, else all that are possible."""
    shape = state.source.shape
    taken = (chosen_granularity(state), PerTensor.id)
    possible = (each for name, each in granularities(state).items() if name not in taken)
    # A scale for each value is no quantization.
    others = tuple(each for each in possible if fits(state, each) and math.prod(each.block_shape(shape)) > 1)
    channels = tuple(each for each in others if isinstance(each, PerChannel))
    return channels if channels and isinstance(state.scheme.granularity, PerTensor) else others


def granularity_control(state: LabState) -> Control:
    """Return the control of the granularity: a choice that is impossible says why."""
    now = chosen_granularity(state)
    there = granularities(state)
    words = {name: button_words(state, name, each) for name, each in there.items()}
    control = scheme_control(
        "granularity", "row", say("strip.granularity"), words, now, _granularity_help(state)
    )
    reasons = {name: why for name, each in there.items() if name != now and (why := why_not(state, each))}
    return dataclasses.replace(control, reasons=reasons, phone="list")


def button_words(state: LabState, name: str, granularity: Granularity) -> str:
    """Return a button's label."""
    if isinstance(granularity, PerChannel):
        return say_axis(state.source, granularity.axis, "button")
    return say(f"strip.per_{name}")


def _granularity_help(state: LabState) -> str:
    """Return the help on all buttons: one of each would lie over the title's buttons while it is pressed."""
    buttons = (
        f"**{plain(button_words(state, name, granularity))}** · {_help(state, name, granularity)}"
        for name, granularity in granularities(state).items()
    )
    return "\n\n".join((explained("granularity", say("strip.granularity_help")), *buttons))


def _help(state: LabState, name: str, granularity: Granularity) -> str:
    if isinstance(granularity, PerChannel):
        each = say_axis(state.source, granularity.axis, "each")
        return f"{plain(say('strip.per_axis_help', each=each))} `axis={granularity.axis}`"
    axis = getattr(granularity, "axis", None)
    return plain(say(f"strip.per_{name}_help")) + (f" `axis={axis}`" if axis is not None else "")


# ---- the sizes of blocks ------------------------------------------------------------------------


def _sizes(state: LabState) -> Iterator[Control]:
    """Yield the controls of the fields of the granularity that have choices."""
    axes = {i: say_axis(state.source, i, "along") for i in range(len(state.source.shape))}
    named: Mapping[str, Mapping[Any, str]] = {
        "group_axis": axes,
        "flat_strided": {False: say("strip.neighbours"), True: say("strip.strided")},
    }
    for key, label in _SIZES.items():
        choices = CONTROLS[key].choices(state)
        if not choices:
            continue
        now = getattr(state.scheme.granularity, key.partition("_")[2])
        words = named.get(key) or {size: str(size) for size in choices}
        about = say("strip.taken_help") if key == "flat_strided" else ""
        now = now % len(axes) if key == "group_axis" else now
        yield scheme_control(key, "list", say(label), words, now, about)


#: The labels of controls of sizes, by their keys.
_SIZES: Mapping[str, str] = {
    "group_size": "strip.size",
    "group_axis": "strip.along",
    "block_rows": "strip.block_rows",
    "block_cols": "strip.block_cols",
    "flat_size": "strip.flat_size",
    "flat_strided": "strip.taken",
}


# ---- reasons ------------------------------------------------------------------------------------


def _reasons(state: LabState, *, changes: bool) -> None:
    """Show in one line why buttons are grey, `changes` that a choice brought, and the error of a setting."""
    show_lock("scheme")
    if len(state.source.shape) == 1:
        st.caption(say("strip.one_axis"))
    if changes and (words := further_changes(state)):
        st.caption(plain(words))
    for control in (*_CONTROLS_WITH_ERRORS, "recipe", "strip"):
        show_error_beside(control)


def further_changes(state: LabState) -> str:
    """Return the further changes that the last choice, or the tensor, brought with it, in words, or ""."""
    change = session.adapted()
    return _words_of_changes(change, state) if change and change.others else ""


def _words_of_changes(change: Adapted, state: LabState) -> str:
    def words(*names: str) -> dict[str, str]:
        """Return the named parts of the scheme before and after."""
        schemes = {"before": change.before, "after": change.after}
        return {
            when: ", ".join(part_words(scheme, name, state.source) for name in names)
            for when, scheme in schemes.items()
        }

    if change.asked == ("granularity",) and change.others == ("calibration",):
        return say("strip.range_again", **words("calibration"))
    if change.asked:
        name = part_words(change.after, change.asked[0], state.source)
        return say("strip.adapted", name=name, **words(*change.others))
    if change.after == change.before.with_every_value():
        return say("strip.without_search", **words(*change.others))
    # Another tensor is the reason: its values have another sign, or its shape has no such blocks.
    signs = change.before.number_format.signed != change.after.number_format.signed
    notes = []
    if signs:
        why = "for_picture" if state.source.unedited.picture else "for_both_signs"
        notes.append(say(f"strip.{why}", **words("format")))
    rest = tuple(name for name in change.others if not (signs and name == "format"))
    if rest:
        notes.append(say("strip.stands_in", shape=shape_text(state.source.shape), **words(*rest)))
    return sentences(*notes)
