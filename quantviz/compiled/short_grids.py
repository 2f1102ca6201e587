"""Shorter lines for cells of float formats and codebooks, for sums: by float32's bits, or by comparing.

The reference finds a value's place in float64, whatever the format. Here float32 is exact, or the result is
NaN, the sign to take the full lines. `tests/compiled/test_short_grids.py` holds both to the same numbers, for
every format and rule for ties.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import torch

from quantviz.compiled.traced_values import Trace, TracedValue, Untraceable
from quantviz.compiled.tracing import CellCode, words_of
from quantviz.quantization.code_to_value import error_operations, value_operations
from quantviz.quantization.grids import GRIDS, TIES, nearest
from quantviz.quantization.operations import run_operations
from quantviz.quantization.value_to_code import code_operations
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.scheme import Scheme

#: Bits of float32's fraction, and the bias of its exponent.
_FRACTION = 23
_BIAS = 127
_EXPONENT = 0xFF << _FRACTION
_FRACTION_BITS = (1 << _FRACTION) - 1
#: A codebook's code changes just where two values meet.
_AT_THE_MIDDLE = ("even", "away", "up", "down", "toward_zero")
#: Rounded by operations of their own, not by `nearest`.
_NOT_BY_NEAREST = ("stochastic", "adding_half")
#: Most values of a codebook that are compared with one by one.
_MOST_COMPARED = 16


def short_cell(scheme: Scheme, params: Mapping[str, torch.dtype], code: CellCode) -> CellCode | None:
    """Return the cells' lines in their short form; None where there is none.

    Its numbers and tables are those of `code`, and more. `inverse_gap` is 1 over the distance of the two
    values around the cell, before any scale; `step` is the scale's magnitude.
    """
    fmt = scheme.number_format
    short = _short_of(fmt)
    ties = scheme.arithmetic.ties
    if short is None or fmt.bits > 8 or ties in _NOT_BY_NEAREST:
        return None
    if fmt.kind == "codebook" and ties not in _AT_THE_MIDDLE:
        return None
    trace = Trace(floats=list(code.floats), integers=list(code.integers), tables=[code.tables])
    grid = short(trace, fmt)
    # A NaN stays NaN up to the error, where it is recognized: lines need no test for it.
    trace.functions = {"nearest": grid.nearest, "isnan": _never}
    known: dict[str, Any] = {name: TracedValue(trace, name, dtype, False) for name, dtype in params.items()}
    x: Any = TracedValue(trace, "x", torch.float32, True)
    plain: list[Any] = []
    if "short" in known:
        plain.append(known["short"] == 0)
        known["short"] = _Zero(trace, "short", params["short"], False)
    if scheme.arithmetic.scale.format == "float8_e8m0fnu" and params["scale"] == torch.float32:
        plain.append((_bits(known["scale"]) & _FRACTION_BITS) == 0)
        known["scale"] = _PowerOfTwo(trace, "scale", torch.float32, False)
    try:
        coded: dict[str, Any] = run_operations(code_operations(scheme), {"x": x, **known})
        q = coded["q"]
        values: dict[str, Any] = run_operations(value_operations(scheme), {"q": q, **known})
        made: dict[str, Any] = run_operations(
            error_operations(scheme),
            {"x": x, "x_hat": values["x_hat"]},
        )
        error = made["error"]
        for condition in (*plain, *((grid.inside,) if grid.inside is not None else ())):
            error = torch.where(condition, error, torch.nan)
        clipped = coded["y"] != q
        step = known["scale"].to(torch.float32).abs()
        results = {
            "q": grid.code(q), "x_hat": values["x_hat"], "error": error, "clipped": clipped,
            "step": step, "inverse_gap": grid.inverse_gap(),
        }  # fmt: skip
    except Untraceable:
        return None
    lines = (*trace.of_block, *trace.of_cell)
    read = {name for name in params if any(name in words_of(line) for line in lines)} | {"scale"}
    if not read <= {*code.params, "scale"} or any("exponent(" in line for line in lines):
        return None
    return replace(
        code,
        of_block=tuple(trace.of_block),
        of_cell=tuple(trace.of_cell),
        results=MappingProxyType({name: each.name for name, each in results.items()}),
        step_of_block=True,
        floats=tuple(trace.floats),
        integers=tuple(trace.integers),
        tables=torch.cat(trace.tables) if trace.tables else code.tables,
    )


def _never(x: TracedValue) -> Any:
    return TracedValue(x.trace, "False", torch.bool, False)


class _Zero(TracedValue):
    """A parameter that is 0 in all blocks but a few, which are left to the full lines."""

    def __ne__(self, other: object) -> Any:
        return TracedValue(self.trace, "False", torch.bool, False)

    __hash__ = TracedValue.__hash__


class _PowerOfTwo(TracedValue):
    """A scale whose inverse is exact: to multiply by it is to divide, and takes a third of the time."""

    def __rtruediv__(self, other: Any) -> Any:
        one: Any = self.trace.number(1.0, self.dtype)
        return other * (one / TracedValue(self.trace, self.name, self.dtype, self.of_cell))


def _short_of(fmt: NumberFormat) -> Any:
    if fmt.kind == "codebook":
        return _ThresholdList if len(fmt.finite) <= _MOST_COMPARED else None
    layout = fmt.float_bits
    if fmt.kind != "float" or layout is None:
        return None
    # The exponents that the lines compute must be exponents of float32.
    fits = 1 <= layout.mantissa < layout.smallest_exponent + _BIAS
    return _OfBits if fits and layout.subnormal and fmt.signed and layout.special != "fnuz" else None


class _OfBits:
    """A float format: the power of two below a value is its bits without the fraction."""

    def __init__(self, trace: Trace, fmt: NumberFormat) -> None:
        assert fmt.float_bits
        #: Whether these lines hold for a cell; None if a NaN result marks the cells for which they do not.
        self.inside = None
        self._trace = trace
        self._fmt = fmt
        self._mantissa = fmt.float_bits.mantissa
        #: Bits of the smallest power of two that has steps of its own, and of that of the largest value.
        self._first = (fmt.float_bits.smallest_exponent + _BIAS) << _FRACTION
        self._last = int(torch.tensor(fmt.value_max).view(torch.int32)) & _EXPONENT

    def nearest(self, y: Any, fmt: NumberFormat, ties: str) -> Any:
        if fmt is not self._fmt or y.dtype != torch.float32:
            raise Untraceable("nearest")
        power = _bits(y) & _EXPONENT
        self._power = torch.where(power < self._first, self._first, power)
        inverse = _of_bits((2 * _BIAS + self._mantissa << _FRACTION) - self._power)
        self._steps: Any = TIES[ties](y * inverse)
        made: Any = self._steps * _of_bits(self._power - (self._mantissa << _FRACTION))
        return made

    def code(self, q: Any) -> Any:
        # Powers and steps are counted together.
        powers: Any = (self._power - self._first) >> (_FRACTION - self._mantissa)
        code = powers + self._steps.abs().to(torch.int32)
        largest = _code_of(self._fmt, self._fmt.value_max)
        limited: Any = torch.where(code > largest, largest, code)
        return limited | ((_bits(q) >> 31) & (1 << self._fmt.bits - 1))

    def inverse_gap(self) -> Any:
        # At most that of the largest value.
        power: Any = torch.where(self._power > self._last, self._last, self._power)
        return _of_bits((2 * _BIAS + self._mantissa << _FRACTION) - power)


class _ThresholdList:
    """A list of few values: a code is found by comparing with each place where it changes."""

    def __init__(self, trace: Trace, fmt: NumberFormat) -> None:
        self._trace = trace
        self._fmt = fmt
        self.inside = cast("Any", None)

    def nearest(self, y: Any, fmt: NumberFormat, ties: str) -> Any:
        if fmt is not self._fmt or y.dtype != torch.float32:
            raise Untraceable("nearest")
        values = sorted({value: None for value, _ in fmt.finite})
        singles = [float(torch.tensor(value)) for value in values]
        made: Any = self._trace.number(singles[0], torch.float32)
        code: Any = self._trace.number(_code_of(fmt, values[0]), torch.float32)
        for low, high in itertools.pairwise(values):
            beyond = self._beyond(y, low, high, ties)
            made = torch.where(beyond, float(torch.tensor(high)), made)
            code = torch.where(beyond, float(_code_of(fmt, high)), code)
        zeros = [each for value, each in fmt.finite if value == 0]
        if len(zeros) > 1:
            # Of two codes of 0 the later one stands above it.
            of_zero: Any = torch.where(y > 0, float(max(zeros)), float(min(zeros)))
            code = torch.where(made == 0, of_zero, code)
        self._code = code
        self._y = y
        self._singles = singles
        # Values beyond the ends may be clipped, and NaN has no place.
        self.inside = (y >= singles[0]) & (y <= singles[-1])
        return made

    def _beyond(self, y: Any, low: float, high: float, ties: str) -> Any:
        # Where two values meet, the rule for ties decides.
        cut = torch.tensor(low + (high - low) / 2, dtype=torch.float64).to(torch.float32)
        up = float(nearest(cut, self._fmt, ties)) > low
        return y >= float(cut) if up else y > float(cut)

    def code(self, q: Any) -> Any:
        return self._code

    def inverse_gap(self) -> Any:
        gaps = [float(torch.tensor(1 / (b - a))) for a, b in itertools.pairwise(self._singles)]
        found: Any = self._trace.number(gaps[0], torch.float32)
        for value, before, gap in zip(self._singles[1:-1], gaps[:-1], gaps[1:], strict=True):
            if gap != before:
                found = torch.where(self._y >= value, gap, found)
        return found


def _code_of(fmt: NumberFormat, value: float) -> int:
    return int(GRIDS[fmt.kind].encode(torch.tensor(value, dtype=torch.float64), fmt))


def _bits(x: Any) -> Any:
    return x.trace.line(f"bits({x.name})", torch.int32, (x,))


def _of_bits(x: Any) -> Any:
    return x.trace.line(f"of_bits({x.name})", torch.float32, (x,))
