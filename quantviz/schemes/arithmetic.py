"""The fields of an engine's arithmetic: each selects or sets one of the steps that all engines share.

The steps are the operations of `quantviz/quantization`; no code checks for an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from quantviz.public_calls import checked_fields, public_class
from quantviz.schemes.choices import (
    AsymmetricRule,
    CastBeforeClamp,
    CodeFloorRule,
    CodesFrom,
    ExponentBelow,
    FirstOfScale,
    Float,
    FloorRule,
    GlobalRule,
    Half,
    InverseOfZero,
    Mode,
    NanCode,
    NanMantissa,
    NarrowUnsigned,
    NegativeZero,
    OneSided,
    Order,
    Overflow,
    Purpose,
    ReduceRange,
    ScaleFormat,
    ScaleRule,
    Search,
    Tail,
    TailStored,
    Ties,
    UnsignedZero,
    ValueOrder,
    WeightedSearch,
    ZeroDomain,
    ZeroPointOfZeroScale,
    ZeroPointRule,
    ZeroPointScale,
    ZeroPointTies,
    ZeroWidth,
)
from quantviz.schemes.granularity import GRANULARITIES, Granularity

#: The dtypes of half precision that an input can have.
HALVES: tuple[Half, ...] = get_args(Half)
#: The formats that a scale is rounded to, one after the other, for stored formats of more than one rounding.
STORED_AS: Mapping[str, tuple[Half, ...]] = MappingProxyType({"bfloat16_float16": ("bfloat16", "float16")})
#: Symmetric rules that make a range of both signs, and go on as asymmetric mode does.
BY_WIDTH = ("mirrored_range", "mirrored_end")
#: The purposes of engines, in the order of lists.
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


@checked_fields
@dataclass(frozen=True)
class ScaleSpec:
    """The rules that turn a block's range into its scale."""

    #: Symmetric rule, one of `CHOICES["scale.rule"]`. "absmax_over_code_max": largest magnitude / largest
    #: code. "mirrored_range" widens the range to as many steps below 0 as above and one more, and goes on as
    #: asymmetric mode does: width / number of steps. "farther_end_negated": minus the end that is farther
    #: from 0, of a range that 0 need not be in, / the number of steps below 0. "mirrored_end" makes a range
    #: of the largest magnitude above 0 and, times levels / (levels - 2) where levels are even, below, and
    #: goes on as asymmetric mode does.
    rule: ScaleRule = "absmax_over_code_max"
    #: Asymmetric rule: "width_over_steps", width / number of steps; "end_on_code": then changed so that the
    #: end farther from 0 is whole steps from it and has code 0, with a negative scale where it is the upper
    #: end; "zero_on_code": one end of the range is moved out first, until 0 is whole steps from it.
    asymmetric_rule: AsymmetricRule = "width_over_steps"
    #: Dtype that the width of an asymmetric range is rounded to; "scale_math", that of the scale.
    width_dtype: Literal["scale_math"] | Half = "scale_math"
    #: Float format that the ends of a range are rounded to before the scale is made of them, at most its
    #: largest value; none where they are kept as they are.
    ends_format: Half | None = None
    #: A range of asymmetric mode that is no wider than this is widened by as much at each end; 0 for none.
    widened_up_to: float = 0.0
    #: The least largest magnitude of a block, as a part of the tensor's, for rules that make a range of it; 0
    #: for none.
    tensor_floor: float = 0.0
    #: The largest magnitude that the value of a code may have, of integer formats; 0 for no limit.
    value_limit: float = 0.0
    #: The smallest scale allowed, used by `floor_rule`.
    floor: float = 0.0
    #: The use of `floor`. "at_least": max(scale, floor); "replace_zero": a scale of 0 becomes the floor,
    #: after the zero point was made with it; "one_below": a scale below the floor becomes 1;
    #: "width_at_least", "absmax_replace_zero", "absmax_one_up_to", "inverse_one_up_to": the same for the
    #: number behind the scale; "codes_zero_up_to": up to the floor every code is 0, and the scale 1;
    #: "range_stretched": max(scale, floor), with the range that the zero point is made of stretched as much
    #: as the scale; "magnitude_below": a scale of either sign whose magnitude is below the floor becomes the
    #: floor.
    floor_rule: FloorRule = "at_least"
    #: The scale that replaces one whose inverse is beyond float32, before any floor; 0 keeps it.
    without_inverse: float = 0.0
    #: Element format the scale itself is rounded to, or several, one after the other; none when it stays a
    #: float of `scale_dtype`.
    format: ScaleFormat | None = None
    #: With a second scale, the largest scale that is kept in that format; 0 for the format's largest value.
    code_max: float = 0.0
    #: The smallest scale that is kept in that format.
    format_floor: float = 0.0
    #: Rule for a second scale over all blocks; none when there is only one level. "absmax_and_inverse": the
    #: tensor's largest magnitude over the largest product, and by itself the inverse of that, which brings
    #: the scale of a block to its units.
    global_rule: GlobalRule | None = None
    #: The scale that codes are computed with: "stored", the stored one; "exact", the one before its rounding.
    codes_from: CodesFrom = "stored"
    #: The smallest scale that codes are computed with, used by `code_floor_rule`: "at_least", or "one" (a
    #: smaller scale counts as 1).
    code_floor: float = 0.0
    code_floor_rule: CodeFloorRule = "at_least"
    #: The number computed first, of scale and inverse, the other being 1 over it: "scale"; "inverse",
    #: code_max / absmax;
    #: "inverse_rounded_twice", (1 / absmax) · code_max; "both", each by itself, the scale as absmax · (1 /
    #: code_max); "both_divided", each by itself, the scale as absmax / code_max.
    first: FirstOfScale = "scale"
    #: The largest inverse; 0 for no limit.
    inverse_max: float = 0.0
    #: The result for a power of two below 2^-127, if the scale is stored as its exponent: "smallest", 2^-127;
    #: "wraps", the byte of the exponent wraps around, to a very large scale.
    exponent_below: ExponentBelow = "smallest"
    #: The inverse of a scale of 0: "zero" or "inf"; "quotient_zero": 0, and so is x / scale.
    inverse_of_zero: InverseOfZero = "zero"

    @property
    def depends_on_tensor(self) -> bool:
        """Whether a block's scale depends on the whole tensor's largest magnitude."""
        return self.global_rule is not None or self.tensor_floor > 0


