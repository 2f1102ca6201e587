"""The steps from x to its code: scale, round, and keep within the format."""

from __future__ import annotations

import functools
import math

import torch
from torch.overrides import handle_torch_function, has_torch_function

from quantviz.quantization.grids import GRIDS, dithered, nearest
from quantviz.quantization.operations import (
    SCHEMES_KEPT,
    NamedTensors,
    Operation,
    Operations,
    cast,
    number_code,
    silent,
)
from quantviz.schemes.formats import NumberFormat, entry_of
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import torch_dtype


@functools.lru_cache(maxsize=SCHEMES_KEPT)
def code_operations(scheme: Scheme) -> Operations:
    """Return the operations from `x` and the values of its block to its code.

    `y` is the rounded value on the unbounded grid, `q` the value that the format has.
    """
    order = rule_of_blocks(scheme, scheme.arithmetic.order, scheme.arithmetic.block_order)
    divisor = _divisor(scheme, order)
    casts = _casts(scheme, divisor)
    if order == "levels_divide_add_round":
        return (*casts, *_by_levels(scheme), *_rounding(scheme), *_limits(scheme))
    return (*casts, *_rounded_quotient(scheme, order, divisor), *_limits(scheme))


def rule_of_blocks(scheme: Scheme, rule: str, block_rule: str) -> str:
    """Return a rule of the convention: that of blocks, where there are several and they have their own."""
    return rule if scheme.granularity.single or block_rule == "same" else block_rule


def _divisor(scheme: Scheme, order: str) -> str:
    if order == "divide_level_multiply_round":
        return "scale_code"
    spec = scheme.arithmetic.scale
    return "code_scale" if spec.codes_from == "exact" or spec.code_floor else "scale"


def _casts(scheme: Scheme, divisor: str) -> Operations:
    apply = torch_dtype(scheme.arithmetic.apply_dtype)
    # Cast before dividing: a float64 scale would promote the division and change codes.
    scale = cast("apply_scale", divisor, apply)
    x = cast("apply_x", "x", apply)
    return (
        *(_NAN_TO_ZERO if scheme.nonfinite == "clip" else ()),
        scale,
        *((x,) if apply != torch.float32 else ()),
    )


def _rounded_quotient(scheme: Scheme, order: str, divisor: str) -> Operations:
    """Return the operations from x to its rounded value `y`, the zero point added in its order."""
    convention = scheme.arithmetic
    apply = torch_dtype(convention.apply_dtype)
    added = scheme.zero_domain in ("code_int", "code_float")
    by_products = order == "multiply_subtract_round" and not added
    from_lowest = order.startswith("from_lowest_") and added
    zero_point = "code_zero_point" if convention.zero_point_format else "zero_point"
    source = "x"
    before: Operations = ()
    if scheme.shifted and not added:
        before = _value_offset(scheme, apply, subtracted=not by_products)
        source = "x" if by_products else "y"
    if from_lowest:
        before = _above_lowest(scheme, divisor, zero_point)
        source = "y"
    scaling = (*before, *_scaling(scheme, order, divisor, source))
    shift = Operation("shift", f"y = y + {zero_point}", lambda v: v["y"] + v[zero_point].to(apply))
    shifts = (shift,) if added else ()
    if order == "fused_multiply_add_round" and added:
        fused = Operation(
            "fused",
            f"y = fma(x, inverse, {zero_point})",
            lambda v: fma(v["x"], v["inverse"], v[zero_point].to(apply)),
        )
        return (*_inverses(scheme, order, divisor), fused, *_rounding(scheme))
    if from_lowest:
        low = scheme.code_min
        steps = Operation(
            "subtract_steps",
            f"y = y - ({zero_point} - {low})",
            lambda v: v["y"] - (v[zero_point].to(apply) - low),
        )
        return (*scaling, steps, *_rounding(scheme), shift)
    if order.endswith("round_add"):
        return (*scaling, *_sign_of_zero(scheme), *_rounding(scheme), *shifts)
    if by_products and scheme.shifted:
        return (*scaling, *_subtract_product(scheme, apply), *_rounding(scheme))
    return (*scaling, *shifts, *_sign_of_zero(scheme), *_rounding(scheme))


def _divides(order: str) -> bool:
    return order.removeprefix("from_lowest_").startswith("divide")


def _inverses(scheme: Scheme, order: str, divisor: str) -> Operations:
    """Return the operation that makes the scale's inverse, where none of the scale's own has made it."""
    spec = scheme.arithmetic.scale
    stored = spec.first != "scale" or spec.global_rule in ("absmax_over_range", "reach_over_absmax")
    return () if _divides(order) or stored else (_inverse(divisor, spec.inverse_of_zero),)


