"""Codes of a tensor beside scales of it, of an axis or of blocks along one, seen as outputs × inputs.

A value is (code − zero point) · scale. The files of ONNX and TFLite have weights so, whichever of their axes
are the outputs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.choices import Mode
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Granularity, PerBlock, PerChannel, PerGroup, PerTensor, Shape
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files.catalog import Catalog
from quantviz.sources.files.mapped import values_of
from quantviz.sources.layouts.weight import Coded, QuantizedWeight, bits_stored, plain_scheme, values_only
from quantviz.tensors.blocks import oriented


@dataclass(frozen=True, eq=False)
class AffineCodes:
    catalog: Catalog
    #: The tensor of codes, or of the weight in float where it is `rounded`.
    codes: str
    name: str
    fmt: str
    #: Returns the scales, float32, in the shape in which they lie.
    scale: Callable[[], torch.Tensor]
    of_scale: Shape
    #: The zero points in the same shape, or one; none where all are 0.
    zeros: torch.Tensor | None
    #: The axis that scales are along, and how many indices of it share one; 0 for one.
    axis: int
    block: int
    rounded: bool = False

    @property
    def tensor(self) -> Shape:
        return self.catalog.info(self.codes).shape

    @property
    def orientation(self) -> Orientation:
        orientation = self.catalog.orientation(self.codes)
        return orientation if orientation.fits(self.tensor) else Orientation()

    @property
    def shape(self) -> Shape:
        return self.orientation.seen(self.tensor)

    def weight(
        self, layout: str, parts: tuple[str, ...], scale_dtype: str, bits: float, notes: tuple[Note, ...] = ()
    ) -> QuantizedWeight:
        """Raise `QuantVizError` where the scales do not fit, or no scheme has their granularity."""
        rows, columns = self.shape
        granularity = self._granularity()
        zeros = self.zeros if self.zeros is not None and bool(self.zeros.any()) else None
        mode: Mode = "symmetric" if zeros is None else "asymmetric"
        scheme = plain_scheme(self.fmt, mode, granularity, self.shape)
        of_blocks = granularity.rows if isinstance(granularity, PerBlock) else 1
        step = rows if granularity == PerChannel(1) else of_blocks

        def coded(start: int, stop: int) -> Coded:
            def over(values: torch.Tensor) -> torch.Tensor:
                if values.numel() == 1:
                    return values.reshape(1, 1).expand(stop - start, columns)
                return self._rows(functools.partial(self._over, values), start, stop)

            x = self._rows(self._cut, start, stop)
            lines = over(self.scale())
            shift = None if zeros is None else over(zeros.float())
            if self.rounded:
                x = _rounded(x, lines, shift, self.fmt)
            blocks = _blocks(lines, granularity)
            if shift is None:
                return Coded(_codes(x, self.fmt), x.float() * lines, blocks)
            middle = _blocks(shift, granularity).to(torch.int32)
            return Coded(_codes(x, self.fmt), (x.float() - shift) * lines, blocks, middle)

        return QuantizedWeight(
            layout, self.name, self.shape, parts, scheme, scale_dtype, coded, bits, row_step=step, notes=notes
        )

    def _granularity(self) -> Granularity:
        shape = self.tensor
        if math.prod(self.of_scale) == 1 and not self.block and 0 <= self.axis < len(shape):
            return PerTensor()
        if not 0 <= self.axis < len(shape) or self.block < 0:
            raise self.misfit()
        along = shape[self.axis]
        of_outputs = self.axis == self.orientation.outputs[0]
        granularity: Granularity
        if self.block:
            fits = self.of_scale == (*shape[: self.axis], -(-along // self.block), *shape[self.axis + 1 :])
            granularity = PerBlock(self.block, 1) if of_outputs else PerGroup(self.block)
        else:
            fits = [length for length in self.of_scale if length != 1] == [along]
            granularity = PerChannel(0) if self.orientation.outputs == (self.axis,) else PerChannel(1)
        if not fits:
            raise self.misfit()
        if len(shape) != 2 and granularity != PerChannel(0):
            raise QuantVizError("layouts.axes", name=self.name, shape=shape)
        return granularity

    def _rows(self, part: Callable[[slice], torch.Tensor], start: int, stop: int) -> torch.Tensor:
        """Return some rows of the matrix; `part` returns a run of indices of the first axis of outputs."""
        a_step = math.prod(self.tensor[axis] for axis in self.orientation.outputs[1:])
        begin = start // a_step
        rows = oriented(part(slice(begin, -(-stop // a_step))), self.orientation)
        return rows[start - begin * a_step : stop - begin * a_step]

    def _cut(self, run: slice) -> torch.Tensor:
        window = [slice(None)] * len(self.tensor)
        window[self.orientation.outputs[0]] = run
        return self.catalog.cut(self.codes, tuple(window))

    def _over(self, values: torch.Tensor, run: slice) -> torch.Tensor:
        """Spread one number a block over the elements of a run of indices."""
        first = self.orientation.outputs[0]
        count = run.stop - run.start
        lengths = list(self.tensor)
        lengths[first] = count
        if self.block and self.axis == first:
            # A block may begin before the run.
            before = run.start // self.block
            values = values.narrow(first, before, -(-run.stop // self.block) - before)
            return values.repeat_interleave(self.block, dim=first).narrow(
                first, run.start - before * self.block, count
            )
        if self.block:
            values = values.narrow(first, run.start, count).repeat_interleave(self.block, dim=self.axis)
            return values.narrow(self.axis, 0, lengths[self.axis])
        line = [1] * len(lengths)
        line[self.axis] = -1
        values = values.reshape(line)
        values = values.narrow(first, run.start, count) if self.axis == first else values
        return values.expand(lengths)

    def misfit(self) -> QuantVizError:
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
        scales, middle = (
            line.expand(count)[start:stop] if len(line) == 1 else line[start:stop]
            for line in (scale().flatten().float(), shift)
        )
        values = catalog.cut(parts[0], (slice(start, stop),)).to(torch.int64)
        return values_only(((values - middle.to(torch.int64)).float() * scales).unsqueeze(1))

    bits = bits_stored(catalog, parts, codes.shape)
    return QuantizedWeight(layout, name, (count, 1), parts, None, scale_dtype, coded, bits, is_vector=True)


def _blocks(lines: torch.Tensor, granularity: Granularity) -> torch.Tensor:
    if isinstance(granularity, PerTensor):
        return lines[0, 0]
    if isinstance(granularity, PerChannel):
        return lines[:, :1] if granularity.axis == 0 else lines[:1]
    if isinstance(granularity, PerBlock):
        return lines[:: granularity.rows]
    assert isinstance(granularity, PerGroup)
    return lines[:, :: granularity.size]


def _rounded(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor | None, fmt: str) -> torch.Tensor:
    """Return the codes that QuantizeLinear makes: rounded to even, then shifted, then clamped."""
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
    places = torch.searchsorted(table[: len(table) // 2].contiguous(), signed.abs())
    return (places + torch.signbit(signed) * (len(table) // 2)).to(torch.uint8)
