"""Grids: the arithmetic of rounding to each kind of number format.

A grid counts its values along a coordinate: whole numbers are values, and a number between two values
has a coordinate between theirs in the same proportion. Rounding is rounding of the coordinate, by one
of the rules for ties, whatever the format. A kind of format is added here: one class in `GRIDS`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import torch
from torch.overrides import handle_torch_function, has_torch_function

from quantviz.schemes.formats import MOST_KEPT, NumberFormat
from quantviz.tensors.conversion import torch_dtype


class Grid(Protocol):
    """The arithmetic of one kind of number format. Values are before any scale; tensors keep their shape."""

    def coordinate(self, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        """Return the coordinate of `y` on the grid, which continues beyond its ends."""

    def value(self, coordinate: torch.Tensor, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        """Return the value at a whole `coordinate` next to that of `y`, in the dtype of `y`."""

    def encode(self, value: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        """Return the codes of values of the format."""

    def decode(self, code: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        """Return the values of codes, float32."""

    def gap(self, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        """Return the distance between the two values around `y`, in the dtype of `y`, broadcastable."""


# ---- ties ---------------------------------------------------------------------------------------


def _fraction_rule(outward: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that rounds to the nearest whole number, half-way away from 0 where `outward(y)`.

    Not `floor(y + 0.5)`, whose sum is rounded: 0.49999997 would become 1. The fraction of y after `trunc` is
    exact.
    """

    def rounded(y: torch.Tensor) -> torch.Tensor:
        whole = torch.trunc(y)
        rest = (y - whole).abs()
        # The sign of y is kept, so that a small negative value becomes -0.
        return torch.copysign(
            torch.where((rest > 0.5) | ((rest == 0.5) & outward(y)), whole + torch.sign(y), whole), y
        )

    return rounded


#: Rounding of a coordinate, by the name of the rule for one exactly half-way between two whole numbers.
TIES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = MappingProxyType(
    {
        "even": torch.round,
        "away": _fraction_rule(lambda y: torch.ones_like(y, dtype=torch.bool)),
        "up": _fraction_rule(lambda y: y > 0),
        "down": _fraction_rule(lambda y: y < 0),
        "toward_zero": _fraction_rule(lambda y: torch.zeros_like(y, dtype=torch.bool)),
        # The sum is rounded too, which takes a fraction just below a half up.
        "adding_half_away": lambda y: torch.sign(y) * torch.floor(y.abs() + 0.5),
        "truncate": torch.trunc,
    }
)


def nearest(y: torch.Tensor, fmt: NumberFormat, ties: str) -> torch.Tensor:
    """Return the value of the unbounded grid nearest to `y`, in its dtype; `ties` is one of `TIES`."""
    if has_torch_function((y,)):
        return handle_torch_function(nearest, (y,), y, fmt, ties)
    return nearest_by_coordinate(y, fmt, ties)


def nearest_by_coordinate(y: torch.Tensor, fmt: NumberFormat, ties: str) -> torch.Tensor:
    """Do as `nearest` by the operations of the format's grid, also for a name that stands for a tensor."""
    grid = GRIDS[fmt.kind]
    coordinate = grid.coordinate(y, fmt)
    if ties != "adding_half_away":
        return grid.value(TIES[ties](coordinate), y, fmt)
    # A coordinate has more digits than y, but the sum is of numbers like y, of float32 at most.
    summed = torch.float32 if y.dtype == torch.float64 else y.dtype
    return grid.value(TIES[ties](coordinate.to(summed)).to(coordinate.dtype), y, fmt)


def dithered(y: torch.Tensor, fmt: NumberFormat, chance: torch.Tensor) -> torch.Tensor:
    """Return one of the two values around `y`, chosen at random.

    It is the upper one if `chance`, in [0, 1), is less than the share of the gap that lies below `y`.
    """
    grid = GRIDS[fmt.kind]
    coordinate = grid.coordinate(y, fmt)
    below = torch.floor(coordinate)
    return grid.value(torch.where(chance < coordinate - below, below + 1, below), y, fmt)


