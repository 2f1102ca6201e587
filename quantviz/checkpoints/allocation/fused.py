"""Tensors that engines join into one matrix, which then has one recipe: known by their names."""

from __future__ import annotations

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


def fused_groups(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the tensors that engines store as one, in groups of two or more.

    A group has names that differ in one part alone: query, key and value, or gate and up.

    >>> fused_groups(["model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
    ...               "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.o_proj.weight"])
    [('model.layers.0.self_attn.q_proj.weight', 'model.layers.0.self_attn.k_proj.weight')]
    """
    groups: dict[tuple[int, tuple[str, ...], int], list[str]] = {}
    numbers: dict[tuple[int, str], int] = {}
    for name in names:
        # A name may have many such parts: the texts before and behind each are identified by a number.
        parts = name.split(".")
        before = _numbered(parts, numbers)
        behind = _numbered(parts[::-1], numbers)[::-1]
        for at, part in enumerate(parts):
            if together := _SET_OF.get(part):
                groups.setdefault((before[at], together, behind[at]), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _numbered(parts: list[str], numbers: dict[tuple[int, str], int]) -> list[int]:
    """Return for each part the number of all that comes before it; equal beginnings have equal numbers."""
    found = [0]
    for part in parts:
        found.append(numbers.setdefault((found[-1], part), len(numbers) + 1))
    return found[:-1]
