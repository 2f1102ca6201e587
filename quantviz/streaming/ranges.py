"""The clipping range, or scale and zero point, of each block of a tensor of any size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, cast

import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.calibrating import calibrated
from quantviz.quantization.qparams import qparams_of_range
from quantviz.quantization.result import QParams
from quantviz.schemes.calibration import BlockValues, Range
from quantviz.schemes.granularity import BlockLayout
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits
from quantviz.streaming.range_trials import Trial
from quantviz.streaming.regions import Band, layout_of_rows, read_window, rows_of_band
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

    About `piece` elements are read at a time. `absmax` is the largest finite magnitude, if it is known;
    `importance` has the weights of the errors by column, for engines that search scales.

    >>> from quantviz.tensors.lazy import InMemory
    >>> ranges(InMemory(torch.tensor([[1.0, -3.0]])), Scheme()).lo.tolist()
    [[-3.0]]
    """
    layout = scheme.layout(x.shape)
    if scheme.calibration.of_values and importance is None:
        return ranges_of_values(x, scheme, layout, piece)

    @cache
    def largest() -> torch.Tensor:
        if not scheme.arithmetic.scale.global_rule:
            return torch.tensor(0.0)
        return torch.tensor(facts(x).absmax if absmax is None else absmax)

    size = x.count if scheme.calibration.together else min(limits.BAND, piece)
    rows = rows_of_band(layout, size)
    length = math.prod(layout.view_shape[1:])
    if scheme.search is not None:
        rows = rows_of_band(layout_of_runs(layout, scheme.search.run), piece)
    elif importance is not None:
        rows = rows_of_band(layout_of_runs(layout, layout.grid_shape[-1]), piece)
    bands = list(runs_between(layout.view_shape[0], rows))
    found: list[Range | QParams] = [QParams(0.0)] * len(bands)
    alone = len(bands) > 1
    find = finder(scheme, x.shape, weighted=importance is not None)

    def work(numbers: Iterator[int]) -> None:
        for k in numbers:
            first, last = bands[k]
            part = layout_of_rows(layout, first, last) if alone else layout
            band = Band(x, first * length, part.view_shape) if alone else x
            trial = Trial(x, first * length, last * length, scheme, part, largest, alone=alone, piece=piece)
            # A band of a tensor of one axis is some of its columns.
            own = (
                importance[first:last]
                if importance is not None and len(layout.view_shape) == 1
                else importance
            )
            found[k] = calibrated(
                _blocks(band, scheme, part, piece, alone=alone, reads=importance is not None),
                scheme,
                trial,
                largest,
                own,
                find,
            )

    shared_out(work, range(len(bands)), 1 if len(bands) == 1 else None)
    return (
        found[0]
        if len(bands) == 1
        else _one_after_the_other(found, [layout_of_rows(layout, *band) for band in bands])
    )


def ranges_of_values(
    x: Stored, scheme: Scheme, layout: BlockLayout, piece: int, *, alone: bool = False
) -> Range | QParams:
    return calibrated(_blocks(x, scheme, layout, piece, alone=alone), scheme, _no_trial)


def _no_trial(found: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0) -> torch.Tensor:
    raise NotImplementedError


def _blocks(
    x: Stored, scheme: Scheme, layout: BlockLayout, piece: int, *, alone: bool, reads: bool = False
) -> BlockValues:
    """Return the statistics of a tensor's blocks, or those of a band, for calibrations; `reads` is whether
    the calibration reads the values themselves.
    """
    dtype = torch_dtype(scheme.range_dtype)
    finite_only = scheme.leaves_out
    if scheme.search is not None or reads or not kernel_access.has_kernels():
        return cast("BlockValues", _ReadBlocks(x, layout, dtype, finite_only))
    found = StreamedBlocks(x, layout, dtype, finite_only=finite_only, alone=alone, piece=piece)
    return cast("BlockValues", found)


class _ReadBlocks:
    """The `Blocks` of a tensor that is read at the first access."""

    def __init__(self, x: Stored, layout: BlockLayout, dtype: torch.dtype, finite_only: bool) -> None:
        self._asked = x, layout, dtype, finite_only

    @cached_property
    def _made(self) -> Blocks:
        x, layout, dtype, finite_only = self._asked
        values = read_window(x, layout, tuple(slice(0, n) for n in layout.view_shape))
        return Blocks(values, layout, dtype, torch.isfinite(values) if finite_only else None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


def _one_after_the_other(parts: list[Range | QParams], layouts: list[BlockLayout]) -> Range | QParams:
    """Return the ranges, or scales and zero points, of consecutive bands joined to those of the whole."""
    of_ranges = [part for part in parts if isinstance(part, Range)]
    if len(of_ranges) == len(parts):
        return Range(
            *(torch.cat([getattr(part, name) for part in of_ranges]) for name in ("lo", "hi", "extreme"))
        )
    given = [part for part in parts if isinstance(part, QParams)]
    if given[0].stored:
        return _joined(given)
    scale, zero_point = (
        torch.cat(
            [_grid_of(getattr(part, name), layout) for part, layout in zip(given, layouts, strict=True)]
        )
        for name in ("scale", "zero_point")
    )
    return QParams(scale, zero_point)


def _joined(parts: list[QParams]) -> QParams:
    """Return the stored scales and zero points of consecutive bands joined to those of the whole."""
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
    x: Stored, scheme: Scheme, found: Range | QParams | None = None, absmax: float | None = None
) -> QParams:
    """Return scale and zero point of each block, as `choose_qparams` does.

    `found` and `absmax` are the ranges and the largest finite magnitude, if they were computed before.

    >>> from quantviz.tensors.lazy import InMemory
    >>> found = qparams(InMemory(torch.tensor([-1.27, 1.27])), Scheme("int8"))
    >>> found.scale.item() == 1.2699999809265137 / 127
    True
    """
    found = found or ranges(x, scheme, absmax=absmax)
    if absmax is None:
        absmax = facts(x).absmax if scheme.arithmetic.scale.global_rule else 0.0
    return qparams_of_range(found, torch.tensor(absmax), scheme, scheme.layout(x.shape))
