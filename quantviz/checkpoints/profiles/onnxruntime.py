"""ONNX Runtime's quantization tools, of weights.

Source: onnxruntime 1.31, quantization/registry.py: quantize_dynamic takes the constants of MatMul, Gemm,
Conv and Gather, so all tables that are looked up too, these with one scale; matmul_nbits_quantizer.py takes
the constants of MatMul alone, in blocks of which the last may be short.
"""

from __future__ import annotations

from types import MappingProxyType

from quantviz.checkpoints.model.tensor_kinds import Kind
from quantviz.checkpoints.profiles.files import Files, Parts
from quantviz.checkpoints.profiles.profile import Profile

#: Kinds that are looked up, and those that are no MatMul.
_TABLES: tuple[Kind, ...] = ("embedding", "position", "token_type")
_NOT_MATMUL: tuple[Kind, ...] = (*_TABLES, "convolution")
_NBITS = ("ort_int4_g128", "ort_int4_asym_g128", "ort_int4_g32")

ONNXRUNTIME = Profile(
    id="onnxruntime",
    name="onnxruntime",
    kinds=frozenset(
        ("linear", "head", "router", "experts", "convolution", "embedding", "position", "token_type")
    ),
    recipes=(
        "ort_int8_per_tensor",
        "ort_int8_per_row",
        "ort_int4_g128",
        "ort_int4_asym_g128",
        "ort_int4_g32",
    ),
    by_kind=MappingProxyType(
        {
            "ort_int8_per_row": MappingProxyType(dict.fromkeys(_TABLES, "ort_int8_per_tensor")),
            **dict.fromkeys(_NBITS, MappingProxyType(dict.fromkeys(_NOT_MATMUL, ""))),
        }
    ),
    # Bytes of a weight in the graph: int8 takes four operations in place of one. Its zero points are 0.
    files=Files(
        ".onnx",
        described=190,
        parts=MappingProxyType(
            {
                "ort_int8_per_tensor": Parts(3, of_tensor=961),
                "ort_int8_per_row": Parts(3, of_tensor=960, of_row=1),
                "ort_int4_asym_g128": Parts(3, of_tensor=150),
            }
        ),
    ),
)
