"""Kernels that have compiled arithmetic make cells, a chunk at a time, and keep them or add them up."""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, call_cells
from quantviz.compiled.cell_sums import (
    add_by_axis,
    add_finite,
    add_up,
    all_finite,
    count_codes,
    mark_seen,
)
from quantviz.compiled.machine_code import b1, i8, inline_part, jit, kernel_part
from quantviz.compiled.partial_sums import (
    BIAS,
    CELLS,
    CLIPPED,
    CLIPPED_NOISE,
    CLIPPED_STEPS,
    FIRST_SEEN,
    INFINITE,
    LARGEST,
    LARGEST_AT,
    LAST_SEEN,
    NOISE,
    PRODUCT,
    SIGNAL,
    STEPS,
    VALUES,
    ZEROED,
    ZEROS,
)
from quantviz.compiled.run_kernels import ROWS, find_ends
from quantviz.compiled.vector_sums import AT, LEAST

#: Their results stay in a core's first cache.
CELLS_TOGETHER = 2048
#: Of some cells.
SUMMED = len(AT)
#: Summed at a time.
UNIT = 4096
LEAST_SIGNAL, LEAST_VALUES, LEAST_NOISE, LEAST_STEPS = (
    LEAST[name] for name in ("signal", "values", "noise", "steps")
)
OF_SIGNAL = AT["signal"]
OF_VALUES = AT["values"]
OF_PRODUCT = AT["product"]
OF_BIAS = AT["bias"]
OF_NOISE = AT["noise"]
OF_STEPS = AT["steps"]
OF_CLIPPED_NOISE = AT["clipped_noise"]
OF_CLIPPED_STEPS = AT["clipped_steps"]
OF_CLIPPED = AT["clipped"]
OF_ZEROS = AT["zeros"]
OF_APART = AT["apart"]
OF_ZEROED = AT["zeroed"]
OF_LARGEST = AT["largest"]
OF_FIRST = AT["first"]
OF_LAST = AT["last"]


@kernel_part
def trusted(made, n):
    """Return whether float32 is wide enough for the terms in the sums of `n` cells."""
    if made[OF_APART] > 0 or not (made[OF_SIGNAL] < np.inf and made[OF_VALUES] < np.inf):
        return False
    if made[OF_SIGNAL] < LEAST_SIGNAL and made[OF_ZEROS] < n:
        return False
    if made[OF_VALUES] < LEAST_VALUES and made[OF_ZEROS] + made[OF_ZEROED] < n:
        return False
    return made[OF_LARGEST] == 0 or (
        made[OF_NOISE] >= LEAST_NOISE and LEAST_STEPS * n <= made[OF_STEPS] < np.inf
    )


@kernel_part
def place_of_size(error, n, size):
    """Return the place of the first error of a size, given as bits, among `n`, or -1."""
    for j in range(n):
        if (bits(error[j]) & 0x7FFFFFFF) == size:
            return j
    return -1


@jit
def put(cells, x, start, n, flat, place, of_blocks, arrays, out):
    """Run `cells`, the address of compiled arithmetic, on `n` cells from `start`, and put the results into
    five arrays, from `out` on.
    """
    offset, length, width, row, bases = place
    params, blocks, floats, integers, tables = of_blocks
    q, x_hat, error, clipped, steps = arrays
    call_cells(
        cells, x.ctypes.data + 4 * start, n, flat + start, offset, length, width, row, bases.ctypes.data,
        params.ctypes.data, blocks, floats.ctypes.data, integers.ctypes.data, tables.ctypes.data,
        q.ctypes.data + 4 * out, x_hat.ctypes.data + 4 * out, error.ctypes.data + 4 * out,
        clipped.ctypes.data + out, steps.ctypes.data + 8 * out,
    )  # fmt: skip


#: Arguments of the kernels below that are grouped in tuples:
#: - `code`: the addresses of the cells' arithmetic; of the sums-only kernel, or 0; of the same for cells that
#:   saturation leaves as they are, or 0, with the two codes between which it does; and of the kernel of
#:   errors alone, for sums of lines.
#: - `place`: where blocks begin (`offset`), the length of a line and the width of a block, the first line of
#:   `bases`, and those.
#: - `of_blocks`: the parameters of each block, the number of blocks, and the numbers and tables that the code
#:   reads.
#: - `arrays`: where a chunk of cells goes, see `pieces.Buffers`.
#: - `totals`: the smallest code, and a tally's sums, counts and marks.
#: - `by_axis`: the tensor's shape, and Σx² and Σe² of each index of each axis; empty if not wanted.


