"""Kernels for a run under any scheme: ends, first extremes, counts, exact sums, powers."""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, fabs, select
from quantviz.compiled.machine_code import Array, f8, i4, i8, in_any_order, jit, place_at
from quantviz.compiled.partial_sums import INFINITE
from quantviz.compiled.vector_sums import TERMS

#: Lines that are gone through side by side where blocks have one element of each.
ROWS = TERMS


@jit
def lower_blocks(values, width, finite_only, lo, hi):
    """Lower `lo` and raise `hi` of neighbouring blocks of `width` values each to the values' keys."""
    for b in range(lo.size):
        here = values[b * width : (b + 1) * width]
        low = lo[b]
        high = hi[b]
        if finite_only:
            for j in range(width):
                raw = bits(here[j])
                key = i4(raw ^ ((raw >> 31) & 0x7FFFFFFF))
                counts = (raw & 0x7FFFFFFF) < INFINITE
                low = min(low, select(counts, key, i4(0x7FFFFFFF)))
                high = max(high, select(counts, key, i4(-0x80000000)))
        else:
            for j in range(width):
                raw = bits(here[j])
                key = i4(raw ^ ((raw >> 31) & 0x7FFFFFFF))
                low = select(key < low, key, low)
                high = select(key > high, key, high)
        lo[b] = low
        hi[b] = high


@jit
def lower_columns(values, finite_only, lo, hi):
    """Lower `lo` and raise `hi` of blocks that have one value each here to the values' keys."""
    if finite_only:
        for j in range(values.size):
            raw = bits(values[j])
            key = i4(raw ^ ((raw >> 31) & 0x7FFFFFFF))
            counts = (raw & 0x7FFFFFFF) < INFINITE
            lo[j] = select(counts & (key < lo[j]), key, lo[j])
            hi[j] = select(counts & (key > hi[j]), key, hi[j])
    else:
        for j in range(values.size):
            raw = bits(values[j])
            key = i4(raw ^ ((raw >> 31) & 0x7FFFFFFF))
            lo[j] = select(key < lo[j], key, lo[j])
            hi[j] = select(key > hi[j], key, hi[j])


@jit
def find_ends(x, place, finite_only, lo, hi):
    """Lower `lo` and raise `hi` of each block to the keys of the values met.

    Keys order as the numbers do; NaN is beyond them. The `place` of the run is the flat index of its first
    cell, the length of a line, the width of a block, the first line of `bases`, and those.
    """
    flat, length, width, row, bases = place
    total = x.size
    column = flat % length
    line = flat // length - row
    block = bases[line] + column // width
    within = column % width
    done = 0
    while done < total:
        rows = blocks = 1
        if width == 1:
            size = min(total - done, length - column)
            # Lines below each other whose cells are in the same blocks.
            while (
                size == length
                and rows < ROWS
                and done + (rows + 1) * length <= total
                and bases[line + rows] == bases[line]
            ):
                rows += 1
            low = lo[block : block + size]
            high = hi[block : block + size]
            for r in range(rows):
                start = done + r * length
                lower_columns(x[start : start + size], finite_only, low, high)
        else:
            room = min(total - done, length - column)
            blocks = room // width if within == 0 else 0
            # A part of a block, or as many whole ones as there are in the line.
            size, blocks, of_block = (
                (blocks * width, blocks, width)
                if blocks > 0
                else (min(room, width - within), 1, min(room, width - within))
            )
            lower_blocks(
                x[done : done + size],
                of_block,
                finite_only,
                lo[block : block + blocks],
                hi[block : block + blocks],
            )
        done += rows * size
        column += size
        block += blocks
        within = 0
        if column == length:
            column = 0
            line += rows
            if done < total:
                block = bases[line]


@jit
def find_firsts(x, place, sizes, wanted, extreme):
    """Find the first value of size `sizes` of each `wanted` block, and clear that."""
    flat, length, width, row, bases = place
    total = x.size
    column = flat % length
    line = flat // length - row
    done = 0
    while done < total:
        block = bases[line] + column // width
        size = (
            min(total - done, length - column)
            if width == 1
            else min(total - done, length - column, width - column % width)
        )
        for j in range(size):
            b = block + j if width == 1 else block
            if not wanted[b]:
                if width == 1:
                    continue
                break
            v = x[done + j]
            if fabs(v) == sizes[b]:
                extreme[b] = v
                wanted[b] = False
        done += size
        column += size
        if column == length:
            column = 0
            line += 1


