"""Which cheap number predicts how many sums an adder has right: many schemes, and rank correlations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from quantviz.budget import Progress
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
    for bits in (2, 3, 4, 5, 6, 8):
        for shared, granularity in _SHARED.items():
            yield f"int{bits}_{shared}", ModelSchemes(LayerSchemes(scheme_of_bits(bits, granularity)))
    for recipe in ("mxfp4", "nvfp4", "nf4_64", "fp8_e4m3_per_tensor"):
        yield recipe, ModelSchemes(LayerSchemes(recipe))
    for bits in (3, 4):
        for method in ("gptq", "awq", "rotation", "rotation+gptq", "kmeans"):
            yield (
                f"int{bits}_per_row {method}",
                ModelSchemes(LayerSchemes(f"int{bits}_per_row", None, method)),
            )
    for bits in (3, 4, 5, 6, 8):
        for inputs in ("per_tensor", "per_row"):
            schemes = LayerSchemes("int8_per_row", f"int{bits}_{inputs}")
            yield f"int8_per_row, inputs int{bits}_{inputs}", ModelSchemes(schemes)
    for bits in (3, 4):
        for method in ("smoothquant", "rotation"):
            schemes = LayerSchemes("int8_per_row", f"int{bits}_per_tensor", method)
            yield f"int8_per_row, inputs int{bits}_per_tensor {method}", ModelSchemes(schemes)
    for bits in (2, 3, 4):
        for keys in ("per_row", "per_column"):
            cache = ModelSchemes(keys=f"int{bits}_{keys}", values=f"int{bits}_per_row")
            yield f"keys int{bits}_{keys}, values int{bits}_per_row", cache
    for weights, inputs in (("int4", "int4"), ("int4", "int5"), ("int5", "int4"), ("int3", "int8")):
        schemes = LayerSchemes(f"{weights}_per_row", f"{inputs}_per_row")
        yield f"{weights}_per_row, inputs {inputs}_per_row", ModelSchemes(schemes)


def scheme_numbers(model: str = ADDER) -> tuple[SchemeNumbers, ...]:
    """Return the numbers of an adder under each of the `tried_schemes`: a minute's work of one core.

    Raises:
        QuantVizError: There is no such adder.
    """
    tried = tried_schemes()
    progress = Progress(len(tried), is_whole=True)
    return tuple(numbers_of(name, run_built_in(model, tried[name])) for name in progress.through(tried))


def numbers_of(name: str, found: RunResult) -> SchemeNumbers:
    """Return the numbers of an adder's run under a scheme of some name."""
    tensors = network_of(found.model).tensors
    layers = {name: each for name, each in found.layers.items() if name != HEAD}
    power = {name: float(tensors[f"{name}.weight"].double().square().sum()) for name in layers}
    noise = sum(power[name] * 10 ** (-each.weight_db / 10) for name, each in layers.items())
    weight_db = 10 * math.log10(sum(power.values()) / noise) if noise else math.inf
    rel_out = sum(each.rel_out for each in layers.values()) / len(layers)
    return SchemeNumbers(name, weight_db, rel_out, found.kl, found.sums.right)


def predict_sums(rows: Sequence[SchemeNumbers]) -> Mapping[str, float]:
    """Return the rank correlation (Spearman 1904) of each of the `PREDICTORS` with the wrong sums."""
    wrong = [-float(each.right) for each in rows]
    return MappingProxyType(
        {
            name: rank_correlation([number(each) for each in rows], wrong)
            for name, number in PREDICTORS.items()
        }
    )
