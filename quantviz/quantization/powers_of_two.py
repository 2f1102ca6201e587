"""Scales that are powers of two: the rules that choose the exponent."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.overrides import handle_torch_function, has_torch_function

from quantviz.quantization.operations import Operation, Operations, number_code, silent
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import torch_dtype

_HALF_DTYPES = tuple(torch_dtype(dtype) for dtype in HALVES)


def power_of_two(
    key: str, expression: str, exponent: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[Scheme], Operations]:
    """Return the operations of a scale 2^(log2 of the largest magnitude - log2 of the format's largest
    value).

    Each logarithm is brought to a whole number first: `exponent` does so for the magnitude.
    """

    def operations(scheme: Scheme) -> Operations:
        largest = 0  # integers are fixed-point numbers below 2 (OCP Microscaling 1.0, 5.3.5)
        if scheme.number_format.kind != "integer":
            largest = math.frexp(scheme.range_value_max)[1] - 1
        line = f"exponent = {expression} - {largest}" if largest else f"exponent = {expression}"
        return (
            Operation(key, line, lambda v: exponent(v["absmax"]) - largest),
            *_scale_of_exponent(scheme),
        )

    return operations


def _scale_of_exponent(scheme: Scheme) -> Operations:
    scale = Operation("scale_power_of_two", "scale = 2 ** exponent", lambda v: _two_to(v["exponent"]))
    if scheme.arithmetic.scale.exponent_below != "wraps":
        return (scale,)
    wrapped = "exponent = where((exponent < -127) & (absmax > 0), exponent + 256, exponent)"
    return silent("exponent_wraps", wrapped), scale


def power_of_two_even(scheme: Scheme, digits: int | None = None) -> Operations:
    layout = scheme.number_format.float_bits
    # absmax is rounded, half up, to the digits that an element has: 1.11...b goes to the next power of two.
    if digits is None:
        digits = layout.mantissa if layout else 0
    lift = 2.0 ** -(digits + 1)

    def exponent(absmax: torch.Tensor) -> torch.Tensor:
        power = floor_log2(absmax)
        if absmax.dtype != torch.float16:
            return floor_log2(absmax.to(torch.float64) + lift * _two_to(power, torch.float64))
        # Engines do this with the bits of a number, and a subnormal one has no exponent among its bits.
        smallest = torch.finfo(torch.float16).tiny
        lifted = absmax.to(torch.float64) + lift * _two_to(power.clamp(min=-14), torch.float64)
        return floor_log2(torch.where(lifted < smallest, 0, lifted))

    return power_of_two(
        "exponent_even", f"floor(log2(absmax + {lift!r} * 2 ** floor(log2(absmax))))", exponent
    )(scheme)


def power_of_two_floor_log2(scheme: Scheme) -> Operations:
    line = f"floor({_dtype_of_log2(scheme)}(log2(absmax)))"
    return power_of_two("exponent_log2", line, floor_of_log2)(scheme)


def _dtype_of_log2(scheme: Scheme) -> str:
    dtype = scheme.arithmetic.scale_math
    if dtype in HALVES:
        return dtype
    return "float32"


def power_of_two_fitting(scheme: Scheme) -> Operations:
    high = scheme.range_value_max
    line = f"exponent = ceil({_dtype_of_log2(scheme)}(log2(absmax / {number_code(high)})))"
    fitting = Operation("exponent_fitting", line, lambda v: torch.ceil(_log2(v["absmax"] / high)))
    return fitting, *_scale_of_exponent(scheme)


def floor_log2(x: torch.Tensor) -> torch.Tensor:
    """Return floor(log2(x)), exactly; -inf of 0."""
    exponent = torch.frexp(x).exponent.to(torch.float32) - 1
    return torch.where(x > 0, exponent, -math.inf)


def ceil_log2(x: torch.Tensor) -> torch.Tensor:
    return floor_log2(x) + (torch.frexp(x).mantissa > 0.5).to(torch.float32)


def floor_of_log2(x: torch.Tensor) -> torch.Tensor:
    """Return floor(log2(x)) of the logarithm that float32 gives."""
    if has_torch_function((x,)):
        return handle_torch_function(floor_of_log2, (x,), x)
    return log2_floored(x)


def log2_floored(x: torch.Tensor) -> torch.Tensor:
    """Return the floor by these very operations, also for a name that stands for a tensor."""
    return torch.floor(_log2(x))


def _log2(x: torch.Tensor) -> torch.Tensor:
    """Return log2 as float32 or half precision gives it: just below a power of two it is rounded up."""
    single = torch.log2(x.to(torch.float64)).to(torch.float32)
    if x.dtype in _HALF_DTYPES:
        return single.to(x.dtype).to(torch.float32)
    return single


def _two_to(exponent: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.exp2(exponent.to(torch.float64)).to(dtype)
