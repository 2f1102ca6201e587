"""The kernel that adds up the cells of a result, whatever its scheme: codes, values and scales are there.

Imported only where numba is there.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, fabs, of_bits, plus, plus_product, select
from quantviz.compiled.driving import CELLS_TOGETHER
from quantviz.compiled.gaps import STARTS_TOGETHER
from quantviz.compiled.machine_code import f4, f8, i4, i8, jit, kernel_part

#: The sums, in the order in which they are put down: of x to its fourth power, values, products, errors, and
#: of error² and the same in steps, of cells that were not clipped and of those that were; how many were
#: clipped, x that are 0, other x of which the value is 0.
SUMS = (
    *("x", "x2", "x3", "x4", "x_hat2", "x_x_hat", "e"),
    *("kept_e2", "clipped_e2", "kept_steps2", "clipped_steps2", "clipped", "zeros", "zeroed"),
)
#: Tables that codes are counted in, in turn, so that one code after the same waits for nothing.
TABLES = 4


@kernel_part
def add_cells(x, x_hat, clipped, inverse_steps, sums):
    """Add up some cells, all of which are finite; return the bits of the largest error."""
    x1 = x2 = x3 = x4 = values = products = bias = f8(0.0)
    kept = lost = kept_steps = lost_steps = f8(0.0)
    outs = zeros = zeroed = largest = i4(0)
    for k in range(x.size):
        a = f8(x[k])
        b = f8(x_hat[k])
        error = f4(x_hat[k] - x[k])
        e = f8(error)
        square = a * a
        step = select(e == 0.0, f8(0.0), e * inverse_steps[k])
        x1 = plus(x1, a)
        x2 = plus(x2, square)
        x3 = plus_product(x3, square, a)
        x4 = plus_product(x4, square, square)
        values = plus_product(values, b, b)
        products = plus_product(products, a, b)
        bias = plus(bias, e)
        kept = plus_product(kept, e, e)
        kept_steps = plus_product(kept_steps, step, step)
        outs = i4(outs + i4(clipped[k]))
        zeros = i4(zeros + i4(x[k] == 0))
        zeroed = i4(zeroed + i4((x_hat[k] == 0) & (x[k] != 0)))
        largest = max(largest, bits(fabs(error)))
    if outs > 0:
        # Apart from each other: the one can be as small as the last digits of the other.
        kept = kept_steps = f8(0.0)
        for k in range(x.size):
            e = f8(f4(x_hat[k] - x[k]))
            e2 = e * e
            step = select(e == 0.0, f8(0.0), e * inverse_steps[k])
            steps2 = step * step
            kept = plus(kept, select(clipped[k], f8(0.0), e2))
            lost = plus(lost, select(clipped[k], e2, f8(0.0)))
            kept_steps = plus(kept_steps, select(clipped[k], f8(0.0), steps2))
            lost_steps = plus(lost_steps, select(clipped[k], steps2, f8(0.0)))
    totals = (
        x1, x2, x3, x4, values, products, bias,
        kept, lost, kept_steps, lost_steps, f8(outs), f8(zeros), f8(zeroed),
    )  # fmt: skip
    for i, total in enumerate(totals):
        sums[i] += total
    return largest


@jit
def add_result(cells, flat, place, scale, gaps, leaves_out, counts, sums):
    """Add up a run of a result from `flat` on, and return the number of cells that count, the bits of their
    largest error, and the number of cells whose error is not the value less x.

    `cells` are x, its values, their errors, whether saturation changed them, and their codes. `scale` has
    that of each block, `gaps` is what `gaps.gaps_of` returns, and `counts` are the least code and the counts
    of codes, in `TABLES` rows.
    """
    x, x_hat, error, clipped, q = cells
    code_min, of_codes = counts
    inverse_steps = np.empty(CELLS_TOGETHER)
    arrays = (np.empty(CELLS_TOGETHER, np.float32), np.empty(CELLS_TOGETHER, np.float32), inverse_steps)
    of_cells = np.empty(CELLS_TOGETHER, np.float32)
    counted = i8(0)
    others = i8(0)
    largest = i4(0)
    mask = of_codes.shape[1] - 1
    for start in range(0, x.size, CELLS_TOGETHER):
        end = min(start + CELLS_TOGETHER, x.size)
        own = x[start:end]
        values = x_hat[start:end]
        outs = clipped[start:end]
        codes = q[start:end]
        _spread(scale, flat + start, place, of_cells[: end - start])
        _put_inverse_steps(own, of_cells, gaps, arrays)
        others += _others(own, values, error[start:end])
        first = 0
        while first < own.size:
            # A run of cells that count.
            last = own.size
            if leaves_out:
                last = first
                while last < own.size and fabs(own[last]) < np.inf:
                    last += 1
            of_run = add_cells(
                own[first:last], values[first:last], outs[first:last], inverse_steps[first:last], sums
            )
            largest = max(largest, of_run)
            for k in range(first, last):
                of_codes[k & (TABLES - 1), (i8(codes[k]) - code_min) & mask] += 1
            counted += last - first
            first = last + 1
    return counted, largest, others


@kernel_part
def _spread(scale, flat, place, of_cells):
    """Write the scale of each cell from `flat` on."""
    length, width, row, bases = place
    line, column = divmod(flat, length)
    done = i8(0)
    while done < of_cells.size:
        end = min(of_cells.size, done + length - column)
        block = bases[line - row] + column // width
        if width == 1:
            for k in range(end - done):
                of_cells[done + k] = scale[block + k]
            done = end
        rest = width - column % width
        while done < end:
            until = min(done + rest, end)
            for k in range(done, until):
                of_cells[k] = scale[block]
            done = until
            rest = width
            block += 1
        column = i8(0)
        line += 1


@kernel_part
def _put_inverse_steps(x, scale, gaps, arrays):
    """Write 1 / step of each cell, whose step is the size of its scale times the format's gap around x /
    scale.

    `arrays` has room for two numbers on the way, and the results.
    """
    starts, sizes, low, high, least, down = gaps
    number, gap, inverse_steps = arrays
    n = x.size
    if sizes.size == 1:
        for k in range(n):
            inverse_steps[k] = 1.0 / f8(f4(fabs(scale[k]) * sizes[0]))
        return
    for k in range(n):
        y = f4(x[k] / scale[k])
        y = select(y < low, low, y)
        number[k] = select(y > high, high, y)
    if sizes.size == 0:
        for k in range(n):
            power = bits(fabs(number[k])) >> 23
            power = select(power < least, least, power)
            inverse_steps[k] = 1.0 / f8(f4(fabs(scale[k]) * of_bits((i8(power) - down) << 52)))
        return
    for k in range(n):
        gap[k] = sizes[0]
    for j in range(0, starts.size, STARTS_TOGETHER):
        a, b, c, d = starts[j], starts[j + 1], starts[j + 2], starts[j + 3]
        of_a, of_b, of_c, of_d = sizes[j + 1], sizes[j + 2], sizes[j + 3], sizes[j + 4]
        for k in range(n):
            y = number[k]
            here = select(y >= a, of_a, gap[k])
            here = select(y >= b, of_b, here)
            here = select(y >= c, of_c, here)
            gap[k] = select(y >= d, of_d, here)
    for k in range(n):
        inverse_steps[k] = 1.0 / f8(f4(fabs(scale[k]) * gap[k]))


@kernel_part
def _others(x, x_hat, error):
    """Return the number of cells whose error is not the value less x; NaN is no difference."""
    others = 0
    for k in range(x.size):
        made = f4(x_hat[k] - x[k])
        others += (made != error[k]) & (made == made) & (error[k] == error[k])
    return others
