"""Conventions: one engine's arithmetic as data.

`arithmetic.py` has the steps that all engines share; each field here selects or sets one of them,
and no code asks which engine it is. A convention is added here: one entry in `CONVENTIONS` and its
words in each language. Each is held to its engine by `tests/engines`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from quantviz.errors import QuantVizError
from quantviz.schemes import text_form
from quantviz.schemes.granularity import GRANULARITIES, TAILS, Granularity, Shape, nearest_granularity

#: The smallest float32 with all its digits.
_NORMAL = 2.0**-126


@dataclass(frozen=True)
class ScaleSpec:
    """How a block's range becomes its scale."""

    #: Symmetric rule, one of `CHOICES["scale.rule"]`. "absmax_over_code_max": largest magnitude / largest
    #: code.
    rule: str = "absmax_over_code_max"
    #: The smallest scale allowed, used as `floor_rule` says.
    floor: float = 0.0
    #: "at_least": max(scale, floor); "replace_zero": a scale of 0 becomes the floor, after the zero point was
    #: made with it; "one_below": a scale below the floor becomes 1; "width_at_least", "absmax_replace_zero",
    #: "absmax_one_up_to", "inverse_one_up_to": the same of what the scale is made of.
    floor_rule: str = "at_least"
    #: Element format the scale itself is rounded to, or several, one after the other; none when it stays a
    #: float of `scale_dtype`.
    format: str | None = None
    #: The smallest scale that is kept in that format.
    format_floor: float = 0.0
    #: Rule for a second scale over all blocks; none when there is only one level.
    global_rule: str | None = None
    #: Whether codes are made with the scale as it is stored, or with it as it was before: "stored", "exact".
    codes_from: str = "stored"
    #: Codes are made with no smaller scale than this one, used as `code_floor_rule` says: "at_least", "one"
    #: (such a scale counts as 1).
    code_floor: float = 0.0
    code_floor_rule: str = "at_least"
    #: What is computed first, the other being 1 over it: "scale"; "inverse", code_max / absmax;
    #: "inverse_rounded_twice", (1 / absmax) · code_max; "both", each by itself, the scale as absmax · (1 /
    #: code_max).
    first: str = "scale"
    #: The largest inverse; 0 for no limit.
    inverse_max: float = 0.0
    #: What 1 / scale is where the scale is 0: "zero" or "inf".
    inverse_of_zero: str = "zero"


@dataclass(frozen=True)
class Offer:
    """What an engine offers under a convention. What is empty is not limited."""

    #: Ids of number formats.
    formats: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    #: Ids of granularities.
    granularities: tuple[str, ...] = ()
    #: Elements along the axis of a group or a flat block.
    sizes: tuple[int, ...] = ()
    #: Of those the ones that go with a format, by its id, where not all do.
    format_sizes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    #: The size the engine takes where none is asked for; 0 for none.
    usual_size: int = 0

    @property
    def limited(self) -> bool:
        """Whether there is something that it leaves out."""
        return any((self.formats, self.modes, self.granularities, self.sizes))

    def sizes_of(self, format_id: str) -> tuple[int, ...]:
        """Return the sizes that go with a format.

        >>> CONVENTIONS["gguf"].offer.sizes_of("int8"), CONVENTIONS["gguf"].offer.sizes_of("ternary")
        ((32,), (256,))
        """
        return dict(self.format_sizes).get(format_id, self.sizes)

    def has_granularity(self, granularity: Granularity, format_id: str) -> bool:
        """Return whether it is among what is offered with a format."""
        size, sizes = getattr(granularity, "size", None), self.sizes_of(format_id)
        return granularity.id in (self.granularities or GRANULARITIES) and (
            size is None or not sizes or size in sizes
        )


