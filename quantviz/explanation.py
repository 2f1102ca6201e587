"""The derivation of one cell, as data.

The steps are the operations that quantized the tensor, run once more on this cell alone.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from quantviz import blocks
from quantviz.errors import QuantVizError
from quantviz.granularity import Shape
from quantviz.quantizer import GRIDS, Operation, QuantResult, Values, code_operations, error_operations, range_operations, run_operations, value_operations
from quantviz.tensors import dtype_name

#: What can have happened to a cell, the worst last. The place in this tuple is its number in arrays.
CAUSES = ("exact", "rounded", "zeroed", "clipped")


@dataclass(frozen=True)
class Step:
    """One line of a derivation."""

    #: Names the line's words under `[steps]` in `quantviz/text/*.toml`.
    key: str
    #: The values read, by name.
    inputs: Mapping[str, float | int]
    #: The value given.
    output: float | int
    #: Its dtype.
    dtype: str
    #: The line as Python: `name = expression`.
    code_line: str

    @property
    def name(self) -> str:
        """The name of the value given."""
        return self.code_line.partition(" = ")[0]


@dataclass(frozen=True)
class Explanation:
    """Why one cell became what it is."""

    #: Where the cell is.
    index: Shape
    #: Which block it is in, as a place in the grid.
    block: Shape
    #: From the block's range to the cell's error.
    steps: tuple[Step, ...]
    #: One of `CAUSES`.
    cause: str
    #: Whether x lies exactly half-way between two codes.
    tie: bool
    x: float
    q: int
    x_hat: float
    error: float
    scale: float
    zero_point: int
    #: The block's clipping range; none where scale and zero point were given.
    range: tuple[float, float] | None

    def step(self, key: str) -> Step | None:
        """The first step called `key`, where there is one."""
        return next((step for step in self.steps if step.key == key), None)


def explain(r: QuantResult, index: Shape | int) -> Explanation:
    """The derivation of the cell at `index` (one number an axis, negative ones from the end).

    >>> from quantviz import Scheme, quantize
    >>> why = explain(quantize([[1.0, 0.1], [-2.0, 0.7]], Scheme("int4")), (0, 1))
    >>> [step.code_line for step in why.steps][-5:]
    ['y = x / scale', 'y = round(y)', 'q = clamp(y, -8, 7)', 'x_hat = scale * q', 'error = x_hat - x']
    >>> why.cause
    'zeroed'
    """
    place = _checked(index, r.shape)
    block = r.layout.block_of(place)
    steps: list[Step] = []

    def record(operation: Operation, values: Values, given: torch.Tensor) -> None:
        before = values.get(operation.name)
        if not (operation.silent and before is not None and before.item() == given.item()):
            steps.append(_step(operation, values, given))

    if r.range is not None:
        lo, hi = (float(end[block]) for end in (r.range.lo, r.range.hi))
        for name, value, line in zip(("lo", "hi"), (lo, hi), r.scheme.calibration.lines(r.scheme.mode), strict=True):
            steps.append(Step(f"range_{name}", MappingProxyType({}), value, dtype_name(r.range.lo.dtype), f"{name} = {line}"))
        run_operations(range_operations(r.scheme, r.layout), {"lo": r.range.lo[block], "hi": r.range.hi[block]}, record)
    own = {"scale": r.qparams.scale[block], "zero_point": r.qparams.zero_point[block]}
    fmt = r.scheme.number_format
    grid = GRIDS[fmt.kind]
    coded = run_operations(code_operations(r.scheme), {"x": r.x[place], **own}, record)
    before_rounding = next(step for step in reversed(steps) if step.key == "round").inputs["y"]
    code = grid.encode(coded["q"], fmt)
    valued = run_operations(value_operations(r.scheme), {**own, "q": grid.decode(code, fmt), "scale": coded["scale"]}, record)
    run_operations(error_operations(), {"x": r.x[place], "x_hat": valued["x_hat"]}, record)
    return Explanation(
        index=place,
        block=block,
        steps=tuple(steps),
        cause=CAUSES[int(_causes(r.x[place], r.x_hat[place], r.error[place], r.clipped[place]))],
        tie=abs(before_rounding % 1) == 0.5,
        x=r.x[place].item(),
        q=int(r.q[place]),
        x_hat=r.x_hat[place].item(),
        error=r.error[place].item(),
        scale=own["scale"].item(),
        zero_point=int(own["zero_point"]),
        range=None if r.range is None else (lo, hi),
    )


def causes(r: QuantResult) -> torch.Tensor:
    """What happened to each cell, as its place in `CAUSES`: uint8 of the result's shape."""
    return _causes(r.x, r.x_hat, r.error, r.clipped)


def _causes(x: torch.Tensor, x_hat: torch.Tensor, error: torch.Tensor, clipped: torch.Tensor) -> torch.Tensor:
    rounded = (error != 0).to(torch.uint8)
    zeroed = torch.where((x != 0) & (x_hat == 0), CAUSES.index("zeroed"), rounded)
    return torch.where(clipped, CAUSES.index("clipped"), zeroed).to(torch.uint8)


def block_of_cell(r: QuantResult, index: Shape | int) -> torch.Tensor:
    """The values of the block that the cell at `index` lies in, as a vector."""
    return blocks.block_values(r.x, r.layout, r.layout.block_of(_checked(index, r.shape)))


def _step(operation: Operation, values: Values, given: torch.Tensor) -> Step:
    words = operation.line.partition(" = ")[2]
    read = {name: value.item() for name, value in values.items() if name in _names(words)}
    return Step(operation.key, MappingProxyType(read), given.item(), dtype_name(given.dtype), operation.line)


def _names(expression: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in expression).split())


def _checked(index: Shape | int, shape: Shape) -> Shape:
    place: tuple[Any, ...] = tuple(index) if isinstance(index, Sequence) else (index,)
    with contextlib.suppress(TypeError):
        place = tuple(operator.index(i) for i in place)
    if len(place) != len(shape) or not all(isinstance(i, int) and -n <= i < n for i, n in zip(place, shape, strict=True)):
        raise QuantVizError("index_out_of_range", index=place, shape=shape)
    return tuple(i % n for i, n in zip(place, shape, strict=True))
