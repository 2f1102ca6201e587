"""A scheme's compiled arithmetic, and its runs on cells, pieces and bands."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.compiled.partial_sums import Tally
from quantviz.compiled.short_grids import short_cell
from quantviz.compiled.traced_values import Untraceable
from quantviz.compiled.tracing import BlockCode, CellCode, trace_block, trace_cell
from quantviz.quantization.calibrating import calibrated, one_by_one
from quantviz.quantization.qparams import qparams_of_range
from quantviz.quantization.result import QParams, block_values
from quantviz.schemes.granularity import BlockLayout
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits
from quantviz.streaming.pieces import Buffers, PieceSums
from quantviz.streaming.regions import bases_of, fills, layout_of_rows, rows_of_band, run_of
from quantviz.tensors.blocks import Blocks
from quantviz.tensors.conversion import torch_dtype
from quantviz.tensors.lazy import Stored

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class CompiledScheme:
    """A scheme's compiled arithmetic, for blocks laid out in one way."""

    #: Its code; versions for sums alone, of all cells and of cells that do not saturate (0 for none); for
    #: errors alone.
    address: int
    sums_addresses: Callable[[], tuple[int, int]]
    errors_address: Callable[[], int]
    #: A version that compares cells with the nearest ones.
    comparison_address: Callable[[], int]
    #: A version for many ranges at once.
    trials_address: Callable[[], int]
    #: The blocks' arithmetic and its constants; none if torch computes it.
    of_ranges: Callable[[], tuple[int, Array, Array, Array] | None]
    #: Values of each block that it reads.
    params: tuple[str, ...]
    #: And lookup tables.
    constants: tuple[Array, Array, Array]
    code_min: int
    #: Values between do not saturate.
    ends: tuple[float, float]
    #: NaN and Inf in the input.
    leaves_out: bool
    #: Whether its sums count codes, for which a tally needs room.
    counted: bool

    def of_blocks(self, params: QParams) -> Array:
        """Return the values that the code reads, one name after the other: float64 has all exactly."""
        values = block_values(params)
        return np.concatenate([values[name].to(torch.float64).flatten().numpy() for name in self.params])

    def run(
        self,
        values: Array,
        start: int,
        layout: BlockLayout,
        of_blocks: Array,
        buffers: Buffers,
        tally: Tally | None = None,
        *,
        offset: int = 0,
    ) -> None:
        """Compute the cells of a run, `values` as `run_of` returns them, from `start` on.

        `of_blocks` has the values of the layout's blocks. `buffers` receive the results, or with a `tally`
        serve on the way to it. `offset` is the place of the layout's first element.
        """
        from quantviz.compiled import driving

        to = tally or Tally(self.code_min, 0, ())
        driving.drive(
            self._code(layout, tally),
            limits.AHEAD,
            values,
            start,
            self.place(layout, start, start + len(values), offset),
            (of_blocks, layout.block_count, *self.constants),
            buffers.arrays,
            tally is None,
            self.leaves_out,
            (to.shape, to.signal, to.noise),
            np.empty(driving.SUMMED),
            (to.code_min, to.sums, to.counts, to.marks),
        )

    def of_pieces(
        self,
        values: Array,
        start: int,
        layout: BlockLayout,
        of_blocks: Array,
        buffers: Buffers,
        tally: Tally,
        pieces: PieceSums,
    ) -> None:
        """Add up a run of planned pieces: sums go to `pieces`, all else to the tally."""
        from quantviz.compiled import driving

        driving.drive_pieces(
            self._code(layout, tally),
            limits.AHEAD,
            values,
            start,
            pieces.size,
            self.place(layout, start, start + len(values)),
            (of_blocks, layout.block_count, *self.constants),
            buffers.arrays,
            self.leaves_out,
            tally.shape,
            np.empty(driving.SUMMED),
            tally.code_min,
            tally.counts,
            tally.marks,
            pieces.arrays,
        )

    def of_bands(
        self, x: Stored, layout: BlockLayout, piece: int, absmax: float, buffers: Buffers, tally: Tally
    ) -> Callable[[int, int, int, PieceSums], int]:
        """Return a function that computes ranges and sums between two places, whole rows of the view.

        It takes the finished cells of the first piece, and returns the place that it reached.
        """
        from quantviz.compiled import driving

        ranges = self.of_ranges()
        if ranges is None or not fills(layout):
            return lambda start, stop, done, pieces: start
        band = layout_of_rows(layout, 0, rows_of_band(layout, min(limits.BAND, piece)))
        size = math.prod(band.view_shape)
        before = (
            ranges,
            size,
            layout.block_size,
            self.leaves_out,
            np.array([absmax]),
            np.empty(band.block_count, np.int32),
            np.empty(band.block_count, np.int32),
            self._code(layout, tally),
        )
        after = (
            (0, layout.view_shape[-1], layout.block_shape[-1], 0, bases_of(band, 0, size)),
            (np.empty(len(self.params) * band.block_count), band.block_count, *self.constants),
            buffers.arrays,
            self.leaves_out,
            tally.shape,
            np.empty(driving.SUMMED),
            tally.code_min,
            tally.counts,
            tally.marks,
        )

        def run(start: int, stop: int, done: int, pieces: PieceSums) -> int:
            cells = run_of(x, start, stop)
            reached = driving.drive_bands(*before, cells, start, done, pieces.size, *after, pieces.arrays)
            return start + int(reached)

        return run

    def place(
        self, layout: BlockLayout, start: int, stop: int, offset: int = 0
    ) -> tuple[int, int, int, int, Array]:
        # As arguments of the kernels.
        length = layout.view_shape[-1]
        width = layout.block_shape[-1]
        return (
            offset,
            length,
            width,
            (start - offset) // length,
            bases_of(layout, start - offset, stop - offset),
        )

    def _code(
        self, layout: BlockLayout, tally: Tally | None
    ) -> tuple[int, int, tuple[int, float, float], int]:
        """Return the addresses for cells, sums alone, sums of unsaturated cells, and errors alone.

        They are 0 where sums are not wanted or not faster, and errors where no sums of lines are.
        """
        if tally is None or self.leaves_out or 1 < layout.block_shape[-1] < limits.LANES:
            return self.address, 0, (0, *self.ends), 0
        of_all, of_plain = self.sums_addresses()
        return self.address, of_all, (of_plain, *self.ends), self.errors_address() if tally.shape.size else 0


