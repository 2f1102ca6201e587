"""The derivation of one cell, as data.

The steps are the operations that quantized the tensor, run once more on this cell alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from quantviz.errors import QuantVizError
from quantviz.pickling import Picklable
from quantviz.public_calls import checked_fields, public_but, public_class, whole
from quantviz.quantization.code_to_value import error_operations, value_operations
from quantviz.quantization.grids import GRIDS, local_step, neighbours
from quantviz.quantization.operations import NamedTensors, Operation, Operations, run_operations
from quantviz.quantization.qparams import largest_magnitude, range_operations, range_values
from quantviz.quantization.result import (
    QParams,
    QuantResult,
    block_values,
    counted_cells,
    refuse_other_than_results,
)
from quantviz.quantization.stored_scale import level_operations, store_operations
from quantviz.quantization.value_to_code import code_of, code_operations
from quantviz.schemes.arithmetic import HALVES, STORED_AS
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import BlockLayout, Shape, flat_index
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks
from quantviz.tensors.conversion import dtype_name
from quantviz.text import table

#: The outcomes for a cell, the worst of them last; "left_out" is for NaN and Inf. The place in this tuple is
#: the outcome's number in arrays.
CAUSES = ("exact", "rounded", "zeroed", "clipped", "left_out")


@checked_fields
@dataclass(frozen=True)
class Step(Picklable):
    """One line of a derivation."""

    #: Names the line's words under `[steps]` in `quantviz/text/*.toml`.
    key: str
    #: The values that the line reads, by name.
    inputs: Mapping[str, float | int]
    #: The value that it computes.
    output: float | int
    dtype: str
    #: The line as Python: `name = expression`.
    code_line: str

    @property
    def name(self) -> str:
        """Return the name of the value that the line computes."""
        return self.code_line.partition(" = ")[0]


@dataclass(frozen=True)
class Rounding:
    """The rounding of a cell's value to the grid, with all numbers in units of the scale."""

    #: x in units of the scale, just before rounding; NaN for 0 / 0.
    y: float
    #: The grid's values around y, as if the grid continued beyond its ends; both are y itself if it is one of
    #: them.
    below: float
    above: float
    #: Whether y lies exactly half-way.
    tie: bool
    #: The chosen one of them, before clipping.
    output: float
    #: The rule for a value exactly half-way, one of `grids.TIES`, "adding_half" or "stochastic".
    rule: str
    #: The random number of stochastic rounding, 0 to 1: y is rounded up if it is less than `share`, the part
    #: of the way from `below` to `above` at which y lies.
    chance: float | None
    share: float

    @property
    def distances(self) -> tuple[float, float]:
        return self.y - self.below, self.above - self.y

    @property
    def nearer(self) -> str:
        """Return the nearer neighbour: "below", "above", "tie", "same" on the grid, "none" if y is not
        finite.
        """
        if not math.isfinite(self.y):
            return "none"
        if self.below == self.above:
            return "same"
        if self.tie:
            return "tie"
        if self.share < 0.5:
            return "below"
        return "above"

    @property
    def to_the_nearest(self) -> bool:
        """Whether it became the value next to it, the only one or either of two."""
        return self.output in {"below": (self.below,), "above": (self.above,)}.get(
            self.nearer, (self.below, self.above)
        )


@dataclass(frozen=True)
class StoredScale:
    """A block's scale that is itself kept in a number format."""

    #: Id of the format.
    format: str
    #: The scale before it was rounded to the format; none where it was given.
    before: float | None
    #: The stored value.
    value: float
    #: Its bits: sign, exponent and mantissa.
    bits: tuple[str, str, str]
    #: Whether it counts in units of a scale of the whole tensor.
    second_level: bool


