"""What is compiled: kernels over runs of a tensor, the fixed ones and those made of a cell's traced
arithmetic.

Imported only where numba is there. Kernels hold no lock of Python's, so that threads run side by side.
Compiled code is kept in a folder of the user's own; where there is none that can be trusted, it is compiled
in memory, once a process.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir as _ir
from numba import types
from numba.extending import intrinsic as _intrinsic
from numba.extending import overload as _overload

from quantviz.compiled.hand_written import by_hand
from quantviz.compiled.kernel_cache import cache_folder
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
from quantviz.compiled.tracing import BlockCode, CellCode, of_numbers, replaced, unsaturated, words_of
from quantviz.compiled.vector_sums import AT, GIVEN, GIVEN_TO_TRY, LEAST, TERMS, described, summing, trying
from quantviz.schemes.calibration import FLOAT32_EXACT_INTEGER, FLOAT32_MAX

Array = npt.NDArray[Any]

#: What numba makes of a function is its own affair: nothing here has Python's types.
intrinsic: Any = _intrinsic
overload: Any = _overload
_config: Any = numba.config
_njit: Any = numba.njit
ir: Any = _ir
#: Elements that are worked on at a time: what is made of them stays in a core's first cache.
CHUNK = 2048
#: Lines that are gone through side by side where blocks have one element of each: as many as sums may begin
#: with.
ROWS = TERMS


# ---- where compiled code is kept ----------------------------------------------------------------


def jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel when it is first called, once for each type of arguments."""
    return _in_folder(_njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function))


