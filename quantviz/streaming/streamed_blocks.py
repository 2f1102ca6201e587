"""`Blocks` for calibrations, of a tensor that is read a part at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.schemes.calibration import BlockSource
from quantviz.schemes.granularity import BlockLayout
from quantviz.streaming import limits
from quantviz.streaming.kernel_access import fixed_ready, wait_for_kernels
from quantviz.streaming.regions import bases_of, read_window, run_of, windows_of
from quantviz.streaming.threads import runs_between, shared_out, shares_of
from quantviz.tensors.blocks import STRETCH, Blocks, Join, Rows, block_sizes, viewed
from quantviz.tensors.lazy import Stored

Array = npt.NDArray[Any]

#: Values whose lower halves are counted at once.
_AT_ONCE = 2**18


class StreamedBlocks:
    """The statistics of `Blocks`. Needs numba; where its kernels are not waited for, windows are computed."""

    def __init__(
        self,
        x: Stored,
        layout: BlockLayout,
        dtype: torch.dtype,
        *,
        finite_only: bool,
        absolute: bool = False,
        alone: bool = False,
        piece: int = limits.PIECE,
    ) -> None:
        self._x = x
        self._layout = layout
        self._dtype = dtype
        self._finite_only = finite_only
        self._absolute = absolute
        self._threads = 1 if alone else None
        self._piece = piece
        self._ends: tuple[torch.Tensor, torch.Tensor] | None = None
        self._one = layout.block_count == 1 and layout.tail != "pad"

    def min_max(self) -> tuple[torch.Tensor, torch.Tensor]:
        lo, hi = self._block_ends()
        return lo.to(self._dtype), hi.to(self._dtype)

    def extreme(self) -> torch.Tensor:
        if not fixed_ready() and not self._one:
            return self._by_window(lambda blocks: (blocks.extreme(),), 1)[0]
        lo, hi = self._block_ends()
        extreme = torch.where(hi > -lo, hi, lo)
        ties = hi == -lo
        if bool(ties.any()):
            flat = extreme.flatten().numpy().copy()
            wanted = ties.flatten().numpy().copy()
            sizes = extreme.abs().flatten().numpy()
            for start, stop in runs_between(self._x.count, self._piece):
                if not fixed_ready():
                    values = self._x.run(start, stop)
                    places = np.flatnonzero(np.abs(values) == sizes[0])
                    if len(places):
                        flat[0] = values[places[0]]
                        wanted[0] = False
                        break
                    continue
                from quantviz.compiled import run_kernels

                run = run_of(self._x, start, stop)
                run_kernels.find_firsts(run, self._place(start, stop), sizes, wanted, flat)
                if not wanted.any():
                    break
            extreme = viewed(torch.from_numpy(flat), self._layout.grid_shape)
        return extreme.to(self._dtype)

    def magnitudes(self) -> StreamedBlocks:
        return StreamedBlocks(
            self._x,
            self._layout,
            self._dtype,
            finite_only=self._finite_only,
            absolute=True,
            alone=self._threads == 1,
            piece=self._piece,
        )

    def percentiles(self, *percents: float) -> tuple[torch.Tensor, ...]:
        if self._one and self._x.count > self._piece:
            wait_for_kernels()
            return self._percentiles_of_one(percents)
        return self._by_window(
            lambda blocks: (blocks.magnitudes() if self._absolute else blocks).percentiles(*percents),
            len(percents),
        )

    def mean_magnitude(self) -> torch.Tensor:
        if self._one:
            wait_for_kernels()
            from quantviz.compiled.run_kernels import add_exactly

            partials = np.zeros(128)
            count = 0
            for start, stop in runs_between(self._x.count, self._piece):
                run = run_of(self._x, start, stop)
                add_exactly(run, self._finite_only, partials)
                count += int(np.isfinite(run).sum()) if self._finite_only else run.size
            mean = torch.tensor(math.fsum(partials[1 : 1 + int(partials[0])]), dtype=torch.float64) / max(
                count, 1
            )
            return mean.expand(self._layout.grid_shape).to(self._dtype).clone()
        return self._by_window(lambda blocks: (blocks.mean_magnitude(),), 1)[0]

    def constant(self, value: float) -> torch.Tensor:
        return torch.full(self._layout.grid_shape, value, dtype=torch.float64).to(self._dtype)

    def by_parts(
        self, answer: Callable[[BlockSource], tuple[torch.Tensor, ...]], count: int, most: int
    ) -> tuple[torch.Tensor, ...]:
        """Return results of `answer` for each block, float64, from `most` blocks at a time."""
        grid = self._layout.grid_shape
        if self._one:
            answers_of_one = answer(_OneBlock(self._runs, self._block_ends(), self._x.count, self._threads))
            return tuple(
                viewed(answer_of_blocks.to(torch.float64), grid) for answer_of_blocks in answers_of_one
            )
        numbers = viewed(torch.arange(self._layout.block_count), grid)
        answers = tuple(torch.zeros(self._layout.block_count, dtype=torch.float64) for _ in range(count))

        def of_window(blocks: Blocks, place: tuple[slice, ...]) -> None:
            block_numbers = numbers[place].flatten()
            for rows in (blocks.magnitudes() if self._absolute else blocks).rows(most):
                there = Rows(block_numbers[rows.numbers], rows.values)
                for whole, part in zip(answers, answer(there), strict=True):
                    whole[there.numbers] = part.to(torch.float64)

        self._in_windows(of_window)
        return tuple(viewed(whole, grid) for whole in answers)

    def _runs(self, start: int, stop: int) -> torch.Tensor:
        # NaN where a value does not count.
        run = np.array(self._x.run(start, stop))
        if self._finite_only:
            run[~np.isfinite(run)] = np.nan
        return torch.from_numpy(np.abs(run) if self._absolute else run)

    def _place(self, start: int, stop: int) -> tuple[int, int, int, int, Array]:
        # An argument of kernels: see `run_kernels.find_ends`.
        length = self._layout.view_shape[-1]
        width = self._layout.block_shape[-1]
        return start, length, width, start // length, bases_of(self._layout, start, stop)

    def _block_ends(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._ends is None and not fixed_ready():
            self._ends = self._ends_without_kernels()
        if self._ends is None:
            from quantviz.compiled import run_kernels

            layout = self._layout
            grids: list[tuple[Array, Array]] = []

            def work(runs: Iterator[tuple[int, int]]) -> None:
                lo = np.full(layout.block_count, 0x7FFFFFFF, np.int32)
                hi = np.full(layout.block_count, -0x80000000, np.int32)
                grids.append((lo, hi))
                for start, stop in runs:
                    run = run_of(self._x, start, stop)
                    run_kernels.find_ends(run, self._place(start, stop), self._finite_only, lo, hi)

            shared_out(work, shares_of(self._x.count, self._piece, in_place=self._x.in_place), self._threads)
            low, high = grids[0]
            for more_low, more_high in grids[1:]:
                np.minimum(low, more_low, out=low)
                np.maximum(high, more_high, out=high)
            lo = run_kernels.numbers_of(low)
            hi = run_kernels.numbers_of(high)
            if self._finite_only:
                lo, hi = (np.where(low > high, np.float32(0), ends) for ends in (lo, hi))
            ends = tuple(viewed(torch.from_numpy(keys), layout.grid_shape) for keys in (lo, hi))
            if layout.tail == "pad":
                part = block_sizes(layout) < layout.block_size
                ends = (
                    torch.where(part, ends[0].clamp(max=0), ends[0]),
                    torch.where(part, ends[1].clamp(min=0), ends[1]),
                )
            self._ends = ends[0], ends[1]
        return self._ends

    def _ends_without_kernels(self) -> tuple[torch.Tensor, torch.Tensor]:
        if not self._one:
            lo, hi = self._by_window(lambda blocks: blocks.min_max(), 2)
            return lo.to(torch.float32), hi.to(torch.float32)
        ends_found: list[tuple[float, float]] = []

        def work(runs: Iterator[tuple[int, int]]) -> None:
            for start, stop in runs:
                run = self._x.run(start, stop)
                if self._finite_only:
                    run = run[np.isfinite(run)]
                if len(run):
                    ends_found.append((float(run.min()), float(run.max())))

        shared_out(work, runs_between(self._x.count, self._piece), self._threads)
        ends = (
            (min(lo for lo, _ in ends_found), max(hi for _, hi in ends_found)) if ends_found else (0.0, 0.0)
        )
        lo, hi = (torch.full(self._layout.grid_shape, end, dtype=torch.float32) for end in ends)
        return lo, hi

    def _by_window(
        self, statistics: Callable[[Blocks], tuple[torch.Tensor, ...]], count: int
    ) -> tuple[torch.Tensor, ...]:
        # Window after window.
        answers = tuple(self.constant(0.0) for _ in range(count))

        def of_window(blocks: Blocks, place: tuple[slice, ...]) -> None:
            for answer, part in zip(answers, statistics(blocks), strict=True):
                answer[place] = part

        self._in_windows(of_window)
        return answers

    def _in_windows(self, take: Callable[[Blocks, tuple[slice, ...]], None]) -> None:
        # `take` gets each window's blocks and their place in the grid.

        def work(windows: Iterator[tuple[tuple[slice, ...], BlockLayout, tuple[slice, ...]]]) -> None:
            for window, layout, place in windows:
                values = read_window(self._x, self._layout, window)
                counted = torch.isfinite(values) if self._finite_only else None
                take(Blocks(values, layout, self._dtype, counted), place)

        shared_out(work, windows_of(self._layout, self._piece), self._threads)

    def _percentiles_of_one(self, percents: tuple[float, ...]) -> tuple[torch.Tensor, ...]:
        """Count values by their upper 16 bits, then those around the wanted places by all."""
        from quantviz.compiled import run_kernels

        counts: list[Array] = []

        def count(runs: Iterator[tuple[int, int]]) -> None:
            tops = np.zeros(1 << 16, np.int64)
            counts.append(tops)
            for start, stop in runs:
                run_kernels.count_tops(run_of(self._x, start, stop), self._absolute, self._finite_only, tops)

        shared_out(count, shares_of(self._x.count, self._piece, in_place=self._x.in_place))
        ends = np.cumsum(sum(counts))
        last = torch.tensor(float(ends[-1] - 1), dtype=torch.float64).clamp(min=0)
        if not ends[-1]:
            return tuple(self.constant(0.0) for _ in percents)
        places = [last * percent / 100 for percent in percents]
        below = [place.floor() for place in places]
        wanted = [int(at) for index in below for at in (index, torch.minimum(index + 1, last))]
        tops = np.searchsorted(ends, wanted, side="right")
        marked = np.zeros(1 << 16, np.bool_)
        marked[tops] = True
        kept = np.flatnonzero(marked)
        index = np.cumsum(marked, dtype=np.int32) - 1
        tables: list[Array] = []

        def pick(runs: Iterator[tuple[int, int]]) -> None:
            # Counted by their lower 16 bits, since most of a tensor may be one number.
            table = np.zeros(len(kept) << 16, np.int64)
            tables.append(table)
            for start, stop in runs:
                run = run_of(self._x, start, stop)
                values = np.empty(run.size, np.float32)
                n = run_kernels.pick_tops(run, self._absolute, self._finite_only, marked, values)
                for first in range(0, n, _AT_ONCE):
                    raw = values[first : min(first + _AT_ONCE, n)].view(np.int32)
                    keys = raw ^ ((raw >> 31) & 0x7FFFFFFF)
                    at = index[(keys >> 16) + 0x8000] << 16 | keys & 0xFFFF
                    table += np.bincount(at, minlength=len(table))

        shared_out(pick, runs_between(self._x.count, self._piece))
        # The first place of each upper half's values among the picked ones.
        sizes = np.diff(ends, prepend=0) * marked
        begins = np.cumsum(sizes) - sizes
        ranks = [begins[top] + at - (ends[top] - sizes[top]) for top, at in zip(tops, wanted, strict=True)]
        found = np.searchsorted(np.cumsum(sum(tables)), ranks, side="right")
        keys = (kept[found >> 16] - 0x8000 << 16) + (found & 0xFFFF)
        ordered = torch.from_numpy(run_kernels.numbers_of(keys).astype(np.float64)).unbind()
        answers = (
            lower + (upper - lower) * (place - low)
            for place, low, lower, upper in zip(places, below, ordered[::2], ordered[1::2], strict=True)
        )
        return tuple(answer.expand(self._layout.grid_shape).to(self._dtype).clone() for answer in answers)


class _OneBlock:
    """The whole tensor as a block: see `calibration_protocol.BlockSource`."""

    def __init__(
        self,
        runs: Callable[[int, int], torch.Tensor],
        ends: tuple[torch.Tensor, torch.Tensor],
        count: int,
        threads: int | None,
    ) -> None:
        self._runs = runs
        self._count = count
        self._threads = threads
        self.numbers = torch.zeros(1, dtype=torch.int64)
        self.ends = ends[0].flatten(), ends[1].flatten()

    def added_up(self, of_rows: Callable[..., torch.Tensor], *of_blocks: torch.Tensor) -> torch.Tensor:
        return self.joined(of_rows, torch.add, *of_blocks)

    def joined(
        self, of_rows: Callable[..., torch.Tensor], join: Join, *of_blocks: torch.Tensor
    ) -> torch.Tensor:
        columns = [column.unsqueeze(-1) for column in of_blocks]
        stretches = list(runs_between(self._count, STRETCH))
        sums = [torch.empty(0)] * len(stretches)

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                sums[k] = of_rows(self._runs(*stretches[k]).unsqueeze(0), *columns)

        shared_out(work, range(len(stretches)), self._threads)
        return reduce(join, sums)
