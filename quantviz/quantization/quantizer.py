"""The reference: choose scale and zero point, quantize, dequantize.

The steps themselves are the operations of `arithmetic.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.pickling import Picklable
from quantviz.quantization.grids import GRIDS, local_step
from quantviz.quantization.operations import (
    Values,
    block_names,
    code_operations,
    error_operations,
    given_operations,
    range_operations,
    run_operations,
    store_operations,
    value_operations,
)
from quantviz.quantization.range_search import least_error
from quantviz.schemes.calibration import (
    FLOAT32_EXACT_INTEGER,
    FLOAT32_MAX,
    BlockValues,
    Context,
    External,
    ModeContext,
    Range,
    Trial,
)
from quantviz.schemes.granularity import BlockLayout, Shape, Window
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks
from quantviz.tensors.conversion import as_codes, as_input, as_plain, torch_dtype
from quantviz.text.notebook_tables import table

#: The number of the reference's arithmetic, part of the key of every result that is kept from one version to
#: the next. Raise it whenever a code, scale, zero point or value of any scheme changes: a test of recorded
#: codes fails until that is done.
ARITHMETIC = 1


@dataclass(frozen=True, eq=False)
class QParams(Picklable):
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
    #: What the zero point is: "none", "code_int", "code_float", "value" or "value_middle".
    zero_domain: str = "code_int"
    #: What else codes are made with, by its name in the operations: the scale before it was stored, an
    #: inverse.
    others: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    #: Whether an engine has made and stored them, as `choose_qparams` has: they are used as they are, and a
    #: scale may be negative or 0. Others are stored as the convention stores a scale: rounded to its format,
    #: for one.
    stored: bool = False


@dataclass(frozen=True, eq=False)
class QuantResult(Picklable):
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
    #: x_hat - x; NaN in cells that are left out.
    error: torch.Tensor
    #: Where saturation changed the code of a cell that counts.
    clipped: torch.Tensor
    #: Which elements share a scale.
    layout: BlockLayout
    #: Each block's clipping range; none where scale and zero point were given.
    range: Range | None
    #: What a person should know of the way here.
    notes: tuple[Note, ...] = ()
    #: The shape of the tensor that this is a part of, whose blocks it shares; none where it is a whole one.
    whole: Shape | None = None

    @property
    def tensor_shape(self) -> Shape:
        """Return the shape of the whole tensor, of which what it costs to store is told."""
        return self.whole or self.shape

    def __repr__(self) -> str:
        return f"QuantResult({self.scheme!r}, shape={self.shape}, blocks={self.layout.block_count})"

    def _repr_html_(self) -> str:
        scales = self.qparams.scale.to(torch.float64)
        errors = self.error if self.counted is None else self.error[self.counted]
        return table(
            [
                ("scheme", repr(self.scheme)),
                ("shape", self.shape),
                ("blocks", f"{self.layout.block_count} of {self.layout.block_shape}"),
                ("scale", f"{scales.min().item():.6g} … {scales.max().item():.6g}"),
                ("q", f"{self.q.min().item()} … {self.q.max().item()}"),
                ("largest |error|", f"{errors.abs().max().item() if errors.numel() else 0:.6g}"),
                ("clipped", int(self.clipped.sum())),
                *(("note", note) for note in self.notes),
            ]
        )

    @property
    def shape(self) -> Shape:
        """Return the input's shape."""
        return tuple(self.x.shape)

    @cached_property
    def counted(self) -> torch.Tensor | None:
        """Return which cells count, bool of `shape`; none where all of them do: under "ignore" NaN and Inf in
        the input are left out.
        """
        return counted_cells(self.x, self.scheme)

    def scale_of_cells(self) -> torch.Tensor:
        """Return the scale of each element in the dtype it is applied in, broadcastable to `shape`."""
        return blocks.expand(self.qparams.scale.to(torch.float32), self.layout, self.shape)

    def step_of_cells(self) -> torch.Tensor:
        """Return the step of each element: its scale times the gap between its two grid neighbours."""
        return local_step(self.x, self.scale_of_cells(), self.scheme.number_format)


