"""Searches of scales as lines of code: the search of a block's scale, run once on names, and written as
vector instructions that search 16 blocks side by side.

The lines stand in an order of steps, as `quantviz/quantization/search_steps.py` has them: loops over a
block's elements, over the numbers that are tried, over codes that move in turn. Each block has a lane of a
vector; so each block's sums are added up element after element, as the reference adds them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from quantviz.compiled.traced_values import Trace, TracedValue
from quantviz.compiled.tracing import words_of
from quantviz.compiled.vector_searches import GIVEN_TO_SEARCH
from quantviz.quantization.scale_search import find_by
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.scale_search import ScaleSearch


@dataclass(frozen=True, eq=False)
class SearchCode:
    """The search of one block, written down."""

    #: The steps as plain values, see `_Recorded`.
    steps: tuple[Any, ...]
    results: tuple[str, ...]
    #: How many lists of elements' values are kept, and whether the level of a run is read.
    kept: int
    reads_level: bool
    floats: tuple[float, ...]
    integers: tuple[int, ...]
    tables: tuple[float, ...]


def trace_search(search: ScaleSearch, fmt: NumberFormat, size: int, *, weighted: bool) -> SearchCode:
    """Return the lines of a search in blocks of `size` elements, whose columns have weights or have none.

    Raises:
        Untraceable: The search calls a function of torch that has no line of code here.
    """
    trace = _SearchTrace()
    steps = _Recorded(trace, size)
    x, weights = (TracedValue(trace, name, torch.float32, True) for name in ("x_", "w_"))
    results = find_by(steps, x, weights if weighted else None, search, fmt)
    return SearchCode(
        tuple(trace.steps),
        tuple(cell.name for cell in results),
        len(set(trace.slots.values())),
        trace.reads_level,
        tuple(trace.floats),
        tuple(trace.integers),
        tuple(torch.cat(trace.tables).tolist()) if trace.tables else (),
    )


class _SearchTrace(Trace):
    """The lines in steps. Those of elements are not among them: each loop has the lines that it needs."""

    def __init__(self) -> None:
        super().__init__(functions=_FUNCTIONS)
        self.steps: list[Any] = []
        #: The lines of elements' values by their names, in their order.
        self.of_elements: dict[str, str] = {}
        #: Where values are kept, by name, and which have been put there at this point.
        self.slots: dict[str, int] = {}
        self.stored: set[str] = set()
        self.reads_level = False
        self._count = 0
        self._in_turn = False

    def name(self) -> str:
        self._count += 1
        return f"t{self._count - 1}"

    def line(self, expression: str, dtype: torch.dtype, inputs: tuple[TracedValue, ...]) -> TracedValue:
        of_cell = any(cell.of_cell for cell in inputs) and not self._in_turn
        name = self._known.get(expression)
        if name is None:
            name = self.name()
            self._known[expression] = name
            if of_cell:
                self.of_elements[name] = expression
            else:
                self.steps.append(("line", f"{name} = {expression}"))
        return TracedValue(self, name, dtype, name in self.of_elements)

    @contextmanager
    def inside(self, *, in_turn: bool = False) -> Any:
        """Gather the steps of a loop's body, whose values are gone after it."""
        before = self.steps, dict(self._known), set(self.stored), self._in_turn
        body: list[Any] = []
        self.steps = body
        self._in_turn = in_turn
        yield body
        self.steps, self._known, self.stored, self._in_turn = before

    def read_by(self, names: Iterable[str]) -> tuple[list[str], list[tuple[str, int]], list[tuple[str, int]]]:
        """Return the lines of elements that some names need, in order; which kept values they read, and which
        they put there.
        """
        wanted = set[str]()
        reads = set[str]()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name in self.stored:
                reads.add(name)
            elif name in self.of_elements and name not in wanted:
                wanted.add(name)
                todo += words_of(self.of_elements[name])
        lines = [f"{name} = {line}" for name, line in self.of_elements.items() if name in wanted]
        puts = [(name, self.slots[name]) for name in self.of_elements if name in wanted & self.slots.keys()]
        self.stored |= {name for name, _ in puts}
        return lines, [(name, self.slots[name]) for name in sorted(reads)], puts