@inline_part
def lines_together(done, total, flat, place):
    """Return how many lines are summed at once, and the cells of each.

    With blocks of one element these are the lines below each other whose cells are in the same blocks.
    """
    offset, length, width, row, bases = place
    if width != 1:
        return i8(1), min(total - done, UNIT)
    column = (flat + done - offset) % length
    line = (flat + done - offset) // length - row
    rows = i8(1)
    n = min(total - done, length - column)
    if n < length:
        n = min(n, UNIT)
    while (
        n == length
        and rows < ROWS
        and done + (rows + 1) * length <= total
        and bases[line + rows] == bases[line]
    ):
        rows += 1
    return rows, n


@inline_part
def ask_sums(address, x, done, rows, n, flat, place, of_blocks, ahead, made, codes):
    """Have the compiled sums at an address put those of `rows` lines of `n` cells into `made`, and where they
    count codes the lowest bytes of these into `codes`.
    """
    offset, length, width, row, bases = place
    params, blocks, floats, integers, tables = of_blocks
    call_cells(
        address, x.ctypes.data + 4 * done, n, flat + done, offset, length, width, rows,
        (flat + done - offset) // length - row, bases.ctypes.data, params.ctypes.data, blocks,
        floats.ctypes.data, integers.ctypes.data, tables.ctypes.data, ahead, made.ctypes.data,
        codes.ctypes.data,
    )  # fmt: skip


@inline_part
def add_sums(made, n, totals):
    """Add the sums of `n` cells to a tally; return whether all their codes were known to occur."""
    code_min, sums, counts, _ = totals
    sums[SIGNAL] += made[OF_SIGNAL]
    sums[VALUES] += made[OF_VALUES]
    sums[PRODUCT] += made[OF_PRODUCT]
    sums[BIAS] += made[OF_BIAS]
    sums[NOISE] += made[OF_NOISE]
    sums[STEPS] += made[OF_STEPS]
    sums[CLIPPED_NOISE] += made[OF_CLIPPED_NOISE]
    sums[CLIPPED_STEPS] += made[OF_CLIPPED_STEPS]
    counts[CELLS] += n
    counts[CLIPPED] += i8(made[OF_CLIPPED])
    counts[ZEROS] += i8(made[OF_ZEROS])
    counts[ZEROED] += i8(made[OF_ZEROED])
    return made[OF_FIRST] - code_min >= counts[FIRST_SEEN] and made[OF_LAST] - code_min <= counts[LAST_SEEN]


@kernel_part
def add_chunks(
    code, x, begin, end, flat, place, of_blocks, arrays, keep, leaves_out, by_axis, totals, codes_alone
):
    """Make some cells by chunks: kept, added to a tally, or with `codes_alone` only their codes noted."""
    shape, signal, noise = by_axis
    code_min, _, counts, (seen, _, _) = totals
    q, _, error, _, _ = arrays
    for start in range(begin, end, CELLS_TOGETHER):
        n = min(end - start, CELLS_TOGETHER)
        put(code[0], x, start, n, flat, place, of_blocks, arrays, start if keep else i8(0))
        if codes_alone:
            mark_seen(q, n, code_min, counts, seen)
        elif not keep:
            if shape.size:
                add_by_axis(x, start, error, n, flat + start, shape, signal, noise)
            if leaves_out and not all_finite(x, start, n):
                add_finite(x, start, arrays, n, flat + start, totals)
            else:
                add_up(x, start, arrays, n, flat + start, totals)


@kernel_part
def find_largest(code, x, begin, end, flat, place, of_blocks, arrays, size, counts):
    """Note the place of the first error of a size, given as bits, among some cells."""
    for start in range(begin, end, CELLS_TOGETHER):
        n = min(end - start, CELLS_TOGETHER)
        put(code[0], x, start, n, flat, place, of_blocks, arrays, i8(0))
        at = place_of_size(arrays[2], n, size)
        if at >= 0:
            counts[LARGEST_AT] = flat + start + at
            return


