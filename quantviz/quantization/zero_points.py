"""The steps from a block's range and scale to its zero point."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from quantviz.quantization.grids import TIES
from quantviz.quantization.operations import NamedTensors, Operation, Operations, silent
from quantviz.quantization.scale_rules import zero_point_is_dropped
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.conventions import Convention
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import dtype_name, torch_dtype


def zero_point_operations(scheme: Scheme) -> Operations:
    return (*_zero_point(scheme), *_after_zero_point(scheme), *_value_limit(scheme))


def _value_limit(scheme: Scheme) -> Operations:
    limit = scheme.arithmetic.scale.value_limit
    low = scheme.code_min
    high = scheme.code_max
    if not limit or scheme.number_format.kind != "integer" or scheme.zero_domain.startswith("value"):
        return ()
    line = f"scale = min(scale, {limit!r} / max(zero_point - {low}, {high} - zero_point))"

    def limited(v: NamedTensors) -> torch.Tensor:
        steps = torch.maximum(v["zero_point"] - low, high - v["zero_point"])
        most = torch.full_like(v["scale"], limit) / steps
        return torch.where(v["scale"] > most, most, v["scale"])

    return (silent("value_limit", line, limited),)


def _after_zero_point(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    if zero_point_is_dropped(scheme):
        return (silent("zero_point_of_zeros", "zero_point = where(too_small, 0, zero_point)"),)
    if spec.floor_rule != "replace_zero":
        return ()
    return (silent("scale_floor", f"scale = where(scale == 0, {spec.floor!r}, scale)"),)


def _zero_point(scheme: Scheme) -> Operations:
    convention = scheme.arithmetic
    domain = scheme.zero_domain
    low = scheme.range_code_min
    high = scheme.range_code_max
    middle = scheme.symmetric_zero_point
    if not scheme.zero_point_follows:
        return (
            Operation(
                "zero_point_symmetric",
                f"zero_point = {middle}",
                lambda v: torch.full_like(v["scale"], middle),
            ),
        )
    if scheme.mode == "asymmetric" and convention.scale.asymmetric_rule == "end_on_code":
        return (Operation("zero_point_end", "zero_point = where(steps == 0, 0, edge)"),)
    if domain == "value":
        return (Operation("zero_point_value", "zero_point = lo"),)
    if domain == "value_middle":
        half = (high + low + 1) / 2
        return (Operation("zero_point_middle", f"zero_point = lo + scale * {half!r}"),)
    # 0 / 0, of a block whose scale is 0: a cast to integer makes 0 of it.
    whole = silent("nan_to_zero", "zero_point = where(isnan(zero_point), 0, zero_point)")
    two_sided = Operation("zero_point_two_sided", f"zero_point = where(one_sided, zero_point, {middle})")
    return (
        *_zero_point_code(convention, domain, low, high),
        *_zero_point_clamp(convention, low, high),
        *((whole,) if domain == "code_int" else ()),
        *((two_sided,) if scheme.mode == "symmetric" else ()),
        *_zero_point_of_zero_scale(convention, low, high),
    )


def _zero_point_code(convention: Convention, domain: str, low: int, high: int) -> Operations:
    math_dtype = (
        None if convention.zero_point_math == "scale_math" else torch_dtype(convention.zero_point_math)
    )
    rounded = TIES[convention.zero_point_ties]

    # Show the cast of half precision in the line: without it the line would mean another number.
    shown = (
        "{}"
        if math_dtype is None or convention.scale_math not in HALVES
        else f"{dtype_name(math_dtype)}({{}})"
    )
    quotient = f"{shown.format('lo')} / {shown.format('scale')}"

    def wide(v: NamedTensors, name: str) -> torch.Tensor:
        return v[name] if math_dtype is None else v[name].to(math_dtype)

    ends: Operations = ()
    if convention.scale.first not in ("scale", "both_divided"):
        shift = Operation("zero_point_inverse", "zero_point = -lo * inverse")
    elif convention.zero_point_rule == "nearer_end":
        ends, shift = _from_nearer_end(wide, low, high)
    elif convention.zero_point_rule == "low_minus_rounded":
        line = f"zero_point = {low} - round({quotient})"
        return (Operation("zero_point", line, lambda v: low - rounded(wide(v, "lo") / wide(v, "scale"))),)
    elif convention.zero_point_rule == "ends_weighted":
        shift = Operation(
            "zero_point_ends",
            f"zero_point = ({low} * hi - {high} * lo) / width",
            lambda v: (low * wide(v, "hi") - high * wide(v, "lo")) / wide(v, "width"),
        )
    elif domain == "code_float":
        shift = Operation(
            "zero_point_float",
            f"zero_point = {low} - {quotient}",
            lambda v: low - wide(v, "lo") / wide(v, "scale"),
        )
    else:
        return (
            Operation(
                "zero_point",
                f"zero_point = round({low} - {quotient})",
                lambda v: rounded(low - wide(v, "lo") / wide(v, "scale")),
            ),
        )
    if domain == "code_float":
        return (*ends, shift)
    whole = Operation(
        "zero_point_round", "zero_point = round(zero_point)", lambda v: rounded(v["zero_point"])
    )
    return (*ends, shift, whole)


def _from_nearer_end(
    wide: Callable[[NamedTensors, str], torch.Tensor], low: int, high: int
) -> tuple[Operations, Operation]:
    """Return the operations that count both ends of the range in steps, and the one that makes the zero point
    of the end whose numbers are smaller: the error of a sum grows with its terms.
    """

    def steps(name: str, v: NamedTensors) -> torch.Tensor:
        return wide(v, name) / wide(v, "scale")

    ends = tuple(
        Operation("steps_to_end", f"steps_{name} = {name} / scale", partial(steps, name))
        for name in ("lo", "hi")
    )
    line = (
        f"zero_point = where({abs(low)} + abs(steps_lo) < {abs(high)} + abs(steps_hi), "
        f"{low} - steps_lo, {high} - steps_hi)"
    )
    return ends, Operation(
        "zero_point_nearer_end",
        line,
        lambda v: torch.where(
            abs(low) + v["steps_lo"].abs() < abs(high) + v["steps_hi"].abs(),
            low - v["steps_lo"],
            high - v["steps_hi"],
        ),
    )


def _zero_point_of_zero_scale(convention: Convention, low: int, high: int) -> Operations:
    rule = convention.zero_point_of_zero_scale
    if rule == "as_any":
        return ()
    code = low if rule == "smallest" else high
    return (silent("zero_point_of_zero_scale", f"zero_point = where(scale == 0, {code}, zero_point)"),)


def _zero_point_clamp(convention: Convention, low: int, high: int) -> Operations:
    if not convention.zero_point_clamp:
        return ()
    return (silent("zero_point_clamp", f"zero_point = clamp(zero_point, {low}, {high})"),)
