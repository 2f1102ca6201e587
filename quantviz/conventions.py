"""Conventions: one engine's arithmetic as data.

`quantizer.py` runs steps shared by all engines; each field here selects or sets one of them, and
no code asks which engine it is. A convention is added here: one entry in `CONVENTIONS` and its
words in each language.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from quantviz import textform
from quantviz.errors import QuantVizError


@dataclass(frozen=True)
class ScaleSpec:
    """How a block's range becomes its scale."""

    #: Element format the scale itself is rounded to; none when it stays a float of `scale_dtype`.
    format: str | None = None
    #: Symmetric rule. "absmax_over_code_max": largest magnitude / largest code.
    rule: str = "absmax_over_code_max"
    #: The smallest scale allowed.
    floor: float = 0.0
    #: Rule for a second scale over all blocks; none when there is only one level.
    global_rule: str | None = None


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
    #: Dtype of x / scale and of scale · (q - zero_point).
    apply_dtype: str = "float32"
    #: Whether the range is widened until it holds 0.
    zero_in_range: bool = False
    #: Whether the zero point is clamped to the codes there are.
    zero_point_clamp: bool = True
    #: Order of the steps from x to the rounded code. "divide_add_round": round(x / s + z).
    order: str = "divide_add_round"
    #: Where exactly between two codes: "even", the even one.
    ties: str = "even"
    #: Whether the smallest signed code is left out, [-127, 127].
    narrow_range: bool = False
    #: What a block does whose range has no width. "include_zero": it is widened to 0, and an all-zero block gets scale 1.
    zero_width: str = "include_zero"
    #: What happens to codes outside the format: "saturate".
    overflow: str = "saturate"
    #: What happens where a block does not fill up: "refuse".
    tail: str = "refuse"
    #: Bits in which one scale is stored, for the size of the result.
    scale_bits: int = 16

    def replace(self, **changes: object) -> Convention:
        """The same arithmetic but for `changes`; `QuantVizError` names the allowed values.

        A field of `scale` is changed as `**{"scale.floor": 1e-08}`.
        """
        nested = {name.removeprefix("scale."): changes.pop(name) for name in tuple(changes) if name.startswith("scale.")}
        known = {f.name for f in dataclasses.fields(self)} - {"id"}
        for name in changes:
            if name not in known:
                raise QuantVizError("convention_unknown_field", field=name, known=", ".join(sorted(known)))
        spec_known = {f.name for f in dataclasses.fields(ScaleSpec)}
        for name in nested:
            if name not in spec_known:
                raise QuantVizError("convention_unknown_field", field=f"scale.{name}", known=", ".join(f"scale.{n}" for n in sorted(spec_known)))
        new = dataclasses.replace(self, **changes)  # type: ignore[arg-type]
        if nested:
            new = dataclasses.replace(new, scale=dataclasses.replace(new.scale, **nested))  # type: ignore[arg-type]
        for problem in new.problems():
            raise problem
        return new

    def problems(self) -> Iterator[QuantVizError]:
        """The fields whose value is not one of those the shared steps know."""
        for name, allowed in CHOICES.items():
            value = getattr(self.scale, name.removeprefix("scale.")) if name.startswith("scale.") else getattr(self, name)
            if value not in allowed or type(value) is not type(allowed[0]):
                yield QuantVizError("convention_bad_value", field=name, got=value, allowed=", ".join(map(str, allowed)))
        if not isinstance(self.scale.floor, float) or not 0 <= self.scale.floor < float("inf"):
            yield QuantVizError("convention_bad_value", field="scale.floor", got=self.scale.floor, allowed="≥ 0")
        if not isinstance(self.scale_bits, int) or self.scale_bits < 1:
            yield QuantVizError("convention_bad_value", field="scale_bits", got=self.scale_bits, allowed="≥ 1")

    def __str__(self) -> str:
        base = find_convention(self.id)
        own = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in ("id", "scale") and getattr(self, f.name) != getattr(base, f.name)
        }
        nested = {
            f"scale.{f.name}": getattr(self.scale, f.name) for f in dataclasses.fields(self.scale) if getattr(self.scale, f.name) != getattr(base.scale, f.name)
        }
        parts = ",".join(f"{name}={textform.write_value(value)}" for name, value in {**own, **nested}.items())
        return f"{self.id}({parts})" if parts else self.id

    @classmethod
    def parse(cls, form: str) -> Convention:
        """The convention written as `form`.

        >>> Convention.parse("course(scale.floor=1e-08)").scale.floor
        1e-08
        """
        name, raw = textform.read_head(form)
        own = {key: value for key, value in raw.items() if not key.startswith("scale.")}
        nested = {key.removeprefix("scale."): value for key, value in raw.items() if key.startswith("scale.")}
        changes = textform.read_fields(cls, own, form) | {f"scale.{k}": v for k, v in textform.read_fields(ScaleSpec, nested, form).items()}
        return find_convention(name).replace(**changes)


#: The values a field can take, where they are names of shared steps.
CHOICES: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        "scale.format": (None,),
        "scale.rule": ("absmax_over_code_max",),
        "scale.global_rule": (None,),
        "scale_math": ("float32", "float64"),
        "scale_dtype": ("float32", "float64"),
        "block_scale_dtype": ("float32", "float64"),
        "apply_dtype": ("float32",),
        "zero_in_range": (False, True),
        "zero_point_clamp": (False, True),
        "order": ("divide_add_round",),
        "ties": ("even",),
        "narrow_range": (False, True),
        "zero_width": ("include_zero",),
        "overflow": ("saturate",),
        "tail": ("refuse",),
    }
)

#: Every engine's arithmetic by id.
CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        # The source notebooks 000 and 003: Python floats for one scale, a float32 tensor for several.
        "course": Convention("course", scale_math="float64", scale_dtype="float64"),
    }
)


def find_convention(convention_id: str) -> Convention:
    """The convention called `convention_id`; `QuantVizError` lists the known ones."""
    if isinstance(convention_id, str) and convention_id in CONVENTIONS:
        return CONVENTIONS[convention_id]
    raise QuantVizError("unknown_convention", got=convention_id, known=", ".join(CONVENTIONS))
