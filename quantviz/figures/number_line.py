"""One cell on its grid: the values the codes stand for, x among them, and where it lands.

`number_line_data` computes the ticks; `number_line_layout` places them for a width, and `number_line_svg`
draws them.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from quantviz.figures.numbers import digits_for, number
from quantviz.quantization.code_to_value import value_operations
from quantviz.quantization.explanation import Explanation
from quantviz.quantization.grids import GRIDS
from quantviz.quantization.operations import run_operations
from quantviz.quantization.result import block_values
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.quantization.result import QParams


#: Codes on each side of the cell's own that are looked at; up to twice as many and one are all of them.
NEIGHBOURS = 8


@dataclass(frozen=True)
class Tick:
    """One value of the grid."""

    code: int
    #: What the code stands for, in the units of x.
    value: float
    #: What it stands for before any scale: of an integer the code itself.
    unscaled: float


@dataclass(frozen=True)
class NumberLineData:
    """A cell, the grid around it, and the whole grid's extent. Values are in the units of x."""

    index: tuple[int, ...]
    x: float
    #: Where x lands.
    landing: Tick
    #: Its code as it is told: the number, or the bits of a format whose codes are no numbers.
    code: str
    #: x_hat - x.
    error: float
    #: One of `explanation.CAUSES`.
    cause: str
    #: Whether x lies exactly half-way between two grid values.
    tie: bool
    #: Whether it became the nearest value there is.
    nearest: bool
    #: The grid values around x, smallest first; at few bits all of them.
    ticks: tuple[Tick, ...]
    #: The distance of two grid values at x; never 0.
    step: float
    format_id: str
    #: Whether codes are numbers themselves.
    integers: bool
    #: The smallest and the largest value there is; under a negative scale that is the last and the first
    #: code.
    first: Tick
    last: Tick
    #: How many codes there are.
    levels: int
    #: Whether rounding changes its mind half-way between two values.
    halves: bool
    #: The block's clipping range; none where scale and zero point were given.
    clipping_range: tuple[float, float] | None

    @property
    def x_hat(self) -> float:
        """Return the value where x lands."""
        return self.landing.value

    @property
    def boundaries(self) -> tuple[float, ...]:
        """Return the points half-way between neighbouring ticks, where rounding changes; none where another
        rule decides.
        """
        if not self.halves:
            return ()
        return tuple(
            one.value + (other.value - one.value) / 2
            for one, other in zip(self.ticks, self.ticks[1:], strict=False)
        )

    @property
    def extent(self) -> tuple[float, float]:
        """Return the ends of what is shown: the grid, x and the clipping range."""
        values = (self.first.value, self.last.value, self.x, *(self.clipping_range or ()))
        return min(values), max(values)


