"""The search for the clipping range of each block whose squared error is least.

Errors are measured, not modelled: a trial runs the reference quantizer under the very scheme, so that the
ranges are right for float formats, codebooks and scales that are powers of two, too. Blocks are searched side
by side, each at its own places. The searches of engines, each of a fixed list of ranges, are at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from quantviz.budget import StepCounter
from quantviz.schemes.calibration import MSE, BlockValues, Context, Range
from quantviz.schemes.engine_calibrations import MSELLMCompressor, MSEModelopt
from quantviz.tensors.blocks import viewed

#: A better range reduces the error by at least this part: far more than sums differ by in any order of
#: addition.
LESS = 2.0**-20
#: The last round over both ends is one that reduces every block's error by less than this part.
_LESS_OF_ROUND = 1e-3
#: The part by which one value's squared clipping error must exceed a block's error to count as larger, and
#: the part of the value that is taken off its clipping, for its own rounding.
_MARGIN = 1e-3
_ROUNDED = 2.0**-20
#: Number of parts of the way to the whole range at first, and of the way of one end in a round.
_FIRST = 200
_OF_END = 40
#: Number of parts into which a part is cut that may have less error.
_FINER = 10
#: Number of ranges that are tried at once, of all blocks together: more are no faster, and a step is short
#: enough to check a budget between two.
_RANGES_PER_STEP = 2**16

#: Parts before the whole range at which it is checked for too much clipping, and points of a curve's bend.
_LOOKED_AT = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, _FIRST - 1)
_BEND = 3

#: Returns the ends to try from places along the way, 0 to 1, and the numbers of their blocks.
_Way = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def least_error(calibration: MSE, blocks: BlockValues, context: Context) -> Range:
    """Return the range of least Σ error² of each block, within its smallest and largest value.

    Symmetric, both ends are multiplied by one factor. Asymmetric, both are first drawn in towards 0, or
    towards the end nearest to it; then the range is moved and each end drawn in by itself, round after round.
    The first trial is the whole range, and only a smaller error replaces it.
    """
    search = _BestRanges(Range(*blocks.min_max(), blocks.extreme()), context)
    (lo, hi), falling = (end.to(torch.float64) for end in search.ends), search.error > 0
    if context.mode == "symmetric":
        search.outwards(lambda t, of: (t * lo[of], t * hi[of]), falling)
        return search.best
    towards = torch.zeros_like(lo).clamp(lo, hi)
    search.outwards(
        lambda t, of: (towards[of] + t * (lo - towards)[of], towards[of] + t * (hi - towards)[of]), falling
    )
    while bool(falling.any()):
        before = search.error
        for way in (_moved, _lower_end, _upper_end):
            search.along(way(search.ends, lo, hi), _OF_END, falling)
        falling = falling & (search.error < before * (1 - _LESS_OF_ROUND))
    return search.best


_Ends = tuple[torch.Tensor, torch.Tensor]


def _moved(best: _Ends, lo: torch.Tensor, hi: torch.Tensor) -> _Way:
    """Return the range as wide as it is, from the lower end of the whole to the upper."""
    width = best[1].to(torch.float64) - best[0].to(torch.float64)
    room = hi - lo - width

    def way(t: torch.Tensor, of: torch.Tensor) -> _Ends:
        lower = lo[of] + t * room[of]
        return lower, lower + width[of]

    return way


def _lower_end(best: _Ends, lo: torch.Tensor, hi: torch.Tensor) -> _Way:
    upper = best[1].to(torch.float64)
    return lambda t, of: (upper[of] + t * (lo - upper)[of], upper[of])


def _upper_end(best: _Ends, lo: torch.Tensor, hi: torch.Tensor) -> _Way:
    lower = best[0].to(torch.float64)
    return lambda t, of: (lower[of], lower[of] + t * (hi - lower)[of])


class _BestRanges:
    """The best range of each block so far; blocks are one after the other."""

    def __init__(self, whole: Range, context: Context) -> None:
        self._whole = whole
        self._trial = context.trial
        self._reach = context.reach
        self.ends: _Ends = whole.lo.flatten(), whole.hi.flatten()
        #: Its error.
        self.error = context.trial(whole).flatten()

    @property
    def best(self) -> Range:
        lo, hi = (viewed(end, tuple(self._whole.lo.shape)) for end in self.ends)
        return Range(lo, hi, self._whole.extreme)

    def outwards(self, way: _Way, falling: torch.Tensor) -> None:
        """Try the way from 0 to the whole range, but for a beginning in which the clipping of a block's
        largest value alone exceeds the error of the whole range.
        """
        begin = self._first_worth_a_trial(way)
        for first in sorted(set(begin[falling].tolist())):
            self.along(way, _FIRST, falling & (begin == first), first)

    def _first_worth_a_trial(self, way: _Way) -> torch.Tensor:
        """Return the part of the way that the trials of each block begin with, counted from 0."""
        lo, hi = (end.flatten().to(torch.float64) for end in (self._whole.lo, self._whole.hi))
        begin = torch.zeros(len(lo), dtype=torch.int64)
        of = torch.arange(len(lo))
        clips = torch.ones(len(lo), dtype=torch.bool)
        # From the narrowest range on: a wider one clips less.
        for parts in reversed(_LOOKED_AT):
            ends = self._range_at(way, torch.full((len(lo),), 1 - parts / _FIRST, dtype=torch.float64), of)
            reached = self._reach(ends, of) if self._reach else None
            if reached is None:
                break
            low, high = (end.flatten() for end in reached)
            clipped = torch.maximum(_short(-lo, -low), _short(hi, high))
            clips = clips & (clipped.square() > self.error * (1 + _MARGIN))
            begin = torch.where(clips, _FIRST - parts, begin)
        return begin

    def _range_at(self, way: _Way, t: torch.Tensor, of: torch.Tensor) -> Range:
        lo, hi = (end.to(self.ends[0].dtype) for end in way(t, of))
        return Range(lo, hi, self._whole.extreme)

    def along(self, way: _Way, parts: int, falling: torch.Tensor, begin: int = 0) -> None:
        """Try a way at equal distances, from its part `begin` on, then more finely wherever the error may be
        less, until a block's error no longer falls.

        A curve of errors can have many minima: with few values it is a sum of few arcs. So each part is
        checked by itself, and all parts in which the curve may fall below the best error are searched. Only
        blocks that are `falling` take part; no block's result depends on the others beside it.
        """
        # The parts of all blocks, block after block: whose each is, where it begins, and its errors at both
        # ends and between.
        (of,), seen = falling.nonzero(as_tuple=True), max(begin - _BEND, 0)
        begins = torch.zeros(len(of), dtype=torch.float64)
        step = 1 / parts
        points = torch.arange(seen + 1, parts + 1, dtype=torch.float64)
        errors = torch.full((len(of), len(points) + 1), torch.inf, dtype=torch.float64)
        goes_on = falling
        is_first = True
        while len(of):
            before = self.error
            places = begins.unsqueeze(1) + points * step
            errors[:, 1 : len(points) + 1] = self._try(way, places, of)
            # At the first distance all go on: a finer one may still find a smaller error.
            goes_on = goes_on & ((self.error < before) | is_first)
            promising = _promising(errors, self.error[of]) & goes_on[of].unsqueeze(1)
            promising[:, : begin - seen] = False
            part, place = promising.nonzero(as_tuple=True)
            ends = errors[part, place], errors[part, place + 1]
            of = of[part]
            begins = begins[part] + (place + seen).to(torch.float64) * step
            step = step / _FINER
            points = torch.arange(1, _FINER, dtype=torch.float64)
            errors = torch.full((len(of), _FINER + 1), torch.inf, dtype=torch.float64)
            errors[:, 0], errors[:, -1] = ends
            begin = 0
            seen = 0
            is_first = False

    def _try(self, way: _Way, places: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        size = max(1, _RANGES_PER_STEP // places.shape[1])
        parts = list(zip(torch.split(places, size), torch.split(of, size), strict=True))
        progress = StepCounter(len(parts))
        errors = []
        for block_of in parts:
            progress.step()
            errors.append(self._try_some(way, *block_of))
        return torch.cat(errors)

    def _try_some(self, way: _Way, places: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        block_of = of.repeat_interleave(places.shape[1])
        tried = self._range_at(way, places.flatten(), block_of)
        errors = self._trial(tried, block_of)
        # The trials of each block below each other; some have fewer.
        counts = of.bincount() * places.shape[1]
        (blocks,) = counts.nonzero(as_tuple=True)
        begins = (counts.cumsum(0) - counts)[blocks]
        column = torch.arange(len(blocks)).repeat_interleave(counts[blocks])
        table = torch.full((int(counts.max()), len(blocks)), torch.inf, dtype=torch.float64)
        table[torch.arange(len(errors)) - begins[column], column] = errors
        taken = torch.from_numpy(_taken(self.error[blocks].numpy(), table.numpy()))
        chosen = (begins + taken)[taken >= 0]
        blocks = blocks[taken >= 0]
        self.ends = (
            self.ends[0].index_put((blocks,), tried.lo[chosen]),
            self.ends[1].index_put((blocks,), tried.hi[chosen]),
        )
        self.error = self.error.index_put((blocks,), errors[chosen])
        return viewed(errors, tuple(places.shape))


def _short(value: torch.Tensor, reached: torch.Tensor) -> torch.Tensor:
    """Return the least distance by which a value lies beyond the reached value; 0 if it does not."""
    return (value - _ROUNDED * value.abs() - reached).clamp(min=0)


def _taken(least: npt.NDArray[np.float64], errors: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the row of the error that replaces the known one in each column, -1 if none does; from the first
    row to the last, each smaller error replaces the one before.
    """
    # Ignore differences that come from the order of a sum or from the rounding of float64.
    bar = least * (1 - LESS)
    taken = np.full(len(least), -1)
    for k in np.flatnonzero((errors < bar).any(1)):
        better = errors[k] < bar
        bar = np.where(better, errors[k] * (1 - LESS), bar)
        taken = np.where(better, k, taken)
    return taken


