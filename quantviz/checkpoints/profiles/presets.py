"""Mixtures of types by name: the type that a preset of llama.cpp gives each tensor, by part and layer.

A preset is a list of steps, of which the first that fits a tensor decides. Conditions follow from the names
and shapes of all tensors, as in llama.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from quantviz.schemes.granularity import Shape

#: The parts of a model in llama.cpp's `tensor_get_category`: the first whose text is in a name.
Part = Literal[
    "output", "embedding", "qkv", "kv_b", "v", "k", "q", "attention_output", "up", "gate", "down", ""
]
_PARTS: tuple[tuple[Part, str], ...] = (
    ("qkv", "attn_qkv.weight"),
    ("kv_b", "attn_kv_b.weight"),
    ("v", "attn_v.weight"),
    ("k", "attn_k.weight"),
    ("q", "attn_q.weight"),
    ("attention_output", "attn_output.weight"),
    ("up", "ffn_up"),
    ("gate", "ffn_gate"),
    ("down", "ffn_down"),
)
#: Parts that llama.cpp treats as the values of attention.
VALUES: tuple[Part, ...] = ("v", "qkv", "kv_b")
#: Names of experts one by one, which llama.cpp has in one tensor.
_EXPERT = re.compile(
    r".*\.(\d+)\..*experts\.\d+\.(gate_proj|w1|up_proj|w3|down_proj|w2)(?:\.weight)?", re.ASCII
)
_EXPERT_PARTS = {"w1": "gate", "w3": "up", "w2": "down"}
#: Layers of the models of 65 and 70 billion weights.
_LARGE = 80


@dataclass(frozen=True)
class PresetStep:
    parts: tuple[Part, ...]
    #: By id; of presets that are not measured, the type of llama.cpp.
    recipe: str
    #: Ids of `CONDITIONS`.
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preset:
    #: The recipe where no step fits.
    recipe: str
    steps: tuple[PresetStep, ...] = ()
    #: Types that llama-quantize refuses for a tensor without importance of its columns.
    needs_importance: tuple[str, ...] = ()

    def refuses_without_importance(self, recipe: str, name: str) -> bool:
        """Return whether llama-quantize refuses a type for a tensor without importance."""
        return recipe in self.needs_importance and part_of(name, tied=False) not in ("output", "embedding")


@dataclass(frozen=True)
class Spot:
    """Place of a tensor in the model, as far as presets depend on it."""

    #: Its number among the tensors of its kind, and their count: of the feed-forward part, layers.
    number: int
    count: int
    #: Heads of queries for one of keys, at least.
    shared: int
    experts: int
    layers: int
    is_stack: bool
    columns: int
    #: Whether there is an importance matrix, of whichever tensors.
    has_importance: bool


def _more_bits(at: int, count: int) -> bool:
    """Return llama.cpp's `use_more_bits`: the first and the last eighth, and every third between."""
    return at < count // 8 or at >= 7 * count // 8 or (at - count // 8) % 3 == 2


CONDITIONS: Mapping[str, Callable[[Spot], bool]] = MappingProxyType(
    {
        "more_bits": lambda spot: _more_bits(spot.number, spot.count),
        "first_eighth": lambda spot: spot.number < spot.count // 8,
        "first_sixteenth": lambda spot: spot.number < spot.count // 16,
        "first_two": lambda spot: spot.number < 2,
        "first_four": lambda spot: spot.number < 4,
        "shared_by_four": lambda spot: spot.shared >= 4,
        "middle": lambda spot: spot.count // 8 <= spot.number < 7 * spot.count // 8,
        "four_experts": lambda spot: spot.experts >= 4,
        "eight_experts": lambda spot: spot.experts == 8,
        "large": lambda spot: spot.layers == _LARGE and spot.shared > 1,
        "stack": lambda spot: spot.is_stack,
        "not_by_256": lambda spot: spot.columns % 256 != 0,
        "not_by_128": lambda spot: spot.columns % 128 != 0,
        "not_by_64": lambda spot: spot.columns % 64 != 0,
        "not_by_32": lambda spot: spot.columns % 32 != 0,
        "importance": lambda spot: spot.has_importance,
        "no_importance": lambda spot: not spot.has_importance,
    }
)


