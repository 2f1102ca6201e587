"""The derivation of one output cell of an integer layer, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from quantviz.errors import QuantVizError, known_language
from quantviz.pickling import Picklable
from quantviz.public_calls import public
from quantviz.quantization.code_norms import NormOptions
from quantviz.quantization.explanation import Step
from quantviz.quantization.integer_operators import prepared
from quantviz.quantization.operations import NamedTensors, Operation, Operations, run_operations
from quantviz.quantization.result import QParams
from quantviz.schemes.formats import find_format
from quantviz.tensors.conversion import dtype_name
from quantviz.text import DEFAULT_LANGUAGE, table, text

#: The symbols of values, by their names in lines; others are called by their names.
SYMBOLS: Mapping[str, str] = MappingProxyType(
    {
        "acc": "Σ",
        "m": "M",
        "m0": "M₀",
        "s_x": "S_x",
        "s_w": "S_w",
        "s_xw": "S_x·S_w",
        "s_y": "S_y",
        "z_x": "Z_x",
        "z_w": "Z_w",
        "z_y": "Z_y",
        "sum_x": "Σ q_x",
        "sum_w": "Σ q_w",
        "low": "q_min",
        "high": "q_max",
    }
)


@dataclass(frozen=True)
class ExplanationRow:
    """One line of a cell's derivation, as a table shows it."""

    symbol: str
    words: str
    inputs: tuple[tuple[str, float | int], ...]
    output: float | int
    dtype: str
    code_line: str


@dataclass(frozen=True, eq=False)
class IntegerExplanation(Picklable):
    """The steps from the codes of one token and one output to the code of the cell."""

    token: int
    output: int
    #: The codes of the token's inputs and of the output's weights, int32 (inputs,), and their products.
    q_x: torch.Tensor
    q_w: torch.Tensor
    products: torch.Tensor
    #: The numbers that no step computes: scales, zero points, ends of the format, the bias.
    given: MappingProxyType[str, float | int]
    #: The lines that lead to the code, in their order. Those that change nothing are left out.
    steps: tuple[Step, ...]
    #: The sum of the cell with its bias, as the engine has it.
    accumulator: float | int
    #: The same without any limit of 16 or 32 bits.
    exact_accumulator: float | int
    q: int
    #: The value of the code, S_y · (q − Z_y).
    y: float

    def __repr__(self) -> str:
        return (
            f"IntegerExplanation(token={self.token}, output={self.output}, "
            f"accumulator={self.accumulator}, q={self.q}, y={self.y:.6g})"
        )

    def _repr_html_(self) -> str:
        return table((step.name, step.code_line, f"{step.output:.9g}", step.dtype) for step in self.steps)

    def rows(self, language: str = DEFAULT_LANGUAGE) -> tuple[ExplanationRow, ...]:
        known_language(language)
        return rows_of_steps(self.steps, language)

    def step(self, key: str) -> Step | None:
        """Return the first step called `key`, where there is one."""
        return next((step for step in self.steps if step.key == key), None)


def rows_of_steps(steps: Sequence[Step], language: str) -> tuple[ExplanationRow, ...]:
    return tuple(
        ExplanationRow(
            symbol=SYMBOLS.get(step.name, step.name),
            words=text(f"steps.{step.key}", language),
            inputs=tuple((SYMBOLS.get(name, name), value) for name, value in step.inputs.items()),
            output=step.output,
            dtype=step.dtype,
            code_line=step.code_line,
        )
        for step in steps
    )


def steps_of_cell(
    operations: Operations, values: NamedTensors, result: str = "q"
) -> tuple[tuple[Step, ...], NamedTensors]:
    """Return the lines that one cell's result needs, and the values of all lines."""
    steps: list[Step] = []

    def record(operation: Operation, before: NamedTensors, result: torch.Tensor) -> None:
        known = before.get(operation.name)
        if operation.silent and known is not None and known.item() == result.item():
            return
        read = {
            name: before[name].item()
            for name in sorted(operation.reads & before.keys())
            if before[name].numel() == 1 and name not in ("q_x", "q_w")
        }
        dtype = dtype_name(result.dtype)
        steps.append(Step(operation.key, MappingProxyType(read), result.item(), dtype, operation.line))

    found = run_operations(operations, values, record)
    return tuple(_needed(steps, found, result)), found


@public
def explain_operator(
    operator: str,
    codes: Sequence[Any],
    params: Sequence[QParams],
    outputs: QParams,
    *,
    at: int = 0,
    number_format: str = "int8",
    arithmetic: str = "onnxruntime",
    norm: NormOptions | None = None,
) -> tuple[Step, ...]:
    """Return the lines that `integer_operator` runs on one code; its arguments are those, of one row each.

    Args:
        operator: The operator; of "concat" one term is given.
        codes: A row of codes of each term.
        params: The scale and zero point of each term.
        outputs: Scale and zero point of the outputs.
        at: The place of the code in the row; an average is of the whole row.
        number_format: Id of the integer format of all.
        arithmetic: The engine.
        norm: Weight, bias and eps of LayerNorm.

    Raises:
        QuantVizError: An argument is not as described, or the rows have no such place.

    >>> nearly = QParams(0.02534690499305725, -106), QParams(0.035809919238090515, -120)
    >>> steps = explain_operator("add", [[-114], [-122]], nearly, QParams(0.0365859717130661, -105))
    >>> [(step.code_line, round(step.output, 6)) for step in steps[-4:]]
    [('y = fma(q_b, r_b, y)', -112.5), ('y = round(y)', -112.0), ('q = int32(y)', -112), \
('q = clamp(q, low, high)', -112)]
    """
    fmt = find_format(number_format)
    operations, values = prepared(operator, codes, params, outputs, fmt, arithmetic, norm)
    by_code = ("q_a", "q_b", "vector") if "q_a" in values else ("q_x", "weight", "bias")
    for name in by_code if operator != "average" else ():
        if name not in values:
            continue
        row = values[name].flatten()
        if not 0 <= at < len(row):
            raise QuantVizError("index_out_of_range", index=at, shape=tuple(row.shape))
        values[name] = row[at : at + 1]
    return steps_of_cell(operations, values)[0]


def _needed(steps: Sequence[Step], values: NamedTensors, result: str) -> Sequence[Step]:
    wanted = {result}
    kept: list[Step] = []
    for step in reversed(steps):
        if step.name in wanted:
            words = Operation(step.key, step.code_line).reads
            wanted = (wanted - {step.name}) | (words & values.keys())
            kept.append(step)
    return kept[::-1]
