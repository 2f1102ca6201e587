"""Ranges that follow from a histogram of each block, as engines make and read it.

Bins are those of the engine's own library, float32 in the same order of operations, so that a value lies in
the same bin. Counts are whole numbers, and so the same for any size of the parts that are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.schemes.calibration import BlockSource, BlockValues, Context, Range
from quantviz.schemes.engine_calibrations import MSETorch, PercentileModelopt, PercentileONNXRuntime
from quantviz.tensors.blocks import viewed

Array = npt.NDArray[Any]

#: Number of bins, of all blocks, in memory at a time.
BINS_TOGETHER = 2**22


def blocks_together(bins: int) -> int:
    return max(BINS_TOGETHER // bins, 1)


def percentile_onnxruntime(
    calibration: PercentileONNXRuntime, blocks: BlockValues, context: Context
) -> Range:
    """Return the left edges of the bins in which the percentiles lie, within the values."""
    bins = calibration.bins
    symmetric = context.mode == "symmetric"

    def answer(part: BlockSource) -> tuple[torch.Tensor, torch.Tensor]:
        lo, hi = ends_of(part)
        if symmetric:
            edges = edges_of_numpy(*magnitude_ends(part), bins)
            right = bin_at_share(counted(part, edges, of_magnitudes=True), edges, calibration.p / 100)
            left = -right
        else:
            largest = np.maximum(np.abs(lo), np.abs(hi))
            edges = edges_of_numpy(-largest, largest, bins)
            cut = (100 - calibration.p) / 200
            counts = counted(part, edges)
            left, right = (bin_at_share(counts, edges, share) for share in (cut, 1 - cut))
        return _as_answer(np.maximum(left, lo), np.minimum(right, hi), lo, hi)

    return range_of(blocks, answer, bins)


def percentile_modelopt(calibration: PercentileModelopt, blocks: BlockValues, context: Context) -> Range:
    """Return the left edge of the bin in which the percentile of |x| lies."""
    bins = calibration.bins

    def answer(part: BlockSource) -> tuple[torch.Tensor, torch.Tensor]:
        largest = largest_of(part)
        edges = edges_of_torch(largest, bins)
        counts = counted_from_zero(part, largest, bins)
        clip = bin_at_share(counts, edges, calibration.p / 100)
        return _as_answer(-clip, clip, -largest, largest)

    return range_of(blocks, answer, bins)


def mse_torch(calibration: MSETorch, blocks: BlockValues, context: Context) -> Range:
    """Return the range at which torch's search stops."""
    bins = calibration.bins
    # torch counts the codes of the type that they are stored in.
    cells = 2.0 ** (8 if context.format.bits <= 8 else 16)

    def answer(part: BlockSource) -> tuple[torch.Tensor, torch.Tensor]:
        lo, hi = ends_of(part)
        limits = torch.from_numpy(lo), torch.from_numpy(hi)
        counts = counts_of(part, bins, lambda x, low, high: (x - low) * bins / (high - low), *limits)
        # For values near the ends of float32, errors overflow or are NaN, which must not end the search.
        with np.errstate(all="ignore"):
            first, last = Quantiles(counts, lo, hi, cells).search()
            width = (hi - lo) / np.float32(bins)
            first = first.astype(np.float32)
            beyond = (last + 1).astype(np.float32)
            return _as_answer(lo + width * first, lo + width * beyond, lo, hi)

    return range_of(blocks, answer, bins)


def range_of(
    blocks: BlockValues, answer: Callable[[BlockSource], tuple[torch.Tensor, torch.Tensor]], bins: int
) -> Range:
    """Return the ranges whose ends `answer` computes, for blocks with `bins` bins each."""
    extreme = blocks.extreme()
    lo, hi = (end.to(extreme.dtype) for end in blocks.by_parts(answer, 2, blocks_together(bins)))
    return Range(lo, hi, extreme)


def ends_of(part: BlockSource) -> tuple[Array, Array]:
    lo, hi = part.ends
    return lo.numpy(), hi.numpy()


def largest_of(part: BlockSource) -> Array:
    lo, hi = ends_of(part)
    return np.maximum(np.abs(lo), np.abs(hi))


def magnitude_ends(part: BlockSource) -> tuple[Array, Array]:
    """Return smallest and largest |x| of each block, float32."""

    def least(x: torch.Tensor) -> torch.Tensor:
        return x.abs().nan_to_num(math.inf).amin(-1, keepdim=True)

    largest = largest_of(part)
    return np.minimum(part.joined(least, torch.minimum).squeeze(-1).numpy(), largest), largest


