"""Ranges that engines find by trying a fixed list of them with the arithmetic of the scheme."""

from __future__ import annotations

import math

import torch

from quantviz.quantization.range_search import LESS
from quantviz.schemes.calibration import BlockValues, Context, Range
from quantviz.schemes.engine_calibrations import MSELLMCompressor, MSEModelopt
from quantviz.tensors.blocks import viewed


def mse_modelopt(calibration: MSEModelopt, blocks: BlockValues, context: Context) -> Range:
    """Return the multiple of each block's largest magnitude that has the least Σ error², the first of
    several.
    """
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
    """Return the multiples that are tried, float64.

    >>> [round(each, 4) for each in multiples(MSEModelopt())[:2].tolist()]
    [0.25, 0.3487]
    """
    count = math.ceil((calibration.stop - calibration.start) / calibration.step) + 1
    return torch.linspace(calibration.start, calibration.stop, count).to(torch.float64)


def mse_llmcompressor(calibration: MSELLMCompressor, blocks: BlockValues, context: Context) -> Range:
    """Return the part of the whole range with the least Σ|error|^norm of each block, of as many as are tried
    for the tensor.
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
