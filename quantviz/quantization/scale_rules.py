"""The steps from the extent of a block's range to its scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from quantviz.quantization.grids import TIES
from quantviz.quantization.operations import Operation, Operations, number_code, number_over, silent
from quantviz.quantization.powers_of_two import (
    ceil_log2,
    floor_log2,
    power_of_two,
    power_of_two_even,
    power_of_two_fitting,
    power_of_two_floor_log2,
)
from quantviz.quantization.range_ends import scale_by_width
from quantviz.schemes.arithmetic import ScaleSpec
from quantviz.schemes.calibration import FLOAT32_TINY
from quantviz.schemes.scheme import Scheme


def scale_operations(scheme: Scheme) -> Operations:
    by_width = scale_by_width(scheme)
    return (
        *(_asymmetric_scale(scheme) if by_width else _symmetric_scale(scheme)),
        *(() if by_width else _scale_of_one_side(scheme)),
        *((_SCALE_SINGLE,) if scheme.arithmetic.zero_point_scale == "single" else ()),
        *_scale_floor(scheme),
        *_end_on_code(scheme),
    )


_SCALE_SINGLE = silent(
    "scale_single", "scale = float32(scale)", lambda v: v["scale"].to(torch.float32).to(v["scale"].dtype)
)


def _scale_of_one_side(scheme: Scheme) -> Operations:
    """Return the operation that gives a range on one side of 0 the scale of asymmetric mode."""
    if not scheme.zero_point_follows:
        return ()
    low = scheme.range_code_min
    high = scheme.range_code_max
    return (silent("scale_one_sided", f"scale = where(one_sided, (hi - lo) / ({high} - {low}), scale)"),)


def _symmetric_scale(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    return (
        _SCALE_RULES[spec.rule](scheme)
        if spec.first == "scale"
        else _inverse_first(scheme, "absmax", scheme.range_value_max, number_code(scheme.range_value_max))
    )


def _inverse_first(scheme: Scheme, extent: str, count: float, words: str) -> Operations:
    """Return the operations that make the inverse of the scale from the range, and then the scale from it."""
    spec = scheme.arithmetic.scale
    inverse = Operation("inverse_of_range", f"inverse = (1 / {extent}) * {words}")
    if spec.first in ("inverse", "both_divided"):
        inverse = number_over("inverse_of_range", "inverse", count, extent, words)
    one = silent("inverse_floor", f"inverse = where({extent} <= {spec.floor!r}, 1, inverse)")
    nothing = silent("inverse_zero", f"inverse = where({extent} <= {spec.floor!r}, 0, inverse)")
    of_nothing = silent("scale_of_zero_inverse", "scale = where(inverse == 0, 1, scale)")
    limit = silent("inverse_limit", f"inverse = min(inverse, {spec.inverse_max!r})")
    back = Operation("scale_of_inverse", "scale = 1 / inverse")
    if spec.first == "both_divided":
        back = Operation("scale_divided", f"scale = {extent} / {words}")
    if spec.first == "both":
        back = Operation("scale_by_itself", f"scale = {extent} * (1 / {words})")
    return (
        inverse,
        *((one,) if spec.floor_rule == "inverse_one_up_to" else ()),
        *((nothing,) if spec.floor_rule == "codes_zero_up_to" else ()),
        *((limit,) if spec.inverse_max else ()),
        back,
        *((of_nothing,) if spec.floor_rule == "codes_zero_up_to" else ()),
    )


def _value_range(scheme: Scheme) -> str:
    return f"({number_code(scheme.range_value_max)} - {number_code(scheme.range_value_min)})"


def _without_clipping(scheme: Scheme) -> Operations:
    # Counted from the zero point: of a symmetric scheme without signs it is the middle code.
    low = number_code(scheme.signed_min)
    high = number_code(scheme.signed_max)
    return (Operation("scale_without_clipping", f"scale = max(lo / {low}, hi / {high})"),)


def _extreme_over_code_min(scheme: Scheme) -> Operations:
    return (Operation("scale_extreme", f"scale = extreme / {number_code(scheme.signed_min)}"),)


def _larger_end_over_code_min(scheme: Scheme) -> Operations:
    larger = Operation("larger_end", "extreme = where(abs(hi) > abs(lo), hi, lo)")
    return (larger, *_extreme_over_code_min(scheme))


def _farther_end_negated(scheme: Scheme) -> Operations:
    steps = number_code(-scheme.signed_min)
    # A scale is positive where the lower end is as far from 0 as the upper one.
    farther = Operation("farther_end", "extreme = where(abs(lo) >= hi, abs(lo), -hi)")
    return farther, Operation("scale_farther_end", f"scale = extreme / {steps}")


def _mirrored_if_negative(scheme: Scheme) -> Operations:
    low = scheme.range_code_min
    high = scheme.range_code_max
    # The lower end is minus the upper one where there are negative values, else it stays at 0.
    return (Operation("scale_mirrored", f"scale = (absmax - where(lo < 0, -absmax, 0)) / ({high} - {low})"),)


_SCALE_RULES: Mapping[str, Callable[[Scheme], Operations]] = MappingProxyType(
    {
        "absmax_over_code_max": lambda scheme: (
            Operation("scale_symmetric", f"scale = absmax / {number_code(scheme.range_value_max)}"),
        ),
        "absmax_over_half_range": lambda scheme: (
            Operation("scale_half_range", f"scale = absmax / ({_value_range(scheme)} / 2)"),
        ),
        "without_clipping": _without_clipping,
        "extreme_over_code_min": _extreme_over_code_min,
        "larger_end_over_code_min": _larger_end_over_code_min,
        "power_of_two_floor": power_of_two("exponent_floor", "floor(log2(absmax))", floor_log2),
        "power_of_two_floor_log2": power_of_two_floor_log2,
        "power_of_two_ceil": power_of_two("exponent_ceil", "ceil(log2(absmax))", ceil_log2),
        "power_of_two_even": power_of_two_even,
        "power_of_two_even_2_bits": lambda scheme: power_of_two_even(scheme, 1),
        "power_of_two_fitting": power_of_two_fitting,
        "mirrored_if_negative": _mirrored_if_negative,
        # The range is made symmetric first, and its width can overflow.
        "double_absmax_over_range": lambda scheme: (
            Operation("scale_double_absmax", f"scale = (absmax + absmax) / {_value_range(scheme)}"),
        ),
        "farther_end_negated": _farther_end_negated,
    }
)


def _asymmetric_scale(scheme: Scheme) -> Operations:
    low = scheme.range_code_min
    high = scheme.range_code_max
    if scheme.arithmetic.scale.first == "scale":
        return (Operation("scale_asymmetric", f"scale = width / ({high} - {low})"),)
    return _inverse_first(scheme, "width", high - low, f"({high} - {low})")


def _end_on_code(scheme: Scheme) -> Operations:
    """Return the operations that move the scale so that the end farther from 0 is whole steps from it."""
    if scheme.mode == "symmetric" or scheme.arithmetic.scale.asymmetric_rule != "end_on_code":
        return ()
    rounded = TIES[scheme.arithmetic.zero_point_ties]
    return (
        Operation("end_sign", "scale = where(abs(lo) > abs(hi), scale, -scale)"),
        Operation("end_farther", "edge = where(abs(lo) > abs(hi), lo, hi)"),
        Operation(
            "zero_point_steps", "steps = round(edge / scale)", lambda v: rounded(v["edge"] / v["scale"])
        ),
        Operation("end_on_code", "scale = where(steps == 0, scale, edge / steps)"),
    )


def _scale_floor(scheme: Scheme) -> Operations:
    convention = scheme.arithmetic
    spec = convention.scale
    operations = [*_scale_without_inverse(spec)]
    extent = "width" if scale_by_width(scheme) else "absmax"
    # An underflow must not divide by 0: conventions that give a block of zeros a scale of 1 have at least the
    # smallest float32 as their floor.
    floor = max(spec.floor, FLOAT32_TINY) if convention.zero_width == "include_zero" else spec.floor
    if spec.floor_rule == "at_least" and floor:
        operations.append(silent("scale_floor", f"scale = max(scale, {floor!r})"))
    elif spec.floor_rule == "magnitude_below" and floor:
        operations.append(silent("scale_floor", f"scale = where(abs(scale) < {floor!r}, {floor!r}, scale)"))
    elif spec.floor_rule == "range_stretched":
        operations += _stretch(spec.floor)
    elif spec.floor_rule == "one_below":
        if zero_point_is_dropped(scheme):
            operations.append(
                silent(
                    "too_small",
                    f"too_small = scale < {floor!r}",
                    lambda v: (v["scale"] < floor).to(v["scale"].dtype),
                )
            )
        line = f"scale = where(scale < {floor!r}, 1, scale)"
        operations.append(silent("scale_one_below", line))
    if convention.zero_width in ("include_zero", "one"):
        line = f"scale = where({extent} == 0, 1, scale)"
        operations.append(silent("scale_of_zeros", line))
    return tuple(operations)


def _scale_without_inverse(spec: ScaleSpec) -> Operations:
    if not spec.without_inverse:
        return ()
    line = f"scale = where(isinf(1 / float32(scale)), {spec.without_inverse!r}, scale)"
    return (silent("scale_without_inverse", line),)


def _stretch(floor: float) -> Operations:
    """Return the operations that keep the scale above `floor`, and stretch the range with it."""

    def stretched(name: str) -> Operation:
        return silent(
            "range_stretched",
            f"{name} = float32({name} * stretch)",
            lambda v: (v[name] * v["stretch"]).to(torch.float32).to(v[name].dtype),
        )

    # A number over a tensor would be a product with the reciprocal, rounded twice.
    ratio = silent(
        "stretch", f"stretch = {floor!r} / scale", lambda v: torch.full_like(v["scale"], floor) / v["scale"]
    )
    factor = silent(
        "stretch",
        f"stretch = where(scale < {floor!r}, float32(stretch), 1)",
        lambda v: torch.where(v["scale"] < floor, v["stretch"].to(torch.float32).to(v["stretch"].dtype), 1.0),
    )
    line = f"scale = max(scale, {floor!r})"
    floored = silent("scale_floor", line)
    return ratio, factor, stretched("lo"), stretched("hi"), floored


def zero_point_is_dropped(scheme: Scheme) -> bool:
    """Return whether a block whose scale is too small loses its zero point."""
    rule = scheme.arithmetic.zero_width
    return rule == "one_and_zero" or (rule == "one_and_zero_if_asymmetric" and scheme.mode == "asymmetric")
