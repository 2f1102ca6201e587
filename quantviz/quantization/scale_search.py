"""The engines' searches of each block's scale and smallest value, and the small codes that store them.

These are the searches of ggml's reference quantizers (`ggml-quants.c` of llama.cpp), to the bit: float32,
each product and sum rounded by itself, as its library for x86-64 is compiled, which has no fused
multiply-add; sums over a block's elements in their order. Blocks are searched side by side: tensors are
(elements of a block, blocks of a run, runs); values of each block have no first axis.

A method is added here: one entry in `_METHODS`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.block_maximum import block_maximum
from quantviz.quantization.integer_levels import integer_levels
from quantviz.quantization.result import QParams
from quantviz.quantization.search_steps import BY_TORCH, SearchSteps
from quantviz.schemes.calibration import BlockValues, Calibration, Context
from quantviz.schemes.choices import SchemeZeroDomain
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.granularity import PerGroup, Shape
from quantviz.schemes.scale_search import SEARCHES, WEIGHTED, ScaleSearch, Tries
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.blocks import Blocks
from quantviz.tensors.conversion import as_plain

#: Blocks that are searched at a time. Their values fit a core's cache, and are too few for torch to share out
#: among threads of its own: these would wait for each other after each of thousands of short steps.
_BLOCKS_PER_CHUNK = 1000
#: A block whose values are all smaller counts as zeros.
_NOTHING = 1e-15
#: Added to a number below 2^22, it leaves the nearest whole number, half to even, in the last bits.
_WHOLE = 12582912.0


#: The search's result for each block by itself, (blocks of a run, runs) each: its scale, and other values
#: that are stored or that weigh it.
_Results = tuple[torch.Tensor, ...]
#: Searches all blocks, as `find_by_torch` does.
Finder = Callable[[torch.Tensor, torch.Tensor | None, ScaleSearch, NumberFormat], _Results]


@dataclass(frozen=True, eq=False)
class _StoredScales:
    #: The codes of the blocks' scales, and the scale of each run, a float16.
    codes: torch.Tensor
    run: torch.Tensor
    #: The codes and run scales of the negated smallest values; none if these are not searched.
    minimum_codes: torch.Tensor | None = None
    minimum_run: torch.Tensor | None = None
    #: The scale before it was stored, if codes are computed with that.
    exact: torch.Tensor | None = None
    #: 1 over the scale that codes are computed with, if that is another one, and the value of code 0 then.
    inverse: torch.Tensor | None = None
    lowest: torch.Tensor | None = None


def searched(calibration: Calibration, blocks: BlockValues, context: Context) -> QParams:
    """Return scale and zero point of each block, searched and stored as the convention's engine does."""
    assert context.convention.search is not None
    search = SEARCHES[context.convention.search][context.format.id]
    if search.method == "block_maximum":
        return block_maximum(blocks, context)
    if search.method == "integer_levels":
        return integer_levels(blocks, context)
    domain = context.convention.zero_domain if search.has_minimum else "none"
    find = context.find or find_by_torch
    return _found(blocks, search, search.run, context.format, domain, context.importance, find)


def weighted(
    blocks: BlockValues, scheme: Scheme, importance: torch.Tensor, find: Finder | None = None
) -> QParams:
    """Return scale and zero point of each block, searched as the engine does if columns have weights: Q4_0,
    Q4_1, Q5_0 and Q5_1. A run is a row.
    """
    assert scheme.arithmetic.weighted_search is not None
    search = WEIGHTED[scheme.arithmetic.weighted_search][scheme.format]
    count = len(importance) // blocks.runs(1).shape[0]
    domain = scheme.zero_domain
    return _found(blocks, search, count, scheme.number_format, domain, importance, find or find_by_torch)