@dataclass(frozen=True)
class Convention:
    """An engine's arithmetic, a frozen value.

    >>> print(CONVENTIONS["course"])
    course
    >>> print(CONVENTIONS["course"].replace(scale_math="float32"))
    course(scale_math=float32)
    """

    #: Permanent id, lower_snake: it is in people's links.
    id: str
    #: Range to scale.
    scale: ScaleSpec = field(default_factory=ScaleSpec)
    #: Dtype in which range, scale and zero point are computed.
    scale_math: str = "float32"
    #: Dtype in which one scale for the whole tensor is kept.
    scale_dtype: str = "float32"
    #: Dtype in which the scales of several blocks are kept.
    block_scale_dtype: str = "float32"
    #: Dtype of the steps from x to the code.
    apply_dtype: str = "float32"
    #: Dtype of the steps from the code to the value.
    value_dtype: str = "float32"
    #: Whether the range is widened until it holds 0.
    zero_in_range: bool = False
    #: Where the zero point of asymmetric mode lives: "code_int", a whole number among the codes;
    #: "code_float", any number among them; "value", the value of code 0; "value_middle", the value of the
    #: middle code.
    zero_domain: str = "code_int"
    #: "shift_rounded": round(code_min - lo / s); "low_minus_rounded": code_min - round(lo / s), which differs
    #: on ties.
    zero_point_rule: str = "shift_rounded"
    #: Where the zero point lies exactly between two codes.
    zero_point_ties: str = "even"
    #: Dtype in which the zero point is computed.
    zero_point_math: str = "scale_math"
    #: Whether the zero point is clamped to the codes there are.
    zero_point_clamp: bool = True
    #: Element format in which the zero point is stored, where it is no code; codes are made with it as it was
    #: before.
    zero_point_format: str | None = None
    #: Zero point of symmetric unsigned: "none", negatives clip; "middle", the upper of the two middle codes;
    #: "middle_of_storage", the upper one where the code fills its bytes, else the lower one.
    unsigned_zero: str = "none"
    #: Order of the steps from x to the rounded code, one of `CHOICES["order"]`. "divide_add_round": round(x /
    #: s + z).
    order: str = "divide_add_round"
    #: The order where there are several blocks; "same" as with one.
    block_order: str = "same"
    #: Whether a short last block is divided by its scale where others are multiplied by the inverse.
    tail_divides: bool = False
    #: How many equal steps from -1 to 1 x / s is brought to before its code is looked up; 0 for none.
    lattice: int = 0
    #: Order of the steps back: "subtract_multiply", s · (q - z); "divide_inverse", q / (1 / s);
    #: "multiply_absmax", (q · absmax) · (1 / code_max).
    value_order: str = "subtract_multiply"
    #: Where exactly between two codes: "even", the even one. One of `grids.TIES`, or "stochastic": chance, by
    #: `seed`.
    ties: str = "even"
    #: Of stochastic rounding.
    seed: int = 0
    #: Whether the smallest signed code is left out, [-127, 127].
    narrow_range: bool = False
    #: The same in symmetric mode only, from this many bits on; 0 for never.
    narrow_symmetric_from: int = 0
    #: What a block does whose range has no width. "include_zero": it is widened to 0, and an all-zero block
    #: gets scale 1; "one": it gets scale 1; "one_and_zero": below the floor it gets scale 1 and zero point 0,
    #: or that only "…_if_asymmetric"; "as_any": nothing.
    zero_width: str = "include_zero"
    #: What becomes of values beyond the format: "saturate", "inf" (NaN in a format without), "nan". Formats
    #: without NaN saturate.
    overflow: str = "saturate"
    #: What becomes -0, in formats that have it: "keep", what was negative; "never", nothing; "not_of_zero",
    #: what was negative, but not -0; "also_of_zero", what was not positive.
    negative_zero: str = "keep"
    #: What happens where a block does not fill up: one of `granularity.TAILS`.
    tail: str = "refuse"
    #: How such a block is stored: "short", or "whole", with what fills it up, as packed rows of blocks are,
    #: or that "…_if_integer" only.
    tail_stored: str = "short"
    #: Bits in which one scale is stored, for the size of the result.
    scale_bits: int = 16
    #: Bits in which one zero point is stored; 0 for those of a code.
    zero_bits: int = 0
    #: Bits in which a code is stored; 0 for the format's.
    code_bits: float = 0.0
    #: What the engine offers.
    offer: Offer = field(default_factory=Offer)

    def replace(self, **changes: object) -> Convention:
        """Return the same arithmetic but for `changes`; `QuantVizError` names the allowed values.

        A field of `scale` is changed as `**{"scale.floor": 1e-08}`.
        """
        nested = {
            name.removeprefix("scale."): changes.pop(name)
            for name in tuple(changes)
            if name.startswith("scale.")
        }
        known = {name for name in FIELDS if not name.startswith("scale.")}
        for name in changes:
            if name not in known:
                raise QuantVizError("convention_unknown_field", field=name, known=", ".join(FIELDS))
        spec_known = {name.removeprefix("scale.") for name in FIELDS if name.startswith("scale.")}
        for name in nested:
            if name not in spec_known:
                raise QuantVizError(
                    "convention_unknown_field",
                    field=f"scale.{name}",
                    known=", ".join(f"scale.{n}" for n in sorted(spec_known)),
                )
        new = dataclasses.replace(self, **changes)  # type: ignore[arg-type]
        if nested:
            new = dataclasses.replace(new, scale=dataclasses.replace(new.scale, **nested))  # type: ignore[arg-type]
        for problem in new.problems():
            raise problem
        return new

    def get(self, name: str) -> object:
        """Return a field by its name in `FIELDS`.

        >>> CONVENTIONS["course"].get("scale.floor_rule")
        'at_least'
        """
        return (
            getattr(self.scale, name.removeprefix("scale."))
            if name.startswith("scale.")
            else getattr(self, name)
        )

    def granularity_like(self, granularity: Granularity, shape: Shape, format_id: str) -> Granularity:
        """`granularity` where it is offered with a format and fits a tensor of `shape`, else the offered one
        whose blocks are the most alike.

        What has no size of its own becomes blocks of the engine's usual one. `QuantVizError` where nothing
        that is offered fits.

        >>> CONVENTIONS["bitsandbytes"].granularity_like(GRANULARITIES["per_tensor"](), (4, 64), "nf4")
        Flat(size=64, strided=False)
        >>> CONVENTIONS["bitsandbytes"].granularity_like(GRANULARITIES["per_group"](128), (4, 256), "nf4")
        Flat(size=128, strided=False)
        """
        offer = self.offer
        fits = not any(granularity.shape_problems(shape, self.tail))
        if fits and offer.has_granularity(granularity, format_id):
            return granularity
        kinds = [GRANULARITIES[name] for name in offer.granularities or GRANULARITIES]
        sizes = offer.sizes_of(format_id)
        candidates = (each for kind in kinds for each in kind.candidates(shape, sizes))
        try:
            return nearest_granularity(granularity, candidates, shape, self.tail, offer.usual_size)
        except QuantVizError:
            if not sizes:
                raise
        raise QuantVizError(
            "no_offered_size_fits", convention=self.id, sizes=", ".join(map(str, sizes)), shape=shape
        )

    def problems(self) -> Iterator[QuantVizError]:
        """The fields whose value is not one of those the shared steps know, or does not go with another's."""
        # Those that have a name are asked by the tests, and on a page many times by each run. Equal is not
        # enough: False equals 0, and is no count.
        if self is CONVENTIONS.get(self.id):
            return
        unknown = tuple(self._unknown())
        # What is no value at all cannot be asked whether it goes with others.
        yield from unknown or self._lacking()

    def _unknown(self) -> Iterator[QuantVizError]:
        for name, allowed in CHOICES.items():
            value = self.get(name)
            if value not in allowed or type(value) not in {type(each) for each in allowed}:
                yield QuantVizError(
                    "convention_bad_value", field=name, got=value, allowed=", ".join(map(str, allowed))
                )
        for name in (
            "scale.floor",
            "scale.format_floor",
            "scale.code_floor",
            "scale.inverse_max",
            "code_bits",
        ):
            value = self.get(name)
            if not isinstance(value, float) or not 0 <= value < float("inf"):
                yield QuantVizError("convention_bad_value", field=name, got=value, allowed="≥ 0")
        for name, smallest in (
            ("scale_bits", 1),
            ("zero_bits", 0),
            ("narrow_symmetric_from", 0),
            ("seed", 0),
            ("lattice", 0),
        ):
            value = self.get(name)
            # Its text form has 18 digits.
            if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value < 10**18:
                yield QuantVizError(
                    "convention_bad_value", field=name, got=value, allowed=f"{smallest} … 10^18 - 1"
                )

    def _lacking(self) -> Iterator[QuantVizError]:
        """The fields whose value reads what another field's value does not make."""
        orders = (self.order, self.order if self.block_order == "same" else self.block_order)
        on_lattice = ("even", "away", "up", "down", "toward_zero", "adding_half_away", "truncate")
        single = ("float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu")
        for name, needs, other, allowed in (
            (
                "value_order",
                self.value_order == "divide_inverse" and self.scale.first == "scale",
                "scale.first",
                "inverse, inverse_rounded_twice, both",
            ),
            (
                "value_order",
                self.value_order == "multiply_absmax" and self.scale.first != "both",
                "scale.first",
                "both",
            ),
            (
                "scale.global_rule",
                self.scale.global_rule is not None and self.scale.format not in single,
                "scale.format",
                ", ".join(single),
            ),
            (
                "tail_divides",
                self.tail_divides and any(order.startswith("divide") for order in orders),
                "order",
                "multiply_add_round, multiply_round_add",
            ),
            (
                "zero_width",
                self.zero_width.startswith("one_and_zero") and self.scale.floor_rule != "one_below",
                "scale.floor_rule",
                "one_below",
            ),
            ("lattice", self.lattice > 0 and self.ties not in on_lattice, "ties", ", ".join(on_lattice)),
            (
                "zero_point_format",
                # A code that is clamped is a whole number; HQQ's is not, and is kept as a 16-bit float.
                self.zero_point_format is not None
                and self.zero_domain == "code_int"
                and self.zero_point_clamp,
                "zero_domain",
                "code_float, value, value_middle",
            ),
        ):
            if needs:
                yield QuantVizError(
                    "convention_lacks", field=name, got=self.get(name), other=other, allowed=allowed
                )

    def differences(self, other: Convention) -> dict[str, tuple[object, object]]:
        """Return the fields in which two conventions differ, with the value of each.

        >>> CONVENTIONS["course"].differences(CONVENTIONS["course"].replace(ties="away"))
        {'ties': ('even', 'away')}
        """
        return {
            name: (self.get(name), other.get(name)) for name in FIELDS if self.get(name) != other.get(name)
        }

    def __str__(self) -> str:
        known = find_convention(self.id)
        if self == known:
            return self.id
        own = self.differences(known)
        ordered = sorted(own, key=lambda name: name.startswith("scale."))
        parts = ",".join(f"{name}={text_form.write_value(self.get(name))}" for name in ordered)
        return f"{self.id}({parts})" if parts else self.id

    def __repr__(self) -> str:
        try:
            return f"Convention.parse({str(self)!r})"
        except QuantVizError:  # one that was made by hand has no text form
            return f"Convention({self.id!r}, …)"

    @classmethod
    def parse(cls, form: str) -> Convention:
        """Return the convention written as `form`.

        >>> Convention.parse("course(scale.floor=1e-08)").scale.floor
        1e-08
        """
        name, raw = text_form.read_head(form)
        own = {key: value for key, value in raw.items() if not key.startswith("scale.")}
        nested = {key.removeprefix("scale."): value for key, value in raw.items() if key.startswith("scale.")}
        changes = text_form.read_fields(cls, own, form) | {
            f"scale.{k}": v for k, v in text_form.read_fields(ScaleSpec, nested, form).items()
        }
        known = find_convention(name)
        return known.replace(**changes) if changes else known


