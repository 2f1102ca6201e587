"""A tensor larger than the screen: what a picture of some pixels shows of it, and the worst of its cells,
rows and blocks.

Everything is read a part at a time: nothing is made that is as large as the tensor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.compiled import background
from quantviz.evaluation.histogram_bins import ERROR_BINS, PARTS, HistogramData, ValueBins, histograms
from quantviz.evaluation.metric_formulas import METRICS, sqnr_db_of_lines
from quantviz.evaluation.moments import Moments, side_by_side
from quantviz.quantization.cells import quantize_cells
from quantviz.quantization.grids import GRIDS
from quantviz.quantization.result import QParams, steps_of_error
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.granularity import BlockLayout, Shape, Window, flat_index
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import pooling_without_numba
from quantviz.streaming.measuring import (
    Buffers,
    Coder,
    Facts,
    InOrder,
    facts,
    fixed_ready,
    place_of,
    shared_out,
)
from quantviz.tensors.lazy import InMemory, Stored, Values
from quantviz.tensors.views import POOLS, View

Array = npt.NDArray[Any]

#: Cells that are worked on at a time: fewer, and two threads wait for each other between the calls.
CHUNK = 1 << 18
#: Cells that are read at once where nothing is made of them, or their errors alone.
_LONG_CHUNK = 1 << 20
#: Cells of which errors are made at a time, then looked at while a core has them at hand.
_ERRORS = 1 << 18
#: Cells that are looked at at once where they lie: the interpreter, which others may use, is waited for less
#: often.
_IN_PLACE = 1 << 22


def _pooling() -> Any:
    """Return the compiled kernels: where nothing large is opened, numba is not waited for."""
    from quantviz.compiled import pooling

    if not fixed_ready():
        background.warmer().wait(background.FIXED)
    return pooling


def _still(values: Array) -> Array:
    """Return the same as kernels take it, read-only: compiled once for what lies in memory and in files."""
    view = values[:]
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class Patch:
    """The part of a matrix that is looked at."""

    #: The first row and column.
    top: int
    left: int
    #: How many of them.
    rows: int
    cols: int


@dataclass(frozen=True, eq=False)
class Overview:
    """What a picture of h × w pixels shows of a patch: a block of cells a pixel.

    With "largest", `x`, `q` and `x_hat` are those of one cell, the first of largest |x|, and `error` is the
    error of largest magnitude, which another cell may have. With "mean" and "rms" each is taken by itself
    over all cells. A cell that is NaN is left out; a pixel is NaN where all its cells are. Inf is larger than
    any number.
    """

    #: float32 (h, w), as `x_hat` and `error`.
    x: Array
    #: With "largest" the codes, else float32: their mean or RMS as numbers, or, where a format's codes are no
    #: numbers, of what they stand for before any scale (what `GRIDS[kind].decode` gives).
    q: Array
    x_hat: Array
    error: Array
    #: With "largest" the place of the cell shown, row-major among the cells of its pixel, uint32 (h, w); else
    #: 0.
    x_at: Array
    #: The same for the error.
    error_at: Array
    #: The rows and columns of the matrix at which pixels begin, and the end: int64 (h + 1,) and (w + 1,).
    row_edges: Array
    col_edges: Array
    how: str


def overview(
    x: Stored,
    scheme: Scheme,
    qparams: QParams,
    patch: Patch,
    pixels: tuple[int, int],
    how: str = "largest",
    view: View | None = None,
    *,
    known: tuple[Array, Array] | None = None,
) -> Overview:
    """Return the four panels of a patch of x in at most `pixels` (height, width): one pixel a cell where
    there are no more cells than that.

    `qparams` are those of the whole tensor, as `choose_qparams` gives them; `view` names the two axes that
    are rows and columns and where the others are held (the last two at 0 where none is given; its corner is
    not heeded). `known` is what `pooled` gives for the same pixels, where it is at hand: it is the same under
    every scheme.

    >>> from quantviz import choose_qparams
    >>> from quantviz.tensors.lazy import InMemory
    >>> x, scheme = torch.tensor([[1.0, -8.0, 2.0, 3.0], [0.4, 4.0, 0.0, 7.0]]), Scheme("int4")
    >>> seen = overview(InMemory(x), scheme, choose_qparams(x, scheme), Patch(0, 0, 2, 4), (1, 2))
    >>> seen.x.tolist(), seen.q.tolist(), seen.x_at.tolist()
    ([[-8.0, 7.0]], [[-7, 6]], [[1, 3]])
    """
    x_values, x_at = known or pooled(x, patch, pixels, how, view)
    frame, largest = _Frame.of(x.shape, patch, pixels, view), how == "largest"
    coder = Coder(scheme, qparams, x.shape)
    if largest:
        errors, error_at = _largest_errors(x, frame, coder)
        chosen = quantize_cells(torch.tensor(x_values), scheme, qparams, x.shape, frame.places_in(x_at))
        q, x_hat = chosen.q.numpy(), chosen.x_hat.numpy()
    else:
        q, x_hat, (errors, error_at) = _averages(x, frame, coder, scheme.number_format, how)
    return Overview(x_values, q, x_hat, errors, x_at, error_at, frame.row_edges, frame.col_edges, how)


def _largest_errors(x: Stored, frame: _Frame, coder: Coder) -> tuple[Array, Array]:
    """Return the error of largest magnitude of each pixel, and its place in it."""
    pool = _Largest(frame)
    compiled = coder.is_compiled and frame.strides[-1] == 1
    at_once = CHUNK if not compiled else _IN_PLACE if x.in_place else _LONG_CHUNK

    def add(parts: Iterator[list[_Part]]) -> None:
        buffers = Buffers(max(at_once, _ERRORS))
        for part in itertools.chain.from_iterable(parts):
            values = frame.read(x, part)
            if compiled:
                pool.add_errors(values, part, coder, buffers)
                continue
            made = buffers.part(0, len(values))
            frame.put(values, part, coder, made)
            pool.add(made.arrays[2], part)

    shared_out(add, frame.parts(at_once))
    return pool.result()


def _averages(
    x: Stored, frame: _Frame, coder: Coder, fmt: NumberFormat, how: str
) -> tuple[Array, Array, tuple[Array, Array]]:
    """Return codes, values and errors of each pixel's cells as one number."""
    of_codes, of_values, of_errors = (_pool(frame, how) for _ in range(3))

    def add(parts: Iterator[list[_Part]]) -> None:
        buffers = Buffers(CHUNK)
        for part in itertools.chain.from_iterable(parts):
            values = frame.read(x, part)
            made = buffers.part(0, len(values))
            frame.put(values, part, coder, made)
            q, x_hat, error, _, _ = made.arrays
            of_errors.add(error, part)
            of_values.add(x_hat, part)
            of_codes.add(GRIDS[fmt.kind].decode(torch.from_numpy(q), fmt).numpy(), part)

    shared_out(add, frame.parts(CHUNK))
    return of_codes.result()[0], of_values.result()[0], of_errors.result()