def _scaling(scheme: Scheme, order: str, divisor: str, source: str) -> Operations:
    """Return the operations from the value named `source` to its quotient by the scale, `y`."""
    convention = scheme.arithmetic
    by_level = order == "divide_level_multiply_round"
    if convention.tail_divides:
        scaled = Operation("multiply_inverse", f"y = where(short, {source} / {divisor}, {source} * inverse)")
    elif _divides(order):
        key = "divide_stored" if by_level else "divide"
        scaled = Operation(key, f"y = {source} / {divisor}")
    else:
        scaled = Operation("multiply_inverse", f"y = {source} * inverse")
    of_zero = silent("quotient_zero", f"y = where({divisor} == 0, 0, y)")
    return (
        *_inverses(scheme, order, divisor),
        scaled,
        *(_times_global_inverse(torch_dtype(convention.apply_dtype)) if by_level else ()),
        *((of_zero,) if convention.scale.inverse_of_zero == "quotient_zero" else ()),
    )


def _by_levels(scheme: Scheme) -> Operations:
    """Return the operations from x to a code of the first level, and from that to one of the second."""
    assert scheme.search is not None
    reach = scheme.search.reach(scheme.zero_domain)
    into_second = Operation("divide_level", "y = y / scale_code")
    added: Operations = (
        Operation("shift", "y = y + zero_point", lambda v: v["y"] + v["zero_point"].to(v["y"].dtype)),
    )
    steps: Operations = (into_second, *added)
    if scheme.zero_domain == "value":
        shift = Operation("shift_level", "y = y + zero_point_code")
        steps = (shift, into_second)
    return (
        Operation("divide_run", "y = x / global_scale"),
        Operation("clamp_level", f"y = clamp(y, -{reach}, {reach})"),
        *steps,
    )


def _times_global_inverse(apply: torch.dtype) -> Operations:
    """Return the operations that multiply y by the inverse of the tensor's scale, in float32."""
    single = cast("in_single", "y", torch.float32)
    multiplied = Operation("multiply_global", "y = y * global_inverse")
    return (multiplied,) if apply == torch.float32 else (single, multiplied)


def _above_lowest(scheme: Scheme, divisor: str, zero_point: str) -> Operations:
    """Return the operations that subtract the value of the smallest code from x."""
    low = scheme.code_min
    lowest = Operation(
        "value_of_lowest",
        f"lowest = ({low} - {zero_point}) * {divisor}",
        lambda v: (low - v[zero_point].to(v[divisor].dtype)) * v[divisor],
    )
    return lowest, Operation("subtract_lowest", "y = x - lowest")


def _inverse(divisor: str, of_zero: str) -> Operation:
    if of_zero == "inf":
        return Operation("inverse", f"inverse = 1 / {divisor}")
    return Operation("inverse", f"inverse = where({divisor} == 0, 0, 1 / {divisor})")


def _value_offset(scheme: Scheme, apply: torch.dtype, *, subtracted: bool) -> Operations:
    """Return the operations that compute the value of code 0, and subtract it from x if `subtracted`."""
    convention = scheme.arithmetic
    name = _name_of_value(scheme)
    operations: Operations = ()
    if convention.zero_domain == "value_middle":
        half = (scheme.code_max + scheme.code_min + 1) / 2
        operations = (
            Operation(
                "value_of_zero",
                f"lo = zero_point - scale * {half!r}",
                lambda v: v["zero_point"].to(apply) - v["scale"] * half,
            ),
        )
    if not subtracted:
        return operations
    return *operations, Operation("subtract_lo", f"y = x - {name}", lambda v: v["x"] - v[name].to(apply))


def _name_of_value(scheme: Scheme) -> str:
    if scheme.arithmetic.zero_domain == "value_middle":
        return "lo"
    return "code_zero_point" if scheme.arithmetic.zero_point_format else "zero_point"


def _subtract_product(scheme: Scheme, apply: torch.dtype) -> Operations:
    """Return the operations that subtract the value of code 0, which is multiplied by the inverse itself."""
    name = _name_of_value(scheme)
    return (
        Operation("steps_of_zero", f"steps = {name} * inverse", lambda v: v[name].to(apply) * v["inverse"]),
        Operation("subtract_product", "y = y - steps"),
    )


