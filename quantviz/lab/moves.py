"""Moves of the user's hand on the page: each message of the browser leads to another state.

A message is a mapping with a `kind`, and comes from a browser: anything may be in it. A move that is not
possible raises a `QuantVizError` with the reason, and the state is left as it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.schemes.calibration import FLOAT32_EXACT_INTEGER, FLOAT32_MAX, Given, ManualRange
from quantviz.schemes.formats import FORMATS, find_format
from quantviz.schemes.granularity import Flat, Granularity, PerChannel, PerGroup, divisors
from quantviz.schemes.scheme import Scheme
from quantviz.sources.base import OpenedFiles
from quantviz.sources.edited import with_cell
from quantviz.sources.typed import nearest_float32, shortest

_T = TypeVar("_T")

#: Most bits that a handle goes through: of more, no picture shows the codes.
_MOST_BITS = 8
#: Floats have no format of every number of bits: these have alike exponents.
_FLOATS = (
    ("float8_e4m3fn", "float6_e2m3fn", "float4_e2m1fn"),
    ("float8_e5m2", "float6_e3m2fn", "float4_e2m1fn"),
)


def moved(state: LabState, message: Mapping[str, object], at_hand: OpenedFiles = OpenedFiles()) -> LabState:  # noqa: B008
    """Return the state after a move.

    Args:
        state: The state before.
        message: `{"kind": "range", "lo": f, "hi": f}`, `{"kind": "given", "scale": f, "zero_point": f}`,
            `{"kind": "format", "id": name}`, `{"kind": "group", "size": n}`,
            `{"kind": "cell", "cell": [i, j], "value": f}` or `{"kind": "scheme", "scheme": text form}`.
        at_hand: Sources that are open already: a cell that gets its own value again is no longer counted as
            changed, and an uploaded tensor has its values there.

    Raises:
        QuantVizError: The message is none of these, or its move is not possible.

    >>> from quantviz.lab.state import opening
    >>> moved(opening(), {"kind": "range", "lo": -1, "hi": 2.5}).scheme.calibration
    ManualRange(lo=-2.5, hi=2.5)
    >>> moved(opening(), {"kind": "cell", "cell": [2, 3], "value": 0.1}).source.edits
    (((2, 3), 0.10000000149011612),)
    """
    kind = message.get("kind") if isinstance(message, Mapping) else None
    if not isinstance(kind, str) or kind not in _MOVES:
        raise QuantVizError("hand.kind", got=_told(kind), known=", ".join(_MOVES))
    return _MOVES[kind](state, message, at_hand)


def range_counts(scheme: Scheme) -> bool:
    """Return whether a range set by hand changes anything: some engines take the scale from the value of
    largest magnitude, or search it themselves.

    >>> range_counts(Scheme("int4"))
    True
    >>> range_counts(Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed"))
    False
    """
    if scheme.search is not None:
        return False
    return scheme.mode != "symmetric" or scheme.arithmetic.scale.rule != "extreme_over_code_min"


def block_count(state: LabState) -> int:
    """Return how many blocks a range or a scale set by hand is for: all that there are."""
    return state.scheme.layout(state.source.shape).block_count


# ---- each kind of message -----------------------------------------------------------------------


def _range(state: LabState, message: Mapping[str, object], at_hand: OpenedFiles) -> LabState:
    lo = _float32(message, "lo")
    hi = _float32(message, "hi")
    if not range_counts(state.scheme):
        raise QuantVizError("hand.range_without_effect", convention=state.scheme.arithmetic.id)
    if lo < hi and state.scheme.mode == "symmetric":
        hi = max(-lo, hi)
        lo = -hi
    return _with_scheme(state, state.scheme.replace(calibration=ManualRange(lo, hi)))


def _given(state: LabState, message: Mapping[str, object], at_hand: OpenedFiles) -> LabState:
    scale = _float32(message, "scale")
    zero_point = _float32(message, "zero_point")
    return _with_scheme(
        state, state.scheme.replace(calibration=Given(scale, _zero_point(state.scheme, zero_point)))
    )


def zero_points(scheme: Scheme) -> tuple[float, float] | None:
    """Return the limits of an asymmetric scheme's whole zero points; None where they need not be whole."""
    if scheme.zero_domain != "code_int":
        return None
    if scheme.arithmetic.zero_point_clamp:
        return scheme.code_min, scheme.code_max
    return -FLOAT32_EXACT_INTEGER, FLOAT32_EXACT_INTEGER


def _zero_point(scheme: Scheme, wanted: float) -> float:
    if scheme.mode == "symmetric":
        return 0
    limits = zero_points(scheme)
    return wanted if limits is None else max(limits[0], min(limits[1], round(wanted)))


def _format(state: LabState, message: Mapping[str, object], at_hand: OpenedFiles) -> LabState:
    return _with_scheme(state, state.scheme.with_format(find_format(str(_told(message.get("id")))).id))


def _group(state: LabState, message: Mapping[str, object], at_hand: OpenedFiles) -> LabState:
    size = message.get("size")
    if isinstance(size, bool) or not isinstance(size, int):
        raise QuantVizError("hand.whole_number", field="size", got=_told(size))
    groups = _in_groups(state.scheme, state.source.shape, size)
    return _with_scheme(state, state.scheme.replace(granularity=groups))


def _in_groups(scheme: Scheme, shape: tuple[int, ...], size: int) -> Granularity:
    """Return groups of `size` in place of the scheme's blocks: along the same axis, or as parts of them."""
    blocks = scheme.granularity
    axes = len(shape)
    if isinstance(blocks, PerGroup | Flat):
        return dataclasses.replace(blocks, size=size)
    # Of a matrix' columns the parts lie along axis 0.
    columns = isinstance(blocks, PerChannel) and axes == 2 and blocks.axis % axes == 1
    return PerGroup(size, 0 if columns else -1)


def _cell(state: LabState, message: Mapping[str, object], at_hand: OpenedFiles) -> LabState:
    cell = _place(message)
    value = _number(message, "value")
    edited = with_cell(state.source, cell, value)  # before anything is read: the tensor may be too large
    before = state.source.unedited.open(at_hand).read(cell).item()
    if _bits(before) == _bits(value):
        edited = with_cell(state.source, cell, None)
    return state.replace(source=edited)


def _scheme(state: LabState, message: Mapping[str, object], at_hand: OpenedFiles) -> LabState:
    return _with_scheme(state, Scheme.parse(str(_told(message.get("scheme")))))


def _with_scheme(state: LabState, scheme: Scheme) -> LabState:
    for problem in scheme.problems(state.source.shape):
        raise problem
    return state.replace(scheme=scheme)


_MOVES: Mapping[str, Callable[[LabState, Mapping[str, object], OpenedFiles], LabState]] = {
    "range": _range,
    "given": _given,
    "format": _format,
    "group": _group,
    "cell": _cell,
    "scheme": _scheme,
}


# ---- the parts of a message ---------------------------------------------------------------------


def _number(message: Mapping[str, object], field: str) -> float:
    value = message.get(field)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not -FLOAT32_MAX <= value <= FLOAT32_MAX
    ):
        raise QuantVizError("hand.number", field=field, got=_told(value))
    return float(value)


