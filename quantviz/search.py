"""The search for the clipping range of each block whose squared error is least.

Errors are tried, not modelled: a trial is the reference quantizer under the very scheme, so that what is found is right for
float formats, codebooks and scales that are powers of two, too. Blocks are searched side by side, each in its own places.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from quantviz.blocks import viewed
from quantviz.calibration import BlockValues, Context, Range

#: A range is better where it takes off more than this part of the error: far more than sums differ by, whatever order they are added in.
_LESS = 2.0**-20
#: A round over both ends that takes off less than this part of every block's error is the last.
_LESS_OF_ROUND = 1e-3
#: Into how many parts the way to the whole range is cut at first, and that of one end in a round.
_FIRST, _OF_END = 200, 40
#: Into how many a part is cut in which less error may be.
_FINER = 10

#: From how far along its way each block is, 0 to 1, to the ends tried.
_Way = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def least_error(blocks: BlockValues, context: Context) -> Range:
    """Return the range of least Σ error² of each block, none wider than from its smallest to its largest value.

    Symmetric, both ends are multiplied by one factor. Asymmetric, both are first drawn in towards 0, or towards the end nearest to it; then the range is
    moved and each end drawn in by itself, round after round. Of the ranges tried the first is the whole one, and only a smaller
    error takes its place.
    """
    lo, hi = blocks.min_max()
    search = _Search(Range(lo, hi, blocks.extreme()), context)
    lo, hi, falling = lo.to(torch.float64), hi.to(torch.float64), search.error.flatten() > 0
    if context.mode == "symmetric":
        search.along(lambda t: (t * lo, t * hi), _FIRST, falling)
        return search.best
    towards = torch.zeros_like(lo).clamp(lo, hi)
    search.along(lambda t: (towards + t * (lo - towards), towards + t * (hi - towards)), _FIRST, falling)
    while bool(falling.any()):
        before = search.error
        for way in (_moved, _lower_end, _upper_end):
            search.along(way(search.best, lo, hi), _OF_END, falling)
        falling = falling & (search.error < before * (1 - _LESS_OF_ROUND)).flatten()
    return search.best


def _moved(best: Range, lo: torch.Tensor, hi: torch.Tensor) -> _Way:
    """The range as wide as it is, from the lower end of the whole to the upper."""
    width = best.hi.to(torch.float64) - best.lo.to(torch.float64)
    return lambda t: (lo + t * (hi - lo - width), lo + t * (hi - lo - width) + width)


def _lower_end(best: Range, lo: torch.Tensor, hi: torch.Tensor) -> _Way:
    upper = best.hi.to(torch.float64)
    return lambda t: (upper + t * (lo - upper), upper)


def _upper_end(best: Range, lo: torch.Tensor, hi: torch.Tensor) -> _Way:
    lower = best.lo.to(torch.float64)
    return lambda t: (lower, lower + t * (hi - lower))


class _Search:
    """The best range of each block so far."""

    def __init__(self, whole: Range, context: Context) -> None:
        self.best, self._trial = whole, context.trial
        #: Its error.
        self.error = context.trial(whole)

    def along(self, way: _Way, parts: int, falling: torch.Tensor) -> None:
        """Tries a way at equal distances, then again more finely wherever less error may be, until a block's error no longer falls.

        A curve of errors can have many minima: of few values each is a sum of few arcs. So each part is looked at by itself,
        and all in which the curve may go below the best are gone through. Only blocks that are `falling` take part; no block's
        answer depends on the others that are looked at with it.
        """
        step = 1 / parts
        begins, live = torch.zeros(1, len(falling), dtype=torch.float64), falling.unsqueeze(0)
        errors = torch.full((1, parts + 1, len(falling)), torch.inf, dtype=torch.float64)
        points = range(1, parts + 1)
        while True:
            before = self.error.flatten()
            for k, begin in enumerate(begins):
                for point in points:
                    errors[k, point] = self._try(way, begin + point * step, live[k])
            # At the first distance all go on: what a finer one would find is not known yet.
            falling = falling & ((self.error.flatten() < before) | (len(points) == parts))
            promising = (self._promising(errors) & falling).flatten(0, 1)
            most = int(promising.sum(0).max())
            if not most:
                return
            # The first of each block's promising parts, the second, and so on; some blocks have fewer.
            picked = promising.to(torch.int8).argsort(dim=0, descending=True, stable=True)[:most]
            live = promising.gather(0, picked)
            places = begins.unsqueeze(1) + torch.arange(errors.shape[1] - 1, dtype=torch.float64).unsqueeze(-1) * step
            begins, step, points = places.flatten(0, 1).gather(0, picked), step / _FINER, range(1, _FINER)
            ends = (side.flatten(0, 1).gather(0, picked).masked_fill(~live, torch.inf) for side in (errors[:, :-1], errors[:, 1:]))
            errors = torch.full((most, _FINER + 1, len(falling)), torch.inf, dtype=torch.float64)
            errors[:, 0], errors[:, -1] = ends

    def _try(self, way: _Way, along: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        best = self.best
        lo, hi = (end.to(best.lo.dtype) for end in way(viewed(along, tuple(self.error.shape))))
        error = self._trial(Range(lo, hi, best.extreme))
        # Not less by what order sums were added in, or by what float64 itself loses.
        better = (error < self.error * (1 - _LESS)) & viewed(live, tuple(self.error.shape))
        self.best = Range(torch.where(better, lo, best.lo), torch.where(better, hi, best.hi), best.extreme)
        self.error = torch.where(better, error, self.error)
        return error.flatten().masked_fill(~live, torch.inf)

    def _promising(self, errors: torch.Tensor) -> torch.Tensor:
        """In which parts the curve may go below the best: as far below its ends as it bends nearby."""
        bends = (errors[:, :-2] - 2 * errors[:, 1:-1] + errors[:, 2:]).abs().nan_to_num(0.0, 0.0)
        # Of the part from point i to i + 1: the most of the bends at the points from i - 1 to i + 2.
        none = torch.zeros_like(errors[:, :2])
        padded = torch.cat([none, bends, none], 1)
        most = torch.stack([padded[:, i : i + errors.shape[1] - 1] for i in range(4)]).amax(0)
        below = torch.minimum(errors[:, :-1], errors[:, 1:]) - most
        return below < self.error.flatten() * (1 - _LESS)
