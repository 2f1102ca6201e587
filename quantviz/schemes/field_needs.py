"""The rules between two fields of a convention."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, get_args

from quantviz.schemes.arithmetic import Arithmetic
from quantviz.schemes.choices import FirstOfScale, GlobalRule, Order, SearchMethod
from quantviz.schemes.scale_search import SEARCHES


class Need(NamedTuple):
    """Values of `field` that need one of the `allowed` values, in their text form, of the field `other`."""

    field: str
    #: The values; empty for all that are not 0, false or none.
    values: tuple[object, ...]
    other: str
    allowed: tuple[str, ...]
    #: Whether a convention with such a value needs nothing.
    is_free: Callable[[Arithmetic], bool] = lambda convention: False


_ON_LATTICE = ("even", "away", "up", "down", "toward_zero", "adding_half_away", "truncate")
#: Scale formats of a block under which the whole tensor can have a scale.
_IN_TWO_LEVELS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu")
#: The first of scale and inverse, where that is not the scale.
_INVERSE_FIRST = tuple(first for first in get_args(FirstOfScale) if first != "scale")


def orders(convention: Arithmetic) -> tuple[Order, Order]:
    """Return the orders of operations: of a single block, and of many."""
    order = convention.order
    return order, order if convention.block_order == "same" else convention.block_order


def _searches(method: SearchMethod) -> tuple[str, ...]:
    return tuple(
        name
        for name, of_formats in SEARCHES.items()
        if method in {each.method for each in of_formats.values()}
    )


NEEDS = (
    Need("value_order", ("divide_inverse",), "scale.first", _INVERSE_FIRST),
    Need("scale.floor_rule", ("codes_zero_up_to",), "scale.first", _INVERSE_FIRST),
    Need("value_order", ("multiply_absmax",), "scale.first", ("both",)),
    Need("scale.global_rule", (), "scale.format", _IN_TWO_LEVELS),
    Need(
        "tail_divides",
        (),
        "order",
        ("multiply_add_round", "multiply_round_add"),
        lambda convention: not any(order.startswith("divide") for order in orders(convention)),
    ),
    Need("zero_width", ("one_and_zero", "one_and_zero_if_asymmetric"), "scale.floor_rule", ("one_below",)),
    Need("scale.asymmetric_rule", ("end_on_code",), "zero_domain", ("value",)),
    Need("scale.asymmetric_rule", ("end_on_code",), "scale.first", ("scale",)),
    Need("scale.asymmetric_rule", ("zero_on_code",), "zero_in_range", ("true",)),
    Need("scale.tensor_floor", (), "scale.rule", ("mirrored_end",)),
    Need("reduce_range", ("stretched",), "scale.rule", ("mirrored_end",)),
    # Only a range that is made for it has a lower end in symmetric mode.
    Need("unsigned_zero", ("lower_end",), "scale.rule", ("mirrored_end",)),
    Need("order", ("levels_divide_add_round",), "search", _searches("integer_levels")),
    Need("order", ("divide_level_multiply_round",), "scale.global_rule", ("absmax_and_inverse",)),
    Need("search", _searches("integer_levels"), "zero_domain", ("code_int", "value")),
    Need("value_order", ("fused_multiply_add",), "value_dtype", ("float32",)),
    Need("lattice", (), "ties", _ON_LATTICE),
    # A code that is clamped is a whole number; HQQ's is not, and is kept as a 16-bit float.
    Need(
        "zero_point_format",
        (),
        "zero_domain",
        ("code_float", "value", "value_middle"),
        lambda convention: not convention.zero_point_clamp,
    ),
    Need("search", ("k_quants",), "zero_domain", ("value",)),
    Need("search", _searches("codebook"), "scale.codes_from", ("exact",)),
    Need("search", _searches("block_maximum"), "scale.global_rule", ("reach_over_absmax",)),
    Need("value_order", ("multiply_levels",), "scale.global_rule", ("reach_over_absmax",)),
    Need("scale.code_max", (), "scale.global_rule", get_args(GlobalRule)),
)
