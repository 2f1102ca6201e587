"""The steps from an int32 accumulator and a real multiplier to a whole number, as engines take them.

Each way is data: the type of the multiplier and the rule for halves. The operations read `acc`, int32, and
`m`, float64, and leave the whole number in `y`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch

from quantviz.errors import QuantVizError
from quantviz.quantization.operations import NamedTensors, Operation, Operations, silent

Multiplier = Literal["float32", "float64", "fixed_point", "fixed_point_16"]
Ties = Literal["even", "away", "up", "up_then_away", "up_then_up"]

#: The whole part of a fixed-point multiplier has so many bits.
FACTOR_BITS = 31


@dataclass(frozen=True)
class Requantization:
    """One engine's way to multiply an accumulator and round it."""

    #: The type of the multiplier; a fixed-point one is a whole number of 31 bits, or of 15, and a shift.
    multiplier: Multiplier
    #: The rule for a value exactly half-way. "up_then_away" rounds twice: half up at 2^-31 of the product,
    #: then half away from 0 where it is shifted.
    ties: Ties


#: By the name of the arithmetic.
REQUANTIZATIONS: Mapping[str, Requantization] = MappingProxyType(
    {
        "float32": Requantization("float32", "even"),
        "float64": Requantization("float64", "away"),
        "fixed_point": Requantization("fixed_point", "up_then_away"),
        "fixed_point_up": Requantization("fixed_point", "up_then_up"),
        "fixed_point_once": Requantization("fixed_point", "up"),
        "fixed_point_16": Requantization("fixed_point_16", "up"),
    }
)


def multiply_operations(way: Requantization) -> Operations:
    """Return the operations from `acc` and `m` to `y`: the product, not rounded where it is a float."""
    if way.multiplier == "float32":
        return _IN_FLOAT32
    if way.multiplier == "float64":
        return _IN_FLOAT64
    if way.multiplier == "fixed_point_16":
        return _IN_16_BITS
    if way.ties == "up":
        return _IN_FIXED_POINT_ONCE
    return (*FACTOR, *scaled_twice("acc", "y", away=way.ties == "up_then_away"))


def round_operations(way: Requantization) -> Operations:
    """Return the operations that round `y`; none where the shift of a fixed-point product did."""
    return _ROUNDINGS.get(way.ties, ())


