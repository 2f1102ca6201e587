"""The row above the picture: the scheme, as a recipe or in its own decisions.

Callbacks make a scheme from a widget's value; `errors.caught_beside` keeps the error of an invalid one.
Choices that the convention's engine does not offer are left out or grey.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.schemes.arithmetic import Offer
from quantviz.schemes.calibration import Given, ManualRange, MinMax
from quantviz.schemes.formats import FORMATS, NumberFormat
from quantviz.schemes.granularity import (
    Flat,
    Granularity,
    PerBlock,
    PerChannel,
    PerGroup,
    PerTensor,
    Shape,
    counted,
    divisors,
)
from quantviz.schemes.scheme import MODES, Scheme
from quantviz.ui.components.choice import choose_among, show_button
from quantviz.ui.components.classroom_signs import show_lock
from quantviz.ui.components.refusals import show_error_beside
from quantviz.ui.components.scheme_words import convention_name, format_name, part_words
from quantviz.ui.lab.bars.engine_controls import refuse_recipe, show_recipe
from quantviz.ui.lab.learning import explained
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import classroom, locked
from quantviz.ui.shell.session import Adapted
from quantviz.ui.shell.words import language, plain, say, say_axis, say_error, sentences, shape_text

#: Integers are chosen by sign and bits, other formats by name.
_INTEGERS: Mapping[str, bool] = MappingProxyType({"integer_signed": True, "integer_unsigned": False})
#: Sizes that are offered at most beyond the divisors.
_LARGEST_SIZE = 4096
#: Key of the box that opens all settings as a sheet, on a phone.
ALL_SETTINGS = "all_settings"


def is_sheet_open() -> bool:
    """Return whether a phone shows all settings."""
    return bool(st.session_state.get(ALL_SETTINGS))


def show_scheme(state: LabState, *, changes: bool = True) -> None:
    """Show the recipe, number format, mode, and granularity; labels stand inside their controls.

    With `changes`, the further changes of a choice are shown below; the Lab's title has a place for them.
    """
    # The style depends on the number of controls, and on whether a phone shows them all.
    room = "sized" if _KINDS[state.scheme.granularity.id].sizes else "plain"
    place = "sheet" if is_sheet_open() else "row"
    with (
        st.container(key=f"scheme_{room}_{place}"),
        st.container(key="scheme", horizontal=True, vertical_alignment="center", gap="small"),
    ):
        if not classroom().projector:
            show_recipe(state, more=_explained(state.scheme))
        _number_format(state)
        _mode(state)
        _granularity(state)
    # There in every run: the parts below it keep their place, and with it a key or a finger on them.
    with st.container(key="reasons"):
        _reasons(state, changes=changes)


# ---- number format ------------------------------------------------------------------------------


def offered_formats(offer: Offer) -> tuple[NumberFormat, ...]:
    return tuple(fmt for fmt in FORMATS.values() if not offer.formats or fmt.id in offer.formats)


def _choice_of(fmt: NumberFormat) -> str:
    """Return the entry of the first control that stands for a format."""
    return next(
        (name for name, signed in _INTEGERS.items() if fmt.family == "integer" and fmt.signed == signed),
        fmt.id,
    )


def _number_format(state: LabState) -> None:
    fmt = state.scheme.number_format
    offered = offered_formats(state.scheme.arithmetic.offer)
    now = _choice_of(fmt)
    words = {name: say(f"strip.{name}") for name in _INTEGERS if name in map(_choice_of, offered)}
    words |= {each.id: format_name(each.id) for each in offered if each.family != "integer"}
    label = say("strip.format")
    choose_among(st.selectbox, "format", label, words, now, _set_format, lock="scheme", width=132)
    if fmt.family == "integer":
        bits = {each.bits: str(each.bits) for each in offered if _choice_of(each) == now}
        control = st.segmented_control
        label = say("strip.bits")
        choose_among(control, "bits", label, bits, fmt.bits, _set_bits, lock="scheme", required=True)


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
    words = plain(say(f"formats.{fmt.id}.help"))
    about = say("strip.format_line", name=plain(format_name(fmt.id)), help=words)
    link = f"[{say('strip.format_page')}](/formats?a={fmt.id}&lang={language()})"
    return f"{say('strip.format_help')}\n\n{about} {link} ·"


def put_format(format_id: str, control: str) -> None:
    """Take another number format; an error is shown beside the `control`."""
    with errors.caught_beside(control):
        session.adapt_scheme(session.state().scheme.with_format(format_id), "format")


def _set_format(name: str) -> None:
    scheme = session.state().scheme
    of_name = [fmt for fmt in offered_formats(scheme.arithmetic.offer) if _choice_of(fmt) == name]
    put_format(min(of_name, key=scheme.number_format.distance).id, "format")


def _set_bits(bits: int) -> None:
    scheme = session.state().scheme
    alike = (fmt for fmt in FORMATS.values() if _choice_of(fmt) == _choice_of(scheme.number_format))
    put_format(next(fmt.id for fmt in alike if fmt.bits == bits), "bits")


# ---- mode ---------------------------------------------------------------------------------------


def possible_modes(scheme: Scheme) -> tuple[str, ...]:
    """Return the modes that its format can have and its convention offers."""
    offered = scheme.arithmetic.offer.modes or MODES
    possible = MODES if scheme.number_format.kind == "integer" else ("symmetric",)
    return tuple(mode for mode in MODES if mode in offered and mode in possible)


def _mode(state: LabState) -> None:
    words = {name: say(f"modes.{name}.name") for name in possible_modes(state.scheme)}
    now = state.scheme.mode
    label = say("strip.mode")
    choose_among(st.segmented_control, "mode", label, words, now, _set_mode, lock="scheme", required=True)


def _why_one_mode(scheme: Scheme) -> str:
    if scheme.number_format.kind != "integer":
        return plain(say("strip.integers_only", name=format_name(scheme.format)))
    return plain(say("strip.not_offered_here", name=convention_name(scheme.arithmetic)))


def _set_mode(mode: str) -> None:
    with errors.caught_beside("mode"):
        session.adapt_scheme(session.state().scheme.with_mode(mode), "mode")


# ---- one scale for … ----------------------------------------------------------------------------


#: Cells that a block has along an axis when its button is pressed, where they divide it: of a tensor whose
#: cells are looked at one by one, and of a layer, as GPTQ's and AWQ's groups, DeepSeek-V3's blocks and
#: QLoRA's runs are.
_USUAL: Mapping[str, tuple[int, int]] = MappingProxyType(
    {PerGroup.id: (32, 128), PerBlock.id: (4, 128), Flat.id: (32, 64)}
)


@dataclass(frozen=True)
class _Kind:
    """Controls of a granularity."""

    #: Its buttons' names, and the start of each.
    buttons: Callable[[LabState], Mapping[str, Granularity]]
    #: The controls of its sizes.
    sizes: Callable[[LabState], None] | None = None


def _channels(state: LabState) -> Mapping[str, Granularity]:
    axes = len(state.source.shape)
    if axes == 1:  # it has no rows: there the button is grey
        return {"row": PerChannel(-2), "column": PerChannel(-1)}
    names = ("row", "column") if axes == 2 else tuple(f"axis{axis}" for axis in range(axes))
    return {name: PerChannel(axis) for axis, name in enumerate(names)}


def _groups(state: LabState) -> Mapping[str, Granularity]:
    axis = len(state.source.shape) - 1
    sizes = _group_sizes(state, axis)
    return {"group": PerGroup(_usual(state, PerGroup.id, sizes, state.source.shape[axis]))}


def _blocks(state: LabState) -> Mapping[str, Granularity]:
    rows, cols = _sides(state.source.shape)
    return {"block": PerBlock(*(_usual(state, PerBlock.id, divisors(side), side) for side in (rows, cols)))}


def _flats(state: LabState) -> Mapping[str, Granularity]:
    count = math.prod(state.source.shape)
    return {"flat": Flat(_usual(state, Flat.id, _flat_sizes(state, strided=False), count))}


def _sides(shape: Shape) -> Shape:
    return (shape[-2] if len(shape) > 1 else 1), shape[-1]


def choices(state: LabState) -> dict[str, Granularity]:
    """Return the possible granularities by the name of the button, in the order of the buttons."""
    return {name: each for kind in _KINDS.values() for name, each in kind.buttons(state).items()}


def chosen(state: LabState) -> str | None:
    """Return the button that stands for the scheme's granularity."""
    now = state.scheme.granularity
    shape = state.source.shape
    alike = {
        name: each
        for name, each in _KINDS[now.id].buttons(state).items()
        if not any(each.shape_problems(shape, "pad"))
    }
    return next(
        (name for name, each in alike.items() if each.block_shape(shape) == now.block_shape(shape)),
        next(iter(alike), None),
    )