@checked_fields
@public_class
@dataclass(frozen=True)
class Explanation(Picklable):
    """The derivation of one cell's code, value and error."""

    #: The scheme that quantized the tensor.
    scheme: Scheme

    #: The place of the cell in the tensor.
    index: Shape
    #: The place of its block in the grid of blocks.
    block: Shape
    #: The lines from the block's range to the cell's error.
    steps: tuple[Step, ...]
    #: One of `CAUSES`.
    cause: str
    x: float
    q: int
    x_hat: float
    error: float
    #: The value of the code in units of the scale; of an integer format the code itself.
    value: float
    scale: float
    zero_point: float
    #: The distance of two grid values at x, in the units of x.
    local_step: float
    #: The bits of the code: sign, exponent and mantissa; of an integer or codebook all of them are in the
    #: last.
    bits: tuple[str, str, str]
    #: The block's clipping range; none where scale and zero point were given.
    range: tuple[float, float] | None
    #: The rounding: the value, its two neighbours, and the rule that chose one of them.
    rounding: Rounding
    #: The block's value of largest magnitude, the first one, with its sign.
    extreme: float
    #: The largest magnitude of the whole tensor.
    tensor_absmax: float
    #: The number of blocks along each axis of the grid and in all, and the number of elements of this one.
    grid_shape: Shape
    block_count: int
    block_size: int
    #: The number of those that are left out: NaN and Inf, if the scheme ignores them.
    left_out: int
    #: The scale's own rounding, if it is stored in a format of fewer bits.
    stored_scale: StoredScale | None

    def __repr__(self) -> str:
        return (
            f"Explanation(index={self.index}, x={self.x:.6g}, q={self.q}, x_hat={self.x_hat:.6g}, "
            f"error={self.error:.6g}, cause={self.cause!r})"
        )

    def _repr_html_(self) -> str:
        return table((step.name, step.code_line, f"{step.output:.9g}", step.dtype) for step in self.steps)

    @property
    def tie(self) -> bool:
        """Whether x lies exactly half-way between two codes."""
        return self.rounding.tie

    @property
    def before_rounding(self) -> float:
        """Return x in units of the scale, just before it was rounded."""
        return self.rounding.y

    @property
    def neighbours(self) -> tuple[float, float]:
        """Return the values of the grid on both sides, before any scale; the same one twice where it is on
        the grid.
        """
        return self.rounding.below, self.rounding.above

    def step(self, key: str) -> Step | None:
        """Return the first step called `key`, where there is one."""
        return next((step for step in self.steps if step.key == key), None)


@public_but("index")
def explain(r: QuantResult, index: Shape | int) -> Explanation:
    """Return the derivation of one cell's code, value and error.

    Args:
        r: A result of `quantize`.
        index: The index of the cell, one number for each axis; negative ones count from the end.

    Raises:
        QuantVizError: `r` is not a result, or the index is outside of its shape.

    >>> from quantviz import Scheme, quantize
    >>> why = explain(quantize([[1.0, 0.1], [-2.0, 0.7]], Scheme("int4")), (0, 1))
    >>> [step.code_line for step in why.steps][-5:]
    ['y = x / scale', 'y = round(y)', 'q = clamp(y, -8, 7)', 'x_hat = scale * q', 'error = x_hat - x']
    >>> why.cause
    'zeroed'
    """
    refuse_other_than_results(r)
    place = _checked(index, r.shape)
    block = r.layout.block_of(place, r.shape)
    absmax = largest_magnitude(r.x) if r.tensor_absmax is None else r.tensor_absmax
    of_range = {} if r.range is None else range_values(r.range, absmax, r.layout)
    values = block_of_cell(r, place)
    finite = torch.isfinite(values)
    return explain_cell(
        r.scheme,
        r.qparams,
        CellInput(
            index=place,
            shape=r.shape,
            layout=r.layout,
            x=r.x[place],
            ranged={name: value[block] if value.dim() else value for name, value in of_range.items()},
            extreme=of_range["extreme"][block] if of_range else _extreme(values[finite]),
            tensor_absmax=absmax,
            block_size=values.numel(),
            left_out=int((~finite).sum()),
            of_other=r.tensor_absmax is not None,
            own_code=r.q[place] if r.own_codes else None,
        ),
    )


@dataclass(frozen=True, eq=False)
class CellInput:
    """The inputs to the derivation of one cell: every number of the tensor that it depends on."""

    #: The place of the cell in a tensor of `shape`, which falls into blocks by `layout`.
    index: Shape
    shape: Shape
    layout: BlockLayout
    #: Its value; a tensor of one number, as all that follow.
    x: torch.Tensor
    #: The result of `qparams.range_values` for its block; empty where scale and zero point were given.
    ranged: NamedTensors
    #: The first value of largest magnitude of its block.
    extreme: torch.Tensor
    tensor_absmax: torch.Tensor
    block_size: int
    #: The number of those that are left out: NaN and Inf, if the scheme ignores them.
    left_out: int = 0
    #: Whether `tensor_absmax` is that of another tensor: of the tokens that are not held back.
    of_other: bool = False
    #: Its code, if an algorithm such as GPTQ chose it instead of the scheme's rounding.
    own_code: torch.Tensor | None = None


