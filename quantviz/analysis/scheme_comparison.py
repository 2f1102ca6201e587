"""Several schemes on one tensor: the smaller error in each place, and by how much."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.analysis.study import KeptHere, Study
from quantviz.errors import QuantVizError
from quantviz.evaluation.with_pandas import data_frame
from quantviz.public_calls import checked_fields, public
from quantviz.schemes.granularity import BlockLayout, Flat, Granularity, Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.coding import Coder
from quantviz.streaming.frames import Patch, PixelFrame
from quantviz.streaming.measuring import Measured, measure
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.tensor_facts import facts
from quantviz.streaming.threads import InOrder, runs_between, shared_out
from quantviz.tensors.blocks import block_sums, viewed
from quantviz.tensors.lazy import Stored, as_stored

if TYPE_CHECKING:
    import pandas

Array = npt.NDArray[Any]

MOST_SCHEMES = 8
#: Up to so many cells each has its winner by default; beyond, pixels have, down and across.
MOST_CELLS = 2**16
USUAL_PIXELS = (256, 256)
MOST_PARTS = 2**22
#: In place of a scheme's number: equally good ones; or nothing there.
TIE = -1
NOTHING = -2
#: For all schemes at a time.
_CELLS_PER_CHUNK = 2**18


@checked_fields
@dataclass(frozen=True, eq=False)
class SchemeComparison:
    """The schemes of the smallest error, cell by cell and part by part. The first is A, the second B."""

    schemes: tuple[Scheme, ...]
    shape: Shape
    #: Of the whole tensor under each.
    measured: tuple[Measured, ...]
    #: The granularity of `winner`; None for pixels.
    parts: Granularity | None
    #: The scheme of least error in each part, by its place in `schemes`, `TIE` or `NOTHING`: int8, of the
    #: tensor's shape where parts are cells, of their grid's else, (h, w) of pixels.
    winner: Array
    #: Over the next: the difference of root mean square errors, of one cell |error|; 0 at a tie, nan where
    #: nothing is. float64 of the same shape.
    lead: Array
    #: A's error less the least of the others': above 0 where A is beaten. Of two schemes |e_A| − |e_B|.
    against_a: Array
    #: The share of the cells that each scheme wins alone; the rest are ties.
    cell_shares: tuple[float, ...]
    #: Where rows and columns of pixels begin, and the end.
    row_edges: Array | None
    col_edges: Array | None

    @property
    def cell_ties(self) -> float:
        """Return the share of the cells in which two or more are equally good."""
        return max(1.0 - sum(self.cell_shares), 0.0)

    @property
    def part_shares(self) -> tuple[float, ...]:
        """Return the share of the parts that each scheme wins alone."""
        held = int((self.winner != NOTHING).sum())
        return tuple(float((self.winner == k).sum()) / max(held, 1) for k in range(len(self.schemes)))

    @property
    def part_ties(self) -> float:
        """Return the share of the parts in which two or more are equally good."""
        return float((self.winner == TIE).sum()) / max(int((self.winner != NOTHING).sum()), 1)

    def table(self) -> pandas.DataFrame:
        """Return the metrics, a scheme a row: each metric, and beside it how much more it is than A's,
        `<metric>_minus_a`.

        Raises:
            QuantVizError: pandas is not installed.
        """
        columns: dict[str, list[Any]] = {"scheme": [str(scheme) for scheme in self.schemes]}
        for name, of_a in self.measured[0].metrics.items():
            values = [measured.metrics[name] for measured in self.measured]
            columns[name] = values
            # Two without any error differ by nothing.
            columns[f"{name}_minus_a"] = [0.0 if value == of_a else value - of_a for value in values]
        shares = {"cell_share": list(self.cell_shares), "part_share": list(self.part_shares)}
        return data_frame(columns | shares)


@public
def compare_schemes(
    x: Any,
    schemes: Iterable[Scheme | str],
    *,
    parts: Granularity | None = None,
    pixels: tuple[int, int] | None = None,
    metrics: Iterable[str] | None = None,
) -> SchemeComparison:
    """Return the scheme of smallest error, of two to eight, in each part of `x`, and the errors of each.

    A large tensor is streamed; nothing as large as it is allocated.

    Args:
        x: An input of `quantize`, or a `Stored`.
        schemes: Schemes, recipes or text forms; those of different engines are compared alike.
        parts: The unit that has a winner: `Flat(1)` each cell, `PerChannel(0)` each row, `PerGroup(32)` each
            group. By default, without `pixels`, cells of a small tensor, `USUAL_PIXELS` of a large one.
        pixels: In place of parts, tiles: so many down and across at most, of the rows and columns of the
            last axis; axes before it are one after the other.
        metrics: Ids of `METRICS`, as in `measure`.

    Raises:
        QuantVizError: As `quantize` does for each scheme, and for a number of schemes or parts that cannot be
            compared.

    >>> x = [[0.1, 0.25, -0.3, 8.0], [0.2, -0.1, 0.4, 0.3]]
    >>> found = compare_schemes(x, ["int4_per_tensor", "int4_per_row"])
    >>> found.winner.tolist(), found.cell_shares
    ([[-1, -1, -1, -1], [1, 1, 1, 1]], (0.0, 0.5))
    >>> from quantviz.schemes.granularity import PerChannel
    >>> compare_schemes(x, ["int4_per_tensor", "int4_per_row"], parts=PerChannel(0)).winner.tolist()
    [[-1], [1]]
    >>> [round(each, 1) for each in found.table()["sqnr_db_minus_a"]]
    [0.0, 4.5]
    """
    chosen = tuple(as_scheme(scheme) for scheme in schemes)
    if not 2 <= len(chosen) <= MOST_SCHEMES:
        raise QuantVizError("scheme_comparison.count", got=len(chosen), most=MOST_SCHEMES)
    if pixels is not None and (len(pixels) != 2 or any(not isinstance(n, int) or n < 1 for n in pixels)):
        raise QuantVizError("scheme_comparison.pixels", got=pixels)
    stored, _ = as_stored(x)
    if parts is None and pixels is None:
        parts, pixels = (Flat(1), None) if stored.count <= MOST_CELLS else (None, USUAL_PIXELS)
    return _comparison(stored, chosen, parts, _ScoredParts.of(stored.shape, parts, pixels), metrics)


def _comparison(
    x: Stored,
    schemes: tuple[Scheme, ...],
    granularity: Granularity | None,
    parts: _ScoredParts,
    metrics: Iterable[str] | None,
) -> SchemeComparison:
    facts_of_x = facts(x)
    kept = KeptHere()
    studies = [Study.of(x, scheme, facts=facts_of_x, keep=kept) for scheme in schemes]
    sums = _compared(studies, parts)
    winner, lead, against = judged(sums.errors())
    return SchemeComparison(
        schemes=schemes,
        shape=x.shape,
        measured=tuple(
            measure(study.x, study.scheme, metrics=metrics, known=study.facts) for study in studies
        ),
        parts=granularity,
        winner=parts.shaped(winner),
        lead=parts.shaped(lead),
        against_a=parts.shaped(against),
        cell_shares=tuple(float(won) / max(sums.cells, 1) for won in sums.wins),
        row_edges=parts.row_edges,
        col_edges=parts.col_edges,
    )


# ---- parts --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _ScoredParts:
    """The parts with a winner each, and the bands of whole rows of a view that add them up."""

    shape: Shape
    layout: BlockLayout
    row_edges: Array | None = None
    col_edges: Array | None = None

    @classmethod
    def of(cls, shape: Shape, parts: Granularity | None, pixels: tuple[int, int] | None) -> _ScoredParts:
        if pixels is None:
            assert parts is not None
            layout = parts.layout(shape, "short")
            if layout.block_count > MOST_PARTS:
                raise QuantVizError("scheme_comparison.parts", parts=layout.block_count, most=MOST_PARTS)
            return cls(shape, layout)
        rows = math.prod(shape[:-1])
        cols = shape[-1]
        frame = PixelFrame.of((rows, cols), Patch(0, 0, rows, cols), pixels, None)
        grid = len(frame.row_edges) - 1, len(frame.col_edges) - 1
        if math.prod(grid) > MOST_PARTS:
            raise QuantVizError("scheme_comparison.parts", parts=math.prod(grid), most=MOST_PARTS)
        layout = BlockLayout((rows, cols), (1, 1), grid, "short")
        return cls(shape, layout, frame.row_edges, frame.col_edges)

    def bands(self) -> Iterator[tuple[int, int]]:
        """Yield rows of the view, from … to before: whole blocks, or parts of one row of them."""
        rows = self.layout.view_shape[0]
        size = self.layout.block_shape[0]
        most = max(_CELLS_PER_CHUNK // self.row_length, 1)
        if self.row_edges is not None or most >= size:
            yield from runs_between(rows, max(most // size, 1) * size)
            return
        for start in range(0, rows, size):
            yield from runs_between(min(start + size, rows), most, start)

    @property
    def row_length(self) -> int:
        return math.prod(self.layout.view_shape[1:])

    def sums(self, values: Array, first: int, last: int) -> tuple[slice, Array]:
        """Return the rows of the grid that a band lies in, and its sums there."""
        view = viewed(torch.from_numpy(values), (last - first, *self.layout.view_shape[1:]))
        if self.row_edges is not None and self.col_edges is not None:
            across = np.add.reduceat(view.numpy(), self.col_edges[:-1], axis=1)
            rows = np.searchsorted(self.row_edges, np.arange(first, last), side="right") - 1
            begins = np.flatnonzero(np.diff(rows, prepend=-1))
            return slice(int(rows[0]), int(rows[-1]) + 1), np.add.reduceat(across, begins, axis=0)
        size = min(self.layout.block_shape[0], last - first)
        block = (size, *self.layout.block_shape[1:])
        grid = -(-(last - first) // size)
        band = BlockLayout(tuple(view.shape), block, (grid, *self.layout.grid_shape[1:]), "short")
        start = first // self.layout.block_shape[0]
        return slice(start, start + grid), block_sums(view, band).numpy()

    def shaped(self, of_parts: Array) -> Array:
        # As `SchemeComparison.winner`: cells in the tensor's shape.
        single = self.row_edges is None and self.layout.block_size == 1
        return np.asarray(
            viewed(torch.from_numpy(of_parts.copy()), self.shape).numpy() if single else of_parts
        )


# ---- errors -------------------------------------------------------------------------------------


class _BandSums:
    """Noise and counted cells of each part, and wins of each scheme."""

    def __init__(self, schemes: int, parts: _ScoredParts) -> None:
        grid = parts.layout.grid_shape
        self._noise = np.zeros((schemes, *grid))
        self._held = np.zeros(grid)
        self.wins = np.zeros(schemes, np.int64)
        self.cells = 0

    def add(self, band: tuple[slice, Array, Array, Array, int]) -> None:
        rows, noise, held, wins, cells = band
        self._noise[:, rows] += noise
        self._held[rows] += held
        self.wins += wins
        self.cells += cells

    def errors(self) -> Array:
        # Root mean squares, (schemes, *grid); nan where no cell counts.
        held = np.where(self._held > 0, self._held, np.nan)
        return np.asarray(np.sqrt(self._noise / held))


def _compared(studies: Sequence[Study], parts: _ScoredParts) -> _BandSums:
    """Return the errors of all parts, and each scheme's wins, from one pass."""
    whole = _BandSums(len(studies), parts)
    in_order = InOrder(whole.add)
    length = parts.row_length
    errors_of = [_errors_of(study) for study in studies]
    bands_to_do = list(parts.bands())
    largest = max(last - first for first, last in bands_to_do) * length

    def work(bands: Iterator[tuple[int, tuple[int, int]]]) -> None:
        # Allocated once: new memory costs more than the arithmetic in it.
        made_of = Buffers(largest)
        for k, (first, last) in bands:
            start = first * length
            stop = last * length
            room = made_of.part(0, stop - start)
            errors = np.stack([np.abs(errors_between(start, stop, room)) for errors_between in errors_of])
            finite = np.isfinite(np.asarray(studies[0].x.run(start, stop)))
            winner = judged(errors)[0][finite]
            wins = np.array([np.count_nonzero(winner == number) for number in range(len(studies))])
            squares = np.where(finite, np.square(errors.astype(np.float64)), 0.0)
            made = [parts.sums(square, first, last) for square in squares]
            held = parts.sums(finite.astype(np.float64), first, last)[1]
            in_order.put(
                k, (made[0][0], np.stack([part_sums for _, part_sums in made]), held, wins, int(finite.sum()))
            )

    shared_out(work, enumerate(bands_to_do))
    return whole