def why_not(state: LabState, granularity: Granularity) -> str | None:
    """Return the reason why a granularity is not possible here; None where it is."""
    shape = state.source.shape
    convention = state.scheme.arithmetic
    if not convention.offer.has_granularity(granularity, state.scheme.format):
        return plain(say("strip.not_offered_here", name=convention_name(convention)))
    if problem := next(iter(granularity.shape_problems(shape, convention.tail)), None):
        return say("strip.one_axis") if len(shape) == 1 else say_error(problem)
    return None


def other_granularities(state: LabState) -> tuple[Granularity, ...]:
    """Return the other granularities to try: channels in place of one scale, else all that are possible."""
    shape = state.source.shape
    taken = (chosen(state), PerTensor.id)
    possible = (each for name, each in choices(state).items() if name not in taken)
    # A scale for each value is no quantization.
    others = tuple(e for e in possible if why_not(state, e) is None and math.prod(e.block_shape(shape)) > 1)
    channels = tuple(each for each in others if isinstance(each, PerChannel))
    return channels if channels and isinstance(state.scheme.granularity, PerTensor) else others


def _granularity(state: LabState) -> None:
    now = chosen(state)
    with st.container(
        key="granularity", horizontal=True, gap=None, width="content", vertical_alignment="center"
    ):
        st.markdown(say("strip.granularity"), help=_granularity_help(state))
        with st.container(key="granularity_buttons", horizontal=True, gap=None, width="content", wrap=True):
            for name, granularity in choices(state).items():
                reason = why_not(state, granularity)
                show_button(
                    button_words(state, name, granularity),
                    f"per_{name}",
                    set_granularity,
                    granularity,
                    type="primary" if name == now else "secondary",
                    disabled=(reason is not None and name != now) or locked("scheme"),
                    help=reason,
                )
    if sizes := _KINDS[state.scheme.granularity.id].sizes:
        with st.container(key="sizes", horizontal=True, gap="small", width="content"):
            sizes(state)


