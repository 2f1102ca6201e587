"""Which cheap number predicts how many sums an adder has right: many schemes, and rank correlations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import torch

from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.moments import Moments
from quantviz.models.character_model import network_of
from quantviz.models.layer_effects import rank_correlation
from quantviz.models.model_schemes import SHARED, LayerSchemes, ModelSchemes, scheme_of_bits
from quantviz.models.network import HEAD
from quantviz.models.running import RunResult, run_built_in, sums_right
from quantviz.models.sums import DRAWN, wilson_interval
from quantviz.schemes.granularity import PerChannel, PerTensor


@dataclass(frozen=True)
class SchemeNumbers:
    #: The scheme in words, such as "int4_row gptq".
    name: str
    #: SQNR in dB of all weights that are rounded, inf without an error.
    weight_db: float
    #: Mean over the linear layers but the head of ‖error‖² / ‖XWᵀ‖² of their outputs.
    rel_out: float
    #: KL divergence in bits a character of the answers.
    kl: float
    #: Sums that are right, of `DRAWN`.
    right: int

    @property
    def kind(self) -> str:
        """Return its kind: "weights", "methods" for weights by a method, "inputs" or "cache"."""
        if "inputs" in self.name:
            return "inputs"
        if self.name.startswith("keys"):
            return "cache"
        return "methods" if " " in self.name else "weights"


#: The numbers that may predict, each larger for larger errors.
PREDICTORS: Mapping[str, Callable[[SchemeNumbers], float]] = MappingProxyType(
    {
        "weight_db": lambda each: -each.weight_db,
        "rel_out": lambda each: each.rel_out,
        "kl": lambda each: each.kl,
    }
)


@cache
def tried_schemes() -> Mapping[str, ModelSchemes]:
    """Return schemes of weights, inputs, methods and the cache, by their names."""
    return MappingProxyType(dict(_tried()))


def _tried() -> Iterator[tuple[str, ModelSchemes]]:
    for bits, (shared, granularity) in itertools.product((2, 3, 4, 5, 6, 8), SHARED.items()):
        yield f"int{bits}_{shared}", ModelSchemes(LayerSchemes(scheme_of_bits(bits, granularity)))
    for recipe in ("mxfp4", "nvfp4", "nf4_64", "fp8_e4m3_per_tensor"):
        yield recipe, ModelSchemes(LayerSchemes(recipe))
    for bits, method in itertools.product((3, 4), ("gptq", "awq", "rotation", "rotation+gptq", "kmeans")):
        yield f"int{bits}_row {method}", ModelSchemes(LayerSchemes(scheme_of_bits(bits), None, method))
    for bits, shared in itertools.product((3, 4, 5, 6, 8), ("tensor", "row")):
        inputs = scheme_of_bits(bits, SHARED[shared])
        yield f"inputs int{bits}_{shared}", ModelSchemes(LayerSchemes("int8_per_row", inputs))
    for bits, method in itertools.product((4, 5), ("smoothquant", "rotation")):
        schemes = LayerSchemes("int8_per_row", scheme_of_bits(bits, PerTensor()), method)
        yield f"inputs int{bits}_tensor {method}", ModelSchemes(schemes)
    for bits, (axis, name) in itertools.product((2, 3, 4), enumerate(("row", "column"))):
        keys, values = (scheme_of_bits(bits, PerChannel(each)) for each in (axis, 0))
        yield f"keys int{bits}_{name}", ModelSchemes(keys=keys, values=values)
    for bits, of_inputs in ((4, 4), (4, 5), (5, 4), (3, 8)):
        schemes = LayerSchemes(scheme_of_bits(bits), scheme_of_bits(of_inputs))
        yield f"int{bits}_row, inputs int{of_inputs}_row", ModelSchemes(schemes)


def scheme_numbers(adder: str, name: str) -> SchemeNumbers:
    """Return the numbers of an adder under one of the `tried_schemes`: a third of a second of one core."""
    return numbers_of(name, run_built_in(adder, tried_schemes()[name]))


def numbers_of(name: str, found: RunResult) -> SchemeNumbers:
    tensors = network_of(found.model).tensors
    layers = {name: each for name, each in found.layers.items() if name != HEAD}
    power = {name: float(tensors[f"{name}.weight"].double().square().sum()) for name in layers}
    noise = sum(power[name] * 10 ** (-each.weight_db / 10) for name, each in layers.items())
    x2, e2 = torch.tensor([sum(power.values()), noise], dtype=torch.float64)
    weight_db = float(METRICS["sqnr_db"].of(Moments(x2=x2, e2=e2)))
    rel_out = sum(each.rel_out for each in layers.values()) / len(layers)
    return SchemeNumbers(name, weight_db, rel_out, found.kl, sums_right(found))


def predict_sums(rows: Sequence[SchemeNumbers]) -> Mapping[str, float]:
    """Return the rank correlation (Spearman 1904) of each of the `PREDICTORS` with the wrong sums.

    Schemes with all sums right share a rank, however far apart their errors are.
    """
    wrong = [-each.right for each in rows]
    found = {name: rank_correlation(list(map(of, rows)), wrong) for name, of in PREDICTORS.items()}
    return MappingProxyType(found)


@dataclass(frozen=True)
class PairOrders:
    """The pairs of schemes, by whether KL orders them as their sums do."""

    alike: int
    #: Those whose sums differ by no more than so many draws allow.
    undecided: int
    #: Those that it orders the other way: the first has the smaller KL, and fewer sums right.
    against: tuple[tuple[SchemeNumbers, SchemeNumbers], ...]


def pair_orders(rows: Sequence[SchemeNumbers]) -> PairOrders:
    """Return how KL orders the pairs of schemes."""
    alike = undecided = 0
    against = []
    for one, other in itertools.combinations(sorted(rows, key=lambda each: each.kl), 2):
        (low, high), (other_low, other_high) = (wilson_interval(each.right, DRAWN) for each in (one, other))
        if high < other_low:
            against.append((one, other))
        elif other_high < low:
            alike += 1
        else:
            undecided += 1
    return PairOrders(alike, undecided, tuple(against))