def _sign_of_zero(scheme: Scheme) -> Operations:
    """Return the operations that set the sign of a zero before rounding: of x or an underflowed quotient."""
    rule = scheme.arithmetic.negative_zero
    if scheme.number_format.kind != "float" or rule in ("keep", "never"):
        return ()
    if rule == "not_of_zero":
        return (silent("signed_zero", "y = y + 0"),)
    return (silent("signed_zero", "y = where(y == 0, -0.0, y)"),)


def _rounding(scheme: Scheme) -> Operations:
    fmt = scheme.number_format
    convention = scheme.arithmetic
    # The grid of a format goes on beyond its ends, where saturation comes after rounding.
    verb = "round" if fmt.kind == "integer" else f"grid_{entry_of(fmt.id)}"
    if convention.ties == "stochastic":
        chance = Operation(
            "chance",
            f"chance = random({convention.seed}, index)",
            lambda v: chances(convention.seed, v["index"]),
        )
        return chance, Operation(
            "round_stochastic", f"y = {verb}(y, chance)", lambda v: dithered(v["y"], fmt, v["chance"])
        )
    if convention.ties == "adding_half":
        # The sum is rounded too: just below a half it can reach the next code.
        lift = 0.5 - min(scheme.code_min, 0)
        line = f"y = floor(y + {lift!r})" + (f" - {-scheme.code_min}" if scheme.code_min < 0 else "")
        return (Operation("round_adding_half", line),)
    nearest_code = Operation(
        f"round_{convention.ties}", f"y = {verb}(y)", lambda v: nearest(v["y"], fmt, convention.ties)
    )
    return (*(_lattice(convention.lattice) if convention.lattice else ()), nearest_code)


def _lattice(count: int) -> Operations:
    """Return the operations that move y to one of `count` points from -1 to 1, the entries of a table."""

    def on_lattice(v: NamedTensors) -> torch.Tensor:
        place = torch.trunc(fma((v["y"] + 1) * 0.5, torch.tensor(float(count - 1)), torch.tensor(0.5)))
        return (place * 2) / (count - 1) - 1

    return (
        silent("lattice_ends", "y = clamp(y, -1, 1)"),
        Operation(
            "lattice", f"y = trunc(fma((y + 1) * 0.5, {count - 1}, 0.5)) * 2 / {count - 1} - 1", on_lattice
        ),
    )


#: Replaces NaN in the input by 0 where ±Inf saturates.
_NAN_TO_ZERO: Operations = (silent("clip_nan", "x = where(isnan(x), 0, x)"),)


def _limits(scheme: Scheme) -> Operations:
    convention = scheme.arithmetic
    fmt = scheme.number_format
    low = scheme.value_min
    high = scheme.value_max
    clamp = f"clamp(y, {number_code(low)}, {number_code(high)})"
    operations = (*_cast(scheme), *_ends_in_single(scheme))
    if convention.overflow == "saturate" or not fmt.has_nan:
        operations += (Operation("clamp", f"q = {clamp}"),)
    else:
        operations += (_overflow(fmt, convention.overflow),)
        if scheme.nonfinite == "clip":
            operations += (silent("clip_infinity", f"q = where(isinf(x), {clamp}, q)"),)
    if not fmt.has_nan:
        code = _value_of_nan(scheme)
        operations += (silent("nan_code", f"q = where(isnan(q), {number_code(code)}, q)"),)
    if fmt.kind == "float" and convention.negative_zero == "never":
        operations += (silent("signed_zero", "q = q + 0"),)
    return operations


def _value_of_nan(scheme: Scheme) -> float:
    """Return the value, before any scale, of the code of NaN in a format without NaN: also of 0 / 0 in a
    block of scale 0.
    """
    fmt = scheme.number_format
    convention = scheme.arithmetic
    rule = rule_of_blocks(scheme, convention.nan_code, convention.block_nan_code)
    if rule == "zero":
        return fmt.value(0) if fmt.kind == "codebook" else 0.0
    return scheme.value_min if rule == "smallest" else scheme.value_max


def _ends_in_single(scheme: Scheme) -> Operations:
    """Return the operation that widens y where its dtype has no number for the last code.

    Clamped there it would be the next one, and wrap around as a code.
    """
    apply = torch_dtype(scheme.arithmetic.apply_dtype)
    ends = (scheme.value_min, scheme.value_max)
    if scheme.number_format.kind != "integer" or all(
        torch.tensor(end, dtype=apply).item() == end for end in ends
    ):
        return ()
    return (cast("clamp_dtype", "y", torch.float32),)


#: The first whole number beyond int64.
_INT64_END = 2.0**63


