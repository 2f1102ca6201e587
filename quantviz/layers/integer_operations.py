"""An integer layer as a list of operations, each one line that is shown and run.

The reference runs them on all outputs at once, `explain` on one cell. They read the values of
`integer_result.values_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from quantviz.layers.integer_engines import IntegerEngine
from quantviz.quantization.operations import Operation, Operations, number_over, silent
from quantviz.quantization.requantizing import (
    as_int32,
    multiply_operations,
    round_operations,
    rounded_away,
    to_int32,
)
from quantviz.quantization.value_to_code import fma
from quantviz.streaming.threads import runs_between

_OUTPUTS_PER_CHUNK = 16
_INT16 = (-(2**15), 2**15 - 1)


def layer_operations(
    engine: IntegerEngine, *, by_output: bool, has_bias: bool, activation: str
) -> Operations:
    """Return the operations from codes to the output's codes, `q`; they read a bias as `bias`.

    Args:
    """
    bias: Operations = ()
    multiplication = multiply_operations(engine.requantization)
    if has_bias:
        bias = _bias_operations(engine, by_output=by_output)
        if engine.bias == "real":
            # The sum is a float already.
            multiplication = tuple(each for each in multiplication if each.key != "integer_acc_float32")
    return (
        *_accumulation(engine),
        *bias,
        *_multiplier(engine, by_output=by_output),
        *multiplication,
        *_activation_limits(engine, activation),
        *_to_codes(engine),
    )


def accumulated(q_x: torch.Tensor, q_w: torch.Tensor) -> torch.Tensor:
    """Return the sums of products of codes, exact, int64 (tokens, outputs)."""
    # Sums below 2^53 are exact in float64, and its product is the fast one.
    return (q_x.to(torch.float64) @ q_w.to(torch.float64).T).to(torch.int64)


def accumulated_in_pairs(q_x: torch.Tensor, q_w: torch.Tensor) -> torch.Tensor:
    """Return the sums where each two neighbouring products are added in 16 bits that saturate, int64.

    >>> accumulated_in_pairs(torch.tensor([[255, 255, 1]]), torch.tensor([[127, 127, 1]])).tolist()
    [[32768]]
    """
    return accumulated(q_x, q_w) + lost_in_pairs(q_x, q_w)


def lost_in_pairs(q_x: torch.Tensor, q_w: torch.Tensor) -> torch.Tensor:
    """Return how far pairs that saturate change each sum of products, int64 (tokens, outputs)."""
    x, w = (torch.nn.functional.pad(each.to(torch.int32), (0, each.shape[1] % 2)) for each in (q_x, q_w))
    # Most pairs fit, whatever the token and the output.
    reach = x.abs().amax(0) * w.abs().amax(0)
    pairs = torch.nonzero(reach[::2] + reach[1::2] > _INT16[1]).flatten()
    lost = torch.zeros(len(x), len(w), dtype=torch.int64)
    for start, stop in runs_between(len(w) if len(pairs) else 0, _OUTPUTS_PER_CHUNK):
        outputs = w[start:stop, 2 * pairs], w[start:stop, 2 * pairs + 1]
        found = x[:, None, 2 * pairs] * outputs[0] + x[:, None, 2 * pairs + 1] * outputs[1]
        lost[:, start:stop] = (found.clamp(*_INT16) - found).sum(-1)
    return lost


def _accumulation(engine: IntegerEngine) -> Operations:
    if engine.pairs == "saturated":
        products = Operation(
            "integer_pairs",
            "acc = int32(dot_of_pairs(q_x, q_w))",
            lambda v: as_int32(accumulated_in_pairs(v["q_x"], v["q_w"])),
        )
    elif engine.sums == "int64":
        products = Operation(
            "integer_products_64",
            "acc = int64(dot(q_x, q_w))",
            lambda v: accumulated(v["q_x"], v["q_w"]),
        )
    else:
        products = Operation(
            "integer_products",
            "acc = int32(dot(q_x, q_w))",
            lambda v: as_int32(accumulated(v["q_x"], v["q_w"])),
        )
    return (
        products,
        Operation("integer_sum_x", "sum_x = sum(q_x)", lambda v: _sum(v["q_x"]).unsqueeze(1)),
        silent("integer_correct_x", "acc = acc - z_w * sum_x"),
        Operation("integer_sum_w", "sum_w = sum(q_w)", lambda v: _sum(v["q_w"])),
        silent("integer_correct_w", "acc = acc - z_x * sum_w"),
        silent("integer_correct_both", "acc = acc + n * z_x * z_w"),
    )


def _sum(codes: torch.Tensor) -> torch.Tensor:
    return codes.sum(1, dtype=torch.int64).to(torch.int32)


def _bias_operations(engine: IntegerEngine, *, by_output: bool) -> Operations:
    if engine.bias == "int32":
        return (Operation("integer_bias", "acc = acc + bias"),)
    product = Operation("integer_bias_scale", "s_xw = s_x * s_w")
    wide = Operation("integer_acc_float32", "y = float32(acc)")
    if by_output:
        return (product, wide, Operation("integer_bias_divided", "y = y + bias / s_xw"))
    return (
        product,
        wide,
        number_over("integer_bias_inverse", "inverse", 1.0, "s_xw"),
        Operation(
            "integer_bias_fused",
            "y = fma(bias, inverse, y)",
            lambda v: fma(v["bias"], v["inverse"], v["y"]),
        ),
    )


def _multiplier(engine: IntegerEngine, *, by_output: bool) -> Operations:
    in_float32 = engine.requantization.multiplier == "float32"
    product = Operation("integer_scales", "m = s_x * s_w")
    rounded = engine.scale_product_by_output if by_output else engine.scale_product
    if rounded == "float64":
        product = Operation("integer_scales_float64", "m = float64(s_x) * float64(s_w)")
    if engine.output_scale == "reciprocal":
        inverse = number_over("integer_reciprocal", "inverse_y", 1.0, "s_y")
        return (product, inverse, Operation("integer_multiplier_reciprocal", "m = m * inverse_y"))
    if in_float32:
        return (product, Operation("integer_multiplier", "m = m / s_y"))
    return (
        product,
        Operation("integer_multiplier_float64", "m = float64(m) / float64(s_y)"),
    )


def _activation_limits(engine: IntegerEngine, activation: str) -> Operations:
    if activation == "none":
        return ()
    relu = Operation("integer_relu", "low = max(low, z_y)")
    if activation == "relu":
        return (relu,)
    rounded = _ROUNDED_SIX if engine.six == "away" else _ROUNDED_SUM_OF_SIX
    limit = Operation("integer_relu6", "high = min(high, six)")
    return (relu, number_over("integer_six", "six", 6.0, "s_y"), *rounded, limit)


_ROUNDED_SIX = (
    Operation("integer_six_away", "six = round_away(six)", lambda v: rounded_away(v["six"])),
    to_int32("six", "six"),
    Operation("integer_six_sum", "six = six + z_y"),
)
_ROUNDED_SUM_OF_SIX = (
    Operation("integer_six_sum", "six = six + z_y"),
    Operation("integer_six_even", "six = round(six)", lambda v: torch.round(v["six"])),
    to_int32("six", "six"),
)


def _to_codes(engine: IntegerEngine) -> Operations:
    rounding = round_operations(engine.requantization)
    clamp = Operation("integer_clamp", "q = clamp(q, low, high)")
    if engine.zero_point == "before_rounding":
        limited = (Operation("integer_limit", "y = clamp(y, low, high)"),)
        return (
            Operation("integer_zero_point_float", "y = y + z_y"),
            *(limited if engine.limits_before == "both" else ()),
            *rounding,
            to_int32("q", "y"),
            clamp,
        )
    added = Operation("integer_zero_point", "q = q + z_y")
    if not engine.sum_wraps:
        added = Operation(
            "integer_zero_point", "q = int64(q) + z_y", lambda v: v["q"].to(torch.int64) + v["z_y"]
        )
    return (*_LIMITS[engine.limits_before], *rounding, to_int32("q", "y"), added, clamp)


_LIMITS: Mapping[str, Operations] = MappingProxyType(
    {
        "both": (Operation("integer_limit", "y = clamp(y, low - z_y, high - z_y)"),),
        "upper": (Operation("integer_limit_upper", "y = min(y, high - z_y)"),),
        "none": (),
    }
)
