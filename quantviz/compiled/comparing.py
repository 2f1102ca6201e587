"""The kernel that compares codes and values that a file has with those nearest to the original.

Imported only where numba is there.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, fabs
from quantviz.compiled.decoding import BRAIN, SINGLE, decode_brain, decode_half
from quantviz.compiled.driving import put
from quantviz.compiled.machine_code import f4, i4, i8, jit, place_at
from quantviz.compiled.result_sums import SUMS, TABLES, add_cells

_CLIPPED = SUMS.index("clipped")
#: Cells that are decoded and compared at a time: all that is made of them stays in a core's first cache.
TILE = 1024
#: Rows whose codes are unpacked at a time: a line of the cache has the words of as many.
_ROWS = 16
#: How values follow from codes: they are given; (code − zero point) · scale; code · scale + zero point.
GIVEN, SHIFTED, ADDED = range(3)
#: The places of the extremes that are met: the keys of the least and largest x and value, whose order is
#: that of the numbers; the bits of the largest error, and of the largest error of the nearest codes.
LEAST_X, MOST_X, LEAST_VALUE, MOST_VALUE, LARGEST, OF_NEAREST = range(6)


@jit
def compare(cells, originals, rule, codes_of_file, blocks, tile, tolerance, totals):
    """Compare a run of cells, decoding them a tile at a time. Sums that are not finite mean that a number is
    not.

    `cells` is the address of compiled arithmetic that puts steps and their inverses. `originals` are the
    stored words, how they are stored, or the values where those are float32; `rule` says how values follow
    from codes, by block, or gives them; `codes_of_file` are bytes, or words of four bits each (`Band.words`),
    and the least code. `blocks` are their place and parameters. A code counts as nearest up to `slack[0]`
    steps and `slack[1]` of x; `apart` marks the cells to leave out, or is empty. Of the `totals`, `near`
    counts nearest codes by columns, `hit` marks blocks in which saturation changed a code, `counts` counts
    codes, those of words in pairs.
    """
    q, packed, code_min = codes_of_file
    place, of_blocks = blocks
    slack, apart = tolerance
    decoded, decoded_bits, values, arrays = tile
    near, hit, counts, sums, extremes = totals
    _, of_steps, errors, clipped, inverses = arrays
    firsts = np.empty(TILE + 1, np.int64)
    numbers = np.empty(TILE, np.int64)
    # Rows begin in different sets of the cache.
    of_rows = np.empty((_ROWS, len(packed) + 8), np.uint64)
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
        runs = _put_blocks(start, n, place, firsts, numbers)
        if rule[0] == GIVEN:
            x_hat = rule[1][start : start + n]
        else:
            x_hat = values[:n]
            for run in range(runs):
                here = slice(firsts[run], firsts[run + 1])
                _put_values(codes[here], code_min, rule, numbers[run], x_hat[here])
        put(cells, x, i8(0), n, i8(start), place, of_blocks, arrays, i8(0))
        saturated = sums[_CLIPPED]
        largest = add_cells(x, x_hat, clipped[:n], inverses[:n], sums)
        extremes[LARGEST] = max(extremes[LARGEST], largest)
        if sums[_CLIPPED] > saturated:
            for run in range(runs):
                hit[numbers[run]] |= _any(clipped[firsts[run] : firsts[run + 1]])
        done = 0
        while done < n:
            column = (start + done) % near.size
            last = min(done + near.size - column, n)
            lines = near[column : column + last - done]
            of_line = (x[done:last], x_hat[done:last], errors[done:last], of_steps[done:last])
            _look(of_line, slack, lines, extremes)
            if apart.size:
                for k in range(done, last):
                    # It was counted already where it is near.
                    if apart[start + k] and not _is_near(x[k], x_hat[k], errors[k], of_steps[k], slack):
                        lines[k - done] += 1
            done = last


@jit
def _originals(originals, start, decoded, decoded_bits):
    """Return the original values of a tile, decoded into an array if they are not float32."""
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
    """Count the pairs of codes in the bytes of words."""
    for word in packed.ravel():
        counts[0, word & np.uint32(255)] += 1
        counts[1, (word >> np.uint32(8)) & np.uint32(255)] += 1
        counts[2, (word >> np.uint32(16)) & np.uint32(255)] += 1
        counts[3, word >> np.uint32(24)] += 1


@jit
def _put_codes(packed, start, columns, of_rows, codes):
    """Put the codes of a tile. Those of some rows are unpacked where the first of them is reached."""
    row, column = divmod(start, columns)
    done = 0
    while done < codes.size:
        if column == 0 and row % _ROWS == 0:
            _unpack(packed, row, of_rows)
        n = min(codes.size - done, columns - column)
        of_row = of_rows[row % _ROWS].view(np.uint8)[column : column + n]
        of_tile = codes[done : done + n]
        for k in range(n):
            of_tile[k] = of_row[k]
        done += n
        row += 1
        column = 0


@jit
def _unpack(packed, first, of_rows):
    """Put the codes of words of `_ROWS` rows, eight in a number."""
    words, rows = packed.shape
    here = min(_ROWS, rows - first)
    for k in range(words):
        line = packed[k]
        for row in range(here):
            apart = np.uint64(line[place_at(first + row)])
            apart = (apart | (apart << np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
            apart = (apart | (apart << np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
            of_rows[row, k] = (apart | (apart << np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)


@jit
def _put_blocks(start, n, place, firsts, numbers):
    """Put the first cell of each block in a tile, and the end, and the blocks' numbers; return how many there
    are.
    """
    _, length, width, _, bases = place
    line, column = divmod(start, length)
    block = bases[line] + column // width
    size = min(width - column % width, length - column)
    runs = 0
    done = 0
    while done < n:
        firsts[runs] = done
        numbers[runs] = block
        runs += 1
        done += size
        column += size
        block += 1
        if column == length and done < n:
            column = 0
            line += 1
            block = bases[line]
        size = min(width, length - column)
    firsts[runs] = n
    return runs


@jit
def _put_values(codes, code_min, rule, block, values):
    """Put the values of codes of one block."""
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


@jit
def _any(flags):
    """Return whether a flag is set."""
    found = np.uint8(0)
    for flag in flags.view(np.uint8):
        found |= flag
    return found != 0


@jit
def _is_near(x, x_hat, nearest, step, slack):
    allowed = f4(f4(slack[0] * step) + f4(slack[1] * fabs(x)))
    return not fabs(f4(x_hat - x)) > f4(fabs(nearest) + allowed)


@jit
def _look(cells, slack, near, extremes):
    """Count the nearest codes of a part of a line, and take its extremes."""
    x, x_hat, nearest, steps = cells
    least = least_value = i4(0x7FFFFFFF)
    most = most_value = i4(-0x80000000)
    of_nearest = i4(0)
    for k in range(near.size):
        a = x[k]
        b = x_hat[k]
        near[k] += i4(_is_near(a, b, nearest[k], steps[k], slack))
        key = bits(a)
        key = i4(key ^ ((key >> i4(31)) & i4(0x7FFFFFFF)))
        least = min(least, key)
        most = max(most, key)
        key = bits(b)
        key = i4(key ^ ((key >> i4(31)) & i4(0x7FFFFFFF)))
        least_value = min(least_value, key)
        most_value = max(most_value, key)
        of_nearest = max(of_nearest, bits(fabs(nearest[k])))
    extremes[LEAST_X] = min(extremes[LEAST_X], least)
    extremes[MOST_X] = max(extremes[MOST_X], most)
    extremes[LEAST_VALUE] = min(extremes[LEAST_VALUE], least_value)
    extremes[MOST_VALUE] = max(extremes[MOST_VALUE], most_value)
    extremes[OF_NEAREST] = max(extremes[OF_NEAREST], of_nearest)
