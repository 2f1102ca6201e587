"""Histograms and the worst cells, lines and blocks from one pass; nothing as large as x is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.evaluation.histogram_bins import ERROR_BINS, PARTS, HistogramData, ValueBins, histograms
from quantviz.evaluation.metric_formulas import METRICS, sqnr_db_of_lines
from quantviz.evaluation.moments import Moments, side_by_side
from quantviz.quantization.cells import quantize_cells
from quantviz.quantization.result import QParams, steps_of_error
from quantviz.schemes.granularity import BlockLayout, Shape, flat_index
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import limits
from quantviz.streaming.coding import Coder
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.pools import pooling_kernels
from quantviz.streaming.regions import place_of, read_only
from quantviz.streaming.tensor_facts import Facts, facts
from quantviz.streaming.threads import InOrder, shared_out
from quantviz.tensors.lazy import Stored

Array = npt.NDArray[Any]

#: Lines of an axis, or blocks, with sums of their own.
MOST_KEPT = 2**20
#: Least cells of a piece for each of its sums.
_CELLS_A_SUM = 8


def worst(lines: Moments, n: int) -> Array:
    """Return the places of the `n` largest Σe², the first of equal ones first; NaN last."""
    noise = _array(lines.e2)
    if n < len(noise):
        least = np.partition(noise, len(noise) - n)[len(noise) - n]
        among = np.flatnonzero(~(noise < least))
    else:
        among = np.arange(len(noise))
    return among[np.argsort(-noise[among], kind="stable")][:n]


def _array(values: torch.Tensor | None) -> Array:
    assert values is not None
    return values.numpy()


@dataclass(frozen=True)
class WorstCell:
    index: Shape
    x: float
    q: int
    x_hat: float
    error: float
    #: In its own steps.
    steps: float


@dataclass(frozen=True, eq=False)
class Survey:
    """One pass over a tensor under a scheme."""

    shape: Shape
    layout: BlockLayout
    qparams: QParams
    histograms: HistogramData
    #: Of largest |error|, the first of equal ones first; none without error.
    cells: tuple[WorstCell, ...]
    #: For each index of each axis, over all others: Σx², Σe², the largest |e| and the number of cells that
    #: count; none for an axis longer than `MOST_KEPT`.
    axes: tuple[Moments | None, ...]
    #: Of the worst ones.
    blocks: Moments
    #: Theirs, row-major in the grid: int64, ascending.
    block_numbers: Array
    #: Σerror².
    noise: float


def survey(x: Stored, scheme: Scheme, qparams: QParams, n: int = 20, *, known: Facts | None = None) -> Survey:
    """Return histograms, the `n` worst cells and blocks, and the sums of each line, from one pass over x.

    `qparams` are the whole tensor's. Without its facts, `known`, one more pass computes them.

    >>> from quantviz import choose_qparams
    >>> from quantviz.tensors.lazy import InMemory
    >>> x, scheme = torch.tensor([[1.0, -8.0, 2.0, 3.0], [0.5, 4.0, 0.0, 7.0]]), Scheme("int4")
    >>> found = survey(InMemory(x), scheme, choose_qparams(x, scheme), n=2)
    >>> [(cell.index, cell.q) for cell in found.cells]
    [((1, 1), 3), ((1, 0), 0)]
    >>> [len(lines.e2) for lines in found.axes], found.histograms.cells
    ([2, 4], 8)
    """
    known = known or facts(x)
    bins = ValueBins.of(scheme, qparams, x.count - known.nonfinite, known.lo, known.hi)
    coder = Coder(scheme, qparams, x.shape)
    plan = _SurveyPlan(x.shape, scheme, qparams, n, bins)
    whole = _SurveyTally(plan, 0, x.count)
    in_order = InOrder(whole.join)

    def add(pieces: Iterator[tuple[int, tuple[int, int]]]) -> None:
        buffers = Buffers(limits.CELLS_PER_STEP)
        for k, (start, stop) in pieces:
            tally = _SurveyTally(plan, start, stop)
            tally.add(x, coder, buffers)
            in_order.put(k, tally)

    shared_out(add, enumerate(plan.pieces()))
    return whole.survey(x)


def worst_cells(result: Survey) -> dict[str, list[Any]]:
    # Columns of a table.
    return {
        name: [getattr(cell, name) for cell in result.cells]
        for name in ("index", "x", "x_hat", "error", "steps")
    }


def worst_lines(result: Survey, axis: int, n: int = 20) -> dict[str, list[Any]]:
    """Return the worst lines along an axis as columns of a table; empty beyond `MOST_KEPT`.

    Ranked by Σerror²: improving the first helps the tensor most. By SQNR a line of tiny values, which hardly
    matter to any output, would come first. `noise_share` is the line's share of the tensor's noise.
    """
    lines = result.axes[axis]
    places = np.zeros(0, dtype=np.int64) if lines is None else worst(lines, n)
    return {
        "index": places.tolist(),
        **({} if lines is None else _columns(lines.at(torch.from_numpy(places)), result.noise)),
    }


def worst_blocks(result: Survey, n: int = 20) -> dict[str, list[Any]]:
    """Return the worst blocks as columns, ranked as lines; `index` is that of the first cell."""
    places = worst(result.blocks, n)
    numbers = result.block_numbers[places]
    layout = result.layout
    blocks = [place_of(int(number), layout.grid_shape) for number in numbers]
    corners = [tuple(i * size for i, size in zip(block, layout.block_shape, strict=True)) for block in blocks]
    return {
        "block": blocks,
        "index": [place_of(flat_index(corner, layout.view_shape), result.shape) for corner in corners],
        "scale": [float(result.qparams.scale[block]) for block in blocks],
        **_columns(result.blocks.at(torch.from_numpy(places)), result.noise),
    }


def _columns(lines: Moments, noise: float) -> dict[str, list[Any]]:
    e2 = _array(lines.e2)
    share = e2 / noise if noise else np.zeros_like(e2)
    columns = {
        "sqnr_db": sqnr_db_of_lines(lines),
        "rmse": METRICS["rmse"].of(lines),
        "largest_error": METRICS["max_abs_error"].of(lines),
    }
    return {**{name: values.tolist() for name, values in columns.items()}, "noise_share": share.tolist()}


@dataclass(frozen=True, eq=False)
class _SurveyPlan:
    """The bins, sums and pieces of a survey, by tensor and scheme alone."""

    shape: Shape
    scheme: Scheme
    qparams: QParams
    #: Worst cells and blocks to keep.
    n: int
    bins: ValueBins

    @cached_property
    def layout(self) -> BlockLayout:
        return self.scheme.layout(self.shape)

    @cached_property
    def lines(self) -> tuple[BlockLayout | None, ...]:
        # As blocks.
        return tuple(
            _of_axis(self.shape, axis) if n <= MOST_KEPT else None for axis, n in enumerate(self.shape)
        )

    @cached_property
    def all_kept(self) -> bool:
        # Else those of the worst of each piece.
        return self.layout.block_count <= MOST_KEPT or self.layout.grid_shape[0] == 1

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield start and stop of pieces of about `limits.CELLS_PER_READ` cells.

        They have many times as many cells as sums, so that joining takes hardly any time, and are whole rows
        of blocks if not all have sums.
        """
        kept = [*filter(None, self.lines), *([self.layout] if self.all_kept else [])]
        most = max(
            limits.CELLS_PER_READ, _CELLS_A_SUM * sum(math.prod(layout.grid_shape[1:]) for layout in kept)
        )
        count = math.prod(self.shape)
        row = 1 if self.all_kept else _row_of_blocks(self.layout)
        size = max(1, most // row) * row
        return ((start, min(start + size, count)) for start in range(0, count, size))


class _SurveyTally:
    """Counts and sums over the cells from `start` to before `stop`."""

    def __init__(self, plan: _SurveyPlan, start: int, stop: int) -> None:
        self._plan = plan
        self._start = start
        self._stop = stop
        self._value_counts = np.zeros((len(PARTS), len(plan.bins.edges) - 1), dtype=np.int64)
        self._error_counts = np.zeros((len(PARTS), ERROR_BINS + 2), dtype=np.int64)
        self._worst: list[tuple[float, int]] = []
        self._axes = [_Adder(lines, start, stop) if lines else None for lines in plan.lines]
        # Channels are blocks and lines at once.
        twins = (
            adder
            for adder, lines in zip(self._axes, plan.lines, strict=True)
            if adder and lines and _same_blocks(lines, plan.layout)
        )
        self._blocks = next(twins, None) or (_Adder(plan.layout, start, stop) if plan.all_kept else None)
        self._worst_blocks: list[tuple[Array, Moments]] = []
        self._noise = 0.0

    def add(self, x: Stored, coder: Coder, buffers: Buffers) -> None:
        plan = self._plan
        blocks = self._blocks or _Adder(self._plan.layout, self._start, self._stop)
        largest = _WorstOfRun(plan.n)
        for begin in range(self._start, self._stop, limits.CELLS_PER_STEP):
            values = x.run(begin, min(begin + limits.CELLS_PER_STEP, self._stop))
            results = buffers.part(0, len(values))
            coder.put(values, begin, results)
            _, x_hat, error, clipped, steps = results.arrays
            counted: tuple[Array, ...] = values, x_hat, clipped, steps
            finite = np.isfinite(values)
            if not finite.all():
                counted = tuple(values[finite] for values in counted)
                values = np.where(finite, values, np.float32(0))
                error = np.where(finite, error, np.float32(0))
            pooling_kernels().add_to_bins(
                read_only(counted[0]),
                *counted[1:],
                plan.bins.edges,
                plan.bins.cuts,
                self._value_counts,
                self._error_counts,
            )
            for adder in {id(adder): adder for adder in (*self._axes, blocks) if adder}.values():
                adder.add(values, error, None if finite.all() else ~finite, begin)
            largest.add(error, begin)
        self._worst += largest.cells()
        if self._blocks is None:
            moments = blocks.moments
            places = np.sort(worst(moments, plan.n))
            self._worst_blocks.append((blocks.first + places, moments.at(torch.from_numpy(places))))
            self._noise += float(_array(moments.e2).sum())

    def join(self, other: _SurveyTally) -> None:
        self._value_counts += other._value_counts
        self._error_counts += other._error_counts
        self._worst += other._worst
        self._worst_blocks += other._worst_blocks
        self._noise += other._noise
        pairs = zip((*self._axes, self._blocks), (*other._axes, other._blocks), strict=True)
        for mine, more in {id(mine): (mine, more) for mine, more in pairs if mine and more}.values():
            mine.join(more)

    def survey(self, x: Stored) -> Survey:
        plan = self._plan
        if self._blocks:
            blocks = self._blocks.moments
            numbers = np.arange(plan.layout.block_count)
            noise = float(_array(blocks.e2).sum())
        else:
            numbers = np.concatenate([numbers for numbers, _ in self._worst_blocks])
            blocks = side_by_side(moments for _, moments in self._worst_blocks)
            noise = self._noise
        places = np.sort(worst(blocks, plan.n))
        return Survey(
            plan.shape,
            plan.layout,
            plan.qparams,
            histograms(plan.scheme, plan.qparams, plan.bins, self._value_counts, self._error_counts),
            self._cells(x),
            tuple(adder.moments if adder else None for adder in self._axes),
            blocks.at(torch.from_numpy(places)),
            numbers[places],
            noise,
        )

    def _cells(self, x: Stored) -> tuple[WorstCell, ...]:
        plan = self._plan
        places = [place for _, place in sorted(self._worst)[: plan.n]]
        values = torch.tensor([float(x.run(place, place + 1)[0]) for place in places], dtype=torch.float32)
        r = quantize_cells(
            values, plan.scheme, plan.qparams, plan.shape, torch.tensor(places, dtype=torch.int64)
        )
        numbers = (
            numbers_of_cell.tolist() for numbers_of_cell in (r.x, r.q, r.x_hat, r.error, steps_of_error(r))
        )
        return tuple(
            WorstCell(place_of(place, plan.shape), *numbers_of_cell)
            for place, *numbers_of_cell in zip(places, *numbers, strict=True)
        )


class _WorstOfRun:
    def __init__(self, n: int) -> None:
        self._sizes = np.full(n, -1.0, dtype=np.float32)
        self._places = np.zeros(n, dtype=np.int64)
        self._count = 0

    def add(self, error: Array, start: int) -> None:
        self._count = pooling_kernels().keep_largest(error, start, self._sizes, self._places, self._count)

    def cells(self) -> Iterator[tuple[float, int]]:
        # Sorted, the worst come first.
        return zip((-self._sizes[: self._count]).tolist(), self._places[: self._count].tolist(), strict=True)


class _Adder:
    """Sums by the blocks that some cells reach, and others in the same rows of blocks."""

    def __init__(self, layout: BlockLayout, start: int, stop: int) -> None:
        self._layout = layout
        row = math.prod(layout.grid_shape[1:])
        inner = _row_of_blocks(layout)
        self.first = start // inner * row
        count = -(-stop // inner) * row - self.first
        self._signal = np.zeros(count)
        self._noise = np.zeros(count)
        self._largest = np.zeros(count, dtype=np.float32)
        self._left_out = np.zeros(count)
        fill = (1,) * (4 - len(layout.view_shape))
        self._sizes = tuple(
            np.array(fill + lengths) for lengths in (layout.view_shape, layout.block_shape, layout.grid_shape)
        )

    def add(self, x: Array, error: Array, left_out: Array | None, start: int) -> None:
        # x and error are 0 where a cell is left out.
        pooling_kernels().add_by_block(
            read_only(x), error, start, *self._sizes, self.first, self._signal, self._noise, self._largest
        )
        if left_out is not None:
            ones = left_out.astype(np.float32)
            pooling_kernels().add_by_block(
                read_only(ones),
                ones,
                start,
                *self._sizes,
                self.first,
                self._left_out,
                np.zeros_like(self._noise),
                np.zeros_like(self._largest),
            )

    def join(self, other: _Adder) -> None:
        here = slice(other.first - self.first, other.first - self.first + len(other._noise))
        self._signal[here] += other._signal
        self._noise[here] += other._noise
        self._left_out[here] += other._left_out
        np.maximum(self._largest[here], other._largest, out=self._largest[here])

    @property
    def moments(self) -> Moments:
        layout = self._layout
        places = np.unravel_index(np.arange(self.first, self.first + len(self._noise)), layout.grid_shape)
        cells = np.ones(len(self._noise), dtype=np.int64)
        for at, size, length in zip(places, layout.block_shape, layout.view_shape, strict=True):
            cells *= np.minimum(size, length - at * size)
        x2, e2, largest, count = map(
            torch.from_numpy,
            (self._signal, self._noise, self._largest.astype(np.float64), cells - self._left_out),
        )
        return Moments(cells=count, x2=x2, e2=e2, max_error=largest)


def _of_axis(shape: Shape, axis: int) -> BlockLayout:
    return BlockLayout(
        shape,
        tuple(1 if i == axis else n for i, n in enumerate(shape)),
        tuple(n if i == axis else 1 for i, n in enumerate(shape)),
    )


def _same_blocks(one: BlockLayout, other: BlockLayout) -> bool:
    return replace(one, tail=other.tail) == other


def _row_of_blocks(layout: BlockLayout) -> int:
    # The blocks at one place along the grid's first axis are neighbours in memory.
    return layout.block_shape[0] * math.prod(layout.view_shape[1:])
