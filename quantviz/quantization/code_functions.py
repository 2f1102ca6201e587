"""Products, changes of scale, functions and softmax of codes, as lists of operations.

A product reads codes `q_a` and `q_b` with `s_a`, `z_a`, `s_b`, `z_b`; the others read `q_x` with `s_x` and
`z_x`. All leave the code in `q`, of scale `s_y` and zero point `z_y`, from `low` to `high`. Scales are
float32, the others int32. Softmax also reads `q_row`, the `n` codes along the last axis that share a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from quantviz.quantization.operations import NamedTensors, Operation, Operations, number_over
from quantviz.quantization.requantizing import (
    FACTOR,
    rounded_away,
    scaled_twice,
    to_int32,
)

CLAMP = Operation("integer_clamp", "q = clamp(q, low, high)")
ZERO_POINT = Operation("integer_zero_point", "q = q + z_y")
ROUND = Operation("integer_round_even", "y = round(y)", lambda v: torch.round(v["y"]))
_AWAY = Operation("integer_round_away", "y = round_away(y)", lambda v: rounded_away(v["y"]))
_INVERSE = number_over("integer_reciprocal", "inverse_y", 1.0, "s_y")
#: From whole numbers of the output's steps to codes.
TO_CODES = (to_int32("q", "y"), ZERO_POINT, CLAMP)
LIMIT = Operation("integer_limit", "y = clamp(y, low - z_y, high - z_y)")
#: ONNX Runtime's QuantizeLinear of real numbers `y`.
QUANTIZED = (
    Operation("function_steps", "y = y / s_y"),
    LIMIT,
    ROUND,
    *TO_CODES,
)
VALUE = Operation("function_value", "y = s_x * float32(q_x - z_x)")

_PRODUCT = (
    Operation("product_codes", "acc = (q_a - z_a) * (q_b - z_b)"),
    Operation("product_scales", "m = s_a * s_b"),
    Operation("integer_multiplier", "m = m / s_y"),
)
_FLOAT_PRODUCT = (
    *_PRODUCT,
    Operation("integer_acc_float32", "y = float32(acc)"),
    Operation("integer_multiply", "y = y * m"),
)
#: By the name of the arithmetic: ONNX Runtime's QLinearMul; MUL of LiteRT's own kernels, which CMSIS-NN has
#: too; and that of XNNPACK.
PRODUCTS: Mapping[str, Operations] = MappingProxyType(
    {
        "onnxruntime": (
            *_FLOAT_PRODUCT,
            Operation("integer_zero_point_float", "y = y + z_y"),
            ROUND,
            to_int32("q", "y"),
            CLAMP,
        ),
        "litert": (*_PRODUCT, *FACTOR, *scaled_twice("acc", "y", away=True), *TO_CODES),
        "xnnpack": (*_FLOAT_PRODUCT, ROUND, *TO_CODES),
    }
)
#: Codes of one scale in another: ONNX Runtime's QLinearConcat, and CONCATENATION of LiteRT for uint8.
CONVERSIONS: Mapping[str, Operations] = MappingProxyType(
    {
        "onnxruntime": (VALUE, *QUANTIZED),
        "litert": (
            _INVERSE,
            Operation("concat_ratio", "m = s_x * inverse_y"),
            Operation("concat_offset", "offset = -z_x * m"),
            Operation("concat_scaled", "y = float32(q_x) * m"),
            Operation("concat_moved", "y = y + offset"),
            _AWAY,
            *TO_CODES,
        ),
    }
)


def _in_float64(name: str, words: str, function: Callable[[torch.Tensor], torch.Tensor]) -> Operation:
    """Return the operation of a function whose float32 result is rounded once."""
    return Operation(
        f"function_{name}", f"y = {words}", lambda v: function(v["y"].to(torch.float64)).to(torch.float32)
    )


IN_STEPS = (_INVERSE, Operation("function_inverse_steps", "y = y * inverse_y"))
#: The value, and its sigmoid in three operations of float32.
_SIGMOID = (
    VALUE,
    _in_float64("exponential", "exp(-y)", lambda y: torch.exp(-y)),
    Operation("function_plus_one", "y = y + 1"),
    number_over("function_one_over", "y", 1.0, "y"),
    *IN_STEPS,
)
_TANH = (VALUE, _in_float64("tanh", "tanh(y)", torch.tanh), *IN_STEPS)
#: Engines keep the results for all codes in a table: ONNX Runtime's QLinearSigmoid, and LOGISTIC and TANH
#: of LiteRT's own kernels and of XNNPACK.
SIGMOIDS: Mapping[str, Operations] = MappingProxyType(
    {
        "onnxruntime": (VALUE, _in_float64("sigmoid", "sigmoid(y)", torch.sigmoid), *QUANTIZED),
        "litert": (*_SIGMOID, _AWAY, *TO_CODES),
        "xnnpack": (*_SIGMOID, ROUND, *TO_CODES),
    }
)
TANHS: Mapping[str, Operations] = MappingProxyType(
    {"litert": (*_TANH, _AWAY, *TO_CODES), "xnnpack": (*_TANH, ROUND, *TO_CODES)}
)


def _raised(q: torch.Tensor, values: NamedTensors) -> torch.Tensor:
    steps = (q - values["largest"]).to(torch.float64) + values["room"]
    return torch.exp(steps * values["s_x"].to(torch.float64)).to(torch.float32)


def _below_one(q: torch.Tensor, values: NamedTensors) -> torch.Tensor:
    down = -values["s_x"] * (values["largest"] - q).to(torch.float32)
    return torch.exp(down.to(torch.float64)).to(torch.float32)


def added_up(real: torch.Tensor) -> torch.Tensor:
    """Return sums along the last axis in float32, one value after the other; that axis has size 1 then."""
    total = torch.zeros(real.shape[:-1])
    for value in real.unbind(-1):
        total = total + value
    return total.unsqueeze(-1)


_LARGEST = Operation(
    "softmax_largest", "largest = max_of(q_row)", lambda v: v["q_row"].amax(-1, keepdim=True)
)
#: ONNX Runtime's QLinearSoftmax, and SOFTMAX of LiteRT for int8.
SOFTMAXES: Mapping[str, Operations] = MappingProxyType(
    {
        "onnxruntime": (
            _LARGEST,
            Operation(
                "softmax_most",
                "most = float64(3.4028235e38 / float32(n))",
                lambda v: (torch.finfo(torch.float32).max / v["n"].to(torch.float32)).to(torch.float64),
            ),
            # A power of e stays free above the largest exponential.
            Operation(
                "softmax_room",
                "room = max(log(most) - 5, 0) / float64(s_x)",
                lambda v: (torch.log(v["most"]) - 5).clamp(min=0) / v["s_x"].to(torch.float64),
            ),
            Operation(
                "softmax_sum_raised",
                "total = sum(exp((q_row - largest + room) * s_x))",
                lambda v: added_up(_raised(v["q_row"], v)),
            ),
            Operation("softmax_steps", "steps = floor(1 / s_y)"),
            Operation(
                "softmax_raised", "y = exp((q_x - largest + room) * s_x)", lambda v: _raised(v["q_x"], v)
            ),
            Operation("softmax_in_steps", "y = y * steps"),
            Operation("softmax_share", "y = y / total"),
            ROUND,
            Operation("softmax_finite", "y = where(isinf(y) * (low == 0), 0 * low, y)"),
            to_int32("q", "y"),
            ZERO_POINT,
            CLAMP,
        ),
        "litert": (
            _LARGEST,
            Operation(
                "softmax_sum",
                "total = sum(exp(-s_x * float32(largest - q_row)))",
                lambda v: added_up(_below_one(v["q_row"], v)),
            ),
            Operation("softmax_sum_steps", "total = total * s_y"),
            number_over("softmax_inverse", "inverse", 1.0, "total"),
            Operation(
                "softmax_exponential",
                "y = exp(-s_x * float32(largest - q_x))",
                lambda v: _below_one(v["q_x"], v),
            ),
            Operation("softmax_scaled", "y = y * inverse"),
            _AWAY,
            *TO_CODES,
        ),
    }
)
