"""The arithmetic as a list of operations, each one line of Python that can be shown.

`quantize` runs them on whole tensors and `explain` runs the same ones on one cell, so that the
explanation cannot differ from the result. A convention, a mode and a number format select operations; no
operation checks which engine it serves. Steps that engines share are added where they belong, in the order
of their run: `range_ends.py`, `scale_rules.py` (`powers_of_two.py`), `zero_points.py`, `stored_scale.py`,
`value_to_code.py`, `code_to_value.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from quantviz.tensors.conversion import dtype_name

#: The values an operation reads: tensors that broadcast, by name.
NamedTensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Operation:
    """One line of the arithmetic."""

    #: Names the line's words under `[steps]` in `quantviz/text/*.toml`.
    key: str
    #: The line, for showing: `name = expression`.
    line: str
    #: The line, for running.
    run: Callable[[NamedTensors], torch.Tensor]
    #: Whether the line is left out of explanations where it changes nothing.
    silent: bool = False

    @property
    def name(self) -> str:
        """Return the name of the value that it computes."""
        return self.line.partition(" = ")[0]

    @property
    def reads(self) -> frozenset[str]:
        """Return the names in its expression."""
        words = self.line.partition(" = ")[2]
        return frozenset("".join(c if c.isalnum() or c == "_" else " " for c in words).split())


def silent(key: str, line: str, run: Callable[[NamedTensors], torch.Tensor]) -> Operation:
    """Return an operation that explanations leave out where it changes nothing."""
    return Operation(key, line, run, silent=True)


def cast(key: str, name: str, dtype: torch.dtype) -> Operation:
    """Return the silent operation that brings a value to a dtype."""
    return silent(key, f"{name} = {dtype_name(dtype)}({name})", lambda v: v[name].to(dtype))


#: Number of schemes whose operations are cached: every change on the page needs the same ones several times.
SCHEMES_KEPT = 256
#: Called with each operation after it ran, the values that it read, and its result.
Trace = Callable[[Operation, NamedTensors, torch.Tensor], None]
Operations = tuple[Operation, ...]


def run_operations(operations: Operations, values: NamedTensors, trace: Trace | None = None) -> NamedTensors:
    """Return `values` after each operation has added, or replaced, its own."""
    for operation in operations:
        given = operation.run(values)
        if trace:
            trace(operation, values, given)
        values = {**values, operation.name: given}
    return values


def number_code(value: float) -> str:
    """Return a number as Python, whole ones without a point unless they are long.

    >>> number_code(7.0), number_code(0.5), number_code(2.0**127)
    ('7', '0.5', '1.7014118346046923e+38')
    """
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