def button_words(state: LabState, name: str, granularity: Granularity) -> str:
    """Return a button's label."""
    if isinstance(granularity, PerChannel):
        return plain(say_axis(state.source, granularity.axis, "button"))
    return say(f"strip.per_{name}")


def _granularity_help(state: LabState) -> str:
    """Return the help on all buttons: one of each would lie over the title's buttons while it is pressed."""
    buttons = (
        f"**{button_words(state, name, granularity)}** · {_help(state, name, granularity)}"
        for name, granularity in choices(state).items()
    )
    return "\n\n".join((explained("granularity", say("strip.granularity_help")), *buttons))


def _help(state: LabState, name: str, granularity: Granularity) -> str:
    if isinstance(granularity, PerChannel):
        each = say_axis(state.source, granularity.axis, "each")
        return f"{plain(say('strip.per_axis_help', each=each))} `axis={granularity.axis}`"
    axis = getattr(granularity, "axis", None)
    return plain(say(f"strip.per_{name}_help")) + (f" `axis={axis}`" if axis is not None else "")


def set_granularity(granularity: Granularity) -> None:
    if granularity.id == session.state().scheme.granularity.id and _KINDS[granularity.id].sizes:
        return
    now = session.state().scheme
    with errors.caught_beside("strip"):
        # A range set by hand is for the blocks as they were: other ones begin with their own range.
        own = {"calibration": MinMax()} if isinstance(now.calibration, ManualRange | Given) else {}
        session.adapt_scheme(now.replace(granularity=granularity, **own), "granularity")


# ---- the sizes of blocks ------------------------------------------------------------------------


def _size_control(label: str, sizes: Iterable[int], key: str, now: int) -> None:
    words = {size: str(size) for size in sorted({*sizes, now})}
    _granularity_field(label, words, key, now, width=76)


def _granularity_field(label: str, words: Mapping[Any, str], key: str, now: Any, **look: Any) -> None:
    choose_among(
        st.selectbox, key, label, words, now, lambda value: _set_size(key, value), lock="scheme", **look
    )


def _set_size(key: str, chosen: Any) -> None:
    """Change one field of the granularity; a control may still show another tensor's other fields."""
    kind, _, field = key.partition("_")
    now = session.state()
    granularity = now.scheme.granularity
    if granularity.id == _SIZED[kind].id:
        value = counted(chosen, len(now.source.shape)) if field == "axis" else chosen
        wanted = dataclasses.replace(granularity, **{field: value})  # type: ignore[type-var]
        with errors.caught_beside("strip"):
            session.put_scheme(granularity=_fitted(now, wanted))