#: Places in the state of `look`, int64: keys of the ends, bits of the largest finite magnitude and where it
#: is, how many are negative, NaN, Inf and -Inf, and where the first of those is.
LOW, HIGH, SIZE, SIZE_AT, NEGATIVE, NAN, INF, MINUS_INF, FIRST_BAD = range(9)


def new_look() -> Array:
    """Return the state of `look` before the first run."""
    return np.array([0x7FFFFFFF, -0x80000000, -1, 0, 0, 0, 0, 0, -1], np.int64)


@jit
def look(x, flat, state):
    """Add a run's ends, places and counts to a state."""
    done = 0
    while done < x.size:
        n = min(x.size - done, 4096)
        low = i4(0x7FFFFFFF)
        high = i4(-0x80000000)
        largest = i4(0)
        negative = i4(0)
        values = x[done : done + n]
        for j in range(n):
            raw = bits(values[j])
            key = i4(raw ^ ((raw >> 31) & 0x7FFFFFFF))
            low = select(key < low, key, low)
            high = select(key > high, key, high)
            size = i4(raw & 0x7FFFFFFF)
            largest = select(size > largest, size, largest)
            negative = i4(negative + i4(values[j] < 0))
        if largest < INFINITE:
            state[LOW], state[HIGH] = min(state[LOW], i8(low)), max(state[HIGH], i8(high))
            state[NEGATIVE] += negative
            if largest > state[SIZE]:
                state[SIZE] = largest
                for j in range(n):
                    if (bits(values[j]) & 0x7FFFFFFF) == largest:
                        state[SIZE_AT] = flat + done + j
                        break
        else:
            for j in range(n):
                raw = i8(bits(values[j]))
                size = raw & 0x7FFFFFFF
                if size >= INFINITE:
                    if state[FIRST_BAD] < 0:
                        state[FIRST_BAD] = flat + done + j
                    if size > INFINITE:
                        state[NAN] += 1
                    elif raw > 0:
                        state[INF] += 1
                    else:
                        state[MINUS_INF] += 1
                    continue
                key = raw ^ ((raw >> 31) & 0x7FFFFFFF)
                state[LOW], state[HIGH] = min(state[LOW], key), max(state[HIGH], key)
                if values[j] < 0:
                    state[NEGATIVE] += 1
                if size > state[SIZE]:
                    state[SIZE] = size
                    state[SIZE_AT] = flat + done + j
        done += n


def numbers_of(keys: Array) -> Array:
    # `keys` order as the numbers do.
    raw: Array = keys.astype(np.int32)
    return np.where(raw < 0, raw ^ 0x7FFFFFFF, raw).astype(np.int32).view(np.float32)


@jit
def count_tops(x, absolute, finite_only, counts):
    """Add to the count of each value of the upper 16 bits of the keys of a run."""
    for j in range(x.size):
        v = fabs(x[j]) if absolute else x[j]
        raw = bits(v)
        if finite_only and (raw & 0x7FFFFFFF) >= INFINITE:
            continue
        key = i8(raw ^ ((raw >> 31) & 0x7FFFFFFF)) + 0x80000000
        counts[place_at(key >> 16)] += 1


@jit
def pick_tops(x, absolute, finite_only, wanted, found):
    """Copy the values of a run whose upper 16 bits are `wanted` into `found`; how many."""
    n = 0
    for j in range(x.size):
        v = fabs(x[j]) if absolute else x[j]
        raw = bits(v)
        if finite_only and (raw & 0x7FFFFFFF) >= INFINITE:
            continue
        key = i8(raw ^ ((raw >> 31) & 0x7FFFFFFF)) + 0x80000000
        if wanted[place_at(key >> 16)]:
            found[n] = v
            n += 1
    return n


@jit
def add_exactly(x, finite_only, partials):
    """Add |x| to an exact sum of a few float64 that do not overlap (Shewchuk 1997); `partials[0]` counts."""
    for j in range(x.size):
        v = f8(fabs(x[j]))
        if finite_only and not v < np.inf:
            continue
        kept = 1
        for k in range(1, int(partials[0]) + 1):
            other = partials[k]
            big = max(v, other)
            small = min(v, other)
            total = big + small
            lost = small - (total - big)
            if lost != 0.0:
                partials[kept] = lost
                kept += 1
            v = total
        partials[kept] = v
        partials[0] = kept


#: Powers of so many values are summed first, so that the sum of these sums rounds less.
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