@dataclass(frozen=True)
class Spread:
    """How far the magnitudes of a tensor spread: NaN and Inf have none."""

    #: The median of those that are not 0; 0 where all are.
    middle: float
    #: The 99th percentile of all.
    far: float


#: Bits of a float32 by which magnitudes are sorted: 11 after its exponent, so that a percentile is told to
#: three digits.
_SORTED_BITS = 19
#: Elements that are sorted at once.
_SORTED = 2**20


def spread(x: Stored) -> Spread:
    """Return how far the magnitudes of `x` spread, from one pass over it; each to a part in 4000.

    >>> from quantviz.tensors.lazy import InMemory
    >>> found = spread(InMemory(torch.cat([torch.full((98,), 0.5), torch.zeros(2), torch.tensor([1000.0])])))
    >>> round(found.middle, 3), round(found.far, 3)
    (0.5, 0.5)
    """
    unsorted = 31 - _SORTED_BITS
    counts = np.zeros(1 << _SORTED_BITS, dtype=np.int64)
    zeros = 0
    for start in range(0, x.count, _SORTED):
        values = np.ascontiguousarray(x.run(start, min(start + _SORTED, x.count)))
        bits = values.view(np.uint32) & np.uint32(0x7FFFFFFF)
        finite = bits[bits < 0x7F800000]
        zeros += int(np.count_nonzero(finite == 0))
        counts += np.bincount(finite >> np.uint32(unsorted), minlength=len(counts))
    # Rather 0 itself than the least of the tiny numbers beside it.
    counts[0] -= zeros

    def value(share: float, before: int) -> float:
        wanted = share * (int(counts.sum()) + before) - before
        if wanted <= 0:
            return 0.0
        place = int(np.searchsorted(np.cumsum(counts), wanted))
        # The middle of its numbers.
        return float(np.uint32((place << unsorted) + (1 << (unsorted - 1))).view(np.float32))

    return Spread(value(0.5, 0), value(0.99, zeros))


