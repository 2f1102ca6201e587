"""The arithmetic of a cell and of a block as lines of code: the scheme's operations run once on names.

A compiled cell follows from the very operations that the reference runs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from quantviz.compiled.traced_values import TYPES, Trace, TracedValue, Untraceable, looked_up
from quantviz.quantization.calibrating import calibrated
from quantviz.quantization.code_to_value import error_operations, value_operations
from quantviz.quantization.grids import GRIDS, local_step
from quantviz.quantization.operations import run_operations
from quantviz.quantization.powers_of_two import log2_floored
from quantviz.quantization.qparams import range_operations
from quantviz.quantization.stored_scale import store_operations
from quantviz.quantization.value_to_code import code_of, code_operations
from quantviz.schemes.calibration import Range
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.conversion import torch_dtype


@dataclass(frozen=True, eq=False)
class BlockCode:
    """The arithmetic of one block, from its ends, `lo` and `hi`, to its parameters."""

    #: Of numbers alone, and of the block.
    fixed: tuple[str, ...]
    lines: tuple[str, ...]
    #: Wanted parameters and the zero point, each a value of the lines or a name that is read.
    results: Mapping[str, str]
    of: str
    floats: tuple[float, ...]
    integers: tuple[int, ...]
    tables: torch.Tensor

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*map(words_of, (*self.lines, *self.results.values())))


class TracedEnds:
    """A block's ends, which every pass finds, as names; a calibration that reads more is untraceable."""

    def __init__(self, trace: Trace, dtype: torch.dtype) -> None:
        self._trace = trace
        self._dtype = dtype

    def _named(self, name: str) -> Any:
        return TracedValue(self._trace, name, self._dtype, True)

    def min_max(self) -> tuple[Any, Any]:
        return self._named("lo"), self._named("hi")

    def extreme(self) -> Any:
        return self._named("extreme")

    def constant(self, value: float) -> Any:
        return self._trace.number(value, self._dtype)

    def __getattr__(self, name: str) -> Any:
        raise Untraceable(name)


def _untried(found: Range, of: torch.Tensor | None = None, /, *, power: float = 2.0) -> torch.Tensor:
    raise Untraceable("trial")


def _floor_of_log2(x: Any) -> Any:
    """Write floor(log2(x)) as the exponent, plus 1 where float32 rounds the logarithm up.

    A call of the logarithm would keep the compiler from working on several blocks side by side.
    """
    if x.dtype != torch.float32:
        return log2_floored(x)
    exponent: Any = torch.frexp(x).exponent - 1
    next_one = looked_up(_where_log2_reaches(), (exponent + (1 + _LOWEST_POWER)).to(torch.int64))
    made: Any = torch.where(x >= next_one, exponent + 1, exponent).to(torch.float32)
    made = torch.where(x < torch.inf, made, x)
    return torch.where(x == 0, -torch.inf, made)


#: float32 has numbers from 2^-149 on.
_LOWEST_POWER = 149


@functools.cache
def _where_log2_reaches() -> torch.Tensor:
    """Return the smallest float32 whose log2 in float32 is at least k, for k from -149 to 128.

    >>> _where_log2_reaches()[149 + 3].item() < 8.0
    True
    """
    powers = torch.exp2(torch.arange(-_LOWEST_POWER, 129, dtype=torch.float64))
    places = powers.to(torch.float32).view(torch.int32)[:, None] - torch.arange(128, dtype=torch.int32)
    below = places.clamp(min=1).view(torch.float32)
    reached = log2_floored(below) >= torch.arange(-_LOWEST_POWER, 129)[:, None]
    last = reached.to(torch.int32).sum(1) - 1
    return below[torch.arange(len(below)), last]