def steps_of_error(r: QuantResult) -> torch.Tensor:
    """Return each element's error in its own steps, float64; inf where a scale of 0 leaves an error, nan
    where the cell is left out.
    """
    error = r.error.to(torch.float64)
    # What a scale of 0 has no error in is no step off: 0 / 0 would be NaN.
    return torch.where(error == 0, error, error / r.step_of_cells().to(torch.float64))


def part(r: QuantResult, index: Window) -> QuantResult:
    """Return the same result seen on a part of the tensor, one number or slice for each axis: every cell
    keeps the scale it had.

    >>> r = quantize([[1.0, 2.0], [3.0, 40.0]], Scheme("int4"))
    >>> part(r, (0, slice(None))).x_hat.tolist() == r.x_hat[0].tolist()
    True
    """
    params, layout = _params_of_cells(r.qparams, r.layout, blocks.flat_indices_of(r.shape, index))
    return QuantResult(
        r.scheme,
        params,
        r.x[index],
        r.q[index],
        r.x_hat[index],
        r.error[index],
        r.clipped[index],
        layout,
        None,
        r.notes,
        r.tensor_shape,
    )


def quantize_part(
    x: torch.Tensor, scheme: Scheme, qparams: QParams, shape: Shape, index: Window
) -> QuantResult:
    """`part` of a tensor of `shape` of which only `x`, the part at `index`, is at hand: `qparams` are those
    of the whole tensor.

    >>> x, scheme = torch.tensor([[1.0, 2.0], [3.0, 40.0]]), Scheme("int4")
    >>> params, index = choose_qparams(x, scheme), (0, slice(0, 2))
    >>> quantize_part(x[index], scheme, params, (2, 2), index).error.tolist() == quantize(x, scheme).error[index].tolist()
    True
    """
    return quantize_cells(x, scheme, qparams, shape, blocks.flat_indices_of(shape, index))


def quantize_cells(
    x: torch.Tensor, scheme: Scheme, qparams: QParams, shape: Shape, places: torch.Tensor
) -> QuantResult:
    """What becomes of some cells of a tensor of `shape`: `x`, and where they lie in its row-major order,
    `places` (int64 of the shape of `x`).

    >>> x, scheme = torch.tensor([[1.0, 2.0], [3.0, 40.0]]), Scheme("int4")
    >>> quantize_cells(torch.tensor([40.0, 2.0]), scheme, choose_qparams(x, scheme), (2, 2), torch.tensor([3, 1])).q.tolist()
    [7, 0]
    """
    params, layout = _params_of_cells(qparams, scheme.layout(shape), places)
    chance = {"index": places} if scheme.arithmetic.ties == "stochastic" else {}
    return QuantResult(
        scheme,
        params,
        x,
        *_quantized(x, scheme, {**block_values(params), **chance}),
        layout,
        None,
        whole=shape,
    )


def errors_of_cells(
    x: torch.Tensor, scheme: Scheme, qparams: QParams, layout: BlockLayout, places: torch.Tensor, offset: int
) -> torch.Tensor:
    """Return the errors of some cells, where `qparams` and `layout` are those of the part of the tensor that
    begins at place `offset`.

    >>> scheme = Scheme("int4")
    >>> errors_of_cells(torch.tensor([0.75]), scheme, QParams(torch.ones(1), torch.zeros(1)), scheme.layout((2,)), torch.tensor([5]), 4).item()
    0.25
    """
    params, _ = _params_of_cells(qparams, layout, places - offset)
    chance = {"index": places} if scheme.arithmetic.ties == "stochastic" else {}
    return _quantized(x, scheme, {**block_values(params), **chance})[2]


def _params_of_cells(
    params: QParams, layout: BlockLayout, places: torch.Tensor
) -> tuple[QParams, BlockLayout]:
    """Scale and zero point of each cell at `places`, which are laid out as blocks of one cell."""
    known = block_values(params)
    if layout.block_count == 1:
        cells = {name: grid.flatten()[0].expand(places.shape) for name, grid in known.items()}
    else:
        ids = blocks.block_numbers(places, layout)
        cells = {name: grid.flatten()[ids] for name, grid in known.items()}
    scale, zero_point = cells.pop("scale"), cells.pop("zero_point")
    seen = tuple(places.shape)
    # What of the tensor is one number only is one number here too.
    return (
        QParams(
            scale,
            zero_point,
            global_scale=params.global_scale,
            zero_domain=params.zero_domain,
            others=MappingProxyType(cells),
            stored=True,
        ),
        BlockLayout(seen, (1,) * len(seen), seen),
    )


