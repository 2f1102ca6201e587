"""The five course notebooks' functions under their own names: `from quantviz.teaching.course import *`.

Positions, parameter names and defaults are the notebooks'; the arithmetic is the core's, so a code
made here is a code made by `quantize`. Where a notebook's own code goes wrong (a constant tensor,
a dtype that is not honoured, a zero point added instead of subtracted) these functions do what was
meant, and each docstring says so. `strict=True` gives what the notebook's code gives, accidents
included: it is a parameter of each call, because people share a process.

| notebook | functions |
|---|---|
| 000 | `get_q_scale_and_zero_point`, `linear_q_with_scale_and_zero_point`, `linear_dequantization`, `linear_quantization`, `plot_quantization_errors` |
| 001 | `QuantizationParams`, `get_symmetric_qparams`, `get_asymmetric_qparams`, `quantize_tensor`, `dequantize_tensor`, `quantize_dequant` |
| 002 | `linear_quantizer`, `linear_dequantizer` |
| 003 | those of 000 once more, `get_q_scale_symmetric`, `linear_q_symmetric`, `linear_q_symmetric_per_channel`, `linear_q_symmetric_per_group`, |
|     | `linear_dequantization_per_group`, `quantized_linear_W8A32_without_bias` |
| 004 | none: its cells are single lines of arithmetic |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.operations import run_operations
from quantviz.quantization.quantizer import choose_qparams, quantize, values_of_codes
from quantviz.quantization.result import QParams, QuantResult
from quantviz.quantization.value_to_code import code_operations
from quantviz.schemes.conventions import CONVENTIONS
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Granularity, PerChannel, PerGroup, PerTensor
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks
from quantviz.tensors.conversion import as_input, as_plain, dtype_name

if TYPE_CHECKING:
    from quantviz.schemes.granularity import Shape

__all__ = [
    "QuantizationParams",
    "dequantize_tensor",
    "get_asymmetric_qparams",
    "get_q_scale_and_zero_point",
    "get_q_scale_symmetric",
    "get_symmetric_qparams",
    "linear_dequantization",
    "linear_dequantization_per_group",
    "linear_dequantizer",
    "linear_q_symmetric",
    "linear_q_symmetric_per_channel",
    "linear_q_symmetric_per_group",
    "linear_q_with_scale_and_zero_point",
    "linear_quantization",
    "linear_quantizer",
    "plot_quantization_errors",
    "quantize_dequant",
    "quantize_tensor",
    "quantized_linear_W8A32_without_bias",
]

#: A scale or zero point: one number, or a tensor that broadcasts to the one it belongs to.
Number = float | torch.Tensor
Function = TypeVar("Function", bound=Callable[..., Any])

#: The number format whose codes a dtype holds.
_FORMATS: Mapping[torch.dtype, str] = MappingProxyType(
    {torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.uint16: "uint16"}
)
_DTYPES: Mapping[str, torch.dtype] = MappingProxyType({name: dtype for dtype, name in _FORMATS.items()})
#: Notebook 001 computes with float32 tensors where 000 and 003 take Python's numbers.
_IN_FLOAT32 = CONVENTIONS["course"].replace(scale_math="float32", scale_dtype="float32")


def _also_called(**names: str) -> Callable[[Function], Function]:
    """Let a parameter go by another notebook's name for it, `_also_called(other="own")`."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for other, own in names.items():
                # Both names at once stay an error, and it is Python's own.
                if other in kwargs and own not in kwargs:
                    kwargs[own] = kwargs.pop(other)
            return function(*args, **kwargs)

        return cast(Function, call)

    return decorate


# ---- scale and zero point as numbers: notebooks 000 and 003 -------------------------------------


