"""The steps from a block's range to its scale and zero point."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import torch
from torch.overrides import handle_torch_function, has_torch_function

from quantviz.quantization.code_to_value import block_names
from quantviz.quantization.grids import TIES
from quantviz.quantization.operations import SCHEMES_KEPT, NamedTensors, Operation, Operations, number_code
from quantviz.quantization.stored_scale import round_to_format, store_operations
from quantviz.schemes.arithmetic import BY_WIDTH, HALVES, ScaleSpec
from quantviz.schemes.calibration import FLOAT32_TINY
from quantviz.schemes.conventions import Convention
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import dtype_name, torch_dtype


@functools.lru_cache(maxsize=SCHEMES_KEPT)
def range_operations(scheme: Scheme) -> Operations:
    """Return the operations from `lo`, `hi` and `extreme` of each block to `scale` and `zero_point`, before
    they are stored.
    """
    convention = scheme.arithmetic
    by_width = _scale_by_width(scheme)
    operations = (
        *(_in_half(convention.scale_math) if convention.scale_math in HALVES else ()),
        *_widened(scheme),
        *(_ZERO_IN_RANGE if _takes_zero_in(scheme) else ()),
        *(_RANGE_OF_ZEROS if convention.zero_width == "minus_one_to_one" else ()),
        *_one_sided(scheme),
        *(_MIRRORED[convention.scale.rule](scheme) if by_width and scheme.mode == "symmetric" else ()),
        *_zero_on_code(scheme),
        *_ends_format(scheme),
        *(_width_operations(scheme) if by_width else _absmax_operations(scheme)),
        *(_asymmetric_scale(scheme) if by_width else _symmetric_scale(scheme)),
        *(() if by_width else _scale_of_one_side(scheme)),
        *((_SCALE_SINGLE,) if convention.zero_point_scale == "single" else ()),
        *_scale_floor(scheme),
        *_end_on_code(scheme),
        *_zero_point(scheme),
        *_after_zero_point(scheme),
        *_value_limit(scheme),
    )
    stored = (operation.reads for operation in store_operations(scheme))
    return _leading_to({"scale", "zero_point"}.union(block_names(scheme), *stored), operations)


def _leading_to(wanted: set[str], operations: Operations) -> Operations:
    """Return only the operations that lead to the `wanted` values, so that an explanation shows no unused
    line.
    """
    kept: list[Operation] = []
    for operation in reversed(operations):
        if operation.name in wanted:
            wanted = (wanted - {operation.name}) | operation.reads
            kept.append(operation)
    return tuple(reversed(kept))


_ZERO_IN_RANGE: Operations = (
    Operation("zero_in_range", "lo = min(lo, 0)", lambda v: v["lo"].clamp(max=0), silent=True),
    Operation("zero_in_range", "hi = max(hi, 0)", lambda v: v["hi"].clamp(min=0), silent=True),
)


def _in_half(dtype: str) -> Operations:
    """Return the operations that round a range, which is float32 between the steps, to half precision."""

    def cast(name: str) -> Operation:
        return Operation(
            "range_dtype", f"{name} = {dtype}({name})", lambda v: v[name].to(torch_dtype(dtype)), silent=True
        )

    return tuple(map(cast, ("lo", "hi", "extreme", "tensor_absmax")))


_HALF_DTYPES = tuple(torch_dtype(dtype) for dtype in HALVES)

_SCALE_SINGLE = Operation(
    "scale_single",
    "scale = float32(scale)",
    lambda v: v["scale"].to(torch.float32).to(v["scale"].dtype),
    silent=True,
)


def _takes_zero_in(scheme: Scheme) -> bool:
    """Return whether the range is widened to 0 before the scale is made of it."""
    own_ends = scheme.mode == "symmetric" and scheme.arithmetic.scale.rule == "farther_end_negated"
    return scheme.arithmetic.zero_in_range and not own_ends


def _scale_by_width(scheme: Scheme) -> bool:
    """Return whether the scale is the width of the range over the number of steps."""
    return scheme.mode == "asymmetric" or scheme.arithmetic.scale.rule in BY_WIDTH


def _widened(scheme: Scheme) -> Operations:
    """Return the operations that widen a narrow range at both ends."""
    limit = scheme.arithmetic.scale.widened_up_to
    if not limit or scheme.mode == "symmetric":
        return ()
    margin = Operation(
        "margin",
        f"margin = where(hi - lo > {limit!r}, 0, {limit!r})",
        lambda v: torch.where(v["hi"] - v["lo"] > limit, 0.0, limit).to(v["lo"].dtype),
        silent=True,
    )
    lower = Operation("widened", "lo = lo - margin", lambda v: v["lo"] - v["margin"], silent=True)
    upper = Operation("widened", "hi = hi + margin", lambda v: v["hi"] + v["margin"], silent=True)
    return margin, lower, upper


def _zero_on_code(scheme: Scheme) -> Operations:
    """Return the operations that move one end of the range out until 0 is whole steps from the lower one."""
    if scheme.mode == "symmetric" or scheme.arithmetic.scale.asymmetric_rule != "zero_on_code":
        return ()
    count = scheme.range_code_max - scheme.range_code_min
    rounded = TIES[scheme.arithmetic.zero_point_ties]

    def lower(v: NamedTensors) -> torch.Tensor:
        return torch.where(v["steps"] < count, v["steps"] / (v["steps"] - count) * v["hi"], v["lo"])

    def upper(v: NamedTensors) -> torch.Tensor:
        return torch.where(v["steps"] > 0, (v["steps"] - count) / v["steps"] * v["lo"], v["hi"])

    return (
        Operation("width", "width = hi - lo", lambda v: v["hi"] - v["lo"]),
        Operation(
            "inverse_of_range",
            f"inverse = {count} / width",
            lambda v: torch.full_like(v["width"], count) / v["width"],
        ),
        # Two ends at 0 stay as they are.
        Operation(
            "zero_point_below",
            "steps = where(width == 0, 0, round(-lo * inverse))",
            lambda v: torch.where(v["width"] == 0, 0, rounded(-v["lo"] * v["inverse"])),
        ),
        Operation(
            "lower_end_moved", f"low_end = where(steps < {count}, steps / (steps - {count}) * hi, lo)", lower
        ),
        Operation(
            "upper_end_moved", f"high_end = where(steps > 0, (steps - {count}) / steps * lo, hi)", upper
        ),
        Operation(
            "end_to_move",
            "moves_lower = hi - low_end > high_end - lo",
            lambda v: (v["hi"] - v["low_end"] > v["high_end"] - v["lo"]).to(v["lo"].dtype),
        ),
        Operation(
            "end_moved",
            "lo = where(moves_lower, low_end, lo)",
            lambda v: torch.where(v["moves_lower"] != 0, v["low_end"], v["lo"]),
            silent=True,
        ),
        Operation(
            "end_moved",
            "hi = where(moves_lower, hi, high_end)",
            lambda v: torch.where(v["moves_lower"] != 0, v["hi"], v["high_end"]),
            silent=True,
        ),
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
        return (
            Operation("one_sided", "one_sided = lo >= 0", lambda v: (v["lo"] >= 0).to(v["lo"].dtype), True),
        )
    line = "one_sided = (lo >= 0) | (hi <= 0)"
    return (
        Operation("one_sided", line, lambda v: ((v["lo"] >= 0) | (v["hi"] <= 0)).to(v["lo"].dtype), True),
    )


def _mirrored_end(scheme: Scheme) -> Operations:
    """Return the operations that make a range of the largest magnitude, with one step more below 0 where the
    number of codes is even.
    """
    spec = scheme.arithmetic.scale
    one_sided = _one_sided(scheme)
    levels = scheme.range_code_max - scheme.range_code_min + 1
    part = spec.tensor_floor
    absmax = _absmax_operations(scheme)
    if part:
        line = f"absmax = max(absmax, tensor_absmax * {part!r})"
        of_tensor = Operation(
            "absmax_of_tensor",
            line,
            lambda v: torch.maximum(v["absmax"], v["tensor_absmax"].to(v["absmax"].dtype) * part),
            silent=True,
        )
        absmax = (absmax[0], of_tensor, *absmax[1:])
    stretched = scheme.arithmetic.reduce_range == "stretched"
    made_for = scheme.number_format.levels // 2 if stretched else levels
    more = made_for / (made_for - 2) if levels % 2 == 0 else 1.0
    below = "-absmax" if more == 1 else f"-absmax * {more!r}"

    def low_end(v: NamedTensors) -> torch.Tensor:
        return -v["absmax"] if more == 1 else -v["absmax"] * more

    low = Operation("mirrored_low", f"lo = {below}", low_end)
    if one_sided:
        low = Operation(
            "mirrored_low",
            f"lo = where(one_sided, 0, {below})",
            lambda v: torch.where(v["one_sided"] != 0, 0, low_end(v)),
        )
    ends: Operations = (low, Operation("mirrored_high", "hi = absmax", lambda v: v["absmax"]))
    if stretched:
        ends += tuple(_stretched(name, (levels - 1) / (made_for - 1)) for name in ("lo", "hi"))
    return (*absmax, *ends)


def _stretched(name: str, part: float) -> Operation:
    return Operation("stretched", f"{name} = {name} * {part!r}", lambda v: v[name] * part)


def _mirrored_range(scheme: Scheme) -> Operations:
    """Return the operations that widen a range to as many steps below 0 as above, and one more below."""
    above = (scheme.range_code_max - scheme.range_code_min) // 2
    below = -above - 1
    kept = torch_dtype(scheme.arithmetic.scale_math)

    def end(name: str, steps: int) -> Operation:
        # The ends are kept as float32, whatever the precision of the scale.
        if not scheme.zero_point_follows:
            line = f"{name} = float32(unit * {steps})"
            return Operation(
                "mirrored", line, lambda v: (v["unit"] * steps).to(torch.float32).to(kept), silent=True
            )
        line = f"{name} = where(one_sided, {name}, float32(unit * {steps}))"
        return Operation(
            "mirrored",
            line,
            lambda v: torch.where(
                v["one_sided"] != 0, v[name], (v["unit"] * steps).to(torch.float32).to(kept)
            ),
            silent=True,
        )

    line = f"unit = float32(max(abs(lo / {below}), abs(hi / {above})))"
    unit = Operation(
        "mirrored_unit",
        line,
        lambda v: torch.maximum((v["lo"] / below).abs(), (v["hi"] / above).abs()).to(torch.float32).to(kept),
    )
    # A range too small for a step of its own is a range of zeros now.
    return (unit, end("lo", below), end("hi", above), *_one_sided(scheme))


def _scale_of_one_side(scheme: Scheme) -> Operations:
    """Return the operation that gives a range on one side of 0 the scale of asymmetric mode."""
    if not scheme.zero_point_follows:
        return ()
    low = scheme.range_code_min
    high = scheme.range_code_max
    line = f"scale = where(one_sided, (hi - lo) / ({high} - {low}), scale)"
    return (
        Operation(
            "scale_one_sided",
            line,
            lambda v: torch.where(v["one_sided"] != 0, (v["hi"] - v["lo"]) / (high - low), v["scale"]),
            silent=True,
        ),
    )


#: By the rule, the operations from a block's range to one of both signs.
_MIRRORED: Mapping[str, Callable[[Scheme], Operations]] = MappingProxyType(
    {"mirrored_range": _mirrored_range, "mirrored_end": _mirrored_end}
)

_RANGE_OF_ZEROS: Operations = (
    Operation(
        "range_of_zeros",
        "of_zeros = (lo == 0) & (hi == 0)",
        lambda v: (v["lo"] == 0) & (v["hi"] == 0),
        silent=True,
    ),
    Operation(
        "range_of_zeros",
        "lo = where(of_zeros, -1, lo)",
        lambda v: torch.where(v["of_zeros"] != 0, -1, v["lo"]),
        silent=True,
    ),
    Operation(
        "range_of_zeros",
        "hi = where(of_zeros, 1, hi)",
        lambda v: torch.where(v["of_zeros"] != 0, 1, v["hi"]),
        silent=True,
    ),
)


def _absmax_operations(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    absmax = Operation(
        "absmax", "absmax = max(abs(lo), abs(hi))", lambda v: torch.maximum(v["lo"].abs(), v["hi"].abs())
    )
    if spec.floor_rule == "absmax_replace_zero":
        line = f"absmax = where(absmax == 0, {spec.floor!r}, absmax)"
        return absmax, Operation(
            "absmax_floor",
            line,
            lambda v: torch.where(v["absmax"] == 0, spec.floor, v["absmax"]),
            silent=True,
        )
    if spec.floor_rule == "absmax_one_up_to":
        line = f"absmax = where(absmax <= {spec.floor!r}, 1, absmax)"
        return absmax, Operation(
            "absmax_floor",
            line,
            lambda v: torch.where(v["absmax"] <= spec.floor, 1, v["absmax"]),
            silent=True,
        )
    if spec.floor_rule == "width_at_least":
        return absmax, Operation(
            "absmax_floor",
            f"absmax = max(absmax, {spec.floor!r})",
            lambda v: v["absmax"].clamp(min=spec.floor),
            silent=True,
        )
    return (absmax,)


def _width_operations(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    width: Operations = (
        Operation("width", "width = hi - lo", lambda v: v["hi"] - v["lo"]),
        *_width_rounded(scheme),
    )
    if spec.floor_rule == "width_at_least":
        return *width, Operation(
            "width_floor",
            f"width = max(width, {spec.floor!r})",
            lambda v: v["width"].clamp(min=spec.floor),
            silent=True,
        )
    if scheme.arithmetic.zero_width != "include_zero":
        return width
    # A block of equal values has no width of its own: it is widened to 0.
    return (
        *width,
        Operation(
            "zero_width",
            "lo = where(width == 0, min(lo, 0), lo)",
            lambda v: torch.where(v["width"] == 0, v["lo"].clamp(max=0), v["lo"]),
            silent=True,
        ),
        Operation(
            "zero_width",
            "hi = where(width == 0, max(hi, 0), hi)",
            lambda v: torch.where(v["width"] == 0, v["hi"].clamp(min=0), v["hi"]),
            silent=True,
        ),
        Operation("zero_width", "width = hi - lo", lambda v: v["hi"] - v["lo"], silent=True),
        *_width_rounded(scheme),
    )


def _width_rounded(scheme: Scheme) -> Operations:
    """Return the operation that rounds the width to a dtype of its own."""
    dtype = scheme.arithmetic.scale.width_dtype
    kept = scheme.arithmetic.scale_math
    if dtype == "scale_math":
        return ()
    return (
        Operation(
            "width_dtype",
            f"width = {kept}({dtype}(width))",
            lambda v: v["width"].to(torch_dtype(dtype)).to(torch_dtype(kept)),
            silent=True,
        ),
    )


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
    if spec.first in ("inverse", "both_divided"):
        made = Operation(
            "inverse_of_range",
            f"inverse = {words} / {extent}",
            lambda v: torch.full_like(v[extent], count) / v[extent],
        )
    else:
        made = Operation(
            "inverse_of_range",
            f"inverse = (1 / {extent}) * {words}",
            lambda v: torch.reciprocal(v[extent]) * count,
        )
    floor = spec.floor
    line = f"inverse = where({extent} <= {floor!r}, 1, inverse)"
    one = Operation(
        "inverse_floor", line, lambda v: torch.where(v[extent] <= floor, 1, v["inverse"]), silent=True
    )
    nothing = Operation(
        "inverse_zero",
        f"inverse = where({extent} <= {floor!r}, 0, inverse)",
        lambda v: torch.where(v[extent] <= floor, 0, v["inverse"]),
        silent=True,
    )
    of_nothing = Operation(
        "scale_of_zero_inverse",
        "scale = where(inverse == 0, 1, scale)",
        lambda v: torch.where(v["inverse"] == 0, 1, v["scale"]),
        silent=True,
    )
    limit = Operation(
        "inverse_limit",
        f"inverse = min(inverse, {spec.inverse_max!r})",
        lambda v: v["inverse"].clamp(max=spec.inverse_max),
        silent=True,
    )
    back = Operation("scale_of_inverse", "scale = 1 / inverse", lambda v: torch.reciprocal(v["inverse"]))
    if spec.first == "both_divided":
        back = Operation("scale_divided", f"scale = {extent} / {words}", lambda v: v[extent] / count)
    if spec.first == "both":
        back = Operation(
            "scale_by_itself", f"scale = {extent} * (1 / {words})", lambda v: v[extent] * (1 / count)
        )
    return (
        made,
        *((one,) if spec.floor_rule == "inverse_one_up_to" else ()),
        *((nothing,) if spec.floor_rule == "codes_zero_up_to" else ()),
        *((limit,) if spec.inverse_max else ()),
        back,
        *((of_nothing,) if spec.floor_rule == "codes_zero_up_to" else ()),
    )


def _over(key: str, line: str, name: str, divisor: float) -> Operations:
    return (Operation(key, line, lambda v: v[name] / divisor),)


def _over_code_max(scheme: Scheme) -> Operations:
    return _over(
        "scale_symmetric",
        f"scale = absmax / {number_code(scheme.range_value_max)}",
        "absmax",
        scheme.range_value_max,
    )


def _over_half_range(scheme: Scheme) -> Operations:
    low = scheme.range_value_min
    high = scheme.range_value_max
    return _over(
        "scale_half_range",
        f"scale = absmax / (({number_code(high)} - {number_code(low)}) / 2)",
        "absmax",
        (high - low) / 2,
    )


def _double_absmax_over_range(scheme: Scheme) -> Operations:
    low = scheme.range_value_min
    high = scheme.range_value_max
    # The range is made symmetric first, and its width can overflow.
    line = f"scale = (absmax + absmax) / ({number_code(high)} - {number_code(low)})"
    return (Operation("scale_double_absmax", line, lambda v: (v["absmax"] + v["absmax"]) / (high - low)),)


def _without_clipping(scheme: Scheme) -> Operations:
    # Counted from the zero point: of a symmetric scheme without signs it is the middle code.
    low = scheme.signed_min
    high = scheme.signed_max
    line = f"scale = max(lo / {number_code(low)}, hi / {number_code(high)})"
    return (
        Operation("scale_without_clipping", line, lambda v: torch.maximum(v["lo"] / low, v["hi"] / high)),
    )


def _extreme_over_code_min(scheme: Scheme) -> Operations:
    return _over(
        "scale_extreme", f"scale = extreme / {number_code(scheme.signed_min)}", "extreme", scheme.signed_min
    )


def _larger_end_over_code_min(scheme: Scheme) -> Operations:
    larger = Operation(
        "larger_end",
        "extreme = where(abs(hi) > abs(lo), hi, lo)",
        lambda v: torch.where(v["hi"].abs() > v["lo"].abs(), v["hi"], v["lo"]),
    )
    return (larger, *_extreme_over_code_min(scheme))


def _farther_end_negated(scheme: Scheme) -> Operations:
    steps = -scheme.signed_min
    # A scale is positive where the lower end is as far from 0 as the upper one.
    farther = Operation(
        "farther_end",
        "extreme = where(abs(lo) >= hi, abs(lo), -hi)",
        lambda v: torch.where(v["lo"].abs() >= v["hi"], v["lo"].abs(), -v["hi"]),
    )
    return (
        farther,
        *_over("scale_farther_end", f"scale = extreme / {number_code(steps)}", "extreme", steps),
    )


def _mirrored_if_negative(scheme: Scheme) -> Operations:
    low = scheme.range_code_min
    high = scheme.range_code_max
    # The lower end is minus the upper one where there are negative values, else it stays at 0.
    return (
        Operation(
            "scale_mirrored",
            f"scale = (absmax - where(lo < 0, -absmax, 0)) / ({high} - {low})",
            lambda v: (v["absmax"] - torch.where(v["lo"] < 0, -v["absmax"], 0)) / (high - low),
        ),
    )


def _power_of_two(
    key: str, expression: str, exponent: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[Scheme], Operations]:
    """Return the operations of a scale 2^(log2 of the largest magnitude - log2 of the format's largest
    value).

    Each logarithm is brought to a whole number first: `exponent` does so for the magnitude.
    """

    def operations(scheme: Scheme) -> Operations:
        largest = _largest_exponent(scheme)
        line = f"exponent = {expression} - {largest}" if largest else f"exponent = {expression}"
        return (
            Operation(key, line, lambda v: exponent(v["absmax"]) - largest),
            *_scale_of_exponent(scheme),
        )

    return operations


def _scale_of_exponent(scheme: Scheme) -> Operations:
    made = Operation("scale_power_of_two", "scale = 2 ** exponent", lambda v: _two_to(v["exponent"]))
    if scheme.arithmetic.scale.exponent_below != "wraps":
        return (made,)
    line = "exponent = where((exponent < -127) & (absmax > 0), exponent + 256, exponent)"
    return Operation(
        "exponent_wraps",
        line,
        lambda v: torch.where((v["exponent"] < -127) & (v["absmax"] > 0), v["exponent"] + 256, v["exponent"]),
        silent=True,
    ), made


def _largest_exponent(scheme: Scheme) -> int:
    """Return the exponent of the format's largest value.

    Integers are fixed-point numbers below 2 here (OCP Microscaling 1.0, 5.3.5).
    """
    return 0 if scheme.number_format.kind == "integer" else math.frexp(scheme.range_value_max)[1] - 1


def _power_of_two_even(scheme: Scheme, digits: int | None = None) -> Operations:
    layout = scheme.number_format.float_bits
    # absmax is rounded, half up, to the digits that an element has: 1.11...b goes to the next power of two.
    if digits is None:
        digits = layout.mantissa if layout else 0
    lift = 2.0 ** -(digits + 1)

    def exponent(absmax: torch.Tensor) -> torch.Tensor:
        power = _floor_log2(absmax)
        if absmax.dtype != torch.float16:
            return _floor_log2(absmax.to(torch.float64) + lift * _two_to(power, torch.float64))
        # Engines do this with the bits of a number, and a subnormal one has no exponent among its bits.
        smallest = torch.finfo(torch.float16).tiny
        lifted = absmax.to(torch.float64) + lift * _two_to(power.clamp(min=-14), torch.float64)
        return _floor_log2(torch.where(lifted < smallest, 0, lifted))

    return _power_of_two(
        "exponent_even", f"floor(log2(absmax + {lift!r} * 2 ** floor(log2(absmax))))", exponent
    )(scheme)


def _power_of_two_floor_log2(scheme: Scheme) -> Operations:
    line = f"floor({_dtype_of_log2(scheme)}(log2(absmax)))"
    return _power_of_two("exponent_log2", line, floor_of_log2)(scheme)


def _dtype_of_log2(scheme: Scheme) -> str:
    own = scheme.arithmetic.scale_math
    return own if own in HALVES else "float32"


def _power_of_two_fitting(scheme: Scheme) -> Operations:
    high = scheme.range_value_max
    line = f"exponent = ceil({_dtype_of_log2(scheme)}(log2(absmax / {number_code(high)})))"
    fitting = Operation("exponent_fitting", line, lambda v: torch.ceil(_log2(v["absmax"] / high)))
    return fitting, *_scale_of_exponent(scheme)


def _floor_log2(x: torch.Tensor) -> torch.Tensor:
    """Return floor(log2(x)), exactly; -inf of 0."""
    exponent = torch.frexp(x).exponent.to(torch.float32) - 1
    return torch.where(x > 0, exponent, -math.inf)


def _ceil_log2(x: torch.Tensor) -> torch.Tensor:
    return _floor_log2(x) + (torch.frexp(x).mantissa > 0.5).to(torch.float32)


def floor_of_log2(x: torch.Tensor) -> torch.Tensor:
    """Return floor(log2(x)) of the logarithm that float32 gives.

    >>> floor_of_log2(torch.tensor([7.0, 7.9999995, 8.0])).tolist()
    [2.0, 3.0, 3.0]
    """
    if has_torch_function((x,)):
        return handle_torch_function(floor_of_log2, (x,), x)
    return log2_floored(x)


def log2_floored(x: torch.Tensor) -> torch.Tensor:
    """Return the floor by these very operations, also for a name that stands for a tensor."""
    return torch.floor(_log2(x))


def _log2(x: torch.Tensor) -> torch.Tensor:
    """Return log2 as float32 gives it, or half precision for a number of that: just below a power of two it
    is rounded up to a whole number.
    """
    single = torch.log2(x.to(torch.float64)).to(torch.float32)
    return single.to(x.dtype).to(torch.float32) if x.dtype in _HALF_DTYPES else single


def _two_to(exponent: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.exp2(exponent.to(torch.float64)).to(dtype)


_SCALE_RULES: Mapping[str, Callable[[Scheme], Operations]] = MappingProxyType(
    {
        "absmax_over_code_max": _over_code_max,
        "absmax_over_half_range": _over_half_range,
        "without_clipping": _without_clipping,
        "extreme_over_code_min": _extreme_over_code_min,
        "larger_end_over_code_min": _larger_end_over_code_min,
        "power_of_two_floor": _power_of_two("exponent_floor", "floor(log2(absmax))", _floor_log2),
        "power_of_two_floor_log2": _power_of_two_floor_log2,
        "power_of_two_ceil": _power_of_two("exponent_ceil", "ceil(log2(absmax))", _ceil_log2),
        "power_of_two_even": _power_of_two_even,
        "power_of_two_even_2_bits": lambda scheme: _power_of_two_even(scheme, 1),
        "power_of_two_fitting": _power_of_two_fitting,
        "mirrored_if_negative": _mirrored_if_negative,
        "double_absmax_over_range": _double_absmax_over_range,
        "farther_end_negated": _farther_end_negated,
    }
)


def _asymmetric_scale(scheme: Scheme) -> Operations:
    low = scheme.range_code_min
    high = scheme.range_code_max
    if scheme.arithmetic.scale.first == "scale":
        return _over("scale_asymmetric", f"scale = width / ({high} - {low})", "width", high - low)
    return _inverse_first(scheme, "width", high - low, f"({high} - {low})")


def _end_on_code(scheme: Scheme) -> Operations:
    """Return the operations that move the scale so that the end farther from 0 is whole steps from it."""
    if scheme.mode == "symmetric" or scheme.arithmetic.scale.asymmetric_rule != "end_on_code":
        return ()
    rounded = TIES[scheme.arithmetic.zero_point_ties]
    return (
        Operation(
            "end_sign",
            "scale = where(abs(lo) > abs(hi), scale, -scale)",
            lambda v: torch.where(v["lo"].abs() > v["hi"].abs(), v["scale"], -v["scale"]),
        ),
        Operation(
            "end_farther",
            "edge = where(abs(lo) > abs(hi), lo, hi)",
            lambda v: torch.where(v["lo"].abs() > v["hi"].abs(), v["lo"], v["hi"]),
        ),
        Operation(
            "zero_point_steps", "steps = round(edge / scale)", lambda v: rounded(v["edge"] / v["scale"])
        ),
        Operation(
            "end_on_code",
            "scale = where(steps == 0, scale, edge / steps)",
            lambda v: torch.where(v["steps"] == 0, v["scale"], v["edge"] / v["steps"]),
        ),
    )


def _scale_floor(scheme: Scheme) -> Operations:
    convention = scheme.arithmetic
    spec = convention.scale
    operations = [*_scale_without_inverse(spec)]
    extent = "width" if _scale_by_width(scheme) else "absmax"
    # An underflow must not divide by 0: conventions that give a block of zeros a scale of 1 have at least the
    # smallest float32 as their floor.
    floor = max(spec.floor, FLOAT32_TINY) if convention.zero_width == "include_zero" else spec.floor
    if spec.floor_rule == "at_least" and floor:
        operations.append(
            Operation(
                "scale_floor",
                f"scale = max(scale, {floor!r})",
                lambda v: v["scale"].clamp(min=floor),
                silent=True,
            )
        )
    elif spec.floor_rule == "magnitude_below" and floor:
        operations.append(
            Operation(
                "scale_floor",
                f"scale = where(abs(scale) < {floor!r}, {floor!r}, scale)",
                lambda v: torch.where(v["scale"].abs() < floor, floor, v["scale"]),
                silent=True,
            )
        )
    elif spec.floor_rule == "range_stretched":
        operations += _stretch(spec.floor)
    elif spec.floor_rule == "one_below":
        if _zero_point_is_dropped(scheme):
            operations.append(
                Operation(
                    "too_small",
                    f"too_small = scale < {floor!r}",
                    lambda v: (v["scale"] < floor).to(v["scale"].dtype),
                    silent=True,
                )
            )
        line = f"scale = where(scale < {floor!r}, 1, scale)"
        operations.append(
            Operation(
                "scale_one_below", line, lambda v: torch.where(v["scale"] < floor, 1, v["scale"]), silent=True
            )
        )
    if convention.zero_width in ("include_zero", "one"):
        line = f"scale = where({extent} == 0, 1, scale)"
        operations.append(
            Operation(
                "scale_of_zeros", line, lambda v: torch.where(v[extent] == 0, 1, v["scale"]), silent=True
            )
        )
    return tuple(operations)


def _scale_without_inverse(spec: ScaleSpec) -> Operations:
    if not spec.without_inverse:
        return ()
    line = f"scale = where(isinf(1 / float32(scale)), {spec.without_inverse!r}, scale)"
    return (
        Operation(
            "scale_without_inverse",
            line,
            lambda v: torch.where(
                torch.isinf(1 / v["scale"].to(torch.float32)), spec.without_inverse, v["scale"]
            ),
            silent=True,
        ),
    )


def _stretch(floor: float) -> Operations:
    """Return the operations that keep the scale above `floor`, and stretch the range with it."""

    def stretched(name: str) -> Operation:
        return Operation(
            "range_stretched",
            f"{name} = float32({name} * stretch)",
            lambda v: (v[name] * v["stretch"]).to(torch.float32).to(v[name].dtype),
            silent=True,
        )

    # A number over a tensor would be a product with the reciprocal, rounded twice.
    ratio = Operation(
        "stretch",
        f"stretch = {floor!r} / scale",
        lambda v: torch.full_like(v["scale"], floor) / v["scale"],
        silent=True,
    )
    factor = Operation(
        "stretch",
        f"stretch = where(scale < {floor!r}, float32(stretch), 1)",
        lambda v: torch.where(v["scale"] < floor, v["stretch"].to(torch.float32).to(v["stretch"].dtype), 1.0),
        silent=True,
    )
    line = f"scale = max(scale, {floor!r})"
    kept = Operation("scale_floor", line, lambda v: v["scale"].clamp(min=floor), silent=True)
    return ratio, factor, stretched("lo"), stretched("hi"), kept


def _zero_point_is_dropped(scheme: Scheme) -> bool:
    """Return whether a block whose scale is too small loses its zero point."""
    rule = scheme.arithmetic.zero_width
    return rule == "one_and_zero" or (rule == "one_and_zero_if_asymmetric" and scheme.mode == "asymmetric")


def _value_limit(scheme: Scheme) -> Operations:
    """Return the operation that keeps the values of all codes below a limit."""
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

    return (Operation("value_limit", line, limited, silent=True),)


def _after_zero_point(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    if _zero_point_is_dropped(scheme):
        line = "zero_point = where(too_small, 0, zero_point)"
        return (
            Operation(
                "zero_point_of_zeros",
                line,
                lambda v: torch.where(v["too_small"] != 0, 0, v["zero_point"]),
                silent=True,
            ),
        )
    if spec.floor_rule != "replace_zero":
        return ()
    line = f"scale = where(scale == 0, {spec.floor!r}, scale)"
    return (
        Operation(
            "scale_floor", line, lambda v: torch.where(v["scale"] == 0, spec.floor, v["scale"]), silent=True
        ),
    )


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
        line = "zero_point = where(steps == 0, 0, edge)"
        return (Operation("zero_point_end", line, lambda v: torch.where(v["steps"] == 0, 0, v["edge"])),)
    if domain == "value":
        return (Operation("zero_point_value", "zero_point = lo", lambda v: v["lo"]),)
    if domain == "value_middle":
        half = (high + low + 1) / 2
        return (
            Operation(
                "zero_point_middle",
                f"zero_point = lo + scale * {half!r}",
                lambda v: v["lo"] + v["scale"] * half,
            ),
        )
    # 0 / 0, of a block whose scale is 0: a cast to integer makes 0 of it.
    whole = Operation(
        "nan_to_zero",
        "zero_point = where(isnan(zero_point), 0, zero_point)",
        lambda v: v["zero_point"].nan_to_num(0, math.inf, -math.inf),
        True,
    )
    two_sided = Operation(
        "zero_point_two_sided",
        f"zero_point = where(one_sided, zero_point, {middle})",
        lambda v: torch.where(v["one_sided"] != 0, v["zero_point"], middle),
    )
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
        shift = Operation(
            "zero_point_inverse", "zero_point = -lo * inverse", lambda v: -v["lo"] * v["inverse"]
        )
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
    line = f"zero_point = where(scale == 0, {code}, zero_point)"
    return (
        Operation(
            "zero_point_of_zero_scale",
            line,
            lambda v: torch.where(v["scale"] == 0, code, v["zero_point"]),
            silent=True,
        ),
    )


def _zero_point_clamp(convention: Convention, low: int, high: int) -> Operations:
    if not convention.zero_point_clamp:
        return ()
    return (
        Operation(
            "zero_point_clamp",
            f"zero_point = clamp(zero_point, {low}, {high})",
            lambda v: v["zero_point"].clamp(low, high),
            silent=True,
        ),
    )