def _quantized(
    x: torch.Tensor, scheme: Scheme, cells: Values
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return codes, values, error, and where saturation changed the code, by what is known of each cell."""
    fmt = scheme.number_format
    coded = run_operations(code_operations(scheme), {"x": x, **cells})
    q = GRIDS[fmt.kind].encode(coded["q"], fmt)
    x_hat = _dequantize(q, scheme, cells)
    error = run_operations(error_operations(scheme), {"x": x, "x_hat": x_hat})["error"]
    clipped, counted = coded["y"] != coded["q"], counted_cells(x, scheme)
    return q, x_hat, error, clipped if counted is None else clipped & counted


# ---- the three verbs ----------------------------------------------------------------------------


def choose_qparams(x: Any, scheme: Scheme | str) -> QParams:
    """Scale and zero point of each block of `x`, by the scheme's calibration and convention.

    `x` and `scheme` are as in `quantize`. Raises `QuantVizError` as `quantize` does.

    >>> params = choose_qparams([[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]], Scheme("int8", "asymmetric"))
    >>> params.scale.item(), params.zero_point.item()
    (3.578823433670343, -77)
    """
    scheme = as_scheme(scheme)
    tensor, _ = as_input(x, scheme.nonfinite)
    _raise_first(scheme, tuple(tensor.shape))
    return _choose(tensor, scheme, scheme.layout(tuple(tensor.shape)))[0]


def quantize(
    x: Any, scheme: Scheme | str, *, qparams: QParams | None = None, strict: bool = False
) -> QuantResult:
    """Quantize and dequantize `x`: codes, values and error of every element.

    `x` is a real tensor, nested list or NumPy array of 1 to 4 axes; a NumPy array in which something is
    masked is refused, because there is no value to quantize. `scheme` is a `Scheme`, its text form, or a
    recipe by its id or name, such as "q4_0" or "MXFP4". `qparams` gives scale and zero point, one for all
    blocks or one a block, in place of the scheme's calibration: made by hand, or those of `choose_qparams` or
    of another result, say of calibration data. `strict` returns what the arithmetic gives where it would be
    refused: a range wider than float32, an infinite value. Raises `QuantVizError` for input that cannot be
    quantized and schemes that do not fit its shape.

    Source notebook 000, cell 61:

    >>> x = [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]]
    >>> quantize(x, Scheme("int8", "asymmetric")).q.tolist()
    [[-23, -81, 127], [-51, 6, -128], [-77, 114, -8]]
    >>> gguf = Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed")
    >>> x = torch.linspace(-1, 2, 32)
    >>> torch.equal(quantize(x, gguf, qparams=choose_qparams(x, gguf)).q, quantize(x, gguf).q)
    True
    """
    scheme = as_scheme(scheme)
    tensor, notes = as_input(x, scheme.nonfinite)
    shape = tuple(tensor.shape)
    _raise_first(scheme, shape)
    layout = scheme.layout(shape)
    if qparams is not None:
        scheme = scheme.replace(calibration=External())
        params, found = stored_qparams(qparams, largest_magnitude(tensor), scheme, layout), None
    else:
        params, found = _choose(tensor, scheme, layout, strict)
    return _result_of(tensor, scheme, params, found, notes, strict)


def quantize_in_ranges(x: torch.Tensor, scheme: Scheme, found: Range | QParams) -> QuantResult:
    """Return the same where it is known what the calibration says of each block.

    >>> x, scheme = torch.tensor([1.0, -3.0]), Scheme("int4")
    >>> torch.equal(quantize_in_ranges(x, scheme, quantize(x, scheme).range).q, quantize(x, scheme).q)
    True
    """
    tensor, notes = as_input(x, scheme.nonfinite)
    params = qparams_of_range(found, largest_magnitude(tensor), scheme, scheme.layout(tuple(tensor.shape)))
    return _result_of(tensor, scheme, params, found if isinstance(found, Range) else None, notes)


def _result_of(
    tensor: torch.Tensor,
    scheme: Scheme,
    params: QParams,
    found: Range | None,
    notes: tuple[Note, ...],
    strict: bool = False,
) -> QuantResult:
    shape = tuple(tensor.shape)
    layout = scheme.layout(shape)
    cells = {name: blocks.expand(grid, layout, shape) for name, grid in block_values(params).items()}
    q, x_hat, error, clipped = _quantized(tensor, scheme, {**cell_index(scheme, shape), **cells})
    if not strict:
        _refuse_infinite(tensor, x_hat, error, params, scheme, layout)
    if not scheme.shifted and not scheme.number_format.signed:
        counted = counted_cells(tensor, scheme)
        negative = tensor < 0 if counted is None else (tensor < 0) & counted
        if bool(negative.any()):
            notes = (*notes, Note.of("negatives_clip", count=int(negative.sum())))
    return QuantResult(scheme, params, tensor, q, x_hat, error, clipped, layout, found, notes)


def dequantize(q: Any, scheme: Scheme | str, qparams: QParams) -> torch.Tensor:
    """Return the values that codes stand for: float32 of the shape of `q`.

    `q` are whole numbers, a tensor, nested list or NumPy array of 1 to 4 axes; `scheme` is as in `quantize`.
    Raises `QuantVizError` for a code that the format has not, and where scales do not fit.

    >>> dequantize(torch.tensor([-15, 127]), Scheme("int8", "asymmetric"), QParams(3.5, -70)).tolist()
    [192.5, 689.5]
    """
    scheme = as_scheme(scheme)
    return values_of_codes(as_codes(q, scheme.number_format), scheme, qparams, any_scale=False)


def values_of_codes(
    q: torch.Tensor, scheme: Scheme, qparams: QParams, *, any_scale: bool = True
) -> torch.Tensor:
    """Return the same without looking whether the format has such codes:
    of integers any number has a value; nor, with `any_scale`, whether scales are above 0.

    >>> values_of_codes(torch.tensor([200.0]), Scheme("int8"), QParams(0.5)).tolist()
    [100.0]
    """
    shape = tuple(q.shape)
    _raise_first(scheme, shape)
    layout = scheme.layout(shape)
    _refuse_other(qparams)
    params = _given(qparams.scale, qparams.zero_point, scheme, layout, chosen=any_scale or qparams.stored)
    known = block_values(params)
    known |= run_operations(given_operations(scheme), known) | {
        name: grid for name, grid in qparams.others.items() if name in block_names(scheme)
    }
    return _dequantize(q, scheme, {name: blocks.expand(grid, layout, shape) for name, grid in known.items()})


def _dequantize(q: torch.Tensor, scheme: Scheme, of_cells: Values) -> torch.Tensor:
    fmt = scheme.number_format
    values = {"q": GRIDS[fmt.kind].decode(q, fmt), **of_cells}
    return run_operations(value_operations(scheme), values)["x_hat"]


def block_values(params: QParams) -> Values:
    """What is known of each block, by its name in the operations."""
    return {"scale": params.scale, "zero_point": params.zero_point, **params.others}


def refuse_other_than_results(r: object) -> None:
    """`QuantVizError` for what is no `QuantResult`, where one is needed."""
    if not isinstance(r, QuantResult):
        raise QuantVizError("result_wanted", got=type(r).__name__)


def counted_cells(x: torch.Tensor, scheme: Scheme) -> torch.Tensor | None:
    """Return which cells of `x` count under `scheme`, bool of its shape; none where all of them do.

    >>> counted_cells(torch.tensor([1.0, torch.inf]), Scheme(nonfinite="ignore")).tolist()
    [True, False]
    """
    finite = torch.isfinite(x) if scheme.nonfinite == "ignore" else None
    return None if finite is None or bool(finite.all()) else finite


def range_values(found: Range, absmax: torch.Tensor, layout: BlockLayout) -> Values:
    """What the operations from the range on begin with; `absmax` is the tensor's `largest_magnitude`."""
    return {"lo": found.lo, "hi": found.hi, "extreme": found.extreme, **tensor_values(absmax, layout)}


