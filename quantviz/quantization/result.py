"""A quantized tensor as a value: scale and zero point, codes, values and errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.pickling import Picklable
from quantviz.public_calls import checked_fields
from quantviz.quantization.grids import local_step
from quantviz.quantization.operations import NamedTensors
from quantviz.schemes.calibration_protocol import QParams as QParams
from quantviz.schemes.calibration_protocol import Range
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks
from quantviz.text import number, table


@checked_fields
@dataclass(frozen=True, eq=False)
class QuantResult(Picklable):
    """A quantized tensor and everything that was computed on the way.

    `x`, `q`, `x_hat`, `error` and `clipped` have the input's shape; `qparams` has `layout.grid_shape`.
    """

    scheme: Scheme
    qparams: QParams
    #: The input as float32: the caller's own memory where that is float32, for a copy would take as much
    #: again. A later change there shows here and not in the rest; functions that take one then refuse it.
    x: torch.Tensor
    #: Codes: int8, uint8, int16 or int32, one an element.
    q: torch.Tensor
    #: Dequantized values, float32.
    x_hat: torch.Tensor
    #: x_hat - x; NaN in cells that are left out.
    error: torch.Tensor
    #: Whether saturation changed the code of a cell that counts.
    clipped: torch.Tensor
    layout: BlockLayout
    #: Each block's clipping range; none where scale and zero point were given.
    range: Range | None
    #: Remarks for the user, such as a change of the input's dtype.
    notes: tuple[Note, ...] = ()
    #: The shape of the tensor that this is a part of, whose blocks it shares; none where it is a whole one.
    whole: Shape | None = None
    #: Whether an algorithm such as GPTQ chose the codes, so that they do not follow from x alone.
    own_codes: bool = False
    #: The largest magnitude that a scale over all blocks was chosen with, where it is not that of `x`: that
    #: of the tokens that are not held back.
    tensor_absmax: torch.Tensor | None = None

    @property
    def tensor_shape(self) -> Shape:
        """Return the shape of the whole tensor, which bits per weight refer to."""
        return self.whole or self.shape

    def __repr__(self) -> str:
        return f"QuantResult({self.scheme!r}, shape={self.shape}, blocks={self.layout.block_count})"

    def _repr_html_(self) -> str:
        scales = self.qparams.scale.to(torch.float64)
        errors = self.error if self.counted is None else self.error[self.counted]
        return table(
            [
                ("scheme", repr(self.scheme)),
                ("shape", self.shape),
                ("blocks", f"{self.layout.block_count} of {self.layout.block_shape}"),
                ("scale", f"{number(scales.min().item())} … {number(scales.max().item())}"),
                ("q", f"{number(self.q.min().item(), 9)} … {number(self.q.max().item(), 9)}"),
                ("largest |error|", errors.abs().max().item() if errors.numel() else 0),
                ("clipped", int(self.clipped.sum())),
                *(("note", note) for note in self.notes),
            ]
        )

    @property
    def shape(self) -> Shape:
        """Return the input's shape."""
        return tuple(self.x.shape)

    @cached_property
    def counted(self) -> torch.Tensor | None:
        """Return whether each cell counts, bool of `shape`; None if all of them do.

        NaN and Inf in the input are left out.
        """
        return counted_cells(self.x, self.scheme)

    def scale_of_cells(self) -> torch.Tensor:
        """Return the scale of each element in the dtype it is applied in, broadcastable to `shape`."""
        return blocks.expand(self.qparams.scale.to(torch.float32), self.layout, self.shape)

    def step_of_cells(self) -> torch.Tensor:
        """Return the step of each element: its scale times the gap between its two grid neighbours."""
        return local_step(self.x, self.scale_of_cells(), self.scheme.number_format)


def steps_of_error(r: QuantResult) -> torch.Tensor:
    """Return each element's error in its own steps, float64.

    It is inf where a scale of 0 leaves an error, and nan where the cell is left out.
    """
    error = r.error.to(torch.float64)
    step = r.step_of_cells()
    steps = error / step.to(torch.float64)
    # Zeros under a scale of 0 have no error: 0 steps, where 0 / 0 would be NaN.
    if step.numel() and bool(step.amin() > 0):
        return steps
    return torch.where(error == 0, error, steps)


def bands_of(r: QuantResult, cells: int) -> Iterator[QuantResult]:
    """Yield a result in consecutive bands of rows of its layout's view, each of about `cells` cells."""
    view = r.layout.view_shape
    of_row = math.prod(r.layout.view_shape[1:])
    rows = max(cells // max(of_row, 1), 1)
    if rows >= view[0]:
        yield r
        return
    parts = [blocks.viewed(each, view) for each in (r.x, r.q, r.x_hat, r.error, r.clipped)]
    for first in range(0, view[0], rows):
        last = min(first + rows, view[0])
        x, q, x_hat, error, clipped = (part[first:last] for part in parts)
        # Each row gets the scales of the blocks that it crosses.
        scale = r.qparams.scale[torch.arange(first, last) // r.layout.block_shape[0]]
        layout = BlockLayout(
            (last - first, *view[1:]),
            (1, *r.layout.block_shape[1:]),
            (last - first, *r.layout.grid_shape[1:]),
            r.layout.tail,
        )
        yield QuantResult(
            r.scheme, QParams(scale), x, q, x_hat, error, clipped, layout, None, whole=r.tensor_shape
        )


def block_values(params: QParams) -> NamedTensors:
    """Return the values of each block that the operations read, by their names there."""
    return {"scale": params.scale, "zero_point": params.zero_point, **params.others}


_ELEMENTS_PER_CHUNK = 2**15


def refuse_other_than_results(r: object) -> None:
    """Raise `QuantVizError` for anything but a `QuantResult` whose tensor is still as it was quantized.

    `x` may be the caller's own memory, because a copy would take as much again: a later change there shows in
    the error, which is x_hat - x.
    """
    if not isinstance(r, QuantResult):
        raise QuantVizError("result_wanted", got=type(r).__name__)
    x, x_hat, error = (each.flatten() for each in (r.x, r.x_hat, r.error))
    for start in range(0, x.numel(), _ELEMENTS_PER_CHUNK):
        part = slice(start, start + _ELEMENTS_PER_CHUNK)
        difference = x_hat[part] - x[part]
        if torch.equal(difference, error[part]):
            continue
        # NaN is not equal to NaN.
        wrong = (difference != error[part]) & (difference == difference) & (error[part] == error[part])
        if bool(wrong.any()):
            first = start + int(wrong.nonzero()[0])
            index = tuple(int(place) for place in torch.unravel_index(torch.tensor(first), r.shape))
            raise QuantVizError("result_changed", count=int(wrong.sum()), index=index)


def counted_cells(x: torch.Tensor, scheme: Scheme) -> torch.Tensor | None:
    """Return whether each cell of `x` counts under `scheme`, bool of its shape; None if all of them do."""
    finite = torch.isfinite(x) if scheme.leaves_out else None
    if finite is None or bool(finite.all()):
        return None
    return finite
