"""From the notebooks' arguments to the core's: dtypes, broadcast scales, ranges of codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar, cast

import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QParams, QuantResult
from quantviz.schemes.conventions import CONVENTIONS
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Granularity, PerGroup, PerTensor, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import as_input, dtype_name

#: A scale or zero point: one number, or a tensor that broadcasts to the one it belongs to.
Number = float | torch.Tensor
Function = TypeVar("Function", bound=Callable[..., Any])

#: The number format whose codes a dtype holds.
FORMAT_OF_DTYPE: Mapping[torch.dtype, str] = MappingProxyType(
    {torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.uint16: "uint16"}
)
DTYPE_OF_FORMAT: Mapping[str, torch.dtype] = MappingProxyType(
    {name: dtype for dtype, name in FORMAT_OF_DTYPE.items()}
)
#: Notebook 001 computes with float32 tensors where 000 and 003 take Python's numbers.
IN_FLOAT32 = CONVENTIONS["course"].replace(scale_math="float32", scale_dtype="float32")


def also_called(**names: str) -> Callable[[Function], Function]:
    """Let a parameter go by another notebook's name for it, `also_called(other="own")`."""

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


def format_of(dtype: torch.dtype) -> str:
    if dtype not in FORMAT_OF_DTYPE:
        raise QuantVizError("course.dtype", dtype=dtype_name(dtype), known=", ".join(DTYPE_OF_FORMAT))
    return FORMAT_OF_DTYPE[dtype]


def code_ends(dtype: torch.dtype) -> tuple[int, int]:
    info = torch.iinfo(dtype)
    return info.min, info.max


def wrapped(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return codes as the notebooks' `.to(dtype)` stores them: codes out of range wrap, and NaN becomes 0.

    A float out of range becomes a number of the processor's choice in 8 or 16 bits; by way of int32 it is the
    same on all.
    """
    return values.to(torch.int32 if dtype.itemsize < 4 else dtype).to(dtype)


def spread(scale: Number, zero_point: Number, shape: Shape) -> tuple[Granularity, QParams]:
    """Return one scale for the tensor, or one for each cell where scales or zero points are tensors."""
    if not any(isinstance(value, torch.Tensor) and value.numel() != 1 for value in (scale, zero_point)):
        return PerTensor(), QParams(scale, zero_point)
    scales, zeros = (torch.as_tensor(value, dtype=torch.float64) for value in (scale, zero_point))
    try:
        return PerGroup(1), QParams(scales.broadcast_to(shape), zeros.broadcast_to(shape))
    except RuntimeError:
        raise QuantVizError(
            "course.broadcast", scale=tuple(scales.shape), zero_point=tuple(zeros.shape), shape=shape
        ) from None


def quantized_with(x: torch.Tensor, scale: Number, zero_point: Number, scheme: Scheme) -> QuantResult:
    tensor = as_input(x).values
    granularity, params = spread(scale, zero_point, tuple(tensor.shape))
    return quantize(tensor, scheme.replace(granularity=granularity), qparams=params)


def scheme_of_codes(low: int, high: int) -> Scheme:
    for fmt in FORMATS.values():
        for narrow in (False, True) if fmt.kind == "integer" else ():
            scheme = Scheme(fmt.id, "asymmetric", convention=IN_FLOAT32.replace(narrow_range=narrow))
            if (scheme.code_min, scheme.code_max) == (low, high):
                return scheme
    raise QuantVizError("course.code_range", low=low, high=high)