def pooled(
    x: Stored, patch: Patch, pixels: tuple[int, int], how: str = "largest", view: View | None = None
) -> tuple[Array, Array]:
    """What `overview` shows of x itself: `Overview.x` and `Overview.x_at`."""
    frame = _Frame.of(x.shape, patch, pixels, view)
    pool = _pool(frame, how)

    def add(parts: Iterator[list[_Part]]) -> None:
        for part in itertools.chain.from_iterable(parts):
            pool.add(frame.read(x, part), part)

    shared_out(add, frame.parts(_IN_PLACE if x.in_place else _LONG_CHUNK))
    return pool.result()


def overview_of(x: torch.Tensor, q: torch.Tensor, x_hat: torch.Tensor, pixels: tuple[int, int]) -> Overview:
    """What a picture of at most `pixels` shows of matrices that are there already, whoever made them:
    "largest" of all their cells.

    `x` and `x_hat` are float32.

    >>> x = torch.tensor([[1.0, -8.0, 2.0, 3.0], [0.4, 4.0, 0.0, 7.0]])
    >>> overview_of(x, x.to(torch.int8), x.round(), (1, 2)).q.tolist()
    [[-8, 7]]
    """
    rows, cols = x.shape
    patch, error = Patch(0, 0, rows, cols), torch.where(torch.isfinite(x), x_hat - x, math.nan)
    (values, x_at), (errors, error_at) = (pooled(InMemory(each), patch, pixels) for each in (x, error))
    frame = _Frame.of((rows, cols), patch, pixels, None)
    places = frame.places_in(x_at)
    codes, dequantized = (each.flatten()[places].numpy() for each in (q, x_hat))
    return Overview(
        values, codes, dequantized, errors, x_at, error_at, frame.row_edges, frame.col_edges, "largest"
    )