@jit
def drive(code, ahead, x, flat, place, of_blocks, arrays, keep, leaves_out, by_axis, made, totals):
    """Run compiled arithmetic by chunks, and keep the results or add them up.

    The sums-only kernel does it where its sums can be trusted. The cells `ahead` are fetched meanwhile;
    `made` has room for sums.
    """
    _, quick, (usual, lowest, highest), errors = code
    if usual == 0:
        usual = quick
    shape, signal, noise = by_axis
    _, _, counts, (_, occurred, codes) = totals
    done = i8(0)
    # The largest error from the sums-only kernel, and the cells between which it lies.
    sought = i8(-1)
    sought_in = i8(0)
    sought_until = i8(0)
    while done < x.size:
        rest = min(x.size - done, UNIT)
        codes_alone = False
        if quick != 0:
            rows, n = lines_together(done, x.size, flat, place)
            rest = rows * n
            ask_sums(usual, x, done, rows, n, flat, place, of_blocks, ahead, made, codes)
            if usual != quick and not (lowest <= made[OF_FIRST] and made[OF_LAST] <= highest):
                # Where one cell is saturated others most likely are too.
                usual = quick
                ask_sums(usual, x, done, rows, n, flat, place, of_blocks, ahead, made, codes)
            largest = i8(made[OF_LARGEST])
            if largest < INFINITE and counts[LARGEST] < INFINITE and trusted(made, rest):
                if largest > counts[LARGEST]:
                    counts[LARGEST] = largest
                    sought = largest
                    sought_in = done
                    sought_until = done + rest
                for start in range(done, done + rest if shape.size else done, CELLS_TOGETHER):
                    n = min(done + rest - start, CELLS_TOGETHER)
                    put(errors, x, start, n, flat, place, of_blocks, arrays, i8(0))
                    add_by_axis(x, start, arrays[2], n, flat + start, shape, signal, noise)
                known = add_sums(made, rest, totals)
                if occurred.size:
                    count_codes(codes, rest, occurred)
                    known = True
                if known:
                    done += rest
                    continue
                # Of some codes it is not known yet whether they occur.
                codes_alone = True
        add_chunks(
            code,
            x,
            done,
            done + rest,
            flat,
            place,
            of_blocks,
            arrays,
            keep,
            leaves_out,
            by_axis,
            totals,
            codes_alone,
        )
        done += rest
    if sought == counts[LARGEST]:
        find_largest(code, x, sought_in, sought_until, flat, place, of_blocks, arrays, sought, counts)


@jit
def drive_pieces(
    code,
    ahead,
    x,
    flat,
    piece,
    place,
    of_blocks,
    arrays,
    leaves_out,
    shape,
    made,
    code_min,
    counts,
    marks,
    of_pieces,
):
    """Add up pieces of `piece` cells, each into a row of `of_pieces`: sums, and Σx² and Σe² by axis.

    A piece's sums follow from the plan alone, whichever thread comes to it.
    """
    sums, signal, noise = of_pieces
    for k in range(sums.shape[0]):
        run = x[k * piece : min((k + 1) * piece, x.size)]
        totals = (code_min, sums[k], counts, marks)
        by_axis = (shape, signal[k], noise[k])
        drive(
            code,
            ahead,
            run,
            flat + k * piece,
            place,
            of_blocks,
            arrays,
            b1(False),
            leaves_out,
            by_axis,
            made,
            totals,
        )


@jit
def drive_bands(
    ranges, band, of_block, finite_only, absmax, low, high,
    code, x, flat, done, piece, place, of_blocks, arrays, leaves_out, shape, made,
    code_min, counts, marks, of_pieces,
):  # fmt: skip
    """Find ranges, parameters and sums of bands of `band` cells, one at a time while it is in cache.

    `ranges` is the address of the blocks' arithmetic with its numbers and tables; of the first piece `done`
    cells are added up already. Return the cells of x that are done: all, or those before the first band that
    must be looked at more closely.
    """
    address, floats, integers, tables = ranges
    _, length, width, _, bases = place
    params, _, cell_floats, cell_integers, cell_tables = of_blocks
    sums, signal, noise = of_pieces
    for start in range(0, x.size, band):
        run = x[start : start + band]
        k = (done + start) // piece
        count = run.size // of_block
        low[:] = 0x7FFFFFFF
        high[:] = -0x80000000
        find_ends(run, (i8(0), length, width, i8(0), bases), finite_only, low, high)
        call_cells(
            address, low.ctypes.data, high.ctypes.data, count, absmax.ctypes.data,
            floats.ctypes.data, integers.ctypes.data, tables.ctypes.data, params.ctypes.data,
            made.ctypes.data,
        )  # fmt: skip
        if made[0] != 0.0:
            return start
        here = (flat + start, length, width, i8(0), bases)
        known = (params, count, cell_floats, cell_integers, cell_tables)
        totals = (code_min, sums[k], counts, marks)
        by_axis = (shape, signal[k], noise[k])
        drive(
            code, band, run, flat + start, here, known, arrays, b1(False), leaves_out, by_axis, made, totals
        )
    return x.size
