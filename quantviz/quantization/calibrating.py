"""Ask a scheme's calibration for each block's range, and try ranges by the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch

from quantviz.budget import StepCounter
from quantviz.quantization.cells import cell_index, quantize_with
from quantviz.quantization.computed_ranges import compute
from quantviz.quantization.operations import NamedTensors
from quantviz.quantization.qparams import params_to_try, reach
from quantviz.quantization.result import QParams, block_values, counted_cells
from quantviz.quantization.scale_search import Finder, weighted
from quantviz.schemes.calibration import BlockValues, Context, ModeContext, Range, RangeTrial
from quantviz.schemes.granularity import BlockLayout
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks


def _no_absmax() -> torch.Tensor:
    raise NotImplementedError


def calibrated(
    of_blocks: BlockValues,
    scheme: Scheme,
    trial: RangeTrial,
    absmax: Callable[[], torch.Tensor] = _no_absmax,
    importance: torch.Tensor | None = None,
    find: Finder | None = None,
) -> Range | QParams:
    """Return the clipping range, or scale and zero point, of each block by the scheme's calibration.

    `absmax` computes the largest magnitude of the whole tensor, which calibrations of values alone do not
    need. `find` searches the scales of blocks in place of the reference.
    """
    if importance is not None and scheme.search is None:
        return weighted(of_blocks, scheme, importance, find)
    calibration = scheme.calibration
    # Pass only the mode, so that such a calibration cannot depend on the rest of the scheme.
    told: object = ModeContext(scheme.mode)
    if not calibration.of_values:
        told = Context(
            scheme.mode,
            scheme.number_format,
            scheme.arithmetic,
            trial,
            QParams,
            compute,
            absmax,
            importance,
            getattr(trial, "reach", None),
            find,
        )
    return calibration.calibrate(of_blocks, cast("Context", told))


def one_by_one(error_of: Callable[[Range, float], torch.Tensor]) -> RangeTrial:
    """Return a `Context.trial` that tries a list of ranges one after the other, each time one of every block.

    >>> trial = one_by_one(lambda ranges, power: ranges.hi - ranges.lo)
    >>> ends = torch.tensor([1.0, 2.0, 3.0])
    >>> trial(Range(-ends, ends, torch.ones(2)), torch.tensor([0, 0, 1])).tolist()
    [2.0, 4.0, 6.0]
    """

    def trial(ranges: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0) -> torch.Tensor:
        if of is None:
            return error_of(ranges, power)
        counts = of.bincount(minlength=ranges.extreme.numel())
        turns = torch.arange(len(of)) - (counts.cumsum(0) - counts)[of]
        errors = torch.empty(len(of), dtype=torch.float64)
        # For blocks with no more ranges: from minus their largest magnitude to that.
        widest = ranges.extreme.abs().flatten()
        progress = StepCounter(int(counts.max()))
        for turn in range(int(counts.max())):
            progress.step()
            (here,) = (turns == turn).nonzero(as_tuple=True)
            lo, hi = (
                blocks.viewed(end.index_put((of[here],), ends[here]), tuple(ranges.extreme.shape))
                for end, ends in ((-widest, ranges.lo), (widest, ranges.hi))
            )
            errors[here] = (
                error_of(Range(lo, hi, ranges.extreme), power).flatten()[of[here]].to(torch.float64)
            )
        return errors

    return trial


def errors_of_blocks(
    ranges: Range,
    x: torch.Tensor,
    absmax: torch.Tensor,
    scheme: Scheme,
    layout: BlockLayout,
    power: float = 2.0,
) -> torch.Tensor:
    """Return Σ |error|^`power` of each block with a range, float64; infinite where the range would be
    refused, or the sum is NaN.
    """
    params, refused = params_to_try(ranges, absmax, scheme, layout)
    shape = tuple(x.shape)
    counted = counted_cells(x, scheme)
    cells = {name: blocks.expand(grid, layout, shape) for name, grid in block_values(params).items()}
    error = quantize_with(x, scheme, {**cell_index(scheme, shape), **cells})[2]
    return finite_or_infinite(
        blocks.block_sums(
            powers(error if counted is None else error.masked_fill(~counted, 0), power), layout
        ),
        refused,
    )


#: Number of cells that are tried at once with many ranges: they stay in the processor's cache.
_CELLS_PER_CHUNK = 2**16


@dataclass(frozen=True, eq=False)
class TrialByReference:
    """`Context.trial` of a whole tensor, by the reference quantizer."""

    x: torch.Tensor
    absmax: torch.Tensor
    scheme: Scheme
    layout: BlockLayout

    def __call__(
        self, ranges: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0
    ) -> torch.Tensor:
        if of is None:
            return errors_of_blocks(ranges, self.x, self.absmax, self.scheme, self.layout, power)
        size = max(_CELLS_PER_CHUNK // self._rows.shape[1], 1)
        return torch.cat(
            [
                self._tried(Range(lo, hi, ranges.extreme), of_part, power)
                for lo, hi, of_part in zip(
                    *(torch.split(each, size) for each in (ranges.lo, ranges.hi, of)), strict=True
                )
            ]
        )

    def reach(self, ranges: Range, of: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        return reach(params_to_try(ranges, self.absmax, self.scheme, self.layout, of)[0], self.scheme)

    @cached_property
    def _rows(self) -> torch.Tensor:
        return self._as_rows(self.x)

    @cached_property
    def _left_out(self) -> torch.Tensor | None:
        counted = counted_cells(self.x, self.scheme)
        counts = self._as_rows(torch.ones_like(self.x, dtype=torch.bool) if counted is None else counted)
        return None if bool(counts.all()) else ~counts

    @cached_property
    def _index(self) -> NamedTensors:
        return {
            name: self._as_rows(index) for name, index in cell_index(self.scheme, tuple(self.x.shape)).items()
        }

    def _as_rows(self, values: torch.Tensor) -> torch.Tensor:
        return blocks.rows_of_blocks(values, self.layout, 0).flatten(0, -2)

    def _tried(self, ranges: Range, of: torch.Tensor, power: float) -> torch.Tensor:
        params, refused = params_to_try(ranges, self.absmax, self.scheme, self.layout, of)
        values = block_values(params)
        if self.scheme.zero_domain in ("none", "code_int"):
            # A refused zero point may be beyond int32; it must not turn the valid ones into floats.
            values["zero_point"] = params.zero_point.masked_fill(refused, 0).to(torch.int32)
        of_trials = {name: grid.expand(of.shape).unsqueeze(1) for name, grid in values.items()}
        index = {name: rows[of] for name, rows in self._index.items()}
        error = quantize_with(self._rows[of], self.scheme, {**index, **of_trials})[2]
        if self._left_out is not None:
            error = error.masked_fill(self._left_out[of], 0)
        return finite_or_infinite(blocks.sums_of_rows(powers(error, power)).squeeze(1), refused)


def powers(errors: torch.Tensor, power: float) -> torch.Tensor:
    """Return |error|^`power`, float64: squares are exact, other powers those of float32."""
    return errors.to(torch.float64).square() if power == 2 else errors.abs().pow(power).to(torch.float64)


def finite_or_infinite(sums: torch.Tensor, refused: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isfinite(sums) & ~refused, sums, math.inf)
