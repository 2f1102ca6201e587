"""Keys, values and attention of one layer of a built-in model, before and after rounding; and the cost of the
axis along which keys share a scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from quantviz.models.character_model import network_of, pieces_of, tokens_of
from quantviz.models.model_schemes import ModelSchemes
from quantviz.models.network import Network, logits
from quantviz.models.quantizing import quantized_network
from quantviz.models.running import divergence, original, scores_of

#: Tokens of the text that is held back that are looked at.
TOKENS = 64
#: Times the median of all channels from which a channel is loud.
_LOUD = 4.0
#: Schemes of the keys by the axis of a scale.
KEY_SCHEMES: Mapping[str, str] = MappingProxyType({"channel": "int4_per_channel", "token": "int4_per_token"})


@dataclass(frozen=True, eq=False)
class AttentionView:
    """One layer's keys and values of some tokens, and the weights of its attention."""

    #: float32 (tokens, channels), of all heads one after the other.
    keys: torch.Tensor
    values: torch.Tensor
    heads: int
    #: float32 (heads, tokens, tokens) of the original and of the rounded model.
    before: torch.Tensor
    after: torch.Tensor

    def loud(self, part: str) -> tuple[int, ...]:
        """Return the loud channels of "keys" or of "values": those of several times the median size."""
        sizes = getattr(self, part).abs().amax(0)
        return tuple(torch.nonzero(sizes > _LOUD * sizes.median()).flatten().tolist())

    def moved(self) -> tuple[float, ...]:
        """Return the share of its attention that each head moves elsewhere: half of Σ|after − before|, mean
        over tokens.
        """
        gaps = (self.after - self.before).abs().sum(-1).mean(-1) / 2
        return tuple(gaps.tolist())


def attention_of(model: str, schemes: ModelSchemes, layer: int) -> AttentionView:
    """Return one layer of a built-in model under schemes, on the first tokens of the held-back text."""
    network = network_of(model)
    tokens = tokens_of("held_back", model)[:1, :TOKENS]
    before = _watched(network, tokens, layer)
    after = _watched(quantized_network(model, schemes).network, tokens, layer)
    return AttentionView(
        before["keys"], before["values"], network.sizes.heads, before["weights"], after["weights"]
    )


def key_costs(model: str) -> Mapping[str, float]:
    """Return the KL divergence of int4 keys, in bits a character, by the axis of a scale, one of
    `KEY_SCHEMES`.
    """
    return {
        axis: divergence(
            original(model, None),
            scores_of(quantized_network(model, ModelSchemes(keys=scheme)).network, pieces_of(model, None)),
        )
        for axis, scheme in KEY_SCHEMES.items()
    }


def _watched(network: Network, tokens: torch.Tensor, layer: int) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    at = f"model.layers.{layer}."

    def watch(name: str, value: torch.Tensor) -> None:
        if name.startswith(at) and name.removeprefix(at) in ("keys", "values", "weights"):
            found[name.removeprefix(at)] = value[0]

    with torch.inference_mode():
        logits(network, tokens, watch=watch)
    return {name: value.clone() for name, value in found.items()}