def kernel_part(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels: Python does not call it, and what would unpack its arguments need not be
    compiled.
    """
    return _in_folder(
        _njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)(function)
    )


def _in_folder(compiled: Any) -> Any:
    folder = cache_folder()
    if folder is not None:
        with _caching_in(folder):
            compiled.enable_caching()
    return compiled


@contextmanager
def _caching_in(folder: Path | None) -> Iterator[None]:
    """numba's folder is this one for what is made now; other code in the process keeps its own."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = before if folder is None else str(folder)
    try:
        yield
    finally:
        _config.CACHE_DIR = before


# ---- what is written by hand, and its plain forms ------------------------------------------------

#: What compiled arithmetic is given as an address, and of what kind the numbers are that lie there; all else
#: are whole numbers.
_POINTERS: dict[str, Any] = {
    "x": types.float32, "bases": types.int64, "params": types.float64, "floats": types.float64, "integers": types.int64, "tables": types.float64,
    "q": types.int32, "x_hat": types.float32, "error": types.float32, "clipped": types.uint8, "steps": types.float64,
    "low": types.int32, "high": types.int32, "absmax": types.float64, "out": types.float64, "found": types.float64,
}  # fmt: skip

star: Any = types.StarArgTuple
_several: Any = types.Tuple
_pointer: Any = types.CPointer


@intrinsic
def call_cells(typing, address, *given):
    """Call the compiled arithmetic at an address, for which plain numba has no form."""

    def generate(context, builder, signature, args):
        whole, values = ir.IntType(64), builder.extract_value
        callee = builder.inttoptr(
            args[0], ir.FunctionType(ir.VoidType(), [whole] * len(signature.args[1:][0])).as_pointer()
        )
        builder.call(callee, [values(args[1], i) for i in range(len(signature.args[1]))])
        return context.get_dummy_value()

    return types.void(address, star(given)), generate


#: Arrays that a cell's arithmetic writes to: no two overlap, nor do they any that is read.
_WRITTEN = ("q", "x_hat", "error", "clipped", "steps")


def _scopes(module: Any, names: tuple[str, ...]) -> Any:
    """What says to LLVM which arrays are meant, so that it need not look whether they overlap."""
    domain = module.add_metadata(["quantviz"])
    return module.add_metadata([module.add_metadata([name, domain]) for name in names])


@intrinsic
def _load_apart(typing, address, index):
    """Read a number from an array that nothing is written to meanwhile."""

    def generate(context, builder, signature, args):
        value = builder.load(builder.gep(args[0], [args[1]]))
        value.set_metadata("noalias", _scopes(builder.module, _WRITTEN))
        return value

    return address.dtype(address, types.int64), generate


def _store_apart(of: types.Type, name: str) -> Any:
    """Write a number of a kind into an array that nothing else is written to or read from."""

    @intrinsic
    def one(typing, address, index, value):
        def generate(context, builder, signature, args):
            made = builder.store(
                context.data_model_manager[of].as_data(builder, args[2]), builder.gep(args[0], [args[1]])
            )
            made.set_metadata("alias.scope", _scopes(builder.module, (name,)))
            made.set_metadata(
                "noalias", _scopes(builder.module, tuple(each for each in _WRITTEN if each != name))
            )
            return context.get_dummy_value()

        return types.void(address, types.int64, of), generate

    return one


@intrinsic
def _half_by_hand(typing, x):
    """Rounded to float16, half to even."""

    def generate(context, builder, signature, args):
        return builder.fpext(builder.fptrunc(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(x), generate


# ---- small functions of the traced lines --------------------------------------------------------

# In kernels a number that is written out is of one of these: numba compiles a function once more for each
# number that it is given as it stands.
f4: Any = types.float32
f8: Any = types.float64
i4: Any = types.int32
i8: Any = types.int64
b1: Any = types.boolean
#: A place that is known not to be negative: others are looked at twice.
_place: Any = types.uint64


def _inline(function: Callable[..., Any]) -> Any:
    return numba.njit(nogil=True, inline="always", error_model="numpy")(function)


rint, floor, ceil, trunc, fabs, copysign = np.rint, np.floor, np.ceil, np.trunc, np.fabs, math.copysign


@_inline
def select(condition, a, b):
    return a if condition else b


def bits(x: Any) -> Any:
    """Return the bits of a float as a whole number."""
    raise NotImplementedError


def of_bits(x: Any) -> Any:
    """Return the float of some bits."""
    raise NotImplementedError


@overload(bits)
def _bits(x):
    return (lambda x: np.float32(x).view(np.int32)) if x == f4 else (lambda x: np.float64(x).view(np.int64))


@overload(of_bits)
def _of_bits(x):
    return (lambda x: np.int32(x).view(np.float32)) if x == i4 else (lambda x: np.int64(x).view(np.float64))


def _in_any_order(function: Callable[..., Any]) -> Any:
    """Of sums whose terms can be added in any order, and of products rounded once with them or not."""
    return numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})(function)


@_in_any_order
def plus(total, value):
    return total + value


@_in_any_order
def plus_product(total, a, b):
    return total + a * b


@_inline
def fma(x, y, z):
    """x · y + z of float32, rounded once: the float64 sum, rounded to odd, can be rounded as if it had been
    exact. See `arithmetic.fma`.
    """
    product, addend = f8(x) * f8(y), f8(z)
    total = product + addend
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    raw = bits(total)
    outwards = (lost > 0.0) == (total > 0.0)
    inexact = (lost != 0.0) & ((raw & 1) == 0) & (fabs(total) < np.inf)
    return f4(select(inexact, of_bits(i8(raw + select(outwards, i8(1), i8(-1)))), total))


@_inline
def _half_plain(x):
    """Rounded to float16, half to even."""
    raw = i8(bits(fabs(x)))
    usual = of_bits(i4((raw + 0xFFF + ((raw >> 13) & 1)) & -8192))
    # Added to a half, what is subnormal in float16 has no more digits than it has there.
    subnormal = f4(f4(fabs(x) + f4(0.5)) - f4(0.5))
    rounded = select(fabs(x) < f4(2.0**-14), subnormal, select(usual < f4(65536.0), usual, f4(np.inf)))
    return select(x != x, x, copysign(rounded, x))


half = _half_by_hand if by_hand("half") else _half_plain


@_inline
def _load_plain(address, index):
    return address[index]


@_inline
def _store_plain(address, index, value):
    address[index] = value


@_inline
def _store_truth(address, index, value):
    address[index] = np.uint8(value)


_load, _storer = (
    (_load_apart, _store_apart)
    if by_hand("addresses")
    else (_load_plain, lambda of, name: _store_truth if of == b1 else _store_plain)
)


@_inline
def least(a, b):
    return select(a < b, i8(a), i8(b))


@_inline
def two_to(n):
    """2^n of a whole number, in two factors, so that what is subnormal comes out."""
    low = select(n < -1022.0, f8(-1022.0), select(n > 1023.0, f8(1023.0), n))
    rest = n - low
    rest = select(rest < -1022.0, f8(-1022.0), select(rest > 1023.0, f8(1023.0), rest))
    return of_bits((i8(low) + 1023) << 52) * of_bits((i8(rest) + 1023) << 52)


@_inline
def exponent(x):
    """frexp's: x is m · 2^e with 0.5 ≤ |m| < 1; 0 of 0, Inf and NaN."""
    small = fabs(x) < 2.2250738585072014e-308
    scaled = select(small, x * 18014398509481984.0, x)
    field = (bits(scaled) >> 52) & 0x7FF
    e = field - 1022 - select(small, i8(54), i8(0))
    return i4(select((field == 0x7FF) | (x == 0.0), i8(0), e))


@_inline
def brain(x):
    """Rounded to bfloat16, half to even."""
    raw = i8(bits(x))
    rounded = (raw + 0x7FFF + ((raw >> 16) & 1)) & -65536
    return select(x != x, x, of_bits(i4(rounded)))


# ---- fixed kernels ------------------------------------------------------------------------------


@kernel_part
def add_up(x, at, arrays, n, flat, totals):
    """Add up the first `n` cells of the buffers, whose x begin at `at` and are the tensor's from `flat`
    on.
    """
    q, x_hat, error, clipped, steps = arrays
    code_min, sums, counts, seen = totals
    signal = values = product = bias = noise = in_steps = f8(0.0)
    zeros = zeroed = clips = i4(0)
    largest = i4(0)
    first = last = q[0]
    values_in = x[at : at + n]
    for j in range(n):
        v, h, e = values_in[j], x_hat[j], error[j]
        wide, wide_hat, wide_error = f8(v), f8(h), f8(e)
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
            e, s, out = f8(error[j]), steps[j], clipped[j]
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
            # Of what is no number the first place counts, not the largest.
            if size == largest or size >= INFINITE:
                counts[LARGEST_AT] = flat + j
                break
    if first - code_min < counts[FIRST_SEEN] or last - code_min > counts[LAST_SEEN]:
        mark_seen(q, n, code_min, counts, seen)


@kernel_part
def mark_seen(q, n, code_min, counts, seen):
    """Note which codes occur. A chunk within the codes from FIRST_SEEN to LAST_SEEN, which all did, can be
    left out.
    """
    for j in range(n):
        seen[_place(i8(q[j]) - code_min)] = True
    middle = i8(q[n // 2]) - code_min
    # Outside of them most likely they were rare ones, far from the others.
    widen_seen(counts, seen, middle < counts[FIRST_SEEN] or middle > counts[LAST_SEEN])


@kernel_part
def widen_seen(counts, seen, anew):
    """FIRST_SEEN and LAST_SEEN as far apart as all codes between them are known to occur; `anew` for the
    longest such run.
    """
    if anew:
        begin = 0
        for k in range(seen.size + 1):
            if k == seen.size or not seen[k]:
                if k - begin > counts[LAST_SEEN] + 1 - counts[FIRST_SEEN]:
                    counts[FIRST_SEEN], counts[LAST_SEEN] = begin, k - 1
                begin = k + 1
    while counts[FIRST_SEEN] > 0 and seen[counts[FIRST_SEEN] - 1]:
        counts[FIRST_SEEN] -= 1
    while counts[LAST_SEEN] + 1 < seen.size and seen[counts[LAST_SEEN] + 1]:
        counts[LAST_SEEN] += 1


@kernel_part
def add_finite(x, at, arrays, n, flat, totals):
    """The same, cell by cell, without those whose x is no finite number."""
    q, x_hat, error, clipped, steps = arrays
    for j in range(n):
        if fabs(x[at + j]) < np.inf:
            q[0], x_hat[0], error[0], clipped[0], steps[0] = q[j], x_hat[j], error[j], clipped[j], steps[j]
            add_up(x, at + j, arrays, i8(1), flat + j, totals)
        else:
            totals[2][LEFT_OUT] += 1


@kernel_part
def all_finite(x, at, n):
    """Whether all are finite numbers."""
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
        values, errors = x[at + done : at + done + m], error[done : done + m]
        of_signals, of_noises = (
            signal[columns + column : columns + column + m],
            noise[columns + column : columns + column + m],
        )
        for j in range(m):
            v, e = f8(values[j]), f8(errors[j])
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


@jit
def lower_blocks(values, width, finite_only, lo, hi):
    """Lower `lo` and raises `hi` of blocks next to each other, `width` values of each, to the values'
    keys.
    """
    for b in range(lo.size):
        here, low, high = values[b * width : (b + 1) * width], lo[b], hi[b]
        if finite_only:
            for j in range(width):
                raw = bits(here[j])
                key, counts = i4(raw ^ ((raw >> 31) & 0x7FFFFFFF)), (raw & 0x7FFFFFFF) < INFINITE
                low, high = (
                    min(low, select(counts, key, i4(0x7FFFFFFF))),
                    max(high, select(counts, key, i4(-0x80000000))),
                )
        else:
            for j in range(width):
                raw = bits(here[j])
                key = i4(raw ^ ((raw >> 31) & 0x7FFFFFFF))
                low, high = select(key < low, key, low), select(key > high, key, high)
        lo[b], hi[b] = low, high


@jit
def lower_columns(values, finite_only, lo, hi):
    """The same of blocks of which there is a value each."""
    if finite_only:
        for j in range(values.size):
            raw = bits(values[j])
            key, counts = i4(raw ^ ((raw >> 31) & 0x7FFFFFFF)), (raw & 0x7FFFFFFF) < INFINITE
            lo[j], hi[j] = (
                select(counts & (key < lo[j]), key, lo[j]),
                select(counts & (key > hi[j]), key, hi[j]),
            )
    else:
        for j in range(values.size):
            raw = bits(values[j])
            key = i4(raw ^ ((raw >> 31) & 0x7FFFFFFF))
            lo[j], hi[j] = select(key < lo[j], key, lo[j]), select(key > hi[j], key, hi[j])


@jit
def find_ends(x, flat, length, width, row, bases, finite_only, lo, hi):
    """Lower `lo` and raises `hi` of each block to the values met, as `keys`, which order as the numbers do;
    NaN is beyond them.
    """
    total = x.size
    column = flat % length
    line = flat // length - row
    block, within = bases[line] + column // width, column % width
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
            low, high = lo[block : block + size], hi[block : block + size]
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
def find_firsts(x, flat, length, width, row, bases, sizes, wanted, extreme):
    """The first value of the size `sizes` of each block that is `wanted`, which then is no more."""
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
    """Return nothing seen."""
    return np.array([0x7FFFFFFF, -0x80000000, -1, 0, 0, 0, 0, 0, -1], np.int64)


@jit
def look(x, flat, state):
    """Ends, places and counts of a run."""
    done = 0
    while done < x.size:
        n = min(x.size - done, 4096)
        low, high, largest, negative = i4(0x7FFFFFFF), i4(-0x80000000), i4(0), i4(0)
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
                    state[NAN if size > INFINITE else INF if raw > 0 else MINUS_INF] += 1
                    continue
                key = raw ^ ((raw >> 31) & 0x7FFFFFFF)
                state[LOW], state[HIGH] = min(state[LOW], key), max(state[HIGH], key)
                if values[j] < 0:
                    state[NEGATIVE] += 1
                if size > state[SIZE]:
                    state[SIZE], state[SIZE_AT] = size, flat + done + j
        done += n


def numbers_of(keys: Array) -> Array:
    """Return the float32 that `keys` stand for."""
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
        counts[_place(key >> 16)] += 1


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
        if wanted[_place(key >> 16)]:
            found[n] = v
            n += 1
    return n


@jit
def add_exactly(x, finite_only, partials):
    """Add |x| to a sum that is kept exactly, as a few float64 that do not overlap (Shewchuk 1997);
    `partials[0]` counts them.
    """
    for j in range(x.size):
        v = f8(fabs(x[j]))
        if finite_only and not v < np.inf:
            continue
        kept = 1
        for k in range(1, int(partials[0]) + 1):
            other = partials[k]
            big, small = max(v, other), min(v, other)
            total = big + small
            lost = small - (total - big)
            if lost != 0.0:
                partials[kept] = lost
                kept += 1
            v = total
        partials[kept] = v
        partials[0] = kept


# ---- the arithmetic of cells --------------------------------------------------------------------

#: What is stored of a cell, each in an array of its own.
_STORES = (
    "store_i4(q, at, {q})",
    "store_x_hat(x_hat, at, {x_hat})",
    "store_error(error, at, {error})",
    "store_b1(clipped, at, {clipped})",
    "wide = f8({error})",
    "store_f8(steps, at, select(wide == 0.0, f8(0.0), {in_steps}))",
)
_STORES_OF_ERRORS = ("store_error(error, at, {error})",)
#: What a cell's lines are put into: a chunk of cells, block after block. Arguments are numbers and addresses
#: of arrays.
_TEMPLATE = """
def cells(x, n, flat, offset, length, width, row, bases, params, blocks, floats, integers, tables, q, x_hat, error, clipped, steps):
    column = (flat - offset) % length
    line = (flat - offset) // length - row
    block = load_i8(bases, line) + column // width
{fixed}
    made = 0
    while made < n:
        size = {reach}
        if size > length - column:
            size = length - column
        if size > n - made:
            size = n - made
{of_block}
        for j in range(size):
            at = made + j
            x_ = load_f4(x, at)
{of_cell}
{stores}
        made += size
        column += size
        if column < length:
            block += {blocks_on}
        elif made < n:
            column = 0
            line += 1
            block = load_i8(bases, line)
"""

#: What a block's lines are put into. It ends with whether a block must be looked at more closely:
#: one whose range or zero point may be refused, or of which one end is as large as the other, which of them
#: is first in the block.
_OF_BLOCKS = """
def cells(low, high, count, absmax, floats, integers, tables, out, found):
    tensor_absmax = f4(load_f8(absmax, 0))
{fixed}
    close = False
    for b in range(count):
        least_key, most_key = load_i4(low, b), load_i4(high, b)
        empty = least_key > most_key
        lo = {of}(select(empty, f4(0.0), of_bits(i4(least_key ^ ((least_key >> 31) & 0x7FFFFFFF)))))
        hi = {of}(select(empty, f4(0.0), of_bits(i4(most_key ^ ((most_key >> 31) & 0x7FFFFFFF)))))
        extreme = select(hi > -lo, hi, lo)
        close = close | ((fabs(lo) <= {widest}) & (fabs(hi) <= {widest}) ^ True){ties}
{lines}
        close = close | ((fabs({zero_point}) <= {largest}) ^ True)
{stores}
    store_f8(found, 0, f8(1.0) if close else f8(0.0))
"""

#: What the lines can name.
_NAMES = {
    "rint": rint, "floor": floor, "ceil": ceil, "trunc": trunc, "fabs": fabs, "copysign": copysign, "fma": fma, "select": select,
    "bits": bits, "of_bits": of_bits, "half": half, "brain": brain, "least": least,
    **{f"load_{kind}": _load for kind in ("i4", "i8", "f4", "f8")},
    "store_i4": _storer(i4, "q"), "store_x_hat": _storer(f4, "x_hat"), "store_error": _storer(f4, "error"),
    "store_b1": _storer(b1, "clipped"), "store_f8": _storer(f8, "steps"),
    "two_to": two_to, "exponent": exponent, "f4": f4, "f8": f8, "i4": i4, "i8": i8,
}  # fmt: skip

#: How many numbers the sums of some cells are.
SUMMED = len(AT)
#: Cells of which sums are asked for at a time.
UNIT = 4096
LEAST_SIGNAL, LEAST_VALUES, LEAST_NOISE, LEAST_STEPS = (
    LEAST[name] for name in ("signal", "values", "noise", "steps")
)
OF_SIGNAL, OF_VALUES, OF_PRODUCT, OF_BIAS, OF_NOISE, OF_STEPS = (
    AT["signal"],
    AT["values"],
    AT["product"],
    AT["bias"],
    AT["noise"],
    AT["steps"],
)
OF_CLIPPED_NOISE, OF_CLIPPED_STEPS, OF_CLIPPED, OF_ZEROS = (
    AT["clipped_noise"],
    AT["clipped_steps"],
    AT["clipped"],
    AT["zeros"],
)
OF_APART, OF_ZEROED, OF_LARGEST, OF_FIRST, OF_LAST = (
    AT["apart"],
    AT["zeroed"],
    AT["largest"],
    AT["first"],
    AT["last"],
)


@kernel_part
def trusted(made, n):
    """Whether float32 held what the sums of `n` cells began with."""
    if made[OF_APART] > 0 or not (made[OF_SIGNAL] < np.inf and made[OF_VALUES] < np.inf):
        return False
    if made[OF_SIGNAL] < LEAST_SIGNAL and made[OF_ZEROS] < n:
        return False
    if made[OF_VALUES] < LEAST_VALUES and made[OF_ZEROS] + made[OF_ZEROED] < n:
        return False
    return made[OF_LARGEST] == 0 or (
        made[OF_NOISE] >= LEAST_NOISE and LEAST_STEPS * n <= made[OF_STEPS] < np.inf
    )


@kernel_part
def place_of_size(error, n, size):
    """Where the first error of a size, given as bits, is among the first `n`; -1 where none is."""
    for j in range(n):
        if (bits(error[j]) & 0x7FFFFFFF) == size:
            return j
    return -1


@jit
def put(cells, x, start, n, flat, place, of_blocks, arrays, out):
    """Have `cells`, the address of compiled arithmetic, put what it makes of `n` cells from `start` into five
    arrays, from `out` on.
    """
    offset, length, width, row, bases = place
    params, blocks, floats, integers, tables = of_blocks
    q, x_hat, error, clipped, steps = arrays
    call_cells(
        cells, x.ctypes.data + 4 * start, n, flat + start, offset, length, width, row, bases.ctypes.data, params.ctypes.data, blocks, floats.ctypes.data,
        integers.ctypes.data, tables.ctypes.data, q.ctypes.data + 4 * out, x_hat.ctypes.data + 4 * out, error.ctypes.data + 4 * out, clipped.ctypes.data + out,
        steps.ctypes.data + 8 * out,
    )  # fmt: skip


#: How the kernels below are given what belongs together:
#: - `code`: the addresses of the cells' arithmetic; of the same that gives sums alone, or 0; of the same for
#:   cells that saturation
#:   leaves as they are, or 0, with the two codes between which it does; and of what gives errors alone, where
#: sums of lines are asked for.
#: - `place`: where blocks begin (`offset`), the length of a line and the width of a block, the first line of
#:   `bases`, and those.
#: - `of_blocks`: what is known of each block, how many there are, and the numbers and tables that the code
#:   reads.
#: - `arrays`: where a chunk of cells goes, see `kernels.Buffers`.
#: - `totals`: the smallest code, and a tally's sums, counts and codes seen.
#: - `by_axis`: the tensor's shape, and Σx² and Σe² of each index of each axis; empty where they are not asked
#:   for.


@_inline
def lines_together(done, total, flat, place):
    """How many lines of how many cells come next whose sums are asked for at once: with blocks of one element
    a line, those below each other whose cells are in the same blocks; else one.
    """
    offset, length, width, row, bases = place
    if width != 1:
        return i8(1), min(total - done, UNIT)
    column, line = (flat + done - offset) % length, (flat + done - offset) // length - row
    rows, n = i8(1), min(total - done, length - column)
    if n < length:
        n = min(n, UNIT)
    while (
        n == length
        and rows < ROWS
        and done + (rows + 1) * length <= total
        and bases[line + rows] == bases[line]
    ):
        rows += 1
    return rows, n


@_inline
def ask_sums(address, x, done, rows, n, flat, place, of_blocks, ahead, made):
    """Have the compiled sums at an address put those of `rows` lines of `n` cells into `made`."""
    offset, length, width, row, bases = place
    params, blocks, floats, integers, tables = of_blocks
    call_cells(
        address, x.ctypes.data + 4 * done, n, flat + done, offset, length, width, rows, (flat + done - offset) // length - row, bases.ctypes.data,
        params.ctypes.data, blocks, floats.ctypes.data, integers.ctypes.data, tables.ctypes.data, ahead, made.ctypes.data,
    )  # fmt: skip


@_inline
def add_sums(made, n, totals):
    """Add the sums of `n` cells to a tally. Whether all their codes were known to occur."""
    code_min, sums, counts, _ = totals
    sums[SIGNAL] += made[OF_SIGNAL]
    sums[VALUES] += made[OF_VALUES]
    sums[PRODUCT] += made[OF_PRODUCT]
    sums[BIAS] += made[OF_BIAS]
    sums[NOISE] += made[OF_NOISE]
    sums[STEPS] += made[OF_STEPS]
    sums[CLIPPED_NOISE] += made[OF_CLIPPED_NOISE]
    sums[CLIPPED_STEPS] += made[OF_CLIPPED_STEPS]
    counts[CELLS] += n
    counts[CLIPPED] += i8(made[OF_CLIPPED])
    counts[ZEROS] += i8(made[OF_ZEROS])
    counts[ZEROED] += i8(made[OF_ZEROED])
    return made[OF_FIRST] - code_min >= counts[FIRST_SEEN] and made[OF_LAST] - code_min <= counts[LAST_SEEN]


@kernel_part
def add_chunks(
    code, x, begin, end, flat, place, of_blocks, arrays, keep, leaves_out, by_axis, totals, codes_alone
):
    """Make the cells from `begin` to before `end` a chunk at a time: kept, added to a tally, or with
    `codes_alone` only their codes noted.
    """
    shape, signal, noise = by_axis
    code_min, _, counts, seen = totals
    q, _, error, _, _ = arrays
    for start in range(begin, end, CHUNK):
        n = min(end - start, CHUNK)
        put(code[0], x, start, n, flat, place, of_blocks, arrays, start if keep else i8(0))
        if codes_alone:
            mark_seen(q, n, code_min, counts, seen)
        elif not keep:
            if shape.size:
                add_by_axis(x, start, error, n, flat + start, shape, signal, noise)
            if leaves_out and not all_finite(x, start, n):
                add_finite(x, start, arrays, n, flat + start, totals)
            else:
                add_up(x, start, arrays, n, flat + start, totals)


@kernel_part
def find_largest(code, x, begin, end, flat, place, of_blocks, arrays, size, counts):
    """Note where the first error of a size, given as bits, is among the cells from `begin` to before
    `end`.
    """
    for start in range(begin, end, CHUNK):
        n = min(end - start, CHUNK)
        put(code[0], x, start, n, flat, place, of_blocks, arrays, i8(0))
        at = place_of_size(arrays[2], n, size)
        if at >= 0:
            counts[LARGEST_AT] = flat + start + at
            return


@jit
def drive(code, ahead, x, flat, place, of_blocks, arrays, keep, leaves_out, by_axis, made, totals):
    """Have compiled arithmetic make one chunk of cells after the other, which are kept or added up: by their
    sums alone where those can be trusted.

    What is `ahead` by so many cells is read next; `made` has room for the sums of some cells.
    """
    _, quick, (usual, lowest, highest), errors = code
    if usual == 0:
        usual = quick
    shape, signal, noise = by_axis
    counts = totals[2]
    done = i8(0)
    # The largest error that sums alone have told of, and between which cells it is.
    sought, sought_in, sought_until = i8(-1), i8(0), i8(0)
    while done < x.size:
        rest, codes_alone = min(x.size - done, UNIT), False
        if quick != 0:
            rows, n = lines_together(done, x.size, flat, place)
            rest = rows * n
            ask_sums(usual, x, done, rows, n, flat, place, of_blocks, ahead, made)
            if usual != quick and not (lowest <= made[OF_FIRST] and made[OF_LAST] <= highest):
                # Where one cell is saturated others most likely are too.
                usual = quick
                ask_sums(usual, x, done, rows, n, flat, place, of_blocks, ahead, made)
            largest = i8(made[OF_LARGEST])
            if largest < INFINITE and counts[LARGEST] < INFINITE and trusted(made, rest):
                if largest > counts[LARGEST]:
                    counts[LARGEST] = largest
                    sought, sought_in, sought_until = largest, done, done + rest
                for start in range(done, done + rest if shape.size else done, CHUNK):
                    n = min(done + rest - start, CHUNK)
                    put(errors, x, start, n, flat, place, of_blocks, arrays, i8(0))
                    add_by_axis(x, start, arrays[2], n, flat + start, shape, signal, noise)
                if add_sums(made, rest, totals):
                    done += rest
                    continue
                # Of some codes it is not known yet whether they occur.
                codes_alone = True
        add_chunks(
            code,
            x,
            done,
            done + rest,
            flat,
            place,
            of_blocks,
            arrays,
            keep,
            leaves_out,
            by_axis,
            totals,
            codes_alone,
        )
        done += rest
    if sought == counts[LARGEST]:
        find_largest(code, x, sought_in, sought_until, flat, place, of_blocks, arrays, sought, counts)


@jit
def drive_pieces(
    code,
    ahead,
    x,
    flat,
    piece,
    place,
    of_blocks,
    arrays,
    leaves_out,
    shape,
    made,
    code_min,
    counts,
    seen,
    of_pieces,
):
    """Add up one piece of `piece` cells after the other, each into a row of `of_pieces`: sums, and Σx² and
    Σe² of each index of each axis.

    The sums of a piece follow from the plan alone, whichever thread comes to it and whatever it did before.
    """
    sums, signal, noise = of_pieces
    for k in range(sums.shape[0]):
        run = x[k * piece : min((k + 1) * piece, x.size)]
        totals, by_axis = (code_min, sums[k], counts, seen), (shape, signal[k], noise[k])
        drive(
            code,
            ahead,
            run,
            flat + k * piece,
            place,
            of_blocks,
            arrays,
            b1(False),
            leaves_out,
            by_axis,
            made,
            totals,
        )


@jit
def drive_bands(
    ranges, band, of_block, finite_only, absmax, low, high,
    code, x, flat, done, piece, place, of_blocks, arrays, leaves_out, shape, made, code_min, counts, seen, of_pieces,
):  # fmt: skip
    """The same for whole bands of `band` cells, of which range, parameters and sums are found one after the
    other, each while it is at hand.

    `ranges` is the address of the blocks' arithmetic with its numbers and tables; of the first piece `done`
    cells are added up already. How many cells of x are done: all, or those before the first band that must be
    looked at more closely.
    """
    address, floats, integers, tables = ranges
    _, length, width, _, bases = place
    params, _, cell_floats, cell_integers, cell_tables = of_blocks
    sums, signal, noise = of_pieces
    for start in range(0, x.size, band):
        run, k = x[start : start + band], (done + start) // piece
        count = run.size // of_block
        low[:], high[:] = 0x7FFFFFFF, -0x80000000
        find_ends(run, i8(0), length, width, i8(0), bases, finite_only, low, high)
        call_cells(
            address, low.ctypes.data, high.ctypes.data, count, absmax.ctypes.data, floats.ctypes.data, integers.ctypes.data, tables.ctypes.data,
            params.ctypes.data, made.ctypes.data,
        )  # fmt: skip
        if made[0] != 0.0:
            return start
        here, known = (
            (flat + start, length, width, i8(0), bases),
            (params, count, cell_floats, cell_integers, cell_tables),
        )
        totals, by_axis = (code_min, sums[k], counts, seen), (shape, signal[k], noise[k])
        drive(
            code, band, run, flat + start, here, known, arrays, b1(False), leaves_out, by_axis, made, totals
        )
    return x.size


class Compiler:
    """Compiled arithmetic by its source: schemes that differ in numbers only share it."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()
        #: Seconds spent compiling, or reading what was compiled before.
        self.seconds = 0.0

    def cells(self, code: CellCode, by_element: bool) -> int:
        """Return the address of a cell's arithmetic, for blocks of one element along the last axis or of
        several.
        """
        return self._address(_source(code, by_element))

    def errors(self, code: CellCode, by_element: bool) -> int:
        """Return the address of the same that gives errors alone."""
        return self._address(_source(code, by_element, _STORES_OF_ERRORS))

    def sums(self, code: CellCode, by_element: bool) -> tuple[int, int]:
        """Return the addresses of the same that gives sums alone, and those of cells that saturation leaves
        as they are; 0 where there is none of them.
        """
        addresses = [self._address(source) for source in _sources_of_sums(code, by_element)]
        first, second, *_ = *addresses, 0, 0
        return first, second

    def blocks(self, code: BlockCode, names: tuple[str, ...]) -> int:
        """Return the address of a block's arithmetic."""
        return self._address(_source_of_blocks(code, names))

    def trials(self, code: CellCode) -> int:
        """Return the address of a cell's arithmetic that gives Σ error² of the cells of one block for many
        trials.
        """
        return self._address(_source_of_trials(code))

    def knows(self, sources: Iterable[str]) -> bool:
        """Return whether nothing need be compiled for what `sources_of` gives: it is in memory, or kept."""
        return all(source in self._made or _kept(source) for source in sources)

    def _address(self, source: str) -> int:
        with self._lock:
            if source not in self._made:
                start = time.perf_counter()
                try:
                    self._made[source] = _made(source)
                    self._finish()
                finally:
                    self.seconds += time.perf_counter() - start
            return int(self._made[source].address)

    def _finish(self) -> None:
        """Compile what is called with it, for arrays of these types alone."""
        if drive.signatures:
            return
        numbers, wholes, flags, codes = (types.Array(of, 1, "C") for of in (f8, i8, b1, i4))
        singles, run, table = (
            types.Array(f4, 1, "C"),
            types.Array(f4, 1, "C", readonly=True),
            types.Array(f8, 2, "C"),
        )
        code = _several((i8, i8, _several((i8, f8, f8)), i8))
        place, of_blocks = (
            _several((i8, i8, i8, i8, wholes)),
            _several((numbers, i8, numbers, wholes, numbers)),
        )
        arrays = _several((codes, singles, singles, flags, numbers))
        by_axis, totals = _several((wholes, numbers, numbers)), _several((i8, numbers, wholes, flags))
        cells = place, of_blocks, arrays
        of_pieces = b1, wholes, numbers, i8, wholes, flags, _several((table, table, table))
        drive.compile((code, i8, run, i8, *cells, b1, b1, by_axis, numbers, totals))
        drive_pieces.compile((code, i8, run, i8, i8, *cells, *of_pieces))
        ranges = _several((i8, numbers, wholes, numbers))
        drive_bands.compile(
            (ranges, i8, i8, b1, numbers, codes, codes, code, run, i8, i8, i8, *cells, *of_pieces)
        )


@cache
def compiler() -> Compiler:
    """Return the process's one compiler."""
    return Compiler()


def params_of(code: CellCode) -> tuple[str, ...]:
    """What is read of each block, in the order it is passed in."""
    return tuple(sorted({*code.params, "scale"}))


def sources_of(
    code: CellCode, by_element: bool, blocks: BlockCode | None, *, errors: bool
) -> tuple[str, ...]:
    """What is compiled for the arithmetic of these cells, their errors alone too, and of these blocks."""
    of_blocks = (_source_of_blocks(blocks, params_of(code)),) if blocks else ()
    of_errors = (_source(code, by_element, _STORES_OF_ERRORS),) if errors else ()
    # Of schemes that differ in numbers only it is the same.
    return tuple(
        map(
            sys.intern,
            (_source(code, by_element), *_sources_of_sums(code, by_element), *of_errors, *of_blocks),
        )
    )


def _source(code: CellCode, by_element: bool, stores: tuple[str, ...] = _STORES) -> str:
    known = params_of(code)
    loads = [
        f"{name} = {code.types[name]}(load_f8(params, {i} * blocks + block{' + j' if by_element else ''}))"
        for i, name in enumerate(known)
    ]
    index = ["index = flat + at"] if any("index" in words_of(line) for line in code.of_cell) else []
    fixed, of_block = _parted(code)
    of_block = [*loads, *of_block]
    of_cell = [*index, *map(_renamed, code.of_cell)]
    results = {name: _renamed(code.results[name]) for name in ("q", "x_hat", "error", "clipped")}
    results["in_steps"] = (
        "wide * inverse_step" if code.step_of_block else f"wide / f8({code.results['step']})"
    )
    return _TEMPLATE.format(
        fixed=_indented(fixed, 1),
        reach="n" if by_element else "width - column % width",
        of_block=_indented(() if by_element else of_block, 2),
        of_cell=_indented([*of_block, *of_cell] if by_element else of_cell, 3),
        stores=_indented((store.format(**results) for store in stores), 3),
        blocks_on="size" if by_element else "1 if column % width == 0 else 0",
    )


def _sources_of_sums(code: CellCode, by_element: bool) -> list[str]:
    # Where a cell's exponent is asked for, as float formats do, 16 side by side need more registers than
    # there are: no gain, or a loss.
    if not by_hand("sums") or any("exponent(" in line for line in code.of_cell):
        return []
    code = of_numbers(code)
    plain = unsaturated(code)
    return [_source_of_sums(each, by_element) for each in (code, plain) if each]


def _source_of_sums(code: CellCode, by_element: bool) -> str:
    """What is compiled follows from the description alone, which is written out in the source."""
    plain = _described(code, by_element) | {
        name: _renamed(code.results[name]) for name in ("q", "x_hat", "error", "clipped")
    }
    return _source_of_loops("summing", plain, GIVEN)


def _source_of_trials(code: CellCode) -> str:
    plain = _described(code, by_element=False) | {
        "error": _renamed(code.results["error"]),
        "step_of_block": False,
    }
    return _source_of_loops("trying", plain, GIVEN_TO_TRY)


def _described(code: CellCode, by_element: bool) -> dict[str, Any]:
    return described(code, params_of(code), by_element, *_parted(code), map(_renamed, code.of_cell))


def _source_of_loops(makes: str, plain: dict[str, Any], names: tuple[str, ...]) -> str:
    given = ", ".join(names)
    return f"loops = {makes}({plain!r}, small)\n\n\ndef cells({given}):\n    loops({given})\n"


def _source_of_blocks(code: BlockCode, names: tuple[str, ...]) -> str:
    # Which of two ends of one size comes first is asked only where it matters.
    ties = " | (hi == -lo)" if "extreme" in code.reads else ""
    zero_point = code.results["zero_point"]
    return _OF_BLOCKS.format(
        fixed=_indented(code.fixed, 1),
        lines=_indented(code.lines, 2),
        of=code.of,
        widest=f"{code.of}({FLOAT32_MAX / 2!r})",
        largest=FLOAT32_EXACT_INTEGER,
        ties=ties,
        zero_point=f"f8({zero_point})",
        stores=_indented(
            [f"store_f8(out, {i} * count + b, f8({code.results[name]}))" for i, name in enumerate(names)], 2
        ),
    )


def _parted(code: CellCode) -> tuple[list[str], list[str]]:
    """Return the lines that follow from numbers alone, and those that follow from the block."""
    fixed = [line for line in code.of_block if not _reads_block(line, code)]
    of_block = [line for line in code.of_block if _reads_block(line, code)]
    return fixed, [
        *of_block,
        *([f"inverse_step = 1.0 / f8({code.results['step']})"] if code.step_of_block else []),
    ]


def _reads_block(line: str, code: CellCode) -> bool:
    """Return whether a line follows from what is known of the block, and not from numbers alone."""
    known = set(params_of(code))
    for each in code.of_block:
        name, _, expression = each.partition(" = ")
        if words_of(expression) & known:
            known.add(name)
    return line.partition(" = ")[0] in known


def _renamed(line: str) -> str:
    """x is the array."""
    return replaced(line, {"x": "x_"})


def _indented(lines: Iterable[str], depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines) or "    " * depth + "pass"


def _path(source: str) -> str:
    """Return the file that some source is said to be of. numba keeps compiled code by it."""
    folder, name = cache_folder(), f"cells_{hashlib.sha256(source.encode()).hexdigest()[:16]}.py"
    return f"<{name}>" if folder is None else str(folder / name)


def _kept(source: str) -> bool:
    """Return whether it was compiled before and kept."""
    path = Path(_path(source))
    return cache_folder() is not None and path.exists() and any(path.parent.rglob(f"{path.stem}.*.nbi"))


def _made(source: str) -> Any:
    """Return the compiled function of some source."""
    folder, path = cache_folder(), _path(source)
    if folder is not None and not Path(path).exists():
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            file.write(source)
        os.replace(file.name, path)
    names = {
        **_NAMES,
        "summing": summing,
        "trying": trying,
        "small": [function.py_func for function in (least, two_to, exponent, brain)],
    }
    exec(compile(source, path, "exec"), names)
    function: Any = names["cells"]
    function.__module__ = __name__
    with _caching_in(folder):
        names_given = function.__code__.co_varnames[: function.__code__.co_argcount]
        given = [_pointer(_POINTERS[name]) if name in _POINTERS else i8 for name in names_given]
        return numba.cfunc(types.void(*given), cache=folder is not None, error_model="numpy")(function)
