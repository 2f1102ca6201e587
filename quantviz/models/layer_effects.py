"""The effect of rounding each linear layer by itself on the whole model, beside numbers that are cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch

from quantviz.checkpoints.model.tensor_names import place_of_name
from quantviz.models.character_model import ADDERS, network_of, tokens_of
from quantviz.models.model_schemes import ModelSchemes
from quantviz.models.quantizing import QuantizedLinear, quantized_network, with_layers
from quantviz.models.running import Scores, divergence, layer_numbers, original, original_sums, scores_of
from quantviz.models.sums import answered, drawn_sums

#: Excerpts of the text that is held back on which a layer's effect is measured; an adder has all its sums.
PIECES = 4


@dataclass(frozen=True)
class LayerEffect:
    """A linear layer under its schemes: two cheap numbers of it, and two of the whole model."""

    name: str
    #: SQNR of its weight in dB.
    weight_db: float
    #: ‖error‖² / ‖XWᵀ‖² of its outputs on the original's inputs.
    rel_out: float
    #: KL divergence of the model in bits a character where it alone is rounded, and where all others are.
    kl_alone: float
    kl_others: float
    #: Sums that an adder has right without schemes, less those where this layer alone is rounded; None of
    #: other models.
    sums_lost: int | None = None


#: The numbers that take no run of the whole model, each larger for larger errors.
CHEAP: Mapping[str, Callable[[LayerEffect], float]] = MappingProxyType(
    {"weight_db": lambda effect: -effect.weight_db, "rel_out": lambda effect: effect.rel_out}
)


def layer_effects(model: str, schemes: ModelSchemes) -> tuple[LayerEffect, ...]:
    """Return the effect of each linear layer that the schemes round; those of the table and the cache are
    left out.

    Raises:
        QuantVizError: There is no such model, or a scheme does not fit.
    """
    network = network_of(model)
    adds = model in ADDERS
    pieces = tokens_of("held_back", model)[: None if adds else PIECES]
    before = scores_of(network, pieces)
    inputs = original(model, None).inputs
    rounded = {
        name: each
        for name, each in quantized_network(model, schemes).layers.items()
        if each.schemes.weights is not None or each.schemes.inputs is not None
    }

    all_rounded = scores_of(with_layers(network, rounded.values()), pieces)

    def kl(layers: Iterable[QuantizedLinear], name: str, as_before: Scores) -> float:
        """Return the KL divergence where some layers are rounded; before the named one it runs as before."""
        number = place_of_name(name).layer
        # The head comes after all layers.
        count = number if number >= 0 else network.sizes.layers
        done = None
        if count:
            stream = as_before.streams[f"model.layers.{count - 1}.feed_forward"]
            done = (count, torch.stack(stream.chunk(len(pieces))))
        return divergence(before, scores_of(with_layers(network, layers), pieces, done=done))

    found = []
    for name, each in rounded.items():
        numbers = layer_numbers(model, each, inputs[name])
        others = [other for other in rounded.values() if other.name != name]
        alone = kl([each], name, before)
        without = kl(others, name, all_rounded)
        lost = None
        if adds:
            answers = answered(with_layers(network, [each]), drawn_sums("held_back"))
            lost = original_sums(model, None).right - answers.right
        found.append(LayerEffect(name, numbers.weight_db, numbers.rel_out, alone, without, lost))
    return tuple(found)


def predictions(effects: Sequence[LayerEffect]) -> Mapping[str, float]:
    """Return the rank correlation of each number of `CHEAP` with the KL divergence of a layer alone."""
    kl = [effect.kl_alone for effect in effects]
    return MappingProxyType(
        {name: rank_correlation([number(effect) for effect in effects], kl) for name, number in CHEAP.items()}
    )


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values share their mean rank. NaN where all are equal."""
    ranks = torch.stack([_ranks(one), _ranks(other)])
    return float(torch.corrcoef(ranks)[0, 1])


def _ranks(values: Sequence[float]) -> torch.Tensor:
    """Return the mean rank of each value, float64 (values,)."""
    given = torch.tensor(values, dtype=torch.float64)
    below = given[None] < given[:, None]
    equal = given[None] == given[:, None]
    return below.sum(1) + equal.sum(1) / 2
