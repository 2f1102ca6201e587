"""The steps that prepare a block's range for its scale: its ends, and its width or largest magnitude."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from quantviz.quantization.grids import TIES
from quantviz.quantization.operations import (
    NamedTensors,
    Operation,
    Operations,
    cast,
    number_code,
    number_over,
    silent,
)
from quantviz.quantization.stored_scale import round_to_format
from quantviz.schemes.arithmetic import BY_WIDTH, HALVES
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import torch_dtype


def extent_operations(scheme: Scheme) -> Operations:
    convention = scheme.arithmetic
    by_width = scale_by_width(scheme)
    return (
        *(_in_half(convention.scale_math) if convention.scale_math in HALVES else ()),
        *_widened(scheme),
        *(_ZERO_IN_RANGE if _takes_zero_in(scheme) else ()),
        *(_RANGE_OF_ZEROS if convention.zero_width == "minus_one_to_one" else ()),
        *_one_sided(scheme),
        *(_MIRRORED[convention.scale.rule](scheme) if by_width and scheme.mode == "symmetric" else ()),
        *_zero_on_code(scheme),
        *_ends_format(scheme),
        *(_width_operations(scheme) if by_width else absmax_operations(scheme)),
    )


_ZERO_IN_RANGE: Operations = (
    silent("zero_in_range", "lo = min(lo, 0)"),
    silent("zero_in_range", "hi = max(hi, 0)"),
)


def _in_half(dtype: str) -> Operations:
    """Return the operations that round a range, which is float32 between the steps, to half precision."""
    names = ("lo", "hi", "extreme", "tensor_absmax")
    return tuple(cast("range_dtype", name, torch_dtype(dtype)) for name in names)


def _takes_zero_in(scheme: Scheme) -> bool:
    own_ends = scheme.mode == "symmetric" and scheme.arithmetic.scale.rule == "farther_end_negated"
    return scheme.arithmetic.zero_in_range and not own_ends


def scale_by_width(scheme: Scheme) -> bool:
    return scheme.mode == "asymmetric" or scheme.arithmetic.scale.rule in BY_WIDTH


def _widened(scheme: Scheme) -> Operations:
    limit = scheme.arithmetic.scale.widened_up_to
    if not limit or scheme.mode == "symmetric":
        return ()
    margin = silent(
        "margin",
        f"margin = where(hi - lo > {limit!r}, 0, {limit!r})",
        lambda v: torch.where(v["hi"] - v["lo"] > limit, 0.0, limit).to(v["lo"].dtype),
    )
    lower = silent("widened", "lo = lo - margin")
    upper = silent("widened", "hi = hi + margin")
    return margin, lower, upper


def _zero_on_code(scheme: Scheme) -> Operations:
    """Return the operations that move one end of the range out until 0 is whole steps from the lower one."""
    if scheme.mode == "symmetric" or scheme.arithmetic.scale.asymmetric_rule != "zero_on_code":
        return ()
    count = scheme.range_code_max - scheme.range_code_min
    rounded = TIES[scheme.arithmetic.zero_point_ties]
    return (
        Operation("width", "width = hi - lo"),
        number_over("inverse_of_range", "inverse", count, "width"),
        # Two ends at 0 stay as they are.
        Operation(
            "zero_point_below",
            "steps = where(width == 0, 0, round(-lo * inverse))",
            lambda v: torch.where(v["width"] == 0, 0, rounded(-v["lo"] * v["inverse"])),
        ),
        Operation("lower_end_moved", f"low_end = where(steps < {count}, steps / (steps - {count}) * hi, lo)"),
        Operation("upper_end_moved", f"high_end = where(steps > 0, (steps - {count}) / steps * lo, hi)"),
        Operation(
            "end_to_move",
            "moves_lower = hi - low_end > high_end - lo",
            lambda v: (v["hi"] - v["low_end"] > v["high_end"] - v["lo"]).to(v["lo"].dtype),
        ),
        silent("end_moved", "lo = where(moves_lower, low_end, lo)"),
        silent("end_moved", "hi = where(moves_lower, hi, high_end)"),
    )


def _ends_format(scheme: Scheme) -> Operations:
    """Return the operations that round both ends of a range to a float format."""
    name = scheme.arithmetic.scale.ends_format
    if name is None:
        return ()
    fmt = FORMATS[name]
    most = fmt.value_max

    def rounded(end: str) -> Operation:
        line = f"{end} = {name}(clamp({end}, {number_code(-most)}, {number_code(most)}))"
        return Operation("ends_format", line, lambda v: round_to_format(v[end].clamp(-most, most), fmt))

    return rounded("lo"), rounded("hi")


def _one_sided(scheme: Scheme) -> Operations:
    """Return the operation that finds ranges which symmetric mode treats as asymmetric mode does."""
    if scheme.mode == "asymmetric" or scheme.arithmetic.one_sided == "symmetric":
        return ()
    if not scheme.zero_point_follows:
        return ()
    if scheme.arithmetic.one_sided == "asymmetric_if_positive":
        return (silent("one_sided", "one_sided = lo >= 0", lambda v: (v["lo"] >= 0).to(v["lo"].dtype)),)
    line = "one_sided = (lo >= 0) | (hi <= 0)"
    return (silent("one_sided", line, lambda v: ((v["lo"] >= 0) | (v["hi"] <= 0)).to(v["lo"].dtype)),)


def _mirrored_end(scheme: Scheme) -> Operations:
    """Return the operations that make a range of the largest magnitude.

    It has one step more below 0 where the number of codes is even.
    """
    spec = scheme.arithmetic.scale
    levels = scheme.range_code_max - scheme.range_code_min + 1
    part = spec.tensor_floor
    absmax = absmax_operations(scheme)
    if part:
        line = f"absmax = max(absmax, tensor_absmax * {part!r})"
        of_tensor = silent(
            "absmax_of_tensor",
            line,
            lambda v: torch.maximum(v["absmax"], v["tensor_absmax"].to(v["absmax"].dtype) * part),
        )
        absmax = (absmax[0], of_tensor, *absmax[1:])
    stretched = scheme.arithmetic.reduce_range == "stretched"
    made_for = scheme.number_format.levels // 2 if stretched else levels
    more = made_for / (made_for - 2) if levels % 2 == 0 else 1.0
    below = "-absmax" if more == 1 else f"-absmax * {more!r}"
    if _one_sided(scheme):
        below = f"where(one_sided, 0, {below})"
    low = Operation("mirrored_low", f"lo = {below}")
    ends: Operations = (low, Operation("mirrored_high", "hi = absmax"))
    if stretched:
        stretch = (levels - 1) / (made_for - 1)
        ends += tuple(Operation("stretched", f"{name} = {name} * {stretch!r}") for name in ("lo", "hi"))
    return (*absmax, *ends)


def _mirrored_range(scheme: Scheme) -> Operations:
    """Return the operations that widen a range to as many steps below 0 as above, and one more below."""
    above = (scheme.range_code_max - scheme.range_code_min) // 2
    below = -above - 1
    math_dtype = torch_dtype(scheme.arithmetic.scale_math)

    def end(name: str, steps: int) -> Operation:
        # The ends are kept as float32, whatever the precision of the scale.
        def mirrored(v: NamedTensors) -> torch.Tensor:
            return (v["unit"] * steps).to(torch.float32).to(math_dtype)

        if not scheme.zero_point_follows:
            return silent("mirrored", f"{name} = float32(unit * {steps})", mirrored)
        line = f"{name} = where(one_sided, {name}, float32(unit * {steps}))"
        return silent("mirrored", line, lambda v: torch.where(v["one_sided"] != 0, v[name], mirrored(v)))

    line = f"unit = float32(max(abs(lo / {below}), abs(hi / {above})))"
    unit = Operation(
        "mirrored_unit",
        line,
        lambda v: (
            torch.maximum((v["lo"] / below).abs(), (v["hi"] / above).abs()).to(torch.float32).to(math_dtype)
        ),
    )
    # A range too small for a step of its own is a range of zeros now.
    return (unit, end("lo", below), end("hi", above), *_one_sided(scheme))


#: By the rule, the operations from a block's range to one of both signs.
_MIRRORED: Mapping[str, Callable[[Scheme], Operations]] = MappingProxyType(
    {"mirrored_range": _mirrored_range, "mirrored_end": _mirrored_end}
)

_RANGE_OF_ZEROS: Operations = (
    silent("range_of_zeros", "of_zeros = (lo == 0) & (hi == 0)"),
    silent("range_of_zeros", "lo = where(of_zeros, -1, lo)"),
    silent("range_of_zeros", "hi = where(of_zeros, 1, hi)"),
)


def absmax_operations(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    absmax = Operation("absmax", "absmax = max(abs(lo), abs(hi))")
    if spec.floor_rule == "absmax_replace_zero":
        return absmax, silent("absmax_floor", f"absmax = where(absmax == 0, {spec.floor!r}, absmax)")
    if spec.floor_rule == "absmax_one_up_to":
        return absmax, silent("absmax_floor", f"absmax = where(absmax <= {spec.floor!r}, 1, absmax)")
    if spec.floor_rule == "width_at_least":
        return absmax, silent("absmax_floor", f"absmax = max(absmax, {spec.floor!r})")
    return (absmax,)


def _width_operations(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    width: Operations = (
        Operation("width", "width = hi - lo"),
        *_width_rounded(scheme),
    )
    if spec.floor_rule == "width_at_least":
        return *width, silent("width_floor", f"width = max(width, {spec.floor!r})")
    if scheme.arithmetic.zero_width != "include_zero":
        return width
    # A block of equal values has no width of its own: it is widened to 0.
    return (
        *width,
        silent("zero_width", "lo = where(width == 0, min(lo, 0), lo)"),
        silent("zero_width", "hi = where(width == 0, max(hi, 0), hi)"),
        silent("zero_width", "width = hi - lo"),
        *_width_rounded(scheme),
    )


def _width_rounded(scheme: Scheme) -> Operations:
    dtype = scheme.arithmetic.scale.width_dtype
    math_dtype = scheme.arithmetic.scale_math
    if dtype == "scale_math":
        return ()
    return (silent("width_dtype", f"width = {math_dtype}({dtype}(width))"),)
