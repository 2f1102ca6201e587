"""CMSIS-NN's fully connected layers of int8 and int16, products and pools, **written here from its
specification**: it is made for Arm's microcontrollers, and no package answers on this machine.

Written in Python's integers from arm_nn_requantize, arm_nn_doubling_high_mult_no_sat and
arm_nn_divide_by_power_of_two of revision 011bf322; the multiplier and its shift are those that TensorFlow
Lite Micro hands over.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from tests.engines.integer import Path, layer_path, operators
from tests.engines.integer.layers import Layer, layers, near_ties, wide_layers

PRODUCER = "CMSIS-NN 011bf322 (NumPy, from its specification)"

_ACTIVATIONS = ("none", "relu", "relu6")


def _wrapped(value: int) -> int:
    """Return a whole number as int32."""
    return (value + 2**31) % 2**32 - 2**31


def _multiplier(layer: Layer, output: int) -> tuple[int, int]:
    """Return the factor of 31 bits and the exponent of an output's multiplier."""
    if len(layer.s_w) == 1:
        product = float(layer.s_x * layer.s_w[0])
    else:
        product = float(layer.s_x) * float(layer.s_w[output])
    return _factor(product / float(layer.s_y))


def _factor(multiplier: float) -> tuple[int, int]:
    mantissa, exponent = math.frexp(multiplier)
    factor = math.floor(mantissa * 2**31 + 0.5)
    if factor == 2**31:
        return factor // 2, exponent + 1
    return (0, 0) if exponent < -31 else (factor, exponent)


def _requantized(value: int, factor: int, shift: int) -> int:
    moved = _wrapped(value * 2 ** max(shift, 0))
    high = _wrapped((moved * factor + 2**30) >> 31)
    right = max(-shift, 0)
    mask = 2**right - 1
    whole = high >> right
    threshold = (mask >> 1) + (whole < 0)
    return whole + ((high & mask) > threshold)


def _requantized_once(value: int, factor: int, shift: int) -> int:
    doubled = _wrapped((value * factor) >> (30 - shift))
    return _wrapped(doubled + 1) >> 1


def _requantized_64(value: int, factor: int, shift: int) -> int:
    """Return arm_nn_requantize_s64 with the multiplier's upper 16 bits."""
    reduced = (factor + 2**15) >> 16 if factor < 0x7FFF0000 else 0x7FFF
    return _wrapped(_wrapped((value * reduced) >> (14 - shift)) + 1) >> 1


def _product(case: operators.Case) -> np.ndarray:
    """Return arm_elementwise_mul_s8, with the multiplier that LiteRT hands over."""
    (a, b), ((s_a, z_a), (s_b, z_b)), (s_y, z_y) = case.codes, case.params, case.outputs
    factor, shift = _factor(float(np.float32(np.float32(s_a) * np.float32(s_b)) / np.float32(s_y)))
    found = [
        min(max(_requantized(int(total), factor, shift) + z_y, -128), 127)
        for total in ((a - z_a) * (b - z_b)).flat
    ]
    return np.array(found).reshape(a.shape)


def _pool(case: operators.Case) -> np.ndarray:
    """Return arm_avgpool_s8 of rows."""
    count = case.codes[0].shape[1]
    sums = [int(row.sum()) for row in case.codes[0]]
    # C divides towards 0.
    return np.array([int(math.copysign((abs(total) + count // 2) // count, total)) for total in sums])


def _pools() -> list[operators.Case]:
    return [replace(case, outputs=case.params[0]) for case in operators.cases("average", ("int8",))]


def _connected(layer: Layer, *, once: bool) -> np.ndarray:
    requantized = _requantized_once if once else _requantized
    sums = (layer.q_x - layer.z_x) @ layer.q_w.T
    low, high = -128, 127
    if layer.activation != "none":
        low = max(low, layer.z_y)
    if layer.activation == "relu6":
        high = min(high, layer.z_y + math.floor(float(np.float32(6) / layer.s_y) + 0.5))
    codes = np.empty(sums.shape, np.int32)
    for (token, output), total in np.ndenumerate(sums):
        bias = 0 if layer.bias is None else int(layer.bias[output])
        value = requantized(_wrapped(int(total) + bias), *_multiplier(layer, output))
        codes[token, output] = min(max(_wrapped(value + layer.z_y), low), high)
    return codes


def _layers() -> list[Layer]:
    return [*layers("int8", "int8", activations=_ACTIVATIONS)]


def _below_half() -> list[Layer]:
    """Return accumulators next to a tie with multipliers below 1/2: twice the result fits into int32."""
    return [layer for layer in _tied() if 2 * layer.s_x * layer.s_w[0] < layer.s_y]


def _tied() -> list[Layer]:
    return [*near_ties("int8"), *near_ties("int8", by_output=True)[::4]]


def _connected_16(layer: Layer) -> np.ndarray:
    """Return arm_fully_connected_s16 without an activation."""
    sums = layer.q_x.astype(np.int64) @ layer.q_w.T.astype(np.int64)
    codes = np.empty(sums.shape, np.int32)
    for (token, output), total in np.ndenumerate(sums):
        bias = 0 if layer.bias is None else int(layer.bias[output])
        value = _requantized_64(int(total) + bias, *_multiplier(layer, output))
        codes[token, output] = min(max(value, -(2**15)), 2**15 - 1)
    return codes


def _wide() -> list[Layer]:
    # A scale for each output: its product with the inputs' is then float64 there as well.
    return [replace(layer, activation="none") for layer in wide_layers(by_output=True) if len(layer.s_w) > 1]


PATHS = (
    Path(
        "arm_elementwise_mul_s8",
        '`integer_operator("mul")`',
        partial(operators.cases, "mul", ("int8",)),
        _product,
        partial(operators.ours, operator="mul", arithmetic="litert"),
    ),
    Path(
        "arm_avgpool_s8",
        '`integer_operator("average")`',
        _pools,
        _pool,
        partial(operators.ours, operator="average", arithmetic="litert_pool"),
    ),
    layer_path("arm_nn_requantize_s64, int16 inputs", "litert_16x8", _wide, _connected_16),
    layer_path("arm_fully_connected_s8", "cmsis_nn", _layers, partial(_connected, once=False)),
    layer_path(
        "arm_nn_requantize, accumulators next to a tie", "cmsis_nn", _tied, partial(_connected, once=False)
    ),
    layer_path(
        "arm_fully_connected_s8, CMSIS_NN_USE_SINGLE_ROUNDING",
        "cmsis_nn_once",
        _layers,
        partial(_connected, once=True),
    ),
    layer_path(
        "arm_nn_requantize, CMSIS_NN_USE_SINGLE_ROUNDING, accumulators next to a tie",
        "cmsis_nn_once",
        _below_half,
        partial(_connected, once=True),
    ),
)
