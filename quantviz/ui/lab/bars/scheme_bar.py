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
from quantviz.schemes.formats import FORMATS, NumberFormat, entry_of
from quantviz.schemes.granularity import Granularity, PerChannel, PerTensor
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.classroom_signs import show_lock
from quantviz.ui.components.controls import Control, show_controls
from quantviz.ui.components.scheme_words import convention_name, format_name, levels_words, part_words
from quantviz.ui.components.small_parts import show_error_beside
from quantviz.ui.lab.bars.engine_controls import recipe_control
from quantviz.ui.lab.learning import explained
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import classroom, locked
from quantviz.ui.shell.session import Adapted
from quantviz.ui.shell.words import language, plain, say, say_axis, sentences, shape_text

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


def _bits(state: LabState) -> Control:
    """Return the control of the bits: a row of numbers of integers, and a slider over them on a phone; of
    other formats, which only a phone shows, a slider over those of their family.
    """
    alike = family(state)
    words = {
        each: f"{fmt.bits}\n{say('phone.bits', bits=fmt.bits)}\n{levels_words(_with(state, fmt))}"
        for each, fmt in alike.items()
    }
    now = state.scheme.number_format
    kind = "steps" if now.family == "integer" else "range"
    control = scheme_control("bits", kind, say("strip.bits"), words, bits_choice(now))
    return dataclasses.replace(control, disabled=control.disabled or len(alike) < 2, phone="range")


def _with(state: LabState, fmt: NumberFormat) -> Scheme:
    return state.scheme.with_format(fmt.id)


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