def edges_of_numpy(first: Array, last: Array, bins: int) -> Array:
    """Return the edges (k, bins + 1) that `numpy.histogram` makes, float32."""
    alone = first == last
    first = np.where(alone, first - np.float32(0.5), first)
    last = np.where(alone, last + np.float32(0.5), last)
    with np.errstate(over="ignore", invalid="ignore"):
        step = (last - first) / np.float32(bins)
        edges: Array = np.arange(bins + 1, dtype=np.float32) * step[:, None] + first[:, None]
    edges[:, -1] = last
    return edges


def edges_of_torch(last: Array, bins: int) -> Array:
    """Return the edges (k, bins + 1) from 0 to each of `last`, float32."""
    places = np.arange(bins + 1, dtype=np.float32)
    step = (last / np.float32(bins))[:, None]
    return np.where(places < (bins + 1) // 2, step * places, last[:, None] - step * (bins - places))


def counted(part: BlockSource, edges: Array, *, of_magnitudes: bool = False) -> Array:
    """Return the number of values (or magnitudes) between edges, as `numpy.histogram` counts, int64 (k,
    bins).

    A value on an edge belongs to the bin that begins there, on the last edge to the last bin.
    """
    bins = edges.shape[1] - 1
    all_edges = torch.from_numpy(edges)

    def places(x: torch.Tensor, first: torch.Tensor, span: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        values = x.abs() if of_magnitudes else x
        index = _within((values - first) / span * bins, bins)
        # Move values back that the rounding of the division put beyond an edge.
        row_edges = all_edges[row.squeeze(-1)]
        index -= (values < row_edges.gather(-1, index)).to(torch.int64)
        beyond = (values >= row_edges.gather(-1, index + 1)) & (index < bins - 1)
        return torch.add(index, beyond.to(torch.int64))

    first = torch.from_numpy(edges[:, 0].copy())
    last = torch.from_numpy(edges[:, -1].copy())
    return counts_of(part, bins, places, first, last - first, torch.arange(len(edges)))


def counted_from_zero(part: BlockSource, largest: Array, bins: int) -> Array:
    """Return the number of |x| in each bin from 0 to the largest, as `torch.histc` counts: int64 (k,
    bins).
    """
    # With nothing but zeros torch counts from -1 to 1.
    low = np.where(largest > 0, np.float32(0), -1)
    high = np.where(largest > 0, largest, np.float32(1))
    limits = (torch.from_numpy(each.astype(np.float32)) for each in (low, high))
    return counts_of(part, bins, lambda x, low, high: (x.abs() - low) * bins / (high - low), *limits)


def counts_of(
    part: BlockSource, bins: int, place: Callable[..., torch.Tensor], *of_blocks: torch.Tensor
) -> Array:
    """Return the number of values in each bin, int64 (k, bins).

    `place` returns the bin of each value, with or without a fraction.
    """

    def of_rows(x: torch.Tensor, *limits: torch.Tensor) -> torch.Tensor:
        places = _within(place(x, *limits), bins)
        places = places + torch.arange(len(x)).unsqueeze(-1) * bins
        counts = torch.bincount(places[~x.isnan()], minlength=len(x) * bins)
        return viewed(counts, (len(x), bins))

    return np.asarray(part.added_up(of_rows, *of_blocks).numpy())


def _within(places: torch.Tensor, bins: int) -> torch.Tensor:
    whole = places.nan_to_num(0, bins, 0).to(torch.int64) if places.is_floating_point() else places
    return whole.clamp(0, bins - 1)


def bin_at_share(counts: Array, edges: Array, share: float) -> Array:
    """Return the left edge of the bin at which `share` of the values is reached."""
    total = np.maximum(counts.sum(1, keepdims=True), 1)
    reached = np.cumsum(counts / total, axis=1)
    at = (reached < share).sum(1)
    return np.asarray(edges[np.arange(len(edges)), at])


def _as_answer(left: Array, right: Array, lo: Array, hi: Array) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the ends; the values' own where the engine's arithmetic goes beyond float32."""
    usable = np.isfinite(left) & np.isfinite(right)
    return (
        torch.from_numpy(np.where(usable, left, lo)),
        torch.from_numpy(np.where(usable, right, hi)),
    )


class Quantiles:
    """torch's search in the histograms (k, bins) of some blocks, which go through it side by side.

    Both quantiles begin at the ends of the values; a step moves the one that passes more bins inwards by
    1e-5, and once the modelled error of the bins between them rises, the search is over. Steps that move no
    end are skipped.
    """

    _STEPS = 100_001
    #: The quantile after each number of steps, added up as torch does.
    _LOW = np.add.accumulate(np.r_[0.0, np.full(_STEPS, 1e-5)])
    _HIGH = np.subtract.accumulate(np.r_[1.0, np.full(_STEPS, 1e-5)])

    def __init__(self, counts: Array, lo: Array, hi: Array, cells: float) -> None:
        self._counts = counts.astype(np.float32)
        self._cells = cells
        self._sums = np.cumsum(counts, axis=1).astype(np.float32)
        self._total = counts.sum(1).astype(np.float32).astype(np.float64)
        self._width = (hi.astype(np.float64) - lo.astype(np.float64)) / counts.shape[1]

    def search(self) -> tuple[Array, Array]:
        """Return the first and the last bin of each block's range."""
        rows, bins = self._counts.shape
        first = np.zeros(rows, np.int64)
        last = np.full(rows, bins - 1)
        # The number of steps of each quantile, and the least error so far.
        low = np.zeros(rows, np.int64)
        high = np.zeros(rows, np.int64)
        least = np.full(rows, np.inf)
        live = np.flatnonzero((self._width > 0) & np.isfinite(self._width) & (self._total > 0))
        while len(live):
            a = first[live]
            b = last[live]
            left = self._left(live, a, b, low[live])
            steps = np.where(left > a, high[live] + 1, self._until_moved(live, b, high[live]))
            right = self._right(live, a, b, steps)
            goes_on = (
                (steps < self._STEPS)
                & (self._LOW[low[live]] < self._HIGH[np.minimum(steps, self._STEPS) - 1])
                & ((left > a) | (right < b))
            )
            live, a, b, left, right, steps = (each[goes_on] for each in (live, a, b, left, right, steps))
            from_left = left - a > b - right
            a = np.where(from_left, left, a)
            b = np.where(from_left, b, right)
            low[live] += from_left
            high[live] = np.where(from_left, high[live], steps)
            error = self._error(live, a, b)
            better = ~(error > least[live])
            live = live[better]
            least[live] = error[better]
            first[live] = a[better]
            last[live] = b[better]
        return first, last

    def _left(self, rows: Array, a: Array, b: Array, low: Array) -> Array:
        bar = (self._LOW[low + 1] * self._total[rows]).astype(np.float32)
        return self._within(self._sums[rows] < bar[:, None], a, b)

    def _right(self, rows: Array, a: Array, b: Array, steps: Array) -> Array:
        bar = (self._HIGH[np.minimum(steps, self._STEPS)] * self._total[rows]).astype(np.float32)
        return self._within(self._sums[rows] <= bar[:, None], a, b, 1)

    @staticmethod
    def _within(before: Array, a: Array, b: Array, less: int = 0) -> Array:
        return np.asarray(np.clip(before.sum(1) - less, a, b))

    def _until_moved(self, rows: Array, b: Array, high: Array) -> Array:
        """Return after how many steps the upper quantile lies below all that is up to bin `b`."""
        reached = self._sums[rows, b]
        total = self._total[rows]
        steps: Array = np.maximum(high + 1, ((1 - reached / total) / 1e-5).astype(np.int64) - 2)
        while True:
            still = (reached <= (self._HIGH[np.minimum(steps, self._STEPS)] * total).astype(np.float32)) & (
                steps < self._STEPS
            )
            if not still.any():
                break
            steps = steps + still
        return steps

    def _error(self, rows: Array, a: Array, b: Array) -> Array:
        """Return the modelled Σ error² of the values between bins `a` and `b`, by torch's float32
        arithmetic: values are spread evenly over their bin, and each part of one goes to its cell's middle.
        """
        width = self._width[rows]
        cell64 = width * (b - a + 1) / self._cells
        bin_, cell, half = (each.astype(np.float32)[:, None] for each in (width, cell64, cell64 / 2))
        density = self._counts[rows] / bin_
        begin = (np.arange(self._counts.shape[1]) - a[:, None]).astype(np.float32) * bin_
        end = begin + bin_
        most = np.float32(self._cells - 1)
        of_begin, of_end = (np.clip(np.floor(each / cell), 0, most) for each in (begin, end))

        def norm(low: Array, high: Array) -> Array:
            return np.asarray(density * ((high * high * high - low * low * low) / np.float32(3)))

        error = norm(begin - (of_begin + np.float32(0.5)) * cell, half)
        error = error + (of_end - of_begin - 1) * norm(-half, half)
        error = error + norm(-half, end - (of_end * cell + half))
        return np.asarray(error.astype(np.float64).sum(1))
