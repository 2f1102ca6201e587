"""Scale and zero point of each block: from its range, or set by hand."""

from __future__ import annotations

import dataclasses
import functools
import math
from types import MappingProxyType
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.public_calls import check_fields
from quantviz.quantization.code_to_value import block_names
from quantviz.quantization.operations import SCHEMES_KEPT, NamedTensors, Operation, Operations, run_operations
from quantviz.quantization.range_ends import extent_operations
from quantviz.quantization.result import QParams, block_values
from quantviz.quantization.scale_rules import scale_operations
from quantviz.quantization.stored_scale import store_operations
from quantviz.quantization.zero_points import zero_point_operations
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.calibration import FLOAT32_EXACT_INTEGER, FLOAT32_MAX, Range
from quantviz.schemes.granularity import BlockLayout
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks
from quantviz.tensors.conversion import as_plain, torch_dtype


@functools.lru_cache(maxsize=SCHEMES_KEPT)
def range_operations(scheme: Scheme) -> Operations:
    """Return the operations from `lo`, `hi` and `extreme` of each block to `scale` and `zero_point`, before
    they are stored; only those that lead to a value in use, so that an explanation shows no other line.
    """
    operations = (*extent_operations(scheme), *scale_operations(scheme), *zero_point_operations(scheme))
    stored = (operation.reads for operation in store_operations(scheme))
    wanted = {"scale", "zero_point"}.union(block_names(scheme), *stored)
    needed: list[Operation] = []
    for operation in reversed(operations):
        if operation.name in wanted:
            wanted = (wanted - {operation.name}) | operation.reads
            needed.append(operation)
    return tuple(reversed(needed))


def largest_magnitude(x: torch.Tensor) -> torch.Tensor:
    """Return the largest finite |x|; 0 if none is finite. NaN and Inf are in `x` only where they are left
    out.
    """
    largest = x.abs().max()
    return largest if bool(torch.isfinite(largest)) else x.abs().nan_to_num(0.0, 0.0).max()


def range_values(ranges: Range, absmax: torch.Tensor, layout: BlockLayout) -> NamedTensors:
    return {"lo": ranges.lo, "hi": ranges.hi, "extreme": ranges.extreme, **tensor_values(absmax, layout)}


def tensor_values(absmax: torch.Tensor, layout: BlockLayout) -> NamedTensors:
    """Return `tensor_absmax`, and `short`, 1 for each block with fewer elements and 0 for others; float32."""
    short = (
        blocks.block_sizes(layout) < layout.block_size
        if layout.tail == "short"
        else torch.zeros(layout.grid_shape)
    )
    return {"tensor_absmax": absmax, "short": short.to(torch.float32)}


def params_to_try(
    ranges: Range, absmax: torch.Tensor, scheme: Scheme, layout: BlockLayout, of: torch.Tensor | None = None
) -> tuple[QParams, torch.Tensor]:
    """Return scale and zero point of ranges, and whether each would be refused (bool of their shape).

    The ranges and `of` are as in `calibration.Trial`.
    """
    values = range_values(ranges, absmax, layout)
    if of is not None:
        values = {**values, **{name: values[name].flatten()[of] for name in ("extreme", "short")}}
    params = _params_of(values, scheme)
    refused = _width(ranges, scheme) > FLOAT32_MAX
    return params, refused | (
        params.zero_point.abs() > FLOAT32_EXACT_INTEGER
    ) if scheme.zero_domain == "code_int" else refused


#: Rounding to float32 on the way moves an end by less than this share of it.
_SHARE = 2.0**-20


