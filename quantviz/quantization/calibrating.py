"""Ask a scheme's calibration for each block's range, and try ranges by the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch

from quantviz.quantization.cells import cell_index, quantize_with
from quantviz.quantization.computed_ranges import compute
from quantviz.quantization.qparams import params_to_try
from quantviz.quantization.result import QParams, block_values, counted_cells
from quantviz.schemes.calibration import BlockValues, Context, ModeContext, Range, Trial
from quantviz.schemes.granularity import BlockLayout
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks


def calibrated(
    of_blocks: BlockValues, scheme: Scheme, trial: Trial, importance: torch.Tensor | None = None
) -> Range | QParams:
    """Return the range, or scale and zero point, that the scheme's calibration gives each block.

    `trial` gives the error of blocks with a range, see `Context.trial`; `importance` is what an error counts
    in each column, see `quantize`.
    """
    calibration = scheme.calibration
    # It is not told of the rest of the scheme, so that it cannot depend on it.
    told: object = ModeContext(scheme.mode)
    if not calibration.of_values:
        told = Context(
            scheme.mode, scheme.number_format, scheme.arithmetic, trial, QParams, compute, importance
        )
    return calibration.calibrate(of_blocks, cast("Context", told))


def one_by_one(error_of: Callable[[Range, float], torch.Tensor]) -> Trial:
    """Return a `Context.trial` that tries a list of ranges one after the other, each time one of every block.

    >>> trial = one_by_one(lambda found, power: found.hi - found.lo)
    >>> ends = torch.tensor([1.0, 2.0, 3.0])
    >>> trial(Range(-ends, ends, torch.ones(2)), torch.tensor([0, 0, 1])).tolist()
    [2.0, 4.0, 6.0]
    """

    def trial(found: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0) -> torch.Tensor:
        if of is None:
            return error_of(found, power)
        counts = of.bincount(minlength=found.extreme.numel())
        turns = torch.arange(len(of)) - (counts.cumsum(0) - counts)[of]
        errors = torch.empty(len(of), dtype=torch.float64)
        # Where a block has no more of them, from its value of largest magnitude to the same below 0.
        widest = found.extreme.abs().flatten()
        for turn in range(int(counts.max())):
            (here,) = (turns == turn).nonzero(as_tuple=True)
            lo, hi = (
                blocks.viewed(end.index_put((of[here],), own[here]), tuple(found.extreme.shape))
                for end, own in ((-widest, found.lo), (widest, found.hi))
            )
            errors[here] = error_of(Range(lo, hi, found.extreme), power).flatten()[of[here]].to(torch.float64)
        return errors

    return trial


def errors_of_blocks(
    found: Range,
    x: torch.Tensor,
    absmax: torch.Tensor,
    scheme: Scheme,
    layout: BlockLayout,
    power: float = 2.0,
) -> torch.Tensor:
    """Return Σ |error|^`power` of each block with a range, float64; infinite where the range would be
    refused, or the sum is no number.
    """
    params, refused = params_to_try(found, absmax, scheme, layout)
    shape, counted = tuple(x.shape), counted_cells(x, scheme)
    cells = {name: blocks.expand(grid, layout, shape) for name, grid in block_values(params).items()}
    error = quantize_with(x, scheme, {**cell_index(scheme, shape), **cells})[2]
    return finite_or_infinite(
        blocks.block_sums(
            powers(error if counted is None else error.masked_fill(~counted, 0), power), layout
        ),
        refused,
    )


def powers(errors: torch.Tensor, power: float) -> torch.Tensor:
    """Return |error|^`power`, float64: squares are exact, other powers those of float32.

    >>> powers(torch.tensor([-2.0, 3.0]), 2.0).tolist()
    [4.0, 9.0]
    """
    return errors.to(torch.float64).square() if power == 2 else errors.abs().pow(power).to(torch.float64)


def finite_or_infinite(sums: torch.Tensor, refused: torch.Tensor) -> torch.Tensor:
    """Return the sums, infinite where they are no numbers, or refused.

    >>> finite_or_infinite(torch.tensor([1.0, torch.nan, 2.0]), torch.tensor([False, False, True])).tolist()
    [1.0, inf, inf]
    """
    return torch.where(torch.isfinite(sums) & ~refused, sums, math.inf)