#: Every field of the arithmetic, those of the scale as `scale.<field>`.
FIELDS: tuple[str, ...] = (
    *(f"scale.{f.name}" for f in dataclasses.fields(ScaleSpec)),
    *(f.name for f in dataclasses.fields(Convention) if f.name not in ("id", "scale", "offer")),
)

_FLOATS = ("float32", "float64")
_ORDERS = (
    "divide_add_round",
    "divide_round_add",
    "multiply_add_round",
    "multiply_round_add",
    "fused_multiply_add_round",
)

#: The values a field can take, where they are names of shared steps.
CHOICES: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        "scale.rule": (
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
        ),
        "scale.floor_rule": (
            "at_least",
            "replace_zero",
            "one_below",
            "width_at_least",
            "absmax_replace_zero",
            "absmax_one_up_to",
            "inverse_one_up_to",
        ),
        "scale.format": (None, "float16", "bfloat16", "bfloat16_float16", "float8_e4m3fn", "float8_e8m0fnu"),
        "scale.global_rule": (None, "absmax_over_range", "absmax_over_range_joined", "range_over_absmax"),
        "scale.codes_from": ("stored", "exact"),
        "scale.code_floor_rule": ("at_least", "one"),
        "scale.first": ("scale", "inverse", "inverse_rounded_twice", "both"),
        "scale.inverse_of_zero": ("zero", "inf"),
        "scale_math": _FLOATS,
        "scale_dtype": _FLOATS,
        "block_scale_dtype": _FLOATS,
        "apply_dtype": _FLOATS,
        "value_dtype": (*_FLOATS, "float16", "bfloat16"),
        "zero_in_range": (False, True),
        "zero_domain": ("code_int", "code_float", "value", "value_middle"),
        "zero_point_rule": ("shift_rounded", "low_minus_rounded"),
        "zero_point_ties": ("even", "away"),
        "zero_point_math": ("scale_math", *_FLOATS),
        "zero_point_clamp": (False, True),
        "zero_point_format": (None, "float16", "bfloat16"),
        "unsigned_zero": ("none", "middle", "middle_of_storage"),
        "order": _ORDERS,
        "block_order": ("same", *_ORDERS),
        "value_order": ("subtract_multiply", "divide_inverse", "multiply_absmax"),
        "tail_divides": (False, True),
        "ties": (
            "even",
            "away",
            "up",
            "down",
            "toward_zero",
            "stochastic",
            "adding_half",
            "adding_half_away",
            "truncate",
        ),
        "narrow_range": (False, True),
        "zero_width": ("include_zero", "one", "one_and_zero", "one_and_zero_if_asymmetric", "as_any"),
        "overflow": ("saturate", "inf", "nan"),
        "negative_zero": ("keep", "never", "not_of_zero", "also_of_zero"),
        "tail": TAILS,
        "tail_stored": ("short", "whole", "whole_if_integer"),
    }
)