@lru_cache(maxsize=256)
def compiled_program(
    scheme: Scheme, params: tuple[tuple[str, torch.dtype], ...], by_element: bool, counted: bool = False
) -> CompiledScheme | None:
    """Return the compiled arithmetic; None without numba, or if an operation cannot be traced."""
    if not kernel_access.has_kernels():
        return None
    from quantviz.compiled import cell_sources as sources
    from quantviz.compiled.compiler import compiler

    try:
        code = trace_cell(scheme, dict(params))
    except Untraceable:
        return None
    # It reads all constants of the cells, and more.
    lines, counted = lines_of_sums(scheme, params, counted=counted)
    constants = np.array(lines.floats, np.float64), np.array(lines.integers, np.int64), lines.tables.numpy()
    address = compiler().address
    names = sources.params_of(code)

    @cache
    def sums_addresses() -> tuple[int, int]:
        addresses = map(address, sources.sources_of_sums(lines, by_element, counted=counted))
        first, second, *_ = *addresses, 0, 0
        return first, second

    errors_address = cache(
        lambda: address(sources.source_of_cells(code, by_element, sources.STORES_OF_ERRORS))
    )
    comparison_address = cache(lambda: address(sources.source_of_comparison(code)))
    trials_address = cache(lambda: address(sources.source_of_trials(code)))
    of_ranges = cache(lambda: _block_program(scheme, names))
    code_min = scheme.number_format.code_min
    ends = (float(scheme.value_min), float(scheme.value_max))
    return CompiledScheme(
        address(sources.source_of_cells(code, by_element)),
        sums_addresses,
        errors_address,
        comparison_address,
        trials_address,
        of_ranges,
        names,
        constants,
        code_min,
        ends,
        scheme.leaves_out,
        counted,
    )


def lines_of_sums(
    scheme: Scheme, params: tuple[tuple[str, torch.dtype], ...], *, counted: bool = False
) -> tuple[CellCode, bool]:
    """Return the code of a cell for sums, and whether these count codes; raise `Untraceable`.

    Codes count with `counted`, and for float formats and codebooks, whose short form yields them anyway.
    """
    code = trace_cell(scheme, dict(params))
    short = short_cell(scheme, dict(params), code)
    return (code, counted) if short is None else (short, True)


def _block_program(scheme: Scheme, names: tuple[str, ...]) -> tuple[int, Array, Array, Array] | None:
    code = block_code(scheme, names)
    if code is None:
        return None
    from quantviz.compiled.cell_sources import source_of_blocks
    from quantviz.compiled.compiler import compiler

    return (
        compiler().address(source_of_blocks(code, names)),
        np.array(code.floats, np.float64),
        np.array(code.integers, np.int64),
        code.tables.numpy(),
    )


def block_code(scheme: Scheme, names: tuple[str, ...]) -> BlockCode | None:
    """Return the code of full blocks; None if they cannot be traced."""
    try:
        return trace_block(scheme, names)
    except Untraceable:
        return None


def program_of(scheme: Scheme, params: QParams, layout: BlockLayout) -> CompiledScheme | None:
    return compiled_program(scheme, types_of_params(params), layout.block_shape[-1] == 1)


def types_of_params(params: QParams) -> tuple[tuple[str, torch.dtype], ...]:
    return tuple((name, grid.dtype) for name, grid in block_values(params).items())


@lru_cache(maxsize=256)
def types_of_scheme(scheme: Scheme) -> tuple[tuple[str, torch.dtype], ...]:
    """Return the names and dtypes of the values of a scheme's blocks, the same for any tensor."""
    # One block, or one run of blocks.
    count = (scheme.search.run or 1) if scheme.search else 1
    one = BlockLayout((count,), (1,), (count,))
    # An error of 0, so that a search stops at once.
    ranges = calibrated(
        Blocks(torch.ones(count), one, torch_dtype(scheme.range_dtype)),
        scheme,
        one_by_one(lambda *_: torch.zeros(1, dtype=torch.float64)),
        lambda: torch.tensor(1.0),
    )
    return types_of_params(qparams_of_range(ranges, torch.tensor(1.0), scheme, one))
