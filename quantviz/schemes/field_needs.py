"""The rules between two fields of a convention: a value of one that needs some values of the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, get_args

from quantviz.schemes.arithmetic import Arithmetic
from quantviz.schemes.choices import FirstOfScale, GlobalRule
from quantviz.schemes.scale_search import SEARCHES


class Need(NamedTuple):
    """A value of `field` that needs one of the `allowed` values of the field `other`."""

    field: str
    #: Whether a convention has the value without what it needs.
    lacks: Callable[[Arithmetic], bool]
    other: str
    allowed: tuple[str, ...]


#: Rounding rules of which each moves a value to a point of a lattice.
_ON_LATTICE = ("even", "away", "up", "down", "toward_zero", "adding_half_away", "truncate")
#: Formats of a block's scale that can have a scale of the whole tensor.
_IN_TWO_LEVELS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu")
#: The first of scale and inverse to be made, where that is not the scale.
_INVERSE_FIRST = tuple(first for first in get_args(FirstOfScale) if first != "scale")


def _orders(convention: Arithmetic) -> tuple[str, str]:
    """Return the orders of operations: of a single block, and of many."""
    order = convention.order
    return order, order if convention.block_order == "same" else convention.block_order


def _searches_by(convention: Arithmetic, method: str) -> bool:
    """Return whether the engine's search has a method, for one of its formats."""
    return any(search.method == method for search in SEARCHES.get(convention.search or "", {}).values())


NEEDS = (
    Need(
        "value_order",
        lambda c: c.value_order == "divide_inverse" and c.scale.first == "scale",
        "scale.first",
        _INVERSE_FIRST,
    ),
    Need(
        "scale.floor_rule",
        lambda c: c.scale.floor_rule == "codes_zero_up_to" and c.scale.first == "scale",
        "scale.first",
        _INVERSE_FIRST,
    ),
    Need(
        "value_order",
        lambda c: c.value_order == "multiply_absmax" and c.scale.first != "both",
        "scale.first",
        ("both",),
    ),
    Need(
        "scale.global_rule",
        lambda c: c.scale.global_rule is not None and c.scale.format not in _IN_TWO_LEVELS,
        "scale.format",
        _IN_TWO_LEVELS,
    ),
    Need(
        "tail_divides",
        lambda c: c.tail_divides and any(order.startswith("divide") for order in _orders(c)),
        "order",
        ("multiply_add_round", "multiply_round_add"),
    ),
    Need(
        "zero_width",
        lambda c: c.zero_width.startswith("one_and_zero") and c.scale.floor_rule != "one_below",
        "scale.floor_rule",
        ("one_below",),
    ),
    Need(
        "scale.asymmetric_rule",
        lambda c: c.scale.asymmetric_rule == "end_on_code" and c.zero_domain != "value",
        "zero_domain",
        ("value",),
    ),
    Need(
        "scale.asymmetric_rule",
        lambda c: c.scale.asymmetric_rule == "end_on_code" and c.scale.first != "scale",
        "scale.first",
        ("scale",),
    ),
    Need(
        "scale.asymmetric_rule",
        lambda c: c.scale.asymmetric_rule == "zero_on_code" and not c.zero_in_range,
        "zero_in_range",
        ("true",),
    ),
    Need(
        "scale.tensor_floor",
        lambda c: c.scale.tensor_floor > 0 and c.scale.rule != "mirrored_end",
        "scale.rule",
        ("mirrored_end",),
    ),
    Need(
        "reduce_range",
        lambda c: c.reduce_range == "stretched" and c.scale.rule != "mirrored_end",
        "scale.rule",
        ("mirrored_end",),
    ),
    Need(
        "unsigned_zero",
        # Only a range that is made for it has a lower end in symmetric mode.
        lambda c: c.unsigned_zero == "lower_end" and c.scale.rule != "mirrored_end",
        "scale.rule",
        ("mirrored_end",),
    ),
    Need(
        "order",
        lambda c: "levels_divide_add_round" in _orders(c) and not _searches_by(c, "integer_levels"),
        "search",
        ("qserve",),
    ),
    Need(
        "order",
        lambda c: "divide_level_multiply_round" in _orders(c) and c.scale.global_rule != "absmax_and_inverse",
        "scale.global_rule",
        ("absmax_and_inverse",),
    ),
    Need(
        "search",
        lambda c: _searches_by(c, "integer_levels") and c.zero_domain not in ("code_int", "value"),
        "zero_domain",
        ("code_int", "value"),
    ),
    Need(
        "value_order",
        lambda c: c.value_order == "fused_multiply_add" and c.value_dtype != "float32",
        "value_dtype",
        ("float32",),
    ),
    Need("lattice", lambda c: c.lattice > 0 and c.ties not in _ON_LATTICE, "ties", _ON_LATTICE),
    Need(
        "zero_point_format",
        # A code that is clamped is a whole number; HQQ's is not, and is kept as a 16-bit float.
        lambda c: c.zero_point_format is not None and c.zero_domain == "code_int" and c.zero_point_clamp,
        "zero_domain",
        ("code_float", "value", "value_middle"),
    ),
    Need(
        "search",
        lambda c: c.search == "k_quants" and c.zero_domain != "value",
        "zero_domain",
        ("value",),
    ),
    Need(
        "search",
        lambda c: _searches_by(c, "codebook") and c.scale.codes_from != "exact",
        "scale.codes_from",
        ("exact",),
    ),
    Need(
        "search",
        lambda c: _searches_by(c, "block_maximum") and c.scale.global_rule != "reach_over_absmax",
        "scale.global_rule",
        ("reach_over_absmax",),
    ),
    Need(
        "value_order",
        lambda c: c.value_order == "multiply_levels" and c.scale.global_rule != "reach_over_absmax",
        "scale.global_rule",
        ("reach_over_absmax",),
    ),
    Need(
        "scale.code_max",
        lambda c: c.scale.code_max > 0 and c.scale.global_rule is None,
        "scale.global_rule",
        get_args(GlobalRule),
    ),
)
