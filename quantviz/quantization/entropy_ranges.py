"""Ranges at which the distribution of the values changes least once it is quantized: the searches of TensorRT
and of onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.quantization.histogram_ranges import (
    counted,
    counted_from_zero,
    edges_of_numpy,
    edges_of_torch,
    ends_of,
    largest_of,
    range_of,
)
from quantviz.schemes.calibration import BlockSource, BlockValues, Context, Range
from quantviz.schemes.engine_calibrations import EntropyONNXRuntime, EntropyTensorRT

Array = npt.NDArray[Any]

#: Divergences that differ by less count as equal: float64 is no more exact.
_SAME = 1e-12
#: Number of cells, of all clips to try, in memory at a time.
_CELLS_TOGETHER = 2**21


def entropy_tensorrt(calibration: EntropyTensorRT, blocks: BlockValues, context: Context) -> Range:
    """Return the edge of |x|'s histogram at which the divergence is least."""
    fmt = context.format
    bins = calibration.bins
    clips = np.arange(calibration.start_bin, bins + 1, calibration.stride)
    cells = 2 ** (fmt.bits - fmt.signed)

    def answer(part: BlockSource) -> tuple[torch.Tensor, torch.Tensor]:
        largest = largest_of(part)
        at = _least_change(counted_from_zero(part, largest, bins), clips, cells)
        clip = torch.from_numpy(edges_of_torch(largest, bins)[np.arange(len(at)), clips[at]])
        return -clip, clip

    return range_of(blocks, answer, bins)


def _least_change(counts: Array, clips: Array, cells: int) -> Array:
    """Return the place in `clips` of the clip that changes each histogram least, int64 (k,).

    A clip is the number of bins that it keeps. These bins, with all beyond added to the last one, are
    compared with the same bins merged into `cells` and spread evenly over the bins that are not empty. So a
    clip's divergence is made of sums up to the ends of its cells, which are added up once for all clips.
    """
    counts = counts.astype(np.float64)
    # As modelopt does: the first bin, of the values next to 0, counts as many as the second.
    counts[:, 0] = counts[:, 1]
    cumulated, filled, of_logs = (
        np.concatenate([np.zeros((len(counts), 1)), np.cumsum(each, axis=1)], axis=1)
        for each in (counts, counts > 0, _times_log(counts))
    )
    total = cumulated[:, -1:]
    # A clip whose last bin is empty, with values beyond it, has no finite divergence; one that keeps none has
    # none at all, which counts as the least: the last such is taken.
    none = cumulated[:, clips] == 0
    last = counts[:, clips - 1]
    divergence = np.full(none.shape, np.inf)
    rows, places = np.nonzero(~none & ((last > 0) | (cumulated[:, clips] == total)))
    step = max(_CELLS_TOGETHER // (cells + 1), 1)
    for begin in range(0, len(rows), step):
        row = rows[begin : begin + step]
        place = places[begin : begin + step]
        clip = clips[place]
        ends = -(-np.arange(cells + 1) * clip[:, None] // cells)
        inside, bins = (np.diff(each[row[:, None], ends]) for each in (cumulated, filled))
        beyond = total[row, 0] - cumulated[row, clip]
        last_count = last[row, place]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(inside > 0, np.log(inside / bins), 0)
        # The last bin that holds something is in the last cell that does.
        at = cells - 1 - np.argmax(inside[:, ::-1] > 0, axis=1)
        crossed = (inside * logs).sum(1) + beyond * logs[np.arange(len(row)), at]
        alone = of_logs[row, clip] - _times_log(last_count) + _times_log(last_count + beyond)
        divergence[row, place] = (alone - crossed) / total[row, 0] - np.log(
            total[row, 0] / cumulated[row, clip]
        )
    divergence[none] = -np.inf
    nearly = divergence <= divergence.min(1, keepdims=True) + _SAME
    return np.asarray(len(clips) - 1 - np.argmax(nearly[:, ::-1], axis=1))


def _times_log(counts: Array) -> Array:
    return np.asarray(counts * np.log(np.where(counts > 0, counts, 1)))


def entropy_onnxruntime(calibration: EntropyONNXRuntime, blocks: BlockValues, context: Context) -> Range:
    """Return the window around 0 at which the divergence is least, within the values."""
    bins = calibration.bins
    cells = calibration.quantized_bins

    def answer(part: BlockSource) -> tuple[torch.Tensor, torch.Tensor]:
        (lo, hi), largest = ends_of(part), largest_of(part)
        edges = edges_of_numpy(-largest, largest, bins)
        begin, end = least_window(lambda: counted(part, edges), bins, cells)
        rows = np.arange(len(lo))
        left = np.maximum(edges[rows, begin], lo)
        right = np.minimum(edges[rows, end], hi)
        usable = np.isfinite(edges).all(1)
        return (
            torch.from_numpy(np.where(usable, left, lo)),
            torch.from_numpy(np.where(usable, right, hi)),
        )

    return range_of(blocks, answer, bins)


def least_window(counts: Callable[[], Array], bins: int, cells: int) -> tuple[Array, Array]:
    """Return begin and end of onnxruntime's window of least divergence in each histogram of `bins` bins.

    `counts` returns the histograms (k, bins); it is not called if there is one window alone. A window is
    merged into `cells` cells.
    """
    middle = bins // 2
    windows = [(middle - half, min(middle + half + 1, bins)) for half in range(cells // 2, middle + 1)]
    at: Array = np.zeros(1, np.int64)
    if len(windows) > 1:
        of_all = counts()
        at = np.asarray(np.argmin([_divergence(of_all, *window, cells) for window in windows], axis=0))
    begin, end = np.array(windows)[at].T
    return begin, end


def _divergence(counts: Array, begin: int, end: int, cells: int) -> Array:
    """Return onnxruntime's divergence of a window of bins from the same window merged into cells, float64
    (k,); inf where one of the two is empty.

    The counts beyond the window are added to its end bins. A cell's share is cut to a whole number and given
    to its empty bins too, and the rest of the last cell is counted but not spread.
    """
    inside = counts[:, begin:end]
    size = (end - begin) // cells
    whole = inside.copy()
    whole[:, 0] += counts[:, :begin].sum(1)
    whole[:, -1] += counts[:, end:].sum(1)
    starts = np.arange(cells) * size
    merged = np.add.reduceat(inside, starts, axis=1)
    filled = np.add.reduceat((whole != 0).astype(np.int64)[:, : cells * size], starts, axis=1)
    share = np.where(filled > 0, merged / np.maximum(filled, 1), 0).astype(np.int64)
    spread = np.zeros_like(inside)
    spread[:, : cells * size] = np.repeat(share, size, axis=1)
    p, q = (_smoothed(each) for each in (whole, spread))
    with np.errstate(divide="ignore", invalid="ignore"):
        p, q = (each / each.sum(1, keepdims=True) for each in (p, q))
        divergence = (p * np.log(p / q)).sum(1)
    empty = (whole == 0).all(1) | (spread == 0).all(1)
    return np.where(empty, np.float32(np.inf), divergence)


def _smoothed(counts: Array, lift: float = 1e-4) -> Array:
    """Return the counts as float32, with a little moved from filled bins to empty ones."""
    zeros = counts == 0
    without = zeros.sum(1, keepdims=True).astype(np.float32)
    taken = lift * without.astype(np.float64) / np.maximum(counts.shape[1] - without, 1)
    smooth = np.float32(lift) * zeros.astype(np.float32) + (-taken).astype(np.float32) * (~zeros)
    return np.asarray(counts.astype(np.float32) + smooth)
