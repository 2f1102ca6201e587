"""The arithmetic as a list of operations, each one line of Python that can be shown.

`quantize` runs them on whole tensors and `explain` runs the same ones on one cell, so that what is
explained is what was done. A convention, a mode and a number format select operations; no operation
asks which engine it serves. A step that engines have in common is added here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch.overrides import handle_torch_function, has_torch_function

from quantviz.quantization.grids import TIES, dithered, nearest
from quantviz.schemes.calibration import FLOAT32_TINY
from quantviz.schemes.conventions import Convention
from quantviz.schemes.formats import FORMATS, NumberFormat
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import dtype_name, torch_dtype

#: The values an operation reads: tensors that broadcast, by name.
Values = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Operation:
    """One line of the arithmetic."""

    #: Names the line's words under `[steps]` in `quantviz/text/*.toml`.
    key: str
    #: The line, for showing: `name = expression`.
    line: str
    #: The line, for running.
    run: Callable[[Values], torch.Tensor]
    #: Whether the line is left out of explanations where it changes nothing.
    silent: bool = False

    @property
    def name(self) -> str:
        """Return the value it gives."""
        return self.line.partition(" = ")[0]

    @property
    def reads(self) -> frozenset[str]:
        """Return the names in its expression."""
        words = self.line.partition(" = ")[2]
        return frozenset("".join(c if c.isalnum() or c == "_" else " " for c in words).split())


#: How many schemes' operations are kept at hand: every change on the page asks for the same ones several
#: times.
_KEPT = 256
#: Called with each operation that was run, the values it read and what it gave.
Trace = Callable[[Operation, Values, torch.Tensor], None]
Operations = tuple[Operation, ...]


def run_operations(operations: Operations, values: Values, trace: Trace | None = None) -> Values:
    """`values` after each operation has added, or replaced, its own."""
    for operation in operations:
        given = operation.run(values)
        if trace:
            trace(operation, values, given)
        values = {**values, operation.name: given}
    return values


# ---- from a block's range to scale and zero point -----------------------------------------------


@functools.lru_cache(maxsize=_KEPT)
def range_operations(scheme: Scheme) -> Operations:
    """From `lo`, `hi` and `extreme` of each block to `scale` and `zero_point`, before they are stored."""
    convention = scheme.arithmetic
    symmetric = scheme.mode == "symmetric"
    operations = (
        *(_ZERO_IN_RANGE if convention.zero_in_range else ()),
        *(_absmax_operations(scheme) if symmetric else _width_operations(scheme)),
        *(_symmetric_scale(scheme) if symmetric else _asymmetric_scale(scheme)),
        *_scale_floor(scheme),
        *_zero_point(scheme),
        *_after_zero_point(scheme),
    )
    stored = (operation.reads for operation in store_operations(scheme))
    return _leading_to({"scale", "zero_point"}.union(block_names(scheme), *stored), operations)


def _leading_to(wanted: set[str], operations: Operations) -> Operations:
    """Return those of the operations that what is wanted is made by: no line is shown that nothing comes
    of.
    """
    kept: list[Operation] = []
    for operation in reversed(operations):
        if operation.name in wanted:
            wanted = (wanted - {operation.name}) | operation.reads
            kept.append(operation)
    return tuple(reversed(kept))


@functools.lru_cache(maxsize=_KEPT)
def store_operations(scheme: Scheme, *, given: bool = False) -> Operations:
    """From `scale` and `zero_point` to what is stored of them, and to what codes are made with.

    Codes are made with `inverse`, `code_scale` and `code_zero_point` where there are such values. `given`
    are scale and zero point that no range stands behind.
    """
    convention = scheme.arithmetic
    spec = convention.scale
    kept = torch_dtype(convention.scale_dtype if scheme.granularity.single else convention.block_scale_dtype)
    last_digit = _last_digit(scheme)
    # The scale that is stored is that of the number, the one given is that of its last digit.
    whole = Operation("fixed_point_given", f"scale = scale * {last_digit}", lambda v: v["scale"] * last_digit)
    exact = Operation("code_scale", "code_scale = scale", lambda v: v["scale"])
    if last_digit > 1:
        exact = Operation(
            "code_scale", f"code_scale = scale / {last_digit}", lambda v: v["scale"] / last_digit
        )
    return (
        *(given_operations(scheme) if given else ()),
        *((whole,) if given and last_digit > 1 else ()),
        *((exact,) if spec.codes_from == "exact" else ()),
        *_scale_format(scheme),
        *_code_floor(convention),
        Operation(
            "keep_scale", f"scale = {dtype_name(kept)}(scale)", lambda v: v["scale"].to(kept), silent=True
        ),
        *(_zero_point_format(convention) if scheme.shifted else ()),
    )


def given_operations(scheme: Scheme) -> Operations:
    """What a range would have given besides the scale."""
    spec, high = scheme.arithmetic.scale, scheme.value_max
    inverse = Operation("inverse", "inverse = 1 / scale", lambda v: 1 / v["scale"])
    absmax = Operation(
        "absmax_of_scale", f"absmax = scale * {number_code(high)}", lambda v: v["scale"] * high
    )
    wants_absmax = spec.first == "both" or spec.global_rule == "absmax_over_range_joined"
    return *((inverse,) if spec.first != "scale" else ()), *((absmax,) if wants_absmax else ())


def _code_floor(convention: Convention) -> Operations:
    spec = convention.scale
    floor, instead = spec.code_floor, 1.0 if spec.code_floor_rule == "one" else spec.code_floor
    if not floor:
        return ()
    line = f"code_scale = where(scale < {floor!r}, {instead!r}, scale)"
    lifted = Operation(
        "code_floor", line, lambda v: torch.where(v["scale"] < floor, instead, v["scale"]), silent=True
    )
    if not convention.tail_divides:
        return (lifted,)
    line = "scale = where(short, code_scale, scale)"
    return lifted, Operation(
        "short_scale", line, lambda v: torch.where(v["short"] != 0, v["code_scale"], v["scale"]), silent=True
    )


_ZERO_IN_RANGE: Operations = (
    Operation("zero_in_range", "lo = min(lo, 0)", lambda v: v["lo"].clamp(max=0), silent=True),
    Operation("zero_in_range", "hi = max(hi, 0)", lambda v: v["hi"].clamp(min=0), silent=True),
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
    width = Operation("width", "width = hi - lo", lambda v: v["hi"] - v["lo"])
    if spec.floor_rule == "width_at_least":
        return width, Operation(
            "width_floor",
            f"width = max(width, {spec.floor!r})",
            lambda v: v["width"].clamp(min=spec.floor),
            silent=True,
        )
    if scheme.arithmetic.zero_width != "include_zero":
        return (width,)
    # A block of equal values has no width of its own: it is widened to 0.
    return (
        width,
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
    )


def _symmetric_scale(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    return (
        _SCALE_RULES[spec.rule](scheme)
        if spec.first == "scale"
        else _inverse_first(scheme, "absmax", scheme.value_max, number_code(scheme.value_max))
    )


def _inverse_first(scheme: Scheme, extent: str, count: float, words: str) -> Operations:
    """Return the inverse of the scale is made of the range, and the scale of it."""
    spec = scheme.arithmetic.scale
    if spec.first == "inverse":
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
    limit = Operation(
        "inverse_limit",
        f"inverse = min(inverse, {spec.inverse_max!r})",
        lambda v: v["inverse"].clamp(max=spec.inverse_max),
        silent=True,
    )
    back = Operation("scale_of_inverse", "scale = 1 / inverse", lambda v: torch.reciprocal(v["inverse"]))
    if spec.first == "both":
        back = Operation(
            "scale_by_itself", f"scale = {extent} * (1 / {words})", lambda v: v[extent] * (1 / count)
        )
    return (
        made,
        *((one,) if spec.floor_rule == "inverse_one_up_to" else ()),
        *((limit,) if spec.inverse_max else ()),
        back,
    )


def _over(key: str, line: str, name: str, divisor: float) -> Operations:
    return (Operation(key, line, lambda v: v[name] / divisor),)


def _over_code_max(scheme: Scheme) -> Operations:
    return _over(
        "scale_symmetric", f"scale = absmax / {number_code(scheme.value_max)}", "absmax", scheme.value_max
    )


def _over_half_range(scheme: Scheme) -> Operations:
    low, high = scheme.value_min, scheme.value_max
    return _over(
        "scale_half_range",
        f"scale = absmax / (({number_code(high)} - {number_code(low)}) / 2)",
        "absmax",
        (high - low) / 2,
    )


def _without_clipping(scheme: Scheme) -> Operations:
    low, high = scheme.value_min, scheme.value_max
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


def _power_of_two(
    key: str, expression: str, exponent: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[Scheme], Operations]:
    """Return the scale is 2^(log2 of the largest magnitude - that of the format's largest value), each
    brought to a whole number.
    """

    def operations(scheme: Scheme) -> Operations:
        largest = _largest_exponent(scheme)
        line = f"exponent = {expression} - {largest}" if largest else f"exponent = {expression}"
        return Operation(key, line, lambda v: exponent(v["absmax"]) - largest), _SCALE_POWER_OF_TWO

    return operations


_SCALE_POWER_OF_TWO = Operation(
    "scale_power_of_two", "scale = 2 ** exponent", lambda v: _two_to(v["exponent"])
)


def _largest_exponent(scheme: Scheme) -> int:
    """That of the format's largest value. Integers are fixed-point numbers below 2 here (OCP Microscaling
    1.0, 5.3.5).
    """
    return 0 if scheme.number_format.kind == "integer" else math.frexp(scheme.value_max)[1] - 1


def _power_of_two_even(scheme: Scheme, digits: int | None = None) -> Operations:
    layout = scheme.number_format.float_bits
    # absmax is rounded, half up, to the digits that an element has: 1.11...b goes to the next power of two.
    lift = 2.0 ** -((layout.mantissa if layout else 0) + 1 if digits is None else digits + 1)

    def exponent(absmax: torch.Tensor) -> torch.Tensor:
        return _floor_log2(absmax.to(torch.float64) + lift * _two_to(_floor_log2(absmax), torch.float64))

    return _power_of_two(
        "exponent_even", f"floor(log2(absmax + {lift!r} * 2 ** floor(log2(absmax))))", exponent
    )(scheme)


def _power_of_two_fitting(scheme: Scheme) -> Operations:
    high = scheme.value_max
    line = f"exponent = ceil(float32(log2(absmax / {number_code(high)})))"
    return Operation(
        "exponent_fitting", line, lambda v: torch.ceil(_log2(v["absmax"] / high))
    ), _SCALE_POWER_OF_TWO


def _floor_log2(x: torch.Tensor) -> torch.Tensor:
    """floor(log2(x)), exactly; -inf of 0."""
    exponent = torch.frexp(x).exponent.to(torch.float32) - 1
    return torch.where(x > 0, exponent, -math.inf)


def _ceil_log2(x: torch.Tensor) -> torch.Tensor:
    return _floor_log2(x) + (torch.frexp(x).mantissa > 0.5).to(torch.float32)


def _log2(x: torch.Tensor) -> torch.Tensor:
    """log2 as float32 gives it: just below a power of two it is rounded up to a whole number."""
    return torch.log2(x.to(torch.float64)).to(torch.float32)


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
        "power_of_two_floor_log2": _power_of_two(
            "exponent_log2", "floor(float32(log2(absmax)))", lambda absmax: torch.floor(_log2(absmax))
        ),
        "power_of_two_ceil": _power_of_two("exponent_ceil", "ceil(log2(absmax))", _ceil_log2),
        "power_of_two_even": _power_of_two_even,
        "power_of_two_even_2_bits": lambda scheme: _power_of_two_even(scheme, 1),
        "power_of_two_fitting": _power_of_two_fitting,
    }
)


def _asymmetric_scale(scheme: Scheme) -> Operations:
    low, high = scheme.code_min, scheme.code_max
    if scheme.arithmetic.scale.first == "scale":
        return _over("scale_asymmetric", f"scale = width / ({high} - {low})", "width", high - low)
    return _inverse_first(scheme, "width", high - low, f"({high} - {low})")


def _scale_floor(scheme: Scheme) -> Operations:
    convention = scheme.arithmetic
    spec, operations = convention.scale, []
    extent = "absmax" if scheme.mode == "symmetric" else "width"
    # An underflow must not divide by 0: what gives a block of zeros a scale of 1 has at least the smallest
    # float32.
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


def _zero_point_is_dropped(scheme: Scheme) -> bool:
    """Return whether a block whose scale is too small loses its zero point."""
    rule = scheme.arithmetic.zero_width
    return rule == "one_and_zero" or (rule == "one_and_zero_if_asymmetric" and scheme.mode == "asymmetric")


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
    convention, low, high = scheme.arithmetic, scheme.code_min, scheme.code_max
    if scheme.mode == "symmetric":
        middle = scheme.symmetric_zero_point
        return (
            Operation(
                "zero_point_symmetric",
                f"zero_point = {middle}",
                lambda v: torch.full_like(v["scale"], middle),
            ),
        )
    if convention.zero_domain == "value":
        return (Operation("zero_point_value", "zero_point = lo", lambda v: v["lo"]),)
    if convention.zero_domain == "value_middle":
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
    integer = convention.zero_domain == "code_int"
    return (
        *_zero_point_code(convention, low),
        *_zero_point_clamp(convention, low, high),
        *((whole,) if integer else ()),
    )


def _zero_point_code(convention: Convention, low: int) -> Operations:
    math_dtype = (
        None if convention.zero_point_math == "scale_math" else torch_dtype(convention.zero_point_math)
    )
    rounded = TIES[convention.zero_point_ties]

    def wide(v: Values, name: str) -> torch.Tensor:
        return v[name] if math_dtype is None else v[name].to(math_dtype)

    if convention.scale.first != "scale":
        shift = Operation(
            "zero_point_inverse", "zero_point = -lo * inverse", lambda v: -v["lo"] * v["inverse"]
        )
    elif convention.zero_point_rule == "low_minus_rounded":
        line = f"zero_point = {low} - round(lo / scale)"
        return (Operation("zero_point", line, lambda v: low - rounded(wide(v, "lo") / wide(v, "scale"))),)
    elif convention.zero_domain == "code_float":
        shift = Operation(
            "zero_point_float",
            f"zero_point = {low} - lo / scale",
            lambda v: low - wide(v, "lo") / wide(v, "scale"),
        )
    else:
        return (
            Operation(
                "zero_point",
                f"zero_point = round({low} - lo / scale)",
                lambda v: rounded(low - wide(v, "lo") / wide(v, "scale")),
            ),
        )
    if convention.zero_domain == "code_float":
        return (shift,)
    return shift, Operation(
        "zero_point_round", "zero_point = round(zero_point)", lambda v: rounded(v["zero_point"])
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


# ---- storing ------------------------------------------------------------------------------------


def _scale_format(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    if spec.format is None:
        return ()
    if spec.global_rule:
        return _two_levels(scheme, FORMATS[spec.format])
    names = STORED_AS.get(spec.format, (spec.format,))
    rounded = tuple(_rounded_scale(FORMATS[name], spec.format_floor) for name in names)
    last_digit = _last_digit(scheme)
    if last_digit == 1:
        return rounded
    # The code counts the last digit of a fixed-point number below 2.
    return *rounded, Operation(
        "fixed_point", f"scale = scale / {last_digit}", lambda v: v["scale"] / last_digit
    )


def _last_digit(scheme: Scheme) -> int:
    """By how much a code's last binary digit is smaller than 1, where codes are fixed-point numbers; else
    1.
    """
    spec, fmt = scheme.arithmetic.scale, scheme.number_format
    fixed = (
        spec.format is not None
        and not spec.global_rule
        and spec.rule.startswith("power_of_two")
        and fmt.kind == "integer"
    )
    return 2 ** max(fmt.bits - 2, 0) if fixed else 1


#: What is rounded to more than one format before it is stored.
STORED_AS: Mapping[str, tuple[str, ...]] = MappingProxyType({"bfloat16_float16": ("bfloat16", "float16")})


def _rounded_scale(fmt: NumberFormat, floor: float, name: str = "scale", of: str = "scale") -> Operation:
    inside = f"max({of}, {floor!r})" if floor else of
    return Operation(
        "scale_format",
        f"{name} = {fmt.id}({inside})",
        lambda v: stored(v[of].clamp(min=floor) if floor else v[of], fmt),
    )


def stored(values: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
    """`values`, each the nearest one of a float format, half to even, in their dtype; beyond its end Inf
    where it has that, else its end.

    >>> stored(torch.tensor([1.0625, 1e6]), FORMATS["float8_e4m3fn"]).tolist()
    [1.0, 448.0]
    """
    # Far beyond its end all are alike, Inf among them.
    rounded = nearest(values.to(torch.float64).clamp(-2 * fmt.value_max, 2 * fmt.value_max), fmt, "even").to(
        values.dtype
    )
    if fmt.float_bits and fmt.float_bits.special == "ieee":
        return torch.where(
            rounded.abs() > fmt.value_max,
            torch.copysign(torch.full_like(rounded, math.inf), rounded),
            rounded,
        )
    return rounded.clamp(min=-fmt.value_max if fmt.signed else fmt.value_min, max=fmt.value_max)


def _two_levels(scheme: Scheme, fmt: NumberFormat) -> Operations:
    """Return a scale of each block in units of one over the whole tensor, so that the small format can hold
    it.
    """
    spec, high = scheme.arithmetic.scale, scheme.value_max
    reach, floor = fmt.value_max * high, spec.format_floor
    words = number_code(reach)
    if spec.global_rule == "range_over_absmax":
        no_scale = "global_inverse = where(isinf(global_inverse), 1, global_inverse)"
        line = f"scale_code = where(scale_code == 0, {floor!r}, scale_code)"
        return (
            Operation(
                "global_inverse",
                f"global_inverse = (1 / tensor_absmax) * {words}",
                lambda v: torch.reciprocal(v["tensor_absmax"]) * reach,
            ),
            Operation(
                "global_inverse_of_zeros",
                no_scale,
                lambda v: torch.where(torch.isinf(v["global_inverse"]), 1, v["global_inverse"]),
                silent=True,
            ),
            Operation(
                "scale_in_global",
                "scale_code = global_inverse * scale",
                lambda v: v["global_inverse"] * v["scale"],
            ),
            _rounded_scale(fmt, 0.0, "scale_code", "scale_code"),
            Operation(
                "scale_floor",
                line,
                lambda v: torch.where(v["scale_code"] == 0, floor, v["scale_code"]),
                silent=True,
            ),
            Operation(
                "scale_two_levels",
                "scale = scale_code / global_inverse",
                lambda v: v["scale_code"] / v["global_inverse"],
            ),
        )
    first = Operation(
        "global_scale", f"global_scale = tensor_absmax / {words}", lambda v: v["tensor_absmax"] / reach
    )
    last = Operation(
        "scale_two_levels", "scale = global_scale * scale_code", lambda v: v["global_scale"] * v["scale_code"]
    )
    if spec.global_rule == "absmax_over_range":
        return (
            first,
            Operation(
                "scale_in_global",
                "scale_code = scale / global_scale",
                lambda v: v["scale"] / v["global_scale"],
            ),
            _rounded_scale(fmt, floor, "scale_code", "scale_code"),
            Operation(
                "inverse_two_levels",
                "inverse = (1 / global_scale) / scale_code",
                lambda v: (1 / v["global_scale"]) / v["scale_code"],
            ),
            last,
        )
    line = f"scale_code = absmax / ({number_code(high)} * global_scale)"
    return (
        first,
        Operation("scale_in_global", line, lambda v: v["absmax"] / (high * v["global_scale"])),
        Operation(
            "scale_of_zeros",
            "scale_code = where(scale_code == 0, 1, scale_code)",
            lambda v: torch.where(v["scale_code"] == 0, 1, v["scale_code"]),
            True,
        ),
        _rounded_scale(fmt, floor, "scale_code", "scale_code"),
        last,
    )


def _zero_point_format(convention: Convention) -> Operations:
    if convention.zero_point_format is None:
        return ()
    fmt = FORMATS[convention.zero_point_format]
    return (
        Operation("code_zero_point", "code_zero_point = zero_point", lambda v: v["zero_point"]),
        Operation(
            "zero_point_format", f"zero_point = {fmt.id}(zero_point)", lambda v: stored(v["zero_point"], fmt)
        ),
    )


# ---- from x to the code -------------------------------------------------------------------------


@functools.lru_cache(maxsize=_KEPT)
def code_operations(scheme: Scheme) -> Operations:
    """From `x` and what is known of its block to `y`, the rounded value of the grid, and `q`, the one that
    there is.
    """
    convention = scheme.arithmetic
    apply = torch_dtype(convention.apply_dtype)
    divisor = (
        "code_scale" if convention.scale.codes_from == "exact" or convention.scale.code_floor else "scale"
    )
    order = (
        convention.order
        if scheme.granularity.single or convention.block_order == "same"
        else convention.block_order
    )
    inverse_known = convention.scale.first != "scale" or convention.scale.global_rule == "absmax_over_range"
    operations: list[Operation] = [
        # Cast before dividing: a float64 scale would promote the division and change codes.
        Operation(
            "apply_scale",
            f"{divisor} = {dtype_name(apply)}({divisor})",
            lambda v: v[divisor].to(apply),
            silent=True,
        ),
    ]
    if apply != torch.float32:
        operations.append(
            Operation("apply_x", f"x = {dtype_name(apply)}(x)", lambda v: v["x"].to(apply), silent=True)
        )
    source, added = "x", scheme.zero_domain in ("code_int", "code_float")
    zero_point = "code_zero_point" if convention.zero_point_format else "zero_point"
    if scheme.shifted and not added:
        operations += _value_offset(scheme)
        source = "y"
    divides = order.startswith("divide")
    if not divides and not inverse_known:
        operations.append(_inverse(divisor, convention.scale.inverse_of_zero))
    scaled = (
        Operation("divide", f"y = {source} / {divisor}", lambda v: v[source] / v[divisor])
        if divides
        else Operation("multiply_inverse", f"y = {source} * inverse", lambda v: v[source] * v["inverse"])
    )
    if convention.tail_divides:
        line = f"y = where(short, {source} / {divisor}, {source} * inverse)"
        scaled = Operation(
            "multiply_inverse",
            line,
            lambda v: torch.where(v["short"] != 0, v[source] / v[divisor], v[source] * v["inverse"]),
        )
    shift = Operation("shift", f"y = y + {zero_point}", lambda v: v["y"] + v[zero_point].to(apply))
    if order == "fused_multiply_add_round" and added:
        fused = Operation(
            "fused",
            f"y = fma(x, inverse, {zero_point})",
            lambda v: fma(v["x"], v["inverse"], v[zero_point].to(apply)),
        )
        operations += [fused, *_rounding(scheme)]
    elif order.endswith("round_add"):
        operations += [scaled, *_rounding(scheme), *((shift,) if added else ())]
    else:
        operations += [scaled, *((shift,) if added else ()), *_rounding(scheme)]
    return (*operations, *_limits(scheme))


def _inverse(divisor: str, of_zero: str) -> Operation:
    if of_zero == "inf":
        return Operation("inverse", f"inverse = 1 / {divisor}", lambda v: 1 / v[divisor])
    return Operation(
        "inverse",
        f"inverse = where({divisor} == 0, 0, 1 / {divisor})",
        lambda v: torch.where(v[divisor] == 0, 0, 1 / v[divisor]),
    )


def _value_offset(scheme: Scheme) -> Operations:
    """x from the value of code 0 on."""
    convention = scheme.arithmetic
    if convention.zero_domain == "value_middle":
        half = (scheme.code_max + scheme.code_min + 1) / 2
        return (
            Operation(
                "value_of_zero",
                f"lo = zero_point - scale * {half!r}",
                lambda v: v["zero_point"] - v["scale"] * half,
            ),
            Operation("subtract_lo", "y = x - lo", lambda v: v["x"] - v["lo"]),
        )
    name = "code_zero_point" if convention.zero_point_format else "zero_point"
    return (Operation("subtract_lo", f"y = x - {name}", lambda v: v["x"] - v[name]),)


def _rounding(scheme: Scheme) -> Operations:
    fmt, convention = scheme.number_format, scheme.arithmetic
    verb = "round" if fmt.kind == "integer" else fmt.id
    if convention.lattice:
        return (
            *_lattice(convention.lattice),
            Operation(
                f"round_{convention.ties}", f"y = {verb}(y)", lambda v: nearest(v["y"], fmt, convention.ties)
            ),
        )
    if convention.ties == "stochastic":
        chance = Operation(
            "chance",
            f"chance = random({convention.seed}, index)",
            lambda v: chances(convention.seed, v["index"]),
        )
        return chance, Operation(
            "round_stochastic", f"y = {verb}(y, chance)", lambda v: dithered(v["y"], fmt, v["chance"])
        )
    if convention.ties == "adding_half":
        # The sum is rounded too: just below a half it can reach the next code.
        lift = 0.5 - min(scheme.code_min, 0)
        line = f"y = floor(y + {lift!r})" + (f" - {-scheme.code_min}" if scheme.code_min < 0 else "")
        return (
            Operation(
                "round_adding_half", line, lambda v: torch.floor(v["y"] + lift) + min(scheme.code_min, 0)
            ),
        )
    return (
        Operation(
            f"round_{convention.ties}", f"y = {verb}(y)", lambda v: nearest(v["y"], fmt, convention.ties)
        ),
    )


def _lattice(count: int) -> Operations:
    """From -1 to 1 in `count` points: a table of codes has one entry for each."""

    def on_lattice(v: Values) -> torch.Tensor:
        place = torch.trunc(fma((v["y"] + 1) * 0.5, torch.tensor(float(count - 1)), torch.tensor(0.5)))
        return (place * 2) / (count - 1) - 1

    return (
        Operation("lattice_ends", "y = clamp(y, -1, 1)", lambda v: v["y"].clamp(-1, 1), silent=True),
        Operation(
            "lattice", f"y = trunc(fma((y + 1) * 0.5, {count - 1}, 0.5)) * 2 / {count - 1} - 1", on_lattice
        ),
    )


def _limits(scheme: Scheme) -> Operations:
    convention, fmt = scheme.arithmetic, scheme.number_format
    low, high = scheme.value_min, scheme.value_max
    words = f"{number_code(low)}, {number_code(high)}"
    if convention.overflow == "saturate" or not fmt.has_nan:
        limit = Operation("clamp", f"q = clamp(y, {words})", lambda v: v["y"].clamp(low, high))
    else:
        limit = _overflow(fmt, convention.overflow)
    operations = [limit]
    if fmt.kind != "float":
        # 0 / 0, of a block whose scale is 0: code 0. In a float format it is NaN.
        zero = fmt.value(0) if fmt.kind == "codebook" else 0.0
        line = f"q = where(isnan(q), {number_code(zero)}, q)"
        operations.append(
            Operation(
                "nan_to_zero", line, lambda v: torch.where(torch.isnan(v["q"]), zero, v["q"]), silent=True
            )
        )
    elif convention.negative_zero == "never":
        operations.append(Operation("signed_zero", "q = q + 0", lambda v: v["q"] + 0.0, silent=True))
    elif convention.negative_zero != "keep":
        zero = 0.0 if convention.negative_zero == "not_of_zero" else -0.0
        operations.append(
            Operation(
                "signed_zero",
                f"q = where(x == 0, {zero!r}, q)",
                lambda v: torch.where(v["x"] == 0, zero, v["q"]),
                silent=True,
            )
        )
    return tuple(operations)


def _overflow(fmt: NumberFormat, rule: str) -> Operation:
    """Beyond the largest value Inf or NaN. In a format without a sign and 0, NaN for these, and the smallest
    value for what is less but positive.
    """
    low, high = number_code(fmt.value_min), number_code(fmt.value_max)
    beyond, words = (math.inf, "copysign(inf, y)") if rule == "inf" else (math.nan, "nan")

    def above(y: torch.Tensor) -> torch.Tensor:
        return torch.where(y.abs() > fmt.value_max, torch.copysign(torch.full_like(y, beyond), y), y)

    if fmt.signed:
        return Operation("overflow", f"q = where(abs(y) > {high}, {words}, y)", lambda v: above(v["y"]))
    line = f"q = where((copysign(1, y) < 0) | (x == 0), nan, where(y > {high}, {beyond}, max(y, {low})))"

    def without_sign(v: Values) -> torch.Tensor:
        # What was rounded to -0 was negative.
        return torch.where(
            torch.signbit(v["y"]) | (v["x"] == 0), math.nan, above(v["y"].clamp(min=fmt.value_min))
        )

    return Operation("overflow", line, without_sign)


def fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """x · y + z of float32, rounded once.

    >>> fma(torch.tensor(1 + 2.0**-12), torch.tensor(1 - 2.0**-12), torch.tensor(-1.0)).item() == -(2.0**-24)
    True
    """
    if has_torch_function((x, y, z)):
        return handle_torch_function(fma, (x, y, z), x, y, z)
    product, addend = x.to(torch.float64) * y.to(torch.float64), z.to(torch.float64)
    total = product + addend
    # What the float64 sum lost. Rounded to odd, the sum can be rounded to float32 as if it had been exact.
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    towards = torch.where(lost > 0, math.inf, -math.inf).to(torch.float64)
    even = (total.view(torch.int64) & 1) == 0
    odd = torch.where((lost != 0) & even & torch.isfinite(total), torch.nextafter(total, towards), total)
    return odd.to(torch.float32)


def chances(seed: int, index: torch.Tensor) -> torch.Tensor:
    """Return a number in [0, 1) for each flat index: the same for the same seed and index, whatever else is
    asked for. float32.

    The mixing function of SplitMix64 (Steele, Lea and Flood 2014).

    >>> chances(1, torch.tensor([5])).item() == chances(1, torch.arange(10))[5].item()
    True
    """
    z = (index.to(torch.int64) + 1) * -0x61C8864680B583EB + seed * 0x632BE59BD9B4E019 % 2**62
    for right, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        z = (z ^ _logical_shift(z, right)) * factor
    return (_logical_shift(z ^ _logical_shift(z, 31), 40)).to(torch.float32) / 2**24


def _logical_shift(z: torch.Tensor, by: int) -> torch.Tensor:
    return (z >> by) & ((1 << (64 - by)) - 1)


# ---- and back -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=_KEPT)
def value_operations(scheme: Scheme) -> Operations:
    """From `q`, `scale` and `zero_point` of each element to `x_hat`, float32."""
    convention = scheme.arithmetic
    if convention.value_order == "divide_inverse":
        return (Operation("divide_inverse", "x_hat = q / inverse", lambda v: v["q"] / v["inverse"]),)
    if convention.value_order == "multiply_absmax":
        high = scheme.value_max
        return (
            Operation("multiply_absmax", "y = q * absmax", lambda v: v["q"] * v["absmax"]),
            Operation(
                "times_inverse_code_max",
                f"x_hat = y * (1 / {number_code(high)})",
                lambda v: v["y"] * (1 / high),
            ),
        )
    dtype = torch_dtype(convention.value_dtype)
    operations = [
        Operation(
            "apply_scale", f"scale = {dtype_name(dtype)}(scale)", lambda v: v["scale"].to(dtype), silent=True
        )
    ]
    if dtype not in (torch.float32, torch.float64):
        operations.append(
            Operation("apply_q", f"q = {dtype_name(dtype)}(q)", lambda v: v["q"].to(dtype), silent=True)
        )
    if not scheme.shifted:
        operations.append(Operation("multiply", "x_hat = scale * q", lambda v: v["scale"] * v["q"].to(dtype)))
    elif scheme.zero_domain in ("code_int", "code_float"):
        operations += [
            Operation(
                "subtract", "y = q - zero_point", lambda v: v["q"].to(dtype) - v["zero_point"].to(dtype)
            ),
            Operation("multiply", "x_hat = scale * y", lambda v: v["scale"] * v["y"]),
        ]
    else:
        half = int((scheme.code_max + scheme.code_min + 1) / 2) if scheme.zero_domain == "value_middle" else 0
        if half:
            operations.append(
                Operation("subtract_middle", f"q = q - {half}", lambda v: v["q"].to(dtype) - half)
            )
        operations += [
            Operation("multiply", "y = scale * q", lambda v: v["scale"] * v["q"].to(dtype)),
            Operation(
                "add_zero_point", "x_hat = y + zero_point", lambda v: v["y"] + v["zero_point"].to(dtype)
            ),
        ]
    if dtype != torch.float32:
        operations.append(
            Operation(
                "x_hat_float32", "x_hat = float32(x_hat)", lambda v: v["x_hat"].to(torch.float32), silent=True
            )
        )
    return tuple(operations)


@functools.lru_cache(maxsize=_KEPT)
def error_operations(scheme: Scheme) -> Operations:
    """From `x_hat` and `x` to `error`."""
    error = Operation("error", "error = x_hat - x", lambda v: v["x_hat"] - v["x"])
    if scheme.nonfinite != "ignore":
        return (error,)
    line = "error = where(isfinite(x), error, nan)"
    return error, Operation(
        "left_out", line, lambda v: torch.where(torch.isfinite(v["x"]), v["error"], math.nan), silent=True
    )


@functools.lru_cache(maxsize=_KEPT)
def block_names(scheme: Scheme) -> frozenset[str]:
    """What is read of a block besides scale and zero point, to make codes and to get values back."""
    reads = frozenset[str]().union(
        *(operation.reads for operation in (*code_operations(scheme), *value_operations(scheme)))
    )
    return reads & {"absmax", "code_scale", "code_zero_point", "inverse", "short"}


def number_code(value: float) -> str:
    """Return a number as Python, whole ones without a point unless they are long.

    >>> number_code(7.0), number_code(0.5), number_code(2.0**127)
    ('7', '0.5', '1.7014118346046923e+38')
    """
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