def _promising(errors: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """Return whether the curve may fall below the best error in each part, bool.

    A part may fall below its ends as far as the curve bends nearby.
    """
    bends = (errors[:, :-2] - 2 * errors[:, 1:-1] + errors[:, 2:]).abs().nan_to_num(0.0, 0.0)
    # Of the part from point i to i + 1: the most of the bends at the points from i - 1 to i + 2.
    none = torch.zeros_like(errors[:, :2])
    padded = torch.cat([none, bends, none], 1)
    pairs = torch.maximum(padded[:, :-1], padded[:, 1:])
    most = torch.maximum(pairs[:, :-2], pairs[:, 2:])
    below = torch.minimum(errors[:, :-1], errors[:, 1:]) - most
    return below < (best * (1 - LESS)).unsqueeze(1)


def mse_modelopt(calibration: MSEModelopt, blocks: BlockValues, context: Context) -> Range:
    """Return the multiple of each block's largest magnitude with the least Σ error², the first of several."""
    lo, hi = blocks.min_max()
    extreme = blocks.extreme()
    largest = torch.maximum(lo.abs(), hi.abs())
    tries = multiples(calibration)
    of = torch.arange(largest.numel()).repeat_interleave(len(tries))
    ends = (largest.flatten()[of].to(torch.float64) * tries.repeat(largest.numel())).to(lo.dtype)
    errors = viewed(context.trial(Range(-ends, ends, extreme), of), (largest.numel(), len(tries)))
    # Count errors as equal that differ only by the order in which their sums were added.
    best = (errors <= errors.amin(-1, keepdim=True) * (1 + LESS)).to(torch.uint8).argmax(-1)
    clip = viewed(viewed(ends, errors.shape).gather(-1, best.unsqueeze(-1)), tuple(lo.shape))
    return Range(-clip, clip, extreme)


def multiples(calibration: MSEModelopt) -> torch.Tensor:
    """Return the multiples that are tried, float64."""
    count = math.ceil((calibration.stop - calibration.start) / calibration.step) + 1
    return torch.linspace(calibration.start, calibration.stop, count).to(torch.float64)


def mse_llmcompressor(calibration: MSELLMCompressor, blocks: BlockValues, context: Context) -> Range:
    """Return the part of the whole range with the least Σ|error|^norm of each block.

    As many parts are tried as for the tensor.
    """
    (lo, hi), extreme = blocks.min_max(), blocks.extreme()
    lo = lo * calibration.expand
    hi = hi * calibration.expand
    best = Range(lo, hi, extreme)
    least = torch.full(lo.shape, math.inf)
    without_gain = 0
    for step in range(calibration.steps):
        part = 1 - step / calibration.grid
        ranges = Range(lo * part, hi * part, extreme)
        errors = context.trial(ranges, power=calibration.norm)
        # Ignore differences that come from the order in which sums were added.
        better = errors < least * (1 - LESS)
        if not bool(better.any()):
            without_gain += 1
            if without_gain >= calibration.patience:
                break
            continue
        without_gain = 0
        least = torch.where(better, errors, least)
        best = Range(
            torch.where(better, ranges.lo, best.lo), torch.where(better, ranges.hi, best.hi), extreme
        )
    return best