def _float32(message: Mapping[str, object], field: str) -> float:
    """Return the number in the fewest digits that have its nearest float32, for the scheme's text."""
    return float(shortest(nearest_float32(_number(message, field))))


def _place(message: Mapping[str, object]) -> tuple[int, ...]:
    place = message.get("cell")
    if (
        not isinstance(place, list | tuple)
        or not 1 <= len(place) <= 4
        or not all(isinstance(i, int) and not isinstance(i, bool) for i in place)
    ):
        raise QuantVizError("hand.cell", got=_told(place))
    return tuple(place)


def _bits(value: float) -> bytes:
    return struct.pack("<f", value)


def _told(value: object) -> object:
    """Return a value of a message as an error may repeat it: text and numbers, else the type's name."""
    return value if isinstance(value, str | int | float) else type(value).__name__


# ---- the values of handles ----------------------------------------------------------------------


@dataclass(frozen=True)
class HandleValues(Generic[_T]):
    """The values of a handle in order, and the state's scheme for each."""

    values: tuple[_T, ...] = ()
    schemes: tuple[Scheme, ...] = ()
    #: Which of them is the present one; -1 where it is none.
    at: int = -1


@dataclass(frozen=True)
class HandChoices:
    """The values of the handles of the bits and of a group's size."""

    #: Ids of formats, from most bits to fewest.
    formats: HandleValues[str]
    #: Sizes of groups, the smallest first.
    sizes: HandleValues[int]

    @classmethod
    def none(cls) -> HandChoices:
        """Return the choices of a ruler without these handles: empty ones."""
        return cls(HandleValues(), HandleValues())


def hand_choices(state: LabState) -> HandChoices:
    """Return which formats and group sizes the hand can choose: those under which the scheme fits the tensor
    in the same mode.

    >>> from quantviz.lab.state import opening
    >>> found = hand_choices(opening())
    >>> found.formats.values[found.formats.at :], found.sizes.values, found.sizes.at
    (('int4', 'int3', 'int2'), (2, 4, 8), -1)
    """
    return hand_choices_of(state.scheme, state.source.shape)


@lru_cache(maxsize=1024)
def hand_choices_of(scheme: Scheme, shape: tuple[int, ...]) -> HandChoices:
    """Return the choices of `hand_choices`, cached for all sessions: they are read at each change."""
    groups = _in_groups(scheme, shape, 1)
    length = math.prod(shape) if isinstance(groups, Flat) else shape[getattr(groups, "axis", -1)]
    sizes = divisors(length)
    return HandChoices(
        _choices(formats_like(scheme), scheme.format, shape, scheme.mode, scheme.with_format),
        _choices(
            sizes[1:] or sizes,
            getattr(scheme.granularity, "size", None),
            shape,
            scheme.mode,
            lambda size: scheme.replace(granularity=_in_groups(scheme, shape, size)),
        ),
    )


def formats_like(scheme: Scheme) -> Iterable[str]:
    """Return the formats of the same family, from most bits to fewest; not all need fit the scheme's mode."""
    current = scheme.number_format
    if current.family == "integer":
        alike = [
            fmt
            for fmt in FORMATS.values()
            if fmt.family == current.family
            and fmt.signed == current.signed
            and (fmt.bits <= _MOST_BITS or fmt == current)
        ]
        return [fmt.id for fmt in sorted(alike, key=lambda fmt: -fmt.bits)]
    return next((chain for chain in _FLOATS if current.id in chain), ())


def _choices(
    values: Iterable[_T],
    now: object,
    shape: tuple[int, ...],
    mode: str,
    scheme_of: Callable[[_T], Scheme],
) -> HandleValues[_T]:
    schemes: dict[_T, Scheme] = {}
    for value in values:
        with contextlib.suppress(QuantVizError):
            scheme = scheme_of(value)
            if scheme.mode == mode and not scheme.problems(shape):
                schemes[value] = scheme
    values = tuple(schemes)
    at = next((i for i, value in enumerate(values) if value == now), -1)
    return HandleValues(values, tuple(schemes.values()), at)
