"""Codes of a tensor beside scales of it, of an axis or of blocks along one, seen as outputs × inputs.

A value is (code − zero point) · scale. The files of ONNX and TFLite have weights so, whichever of their axes
are the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from quantviz.errors import QuantVizError
from quantviz.schemes.choices import Mode
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Granularity, PerBlock, PerChannel, PerGroup, PerTensor, Shape
from quantviz.schemes.orientation import Orientation
from quantviz.schemes.scheme import Scheme
from quantviz.sources.files.mapped import values_of
from quantviz.sources.layouts.weight import (
    Coded,
    QuantizedWeight,
    bits_stored,
    plain_scheme,
    values_only,
)
from quantviz.tensors.blocks import oriented

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog


@dataclass(frozen=True, eq=False)
class AffineCodes:
    """A tensor of codes, its scales and its zero points."""

    catalog: Catalog
    #: The tensor of codes, or of the weight in float where it is `rounded`.
    codes: str
    #: The weight's name, for errors.
    name: str
    fmt: str
    #: Returns the scales, float32, in the shape in which they lie.
    scale: Callable[[], torch.Tensor]
    of_scale: Shape
    #: The zero points in the same shape; none where all are 0.
    zeros: torch.Tensor | None
    #: The axis that scales are along, and how many indices of it share one; 0 for one.
    axis: int
    block: int
    rounded: bool = False

    @property
    def tensor(self) -> Shape:
        """Return the shape of the codes."""
        return self.catalog.info(self.codes).shape

    @property
    def orientation(self) -> Orientation:
        """Return the axes of the codes that are outputs."""
        found = self.catalog.orientation(self.codes)
        return found if found.fits(self.tensor) else Orientation()

    @property
    def shape(self) -> Shape:
        """Return the weight's shape, outputs × inputs."""
        return self.orientation.seen(self.tensor)

    def described(self) -> tuple[Scheme, int, Callable[[int, int], Coded]]:
        """Return the scheme, the number of rows of whole blocks, and a function that returns some coded rows.

        Raises:
            QuantVizError: The scales do not fit, or no scheme has their granularity.
        """
        tensor = self.tensor
        orientation = self.orientation
        if not 0 <= self.axis < len(tensor):
            raise self.misfit()
        spread = _spread(tensor, self.of_scale, self.axis, self.block)
        if spread is None:
            raise self.misfit()
        found = _granularity(tensor, spread, self.axis, self.block, orientation)
        if found is None:
            raise QuantVizError("layouts.axes", name=self.name, shape=tensor)
        granularity, whole = found
        rows = orientation.seen(tensor)[0]
        mode: Mode = "symmetric" if self.zeros is None else "asymmetric"
        scheme = plain_scheme(self.fmt, mode, granularity, self.shape)
        if whole:
            step = rows
        elif isinstance(granularity, PerBlock):
            step = granularity.rows
        else:
            step = 1

        def coded(start: int, stop: int) -> Coded:
            x = _rows(self.catalog, self.codes, orientation, start, stop)
            lie = (tensor, self.axis, self.block, orientation, start, stop)
            lines = _over(self.scale(), *lie)
            shift = None if self.zeros is None else _over(self.zeros.float(), *lie)
            if self.rounded:
                x = _rounded(x, lines, shift, self.fmt)
            values = x.float() if shift is None else x.float() - shift
            blocks = _blocks(lines, granularity)
            if shift is None:
                return Coded(_codes(x, self.fmt), values * lines, blocks)
            zeros = _blocks(shift, granularity).to(torch.int32)
            return Coded(_codes(x, self.fmt), values * lines, blocks, zeros)

        return scheme, step, coded

    def misfit(self) -> QuantVizError:
        """Return the error that the scales do not fit the codes."""
        return QuantVizError("layouts.scales", name=self.name, shape=self.tensor, scales=self.of_scale)


def bias(
    layout: str,
    catalog: Catalog,
    name: str,
    parts: tuple[str, ...],
    scale: Callable[[], torch.Tensor],
    zeros: torch.Tensor | None,
    scale_dtype: str,
) -> QuantizedWeight:
    """Return a bias of whole numbers, of which the scales are one or one each; there are only values.

    Raises:
        QuantVizError: The scales do not fit.
    """
    codes = catalog.info(parts[0])
    of_scale = scale().flatten()
    (count,) = codes.shape
    if len(of_scale) not in (1, count) or (zeros is not None and zeros.numel() not in (1, len(of_scale))):
        raise QuantVizError("layouts.scales", name=name, shape=codes.shape, scales=tuple(of_scale.shape))
    shift = torch.zeros(1) if zeros is None else zeros.flatten()

    def coded(start: int, stop: int) -> Coded:
        own, middle = (
            each.expand(count)[start:stop] if len(each) == 1 else each[start:stop]
            for each in (scale().flatten().float(), shift)
        )
        values = catalog.cut(parts[0], (slice(start, stop),)).to(torch.int64)
        return values_only(((values - middle.to(torch.int64)).float() * own).unsqueeze(1))

    bits = bits_stored(catalog, parts, codes.shape)
    return QuantizedWeight(layout, name, (count, 1), parts, None, scale_dtype, coded, bits, is_vector=True)