def _found(
    blocks: BlockValues,
    search: ScaleSearch,
    run_blocks: int,
    fmt: NumberFormat,
    domain: SchemeZeroDomain,
    importance: torch.Tensor | None,
    find: Finder,
) -> QParams:
    """`run_blocks` of the blocks are a run."""
    values = blocks.runs(run_blocks)
    weights = _of_columns(importance, values.shape[0], run_blocks)
    stored = _METHODS[search.method].keep(find(values, weights, search, fmt), search, weights is not None)
    codes = blocks.of_runs(stored.codes)
    run = blocks.of_runs(stored.run)
    zero_point = torch.zeros(codes.shape, dtype=torch.int32)
    minimum_codes = None
    minimum_run = None
    two_levels = search.run > 1
    if stored.minimum_codes is not None and stored.minimum_run is not None:
        minimum_codes = blocks.of_runs(stored.minimum_codes)
        minimum_run = -blocks.of_runs(stored.minimum_run)
        zero_point = minimum_run * minimum_codes
    exact = {"code_scale": stored.exact, "inverse": stored.inverse, "code_zero_point": stored.lowest}
    others = {name: blocks.of_runs(values) for name, values in exact.items() if values is not None}
    return QParams(
        run * codes,
        zero_point,
        scale_codes=codes if two_levels else None,
        global_scale=run if two_levels else None,
        zero_domain=domain,
        others=MappingProxyType(others),
        stored=True,
        zero_point_codes=minimum_codes if two_levels else None,
        global_zero_point=minimum_run if two_levels else None,
    )


