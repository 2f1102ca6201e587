"""The small functions that the lines of a cell can name, and how they read and write numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from quantviz.compiled.hand_written import by_hand
from quantviz.compiled.machine_code import (
    b1,
    f4,
    f8,
    i4,
    i8,
    in_any_order,
    inline_part,
    intrinsic,
    ir,
    overload,
    star,
)


@intrinsic
def call_cells(typing, address, *given):
    # Plain numba has no form for this.

    def generate(context, builder, signature, args):
        whole = ir.IntType(64)
        values = builder.extract_value
        callee = builder.inttoptr(
            args[0], ir.FunctionType(ir.VoidType(), [whole] * len(signature.args[1:][0])).as_pointer()
        )
        builder.call(callee, [values(args[1], i) for i in range(len(signature.args[1]))])
        return context.get_dummy_value()

    return types.void(address, star(given)), generate


#: No two of these overlap, nor do they any that is read.
_WRITTEN = ("q", "x_hat", "error", "clipped", "steps")


def _scopes(module: Any, names: tuple[str, ...]) -> Any:
    # With this metadata LLVM need not check whether arrays overlap.
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


rint = np.rint
floor = np.floor
ceil = np.ceil
trunc = np.trunc
fabs = np.fabs
copysign = math.copysign


@inline_part
def select(condition, a, b):
    return a if condition else b


def bits(x: Any) -> Any:
    raise NotImplementedError


def of_bits(x: Any) -> Any:
    raise NotImplementedError


@overload(bits)
def _bits(x):
    return (lambda x: np.float32(x).view(np.int32)) if x == f4 else (lambda x: np.float64(x).view(np.int64))


@overload(of_bits)
def _of_bits(x):
    return (lambda x: np.int32(x).view(np.float32)) if x == i4 else (lambda x: np.int64(x).view(np.float64))


@in_any_order
def plus(total, value):
    return total + value


@in_any_order
def plus_product(total, a, b):
    return total + a * b


@inline_part
def fma(x, y, z):
    """Return x · y + z of float32, rounded once.

    The float64 sum, rounded to odd, can be rounded as if it were exact. See `arithmetic.fma`.
    """
    product = f8(x) * f8(y)
    addend = f8(z)
    total = product + addend
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    raw = bits(total)
    outwards = (lost > 0.0) == (total > 0.0)
    inexact = (lost != 0.0) & ((raw & 1) == 0) & (fabs(total) < np.inf)
    return f4(select(inexact, of_bits(i8(raw + select(outwards, i8(1), i8(-1)))), total))


@inline_part
def half(x):
    """Round to float16, half to even."""
    raw = i8(bits(fabs(x)))
    usual = of_bits(i4((raw + 0xFFF + ((raw >> 13) & 1)) & -8192))
    # Added to a half, a subnormal of float16 keeps only the digits that it has there.
    subnormal = f4(f4(fabs(x) + f4(0.5)) - f4(0.5))
    rounded = select(fabs(x) < f4(2.0**-14), subnormal, select(usual < f4(65536.0), usual, f4(np.inf)))
    return select(x != x, x, copysign(rounded, x))


@inline_part
def _load_plain(address, index):
    return address[index]


@inline_part
def _store_plain(address, index, value):
    address[index] = value


@inline_part
def _store_truth(address, index, value):
    address[index] = np.uint8(value)


def _plain_storer(of: Any, name: Any) -> Any:
    # By numba's own indexing.
    return _store_truth if of == b1 else _store_plain


if by_hand("addresses"):
    load = _load_apart
    storer = _store_apart
else:
    load = _load_plain
    storer = _plain_storer


@inline_part
def least(a, b):
    return select(a < b, i8(a), i8(b))


@inline_part
def two_to(n):
    """Return 2^n of a whole number, as a product of two factors, so that subnormal results are right."""
    low = select(n < -1022.0, f8(-1022.0), select(n > 1023.0, f8(1023.0), n))
    rest = n - low
    rest = select(rest < -1022.0, f8(-1022.0), select(rest > 1023.0, f8(1023.0), rest))
    return of_bits((i8(low) + 1023) << 52) * of_bits((i8(rest) + 1023) << 52)


@inline_part
def exponent(x):
    """Return the exponent that frexp gives: x is m · 2^e with 0.5 ≤ |m| < 1; 0 for 0, Inf and NaN."""
    small = fabs(x) < 2.2250738585072014e-308
    scaled = select(small, x * 18014398509481984.0, x)
    field = (bits(scaled) >> 52) & 0x7FF
    e = field - 1022 - select(small, i8(54), i8(0))
    return i4(select((field == 0x7FF) | (x == 0.0), i8(0), e))


@inline_part
def brain(x):
    """Round to bfloat16, half to even."""
    raw = i8(bits(x))
    rounded = (raw + 0x7FFF + ((raw >> 16) & 1)) & -65536
    return select(x != x, x, of_bits(i4(rounded)))
