"""Kernel of the fast Hadamard transform: K·2^k values with K·k additions in place of K·2^k products each.

Imported only if numba is installed, by `streaming/hadamard.py` for large tensors.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.machine_code import jit, kernel_part


@kernel_part
def _sylvester(given, out, factor):
    """Write 2^k values times Sylvester's matrix and a factor to `out`: two steps at a time."""
    size = given.size
    half = 1
    if size >= 4:
        # Neighbours: a loop of its own, so that it becomes vector instructions.
        for i in range(size // 4):
            a = given[4 * i] + given[4 * i + 1]
            b = given[4 * i] - given[4 * i + 1]
            c = given[4 * i + 2] + given[4 * i + 3]
            d = given[4 * i + 2] - given[4 * i + 3]
            out[4 * i] = (a + c) * factor
            out[4 * i + 1] = (b + d) * factor
            out[4 * i + 2] = (a - c) * factor
            out[4 * i + 3] = (b - d) * factor
        half = 4
    else:
        for i in range(size):
            out[i] = given[i] * factor
    while 2 * half < size:
        for start in range(0, size, 4 * half):
            one = out[start : start + half]
            two = out[start + half : start + 2 * half]
            three = out[start + 2 * half : start + 3 * half]
            four = out[start + 3 * half : start + 4 * half]
            for j in range(half):
                a = one[j] + two[j]
                b = one[j] - two[j]
                c = three[j] + four[j]
                d = three[j] - four[j]
                one[j] = a + c
                two[j] = b + d
                three[j] = a - c
                four[j] = b - d
        half *= 4
    if half < size:
        one = out[:half]
        two = out[half:]
        for j in range(half):
            a = one[j]
            one[j] = a + two[j]
            two[j] = a - two[j]


@jit
def transform(values, out, outer, size, factor):
    """Write each run of K·2^k values times (K × K) ⊗ Sylvester, times `factor`, to `out`.

    `outer` is the matrix of K rows, `size` is 2^k; values and out are flat and contiguous, and may be one.
    """
    rows = outer.shape[0]
    block = rows * size
    kept = np.empty(block, dtype=out.dtype)
    for start in range(0, values.size, block):
        if rows == 1:
            _sylvester(values[start : start + size], out[start : start + size], factor)
            continue
        for i in range(rows):
            first = start + i * size
            _sylvester(values[first : first + size], kept[i * size : (i + 1) * size], factor)
        for i in range(rows):
            line = out[start + i * size : start + (i + 1) * size]
            line[:] = 0
            # Four rows at a time: K is a multiple of 4, and a line is read and written a quarter as often.
            for k in range(0, rows, 4):
                one = kept[k * size : (k + 1) * size]
                two = kept[(k + 1) * size : (k + 2) * size]
                three = kept[(k + 2) * size : (k + 3) * size]
                four = kept[(k + 3) * size : (k + 4) * size]
                for j in range(size):
                    line[j] += (outer[k, i] * one[j] + outer[k + 1, i] * two[j]) + (
                        outer[k + 2, i] * three[j] + outer[k + 3, i] * four[j]
                    )