def types_of(
    preset: Preset, shapes: Mapping[str, Shape], names: Mapping[str, str], *, has_importance: bool
) -> dict[str, str]:
    """Return the recipe that a preset gives each tensor, by name.

    `shapes` are those of all tensors of a model as they are quantized, `names` llama.cpp's of those that have
    one.
    """
    own = {tensor: own_name(tensor, names) for tensor in shapes}
    # llama.cpp goes through tensors by layer, then by name.
    ordered = sorted(own, key=lambda tensor: (layer_of(own[tensor]), own[tensor].encode()))
    by_name = {own[tensor]: shapes[tensor] for tensor in ordered}
    tied = "output.weight" not in by_name
    layers = 1 + max(map(layer_of, by_name))
    experts = _experts(own, shapes)
    shared = _shared(by_name)
    values = [name for name in by_name if part_of(name, tied=False) in VALUES]
    numbers = {name: at for at, name in enumerate(values)}
    counters: dict[Part, int] = {}
    found: dict[str, str] = {}
    for tensor in ordered:
        name = own[tensor]
        part = part_of(name, tied=tied)
        if part in VALUES:
            number = numbers[name]
            count = len(values)
        elif experts > 1:
            number = layer_of(name)
            count = layers
        else:
            number = counters.get(part, 0)
            count = layers
        counters[part] = counters.get(part, 0) + 1
        shape = shapes[tensor]
        is_stack = len(shape) > 2 or _EXPERT.fullmatch(tensor) is not None
        spot = Spot(number, count, shared, experts, layers, is_stack, shape[-1], has_importance)
        found[tensor] = next((step.recipe for step in preset.steps if _fits(step, part, spot)), preset.recipe)
    return found


def own_name(tensor: str, names: Mapping[str, str]) -> str:
    """Return llama.cpp's name of a tensor, given `names` of those that have one; of an expert its stack's."""
    return names.get(tensor) or _of_expert(tensor) or tensor


def _fits(step: PresetStep, part: Part, spot: Spot) -> bool:
    return (not step.parts or part in step.parts) and all(CONDITIONS[name](spot) for name in step.when)


def part_of(name: str, *, tied: bool) -> Part:
    """Return the part that a tensor of llama.cpp's name is; an embedding that is also the head is that.

    >>> part_of("blk.3.ffn_down_exps.weight", tied=False), part_of("token_embd.weight", tied=True)
    ('down', 'output')
    """
    if name == "output.weight":
        return "output"
    if name in ("token_embd.weight", "per_layer_token_embd.weight"):
        return "output" if tied else "embedding"
    return next((part for part, text in _PARTS if text in name), "")


def layer_of(name: str) -> int:
    found = re.match(r"blk\.(\d+)\.", name, re.ASCII)
    return int(found[1]) if found else -1


def _of_expert(tensor: str) -> str | None:
    found = _EXPERT.fullmatch(tensor)
    if found is None:
        return None
    part = _EXPERT_PARTS.get(found[2], found[2].removesuffix("_proj"))
    return f"blk.{int(found[1])}.ffn_{part}_exps.weight"


def _experts(own: Mapping[str, str], shapes: Mapping[str, Shape]) -> int:
    stacked = [
        shapes[tensor][0] for tensor, name in own.items() if "_exps" in name and len(shapes[tensor]) > 2
    ]
    if stacked:
        return max(stacked)
    one_by_one = [name for name in own.values() if "ffn_down_exps" in name]
    return max(map(one_by_one.count, set(one_by_one)), default=0)


def _shared(by_name: Mapping[str, Shape]) -> int:
    """Return the number of query heads that share one key head, from the shapes of the first layer."""
    queries = next((shape for name, shape in by_name.items() if "attn_q.weight" in name), None)
    keys = next((shape for name, shape in by_name.items() if "attn_k.weight" in name), None)
    if queries and keys:
        return max(queries[0] // keys[0], 1)
    joined = next((shape for name, shape in by_name.items() if "attn_qkv.weight" in name), None)
    if joined and joined[0] > joined[-1]:
        return max(2 * joined[-1] // (joined[0] - joined[-1]), 1)
    return 1