def find_by_torch(
    values: torch.Tensor, weights: torch.Tensor | None, search: ScaleSearch, fmt: NumberFormat
) -> _Results:
    """Return the search's result for each block by itself, tensors of (blocks of a run, runs).

    `values` are (elements of a block, blocks of a run, runs). `weights` are those of one line's columns in
    the same layout; they repeat for each line.
    """
    method = _METHODS[search.method]
    _, run_blocks, count = values.shape
    runs_per_chunk = max(method.blocks_per_chunk // run_blocks, 1)
    parts = []
    for first in range(0, count, runs_per_chunk):
        last = min(first + runs_per_chunk, count)
        run_weights = None if weights is None else weights[:, :, torch.arange(first, last) % weights.shape[2]]
        task = _SearchTask(BY_TORCH, values[:, :, first:last].contiguous(), run_weights, search, fmt)
        parts.append(method.find(task))
    return tuple(torch.cat(part, dim=1) for part in zip(*parts, strict=True))


def find_by(
    steps: SearchSteps, x: Any, weights: Any, search: ScaleSearch, fmt: NumberFormat
) -> tuple[Any, ...]:
    """Return the search's result for blocks, computed by `steps` from values and weights in their form."""
    return _METHODS[search.method].find(_SearchTask(steps, x, weights, search, fmt))


def importance_of(given: Any, scheme: Scheme, shape: Shape) -> torch.Tensor | None:
    """Return the weights of the errors in each column of a tensor of `shape`, float32, if some are given.

    Raises:
        QuantVizError: The weights are not numbers of 0 or more, one for each column, or the scheme cannot use
            them.
    """
    if given is None:
        return None
    layout = scheme.layout(shape)
    if not scheme.weighs_columns or layout.block_shape[-1] == 1:
        raise QuantVizError("importance_not_heeded", convention=str(scheme.chosen))
    return column_weights(given, shape)


def column_weights(given: Any, shape: Shape) -> torch.Tensor:
    """Return the weight of each column of a tensor of `shape`, float32.

    Raises:
        QuantVizError: The weights are not numbers of 0 or more, one for each column.
    """
    numbers = as_plain(given)
    if tuple(numbers.shape) != shape[-1:]:
        raise QuantVizError("importance_shape", got=tuple(numbers.shape), count=shape[-1], shape=shape)
    weights = numbers.to(torch.float32)
    bad = ~(torch.isfinite(weights) & (weights >= 0))
    if bool(bad.any()):
        raise QuantVizError("importance_negative", got=weights[bad][0].item(), column=int(bad.nonzero()[0]))
    return weights


def _of_columns(importance: torch.Tensor | None, size: int, run_blocks: int) -> torch.Tensor | None:
    if importance is None:
        return None
    return Blocks(importance, PerGroup(size).layout(tuple(importance.shape)), torch.float32).runs(run_blocks)


# ---- pieces of a search -------------------------------------------------------------------------


def _nearest(values: torch.Tensor) -> torch.Tensor:
    """Return the nearest whole numbers, int32; wrong beyond 2^22, as the reference's last bits are."""
    bits = (values + _WHOLE).view(torch.int32)
    return bits.bitwise_and_(0x7FFFFF).sub_(0x400000)


def _over(number: Any, values: torch.Tensor) -> torch.Tensor:
    return (torch.full_like(values, number) if isinstance(number, int | float) else number) / values


def _float32(*terms: float) -> float:
    """Return the sum of numbers as float32 adds them up: one of a list is first · second."""
    total = np.float32(0)
    for term in terms:
        total = np.float32(total + np.float32(term))
    return float(total)


def _times(step: float, count: int) -> float:
    return float(np.float32(np.float32(step) * np.float32(count)))


def _half(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.float16).to(torch.float32)


def _root(values: torch.Tensor) -> torch.Tensor:
    """Return the square root, rounded once: torch's of float32 can be off by a unit in the last place."""
    return values.to(torch.float64).sqrt().to(torch.float32)


@dataclass(frozen=True, eq=False)
class _SearchTask:
    steps: SearchSteps
    x: torch.Tensor
    #: Weights of the columns of one line; none where all count alike.
    of_columns: torch.Tensor | None
    search: ScaleSearch
    fmt: NumberFormat

    def weighted(self) -> torch.Tensor:
        """Return the weight of each value's error, from weights of columns, else its square."""
        weight = self.of_columns
        if weight is None:
            return self.x * self.x
        if level := self.search.level:
            weight = weight * _root(self.steps.level(self.x, level) + self.x * self.x)
        kept: torch.Tensor = self.steps.kept(weight)
        return kept


# ---- scale and smallest value -------------------------------------------------------------------


def _minimum(task: _SearchTask) -> _Results:
    """Return scale, minus the smallest value, and the sum of weights of each block: Q2_K, Q4_K and Q5_K."""
    steps, x, search, top = task.steps, task.x, task.search, task.fmt.code_max
    if task.of_columns is not None:
        weight = task.weighted()
        results = _least_squares(steps, x, weight, top, search.tries_weighted, absolute=False)
        return *results[:2], *steps.sums(weight)
    weight = x.abs()
    if search.weight == "level":
        weight = weight + _root(steps.sums(x * x)[0] / steps.count(x))
    weight = steps.kept(weight)
    return _least_squares(steps, x, weight, top, search.tries, absolute=search.absolute)[:2]


def _keep_minimum(results: _Results, search: ScaleSearch, weighted: bool) -> _StoredScales:
    if weighted:
        scale, minimum, total = results
        codes, run = _positive_codes(scale, total, search.code_max)
        minimum_codes, minimum_run = _positive_codes(minimum, total, search.code_max)
    else:
        (codes, run), (minimum_codes, minimum_run) = (
            _codes_of_largest(result, search.code_max) for result in results
        )
    return _StoredScales(codes, _half(run), minimum_codes, _half(minimum_run))


def _least_squares(
    steps: SearchSteps, x: torch.Tensor, weight: torch.Tensor, top: int, tries: Tries, *, absolute: bool
) -> _Results:
    """Return the scale and minus the smallest value of each block with the least error among some tries.

    The inverse of a scale and the smallest value with which the codes were computed follow. A try makes
    codes, then the best scale and smallest value for these codes; the next begins where the best one so far
    did.
    """
    lowest = steps.least(x).clamp(max=0)
    high = steps.most(x)
    flat = high == lowest
    sum_w, sum_x = steps.sums(weight, weight * x)

    def codes_of(inverse: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
        codes = _nearest(inverse * (x - low)).clamp_(0, top).to(torch.float32)
        kept: torch.Tensor = steps.kept(codes)
        return kept

    def error_of(codes: torch.Tensor, scale: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
        error = (scale * codes).add_(low).sub_(x)
        total: torch.Tensor
        (total,) = steps.sums((error.abs_() if absolute else error.mul_(error)).mul_(weight))
        return total

    def attempt(number: Any, *before: torch.Tensor) -> _Results:
        best, low_of_best, scale, low, least = before
        inverse = _over(number, high - low)
        codes = codes_of(inverse, low)
        weighted = weight * codes
        sum_l, sum_l2, sum_xl = steps.sums(weighted, weighted * codes, weighted * x)
        spread = sum_w * sum_l2 - sum_l * sum_l
        scale_of_fit = (sum_w * sum_xl - sum_x * sum_l) / spread
        lower = (sum_l2 * sum_x - sum_l * sum_xl) / spread
        above = lower > 0
        scale_of_fit = torch.where(above, sum_xl / sum_l2, scale_of_fit)
        lower = lower.masked_fill(above, 0)
        error = error_of(codes, scale_of_fit, lower)
        better = (spread > 0) & (error < least)
        return (
            torch.where(better, inverse, best),
            torch.where(better, low, low_of_best),
            torch.where(better, scale_of_fit, scale),
            torch.where(better, lower, low),
            torch.where(better, error, least),
        )

    inverse = _over(top, high - lowest)
    scale = _over(1, inverse)
    least = error_of(codes_of(inverse, lowest), scale, lowest)
    numbers = [_float32(tries.first, _times(tries.step, i), top) for i in range(tries.count)]
    best, low_of_best, scale, low, _ = steps.tried(numbers, (inverse, lowest, scale, lowest, least), attempt)
    minimum = -torch.where(flat, lowest, low)
    return scale.masked_fill(flat, 0), minimum, best.masked_fill(flat, 0), low_of_best


def _codes_of_largest(values: torch.Tensor, top: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the codes of one value of each block of a run, and their unit; the largest has code `top`."""
    largest = values.amax(0)
    some = largest > 0
    inverse = torch.where(some, _over(top, largest), 0)
    # A code is kept in a byte.
    codes = _nearest(inverse * values).bitwise_and_(255).clamp_(max=top)
    return codes.to(torch.int8), _of_blocks(torch.where(some, largest, 0) / top, codes)


def _positive_codes(
    values: torch.Tensor, weight: torch.Tensor, top: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the codes of one value of each block of a run, and their unit, by least squares.

    Nine units are tried, then each code is moved.
    """
    largest = values.amax(0).clamp(min=0)
    inverse = _over(top, largest)
    rest = values - _over(1, inverse) * _nearest(inverse * values)
    (least,) = BY_TORCH.sums(weight * rest * rest)
    for i in (-4, -3, -2, -1, 1, 2, 3, 4):
        tried = _over(_float32(_times(0.1, i), top), largest)
        rest = values - _over(1, tried) * _nearest(tried * values).clamp_(max=top)
        (error,) = BY_TORCH.sums(weight * rest * rest)
        better = error < least
        inverse = torch.where(better, tried, inverse)
        least = torch.where(better, error, least)
    first = _nearest(inverse * values).clamp_(max=top).to(torch.float32)
    moved, unit = _descended(BY_TORCH, values, weight, first, (0, top), rest_first=True)
    nothing = largest < _NOTHING
    codes = moved.masked_fill(nothing, 0).to(torch.int8)
    return codes, _of_blocks(unit.masked_fill(nothing, 0), codes)


def _of_blocks(of_runs: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return of_runs.expand(like.shape)


# ---- a scale that may be negative ---------------------------------------------------------------


def _signed(task: _SearchTask) -> _Results:
    """Return the scale of each block: Q6_K."""
    return (_best_scale(task.steps, task.x, task.weighted(), -task.fmt.code_min)[0],)


def _keep_signed(results: _Results, search: ScaleSearch, weighted: bool) -> _StoredScales:
    return _codes_of_extreme(results[0], search, of_nothing=0)


def _descent(task: _SearchTask) -> _Results:
    """Return the scale of each block: Q3_K.

    It is searched code by code without weights of columns; with weights their sum follows.
    """
    steps, x, fmt = task.steps, task.x, task.fmt
    if task.of_columns is not None:
        weight = task.weighted()
        return _best_scale(steps, x, weight, -fmt.code_min)[0], *steps.sums(weight)
    extreme = steps.extreme(x)
    weight = x * x
    ends = fmt.code_min, fmt.code_max
    codes = _nearest(_over(fmt.code_min, extreme) * x).clamp_(*ends).to(torch.float32)
    _, scale = _descended(steps, x, weight, codes, ends, rest_first=False)
    return (scale.masked_fill(extreme.abs() < _NOTHING, 0),)


def _keep_descent(results: _Results, search: ScaleSearch, weighted: bool) -> _StoredScales:
    if weighted:
        scale, total = results
        run, inverse = _best_scale(BY_TORCH, scale, total, -search.code_min)
        # In a run of zeros, every code is the smallest: inverse and scale are 0.
        nothing = BY_TORCH.extreme(scale).abs() < _NOTHING
        codes = _nearest(inverse * scale).clamp_(search.code_min, search.code_max)
        codes = codes.masked_fill_(nothing, search.code_min)
        return _StoredScales(codes.to(torch.int8), _of_blocks(_half(run), codes))
    # A block of zeros has bytes of 0, which the engine reads as the smallest code.
    return _codes_of_extreme(results[0], search, of_nothing=search.code_min)


def _best_scale(
    steps: SearchSteps, x: torch.Tensor, weight: torch.Tensor, top: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scale of least weighted squared error among nineteen, and the inverse that makes its codes.

    The value of largest magnitude has the code `-top`, or one close to it.
    """
    extreme = steps.extreme(x)
    weighted = steps.kept(weight * x)

    def sums(inverse: torch.Tensor) -> _Results:
        codes = _nearest(inverse * x).clamp_(-top, top - 1).to(torch.float32)
        return steps.sums(weighted * codes, weight * codes * codes)

    def attempt(number: Any, *before: torch.Tensor) -> _Results:
        inverse, scale, best = before
        inverse_of_fit = _over(number, extreme)
        products, squares = sums(inverse_of_fit)
        better = (squares > 0) & (products * products > best * squares)
        scale = torch.where(better, products / squares, scale)
        return (
            torch.where(better, inverse_of_fit, inverse),
            scale,
            torch.where(better, scale * products, best),
        )

    inverse = _over(-top, extreme)
    products, squares = sums(inverse)
    scale = torch.where(squares != 0, products / squares, 0)
    numbers = [-_float32(top, _times(0.1, i)) for i in (*range(-9, 0), *range(1, 10))]
    inverse, scale, _ = steps.tried(numbers, (inverse, scale, scale * products), attempt)
    nothing = extreme.abs() < _NOTHING
    return scale.masked_fill(nothing, 0), inverse.masked_fill(nothing, 0)


def _descended(
    steps: SearchSteps,
    x: torch.Tensor,
    weight: torch.Tensor,
    codes: torch.Tensor,
    ends: tuple[int, int],
    *,
    rest_first: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes and scale after moves of one code after the other to the least error, at most five rounds.

    `rest_first` chooses the sum of squares that must be above 0 for a move: that without the code, or that
    with the new code.
    """

    def move(
        value: torch.Tensor, new_scale: torch.Tensor, code: torch.Tensor, *before: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        products, squares = before
        product = products - new_scale * value * code
        square = squares - new_scale * code * code
        moved = _nearest(value * square / product).clamp_(*ends).to(torch.float32)
        moves = (product > 0) & (moved != code)
        if rest_first:
            moves = moves & (square > 0)
        product = product + new_scale * value * moved
        square = square + new_scale * moved * moved
        if not rest_first:
            moves = moves & (square > 0)
        moves = moves & (product * product * squares > products * products * square)
        return moves, moved, product, square

    codes = steps.kept(codes)
    sums = steps.sums(weight * x * codes, weight * codes * codes)
    codes, products, squares = steps.in_turn(5, (x, weight), codes, sums, move)
    return codes, torch.where(squares > 0, products / squares, 0)


def _codes_of_extreme(scale: torch.Tensor, search: ScaleSearch, *, of_nothing: int) -> _StoredScales:
    """Return the codes of scales: that of largest magnitude in a run has the smallest code.

    In a run of zeros all have the code `of_nothing`.
    """
    extreme = BY_TORCH.extreme(scale)
    nothing = extreme.abs() < _NOTHING
    inverse = _over(search.code_min, extreme)
    codes = (
        _nearest(inverse * scale).clamp_(search.code_min, search.code_max).masked_fill_(nothing, of_nothing)
    )
    return _StoredScales(
        codes.to(torch.int8), _of_blocks(_half(_over(1, inverse)).masked_fill(nothing, 0), codes)
    )


# ---- where columns have weights alone -----------------------------------------------------------


def _weighted_signed(task: _SearchTask) -> _Results:
    """Return the scale of each block, and the inverse that its codes are computed with: Q4_0 and Q5_0."""
    assert task.of_columns is not None
    return _best_scale(task.steps, task.x, task.weighted(), -task.fmt.code_min)


def _keep_weighted_signed(results: _Results, search: ScaleSearch, weighted: bool) -> _StoredScales:
    scale, inverse = results
    return _StoredScales(torch.ones_like(scale), _half(scale), exact=scale, inverse=inverse)


def _weighted_minimum(task: _SearchTask) -> _Results:
    """Return scale and minus the smallest value of each block, and the inverse and smallest value that make
    its codes: Q4_1 and Q5_1.
    """
    assert task.of_columns is not None
    top, tries = task.fmt.code_max, task.search.tries_weighted
    return _least_squares(task.steps, task.x, task.weighted(), top, tries, absolute=False)


def _keep_weighted_minimum(results: _Results, search: ScaleSearch, weighted: bool) -> _StoredScales:
    scale, minimum, inverse, lowest = results
    ones = torch.ones_like(scale)
    return _StoredScales(ones, _half(scale), ones, _half(minimum), scale, inverse, lowest)


# ---- a list of values ---------------------------------------------------------------------------


def _codebook(task: _SearchTask) -> _Results:
    """Return the scale of each block for a list of values, smallest first: IQ4_NL and IQ4_XS."""
    steps, x, fmt, weight = task.steps, task.x, task.fmt, task.weighted()
    extreme = steps.extreme(x)
    table = _by_halves(fmt)
    first, last = (2 * fmt.value_min, 2 * fmt.value_max)
    nothing = extreme.abs() < _NOTHING

    def sums(inverse: torch.Tensor) -> _Results:
        # Doubling is exact.
        halves = torch.floor(x * inverse.masked_fill(nothing, 0) * 2).clamp_(first, last).sub_(first)
        values = table[halves.to(torch.int64)]
        weighted = weight * values
        return steps.sums(weighted * x, weighted * values)

    def attempt(number: Any, *before: torch.Tensor) -> _Results:
        scale, best = before
        products, squares = sums(_over(number, extreme))
        better = (squares > 0) & (products * products > best * squares)
        scale = torch.where(better, products / squares, scale)
        return scale, torch.where(better, scale * products, best)

    smallest = fmt.codebook[0]
    products, squares = sums(_over(1, -extreme / smallest))
    scale = torch.where(squares > 0, products / squares, 0)
    numbers = [i + smallest for i in range(-7, 8)]
    scale, _ = steps.tried(numbers, (scale, scale * products), attempt)
    return (scale.masked_fill(nothing, 0),)


def _keep_codebook(results: _Results, search: ScaleSearch, weighted: bool) -> _StoredScales:
    (scale,) = results
    if search.run == 1:
        return _StoredScales(torch.ones_like(scale), _half(scale), exact=scale)
    unit = BY_TORCH.extreme(scale) / search.code_min
    inverse = torch.where(unit == 0, 0, _over(1, unit))
    codes = _nearest(inverse * scale).clamp_(search.code_min, search.code_max)
    return _StoredScales(codes.to(torch.int8), _of_blocks(_half(unit), codes), exact=unit * codes)


@functools.cache
def _by_halves(fmt: NumberFormat) -> torch.Tensor:
    """Return the nearest value, half up, of each multiple of 1/2 from the smallest value of a codebook to its
    largest.

    The codebook has whole numbers only, so that the middles between them are multiples of 1/2.
    """
    values = torch.tensor(fmt.codebook)
    halves = torch.arange(2 * fmt.value_min, 2 * fmt.value_max + 1) / 2
    return values[torch.bucketize(halves, (values[1:] + values[:-1]) / 2, right=True)]


@dataclass(frozen=True)
class _SearchMethod:
    #: Searches each block of some runs by itself.
    find: Callable[[_SearchTask], _Results]
    #: Encodes the result for storage; the last argument is whether columns have weights.
    keep: Callable[[_Results, ScaleSearch, bool], _StoredScales]
    blocks_per_chunk: int = _BLOCKS_PER_CHUNK


_METHODS: Mapping[str, _SearchMethod] = MappingProxyType(
    {
        "minimum": _SearchMethod(_minimum, _keep_minimum),
        "signed": _SearchMethod(_signed, _keep_signed),
        # Most of its steps are taken on one element of each block.
        "descent": _SearchMethod(_descent, _keep_descent, 16 * _BLOCKS_PER_CHUNK),
        "codebook": _SearchMethod(_codebook, _keep_codebook),
        "weighted_signed": _SearchMethod(_weighted_signed, _keep_weighted_signed),
        "weighted_minimum": _SearchMethod(_weighted_minimum, _keep_weighted_minimum),
    }
)
