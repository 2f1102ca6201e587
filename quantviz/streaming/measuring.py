"""Metrics, ranges and codes of tensors of any size, in streaming passes without full-size temporaries.

Each pass gives what the reference (`quantize`, `metrics`) gives: codes and values bit for bit, sums to within
1e-6 of the mean magnitude of what they add (`lanes.TERMS`), most of them to far less.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from quantviz.compiled import background, kernel_cache
from quantviz.compiled.hand_written import by_hand
from quantviz.compiled.partial_sums import CELLS, SUMS, Tally
from quantviz.compiled.tracing import BlockCode, Untraceable, trace_block, trace_cell
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element, metrics_of
from quantviz.evaluation.moments import Moments, joined
from quantviz.pickling import Picklable
from quantviz.quantization.calibrating import calibrated, finite_or_infinite, one_by_one
from quantviz.quantization.cells import errors_of_cells, quantize_cells
from quantviz.quantization.qparams import params_to_try, qparams_of_range, stored_qparams
from quantviz.quantization.quantizer import infinite_value, quantize, quantize_in_ranges
from quantviz.quantization.result import QParams, QuantResult, block_values, steps_of_error
from quantviz.schemes.calibration import BlockValues, External, MinMax, Range
from quantviz.schemes.granularity import BlockLayout, Shape, Window
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.blocks import Blocks, block_numbers, block_sizes, to_grid, viewed
from quantviz.tensors.conversion import NonFinite, as_input, torch_dtype
from quantviz.tensors.lazy import Replaced, Stored, as_stored
from quantviz.text.notebook_tables import table

Array = npt.NDArray[Any]

#: Elements up to which nothing is compiled.
SMALL = 2**20
#: Elements from which on compiling a scheme's own code takes less time than the reference does.
_WORTH_WAITING = 2**22
#: Elements up to which the reference is as fast as what is compiled already.
FUSED = 2**14
#: Elements of a piece that is read at a time, at least where nothing is copied.
PIECE = 2**19
#: Elements of a block next to each other from which on sums are made side by side.
LANES = 16
#: Elements of a band whose ranges are found and then used while it is in a core's second cache.
BAND = 2**16
#: How many elements before they are needed they are asked of memory.
AHEAD = 1024
#: Elements of a piece that the reference's own operations run on: what they make of it stays in a core's
#: cache.
CHUNK = 2**16


@dataclass(frozen=True, eq=False)
class Facts(Picklable):
    """What is known of a whole tensor, whatever the scheme."""

    #: Smallest and largest finite value; 0 where none is finite.
    lo: float
    hi: float
    #: Where the first finite value of largest magnitude is.
    largest: Shape
    #: What is not finite; none where all is.
    found: NonFinite | None
    #: How many finite values are below 0.
    negative: int

    @property
    def nonfinite(self) -> int:
        """Return how many are NaN, Inf or -Inf."""
        return self.found.count if self.found else 0

    @property
    def nan(self) -> int:
        """Return how many are NaN."""
        return self.found.nan if self.found else 0

    @property
    def first_nonfinite(self) -> Shape | None:
        """Return where the first of them is."""
        return self.found.first if self.found else None

    @property
    def absmax(self) -> float:
        """Return the largest finite magnitude."""
        return max(abs(self.lo), abs(self.hi))


@dataclass(frozen=True, eq=False)
class Measured(Picklable):
    """The metrics of a scheme on a tensor, and how they were found."""

    scheme: Scheme
    shape: Shape
    layout: BlockLayout
    #: The metrics that were asked for, by id.
    metrics: Mapping[str, float]
    #: "reference", "fused" (compiled for this arithmetic) or "chunked" (the reference's own operations, a
    #: piece at a time).
    path: str
    #: Seconds this call spent compiling.
    compiled_seconds: float
    notes: tuple[Note, ...]
    #: Where the first error of largest size is.
    largest_error: Shape
    #: What all metrics of one pass are made of.
    moments: Moments
    #: Σx² and Σe² of each index of each axis of the tensor, where asked for.
    axes: tuple[Moments, ...]
    #: How many elements were counted: all but NaN and Inf that are left out.
    counted: int

    def __repr__(self) -> str:
        own = ", ".join(f"{name}={self.metrics[name]:.6g}" for name in ("mse", "sqnr_db", "effective_bits"))
        return f"Measured({self.scheme!r}, shape={self.shape}, {own})"

    def _repr_html_(self) -> str:
        return table(
            [
                ("scheme", repr(self.scheme)),
                ("shape", self.shape),
                *((name, f"{value:.6g}") for name, value in self.metrics.items()),
            ]
        )


# ---- what is compiled, and on how many threads ---------------------------------------------------

_T = TypeVar("_T")


@cache
def _compiled() -> ModuleType | None:
    """Return the compiled kernels; none where numba is not installed."""
    try:
        from quantviz.compiled import kernels
    except ImportError as missing:
        if missing.name != "numba" and not (missing.name or "").startswith(("numba", "llvmlite")):
            raise
        return None
    return kernels


def fixed_ready() -> bool:
    """Return whether the kernels that all schemes share can be called: they are compiled, or waited for
    here.
    """
    if not kernel_cache.has_numba() or not (
        background.waits() or background.warmer().ready(background.FIXED)
    ):
        return False
    return _compiled() is not None


def _wait_for_kernels() -> None:
    """For what is asked for seldom, and would take long without them."""
    if not fixed_ready():
        background.warmer().wait(background.FIXED)


def scheme_ready(scheme: Scheme, shape: Shape) -> bool:
    """Return whether the same holds of all that a scheme needs on a tensor of `shape`.

    A scheme's own code takes a fraction of a second, so where the reference takes longer it is waited for
    once the shared kernels are there.
    """
    if not fixed_ready():
        return False
    if background.waits() or _known_sources(scheme, shape, by_axis=True):
        return True
    own = background.of_scheme(scheme, shape)
    if math.prod(shape) >= _WORTH_WAITING:
        background.warmer().wait(own)
    return background.warmer().ready(own)


def cache_folder() -> Path | None:
    """Return where compiled code is kept from one process to the next; none where it is compiled anew in
    each.
    """
    return kernel_cache.cache_folder() if _compiled() else None


#: The setting that says how many threads a pass over a tensor takes where its caller does not.
THREADS_VARIABLE = "QUANTVIZ_THREADS"


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(_MOST_THREADS, default_threads()), thread_name_prefix="quantviz")


#: Threads that the process keeps for passes; each begins when it is first needed.
_MOST_THREADS = 64


def default_threads() -> int:
    """Return how many threads a pass takes: `QUANTVIZ_THREADS`, else one for each processor."""
    setting = os.environ.get(THREADS_VARIABLE)
    if setting is None:
        return os.cpu_count() or 1
    if not re.fullmatch(r"[1-9]\d{0,3}", setting, re.ASCII):
        raise QuantVizError("limit_setting", variable=THREADS_VARIABLE, got=setting)
    return int(setting)


def shared_out(work: Callable[[Iterator[_T]], None], items: Iterable[_T], threads: int | None = None) -> None:
    """Run `work` on `threads` threads (`default_threads()` where none is given), each taking the next item
    when it is done with one.
    """
    listed = list(items)
    lock, rest = threading.Lock(), iter(listed)

    def taken() -> Iterator[_T]:
        while True:
            with lock:
                item = next(rest, None)
            if item is None:
                return
            yield item

    threads = min(threads or default_threads(), len(listed))
    if threads <= 1:
        work(taken())
        return
    for done in [_pool().submit(copy_context().run, work, taken()) for _ in range(threads)]:
        done.result()


# ---- where cells and blocks lie ------------------------------------------------------------------


class _Band(Stored):
    """Some whole rows of a tensor's view, one after the other in its memory."""

    def __init__(self, x: Stored, offset: int, shape: Shape) -> None:
        self._x, self._offset, self._shape = x, offset, shape

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def in_place(self) -> bool:
        return self._x.in_place

    def run(self, start: int, stop: int) -> Array:
        return self._x.run(self._offset + start, self._offset + stop)

    def read(self, index: Window) -> torch.Tensor:
        raise NotImplementedError


