"""Passes over a tensor that add up its sums under a scheme: by compiled arithmetic, or by the reference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from quantviz.compiled.partial_sums import Tally
from quantviz.quantization.qparams import qparams_of_range, stored_qparams
from quantviz.quantization.result import QParams
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits
from quantviz.streaming.coding import reference_on_run
from quantviz.streaming.pieces import Buffers, PieceSums, rows_of_piece, size_of_piece
from quantviz.streaming.programs import CompiledScheme, compiled_program, types_of_params, types_of_scheme
from quantviz.streaming.ranges import qparams, ranges_of_values
from quantviz.streaming.regions import RowBand, in_line, layout_of_rows, run_of
from quantviz.streaming.tensor_facts import Facts, facts
from quantviz.streaming.threads import InOrder, runs_between, shared_out, shares_of
from quantviz.tensors.lazy import Stored

#: Lines whose sums a thread holds at a time: 16 bytes each.
_MOST_LINES = 2**20


@dataclass(frozen=True, eq=False)
class Measurement:
    """A tensor to measure under a scheme; facts and parameters are computed at first use."""

    #: As the caller gave it.
    source: Any
    #: Rounded to the dtype that the scheme names.
    x: Stored
    scheme: Scheme
    #: In place of the scheme's calibration.
    given: QParams | None
    by_axis: bool
    #: "reference", "fused" or "chunked", if it is forced.
    path: str | None
    #: About so many elements.
    piece: int
    threads: int | None
    #: Of `x`, if they were computed before.
    known: Facts | None
    #: In the first pass.
    counts_codes: bool = False

    @property
    def shape(self) -> Shape:
        return self.x.shape

    @cached_property
    def facts(self) -> Facts:
        return self.known or facts(self.x)

    @cached_property
    def absmax(self) -> float:
        # Only if the scheme's scales depend on it.
        return self.facts.absmax if self.scheme.arithmetic.scale.depends_on_tensor else 0.0

    @cached_property
    def params(self) -> QParams:
        """Return scale and zero point of each block; raise `QuantVizError` if the scheme refuses them."""
        if self.given is None:
            return qparams(self.x, self.scheme, absmax=self.absmax)
        return stored_qparams(
            self.given, torch.tensor(self.absmax), self.scheme, self.scheme.layout(self.shape)
        )

    @cached_property
    def layout(self) -> BlockLayout:
        # As kernels read it.
        return in_line(self.scheme.layout(self.shape))

    @cached_property
    def piece_size(self) -> int:
        return size_of_piece(self.shape, self.piece, by_axis=self.by_axis)

    @cached_property
    def piece_rows(self) -> int:
        # Of the view, in whole bands.
        return rows_of_piece(self.layout, self.shape, self.piece, by_axis=self.by_axis)

    @cached_property
    def is_banded(self) -> bool:
        """Return whether compiled code finds the ranges of bands while it adds up."""
        return (
            self.given is None
            and self.piece_rows < self.layout.view_shape[0]
            and self.scheme.calibration.of_values
        )

    def tally(self, room: int = 0) -> Tally:
        # `room` is for codes on their way to their counts.
        fmt = self.scheme.number_format
        return Tally(fmt.code_min, fmt.levels, self.shape if self.by_axis else (), room=room)


def pass_over(job: Measurement) -> Fused | Chunked:
    """Return the pass that adds up the sums: by compiled code, unless forced or missing.

    Raises:
        QuantVizError: The scheme refuses the tensor.
    """
    if job.path == "chunked" or not kernel_access.has_kernels():
        return Chunked(job)
    types = types_of_scheme(job.scheme) if job.is_banded else types_of_params(job.params)
    by_element = job.layout.block_shape[-1] == 1
    program = compiled_program(job.scheme, types, by_element, job.counts_codes)
    return Chunked(job) if program is None else Fused(job, program)


class Chunked:
    """A pass by the reference's own operations; the plan alone decides a piece's sums."""

    path = "chunked"

    def __init__(self, job: Measurement) -> None:
        self._job = job
        self._whole = job.tally()
        self._of_threads: list[Tally] = []
        self._in_order = InOrder[PieceSums](lambda pieces: pieces.add_to(self._whole))

    def tally(self) -> Tally:
        job = self._job
        _ = job.params  # computed before the threads begin
        shared_out(self._add, runs_between(job.x.count, job.piece_size), job.threads)
        return self._whole.join(self._of_threads)

    def _add(self, pieces: Iterator[tuple[int, int]]) -> None:
        job = self._job
        size = job.piece_size
        of_thread = job.tally()
        self._of_threads.append(of_thread)
        for begin, end in pieces:
            sums = PieceSums(1, size, len(self._whole.signal))
            of_piece = sums.of(0, of_thread)
            for start, stop in runs_between(end, min(limits.CHUNK, size), begin):
                of_piece.add(reference_on_run(job.x, job.scheme, job.params, start, stop), start)
            self._in_order.put(begin // size, sums)


class Fused:
    """A pass by compiled arithmetic, which finds the ranges of bands on the way or has all."""

    path = "fused"

    def __init__(self, job: Measurement, program: CompiledScheme) -> None:
        self._job = job
        self._program = program
        self._room = _room_for_codes(job.layout) if program.counted else 0
        self._whole = job.tally(self._room)
        self._lines = len(self._whole.signal)
        self._of_threads: list[Tally] = []
        self._in_order = InOrder[PieceSums](lambda pieces: pieces.add_to(self._whole))

    def tally(self) -> Tally:
        job = self._job
        if job.is_banded:
            add = self._add_bands
            count = -(-job.layout.view_shape[0] // job.piece_rows)
        else:
            add = self._add_runs
            count = -(-job.x.count // job.piece_size)
        most = max(1, _MOST_LINES // max(self._lines, 1))
        shares = (
            (start, min(start + most, stop))
            for first, stop in shares_of(count, 1, in_place=job.x.in_place, threads=job.threads)
            for start in range(first, stop, most)
        )
        shared_out(add, shares, job.threads)
        return self._whole.join(self._of_threads)

    def _of_thread(self) -> tuple[Tally, Buffers]:
        from quantviz.compiled import driving

        tally = self._job.tally(self._room)
        self._of_threads.append(tally)
        return tally, Buffers(driving.CELLS_TOGETHER)

    def _add_runs(self, shares: Iterator[tuple[int, int]]) -> None:
        # Ranges are the whole tensor's.
        job = self._job
        size = job.piece_size
        tally, buffers = self._of_thread()
        of_blocks = self._program.of_blocks(job.params)
        for first, last in shares:
            pieces = PieceSums(last - first, size, self._lines)
            values = run_of(job.x, first * size, min(last * size, job.x.count))
            self._program.of_pieces(values, first * size, job.layout, of_blocks, buffers, tally, pieces)
            self._in_order.put(first, pieces, last - first)

    def _add_bands(self, shares: Iterator[tuple[int, int]]) -> None:
        # Ranges are found on the way.
        job = self._job
        rows = job.piece_rows
        of_row = math.prod(job.layout.view_shape[1:])
        tally, buffers = self._of_thread()
        run = self._program.of_bands(job.x, job.layout, rows * of_row, job.absmax, buffers, tally)
        for first, last in shares:
            pieces = PieceSums(last - first, rows * of_row, self._lines)
            row = first * rows
            end = min(last * rows, job.layout.view_shape[0])
            while row < end:
                k = row // rows
                finished = (row - k * rows) * of_row
                row = run(row * of_row, end * of_row, finished, pieces.from_piece(k - first)) // of_row
                if row < end:
                    # The kernel stopped at a band that needs the reference's ranges.
                    k = row // rows
                    stop = min((k + 1) * rows, end)
                    self._add_rows(row, stop, buffers, pieces.of(k - first, tally))
                    row = stop
            self._in_order.put(first, pieces, last - first)

    def _add_rows(self, first: int, last: int, buffers: Buffers, tally: Tally) -> None:
        # Ranges are the reference's.
        job = self._job
        of_row = math.prod(job.layout.view_shape[1:])
        start = first * of_row
        layout = layout_of_rows(job.layout, first, last)
        band = RowBand(job.x, start, layout.view_shape)
        found = ranges_of_values(band, job.scheme, layout, job.piece, alone=True)
        params = qparams_of_range(found, torch.tensor(job.absmax), job.scheme, layout)
        values = run_of(job.x, start, last * of_row)
        of_blocks = self._program.of_blocks(params)
        self._program.run(values, start, layout, of_blocks, buffers, tally, offset=start)


def _room_for_codes(layout: BlockLayout) -> int:
    # Kernels keep codes before they count them.
    from quantviz.compiled import driving
    from quantviz.compiled.run_kernels import ROWS

    return max(driving.UNIT, ROWS * layout.view_shape[-1] if layout.block_shape[-1] == 1 else 0)
