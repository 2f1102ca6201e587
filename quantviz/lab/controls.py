"""The controls of the scheme: the choices that each offers, and the scheme that each choice leads to.

A page shows them, and takes a scheme from here when one is used; a browser that quantizes by itself is sent
the same schemes before.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quantviz.lab.state import LabState
from quantviz.schemes.arithmetic import Offer
from quantviz.schemes.calibration import CALIBRATIONS, Given, ManualRange, MinMax, Searched, starting
from quantviz.schemes.conventions import CONVENTION_GROUPS
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
from quantviz.schemes.recipes import ALL_RECIPES, RECIPES
from quantviz.schemes.scheme import MODES, Scheme

#: Integers are chosen by sign and bits, other formats by name.
INTEGERS: Mapping[str, bool] = {"integer_signed": True, "integer_unsigned": False}
#: Sizes that are offered at most beyond the divisors.
_LARGEST_SIZE = 4096
#: Cells that a block has along an axis when its button is pressed, where they divide it: of a tensor whose
#: cells are looked at one by one, and of a layer, as GPTQ's and AWQ's groups, DeepSeek-V3's blocks and
#: QLoRA's runs are.
_USUAL: Mapping[str, tuple[int, int]] = {PerGroup.id: (32, 128), PerBlock.id: (4, 128), Flat.id: (32, 64)}


# ---- number format, bits and mode ---------------------------------------------------------------


def offered_formats(offer: Offer) -> tuple[NumberFormat, ...]:
    return tuple(fmt for fmt in FORMATS.values() if not offer.formats or fmt.id in offer.formats)


def choice_of(fmt: NumberFormat) -> str:
    """Return the choice that stands for a format: the kind of an integer, the id of others."""
    return next(
        (name for name, signed in INTEGERS.items() if fmt.family == "integer" and fmt.signed == signed),
        fmt.id,
    )


def _formats(state: LabState) -> tuple[str, ...]:
    offered = offered_formats(state.scheme.arithmetic.offer)
    kinds = [name for name in INTEGERS if name in map(choice_of, offered)]
    others = tuple(fmt.id for fmt in offered if fmt.family != "integer")
    # A codebook with values of its own is offered while it is chosen.
    current = choice_of(state.scheme.number_format)
    return (*kinds, *others) if current in (*kinds, *others) else (*kinds, *others, current)


def _with_format(state: LabState, name: str) -> Scheme:
    scheme = state.scheme
    offered = (*offered_formats(scheme.arithmetic.offer), scheme.number_format)
    of_name = [fmt for fmt in offered if choice_of(fmt) == name]
    return scheme.with_format(min(of_name, key=scheme.number_format.distance).id)


def family(scheme: Scheme) -> dict[str, NumberFormat]:
    """Return the formats that are alike but for their bits, the fewest first, by the choice of each: the bits
    of an integer, the id of others.
    """
    now = scheme.number_format
    alike = {
        fmt.id: fmt
        for fmt in (*offered_formats(scheme.arithmetic.offer), now)
        if (fmt.family, fmt.signed) == (now.family, now.signed)
    }
    ordered = sorted(alike.values(), key=lambda fmt: (fmt.bits, fmt.id))
    return {bits_choice(fmt): fmt for fmt in ordered}


def _of_family(now: NumberFormat, choice: str) -> str:
    """Return the id of the format that a choice of bits stands for."""
    if now.family != "integer":
        return choice
    alike = (fmt for fmt in FORMATS.values() if fmt.signed == now.signed and bits_choice(fmt) == choice)
    return next(alike).id


def bits_choice(fmt: NumberFormat) -> str:
    return str(fmt.bits) if fmt.family == "integer" else fmt.id


def possible_modes(scheme: Scheme) -> tuple[str, ...]:
    """Return the modes that its format can have and its convention offers."""
    offered = scheme.arithmetic.offer.modes or MODES
    possible = MODES if scheme.number_format.kind == "integer" else ("symmetric",)
    return tuple(mode for mode in MODES if mode in offered and mode in possible)


# ---- one scale for … ----------------------------------------------------------------------------


def _channels(state: LabState) -> Mapping[str, Granularity]:
    axes = len(state.source.shape)
    if axes == 1:  # it has no rows: there the button is grey
        return {"row": PerChannel(-2), "column": PerChannel(-1)}
    names = ("row", "column") if axes == 2 else tuple(f"axis{axis}" for axis in range(axes))
    return {name: PerChannel(axis) for axis, name in enumerate(names)}


def _groups(state: LabState) -> Mapping[str, Granularity]:
    axis = len(state.source.shape) - 1
    return {"group": PerGroup(_usual(state, PerGroup.id, group_sizes(state, axis), state.source.shape[axis]))}


def _blocks(state: LabState) -> Mapping[str, Granularity]:
    rows, cols = sides(state.source.shape)
    return {"block": PerBlock(*(_usual(state, PerBlock.id, divisors(side), side) for side in (rows, cols)))}


def _flats(state: LabState) -> Mapping[str, Granularity]:
    count = math.prod(state.source.shape)
    return {"flat": Flat(_usual(state, Flat.id, flat_sizes(state, strided=False), count))}


#: The granularities of the buttons by their names, of each kind by its id, in the order of the buttons.
_BUTTONS: Mapping[str, Callable[[LabState], Mapping[str, Granularity]]] = {
    PerTensor.id: lambda state: {"tensor": PerTensor()},
    PerChannel.id: _channels,
    PerGroup.id: _groups,
    PerBlock.id: _blocks,
    Flat.id: _flats,
}
#: The granularity whose field a control of sizes sets, by the beginning of the control's key.
SIZED: Mapping[str, type[Granularity]] = {"group": PerGroup, "block": PerBlock, "flat": Flat}


def granularities(state: LabState) -> dict[str, Granularity]:
    return {
        name: granularity for buttons in _BUTTONS.values() for name, granularity in buttons(state).items()
    }


def chosen_granularity(state: LabState) -> str | None:
    """Return the button that stands for the scheme's granularity."""
    current = state.scheme.granularity
    shape = state.source.shape
    alike = {
        name: granularity
        for name, granularity in _BUTTONS[current.id](state).items()
        if not any(granularity.shape_problems(shape, "pad"))
    }
    return next(
        (
            name
            for name, granularity in alike.items()
            if granularity.block_shape(shape) == current.block_shape(shape)
        ),
        next(iter(alike), None),
    )