def _rows_of_band(layout: BlockLayout, piece: int) -> int:
    """Return how many rows of the view, in whole blocks, hold about `piece` elements."""
    step = layout.block_shape[0]
    return min(max(piece // math.prod(layout.view_shape[1:]) // step, 1) * step, layout.view_shape[0])


def _banded(layout: BlockLayout, first: int, last: int) -> BlockLayout:
    """Return the layout of the rows from `first`, where a block begins, to before `last`."""
    return BlockLayout(
        (last - first, *layout.view_shape[1:]),
        layout.block_shape,
        (-(-(last - first) // layout.block_shape[0]), *layout.grid_shape[1:]),
        layout.tail,
    )


def _in_line(layout: BlockLayout) -> BlockLayout:
    """Return the layout of the flat elements where there is but one block: it has no lines to be kept
    apart.
    """
    count = math.prod(layout.view_shape)
    return (
        BlockLayout((count,), (count,), (1,), layout.tail)
        if layout.block_count == 1 and count == layout.block_size
        else layout
    )


def _fills(layout: BlockLayout) -> bool:
    """Return whether every block is full."""
    return all(n % of == 0 for n, of in zip(layout.view_shape, layout.block_shape, strict=True))


def _windows(
    layout: BlockLayout, piece: int
) -> Iterator[tuple[tuple[slice, ...], BlockLayout, tuple[slice, ...]]]:
    """The view in windows of whole blocks of about `piece` elements: the window, its layout, and where its
    blocks are in the grid.
    """
    axis = max(range(len(layout.grid_shape)), key=lambda a: layout.grid_shape[a])
    of_block = math.prod(n for a, n in enumerate(layout.view_shape) if a != axis) * layout.block_shape[axis]
    step = max(piece // of_block, 1)
    for first in range(0, layout.grid_shape[axis], step):
        last = min(first + step, layout.grid_shape[axis])
        low, high = (
            first * layout.block_shape[axis],
            min(last * layout.block_shape[axis], layout.view_shape[axis]),
        )
        view = tuple(high - low if a == axis else n for a, n in enumerate(layout.view_shape))
        grid = tuple(last - first if a == axis else n for a, n in enumerate(layout.grid_shape))
        window, place = ([slice(0, n) for n in lengths] for lengths in (layout.view_shape, layout.grid_shape))
        window[axis], place[axis] = slice(low, high), slice(first, last)
        yield tuple(window), BlockLayout(view, layout.block_shape, grid, layout.tail), tuple(place)


def _read(x: Stored, layout: BlockLayout, window: tuple[slice, ...]) -> torch.Tensor:
    """Return a window of the view, which has one or two axes where it is not the tensor's shape."""
    if layout.view_shape == x.shape and not isinstance(x, _Band):
        return x.read(window)
    length = layout.view_shape[-1]
    lines = [()] if len(layout.view_shape) == 1 else np.ndindex(*(s.stop - s.start for s in window[:-1]))
    runs = []
    for line in lines:
        at = 0
        for i, s, n in zip(line, window, layout.view_shape, strict=False):
            at = at * n + i + s.start
        runs.append(x.run(at * length + window[-1].start, at * length + window[-1].stop))
    return viewed(torch.from_numpy(np.concatenate(runs)), tuple(s.stop - s.start for s in window))


# ---- facts and ranges ---------------------------------------------------------------------------


def facts(x: Stored) -> Facts:
    """Return ends, places and counts of a tensor, in one pass.

    >>> from quantviz.tensors.lazy import InMemory
    >>> found = facts(InMemory(torch.tensor([[1.0, -3.0], [torch.nan, 3.0]])))
    >>> found.lo, found.hi, found.largest, found.nonfinite, found.first_nonfinite, found.negative
    (-3.0, 3.0, (0, 1), 1, (1, 0), 1)
    """
    # Not imported for what is small: that takes as long as many runs.
    machinery = _compiled() if x.count > SMALL and fixed_ready() else None
    if machinery is None:
        return _facts_of_runs(x)
    states: list[Array] = []

    def work(runs: Iterator[tuple[int, int]]) -> None:
        state = machinery.new_look()
        states.append(state)
        for start, stop in runs:
            machinery.look(_run_of(x, start, stop), start, state)

    shared_out(work, _shares(x.count, PIECE, in_place=x.in_place))
    best = max(states, key=lambda state: (state[machinery.SIZE], -state[machinery.SIZE_AT]))
    lo, hi = (
        (0.0, 0.0)
        if best[machinery.SIZE] < 0
        else (
            _of_key(min(state[machinery.LOW] for state in states)),
            _of_key(max(state[machinery.HIGH] for state in states)),
        )
    )
    nan, inf, minus_inf, negative = (
        int(sum(state[at] for state in states))
        for at in (machinery.NAN, machinery.INF, machinery.MINUS_INF, machinery.NEGATIVE)
    )
    first = min(
        (int(state[machinery.FIRST_BAD]) for state in states if state[machinery.FIRST_BAD] >= 0), default=-1
    )
    found = (
        NonFinite(nan, inf, minus_inf, place_of(first, x.shape), float(x.run(first, first + 1)[0]))
        if first >= 0
        else None
    )
    return Facts(lo, hi, place_of(int(best[machinery.SIZE_AT]), x.shape), found, negative)


def _of_key(key: int) -> float:
    machinery = _compiled()
    assert machinery
    return float(machinery.numbers_of(np.array([key]))[0])


def _facts_of_runs(x: Stored) -> Facts:
    """Return the same by numpy."""
    lo, hi, best, largest, negative = math.inf, -math.inf, -1.0, 0, 0
    nan = inf = minus_inf = 0
    first, value = -1, 0.0
    for start, stop in _runs(x.count, PIECE):
        run = x.run(start, stop)
        ends = float(run.min()), float(run.max())
        if not all(map(math.isfinite, ends)):
            finite = np.isfinite(run)
            if first < 0:
                first = start + int(np.argmin(finite))
                value = float(run[first - start])
            nan += int(np.isnan(run).sum())
            inf += int((run == np.inf).sum())
            minus_inf += int((run == -np.inf).sum())
            if not finite.any():
                continue
            ends = float(run[finite].min()), float(run[finite].max())
            run = np.where(finite, run, np.float32(np.nan))
        lo, hi = min(lo, ends[0]), max(hi, ends[1])
        negative += int(np.count_nonzero(run < 0))
        top = max(-ends[0], ends[1])
        if top > best:
            best, largest = top, start + int(np.argmax(np.abs(run) == top))
    if best < 0:
        lo = hi = 0.0
    found = NonFinite(nan, inf, minus_inf, place_of(first, x.shape), value) if first >= 0 else None
    return Facts(lo, hi, place_of(largest, x.shape), found, negative)


class StreamedBlocks:
    """What `Blocks` answers, of a tensor that is read a part at a time. Needs numba: where its kernels are
    not waited for, windows are asked.
    """

    def __init__(
        self,
        x: Stored,
        layout: BlockLayout,
        dtype: torch.dtype,
        *,
        finite_only: bool,
        absolute: bool = False,
        alone: bool = False,
        piece: int = PIECE,
    ) -> None:
        self._x, self._layout, self._dtype = x, layout, dtype
        self._finite_only, self._absolute, self._alone, self._piece = finite_only, absolute, alone, piece
        self._ends: tuple[torch.Tensor, torch.Tensor] | None = None
        self._one = layout.block_count == 1 and layout.tail != "pad"

    def min_max(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return smallest and largest value of each block."""
        lo, hi = self._found()
        return lo.to(self._dtype), hi.to(self._dtype)

    def extreme(self) -> torch.Tensor:
        """Return the first element of largest magnitude of each block, with its sign."""
        if not fixed_ready() and not self._one:
            return self._by_window(lambda blocks: (blocks.extreme(),), 1)[0]
        lo, hi = self._found()
        extreme = torch.where(hi > -lo, hi, lo)
        ties = hi == -lo
        if bool(ties.any()):
            flat, wanted = extreme.flatten().numpy().copy(), ties.flatten().numpy().copy()
            sizes = extreme.abs().flatten().numpy()
            for start, stop in _runs(self._x.count, self._piece):
                if not fixed_ready():
                    found = np.flatnonzero(np.abs(run := self._x.run(start, stop)) == sizes[0])
                    if len(found):
                        flat[0], wanted[0] = run[found[0]], False
                        break
                    continue
                machinery, (length, width) = _kernels(), self._along
                at = start // length, _bases(self._layout, start, stop)
                machinery.find_firsts(
                    _run_of(self._x, start, stop), start, length, width, *at, sizes, wanted, flat
                )
                if not wanted.any():
                    break
            extreme = viewed(torch.from_numpy(flat), self._layout.grid_shape)
        return extreme.to(self._dtype)

    def magnitudes(self) -> StreamedBlocks:
        """Return the same blocks of |x|."""
        return StreamedBlocks(
            self._x,
            self._layout,
            self._dtype,
            finite_only=self._finite_only,
            absolute=True,
            alone=self._alone,
            piece=self._piece,
        )

    def percentiles(self, *percents: float) -> tuple[torch.Tensor, ...]:
        """Return the `percents` (0 to 100) of each block, interpolated linearly between two values."""
        if self._one and self._x.count > self._piece:
            _wait_for_kernels()
            return self._percentiles_of_one(percents)
        return self._by_window(
            lambda blocks: (blocks.magnitudes() if self._absolute else blocks).percentiles(*percents),
            len(percents),
        )

    def mean_magnitude(self) -> torch.Tensor:
        """Return the mean of |x| of each block: the exact sum rounded once."""
        if self._one:
            _wait_for_kernels()
            machinery, partials, count = _kernels(), np.zeros(128), 0
            for start, stop in _runs(self._x.count, self._piece):
                run = _run_of(self._x, start, stop)
                machinery.add_exactly(run, self._finite_only, partials)
                count += int(np.isfinite(run).sum()) if self._finite_only else run.size
            mean = torch.tensor(math.fsum(partials[1 : 1 + int(partials[0])]), dtype=torch.float64) / max(
                count, 1
            )
            return mean.expand(self._layout.grid_shape).to(self._dtype).clone()
        return self._by_window(lambda blocks: (blocks.mean_magnitude(),), 1)[0]

    def constant(self, value: float) -> torch.Tensor:
        """`value` for each block."""
        return torch.full(self._layout.grid_shape, value, dtype=self._dtype)

    @property
    def _along(self) -> tuple[int, int]:
        """Return the lengths of the view and of a block along the last axis."""
        return self._layout.view_shape[-1], self._layout.block_shape[-1]

    def _found(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the ends of each block, float32."""
        if self._ends is None and not fixed_ready():
            self._ends = self._found_plainly()
        if self._ends is None:
            layout, machinery, (length, width) = self._layout, _kernels(), self._along
            grids: list[tuple[Array, Array]] = []

            def work(runs: Iterator[tuple[int, int]]) -> None:
                lo, hi = (
                    np.full(layout.block_count, 0x7FFFFFFF, np.int32),
                    np.full(layout.block_count, -0x80000000, np.int32),
                )
                grids.append((lo, hi))
                for start, stop in runs:
                    at = start // length, _bases(layout, start, stop)
                    machinery.find_ends(
                        _run_of(self._x, start, stop), start, length, width, *at, self._finite_only, lo, hi
                    )

            runs = list(_shares(self._x.count, self._piece, in_place=self._x.in_place))
            if self._alone:
                work(iter(runs))
            else:
                shared_out(work, runs)
            low, high = grids[0]
            for more_low, more_high in grids[1:]:
                np.minimum(low, more_low, out=low)
                np.maximum(high, more_high, out=high)
            lo, hi = machinery.numbers_of(low), machinery.numbers_of(high)
            if self._finite_only:
                lo, hi = (np.where(low > high, np.float32(0), ends) for ends in (lo, hi))
            ends = tuple(viewed(torch.from_numpy(each), layout.grid_shape) for each in (lo, hi))
            if layout.tail == "pad":
                part = block_sizes(layout) < layout.block_size
                ends = (
                    torch.where(part, ends[0].clamp(max=0), ends[0]),
                    torch.where(part, ends[1].clamp(min=0), ends[1]),
                )
            self._ends = ends[0], ends[1]
        return self._ends

    def _found_plainly(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the same without kernels of ours."""
        if not self._one:
            lo, hi = self._by_window(lambda blocks: blocks.min_max(), 2)
            return lo.to(torch.float32), hi.to(torch.float32)
        found: list[tuple[float, float]] = []

        def work(runs: Iterator[tuple[int, int]]) -> None:
            for start, stop in runs:
                run = self._x.run(start, stop)
                if self._finite_only:
                    run = run[np.isfinite(run)]
                if len(run):
                    found.append((float(run.min()), float(run.max())))

        shared_out(work, _runs(self._x.count, self._piece), 1 if self._alone else None)
        ends = (min(lo for lo, _ in found), max(hi for _, hi in found)) if found else (0.0, 0.0)
        lo, hi = (torch.full(self._layout.grid_shape, end, dtype=torch.float32) for end in ends)
        return lo, hi

    def _by_window(
        self, asked: Callable[[Blocks], tuple[torch.Tensor, ...]], count: int
    ) -> tuple[torch.Tensor, ...]:
        """What `Blocks` answers of one window after the other."""
        answers = tuple(self.constant(0.0) for _ in range(count))

        def work(windows: Iterator[tuple[tuple[slice, ...], BlockLayout, tuple[slice, ...]]]) -> None:
            for window, layout, place in windows:
                values = _read(self._x, self._layout, window)
                counted = torch.isfinite(values) if self._finite_only else None
                for answer, part in zip(
                    answers, asked(Blocks(values, layout, self._dtype, counted)), strict=True
                ):
                    answer[place] = part

        windows = _windows(self._layout, self._piece)
        if self._alone:
            work(windows)
        else:
            shared_out(work, windows)
        return answers

    def _percentiles_of_one(self, percents: tuple[float, ...]) -> tuple[torch.Tensor, ...]:
        """Of one block: a count of the upper 16 bits, then a sort of the few values that the places lie
        among.
        """
        machinery = _kernels()
        counts: list[Array] = []

        def count(runs: Iterator[tuple[int, int]]) -> None:
            own = np.zeros(1 << 16, np.int64)
            counts.append(own)
            for start, stop in runs:
                machinery.count_tops(_run_of(self._x, start, stop), self._absolute, self._finite_only, own)

        shared_out(count, _shares(self._x.count, self._piece, in_place=self._x.in_place))
        ends = np.cumsum(sum(counts))
        last = torch.tensor(float(ends[-1] - 1), dtype=torch.float64).clamp(min=0)
        if not ends[-1]:
            return tuple(self.constant(0.0) for _ in percents)
        places = [last * percent / 100 for percent in percents]
        below = [place.floor() for place in places]
        wanted = [int(at) for each in below for at in (each, torch.minimum(each + 1, last))]
        tops = np.searchsorted(ends, wanted, side="right")
        marked = np.zeros(1 << 16, np.bool_)
        marked[tops] = True
        picked: list[Array] = []

        def pick(runs: Iterator[tuple[int, int]]) -> None:
            for start, stop in runs:
                run = _run_of(self._x, start, stop)
                found = np.empty(run.size, np.float32)
                picked.append(
                    found[: machinery.pick_tops(run, self._absolute, self._finite_only, marked, found)].copy()
                )

        shared_out(pick, _runs(self._x.count, self._piece))
        values = np.sort(np.concatenate(picked)).astype(np.float64)
        # Where the values of each upper half begin among those picked.
        sizes = np.diff(ends, prepend=0) * marked
        begins = np.cumsum(sizes) - sizes
        ordered = [
            torch.tensor(values[begins[top] + at - (ends[top] - sizes[top])])
            for top, at in zip(tops, wanted, strict=True)
        ]
        answers = (
            lower + (upper - lower) * (place - low)
            for place, low, lower, upper in zip(places, below, ordered[::2], ordered[1::2], strict=True)
        )
        return tuple(answer.expand(self._layout.grid_shape).to(self._dtype).clone() for answer in answers)


def ranges(x: Stored, scheme: Scheme, *, piece: int = PIECE, absmax: float | None = None) -> Range | QParams:
    """What the calibration says of each block: its clipping range, or scale and zero point in place of it.

    About `piece` elements are read at a time. `absmax` is the largest finite magnitude, where it is known.

    >>> from quantviz.tensors.lazy import InMemory
    >>> ranges(InMemory(torch.tensor([[1.0, -3.0]])), Scheme()).lo.tolist()
    [[-3.0]]
    """
    layout = scheme.layout(x.shape)
    if scheme.calibration.of_values:
        return _ranges(x, scheme, layout, piece)
    largest = cache(
        lambda: torch.tensor(
            (facts(x).absmax if absmax is None else absmax) if scheme.arithmetic.scale.global_rule else 0.0
        )
    )
    rows, length = _rows_of_band(layout, min(BAND, piece)), math.prod(layout.view_shape[1:])
    bands = list(_runs(layout.view_shape[0], rows))
    found: list[Range | QParams] = [QParams(0.0)] * len(bands)
    alone = len(bands) > 1

    def work(numbers: Iterator[int]) -> None:
        for k in numbers:
            first, last = bands[k]
            part = _banded(layout, first, last) if alone else layout
            band = _Band(x, first * length, part.view_shape) if alone else x
            trial = _Trial(x, first * length, last * length, scheme, part, largest, alone=alone, piece=piece)
            found[k] = calibrated(_blocks(band, scheme, part, piece, alone=alone), scheme, trial)

    shared_out(work, range(len(bands)), 1 if len(bands) == 1 else None)
    return (
        found[0]
        if len(bands) == 1
        else _one_after_the_other(found, [_banded(layout, *band) for band in bands])
    )


def _ranges(
    x: Stored, scheme: Scheme, layout: BlockLayout, piece: int, *, alone: bool = False
) -> Range | QParams:
    return calibrated(_blocks(x, scheme, layout, piece, alone=alone), scheme, _no_trial)


def _no_trial(found: Range, of: torch.Tensor | None = None, /) -> torch.Tensor:
    raise NotImplementedError


def _blocks(x: Stored, scheme: Scheme, layout: BlockLayout, piece: int, *, alone: bool) -> BlockValues:
    """Return the blocks of a tensor, or of a band of it, as a calibration asks of them."""
    dtype, finite_only = torch_dtype(scheme.arithmetic.scale_math), scheme.nonfinite == "ignore"
    if _compiled() is None:
        return cast("BlockValues", _ReadBlocks(x, layout, dtype, finite_only))
    return StreamedBlocks(x, layout, dtype, finite_only=finite_only, alone=alone, piece=piece)


class _ReadBlocks:
    """The `Blocks` of a tensor that is read when they are asked for something."""

    def __init__(self, x: Stored, layout: BlockLayout, dtype: torch.dtype, finite_only: bool) -> None:
        self._asked = x, layout, dtype, finite_only

    @cached_property
    def _made(self) -> Blocks:
        x, layout, dtype, finite_only = self._asked
        values = _read(x, layout, tuple(slice(0, n) for n in layout.view_shape))
        return Blocks(values, layout, dtype, torch.isfinite(values) if finite_only else None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


def _one_after_the_other(parts: list[Range | QParams], layouts: list[BlockLayout]) -> Range | QParams:
    """What was said of one band after the other, as of the whole."""
    of_ranges = [part for part in parts if isinstance(part, Range)]
    if len(of_ranges) == len(parts):
        return Range(
            *(torch.cat([getattr(part, name) for part in of_ranges]) for name in ("lo", "hi", "extreme"))
        )
    given = [part for part in parts if isinstance(part, QParams)]
    scale, zero_point = (
        torch.cat(
            [_grid_of(getattr(part, name), layout) for part, layout in zip(given, layouts, strict=True)]
        )
        for name in ("scale", "zero_point")
    )
    return QParams(scale, zero_point)


def _grid_of(values: Any, layout: BlockLayout) -> torch.Tensor:
    numbers = torch.as_tensor(values, dtype=torch.float64)
    grid = to_grid(numbers, layout)
    if grid is None:
        raise QuantVizError(
            "qparams_count", got=numbers.numel(), blocks=layout.block_count, grid=layout.grid_shape
        )
    return grid


class _Trial:
    """Σ error² of each block of a tensor, or of a band of it, with one range or several: see
    `calibration.Context.trial`.

    What is added up follows from the plan alone, so that the answer has the same bits for any number of
    threads.
    """

    def __init__(
        self,
        x: Stored,
        start: int,
        stop: int,
        scheme: Scheme,
        layout: BlockLayout,
        absmax: Callable[[], torch.Tensor],
        *,
        alone: bool,
        piece: int,
    ) -> None:
        self._x, self._start, self._scheme, self._layout, self._absmax, self._alone = (
            x,
            start,
            scheme,
            layout,
            absmax,
            alone,
        )
        self._cells = _in_line(layout)
        # Whole lines, or parts of one; many times as many cells as there are blocks, each of which has sums
        # of its own.
        length, size = self._cells.view_shape[-1], max(piece, _CELLS_A_BLOCK * layout.block_count)
        lines = [(start, stop)] if length <= size else _runs(stop, length, start)
        step = max(size // length, 1) * length if length <= size else size
        self._pieces = [each for begin, end in lines for each in _runs(end, step, begin)]

    def __call__(self, found: Range, of: torch.Tensor | None = None, /) -> torch.Tensor:
        program = self._program
        if program is None:
            return one_by_one(self._by_reference)(found, of)
        params, refused = params_to_try(found, self._absmax(), self._scheme, self._layout, of)
        begins, of_trial, places = _side_by_side(
            np.arange(self._layout.block_count) if of is None else of.numpy(), self._layout.block_count
        )
        known = block_values(params)
        columns = (
            known[name].to(torch.float64).expand(refused.shape).flatten().numpy() for name in program.params
        )
        of_trials = (
            np.concatenate([column[of_trial] for column in columns]),
            len(of_trial),
            *program.constants,
        )
        sums = self._added_up(
            len(of_trial), lambda start, stop: self._noises(program, start, stop, begins, of_trials)
        )
        return finite_or_infinite(viewed(torch.from_numpy(sums[places]), tuple(refused.shape)), refused)

    def _added_up(self, count: int, of_piece: Callable[[int, int], Array]) -> Array:
        """So many sums, piece after piece."""
        total = np.zeros(count)
        in_order = InOrder[Array](lambda sums: np.add(total, sums, out=total))

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                in_order.put(k, of_piece(*self._pieces[k]))

        if self._alone:
            work(iter(range(len(self._pieces))))
        else:
            shared_out(work, range(len(self._pieces)))
        return total

    @property
    def _program(self) -> _Program | None:
        # What a range is made into, whichever calibration found it.
        ranged = self._scheme.replace(calibration=MinMax())
        return (
            None
            if not by_hand("sums")
            else _program(ranged, _types(ranged), self._layout.block_shape[-1] == 1)
        )

    def _noises(
        self, program: _Program, start: int, stop: int, begins: Array, of_trials: tuple[Any, ...]
    ) -> Array:
        from quantviz.compiled import trials

        (length, width), first, noises = (
            (self._cells.view_shape[-1], self._cells.block_shape[-1]),
            start - self._start,
            np.zeros(begins[-1]),
        )
        bases, chance = (
            _bases(self._cells, first, stop - self._start),
            self._scheme.arithmetic.ties == "stochastic",
        )
        place = start, min(length, stop - start), first % length, width, bases, begins
        trials.add_noises(
            program.trials_address(),
            _run_of(self._x, start, stop),
            *place,
            of_trials,
            program.leaves_out,
            chance,
            noises,
        )
        return noises

    def _by_reference(self, found: Range) -> torch.Tensor:
        params, refused = params_to_try(found, self._absmax(), self._scheme, self._layout)
        sums = self._added_up(
            self._layout.block_count, lambda start, stop: self._noise_by_reference(params, start, stop)
        )
        return finite_or_infinite(viewed(torch.from_numpy(sums), self._layout.grid_shape), refused)

    def _noise_by_reference(self, params: QParams, start: int, stop: int) -> Array:
        total = np.zeros(self._layout.block_count)
        for at, end in _runs(stop, CHUNK, start):
            run = _run_of(self._x, at, end)
            error = errors_of_cells(
                torch.from_numpy(np.array(run)),
                self._scheme,
                params,
                self._layout,
                torch.arange(at, end),
                self._start,
            )
            if self._scheme.nonfinite == "ignore":
                error = error.masked_fill(~torch.from_numpy(np.isfinite(run)), 0)
            numbers = block_numbers(torch.arange(at - self._start, end - self._start), self._layout)
            total += np.bincount(
                numbers.numpy(), weights=error.to(torch.float64).square().numpy(), minlength=len(total)
            )
        return total


#: How many cells a piece has at least for each block, of which all trials have sums.
_CELLS_A_BLOCK = 256


def _side_by_side(of: Array, blocks: int) -> tuple[Array, Array, Array]:
    """Trials as kernels take them, where `of` are the numbers of their blocks, ascending: those of a block
    fill whole vectors, if need be by one of them again and again. Where those of each block begin, and the
    end; which trial each one is; and where each trial is.
    """
    from quantviz.compiled.vector_sums import WIDTH

    counts = np.bincount(of, minlength=blocks)
    sizes, before = -(-counts // WIDTH) * WIDTH, np.cumsum(counts) - counts
    begins = np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(len(of)) + np.repeat(begins[:-1] - before, counts)
    of_trial = np.repeat(before, sizes)
    of_trial[places] = np.arange(len(of))
    return begins, of_trial, places


def _kernels() -> Any:
    machinery = _compiled()
    assert machinery
    return machinery


def qparams(
    x: Stored, scheme: Scheme, found: Range | QParams | None = None, absmax: float | None = None
) -> QParams:
    """What `choose_qparams` gives, from ranges and a largest finite magnitude that may be known already.

    >>> from quantviz.tensors.lazy import InMemory
    >>> qparams(InMemory(torch.tensor([-1.27, 1.27])), Scheme("int8")).scale.item() == 1.2699999809265137 / 127
    True
    """
    found = found or ranges(x, scheme, absmax=absmax)
    if absmax is None:
        absmax = facts(x).absmax if scheme.arithmetic.scale.global_rule else 0.0
    return qparams_of_range(found, torch.tensor(absmax), scheme, scheme.layout(x.shape))


# ---- cells --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Program:
    """A scheme's compiled arithmetic, for blocks laid out in one way."""

    #: Where it is in memory, and the same that gives sums alone (of all cells, and of such as saturation
    #: leaves as they are), and errors alone.
    address: int
    sums_addresses: Callable[[], tuple[int, int]]
    errors_address: Callable[[], int]
    #: That of the same for many ranges at once.
    trials_address: Callable[[], int]
    #: That of the blocks' arithmetic, and the numbers it reads; none where it is torch's.
    of_ranges: Callable[[], tuple[int, Array, Array, Array] | None]
    #: What it reads of each block.
    params: tuple[str, ...]
    #: Numbers and lists of values that it reads.
    constants: tuple[Array, Array, Array]
    code_min: int
    #: Saturation leaves as they are what lies between these.
    ends: tuple[float, float]
    #: Whether NaN and Inf in the input are left out.
    leaves_out: bool

    def of_blocks(self, params: QParams) -> Array:
        """What it reads of each block, one after the other as float64, which holds every one of them."""
        known = block_values(params)
        return np.concatenate([known[name].to(torch.float64).flatten().numpy() for name in self.params])

    def run(
        self,
        x: Stored,
        start: int,
        stop: int,
        layout: BlockLayout,
        offset: int,
        of_blocks: Array,
        made: Buffers,
        tally: Tally | None,
    ) -> None:
        """From `start` to before `stop` of a tensor, whose blocks begin at `offset`: into `made`, or, chunk
        by chunk, added to a tally.
        """
        to = tally or Tally(self.code_min, 0, ())
        by_axis, totals = (to.shape, to.signal, to.noise), (to.code_min, to.sums, to.counts, to.seen)
        place, known = (
            self.place(layout, start, stop, offset),
            (of_blocks, layout.block_count, *self.constants),
        )
        keep, room = tally is None, np.empty(_kernels().SUMMED)
        code = self._code(layout, tally)
        _kernels().drive(
            code,
            AHEAD,
            _run_of(x, start, stop),
            start,
            place,
            known,
            made.arrays,
            keep,
            self.leaves_out,
            by_axis,
            room,
            totals,
        )

    def of_pieces(
        self,
        x: Stored,
        start: int,
        stop: int,
        layout: BlockLayout,
        of_blocks: Array,
        made: Buffers,
        tally: Tally,
        pieces: Pieces,
    ) -> None:
        """The same for some planned pieces, from the beginning of the first of `pieces`: their sums go there,
        all else to the tally.
        """
        place, known = self.place(layout, start, stop, 0), (of_blocks, layout.block_count, *self.constants)
        to = tally.shape, np.empty(_kernels().SUMMED), tally.code_min, tally.counts, tally.seen, pieces.arrays
        code = self._code(layout, tally)
        _kernels().drive_pieces(
            code,
            AHEAD,
            _run_of(x, start, stop),
            start,
            pieces.size,
            place,
            known,
            made.arrays,
            self.leaves_out,
            *to,
        )

    def of_bands(
        self, x: Stored, layout: BlockLayout, piece: int, absmax: float, made: Buffers, tally: Tally
    ) -> Callable[[int, int, int, Pieces], int]:
        """What takes the ranges of the blocks from one place to before another, whole rows of the view, and
        the sums of their cells.

        It is told how many cells of the first of some pieces are done, and answers up to where it came.
        """
        ranges = self.of_ranges()
        if ranges is None or not _fills(layout):
            return lambda start, stop, done, pieces: start
        band = _banded(layout, 0, _rows_of_band(layout, min(BAND, piece)))
        size, (length, width) = math.prod(band.view_shape), (layout.view_shape[-1], layout.block_shape[-1])
        ends = (np.empty(band.block_count, np.int32) for _ in range(2))
        before = (
            ranges,
            size,
            layout.block_size,
            self.leaves_out,
            np.array([absmax]),
            *ends,
            self._code(layout, tally),
        )
        place = 0, length, width, 0, _bases(band, 0, size)
        known = np.empty(len(self.params) * band.block_count), band.block_count, *self.constants
        after = (
            place,
            known,
            made.arrays,
            self.leaves_out,
            tally.shape,
            np.empty(_kernels().SUMMED),
            tally.code_min,
            tally.counts,
            tally.seen,
        )
        drive = _kernels().drive_bands

        def run(start: int, stop: int, done: int, pieces: Pieces) -> int:
            return start + int(
                drive(*before, _run_of(x, start, stop), start, done, pieces.size, *after, pieces.arrays)
            )

        return run

    def place(
        self, layout: BlockLayout, start: int, stop: int, offset: int
    ) -> tuple[int, int, int, int, Array]:
        """Return where the cells from `start` to before `stop` lie, as the kernels take it."""
        length, width = layout.view_shape[-1], layout.block_shape[-1]
        return (
            offset,
            length,
            width,
            (start - offset) // length,
            _bases(layout, start - offset, stop - offset),
        )

    def _code(
        self, layout: BlockLayout, tally: Tally | None
    ) -> tuple[int, int, tuple[int, float, float], int]:
        """Return the addresses of what makes cells; of what gives sums alone, where that is asked for and
        quicker; and of what gives errors alone, where sums of lines are too; else 0.
        """
        if tally is None or self.leaves_out or 1 < layout.block_shape[-1] < LANES:
            return self.address, 0, (0, *self.ends), 0
        of_all, of_plain = self.sums_addresses()
        return self.address, of_all, (of_plain, *self.ends), self.errors_address() if tally.shape.size else 0


class Pieces:
    """The sums of some planned pieces of a tensor, a row each: what a piece adds up to follows from the plan
    alone.

    >>> Pieces(2, 2**19, 0).arrays[0].shape
    (2, 8)
    """

    def __init__(self, count: int, size: int, lines: int) -> None:
        #: Cells of a piece.
        self.size = size
        #: Sums, and Σx² and Σe² of each index of each axis.
        self.arrays = np.zeros((count, SUMS)), np.zeros((count, lines)), np.zeros((count, lines))

    def of(self, k: int, tally: Tally) -> Tally:
        """Return the tally with the sums of one piece in place of its own."""
        sums, signal, noise = self.arrays
        return tally.with_sums(sums[k], signal[k], noise[k])

    def add_to(self, tally: Tally) -> None:
        """Add the sums of one piece after the other to those of a tally."""
        for sums, signal, noise in zip(*self.arrays, strict=True):
            tally.sums += sums
            tally.signal += signal
            tally.noise += noise


class InOrder(Generic[_T]):
    """Hands on what was made of pieces in the order of the plan, whichever thread is done first.

    >>> taken: list[str] = []
    >>> in_order = InOrder(taken.append)
    >>> in_order.put(2, "third")
    >>> in_order.put(0, "first and second", 2)
    >>> taken
    ['first and second', 'third']
    """

    def __init__(self, take: Callable[[_T], object]) -> None:
        self._take, self._next, self._lock = take, 0, threading.Lock()
        self._waiting: dict[int, tuple[int, _T]] = {}

    def put(self, first: int, made: _T, count: int = 1) -> None:
        """Take what was made of `count` pieces from piece `first` on."""
        with self._lock:
            self._waiting[first] = count, made
            while self._next in self._waiting:
                count, made = self._waiting.pop(self._next)
                self._next += count
                self._take(made)


class Buffers:
    """Where what is made of some cells is put: codes, values, errors, whether saturation changed the code,
    and errors in steps.
    """

    def __init__(self, size: int) -> None:
        self.arrays: tuple[Array, ...] = (
            np.empty(size, np.int32),
            np.empty(size, np.float32),
            np.empty(size, np.float32),
            np.empty(size, np.bool_),
            np.empty(size),
        )

    def part(self, start: int, stop: int) -> Buffers:
        """Return some of the same places."""
        part = Buffers(0)
        part.arrays = tuple(array[start:stop] for array in self.arrays)
        return part


@lru_cache(maxsize=256)
def _program(
    scheme: Scheme, params: tuple[tuple[str, torch.dtype], ...], by_element: bool
) -> _Program | None:
    """Return the compiled arithmetic of a scheme; none where numba is not there, or torch is asked for what
    cannot be written down.
    """
    machinery = _compiled()
    if machinery is None:
        return None
    try:
        code = trace_cell(scheme, dict(params))
    except Untraceable:
        return None
    constants = np.array(code.floats, np.float64), np.array(code.integers, np.int64), code.tables.numpy()
    address = machinery.compiler().cells(code, by_element)
    sums_addresses, errors_address = (
        cache(partial(made, code, by_element))
        for made in (machinery.compiler().sums, machinery.compiler().errors)
    )
    trials_address = cache(partial(machinery.compiler().trials, code))
    names = machinery.params_of(code)
    of_ranges = cache(lambda: _block_program(scheme, names))
    code_min, ends = scheme.number_format.code_min, (float(scheme.value_min), float(scheme.value_max))
    addresses = address, sums_addresses, errors_address, trials_address
    return _Program(*addresses, of_ranges, names, constants, code_min, ends, scheme.nonfinite == "ignore")


def _block_program(scheme: Scheme, names: tuple[str, ...]) -> tuple[int, Array, Array, Array] | None:
    """Return the compiled arithmetic of blocks and the numbers that it reads; none where it cannot be written
    down.
    """
    code = _block_code(scheme, names)
    if code is None:
        return None
    return (
        _kernels().compiler().blocks(code, names),
        np.array(code.floats, np.float64),
        np.array(code.integers, np.int64),
        code.tables.numpy(),
    )


def _block_code(scheme: Scheme, names: tuple[str, ...]) -> BlockCode | None:
    try:
        code = trace_block(scheme, names)
    except Untraceable:
        return None
    # Which blocks do not fill up is not in their ends.
    return None if "short" in code.reads else code


def _program_of(scheme: Scheme, params: QParams, layout: BlockLayout) -> _Program | None:
    """Return the compiled arithmetic for these parameters."""
    return _program(scheme, _types_of(params), layout.block_shape[-1] == 1)


def _types_of(params: QParams) -> tuple[tuple[str, torch.dtype], ...]:
    return tuple((name, grid.dtype) for name, grid in block_values(params).items())


def _run_of(x: Stored, start: int, stop: int) -> Array:
    """Return a run of x as the kernels take it: read-only, whatever it is a view of."""
    run = x.run(start, stop)[:]
    if not run.flags.aligned or not run.flags.c_contiguous:
        run = run.copy()
    run.flags.writeable = False
    return run


def _bases(layout: BlockLayout, start: int, stop: int) -> Array:
    """Return the number of the first block of each row of the view's last axis that a flat run goes
    through.
    """
    length = layout.view_shape[-1]
    rest = np.arange(start // length, (stop - 1) // length + 1)
    bases, factor = np.zeros(len(rest), np.int64), layout.grid_shape[-1]
    for n, size, count in reversed(
        list(zip(layout.view_shape, layout.block_shape, layout.grid_shape, strict=True))[:-1]
    ):
        bases += rest % n // size * factor
        rest, factor = rest // n, factor * count
    return bases


def warm(scheme: Scheme, shape: Shape) -> None:
    """Compile what `measure` and `codes` need for a scheme on a tensor of `shape`, so that a later call does
    not wait for it.
    """
    layout = _in_line(scheme.layout(shape))
    program = _program(scheme, _types(scheme), layout.block_shape[-1] == 1)
    if program is not None:
        program.sums_addresses()
        program.errors_address()
        if _fills(layout):
            program.of_ranges()


def compiles(scheme: Scheme, shape: Shape, *, by_axis: bool = False) -> bool:
    """Return whether `measure` would wait for something to be compiled for a scheme on a tensor of `shape`:
    it is neither in memory nor kept in `cache_folder()`.

    >>> compiles(Scheme(), (3, 3))
    False
    """
    if math.prod(shape) <= SMALL or not fixed_ready():
        return False
    return not _known_sources(scheme, shape, by_axis=by_axis)


def _known_sources(scheme: Scheme, shape: Shape, *, by_axis: bool) -> bool:
    """Return whether all that a scheme needs on a tensor of `shape` is compiled."""
    layout = _in_line(scheme.layout(shape))
    rows = _rows_of_piece(layout, shape, _Asked(scheme, None, by_axis, None, PIECE, None))
    banded = rows < layout.view_shape[0] and _fills(layout) and scheme.calibration.of_values
    known: bool = _kernels().compiler().knows(_sources(scheme, layout.block_shape[-1] == 1, banded, by_axis))
    return known


@lru_cache(maxsize=256)
def _sources(scheme: Scheme, by_element: bool, banded: bool, by_axis: bool) -> tuple[str, ...]:
    """What is compiled for a scheme; nothing where it cannot be written down."""
    try:
        code = trace_cell(scheme, dict(_types(scheme)))
    except Untraceable:
        return ()
    blocks = _block_code(scheme, _kernels().params_of(code)) if banded else None
    sources: tuple[str, ...] = _kernels().sources_of(code, by_element, blocks, errors=by_axis)
    return sources


@lru_cache(maxsize=256)
def _types(scheme: Scheme) -> tuple[tuple[str, torch.dtype], ...]:
    """What is known of a scheme's blocks by name, whatever the tensor."""
    one = BlockLayout((1,), (1,), (1,))
    # No error, which nothing lessens.
    found = calibrated(
        Blocks(torch.ones(1), one, torch_dtype(scheme.arithmetic.scale_math)),
        scheme,
        one_by_one(lambda _: torch.zeros(1, dtype=torch.float64)),
    )
    return _types_of(qparams_of_range(found, torch.tensor(1.0), scheme, one))


def codes(
    x: Stored, scheme: Scheme, qparams: QParams, start: int, stop: int, *, path: str | None = None
) -> tuple[Array, Array, Array, Array]:
    """`q`, `x_hat`, `error` and `clipped` of the elements from `start` to before `stop` in row-major order;
    one axis each.

    `qparams` are those of the whole tensor, as `kernels.qparams` gives them. `path` forces "fused" or
    "chunked".

    >>> from quantviz.tensors.lazy import InMemory
    >>> x = InMemory(torch.tensor([1.0, 0.3, -7.0]))
    >>> [part.tolist() for part in codes(x, Scheme("int4"), qparams(x, Scheme("int4")), 1, 3)[:2]]
    [[0, -7], [0.0, -7.0]]
    """
    layout = scheme.layout(x.shape)
    fused = path == "fused" or (path is None and x.count > SMALL and scheme_ready(scheme, x.shape))
    program = _program_of(scheme, qparams, layout) if fused else None
    if program is None:
        r = _result(x, scheme, qparams, start, stop)
        return r.q.numpy(), r.x_hat.numpy(), r.error.numpy(), r.clipped.numpy()
    made = Buffers(stop - start)
    program.run(x, start, stop, layout, 0, program.of_blocks(qparams), made, None)
    q, x_hat, error, clipped, _ = made.arrays
    return q.astype(scheme.number_format.code_dtype), x_hat, error, clipped


def _result(x: Stored, scheme: Scheme, qparams: QParams, start: int, stop: int) -> QuantResult:
    """Return the reference on a run."""
    return quantize_cells(
        torch.from_numpy(np.array(x.run(start, stop))), scheme, qparams, x.shape, torch.arange(start, stop)
    )


class Coder:
    """What becomes of runs of a large tensor under a scheme, prepared once: `qparams` are those of the whole
    tensor.

    >>> x, scheme = torch.tensor([1.0, 0.3, -7.0]), Scheme("int4")
    >>> coder, made = Coder(scheme, QParams(torch.tensor([1.0]), torch.tensor([0])), (3,)), Buffers(2)
    >>> coder.put(x.numpy()[1:], 1, made)
    >>> made.arrays[0].tolist(), made.arrays[4].round(3).tolist()
    ([0, -7], [-0.3, 0.0])
    """

    def __init__(self, scheme: Scheme, qparams: QParams, shape: Shape, path: str | None = None) -> None:
        self._scheme, self._qparams, self._shape, self._layout = scheme, qparams, shape, scheme.layout(shape)
        fused = path == "fused" or (path is None and math.prod(shape) > SMALL and scheme_ready(scheme, shape))
        self._program = _program_of(scheme, qparams, self._layout) if fused else None
        self._of_blocks = self._program.of_blocks(qparams) if self._program else None

    @property
    def is_compiled(self) -> bool:
        """Whether runs go through compiled arithmetic."""
        return self._program is not None

    def errors(self, start: int, stop: int) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
        """What compiled arithmetic takes to give errors alone of elements from `start` to before `stop`, as
        `kernels.put` is given it: its address, where blocks lie, and what is known of them.
        """
        assert self._program is not None
        assert self._of_blocks is not None
        place = self._program.place(self._layout, start, stop, 0)
        return (
            self._program.errors_address(),
            place,
            (self._of_blocks, self._layout.block_count, *self._program.constants),
        )

    def put(self, values: Array, start: int, made: Buffers) -> None:
        """What the elements of the tensor from `start` on, `values`, become: as many of `made`."""
        stop = start + len(values)
        if self._program is not None and self._of_blocks is not None:
            self._program.run(
                _Held(values, start, self._shape), start, stop, self._layout, 0, self._of_blocks, made, None
            )
            return
        self.put_at(values, torch.arange(start, stop), made)

    def put_at(self, values: Array, places: torch.Tensor, made: Buffers) -> None:
        """The same of elements anywhere: `places` are theirs in row-major order. By the reference's
        operations.
        """
        r = quantize_cells(
            torch.from_numpy(np.array(values)), self._scheme, self._qparams, self._shape, places
        )
        for array, part in zip(
            made.arrays, (r.q, r.x_hat, r.error, r.clipped, steps_of_error(r)), strict=True
        ):
            array[:] = part.numpy()


class _Held(Stored):
    """A run of a tensor that was read already."""

    def __init__(self, values: Array, start: int, shape: Shape) -> None:
        self._values, self._start, self._shape = values, start, shape

    @property
    def shape(self) -> Shape:
        return self._shape

    def run(self, start: int, stop: int) -> Array:
        return self._values[start - self._start : stop - self._start]

    def read(self, index: Window) -> torch.Tensor:
        raise NotImplementedError


# ---- metrics ------------------------------------------------------------------------------------


def measure(
    x: Any,
    scheme: Scheme | str,
    *,
    qparams: QParams | None = None,
    by_axis: bool = False,
    metrics: Iterable[str] | None = None,
    path: str | None = None,
    piece: int = PIECE,
    threads: int | None = None,
    known: Facts | None = None,
) -> Measured:
    """Return the metrics of a scheme on a tensor, without making anything as large as it.

    Args:
        x: What `quantize` takes, or a `Stored`.
        scheme: The scheme, a recipe or a text form, as in `quantize`.
        qparams: Scale and zero point in place of the scheme's calibration, as in `quantize`.
        by_axis: Whether to add up Σx² and Σe² along each axis too.
        metrics: Ids of `METRICS`; all of them by `metrics=METRICS`. Where none are named, those that the one
            pass over the tensor
            gives: others, such as what needs a count of each code, take one more.
        path: One of "reference", "fused" and "chunked", to force it.
        piece: About how many elements are read at a time. Sums depend on it, in their last digits.
        threads: How many threads take part, `default_threads()` where not given. The answer has the same bits
            for any number. known: The `facts` of `x`, where they are known.

    Raises:
        QuantVizError: As `quantize` does, and for an unknown metric.

    >>> round(measure([[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]], Scheme("int8", "asymmetric")).metrics["mse"], 3)
    1.573
    """
    scheme = as_scheme(scheme)
    wanted = metrics_named(metrics)
    stored, notes = as_stored(x)
    for problem in scheme.problems(stored.shape):
        raise problem
    if path == "reference" or (path is None and not _takes_fused_path(scheme, stored.shape, by_axis=by_axis)):
        if path is None and qparams is None and isinstance(x, Stored):
            return measured(quantized(x, scheme, known), by_axis=by_axis, metrics=wanted)
        return measured(
            quantize(_whole(stored) if isinstance(x, Stored) else x, scheme, qparams=qparams),
            by_axis=by_axis,
            metrics=wanted,
        )
    if path is None and not scheme_ready(scheme, stored.shape):
        path = "chunked"
    if qparams is not None:
        scheme = scheme.replace(calibration=External())
    spent = _compiling_seconds()
    how = _Asked(scheme, qparams, by_axis, path, piece, threads)
    asked, tally = stored, None
    try:
        tally, ran = _streamed(stored, how, known)
    except QuantVizError:
        if scheme.nonfinite == "ignore" or (known or facts(stored)).found is None:
            # Said of the whole tensor, not of a part of it.
            _params_of_whole(stored, scheme, qparams, known)
            raise
    if tally is None or not tally.finite or tally.left_out:
        # What is not finite is looked for only where the sums show that there is something.
        known = known or facts(stored)
        asked, more = as_asked(x, stored, scheme, known)
        notes = (*notes, *more)
        if asked is not stored:
            known = facts(asked)
            tally, ran = _streamed(asked, how, known)
        assert tally
        if not tally.finite:
            params, at = _params_of_whole(asked, scheme, qparams, known), tally.largest_at
            value = float(codes(asked, scheme, params, at, at + 1)[1][0])
            raise infinite_value(
                value, place_of(at, stored.shape), stored.shape, params, scheme, scheme.layout(stored.shape)
            )
    if not scheme.shifted and not scheme.number_format.signed:
        negative = (known or facts(asked)).negative
        notes = (*notes, Note.of("negatives_clip", count=negative)) if negative else notes
    if _compiled() is None:
        notes = (*notes, Note.of("without_numba"))
    moments, missing = (
        tally.moments(),
        {name for metric in wanted for name in METRICS[metric].reads} - ONE_PASS,
    )
    if missing:
        params = _params_of_whole(asked, scheme, qparams, known)
        moments = dataclasses.replace(
            moments,
            **_more_moments(asked, Coder(scheme, params, asked.shape, path), missing, scheme, threads),
        )
    return Measured(
        scheme,
        stored.shape,
        scheme.layout(stored.shape),
        MappingProxyType(metrics_of(moments, bits_per_element(scheme, stored.shape), wanted)),
        ran,
        _compiling_seconds() - spent,
        notes,
        place_of(tally.largest_at, stored.shape),
        moments,
        tally.along_axes(),
        int(tally.counts[CELLS]),
    )


#: The fields of `Moments` that the one pass over a tensor gives.
ONE_PASS = frozenset(
    each.name
    for each in dataclasses.fields(Moments)
    if getattr(Tally(0, 1, ()).moments(), each.name) is not None
)


def metrics_named(ids: Iterable[str] | None) -> tuple[str, ...]:
    """Return the metrics that are asked for by id, those of one pass where none are named; `QuantVizError`
    for one there is not.
    """
    if ids is None:
        return tuple(name for name, metric in METRICS.items() if metric.reads <= ONE_PASS)
    wanted = tuple(ids)
    for name in wanted:
        if name not in METRICS:
            raise QuantVizError("unknown_metric", got=name, known=", ".join(METRICS))
    return wanted


def _takes_fused_path(scheme: Scheme, shape: Shape, *, by_axis: bool) -> bool:
    """Return whether compiled kernels answer sooner: for what is large, and from `FUSED` on where nothing
    need be compiled or imported for it.
    """
    count = math.prod(shape)
    if count <= FUSED or count > SMALL:
        return count > SMALL
    return "quantviz.compiled.kernels" in sys.modules and bool(_known_sources(scheme, shape, by_axis=by_axis))


def _more_moments(
    x: Stored, coder: Coder, wanted: Collection[str], scheme: Scheme, threads: int | None
) -> dict[str, torch.Tensor]:
    """Return those fields of `Moments` that take one more pass, which makes the cells again where their codes
    or errors are asked for.
    """
    pieces = list(_runs(x.count, PIECE))
    found: list[Moments | None] = [None] * len(pieces)
    of_cells = not {"abs_e", "code_counts"}.isdisjoint(wanted)

    def work(numbers: Iterator[int]) -> None:
        made = Buffers(CHUNK if of_cells else 0)
        for k in numbers:
            for start, stop in _runs(pieces[k][1] - pieces[k][0], CHUNK):
                start, stop = start + pieces[k][0], stop + pieces[k][0]
                own, part = x.run(start, stop), made.part(0, stop - start)
                if of_cells:
                    coder.put(own, start, part)
                moments, before = _moments_of_chunk(own, part, wanted, scheme), found[k]
                found[k] = moments if before is None else before.join(moments)

    shared_out(work, range(len(pieces)), threads)
    whole = joined(each for each in found if each is not None)
    return {name: getattr(whole, name) for name in wanted}


def _moments_of_chunk(values: Array, made: Buffers, wanted: Collection[str], scheme: Scheme) -> Moments:
    keep = np.isfinite(values) if scheme.nonfinite == "ignore" else slice(None)
    x, sums = values[keep].astype(np.float64), {}
    if not {"x", "x3", "x4"}.isdisjoint(wanted):
        square = x * x
        sums = {"x": x.sum(), "x3": (square * x).sum(), "x4": (square * square).sum()}
    found = {name: torch.tensor(total, dtype=torch.float64) for name, total in sums.items() if name in wanted}
    if "abs_e" in wanted:
        found["abs_e"] = torch.tensor(
            np.abs(made.arrays[2][keep].astype(np.float64)).sum(), dtype=torch.float64
        )
    if "code_counts" in wanted:
        fmt = scheme.number_format
        found["code_counts"] = torch.from_numpy(
            np.bincount(made.arrays[0][keep] - fmt.code_min, minlength=fmt.levels)
        ).to(torch.float64)
    return Moments(**found)


def _compiling_seconds() -> float:
    machinery = _compiled()
    return float(machinery.compiler().seconds) if machinery else 0.0


def _params_of_whole(x: Stored, scheme: Scheme, given: QParams | None, known: Facts | None) -> QParams:
    if given is None:
        return qparams(x, scheme, absmax=known.absmax if known else None)
    absmax = (known or facts(x)).absmax if scheme.arithmetic.scale.global_rule else 0.0
    return stored_qparams(given, torch.tensor(absmax), scheme, scheme.layout(x.shape))


@dataclass(frozen=True, eq=False)
class _Asked:
    """What `measure` was asked for."""

    scheme: Scheme
    given: QParams | None
    by_axis: bool
    path: str | None
    #: About how many elements a piece has.
    piece: int
    threads: int | None


def _streamed(x: Stored, asked: _Asked, known: Facts | None) -> tuple[Tally, str]:
    """Return the sums of all cells, and which path ran."""
    scheme, given = asked.scheme, asked.given
    layout, fmt = _in_line(scheme.layout(x.shape)), scheme.number_format
    rows = _rows_of_piece(layout, x.shape, asked)
    compiled = asked.path != "chunked" and _compiled() is not None
    banded = compiled and given is None and rows < layout.view_shape[0] and scheme.calibration.of_values
    absmax = torch.tensor(
        (known or facts(x)).absmax if banded and scheme.arithmetic.scale.global_rule else 0.0
    )
    whole = Tally(fmt.code_min, fmt.levels, x.shape if asked.by_axis else ())
    params: QParams | None = None if banded else _params_of_whole(x, scheme, given, known)
    types = _types(scheme) if params is None else _types_of(params)
    program = _program(scheme, types, layout.block_shape[-1] == 1) if compiled else None
    if program is None:
        params = params or _params_of_whole(x, scheme, given, known)
        return _chunked(x, asked, params, whole), "chunked"
    in_order, tallies, lines = (
        InOrder[Pieces](lambda pieces: pieces.add_to(whole)),
        [whole],
        len(whole.signal),
    )

    def tally() -> Tally:
        tallies.append(Tally(fmt.code_min, fmt.levels, x.shape if asked.by_axis else ()))
        return tallies[-1]

    def of_bands(items: Iterator[tuple[int, int]]) -> None:
        own, made, of_row = tally(), Buffers(_kernels().CHUNK), math.prod(layout.view_shape[1:])
        run = program.of_bands(x, layout, rows * of_row, float(absmax), made, own)
        for first, last in items:
            pieces = Pieces(last - first, rows * of_row, lines)
            row, end = first * rows, min(last * rows, layout.view_shape[0])
            while row < end:
                k = row // rows
                row = (
                    run(row * of_row, end * of_row, (row - k * rows) * of_row, _rest_of(pieces, k - first))
                    // of_row
                )
                if row < end:
                    # A band that must be looked at more closely, and the rest of its piece.
                    k = row // rows
                    upto = min((k + 1) * rows, end)
                    part = _banded(layout, row, upto)
                    found = _ranges(
                        _Band(x, row * of_row, part.view_shape), scheme, part, asked.piece, alone=True
                    )
                    of_band = qparams_of_range(found, absmax, scheme, part)
                    to = pieces.of(k - first, own)
                    program.run(
                        x,
                        row * of_row,
                        upto * of_row,
                        part,
                        row * of_row,
                        program.of_blocks(of_band),
                        made,
                        to,
                    )
                    row = upto
            in_order.put(first, pieces, last - first)

    def of_runs(items: Iterator[tuple[int, int]]) -> None:
        assert params is not None
        own, made, flat = tally(), Buffers(_kernels().CHUNK), program.of_blocks(params)
        for first, last in items:
            pieces = Pieces(last - first, size, lines)
            program.of_pieces(x, first * size, min(last * size, x.count), layout, flat, made, own, pieces)
            in_order.put(first, pieces, last - first)

    size = _size_of_piece(x.shape, asked)
    count, most = (
        (-(-layout.view_shape[0] // rows) if banded else -(-x.count // size)),
        max(1, _MOST_LINES // max(lines, 1)),
    )
    shares = _shares(count, 1, in_place=x.in_place, threads=asked.threads)
    shares = (
        (start, min(start + most, last)) for first, last in shares for start in range(first, last, most)
    )
    shared_out(of_bands if banded else of_runs, shares, asked.threads)
    return whole.join(tallies[1:]), "fused"


def _chunked(x: Stored, asked: _Asked, params: QParams, whole: Tally) -> Tally:
    """Return the same by the reference's operations. The sums of a piece follow from the plan alone."""
    in_order, size = InOrder[Pieces](lambda pieces: pieces.add_to(whole)), _size_of_piece(x.shape, asked)
    tallies: list[Tally] = []

    def work(pieces: Iterator[tuple[int, int]]) -> None:
        tallies.append(Tally(whole.code_min, len(whole.seen), tuple(whole.shape.tolist())))
        for begin, end in pieces:
            own = Pieces(1, size, len(whole.signal))
            to = own.of(0, tallies[-1])
            for start, stop in _runs(end - begin, min(CHUNK, size)):
                to.add(_result(x, asked.scheme, params, begin + start, begin + stop), begin + start)
            in_order.put(begin // size, own)

    shared_out(work, _runs(x.count, size), asked.threads)
    return whole.join(tallies)


#: Lines whose sums are kept at once by a thread: 16 bytes each.
_MOST_LINES = 2**20


def _size_of_piece(shape: Shape, asked: _Asked) -> int:
    """Return how many elements a planned piece has: many times as many as it has sums of lines, so that these
    take no time.
    """
    return max(asked.piece, 128 * sum(shape) if asked.by_axis else 0)


def _rows_of_piece(layout: BlockLayout, shape: Shape, asked: _Asked) -> int:
    """Return how many rows of the view a planned piece has: whole bands."""
    size = _size_of_piece(shape, asked)
    band = _rows_of_band(layout, min(BAND, size))
    return max(_rows_of_band(layout, size) // band, 1) * band


def _rest_of(pieces: Pieces, k: int) -> Pieces:
    """Return those from the k-th on, in the same memory."""
    rest = Pieces(0, pieces.size, 0)
    sums, signal, noise = pieces.arrays
    rest.arrays = sums[k:], signal[k:], noise[k:]
    return rest


def measured(r: QuantResult, *, by_axis: bool = False, metrics: Iterable[str] | None = None) -> Measured:
    """Return the same of a result that is there already: path "reference"."""
    errors = r.error.abs()
    errors = errors if r.counted is None else errors.masked_fill(~r.counted, -1)
    axes = tuple(Moments.along(r, axis) for axis in range(r.x.dim() if by_axis else 0))
    largest, counted = (
        place_of(int(errors.argmax()), r.shape),
        r.x.numel() if r.counted is None else int(r.counted.sum()),
    )
    moments = Moments.of(r)
    found = MappingProxyType(
        metrics_of(moments, bits_per_element(r.scheme, r.tensor_shape), metrics_named(metrics))
    )
    return Measured(
        r.scheme, r.shape, r.layout, found, "reference", 0.0, r.notes, largest, moments, axes, counted
    )


def quantized(x: Stored, scheme: Scheme, known: Facts | None = None) -> QuantResult:
    """Return what `quantize` gives, with ranges that must be searched for found by compiled kernels, where
    those answer sooner.

    `known` are the `facts` of x, where they are at hand.

    >>> from quantviz.tensors.lazy import InMemory
    >>> quantized(InMemory(torch.tensor([1.0, 0.3, -7.0])), Scheme("int4")).q.tolist()
    [1, 0, -7]
    """
    if scheme.calibration.of_values or x.count <= FUSED or not fixed_ready():
        return quantize(_whole(x), scheme)
    known = known or facts(x)
    if known.found is not None and scheme.nonfinite == "refuse":
        return quantize(_whole(x), scheme)
    asked, _ = as_asked(x, x, scheme, known)
    return quantize_in_ranges(_whole(x), scheme, ranges(asked, scheme, absmax=known.absmax))


def as_asked(x: Any, stored: Stored, scheme: Scheme, known: Facts) -> tuple[Stored, tuple[Note, ...]]:
    """Return the tensor as the scheme wants NaN and Inf to be, and what is to be said of it."""
    found = known.found
    if found is None:
        return stored, ()
    if scheme.nonfinite == "refuse" and not isinstance(x, Stored):
        # It may have been finite before it became float32.
        as_input(x, scheme.nonfinite)
    if scheme.nonfinite == "refuse":
        raise found.refusal()
    if scheme.nonfinite == "ignore":
        return stored, (found.left_out(),)
    if found.count == stored.count:
        raise QuantVizError("input_nothing_finite", count=found.count)
    return Replaced(stored, known.lo, known.hi), (found.clipped(known.lo, known.hi),)


def place_of(flat: int, shape: Shape) -> Shape:
    """Return the index of the element at a place in row-major order.

    >>> place_of(5, (2, 3))
    (1, 2)
    """
    index: Shape = ()
    for n in reversed(shape):
        index, flat = (flat % n, *index), flat // n
    return index


def _shares(
    count: int, least: int, step: int = 1, *, in_place: bool, threads: int | None = None
) -> Iterator[tuple[int, int]]:
    """From … to, for threads to take one after the other: `least` each, a multiple of `step`; where nothing
    is copied, as much as half of what each thread has before it, since for each of them the interpreter is
    waited for, which others may use.

    >>> list(_shares(10, 4, in_place=False))
    [(0, 4), (4, 8), (8, 10)]
    """
    start, threads = 0, threads or default_threads()
    while start < count:
        size = max(least, (count - start) // (2 * threads) // step * step if in_place else 0)
        yield start, min(start + size, count)
        start += size


def _runs(stop: int, size: int, start: int = 0) -> Iterator[tuple[int, int]]:
    return ((at, min(at + size, stop)) for at in range(start, stop, size))


def _whole(x: Stored) -> torch.Tensor:
    return x.read((slice(None),) * len(x.shape))