def neighbours(y: torch.Tensor, fmt: NumberFormat) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values of the unbounded grid below and above `y`; both are `y` if it is one of them."""
    grid = GRIDS[fmt.kind]
    coordinate = grid.coordinate(y, fmt)
    return grid.value(torch.floor(coordinate), y, fmt), grid.value(torch.ceil(coordinate), y, fmt)


def local_step(x: torch.Tensor, scale: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
    """Return each element's step, in the dtype of `scale`: |scale| times the gap of its grid neighbours."""
    if fmt.kind == "integer":
        return scale.abs()
    return scale.abs() * GRIDS[fmt.kind].gap(
        (x / scale).nan_to_num(0.0).clamp(fmt.value_min, fmt.value_max), fmt
    )


# ---- kinds --------------------------------------------------------------------------------------


class _Integers:
    """The whole numbers: coordinate, value and code are one."""

    def coordinate(self, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        return y

    def value(self, coordinate: torch.Tensor, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        return coordinate

    def encode(self, value: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        return value.to(torch_dtype(fmt.code_dtype))

    def decode(self, code: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        return code.to(torch.float32)

    def gap(self, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        return torch.ones((), dtype=y.dtype)


class _Floats:
    """Sign, exponent, mantissa: equal steps between powers of two, which the coordinate counts."""

    def coordinate(self, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        return torch.copysign(self._parts(y, fmt)[1], y.to(torch.float64))

    def value(self, coordinate: torch.Tensor, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        # A step past the last of this power of two is the first of the next: the same number.
        return _times_two_to(coordinate, self._parts(y, fmt)[0] - self._layout(fmt)[1]).to(y.dtype)

    def encode(self, value: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        assert fmt.float_bits
        layout = fmt.float_bits
        width = layout.exponent + layout.mantissa
        smallest, mantissa = self._layout(fmt)
        exponent, steps = self._parts(value, fmt)
        # Without subnormals the first power of two has the codes from 0 on, else those from 2^m on.
        first = 0 if layout.subnormal else -(2**mantissa)
        code = (exponent - smallest) * 2**mantissa + first + steps
        inf, nan = _special_codes(fmt)
        code = torch.where(
            torch.isinf(value),
            float(inf),
            torch.where(torch.isnan(value), float(nan), code.nan_to_num(0, 0, 0)),
        )
        negative = (
            torch.signbit(value) & ~torch.isnan(value)
            if fmt.signed
            else torch.zeros_like(value, dtype=torch.bool)
        )
        if layout.special == "fnuz":  # there is no -0
            negative &= value != 0
        return (code.to(torch.int32) + (negative.to(torch.int32) << width)).to(torch_dtype(fmt.code_dtype))

    def decode(self, code: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        return _table(fmt)[code.to(torch.int64)]

    def gap(self, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        exponent, steps = self._parts(y, fmt)
        return _times_two_to(torch.ones_like(steps), exponent - self._layout(fmt)[1]).to(y.dtype)

    def _parts(self, y: torch.Tensor, fmt: NumberFormat) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the exponent of each value's power of two, and the value in its steps; float64."""
        smallest, mantissa = self._layout(fmt)
        wide = y.to(torch.float64).abs()
        exponent = torch.where(wide == 0, smallest, torch.frexp(wide).exponent - 1).clamp(min=smallest)
        return exponent, _times_two_to(wide, mantissa - exponent)

    def _layout(self, fmt: NumberFormat) -> tuple[int, int]:
        assert fmt.float_bits
        return fmt.float_bits.smallest_exponent, fmt.float_bits.mantissa


class _Codebook:
    """A list of values: coordinate 0 is the smallest that is not negative."""

    def coordinate(self, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        place, low, width = self._around(y, fmt)
        wide = y.to(torch.float64)
        part = (wide - low) / width
        # The middle of two values is the one in float32.
        cut = (low + width / 2).to(torch.float32).to(torch.float64)
        part = torch.where(
            wide < cut,
            part.clamp(max=0.5 - _A_LITTLE),
            torch.where(wide > cut, part.clamp(min=0.5 + _A_LITTLE), 0.5),
        )
        part = torch.where(wide < low + width, part.clamp(max=1 - _A_LITTLE), part)
        return place + torch.where(torch.isnan(wide), wide, part)

    def value(self, coordinate: torch.Tensor, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        place, low, width = self._around(y, fmt)
        value = low + (coordinate - place) * width
        # Of two codes of 0 the later one stands above it.
        return torch.where(value == 0, torch.where(y > 0, 0.0, -0.0), value).to(y.dtype)

    def encode(self, value: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        values, codes = _sorted_values(fmt)
        # Compare with the middles between values: in the dtype of `value`, a codebook's value can be a little
        # off.
        code = codes[torch.searchsorted((values[1:] + values[:-1]) / 2, value.to(torch.float64).contiguous())]
        zeros = [code for value, code in fmt.finite if value == 0]
        if len(zeros) > 1:
            code = torch.where((value == 0) & torch.signbit(value), min(zeros), code)
        return code.to(torch_dtype(fmt.code_dtype))

    def decode(self, code: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        return _table(fmt)[code.to(torch.int64)]

    def gap(self, y: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
        return self._around(y, fmt)[2].to(y.dtype)

    def _around(self, y: torch.Tensor, fmt: NumberFormat) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the coordinate and value below each `y`, and the distance to the value above; float64."""
        values, _ = _sorted_values(fmt)
        at = (
            torch.searchsorted(values, y.to(torch.float64).contiguous(), right=True)
            .sub(1)
            .clamp(0, len(values) - 2)
        )
        zero = int(torch.searchsorted(values, torch.zeros((), dtype=torch.float64)))
        return (at - zero).to(torch.float64), values[at], values[at + 1] - values[at]


#: Smallest distance of a coordinate from a half or from the next value, unless it is equal to them; float64
#: resolves it at any place in a codebook.
_A_LITTLE = 2.0**-40

GRIDS: Mapping[str, Grid] = MappingProxyType(
    {"integer": _Integers(), "float": _Floats(), "codebook": _Codebook()}
)


def _times_two_to(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """Return x · 2^exponent, exactly; `x` is float64.

    torch.ldexp would not do: its power of two is float32.
    """
    return x * torch.exp2(exponent.to(torch.float64))


@functools.lru_cache(maxsize=MOST_KEPT)
def _table(fmt: NumberFormat) -> torch.Tensor:
    return torch.tensor(fmt.values, dtype=torch.float32)


@functools.lru_cache(maxsize=MOST_KEPT)
def _sorted_values(fmt: NumberFormat) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values of a codebook, smallest first, and the code of each; float64, int64."""
    # Of two codes of 0 the later one.
    pairs = sorted(
        {value: code for code, value in sorted((code, value) for value, code in fmt.finite)}.items()
    )
    return torch.tensor([value for value, _ in pairs], dtype=torch.float64), torch.tensor(
        [code for _, code in pairs]
    )


def _special_codes(fmt: NumberFormat) -> tuple[int, int]:
    """Return the codes of Inf (that of NaN in formats without Inf) and of NaN, without the sign."""
    assert fmt.float_bits
    layout = fmt.float_bits
    ones = (1 << (layout.exponent + layout.mantissa)) - 1
    if layout.special == "ieee":
        inf = ((1 << layout.exponent) - 1) << layout.mantissa
        return inf, inf | 1 << (layout.mantissa - 1)
    return {"fn": (ones, ones), "fnuz": (ones + 1, ones + 1), "finite": (ones, ones)}[layout.special]
