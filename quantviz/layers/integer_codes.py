"""The factors of an integer product: codes with their scale and zero point, and a picture's patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from quantviz.door import check_fields, checked_fields, public, public_class
from quantviz.errors import QuantVizError
from quantviz.pickling import Picklable
from quantviz.quantization.result import QuantResult
from quantviz.schemes.formats import NumberFormat, find_format
from quantviz.schemes.granularity import Shape
from quantviz.tensors.conversion import as_codes

#: Bits of a code at most: the accumulator of a longer one would not be int32.
_CODE_BITS = 8


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
    #: Id of an integer format of at most 8 bits.
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
    kernel: tuple[int, int],
    *,
    stride: int = 1,
    padding: int | tuple[tuple[int, int], tuple[int, int]] | str = 0,
    dilation: int = 1,
    zero: int = 0,
) -> torch.Tensor:
    """Return the patches that a convolution multiplies, as rows: int32 (images · places, channels · kernel).

    A convolution is this matrix times its kernels, each as one row: `W.reshape(outputs, -1)`. Padding is the
    code of the value 0, not the code 0.

    Args:
        x: Codes of pictures, (images, channels, height, width), at most 16 bits each.
        kernel: Height and width of the kernel.
        stride: The step between two places.
        padding: Rows and columns that are added on each side; or pairs of rows above and below, and columns
            left and right; "same_upper" or "same_lower" adds as many as give size ÷ stride places, the odd
            one at the end or at the beginning: TensorFlow's SAME is the former.
        dilation: The step between two cells of the kernel.
        zero: The zero point of the codes, which fills the padding.

    Raises:
        QuantVizError: `x` is not of four axes, or no kernel of this size fits.

    >>> patches([[[[1, 2], [3, 4]]]], (2, 2), padding=1, zero=-7).tolist()[0]
    [-7, -7, -7, 1]
    """
    wide = as_codes(x, find_format("int16")).to(torch.float32)
    sizes = (*kernel, stride, dilation)
    if wide.dim() != 4 or min(sizes) < 1 or max(sizes) > max(wide.shape) + 2:
        raise QuantVizError("integer.no_patches", shape=tuple(wide.shape), kernel=kernel)
    reach = [dilation * (size - 1) + 1 for size in kernel]
    rows, columns = _pads(padding, wide.shape[2:], reach, stride)
    padded = torch.nn.functional.pad(wide, (*columns, *rows), value=float(zero))
    if reach[0] > padded.shape[2] or reach[1] > padded.shape[3]:
        raise QuantVizError("integer.no_patches", shape=tuple(wide.shape), kernel=kernel)
    places = torch.nn.functional.unfold(padded, kernel, dilation=dilation, stride=stride)
    return torch.cat(tuple(places), 1).T.to(torch.int32)


def _pads(
    padding: int | tuple[tuple[int, int], tuple[int, int]] | str,
    lengths: Shape,
    reach: Sequence[int],
    stride: int,
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the rows to add above and below, and the columns to add left and right.

    >>> _pads("same_upper", (8, 8), (3, 3), 2), _pads("same_lower", (8, 7), (3, 3), 2)
    (((0, 1), (0, 1)), ((1, 0), (1, 1)))
    """
    if isinstance(padding, str):
        if padding not in ("same_upper", "same_lower"):
            raise QuantVizError("integer.padding", got=padding)
        added = [
            max(0, (-(-length // stride) - 1) * stride + size - length)
            for length, size in zip(lengths, reach, strict=True)
        ]
        begin = [(each + (padding == "same_lower")) // 2 for each in added]
        rows, columns = ((first, each - first) for first, each in zip(begin, added, strict=True))
        return rows, columns
    pads = ((padding, padding),) * 2 if isinstance(padding, int) else padding
    if not all(0 <= each <= max(lengths) + 2 for pair in pads for each in pair):
        raise QuantVizError("integer.padding", got=padding)
    return pads


def _real(scale: Any) -> torch.Tensor:
    try:
        values = torch.as_tensor(scale, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise QuantVizError("scale_not_positive", got=scale) from None
    return values.flatten()
