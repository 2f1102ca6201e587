"""The steps from a code back to its value, and to the error."""

from __future__ import annotations

import functools

import torch

from quantviz.quantization.operations import SCHEMES_KEPT, Operation, Operations, cast, number_code, silent
from quantviz.quantization.stored_scale import scale_reach
from quantviz.quantization.value_to_code import code_operations, fma
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import torch_dtype


@functools.lru_cache(maxsize=SCHEMES_KEPT)
def value_operations(scheme: Scheme) -> Operations:
    """Return the operations from `q`, `scale` and `zero_point` of each element to `x_hat`, float32."""
    convention = scheme.arithmetic
    dtype = torch_dtype(convention.value_dtype)
    operations = _valued(scheme, dtype)
    if convention.result_dtype != "same":
        dtype = torch_dtype(convention.result_dtype)
        operations += (_of_dtype("x_hat", dtype),)
    return operations if dtype == torch.float32 else (*operations, _of_dtype("x_hat", torch.float32))


def _of_dtype(name: str, dtype: torch.dtype) -> Operation:
    key = f"{name}_float32" if dtype == torch.float32 else f"{name}_rounded"
    return cast(key, name, dtype)


def _valued(scheme: Scheme, dtype: torch.dtype) -> Operations:
    convention = scheme.arithmetic
    if convention.value_order == "divide_inverse":
        return _divided(scheme, dtype)
    if convention.value_order == "multiply_absmax":
        high = scheme.range_value_max
        return (
            Operation("multiply_absmax", "y = q * absmax"),
            Operation("times_inverse_code_max", f"x_hat = y * (1 / {number_code(high)})"),
        )
    if convention.value_order == "multiply_levels":
        reach = scale_reach(convention, scheme.number_format)
        return (
            Operation("multiply_code", "y = q * scale_code"),
            Operation("multiply_absmax", "y = y * global_absmax"),
            Operation("over_reach", f"x_hat = y / {number_code(reach)}"),
        )
    operations = [cast("apply_scale", "scale", dtype)]
    if dtype not in (torch.float32, torch.float64):
        operations.append(cast("apply_q", "q", dtype))
    if not scheme.shifted:
        operations.append(Operation("multiply", "x_hat = scale * q"))
    elif scheme.zero_domain in ("code_int", "code_float"):
        operations += [
            Operation(
                "subtract", "y = q - zero_point", lambda v: v["q"].to(dtype) - v["zero_point"].to(dtype)
            ),
            Operation("multiply", "x_hat = scale * y"),
        ]
    else:
        half = int((scheme.code_max + scheme.code_min + 1) / 2) if scheme.zero_domain == "value_middle" else 0
        if half:
            operations.append(Operation("subtract_middle", f"q = q - {half}"))
        if convention.value_order == "fused_multiply_add":
            line = "x_hat = fma(scale, q, zero_point)"
            fused = Operation(
                "fused_value", line, lambda v: fma(v["scale"], v["q"].to(dtype), v["zero_point"].to(dtype))
            )
            return (*operations, fused)
        operations += [
            Operation("multiply", "y = scale * q"),
            Operation(
                "add_zero_point", "x_hat = y + zero_point", lambda v: v["y"] + v["zero_point"].to(dtype)
            ),
        ]
    return tuple(operations)


def _divided(scheme: Scheme, dtype: torch.dtype) -> Operations:
    divided = Operation(
        "divide_inverse", "x_hat = q / inverse", lambda v: v["q"].to(dtype) / v["inverse"].to(dtype)
    )
    if scheme.arithmetic.scale.floor_rule != "codes_zero_up_to":
        return (divided,)
    # An inverse of 0 makes every code 0: the scale is 1.
    line = "x_hat = where(inverse == 0, q, x_hat)"
    return divided, silent(
        "value_of_zero_inverse", line, lambda v: torch.where(v["inverse"] == 0, v["q"].to(dtype), v["x_hat"])
    )


@functools.lru_cache(maxsize=SCHEMES_KEPT)
def error_operations(scheme: Scheme) -> Operations:
    error = Operation("error", "error = x_hat - x")
    if not scheme.leaves_out:
        return (error,)
    return error, silent("left_out", "error = where(isfinite(x), error, nan)")


@functools.lru_cache(maxsize=SCHEMES_KEPT)
def block_names(scheme: Scheme) -> frozenset[str]:
    """Return the names of the values besides scale and zero point that codes and values are computed with."""
    reads = frozenset[str]().union(
        *(operation.reads for operation in (*code_operations(scheme), *value_operations(scheme)))
    )
    return reads & {
        "absmax",
        "code_scale",
        "code_zero_point",
        "global_absmax",
        "global_inverse",
        "global_scale",
        "inverse",
        "scale_code",
        "short",
        "zero_point_code",
    }
