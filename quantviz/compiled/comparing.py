"""The kernel that compares codes and values that a file has with those nearest to the original.

Imported only where numba is there.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, fabs
from quantviz.compiled.driving import CELLS_TOGETHER, put
from quantviz.compiled.machine_code import f4, i8, jit, kernel_part
from quantviz.compiled.result_sums import TABLES, add_cells


@jit
def compare(cells, x, x_hat, q, place, of_blocks, arrays, slack, apart, code_min, near, hit, counts, sums):
    """Compare a run of cells, all of which are finite, and return the bits of the largest error, and of the
    largest error of the nearest codes.

    `cells` is the address of compiled arithmetic that puts steps where others put errors in steps; `x_hat`
    and `q` are the values and codes of the file, `q` bytes. A code counts as nearest up to `slack[0]` steps
    and `slack[1]` of x; `apart` marks the cells to leave out, or is empty. `near` counts nearest codes by
    columns, `hit` marks blocks in which saturation changed a code, `counts` counts codes.
    """
    largest = np.int32(0)
    of_nearest = np.int32(0)
    _, length, width, _, bases = place
    _, _, errors, clipped, steps = arrays
    for start in range(0, x.size, CELLS_TOGETHER):
        n = min(CELLS_TOGETHER, x.size - start)
        put(cells, x, start, n, i8(0), place, of_blocks, arrays, i8(0))
        own = x[start : start + n]
        values = x_hat[start : start + n]
        largest = max(largest, add_cells(own, values, clipped[:n], steps[:n], sums))
        of_nearest = max(of_nearest, _largest(errors[:n]))
        codes = q[start : start + n]
        for k in range(n):
            counts[k & (TABLES - 1), (i8(codes[k]) - code_min) & 255] += 1
        done = 0
        while done < n:
            line = (start + done) // length
            column = (start + done) % length
            size = min(n - done, length - column)
            lines = near[column : column + size]
            _near(own[done:], values[done:], errors[done:], steps[done:], slack, lines)
            if apart.size:
                for k in range(size):
                    # It was counted already where it is near.
                    if apart[start + done + k] and not _is_near(
                        own[done + k], values[done + k], errors[done + k], steps[done + k], slack
                    ):
                        lines[k] += 1
            for k in range(size):
                if clipped[done + k]:
                    hit[bases[line] + (column + k) // width] = True
            done += size
    return largest, of_nearest


@jit
def _is_near(x, x_hat, nearest, step, slack):
    allowed = f4(f4(slack[0] * f4(step)) + f4(slack[1] * fabs(x)))
    return not fabs(f4(x_hat - x)) > f4(fabs(nearest) + allowed)


@jit
def _near(x, x_hat, nearest, steps, slack, near):
    for k in range(near.size):
        near[k] += _is_near(x[k], x_hat[k], nearest[k], steps[k], slack)


@kernel_part
def _largest(errors):
    largest = np.int32(0)
    for k in range(errors.size):
        largest = max(largest, bits(fabs(errors[k])))
    return largest
