"""First findings of a scan: the worst tensors, the reasons, and the recipe that helps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from quantviz.checkpoints.model_map import ModelTensor, ScannedModel
from quantviz.checkpoints.scan.recipes import scheme_named
from quantviz.schemes.granularity import PerChannel

#: Bounds above which a number is a reason. A Gaussian's largest of a million values is 5 × its RMS, and its
#: kurtosis 3.
_LOUD = 12.0
_HEAVY = 6.0
_ZEROED = 0.4
_CLIPPED = 0.001
_COLUMNS_DB = 3.0
#: A column of a few values is exact whatever the others are.
_FEWEST_ROWS = 16
_LEAST_GAIN = 0.5


@dataclass(frozen=True)
class ErrorCause:
    #: "nonfinite" (values), "columns" (dB that a scale for each column gains), "loud" (peak over RMS),
    #: "heavy" (kurtosis), "zeroed", "clipped" (shares), or "coarse" (bits a weight) where nothing stands out.
    id: str
    number: float


@dataclass(frozen=True)
class Finding:
    tensor: str
    sqnr_db: float
    reasons: tuple[ErrorCause, ...]


@dataclass(frozen=True)
class Fix:
    tensor: str
    recipe: str
    gain_db: float
    #: Additional bits a weight; negative where it takes fewer.
    more_bits: float


def worst_tensors(model: ScannedModel, recipe: str, count: int = 3) -> tuple[Finding, ...]:
    measured = [
        (value, tensor)
        for tensor in model.weights
        if not math.isnan(value := tensor.number(recipe, "sqnr_db"))
    ]
    measured.sort(key=lambda each: each[0])
    return tuple(
        Finding(tensor.name, value, reasons(model, tensor, recipe)) for value, tensor in measured[:count]
    )


def reasons(model: ScannedModel, tensor: ModelTensor, recipe: str) -> tuple[ErrorCause, ...]:
    numbers = {name: tensor.number(recipe, name) for name in ("nan", "inf", "peak_rms", "kurtosis")}
    found = []
    if numbers["nan"] + numbers["inf"] > 0:
        found.append(ErrorCause("nonfinite", numbers["nan"] + numbers["inf"]))
    columns = _column_gain(model, tensor)
    if columns >= _COLUMNS_DB:
        found.append(ErrorCause("columns", columns))
    if numbers["peak_rms"] >= _LOUD:
        found.append(ErrorCause("loud", numbers["peak_rms"]))
    elif numbers["kurtosis"] >= _HEAVY:
        found.append(ErrorCause("heavy", numbers["kurtosis"]))
    for name, least in (("zeroed", _ZEROED), ("clipped", _CLIPPED)):
        share = tensor.number(recipe, f"{name}_share")
        if share >= least:
            found.append(ErrorCause(name, share))
    return tuple(found[:2]) or (ErrorCause("coarse", tensor.number(recipe, "effective_bits")),)


def _column_gain(model: ScannedModel, tensor: ModelTensor) -> float:
    best = -math.inf
    if len(tensor.shape) < 2 or tensor.shape[0] < _FEWEST_ROWS:
        return best
    by_axis: dict[tuple[str, str], dict[int, float]] = {}
    for name in model.recipes:
        scheme = scheme_named(name)
        if isinstance(scheme.granularity, PerChannel):
            by_axis.setdefault((scheme.format, scheme.mode), {})[scheme.granularity.axis] = tensor.number(
                name, "sqnr_db"
            )
    for found in by_axis.values():
        gain = found.get(1, math.nan) - found.get(0, math.nan)
        best = max(best, gain) if not math.isnan(gain) else best
    return best


def _is_by_column(recipe: str) -> bool:
    granularity = scheme_named(recipe).granularity
    return isinstance(granularity, PerChannel) and granularity.axis != 0


def first_fix(model: ScannedModel, name: str, recipe: str) -> Fix | None:
    """Return the recipe to try first on a tensor: the one of fewest bits that brings it to the median of all,
    else the one of most SQNR; None where no recipe is better. One scale for each column is no fix: no
    engine's kernels take it.
    """
    tensor = model.by_name[name]
    here = tensor.number(recipe, "sqnr_db")
    bits = tensor.number(recipe, "effective_bits")
    median = model.medians(recipe).get("", math.nan)
    better = [
        (tensor.number(other, "effective_bits"), -gained, other)
        for other in model.recipes
        if not _is_by_column(other) and (gained := tensor.number(other, "sqnr_db") - here) >= _LEAST_GAIN
    ]
    if not better:
        return None
    enough = [each for each in better if here - each[1] >= median]
    needed, gain, chosen = min(enough) if enough else min(better, key=lambda each: (each[1], each[0]))
    return Fix(name, chosen, -gain, needed - bits)