def factor_and_exponent(m: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return multipliers as `factor` / 2^31 · 2^`exponent`, int64; a factor of 0 where one is too small."""
    parts = torch.frexp(m.to(torch.float64))
    factor = torch.floor(parts.mantissa * 2.0**FACTOR_BITS + 0.5).to(torch.int64)
    full = factor == 2**FACTOR_BITS
    factor = torch.where(full, factor >> 1, factor)
    exponent = parts.exponent.to(torch.int64) + full.to(torch.int64)
    tiny = exponent < -FACTOR_BITS
    return torch.where(tiny, 0, factor), torch.where(tiny, 0, exponent)


def check_multiplier(way: Requantization, m: float) -> None:
    """Raise a `QuantVizError` for a multiplier that shifts by 32 bits or more, which C leaves open.

    LiteRT's reference kernel and CMSIS-NN shift an int32 to the left; ruy's vectors define every shift.
    """
    shift = int(factor_and_exponent(torch.tensor(m, dtype=torch.float64))[1])
    if way.multiplier == "fixed_point" and way.ties == "up_then_away" and shift > FACTOR_BITS:
        raise QuantVizError("multiplier_too_large", got=m, bits=shift)


def rounded_away(y: torch.Tensor) -> torch.Tensor:
    """Return floats rounded to whole numbers, half away from 0."""
    whole = torch.trunc(y)
    return torch.where((y - whole).abs() >= 0.5, whole + torch.sign(y), whole)


def as_int32(y: torch.Tensor) -> torch.Tensor:
    """Return numbers as int32: whole ones wrap, and floats beyond its ends become the smallest, as on x86."""
    if not y.dtype.is_floating_point:
        return y.to(torch.int32)
    fits = (y >= -(2.0**31)) & (y < 2.0**31)
    return torch.where(fits, y.to(torch.float64), -(2.0**31)).to(torch.int32)


def scaled_twice(source: str, name: str, *, away: bool) -> Operations:
    """Return the operations that multiply an int32 value in fixed point, by `m0` and `shift`, and round it
    twice.

    The second rounding is half away from 0 with `away`, else half up.
    """

    def shifted(values: NamedTensors) -> torch.Tensor:
        y = values[name].to(torch.int64)
        if away:
            return torch.sign(y) * ((y.abs() + values["half"]) >> values["right"])
        return (y + values["half"]) >> values["right"]

    second = Operation("integer_shift_up", f"{name} = ({name} + half) >> right", shifted)
    if away:
        line = f"{name} = sign({name}) * ((abs({name}) + half) >> right)"
        second = Operation("integer_shift_away", line, shifted)
    return (
        Operation(
            "integer_left_shift",
            f"{name} = int32({source} << max(shift, 0))",
            lambda v: as_int32(v[source].to(torch.int64) << v["shift"].clamp(min=0)),
        ),
        Operation(
            "integer_high_product",
            f"{name} = int32(({name} * m0 + 2**30) >> 31)",
            lambda v: as_int32((v[name].to(torch.int64) * v["m0"] + 2**30) >> FACTOR_BITS),
        ),
        Operation("integer_right", "right = max(-shift, 0)"),
        Operation("integer_half", "half = (1 << right) >> 1"),
        second,
    )


def to_int32(name: str, whole: str) -> Operation:
    return Operation("integer_convert", f"{name} = int32({whole})", lambda values: as_int32(values[whole]))


_IN_FLOAT32 = (
    silent("integer_multiplier_float32", "m = float32(m)"),
    Operation("integer_acc_float32", "y = float32(acc)"),
    Operation("integer_multiply", "y = y * m"),
)
_IN_FLOAT64 = (
    Operation("integer_acc_float64", "y = float64(acc)"),
    Operation("integer_multiply", "y = y * m"),
)
FACTOR = (
    Operation("integer_factor", "m0 = factor(m)", lambda v: factor_and_exponent(v["m"])[0]),
    Operation("integer_exponent", "shift = exponent(m)", lambda v: factor_and_exponent(v["m"])[1]),
)


_IN_FIXED_POINT_ONCE = (
    *FACTOR,
    # A smaller shift would only lead to codes beyond every format.
    Operation("integer_right_once", "right = max(31 - shift, 1)"),
    Operation("integer_half_once", "half = 1 << (right - 1)"),
    Operation(
        "integer_shift_once",
        "y = (acc * m0 + half) >> right",
        lambda v: (v["acc"].to(torch.int64) * v["m0"] + v["half"]) >> v["right"],
    ),
)
#: Of sums in 64 bits: the product with 15 bits of the factor fits.
_IN_16_BITS = (
    *FACTOR,
    Operation("integer_factor_15", "m0 = min((m0 + 2**15) >> 16, 2**15 - 1)"),
    Operation("integer_right_once", "right = max(15 - shift, 1)"),
    Operation("integer_half_once", "half = 1 << (right - 1)"),
    Operation(
        "integer_shift_once",
        "y = (acc * m0 + half) >> right",
        lambda v: (v["acc"].to(torch.int64) * v["m0"] + v["half"]) >> v["right"],
    ),
)
_ROUNDINGS: Mapping[str, Operations] = MappingProxyType(
    {
        "even": (Operation("integer_round_even", "y = round(y)", lambda v: torch.round(v["y"])),),
        "away": (Operation("integer_round_away", "y = round_away(y)", lambda v: rounded_away(v["y"])),),
    }
)
