"""llama.cpp's llama-quantize.

Source: src/llama-quant.cpp as llama-cpp-python 0.3.36 has it: `tensor_allows_quantization` for which
tensors, `tensor_type_fallback` for rows that do not divide. The presets Q1_0 and Q2_0 are those of the same
file since llama.cpp b9916 (pull request 24448), which gives them blocks of 128 and of 64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quantviz.checkpoints.profiles.presets import VALUES, Preset, PresetStep
from quantviz.checkpoints.profiles.profile import Profile, ToolFiles
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

#: The head, or the embedding that is also the head: Q6_K, or Q8_0 where rows do not divide into the blocks of
#: the type of all others.
_HEAD_K = (PresetStep(("output",), "q8_0", ("not_by_256",)), PresetStep(("output",), "q6_k"))
_HEAD = (PresetStep(("output",), "q8_0", ("not_by_32",)), PresetStep(("output",), "q6_k"))
#: Of a model of eight experts queries' partners are small.
_OF_EXPERTS = (PresetStep((*VALUES, "k"), "q8_0", ("eight_experts",)),)
_OUTPUT_OF_EXPERTS = PresetStep(("attention_output",), "q5_k", ("eight_experts",))
#: In the model of 70 billion weights eight heads share the values.
_LARGE = PresetStep(VALUES, "q5_k", ("large",))


def _k(recipe: str, *steps: PresetStep) -> Preset:
    return Preset(recipe, (*_HEAD_K, *_OF_EXPERTS, *steps))


def _iq4(recipe: str, head: tuple[PresetStep, ...]) -> Preset:
    values = PresetStep(VALUES, "q5_k", ("shared_by_four",))
    down = PresetStep(("down",), "q5_k", ("first_eighth", "no_importance"))
    return Preset(recipe, (*head, *_OF_EXPERTS, values, down, _OUTPUT_OF_EXPERTS))


def _ternary(recipe: str) -> Preset:
    return Preset(recipe, (*_HEAD_K, PresetStep(("embedding",), "q4_k"), *_OF_EXPERTS))


def _plain(recipe: str, *steps: PresetStep) -> Preset:
    return Preset(recipe, (*_HEAD, *_OF_EXPERTS, *steps))


def _first_down(recipe: str) -> PresetStep:
    """Return the step of the first feed-forward layers: with an importance matrix Q4_0 and Q5_0 get
    minima.
    """
    return PresetStep(("down",), recipe, ("first_eighth", "importance"))


_MORE = ("more_bits",)
#: `llama_tensor_get_type_impl`, and `tensor_requires_imatrix` for what is refused without an importance
#: matrix. Those whose name is a type's too are called `…_file`. Those of IQ1, IQ2 and IQ3 are below.
_PRESETS: Mapping[str, Preset] = {
    "q2_k_file": _k(
        "q2_k",
        _LARGE,
        PresetStep(VALUES, "q4_k", ("shared_by_four",)),
        PresetStep(VALUES, "q3_k"),
        PresetStep(("down",), "q3_k"),
        _OUTPUT_OF_EXPERTS,
        PresetStep(("attention_output",), "q3_k"),
    ),
    "q2_k_s": replace(
        _k(
            "q2_k",
            PresetStep(VALUES, "q5_k", ("large", "shared_by_four")),
            PresetStep(VALUES, "q4_k", ("shared_by_four",)),
            PresetStep(("down",), "q4_k", ("first_eighth",)),
        ),
        needs_importance=("q2_k",),
    ),
    "q3_k_s": _k("q3_k", _LARGE, _OUTPUT_OF_EXPERTS),
    "q3_k_m": _k(
        "q3_k",
        PresetStep(VALUES, "q5_k", ("first_two",)),
        _LARGE,
        PresetStep(VALUES, "q4_k"),
        PresetStep(("down",), "q5_k", ("first_sixteenth",)),
        PresetStep(("down",), "q4_k"),
        _OUTPUT_OF_EXPERTS,
        PresetStep(("attention_output",), "q4_k"),
    ),
    "q3_k_l": _k(
        "q3_k",
        PresetStep(VALUES, "q5_k"),
        PresetStep(("down",), "q5_k"),
        PresetStep(("attention_output",), "q3_k", ("eight_experts",)),
        PresetStep(("attention_output",), "q5_k"),
    ),
    "q4_k_s": _k(
        "q4_k",
        PresetStep(VALUES, "q5_k", ("first_four",)),
        _LARGE,
        PresetStep(("down",), "q5_k", ("first_eighth",)),
        _OUTPUT_OF_EXPERTS,
    ),
    "q4_k_m": _k(
        "q4_k",
        PresetStep(VALUES, "q6_k", _MORE),
        _LARGE,
        PresetStep(("down",), "q6_k", _MORE),
        _OUTPUT_OF_EXPERTS,
    ),
    "q5_k_s": _k("q5_k"),
    "q5_k_m": _k("q5_k", PresetStep(VALUES, "q6_k", _MORE), PresetStep(("down",), "q6_k", _MORE)),
    "q6_k_file": _k("q6_k"),
    "iq4_xs_file": _iq4("iq4_xs", _HEAD_K),
    "iq4_nl_file": _iq4("iq4_nl", _HEAD),
    "tq1_0_file": _ternary("tq1_0"),
    "tq2_0_file": _ternary("tq2_0"),
    "q4_0_file": _plain("q4_0", _first_down("q4_1")),
    "q4_1_file": _plain("q4_1"),
    "q5_0_file": _plain("q5_0", _first_down("q5_1")),
    "q5_1_file": _plain("q5_1"),
    "q8_0_file": Preset("q8_0"),
    "mxfp4_moe": Preset("q8_0", (PresetStep(("output",), "q8_0"), PresetStep((), "gguf_mxfp4", ("stack",)))),
}

#: The head of the presets of fewest bits.
_HEAD_IQ = (PresetStep(("output",), "q8_0", ("not_by_256",)), PresetStep(("output",), "q5_k"))


def _iq2(recipe: str, more: str, attention_output: str | None = None) -> Preset:
    outputs = (PresetStep(("attention_output",), attention_output),) if attention_output else ()
    return Preset(
        recipe,
        (
            *_HEAD_IQ,
            PresetStep(("embedding",), more),
            *(PresetStep(VALUES, "q4_k", (each,)) for each in ("shared_by_four", "four_experts")),
            PresetStep(VALUES, more),
            PresetStep(("k",), "q4_k", ("eight_experts",)),
            PresetStep(("down",), more, ("first_eighth",)),
            _OUTPUT_OF_EXPERTS,
            *outputs,
        ),
    )


def _iq3(recipe: str, *steps: PresetStep, head: tuple[PresetStep, ...] = _HEAD_K) -> Preset:
    large = PresetStep(VALUES, "q5_k", ("large", "shared_by_four"))
    values = PresetStep(VALUES, "q4_k", ("shared_by_four",))
    return Preset(recipe, (*head, *_OF_EXPERTS, large, values, _OUTPUT_OF_EXPERTS, *steps))


#: The types of fewest bits, none of which llama-quantize makes without an importance matrix.
_NEED_IMPORTANCE = ("iq3_xxs", "iq2_xxs", "iq2_xs", "iq2_s", "iq1_s", "iq1_m")
#: The presets of IQ1, IQ2 and IQ3.
_IQ: Mapping[str, Preset] = {
    "iq1_s": _iq2("iq1_s", "q2_k", "iq2_xxs"),
    "iq1_m": _iq2("iq1_m", "q2_k", "iq2_xxs"),
    "iq2_xxs": _iq2("iq2_xxs", "q2_k"),
    "iq2_xs": _iq2("iq2_xs", "q2_k"),
    "iq2_s": _iq2("iq2_xs", "iq3_s", "iq3_s"),
    "iq2_m": _iq2("iq2_s", "iq3_s", "iq3_s"),
    "iq3_xxs": _iq3(
        "iq3_xxs",
        PresetStep(("embedding", "attention_output"), "iq3_s"),
        PresetStep(("k", "q"), "iq2_s"),
        PresetStep(VALUES, "iq3_s", ("no_importance",)),
        PresetStep(("down",), "q4_k", ("no_importance", "first_eighth")),
        PresetStep(("down",), "q3_k", ("no_importance",)),
        head=_HEAD_IQ,
    ),
    "iq3_xs": _iq3(
        "iq3_s", PresetStep(("k", "q"), "iq3_xxs"), PresetStep(("gate", "up"), "iq3_xxs", ("middle",))
    ),
    "iq3_s": _iq3("iq3_s"),
    "iq3_m": _iq3(
        "iq3_s",
        PresetStep(VALUES, "q5_k", ("large",)),
        PresetStep((*VALUES, "attention_output"), "q4_k"),
        PresetStep(("down",), "q4_k", ("first_eighth",)),
        PresetStep(("down",), "q4_k", ("eight_experts", "more_bits")),
    ),
}
#: The types of one bit and of two with one scale: their head is Q8_0 where rows do not divide into blocks.
_SHORT: Mapping[str, Preset] = {
    "q1_0": Preset(
        "q1_0",
        (PresetStep(("output",), "q8_0", ("not_by_128",)), PresetStep(("output",), "q6_k"), *_OF_EXPERTS),
    ),
    "q2_0": Preset(
        "q2_0",
        (
            PresetStep(("output",), "q8_0", ("not_by_64",)),
            PresetStep(("output",), "q6_k"),
            PresetStep(("embedding",), "q4_k"),
            *_OF_EXPERTS,
        ),
    ),
}
_UNENCODED: Mapping[str, Preset] = {
    **{name: replace(preset, needs_importance=_NEED_IMPORTANCE) for name, preset in _IQ.items()},
    **_SHORT,
}

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
    fallbacks={
        "iq4_xs": "iq4_nl",
        "q2_k": "q4_0",
        "q3_k": "q4_0",
        "tq1_0": "q4_0",
        "tq2_0": "q4_0",
        "q4_k": "q5_0",
        "q5_k": "q5_1",
        "q6_k": "q8_0",
        # As the release named above does; some before it ended with an error.
        **dict.fromkeys(("q8_0", "q5_0", "q5_1", "q4_0", "q4_1", "gguf_mxfp4", "iq4_nl"), ""),
    },
    presets=_PRESETS,
    unencoded=_UNENCODED,
    # GGUF_DEFAULT_ALIGNMENT. Its converter keeps in float32 vectors, norms, positions and routers
    # (conversion/base.py).
    files=ToolFiles(".gguf", alignment=32, kept=4, unfit=2),
    export="llama",
    arithmetic="gguf",
)
