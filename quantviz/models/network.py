"""The forward pass of a small causal transformer: written once, for training, running and watching.

A normalization stands before attention and before the feed-forward part, whose units are ReLUs. Places of
tokens count as in ALiBi (Press et al. 2022): each head lowers a score in proportion to the distance, by a
slope of its own. Every matrix has the axes (outputs, inputs). A network with tensors "q_norm" and "k_norm"
divides each head's queries and keys by their root mean square (QK-norm: Henry et al. 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import torch
from torch.nn import functional

#: The linear layers of one layer of the network, in order of execution.
KINDS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "fc1", "fc2")
#: The parts of a layer, after each of which the residual stream is watched.
PARTS = ("attention", "feed_forward")
#: The outputs of a linear layer.
OUTPUTS = "outputs"
#: The table that is looked up, and the matrix that gives the scores.
EMBEDDING = "model.embed_tokens"
HEAD = "lm_head"

#: Added to a mean square before its root is taken.
_SMALLEST = 1e-6

Rounder = Callable[[torch.Tensor], torch.Tensor]
#: Receives the name of a value within the network, and the value.
Watcher = Callable[[str, torch.Tensor], None]
_NONE: Mapping[str, Rounder] = MappingProxyType({})


@dataclass(frozen=True)
class Sizes:
    """`given` is the number of a text's first characters that are given: the network learns to write the
    others.
    """

    layers: int = 4
    width: int = 128
    heads: int = 4
    hidden: int = 512
    context: int = 256
    characters: int = 96
    given: int = 1

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shape of each tensor of the network, by name."""
        found: dict[str, tuple[int, ...]] = {
            f"{EMBEDDING}.weight": (self.characters, self.width),
        }
        for layer in range(self.layers):
            at = f"model.layers.{layer}"
            for kind in KINDS:
                rows = self.hidden if kind == "fc1" else self.width
                columns = self.hidden if kind == "fc2" else self.width
                found[f"{at}.{kind}.weight"] = (rows, columns)
                found[f"{at}.{kind}.bias"] = (rows,)
            for norm in ("self_attn_layer_norm", "final_layer_norm"):
                found[f"{at}.{norm}.weight"] = (self.width,)
                found[f"{at}.{norm}.bias"] = (self.width,)
        found["model.final_layer_norm.weight"] = (self.width,)
        found["model.final_layer_norm.bias"] = (self.width,)
        found[f"{HEAD}.weight"] = (self.characters, self.width)
        return MappingProxyType(found)

    def linear_layers(self) -> tuple[str, ...]:
        """Return the names of the linear layers in order of execution, the head last."""
        within = tuple(f"model.layers.{layer}.{kind}" for layer in range(self.layers) for kind in KINDS)
        return (*within, HEAD)


@dataclass(frozen=True, eq=False)
class Network:
    """Tensors of a network, and the rounding of values that pass through it."""

    sizes: Sizes
    #: float32, by name, as `Sizes.shapes` lists them.
    tensors: Mapping[str, torch.Tensor]
    #: Rounds the inputs of a linear layer, (tokens, inputs), by the layer's name.
    inputs: Mapping[str, Rounder] = field(default_factory=lambda: _NONE)
    #: Rounds the cached keys or values, (tokens, width), by "model.layers.0.keys" and the like.
    cached: Mapping[str, Rounder] = field(default_factory=lambda: _NONE)


class Cache:
    """Keys and values of the tokens before, by layer: (batch, tokens, width)."""

    def __init__(self) -> None:
        self._kept: dict[str, torch.Tensor] = {}

    @property
    def tokens(self) -> int:
        return next((values.shape[1] for values in self._kept.values()), 0)

    def keep(self, tokens: int) -> None:
        self._kept = {name: values[:, :tokens] for name, values in self._kept.items()}

    def extended(self, name: str, new: torch.Tensor) -> torch.Tensor:
        before = self._kept.get(name)
        self._kept[name] = new if before is None else torch.cat((before, new), dim=1)
        return self._kept[name]


