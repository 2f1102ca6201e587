"""Kernels over runs of a tensor: values of pixels, sums by blocks, bins, the largest errors.

Imported only if numba is installed, by `streaming/pools.py` at the first call. A run is some lines of a
matrix, each the same stretch of cells (from … to before), one after the other in memory.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.driving import put
from quantviz.compiled.machine_code import jit, kernel_part
from quantviz.evaluation.histogram_bins import ERROR_BINS

#: Of the bits of a float32 those of its magnitude, which as whole numbers are in the same order; beyond Inf
#: lies NaN.
_MAGNITUDE = np.int32(0x7FFFFFFF)
_INF = np.int32(0x7F800000)
#: Lines that are looked at together.
_GROUP = 8
#: A place that is known not to be negative: others are looked at twice.
_place = np.uint64


# ---- values of pixels ---------------------------------------------------------------------------


@kernel_part
def _up_to(edges, place):
    """Return the number of edges up to a place. It compiles in a tenth of the time of np.searchsorted, and is
    called once a run.
    """
    count = 0
    while count < len(edges) and edges[count] <= place:
        count += 1
    return count


@kernel_part
def _find_stretches(columns, begin, most, near, far):
    """Find the largest of each stretch of `columns`, from begin[j] to before begin[j + 1].

    `near` and `far` take the places of the first and the last that is as large.
    """
    for j in range(most.size):
        first = last = begin[j]
        largest = columns[_place(first)]
        for at in range(first + 1, begin[j + 1]):
            value = columns[_place(at)]
            first = at if value > largest else first
            last = at if value >= largest else last
            largest = max(value, largest)
        most[j] = largest
        near[j] = first
        far[j] = last


@jit
def add_largest(bits, lines, cells, line_edges, cell_edges, turned, found, found_at):
    """Add a run, as the bits of its values: `found` are those of the cell of largest magnitude of each pixel,
    and `found_at` its place in the pixel, row-major (with `turned` lines are columns) and of equal ones the
    first; -1 where all were NaN so far.
    """
    stride = cells[1] - cells[0]
    first = _up_to(cell_edges, cells[0]) - 1
    last = _up_to(cell_edges, cells[1] - 1)
    count = last - first
    # Where pixels begin along the line, counted from its first cell.
    begin = np.empty(count + 1, dtype=np.int32)
    for j in range(count + 1):
        begin[j] = min(max(cell_edges[first + j], cells[0]), cells[1]) - cells[0]
    columns = np.empty(stride, dtype=np.int32)
    i = _up_to(line_edges, lines[0]) - 1
    tallest = 0
    k = i
    while k + 1 < len(line_edges) and line_edges[k] < lines[1]:
        tallest = max(tallest, min(line_edges[k + 1], lines[1]) - max(line_edges[k], lines[0]))
        k += 1
    groups = np.empty(-(-tallest // _GROUP) * stride, dtype=np.int32)
    most = np.empty(count, dtype=np.int32)
    near = np.empty(count, dtype=np.int32)
    far = np.empty(count, dtype=np.int32)
    rows = np.empty(count, dtype=np.int32)
    values = np.empty(count, dtype=np.int32)
    top = lines[0]
    while top < lines[1]:
        bottom = min(line_edges[i + 1], lines[1])
        start = (top - lines[0]) * stride
        tall = bottom - top
        _largest_of_lines(bits, start, stride, tall, groups, columns)
        _find_stretches(columns, begin, most, near, far)
        _find_lines(bits[_place(start) :], stride, tall, groups, near, most, rows, values)
        down = top - line_edges[i]
        whole = line_edges[i + 1] - line_edges[i]
        new = found[i, first:last]
        new_at = found_at[i, first:last]
        if _is_plain(most, near, far, rows, new_at, turned):
            here = cell_edges[first:]
            for j in range(count):
                across = near[j] + cells[0] - here[j]
                new[j] = values[j]
                new_at[j] = (
                    across * whole + down + rows[j]
                    if turned
                    else (down + rows[j]) * (here[j + 1] - here[j]) + across
                )
        else:
            for j in range(count):
                value = values[j]
                row = rows[j]
                cell = near[j]
                if most[j] > _INF:  # there is a NaN, which hides the others
                    row, cell = _largest_number(bits, start, stride, tall, begin[j], begin[j + 1], turned)
                elif (
                    far[j] != cell and row > 0 and not turned
                ):  # of equal ones in other columns one can stand higher
                    row, cell = _highest(bits, start, stride, row, columns, cell, far[j], most[j])
                if row < 0:
                    continue
                value = bits[start + row * stride + cell]
                across = cell + cells[0] - cell_edges[first + j]
                at = (
                    across * whole + down + row
                    if turned
                    else (down + row) * (cell_edges[first + j + 1] - cell_edges[first + j]) + across
                )
                magnitude = value & _MAGNITUDE
                known = new[j] & _MAGNITUDE
                if new_at[j] < 0 or magnitude > known or (magnitude == known and at < new_at[j]):
                    new[j] = value
                    new_at[j] = at
        top = bottom
        i += 1


@jit
def add_largest_errors(
    cells,
    x,
    flat,
    apart,
    place,
    of_blocks,
    arrays,
    bits,
    most,
    lines,
    across,
    line_edges,
    cell_edges,
    turned,
    found,
    found_at,
):
    """Add the errors of a run as `cells`, the address of compiled arithmetic, makes them; `most` of them at a
    time, `bits` being theirs.

    The run's first cell is at `flat` in the tensor, and its lines begin `apart` cells from each other there;
    in `x` they follow each other.
    """
    stride = across[1] - across[0]
    step = max(most // stride, 1)
    top = lines[0]
    while top < lines[1]:
        bottom = min(top + step, lines[1])
        # Whole pixels, if some of them are no more than that.
        whole = line_edges[_up_to(line_edges, bottom) - 1]
        if whole > top:
            bottom = whole
        for line in range(top, bottom):
            start = (line - lines[0]) * stride
            there = flat + (line - lines[0]) * apart
            put(cells, x, start, stride, there - start, place, of_blocks, arrays, (line - top) * stride)
        add_largest(
            bits[: (bottom - top) * stride],
            (top, bottom),
            across,
            line_edges,
            cell_edges,
            turned,
            found,
            found_at,
        )
        top = bottom


@kernel_part
def _largest_of_lines(bits, start, stride, tall, groups, out):
    """Find the largest magnitude of each column of a run, and before that of each group of eight lines.

    The last group repeats its last line where it has fewer than eight.
    """
    n = len(out)
    out[:] = 0
    for group in range(-(-tall // _GROUP)):
        at = start + group * _GROUP * stride
        last = tall - 1 - group * _GROUP
        a = bits[at : at + n]
        b = bits[at + min(1, last) * stride : at + min(1, last) * stride + n]
        c = bits[at + min(2, last) * stride : at + min(2, last) * stride + n]
        d = bits[at + min(3, last) * stride : at + min(3, last) * stride + n]
        e = bits[at + min(4, last) * stride : at + min(4, last) * stride + n]
        f = bits[at + min(5, last) * stride : at + min(5, last) * stride + n]
        g = bits[at + min(6, last) * stride : at + min(6, last) * stride + n]
        h = bits[at + min(7, last) * stride : at + min(7, last) * stride + n]
        own = groups[group * n : group * n + n]
        for k in range(n):
            one = max(max(a[k] & _MAGNITUDE, b[k] & _MAGNITUDE), max(c[k] & _MAGNITUDE, d[k] & _MAGNITUDE))
            other = max(max(e[k] & _MAGNITUDE, f[k] & _MAGNITUDE), max(g[k] & _MAGNITUDE, h[k] & _MAGNITUDE))
            own[k] = max(one, other)
            out[k] = max(own[k], out[k])


@kernel_part
def _find_lines(bits, stride, tall, groups, columns, most, lines, values):
    """Find the first line in which each pixel's column has its largest magnitude, and the value there.

    The group of eight lines is found first, then the line in it.
    """
    count = len(columns)
    lines[:] = 0
    for group in range(-(-tall // _GROUP) - 1, 0, -1):
        here = groups[group * stride :]
        for j in range(count):
            lines[j] = group * _GROUP if here[_place(columns[j])] == most[j] else lines[j]
    if tall > _GROUP:
        here = groups[:stride]
        for j in range(count):
            lines[j] = 0 if here[_place(columns[j])] == most[j] else lines[j]
    for j in range(count):
        # From the last of the eight to the first, so that the first is kept; there is one.
        at = np.int64(lines[j]) * stride + columns[j]
        rest = min(_GROUP, tall - lines[j]) - 1
        found = rest
        value = bits[_place(at + rest * stride)]
        for k in range(rest - 1, -1, -1):
            other = bits[_place(at + k * stride)]
            here = other & _MAGNITUDE == most[j]
            found = k if here else found
            value = other if here else value
        lines[j] += found
        values[j] = value


@kernel_part
def _is_plain(most, near, far, rows, known, turned):
    """Return whether the simple way is right for all pixels of some lines.

    It is not where a pixel has a NaN, a cell that is known already, or equal largest cells of which one in
    a later column can be the first.
    """
    others = False
    for j in range(len(most)):
        others |= (most[j] > _INF) | (known[j] >= 0) | ((near[j] != far[j]) & (rows[j] > 0) & (not turned))
    return not others


@kernel_part
def _highest(bits, start, stride, row, columns, cell, last, most):
    """Find the first place in row-major order of magnitude `most`, in the columns from `cell` to `last`.

    The place at `row` and `cell` is known.
    """
    column = cell
    for c in range(cell + 1, last + 1):
        if columns[c] == most:
            for r in range(row):
                if bits[start + r * stride + c] & _MAGNITUDE == most:
                    row = r
                    column = c
                    break
    return row, column


@kernel_part
def _largest_number(bits, start, stride, tall, left, right, turned):
    """Return line and column of the first cell of largest magnitude that is no NaN, or -1."""
    most = np.int32(-1)
    row = -1
    cell = -1
    for line in range(tall):
        for c in range(left, right):
            magnitude = bits[start + line * stride + c] & _MAGNITUDE
            if magnitude <= _INF and (magnitude > most or (turned and magnitude == most and c < cell)):
                most = magnitude
                row = line
                cell = c
    return row, cell


@jit
def add_sums(values, lines, cells, line_edges, cell_edges, squared, sums, counts):
    """Add a run to each pixel's sum of values, or of their squares, and to how many there are; NaN is left
    out.
    """
    stride = cells[1] - cells[0]
    totals = np.empty(stride)
    known = np.empty(stride)
    first = _up_to(cell_edges, cells[0]) - 1
    i = _up_to(line_edges, lines[0]) - 1
    top = lines[0]
    while top < lines[1]:
        bottom = min(line_edges[i + 1], lines[1])
        totals[:] = 0.0
        known[:] = 0.0
        for line in range(top - lines[0], bottom - lines[0]):
            here = values[line * stride : line * stride + stride]
            for c in range(stride):
                value = np.float64(here[c])
                if value != value:
                    continue
                totals[c] += value * value if squared else value
                known[c] += 1.0
        j = first
        left = cells[0]
        while left < cells[1]:
            right = min(cell_edges[j + 1], cells[1])
            for c in range(left - cells[0], right - cells[0]):
                sums[i, j] += totals[c]
                counts[i, j] += known[c]
            left = right
            j += 1
        top = bottom
        i += 1


# ---- counts of a survey -------------------------------------------------------------------------


@jit
def add_by_block(x, error, start, view, block, grid, first, signal, noise, largest):
    """Add a run from place `start` of a tensor of shape `view` to its blocks' Σx², Σerror² and largest
    |error|; four axes, block `first` at 0.
    """
    length = view[3]
    done = 0
    while done < len(x):
        row = (start + done) // length
        left = (start + done) % length
        i = row // (view[1] * view[2])
        j = row // view[2] % view[1]
        k = row % view[2]
        base = ((i // block[0] * grid[1] + j // block[1]) * grid[2] + k // block[2]) * grid[3] - first
        stop = min(len(x), done + length - left)
        if block[3] == 1:
            n = stop - done
            to = base + left
            here = x[done : done + n]
            errors = error[done : done + n]
            of_signals = signal[to : to + n]
            of_noises = noise[to : to + n]
            most_of = largest[to : to + n]
            for k in range(n):
                a = np.float64(here[k])
                b = errors[k]
                of_signals[k] += a * a
                of_noises[k] += np.float64(b) * np.float64(b)
                most_of[k] = abs(b) if abs(b) > most_of[k] else most_of[k]
            done = stop
        while done < stop:
            number = left // block[3]
            end = min(stop, done + (number + 1) * block[3] - left)
            of_signal = 0.0
            of_noise = 0.0
            most = np.float32(0.0)
            for at in range(done, end):
                a = np.float64(x[at])
                b = error[at]
                of_signal += a * a
                of_noise += np.float64(b) * np.float64(b)
                most = abs(b) if abs(b) > most else most
            signal[base + number] += of_signal
            noise[base + number] += of_noise
            largest[base + number] = max(largest[base + number], most)
            left += end - done
            done = end


@jit
def add_to_bins(x, x_hat, clipped, steps, edges, cuts, value_counts, error_counts):
    """Count cells by the bins of their value and of their error, each by its part (a row of the counts)."""
    bins = len(edges) - 1
    size = 2048
    below = np.empty(bins, dtype=np.float32)
    above = np.empty(bins, dtype=np.float32)
    below[0] = -np.inf
    above[bins - 1] = np.inf
    for k in range(bins - 1):
        below[k + 1] = cuts[k]
        above[k] = cuts[k]
    of_value = np.empty(size, dtype=np.int32)
    of_error = np.empty(size, dtype=np.int32)
    values = np.zeros(bins * 3, dtype=np.int64)
    errors = np.zeros((ERROR_BINS + 2) * 3, dtype=np.int64)
    for start in range(0, len(x), size):
        end = min(start + size, len(x))
        n = end - start
        _place_cells(
            x[start:end],
            x_hat[start:end],
            clipped[start:end],
            steps[start:end],
            edges,
            below,
            above,
            of_value[:n],
            of_error[:n],
        )
        for k in range(n):
            values[_place(of_value[k])] += 1
            errors[_place(of_error[k])] += 1
    for part in range(3):
        for k in range(bins):
            value_counts[part, k] += values[part * bins + k]
        for k in range(ERROR_BINS + 2):
            error_counts[part, k] += errors[part * (ERROR_BINS + 2) + k]


@kernel_part
def _place_cells(x, x_hat, clipped, steps, edges, below, above, of_value, of_error):
    """Find the place of each cell among the bins of all parts.

    The cuts decide: equal steps only give the place to look at first.
    """
    last = np.int32(len(below) - 1)
    low = edges[0]
    per_unit = len(below) / (edges[-1] - edges[0])
    missed = False
    for k in range(len(x)):
        value = x[k]
        at = np.int32(min(max((np.float64(value) - low) * per_unit, 0.0), np.float64(last)))
        at = at + np.int32(value >= above[_place(at)]) - np.int32(value < below[_place(at)])
        missed |= (value >= above[_place(at)]) | (value < below[_place(at)])
        of_value[k] = at
    if missed:
        for k in range(len(x)):
            while x[k] >= above[of_value[k]]:
                of_value[k] += 1
            while x[k] < below[of_value[k]]:
                of_value[k] -= 1
    for k in range(len(x)):
        step = steps[k] if steps[k] == steps[k] else 0.0
        if clipped[k]:
            part = np.int32(2)
        elif (x[k] != 0) & (x_hat[k] == 0):
            part = np.int32(1)
        else:
            part = np.int32(0)
        inside = np.int32(1) + np.int32(min(max((step + 0.5) * ERROR_BINS, 0.0), ERROR_BINS - 1.0))
        outside = np.int32(0) if step < 0 else np.int32(ERROR_BINS + 1)
        of_value[k] += part * (last + np.int32(1))
        of_error[k] = part * np.int32(ERROR_BINS + 2) + (outside if clipped[k] else inside)


@jit
def keep_largest(error, start, sizes, places, count):
    """Add a run to the cells of largest |error|, largest first, of equal ones the first, and return the new
    `count` of them.
    """
    for begin in range(0, len(error), 2048):
        end = min(begin + 2048, len(error))
        most = np.float32(0.0)
        for at in range(begin, end):
            size = abs(error[at])
            most = size if size > most else most
        if most == 0 or (count == len(sizes) and (count == 0 or most <= sizes[count - 1])):
            continue
        for at in range(begin, end):
            size = abs(error[at])
            if size > 0 and (count < len(sizes) or size > sizes[count - 1]):
                place = count if count < len(sizes) else count - 1
                while place > 0 and size > sizes[place - 1]:
                    sizes[place] = sizes[place - 1]
                    places[place] = places[place - 1]
                    place -= 1
                sizes[place] = size
                places[place] = start + at
                count = min(count + 1, len(sizes))
    return count
