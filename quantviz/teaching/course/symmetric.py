"""Symmetric, per channel, per group, and a linear layer: notebook 003."""

from __future__ import annotations

import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.quantizer import choose_qparams, quantize, values_of_codes
from quantviz.quantization.result import QParams
from quantviz.schemes.granularity import PerChannel, PerGroup
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.course.arguments import Number, format_of
from quantviz.teaching.course.one_scale import linear_dequantization, linear_q_with_scale_and_zero_point
from quantviz.tensors import blocks
from quantviz.tensors.conversion import as_plain, dtype_name


def get_q_scale_symmetric(
    tensor: torch.Tensor, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> float:
    """Return the scale that makes the largest magnitude the largest code, in the tensor's unit for one code.

    Notebook 003, cell 28. An all-zero tensor has scale 1; under `strict` it has the notebook's 0,
    by which the next cell divides.

    >>> get_q_scale_symmetric(torch.tensor([[-2, -1.13, 0.42], [-1.51, 0.25, 1.62], [0.23, 1.35, 2.15]]))
    0.016929134609192376
    >>> get_q_scale_symmetric(torch.zeros(3)), get_q_scale_symmetric(torch.zeros(3), strict=True)
    (1.0, 0.0)
    """
    if strict:
        return tensor.abs().max().item() / torch.iinfo(dtype).max
    return float(choose_qparams(tensor, Scheme(format_of(dtype))).scale.item())


def linear_q_symmetric(
    tensor: torch.Tensor, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> tuple[torch.Tensor, float]:
    """Return codes of the tensor's shape with zero point 0, and their one scale.

    Notebook 003, cell 31, whose scale is for int8 with every `dtype`: so it is under `strict`.

    >>> x = torch.tensor([[-2, -1.13, 0.42], [-1.51, 0.25, 1.62], [0.23, 1.35, 2.15]])
    >>> q, scale = linear_q_symmetric(x)
    >>> q.tolist(), scale
    ([[-118, -67, 25], [-89, 15, 96], [14, 80, 127]], 0.016929134609192376)
    >>> x = torch.tensor([1.0, 2.0])
    >>> linear_q_symmetric(x, torch.int16)[0].tolist()
    [16384, 32767]
    >>> linear_q_symmetric(x, torch.int16, strict=True)[0].tolist()
    [64, 127]
    """
    if strict:
        scale = get_q_scale_symmetric(tensor, strict=True)
        return linear_q_with_scale_and_zero_point(tensor, scale, 0, dtype, strict=True), scale
    r = quantize(tensor, Scheme(format_of(dtype)))
    return r.q.to(dtype), r.qparams.scale.item()


def linear_q_symmetric_per_channel(
    tensor: torch.Tensor, dim: int, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes with one scale for each index of axis `dim`, and those scales.

    Notebook 003, cell 45. For a tensor [A, B] the float32 scales are [A, 1] with `dim=0` and [1, B]
    with `dim=1`; `dim` may count from the end. `strict` has the notebook's scales for int8 with every
    `dtype`, and scale 0 for a channel of zeros.

    >>> x = torch.tensor([[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]])
    >>> q, scale = linear_q_symmetric_per_channel(x, dim=0)
    >>> q.tolist()
    [[33, -2, 127], [40, 127, -79], [0, 127, 46]]
    >>> scale
    tensor([[5.7370],
            [2.3268],
            [5.3906]])
    >>> linear_q_symmetric_per_channel(x, dim=1)[1].shape
    torch.Size([1, 3])
    """
    if strict:
        across = dim % tensor.dim()
        scales = torch.tensor(
            [get_q_scale_symmetric(channel, strict=True) for channel in tensor.unbind(dim)],
            dtype=torch.float32,
        )
        scale = scales[tuple(slice(None) if axis == across else None for axis in range(tensor.dim()))]
        return linear_q_with_scale_and_zero_point(tensor, scale, 0, dtype, strict=True), scale
    r = quantize(tensor, Scheme(format_of(dtype), granularity=PerChannel(dim)))
    return r.q.to(dtype), r.qparams.scale.to(torch.float32)


def linear_q_symmetric_per_group(
    tensor: torch.Tensor, group_size: int, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes with one scale for each `group_size` neighbours along the last axis, and those scales.

    Notebook 003, cell 49. For a tensor [A, B] the float32 scales are [A * B / group_size, 1], row
    after row. Raises `QuantVizError` if the group size does not divide the last axis.

    The notebook takes two axes only and looks at the second before it counts them: `strict` raises
    its `AssertionError`, `IndexError` for one axis, and `RuntimeError` for a transposed tensor, and
    has its scales for int8 with every `dtype`.

    >>> x = torch.tensor([[1.0, -2.0, 4.0, 0.5, 0.25, -0.125]])
    >>> q, scale = linear_q_symmetric_per_group(x, group_size=3)
    >>> q.tolist(), scale.shape
    ([[32, -64, 127, 127, 64, -32]], torch.Size([2, 1]))
    """
    if strict:
        if tensor.shape[1] % group_size or tensor.dim() != 2:
            raise AssertionError
        q, scale = linear_q_symmetric_per_channel(
            blocks.viewed(tensor, (-1, group_size)), 0, dtype, strict=True
        )
        return blocks.viewed(q, tuple(tensor.shape)), scale
    r = quantize(tensor, Scheme(format_of(dtype), granularity=PerGroup(group_size)))
    return r.q.to(dtype), r.qparams.scale.to(torch.float32).flatten().unsqueeze(1)


def linear_dequantization_per_group(
    quantized_tensor: torch.Tensor, scale: torch.Tensor, group_size: int, *, strict: bool = False
) -> torch.Tensor:
    """Return the float32 values of codes with one scale for each group, of the codes' shape.

    Notebook 003, cell 50; `scale` has the shape that `linear_q_symmetric_per_group` returns. Raises
    `QuantVizError` where groups and scales do not fit the codes.

    >>> q, scale = linear_q_symmetric_per_group(torch.tensor([[1.0, -2.0, 4.0, 0.5, 0.25, -0.125]]), 3)
    >>> linear_dequantization_per_group(q, scale, 3)
    tensor([[ 1.0079, -2.0157,  4.0000,  0.5000,  0.2520, -0.1260]])
    """
    if strict:
        values = linear_dequantization(
            blocks.viewed(quantized_tensor, (-1, group_size)), scale, 0, strict=True
        )
        return blocks.viewed(values, tuple(quantized_tensor.shape))
    return values_of_codes(
        as_plain(quantized_tensor), Scheme(granularity=PerGroup(group_size)), QParams(scale)
    )


def quantized_linear_W8A32_without_bias(
    input: torch.Tensor, q_w: torch.Tensor, s_w: Number, z_w: Number, *, strict: bool = False
) -> torch.Tensor:
    """Return a linear layer with 8-bit weights and 32-bit activations: `input` times the dequantized weight.

    Notebook 003, cell 53. `input` is float32 [..., in], `q_w` are codes [out, in] of int8 or uint8;
    the result is float32 [..., out]. Raises `QuantVizError` for other dtypes and lengths.

    The weight is `s_w * (q_w - z_w)`. The notebook computes `q_w * s_w + z_w`, which is the same
    only for `z_w = 0`, as in its one call: so does `strict`, with `AssertionError` for other dtypes.

    >>> weight = torch.tensor([[-2, -1.13, 0.42], [-1.51, 0.25, 1.62], [0.23, 1.35, 2.15]])
    >>> q_w, s_w = linear_q_symmetric(weight)
    >>> quantized_linear_W8A32_without_bias(torch.tensor([1.0, 2.0, 3.0]), q_w, s_w, 0)
    tensor([-2.9965,  3.8768,  9.3957])
    """
    if strict:
        if input.dtype != torch.float32 or q_w.dtype != torch.int8:
            raise AssertionError
        return torch.nn.functional.linear(input, q_w.float() * s_w + z_w)
    if input.dtype != torch.float32:
        raise QuantVizError("course.activation_dtype", dtype=dtype_name(input.dtype))
    if q_w.dtype not in (torch.int8, torch.uint8):
        raise QuantVizError("course.weight_dtype", dtype=dtype_name(q_w.dtype))
    if q_w.dim() != 2 or input.shape[-1:] != q_w.shape[-1:]:
        raise QuantVizError("course.linear_shapes", input=tuple(input.shape), weight=tuple(q_w.shape))
    return torch.nn.functional.linear(input, linear_dequantization(q_w, s_w, z_w))
