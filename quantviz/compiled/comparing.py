"""The kernel that compares codes and values that a file has with those nearest to the original.

Imported only where numba is there.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, fabs, plus, plus_product, select
from quantviz.compiled.driving import CELLS_TOGETHER, put
from quantviz.compiled.machine_code import f4, f8, i8, jit

#: The sums, in the order in which they are put down: of x to its fourth power, values, products, errors, and
#: of error² and the same in steps, of cells that were not clipped and of those that were; how many were
#: clipped, x that are 0, other x of which the value is 0.
SUMS = (
    *("x", "x2", "x3", "x4", "x_hat2", "x_x_hat", "e", "abs_e"),
    *("kept_e2", "clipped_e2", "kept_steps2", "clipped_steps2", "clipped", "zeros", "zeroed"),
)
#: Tables that codes are counted in, in turn, so that one code after the same waits for nothing.
TABLES = 4


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
        found, nearest = _add(own, values, errors[:n], clipped[:n], steps[:n], sums)
        largest = max(largest, found)
        of_nearest = max(of_nearest, nearest)
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
def holds(errors, held, x_hat, x):
    """Return whether a run's errors are those that are held, and these what its values are off by."""
    others = 0
    for k in range(x.size):
        others += (errors[k] != held[k]) | (f4(x_hat[k] - x[k]) != held[k])
    return others == 0


@jit
def _is_near(x, x_hat, nearest, step, slack):
    allowed = f4(f4(slack[0] * f4(step)) + f4(slack[1] * fabs(x)))
    return not fabs(f4(x_hat - x)) > f4(fabs(nearest) + allowed)


@jit
def _near(x, x_hat, nearest, steps, slack, near):
    for k in range(near.size):
        near[k] += _is_near(x[k], x_hat[k], nearest[k], steps[k], slack)


@jit
def _add(x, x_hat, nearest, clipped, steps, sums):
    """Add up some cells; return the bits of the largest error, and of the largest of the nearest codes."""
    x1 = x2 = x3 = x4 = values = products = bias = sizes = 0.0
    kept = lost = kept_steps = lost_steps = outs = zeros = zeroed = 0.0
    largest = np.int32(0)
    of_nearest = np.int32(0)
    for k in range(x.size):
        a = f8(x[k])
        b = f8(x_hat[k])
        error = f4(x_hat[k] - x[k])
        e = f8(error)
        square = a * a
        out = f8(clipped[k])
        step = select(e == 0.0, f8(0.0), e / steps[k])
        e2 = e * e
        steps2 = step * step
        zero = f8(a == 0.0)
        x1 = plus(x1, a)
        x2 = plus(x2, square)
        x3 = plus_product(x3, square, a)
        x4 = plus_product(x4, square, square)
        values = plus_product(values, b, b)
        products = plus_product(products, a, b)
        bias = plus(bias, e)
        sizes = plus(sizes, fabs(e))
        kept = plus(kept, select(clipped[k], f8(0.0), e2))
        lost = plus(lost, select(clipped[k], e2, f8(0.0)))
        kept_steps = plus(kept_steps, select(clipped[k], f8(0.0), steps2))
        lost_steps = plus(lost_steps, select(clipped[k], steps2, f8(0.0)))
        outs = plus(outs, out)
        zeros = plus(zeros, zero)
        zeroed = plus(zeroed, select(a == 0.0, f8(0.0), f8(b == 0.0)))
        largest = max(largest, bits(fabs(error)))
        of_nearest = max(of_nearest, bits(fabs(nearest[k])))
    made = (
        x1, x2, x3, x4, values, products, bias, sizes,
        kept, lost, kept_steps, lost_steps, outs, zeros, zeroed,
    )  # fmt: skip
    for i, total in enumerate(made):
        sums[i] += total
    return largest, of_nearest