def _spread(shape: Shape, scales: Shape, axis: int, block: int) -> str | None:
    """Return the elements that share a scale: "all", one "axis" or "blocks" of it; none if none fit."""
    if math.prod(scales) == 1 and not block:
        return "all"
    if block < 0:
        return None
    if block:
        wanted = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
        return "blocks" if scales == wanted else None
    along = [length for length in scales if length != 1]
    return "axis" if along == [shape[axis]] else None


def _granularity(
    shape: Shape, spread: str, axis: int, block: int, orientation: Orientation
) -> tuple[Granularity, bool] | None:
    """Return the granularity in the matrix, and whether only all its rows together have whole blocks.

    None if no scheme has such a granularity.
    """
    if spread == "all":
        return PerTensor(), False
    one = len(orientation.outputs) == 1
    if spread == "axis" and one and axis == orientation.outputs[0]:
        return PerChannel(0), False
    if len(shape) == 2:
        if spread == "axis":
            return PerChannel(1), True
        return (PerBlock(block, 1), False) if axis == orientation.outputs[0] else (PerGroup(block), False)
    return None


def _rows(catalog: Catalog, name: str, orientation: Orientation, start: int, stop: int) -> torch.Tensor:
    """Return some rows of the matrix as which a tensor is seen, in its stored dtype."""
    shape = catalog.info(name).shape
    first, *others = orientation.outputs
    a_step = math.prod(shape[axis] for axis in others)
    window = [slice(None)] * len(shape)
    begin = start // a_step
    window[first] = slice(begin, -(-stop // a_step))
    part = oriented(catalog.cut(name, tuple(window)), orientation)
    return part[start - begin * a_step : stop - begin * a_step]


def _over(
    values: torch.Tensor,
    shape: Shape,
    axis: int,
    block: int,
    orientation: Orientation,
    start: int,
    stop: int,
) -> torch.Tensor:
    """Return one number a block as numbers that stand over the cells of some rows of the matrix."""
    if values.numel() == 1:
        return values.reshape(1, 1).expand(stop - start, orientation.seen(shape)[1])
    first = orientation.outputs[0]
    own = list(shape)
    cut = slice(start, stop)
    if len(orientation.outputs) == 1:
        own[first] = stop - start
        before = start // block * block if block else start
        if block and axis == first:
            values = values.narrow(axis, start // block, -(-stop // block) - start // block)
        elif block:
            values = values.narrow(first, start, stop - start)
        elif axis == first:
            values = values.flatten()[cut]
        # A block may begin before the first row.
        cut = slice(start - before, stop - before) if block and axis == first else slice(None)
    if block:
        spread = values.repeat_interleave(block, dim=axis)
        if axis != first or len(orientation.outputs) > 1:
            spread = spread.narrow(axis, 0, shape[axis])
        return oriented(spread, orientation)[cut]
    line = [1] * len(shape)
    line[axis] = own[axis]
    return oriented(values.reshape(line).expand(own), orientation)[cut]


def _blocks(lines: torch.Tensor, granularity: Granularity) -> torch.Tensor:
    """Return one number for each block from numbers for each cell of some rows."""
    if isinstance(granularity, PerTensor):
        return lines[0, 0]
    if isinstance(granularity, PerChannel):
        return lines[:, :1] if granularity.axis == 0 else lines[:1]
    if isinstance(granularity, PerBlock):
        return lines[:: granularity.rows]
    assert isinstance(granularity, PerGroup)
    return lines[:, :: granularity.size]


def _rounded(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor | None, fmt: str) -> torch.Tensor:
    """Return the codes that QuantizeLinear makes of a weight: rounded to even, then shifted, then clamped."""
    x = x.float() / scale
    if FORMATS[fmt].family != "integer":
        kind = getattr(torch, fmt)
        most = torch.finfo(kind).max
        return x.clamp(-most, most).to(kind).float()
    x = x.round() if shift is None else x.round() + shift
    return x.clamp(FORMATS[fmt].code_min, FORMATS[fmt].code_max)


def _codes(values: torch.Tensor, fmt: str) -> torch.Tensor:
    """Return codes as `quantize` gives them: integers as they are, of floats their bits."""
    if FORMATS[fmt].family == "integer":
        return values.to(getattr(torch, FORMATS[fmt].code_dtype))
    if FORMATS[fmt].bits == 8:
        return values.float().to(getattr(torch, fmt)).view(torch.uint8)
    table = values_of(fmt)
    signed = values.float()
    found = torch.searchsorted(table[: len(table) // 2].contiguous(), signed.abs())
    return (found + torch.signbit(signed) * (len(table) // 2)).to(torch.uint8)
