"""Measurements of a tensor under recipes: a row for each, also where one fails.

A loaded tensor is one part, a larger one has a part for each of its bands. Parts are joined in the tensor's
order, wherever and whenever they were measured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from quantviz.checkpoints.results.typed_tables import NUMBERS
from quantviz.checkpoints.results.typed_values import sentences
from quantviz.checkpoints.scan.importance import Importance
from quantviz.checkpoints.scan.reading import LoadedTensor
from quantviz.checkpoints.scan.recipes import row_key
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element, metrics_of
from quantviz.evaluation.moments import Moments, joined
from quantviz.pickling import Picklable
from quantviz.quantization.quantizer import ARITHMETIC
from quantviz.schemes.granularity import Shape, flat_index
from quantviz.schemes.orientation import Orientation
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits
from quantviz.streaming.measuring import measure
from quantviz.streaming.regions import place_of
from quantviz.streaming.tensor_facts import Facts, facts, power_sums
from quantviz.tensors.lazy import InMemory, Stored

#: In place of `ARITHMETIC`: a row of the reference, shown until kernels have measured it. Its sums differ in
#: the last digits.
FOR_NOW = -1
#: Metrics of the tensor alone: added up once for all recipes.
_POWERS = ("x", "x3", "x4")


@dataclass(frozen=True)
class ContentMeasurement(Picklable):
    content: str
    #: See `recipes.row_key`.
    key: str
    status: str
    #: By language.
    reason: Mapping[str, str] | None = None
    #: Every metric, and those of `NUMBERS`.
    numbers: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    #: Place of the first error of largest size.
    max_error_at: Shape | None = None
    arithmetic: int = ARITHMETIC

    @property
    def is_complete(self) -> bool:
        """Return whether it has every number of today: an older version may have stored fewer metrics."""
        return self.status != "ok" or self.numbers.keys() >= {*METRICS, *NUMBERS}


@dataclass(frozen=True, eq=False)
class KnownFacts(Picklable):
    content: str
    #: Its shape in the file, and as it is quantized.
    shape: Shape
    seen: Shape
    #: Axes of the first that are rows of the second.
    outputs: tuple[int, ...]
    #: In the file.
    dtype: str
    facts: Facts
    #: Sums of powers; None where values are not finite, or where the reference makes them.
    powers: Moments | None
    #: Whether kernels measure it, or the reference.
    by_kernels: bool
    #: Weights of its columns' errors; None where all are alike.
    importance: Importance | None = None

    @property
    def experts(self) -> int:
        """Return the number of its experts, if each has an importance of its own; else 1."""
        importance = self.importance
        return importance.experts if importance is not None and importance.is_stacked_as(self.seen) else 1

    def key(self, scheme: Scheme) -> str:
        return row_key(scheme, self.importance.mark if self.importance else "")

    @classmethod
    def of(cls, loaded: LoadedTensor, *, threads: int | None = None, by_kernels: bool = True) -> KnownFacts:
        """Return the facts of a tensor that was read, by more passes where reading did not find them. A small
        one is always measured by the reference: a row has the same bits in every run, whatever is compiled.
        """
        assert loaded.values is not None
        facts_of_values = loaded.known or facts(loaded.values)
        powers = loaded.powers
        by_kernels = by_kernels and loaded.values.count > limits.FUSED
        if powers is None and facts_of_values.found is None and by_kernels:
            powers = power_sums(loaded.values, threads=threads)
        entry = loaded.entry
        return cls(
            loaded.content,
            entry.shape,
            loaded.values.shape,
            entry.outputs,
            loaded.values.dtype,
            facts_of_values,
            powers,
            by_kernels,
            entry.importance,
        )


@dataclass(frozen=True, eq=False)
class PartMeasurement(Picklable):
    moments: Moments | None = None
    cells: int = 0
    #: Flat place of the first error of largest size in the whole tensor.
    largest_at: int = 0
    problem: QuantVizError | None = None


def measure_loaded(
    loaded: LoadedTensor, schemes: Collection[Scheme], *, threads: int | None = None
) -> Iterator[ContentMeasurement]:
    """Yield the row of each scheme: of one part, or of a part for each expert with an importance of its
    own.
    """
    if not schemes:
        return
    assert loaded.values is not None
    known = KnownFacts.of(loaded, threads=threads)
    for scheme in schemes:
        parts = _experts_of(loaded.values, known) if scheme.weighs_columns else [(loaded.values, 0)]
        yield measured_of(
            known, scheme, [measure_part(x, at, scheme, known, threads=threads) for x, at in parts]
        )


def _experts_of(x: Stored, known: KnownFacts) -> list[tuple[Stored, int]]:
    if known.experts == 1:
        return [(x, 0)]
    size = math.prod(x.shape[1:])
    others = (slice(None),) * (len(x.shape) - 1)
    return [
        (InMemory(x.read((slice(k, k + 1), *others)), dtype=x.dtype), k * size) for k in range(known.experts)
    ]


def measure_for_now(loaded: LoadedTensor, scheme: Scheme) -> ContentMeasurement:
    """Return the reference's row, to be shown while kernels are compiled; of at most `limits.SMALL`
    elements.
    """
    assert loaded.values is not None
    known = KnownFacts.of(loaded, by_kernels=False)
    part = measure_part(loaded.values, 0, scheme, known)
    return dataclasses.replace(measured_of(known, scheme, [part]), arithmetic=FOR_NOW)


def measure_part(
    x: Stored, start: int, scheme: Scheme, known: KnownFacts, *, threads: int | None = None
) -> PartMeasurement:
    """Return the measurement of whole blocks of a tensor from the flat place `start` on, with the same bits
    for any number of threads.
    """
    whole = known.facts
    nonfinite = known.facts.found
    try:
        if whole.nonfinite == math.prod(known.seen):
            raise QuantVizError("input_nothing_finite", count=whole.nonfinite)
        if nonfinite and scheme.nonfinite == "refuse":
            # NaN and Inf are counted, and all else measured.
            scheme = scheme.replace(nonfinite="ignore")
        path = "fused" if known.by_kernels else "reference"
        importance = known.importance if scheme.weighs_columns else None
        weights = None if importance is None else importance.columns(start, known.seen)
        # All metrics but those that follow from the powers of the whole tensor.
        apart = known.by_kernels and known.powers is not None
        wanted = [name for name in METRICS if not apart or METRICS[name].reads.isdisjoint(_POWERS)]
        done = measure(x, scheme, importance=weights, path=path, metrics=wanted, threads=threads, known=whole)
    except QuantVizError as problem:
        return PartMeasurement(problem=problem.again())
    return PartMeasurement(done.moments, done.counted, start + flat_index(done.largest_error, x.shape))


def measured_of(known: KnownFacts, scheme: Scheme, parts: Sequence[PartMeasurement]) -> ContentMeasurement:
    """Return the row of a scheme from all parts of a tensor in order; with the first problem, if any."""
    problem = next((part.problem for part in parts if part.problem), None)
    if problem is not None:
        return ContentMeasurement(known.content, known.key(scheme), "problem", sentences(problem))
    moments = joined(_moments_of(part) for part in parts)
    cells = sum(part.cells for part in parts)
    if known.by_kernels and known.powers is not None:
        moments = dataclasses.replace(moments, x=known.powers.x, x3=known.powers.x3, x4=known.powers.x4)
    bits = bits_per_element(scheme.on_input(known.dtype), known.seen)
    numbers = metrics_of(moments, bits, METRICS)
    assert moments.x2 is not None
    rms = math.sqrt(float(moments.x2) / cells) if cells else math.nan
    nonfinite = known.facts.found
    numbers |= {
        "peak_rms": known.facts.absmax / rms if rms else math.nan,
        "low": known.facts.lo,
        "high": known.facts.hi,
        "nan": nonfinite.nan if nonfinite else 0,
        "inf": nonfinite.inf + nonfinite.minus_inf if nonfinite else 0,
        "cells": cells,
    }
    largest = max(parts, key=_largest_error)  # the first of several
    # In the tensor's own axes.
    place = place_of(largest.largest_at, known.shape)
    if known.outputs != (0,):
        cell = place_of(largest.largest_at, known.seen)
        place = Orientation(known.outputs).place_of(cell, known.shape)
    return ContentMeasurement(known.content, known.key(scheme), "ok", None, MappingProxyType(numbers), place)


def speed_notes(sizes: Iterable[int]) -> tuple[Note, ...]:
    is_large = max(sizes, default=0) > limits.FUSED
    return (Note.of("without_numba"),) if is_large and not kernel_access.has_kernels() else ()


def _moments_of(part: PartMeasurement) -> Moments:
    assert part.moments is not None
    return part.moments


def _largest_error(part: PartMeasurement) -> float:
    largest = _moments_of(part).max_error
    assert largest is not None
    return float(largest)
