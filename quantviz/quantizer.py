"""The reference: choose scale and zero point, quantize, dequantize.

The arithmetic is a list of operations, each one line of Python that can be shown. `quantize` runs
them on whole tensors and `explain` runs the same ones on one cell, so that what is explained is
what was done. A convention, a mode and a number format select operations; no operation asks which
engine it serves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from quantviz import blocks
from quantviz.calibration import FLOAT32_EXACT_INTEGER, FLOAT32_MAX, FLOAT32_TINY, External, Given, Range
from quantviz.errors import Note, QuantVizError
from quantviz.formats import NumberFormat
from quantviz.granularity import BlockLayout, Shape
from quantviz.scheme import Scheme
from quantviz.tensors import as_input, dtype_name


@dataclass(frozen=True, eq=False)
class QParams:
    """Scale and zero point, one per block.

    Made by hand, both may be numbers, nested lists or tensors: one for all blocks or one a block.
    """

    #: Effective scale of each block, of the layout's `grid_shape`.
    scale: Any
    #: The code (or shift) that stands for 0, of the same shape.
    zero_point: Any = 0
    #: The scale's own codes, where the scale is itself quantized.
    scale_codes: Any = None
    #: The second-level scale, where there is one.
    global_scale: Any = None
    #: What the zero point is: "none", "code_int", "code_float" or "value".
    zero_domain: str = "code_int"


@dataclass(frozen=True, eq=False)
class QuantResult:
    """A quantized tensor and everything that was computed on the way.

    `x`, `q`, `x_hat`, `error` and `clipped` have the input's shape; `qparams` has `layout.grid_shape`.
    """

    scheme: Scheme
    qparams: QParams
    #: The input as float32.
    x: torch.Tensor
    #: Codes: int8, uint8, int16 or int32, one an element.
    q: torch.Tensor
    #: Dequantized values, float32.
    x_hat: torch.Tensor
    #: x_hat - x.
    error: torch.Tensor
    #: Where saturation changed the code.
    clipped: torch.Tensor
    #: Which elements share a scale.
    layout: BlockLayout
    #: Each block's clipping range; none where scale and zero point were given.
    range: Range | None
    #: What a person should know of the way here.
    notes: tuple[Note, ...] = ()

    @property
    def shape(self) -> Shape:
        """The input's shape."""
        return tuple(self.x.shape)

    def scale_of_cells(self) -> torch.Tensor:
        """The scale of each element in the dtype it is applied in, broadcastable to `shape`."""
        return blocks.expand(self.qparams.scale.to(torch.float32), self.layout, self.shape)

    def step_of_cells(self) -> torch.Tensor:
        """The step of each element: its scale times the gap between its two grid neighbours."""
        return self.scale_of_cells() * GRIDS[self.scheme.number_format.kind].gap(self.q, self.scheme.number_format)


def part(r: QuantResult, index: tuple[slice | int, ...]) -> QuantResult:
    """The same result seen on a part of the tensor: every cell keeps the scale it had.

    >>> r = quantize([[1.0, 2.0], [3.0, 40.0]], Scheme("int4"))
    >>> part(r, (0, slice(None))).x_hat.tolist() == r.x_hat[0].tolist()
    True
    """
    scale, zero_point = (blocks.expand(grid, r.layout, r.shape).expand(r.shape)[index] for grid in (r.qparams.scale, r.qparams.zero_point))
    shape = tuple(scale.shape)
    layout = BlockLayout(shape, (1,) * len(shape), shape)
    params = QParams(scale, zero_point, zero_domain=r.qparams.zero_domain)
    return QuantResult(r.scheme, params, r.x[index], r.q[index], r.x_hat[index], r.error[index], r.clipped[index], layout, None, r.notes)


# ---- grids: what rounding means for a kind of number format -------------------------------------


@dataclass(frozen=True)
class Grid:
    """The arithmetic of one kind of number format: a format kind is added here."""

    #: Nearest value of the unbounded grid, by the rule for ties.
    nearest: Callable[[torch.Tensor, NumberFormat, str], torch.Tensor]
    #: Values to codes.
    encode: Callable[[torch.Tensor, NumberFormat], torch.Tensor]
    #: Codes to values, float32.
    decode: Callable[[torch.Tensor, NumberFormat], torch.Tensor]
    #: Distance between the grid neighbours around a code, in units of the scale.
    gap: Callable[[torch.Tensor, NumberFormat], torch.Tensor]


_TIES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = MappingProxyType({"even": torch.round})

GRIDS: Mapping[str, Grid] = MappingProxyType(
    {
        "integer": Grid(
            nearest=lambda y, fmt, ties: _TIES[ties](y),
            encode=lambda value, fmt: value.to(getattr(torch, fmt.code_dtype)),
            decode=lambda code, fmt: code.to(torch.float32),
            gap=lambda code, fmt: torch.ones((), dtype=torch.float32),
        )
    }
)