def trace_block(scheme: Scheme, names: tuple[str, ...]) -> BlockCode:
    """Return the lines from a block's ends to its parameters `names`.

    Raises:
        Untraceable: If an operation cannot be written down, or the calibration reads more than the ends.

    >>> code = trace_block(Scheme("int4"), ("scale",))
    >>> code.lines[:3]
    ('t1 = fabs(lo)', 't2 = fabs(hi)', 't3 = t1 > t2')
    """
    trace = Trace(functions={"floor_of_log2": _floor_of_log2})
    dtype = torch_dtype(scheme.range_dtype)
    if not scheme.calibration.of_values:
        raise Untraceable("more than the block's values")
    found: Any = calibrated(TracedEnds(trace, dtype), scheme, _untried)
    values: dict[str, Any] = {"lo": found.lo, "hi": found.hi, "extreme": found.extreme}
    values["tensor_absmax"] = TracedValue(trace, "tensor_absmax", torch.float32, True)
    # Such lines are for blocks that fill up.
    values["short"] = trace.number(0.0, torch.float32)
    made: dict[str, Any] = run_operations((*range_operations(scheme), *store_operations(scheme)), values)
    results = {name: made[name] for name in (*names, "zero_point")}
    return BlockCode(
        tuple(trace.of_block),
        tuple(trace.of_cell),
        MappingProxyType({name: each.name for name, each in results.items()}),
        TYPES[dtype],
        tuple(trace.floats),
        tuple(trace.integers),
        torch.cat(trace.tables) if trace.tables else torch.empty(0, dtype=torch.float64),
    )


@dataclass(frozen=True, eq=False)
class CellCode:
    of_block: tuple[str, ...]
    of_cell: tuple[str, ...]
    #: `q`, `x_hat`, `error`, `clipped` and the step, each a value of the lines.
    results: Mapping[str, str]
    #: The same in all cells of a block.
    step_of_block: bool
    #: The block's parameters that are read.
    params: tuple[str, ...]
    floats: tuple[float, ...]
    integers: tuple[int, ...]
    tables: torch.Tensor
    #: Of the block's parameters.
    types: Mapping[str, str]


def trace_cell(scheme: Scheme, params: Mapping[str, torch.dtype], trace: Trace | None = None) -> CellCode:
    """Return the lines from `x`, the flat `index` and the block's `params` to code, value, error and step.

    `trace` is the one to write into, if its writer supports more functions of torch.

    Raises:
        Untraceable: If an operation cannot be written down.

    >>> code = trace_cell(Scheme("int4"), {"scale": torch.float32, "zero_point": torch.int32})
    >>> code.of_cell[:2]
    ('t0 = f4(x / scale)', 't1 = rint(t0)')
    """
    trace = Trace() if trace is None else trace
    fmt = scheme.number_format
    known: dict[str, Any] = {name: TracedValue(trace, name, dtype, False) for name, dtype in params.items()}
    x = TracedValue(trace, "x", torch.float32, True)
    index = (
        {"index": TracedValue(trace, "index", torch.int64, True)}
        if scheme.arithmetic.ties == "stochastic"
        else {}
    )
    coded: dict[str, Any] = run_operations(code_operations(scheme), {"x": x, **index, **known})  # type: ignore[dict-item]
    q: Any = code_of(x, coded, scheme)  # type: ignore[arg-type]
    values: dict[str, Any] = run_operations(
        value_operations(scheme), {"q": GRIDS[fmt.kind].decode(q, fmt), **known}
    )
    made: dict[str, Any] = run_operations(error_operations(scheme), {"x": x, "x_hat": values["x_hat"]})  # type: ignore[dict-item]
    clipped = coded["y"] != coded["q"]
    if scheme.leaves_out:
        clipped = clipped & torch.isfinite(x)  # type: ignore[arg-type]
    step: Any = local_step(x, known["scale"].to(torch.float32), fmt)  # type: ignore[arg-type]
    results = {"q": q, "x_hat": values["x_hat"], "error": made["error"], "clipped": clipped, "step": step}
    return CellCode(
        tuple(trace.of_block),
        tuple(trace.of_cell),
        MappingProxyType({name: each.name for name, each in results.items()}),
        not step.of_cell,
        tuple(
            name
            for name in params
            if any(name in words_of(line) for line in (*trace.of_block, *trace.of_cell))
        ),
        tuple(trace.floats),
        tuple(trace.integers),
        torch.cat(trace.tables) if trace.tables else torch.empty(0, dtype=torch.float64),
        MappingProxyType({name: TYPES[dtype] for name, dtype in params.items()}),
    )


_WORD = re.compile(r"\w+")


def words_of(line: str) -> set[str]:
    return set(_WORD.findall(line))
