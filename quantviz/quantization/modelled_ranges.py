"""Ranges from a model of the error: OCTAV models the values, ACIQ a family of distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch

from quantviz.schemes.calibration import BlockSource, BlockValues, Context, Range
from quantviz.schemes.engine_calibrations import OCTAV, ACIQGauss, ACIQLaplace
from quantviz.schemes.formats import NumberFormat
from quantviz.tensors.blocks import sums_of_rows

#: Number of blocks that are searched at a time.
_BLOCKS = 2**16
#: The relative change of every clip below which Newton's steps end; most need eight.
_STILL = 1e-12
_MOST_STEPS = 100


def octav(calibration: OCTAV, blocks: BlockValues, context: Context) -> Range:
    """Return the clip at which Newton's steps converge, from the mean |x| on."""
    fmt = context.format
    # The modelled error of a kept value, in units of s²: of steps as wide as s / 2^(b - 1), or s / 2^b.
    noise = 4.0**-fmt.bits / (3 if fmt.signed else 12)

    def sums(x: torch.Tensor, clip: torch.Tensor) -> torch.Tensor:
        sizes = x.abs()
        beyond = sizes >= clip
        inside = (sizes < clip) & ((sizes > 0) | calibration.count_zeros)
        return sums_of_rows(torch.where(beyond & (sizes > 0), sizes, 0), beyond & (sizes > 0), inside)

    def error(x: torch.Tensor, *clips: torch.Tensor) -> torch.Tensor:
        sizes = x.abs()
        return sums_of_rows(
            *(
                torch.where(sizes >= clip, (sizes - clip).square(), noise * clip.square()).nan_to_num(0)
                for clip in clips
            )
        )

    def answer(part: BlockSource) -> tuple[torch.Tensor]:
        most = _largest(part)
        clip = before = torch.zeros_like(most)
        for _ in range(_MOST_STEPS):
            total, beyond, inside = part.added_up(sums, clip).unbind(-1)
            # None lies beyond the largest, which rounding could pass; a block of zeros has no clip.
            improved = torch.minimum(total / (noise * inside + beyond).clamp(min=noise), most)
            still = torch.minimum((improved - clip).abs(), (improved - before).abs()) <= _STILL * improved
            before = clip
            clip = improved
            if bool(still.all()):
                break
        # Steps may alternate across a value forever: take the better of the two clips.
        errors = part.added_up(error, before, clip)
        return (torch.where(errors[:, 0] < errors[:, 1], before, clip),)

    extreme = blocks.extreme()
    (clip,) = blocks.by_parts(answer, 1, _BLOCKS)
    clip = clip.to(extreme.dtype)
    return Range(-clip, clip, extreme)


def aciq(calibration: ACIQGauss | ACIQLaplace, blocks: BlockValues, context: Context) -> Range:
    """Return the best clip for a family of distributions with the spread of the values."""
    symmetric = context.mode == "symmetric"
    gaussian = isinstance(calibration, ACIQGauss)
    factor = factor_of(context.format, gaussian=gaussian, symmetric=symmetric)

    def total(x: torch.Tensor) -> torch.Tensor:
        return sums_of_rows(x.nan_to_num(0), ~x.isnan())

    def spread(x: torch.Tensor, middle: torch.Tensor) -> torch.Tensor:
        distances = (x - middle).nan_to_num(0)
        return sums_of_rows(distances.square() if gaussian else distances.abs())

    def answer(part: BlockSource) -> tuple[torch.Tensor, torch.Tensor]:
        sums, count = part.added_up(total).unbind(-1)
        count = count.clamp(min=1)
        middle = torch.zeros_like(sums) if symmetric else sums / count
        mean_size = part.added_up(spread, middle).squeeze(-1) / count
        clip = factor * (mean_size.sqrt() if gaussian else mean_size)
        if symmetric:
            clip = torch.minimum(clip, _largest(part))
            return -clip, clip
        lo, hi = part.ends
        return torch.maximum(middle - clip, lo), torch.minimum(middle + clip, hi)

    extreme = blocks.extreme()
    lo, hi = (end.to(extreme.dtype) for end in blocks.by_parts(answer, 2, _BLOCKS))
    return Range(lo, hi, extreme)


def factor_of(fmt: NumberFormat, *, gaussian: bool, symmetric: bool = False) -> float:
    """Return the best clip of a family, as a multiple of its spread, for as many cells as a format has."""
    # An unsigned format has all cells on one side of 0.
    cells = 4.0 ** (fmt.bits + (symmetric and not fmt.signed))
    return _of_gauss(cells) if gaussian else _of_laplace(cells)


@cache
def _of_laplace(cells: float) -> float:
    """Return the root of c e^c = 3 · cells: W(3 · cells), by Lambert's function."""
    return _root(lambda c: c + math.log(c) - math.log(3 * cells))


@cache
def _of_gauss(cells: float) -> float:
    """Return the root of the derivative of the clipped part's error plus c² / (3 · cells)."""

    def slope(c: float) -> float:
        density = math.exp(-c * c / 2) / math.sqrt(2 * math.pi)
        beyond = math.erfc(c / math.sqrt(2)) / 2
        return c / (3 * cells) - 2 * (density - c * beyond)

    return _root(slope)


def _root(rising: Callable[[float], float]) -> float:
    low = 1e-3
    high = 64.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high


def _largest(part: BlockSource) -> torch.Tensor:
    lo, hi = part.ends
    return torch.maximum(-lo, hi).to(torch.float64)