# ---- operations ---------------------------------------------------------------------------------

#: The values an operation reads: tensors that broadcast, by name.
Values = dict[str, torch.Tensor]
#: Called with each operation that was run, the values it read and what it gave.
Trace = Callable[["Operation", Values, torch.Tensor], None]


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
        """The value it gives."""
        return self.line.partition(" = ")[0]


def run_operations(operations: tuple[Operation, ...], values: Values, trace: Trace | None = None) -> Values:
    """`values` after each operation has added, or replaced, its own."""
    for operation in operations:
        given = operation.run(values)
        if trace:
            trace(operation, values, given)
        values = {**values, operation.name: given}
    return values


def range_operations(scheme: Scheme, layout: BlockLayout) -> tuple[Operation, ...]:
    """From `lo` and `hi` of each block to `scale` and `zero_point`."""
    convention, low, high = scheme.arithmetic, scheme.code_min, scheme.code_max
    floor = max(convention.scale.floor, FLOAT32_TINY)
    kept = _float_dtype(convention.scale_dtype if layout.block_count == 1 else convention.block_scale_dtype)
    to_zero = (
        Operation("zero_in_range", "lo = min(lo, 0)", lambda v: v["lo"].clamp(max=0), silent=True),
        Operation("zero_in_range", "hi = max(hi, 0)", lambda v: v["hi"].clamp(min=0), silent=True),
    )
    return (
        *(to_zero if convention.zero_in_range else ()),
        *(_WIDTHS[scheme.mode]),
        *_scale_operations(low, high, scheme.mode),
        # An underflow must not divide by 0: without a floor of its own a convention gets the smallest float32.
        Operation("scale_floor", f"scale = max(scale, {floor!r})", lambda v: v["scale"].clamp(min=floor), silent=True),
        _scale_of_zeros("absmax" if scheme.mode == "symmetric" else "width"),
        *_zero_point_operations(low, high, scheme.mode, convention.zero_point_clamp),
        Operation("keep_scale", f"scale = {dtype_name(kept)}(scale)", lambda v: v["scale"].to(kept), silent=True),
    )


_WIDTHS: Mapping[str, tuple[Operation, ...]] = MappingProxyType(
    {
        "symmetric": (Operation("absmax", "absmax = max(abs(lo), abs(hi))", lambda v: torch.maximum(v["lo"].abs(), v["hi"].abs())),),
        "asymmetric": (
            Operation("width", "width = hi - lo", lambda v: v["hi"] - v["lo"]),
            # A block of equal values has no width of its own: it is widened to 0.
            Operation(
                "zero_width", "lo = where(width == 0, min(lo, 0), lo)", lambda v: torch.where(v["width"] == 0, v["lo"].clamp(max=0), v["lo"]), silent=True
            ),
            Operation(
                "zero_width", "hi = where(width == 0, max(hi, 0), hi)", lambda v: torch.where(v["width"] == 0, v["hi"].clamp(min=0), v["hi"]), silent=True
            ),
            Operation("zero_width", "width = hi - lo", lambda v: v["hi"] - v["lo"], silent=True),
        ),
    }
)


def _scale_operations(low: int, high: int, mode: str) -> tuple[Operation, ...]:
    if mode == "symmetric":
        return (Operation("scale_symmetric", f"scale = absmax / {high}", lambda v: v["absmax"] / high),)
    return (Operation("scale_asymmetric", f"scale = width / ({high} - {low})", lambda v: v["width"] / (high - low)),)


def _scale_of_zeros(extent: str) -> Operation:
    return Operation("scale_of_zeros", f"scale = where({extent} == 0, 1, scale)", lambda v: torch.where(v[extent] == 0, 1, v["scale"]), silent=True)


def _zero_point_operations(low: int, high: int, mode: str, clamped: bool) -> tuple[Operation, ...]:
    if mode == "symmetric":
        return (Operation("zero_point_symmetric", "zero_point = 0", lambda v: torch.zeros_like(v["scale"])),)
    shift = Operation("zero_point", f"zero_point = round({low} - lo / scale)", lambda v: torch.round(low - v["lo"] / v["scale"]))
    clamp = Operation("zero_point_clamp", f"zero_point = clamp(zero_point, {low}, {high})", lambda v: v["zero_point"].clamp(low, high), silent=True)
    return (shift, clamp) if clamped else (shift,)