class _Recorded:
    """The steps of a search, each written down:

    ("line", line), on values of blocks;
    ("folds", lines, reads, puts, ((result, kind, term), …)), a loop over elements;
    ("tried", count, first, number, ((name, start), …), steps, results), a loop over numbers;
    ("in_turn", rounds, slot, code, ((name, start), …), lines, reads, steps, (moves, code, results …)).
    """

    def __init__(self, trace: _SearchTrace, size: int) -> None:
        self._trace = trace
        self._size = size

    def count(self, x: TracedValue) -> TracedValue:
        return self._trace.number(self._size, torch.float32)

    def sums(self, *terms: TracedValue) -> tuple[TracedValue, ...]:
        return self._folded("sum", *terms)

    def least(self, values: TracedValue) -> TracedValue:
        return self._folded("least", values)[0]

    def most(self, values: TracedValue) -> TracedValue:
        return self._folded("most", values)[0]

    def extreme(self, values: TracedValue) -> TracedValue:
        return self._folded("extreme", values)[0]

    def level(self, x: TracedValue, share: float) -> TracedValue:
        self._trace.reads_level = True
        return self._of_block("level")

    def kept(self, values: TracedValue) -> TracedValue:
        if values.name in self._trace.of_elements:
            self._trace.slots.setdefault(values.name, len(set(self._trace.slots.values())))
        return values

    def tried(
        self,
        numbers: Sequence[float],
        state: tuple[TracedValue, ...],
        attempt: Callable[..., tuple[TracedValue, ...]],
    ) -> tuple[TracedValue, ...]:
        trace = self._trace
        first = len(trace.floats)
        number = trace.name()
        trace.floats += map(float, numbers)
        names = [trace.name() for _ in state]
        with trace.inside() as body:
            results = attempt(self._of_block(number), *map(self._of_block, names))
        starts = tuple((name, cell.name) for name, cell in zip(names, state, strict=True))
        trace.steps.append(
            ("tried", len(numbers), first, number, starts, tuple(body), tuple(cell.name for cell in results))
        )
        return tuple(map(self._of_block, names))

    def in_turn(
        self,
        rounds: int,
        values: tuple[TracedValue, ...],
        codes: TracedValue,
        state: tuple[TracedValue, ...],
        move: Callable[..., tuple[TracedValue, ...]],
    ) -> tuple[TracedValue, ...]:
        trace = self._trace
        slot = trace.slots[codes.name]
        code = trace.name()
        names = [trace.name() for _ in state]
        # The kept codes are changed in place: a later read of the codes before computes them again.
        trace.stored.discard(codes.name)
        with trace.inside(in_turn=True) as body:
            results = move(*values, self._of_block(code), *map(self._of_block, names))
        words = set().union(*(words_of(line) for _, line in body), (cell.name for cell in results))
        lines, reads, puts = trace.read_by(words)
        trace.stored -= {name for name, _ in puts}
        starts = tuple((name, cell.name) for name, cell in zip(names, state, strict=True))
        trace.steps.append(
            ("in_turn", rounds, slot, code, starts, tuple(lines), tuple(reads), tuple(body),
             tuple(cell.name for cell in results))
        )  # fmt: skip
        moved = trace.name()
        trace.of_elements[moved] = codes.name
        trace.slots[moved] = slot
        trace.stored.add(moved)
        return TracedValue(trace, moved, torch.float32, True), *map(self._of_block, names)

    def _of_block(self, name: str) -> TracedValue:
        return TracedValue(self._trace, name, torch.float32, False)

    def _folded(self, kind: str, *terms: TracedValue) -> tuple[TracedValue, ...]:
        lines, reads, puts = self._trace.read_by(cell.name for cell in terms)
        results = [self._trace.name() for _ in terms]
        folds = tuple((name, kind, cell.name) for name, cell in zip(results, terms, strict=True))
        self._trace.steps.append(("folds", tuple(lines), tuple(reads), tuple(puts), folds))
        return tuple(map(self._of_block, results))


def _masked(x: TracedValue, mask: TracedValue, value: float) -> Any:
    return torch.where(mask, value, x)  # type: ignore[call-overload]


def _bits_of(x: TracedValue, dtype: torch.dtype) -> TracedValue:
    return x.trace.line(f"bits({x.name})", dtype, (x,))


#: More methods of tensors that a search calls: names are values, so that nothing is changed in place.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add_": lambda x, other: x + other,
    "sub_": lambda x, other: x - other,
    "mul_": lambda x, other: x * other,
    "abs_": lambda x: x.abs(),
    "clamp_": lambda x, *ends, **named: x.clamp(*ends, **named),
    "bitwise_and_": lambda x, other: x & other,
    "masked_fill": _masked,
    "sqrt": lambda x: x.trace.line(f"sqrt({x.name})", x.dtype, (x,)),
    "view": _bits_of,
}


def source_of_search(code: SearchCode) -> str:
    """Return the source that is compiled for a search: it holds the steps, from which the loops follow."""
    given = ", ".join(GIVEN_TO_SEARCH)
    plain = {"steps": code.steps, "results": code.results}
    return f"loops = searching({plain!r}, small)\n\n\ndef cells({given}):\n    loops({given})\n"
