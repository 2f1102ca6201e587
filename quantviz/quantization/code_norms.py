"""LayerNorm of codes along the last axis, as lists of operations.

They read `q_x`, `q_row`, `n`, `s_x` and `z_x` as the operators in `code_functions` do; `weight` and `bias`,
float32, of each code, `weight_row`, those of the whole row, and `eps`, float64. They leave the code in `q`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.public_calls import check_fields, checked_fields
from quantviz.quantization.code_functions import CLAMP, IN_STEPS, LIMIT, ROUND, TO_CODES
from quantviz.quantization.operations import NamedTensors, Operation, Operations
from quantviz.quantization.requantizing import (
    FACTOR,
    FACTOR_BITS,
    as_int32,
    rounded_away,
    scaled_twice,
    to_int32,
)


@checked_fields
@dataclass(frozen=True, eq=False)
class NormOptions:
    """The numbers of a LayerNorm besides its codes.

    Raises:
        QuantVizError: A field is not as described.
    """

    #: One number for each code of a row; None for ones, and for zeros.
    weight: Any = None
    bias: Any = None
    #: The number that torch adds to the variance of the values.
    eps: float = 1e-5

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.eps < math.inf:
            raise QuantVizError("norm_eps", got=self.eps)


def _row(values: NamedTensors) -> torch.Tensor:
    return values["q_row"].to(torch.int64)


_SUM = Operation("norm_sum", "total = sum(q_row)", lambda v: _row(v).sum(-1, keepdim=True))
_SQUARES = Operation(
    "norm_squares", "squares = sum(q_row * q_row)", lambda v: _row(v).square().sum(-1, keepdim=True)
)
#: torch's quantized::layer_norm: whole sums, and the rest in float32.
_OF_TORCH: Operations = (
    _SUM,
    _SQUARES,
    Operation("norm_mean", "mean = float32(total) / n"),
    Operation("norm_variance", "variance = max(float32(squares) / n - mean * mean, 0)"),
    Operation(
        "norm_inverse",
        "inverse = float32(s_x / sqrt(variance * s_x * s_x + eps))",
        lambda v: (
            v["s_x"].to(torch.float64) / torch.sqrt((v["variance"] * v["s_x"] * v["s_x"]) + v["eps"])
        ).to(torch.float32),
    ),
    Operation("norm_mean_less_zero", "mean = mean - z_x"),
    Operation("norm_centred", "y = float32(q_x - z_x) - mean"),
    Operation("norm_normalized", "y = y * inverse"),
    Operation("norm_weighted", "y = y * weight"),
    Operation("norm_biased", "y = y + bias"),
    *IN_STEPS,
    LIMIT,
    ROUND,
    *TO_CODES,
)


def _divided(a: torch.Tensor, b: torch.Tensor | int) -> torch.Tensor:
    """Return a quotient of whole numbers, cut off towards 0 as in C."""
    return torch.div(a, b, rounding_mode="trunc")


#: Numbers of gemmlowp's fixed point with 3 bits before the point: 1, and 1.5; and √½ with none.
_ONE, _ONE_AND_A_HALF, _ROOT_OF_HALF = 1 << 28, 3 << 27, 1518500250
_NEWTON_STEPS = 5
#: Numbers from here on lose two bits before their root is taken, and the shift of a number that loses none.
_LARGE, _SHIFT = 1 << 29, 11


def _high(a: torch.Tensor, b: torch.Tensor | int) -> torch.Tensor:
    return (a * b + 2**30) >> FACTOR_BITS


def _saturated(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-(2**31), 2**31 - 1)


def inverse_root(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1 / √x of whole numbers of at least 1 as `factor` / 2³¹ · 2^`shift`, by Newton's steps.

    >>> factor, shift = inverse_root(torch.tensor([10000]))
    >>> f"{factor.item() / 2**31 * 2.0**shift.item():.6f}"
    '0.010000'
    """
    bits = torch.frexp(x.to(torch.float64)).exponent.to(torch.int64)
    # Pairs of bits that it loses, or has free beside the sign and one pair.
    lost = ((bits - 28) // 2).clamp(min=0)
    kept = x >> (2 * lost)
    free = (FACTOR_BITS - torch.frexp(kept.to(torch.float64)).exponent.to(torch.int64)) // 2 - 1
    shift = _SHIFT + lost - free
    start = (kept << (2 * free)) >> 1
    half = (start + 1) >> 1
    y = torch.full_like(start, _ONE)
    for _ in range(_NEWTON_STEPS):
        cube = _saturated(_high(_high(y, y), y) << 6)
        y = _saturated((_high(y, _ONE_AND_A_HALF) - _high(half, cube)) << 3)
    factor = as_int32(_high(y, _ROOT_OF_HALF) << (-shift).clamp(min=0)).to(torch.int64)
    one = x <= 1
    return torch.where(one, 2**31 - 1, factor), torch.where(one, 0, -shift.clamp(min=0))


#: LayerNorm inside LiteRT's integer LSTM: int16 codes and weights, int32 biases, an output of scale 2⁻¹².
_OF_LITERT: Operations = (
    Operation("norm_weight_scale", "s_w = max_of(abs(weight_row)) / 32767", lambda v: _weight_scale(v)),
    Operation(
        "norm_weight_code", "q_weight = round_away(weight / s_w)", lambda v: _whole(v["weight"] / v["s_w"])
    ),
    Operation(
        "norm_bias_code",
        "q_bias = round_away(bias / (s_w * 2**-10))",
        lambda v: _whole(v["bias"].to(torch.float64) / (v["s_w"].to(torch.float64) * 2.0**-10)),
    ),
    _SUM,
    _SQUARES,
    Operation(
        "norm_mean_10", "mean = trunc(total * 2**10 / n)", lambda v: _divided(v["total"] << 10, v["n"])
    ),
    Operation(
        "norm_variance_20",
        "variance = squares * (2**20 // n) - mean * mean",
        lambda v: v["squares"] * _divided(torch.tensor(1 << 20), v["n"]) - v["mean"] * v["mean"],
    ),
    Operation(
        "norm_variance_cut", "variance = trunc(variance / 2**20)", lambda v: _divided(v["variance"], 1 << 20)
    ),
    Operation(
        "norm_variance_least",
        "variance = where(variance >= 1, variance, max(trunc(10000 * s_w), 1))",
        lambda v: torch.where(
            v["variance"] >= 1, v["variance"], torch.trunc(10000 * v["s_w"]).clamp(min=1).to(torch.int64)
        ),
        silent=True,
    ),
    Operation("norm_root", "m0 = factor(1 / sqrt(variance))", lambda v: inverse_root(v["variance"])[0]),
    Operation(
        "norm_root_shift", "shift = exponent(1 / sqrt(variance))", lambda v: inverse_root(v["variance"])[1]
    ),
    Operation("norm_centred", "y = 2**10 * q_x - mean"),
    *scaled_twice("y", "y", away=True),
    Operation(
        "norm_weighted_codes",
        "y = int32(y * q_weight + q_bias)",
        lambda v: _wrapped(v["y"].to(torch.int64) * v["q_weight"] + v["q_bias"]),
    ),
    Operation(
        "norm_without_10",
        "y = trunc((y + sign(y) * 2**9) / 2**10)",
        lambda v: _divided(v["y"] + torch.where(v["y"] > 0, 1 << 9, -(1 << 9)), 1 << 10),
    ),
    Operation("norm_multiplier", "m = float64(s_w) * 2**12"),
    *FACTOR,
    *scaled_twice("y", "q", away=True),
    CLAMP,
)


def _weight_scale(values: NamedTensors) -> torch.Tensor:
    return values["weight_row"].abs().amax() / 32767


def _whole(real: torch.Tensor) -> torch.Tensor:
    return rounded_away(real).to(torch.int64)


def _wrapped(whole: torch.Tensor) -> torch.Tensor:
    return as_int32(whole).to(torch.int64)


#: I-BERT's IntLayerNorm, and the requantizing of its QuantAct: whole numbers but for the scales.
_OF_IBERT: Operations = (
    _SUM,
    Operation(
        "norm_mean_whole", "mean = round(total / n)", lambda v: torch.round(v["total"] / v["n"].double())
    ),
    Operation(
        "norm_shift", "shift = max(ceil(log2(sum((q_row - mean)**2) / 2**32) / 2), 0)", lambda v: _shift(v)
    ),
    Operation(
        "norm_variance_whole",
        "variance = sum(((q_row - mean) >> shift)**2)",
        lambda v: (_centred(v) >> v["shift"]).square().sum(-1, keepdim=True),
    ),
    Operation(
        "norm_deviation",
        "deviation = floor(sqrt(variance)) << shift",
        lambda v: torch.sqrt(v["variance"].double()).to(torch.int64) << v["shift"],
    ),
    Operation("norm_factor", "inverse = floor(2**31 / float64(deviation))"),
    Operation("norm_centred", "y = q_x - mean"),
    Operation("norm_normalized_half", "y = floor(y * inverse / 2)"),
    Operation(
        "norm_unit", "unit = sqrt(float32(n)) / 2**30", lambda v: torch.sqrt(v["n"].to(torch.float32)) / 2**30
    ),
    Operation("norm_bias_steps", "steps = floor(bias / weight / unit)"),
    Operation("norm_biased", "y = y + float64(steps)"),
    Operation("norm_unit_weighted", "m = unit * weight"),
    Operation("norm_ratio", "m = float64(m) / float64(s_y)"),
    Operation(
        "integer_factor",
        "m0 = factor(m)",
        lambda v: rounded_away(torch.frexp(v["m"]).mantissa * 2.0**FACTOR_BITS),
    ),
    Operation("integer_exponent", "shift = exponent(m)", lambda v: torch.frexp(v["m"]).exponent),
    Operation(
        "norm_scaled",
        "y = y * m0 / 2**(31 - shift)",
        lambda v: v["y"] * v["m0"] / 2.0 ** (FACTOR_BITS - v["shift"]).double(),
    ),
    ROUND,
    LIMIT,
    to_int32("q", "y"),
    CLAMP,
)


def _centred(values: NamedTensors) -> torch.Tensor:
    return _row(values) - values["mean"].to(torch.int64)


def _shift(values: NamedTensors) -> torch.Tensor:
    """Return the bits that each deviation loses, so that the sum of their squares fits into 32 bits."""
    beyond = _centred(values).square().sum(-1, keepdim=True).double() / 2.0**32
    return torch.ceil(torch.log2(torch.sqrt(beyond))).clamp(min=0).to(torch.int64)


#: By the name of the arithmetic. torch has one kernel for all of its engines.
NORMS: Mapping[str, Operations] = MappingProxyType(
    {
        **dict.fromkeys(("fbgemm", "onednn", "qnnpack"), _OF_TORCH),
        "litert_16": _OF_LITERT,
        "ibert": _OF_IBERT,
    }
)