def code_operations(scheme: Scheme) -> tuple[Operation, ...]:
    """From `x`, `scale` and `zero_point` of each element to `y`, the rounded code, and `q`, the clamped one."""
    fmt, ties = scheme.number_format, scheme.arithmetic.ties
    low, high, grid = scheme.code_min, scheme.code_max, GRIDS[fmt.kind]
    apply = _float_dtype(scheme.arithmetic.apply_dtype)
    shift = Operation("shift", "y = y + zero_point", lambda v: v["y"] + v["zero_point"].to(apply))
    return (
        # Cast before dividing: a float64 scale would promote the division and change codes.
        Operation("apply_scale", f"scale = {dtype_name(apply)}(scale)", lambda v: v["scale"].to(apply), silent=True),
        Operation("divide", "y = x / scale", lambda v: v["x"] / v["scale"]),
        *((shift,) if scheme.mode == "asymmetric" else ()),
        Operation("round", "y = round(y)", lambda v: grid.nearest(v["y"], fmt, ties)),
        Operation("clamp", f"q = clamp(y, {low}, {high})", lambda v: v["y"].clamp(low, high)),
    )


def value_operations(scheme: Scheme) -> tuple[Operation, ...]:
    """From `q`, `scale` and `zero_point` of each element to `x_hat`."""
    apply = _float_dtype(scheme.arithmetic.apply_dtype)
    to_apply = Operation("apply_scale", f"scale = {dtype_name(apply)}(scale)", lambda v: v["scale"].to(apply), silent=True)
    if scheme.mode == "symmetric":
        return (to_apply, Operation("multiply", "x_hat = scale * q", lambda v: v["scale"] * v["q"]))
    return (
        to_apply,
        Operation("subtract", "y = q - zero_point", lambda v: v["q"] - v["zero_point"].to(apply)),
        Operation("multiply", "x_hat = scale * y", lambda v: v["scale"] * v["y"]),
    )


def error_operations() -> tuple[Operation, ...]:
    """From `x_hat` and `x` to `error`."""
    return (Operation("error", "error = x_hat - x", lambda v: v["x_hat"] - v["x"]),)


def _float_dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


# ---- the three verbs ----------------------------------------------------------------------------


def choose_qparams(x: Any, scheme: Scheme) -> QParams:
    """Scale and zero point of each block of `x`, by the scheme's calibration and convention.

    `x` is a real tensor or nested list of 1 to 4 axes. Raises `QuantVizError` as `quantize` does.

    >>> params = choose_qparams([[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]], Scheme("int8", "asymmetric"))
    >>> params.scale.item(), params.zero_point.item()
    (3.578823433670343, -77)
    """
    tensor, _ = as_input(x)
    _raise_first(scheme, tuple(tensor.shape))
    return _choose(tensor, scheme, scheme.granularity.layout(tuple(tensor.shape)))[0]


def quantize(x: Any, scheme: Scheme, *, qparams: QParams | None = None, strict: bool = False) -> QuantResult:
    """Quantize and dequantize `x`: codes, values and error of every element.

    `x` is a real tensor or nested list of 1 to 4 axes. `qparams` gives scale and zero point, one for
    all blocks or one a block, in place of the scheme's calibration. `strict` returns what the
    arithmetic gives where it would be refused: a range wider than float32, an infinite value.
    Raises `QuantVizError` for input that cannot be quantized and schemes that do not fit its shape.

    Source notebook 000, cell 61:

    >>> x = [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]]
    >>> quantize(x, Scheme("int8", "asymmetric")).q.tolist()
    [[-23, -81, 127], [-51, 6, -128], [-77, 114, -8]]
    """
    tensor, notes = as_input(x)
    shape = tuple(tensor.shape)
    _raise_first(scheme, shape)
    layout = scheme.granularity.layout(shape)
    if qparams is not None:
        scheme = scheme.replace(calibration=External())
        params, found = _given(qparams.scale, qparams.zero_point, scheme, layout), None
    else:
        params, found = _choose(tensor, scheme, layout, strict)
    fmt = scheme.number_format
    of_cells = {
        "scale": blocks.expand(params.scale, layout, shape),
        "zero_point": blocks.expand(params.zero_point, layout, shape),
    }
    coded = run_operations(code_operations(scheme), {"x": tensor, **of_cells})
    q = GRIDS[fmt.kind].encode(coded["q"], fmt)
    x_hat = _dequantize(q, scheme, of_cells)
    error = run_operations(error_operations(), {"x": tensor, "x_hat": x_hat})["error"]
    if not strict:
        _refuse_infinite(x_hat, error, scheme, layout)
    if scheme.mode == "symmetric" and not fmt.signed and bool((tensor < 0).any()):
        notes = (*notes, Note.of("negatives_clip", count=int((tensor < 0).sum())))
    return QuantResult(scheme, params, tensor, q, x_hat, error, coded["y"] != coded["q"], layout, found, notes)