@checked_fields
@public_class
@dataclass(frozen=True)
class Offer:
    """The formats, modes, granularities and sizes that an engine supports; an empty field is no limit."""

    #: Ids of number formats.
    formats: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ()
    #: Ids of granularities.
    granularities: tuple[str, ...] = ()
    #: Elements along the axis of a group or a flat block.
    sizes: tuple[int, ...] = ()
    #: The sizes that go with a format, by its id, if not all do.
    format_sizes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    #: The engine's default size; 0 for none.
    usual_size: int = 0

    @property
    def limited(self) -> bool:
        """Whether the engine supports less than everything."""
        return any((self.formats, self.modes, self.granularities, self.sizes))

    def sizes_of(self, format_id: str) -> tuple[int, ...]:
        """Return the sizes that go with a format.

        >>> offer = Offer(sizes=(32, 256), format_sizes=(("ternary", (256,)),))
        >>> offer.sizes_of("int8"), offer.sizes_of("ternary")
        ((32, 256), (256,))
        """
        return dict(self.format_sizes).get(format_id, self.sizes)

    def has_granularity(self, granularity: Granularity, format_id: str) -> bool:
        """Return whether the engine supports a granularity with a format."""
        size = getattr(granularity, "size", None)
        sizes = self.sizes_of(format_id)
        return granularity.id in (self.granularities or GRANULARITIES) and (
            size is None or not sizes or size in sizes
        )


@dataclass(frozen=True)
class HalfInput:
    """An engine's rule for an input of half precision. Of several rules, the first one that fits counts.

    If none fits, the engine's behaviour is unknown, or there is no engine: the input is widened to float32.
    """

    #: The dtypes of inputs that the rule is for.
    dtypes: tuple[Half, ...] = HALVES
    #: Ids of the number formats that the rule is for; empty for all.
    formats: tuple[str, ...] = ()
    #: The fields that differ from those for float32, by name, each with its value: "input" stands for the
    #: input's dtype. Empty if the engine itself widens the input to float32.
    changes: tuple[tuple[str, object], ...] = ()
    #: Whether the engine takes such an input. One that it does not take is widened to float32.
    taken: bool = True

    def fits(self, dtype: str, format_id: str) -> bool:
        """Return whether the rule is for an input of this dtype that becomes codes of this format."""
        return dtype in self.dtypes and (not self.formats or format_id in self.formats)


