"""Kernels that add up cells that lie in buffers: a tally's sums and counts, and sums by axis."""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import bits, fabs, plus, plus_product, select
from quantviz.compiled.machine_code import f8, i4, i8, kernel_part, place_at
from quantviz.compiled.partial_sums import (
    BIAS,
    CELLS,
    CLIPPED,
    CLIPPED_NOISE,
    CLIPPED_STEPS,
    FIRST_SEEN,
    INFINITE,
    LARGEST,
    LARGEST_AT,
    LAST_SEEN,
    LEFT_OUT,
    NOISE,
    PRODUCT,
    SIGNAL,
    STEPS,
    VALUES,
    ZEROED,
    ZEROS,
)


@kernel_part
def add_up(x, at, arrays, n, flat, totals):
    """Add up the first `n` cells of the buffers, whose x begin at `at` and are the tensor's from `flat`
    on.
    """
    q, x_hat, error, clipped, steps = arrays
    code_min, sums, counts, (seen, occurred, _) = totals
    signal = values = product = bias = noise = in_steps = f8(0.0)
    zeros = zeroed = clips = i4(0)
    largest = i4(0)
    first = last = q[0]
    values_in = x[at : at + n]
    for j in range(n):
        v = values_in[j]
        h = x_hat[j]
        e = error[j]
        wide = f8(v)
        wide_hat = f8(h)
        wide_error = f8(e)
        signal = plus_product(signal, wide, wide)
        values = plus_product(values, wide_hat, wide_hat)
        product = plus_product(product, wide, wide_hat)
        noise = plus_product(noise, wide_error, wide_error)
        bias = plus(bias, wide_error)
        in_steps = plus_product(in_steps, steps[j], steps[j])
        zeros = i4(zeros + i4(v == 0))
        zeroed = i4(zeroed + i4((h == 0) & (v != 0)))
        clips = i4(clips + i4(clipped[j]))
        size = i4(bits(e) & 0x7FFFFFFF)
        largest = select(size > largest, size, largest)
        code = q[j]
        first = select(code < first, code, first)
        last = select(code > last, code, last)
    sums[SIGNAL] += signal
    sums[VALUES] += values
    sums[PRODUCT] += product
    sums[BIAS] += bias
    counts[CELLS] += n
    counts[ZEROS] += zeros
    counts[ZEROED] += zeroed
    if clips > 0:
        counts[CLIPPED] += clips
        # Apart from each other: the one can be as small as the last digits of the other.
        noise = in_steps = clipped_noise = clipped_steps = f8(0.0)
        for j in range(n):
            e = f8(error[j])
            s = steps[j]
            out = clipped[j]
            noise = plus(noise, select(out, f8(0.0), e * e))
            clipped_noise = plus(clipped_noise, select(out, e * e, f8(0.0)))
            in_steps = plus(in_steps, select(out, f8(0.0), s * s))
            clipped_steps = plus(clipped_steps, select(out, s * s, f8(0.0)))
        sums[CLIPPED_NOISE] += clipped_noise
        sums[CLIPPED_STEPS] += clipped_steps
    sums[NOISE] += noise
    sums[STEPS] += in_steps
    if largest > counts[LARGEST] and counts[LARGEST] < INFINITE:
        counts[LARGEST] = largest
        for j in range(n):
            size = i4(bits(error[j]) & 0x7FFFFFFF)
            # For NaN and Inf the first place counts, not the largest.
            if size == largest or size >= INFINITE:
                counts[LARGEST_AT] = flat + j
                break
    if occurred.size:
        for j in range(n):
            occurred[place_at(q[j] & 0xFF)] += 1
    elif first - code_min < counts[FIRST_SEEN] or last - code_min > counts[LAST_SEEN]:
        mark_seen(q, n, code_min, counts, seen)