@_also_called(tensor="r_tensor")
def get_q_scale_and_zero_point(
    r_tensor: torch.Tensor, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> tuple[float, int]:
    """Return one scale and zero point for a whole tensor, from its smallest and largest value.

    Notebook 000, cell 49 (`r_tensor`), and notebook 003, cell 17 (`tensor`). `r_tensor` has 1 to 4
    axes; `dtype` is that of the codes: int8, uint8, int16 or uint16. The scale is in the tensor's
    unit for one code, the zero point is a code, clamped to the codes there are.

    A constant tensor has no width: its range is widened to 0. `strict` divides by zero there, as
    both notebooks do, and has 003's int8 whatever `dtype` says; 000 honours it.

    >>> x = torch.tensor([[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]])
    >>> get_q_scale_and_zero_point(x)
    (3.578823433670343, -77)
    >>> get_q_scale_and_zero_point(x, torch.uint8), get_q_scale_and_zero_point(x, torch.uint8, strict=True)
    ((3.578823433670343, 51), (3.578823433670343, -77))
    """
    if strict:
        low, high = _ends(torch.int8)
        lo, hi = r_tensor.min().item(), r_tensor.max().item()
        scale = (hi - lo) / (high - low)
        return scale, round(min(max(low - lo / scale, low), high))
    params = choose_qparams(r_tensor, Scheme(_format(dtype), "asymmetric"))
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
    takes float32, and knows int32 and int64 too.

    >>> x = torch.tensor([[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]])
    >>> linear_q_with_scale_and_zero_point(x, 3.5, -70).tolist()
    [[-15, -74, 127], [-44, 14, -123], [-70, 126, 0]]
    """
    if strict:
        return _stored(torch.round(tensor / scale + zero_point).clamp(*_ends(dtype)), dtype)
    return _quantized(tensor, scale, zero_point, Scheme(_format(dtype), "asymmetric")).q.to(dtype)


@_also_called(q="quantized_tensor")
def linear_dequantization(
    quantized_tensor: torch.Tensor, scale: Number, zero_point: Number, *, strict: bool = False
) -> torch.Tensor:
    """Return the values `scale * (quantized_tensor - zero_point)` in float32, of the codes' shape.

    Notebook 000, cell 62 (`quantized_tensor`), and notebook 003, cell 10 (`q`). `scale` and
    `zero_point` broadcast as in `linear_q_with_scale_and_zero_point`, and the same are refused.
    Both notebooks turn the codes into floats first; cell 9 of 003 shows what an int8 subtraction
    makes of them. `strict` checks nothing, and a float64 scale tensor gives float64 values.

    >>> q = torch.tensor([[-15, -74, 127]], dtype=torch.int8)
    >>> linear_dequantization(q, 3.5, -70)
    tensor([[192.5000, -14.0000, 689.5000]])
    >>> 3.5 * (q - -70)
    tensor([[ 192.5000,  -14.0000, -206.5000]])
    """
    if strict:
        return scale * (quantized_tensor.float() - zero_point)
    q = as_plain(quantized_tensor)
    granularity, params = _spread(scale, zero_point, tuple(q.shape))
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


# ---- symmetric, per channel, per group: notebook 003 --------------------------------------------


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
    return float(choose_qparams(tensor, Scheme(_format(dtype))).scale.item())


def linear_q_symmetric(
    tensor: torch.Tensor, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> tuple[torch.Tensor, float]:
    """Return codes of the tensor's shape with zero point 0, and their one scale.

    Notebook 003, cell 31, whose scale is for int8 whatever `dtype` says: so it is under `strict`.

    >>> q, scale = linear_q_symmetric(torch.tensor([[-2, -1.13, 0.42], [-1.51, 0.25, 1.62], [0.23, 1.35, 2.15]]))
    >>> q.tolist(), scale
    ([[-118, -67, 25], [-89, 15, 96], [14, 80, 127]], 0.016929134609192376)
    >>> x = torch.tensor([1.0, 2.0])
    >>> linear_q_symmetric(x, torch.int16)[0].tolist(), linear_q_symmetric(x, torch.int16, strict=True)[0].tolist()
    ([16384, 32767], [64, 127])
    """
    if strict:
        scale = get_q_scale_symmetric(tensor, strict=True)
        return linear_q_with_scale_and_zero_point(tensor, scale, 0, dtype, strict=True), scale
    r = quantize(tensor, Scheme(_format(dtype)))
    return r.q.to(dtype), r.qparams.scale.item()


def linear_q_symmetric_per_channel(
    tensor: torch.Tensor, dim: int, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes with one scale for each index of axis `dim`, and those scales.

    Notebook 003, cell 45. For a tensor [A, B] the float32 scales are [A, 1] with `dim=0` and [1, B]
    with `dim=1`; `dim` may count from the end. `strict` has the notebook's scales for int8 whatever
    `dtype` says, and scale 0 for a channel of zeros.

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
    r = quantize(tensor, Scheme(_format(dtype), granularity=PerChannel(dim)))
    return r.q.to(dtype), r.qparams.scale.to(torch.float32)


def linear_q_symmetric_per_group(
    tensor: torch.Tensor, group_size: int, dtype: torch.dtype = torch.int8, *, strict: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes with one scale for each `group_size` neighbours along the last axis, and those scales.

    Notebook 003, cell 49. For a tensor [A, B] the float32 scales are [A * B / group_size, 1], row
    after row. Raises `QuantVizError` where the group size does not divide the last axis.

    The notebook takes two axes only and looks at the second before it counts them: `strict` raises
    its `AssertionError`, `IndexError` for one axis, and `RuntimeError` for a transposed tensor, and
    has its scales for int8 whatever `dtype` says.

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
    r = quantize(tensor, Scheme(_format(dtype), granularity=PerGroup(group_size)))
    return r.q.to(dtype), r.qparams.scale.to(torch.float32).flatten().unsqueeze(1)


def linear_dequantization_per_group(
    quantized_tensor: torch.Tensor, scale: torch.Tensor, group_size: int, *, strict: bool = False
) -> torch.Tensor:
    """Return the float32 values of codes with one scale for each group, of the codes' shape.

    Notebook 003, cell 50; `scale` is what `linear_q_symmetric_per_group` gives. Raises
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

    >>> q_w, s_w = linear_q_symmetric(torch.tensor([[-2, -1.13, 0.42], [-1.51, 0.25, 1.62], [0.23, 1.35, 2.15]]))
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


# ---- parameters in an object: notebook 001 ------------------------------------------------------


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
    """Scales that make the largest magnitude the largest code; the zero point is 0.

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
    >>> get_symmetric_qparams(x[0], True).scale.shape, get_symmetric_qparams(x[0], True, strict=True).scale.shape
    (torch.Size([3]), torch.Size([1]))
    """
    if strict:
        low, high = _ends(dtype)
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
    """Scales and zero points that lay the smallest and largest value on the two ends of the codes.

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
        low, high = _ends(dtype)
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
        return _stored(
            torch.clip(torch.round(x / qparams.scale + qparams.zero_point), qparams.q_min, qparams.q_max),
            torch.int8,
        )
    scheme = _scheme_of_codes(qparams.q_min, qparams.q_max)
    q = _quantized(x, qparams.scale, qparams.zero_point, scheme).q
    return q.to(_DTYPES.get(scheme.format, q.dtype))


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


# ---- scale and zero point by hand: notebook 002 -------------------------------------------------


def linear_quantizer(tensor: torch.Tensor, s: Number, z: Number, *, strict: bool = False) -> torch.Tensor:
    """int8 codes of the tensor's shape; prints the rounded values before they are clamped.

    Notebook 002, cell 49. Refuses and `strict` as in `linear_q_with_scale_and_zero_point`.

    >>> q = linear_quantizer(torch.tensor([[191.6, -13.5, 728.6]]), 3.5, -70)
    tensor([[-15., -74., 138.]])
    >>> q.tolist()
    [[-15, -74, 127]]
    """
    if strict:
        rounded = torch.round(tensor / s + z)
        print(rounded)
        return _stored(rounded.clamp(-128, 127), torch.int8)
    r = _quantized(tensor, s, z, Scheme("int8", "asymmetric"))
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


# ---- the picture: notebook 000 ------------------------------------------------------------------


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

    >>> figure = plot_quantization_errors(torch.tensor([[1.0, -2.0]]), torch.tensor([[64, -127]]), torch.tensor([[1.008, -2.0]]))
    >>> len(figure.data)
    4
    """
    from quantviz.figures import panels

    return panels.plot_quantization_errors(
        original, quantized, dequantized, dtype, n_bits, result=result, selected=selected
    )


# ---- between the notebooks' arguments and the core's --------------------------------------------


def _format(dtype: torch.dtype) -> str:
    if dtype not in _FORMATS:
        raise QuantVizError("course.dtype", dtype=dtype_name(dtype), known=", ".join(_DTYPES))
    return _FORMATS[dtype]


def _ends(dtype: torch.dtype) -> tuple[int, int]:
    info = torch.iinfo(dtype)
    return info.min, info.max


def _stored(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As the notebooks' `.to(dtype)` stores it: codes that do not fit wrap, and NaN becomes 0.

    What a float out of range becomes in 8 or 16 bits is each processor's affair; by way of int32
    it is the same on all.
    """
    return values.to(torch.int32 if dtype.itemsize < 4 else dtype).to(dtype)


def _spread(scale: Number, zero_point: Number, shape: Shape) -> tuple[Granularity, QParams]:
    """Return one scale for the tensor; or one for each cell, which is what broadcasting makes of a tensor of
    scales.
    """
    if not any(isinstance(value, torch.Tensor) and value.numel() != 1 for value in (scale, zero_point)):
        return PerTensor(), QParams(scale, zero_point)
    scales, zeros = (torch.as_tensor(value, dtype=torch.float64) for value in (scale, zero_point))
    try:
        return PerGroup(1), QParams(scales.broadcast_to(shape), zeros.broadcast_to(shape))
    except RuntimeError:
        raise QuantVizError(
            "course.broadcast", scale=tuple(scales.shape), zero_point=tuple(zeros.shape), shape=shape
        ) from None


def _quantized(x: torch.Tensor, scale: Number, zero_point: Number, scheme: Scheme) -> QuantResult:
    tensor, _ = as_input(x)
    granularity, params = _spread(scale, zero_point, tuple(tensor.shape))
    return quantize(tensor, scheme.replace(granularity=granularity), qparams=params)


def _qparams(
    x: torch.Tensor, mode: str, per_channel: bool, channel_dim: int, dtype: torch.dtype, eps: float
) -> QuantizationParams:
    granularity: Granularity = PerChannel(channel_dim) if per_channel else PerTensor()
    scheme = Scheme(
        _format(dtype), mode, granularity, convention=_IN_FLOAT32.replace(**{"scale.floor": float(eps)})
    )
    params = choose_qparams(x, scheme)
    scale, zero_point = params.scale, params.zero_point.to(torch.float32)
    # The core has one number for each block, (1, 1) for a whole matrix; the notebook a single one.
    one = () if per_channel else (0,) * scale.dim()
    return QuantizationParams(scale[one], zero_point[one], scheme.code_min, scheme.code_max)


def _scheme_of_codes(low: int, high: int) -> Scheme:
    for fmt in FORMATS.values():
        for narrow in (False, True) if fmt.kind == "integer" else ():
            scheme = Scheme(fmt.id, "asymmetric", convention=_IN_FLOAT32.replace(narrow_range=narrow))
            if (scheme.code_min, scheme.code_max) == (low, high):
                return scheme
    raise QuantVizError("course.code_range", low=low, high=high)


def _other_axes(x: torch.Tensor, channel_dim: int) -> tuple[int, ...]:
    """Return the axes the notebook reduces: those whose number is not `channel_dim`, and all of them where
    none is left.
    """
    axes = tuple(range(x.dim()))
    return tuple(axis for axis in axes if axis != channel_dim) or axes
