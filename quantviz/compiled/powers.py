"""Kernels that add up powers of a tensor's values."""

from __future__ import annotations

from quantviz.compiled.machine_code import f8, in_any_order, jit

#: Number of values whose powers are summed by themselves, so that the sum of these sums rounds less.
TOGETHER = 1024


@in_any_order
def _powers(values):
    one = f8(0)
    two = f8(0)
    three = f8(0)
    four = f8(0)
    for i in range(values.size):
        value = f8(values[i])
        square = value * value
        one += value
        two += square
        three += square * value
        four += square * square
    return one, two, three, four


@jit
def add_powers(x, sums):
    """Add Σx, Σx², Σx³ and Σx⁴ of a run to `sums`."""
    for start in range(0, x.size, TOGETHER):
        one, two, three, four = _powers(x[start : start + TOGETHER])
        sums[0] += one
        sums[1] += two
        sums[2] += three
        sums[3] += four
