"""The factors of an integer product: codes with their scale and zero point, and a picture's patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.layers.kernel_places import KernelPlaces, padded, reach, transposed_places
from quantviz.pickling import Picklable
from quantviz.public_calls import check_fields, checked_fields, public, public_class
from quantviz.quantization.result import QuantResult
from quantviz.schemes.formats import NumberFormat, find_format
from quantviz.schemes.granularity import Shape
from quantviz.tensors.blocks import viewed
from quantviz.tensors.conversion import as_codes, as_plain

#: Bits of a code at most: sums of longer ones are beyond int64.
_CODE_BITS = 16
#: Cells of patches at most, at 4 bytes each: a larger picture is cut into several.
_MOST_CELLS = 2**31


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class Codes(Picklable):
    """A matrix of codes (lines, inputs), with one scale and zero point, or one for each line.

    Made by hand, the fields may be numbers, nested lists, arrays or tensors.

    >>> Codes([[1, -2], [3, 4]], [0.5, 0.25]).scale.tolist()
    [0.5, 0.25]
    """

    #: int32 (lines, inputs).
    codes: Any
    #: float32, of one number or (lines,).
    scale: Any
    #: int32 codes of the value 0, of the same shape.
    zero_point: Any = 0
    #: Id of an integer format of at most 8 bits, or 16 with an engine whose sums are int64.
    number_format: str = "int8"

    def __post_init__(self) -> None:
        check_fields(self)
        codes = as_codes(self.codes, self.format).to(torch.int32)
        if codes.dim() != 2:
            raise QuantVizError("integer.not_matrix", shape=tuple(codes.shape))
        # Codes have an axis.
        zeros = [self.zero_point] if isinstance(self.zero_point, int) else self.zero_point
        zero = as_codes(zeros, self.format).to(torch.int32).flatten()
        scale = _real(self.scale)
        for name, values in (("scale", scale), ("zero_point", zero)):
            if values.numel() not in (1, len(codes)):
                raise QuantVizError("integer.one_a_line", name=name, got=values.numel(), lines=len(codes))
        if not bool(((scale > 0) & torch.isfinite(scale)).all()):
            raise QuantVizError("scale_not_positive", got=scale.min().item())
        for name, value in (("codes", codes), ("scale", scale), ("zero_point", zero)):
            single = name != "codes" and value.numel() == 1
            object.__setattr__(self, name, value[0] if single else value)

    def __repr__(self) -> str:
        lines, inputs = self.shape
        return f"Codes({self.number_format}, {lines} lines × {inputs} inputs, {self.scale.numel()} scales)"

    @property
    def format(self) -> NumberFormat:
        """Return the number format of the codes."""
        fmt = find_format(self.number_format)
        if fmt.kind != "integer":
            raise QuantVizError("operator_needs_integers", got=self.number_format)
        if fmt.bits > _CODE_BITS:
            raise QuantVizError("integer.too_many_bits", got=self.number_format, most=_CODE_BITS)
        return fmt

    @property
    def shape(self) -> Shape:
        """Return the numbers of lines and of inputs."""
        return tuple(self.codes.shape)

    @classmethod
    def of(cls, result: QuantResult) -> Codes:
        """Return the codes of a matrix that `quantize` made with one scale, or one for each row.

        Raises:
            QuantVizError: Its scales are of groups, blocks or columns, or its zero points are not codes.
        """
        params = result.qparams
        lines = (len(result.q), 1)
        single = all(count == 1 for count in result.layout.grid_shape)
        if result.q.dim() != 2 or not (single or tuple(result.layout.grid_shape) == lines):
            raise QuantVizError("integer.scales_in_sum", grid=result.layout.grid_shape, shape=result.shape)
        return cls(result.q, params.scale.flatten(), params.zero_point.flatten(), result.scheme.format)


@public
def patches(
    x: Any,
    kernel: tuple[int, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[tuple[int, int], ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    zero: int = 0,
    groups: int = 1,
    transposed: bool = False,
) -> torch.Tensor:
    """Return the patches that a convolution multiplies, as rows: int32 (images · places, channels · kernel).

    A convolution is this matrix times its kernels, each as one row: `W.reshape(outputs, -1)`; a transposed
    one times `W.transpose(0, 1).reshape(outputs, -1)`, as its weight has the inputs first. One with groups is
    a product for each group, and has a matrix for each: int32 (groups, images · places, …), the one of
    group g times the g-th part of the kernels, as `W.reshape(groups, outputs // groups, -1)[g]` has them.

    Args:
        x: Codes of pictures, (images, channels, …) with one to three axes more, at most 16 bits each.
        kernel: The size of the kernel along each of these axes.
        stride: The step between two places: a number, or one for each axis.
        padding: Cells that are added on each side of each axis; or pairs of those before and after it, an
            axis after the other. "valid" adds none; "same_upper" and "same_lower" add as many as give
            size ÷ stride places, the odd one at the end or at the beginning: TensorFlow's SAME is the former.
            Where a stride exceeds its kernel by three or more, ONNX Runtime leaves first cells out instead.
            They are codes of the value 0, not the code 0. Of a transposed convolution they are cut off the
            outputs; there a number below 0 adds some, as its output padding does.
        dilation: The step between two cells of the kernel, likewise.
        zero: The zero point of the codes, which fills the padding.
        groups: Runs of neighbouring channels, each with kernels of its own; as many as channels where the
            convolution is depthwise.
        transposed: Whether it is a transposed convolution, which gives size · stride outputs.

    Raises:
        QuantVizError: `x` has other axes, groups do not divide the channels, or no kernel of this size fits.

    >>> patches([[[[1, 2], [3, 4]]]], (2, 2), padding=1, zero=-7).tolist()[0]
    [-7, -7, -7, 1]
    >>> patches([[[1, 2], [3, 4]]], (2,), groups=2).tolist()
    [[[1, 2]], [[3, 4]]]
    """
    plain = as_plain(x)
    # Codes have four axes at most, and pictures of three axes have five.
    flat = plain.flatten(0, 1) if plain.dim() == 5 else plain
    codes = as_codes(flat, find_format("int16")).to(torch.int32).contiguous()
    pictures = viewed(codes, tuple(plain.shape))
    axes = pictures.dim() - 2
    steps, apart = (step if isinstance(step, tuple) else (step,) * axes for step in (stride, dilation))
    sizes = (*kernel, *steps, *apart)
    fits = 1 <= axes <= 3 and len(kernel) == len(steps) == len(apart) == axes
    if not fits or min(sizes) < 1 or max(sizes) > max(pictures.shape) + 2:
        raise QuantVizError("integer.no_patches", shape=tuple(pictures.shape), kernel=kernel)
    if groups < 1 or pictures.shape[1] % groups:
        raise QuantVizError("integer.groups", got=groups, channels=pictures.shape[1])
    places = _places(pictures, kernel, (steps, apart), padding, zero, transposed=transposed)
    if not places.count:
        raise QuantVizError("integer.no_patches", shape=tuple(pictures.shape), kernel=kernel)
    rows = places.read(torch.arange(places.count))
    return rows if groups == 1 else torch.stack(rows.chunk(groups, 1))


def _places(
    pictures: torch.Tensor,
    kernel: tuple[int, ...],
    steps: tuple[tuple[int, ...], tuple[int, ...]],
    padding: int | tuple[tuple[int, int], ...] | str,
    zero: int,
    *,
    transposed: bool,
) -> KernelPlaces:
    stride, dilation = steps
    reaches = [reach(*sizes) for sizes in zip(kernel, dilation, strict=True)]
    sides = _pads(padding, tuple(pictures.shape[2:]), reaches, stride, transposed=transposed)
    lengths = (pictures.shape[2:], stride, reaches)
    apart = math.prod(length * step + size for length, step, size in zip(*lengths, strict=True))
    cells = math.prod(pictures.shape[:2]) * apart if transposed else 0
    _check_cells(cells)
    if transposed:
        places = transposed_places(pictures, kernel, stride, sides, dilation, zero)
    else:
        places = KernelPlaces(padded(pictures, sides, zero), kernel, stride, dilation)
    _check_cells(places.count * pictures.shape[1] * math.prod(kernel))
    return places


def _check_cells(cells: int) -> None:
    if cells > _MOST_CELLS:
        raise QuantVizError("integer.too_many_patches", got=cells, most=_MOST_CELLS)


def _pads(
    padding: int | tuple[tuple[int, int], ...] | str,
    lengths: Shape,
    reaches: Sequence[int],
    steps: Sequence[int],
    *,
    transposed: bool,
) -> Sequence[tuple[int, int]]:
    if padding == "valid":
        padding = 0
    if isinstance(padding, str):
        if padding not in ("same_upper", "same_lower"):
            raise QuantVizError("integer.padding", got=padding)
        added = [
            max(0, (size - step) if transposed else (-(-length // step) - 1) * step + size - length)
            for length, size, step in zip(lengths, reaches, steps, strict=True)
        ]
        begin = [(each + (padding == "same_lower")) // 2 for each in added]
        return [(first, each - first) for first, each in zip(begin, added, strict=True)]
    pads = ((padding, padding),) * len(lengths) if isinstance(padding, int) else padding
    most = max(lengths) + 2
    if len(pads) != len(lengths) or not all(
        -most * transposed <= each <= most for pair in pads for each in pair
    ):
        raise QuantVizError("integer.padding", got=padding)
    return pads


def _real(scale: Any) -> torch.Tensor:
    try:
        values = torch.as_tensor(scale, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise QuantVizError("scale_not_positive", got=scale) from None
    return values.flatten()