def _ids(*patterns: str) -> tuple[str, ...]:
    """Return names of integer formats: "int2-8" for int2 to int8."""
    names: list[str] = []
    for pattern in patterns:
        head, _, last = pattern.partition("-")
        kind = head.rstrip("0123456789")
        first = int(head.removeprefix(kind))
        names += [f"{kind}{bits}" for bits in range(first, int(last or first) + 1)]
    return tuple(names)


_FP8 = ("float8_e4m3fn", "float8_e5m2")
_FP6 = ("float6_e2m3fn", "float6_e3m2fn")
_FP4 = "float4_e2m1fn"
_SYMMETRIC, _ASYMMETRIC = ("symmetric",), ("asymmetric",)

#: Every engine's arithmetic by id.
CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        convention.id: convention
        for convention in (
            # The source notebooks 000 and 003: Python floats for one scale, a float32 tensor for several.
            Convention("course", scale_math="float64", scale_dtype="float64"),
            # torch.ao's MinMaxObserver with quantize_per_tensor (FBGEMM, one rounding) and
            # quantize_per_channel (two).
            Convention(
                "torch",
                ScaleSpec("absmax_over_half_range", floor=2.0**-23),
                zero_in_range=True,
                zero_point_rule="low_minus_rounded",
                unsigned_zero="middle",
                order="fused_multiply_add_round",
                block_order="multiply_add_round",
                zero_width="as_any",
                scale_bits=32,
                zero_bits=32,
                offer=Offer(_ids("int8", "uint8"), granularities=("per_tensor", "per_channel")),
            ),
            # The same observer with fake_quantize_per_tensor_affine and fake_quantize_per_channel_affine.
            Convention(
                "torch_fake_quantize",
                ScaleSpec("absmax_over_half_range", floor=2.0**-23),
                zero_in_range=True,
                zero_point_rule="low_minus_rounded",
                unsigned_zero="middle_of_storage",
                order="multiply_round_add",
                zero_width="as_any",
                scale_bits=32,
                zero_bits=32,
                offer=Offer(
                    _ids("int2-8", "int16", "uint2-8", "uint16"), granularities=("per_tensor", "per_channel")
                ),
            ),
            # torchao.quantization.quant_primitives: MappingType.SYMMETRIC and ASYMMETRIC. Others of its
            # variants are replacements: SYMMETRIC_NO_CLIPPING_ERR (scale.rule=without_clipping), Int8Tensor
            # (scale.floor=2^-23), _dont_preserve_zero (zero_in_range=false).
            Convention(
                "torchao",
                ScaleSpec("absmax_over_half_range", floor=_NORMAL),
                zero_in_range=True,
                zero_point_rule="low_minus_rounded",
                unsigned_zero="middle",
                order="multiply_round_add",
                zero_width="as_any",
                offer=Offer(
                    _ids("int1-8", "int16", "uint1-8"),
                    granularities=("per_tensor", "per_channel", "per_group", "per_block"),
                ),
            ),
            # _choose_qparams_affine_tinygemm: the zero point is the value of the middle code.
            Convention(
                "torchao_tinygemm",
                ScaleSpec("absmax_over_half_range", floor=_NORMAL),
                zero_domain="value_middle",
                zero_width="as_any",
                zero_bits=16,
                offer=Offer(
                    _ids("uint2-8"), _ASYMMETRIC, ("per_tensor", "per_channel", "per_group", "per_block")
                ),
            ),
            # Float8Tensor: _choose_scale_float8, _quantize_affine_float8.
            Convention(
                "torchao_float8",
                zero_width="as_any",
                scale_bits=32,
                offer=Offer(_FP8, _SYMMETRIC, ("per_tensor", "per_channel", "per_group", "per_block")),
            ),
            # MXTensor.to_mx; its scale modes are FLOOR (this one), CEIL, EVEN, and RCEIL
            # (power_of_two_fitting with scale.code_floor_rule=one).
            Convention(
                "torchao_mx",
                ScaleSpec("power_of_two_floor", format="float8_e8m0fnu", code_floor=_NORMAL),
                zero_width="as_any",
                scale_bits=8,
                offer=Offer((*_FP8, *_FP6, _FP4), _SYMMETRIC, ("per_group",), usual_size=32),
            ),
            # NVFP4Tensor with a per-tensor scale; without one it is scale.global_rule=none.
            Convention(
                "torchao_nvfp4",
                ScaleSpec(format="float8_e4m3fn", format_floor=2.0**-6, global_rule="absmax_over_range"),
                order="multiply_round_add",
                zero_width="as_any",
                scale_bits=8,
                offer=Offer((_FP4,), _SYMMETRIC, ("per_group",), (16,)),
            ),
            # onnxruntime.quantization's compute_scale_zp with QuantizeLinear and DequantizeLinear.
            Convention(
                "onnxruntime",
                ScaleSpec("absmax_over_half_range", floor=_NORMAL, floor_rule="one_below"),
                scale_math="float64",
                zero_in_range=True,
                zero_point_clamp=False,
                unsigned_zero="middle",
                order="divide_round_add",
                narrow_symmetric_from=8,
                zero_width="one_and_zero",
                scale_bits=32,
                offer=Offer(
                    _ids("int2", "int4", "int8", "int16", "uint2", "uint4", "uint8", "uint16"),
                    granularities=("per_tensor", "per_channel"),
                ),
            ),
            # compute_scale_zp_blocked with QuantizeLinear of opset 21.
            Convention(
                "onnxruntime_blocked",
                ScaleSpec("absmax_over_half_range", floor=_NORMAL, floor_rule="one_below"),
                zero_in_range=True,
                zero_point_math="float64",
                unsigned_zero="middle",
                order="divide_round_add",
                narrow_symmetric_from=8,
                zero_width="one_and_zero_if_asymmetric",
                tail="short",
                scale_bits=32,
                offer=Offer(
                    _ids("int4", "int8", "int16", "uint4", "uint8", "uint16"),
                    granularities=("per_group",),
                    usual_size=128,
                ),
            ),
            # MatMulNBits' weights: MatMul4BitsQuantizer and its kin, round to nearest.
            Convention(
                "onnxruntime_nbits",
                ScaleSpec("larger_end_over_code_min"),
                zero_in_range=True,
                zero_point_ties="away",
                unsigned_zero="middle",
                order="multiply_add_round",
                ties="away",
                zero_width="as_any",
                tail="short",
                tail_stored="whole",
                scale_bits=32,
                offer=Offer(
                    _ids("uint2", "uint4", "uint8"),
                    granularities=("per_group",),
                    sizes=(16, 32, 64, 128, 256),
                    usual_size=128,
                ),
            ),
            # The operator DynamicQuantizeLinear.
            Convention(
                "onnxruntime_dynamic",
                zero_in_range=True,
                order="divide_round_add",
                zero_width="one",
                scale_bits=32,
                offer=Offer(_ids("uint8"), _ASYMMETRIC, ("per_tensor",)),
            ),
            # ai-edge-quantizer's uniform_quantize_tensor.
            Convention(
                "litert",
                ScaleSpec(floor=1e-9, floor_rule="width_at_least"),
                zero_in_range=True,
                zero_point_clamp=False,
                narrow_symmetric_from=8,
                zero_width="as_any",
                scale_bits=32,
                zero_bits=64,
                offer=Offer(
                    _ids("int2", "int4", "int8", "int16"), granularities=("per_tensor", "per_channel")
                ),
            ),
            # The same for blocks, whose scales are rounded to bfloat16 and stored as float16.
            Convention(
                "litert_blockwise",
                ScaleSpec(floor=1e-9, floor_rule="width_at_least", format="bfloat16_float16"),
                zero_in_range=True,
                zero_point_clamp=False,
                narrow_symmetric_from=8,
                zero_width="as_any",
                offer=Offer(
                    _ids("int2", "int4", "int8"),
                    _SYMMETRIC,
                    ("per_group",),
                    (32, 64, 128, 256),
                    usual_size=32,
                ),
            ),
            # calculate_qparams and quantize of compressed-tensors.
            Convention(
                "compressed_tensors",
                ScaleSpec("absmax_over_half_range", floor=2.0**-23, floor_rule="replace_zero"),
                zero_in_range=True,
                zero_width="as_any",
                negative_zero="not_of_zero",
                tail="short_tiles",
                offer=Offer(
                    (*_ids("int2-8"), "float8_e4m3fn"),
                    granularities=("per_tensor", "per_channel", "per_group", "per_block"),
                ),
            ),
            Convention(
                "compressed_tensors_mx",
                ScaleSpec("power_of_two_even_2_bits", format="float8_e8m0fnu"),
                zero_in_range=True,
                zero_width="as_any",
                negative_zero="not_of_zero",
                scale_bits=8,
                offer=Offer(("float8_e4m3fn", _FP4), _SYMMETRIC, ("per_group",), (32,)),
            ),
            Convention(
                "compressed_tensors_nvfp4",
                ScaleSpec(
                    "absmax_over_half_range",
                    format="float8_e4m3fn",
                    format_floor=0.125,
                    global_rule="range_over_absmax",
                ),
                zero_in_range=True,
                zero_width="as_any",
                negative_zero="not_of_zero",
                scale_bits=8,
                offer=Offer((_FP4,), _SYMMETRIC, ("per_group",), (16,)),
            ),
            # optimum-quanto in 8 bits: absmax_scale for activations, AbsmaxOptimizer for weights.
            Convention(
                "quanto",
                zero_width="as_any",
                offer=Offer(("int8", *_FP8, "float8_e4m3fnuz"), _SYMMETRIC, ("per_tensor", "per_channel")),
            ),
            # Its weights in 2 and 4 bits, by MaxOptimizer; qint4 has the codes 0 to 15. With zeropoint=True
            # it is zero_domain=code_int.
            Convention(
                "quanto_qbits",
                zero_domain="value",
                order="divide_round_add",
                zero_width="as_any",
                zero_bits=16,
                offer=Offer(
                    _ids("uint2", "uint4"), _ASYMMETRIC, ("per_channel", "per_group", "flat"), usual_size=128
                ),
            ),
            # hqq's Quantizer.quantize without its optimizer; round_zero is zero_domain=code_int.
            Convention(
                "hqq",
                ScaleSpec(
                    floor=1e-4, floor_rule="inverse_one_up_to", first="inverse_rounded_twice", inverse_max=2e4
                ),
                zero_domain="code_float",
                zero_point_clamp=False,
                order="multiply_add_round",
                zero_width="as_any",
                zero_bits=16,
                offer=Offer(
                    _ids("uint1-6", "uint8"), _ASYMMETRIC, ("per_tensor", "per_channel", "per_group", "flat")
                ),
            ),
            # quantize_4bit: NF4 and FP4.
            Convention(
                "bitsandbytes",
                ScaleSpec(code_floor=1e-38),
                order="multiply_round_add",
                tail_divides=True,
                ties="down",
                zero_width="as_any",
                tail="short",
                scale_bits=32,
                offer=Offer(
                    ("nf4", "fp4"),
                    _SYMMETRIC,
                    ("flat",),
                    (32, 64, 128, 256, 512, 1024, 2048, 4096),
                    usual_size=64,
                ),
            ),
            # quantize_blockwise: codes are looked up on a lattice of 65,536 points.
            Convention(
                "bitsandbytes_dynamic8",
                ScaleSpec(inverse_of_zero="inf"),
                order="multiply_round_add",
                lattice=65536,
                ties="down",
                zero_width="as_any",
                tail="short",
                scale_bits=32,
                offer=Offer(
                    ("bnb_dynamic8",),
                    _SYMMETRIC,
                    ("flat",),
                    (64, 128, 256, 512, 1024, 2048, 4096),
                    usual_size=4096,
                ),
            ),
            # int8_vectorwise_quant of LLM.int8().
            Convention(
                "bitsandbytes_int8",
                ScaleSpec(first="both", inverse_of_zero="inf"),
                order="multiply_round_add",
                value_order="multiply_absmax",
                narrow_range=True,
                zero_width="as_any",
                scale_bits=32,
                offer=Offer(("int8",), _SYMMETRIC, ("per_channel",)),
            ),
            # gguf.quants: Q8_0, TQ1_0 and TQ2_0.
            Convention(
                "gguf",
                ScaleSpec(format="float16", codes_from="exact"),
                order="multiply_round_add",
                ties="away",
                zero_width="as_any",
                offer=Offer(
                    ("int8", "ternary"),
                    _SYMMETRIC,
                    ("per_group",),
                    (32, 256),
                    (("int8", (32,)), ("ternary", (256,))),
                ),
            ),
            # Q4_0 and Q5_0.
            Convention(
                "gguf_signed",
                ScaleSpec("extreme_over_code_min", format="float16", codes_from="exact"),
                order="multiply_round_add",
                ties="adding_half",
                zero_width="as_any",
                offer=Offer(("int4", "int5"), _SYMMETRIC, ("per_group",), (32,)),
            ),
            # Q4_1 and Q5_1.
            Convention(
                "gguf_minimum",
                ScaleSpec(format="float16", codes_from="exact"),
                zero_domain="value",
                zero_point_format="float16",
                order="multiply_round_add",
                ties="adding_half",
                zero_width="as_any",
                zero_bits=16,
                offer=Offer(("uint4", "uint5"), _ASYMMETRIC, ("per_group",), (32,)),
            ),
            # MXFP4.
            Convention(
                "gguf_mx",
                ScaleSpec("power_of_two_floor_log2", format="float8_e8m0fnu"),
                ties="toward_zero",
                zero_width="as_any",
                negative_zero="never",
                scale_bits=8,
                offer=Offer((_FP4,), _SYMMETRIC, ("per_group",), (32,)),
            ),
            # quantize_mx_op of microxcaling. Its integers are fixed-point numbers below 2.
            Convention(
                "microxcaling",
                ScaleSpec(
                    "power_of_two_floor_log2",
                    floor=_NORMAL,
                    floor_rule="absmax_replace_zero",
                    format="float8_e8m0fnu",
                ),
                ties="adding_half_away",
                narrow_range=True,
                zero_width="as_any",
                negative_zero="not_of_zero",
                tail="pad",
                tail_stored="whole",
                scale_bits=8,
                offer=Offer(
                    (*_FP8, *_FP6, _FP4, *_ids("int2", "int4", "int8")),
                    _SYMMETRIC,
                    ("per_tensor", "per_channel", "per_group", "per_block"),
                ),
            ),
            # modelopt's TensorQuantizer: values are got back by dividing.
            Convention(
                "modelopt",
                ScaleSpec(floor=2.0**-24, floor_rule="inverse_one_up_to", first="inverse"),
                order="multiply_round_add",
                value_order="divide_inverse",
                zero_width="as_any",
                tail="short",
                scale_bits=32,
                offer=Offer(
                    _ids("int2-8", "int16"),
                    _SYMMETRIC,
                    ("per_tensor", "per_channel", "per_group", "per_block"),
                ),
            ),
            Convention(
                "modelopt_float8",
                ScaleSpec(floor=2.0**-24, floor_rule="absmax_one_up_to", first="inverse_rounded_twice"),
                order="multiply_round_add",
                zero_width="as_any",
                tail="short",
                scale_bits=32,
                offer=Offer(
                    ("float8_e4m3fn",), _SYMMETRIC, ("per_tensor", "per_channel", "per_group", "per_block")
                ),
            ),
            # INT8QTensor and FP8QTensor.
            Convention(
                "modelopt_packed",
                zero_width="as_any",
                tail="short",
                # INT8QTensor keeps what it was padded with, FP8QTensor does not.
                tail_stored="whole_if_integer",
                scale_bits=32,
                offer=Offer(
                    ("int8", "float8_e4m3fn"),
                    _SYMMETRIC,
                    ("per_tensor", "per_channel", "per_group", "per_block"),
                ),
            ),
            # INT4QTensor.
            Convention(
                "modelopt_int4",
                ScaleSpec(first="inverse_rounded_twice"),
                order="multiply_round_add",
                value_order="divide_inverse",
                zero_width="as_any",
                tail="short",
                scale_bits=32,
                offer=Offer(("int4",), _SYMMETRIC, ("flat",), usual_size=128),
            ),
            # MXFP4QTensor.
            Convention(
                "modelopt_mxfp4",
                ScaleSpec("power_of_two_fitting", format="float8_e8m0fnu"),
                ties="toward_zero",
                zero_width="as_any",
                negative_zero="also_of_zero",
                scale_bits=8,
                offer=Offer((_FP4,), _SYMMETRIC, ("flat",), (32,)),
            ),
            # MXFP8QTensor.
            Convention(
                "modelopt_mxfp8",
                ScaleSpec("power_of_two_fitting", format="float8_e8m0fnu"),
                zero_width="as_any",
                tail="pad",
                scale_bits=8,
                offer=Offer(("float8_e4m3fn",), _SYMMETRIC, ("per_group",), (32,)),
            ),
            # NVFP4QTensor.
            Convention(
                "modelopt_nvfp4",
                ScaleSpec(
                    format="float8_e4m3fn", format_floor=2.0**-9, global_rule="absmax_over_range_joined"
                ),
                zero_width="as_any",
                negative_zero="not_of_zero",
                scale_bits=8,
                offer=Offer((_FP4,), _SYMMETRIC, ("per_group",), (16, 32), usual_size=16),
            ),
        )
    }
)


def find_convention(convention_id: str) -> Convention:
    """Return the convention called `convention_id`; `QuantVizError` lists the known ones."""
    if isinstance(convention_id, str) and convention_id in CONVENTIONS:
        return CONVENTIONS[convention_id]
    raise QuantVizError("unknown_convention", got=convention_id, known=", ".join(CONVENTIONS))
