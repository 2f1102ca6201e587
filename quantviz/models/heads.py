"""Queries, keys and values of heads: those in a file by their names, and built-in ones.

Built-in heads are added here: one entry in `BUILT_IN_HEADS`, and their words under
`[attention.built_in.<name>]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch

from quantviz.errors import QuantVizError

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog

#: The last words of a tensor's name by which it is queries, keys or values.
_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "q": ("q", "query", "queries"),
        "k": ("k", "key", "keys"),
        "v": ("v", "value", "values"),
        "mask": ("mask",),
    }
)
#: Tokens of a model that runs.
_TOKENS = 64


@dataclass(frozen=True, eq=False)
class Heads:
    """Queries, keys and values as `attention` takes them, float32, and the mask that came with them."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor | None = None
    mask: torch.Tensor | None = None


def names_of_heads(names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return the names of "q", "k" and, where there are such, "v" and "mask", by what stands before them.

    >>> names_of_heads(("layers.0.query", "layers.0.key", "layers.1.key", "norm"))
    {'layers.0': {'q': 'layers.0.query', 'k': 'layers.0.key'}}
    """
    by_start: dict[str, dict[str, str]] = {}
    for name in names:
        before, word = re.fullmatch(r"(.*?)([^\W_]*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
        for part, words in _WORDS.items():
            if word.casefold() in words:
                by_start.setdefault(before, {})[part] = name
    return {before.rstrip("._/-"): parts for before, parts in by_start.items() if {"q", "k"} <= parts.keys()}


def heads_in(catalog: Catalog, name: str) -> Heads:
    """Return the heads of a file whose names begin with `name`.

    Raises:
        QuantVizError: It has none, or they cannot be read.
    """
    found = names_of_heads(tuple(catalog.names))
    if name not in found:
        names = ", ".join(found or tuple(catalog.names)[:8])
        raise QuantVizError("attention.no_heads", name=name, names=names)
    return Heads(**{part: catalog.load(each) for part, each in found[name].items()})


# ---- built-in heads ----------------------------------------------------------------------------------------


def _loud_keys(*, same: bool) -> Heads:
    """Return one head whose key channels 9 and 40 are loud: by what all tokens have in common, where `same`,
    or by values that differ from token to token.
    """
    random = np.random.default_rng(7)
    sizes = np.ones(64)
    sizes[[9, 40]] = 20.0, -12.0
    q, k, v = (random.normal(size=(rows, 64)).astype(np.float32) for rows in (80, 96, 96))
    k = (k + random.normal(size=64) * sizes if same else k * sizes / 2).astype(np.float32)
    return Heads(*map(torch.from_numpy, (q, k, v)))


def heads_of_model(model: str, layer: int) -> Heads:
    """Return the heads of a layer of a built-in model, on text that is held back, with its mask.

    Raises:
        QuantVizError: It has no such layer.
    """
    from quantviz.models.character_model import network_of, tokens_of
    from quantviz.models.network import distances, logits

    network = network_of(model)
    parts: dict[str, torch.Tensor] = {}

    def watch(name: str, value: torch.Tensor) -> None:
        at, _, part = name.rpartition(".")
        if at == f"model.layers.{layer}" and part in ("queries", "keys", "values"):
            parts[part] = torch.stack(value[0].chunk(network.sizes.heads, -1)).clone()

    with torch.inference_mode():
        logits(network, tokens_of("held_back", model)[:1, :_TOKENS], watch=watch)
    if not parts:
        raise QuantVizError("attention.no_layer", got=layer, last=network.sizes.layers - 1)
    mask = distances(network.sizes.heads, _TOKENS, _TOKENS)
    return Heads(parts["queries"], parts["keys"], parts["values"], mask)


BUILT_IN_HEADS: Mapping[str, Callable[[], Heads]] = MappingProxyType(
    {
        "loud_mean": partial(_loud_keys, same=True),
        "loud_channel": partial(_loud_keys, same=False),
    }
)
