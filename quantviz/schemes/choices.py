"""The words of the fields of schemes and conventions, as types that a type checker knows."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal

# ---- schemes ---------------------------------------------------------------------------------------

Mode = Literal["symmetric", "asymmetric"]
Nonfinite = Literal["refuse", "clip", "ignore"]
#: A last block is refused, short (or that only if blocks are tiles), or filled with zeros.
Tail = Literal["refuse", "short", "short_tiles", "pad"]

# ---- the arithmetic of conventions, see `arithmetic.Arithmetic` ------------------------------------

Search = Literal[
    "k_quants", "iq4_nl", "four_over_six", "four_over_six_mae", "four_over_six_abs_max", "qserve", "iq4_xs"
]
WeightedSearch = Literal["weighted_signed", "weighted_minimum"]
Float = Literal["float32", "float64"]
Half = Literal["float16", "bfloat16"]
ScaleRule = Literal[
    "absmax_over_code_max",
    "absmax_over_half_range",
    "without_clipping",
    "extreme_over_code_min",
    "larger_end_over_code_min",
    "power_of_two_floor",
    "power_of_two_floor_log2",
    "power_of_two_ceil",
    "power_of_two_even",
    "power_of_two_even_2_bits",
    "power_of_two_fitting",
    "mirrored_if_negative",
    "double_absmax_over_range",
    "mirrored_range",
    "farther_end_negated",
    "mirrored_end",
]
AsymmetricRule = Literal["width_over_steps", "end_on_code", "zero_on_code"]
FloorRule = Literal[
    "at_least",
    "replace_zero",
    "one_below",
    "width_at_least",
    "absmax_replace_zero",
    "absmax_one_up_to",
    "inverse_one_up_to",
    "codes_zero_up_to",
    "range_stretched",
    "magnitude_below",
]
ScaleFormat = Literal["float16", "bfloat16", "bfloat16_float16", "float8_e4m3fn", "float8_e8m0fnu"]
GlobalRule = Literal[
    "absmax_over_range",
    "absmax_over_range_joined",
    "range_over_absmax",
    "reach_over_absmax",
    "absmax_and_inverse",
]
CodesFrom = Literal["stored", "exact"]
CodeFloorRule = Literal["at_least", "one"]
ExponentBelow = Literal["smallest", "wraps"]
FirstOfScale = Literal["scale", "inverse", "inverse_rounded_twice", "both", "both_divided"]
InverseOfZero = Literal["zero", "inf", "quotient_zero"]
ZeroDomain = Literal["code_int", "code_float", "value", "value_middle"]
#: The same of a scheme, whose zero point may have no meaning.
SchemeZeroDomain = ZeroDomain | Literal["none"]
ZeroPointRule = Literal["shift_rounded", "low_minus_rounded", "ends_weighted", "nearer_end"]
ZeroPointTies = Literal["even", "away"]
ZeroPointScale = Literal["exact", "single"]
ZeroPointOfZeroScale = Literal["as_any", "smallest", "largest"]
UnsignedZero = Literal["none", "middle", "middle_of_storage", "lower_middle", "lower_end"]
OneSided = Literal["symmetric", "asymmetric", "asymmetric_if_positive"]
Order = Literal[
    "divide_add_round",
    "divide_round_add",
    "multiply_add_round",
    "multiply_round_add",
    "fused_multiply_add_round",
    "from_lowest_divide_round_add",
    "from_lowest_multiply_round_add",
    "multiply_subtract_round",
    "levels_divide_add_round",
    "divide_level_multiply_round",
]
ValueOrder = Literal[
    "subtract_multiply", "divide_inverse", "multiply_absmax", "multiply_levels", "fused_multiply_add"
]
Ties = Literal[
    "even", "away", "up", "down", "toward_zero", "stochastic", "adding_half", "adding_half_away", "truncate"
]
NarrowUnsigned = Literal["none", "smallest", "largest"]
ReduceRange = Literal["none", "half", "half_and_one", "stretched"]
CastBeforeClamp = Literal["none", "int64"]
NanCode = Literal["zero", "smallest", "largest"]
NanMantissa = Literal["quiet", "all_ones"]
ZeroWidth = Literal[
    "include_zero", "one", "minus_one_to_one", "one_and_zero", "one_and_zero_if_asymmetric", "as_any"
]
Overflow = Literal["saturate", "inf", "nan"]
NegativeZero = Literal["keep", "never", "not_of_zero", "also_of_zero"]
TailStored = Literal["short", "whole", "whole_if_integer"]
Purpose = Literal["course", "llm_weights", "integer_inference", "training", "microscaling"]

# ---- formats, searches and orientations ------------------------------------------------------------

GridKind = Literal["integer", "float", "codebook"]
CodeDtype = Literal["int8", "uint8", "int16", "int32"]
#: The codes of Inf and NaN in a float format, see `formats.FloatBits`.
Special = Literal["ieee", "fn", "fnuz", "finite"]
SearchMethod = Literal[
    "minimum",
    "signed",
    "descent",
    "codebook",
    "block_maximum",
    "integer_levels",
    "weighted_signed",
    "weighted_minimum",
]
ErrorWeight = Literal["magnitude", "level", "squares", "magnitudes", "largest"]
#: How the outputs' axes are known, the surest first. "layout" is that of quantized weights; "bias" is its
#: length; "shapes" are those of weights that belong together; "convention" is PyTorch's storage order.
ToldBy = Literal["user", "layout", "graph", "config", "bias", "names", "shapes", "convention", "guess"]


def values_of(kind: Any) -> tuple[Any, ...] | None:
    """Return all values of a type of words or of bool, `None` first; none of any other type.

    >>> values_of(Literal["same"] | Half | None), values_of(bool), values_of(str | None)
    ((None, 'same', 'float16', 'bfloat16'), (False, True), None)
    """
    if kind is bool:
        return False, True
    if typing.get_origin(kind) is Literal:
        return typing.get_args(kind)
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return None
    parts = [(None,) if part is type(None) else values_of(part) for part in typing.get_args(kind)]
    if None in parts:
        return None
    return tuple(
        sorted((value for part in parts for value in part or ()), key=lambda value: value is not None)
    )
