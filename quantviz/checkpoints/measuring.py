"""What is measured of a tensor under some recipes: a row for each, whatever happens."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from quantviz.checkpoints.listing import Entry
from quantviz.checkpoints.reading import MOST_HELD, Buffer, Files, Held, read_tensor
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element, metrics_of
from quantviz.evaluation.moments import Moments, joined
from quantviz.pickling import Picklable
from quantviz.quantization.quantizer import ARITHMETIC
from quantviz.schemes.granularity import Shape, flat_index
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import limits
from quantviz.streaming.measuring import measure
from quantviz.streaming.powers import power_sums
from quantviz.streaming.regions import Band, place_of
from quantviz.streaming.tensor_facts import Facts, facts
from quantviz.tensors.lazy import Stored

#: Elements of a band of a tensor that is not held.
_BAND = 2**24
#: Metrics of the tensor alone: added up once for all recipes.
_POWERS = ("x", "x3", "x4")


@dataclass(frozen=True)
class Row(Picklable):
    """What was measured of one content under one scheme."""

    content: str
    #: The scheme's text form.
    scheme: str
    #: "ok", "refused" or "problem".
    status: str
    reason: QuantVizError | None = None
    #: Numbers by name: every metric, and those of `NUMBERS`.
    numbers: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    #: Where the first error of largest size is.
    max_error_at: Shape | None = None
    #: The reference's version that this follows.
    arithmetic: int = ARITHMETIC


#: Numbers of a row besides metrics: the largest magnitude over the root mean square, counts of what is not
#: finite, and of the elements that were measured.
NUMBERS = ("peak_rms", "nan", "inf", "cells")


@dataclass(frozen=True)
class Task(Picklable):
    """Some tensors to be measured, each under its schemes: pure, and the same wherever it runs."""

    #: Where the tensors are in the checkpoint.
    positions: tuple[int, ...]
    entries: tuple[Entry, ...]
    schemes: tuple[tuple[Scheme, ...], ...]


@dataclass(frozen=True)
class Measures(Picklable):
    """What came of one tensor of a task."""

    entry: Entry
    content: str
    rows: tuple[Row, ...]
    #: Why it could not be read.
    problem: QuantVizError | None = None


def measure_task(task: Task, *, threads: int | None = None) -> tuple[Measures, ...]:
    """Return what is measured of a task's tensors, in their order.

    It opens the files by itself and keeps nothing, so that a task can run anywhere its files are.
    """
    done: list[Measures] = []
    with Files() as files:
        files.expect(task.entries)
        for entry, schemes in zip(task.entries, task.schemes, strict=True):
            held = read_tensor(entry, files, Buffer.of([entry]))
            rows = tuple(measure_held(held, schemes, threads=threads)) if held.values else ()
            done.append(Measures(entry, held.content, rows, held.problem))
    return tuple(done)


def measure_held(held: Held, schemes: Collection[Scheme], *, threads: int | None = None) -> Iterator[Row]:
    """Yield the row of each scheme on a tensor that was read."""
    if not schemes:
        return
    assert held.values is not None
    x = held.values
    known = held.known or facts(x)
    powers = held.powers
    if powers is None and known.found is None:
        powers = power_sums(x, threads=threads)
    for scheme in schemes:
        yield _row(held, x, scheme, known, powers, threads)


def _row(
    held: Held, x: Stored, scheme: Scheme, known: Facts, powers: Moments | None, threads: int | None
) -> Row:
    try:
        if known.nonfinite == x.count:
            raise QuantVizError("input_nothing_finite", count=x.count)
        # NaN and Inf are counted, and all else measured.
        asked = scheme.replace(nonfinite="ignore") if known.found and scheme.nonfinite == "refuse" else scheme
        numbers, at = _numbers(x, asked, known, powers, threads)
        # In the tensor's own axes.
        place = place_of(flat_index(at, x.shape), held.entry.shape)
    except QuantVizError as problem:
        return Row(held.content, str(scheme), "problem", problem.again())
    return Row(held.content, str(scheme), "ok", None, MappingProxyType(numbers), place)


def _numbers(
    x: Stored, scheme: Scheme, known: Facts, powers: Moments | None, threads: int | None
) -> tuple[dict[str, float], Shape]:
    # The same path whatever is compiled yet, so that a row has the same bits in every run.
    path = "fused" if x.count > limits.FUSED else "reference"
    apart = path == "fused" and powers is not None
    names = [name for name in METRICS if not apart or METRICS[name].reads.isdisjoint(_POWERS)]
    parts = [
        measure(part, scheme, path=path, metrics=names, threads=threads, known=known)
        for part in bands_of(x, scheme)
    ]
    moments, cells = joined(part.moments for part in parts), sum(part.counted for part in parts)
    if apart and powers is not None:
        moments = dataclasses.replace(moments, x=powers.x, x3=powers.x3, x4=powers.x4)
    numbers = metrics_of(moments, bits_per_element(scheme, x.shape), METRICS)
    assert moments.x2 is not None
    rms = math.sqrt(float(moments.x2) / cells) if cells else math.nan
    nonfinite = known.found
    numbers |= {
        "peak_rms": known.absmax / rms if rms else math.nan,
        "nan": nonfinite.nan if nonfinite else 0,
        "inf": nonfinite.inf + nonfinite.minus_inf if nonfinite else 0,
        "cells": cells,
    }
    largest = max(range(len(parts)), key=lambda k: (parts[k].metrics["max_abs_error"], -k))
    before = sum(math.prod(part.shape) for part in parts[:largest])
    at = flat_index(parts[largest].largest_error, parts[largest].shape)
    return numbers, place_of(before + at, x.shape)


def bands_of(x: Stored, scheme: Scheme) -> Iterator[Stored]:
    """Yield a tensor in bands of whole rows of blocks, where it is too large for what is known of all blocks
    to be held; else, or where its blocks go through all rows, the tensor itself.
    """
    if x.count <= MOST_HELD:
        yield x
        return
    layout = scheme.layout(x.shape)
    rows, step = layout.view_shape[0], layout.block_shape[0]
    of_row = math.prod(layout.view_shape[1:])
    if layout.grid_shape[0] > 1 and len(layout.view_shape) == 1 and scheme.search is not None:
        step *= scheme.search.run
    whole = layout.grid_shape[0] == 1 or scheme.calibration.together
    size = rows if whole else max(_BAND // of_row // step, 1) * step
    for first in range(0, rows, size):
        last = min(first + size, rows)
        yield Band(x, first * of_row, x.shape if whole else (last - first, *layout.view_shape[1:]))
