"""The squared error of each block with one range or several, for calibrations that search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.compiled.hand_written import by_hand
from quantviz.quantization.calibrating import finite_or_infinite, one_by_one, powers
from quantviz.quantization.cells import errors_of_cells
from quantviz.quantization.qparams import params_to_try, reach
from quantviz.quantization.result import QParams, block_values
from quantviz.schemes.calibration import MinMax, Range
from quantviz.schemes.granularity import BlockLayout
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import limits
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.programs import CompiledScheme, compiled_program, program_of, types_of_scheme
from quantviz.streaming.readiness import scheme_ready
from quantviz.streaming.regions import ElementRange, bases_of, in_line, run_of
from quantviz.streaming.threads import InOrder, runs_between, shared_out
from quantviz.tensors.blocks import block_numbers, viewed

Array = npt.NDArray[Any]


class BlockTrial:
    """Σ |error|^power of each block of a tensor or band: see `calibration_protocol.Context.trial`.

    The plan alone decides which terms are added up together: the result has the same bits for any number of
    threads.
    """

    def __init__(
        self,
        run: ElementRange,
        scheme: Scheme,
        absmax: Callable[[], torch.Tensor],
        *,
        alone: bool,
        piece: int,
    ) -> None:
        self._run = run
        self._layout = run.layout
        self._scheme = scheme
        self._absmax = absmax
        self._threads = 1 if alone else None
        self._cells = in_line(run.layout)
        # Whole lines, or parts of one, with many cells for each block: every trial has sums of each.
        length = self._cells.view_shape[-1]
        size = max(piece, _CELLS_A_BLOCK * run.layout.block_count)
        if length <= size:
            lines = [(run.start, run.stop)]
            step = max(size // length, 1) * length
        else:
            lines = list(runs_between(run.stop, length, run.start))
            step = size
        self._pieces = [each for begin, end in lines for each in runs_between(end, step, begin)]

    def __call__(
        self, ranges: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0
    ) -> torch.Tensor:
        program = self._program if power == 2 else None
        if program is None:
            return one_by_one(self._by_reference)(ranges, of, power=power)
        params, refused = params_to_try(ranges, self._absmax(), self._scheme, self._layout, of)
        count = self._layout.block_count
        begins, of_trial, places = _side_by_side(np.arange(count) if of is None else of.numpy(), count)
        values = block_values(params)
        columns = (
            values[name].to(torch.float64).expand(refused.shape).flatten().numpy() for name in program.params
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

    def reach(self, ranges: Range, of: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        return reach(params_to_try(ranges, self._absmax(), self._scheme, self._layout, of)[0], self._scheme)

    def _added_up(self, count: int, of_piece: Callable[[int, int], Array]) -> Array:
        total = np.zeros(count)
        in_order = InOrder[Array](lambda sums: np.add(total, sums, out=total))

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                in_order.put(k, of_piece(*self._pieces[k]))

        shared_out(work, range(len(self._pieces)), self._threads)
        return total

    @property
    def _compiles(self) -> bool:
        return self._run.x.count > limits.SMALL and scheme_ready(self._ranged, self._run.x.shape)

    @property
    def _ranged(self) -> Scheme:
        # A range's scale does not depend on the calibration.
        return self._scheme.replace(calibration=MinMax())

    @property
    def _program(self) -> CompiledScheme | None:
        ranged = self._ranged
        if not by_hand("sums"):
            return None
        return compiled_program(ranged, types_of_scheme(ranged), self._layout.block_shape[-1] == 1)

    def _noises(
        self, program: CompiledScheme, start: int, stop: int, begins: Array, of_trials: tuple[Any, ...]
    ) -> Array:
        from quantviz.compiled import trials

        length = self._cells.view_shape[-1]
        width = self._cells.block_shape[-1]
        first = start - self._run.offset
        noises = np.zeros(begins[-1])
        bases = bases_of(self._cells, first, stop - self._run.offset)
        chance = self._scheme.arithmetic.ties == "stochastic"
        place = start, min(length, stop - start), first % length, width, bases, begins
        trials.add_noises(
            program.trials_address(),
            run_of(self._run.x, start, stop),
            place,
            of_trials,
            program.leaves_out,
            chance,
            noises,
        )
        return noises

    def _by_reference(self, ranges: Range, power: float) -> torch.Tensor:
        params, refused = params_to_try(ranges, self._absmax(), self._scheme, self._layout)
        program = program_of(self._scheme, params, self._layout) if self._compiles else None
        of_blocks = None if program is None else program.of_blocks(params)

        def errors(start: int, stop: int) -> torch.Tensor:
            if program is None or of_blocks is None:
                return self._errors_by_reference(params, start, stop)
            buffers = Buffers(stop - start)
            values = run_of(self._run.x, start, stop)
            program.run(values, start, self._layout, of_blocks, buffers, offset=self._run.offset)
            return torch.from_numpy(buffers.arrays[2])

        sums = self._added_up(
            self._layout.block_count, lambda start, stop: self._noise(errors, power, start, stop)
        )
        return finite_or_infinite(viewed(torch.from_numpy(sums), self._layout.grid_shape), refused)

    def _noise(
        self, errors: Callable[[int, int], torch.Tensor], power: float, start: int, stop: int
    ) -> Array:
        total = np.zeros(self._layout.block_count)
        for at, end in runs_between(stop, limits.CHUNK, start):
            error = errors(at, end)
            if self._scheme.leaves_out:
                error = error.masked_fill(~torch.from_numpy(np.isfinite(self._run.x.run(at, end))), 0)
            places = torch.arange(at - self._run.offset, end - self._run.offset)
            first = _first_of_blocks(at - self._run.offset, end - self._run.offset, self._cells)
            numbers = block_numbers(places if first is None else places[first], self._layout).numpy()
            sums = powers(error, power).numpy()
            sums = sums if first is None else np.add.reduceat(sums, first)
            total += np.bincount(numbers, weights=sums, minlength=len(total))
        return total

    def _errors_by_reference(self, params: QParams, start: int, stop: int) -> torch.Tensor:
        return errors_of_cells(
            torch.from_numpy(np.array(run_of(self._run.x, start, stop))),
            self._scheme,
            params,
            self._layout,
            torch.arange(start, stop),
            self._run.offset,
        )


def _first_of_blocks(start: int, stop: int, layout: BlockLayout) -> Array | None:
    """Return the places in a flat run where another block begins; None if blocks are one wide.

    >>> _first_of_blocks(3, 12, BlockLayout((2, 6), (1, 4), (2, 2)))
    array([0, 1, 3, 7])
    """
    length = layout.view_shape[-1]
    width = layout.block_shape[-1]
    if width == 1:
        return None
    lines = np.arange(start // length, -(-stop // length))[:, None] * length
    begins = (lines + np.arange(0, length, width)).ravel()
    return np.concatenate([[start], begins[(begins > start) & (begins < stop)]]) - start


#: Least cells of a piece for each block, because every trial has sums of every block.
_CELLS_A_BLOCK = 256


def _side_by_side(of: Array, blocks: int) -> tuple[Array, Array, Array]:
    """Return trials in whole vectors of one block each, repeating one if needed.

    `of` are the blocks of the trials, ascending. The result is the first place of each block and the end, the
    trial at each place, and the place of each trial.
    """
    from quantviz.compiled.lanes import WIDTH

    counts = np.bincount(of, minlength=blocks)
    sizes = -(-counts // WIDTH) * WIDTH
    before = np.cumsum(counts) - counts
    begins = np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(len(of)) + np.repeat(begins[:-1] - before, counts)
    of_trial = np.repeat(before, sizes)
    of_trial[places] = np.arange(len(of))
    return begins, of_trial, places
