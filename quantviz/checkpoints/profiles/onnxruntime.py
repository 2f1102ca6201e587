"""ONNX Runtime's quantization tools, of weights.

Source: onnxruntime 1.31, quantization/registry.py: quantize_dynamic takes the constants of MatMul, Gemm,
Conv and Gather, so embeddings too; quantization/matmul_nbits_quantizer.py takes those of MatMul, in blocks
of which the last may be short.
"""

from __future__ import annotations

from quantviz.checkpoints.profiles.profile import Profile

ONNXRUNTIME = Profile(
    id="onnxruntime",
    name="onnxruntime",
    kinds=frozenset(("linear", "head", "router", "experts", "convolution", "embedding")),
    recipes=(
        "ort_int8_per_tensor",
        "ort_int8_per_row",
        "ort_int4_g128",
        "ort_int4_asym_g128",
        "ort_int4_g32",
    ),
)
