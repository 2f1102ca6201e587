"""Siblings: weights of one input (q, k and v; gate and up) that engines multiply as one, in one kernel.

Where a file has one scale for a whole weight, the kernel takes one for all siblings. What becomes of the
others is the engine's rule:

- FP8 with a scale of the tensor: each weight is dequantized in float16 and quantized again at the largest
  scale; TensorRT-LLM does so in bfloat16. An int8 weight keeps its scale, one for each of its rows.
- NVFP4: codes and scales of blocks stay, and one global scale stands for those of all, so the values of a
  sibling are off by the ratio of its own to that one. Of linear layers it is the largest number in the file,
  which compressed-tensors divides by; of experts it is that of w1 (gate). TensorRT-LLM refuses such a file.

Source, as of 2026: vLLM, layers/quantization, `utils/w8a8_utils.py` (requantize_with_max_scale),
`modelopt.py` (ModelOptNvFp4LinearMethod, ModelOptNvFp4FusedMoE), and in compressed_tensors
`schemes/compressed_tensors_w4a4_nvfp4.py` and `compressed_tensors_moe.py`; SGLang, the files of the same
names; TensorRT-LLM, `_torch/modules/linear.py` (rescale_fused_weights, NVFP4LinearMethod).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from quantviz.checkpoints.model.layer_names import NAMES
from quantviz.checkpoints.model.tensor_names import place_of_name

#: Names that stand in one place of a tensor's name, where engines store them as one, by each of them. The
#: first is the one whose scale experts take.
_SET_OF: Mapping[str, tuple[str, ...]] = {
    part: tuple(parts) for parts in NAMES["engines"]["siblings"] for part in parts
}
#: Rule of a kernel for siblings with scales of their own: quantized again at the largest one; or the largest,
#: the smallest or the first one stands for all.
Rule = Literal["requantized", "largest", "smallest", "first"]
#: The rule by layout and format of codes. Other layouts are not run by these engines, or keep scales apart.
RULES: Mapping[tuple[str, str], Rule] = MappingProxyType(
    {
        ("compressed_tensors", "float8_e4m3fn"): "requantized",
        ("modelopt", "float8_e4m3fn"): "requantized",
        ("compressed_tensors", "float4_e2m1fn"): "smallest",
        ("modelopt", "float4_e2m1fn"): "largest",
    }
)


def rule_of(layout: str, fmt: str, name: str) -> Rule | None:
    """Return the rule for a weight of that layout, format of codes and name; None where scales stay apart.

    >>> rule_of("modelopt", "float4_e2m1fn", "layers.0.mlp.up_proj.weight")
    'largest'
    >>> rule_of("modelopt", "float4_e2m1fn", "layers.0.mlp.experts.3.up_proj.weight")
    'first'
    """
    rule = RULES.get((layout, fmt))
    of_expert = name.endswith("]") or place_of_name(name).expert >= 0
    return "first" if rule in ("largest", "smallest") and of_expert else rule


def siblings_of(name: str, names: Container[str]) -> tuple[str, ...]:
    """Return the names that engines multiply as one with a tensor, itself among them; () where it has no
    siblings.

    >>> siblings_of("h.0.up_proj.weight", ["h.0.up_proj.weight", "h.0.gate_proj.weight"])
    ('h.0.gate_proj.weight', 'h.0.up_proj.weight')
    """
    parts = name.split(".")
    at = next((k for k in reversed(range(len(parts))) if parts[k] in _SET_OF), None)
    if at is None:
        return ()
    each = (".".join((*parts[:at], part, *parts[at + 1 :])) for part in _SET_OF[parts[at]])
    found = tuple(other for other in each if other in names)
    return found if len(found) > 1 else ()


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