class _Derivation:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        #: The last silent cast of each value, which a later line may need.
        self._casts: dict[str, Step] = {}

    def run(self, operations: Operations, values: NamedTensors) -> NamedTensors:
        return run_operations(operations, values, self._record)

    def last(self, key: str) -> Step | None:
        return next((step for step in reversed(self.steps) if step.key.startswith(key)), None)

    def _record(self, operation: Operation, values: NamedTensors, result: torch.Tensor) -> None:
        before = values.get(operation.name)
        reads = operation.reads
        read = {name: value.item() for name, value in values.items() if name in reads}
        dtype = dtype_name(result.dtype)
        step = Step(operation.key, MappingProxyType(read), result.item(), dtype, operation.line)
        # Leave out silent steps that change nothing or repeat a line: the scale is cast on the way to the
        # code and once more on the way back.
        if operation.silent and before is not None and _same(before.item(), result.item()):
            self._casts[operation.name] = step
        elif not (operation.silent and step in self.steps):
            self.steps += [*self._casts_before(operation, values), step]

    def _casts_before(self, operation: Operation, values: NamedTensors) -> list[Step]:
        """Return the casts that an operation's line needs to be right: to half precision or from it. Each
        changed no value that the line reads, but changes the line's result.
        """
        dtypes = {step.name: step.dtype for step in self.steps}
        casts = [self._casts[name] for name in sorted(operation.reads & self._casts.keys() & values.keys())]
        return [
            cast
            for cast in casts
            if cast.dtype == dtype_name(values[cast.name].dtype) != dtypes.get(cast.name, "float32")
            and not {cast.dtype, dtypes.get(cast.name, "float32")}.isdisjoint(HALVES)
        ]


def explain_cell(scheme: Scheme, qparams: QParams, cell: CellInput) -> Explanation:
    """Return the derivation of one cell from its inputs alone; `qparams` are those of the whole tensor."""
    block = cell.layout.block_of(cell.index, cell.shape)
    fmt = scheme.number_format
    grid = GRIDS[fmt.kind]
    derivation = _Derivation()
    if cell.ranged:
        operations = (*range_operations(scheme), *store_operations(scheme))
        derivation.steps += _range_steps(scheme, operations, cell)
        derivation.run(operations, cell.ranged)
    levels = _levels(scheme, qparams, block)
    derivation.steps += [_given(f"found_{name}", name, value) for name, value in levels.items()]
    if levels:
        derivation.run(level_operations(scheme), levels)
    params = {name: value[block] for name, value in block_values(qparams).items()}
    place = torch.tensor(flat_index(cell.index, cell.shape))
    coded = derivation.run(code_operations(scheme), {"x": cell.x, "index": place, **params})
    rounding = _rounding(derivation, scheme)
    code = code_of(cell.x, coded, scheme)
    if cell.own_code is not None and int(cell.own_code) != int(code):
        code = cell.own_code
        # The line that takes the stored code, where the scheme's rounding gives another one.
        derivation.steps.append(_given("own_code", "q", grid.decode(code, fmt)))
    valued = derivation.run(value_operations(scheme), {**params, "q": grid.decode(code, fmt)})
    x_hat = valued["x_hat"]
    error = derivation.run(error_operations(scheme), {"x": cell.x, "x_hat": x_hat})["error"]
    outcome = _causes(cell.x, x_hat, error, coded["y"] != coded["q"], counted_cells(cell.x, scheme))
    return Explanation(
        scheme=scheme,
        index=cell.index,
        block=block,
        steps=tuple(derivation.steps),
        cause=CAUSES[int(outcome)],
        x=cell.x.item(),
        q=int(code),
        x_hat=x_hat.item(),
        error=error.item(),
        value=fmt.value(int(code)),
        scale=params["scale"].item(),
        zero_point=params["zero_point"].item(),
        local_step=local_step(cell.x, params["scale"].to(torch.float32), fmt).item(),
        bits=fmt.split(int(code)),
        range=(float(cell.ranged["lo"]), float(cell.ranged["hi"])) if cell.ranged else None,
        rounding=rounding,
        extreme=cell.extreme.item(),
        tensor_absmax=cell.tensor_absmax.item(),
        grid_shape=cell.layout.grid_shape,
        block_count=cell.layout.block_count,
        block_size=cell.block_size,
        left_out=cell.left_out,
        stored_scale=_stored_scale(scheme, qparams, block, derivation.steps),
    )


def _rounding(derivation: _Derivation, scheme: Scheme) -> Rounding:
    fmt = scheme.number_format
    step = derivation.last("round")
    assert step is not None
    chance = derivation.last("chance")
    y = step.inputs["y"]
    around = torch.tensor(y, dtype=torch.float64)
    below, above = (value.item() for value in neighbours(around, fmt))
    share = float(GRIDS[fmt.kind].coordinate(around, fmt)) % 1
    return Rounding(
        y=y,
        below=below,
        above=above,
        tie=share == 0.5,
        output=step.output,
        rule=scheme.arithmetic.ties,
        chance=None if chance is None else chance.output,
        share=share,
    )


def _levels(scheme: Scheme, qparams: QParams, block: Shape) -> NamedTensors:
    """Return the two levels of a block's scale and zero point, where the engine's own search found them."""
    if scheme.search is None or qparams.scale_codes is None:
        return {}
    if scheme.search.method == "block_maximum":
        return {name: qparams.others[name][block] for name in ("global_absmax", "scale_code")}
    levels = {
        "global_scale": qparams.global_scale,
        "scale_code": qparams.scale_codes,
        "global_zero_point": qparams.global_zero_point,
        "zero_point_code": qparams.zero_point_codes,
    }
    return {name: values[block] for name, values in levels.items() if values is not None}


