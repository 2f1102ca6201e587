"""The kernel that compares codes and values that a file has with those nearest to the original.

Imported only where numba is there.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, fabs
from quantviz.compiled.decoding import BRAIN, SINGLE, decode_brain, decode_half
from quantviz.compiled.driving import put
from quantviz.compiled.machine_code import f4, i4, i8, jit
from quantviz.compiled.result_sums import SUMS, TABLES, add_cells

_CLIPPED = SUMS.index("clipped")
#: Cells that are decoded and compared at a time: all that is made of them stays in a core's first cache.
TILE = 1024
#: How values follow from codes: they are given; (code − zero point) · scale; code · scale + zero point.
GIVEN, SHIFTED, ADDED = range(3)
#: The places of the extremes that are met: the keys of the least and largest x and value, whose order is
#: that of the numbers; the bits of the largest error, and of the largest error of the nearest codes.
LEAST_X, MOST_X, LEAST_VALUE, MOST_VALUE, LARGEST, OF_NEAREST = range(6)


@jit
def compare(cells, originals, rule, codes_of_file, blocks, tile, tolerance, found):
    """Compare a run of cells, decoding them a tile at a time. Sums that are not finite mean that a number is
    not.

    `cells` is the address of compiled arithmetic that puts steps and their inverses. `originals` are the
    stored words, how they are stored, or the values where those are float32; `rule` says how values follow
    from codes, by block, or gives them; `codes_of_file` are bytes, and the least code. `blocks` are their
    place and parameters. A code counts as nearest up to `slack[0]` steps and `slack[1]` of x; `apart` marks
    the cells to leave out, or is empty. Of what is `found`, `near` counts nearest codes by columns, `hit`
    marks blocks in which saturation changed a code, `counts` counts codes.
    """
    q, code_min = codes_of_file
    place, of_blocks = blocks
    slack, apart = tolerance
    words, stored, singles = originals
    how, given, scale, zero_point = rule
    decoded, decoded_bits, values, arrays = tile
    near, hit, counts, sums, extremes = found
    _, of_steps, errors, clipped, inverses = arrays
    _, length, width, _, bases = place
    for start in range(0, q.size, TILE):
        n = min(TILE, q.size - start)
        codes = q[start : start + n]
        if stored == SINGLE:
            own = singles[start : start + n]
        else:
            own = decoded[:n]
            if stored == BRAIN:
                decode_brain(words[start : start + n], decoded_bits[:n])
            else:
                decode_half(words[start : start + n], decoded_bits[:n])
        if how == GIVEN:
            x_hat = given[start : start + n]
        else:
            x_hat = values[:n]
            _follow(codes, start, place, how, code_min < 0, scale, zero_point, x_hat)
        put(cells, own, i8(0), n, i8(start), place, of_blocks, arrays, i8(0))
        saturated = sums[_CLIPPED]
        largest = add_cells(own, x_hat, clipped[:n], inverses[:n], sums)
        extremes[LARGEST] = max(extremes[LARGEST], largest)
        for k in range(n):
            counts[k & (TABLES - 1), (i8(codes[k]) - code_min) & 255] += 1
        done = 0
        while done < n:
            column = (start + done) % length
            last = min(done + length - column, n)
            lines = near[column : column + last - done]
            of_line = (own[done:last], x_hat[done:last], errors[done:last], of_steps[done:last])
            _look(of_line, slack, lines, extremes)
            if apart.size:
                for k in range(done, last):
                    # It was counted already where it is near.
                    if apart[start + k] and not _is_near(own[k], x_hat[k], errors[k], of_steps[k], slack):
                        lines[k - done] += 1
            done = last
        if sums[_CLIPPED] > saturated:
            _mark(clipped[:n], start, length, width, bases, hit)


@jit
def _follow(codes, start, place, how, signed, scale, zero_point, values):
    """Put the values that follow from codes by the scales and zero points of their blocks."""
    _, length, width, _, bases = place
    done = 0
    line = start // length
    column = start % length
    while done < codes.size:
        block = bases[line] + column // width
        end = min(done + length - column, codes.size)
        last = done + width - column % width
        while done < end:
            last = min(last, end)
            of_block = codes[done:last]
            made = values[done:last]
            if signed:
                _decode(of_block.view(np.int8), how, scale[block], zero_point[block], made)
            else:
                _decode(of_block, how, scale[block], zero_point[block], made)
            done = last
            last += width
            block += 1
        line += 1
        column = 0


@jit
def _decode(codes, how, scale, zero_point, values):
    """Put the values of a block's codes."""
    if how == SHIFTED:
        for k in range(values.size):
            values[k] = f4(f4(codes[k]) - zero_point) * scale
    else:
        for k in range(values.size):
            values[k] = f4(f4(codes[k]) * scale) + zero_point


@jit
def _any(flags):
    """Return whether a flag is set."""
    found = np.uint8(0)
    for flag in flags.view(np.uint8):
        found |= flag
    return found != 0


@jit
def _mark(clipped, start, length, width, bases, hit):
    """Mark the blocks with a cell that saturation changed."""
    done = 0
    line = start // length
    column = start % length
    while done < clipped.size:
        block = bases[line] + column // width
        end = min(done + length - column, clipped.size)
        last = done + width - column % width
        while done < end:
            last = min(last, end)
            hit[block] |= _any(clipped[done:last])
            done = last
            last += width
            block += 1
        line += 1
        column = 0


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