def _fitted(state: LabState, wanted: Granularity) -> Granularity:
    """Return the nearest that is offered."""
    if isinstance(wanted, PerGroup):
        return state.scheme.arithmetic.granularity_like(wanted, state.source.shape, state.scheme.format)
    if isinstance(wanted, Flat):
        sizes = _flat_sizes(state, strided=wanted.strided)
        return Flat(min(sizes, key=lambda size: abs(size - wanted.size), default=wanted.size), wanted.strided)
    return wanted


def _sizes(state: LabState, length: int, *, divide: bool) -> list[int]:
    """Return the sizes of blocks along a `length` that are offered and fit."""
    convention = state.scheme.arithmetic
    whole = divide or convention.tail not in ("short", "pad")
    beyond = () if whole else (2**i for i in range(1, _LARGEST_SIZE.bit_length()))
    offered = convention.offer.sizes_of(state.scheme.format) or {*(divisors(length)[1:] or [1]), *beyond}
    return sorted(size for size in offered if not whole or length % size == 0)


def _group_sizes(state: LabState, axis: int) -> list[int]:
    return _sizes(state, state.source.shape[axis], divide=False)


def _flat_sizes(state: LabState, *, strided: bool) -> list[int]:
    return _sizes(state, math.prod(state.source.shape), divide=strided)


def _group_size(state: LabState) -> None:
    granularity = state.scheme.granularity
    shape = state.source.shape
    assert isinstance(granularity, PerGroup)
    axis = granularity.axis % len(shape)
    _size_control(say("strip.size"), _group_sizes(state, axis), "group_size", granularity.size)
    if len(shape) > 1:
        words = {i: say_axis(state.source, i, "along") for i in range(len(shape))}
        _granularity_field(say("strip.along"), words, "group_axis", axis, width=100)


def _block_size(state: LabState) -> None:
    granularity = state.scheme.granularity
    assert isinstance(granularity, PerBlock)
    rows, cols = _sides(state.source.shape)
    _size_control(say("strip.block_rows"), divisors(rows), "block_rows", granularity.rows)
    _size_control(say("strip.block_cols"), divisors(cols), "block_cols", granularity.cols)


def _flat_size(state: LabState) -> None:
    granularity = state.scheme.granularity
    assert isinstance(granularity, Flat)
    sizes = _flat_sizes(state, strided=granularity.strided)
    _size_control(say("strip.flat_size"), sizes, "flat_size", granularity.size)
    convention = state.scheme.arithmetic
    # Engines that pack runs of fixed sizes, or end in a short one, take neighbours.
    if (convention.offer.sizes or convention.tail != "refuse") and not granularity.strided:
        return
    words = {False: say("strip.neighbours"), True: say("strip.strided")}
    _granularity_field(
        say("strip.taken"),
        words,
        "flat_strided",
        granularity.strided,
        help=say("strip.taken_help"),
        width=100,
    )


def _usual(state: LabState, kind: str, sizes: list[int], length: int) -> int:
    """Return the size to begin with: the largest up to the usual one, smaller than the axis if possible."""
    size = _USUAL[kind][state.large]
    fitting = [n for n in sizes if n <= size] or sizes[:1]
    smaller = [n for n in fitting if 1 < n < length]
    return (smaller or fitting or [size])[-1]


#: The granularity whose field a control of sizes sets, by the beginning of the control's key.
_SIZED: Mapping[str, type[Granularity]] = MappingProxyType(
    {"group": PerGroup, "block": PerBlock, "flat": Flat}
)
#: Controls of each granularity, by its id, in the order of the buttons.
_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        PerTensor.id: _Kind(lambda state: {"tensor": PerTensor()}),
        PerChannel.id: _Kind(_channels),
        PerGroup.id: _Kind(_groups, _group_size),
        PerBlock.id: _Kind(_blocks, _block_size),
        Flat.id: _Kind(_flats, _flat_size),
    }
)


# ---- reasons ------------------------------------------------------------------------------------


def _reasons(state: LabState, *, changes: bool) -> None:
    """Show in one line why buttons are grey, `changes` that a choice brought, and the error of a setting."""
    show_lock("scheme")
    if len(state.source.shape) == 1:
        st.caption(say("strip.one_axis"))
    if changes and (words := further_changes(state)):
        st.caption(plain(words))
    refuse_recipe(state)
    for control in ("format", "bits", "mode", "strip"):
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