@kernel_part
def mark_seen(q, n, code_min, counts, seen):
    """Note which codes occur. A chunk within the codes from FIRST_SEEN to LAST_SEEN, which all did, can be
    left out.
    """
    for j in range(n):
        seen[place_at(i8(q[j]) - code_min)] = True
    middle = i8(q[n // 2]) - code_min
    # Outside of them most likely they were rare ones, far from the others.
    widen_seen(counts, seen, middle < counts[FIRST_SEEN] or middle > counts[LAST_SEEN])


@kernel_part
def count_codes(codes, n, occurred):
    """Count the lowest bytes of `n` codes."""
    whole = n // 4 * 4
    for j in range(0, whole, 4):
        here = codes[j : j + 4]
        occurred[place_at(here[0])] += 1
        occurred[place_at(here[1]) + 256] += 1
        occurred[place_at(here[2]) + 512] += 1
        occurred[place_at(here[3]) + 768] += 1
    for j in range(whole, n):
        occurred[place_at(codes[j])] += 1


@kernel_part
def widen_seen(counts, seen, anew):
    """Widen FIRST_SEEN and LAST_SEEN as far as all codes between them are known to occur.

    With `anew` begin with the longest run of such codes.
    """
    if anew:
        begin = 0
        for k in range(seen.size + 1):
            if k == seen.size or not seen[k]:
                if k - begin > counts[LAST_SEEN] + 1 - counts[FIRST_SEEN]:
                    counts[FIRST_SEEN] = begin
                    counts[LAST_SEEN] = k - 1
                begin = k + 1
    while counts[FIRST_SEEN] > 0 and seen[counts[FIRST_SEEN] - 1]:
        counts[FIRST_SEEN] -= 1
    while counts[LAST_SEEN] + 1 < seen.size and seen[counts[LAST_SEEN] + 1]:
        counts[LAST_SEEN] += 1


@kernel_part
def add_finite(x, at, arrays, n, flat, totals):
    """Add up cells as `add_up` does, one by one, without those whose x is NaN or Inf."""
    q, x_hat, error, clipped, steps = arrays
    for j in range(n):
        if fabs(x[at + j]) < np.inf:
            q[0] = q[j]
            x_hat[0] = x_hat[j]
            error[0] = error[j]
            clipped[0] = clipped[j]
            steps[0] = steps[j]
            add_up(x, at + j, arrays, i8(1), flat + j, totals)
        else:
            totals[2][LEFT_OUT] += 1


@kernel_part
def all_finite(x, at, n):
    """Return whether the `n` numbers from `at` on are all finite."""
    largest = i4(0)
    values = x[at : at + n]
    for j in range(n):
        size = i4(bits(values[j]) & 0x7FFFFFFF)
        largest = select(size > largest, size, largest)
    return largest < INFINITE


@kernel_part
def add_by_axis(x, at, error, n, flat, shape, signal, noise):
    """Add x² and error² to the sums of each index of each axis, which lie one axis after the other."""
    axes = shape.size
    length = shape[axes - 1]
    columns = signal.size - length
    done = 0
    while done < n:
        row, column = divmod(flat + done, length)
        m = min(n - done, length - column)
        total_signal = total_noise = f8(0.0)
        values = x[at + done : at + done + m]
        errors = error[done : done + m]
        of_signals = signal[columns + column : columns + column + m]
        of_noises = noise[columns + column : columns + column + m]
        for j in range(m):
            v = f8(values[j])
            e = f8(errors[j])
            v = select(fabs(v) < np.inf, v, f8(0.0))
            e = select(fabs(e) < np.inf, e, f8(0.0))
            of_signals[j] += v * v
            of_noises[j] += e * e
            total_signal = plus_product(total_signal, v, v)
            total_noise = plus_product(total_noise, e, e)
        end = columns
        for axis in range(axes - 2, -1, -1):
            end -= shape[axis]
            signal[end + row % shape[axis]] += total_signal
            noise[end + row % shape[axis]] += total_noise
            row //= shape[axis]
        done += m
