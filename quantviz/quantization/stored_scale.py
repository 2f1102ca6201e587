"""The steps from scale and zero point to their stored forms and to the values that compute codes."""

from __future__ import annotations

import functools
import math

import torch

from quantviz.quantization.grids import nearest
from quantviz.quantization.operations import (
    SCHEMES_KEPT,
    Operation,
    Operations,
    cast,
    number_code,
    number_over,
    silent,
)
from quantviz.schemes.arithmetic import HALVES, STORED_AS
from quantviz.schemes.conventions import Convention
from quantviz.schemes.formats import FORMATS, NumberFormat
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import torch_dtype


@functools.lru_cache(maxsize=SCHEMES_KEPT)
def store_operations(scheme: Scheme, *, given: bool = False) -> Operations:
    """Return the operations from `scale` and `zero_point` to their stored forms and to the values that
    compute codes: `inverse`, `code_scale` and `code_zero_point`, where there are such values.

    `given` means that scale and zero point were set by hand, so that no operation may read a range.
    """
    convention = scheme.arithmetic
    spec = convention.scale
    dtype = torch_dtype(convention.scale_dtype if scheme.granularity.single else convention.block_scale_dtype)
    last_digit = _last_digit(scheme)
    # The stored scale belongs to the whole number, the given one to its last digit.
    whole = Operation("fixed_point_given", f"scale = scale * {last_digit}")
    exact = Operation("code_scale", "code_scale = scale")
    if last_digit > 1:
        exact = Operation("code_scale", f"code_scale = scale / {last_digit}")
    return (
        *(given_operations(scheme) if given else ()),
        *((whole,) if given and last_digit > 1 else ()),
        *((exact,) if spec.codes_from == "exact" else ()),
        *_scale_format(scheme),
        *_code_floor(convention),
        cast("keep_scale", "scale", dtype),
        *(_zero_point_format(convention) if scheme.shifted else ()),
        *((_KEEP_ZERO_POINT,) if scheme.shifted and convention.scale_math in HALVES else ()),
    )


#: The stored zero point is float32: half precision is only that of the steps.
_KEEP_ZERO_POINT = cast("keep_zero_point", "zero_point", torch.float32)


def given_operations(scheme: Scheme) -> Operations:
    spec = scheme.arithmetic.scale
    high = scheme.range_value_max
    inverse = Operation("inverse", "inverse = 1 / scale")
    absmax = Operation("absmax_of_scale", f"absmax = scale * {number_code(high)}")
    wants_absmax = spec.first == "both" or spec.global_rule in (
        "absmax_over_range_joined",
        "reach_over_absmax",
    )
    return (
        *((inverse,) if spec.first != "scale" else ()),
        *((absmax,) if wants_absmax else ()),
        *(_GIVEN_LEVELS if scheme.arithmetic.order == "levels_divide_add_round" else ()),
    )


#: A scale set by hand is that of the first level's codes.
_GIVEN_LEVELS: Operations = (
    Operation("scale_code_given", "scale_code = scale / scale", lambda v: torch.ones_like(v["scale"])),
    Operation("global_scale_given", "global_scale = scale"),
    Operation("zero_point_code_given", "zero_point_code = -zero_point / scale"),
)


def scale_reach(convention: Convention, fmt: NumberFormat) -> float:
    """Return the largest product of a block's scale, stored in units of the tensor's, and a value."""
    assert convention.scale.format is not None
    return (convention.scale.code_max or FORMATS[convention.scale.format].value_max) * fmt.value_max


@functools.lru_cache(maxsize=SCHEMES_KEPT)
def level_operations(scheme: Scheme) -> Operations:
    """Return the operations from the two levels that an engine's own search found to scale and zero point."""
    if scheme.arithmetic.scale.global_rule == "reach_over_absmax":
        return levels_of_absmax(scale_reach(scheme.arithmetic, scheme.number_format))
    scale = Operation("scale_two_levels", "scale = global_scale * scale_code")
    zero_point = Operation("zero_point_two_levels", "zero_point = global_zero_point * zero_point_code")
    is_value = scheme.search and scheme.search.has_minimum and scheme.zero_domain == "value"
    return (scale, zero_point) if is_value else (scale,)


def levels_of_absmax(reach: float) -> Operations:
    """Return the operations to `scale` and `inverse` from a stored scale and the tensor's largest
    magnitude.
    """
    return (
        number_over("global_inverse", "global_inverse", reach, "global_absmax"),
        Operation("global_scale_of_inverse", "global_scale = 1 / global_inverse"),
        Operation("scale_two_levels", "scale = global_scale * scale_code"),
        Operation("inverse", "inverse = 1 / scale"),
    )


def _code_floor(convention: Convention) -> Operations:
    spec = convention.scale
    floor = spec.code_floor
    instead = 1.0 if spec.code_floor_rule == "one" else spec.code_floor
    if not floor:
        return ()
    line = f"code_scale = where(scale < {floor!r}, {instead!r}, scale)"
    lifted = silent("code_floor", line)
    if not convention.tail_divides:
        return (lifted,)
    return lifted, silent("short_scale", "scale = where(short, code_scale, scale)")


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
    return *rounded, Operation("fixed_point", f"scale = scale / {last_digit}")


def _last_digit(scheme: Scheme) -> int:
    """Return 1 over the value of a code's last binary digit, where codes are fixed-point numbers; else 1."""
    spec = scheme.arithmetic.scale
    fmt = scheme.number_format
    fixed = (
        spec.format is not None
        and not spec.global_rule
        and spec.rule.startswith("power_of_two")
        and fmt.kind == "integer"
    )
    return 2 ** max(fmt.bits - 2, 0) if fixed else 1


