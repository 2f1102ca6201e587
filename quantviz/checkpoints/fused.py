"""Tensors that engines join into one matrix, which then has one recipe: known by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Names that stand in one place of a tensor's name, where engines store them as one: llama.cpp's names,
#: those of Hugging Face, BERT's, and DeepSeek's latent attention. vLLM's `packed_modules_mapping` has them
#: by model.
_TOGETHER = (
    ("q_proj", "k_proj", "v_proj"),
    ("attn_q", "attn_k", "attn_v"),
    ("query", "key", "value"),
    ("wq", "wk", "wv"),
    ("gate_proj", "up_proj"),
    ("ffn_gate", "ffn_up"),
    ("ffn_gate_exps", "ffn_up_exps"),
    ("ffn_gate_shexp", "ffn_up_shexp"),
    ("w1", "w3"),
    ("q_a_proj", "kv_a_proj_with_mqa"),
)
_SET_OF = {part: parts for parts in _TOGETHER for part in parts}
_PART = re.compile(r"[^.]+")


def fused_groups(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the tensors that engines store as one, in groups of two or more.

    A group has names that differ in one part alone: query, key and value, or gate and up.

    >>> fused_groups(["model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
    ...               "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.o_proj.weight"])
    [('model.layers.0.self_attn.q_proj.weight', 'model.layers.0.self_attn.k_proj.weight')]
    """
    groups: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for name in names:
        for part in _PART.finditer(name):
            if together := _SET_OF.get(part[0]):
                groups.setdefault((name[: part.start()], together, name[part.end() :]), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]