def _errors_of(study: Study) -> Callable[[int, int, Buffers], Array]:
    if study.result is not None:
        flat = study.result.error.flatten().numpy()
        return lambda start, stop, made: flat[start:stop]
    coder = Coder(study.scheme, study.qparams, study.shape)

    def errors(start: int, stop: int, made: Buffers) -> Array:
        coder.put(study.x.run(start, stop), start, made)
        return made.arrays[2]

    return errors


def judged(errors: Array) -> tuple[Array, Array, Array]:
    """Return the scheme of least error in each place, its lead, and the first's error less the others' least.

    `errors` are (schemes, …), nan where there is nothing.

    >>> winner, lead, against = judged(np.array([[1.0, 2.0, np.nan], [1.0, 0.5, np.nan]]))
    >>> winner.tolist(), lead[:2].tolist(), against[:2].tolist()
    ([-1, 1, -2], [0.0, 1.5], [0.0, 1.5])
    """
    least = errors[0]
    next_least = np.full_like(errors[0], np.inf)
    winner = np.where(np.isnan(least), NOTHING, 0).astype(np.int8)
    for k, scheme_errors in enumerate(errors[1:], 1):
        winner[scheme_errors == least] = TIE
        winner[scheme_errors < least] = k
        next_least = np.minimum(next_least, np.maximum(scheme_errors, least))
        least = np.minimum(least, scheme_errors)
    return winner, next_least - least, errors[0] - errors[1:].min(axis=0)