def cell_index(scheme: Scheme, shape: Shape) -> Values:
    """Return the flat index of each cell, where chance is asked for."""
    return {"index": blocks.flat_indices(shape)} if scheme.arithmetic.ties == "stochastic" else {}


def tensor_values(absmax: torch.Tensor, layout: BlockLayout) -> Values:
    """What is read of the tensor itself: its `largest_magnitude`, and which blocks do not fill up (1, else
    0).
    """
    short = (
        blocks.block_sizes(layout) < layout.block_size
        if layout.tail == "short"
        else torch.zeros(layout.grid_shape)
    )
    return {"tensor_absmax": absmax, "short": short.to(torch.float32)}


def largest_magnitude(x: torch.Tensor) -> torch.Tensor:
    """Return the largest finite |x|; 0 where none is finite. NaN and Inf are in `x` only where they are left
    out.

    >>> largest_magnitude(torch.tensor([-2.0, torch.inf, torch.nan])).item()
    2.0
    """
    largest = x.abs().max()
    return largest if bool(torch.isfinite(largest)) else x.abs().nan_to_num(0.0, 0.0).max()


def _choose(
    x: torch.Tensor, scheme: Scheme, layout: BlockLayout, strict: bool = False
) -> tuple[QParams, Range | None]:
    absmax = largest_magnitude(x)
    of_blocks = blocks.Blocks(x, layout, torch_dtype(scheme.arithmetic.scale_math), counted_cells(x, scheme))
    found = calibrated(
        of_blocks, scheme, one_by_one(lambda found: _error_of(found, x, absmax, scheme, layout))
    )
    return qparams_of_range(found, absmax, scheme, layout, strict), found if isinstance(
        found, Range
    ) else None


