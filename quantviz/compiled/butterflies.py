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


@kernel_part
def _add_signed_sums(one, two, three, four, sums):
    """Write the sums of four lines to `sums`, the last three added or taken off: eight of them."""
    for j in range(one.size):
        a = one[j] + two[j]
        b = one[j] - two[j]
        c = three[j] + four[j]
        d = three[j] - four[j]
        sums[0, j] = a + c
        sums[1, j] = b + c
        sums[2, j] = a + d
        sums[3, j] = b + d
        sums[4, j] = a - d
        sums[5, j] = b - d
        sums[6, j] = a - c
        sums[7, j] = b - c


@kernel_part
def _write_sums(line, sums, places, signs):
    """Write the sum over groups of four of one of its eight sums, with a sign."""
    groups = places.size
    first = (groups - 1) % 4 + 1
    one = sums[places[0]]
    a = signs[0]
    for j in range(line.size):
        line[j] = a * one[j]
    for g in range(1, first):
        one = sums[8 * g + places[g]]
        a = signs[g]
        for j in range(line.size):
            line[j] += a * one[j]
    for g in range(first, groups, 4):
        one = sums[8 * g + places[g]]
        two = sums[8 * g + 8 + places[g + 1]]
        three = sums[8 * g + 16 + places[g + 2]]
        four = sums[8 * g + 24 + places[g + 3]]
        a = signs[g]
        b = signs[g + 1]
        c = signs[g + 2]
        d = signs[g + 3]
        for j in range(line.size):
            line[j] += (a * one[j] + b * two[j]) + (c * three[j] + d * four[j])


@jit
def transform(values, out, outer, size, factor):
    """Write each run of K·2^k values times (K × K) ⊗ Sylvester, times `factor`, to `out`.

    `outer` is the matrix of K rows, `size` is 2^k; values and out are flat and contiguous, and may be one. Of
    each four rows the eight sums are computed once, and every line of the result adds one of each four.
    """
    rows = outer.shape[0]
    block = rows * size
    groups = rows // 4
    kept = np.empty(block, dtype=out.dtype)
    width = min(size, 64)
    sums = np.empty((8 * groups, width), dtype=out.dtype)
    places = np.empty((rows, groups), dtype=np.int64)
    for i in range(rows):
        for g in range(groups):
            sign = outer[4 * g, i]
            places[i, g] = (
                (outer[4 * g + 1, i] != sign)
                + 2 * (outer[4 * g + 3, i] != sign)
                + 4 * (outer[4 * g + 2, i] != sign)
            )
    signs = outer[::4].T.copy()
    for start in range(0, values.size, block):
        if rows == 1:
            _sylvester(values[start : start + size], out[start : start + size], factor)
            continue
        for i in range(rows):
            first = start + i * size
            _sylvester(values[first : first + size], kept[i * size : (i + 1) * size], factor)
        for j in range(0, size, width):
            for g in range(groups):
                at = 4 * g * size + j
                _add_signed_sums(
                    kept[at : at + width],
                    kept[at + size : at + size + width],
                    kept[at + 2 * size : at + 2 * size + width],
                    kept[at + 3 * size : at + 3 * size + width],
                    sums[8 * g : 8 * g + 8],
                )
            for i in range(rows):
                first = start + i * size + j
                _write_sums(out[first : first + width], sums, places[i], signs[i])