def dequantize(q: torch.Tensor, scheme: Scheme, qparams: QParams) -> torch.Tensor:
    """The values that codes stand for: float32 of the shape of `q`.

    >>> dequantize(torch.tensor([-15, 127]), Scheme("int8", "asymmetric"), QParams(3.5, -70)).tolist()
    [192.5, 689.5]
    """
    shape = tuple(q.shape)
    _raise_first(scheme, shape)
    layout = scheme.granularity.layout(shape)
    params = _given(qparams.scale, qparams.zero_point, scheme, layout)
    of_cells = {name: blocks.expand(getattr(params, name), layout, shape) for name in ("scale", "zero_point")}
    return _dequantize(q, scheme, of_cells)


def _dequantize(q: torch.Tensor, scheme: Scheme, of_cells: Values) -> torch.Tensor:
    fmt = scheme.number_format
    values = {"q": GRIDS[fmt.kind].decode(q, fmt), **of_cells}
    return run_operations(value_operations(scheme), values)["x_hat"]


def _choose(x: torch.Tensor, scheme: Scheme, layout: BlockLayout, strict: bool = False) -> tuple[QParams, Range | None]:
    if isinstance(scheme.calibration, Given):
        return _given(scheme.calibration.scale, scheme.calibration.zero_point, scheme, layout), None
    found = scheme.calibration.range(blocks.Blocks(x, layout, _float_dtype(scheme.arithmetic.scale_math)), scheme.mode)
    if found is None:
        raise QuantVizError("external_without_qparams")
    if not strict:
        _refuse_too_wide(found, scheme)
    values = run_operations(range_operations(scheme, layout), {"lo": found.lo, "hi": found.hi})
    zero_point = values["zero_point"]
    if not strict and bool((zero_point.abs() > FLOAT32_EXACT_INTEGER).any()):
        raise QuantVizError("zero_point_too_large", got=zero_point.abs().max().item(), largest=FLOAT32_EXACT_INTEGER)
    domain = "none" if scheme.mode == "symmetric" else "code_int"
    return QParams(values["scale"], zero_point.to(torch.int32), zero_domain=domain), found


def _given(scale: Any, zero_point: Any, scheme: Scheme, layout: BlockLayout) -> QParams:
    """Scale and zero point set by hand, checked and brought to the grid."""
    convention = scheme.arithmetic
    kept = convention.scale_dtype if layout.block_count == 1 else convention.block_scale_dtype
    scales, zeros = _numbers(scale), _numbers(zero_point)
    grid_scale, grid_zero = blocks.to_grid(scales, layout), blocks.to_grid(zeros, layout)
    if grid_scale is None or grid_zero is None:
        counts = f"{scales.numel()} / {zeros.numel()}"
        raise QuantVizError("qparams_count", got=counts, blocks=layout.block_count, grid=layout.grid_shape)
    single = grid_scale.to(torch.float32)
    if not bool(((single > 0) & torch.isfinite(single)).all()):
        bad = grid_scale[~((single > 0) & torch.isfinite(single))]
        raise QuantVizError("scale_not_positive", got=bad[0].item())
    whole = (grid_zero == torch.round(grid_zero)) & (grid_zero.abs() <= FLOAT32_EXACT_INTEGER)
    if not bool(whole.all()):
        raise QuantVizError("zero_point_not_integer", got=grid_zero[~whole][0].item(), largest=FLOAT32_EXACT_INTEGER)
    if scheme.mode == "symmetric" and bool((grid_zero != 0).any()):
        raise QuantVizError("zero_point_in_symmetric", got=grid_zero[grid_zero != 0][0].item())
    domain = "none" if scheme.mode == "symmetric" else "code_int"
    return QParams(grid_scale.to(_float_dtype(kept)), grid_zero.to(torch.int32), zero_domain=domain)


def _numbers(value: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(value).detach().cpu().to(torch.float64) if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)
    except (ValueError, TypeError, RuntimeError):
        raise QuantVizError("qparams_not_numbers", got=type(value).__name__) from None


def _raise_first(scheme: Scheme, shape: Shape) -> None:
    for problem in scheme.problems(shape):
        raise problem


def _refuse_too_wide(found: Range, scheme: Scheme) -> None:
    lo, hi = found.lo.to(torch.float64), found.hi.to(torch.float64)
    width = 2 * torch.maximum(lo.abs(), hi.abs()) if scheme.mode == "symmetric" else hi - lo
    if bool((width > FLOAT32_MAX).any()):
        raise QuantVizError("range_beyond_float32", width=width.max().item(), largest=FLOAT32_MAX)


def _refuse_infinite(x_hat: torch.Tensor, error: torch.Tensor, scheme: Scheme, layout: BlockLayout) -> None:
    finite = torch.isfinite(x_hat) & torch.isfinite(error)
    if not bool(finite.all()):
        first = tuple(int(i) for i in torch.nonzero(~finite)[0])
        raise QuantVizError("value_beyond_float32", convention=str(scheme.arithmetic), value=x_hat[first].item(), index=first, block=layout.block_of(first))
