"""The kernel that compares codes and values that a file has with those nearest to the original.

Imported only where numba is there.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import call_cells
from quantviz.compiled.decoding import BRAIN, SINGLE, decode_brain, decode_half
from quantviz.compiled.machine_code import f4, i4, i8, jit, place_at
from quantviz.compiled.result_sums import TABLES

#: At a time: all that is made of them stays in a core's first cache.
TILE = 1024
#: Words of as many rows lie in a few lines of the cache.
_ROWS = 64
#: How values follow from codes: they are given; (code − zero point) · scale; code · scale + zero point.
GIVEN, SHIFTED, ADDED = range(3)


@jit
def compare(cells, originals, rule, codes_of_file, blocks, tile, tolerance, totals):
    """Compare a run of cells, decoded a tile at a time; sums that are not finite mean a number that is not.

    `cells` is the address of compiled arithmetic, see `vector_comparing`. `originals` are the stored words,
    how they are stored, or float32 values; `rule` gives values, or how they follow from codes, by block;
    `codes_of_file` are bytes, or words of four bits each (`WeightBand.words`), and the least code. `blocks`
    are their place and parameters. A code counts as nearest up to `slack[0]` steps and `slack[1]` of x;
    `apart` marks the blocks of which all do, or is empty. Of the `totals`, `near` counts nearest codes by
    columns, `hit` saturated codes by blocks, `counts` codes, those of words in pairs; `out` has all else.
    """
    q, packed, code_min = codes_of_file
    place, (params, count, floats, integers, tables) = blocks
    decoded, decoded_bits, values = tile
    slack, apart = tolerance
    near, hit, counts, out = totals
    runs = (np.empty(TILE + 1, np.int64), np.empty(TILE, np.int64), np.empty(TILE, np.int64))
    firsts, numbers, columns = runs
    allowed = np.zeros(TILE, np.float32)
    # Rows begin in different sets of the cache.
    of_rows = np.empty((_ROWS, len(packed) + 16), np.uint32)
    _count_pairs(packed, counts)
    of_tile = np.empty(TILE, np.uint8)
    total = max(q.size, 8 * packed.size)
    for start in range(0, total, TILE):
        n = min(TILE, total - start)
        x = _originals(originals, start, decoded[:n], decoded_bits[:n])
        if packed.size:
            codes = of_tile[:n]
            _put_codes(packed, start, near.size, of_rows, codes)
        else:
            codes = q[start : start + n]
            for k in range(n):
                counts[k & (TABLES - 1), (i8(codes[k]) - code_min) & 255] += 1
        those = _put_runs(start, n, place, near.size, runs)
        if rule[0] == GIVEN:
            x_hat = rule[1][start : start + n]
        else:
            x_hat = values[:n]
            for run in range(those):
                here = slice(firsts[run], firsts[run + 1])
                _put_values(codes[here], code_min, rule, numbers[run], x_hat[here])
        if apart.size:
            for run in range(those):
                allowed[run] = np.inf if apart[numbers[run]] else 0.0
        call_cells(
            cells, x.ctypes.data, x_hat.ctypes.data, i8(start), i8(those), firsts.ctypes.data,
            numbers.ctypes.data, columns.ctypes.data, allowed.ctypes.data, params.ctypes.data, i8(count),
            floats.ctypes.data, integers.ctypes.data, tables.ctypes.data, slack.ctypes.data,
            near.ctypes.data, hit.ctypes.data, out.ctypes.data,
        )  # fmt: skip


@jit
def _originals(originals, start, decoded, decoded_bits):
    # Decoded if they are not float32.
    words, stored, singles = originals
    if stored == SINGLE:
        return singles[start : start + decoded.size]
    of_tile = words[start : start + decoded.size]
    if stored == BRAIN:
        decode_brain(of_tile, decoded_bits)
    else:
        decode_half(of_tile, decoded_bits)
    return decoded


@jit
def _count_pairs(packed, counts):
    for word in packed.ravel():
        counts[0, word & np.uint32(255)] += 1
        counts[1, (word >> np.uint32(8)) & np.uint32(255)] += 1
        counts[2, (word >> np.uint32(16)) & np.uint32(255)] += 1
        counts[3, word >> np.uint32(24)] += 1


@jit
def _put_codes(packed, start, columns, of_rows, codes):
    # The words of some rows are put side by side where the first of these is reached.
    row, column = divmod(start, columns)
    done = 0
    while done < codes.size:
        if column == 0 and row % _ROWS == 0:
            _turn(packed, row, of_rows)
        n = min(codes.size - done, columns - column)
        _unpack(of_rows[row % _ROWS][column // 8 :], codes[done : done + n])
        done += n
        row += 1
        column = 0


@jit
def _turn(packed, first, of_rows):
    words, rows = packed.shape
    here = min(_ROWS, rows - first)
    for k in range(words):
        line = packed[k]
        for row in range(here):
            of_rows[row, k] = line[place_at(first + row)]


@jit
def _unpack(words, codes):
    for k in range(codes.size // 8):
        word = words[k]
        for i in range(8):
            codes[8 * k + i] = np.uint8((word >> np.uint32(4 * i)) & np.uint32(15))


@jit
def _put_runs(start, n, place, row, runs):
    """Put the runs of cells of one block in one row of `row` cells, and return how many there are.

    They are first cells in the tile, and the end, their blocks' numbers, and their first columns.
    """
    _, length, width, _, bases = place
    firsts, numbers, columns = runs
    line, column = divmod(start, length)
    block = bases[line] + column // width
    size = min(width - column % width, length - column)
    of_row = start % row
    count = 0
    done = 0
    while done < n:
        step = min(size, row - of_row)
        firsts[count] = done
        numbers[count] = block
        columns[count] = of_row
        count += 1
        done += step
        size -= step
        column += step
        of_row += step
        if of_row == row:
            of_row = 0
        if size > 0:
            continue
        block += 1
        if column == length:
            column = 0
            if done < n:
                line += 1
                block = bases[line]
        size = min(width, length - column)
    firsts[count] = n
    return count


@jit
def _put_values(codes, code_min, rule, block, values):
    how, _, scales, zero_points = rule
    scale = scales[block]
    zero_point = zero_points[block]
    # Bytes of negative codes have the sign in their highest bit.
    sign = i4(128) if code_min < 0 else i4(0)
    if how == SHIFTED:
        for k in range(values.size):
            values[k] = f4(f4(i4(i4(i4(codes[k]) ^ sign) - sign)) - zero_point) * scale
    else:
        for k in range(values.size):
            values[k] = f4(f4(i4(i4(i4(codes[k]) ^ sign) - sign)) * scale) + zero_point
