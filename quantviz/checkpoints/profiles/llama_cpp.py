"""llama.cpp's llama-quantize.

Source: src/llama-quant.cpp as llama-cpp-python 0.3.36 has it: `tensor_allows_quantization` for which
tensors, `tensor_type_fallback` for what becomes of rows that do not divide.
"""

from __future__ import annotations

from types import MappingProxyType

from quantviz.checkpoints.profiles.profile import Profile
from quantviz.schemes.recipes import RECIPE_GROUPS

#: It takes all matrices of two axes or three whose names end in "weight", but these.
_KEEPS = (
    *("_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel"),
    *("per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight"),
    *("indexer.k_proj.weight", "indexer.q_proj.weight"),
    *(f"time_mix_{name}.weight" for name in ("first", "w0", "w1", "w2", "v0", "v1", "v2", "a0", "a1", "a2")),
    *(f"time_mix_{name}.weight" for name in ("g1", "g2", "decay_w1", "decay_w2", "lerp_fused")),
    *("attn_rel_b.weight", ".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos"),
    *(".patch_embd", ".patch_merger", "a.rvq.codebook", "mm.a.code_embd"),
)

LLAMA_CPP = Profile(
    id="llama_cpp",
    name="llama.cpp",
    kinds=frozenset(("linear", "experts", "embedding", "head")),
    recipes=tuple(RECIPE_GROUPS["gguf"]),
    usual=("q4_k", "q6_k", "q8_0", "iq4_xs", "q3_k", "q4_0"),
    keeps=_KEEPS,
    by_gguf_names=True,
    # The type on the left has blocks of 256, that on the right of 32; where 32 does not divide either, it
    # writes F16.
    fallbacks=MappingProxyType(
        {
            "iq4_xs": "iq4_nl",
            "q2_k": "q4_0",
            "q3_k": "q4_0",
            "tq1_0": "q4_0",
            "tq2_0": "q4_0",
            "q4_k": "q5_0",
            "q5_k": "q5_1",
            "q6_k": "q8_0",
            **dict.fromkeys(("q8_0", "q5_0", "q5_1", "q4_0", "q4_1", "gguf_mxfp4", "iq4_nl"), ""),
        }
    ),
    export="llama",
    arithmetic="gguf",
)