# ---- where cells lie ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Cells that are read at once: some lines of a frame, of each the same stretch; absolute, from … to
    before.
    """

    lines: tuple[int, int]
    cells: tuple[int, int]


@dataclass(frozen=True, eq=False)
class _Frame:
    """How the pixels of a patch lie in a tensor.

    Looked at in the order of memory: lines of cells that are neighbours, which are rows, or columns where the
    last axis is shown downwards. Only where the last axis is not shown at all are neighbours apart.
    """

    shape: Shape
    #: The axis from one line to the next (none for a tensor of one axis), and along a line.
    line_axis: int | None
    cell_axis: int
    at: Shape
    #: Whether lines are columns.
    turned: bool
    #: Where each pixel begins along the axes, and the end; absolute.
    line_edges: Array
    cell_edges: Array

    @classmethod
    def of(cls, shape: Shape, patch: Patch, pixels: tuple[int, int], view: View | None) -> _Frame:
        view = view or View.of(shape)
        rows = _edges(patch.top, patch.rows, pixels[0])
        cols = _edges(patch.left, patch.cols, pixels[1])
        turned = view.rows == len(shape) - 1
        if turned:
            return cls(shape, view.cols, len(shape) - 1, view.at, True, cols, rows)
        return cls(shape, view.rows, view.cols, view.at, False, rows, cols)

    @property
    def row_edges(self) -> Array:
        return self.cell_edges if self.turned else self.line_edges

    @property
    def col_edges(self) -> Array:
        return self.line_edges if self.turned else self.cell_edges

    @property
    def strides(self) -> tuple[int, int, int]:
        """Return the place of line 0, cell 0 in the flat tensor, and the way to the next line and to the next
        cell.
        """
        steps = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        shown = (self.line_axis, self.cell_axis)
        base = sum(
            i * step for axis, (i, step) in enumerate(zip(self.at, steps, strict=True)) if axis not in shown
        )
        return base, 0 if self.line_axis is None else steps[self.line_axis], steps[self.cell_axis]

    def parts(self, most: int) -> Iterator[list[_Part]]:
        """All cells in parts of about `most`: whole pixels, or the pieces of a larger one, which belong
        together.
        """
        tallest, widest = int(np.diff(self.line_edges).max()), int(np.diff(self.cell_edges).max())
        width = int(self.cell_edges[-1] - self.cell_edges[0])
        # Whole lines where they are not too long: their neighbours follow in memory.
        across = len(self.cell_edges) - 1 if width <= most else max(1, most // (tallest * widest))
        down = max(1, most // (tallest * width))
        for top, bottom in _stretches(self.line_edges, down):
            for left, right in _stretches(self.cell_edges, across):
                yield list(self._pieces(top, bottom, left, right, most))

    def _pieces(self, top: int, bottom: int, left: int, right: int, most: int) -> Iterator[_Part]:
        """A part, or where a pixel is larger than `most`, that in pieces."""
        width = min(right - left, most)
        height = max(1, most // width)
        for line, cell in itertools.product(range(top, bottom, height), range(left, right, width)):
            yield _Part((line, min(line + height, bottom)), (cell, min(cell + width, right)))

    def read(self, x: Stored, part: _Part) -> Values:
        """Return its cells, line after line, one axis."""
        base, line_stride, cell_stride = self.strides
        (top, bottom), (left, right) = part.lines, part.cells
        width = right - left
        if cell_stride == 1:
            start = base + top * line_stride + left
            if bottom - top == 1 or line_stride == width:
                return x.run(start, start + (bottom - top) * width)
            values = np.empty((bottom - top) * width, dtype=np.float32)
            for i in range(bottom - top):
                values[i * width : (i + 1) * width] = x.run(
                    start + i * line_stride, start + i * line_stride + width
                )
            return values
        index: list[int | slice] = list(self.at)
        assert self.line_axis is not None
        index[self.line_axis], index[self.cell_axis] = slice(top, bottom), slice(left, right)
        window: Window = tuple(index)
        read = x.read(window)
        return np.ascontiguousarray((read if self.line_axis < self.cell_axis else read.T).numpy()).ravel()

    def put(self, values: Values, part: _Part, coder: Coder, made: Buffers) -> None:
        """What the cells of a part, `values`, become."""
        base, line_stride, cell_stride = self.strides
        (top, bottom), (left, right) = part.lines, part.cells
        width = right - left
        if cell_stride != 1:
            lines, cells = torch.arange(top, bottom) * line_stride, torch.arange(left, right) * cell_stride
            coder.put_at(values, base + (lines[:, None] + cells).flatten(), made)
            return
        start = base + left
        if line_stride == width:
            coder.put(values, start + top * line_stride, made)
            return
        for i, line in enumerate(range(top, bottom)):
            here = i * width, (i + 1) * width
            coder.put(values[slice(*here)], start + line * line_stride, made.part(*here))

    def places_in(self, at: Array) -> torch.Tensor:
        """Return the place in the flat tensor of the cell `at` of each pixel, int64 (h, w)."""
        heights, widths = np.diff(self.row_edges)[:, None], np.diff(self.col_edges)[None, :]
        rows = self.row_edges[:-1, None] + at // widths
        cols = self.col_edges[None, :-1] + at % widths
        assert (rows < self.row_edges[:-1, None] + heights).all()
        base, line_stride, cell_stride = self.strides
        lines, cells = (cols, rows) if self.turned else (rows, cols)
        return torch.from_numpy(base + lines * line_stride + cells * cell_stride)


def _edges(first: int, count: int, pixels: int) -> Array:
    """Return where each pixel begins, and the end: int64, absolute."""
    pixels = min(pixels, count)
    return first + np.arange(pixels + 1, dtype=np.int64) * count // pixels


def _stretches(edges: Array, pixels: int) -> Iterator[tuple[int, int]]:
    """From … to, `pixels` pixels at a time."""
    last = len(edges) - 1
    for i in range(0, last, pixels):
        yield int(edges[i]), int(edges[min(i + pixels, last)])


# ---- pools --------------------------------------------------------------------------------------


class _Largest:
    """The cell of largest magnitude of each pixel, the first in row-major order."""

    def __init__(self, frame: _Frame) -> None:
        size = (len(frame.line_edges) - 1, len(frame.cell_edges) - 1)
        self._frame = frame
        self._values = np.full(size, math.nan, dtype=np.float32)
        # As small as may be: new memory costs more than what is done with it.
        of_pixel = int(np.diff(frame.line_edges).max()) * int(np.diff(frame.cell_edges).max())
        self._at = np.full(size, -1, dtype=np.int32 if of_pixel < 2**31 else np.int64)

    def add(self, values: Array, part: _Part) -> None:
        frame, kernels = self._frame, _pooling() if fixed_ready() else pooling_without_numba
        kernels.add_largest(
            _still(values.view(np.int32)),
            part.lines,
            part.cells,
            frame.line_edges,
            frame.cell_edges,
            frame.turned,
            self._values.view(np.int32),
            self._at,
        )

    def add_errors(self, values: Values, part: _Part, coder: Coder, buffers: Buffers) -> None:
        """Add the errors of a part whose cells, `values`, are neighbours in memory: each is made, looked at
        and forgotten.
        """
        frame, (base, stride, _), (top, bottom), (left, right) = (
            self._frame,
            self._frame.strides,
            part.lines,
            part.cells,
        )
        start = base + top * stride + left
        address, place, of_blocks = coder.errors(start, start + (bottom - top - 1) * stride + right - left)
        bits = _still(buffers.arrays[2].view(np.int32))
        _pooling().add_largest_errors(
            address, _still(values), start, stride, place, of_blocks, buffers.arrays, bits, _ERRORS,
            *(part.lines, part.cells, frame.line_edges, frame.cell_edges, frame.turned, self._values.view(np.int32), self._at),
        )  # fmt: skip

    def result(self) -> tuple[Array, Array]:
        np.maximum(self._at, 0, out=self._at)
        at = self._at.view(np.uint32) if self._at.dtype == np.int32 else self._at.astype(np.uint32)
        return (self._values.T.copy(), at.T.copy()) if self._frame.turned else (self._values, at)


class _Sums:
    """The mean of each pixel's cells, or their root mean square; added up in float64."""

    def __init__(self, frame: _Frame, squared: bool) -> None:
        size = (len(frame.line_edges) - 1, len(frame.cell_edges) - 1)
        self._frame, self._squared = frame, squared
        self._sums, self._counts = np.zeros(size), np.zeros(size)

    def add(self, values: Array, part: _Part) -> None:
        frame = self._frame
        _pooling().add_sums(
            _still(values),
            part.lines,
            part.cells,
            frame.line_edges,
            frame.cell_edges,
            self._squared,
            self._sums,
            self._counts,
        )

    def result(self) -> tuple[Array, Array]:
        means = np.divide(
            self._sums, self._counts, out=np.full_like(self._sums, math.nan), where=self._counts > 0
        )
        values = (np.sqrt(means) if self._squared else means).astype(np.float32)
        values = values.T.copy() if self._frame.turned else values
        return values, np.zeros(values.shape, dtype=np.uint32)


