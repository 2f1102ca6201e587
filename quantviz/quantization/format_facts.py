"""Facts of a number format: its ends, its gaps, its codes, and the value that a number is rounded to."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from dataclasses import dataclass

import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.grids import GRIDS, nearest
from quantviz.schemes.formats import MOST_KEPT, NumberFormat

#: The kinds of codes. The values of integers and codebooks are neither normal nor subnormal: they are
#: "value".
KINDS = ("normal", "subnormal", "zero", "value", "inf", "nan")
#: Codes of formats with at most so many bits are few enough to be listed one and all.
LISTED_BITS = 8


# ---- the format ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class FormatFacts:
    """A format in numbers; none where the fact does not exist."""

    largest: float
    #: The most negative value, or the smallest one where there are no negative values.
    lowest: float
    #: The value next to 0 on the positive side.
    smallest_positive: float
    #: The smallest positive value with a full mantissa, and the smallest one below it; of float formats only.
    smallest_normal: float | None
    smallest_subnormal: float | None
    #: The number of finite values; 0 and -0 count as one.
    values: int
    #: The codes of Inf, of NaN and of 0, smallest first.
    inf_codes: tuple[int, ...]
    nan_codes: tuple[int, ...]
    zero_codes: tuple[int, ...]
    #: log10 of the largest magnitude over the smallest one that is not 0.
    range_decades: float

    @property
    def range_db(self) -> float:
        return 20 * self.range_decades


@functools.lru_cache(maxsize=MOST_KEPT)
def format_facts(fmt: NumberFormat) -> FormatFacts:
    by_kind: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for code in fmt.codes:
        by_kind[code_kind(fmt, code)].append(code)
    values = finite_values(fmt)
    magnitudes = [abs(value) for value in values if value]
    return FormatFacts(
        largest=values[-1],
        lowest=values[0],
        smallest_positive=min((value for value in values if value > 0), default=math.nan),
        smallest_normal=min((abs(fmt.value(code)) for code in by_kind["normal"]), default=None),
        smallest_subnormal=min((abs(fmt.value(code)) for code in by_kind["subnormal"]), default=None),
        values=len(values),
        inf_codes=tuple(by_kind["inf"]),
        nan_codes=tuple(by_kind["nan"]),
        zero_codes=tuple(by_kind["zero"]),
        range_decades=math.log10(max(magnitudes)) - math.log10(min(magnitudes)),
    )


@functools.lru_cache(maxsize=MOST_KEPT)
def finite_values(fmt: NumberFormat) -> tuple[float, ...]:
    """Return every finite value once, smallest first."""
    # -0 and 0 are equal, and the one without sign comes last.
    return tuple({value: value + 0.0 for value, _ in fmt.finite}.values())


@dataclass(frozen=True)
class End:
    """The reason why a float format ends at its largest value."""

    #: "nan" or "inf": the kind of the next code. "last": there is no next code. "last_nan": there is none,
    #: and NaN has a code elsewhere.
    reason: str
    #: The next value, if its code were read as a number.
    following: float
    #: Its exponent field.
    field: int
    #: Of "nan" and "inf" the code after the largest value's, of "last_nan" NaN's; else none.
    code: int | None


@functools.lru_cache(maxsize=MOST_KEPT)
def float_end(fmt: NumberFormat) -> End | None:
    """Return the reason why a float format has no value above its largest; none for other formats."""
    layout = fmt.float_bits
    if layout is None:
        return None
    after = fmt.finite[-1][1] + 1
    field, fraction = divmod(after, 1 << layout.mantissa)
    following = math.ldexp((1 << layout.mantissa) + fraction, field - layout.bias - layout.mantissa)
    if field < 1 << layout.exponent:
        return End(code_kind(fmt, after), following, field, after)
    nan_codes = format_facts(fmt).nan_codes
    return (
        End("last_nan", following, field, nan_codes[0]) if nan_codes else End("last", following, field, None)
    )


# ---- at one reach -------------------------------------------------------------------------------


@functools.lru_cache(maxsize=MOST_KEPT)
def reach(fmt: NumberFormat) -> float:
    """Return the target of the largest |x| under absmax scaling: the format's largest value, or its largest
    magnitude if no value is positive.
    """
    values = finite_values(fmt)
    return values[-1] if values[-1] > 0 else -values[0]


@functools.lru_cache(maxsize=MOST_KEPT)
def brought_to_one(fmt: NumberFormat) -> NumberFormat:
    """Return the format with every value divided by its `reach`, a codebook; of at most `LISTED_BITS`
    bits.
    """
    values = tuple(value / reach(fmt) for value in finite_values(fmt))
    return NumberFormat(
        fmt.id, "codebook", fmt.bits, fmt.signed, fmt.code_dtype, 0, len(values) - 1, codebook=values
    )


# ---- gaps ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GapStep:
    """A stretch of magnitudes, from `start` to `end`, in which neighbours lie `gap` apart."""

    start: float
    end: float
    gap: float


@functools.lru_cache(maxsize=MOST_KEPT)
def gap_steps(fmt: NumberFormat, negative: bool = False) -> tuple[GapStep, ...]:
    """Return the gap over the magnitude, from 0 up on one side of it, if the format has values there."""
    values = finite_values(fmt)
    side = (
        sorted(-value for value in values if value < 0)
        if negative
        else [value for value in values if value > 0]
    )
    # The first gap reaches to 0, or across it to the value on the other side.
    others = [abs(value) for value in values if (value >= 0 if negative else value <= 0)]
    steps: list[GapStep] = []
    if side and others:
        steps.append(GapStep(0.0, side[0], side[0] + min(others)))
    for low, high in itertools.pairwise(side):
        if steps and steps[-1].gap == high - low:
            steps[-1] = GapStep(steps[-1].start, high, high - low)
        else:
            steps.append(GapStep(low, high, high - low))
    return tuple(steps)


# ---- landing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundedNumber:
    """One number rounded to a format, with its neighbours there."""

    x: float
    #: The values of the format next to x, x itself where it is one of them; none beyond the ends.
    below: float | None
    above: float | None
    #: The value that x is rounded to, and its code.
    value: float
    code: int
    #: Whether x lies exactly half-way, so that the rule for ties decides.
    tie: bool
    #: Whether rounding would leave the format, "above" or "below" its ends, so that x is held at the end;
    #: else empty.
    beyond: str

    @property
    def gap(self) -> float | None:
        """Return the distance between the two neighbours; 0 for a value of the format, see `gap_at` there."""
        return None if self.below is None or self.above is None else self.above - self.below

    @property
    def error(self) -> float:
        return self.value - self.x


def land(x: float, fmt: NumberFormat, ties: str = "even", unit: float = 1.0) -> RoundedNumber:
    """Round `x` to `fmt`, half-way by `ties`, one of `grids.TIES`; beyond the ends it stays at the end.

    The values of the format are divided by `unit`, as in `brought_to_one`.
    """
    if not math.isfinite(x):
        raise QuantVizError("number_not_finite", got=x)
    values = finite_values(fmt)
    y = torch.tensor(x * unit, dtype=torch.float64)
    wanted = nearest(y, fmt, ties)
    held = wanted.clamp(values[0], values[-1])
    places = values if unit == 1 else tuple(value / unit for value in values)
    after = bisect.bisect_right(places, x)
    before = bisect.bisect_left(places, x)
    beyond = "above" if wanted > held else ""
    if wanted < held:
        beyond = "below"
    return RoundedNumber(
        x=x,
        below=places[after - 1] if after else None,
        above=places[before] if before < len(places) else None,
        value=held.item() / unit + 0.0,
        code=int(GRIDS[fmt.kind].encode(held, fmt)),
        tie=bool(nearest(y, fmt, "up") != nearest(y, fmt, "down")),
        beyond=beyond,
    )


def gap_at(x: float, fmt: NumberFormat) -> float | None:
    """Return the distance between the two values around `x`.

    At a value itself it is the distance to the next one away from 0, or at the end the last one.
    """
    values = finite_values(fmt)
    if not values[0] <= x <= values[-1]:
        return None
    # At a value, away from 0: that is where the next larger magnitude begins.
    at = bisect.bisect_right(values, x) if x >= 0 else bisect.bisect_left(values, x)
    at = min(max(at, 1), len(values) - 1)
    return values[at] - values[at - 1]


# ---- codes --------------------------------------------------------------------------------------


def code_kind(fmt: NumberFormat, code: int) -> str:
    value = fmt.value(code)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf"
    if value == 0:
        return "zero"
    if not fmt.float_bits:
        return "value"
    return "subnormal" if abs(value) < math.ldexp(1.0, fmt.float_bits.smallest_exponent) else "normal"


def word(fmt: NumberFormat, code: int) -> str:
    return "".join(fmt.split(code))


def flipped(fmt: NumberFormat, code: int, bit: int) -> int | None:
    """Return the code with its bit `bit`, counted from the lowest, flipped, if the format has such a code."""
    turned = (code % (1 << fmt.bits)) ^ (1 << bit)
    if fmt.code_min < 0 and turned >> (fmt.bits - 1):  # two's complement
        turned -= 1 << fmt.bits
    return turned if turned in fmt.codes else None


def code_name(fmt: NumberFormat, code: int) -> str:
    return f"0x{code % (1 << fmt.bits):0{-(-fmt.bits // 4)}X}"


def odd_times_power(value: float) -> tuple[int, int]:
    """Return the odd whole number m and the k for which `value` is m · 2^k exactly; (0, 0) for 0."""
    if not value:
        return 0, 0
    top, bottom = value.as_integer_ratio()
    twos = (top & -top).bit_length() - 1
    return top >> twos, twos - (bottom.bit_length() - 1)
