"""Engines' integer layers as data: how each accumulates, adds its bias, requantizes and clamps.

An engine is added here, with its words under `[integer_engines]` in each language. Each row is held to its
engine by `tests/engines/integer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

from quantviz.quantization.requantizing import REQUANTIZATIONS, Requantization

#: The activations that a layer's clamp can hold.
ACTIVATIONS = ("none", "relu", "relu6")
#: The formats of inputs, weights and outputs whose sums are int64.
WIDE = ("int16", "int8", "int16")
#: The formats of inputs and weights whose products AVX2 adds in pairs.
PAIRED = ("uint8", "int8")


@dataclass(frozen=True)
class IntegerEngine:
    id: str
    #: How an accumulator becomes a whole number of the output's steps.
    requantization: Requantization
    #: The kernels, with the version or the revision that was read.
    source: str
    #: The type in which S_x · S_w is rounded before it is divided by the output's scale: where W has one
    #: scale, and where each output has its own.
    scale_product: Literal["float32", "float64"] = "float32"
    scale_product_by_output: Literal["float32", "float64"] = "float32"
    #: Whether it is divided by the output's scale, or multiplied by its reciprocal.
    output_scale: Literal["division", "reciprocal"] = "division"
    #: Whether two neighbouring products are added in 16 bits that saturate, as AVX2's u8·s8 instruction does.
    pairs: Literal["exact", "saturated"] = "exact"
    #: The type of a sum of products: int32, or int64 of int16 inputs and int8 weights.
    sums: Literal["int32", "int64"] = "int32"
    #: The form of the bias: int32 codes of scale S_x·S_w, or a real number that is added in float32.
    bias: Literal["int32", "real"] = "int32"
    #: The limits that are applied before rounding: "both", the "upper" one, or "none".
    limits_before: Literal["both", "upper", "none"] = "none"
    #: Whether the zero point is added to the rounded value, or before it is rounded.
    zero_point: Literal["after_rounding", "before_rounding"] = "after_rounding"
    #: Whether the sum of a value and the zero point wraps in int32.
    sum_wraps: bool = True
    #: The rule for ReLU6's limit: 6 / scale is rounded half away from 0, or its sum with the zero point half
    #: to even.
    six: Literal["away", "even_with_zero_point"] = "away"


#: The fields that rows share: kernels that multiply in float32, LiteRT's that take scales in float64, and
#: torch's, whose sums do not wrap.
_IN_FLOAT32 = partial(IntegerEngine, requantization=REQUANTIZATIONS["float32"])
_BY_OUTPUT = partial(IntegerEngine, scale_product_by_output="float64")
_REFERENCE = partial(_BY_OUTPUT, scale_product="float64")
_TORCH = partial(_IN_FLOAT32, sum_wraps=False)
_ONEDNN = partial(_TORCH, bias="real", limits_before="both", zero_point="before_rounding")

_ALL = (
    _IN_FLOAT32(
        "onnxruntime",
        source="onnxruntime 1.31.1: core/mlas/lib/quantize.cpp, contrib_ops/cpu/quantization/quant_gemm.cc",
        limits_before="both",
    ),
    _IN_FLOAT32(
        "onnxruntime_avx2",
        source="onnxruntime 1.31.1 on a processor without VNNI: core/mlas/lib/amd64/QgemmU8S8KernelAvx2.asm",
        pairs="saturated",
        limits_before="both",
    ),
    _REFERENCE(
        "litert_reference",
        REQUANTIZATIONS["fixed_point"],
        "ai-edge-litert 2.3.0: tflite/kernels/internal/reference/integer_ops/conv.h",
    ),
    _REFERENCE(
        "litert_reference_connected",
        REQUANTIZATIONS["float64"],
        "ai-edge-litert 2.3.0: tflite/kernels/internal/reference/integer_ops/fully_connected.h",
    ),
    _BY_OUTPUT(
        "litert_ruy",
        REQUANTIZATIONS["fixed_point_up"],
        "ai-edge-litert 2.3.0 without delegates: ruy's kernel_avx512.cc",
    ),
    _IN_FLOAT32(
        "xnnpack",
        source="ai-edge-litert 2.3.0 with XNNPACK: src/qs8-gemm/MRx16c8-avx512vnni.c.in",
        limits_before="upper",
        six="even_with_zero_point",
    ),
    _REFERENCE(
        "litert_16x8",
        REQUANTIZATIONS["fixed_point_16"],
        "ai-edge-litert 2.3.0, int16 inputs: tflite/kernels/internal/common.h, MultiplyByQuantizedMultiplier",
        sums="int64",
    ),
    _REFERENCE(
        "litert_16x8_connected",
        REQUANTIZATIONS["float64"],
        "ai-edge-litert 2.3.0, int16 inputs: the reference kernel of FULLY_CONNECTED",
        sums="int64",
    ),
    _BY_OUTPUT(
        "cmsis_nn",
        REQUANTIZATIONS["fixed_point"],
        "CMSIS-NN, revision 011bf322: Include/arm_nnsupportfunctions.h, arm_nn_requantize",
    ),
    _BY_OUTPUT(
        "cmsis_nn_once",
        REQUANTIZATIONS["fixed_point_once"],
        "CMSIS-NN, revision 011bf322, with CMSIS_NN_USE_SINGLE_ROUNDING",
    ),
    _TORCH(
        "fbgemm",
        source="torch 2.13.0, quantized.linear by fbgemm and x86: FBGEMM's src/QuantUtilsAvx2.cc",
        bias="real",
    ),
    _TORCH(
        "fbgemm_avx2",
        source="torch 2.13.0, fbgemm on a processor without VNNI: vpmaddubsw",
        pairs="saturated",
        bias="real",
    ),
    _TORCH("qnnpack", source="torch 2.13.0, quantized.linear by QNNPACK", output_scale="reciprocal"),
    _ONEDNN("onednn", source="torch 2.13.0, quantized.linear by oneDNN"),
    _ONEDNN(
        "onednn_avx2",
        source="torch 2.13.0, oneDNN on a processor without VNNI: vpmaddubsw",
        pairs="saturated",
    ),
)
INTEGER_ENGINES: Mapping[str, IntegerEngine] = MappingProxyType({each.id: each for each in _ALL})
