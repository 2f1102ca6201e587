"""Which cheap number predicts how many sums an adder has right: many schemes, and rank correlations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch

from quantviz.budget import StepCounter
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.moments import Moments
from quantviz.models.character_model import ADDER, network_of
from quantviz.models.layer_effects import rank_correlation
from quantviz.models.model_schemes import LayerSchemes, ModelSchemes, scheme_of_bits
from quantviz.models.network import HEAD
from quantviz.models.running import RunResult, run_built_in
from quantviz.schemes.granularity import PerChannel, PerGroup, PerTensor

#: Which weights share a scale in the schemes that are tried.
_SHARED = MappingProxyType(
    {"per_tensor": PerTensor(), "per_row": PerChannel(0), "g32": PerGroup(32), "g16": PerGroup(16)}
)


@dataclass(frozen=True)
class SchemeNumbers:
    """The numbers of an adder under one scheme."""

    #: The scheme in words, such as "int4_per_row gptq".
    name: str
    #: SQNR in dB of all weights that are rounded, inf without an error.
    weight_db: float
    #: Mean over the linear layers but the head of ‖error‖² / ‖XWᵀ‖² of their outputs.
    rel_out: float
    #: KL divergence in bits a character of the answers.
    kl: float
    #: Sums that are right.
    right: int


#: The numbers that may predict, each larger for larger errors.
PREDICTORS: Mapping[str, Callable[[SchemeNumbers], float]] = MappingProxyType(
    {
        "weight_db": lambda each: -each.weight_db,
        "rel_out": lambda each: each.rel_out,
        "kl": lambda each: each.kl,
    }
)


def tried_schemes() -> Mapping[str, ModelSchemes]:
    """Return schemes of weights, inputs, methods and the cache, by their names.

    >>> found = tried_schemes()
    >>> len(found), str(found["int3_per_row gptq"].layers)
    (62, 'int3,symmetric,per_channel,min_max,course;-;gptq')
    """
    return MappingProxyType(dict(_tried()))


def _tried() -> Iterator[tuple[str, ModelSchemes]]:
    for bits, (shared, granularity) in itertools.product((2, 3, 4, 5, 6, 8), _SHARED.items()):
        yield f"int{bits}_{shared}", ModelSchemes(LayerSchemes(scheme_of_bits(bits, granularity)))
    for recipe in ("mxfp4", "nvfp4", "nf4_64", "fp8_e4m3_per_tensor"):
        yield recipe, ModelSchemes(LayerSchemes(recipe))
    for bits, method in itertools.product((3, 4), ("gptq", "awq", "rotation", "rotation+gptq", "kmeans")):
        yield f"int{bits}_per_row {method}", ModelSchemes(LayerSchemes(scheme_of_bits(bits), None, method))
    for bits, shared in itertools.product((3, 4, 5, 6, 8), ("per_tensor", "per_row")):
        inputs = scheme_of_bits(bits, _SHARED[shared])
        yield f"inputs int{bits}_{shared}", ModelSchemes(LayerSchemes("int8_per_row", inputs))
    for bits, method in itertools.product((4, 5), ("smoothquant", "rotation")):
        schemes = LayerSchemes("int8_per_row", scheme_of_bits(bits, PerTensor()), method)
        yield f"inputs int{bits}_per_tensor {method}", ModelSchemes(schemes)
    for bits, (axis, name) in itertools.product((2, 3, 4), enumerate(("row", "column"))):
        keys, values = (scheme_of_bits(bits, PerChannel(each)) for each in (axis, 0))
        yield f"keys int{bits}_per_{name}", ModelSchemes(keys=keys, values=values)
    for bits, of_inputs in ((4, 4), (4, 5), (5, 4), (3, 8)):
        schemes = LayerSchemes(scheme_of_bits(bits), scheme_of_bits(of_inputs))
        yield f"int{bits}_per_row, inputs int{of_inputs}_per_row", ModelSchemes(schemes)


def scheme_numbers(adder: str = ADDER) -> tuple[SchemeNumbers, ...]:
    """Return the numbers of an adder under each of the `tried_schemes`: some twenty seconds of one core."""
    tried = tried_schemes()
    progress = StepCounter(len(tried), is_whole=True)
    return tuple(numbers_of(name, run_built_in(adder, tried[name])) for name in progress.through(tried))


def numbers_of(name: str, found: RunResult) -> SchemeNumbers:
    """Return the numbers of an adder's run under a scheme of some name."""
    tensors = network_of(found.model).tensors
    layers = {name: each for name, each in found.layers.items() if name != HEAD}
    power = {name: float(tensors[f"{name}.weight"].double().square().sum()) for name in layers}
    noise = sum(power[name] * 10 ** (-each.weight_db / 10) for name, each in layers.items())
    x2, e2 = torch.tensor([sum(power.values()), noise], dtype=torch.float64)
    weight_db = float(METRICS["sqnr_db"].of(Moments(x2=x2, e2=e2)))
    rel_out = sum(each.rel_out for each in layers.values()) / len(layers)
    assert found.sums
    return SchemeNumbers(name, weight_db, rel_out, found.kl, found.sums.right)


def predict_sums(rows: Sequence[SchemeNumbers]) -> Mapping[str, float]:
    """Return the rank correlation (Spearman 1904) of each of the `PREDICTORS` with the wrong sums.

    Schemes with all sums right share a rank, however far apart their errors are.
    """
    wrong = [-each.right for each in rows]
    found = {name: rank_correlation(list(map(of, rows)), wrong) for name, of in PREDICTORS.items()}
    return MappingProxyType(found)