def _pool(frame: _Frame, how: str) -> _Largest | _Sums:
    assert how in POOLS
    return _Largest(frame) if how == "largest" else _Sums(frame, squared=how == "rms")


# ---- surveys ------------------------------------------------------------------------------------

#: Lines of an axis, and blocks, up to which the sums of each are kept.
MOST_KEPT = 2**20
#: How many cells a piece has at least for each sum that is kept of it.
_CELLS_A_SUM = 8


def worst(lines: Moments, n: int) -> Array:
    """Return the places of the `n` lines or blocks of largest Σe², the worst first, of equal ones the first;
    NaN last.
    """
    noise = _array(lines.e2)
    if n < len(noise):
        least = np.partition(noise, len(noise) - n)[len(noise) - n]
        among = np.flatnonzero(~(noise < least))
    else:
        among = np.arange(len(noise))
    return among[np.argsort(-noise[among], kind="stable")][:n]


def _array(values: torch.Tensor | None) -> Array:
    assert values is not None
    return values.numpy()


@dataclass(frozen=True)
class WorstCell:
    """A cell with one of the largest errors."""

    index: Shape
    x: float
    #: Its code.
    q: int
    x_hat: float
    error: float
    #: The error in the cell's own steps.
    steps: float


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over a whole tensor finds under a scheme."""

    shape: Shape
    layout: BlockLayout
    qparams: QParams
    histograms: HistogramData
    #: The cells of largest |error|, the largest first, of equal ones the first in row-major order; none
    #: without error.
    cells: tuple[WorstCell, ...]
    #: Of each index of each axis, over all others: Σx², Σe², the largest |e| and how many cells count; none
    #: for an axis longer than `MOST_KEPT`.
    axes: tuple[Moments | None, ...]
    #: The same of the worst blocks.
    blocks: Moments
    #: The number of each of them, row-major in the grid: int64, ascending.
    block_numbers: Array
    #: Σerror² of the whole tensor.
    noise: float


def survey(x: Stored, scheme: Scheme, qparams: QParams, n: int = 20, *, known: Facts | None = None) -> Survey:
    """Return histograms, the `n` worst cells and blocks, and the sums of each line, from one pass over x.

    `qparams` are those of the whole tensor, as `choose_qparams` gives them. `known` are the
    `facts` of x, where they are at hand: one more pass finds them else.

    >>> from quantviz import choose_qparams
    >>> from quantviz.tensors.lazy import InMemory
    >>> x, scheme = torch.tensor([[1.0, -8.0, 2.0, 3.0], [0.5, 4.0, 0.0, 7.0]]), Scheme("int4")
    >>> found = survey(InMemory(x), scheme, choose_qparams(x, scheme), n=2)
    >>> [(cell.index, cell.q) for cell in found.cells]
    [((1, 1), 3), ((1, 0), 0)]
    >>> [len(lines.e2) for lines in found.axes], found.histograms.cells
    ([2, 4], 8)
    """
    known = known or facts(x)
    bins = ValueBins.of(scheme, qparams, x.count - known.nonfinite, known.lo, known.hi)
    coder, plan = Coder(scheme, qparams, x.shape), _Plan(x.shape, scheme, qparams, n, bins)
    whole = _Tally(plan, 0, x.count)
    in_order = InOrder(whole.join)

    def add(pieces: Iterator[tuple[int, tuple[int, int]]]) -> None:
        buffers = Buffers(CHUNK)
        for k, (start, stop) in pieces:
            own = _Tally(plan, start, stop)
            own.add(x, coder, buffers)
            in_order.put(k, own)

    shared_out(add, enumerate(plan.pieces()))
    return whole.survey(x)


def worst_cells(found: Survey) -> dict[str, list[Any]]:
    """Return the worst cells as columns of a table: `index`, `x`, `x_hat`, `error`, and the error in
    `steps`.
    """
    return {
        name: [getattr(cell, name) for cell in found.cells]
        for name in ("index", "x", "x_hat", "error", "steps")
    }


def worst_lines(found: Survey, axis: int, n: int = 20) -> dict[str, list[Any]]:
    """Return the worst lines along an axis, say rows, as columns of a table: `index`, `sqnr_db`, `rmse`,
    `largest_error` and `noise_share`.

    Ranked by noise, Σerror²: mending the first helps the whole tensor most. By SQNR a line of next to
    nothing, which no output would miss, would come first; it stands beside it. `noise_share` is the part of
    the tensor's noise. Empty for an axis longer than `MOST_KEPT`.
    """
    lines = found.axes[axis]
    places = np.zeros(0, dtype=np.int64) if lines is None else worst(lines, n)
    return {
        "index": places.tolist(),
        **({} if lines is None else _columns(lines.at(torch.from_numpy(places)), found.noise)),
    }


def worst_blocks(found: Survey, n: int = 20) -> dict[str, list[Any]]:
    """Return the worst blocks as columns of a table: `block`, the place in the grid, `index`, that of its
    first cell, its `scale`, and as for lines.

    Ranked as in `worst_lines`.
    """
    places = worst(found.blocks, n)
    numbers = found.block_numbers[places]
    layout = found.layout
    blocks = [place_of(int(number), layout.grid_shape) for number in numbers]
    corners = [tuple(i * size for i, size in zip(block, layout.block_shape, strict=True)) for block in blocks]
    return {
        "block": blocks,
        "index": [place_of(flat_index(corner, layout.view_shape), found.shape) for corner in corners],
        "scale": [float(found.qparams.scale[block]) for block in blocks],
        **_columns(found.blocks.at(torch.from_numpy(places)), found.noise),
    }


def _columns(lines: Moments, noise: float) -> dict[str, list[Any]]:
    e2 = _array(lines.e2)
    share = e2 / noise if noise else np.zeros_like(e2)
    found = {
        "sqnr_db": sqnr_db_of_lines(lines),
        "rmse": METRICS["rmse"].of(lines),
        "largest_error": METRICS["max_abs_error"].of(lines),
    }
    return {**{name: values.tolist() for name, values in found.items()}, "noise_share": share.tolist()}


@dataclass(frozen=True, eq=False)
class _Plan:
    """What a survey counts and adds up, and of which pieces: it follows from the tensor and the scheme
    alone.
    """

    shape: Shape
    scheme: Scheme
    qparams: QParams
    #: How many of the worst cells and blocks are kept.
    n: int
    bins: ValueBins

    @cached_property
    def layout(self) -> BlockLayout:
        """Return the scheme's blocks."""
        return self.scheme.layout(self.shape)

    @cached_property
    def lines(self) -> tuple[BlockLayout | None, ...]:
        """Return the lines along each axis, as blocks; none where they are too many to be kept."""
        return tuple(
            _of_axis(self.shape, axis) if n <= MOST_KEPT else None for axis, n in enumerate(self.shape)
        )

    @cached_property
    def all_kept(self) -> bool:
        """Whether the sums of all blocks are kept, and not those of the worst of each piece."""
        return self.layout.block_count <= MOST_KEPT or self.layout.grid_shape[0] == 1

    def pieces(self) -> Iterator[tuple[int, int]]:
        """From … to of pieces of about `_LONG_CHUNK`, or many times as many cells as have sums of their own
        each, so that joining takes no time; where not all blocks are kept, of whole rows of blocks.
        """
        kept = [*filter(None, self.lines), *([self.layout] if self.all_kept else [])]
        most, count = (
            max(_LONG_CHUNK, _CELLS_A_SUM * sum(math.prod(each.grid_shape[1:]) for each in kept)),
            math.prod(self.shape),
        )
        row = 1 if self.all_kept else _row_of_blocks(self.layout)
        size = max(1, most // row) * row
        return ((start, min(start + size, count)) for start in range(0, count, size))


class _Tally:
    """Everything that a survey counts and adds up of the cells from `start` to before `stop`."""

    def __init__(self, plan: _Plan, start: int, stop: int) -> None:
        self._plan, self._start, self._stop = plan, start, stop
        self._value_counts = np.zeros((len(PARTS), len(plan.bins.edges) - 1), dtype=np.int64)
        self._error_counts = np.zeros((len(PARTS), ERROR_BINS + 2), dtype=np.int64)
        self._worst: list[tuple[float, int]] = []
        self._axes = [_Adder(lines, start, stop) if lines else None for lines in plan.lines]
        # Channels are blocks and lines at once.
        twins = (
            adder
            for adder, lines in zip(self._axes, plan.lines, strict=True)
            if adder and lines and _same_blocks(lines, plan.layout)
        )
        self._blocks = next(twins, None) or (_Adder(plan.layout, start, stop) if plan.all_kept else None)
        self._worst_blocks: list[tuple[Array, Moments]] = []
        self._noise = 0.0

    def add(self, x: Stored, coder: Coder, buffers: Buffers) -> None:
        """Add its cells."""
        plan, blocks = self._plan, self._blocks or _Adder(self._plan.layout, self._start, self._stop)
        largest = _WorstOfRun(plan.n)
        for begin in range(self._start, self._stop, CHUNK):
            values = x.run(begin, min(begin + CHUNK, self._stop))
            made = buffers.part(0, len(values))
            coder.put(values, begin, made)
            _, x_hat, error, clipped, steps = made.arrays
            counted: tuple[Array, ...] = values, x_hat, clipped, steps
            finite = np.isfinite(values)
            if not finite.all():
                counted = tuple(each[finite] for each in counted)
                values, error = (
                    np.where(finite, values, np.float32(0)),
                    np.where(finite, error, np.float32(0)),
                )
            _pooling().add_to_bins(
                _still(counted[0]),
                *counted[1:],
                plan.bins.edges,
                plan.bins.cuts,
                self._value_counts,
                self._error_counts,
            )
            for adder in {id(adder): adder for adder in (*self._axes, blocks) if adder}.values():
                adder.add(values, error, None if finite.all() else ~finite, begin)
            largest.add(error, begin)
        self._worst += largest.found()
        if self._blocks is None:
            found = blocks.moments
            places = np.sort(worst(found, plan.n))
            self._worst_blocks.append((blocks.first + places, found.at(torch.from_numpy(places))))
            self._noise += float(_array(found.e2).sum())

    def join(self, other: _Tally) -> None:
        """Add what another counted of some of its cells."""
        self._value_counts += other._value_counts
        self._error_counts += other._error_counts
        self._worst += other._worst
        self._worst_blocks += other._worst_blocks
        self._noise += other._noise
        pairs = zip((*self._axes, self._blocks), (*other._axes, other._blocks), strict=True)
        for own, more in {id(own): (own, more) for own, more in pairs if own and more}.values():
            own.join(more)

    def survey(self, x: Stored) -> Survey:
        """What was found."""
        plan = self._plan
        if self._blocks:
            blocks, numbers = self._blocks.moments, np.arange(plan.layout.block_count)
            noise = float(_array(blocks.e2).sum())
        else:
            numbers = np.concatenate([numbers for numbers, _ in self._worst_blocks])
            blocks = side_by_side(moments for _, moments in self._worst_blocks)
            noise = self._noise
        places = np.sort(worst(blocks, plan.n))
        return Survey(
            plan.shape,
            plan.layout,
            plan.qparams,
            histograms(plan.scheme, plan.qparams, plan.bins, self._value_counts, self._error_counts),
            self._cells(x),
            tuple(adder.moments if adder else None for adder in self._axes),
            blocks.at(torch.from_numpy(places)),
            numbers[places],
            noise,
        )

    def _cells(self, x: Stored) -> tuple[WorstCell, ...]:
        plan = self._plan
        places = [place for _, place in sorted(self._worst)[: plan.n]]
        values = torch.tensor([float(x.run(place, place + 1)[0]) for place in places], dtype=torch.float32)
        r = quantize_cells(
            values, plan.scheme, plan.qparams, plan.shape, torch.tensor(places, dtype=torch.int64)
        )
        numbers = (each.tolist() for each in (r.x, r.q, r.x_hat, r.error, steps_of_error(r)))
        return tuple(
            WorstCell(place_of(place, plan.shape), *each)
            for place, *each in zip(places, *numbers, strict=True)
        )


class _WorstOfRun:
    """The cells of largest |error| of a run, the first of equal ones."""

    def __init__(self, n: int) -> None:
        self._sizes, self._places, self._count = (
            np.full(n, -1.0, dtype=np.float32),
            np.zeros(n, dtype=np.int64),
            0,
        )

    def add(self, error: Array, start: int) -> None:
        self._count = _pooling().keep_largest(error, start, self._sizes, self._places, self._count)

    def found(self) -> Iterator[tuple[float, int]]:
        """-|error| and the place of each: sorted, the worst come first."""
        return zip((-self._sizes[: self._count]).tolist(), self._places[: self._count].tolist(), strict=True)


class _Adder:
    """Adds up by the blocks of a layout that the cells from `start` to before `stop` reach, and others in the
    same rows of blocks.
    """

    def __init__(self, layout: BlockLayout, start: int, stop: int) -> None:
        self._layout = layout
        row, inner = math.prod(layout.grid_shape[1:]), _row_of_blocks(layout)
        self.first = start // inner * row
        count = -(-stop // inner) * row - self.first
        self._signal, self._noise, self._largest = (
            np.zeros(count),
            np.zeros(count),
            np.zeros(count, dtype=np.float32),
        )
        self._left_out = np.zeros(count)
        fill = (1,) * (4 - len(layout.view_shape))
        self._sizes = tuple(
            np.array(fill + lengths) for lengths in (layout.view_shape, layout.block_shape, layout.grid_shape)
        )

    def add(self, x: Array, error: Array, left_out: Array | None, start: int) -> None:
        """Add a run from `start`; x and error are 0 where a cell is left out."""
        _pooling().add_by_block(
            _still(x), error, start, *self._sizes, self.first, self._signal, self._noise, self._largest
        )
        if left_out is not None:
            ones = left_out.astype(np.float32)
            _pooling().add_by_block(
                _still(ones),
                ones,
                start,
                *self._sizes,
                self.first,
                self._left_out,
                np.zeros_like(self._noise),
                np.zeros_like(self._largest),
            )

    def join(self, other: _Adder) -> None:
        """Add what another added up by some of the same blocks."""
        here = slice(other.first - self.first, other.first - self.first + len(other._noise))
        self._signal[here] += other._signal
        self._noise[here] += other._noise
        self._left_out[here] += other._left_out
        np.maximum(self._largest[here], other._largest, out=self._largest[here])

    @property
    def moments(self) -> Moments:
        """What was added up."""
        layout = self._layout
        places = np.unravel_index(np.arange(self.first, self.first + len(self._noise)), layout.grid_shape)
        cells = np.ones(len(self._noise), dtype=np.int64)
        for at, size, length in zip(places, layout.block_shape, layout.view_shape, strict=True):
            cells *= np.minimum(size, length - at * size)
        x2, e2, largest, count = map(
            torch.from_numpy,
            (self._signal, self._noise, self._largest.astype(np.float64), cells - self._left_out),
        )
        return Moments(cells=count, x2=x2, e2=e2, max_error=largest)


def _of_axis(shape: Shape, axis: int) -> BlockLayout:
    """Return the lines along an axis, as blocks."""
    return BlockLayout(
        shape,
        tuple(1 if i == axis else n for i, n in enumerate(shape)),
        tuple(n if i == axis else 1 for i, n in enumerate(shape)),
    )


def _same_blocks(one: BlockLayout, other: BlockLayout) -> bool:
    return (one.view_shape, one.block_shape, one.grid_shape) == (
        other.view_shape,
        other.block_shape,
        other.grid_shape,
    )


def _row_of_blocks(layout: BlockLayout) -> int:
    """Return how many cells of the flat tensor the blocks at one place along the grid's first axis are:
    neighbours.
    """
    return layout.block_shape[0] * math.prod(layout.view_shape[1:])