def with_granularity(state: LabState, granularity: Granularity) -> Scheme:
    """Return the scheme with other blocks; blocks whose sizes are chosen beside their button stay."""
    current = state.scheme
    if granularity.id == current.granularity.id and isinstance(granularity, tuple(SIZED.values())):
        return current
    # A range set by hand is for the blocks as they were: other ones begin with their own range.
    calibration = {"calibration": MinMax()} if isinstance(current.calibration, ManualRange | Given) else {}
    return current.replace(granularity=granularity, **calibration)


def _possible_granularities(state: LabState) -> tuple[str, ...]:
    current = chosen_granularity(state)
    return tuple(
        name
        for name, granularity in granularities(state).items()
        if name == current or fits(state, granularity)
    )


def fits(state: LabState, granularity: Granularity) -> bool:
    """Return whether the scheme's engine offers a granularity, and the tensor has such blocks."""
    convention = state.scheme.arithmetic
    offered = convention.offer.has_granularity(granularity, state.scheme.format)
    return offered and not any(granularity.shape_problems(state.source.shape, convention.tail))


# ---- the sizes of blocks ------------------------------------------------------------------------


def sides(shape: Shape) -> Shape:
    """Return the rows and columns of a tensor's matrices."""
    return (shape[-2] if len(shape) > 1 else 1), shape[-1]


def _sizes(state: LabState, length: int, *, divide: bool) -> list[int]:
    """Return the sizes of blocks along a `length` that are offered and fit."""
    convention = state.scheme.arithmetic
    whole = divide or convention.tail not in ("short", "pad")
    beyond = () if whole else (2**i for i in range(1, _LARGEST_SIZE.bit_length()))
    offered = convention.offer.sizes_of(state.scheme.format) or {*(divisors(length)[1:] or [1]), *beyond}
    return sorted(size for size in offered if not whole or length % size == 0)


def group_sizes(state: LabState, axis: int) -> list[int]:
    return _sizes(state, state.source.shape[axis], divide=False)


def flat_sizes(state: LabState, *, strided: bool) -> list[int]:
    return _sizes(state, math.prod(state.source.shape), divide=strided)


def _usual(state: LabState, kind: str, sizes: list[int], length: int) -> int:
    """Return the size to begin with: the largest up to the usual one, smaller than the axis if possible."""
    size = _USUAL[kind][state.large]
    fitting = [n for n in sizes if n <= size] or sizes[:1]
    smaller = [n for n in fitting if 1 < n < length]
    return (smaller or fitting or [size])[-1]


def _and_now(sizes: Iterable[int], current: int) -> tuple[int, ...]:
    return tuple(sorted({*sizes, current}))


