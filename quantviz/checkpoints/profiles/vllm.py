"""compressed-tensors, which llm-compressor writes and vLLM runs.

Source: compressed-tensors 0.20, quantization/quant_scheme.py for the recipes; llm-compressor,
modifiers/quantization/quantization/mixin.py, which targets modules of the class Linear, and
group_size_validation.py, which refuses columns that do not divide into groups; its examples ignore the head
and the routers of experts, which vLLM runs unquantized.
"""

from __future__ import annotations

from types import MappingProxyType

from quantviz.checkpoints.profiles.files import SAFETENSORS_ENTRY, Files, Parts
from quantviz.checkpoints.profiles.profile import Profile

VLLM = Profile(
    id="vllm",
    name="vllm",
    kinds=frozenset(("linear", "experts")),
    recipes=(
        *("w4a16_g128", "w4a16_asym_g128", "w8a16_g128", "w8a8_per_row"),
        *("ct_fp8_per_tensor", "ct_fp8_per_row", "ct_fp8_block", "ct_nvfp4", "ct_mxfp4", "ct_mxfp8"),
    ),
    files=Files(
        ".safetensors",
        scales_as_weights=True,
        entry=SAFETENSORS_ENTRY,
        # Packed codes come with the shape that they had, as two numbers of 64 bits.
        parts=MappingProxyType(
            {
                "w4a16_g128": Parts(3, of_tensor=16),
                "w4a16_asym_g128": Parts(4, of_tensor=16),
                "w8a16_g128": Parts(3, of_tensor=16),
                "ct_nvfp4": Parts(3),
            }
        ),
    ),
    export="llmcompressor",
    arithmetic="compressed_tensors",
    joins=True,
)