@dataclass(frozen=True)
class Arithmetic:
    """An engine's arithmetic, field by field: a row of the table in `engines.py`."""

    #: Permanent id, lower_snake: it is in people's links.
    id: str
    #: The rules from range to scale.
    scale: ScaleSpec = field(default_factory=ScaleSpec)
    #: The engine's own search of scales, a name in `scale_search.SEARCHES`; none if they follow from a range.
    search: Search | None = None
    #: The search for columns with weights, of an engine that only searches then; codes are computed with the
    #: inverse that was found, half to even.
    weighted_search: WeightedSearch | None = None
    #: Dtype in which range, scale and zero point are computed.
    scale_math: Float | Half = "float32"
    #: Dtype in which one scale for the whole tensor is stored.
    scale_dtype: Float = "float32"
    #: Dtype in which the scales of several blocks are stored.
    block_scale_dtype: Float = "float32"
    #: Dtype of the steps from x to the code.
    apply_dtype: Float | Half = "float32"
    #: Dtype of the steps from the code to the value.
    value_dtype: Float | Half = "float32"
    #: Dtype that values are rounded to at the end; "same" as `value_dtype`.
    result_dtype: Literal["same"] | Half = "same"
    #: Whether the range is widened until it holds 0.
    zero_in_range: bool = False
    #: The domain of the zero point of asymmetric mode: "code_int", a whole number among the codes;
    #: "code_float", any number among them; "value", the value of code 0; "value_middle", the value of the
    #: middle code.
    zero_domain: ZeroDomain = "code_int"
    #: The rule for the zero point. "shift_rounded": round(code_min - lo / s); "low_minus_rounded": code_min -
    #: round(lo / s), which differs on ties; "ends_weighted": round((code_min · hi - code_max · lo) / width);
    #: "nearer_end": from the lower or the upper end, whichever adds up to smaller numbers.
    zero_point_rule: ZeroPointRule = "shift_rounded"
    #: The rule for a zero point exactly between two codes.
    zero_point_ties: ZeroPointTies = "even"
    #: Dtype in which the zero point is computed.
    zero_point_math: Literal["scale_math"] | Float = "scale_math"
    #: The scale that the zero point is computed with: "exact", as it was computed; "single", once it has been
    #: rounded to float32.
    zero_point_scale: ZeroPointScale = "exact"
    #: Whether the zero point is clamped to the format's codes.
    zero_point_clamp: bool = True
    #: The zero point where the scale is 0: "as_any", that of any block, and code 0 for 0 / 0; "smallest" or
    #: "largest", that code.
    zero_point_of_zero_scale: ZeroPointOfZeroScale = "as_any"
    #: Element format in which the zero point is stored, if it is not a code; codes are computed with the
    #: value before that rounding.
    zero_point_format: Half | None = None
    #: Zero point of symmetric unsigned: "none", negatives clip; "middle", the upper of the two middle codes;
    #: "middle_of_storage", the upper one where the code fills its bytes, else the lower one;
    #: "lower_middle", the lower one, and under a narrow range the largest code is left out; "lower_end", that
    #: of the range's lower end, in the domain of asymmetric mode.
    unsigned_zero: UnsignedZero = "none"
    #: Symmetric mode's rule for a range on one side of 0, in an integer format: "symmetric", the same as for
    #: any other; "asymmetric", scale and zero point as in asymmetric mode, or that only "…_if_positive".
    one_sided: OneSided = "symmetric"
    #: Order of the steps from x to the rounded code, one of `CHOICES["order"]`. "divide_add_round": round(x /
    #: s + z). "multiply_subtract_round": of a zero point that is a value, round(x · (1 / s) - z · (1 / s)).
    #: "levels_divide_add_round": of scales of two levels of integers, x is brought to a code of the first and
    #: then to one of the second. "divide_level_multiply_round": of a scale that is kept in units of the
    #: tensor's, round((x / the block's stored scale) · (1 / the tensor's scale)).
    order: Order = "divide_add_round"
    #: The order where there are several blocks; "same" as with one.
    block_order: Literal["same"] | Order = "same"
    #: Whether a short last block is divided by its scale where others are multiplied by the inverse.
    tail_divides: bool = False
    #: Number of equal steps from -1 to 1 to which x / s is rounded before its code is looked up; 0 for none.
    lattice: int = 0
    #: Order of the steps back: "subtract_multiply", s · (q - z); "divide_inverse", q / (1 / s);
    #: "multiply_absmax", (q · absmax) · (1 / code_max); "multiply_levels", ((q · the block's stored scale) ·
    #: the tensor's largest magnitude) / the largest product of the first two; "fused_multiply_add", of a zero
    #: point that is a value, s · q + z rounded once.
    value_order: ValueOrder = "subtract_multiply"
    #: The rule for a value exactly between two codes: "even", the even one; any other of `grids.TIES`; or
    #: "stochastic", random by `seed`.
    ties: Ties = "even"
    #: The seed of stochastic rounding.
    seed: int = 0
    #: Whether the smallest signed code is left out, [-127, 127].
    narrow_range: bool = False
    #: The same in symmetric mode only, from this many bits on; 0 for never.
    narrow_symmetric_from: int = 0
    #: The code of an unsigned format that a narrow range leaves out, unless its middle decides that: "none",
    #: "smallest", "largest".
    narrow_unsigned: NarrowUnsigned = "none"
    #: Whether the range is made for half of an integer format's codes, so that sums of products fit where
    #: they are added up in 16 bits: "none"; "half", -64 ... 63 or 0 ... 127 of 8 bits; "half_and_one", with
    #: one more above 0 from 8 signed bits on, -64 ... 64, and the zero point of symmetric unsigned in the
    #: middle of these; "stretched", the ends of a symmetric range that is made for half of the codes are
    #: stretched to all of them, so that the outer codes stay empty.
    reduce_range: ReduceRange = "none"
    #: Whether codes are clamped to the codes that the range is made for, or to all the codes of the format.
    narrow_clamp: bool = True
    #: The integers to which a rounded value is cast before it is clamped: "none" or "int64", where NaN and
    #: values out of its range become -2^63.
    cast_before_clamp: CastBeforeClamp = "none"
    #: The same where there are several blocks; "same" as with one.
    block_cast_before_clamp: Literal["same"] | CastBeforeClamp = "same"
    #: The code of NaN in a format without it: "zero", code 0; "smallest", "largest", the end of the codes.
    nan_code: NanCode = "zero"
    #: The same where there are several blocks; "same" as with one.
    block_nan_code: Literal["same"] | NanCode = "same"
    #: The code of NaN in a float format that has several: "quiet", the first bit of the mantissa;
    #: "all_ones", all of them.
    nan_mantissa: NanMantissa = "quiet"
    #: The rule for a block whose range has no width. "include_zero": the range is widened to 0, and an
    #: all-zero block gets scale 1; "one": it gets scale 1; "minus_one_to_one": a range from 0 to 0 becomes
    #: that from -1 to 1; "one_and_zero": below the floor it gets scale 1 and zero point 0, or that only
    #: "…_if_asymmetric"; "as_any": no special rule.
    zero_width: ZeroWidth = "include_zero"
    #: The result for values beyond the format: "saturate", "inf" (NaN in a format without), "nan". Formats
    #: without NaN saturate.
    overflow: Overflow = "saturate"
    #: The values that round to -0, in formats that have it: "keep", negative ones; "never", none;
    #: "not_of_zero", negative ones that are not 0 in units of the scale; "also_of_zero", all that are not
    #: positive.
    negative_zero: NegativeZero = "keep"
    #: The rule for a block that does not fill up: one of `choices.Tail`.
    tail: Tail = "refuse"
    #: The stored form of such a block: "short", or "whole", with its padding, as packed rows of blocks are,
    #: or that "…_if_integer" only.
    tail_stored: TailStored = "short"
    #: Bits in which one scale is stored, for the size of the result.
    scale_bits: int = 16
    #: Bits in which one zero point is stored; 0 for those of a code.
    zero_bits: int = 0
    #: Bits in which a code is stored; 0 for the format's.
    code_bits: float = 0.0
    #: The dtype of the input: "own", that of the tensor; for any other, the input is rounded to it first.
    input_dtype: Literal["own", "float32"] | Half = "own"
    #: The rules for float16 and bfloat16 input.
    half_input: tuple[HalfInput, ...] = ()
    #: The choices that the engine supports.
    offer: Offer = field(default_factory=Offer)
    #: The engine's purpose, one of `PURPOSES`.
    purpose: Purpose | Literal[""] = ""
    #: Names of programs and formats that people know the engine by, besides its own.
    known_as: tuple[str, ...] = ()
