"""Sums and averages of codes whose scales differ, as lists of operations.

A sum reads codes `q_a` and `q_b` with `s_a`, `z_a`, `s_b`, `z_b`; an average reads `n` codes `q_x` along the
last axis, with `s_x` and `z_x`. Both leave the code in `q`, of scale `s_y` and zero point `z_y`, from `low`
to `high`. Scales are float32, the others int32. LiteRT's kernels on ruy also read `vector`: whether a code is
one of those that its vector instructions compute, which are all but the last few.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from quantviz.quantization.code_functions import CLAMP, ROUND, ZERO_POINT, added_up
from quantviz.quantization.operations import NamedTensors, Operation, Operations, number_over
from quantviz.quantization.requantizing import (
    FACTOR,
    FACTOR_BITS,
    as_int32,
    rounded_away,
    scaled_twice,
    to_int32,
)
from quantviz.quantization.value_to_code import fma


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
        ROUND,
        to_int32("q", "y"),
        CLAMP,
    )


def _added(term: str) -> Operation:
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


_TWICE = Operation("sum_twice", "twice = 2 * max(float64(s_a), float64(s_b))")
_OF_BOTH = (
    Operation("sum_terms", "acc = int32(a + b)", lambda v: as_int32(v["a"] + v["b"])),
    Operation("sum_out", "m = twice / (2**20 * float64(s_y))"),
    *FACTOR,
    *scaled_twice("acc", "y", away=True),
    to_int32("q", "y"),
)
#: LiteRT's reference kernel: int32, with both terms shifted to the left by 20 bits.
_SHIFTED_SUM = (_TWICE, *_shifted_term("a"), *_shifted_term("b"), *_OF_BOTH, ZERO_POINT, CLAMP)


def _vector_term(term: str) -> Operations:
    """Return the operations that bring a term to the scale of both on ruy: in vectors it is shifted once, by
    20 bits less those of its multiplier, which leaves one rounding.
    """

    def shifted(values: NamedTensors) -> torch.Tensor:
        x = (values[f"q_{term}"] - values[f"z_{term}"]).to(torch.int64)
        left = values["left"]
        return as_int32(torch.where(left < 0, x >> (-left).clamp(min=0), x << left.clamp(min=0)))

    _, _, right, half, last = scaled_twice(term, term, away=True)
    return (
        Operation("sum_multiplier", f"m = float64(s_{term}) / twice"),
        *FACTOR,
        Operation("sum_left_bits", "left = where(vector, 20 + shift, 20 + 0 * shift)"),
        Operation("sum_left_once", f"{term} = int32((q_{term} - z_{term}) << left)", shifted),
        _high_product(term),
        right,
        Operation("sum_right_bits", "right = where(vector, 0 * right, right)"),
        half,
        last,
    )


def _high_product(name: str) -> Operation:
    return Operation(
        "integer_high_product",
        f"{name} = int32(({name} * m0 + 2**30) >> 31)",
        lambda v: as_int32((v[name].to(torch.int64) * v["m0"] + 2**30) >> FACTOR_BITS),
    )


#: The lowest 16 bits of the sum, which vectors on ruy keep.
_NARROWED = Operation(
    "sum_narrowed",
    "q = where(vector, int16(q), q)",
    lambda v: torch.where(v["vector"], v["q"].to(torch.int16).to(torch.int32), v["q"]),
)
#: LiteRT's kernel on ruy: as the reference's, but for the terms, and for 16 bits in which a sum far beyond
#: the codes wraps.
_VECTOR_SUM = (
    _TWICE,
    *_vector_term("a"),
    *_vector_term("b"),
    *_OF_BOTH,
    _NARROWED,
    ZERO_POINT,
    _NARROWED,
    CLAMP,
)


def _to_whole(term: str) -> Operation:
    """Return the operation that gives a term its multiplier, a whole number of 21 bits at most."""
    return Operation(
        "sum_whole_multiplier",
        f"m_{term} = int32(round(r_{term} * 2**shift))",
        lambda v: torch.round(torch.ldexp(v[f"r_{term}"].double(), v["shift"])).to(torch.int32),
    )


#: XNNPACK's: both multipliers share a shift, and the sum is rounded once, half up.
_WHOLE_SUM = (
    Operation("sum_ratio", "r_a = s_a / s_y"),
    Operation("sum_ratio", "r_b = s_b / s_y"),
    Operation(
        "sum_shared_shift",
        "shift = 20 - floor_log2(max(r_a, r_b))",
        lambda v: 21 - torch.frexp(torch.maximum(v["r_a"], v["r_b"])).exponent.to(torch.int64),
    ),
    _to_whole("a"),
    _to_whole("b"),
    Operation("integer_half_once", "half = 1 << (shift - 1)"),
    Operation("sum_whole_terms", "acc = m_a * (q_a - z_a) + m_b * (q_b - z_b)"),
    Operation("integer_shift_up", "y = (acc + half) >> shift"),
    to_int32("q", "y"),
    ZERO_POINT,
    CLAMP,
)
#: By the name of the arithmetic, with term a added first where that matters.
SUMS: Mapping[str, Operations] = MappingProxyType(
    {
        "onnxruntime": fused_sum("a"),
        "litert_reference": _SHIFTED_SUM,
        "litert_ruy": _VECTOR_SUM,
        "xnnpack": _WHOLE_SUM,
    }
)
#: The same with term b added first.
SUMS_B_FIRST: Mapping[str, Operations] = MappingProxyType({**SUMS, "onnxruntime": fused_sum("b")})

_CODES = (
    Operation("average_sum", "acc = sum(q_x)", lambda v: v["q_x"].sum(-1, dtype=torch.int64).to(torch.int32)),
    Operation("average_zeros", "acc = acc - n * z_x"),
)


def _shifted_in_vectors(values: NamedTensors) -> torch.Tensor:
    """Return products shifted to the right: half up in vectors, half away from 0 in the last few."""
    y = values["y"].to(torch.int64)
    up = (y + values["half"]) >> values["right"]
    away = torch.sign(y) * ((y.abs() + values["half"]) >> values["right"])
    return torch.where(values["vector"], up, away)


#: By the name of the arithmetic: ONNX Runtime's QLinearGlobalAveragePool, its QLinearAveragePool, MEAN of
#: LiteRT's reference kernels, of those on ruy, and of XNNPACK, and its AVERAGE_POOL_2D, which is CMSIS-NN's.
AVERAGES: Mapping[str, Operations] = MappingProxyType(
    {
        "onnxruntime_global": (
            *_CODES,
            Operation("average_multiplier", "m = s_x / (s_y * float32(n))"),
            Operation("integer_acc_float32", "y = float32(acc)"),
            Operation("integer_multiply", "y = y * m"),
            ROUND,
            to_int32("q", "y"),
            ZERO_POINT,
            CLAMP,
        ),
        "onnxruntime_pool": (
            Operation(
                "average_values",
                "y = sum(s_x * (q_x - z_x))",
                lambda v: added_up(v["s_x"] * (v["q_x"] - v["z_x"]).to(torch.float32)).squeeze(-1),
            ),
            Operation("average_divided", "y = y / float32(n)"),
            Operation("average_steps", "y = y / s_y"),
            Operation("integer_zero_point_float", "y = y + z_y"),
            ROUND,
            to_int32("q", "y"),
            CLAMP,
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
            ZERO_POINT,
            CLAMP,
        ),
        "litert_ruy": (
            _CODES[0],
            Operation(
                "average_offset",
                "offset = z_y - round_away(z_x * s_x / s_y)",
                lambda v: v["z_y"] - rounded_away(v["z_x"].float() * v["s_x"] / v["s_y"]).to(torch.int32),
            ),
            Operation("average_multiplier", "m = s_x / (s_y * float32(n))"),
            *FACTOR,
            *scaled_twice("acc", "y", away=False)[:-1],
            Operation("average_shifted", "y = shift_right(y, right, half, vector)", _shifted_in_vectors),
            to_int32("q", "y"),
            Operation("average_moved", "q = q + offset"),
            CLAMP,
        ),
        "xnnpack": (
            *_CODES,
            Operation("average_ratio_float32", "m = s_x / s_y"),
            Operation("average_count", "count = float32(n)"),
            number_over("average_inverse", "inverse", 1.0, "count"),
            Operation("average_scaled", "m = m * inverse"),
            Operation("integer_acc_float32", "y = float32(acc)"),
            Operation("integer_multiply", "y = y * m"),
            Operation("integer_zero_point_float", "y = y + z_y"),
            ROUND,
            to_int32("q", "y"),
            CLAMP,
        ),
        "litert_pool": (
            _CODES[0],
            Operation("average_half", "half = n // 2"),
            Operation(
                "average_rounded",
                "q = sign(acc) * ((abs(acc) + half) // n)",
                lambda v: torch.sign(v["acc"]) * ((v["acc"].abs() + v["half"]) // v["n"]),
            ),
            CLAMP,
        ),
    }
)
