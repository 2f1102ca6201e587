"""Salient input channels of a built-in model's layers: 1 % of them kept at 16 bits, or scaled up before the
weights are rounded. They are the channels of the largest inputs, as in AWQ (Lin et al. 2023); the cost of
others is there to compare.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from quantviz.models.character_model import network_of, pieces_of
from quantviz.models.model_schemes import LayerSchemes, ModelSchemes
from quantviz.models.network import HEAD
from quantviz.models.quantizing import (
    STORED_BITS,
    Quantized,
    QuantizedLinear,
    quantized_network,
    watched_on_calibration,
    with_layers,
)
from quantviz.models.running import divergence, original, scores_of
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.scheme import Scheme

#: Share of the input channels of each layer, at least one of them.
SHARE = 0.01
#: How much the weights of salient channels are scaled up before they are rounded, and down after.
FACTORS = (2.0, 4.0, 8.0)
#: The rules by which channels are chosen to be kept.
KEPT_BY = ("activation", "weight", "random")
#: Draws the channels that are chosen at random.
_SEED = 0


@dataclass(frozen=True)
class SalientCost:
    """The cost of a model whose salient channels are treated in one way."""

    #: KL divergence in bits a character, and mean bits a weight with scales.
    kl: float
    bits: float


def salient_costs(
    model: str, weights: Scheme, pieces: torch.Tensor | None = None
) -> Mapping[str, SalientCost]:
    """Return the costs of a built-in model whose layers but the head have a scheme: "nothing" for the scheme
    alone; by each of `KEPT_BY` with those channels at 16 bits; and "scaled 2" and so on by `FACTORS`, with
    the channels of the largest inputs scaled up. They are measured on the text that is held back, or on
    some pieces of it.

    Raises:
        QuantVizError: There is no such model, or the scheme does not fit.
    """
    network = network_of(model)
    quantized = quantized_network(model, ModelSchemes(LayerSchemes(weights))).layers
    nearest = {name: each for name, each in quantized.items() if name != HEAD}
    choices = {"nothing": nearest}
    for choice in KEPT_BY:
        choices[choice] = {name: _kept(model, each, choice) for name, each in nearest.items()}
    for factor in FACTORS:
        choices[f"scaled {factor:g}"] = {
            name: _scaled(model, each, weights, factor) for name, each in nearest.items()
        }
    if pieces is None:
        before = original(model, None)
        pieces = pieces_of(model, None)
    else:
        before = scores_of(network_of(model), pieces)
    found = {}
    for choice, layers in choices.items():
        changed = with_layers(network, layers.values())
        kl = divergence(before, scores_of(changed, pieces))
        found[choice] = SalientCost(kl, Quantized(changed, {**quantized, **layers}).bits)
    return found


def salient_channels(model: str, layer: str, choice: str) -> torch.Tensor:
    """Return the input channels of a layer that are kept by one of `KEPT_BY`, int64 (channels,)."""
    weight = network_of(model).tensors[f"{layer}.weight"]
    if choice == "activation":
        sizes = watched_on_calibration(model)[layer].abs().mean(0)
    elif choice == "weight":
        sizes = weight.abs().mean(0)
    else:
        sizes = torch.rand(weight.shape[1], generator=torch.Generator().manual_seed(_SEED))
    return sizes.topk(math.ceil(SHARE * len(sizes))).indices


def _kept(model: str, rounded: QuantizedLinear, choice: str) -> QuantizedLinear:
    channels = salient_channels(model, rounded.name, choice)
    weight = rounded.weight.clone()
    weight[:, channels] = network_of(model).tensors[f"{rounded.name}.weight"][:, channels]
    share = len(channels) / weight.shape[1]
    bits = rounded.bits + share * (STORED_BITS - rounded.bits)
    return dataclasses.replace(rounded, weight=weight, bits=bits)


def _scaled(model: str, rounded: QuantizedLinear, scheme: Scheme, factor: float) -> QuantizedLinear:
    weight = network_of(model).tensors[f"{rounded.name}.weight"]
    factors = torch.ones(weight.shape[1])
    factors[salient_channels(model, rounded.name, "activation")] = factor
    return dataclasses.replace(rounded, weight=quantize(weight * factors, scheme).x_hat / factors)