def number_line_data(explanation: Explanation, qparams: QParams) -> NumberLineData:
    """Return the number line of the cell that `explanation` explains, not one that is left out; `qparams` are
    those of its whole tensor.

    The ticks' values come from the operations that dequantize, so that the one x lands on is x̂ bit for bit.

    >>> from quantviz import Scheme, explain, quantize
    >>> r = quantize([[1.0, 0.1], [-2.0, 0.7]], Scheme("int2"))
    >>> data = number_line_data(explain(r, (1, 1)), r.qparams)
    >>> [(tick.code, tick.value) for tick in data.ticks]
    [(-2, -4.0), (-1, -2.0), (0, 0.0), (1, 2.0)]
    >>> data.boundaries, data.landing.value
    ((-3.0, -1.0, 1.0), 0.0)
    """
    scheme, fmt = explanation.scheme, explanation.scheme.number_format
    codes = _codes(scheme)
    place = bisect.bisect_left(codes, explanation.value, key=fmt.value)
    start = max(0, min(place - NEIGHBOURS, len(codes) - 1 - 2 * NEIGHBOURS))
    ticks = _ticks(
        scheme, qparams, explanation.block, [codes[0], *codes[start : start + 2 * NEIGHBOURS + 1], codes[-1]]
    )
    landing = Tick(explanation.q, explanation.x_hat, explanation.value)
    # A scale near float32's end takes the outer codes beyond it, though no cell is there.
    first, last = (_finite(tick, landing, explanation.scale) for tick in (ticks[0], ticks[-1]))
    # Of several codes of one value, such as 0 and -0, the cell's own.
    around = sorted(
        {tick.value: tick for tick in (*ticks[1:-1], landing) if math.isfinite(tick.value)}.values(),
        key=lambda tick: tick.value,
    )
    return NumberLineData(
        index=explanation.index,
        x=explanation.x,
        landing=landing,
        code=number(explanation.q, 8) if fmt.kind == "integer" else " ".join(filter(None, explanation.bits)),
        error=explanation.error,
        cause=explanation.cause,
        tie=explanation.tie,
        nearest=all(
            abs(tick.value - explanation.x) >= abs(explanation.error) * (1 - 1e-5) for tick in around
        ),
        ticks=tuple(around),
        step=_step(explanation),
        format_id=scheme.format,
        integers=fmt.kind == "integer",
        first=min(first, last, key=lambda tick: tick.value),
        last=max(last, first, key=lambda tick: tick.value),
        levels=scheme.code_max - scheme.code_min + 1 if fmt.kind == "integer" else len(fmt.finite),
        halves=explanation.rounding.rule not in _WITHOUT_HALVES,
        clipping_range=explanation.range,
    )


#: Rules of rounding that do not change their mind half-way.
_WITHOUT_HALVES = ("stochastic", "truncate")


def _codes(scheme: Scheme) -> Sequence[int]:
    """Return the codes in use that stand for a number, by that number; of two with the same one the later."""
    fmt = scheme.number_format
    return range(scheme.code_min, scheme.code_max + 1) if fmt.kind == "integer" else _finite_codes(fmt)


@functools.cache
def _finite_codes(fmt: NumberFormat) -> tuple[int, ...]:
    return tuple(dict(fmt.finite).values())


def _ticks(scheme: Scheme, qparams: QParams, block: Shape, codes: Sequence[int]) -> list[Tick]:
    fmt = scheme.number_format
    known = {name: values[block] for name, values in block_values(qparams).items()}
    grid = GRIDS[fmt.kind].decode(torch.tensor(codes), fmt)
    values = run_operations(value_operations(scheme), {**known, "q": grid})["x_hat"].tolist()
    return [Tick(code, value, fmt.value(code)) for code, value in zip(codes, values, strict=True)]


def _finite(tick: Tick, landing: Tick, scale: float) -> Tick:
    """Return the tick by Python's wider arithmetic where float32 overflows."""
    return (
        tick
        if math.isfinite(tick.value)
        else Tick(tick.code, landing.value + scale * (tick.unscaled - landing.unscaled), tick.unscaled)
    )


def _step(explanation: Explanation) -> float:
    """Return the distance of two grid values at x, or of x from where it lands: a scale of 0 has no steps."""
    return next(
        (
            step
            for step in (explanation.local_step, abs(explanation.error), abs(explanation.x))
            if 0 < step < math.inf
        ),
        1.0,
    )


def number_line_sentence(data: NumberLineData, language: str = DEFAULT_LANGUAGE) -> str:
    """Describe the picture for people who cannot see it."""
    key = (
        "clipped"
        if data.cause == "clipped"
        else "exact"
        if data.error == 0
        else "landed"
        if data.nearest
        else "elsewhere"
    )
    return text(
        f"number_line.sentence.{key}",
        language,
        x=written_value(data.x, data),
        x_hat=written_value(data.x_hat, data),
        code=data.code
        if data.integers
        else text("number_line.code_of", language, bits=data.code, value=number(data.landing.unscaled, 6)),
        error=number(data.error, signed=True),
        count=data.levels,
        first=number(data.first.unscaled, 8),
        last=number(data.last.unscaled, 8),
        low=number(data.first.value),
        high=number(data.last.value),
    )


def written_value(value: float, data: NumberLineData) -> str:
    return number(value, digits_for(value, data.step))