def _cast(scheme: Scheme) -> Operations:
    """Return the cast of a rounded value to integers that are wider than the codes, as x86 does it."""
    convention = scheme.arithmetic
    dtype = rule_of_blocks(scheme, convention.cast_before_clamp, convention.block_cast_before_clamp)
    if dtype == "none" or scheme.number_format.kind != "integer":
        return ()
    end = number_code(_INT64_END)
    if scheme.nonfinite == "clip":
        return (silent("cast_int64", f"y = where((abs(y) < {end}) | isinf(x), y, -{end})"),)
    return (silent("cast_int64", f"y = where(abs(y) < {end}, y, -{end})"),)


def code_of(x: torch.Tensor, coded: NamedTensors, scheme: Scheme) -> torch.Tensor:
    """Return the codes of the values `q` that `code_operations` made of `x`.

    NaN has a sign in formats with one: that of NaN in `x`, or of a number beyond the format's end; for an
    undefined quotient, such as 0 / 0, the sign bit is set, as on x86.
    """
    fmt = scheme.number_format
    q = coded["q"]
    code = GRIDS[fmt.kind].encode(q, fmt)
    layout = fmt.float_bits
    if layout is None or not fmt.has_nan or not fmt.signed or layout.special == "fnuz":
        return code
    width = layout.exponent + layout.mantissa
    ones = layout.special == "fn" or scheme.arithmetic.nan_mantissa == "all_ones"
    magnitude = (1 << width) - 1 if ones else (1 << width) - (1 << (layout.mantissa - 1))
    negative = ~torch.isnan(x) | torch.signbit(x)
    if scheme.arithmetic.overflow != "saturate":
        negative &= torch.isnan(x) | torch.isnan(coded["y"]) | torch.signbit(coded["y"])
    nan = (negative.to(torch.int32) << width) + magnitude
    return torch.where(torch.isnan(q), nan, code.to(torch.int32)).to(torch_dtype(fmt.code_dtype))


def _overflow(fmt: NumberFormat, rule: str) -> Operation:
    """Return the operation that turns values beyond the largest one into Inf or NaN.

    In a format without a sign and 0, these become NaN, and a positive value below the smallest one becomes
    the smallest.
    """
    low = number_code(fmt.value_min)
    high = number_code(fmt.value_max)
    beyond, words = (math.inf, "copysign(inf, y)") if rule == "inf" else (math.nan, "nan")

    def above(y: torch.Tensor) -> torch.Tensor:
        return torch.where(y.abs() > fmt.value_max, torch.copysign(torch.full_like(y, beyond), y), y)

    if fmt.signed:
        return Operation("overflow", f"q = where(abs(y) > {high}, {words}, y)", lambda v: above(v["y"]))
    line = f"q = where((copysign(1, y) < 0) | (x == 0), nan, where(y > {high}, {beyond}, max(y, {low})))"

    def without_sign(v: NamedTensors) -> torch.Tensor:
        # A value that was rounded to -0 was negative.
        return torch.where(
            torch.signbit(v["y"]) | (v["x"] == 0), math.nan, above(v["y"].clamp(min=fmt.value_min))
        )

    return Operation("overflow", line, without_sign)


def fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Return x · y + z of float32, rounded once."""
    if has_torch_function((x, y, z)):
        return handle_torch_function(fma, (x, y, z), x, y, z)
    product = x.to(torch.float64) * y.to(torch.float64)
    addend = z.to(torch.float64)
    total = product + addend
    # The error of the float64 sum. Rounded to odd, the sum can be rounded to float32 as if it were exact.
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    towards = torch.where(lost > 0, math.inf, -math.inf).to(torch.float64)
    even = (total.view(torch.int64) & 1) == 0
    odd = torch.where((lost != 0) & even & torch.isfinite(total), torch.nextafter(total, towards), total)
    return odd.to(torch.float32)


def chances(seed: int, index: torch.Tensor) -> torch.Tensor:
    """Return a number in [0, 1) for each flat index, float32: the same for the same seed and index, whatever
    the chunks.

    The mixing function of SplitMix64 (Steele, Lea and Flood 2014).
    """
    z = (index.to(torch.int64) + 1) * -0x61C8864680B583EB + seed * 0x632BE59BD9B4E019 % 2**62
    for right, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        z = (z ^ _logical_shift(z, right)) * factor
    return (_logical_shift(z ^ _logical_shift(z, 31), 40)).to(torch.float32) / 2**24


def _logical_shift(z: torch.Tensor, by: int) -> torch.Tensor:
    return (z >> by) & ((1 << (64 - by)) - 1)
