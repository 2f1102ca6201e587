"""Sums and averages of codes whose scales differ, as lists of operations.

A sum reads codes `q_a` and `q_b` with `s_a`, `z_a`, `s_b`, `z_b`; an average reads `n` codes `q_x` along the
last axis, with `s_x` and `z_x`. Both leave the code in `q`, of scale `s_y` and zero point `z_y`, from `low`
to `high`. Scales are float32, the others int32.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from quantviz.quantization.operations import NamedTensors, Operation, Operations
from quantviz.quantization.requantizing import FACTOR, as_int32, scaled_twice, to_int32
from quantviz.quantization.value_to_code import fma

_CLAMP = Operation("integer_clamp", "q = clamp(q, low, high)")
_ZERO_POINT = Operation("integer_zero_point", "q = q + z_y")
_ROUND = Operation("integer_round_even", "y = round(y)", lambda v: torch.round(v["y"]))


def fused_sum(first: str) -> Operations:
    """Return ONNX Runtime's sum on x86 with AVX2, of fused multiply-adds in float32.

    No term is dequantized: each is multiplied by its scale over that of the sum, and zero points are one
    number beside them. `first` is the term, "a" or "b", that is added first; the product of its zero point is
    rounded by itself.
    """
    other = "b" if first == "a" else "a"
    zeros = Operation(
        "sum_zeros",
        f"y = z_y - fma(r_{other}, z_{other}, offset)",
        lambda v: v["z_y"] - _fused(v[f"r_{other}"], v[f"z_{other}"], v["offset"]),
    )
    return (
        Operation("sum_ratio", "r_a = s_a / s_y"),
        Operation("sum_ratio", "r_b = s_b / s_y"),
        Operation("sum_offset", f"offset = r_{first} * z_{first}"),
        zeros,
        *(_added(each) for each in (first, other)),
        _ROUND,
        to_int32("q", "y"),
        _CLAMP,
    )


def _added(term: str) -> Operation:
    """Return the operation that adds a term in steps of the sum."""

    def added(values: NamedTensors) -> torch.Tensor:
        return _fused(values[f"q_{term}"], values[f"r_{term}"], values["y"])

    return Operation("sum_added", f"y = fma(q_{term}, r_{term}, y)", added)


def _fused(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return fma(*(each.to(torch.float32) for each in (x, y, z)))


def _shifted_term(term: str) -> Operations:
    """Return the operations that bring a term to the scale of both, 20 bits above its point."""
    return (
        Operation(
            "sum_left",
            f"{term} = int32((q_{term} - z_{term}) << 20)",
            lambda v: as_int32((v[f"q_{term}"] - v[f"z_{term}"]).to(torch.int64) << 20),
        ),
        Operation("sum_multiplier", f"m = float64(s_{term}) / twice"),
        *FACTOR,
        *scaled_twice(term, term, away=True),
    )


#: LiteRT's reference kernel: int32, with both terms shifted to the left by 20 bits.
_SHIFTED_SUM = (
    Operation("sum_twice", "twice = 2 * max(float64(s_a), float64(s_b))"),
    *_shifted_term("a"),
    *_shifted_term("b"),
    Operation("sum_terms", "acc = int32(a + b)", lambda v: as_int32(v["a"] + v["b"])),
    Operation("sum_out", "m = twice / (2**20 * float64(s_y))"),
    *FACTOR,
    *scaled_twice("acc", "y", away=True),
    to_int32("q", "y"),
    _ZERO_POINT,
    _CLAMP,
)
#: By the name of the arithmetic, and for a sum by which term is added first.
SUMS: Mapping[str, Mapping[str, Operations]] = MappingProxyType(
    {
        "onnxruntime": MappingProxyType({"a": fused_sum("a"), "b": fused_sum("b")}),
        "litert_reference": MappingProxyType({"a": _SHIFTED_SUM, "b": _SHIFTED_SUM}),
    }
)

_CODES = (
    Operation("average_sum", "acc = sum(q_x)", lambda v: v["q_x"].sum(-1, dtype=torch.int64).to(torch.int32)),
    Operation("average_zeros", "acc = acc - n * z_x"),
)


def _added_up(values: NamedTensors) -> torch.Tensor:
    """Return the values' sum in float32, one after the other."""
    real = values["s_x"] * (values["q_x"] - values["z_x"]).to(torch.float32)
    total = torch.zeros(real.shape[:-1])
    for each in real.unbind(-1):
        total = total + each
    return total


#: By the name of the arithmetic: ONNX Runtime's QLinearGlobalAveragePool, its QLinearAveragePool, and MEAN of
#: LiteRT's reference kernels.
AVERAGES: Mapping[str, Operations] = MappingProxyType(
    {
        "onnxruntime_global": (
            *_CODES,
            Operation("average_multiplier", "m = s_x / (s_y * float32(n))"),
            Operation("integer_acc_float32", "y = float32(acc)"),
            Operation("integer_multiply", "y = y * m"),
            _ROUND,
            to_int32("q", "y"),
            _ZERO_POINT,
            _CLAMP,
        ),
        "onnxruntime_pool": (
            Operation("average_values", "y = sum(s_x * (q_x - z_x))", _added_up),
            Operation("average_divided", "y = y / float32(n)"),
            Operation("average_steps", "y = y / s_y"),
            Operation("integer_zero_point_float", "y = y + z_y"),
            _ROUND,
            to_int32("q", "y"),
            _CLAMP,
        ),
        "litert_reference": (
            *_CODES,
            Operation("average_ratio", "m = float64(s_x) / float64(s_y)"),
            *FACTOR,
            Operation(
                "average_bits",
                "bits = min(floor_log2(n), 31 + shift)",
                lambda v: torch.minimum(torch.frexp(v["n"].double())[1].to(torch.int64) - 1, 31 + v["shift"]),
            ),
            Operation("average_factor", "m0 = (m0 << bits) // n"),
            Operation("average_shift", "shift = shift - bits"),
            *scaled_twice("acc", "y", away=True),
            to_int32("q", "y"),
            _ZERO_POINT,
            _CLAMP,
        ),
    }
)
