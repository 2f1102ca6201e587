"""The clipping range, or scale and zero point, of each block of a tensor of any size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.calibrating import calibrated
from quantviz.quantization.qparams import qparams_of_range
from quantviz.quantization.result import QParams
from quantviz.quantization.scale_search import Finder
from quantviz.schemes.calibration import BlockValues, Range
from quantviz.schemes.granularity import BlockLayout
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits
from quantviz.streaming.range_trials import BlockTrial
from quantviz.streaming.regions import ElementRange, RowBand, layout_of_rows, read_window, rows_of_band
from quantviz.streaming.searches import finder
from quantviz.streaming.streamed_blocks import StreamedBlocks
from quantviz.streaming.tensor_facts import facts
from quantviz.streaming.threads import runs_between, shared_out
from quantviz.tensors.blocks import Blocks, layout_of_runs, to_grid
from quantviz.tensors.conversion import torch_dtype
from quantviz.tensors.lazy import Stored


def ranges(
    x: Stored,
    scheme: Scheme,
    *,
    piece: int = limits.PIECE,
    absmax: float | None = None,
    importance: torch.Tensor | None = None,
) -> Range | QParams:
    """Return each block's clipping range, or scale and zero point in its place, by the calibration.

    About `piece` elements are read at a time. `absmax` is the largest finite magnitude, if known;
    `importance` weighs errors by column, for engines that search scales.

    >>> from quantviz.tensors.lazy import InMemory
    >>> ranges(InMemory(torch.tensor([[1.0, -3.0]])), Scheme()).lo.tolist()
    [[-3.0]]
    """
    if scheme.calibration.of_values and importance is None:
        return ranges_of_values(x, scheme, scheme.layout(x.shape), piece)
    return _RangeSearch(x, scheme, piece, absmax, importance).ranges()


@dataclass(frozen=True, eq=False)
class _RangeSearch:
    """A search that reads the values: band by band where blocks allow."""

    x: Stored
    scheme: Scheme
    piece: int
    #: If it is known.
    absmax: float | None
    #: By column.
    importance: torch.Tensor | None

    @cached_property
    def layout(self) -> BlockLayout:
        return self.scheme.layout(self.x.shape)

    @cached_property
    def bands(self) -> list[tuple[int, int]]:
        # In rows of the view.
        layout = self.layout
        if self.scheme.search is not None:
            rows = rows_of_band(layout_of_runs(layout, self.scheme.search.run), self.piece)
        elif self.importance is not None:
            rows = rows_of_band(layout_of_runs(layout, layout.grid_shape[-1]), self.piece)
        elif self.scheme.calibration.together:
            rows = rows_of_band(layout, self.x.count)
        else:
            rows = rows_of_band(layout, min(limits.BAND, self.piece))
        return list(runs_between(layout.view_shape[0], rows))

    @cached_property
    def finder(self) -> Finder | None:
        return finder(self.scheme, self.x.shape, weighted=self.importance is not None)

    @cached_property
    def largest(self) -> torch.Tensor:
        # 0 if the scheme's scales do not depend on it.
        if not self.scheme.arithmetic.scale.depends_on_tensor:
            return torch.tensor(0.0)
        return torch.tensor(facts(self.x).absmax if self.absmax is None else self.absmax)

    def ranges(self) -> Range | QParams:
        layouts = [layout_of_rows(self.layout, *band) for band in self.bands]
        parts: list[Range | QParams] = [QParams(0.0)] * len(layouts)
        _ = self.finder  # found before the threads begin

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                parts[k] = self._ranges_of_band(k)

        shared_out(work, range(len(layouts)))
        return parts[0] if len(parts) == 1 else _one_after_the_other(parts, layouts)

    def _ranges_of_band(self, k: int) -> Range | QParams:
        values = self.x
        layout = self.layout
        weights = self.importance
        first, last = self.bands[k]
        length = math.prod(layout.view_shape[1:])
        alone = len(self.bands) > 1
        if alone:
            layout = layout_of_rows(layout, first, last)
            values = RowBand(self.x, first * length, layout.view_shape)
            if weights is not None and len(layout.view_shape) == 1:
                # A band of a tensor of one axis is some of its columns.
                weights = weights[first:last]
        run = ElementRange(self.x, first * length, last * length, layout, offset=first * length)
        return calibrated(
            _blocks(values, self.scheme, layout, self.piece, alone=alone, reads=weights is not None),
            self.scheme,
            BlockTrial(run, self.scheme, lambda: self.largest, alone=alone, piece=self.piece),
            lambda: self.largest,
            weights,
            self.finder,
        )


def ranges_of_values(
    x: Stored, scheme: Scheme, layout: BlockLayout, piece: int, *, alone: bool = False
) -> Range | QParams:
    return calibrated(_blocks(x, scheme, layout, piece, alone=alone), scheme, _no_trial)


def _no_trial(ranges: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0) -> torch.Tensor:
    raise NotImplementedError


def _blocks(
    x: Stored, scheme: Scheme, layout: BlockLayout, piece: int, *, alone: bool, reads: bool = False
) -> BlockValues:
    # `reads` is for calibrations that read the values themselves.
    dtype = torch_dtype(scheme.range_dtype)
    finite_only = scheme.leaves_out
    if scheme.search is not None or reads or not kernel_access.has_kernels():
        return cast("BlockValues", _ReadBlocks(x, layout, dtype, finite_only))
    blocks = StreamedBlocks(x, layout, dtype, finite_only=finite_only, alone=alone, piece=piece)
    return cast("BlockValues", blocks)


class _ReadBlocks:
    """The `Blocks` of a tensor that is read at first use."""

    def __init__(self, x: Stored, layout: BlockLayout, dtype: torch.dtype, finite_only: bool) -> None:
        self._arguments = x, layout, dtype, finite_only

    @cached_property
    def _blocks(self) -> Blocks:
        x, layout, dtype, finite_only = self._arguments
        values = read_window(x, layout, tuple(slice(0, n) for n in layout.view_shape))
        return Blocks(values, layout, dtype, torch.isfinite(values) if finite_only else None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blocks, name)


def _one_after_the_other(parts: list[Range | QParams], layouts: list[BlockLayout]) -> Range | QParams:
    of_ranges = [part for part in parts if isinstance(part, Range)]
    if len(of_ranges) == len(parts):
        return Range(
            *(torch.cat([getattr(part, name) for part in of_ranges]) for name in ("lo", "hi", "extreme"))
        )
    params = [part for part in parts if isinstance(part, QParams)]
    if params[0].stored:
        return _joined(params)
    scale, zero_point = (
        torch.cat(
            [_grid_of(getattr(part, name), layout) for part, layout in zip(params, layouts, strict=True)]
        )
        for name in ("scale", "zero_point")
    )
    return QParams(scale, zero_point)


def _joined(parts: list[QParams]) -> QParams:
    of_blocks = (
        "scale",
        "zero_point",
        "scale_codes",
        "global_scale",
        "zero_point_codes",
        "global_zero_point",
    )
    first = parts[0]
    joined: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts])
        for name in of_blocks
        if getattr(first, name) is not None
    }
    others = {name: torch.cat([part.others[name] for part in parts]) for name in first.others}
    return dataclasses.replace(first, others=MappingProxyType(others), **joined)


def _grid_of(values: Any, layout: BlockLayout) -> torch.Tensor:
    numbers = torch.as_tensor(values, dtype=torch.float64)
    grid = to_grid(numbers, layout)
    if grid is None:
        raise QuantVizError(
            "qparams_count", got=numbers.numel(), blocks=layout.block_count, grid=layout.grid_shape
        )
    return grid


def qparams(
    x: Stored, scheme: Scheme, block_ranges: Range | QParams | None = None, absmax: float | None = None
) -> QParams:
    """Return scale and zero point of each block, as `choose_qparams` does.

    Ranges and the largest finite magnitude are given if they were computed before.

    >>> from quantviz.tensors.lazy import InMemory
    >>> found = qparams(InMemory(torch.tensor([-1.27, 1.27])), Scheme("int8"))
    >>> found.scale.item() == 1.2699999809265137 / 127
    True
    """
    block_ranges = block_ranges or ranges(x, scheme, absmax=absmax)
    if absmax is None:
        absmax = facts(x).absmax if scheme.arithmetic.scale.depends_on_tensor else 0.0
    return qparams_of_range(block_ranges, torch.tensor(absmax), scheme, scheme.layout(x.shape))
