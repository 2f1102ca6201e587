"""Scale and zero point as numbers, and the four heatmaps: notebooks 000, 002 and 003."""

from __future__ import annotations

from typing import Any

import torch

from quantviz.quantization.operations import run_operations
from quantviz.quantization.quantizer import choose_qparams, values_of_codes
from quantviz.quantization.result import QuantResult
from quantviz.quantization.value_to_code import code_operations
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.course.arguments import (
    Number,
    also_called,
    code_ends,
    format_of,
    quantized_with,
    spread,
    wrapped,
)
from quantviz.tensors.conversion import as_plain


@also_called(tensor="r_tensor")
def get_q_scale_and_zero_point(
    r_tensor: torch.Tensor, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> tuple[float, int]:
    """Return one scale and zero point for a whole tensor, from its smallest and largest value.

    Notebook 000, cell 49 (`r_tensor`), and notebook 003, cell 17 (`tensor`). `r_tensor` has 1 to 4
    axes; `dtype` is that of the codes: int8, uint8, int16 or uint16. The scale is in the tensor's
    unit for one code, the zero point is a code, clamped to the codes there are.

    A constant tensor has no width: its range is widened to 0. `strict` divides by zero there, as
    both notebooks do, and has 003's int8 for every `dtype`; 000 honours it.

    >>> x = torch.tensor([[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]])
    >>> get_q_scale_and_zero_point(x)
    (3.578823433670343, -77)
    >>> get_q_scale_and_zero_point(x, torch.uint8), get_q_scale_and_zero_point(x, torch.uint8, strict=True)
    ((3.578823433670343, 51), (3.578823433670343, -77))
    """
    if strict:
        low, high = code_ends(torch.int8)
        lo = r_tensor.min().item()
        hi = r_tensor.max().item()
        scale = (hi - lo) / (high - low)
        return scale, round(min(max(low - lo / scale, low), high))
    params = choose_qparams(r_tensor, Scheme(format_of(dtype), "asymmetric"))
    return params.scale.item(), params.zero_point.item()


def linear_q_with_scale_and_zero_point(
    tensor: torch.Tensor,
    scale: Number,
    zero_point: Number,
    dtype: torch.dtype = torch.int8,
    *,
    strict: bool = False,
) -> torch.Tensor:
    """Return the codes `clamp(round(tensor / scale + zero_point))`, of the tensor's shape and of `dtype`.

    Notebook 000, cell 53; notebook 003, cell 2. `scale` and `zero_point` are numbers, or tensors
    that broadcast to the tensor's shape: (3, 1) over (3, 3) is one for each row.

    Raises `QuantVizError` for a scale that is not positive, a zero point that is not whole, and NaN
    or Inf in the tensor. `strict` takes them all, computes in the tensor's own dtype where this
    takes float32, and allows int32 and int64 too.

    >>> x = torch.tensor([[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]])
    >>> linear_q_with_scale_and_zero_point(x, 3.5, -70).tolist()
    [[-15, -74, 127], [-44, 14, -123], [-70, 126, 0]]
    """
    if strict:
        return wrapped(torch.round(tensor / scale + zero_point).clamp(*code_ends(dtype)), dtype)
    return quantized_with(tensor, scale, zero_point, Scheme(format_of(dtype), "asymmetric")).q.to(dtype)


@also_called(q="quantized_tensor")
def linear_dequantization(
    quantized_tensor: torch.Tensor, scale: Number, zero_point: Number, *, strict: bool = False
) -> torch.Tensor:
    """Return the values `scale * (quantized_tensor - zero_point)` in float32, of the codes' shape.

    Notebook 000, cell 62 (`quantized_tensor`), and notebook 003, cell 10 (`q`). `scale` and
    `zero_point` broadcast as in `linear_q_with_scale_and_zero_point`, and the same are refused.
    Both notebooks turn the codes into floats first; cell 9 of 003 shows the wrong values of an int8
    subtraction. `strict` checks nothing, and a float64 scale tensor gives float64 values.

    >>> q = torch.tensor([[-15, -74, 127]], dtype=torch.int8)
    >>> linear_dequantization(q, 3.5, -70)
    tensor([[192.5000, -14.0000, 689.5000]])
    >>> 3.5 * (q - -70)
    tensor([[ 192.5000,  -14.0000, -206.5000]])
    """
    if strict:
        return scale * (quantized_tensor.float() - zero_point)
    q = as_plain(quantized_tensor)
    granularity, params = spread(scale, zero_point, tuple(q.shape))
    return values_of_codes(q, Scheme("int8", "asymmetric", granularity), params)


def linear_quantization(
    tensor: torch.Tensor, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> tuple[torch.Tensor, float, int]:
    """Return codes of the tensor's shape, scale and zero point: the two functions above in one.

    Notebook 000, cell 70; notebook 003, cell 22. Under `strict` a `dtype` other than int8 gets
    003's mixture: clamped to `dtype`, with scale and zero point for int8.

    >>> q, scale, zero_point = linear_quantization(torch.tensor([[2.2076, -1.7764, -0.9115, -0.0222]]))
    >>> q.tolist(), round(scale, 6), zero_point
    ([[127, -128, -72, -15]], 0.015624, -14)
    """
    scale, zero_point = get_q_scale_and_zero_point(tensor, dtype=dtype, strict=strict)
    return (
        linear_q_with_scale_and_zero_point(tensor, scale, zero_point, dtype=dtype, strict=strict),
        scale,
        zero_point,
    )


def linear_quantizer(tensor: torch.Tensor, s: Number, z: Number, *, strict: bool = False) -> torch.Tensor:
    """Return int8 codes of the tensor's shape; print the rounded values before they are clamped.

    Notebook 002, cell 49. Refuses and `strict` as in `linear_q_with_scale_and_zero_point`.

    >>> q = linear_quantizer(torch.tensor([[191.6, -13.5, 728.6]]), 3.5, -70)
    tensor([[-15., -74., 138.]])
    >>> q.tolist()
    [[-15, -74, 127]]
    """
    if strict:
        rounded = torch.round(tensor / s + z)
        print(rounded)
        return wrapped(rounded.clamp(-128, 127), torch.int8)
    r = quantized_with(tensor, s, z, Scheme("int8", "asymmetric"))
    print(
        run_operations(
            code_operations(r.scheme),
            {"x": r.x, "scale": r.qparams.scale, "zero_point": r.qparams.zero_point},
        )["y"]
    )
    return r.q


def linear_dequantizer(tensor: torch.Tensor, s: Number, z: Number, *, strict: bool = False) -> torch.Tensor:
    """Return the values `s * (tensor - z)` in float32: `linear_dequantization` by another name.

    Notebook 002, cell 51.

    >>> linear_dequantizer(torch.tensor([-15, -74, 127], dtype=torch.int8), 3.5, -70)
    tensor([192.5000, -14.0000, 689.5000])
    """
    return linear_dequantization(tensor, s, z, strict=strict)


def plot_quantization_errors(
    original: Any,
    quantized: Any,
    dequantized: Any,
    dtype: torch.dtype = torch.int8,
    n_bits: int = 8,
    *,
    result: QuantResult | None = None,
    selected: tuple[int, int] | None = None,
) -> Any:
    """Return the four heatmaps of `quantviz.plot_quantization_errors`, a plotly figure.

    Notebook 000, cell 68 and the last cells, which have no such function and end in a `NameError`.
    plotly is imported here and not before.

    >>> x, q, x_hat = torch.tensor([[1.0, -2.0]]), torch.tensor([[64, -127]]), torch.tensor([[1.008, -2.0]])
    >>> figure = plot_quantization_errors(x, q, x_hat)
    >>> len(figure.data)
    4
    """
    from quantviz.figures import panels

    return panels.plot_quantization_errors(
        original, quantized, dequantized, dtype, n_bits, result=result, selected=selected
    )