def calibrated(of_blocks: BlockValues, scheme: Scheme, trial: Trial) -> Range | QParams:
    """Return what the scheme's calibration says of some blocks; `trial` gives the error that they have with a
    range, see `Context.trial`.
    """
    calibration = scheme.calibration
    # It is not told of the rest of the scheme, so that it cannot depend on it.
    told: object = ModeContext(scheme.mode)
    if not calibration.of_values:
        told = Context(scheme.mode, scheme.number_format, scheme.arithmetic, trial, QParams, least_error)
    return calibration.calibrate(of_blocks, cast("Context", told))


def one_by_one(error_of: Callable[[Range], torch.Tensor]) -> Trial:
    """Return a `Context.trial` that tries a list of ranges one after the other, each time one of every block.

    >>> trial = one_by_one(lambda found: found.hi - found.lo)
    >>> ends = torch.tensor([1.0, 2.0, 3.0])
    >>> trial(Range(-ends, ends, torch.ones(2)), torch.tensor([0, 0, 1])).tolist()
    [2.0, 4.0, 6.0]
    """

    def trial(found: Range, of: torch.Tensor | None = None, /) -> torch.Tensor:
        if of is None:
            return error_of(found)
        counts = of.bincount(minlength=found.extreme.numel())
        turns = torch.arange(len(of)) - (counts.cumsum(0) - counts)[of]
        errors = torch.empty(len(of), dtype=torch.float64)
        # Where a block has no more of them, from its value of largest magnitude to the same below 0.
        widest = found.extreme.abs().flatten()
        for turn in range(int(counts.max())):
            (here,) = (turns == turn).nonzero(as_tuple=True)
            lo, hi = (
                blocks.viewed(end.index_put((of[here],), own[here]), tuple(found.extreme.shape))
                for end, own in ((-widest, found.lo), (widest, found.hi))
            )
            errors[here] = error_of(Range(lo, hi, found.extreme)).flatten()[of[here]].to(torch.float64)
        return errors

    return trial


def params_to_try(
    found: Range, absmax: torch.Tensor, scheme: Scheme, layout: BlockLayout, of: torch.Tensor | None = None
) -> tuple[QParams, torch.Tensor]:
    """Return scale and zero point that ranges give, and which would be refused (bool of their shape); ranges
    and `of` are as in `calibration.Trial`.

    >>> scheme = Scheme("int8")
    >>> ends = torch.tensor([[1.27, 3e38]])
    >>> params_to_try(Range(-ends, ends, ends), torch.tensor(3e38), scheme, scheme.layout((1, 2)))[1].tolist()
    [[False, True]]
    """
    values = range_values(found, absmax, layout)
    if of is not None:
        values = {**values, **{name: values[name].flatten()[of] for name in ("extreme", "short")}}
    params = _params_of(values, scheme)
    refused = _width(found, scheme) > FLOAT32_MAX
    return params, refused | (
        params.zero_point.abs() > FLOAT32_EXACT_INTEGER
    ) if scheme.zero_domain == "code_int" else refused