def _rounded_scale(fmt: NumberFormat, floor: float, name: str = "scale", of: str = "scale") -> Operation:
    inside = f"max({of}, {floor!r})" if floor else of
    return Operation(
        "scale_format",
        f"{name} = {fmt.id}({inside})",
        lambda v: round_to_format(v[of].clamp(min=floor) if floor else v[of], fmt),
    )


#: Formats to which torch rounds float32 in the same way, as long as nothing is beyond their end.
_OF_TORCH = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def round_to_format(values: torch.Tensor, fmt: NumberFormat) -> torch.Tensor:
    """Round `values` to a float format, half to even, in their own dtype.

    Beyond the format's end they become Inf where it has that, else its end.
    """
    dtype = _OF_TORCH.get(fmt.id)
    # A trace writes down one line for all values: it cannot ask them.
    if dtype is not None and values.dtype == torch.float32 and isinstance(values, torch.Tensor):
        rounded = values.to(dtype).to(torch.float32)
        if bool(torch.isfinite(rounded).all()):
            return rounded
    # Far beyond the format's end all values have the same result, Inf included.
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
    """Return the operations that store a block's scale in units of the tensor's, so that `fmt` holds it."""
    spec = scheme.arithmetic.scale
    high = scheme.range_value_max
    reach = scale_reach(scheme.arithmetic, scheme.number_format)
    floor = spec.format_floor
    words = number_code(reach)
    if spec.global_rule == "range_over_absmax":
        return _scale_in_global_inverse(fmt, reach, floor)
    if spec.global_rule == "reach_over_absmax":
        return _scale_in_global_absmax(fmt, reach)
    if spec.global_rule == "absmax_and_inverse":
        return _scale_in_both(fmt, reach, floor)
    first = Operation("global_scale", f"global_scale = tensor_absmax / {words}")
    last = Operation("scale_two_levels", "scale = global_scale * scale_code")
    if spec.global_rule == "absmax_over_range":
        return (
            first,
            Operation("scale_in_global", "scale_code = scale / global_scale"),
            _rounded_scale(fmt, floor, "scale_code", "scale_code"),
            Operation("inverse_two_levels", "inverse = (1 / global_scale) / scale_code"),
            last,
        )
    return (
        first,
        Operation("scale_in_global", f"scale_code = absmax / ({number_code(high)} * global_scale)"),
        silent("scale_of_zeros", "scale_code = where(scale_code == 0, 1, scale_code)"),
        _rounded_scale(fmt, floor, "scale_code", "scale_code"),
        last,
    )


def _scale_in_global_absmax(fmt: NumberFormat, reach: float) -> Operations:
    """Return the operations that store the tensor's largest magnitude and scale by its multiples."""
    levels = levels_of_absmax(reach)
    return (
        Operation("global_absmax", "global_absmax = max(tensor_absmax, absmax)"),
        levels[0],
        Operation("scale_in_global", "scale_code = where(global_absmax == 0, 0, scale * global_inverse)"),
        _rounded_scale(fmt, 0.0, "scale_code", "scale_code"),
        *levels[1:],
    )


def _scale_in_global_inverse(fmt: NumberFormat, reach: float, floor: float) -> Operations:
    """Return the operations that scale by the inverse of the tensor's scale.

    `reach` is the largest product of a scale and a value.
    """
    return (
        Operation("global_inverse", f"global_inverse = (1 / tensor_absmax) * {number_code(reach)}"),
        _INVERSE_OF_ZEROS,
        Operation(
            "scale_in_global",
            "scale_code = global_inverse * scale",
            # A tensor of one number takes the dtype of a larger one, but it is float32 in the engine too.
            lambda v: (
                v["global_inverse"]
                * v["scale"].to(torch.promote_types(v["global_inverse"].dtype, v["scale"].dtype))
            ),
        ),
        _rounded_scale(fmt, 0.0, "scale_code", "scale_code"),
        silent("scale_floor", f"scale_code = where(scale_code == 0, {floor!r}, scale_code)"),
        Operation("scale_two_levels", "scale = scale_code / global_inverse"),
    )


#: The inverse of the global scale is float32, and so are later results.
_INVERSE_OF_ZEROS = silent(
    "global_inverse_of_zeros",
    "global_inverse = where(isinf(global_inverse), 1, global_inverse)",
    lambda v: torch.where(torch.isinf(v["global_inverse"]), 1, v["global_inverse"]).to(torch.float32),
)


def _scale_in_both(fmt: NumberFormat, reach: float, floor: float) -> Operations:
    """Return the operations that compute the tensor's scale and its inverse each by itself, in float32.

    The scale of a block is multiplied by the inverse.
    """
    words = number_code(reach)
    return (
        *(cast("in_single", name, torch.float32) for name in ("tensor_absmax", "scale")),
        Operation("global_scale", f"global_scale = tensor_absmax / {words}"),
        Operation(
            "global_inverse",
            f"global_inverse = {words} / tensor_absmax",
            # One number a block, as all that codes are made with.
            lambda v: torch.full_like(v["scale"], reach) / v["tensor_absmax"],
        ),
        _INVERSE_OF_ZEROS,
        Operation("scale_in_global", "scale_code = scale * global_inverse"),
        _rounded_scale(fmt, floor, "scale_code", "scale_code"),
        Operation("scale_two_levels", "scale = global_scale * scale_code"),
    )


def _zero_point_format(convention: Convention) -> Operations:
    if convention.zero_point_format is None:
        return ()
    fmt = FORMATS[convention.zero_point_format]
    return (
        Operation("code_zero_point", "code_zero_point = zero_point"),
        Operation(
            "zero_point_format",
            f"zero_point = {fmt.id}(zero_point)",
            lambda v: round_to_format(v["zero_point"], fmt),
        ),
    )
