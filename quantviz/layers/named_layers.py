"""Layers in a file of any format that are known by the names of their tensors: a weight and its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from quantviz.sources.files import Catalog

#: The words in a tensor's name that say which part of a layer it is.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "weight": ("weight", "weights", "w"),
    "inputs": ("inputs", "input", "in", "x", "activations", "activation", "acts", "act"),
    "bias": ("bias", "b"),
}
_PART = {word: part for part, words in _WORDS.items() for word in words}
#: A word or a number of a name: `fc1_input` has "fc", "1" and "input".
_PIECE = re.compile(r"[^\W\d_]+|\d+")


@dataclass(frozen=True)
class NamedLayer:
    """The names of a layer's tensors in a file."""

    weight: str
    inputs: str
    bias: str | None = None
    #: The axis of the weight's outputs: 1 where only that fits the inputs, as for `x @ w`.
    outputs: int = 0
    #: The axes of the inputs before the last one.
    token_axes: int = 1


def named_layers(catalog: Catalog) -> dict[str, NamedLayer]:
    """Return the layers of a file by their names, in its order: each weight (outputs, inputs) or (inputs,
    outputs) beside inputs (…, tokens, inputs) of its width, such as `fc1.weight` beside `fc1.input`, or `W1`
    beside `X1`.
    """
    places: dict[tuple[str, ...], dict[str, str]] = {}
    for name in catalog.names:
        part, key = _part_of(name)
        places.setdefault(key, {}).setdefault(part, name)
    found = {}
    for parts in places.values():
        weight, inputs = parts.get("weight"), parts.get("inputs")
        if weight is None or inputs is None:
            continue
        sizes = catalog.info(weight).shape
        shape = catalog.info(inputs).shape
        if len(sizes) != 2 or len(shape) < 2:
            continue
        outputs = next((axis for axis in (0, 1) if sizes[1 - axis] == shape[-1]), None)
        if outputs is not None:
            name = re.sub(r"[\W_]*(?<![^\W\d_])(?:weights?|w)$", "", weight, flags=re.IGNORECASE) or weight
            found[name] = NamedLayer(weight, inputs, parts.get("bias"), outputs, len(shape) - 1)
    return found


def _part_of(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the part of a layer that a tensor is by its name, and the other words of the name: the layer's.
    A name without such a word is that of a weight.
    """
    words = [word.casefold() for word in _PIECE.findall(name)]
    parts = {_PART[word]: at for at, word in enumerate(words) if word in _PART}
    for part in ("weight", "bias", "inputs"):
        if part in parts:
            return part, (*words[: parts[part]], *words[parts[part] + 1 :])
    return "weight", tuple(words)
