"""NVIDIA's ModelOpt.

Source: nvidia-modelopt 0.47, modelopt_recipes/configs/ptq: the presets enable the weight quantizers of all
modules, which nn.Linear and nn.Conv2d have, and units/default_disabled_quantizers.yaml disables the head,
routers and embeddings again, and the parts of names below. Its export_hf_checkpoint joins layers of one input
and refuses them in several formats: torch/export/quant_utils.py, preprocess_linear_fusion.
"""

from __future__ import annotations

from types import MappingProxyType

from quantviz.checkpoints.profiles.files import SAFETENSORS_ENTRY, Files, Parts
from quantviz.checkpoints.profiles.profile import Profile

MODELOPT = Profile(
    id="modelopt",
    name="modelopt",
    kinds=frozenset(("linear", "experts", "convolution")),
    recipes=(
        *("modelopt_int8_per_row", "modelopt_int4_g128", "modelopt_fp8_per_tensor", "modelopt_nvfp4"),
        *("modelopt_mxfp8", "modelopt_mxfp4"),
    ),
    keeps=(
        *("linear_attn.conv1d", "self_attention.conv1d", "linear_attn.in_proj_a", "linear_attn.in_proj_b"),
        *("lm_head", "mixer.conv1d", "output_layer", "proj_out.", "router", "embed_vision", "vision_tower"),
        *("visual", "vision_model", "multi_modal_projector"),
    ),
    files=Files(
        ".safetensors",
        entry=SAFETENSORS_ENTRY,
        # The preset of FP8 has inputs quantized too: each layer has a scale of them.
        parts=MappingProxyType(
            {"modelopt_fp8_per_tensor": Parts(3, of_tensor=4), "modelopt_nvfp4": Parts(3)}
        ),
    ),
    export="modelopt",
    arithmetic="modelopt",
    joins=True,
)