def reach(params: QParams, scheme: Scheme) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the ends of an interval that contains x̂ in each block; None if scale and zero point do not give
    one.

    The interval of a narrower range around the same 0 lies inside that of a wider one, but for one step by
    which the zero point is rounded.
    """
    convention = scheme.arithmetic
    rounded = {convention.value_dtype, convention.result_dtype, convention.input_dtype}
    if (
        scheme.number_format.kind != "integer"
        or not rounded.isdisjoint(HALVES)
        or convention.overflow != "saturate"
        or convention.value_order != "subtract_multiply"
        or scheme.zero_domain not in ("none", "code_int")
    ):
        return None
    scale = params.scale.to(torch.float64)
    zero = params.zero_point.to(torch.float64)
    if scheme.zero_domain == "none":
        zero = torch.zeros_like(zero)
    first, last = (scale * (code - zero) for code in (scheme.code_min, scheme.code_max))
    step = scale.abs() if scheme.mode == "asymmetric" else 0.0
    # Some engines' scales are negative.
    low = torch.minimum(first, last)
    high = torch.maximum(first, last)
    return low - _SHARE * low.abs() - step, high + _SHARE * high.abs() + step


def qparams_of_range(
    calibrated: Range | QParams,
    absmax: torch.Tensor,
    scheme: Scheme,
    layout: BlockLayout,
    strict: bool = False,
) -> QParams:
    """Return scale and zero point of each block, as they are stored, by its clipping range or those
    `calibrated`.

    `absmax` is the tensor's `largest_magnitude`. Raises `QuantVizError` as `quantize` does.
    """
    if not isinstance(calibrated, Range):
        # Searched scales are already in the engine's stored form, infinite ones included.
        return calibrated if scheme.search else stored_qparams(calibrated, absmax, scheme, layout, strict)
    if not strict:
        _refuse_too_wide(calibrated, scheme)
    params = _params_of(range_values(calibrated, absmax, layout), scheme)
    if (
        not strict
        and scheme.zero_domain == "code_int"
        and bool((params.zero_point.abs() > FLOAT32_EXACT_INTEGER).any())
    ):
        raise QuantVizError(
            "zero_point_too_large", got=params.zero_point.abs().max().item(), largest=FLOAT32_EXACT_INTEGER
        )
    return params


def stored_qparams(
    params: QParams, absmax: torch.Tensor, scheme: Scheme, layout: BlockLayout, strict: bool = False
) -> QParams:
    """Return scale and zero point set by hand, as the convention stores them.

    Those that are stored already stay as they are; under `strict` they may be infinite or NaN. Raises
    `QuantVizError` if they are not numbers, or too many or too few.
    """
    refuse_other_than_qparams(params)
    given = given_qparams(
        params.scale,
        params.zero_point,
        scheme,
        layout,
        chosen=params.stored,
        stored=params.stored,
        any_number=strict and params.stored,
    )
    computed = _qparams(
        run_operations(
            store_operations(scheme, given=True), {**block_values(given), **tensor_values(absmax, layout)}
        ),
        scheme,
    )
    others = MappingProxyType(
        {name: params.others.get(name, value) for name, value in computed.others.items()}
    )
    if not params.stored:
        return dataclasses.replace(computed, others=others)
    return dataclasses.replace(
        computed,
        scale=given.scale,
        zero_point=given.zero_point,
        scale_codes=computed.scale_codes if params.scale_codes is None else params.scale_codes,
        global_scale=computed.global_scale if params.global_scale is None else params.global_scale,
        others=others,
        zero_point_codes=params.zero_point_codes,
        global_zero_point=params.global_zero_point,
    )


def _params_of(values: NamedTensors, scheme: Scheme) -> QParams:
    return _qparams(run_operations((*range_operations(scheme), *store_operations(scheme)), values), scheme)


def _qparams(values: NamedTensors, scheme: Scheme) -> QParams:
    domain = scheme.zero_domain
    zero_point = values["zero_point"]
    others = {name: values[name] for name in sorted(block_names(scheme) & values.keys())}
    return QParams(
        values["scale"],
        _stored_zero(zero_point, domain),
        scale_codes=_kept(values.get("scale_code")),
        global_scale=_kept(values.get("global_scale", values.get("global_inverse"))),
        zero_domain=domain,
        others=MappingProxyType(others),
        stored=True,
    )


def _kept(values: torch.Tensor | None) -> torch.Tensor | None:
    halves = (torch.float16, torch.bfloat16)
    return values.to(torch.float32) if values is not None and values.dtype in halves else values


def given_qparams(
    scale: Any,
    zero_point: Any,
    scheme: Scheme,
    layout: BlockLayout,
    *,
    chosen: bool = False,
    stored: bool = False,
    any_number: bool = False,
) -> QParams:
    """Return scale and zero point set by hand, checked and in the shape of the grid.

    Scales `chosen` by an engine can be negative, or 0, and with `any_number` infinite or NaN; others are
    above 0, unless the convention itself makes negative ones. In symmetric mode a zero point of 0 is the
    scheme's, unless it was `stored` so.
    """
    scales = _numbers(scale)
    zeros = _numbers(zero_point)
    grid_scale = blocks.to_grid(scales, layout)
    grid_zero = blocks.to_grid(zeros, layout)
    if grid_scale is None or grid_zero is None:
        counts = f"{scales.numel()} / {zeros.numel()}"
        raise QuantVizError("qparams_count", got=counts, blocks=layout.block_count, grid=layout.grid_shape)
    if not any_number:
        _refuse_scales(grid_scale, scheme, chosen)
        _refuse_zero_points(grid_zero, scheme)
    convention = scheme.arithmetic
    dtype = convention.scale_dtype if scheme.granularity.single else convention.block_scale_dtype
    zero_points = _of_mode(grid_zero, grid_scale, scheme, chosen=chosen, stored=stored)
    return QParams(
        grid_scale.to(torch_dtype(dtype)),
        _stored_zero(zero_points.to(torch.float32), scheme.zero_domain),
        zero_domain=scheme.zero_domain,
    )


def _refuse_scales(scales: torch.Tensor, scheme: Scheme, chosen: bool) -> None:
    """Refuse scales that are not finite, or not above 0 unless engine or convention makes them so."""
    single = scales.to(torch.float32)
    usable = single.abs() < math.inf
    if not chosen:
        usable &= (single > 0) | (scheme.signed_scale & (single < 0))
    if not bool(usable.all()):
        bad = scales[~usable][0].item()
        negative = -math.inf < bad < 0 and not scheme.signed_scale
        raise QuantVizError("scale_negative" if negative else "scale_not_positive", got=bad)


def _refuse_zero_points(zeros: torch.Tensor, scheme: Scheme) -> None:
    """Refuse zero points that are not codes; where they are values, those that are not finite."""
    if scheme.zero_domain in ("none", "code_int"):
        # `torch.round` shares a few thousand numbers out among threads, who then wait for each other.
        usable = (zeros.to(torch.int64) == zeros) & (zeros.abs() <= FLOAT32_EXACT_INTEGER)
    else:
        usable = torch.isfinite(zeros.to(torch.float32))
    if not bool(usable.all()):
        bad = zeros[~usable][0].item()
        raise QuantVizError("zero_point_not_integer", got=bad, largest=FLOAT32_EXACT_INTEGER)


def _of_mode(
    zeros: torch.Tensor, scales: torch.Tensor, scheme: Scheme, *, chosen: bool, stored: bool
) -> torch.Tensor:
    """Return zero points with 0 replaced by the mode's own, unless an engine computed it as one."""
    if scheme.from_lower_end:
        # A zero point of 0 means as many steps below 0 as above.
        return zeros if chosen else torch.where(zeros == 0, -scales * scheme.steps_below, zeros)
    if scheme.mode != "symmetric":
        return zeros
    middle = scheme.symmetric_zero_point
    if scheme.zero_point_follows:
        low = scheme.code_min
        high = scheme.code_max
        other = (zeros != 0) & ((zeros < low) | (zeros > high))
        if bool(other.any()):
            got = zeros[other][0].item()
            raise QuantVizError("zero_point_beyond_codes", got=got, smallest=low, largest=high)
        # 0 means the middle, unless an engine computed it as the zero point of a positive range.
        return zeros if chosen else torch.where(zeros == 0, middle, zeros)
    other = (zeros != 0) & (zeros != middle)
    if bool(other.any()):
        raise QuantVizError("zero_point_in_symmetric", got=zeros[other][0].item())
    return zeros if stored else torch.full_like(zeros, middle)


