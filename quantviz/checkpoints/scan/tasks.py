"""The tasks of a scan, each pure and the same wherever it runs: groups of tensors, and bands of a giant
one.

A tensor that is too large to load is measured in bands. Their bounds follow from its shape and the scheme
alone: its rows have the same bits wherever its bands are measured, and in whatever order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from quantviz.checkpoints.scan.listing import Entry
from quantviz.checkpoints.scan.measuring import (
    ContentMeasurement,
    KnownFacts,
    PartMeasurement,
    measure_loaded,
    measure_part,
    measured_of,
)
from quantviz.checkpoints.scan.reading import (
    Buffer,
    FileCache,
    LoadedTensor,
    RawTensor,
    is_giant,
    read_tensor,
)
from quantviz.errors import QuantVizError
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.regions import RowBand
from quantviz.streaming.threads import runs_between
from quantviz.tensors.blocks import viewed
from quantviz.tensors.lazy import InMemory, Stored

#: Elements of a band, about, and the most that are kept in memory.
BAND = 2**24
_MOST_LOADED_OF_BAND = 2**25


@dataclass(frozen=True)
class ScanTask(Picklable):
    positions: tuple[int, ...]
    entries: tuple[Entry, ...]
    schemes: tuple[tuple[Scheme, ...], ...]


@dataclass(frozen=True)
class Measures(Picklable):
    entry: Entry
    content: str
    rows: tuple[ContentMeasurement, ...]
    problem: QuantVizError | None = None


@dataclass(frozen=True)
class ScanBands(Picklable):
    #: Elements of each band but the last; number of the first, and that after the last.
    size: int
    first: int
    stop: int
    schemes: tuple[Scheme, ...]


@dataclass(frozen=True, eq=False)
class GiantFacts(Picklable):
    known: KnownFacts | None = None
    by_parts: bool = False
    problem: QuantVizError | None = None


@dataclass(frozen=True, eq=False)
class BandMeasurements(Picklable):
    bands: tuple[tuple[PartMeasurement, ...], ...] = ()
    problem: QuantVizError | None = None


def measure_task(task: ScanTask, *, threads: int | None = None) -> tuple[Measures, ...]:
    """Return the measurements of a task's tensors. It opens the files itself and keeps nothing: it runs
    wherever they are.
    """
    done: list[Measures] = []
    with FileCache() as files:
        files.expect(task.entries)
        for entry, schemes in zip(task.entries, task.schemes, strict=True):
            loaded = read_tensor(entry, files, Buffer.of([entry]))
            try:
                rows = tuple(measure_read(loaded, schemes, threads=threads)) if loaded.values else ()
                done.append(Measures(entry, loaded.content, rows, loaded.problem))
            except QuantVizError as problem:
                done.append(Measures(entry, "", (), problem.again()))
    return tuple(done)


def measure_read(
    loaded: LoadedTensor,
    schemes: Collection[Scheme],
    *,
    threads: int | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[ContentMeasurement]:
    """Yield the row of each scheme on a tensor that was read, as one part or, of a giant one, in bands.

    No more rows come once `cancelled` is true, which is looked at after each row and band. `QuantVizError` if
    the file of a giant tensor has changed meanwhile.
    """
    if not is_giant(loaded.entry):
        for row in measure_loaded(loaded, schemes, threads=threads):
            yield row
            if cancelled():
                return
        return
    assert loaded.values is not None
    known = KnownFacts.of(loaded, threads=threads)
    joining = Joining(known)
    for bands in divided(known.seen, schemes, experts=known.experts):
        for number, parts in _parts_of(loaded.values, bands, known, threads):
            loaded.values.check()
            yield from joining.take(bands, number, parts)
            if cancelled():
                return


def survey(entry: Entry, *, threads: int | None = None) -> GiantFacts:
    with FileCache() as files:
        loaded = read_tensor(entry, files, Buffer.of([entry]))
        if loaded.problem is not None:
            return GiantFacts(problem=loaded.problem)
        by_parts = entry.outputs == (0,) and files.catalog(entry).raw(entry.name) is not None
        return GiantFacts(KnownFacts.of(loaded, threads=threads), by_parts)


def measure_bands(
    entry: Entry, bands: ScanBands, known: KnownFacts, *, threads: int | None = None
) -> BandMeasurements:
    try:
        with FileCache() as files:
            x = RawTensor.of(entry, files)
            parts = tuple(parts for _, parts in _parts_of(x, bands, known, threads))
            x.check()
            return BandMeasurements(parts)
    except QuantVizError as problem:
        return BandMeasurements(problem=problem.again())


class Joining:
    def __init__(self, known: KnownFacts) -> None:
        self._known = known
        self._parts: dict[Scheme, dict[int, PartMeasurement]] = {}

    def take(
        self, bands: ScanBands, number: int, parts: Sequence[PartMeasurement]
    ) -> Iterator[ContentMeasurement]:
        count = -(-math.prod(self._known.seen) // bands.size)
        for scheme, part in zip(bands.schemes, parts, strict=True):
            parts_of_scheme = self._parts.setdefault(scheme, {})
            parts_of_scheme[number] = part
            if len(parts_of_scheme) == count:
                yield measured_of(self._known, scheme, [parts_of_scheme[k] for k in range(count)])
                del self._parts[scheme]


def divided(
    shape: Shape, schemes: Collection[Scheme], work: float = math.inf, *, experts: int = 1
) -> tuple[ScanBands, ...]:
    """Return the bands of a tensor of the quantized `shape` under some schemes.

    A tensor whose blocks go through all its rows under a scheme (per tensor, per column), or whose scales are
    searched for all together, is one band under it: it takes two passes, where it lies.

    Args:
        shape: The tensor's shape as it is quantized.
        schemes: The schemes that it is measured under.
        work: Elements, times schemes, of bands that stay together; all that are alike without it.
        experts: The number of experts with an importance of their own: each is a band under a scheme that
            uses that.

    >>> from quantviz import RECIPES
    >>> for each in divided((2**17, 2**10), [RECIPES["int8_per_row"], RECIPES["int4_per_tensor"]]):
    ...     print(each.size, each.first, each.stop)
    16777216 0 8
    134217728 0 1
    """
    count = math.prod(shape)
    alike: dict[int, list[Scheme]] = {}
    for scheme in schemes:
        each_alone = experts > 1 and scheme.weighs_columns
        size = count // experts if each_alone else _size_of_band(shape, scheme)
        alike.setdefault(size, []).append(scheme)
    bands: list[ScanBands] = []
    for size, schemes_alike in alike.items():
        if size >= count:
            bands += (ScanBands(size, 0, 1, (scheme,)) for scheme in schemes_alike)
            continue
        number = -(-count // size)
        together = int(min(max(work / (size * len(schemes_alike)), 1), number))
        bands += (ScanBands(size, *ends, tuple(schemes_alike)) for ends in runs_between(number, together))
    return tuple(bands)


def _size_of_band(shape: Shape, scheme: Scheme) -> int:
    """Return the number of elements in a band, in whole rows of blocks: all where blocks cover all rows."""
    layout = scheme.layout(shape)
    rows = layout.view_shape[0]
    step = layout.block_shape[0]
    of_rows = scheme.search is not None and scheme.search.run == 0
    along_first = layout.block_shape[0] > 1 or len(layout.view_shape) == 1
    if layout.grid_shape[0] == 1 or scheme.calibration.together or (of_rows and along_first):
        return math.prod(shape)
    of_row = math.prod(layout.view_shape[1:])
    if len(layout.view_shape) == 1 and scheme.search is not None:
        step *= scheme.search.run
    return min(max(BAND // of_row // step, 1) * step, rows) * of_row


def _parts_of(
    x: Stored, bands: ScanBands, known: KnownFacts, threads: int | None
) -> Iterator[tuple[int, tuple[PartMeasurement, ...]]]:
    """Yield the number of each band, and a part for each scheme; the band is read once for all of them."""
    count = math.prod(known.seen)
    # One that has room in memory is decoded there; any other is read where it lies for each scheme.
    room = bands.size if not x.in_place and bands.size < min(count, _MOST_LOADED_OF_BAND) else 0
    buffer = np.empty(room, np.float32)
    for number in range(bands.first, bands.stop):
        start = number * bands.size
        values = buffer[: count - start]
        if isinstance(x, RawTensor) and room:
            x.fill(values, start, threads=threads)
        elif room:
            values[:] = x.run(start, start + len(values))
        parts = []
        for scheme in bands.schemes:
            of_rows = scheme.layout(known.seen).view_shape[1:]
            shape = (min(bands.size, count - start) // math.prod(of_rows), *of_rows)
            shape = known.seen if bands.size >= count else shape
            in_memory = InMemory(viewed(torch.from_numpy(values), shape), dtype=x.dtype) if room else None
            band = in_memory or RowBand(x, start, shape)
            parts.append(measure_part(band, start, scheme, known, threads=threads))
        yield number, tuple(parts)