def logits(
    network: Network,
    tokens: torch.Tensor,
    cache: Cache | None = None,
    watch: Watcher | None = None,
    done: tuple[int, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Return the scores of the next character after each token, (batch, tokens, characters).

    Args:
        network: The network.
        tokens: Characters' numbers, (batch, tokens).
        cache: Keys and values of the tokens before, which is extended; without one a text begins.
        watch: Receives each linear layer's inputs by its name and its `OUTPUTS` below that, each layer's
            "queries", "keys", "values" and "weights" of attention, and the residual stream after each of its
            `PARTS`, as "model.layers.0.attention".
        done: The number of layers that are done, and the residual stream after them, (batch, tokens, width).
    """
    run = _ForwardPass(network, cache or Cache(), watch or (lambda name, value: None))
    first, stream = done or (0, network.tensors[f"{EMBEDDING}.weight"][tokens])
    return run.logits(first, stream)


@lru_cache(maxsize=8)
def distances(heads: int, new: int, every: int) -> torch.Tensor:
    """Return the addends of the scores of the last `new` of `every` tokens, float32 (heads, new, every).

    They are −slope · distance, and −inf for the tokens that come later.
    """
    # They are kept: those that are made while a model runs must do for its training, too.
    with torch.inference_mode(mode=False):
        slopes = 0.25 ** torch.arange(heads)
        distance = torch.arange(every)[None] - torch.arange(every - new, every)[:, None]
        lowered = slopes[:, None, None] * distance
        return lowered.masked_fill(distance > 0, -torch.inf)


@dataclass(frozen=True, eq=False)
class _ForwardPass:
    """One pass over some tokens."""

    network: Network
    cache: Cache
    watch: Watcher
    #: The inputs that were rounded last, by their rounder: queries, keys and values may share them.
    last: dict[Rounder, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    def logits(self, first: int, stream: torch.Tensor) -> torch.Tensor:
        for layer in range(first, self.network.sizes.layers):
            at = f"model.layers.{layer}"
            stream = stream + self.attention(at, self.norm(f"{at}.self_attn_layer_norm", stream))
            self.watch(f"{at}.attention", stream)
            stream = stream + self.feed_forward(at, self.norm(f"{at}.final_layer_norm", stream))
            self.watch(f"{at}.feed_forward", stream)
        return self.linear(HEAD, self.norm("model.final_layer_norm", stream))

    def attention(self, at: str, x: torch.Tensor) -> torch.Tensor:
        query = self.head_norm(f"{at}.self_attn.q_norm", self.linear(f"{at}.self_attn.q_proj", x))
        self.watch(f"{at}.queries", query)
        keys = self.head_norm(f"{at}.self_attn.k_norm", self.linear(f"{at}.self_attn.k_proj", x))
        keys = self.kept(f"{at}.keys", keys)
        values = self.kept(f"{at}.values", self.linear(f"{at}.self_attn.v_proj", x))
        query, keys, values = self.heads(query), self.heads(keys), self.heads(values)
        scores = query @ keys.mT / query.shape[-1] ** 0.5
        attention = (scores + distances(*scores.shape[-3:])).softmax(-1)
        self.watch(f"{at}.weights", attention)
        mixed = torch.cat((attention @ values).unbind(1), -1)
        return self.linear(f"{at}.self_attn.out_proj", mixed)

    def feed_forward(self, at: str, x: torch.Tensor) -> torch.Tensor:
        return self.linear(f"{at}.fc2", functional.relu(self.linear(f"{at}.fc1", x)))

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        self.watch(name, x)
        weights = self.network.tensors
        rounder = self.network.inputs.get(name)
        if rounder is not None:
            before, rounded = self.last.get(rounder, (None, x))
            if before is not x:
                rounded = _rounded(rounder, x)
                self.last.clear()
                self.last[rounder] = (x, rounded)
            x = rounded
        outputs = functional.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))
        self.watch(f"{name}.{OUTPUTS}", outputs)
        return outputs

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        weights = self.network.tensors
        return functional.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])

    def head_norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return queries or keys, (batch, tokens, width), normalized in each head if the network does."""
        gains = self.network.tensors.get(f"{name}.weight")
        if gains is None:
            return x
        of_heads = self.heads(x)
        return torch.cat(functional.rms_norm(of_heads, of_heads.shape[-1:], gains, _SMALLEST).unbind(1), -1)

    def kept(self, name: str, x: torch.Tensor) -> torch.Tensor:
        self.watch(name, x)
        rounder = self.network.cached.get(name)
        return self.cache.extended(name, x if rounder is None else _rounded(rounder, x))

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, heads, tokens, channels of one head)."""
        return torch.stack(x.chunk(self.network.sizes.heads, -1), 1)


def _rounded(rounder: Rounder, x: torch.Tensor) -> torch.Tensor:
    """Return values (batch, tokens, channels) rounded as one matrix of all tokens."""
    return rounder(x.flatten(0, 1)).view_as(x)


def inputs_name(name: str) -> str:
    """Return the first of the linear layers that have the same inputs as one of them.

    >>> inputs_name("model.layers.0.self_attn.v_proj"), inputs_name("lm_head")
    ('model.layers.0.self_attn.q_proj', 'lm_head')
    """
    at, _, kind = name.rpartition(".")
    return f"{at}.q_proj" if kind in ("k_proj", "v_proj") else name


def fed_by(name: str) -> str | None:
    """Return the linear layer whose outputs, after ReLU, are a layer's inputs; None where there is none.

    >>> fed_by("model.layers.0.fc2"), fed_by("lm_head")
    ('model.layers.0.fc1', None)
    """
    at, _, kind = name.rpartition(".")
    return f"{at}.fc1" if kind == "fc2" else None