def _error_of(
    found: Range, x: torch.Tensor, absmax: torch.Tensor, scheme: Scheme, layout: BlockLayout
) -> torch.Tensor:
    """Σ error² of each block with a range; infinite where it would be refused, or is no number."""
    params, refused = params_to_try(found, absmax, scheme, layout)
    shape, counted = tuple(x.shape), counted_cells(x, scheme)
    cells = {name: blocks.expand(grid, layout, shape) for name, grid in block_values(params).items()}
    error = _quantized(x, scheme, {**cell_index(scheme, shape), **cells})[2].to(torch.float64)
    return finite_or_infinite(
        blocks.block_sums((error if counted is None else error.masked_fill(~counted, 0)).square(), layout),
        refused,
    )


def finite_or_infinite(sums: torch.Tensor, refused: torch.Tensor) -> torch.Tensor:
    """Return the sums, infinite where they are no numbers, or refused.

    >>> finite_or_infinite(torch.tensor([1.0, torch.nan, 2.0]), torch.tensor([False, False, True])).tolist()
    [1.0, inf, inf]
    """
    return torch.where(torch.isfinite(sums) & ~refused, sums, math.inf)


def qparams_of_range(
    found: Range | QParams, absmax: torch.Tensor, scheme: Scheme, layout: BlockLayout, strict: bool = False
) -> QParams:
    """Scale and zero point of each block by its clipping range, or those that the calibration gives in place
    of it, as they are stored.

    `absmax` is the tensor's `largest_magnitude`. Raises `QuantVizError` as `quantize` does.
    """
    if not isinstance(found, Range):
        return stored_qparams(found, absmax, scheme, layout)
    if not strict:
        _refuse_too_wide(found, scheme)
    params = _params_of(range_values(found, absmax, layout), scheme)
    if (
        not strict
        and scheme.zero_domain == "code_int"
        and bool((params.zero_point.abs() > FLOAT32_EXACT_INTEGER).any())
    ):
        raise QuantVizError(
            "zero_point_too_large", got=params.zero_point.abs().max().item(), largest=FLOAT32_EXACT_INTEGER
        )
    return params


def _params_of(values: Values, scheme: Scheme) -> QParams:
    return _qparams(run_operations((*range_operations(scheme), *store_operations(scheme)), values), scheme)


def _qparams(values: Values, scheme: Scheme) -> QParams:
    domain = scheme.zero_domain
    zero_point = values["zero_point"]
    others = {name: values[name] for name in sorted(block_names(scheme) & values.keys())}
    return QParams(
        values["scale"],
        # A zero point beyond int32 stays a float: only `strict` gets here with one.
        zero_point.to(torch.int32)
        if domain in ("none", "code_int") and bool((zero_point.abs() < 2**31).all())
        else zero_point,
        scale_codes=values.get("scale_code"),
        global_scale=values.get("global_scale", values.get("global_inverse")),
        zero_domain=domain,
        others=MappingProxyType(others),
        stored=True,
    )


def stored_qparams(params: QParams, absmax: torch.Tensor, scheme: Scheme, layout: BlockLayout) -> QParams:
    """Scale and zero point set by hand, as the convention stores them; those that are stored already as they
    are.

    `absmax` is the tensor's `largest_magnitude`. Raises `QuantVizError` where they are no numbers, too many
    or too few.
    """
    _refuse_other(params)
    given = _given(params.scale, params.zero_point, scheme, layout, chosen=params.stored)
    made = _qparams(
        run_operations(
            store_operations(scheme, given=True), {**block_values(given), **tensor_values(absmax, layout)}
        ),
        scheme,
    )
    if not params.stored:
        return made
    return dataclasses.replace(
        made,
        scale=given.scale,
        zero_point=given.zero_point,
        scale_codes=made.scale_codes if params.scale_codes is None else params.scale_codes,
        global_scale=made.global_scale if params.global_scale is None else params.global_scale,
        others=MappingProxyType({name: params.others.get(name, own) for name, own in made.others.items()}),
    )