def _given(key: str, name: str, value: torch.Tensor, expression: str = "") -> Step:
    """Return the line of a value that no operation computes: an expression, or the number itself."""
    line = f"{name} = {expression or repr(value.item())}"
    return Step(key, MappingProxyType({}), value.item(), dtype_name(value.dtype), line)


#: The other inputs of the operations besides the range: the expression that computes each, by its name.
_OF_BLOCK: Mapping[str, str] = MappingProxyType(
    {"extreme": "block[argmax(abs(block))]", "tensor_absmax": "max(abs(tensor))"}
)


def _extreme(values: torch.Tensor) -> torch.Tensor:
    if values.numel():
        return values[values.abs().argmax()]
    return torch.zeros(())


def _expression(line: str, scheme: Scheme, cell: CellInput) -> str:
    """Return the expression of an input of the operations; "" if only the number is known.

    It leaves NaN and Inf out of the block or the tensor where the scheme ignores them.
    """
    if not scheme.leaves_out or not line:
        return line
    if "tensor" in line:
        return line.replace("tensor", "tensor[isfinite(tensor)]")
    if "block" in line and cell.left_out == cell.block_size:
        return ""
    if cell.left_out:
        return line.replace("block", "block[isfinite(block)]")
    return line


def _range_steps(scheme: Scheme, operations: Operations, cell: CellInput) -> Iterator[Step]:
    """Yield the operations' first lines: one for each value read before an operation makes it."""
    read: set[str] = set()
    for operation in reversed(operations):
        read = (read - {operation.name}) | operation.reads
    lines = {**dict(zip(("lo", "hi"), scheme.calibration.lines(scheme.mode), strict=True)), **_OF_BLOCK}
    if cell.of_other:
        lines["tensor_absmax"] = ""
    for name, line in lines.items():
        if name in read:
            value = cell.ranged[name]
            # A value without a line is the result of a search, or of another tensor.
            key = f"range_{name}" if line else f"found_{name}"
            yield _given(key, name, value, _expression(line, scheme, cell))


def _stored_scale(
    scheme: Scheme, qparams: QParams, block: Shape, steps: Sequence[Step]
) -> StoredScale | None:
    spec = scheme.arithmetic.scale
    if spec.format is None:
        return None
    fmt = FORMATS[STORED_AS.get(spec.format, (spec.format,))[-1]]
    roundings = [step for step in steps if step.key == "scale_format"]
    # Later steps, such as the fixed point of an integer format, change the scale after its rounding.
    effective = torch.tensor(roundings[-1].output) if roundings else qparams.scale[block]
    value = effective if qparams.scale_codes is None else qparams.scale_codes[block]
    code = int(GRIDS[fmt.kind].encode(value, fmt))
    before = next(iter(roundings[0].inputs.values())) if roundings else None
    return StoredScale(fmt.id, before, value.item(), fmt.split(code), spec.global_rule is not None)


def causes(r: QuantResult) -> torch.Tensor:
    """Return the outcome of each cell, as its place in `CAUSES`: uint8 of the result's shape."""
    return _causes(r.x, r.x_hat, r.error, r.clipped, r.counted)


def _causes(
    x: torch.Tensor,
    x_hat: torch.Tensor,
    error: torch.Tensor,
    clipped: torch.Tensor,
    counted: torch.Tensor | None,
) -> torch.Tensor:
    rounded = (error != 0).to(torch.uint8)
    zeroed = torch.where((x != 0) & (x_hat == 0), CAUSES.index("zeroed"), rounded)
    outcome = torch.where(clipped, CAUSES.index("clipped"), zeroed)
    if counted is not None:
        outcome = torch.where(counted, outcome, CAUSES.index("left_out"))
    return outcome.to(torch.uint8)


def block_of_cell(r: QuantResult, index: Shape | int) -> torch.Tensor:
    return blocks.block_values(r.x, r.layout, r.layout.block_of(_checked(index, r.shape), r.shape))


def _same(one: float, other: float) -> bool:
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def _checked(index: Shape | int, shape: Shape) -> Shape:
    place: tuple[Any, ...] = tuple(index) if isinstance(index, Sequence) else (index,)
    numbers = tuple(number for i in place if (number := whole(i)) is not None)
    inside = len(numbers) == len(place) == len(shape)
    if not inside or not all(-n <= i < n for i, n in zip(numbers, shape, strict=True)):
        raise QuantVizError("index_out_of_range", index=place, shape=shape)
    return tuple(i % n for i, n in zip(numbers, shape, strict=True))
