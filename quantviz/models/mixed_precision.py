"""Bits for each layer within a budget: by the weights' errors alone, and weighted by the measured loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quantviz.checkpoints.allocation.allocating import allocate
from quantviz.models.layer_effects import LayerEffect
from quantviz.models.model_schemes import LayerSchemes, ModelSchemes, scheme_of_bits
from quantviz.models.quantizing import rounded_layer
from quantviz.models.running import run_built_in
from quantviz.schemes.scheme import Scheme

#: Bits that a layer may get.
OFFERED = (2, 3, 4, 5, 6, 8)


@dataclass(frozen=True)
class Mix:
    """A choice of bits for each layer, and its cost for the whole model."""

    bits: Mapping[str, int]
    #: Mean bits a weight with scales, as a run has them.
    mean_bits: float
    #: KL divergence in bits a character.
    kl: float


def mixes(model: str, schemes: LayerSchemes, effects: Sequence[LayerEffect]) -> Mapping[str, Mix]:
    """Return three choices of the same size: the same bits for each layer, "uniform"; the least error of the
    weights, "proxy"; and the least where each layer weighs as its measured KL divergence, "measured".

    `effects` are those of the layers under the uniform choice: α of a layer is its KL divergence over the
    relative error of its weight.
    """
    weights = schemes.weights
    assert isinstance(weights, Scheme)
    uniform = weights.number_format.bits
    granularity = weights.granularity
    names = [effect.name for effect in effects]
    table: dict[str, list[object]] = {"tensor": [], "recipe": [], "bits": [], "cost": []}
    sizes = {}
    for name in names:
        for bits in OFFERED:
            found = rounded_layer(model, name, LayerSchemes(scheme_of_bits(bits, granularity)))
            size = round(found.bits * found.weight.numel())
            sizes[name, bits] = size
            row = (name, str(bits), size, 10 ** (-found.sqnr_db / 10))
            for column, value in zip(table.values(), row, strict=True):
                column.append(value)
    budget = sum(sizes[name, uniform] for name in names)
    alpha = {effect.name: max(effect.kl_alone, 0.0) * 10 ** (effect.weight_db / 10) for effect in effects}
    chosen = {
        "uniform": dict.fromkeys(names, str(uniform)),
        "proxy": allocate(table, budget_bits=budget).choice,
        "measured": allocate(table, budget_bits=budget, sensitivities=alpha).choice,
    }
    mixed = {}
    for each, choice in chosen.items():
        by_name = {name: int(choice[name]) for name in names}
        own = tuple((name, LayerSchemes(scheme_of_bits(by_name[name], granularity))) for name in names)
        found_mix = run_built_in(model, ModelSchemes(own=own))
        mixed[each] = Mix(by_name, found_mix.bits, found_mix.kl)
    return mixed