def _given(
    scale: Any, zero_point: Any, scheme: Scheme, layout: BlockLayout, *, chosen: bool = False
) -> QParams:
    """Scale and zero point set by hand, checked and brought to the grid; scales `chosen` by an engine can be
    negative, or 0.
    """
    convention = scheme.arithmetic
    kept = convention.scale_dtype if scheme.granularity.single else convention.block_scale_dtype
    scales, zeros = _numbers(scale), _numbers(zero_point)
    grid_scale, grid_zero = blocks.to_grid(scales, layout), blocks.to_grid(zeros, layout)
    if grid_scale is None or grid_zero is None:
        counts = f"{scales.numel()} / {zeros.numel()}"
        raise QuantVizError("qparams_count", got=counts, blocks=layout.block_count, grid=layout.grid_shape)
    single = grid_scale.to(torch.float32)
    usable = torch.isfinite(single) & ((single > 0) | chosen)
    if not bool(usable.all()):
        raise QuantVizError("scale_not_positive", got=grid_scale[~usable][0].item())
    domain = scheme.zero_domain
    whole = (grid_zero == torch.round(grid_zero)) & (grid_zero.abs() <= FLOAT32_EXACT_INTEGER)
    if domain not in ("none", "code_int"):
        whole = torch.isfinite(grid_zero.to(torch.float32))
    if not bool(whole.all()):
        raise QuantVizError(
            "zero_point_not_integer", got=grid_zero[~whole][0].item(), largest=FLOAT32_EXACT_INTEGER
        )
    other = (grid_zero != 0) & (grid_zero != scheme.symmetric_zero_point)
    if scheme.mode == "symmetric" and bool(other.any()):
        raise QuantVizError("zero_point_in_symmetric", got=grid_zero[other][0].item())
    if scheme.mode == "symmetric":
        grid_zero = torch.full_like(grid_zero, scheme.symmetric_zero_point)
    return QParams(
        grid_scale.to(torch_dtype(kept)),
        grid_zero.to(torch.int32 if domain in ("none", "code_int") else torch.float32),
        zero_domain=domain,
    )


def _numbers(value: Any) -> torch.Tensor:
    try:
        if isinstance(value, list | tuple | int | float):
            return torch.tensor(value, dtype=torch.float64)
        return as_plain(value).to(torch.float64)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        raise QuantVizError("qparams_not_numbers", got=type(value).__name__) from None


def _refuse_other(qparams: object) -> None:
    if not isinstance(qparams, QParams):
        raise QuantVizError("qparams_wanted", got=type(qparams).__name__)


def _raise_first(scheme: Scheme, shape: Shape) -> None:
    for problem in scheme.problems(shape):
        raise problem


def _refuse_too_wide(found: Range, scheme: Scheme) -> None:
    # Most ranges are nowhere near: two numbers tell.
    if all(float(end.abs().max()) <= FLOAT32_MAX / 2 for end in (found.lo, found.hi)):
        return
    width = _width(found, scheme)
    if bool((width > FLOAT32_MAX).any()):
        raise QuantVizError("range_beyond_float32", width=width.max().item(), largest=FLOAT32_MAX)


def _width(found: Range, scheme: Scheme) -> torch.Tensor:
    lo, hi = found.lo.to(torch.float64), found.hi.to(torch.float64)
    return 2 * torch.maximum(lo.abs(), hi.abs()) if scheme.mode == "symmetric" else hi - lo


def _refuse_infinite(
    x: torch.Tensor,
    x_hat: torch.Tensor,
    error: torch.Tensor,
    params: QParams,
    scheme: Scheme,
    layout: BlockLayout,
) -> None:
    finite = torch.isfinite(x_hat) & torch.isfinite(error)
    if not bool(finite.all()):
        finite |= ~torch.isfinite(x)
    if not bool(finite.all()):
        first = tuple(int(i) for i in torch.nonzero(~finite)[0])
        raise infinite_value(x_hat[first].item(), first, tuple(x.shape), params, scheme, layout)


def infinite_value(
    value: float, index: Shape, shape: Shape, params: QParams, scheme: Scheme, layout: BlockLayout
) -> QuantVizError:
    """Return why nothing is given back where the cell at `index` has become `value`, or its error is
    infinite.
    """
    block, name = layout.block_of(index, shape), str(scheme.arithmetic)
    if params.scale[block] == 0:
        return QuantVizError("scale_is_zero", convention=name, index=index, block=block)
    return QuantVizError("value_beyond_float32", convention=name, value=value, index=index, block=block)
