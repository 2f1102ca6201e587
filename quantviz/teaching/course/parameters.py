"""Scale, zero point and the codes' ends in one object: notebook 001."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from quantviz.quantization.quantizer import choose_qparams
from quantviz.schemes.choices import Mode
from quantviz.schemes.granularity import Granularity, PerChannel, PerTensor
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.course.arguments import (
    DTYPE_OF_FORMAT,
    IN_FLOAT32,
    code_ends,
    format_of,
    quantized_with,
    scheme_of_codes,
    wrapped,
)
from quantviz.teaching.course.one_scale import linear_dequantization


# Without ==: comparing two tensors gives a tensor, no answer.
@dataclass(eq=False)
class QuantizationParams:
    """Scale, zero point and the codes' two ends.

    Notebook 001, the cell before cell 10.
    """

    #: float32: one number of shape (), or one for each channel with 1 for every other axis.
    scale: torch.Tensor
    #: The code that stands for 0, as whole float32 numbers of the same shape.
    zero_point: torch.Tensor
    #: Smallest code.
    q_min: int
    #: Largest code.
    q_max: int


def get_symmetric_qparams(
    x: torch.Tensor,
    per_channel: bool = False,
    channel_dim: int = 0,
    dtype: torch.dtype = torch.int8,
    eps: float = 1e-8,
    *,
    strict: bool = False,
) -> QuantizationParams:
    """Return scales that make the largest magnitude the largest code; the zero point is 0.

    Notebook 001, cell 12. For `x` [A, B] the scale is a single number, or [A, 1] with `per_channel`
    and `channel_dim=0`. No scale is smaller than `eps`; all zeros have scale 1.

    With `per_channel` one axis gives one scale an element, `channel_dim` may count from the end,
    and an axis that is not there is refused with `QuantVizError`. The notebook's code silently
    takes one scale for the whole tensor in all three cases, and `eps` for zeros: so does `strict`.

    >>> x = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    >>> get_symmetric_qparams(x)
    QuantizationParams(scale=tensor(0.0172), zero_point=tensor(0.), q_min=-128, q_max=127)
    >>> get_symmetric_qparams(x, True, 0).scale
    tensor([[0.0172],
            [0.0110],
            [0.0066]])
    >>> get_symmetric_qparams(x[0], True).scale.shape
    torch.Size([3])
    >>> get_symmetric_qparams(x[0], True, strict=True).scale.shape
    torch.Size([1])
    """
    if strict:
        low, high = code_ends(dtype)
        largest = x.abs().amax(_other_axes(x, channel_dim), keepdim=True) if per_channel else x.abs().max()
        scale = torch.clip(largest / high, eps)
        return QuantizationParams(scale, torch.zeros_like(scale), low, high)
    return _qparams(x, "symmetric", per_channel, channel_dim, dtype, eps)


def get_asymmetric_qparams(
    x: torch.Tensor,
    per_channel: bool = False,
    channel_dim: int = 0,
    dtype: torch.dtype = torch.int8,
    eps: float = 1e-8,
    *,
    strict: bool = False,
) -> QuantizationParams:
    """Return scales and zero points that lay the smallest and largest value on the two ends of the codes.

    Notebook 001, cell 19; shapes, `eps` and `per_channel` as in `get_symmetric_qparams`.

    A block of equal values has no width: its range is widened to 0. The notebook's code gives it
    the scale `eps`, which turns a constant 5.0 into 2.55e-06: so does `strict`. The notebook rounds
    `x_min / scale` before it subtracts, the core after; in float32 the zero points can differ by 1
    where that quotient lies next to a half.

    >>> x = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    >>> get_asymmetric_qparams(x)
    QuantizationParams(scale=tensor(0.0146), zero_point=tensor(21.), q_min=-128, q_max=127)
    >>> fives = torch.full((3,), 5.0)
    >>> get_asymmetric_qparams(fives).scale, get_asymmetric_qparams(fives, strict=True).scale
    (tensor(0.0196), tensor(1.0000e-08))
    """
    if strict:
        low, high = code_ends(dtype)
        axes = _other_axes(x, channel_dim)
        lo, hi = (
            (x.amin(axes, keepdim=True), x.amax(axes, keepdim=True)) if per_channel else (x.min(), x.max())
        )
        scale = torch.clip((hi - lo) / (high - low), eps)
        return QuantizationParams(scale, torch.clip(low - torch.round(lo / scale), low, high), low, high)
    return _qparams(x, "asymmetric", per_channel, channel_dim, dtype, eps)


def quantize_tensor(x: torch.Tensor, qparams: QuantizationParams, *, strict: bool = False) -> torch.Tensor:
    """Return the codes `clip(round(x / scale + zero_point), q_min, q_max)`, of the shape of `x`.

    Notebook 001, cell 23. Their dtype is that of the number format that reaches from `q_min` to
    `q_max`; `QuantVizError` where there is none. The notebook stores them as int8 whatever the
    range, so that unsigned codes above 127 come out 256 too small: so does `strict`.

    >>> x = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    >>> quantize_tensor(x, get_symmetric_qparams(x, True, 0)).tolist()
    [[90, -17, -127], [52, -98, -127], [61, 127, -109]]
    >>> unsigned = get_asymmetric_qparams(x, dtype=torch.uint8)
    >>> quantize_tensor(x, unsigned)[0].tolist(), quantize_tensor(x, unsigned, strict=True)[0].tolist()
    ([255, 129, 0], [-1, -127, 0])
    """
    if strict:
        return wrapped(
            torch.clip(torch.round(x / qparams.scale + qparams.zero_point), qparams.q_min, qparams.q_max),
            torch.int8,
        )
    scheme = scheme_of_codes(qparams.q_min, qparams.q_max)
    q = quantized_with(x, qparams.scale, qparams.zero_point, scheme).q
    return q.to(DTYPE_OF_FORMAT.get(scheme.format, q.dtype))


def dequantize_tensor(q: torch.Tensor, qparams: QuantizationParams, *, strict: bool = False) -> torch.Tensor:
    """Return the values `scale * (q - zero_point)` in float32, of the shape of `q`.

    Notebook 001, cell 35. `strict` checks nothing.

    >>> x = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    >>> params = get_asymmetric_qparams(x)
    >>> dequantize_tensor(quantize_tensor(x, params), params)[0]
    tensor([ 1.5463, -0.2917, -2.1735])
    """
    return linear_dequantization(q, qparams.scale, qparams.zero_point, strict=strict)


def quantize_dequant(
    x: torch.Tensor,
    per_channel: bool = False,
    channel_dim: int = 0,
    dtype: torch.dtype = torch.int8,
    sym: bool = True,
    *,
    strict: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, QuantizationParams]:
    """Return codes, dequantized values and parameters, symmetric or (`sym=False`) asymmetric.

    Notebook 001, cell 40, and it differs where the three functions it calls do.

    >>> x = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    >>> q, x_hat, params = quantize_dequant(x, sym=False)
    >>> q.tolist(), params
    ([[127, 1, -128], [60, -53, -75], [49, 78, -28]], QuantizationParams(scale=tensor(0.0146),
    zero_point=tensor(21.), q_min=-128, q_max=127))
    """
    choose = get_symmetric_qparams if sym else get_asymmetric_qparams
    qparams = choose(x, per_channel, channel_dim, dtype, strict=strict)
    q = quantize_tensor(x, qparams, strict=strict)
    return q, dequantize_tensor(q, qparams, strict=strict), qparams


def _qparams(
    x: torch.Tensor, mode: Mode, per_channel: bool, channel_dim: int, dtype: torch.dtype, eps: float
) -> QuantizationParams:
    granularity: Granularity = PerChannel(channel_dim) if per_channel else PerTensor()
    scheme = Scheme(
        format_of(dtype), mode, granularity, convention=IN_FLOAT32.replace(**{"scale.floor": float(eps)})
    )
    params = choose_qparams(x, scheme)
    scale = params.scale
    zero_point = params.zero_point.to(torch.float32)
    # The core has one number for each block, (1, 1) for a whole matrix; the notebook a single one.
    one = () if per_channel else (0,) * scale.dim()
    return QuantizationParams(scale[one], zero_point[one], scheme.code_min, scheme.code_max)


def _other_axes(x: torch.Tensor, channel_dim: int) -> tuple[int, ...]:
    """Return the axes the notebook reduces: all but `channel_dim`, and all where none is left."""
    axes = tuple(range(x.dim()))
    return tuple(axis for axis in axes if axis != channel_dim) or axes
