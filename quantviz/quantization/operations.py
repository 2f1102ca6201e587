"""The arithmetic as a list of operations, each one line of Python that is shown and run.

`quantize` runs them on whole tensors and `explain` runs the same ones on one cell, so that the
explanation cannot differ from the result. A convention, a mode and a number format select operations; no
operation checks which engine it serves. Steps that engines share are added where they belong, in the order
of their run: `range_ends.py`, `scale_rules.py` (`powers_of_two.py`), `zero_points.py`, `stored_scale.py`,
`value_to_code.py`, `code_to_value.py`.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch

from quantviz.schemes.arithmetic import HALVES
from quantviz.tensors.conversion import dtype_name, torch_dtype

#: The values an operation reads: tensors that broadcast, by name.
NamedTensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Operation:
    #: Names the line's words under `[steps]` in `quantviz/text/*.toml`.
    key: str
    #: The line: `name = expression`.
    line: str
    #: Runs the line where its words are not those of `_WORDS`, or dtypes or a division need more care.
    function: Callable[[NamedTensors], torch.Tensor] | None = None
    #: Whether the line is left out of explanations where it changes nothing.
    silent: bool = False

    @functools.cached_property
    def name(self) -> str:
        return self.line.partition(" = ")[0]

    @functools.cached_property
    def reads(self) -> frozenset[str]:
        return frozenset(re.findall(r"\w+", self.line.partition(" = ")[2]))

    def run(self, values: NamedTensors) -> torch.Tensor:
        if self.function is not None:
            return self.function(values)
        result: torch.Tensor = eval(_compiled(self.line), _WORDS, values)
        return result


@functools.lru_cache(maxsize=1024)
def _compiled(line: str) -> CodeType:
    """Return the compiled expression of a line; raise a `ValueError` for one that is more than arithmetic."""
    tree = ast.parse(line.partition(" = ")[2], "<operation>", "eval")
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    if any(name.startswith("_") for name in names) or not all(
        isinstance(node, _ARITHMETIC) for node in ast.walk(tree)
    ):
        raise ValueError(f"no line of arithmetic: {line}")
    return compile(tree, "<operation>", "eval")


#: The parts of a line: names, numbers, operators and calls. No attribute or item of a value can be reached.
_ARITHMETIC = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
    ast.expr_context,
)


#: The words of lines besides Python's operators.
_WORDS: dict[str, Any] = {
    # torch imports a part of itself where a process first compares a tensor with a number. Lines cannot use
    # it: they have no name that begins with "_".
    "__builtins__": {"__import__": __import__},
    "abs": lambda x: x.abs(),
    "clamp": lambda x, low, high: x.clamp(low, high),
    "floor": torch.floor,
    "inf": math.inf,
    "isfinite": torch.isfinite,
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "max": lambda a, b: a.clamp(min=b) if isinstance(b, int | float) else torch.maximum(a, b),
    "min": lambda x, most: x.clamp(max=most),
    "nan": math.nan,
    "where": lambda true, a, b: torch.where(true if true.dtype == torch.bool else true != 0, a, b),
    **{dtype: operator.methodcaller("to", torch_dtype(dtype)) for dtype in ("float32", "float64", *HALVES)},
}


def silent(key: str, line: str, function: Callable[[NamedTensors], torch.Tensor] | None = None) -> Operation:
    return Operation(key, line, function, silent=True)


def cast(key: str, name: str, dtype: torch.dtype) -> Operation:
    return silent(key, f"{name} = {dtype_name(dtype)}({name})")


def number_over(key: str, name: str, number: float, divisor: str, words: str = "") -> Operation:
    """Return the operation that divides a number by a value in one division.

    torch's `/` would multiply by the reciprocal, and round twice.
    """
    line = f"{name} = {words or number_code(number)} / {divisor}"
    return Operation(key, line, lambda v: torch.full_like(v[divisor], number) / v[divisor])


#: Number of schemes whose operations are cached: every change on the page needs the same ones several times.
SCHEMES_KEPT = 256
#: Called with each operation after it ran, the values that it read, and its result.
Trace = Callable[[Operation, NamedTensors, torch.Tensor], None]
Operations = tuple[Operation, ...]


def run_operations(operations: Operations, values: NamedTensors, trace: Trace | None = None) -> NamedTensors:
    """Return `values` after each operation has added, or replaced, its own."""
    values = dict(values)
    for operation in operations:
        given = operation.run(values)
        if trace:
            trace(operation, values, given)
        values[operation.name] = given
    return values


def number_code(value: float) -> str:
    """Return a number as Python, whole ones without a point unless they are long."""
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