def _size_choices(state: LabState) -> Mapping[str, Collection[Any]]:
    """Return the choices of the controls of sizes, by their keys: the granularity's id and the field."""
    current = state.scheme.granularity
    shape = state.source.shape
    if isinstance(current, PerGroup):
        sizes = {"group_size": _and_now(group_sizes(state, current.axis % len(shape)), current.size)}
        return sizes | ({"group_axis": tuple(range(len(shape)))} if len(shape) > 1 else {})
    if isinstance(current, PerBlock):
        rows, cols = map(divisors, sides(shape))
        return {"block_rows": _and_now(rows, current.rows), "block_cols": _and_now(cols, current.cols)}
    if isinstance(current, Flat):
        runs = {"flat_size": _and_now(flat_sizes(state, strided=current.strided), current.size)}
        convention = state.scheme.arithmetic
        # Engines that pack runs of fixed sizes, or end in a short one, take neighbours.
        fixed = (convention.offer.sizes or convention.tail != "refuse") and not current.strided
        return runs | ({} if fixed else {"flat_strided": (False, True)})
    return {}


def _with_size(state: LabState, key: str, chosen: Any) -> Scheme:
    """Return the scheme with one field of the granularity changed, and the nearest others that are offered; a
    control may still show another tensor's fields, and then changes nothing.
    """
    kind, _, field = key.partition("_")
    current = state.scheme.granularity
    if current.id != SIZED[kind].id:
        return state.scheme
    value = counted(chosen, len(state.source.shape)) if field == "axis" else chosen
    wanted: Granularity = dataclasses.replace(current, **{field: value})  # type: ignore[type-var]
    return state.scheme.replace(granularity=_fitted(state, wanted))


def _fitted(state: LabState, wanted: Granularity) -> Granularity:
    if isinstance(wanted, PerGroup):
        return state.scheme.arithmetic.granularity_like(wanted, state.source.shape, state.scheme.format)
    if isinstance(wanted, Flat):
        sizes = flat_sizes(state, strided=wanted.strided)
        return Flat(min(sizes, key=lambda size: abs(size - wanted.size), default=wanted.size), wanted.strided)
    return wanted


# ---- range --------------------------------------------------------------------------------------


def calibrations(state: LabState) -> tuple[str, ...]:
    """Return the calibrations that go with the scheme: an engine that searches scales takes no range, and no
    other one has such a search.
    """
    searches = state.scheme.search is not None
    return tuple(name for name in CALIBRATIONS if (name == Searched.id) == searches)


def with_calibration(state: LabState, name: str, known: Mapping[str, float]) -> Scheme:
    """Return the scheme with another calibration, which starts from the `known` numbers: the tensor's ends
    "lo" and "hi", and the "scale" and the "zero_point" of a block.
    """
    numbers = {"lo": -1.0, "hi": 1.0, "scale": 1.0, "zero_point": 0, **known}
    # Engines with signed scales have them from the values; by hand it is the size of a step.
    numbers["scale"] = abs(numbers["scale"]) or 1.0
    if state.scheme.mode == "symmetric":
        numbers["zero_point"] = 0
    return state.scheme.replace(calibration=starting(CALIBRATIONS[name], numbers))


# ---- all of them --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SchemeControl:
    #: Its choices in their order; none where it is not shown.
    choices: Callable[[LabState], Collection[Any]]
    #: The scheme that a choice leads to; `QuantVizError` where there is none.
    scheme: Callable[[LabState, Any], Scheme]
    #: The fields of the scheme that a choice asks for; others may have to follow.
    asked: tuple[str, ...]


def _size_control(key: str) -> SchemeControl:
    return SchemeControl(
        lambda state: _size_choices(state).get(key, ()),
        lambda state, chosen: _with_size(state, key, chosen),
        ("granularity",),
    )


#: The controls by the keys of their widgets; those of "granularity" are a button each.
CONTROLS: Mapping[str, SchemeControl] = {
    "format": SchemeControl(_formats, _with_format, ("format",)),
    "bits": SchemeControl(
        lambda state: family(state.scheme),
        lambda state, bits: state.scheme.with_format(_of_family(state.scheme.number_format, bits)),
        ("format",),
    ),
    "mode": SchemeControl(
        lambda state: possible_modes(state.scheme),
        lambda state, mode: state.scheme.with_mode(mode),
        ("mode",),
    ),
    "granularity": SchemeControl(
        _possible_granularities,
        lambda state, name: with_granularity(state, granularities(state)[name]),
        ("granularity",),
    ),
    **{
        key: _size_control(key)
        for key in ("group_size", "group_axis", "block_rows", "block_cols", "flat_size", "flat_strided")
    },
    "recipe": SchemeControl(
        lambda state: tuple(RECIPES),
        lambda state, name: ALL_RECIPES.get(name, state.scheme),
        ("format", "mode", "granularity", "calibration", "convention"),
    ),
    "convention": SchemeControl(
        lambda state: tuple(name for group in CONVENTION_GROUPS.values() for name in group),
        lambda state, name: state.scheme.adapted(name, state.source.shape),
        ("convention",),
    ),
}
