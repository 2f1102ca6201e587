"""HQQ's optimizer of zero points (Badri and Shaji 2023), by half-quadratic splitting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType

import numpy as np
import torch

from quantviz.quantization.result import QParams
from quantviz.schemes.calibration import BlockSource, BlockValues, Context
from quantviz.schemes.engine_calibrations import HQQ
from quantviz.tensors.blocks import sums_of_rows

#: Number of blocks that are searched at a time.
_BLOCKS = 2**16
#: The width below which a block has scale 1, and the largest inverse of a scale.
_NARROW = 1e-4
_MOST_INVERSE = 2e4


def hqq(calibration: HQQ, blocks: BlockValues, context: Context) -> QParams:
    """Return the scales of the whole ranges with the zero points of the last round.

    Values are rounded to float32 at each step as the package rounds them, sums are exact to float64.
    """
    code_min = context.format.code_min
    code_max = context.format.code_max
    lo, hi = (end.to(torch.float32) for end in blocks.min_max())
    width = hi - lo
    inverse = torch.where(width.abs() <= _NARROW, 1, (code_max - code_min) / width).clamp(max=_MOST_INVERSE)
    zero = -lo * inverse + code_min
    beta = calibration.beta

    least = np.float32(np.inf)
    for _ in range(calibration.steps):
        step = partial(_round, calibration, beta, code_min, code_max)
        errors, targets, counts = blocks.by_parts(partial(_sums, step, inverse, zero), 3, _BLOCKS)
        zero = torch.where(counts > 0, targets / counts.clamp(min=1), zero).to(torch.float32)
        beta *= calibration.kappa
        # The mean |error| of the whole tensor; numpy adds up in an order that follows from the count.
        mean = np.float32(errors.numpy().sum() / max(float(counts.sum()), 1.0))
        if not mean < least:
            break
        least = mean
    return QParams(1 / inverse, zero, others=MappingProxyType({"inverse": inverse}))


def _sums(
    step: Callable[..., torch.Tensor], inverse: torch.Tensor, zero: torch.Tensor, part: BlockSource
) -> tuple[torch.Tensor, ...]:
    parameters = (each.flatten()[part.numbers] for each in (inverse, zero))
    return part.added_up(step, *parameters).unbind(-1)


def _round(
    calibration: HQQ,
    beta: float,
    code_min: int,
    code_max: int,
    x: torch.Tensor,
    inverse: torch.Tensor,
    zero: torch.Tensor,
) -> torch.Tensor:
    """Return sums over each row: of |error|, of the zero points that fit each value alone, and the count of
    values.
    """
    codes = (x * inverse + zero).round().clamp(code_min, code_max)
    error = x - (codes - zero) / inverse
    target = codes - (x - shrunk(error, beta, calibration.p)) * inverse
    return sums_of_rows(error.abs().nan_to_num(0), target.nan_to_num(0), ~x.isnan())


def shrunk(errors: torch.Tensor, beta: float, p: float) -> torch.Tensor:
    """Return the errors brought nearer to 0, those that are small to 0 itself."""
    sizes = errors.abs()
    less = 1 / beta if p == 1 else (1 / beta) * sizes.pow(p - 1)
    return (sizes - less).clamp(min=0) * errors.sign()
