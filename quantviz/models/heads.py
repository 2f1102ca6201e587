"""Queries, keys and values of heads: in a file by their names, made by captured layers, and built-in ones.

Built-in heads are added here: one entry in `BUILT_IN_HEADS`, and their words under
`[attention.built_in.<name>]`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch

from quantviz.errors import QuantVizError

if TYPE_CHECKING:
    from quantviz.layers.captures import Captured, Layers
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
#: The words after and before the letter of queries, keys or values in a layer's name: "q_proj", "wq".
_PROJECTION = ("proj", "projection", "lin", "linear", "dense", "matmul")
_WEIGHT = re.compile(r"(?<![^\W_])w(?=[qkv]$)", re.IGNORECASE)
#: The name of a layer that makes queries, keys and values together; in cross attention it makes no queries.
_FUSED = re.compile(
    r"(?!.*cross)(?P<before>.*?)(?:w?qkv|c_attn|query_key_value)(?:[._/-](?:proj|linear|weight))*",
    re.IGNORECASE | re.DOTALL,
)
#: Layers of this name give q, k and v of each head in turn. Others, and those whose heads share keys, give
#: all of q, then k, then v. Source: transformers 5.24, modeling_bloom.py and modeling_gpt_neox.py;
#: modeling_gpt2.py and modeling_phi3.py.
_BY_HEADS = "query_key_value"
#: Channels of a head as models have them, the commonest first.
_WIDTHS = (64, 128, 32, 96, 80, 256, 48, 40, 16, 8)
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
        # From its end on: a search for the last word would go through a long one again from each place.
        backwards = itertools.takewhile(str.isalnum, reversed(name))
        word = "".join(backwards)[::-1]
        for part, words in _WORDS.items():
            if word.casefold() in words:
                by_start.setdefault(name.removesuffix(word), {})[part] = name
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


# ---- heads that captured layers make ------------------------------------------------------------------


def names_of_projections(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the names of the layers that make "q", "k" and perhaps "v", by what stands before; one may make
    all.

    >>> names_of_projections(("blk.1.attn_q", "blk.1.attn_k"))
    {'blk.1.attn': {'q': 'blk.1.attn_q', 'k': 'blk.1.attn_k'}}
    >>> names_of_projections(("h.0.attn.c_attn", "h.0.mlp.c_fc"))
    {'h.0.attn': {'q': 'h.0.attn.c_attn', 'k': 'h.0.attn.c_attn', 'v': 'h.0.attn.c_attn'}}
    """
    layers = {_WEIGHT.sub("", _without_projection(name)): name for name in names}
    found = {
        before: {part: layers[each] for part, each in parts.items()}
        for before, parts in names_of_heads(tuple(layers)).items()
    }
    for name in layers.values():
        if fused := _FUSED.fullmatch(name):
            found.setdefault(fused["before"].rstrip("._/-"), dict.fromkeys("qkv", name))
    return found


def _without_projection(name: str) -> str:
    pieces = re.split(r"([._/-])", name)
    while len(pieces) > 1 and pieces[-1].casefold() in _PROJECTION:
        del pieces[-2:]
    return "".join(pieces)


@dataclass(frozen=True)
class Projections:
    """The layers that make queries, keys and values."""

    #: Their names, by "q", "k" and "v".
    names: Mapping[str, str]
    #: "apart", or of one layer "blocks", all of q, then k, then v; or "heads", those of each head in turn.
    layout: str
    #: The number of outputs of each part.
    outputs: Mapping[str, int]

    @property
    def widths(self) -> tuple[int, ...]:
        """Return the channels that a head may have, likeliest first: a capture does not say how many heads it
        has.
        """
        most = math.gcd(*self.outputs.values())
        return tuple(width for width in dict.fromkeys((*_WIDTHS, most)) if most and most % width == 0)


def projections_of(layers: Layers, name: str) -> Projections:
    """Return the layers whose names begin with `name`.

    Of one layer for all three, the queries are taken to be as wide as its inputs.

    Raises:
        QuantVizError: There are no such layers, or one for all three is too narrow.
    """
    found = names_of_projections(layers.names)
    if name not in found:
        raise QuantVizError("attention.no_heads", name=name, names=", ".join(found or layers.names[:8]))
    names = found[name]
    if names["q"] != names["k"]:
        return Projections(names, "apart", {part: layers[each].shape[2] for part, each in names.items()})
    fused = names["q"]
    _, inputs, outputs = layers[fused].shape
    if outputs < inputs + 2:
        raise QuantVizError("attention.no_heads", name=name, names=f"{fused}: {outputs} × {inputs}")
    layout = "heads" if _BY_HEADS in fused.casefold() and outputs == 3 * inputs else "blocks"
    keys = (outputs - inputs) // 2
    return Projections(names, layout, {"q": outputs - 2 * keys, "k": keys, "v": keys})


def heads_of_layers(layers: Layers, made: Projections, width: int, most: int) -> Heads:
    """Return the heads that captured layers make of the tokens that were kept, in their order, before
    positions.

    `width` is the channels of a head; of more than `most` scores of all heads only the first tokens are
    taken.
    """
    tokens = max(math.isqrt(most * width // made.outputs["q"]), 1)
    outputs = {each: _outputs(layers[each], tokens, width) for each in dict.fromkeys(made.names.values())}
    if made.layout == "apart":
        return Heads(**{part: outputs[each] for part, each in made.names.items()})
    (fused,) = outputs.values()
    if made.layout == "heads":
        return Heads(fused[0::3], fused[1::3], fused[2::3])
    return Heads(*torch.split(fused, [each // width for each in made.outputs.values()]))


def _outputs(layer: Captured, tokens: int, width: int) -> torch.Tensor:
    weight, inputs = layer.whole()
    found = inputs[:tokens] @ weight.T
    if layer.bias is not None:
        found = found + layer.bias.to(found)
    return torch.stack(torch.split(found, width, 1))


# ---- built-in heads ----------------------------------------------------------------------------------------


def _loud_keys(*, same: bool) -> Heads:
    """Return one head whose key channels 9 and 40 are loud: in all tokens alike if `same`, else in each by
    itself.
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
