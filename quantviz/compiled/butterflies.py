"""Kernel of the fast Hadamard transform: K·2^k values with K·k additions in place of K·2^k products each.

Imported only if numba is installed, by `streaming/hadamard.py` for large tensors.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.machine_code import jit, kernel_part

#: Lines of the sums of four rows: eight sums, and the four that they are made of.
_SUMS = 12
#: Columns that are summed at a time: the sums of all rows stay in the cache.
_WIDTH = 256


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
def _write_both(one, two, sums, differences):
    for j in range(one.size):
        a = one[j] + two[j]
        b = one[j] - two[j]
        sums[j] = a
        differences[j] = b


@kernel_part
def _add_signed_sums(one, two, three, four, sums):
    """Write the sums of four lines to `sums`, the last three added or taken off: eight of them.

    Two lines at a time: of more that are written LLVM does not prove that they lie apart.
    """
    _write_both(one, two, sums[8], sums[9])
    _write_both(three, four, sums[10], sums[11])
    _write_both(sums[8], sums[10], sums[0], sums[6])
    _write_both(sums[9], sums[10], sums[1], sums[7])
    _write_both(sums[8], sums[11], sums[2], sums[4])
    _write_both(sums[9], sums[11], sums[3], sums[5])


@kernel_part
def _write_sums(line, sums, places, signs):
    """Write the sum over groups of four of one of its eight sums, with a sign."""
    groups = places.size
    first = 1
    one = sums[places[0]]
    a = signs[0]
    if groups % 4 == 3:
        first = 3
        two = sums[_SUMS + places[1]]
        three = sums[2 * _SUMS + places[2]]
        b = signs[1]
        c = signs[2]
        for j in range(line.size):
            line[j] = (a * one[j] + b * two[j]) + c * three[j]
    else:
        for j in range(line.size):
            line[j] = a * one[j]
    while first % 4 != groups % 4:
        one = sums[_SUMS * first + places[first]]
        a = signs[first]
        for j in range(line.size):
            line[j] += a * one[j]
        first += 1
    for g in range(first, groups, 4):
        one = sums[_SUMS * g + places[g]]
        two = sums[_SUMS * (g + 1) + places[g + 1]]
        three = sums[_SUMS * (g + 2) + places[g + 2]]
        four = sums[_SUMS * (g + 3) + places[g + 3]]
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
    width = min(size, _WIDTH)
    sums = np.empty((_SUMS * groups, width), dtype=out.dtype)
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
                    sums[_SUMS * g : _SUMS * (g + 1)],
                )
            for i in range(rows):
                first = start + i * size + j
                _write_sums(out[first : first + width], sums, places[i], signs[i])