def _stored_zero(zero_point: torch.Tensor, domain: str) -> torch.Tensor:
    """Return a zero point in its domain's dtype; one beyond int32 (only by `strict`) stays a float."""
    whole = domain in ("none", "code_int") and bool((zero_point.abs() < 2**31).all())
    if whole:
        return zero_point.to(torch.int32)
    return zero_point


def _numbers(value: Any) -> torch.Tensor:
    try:
        if isinstance(value, list | tuple | int | float):
            return torch.tensor(value, dtype=torch.float64)
        return as_plain(value).to(torch.float64)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        raise QuantVizError("qparams_not_numbers", got=type(value).__name__) from None


def refuse_other_than_qparams(qparams: object) -> None:
    if not isinstance(qparams, QParams):
        raise QuantVizError("qparams_wanted", got=type(qparams).__name__)
    check_fields(qparams)


def _refuse_too_wide(ranges: Range, scheme: Scheme) -> None:
    # Most ranges are nowhere near the limit: the largest magnitude of each end shows that.
    if all(float(end.abs().max()) <= FLOAT32_MAX / 2 for end in (ranges.lo, ranges.hi)):
        return
    width = _width(ranges, scheme)
    if bool((width > FLOAT32_MAX).any()):
        raise QuantVizError("range_beyond_float32", width=width.max().item(), largest=FLOAT32_MAX)


def _width(ranges: Range, scheme: Scheme) -> torch.Tensor:
    lo = ranges.lo.to(torch.float64)
    hi = ranges.hi.to(torch.float64)
    if scheme.mode == "symmetric":
        return 2 * torch.maximum(lo.abs(), hi.abs())
    return hi - lo
