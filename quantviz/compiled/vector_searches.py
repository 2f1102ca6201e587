"""Loops of vector instructions that search the scales of 16 blocks side by side.

A lane is a block: one element after the other is looked at, of all 16 blocks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

from quantviz.compiled.lanes import WIDTH, Lanes, further, select, written_loops
from quantviz.compiled.vector_sums import Summing

#: Arguments of `searching`, whole numbers and addresses: the first element of each of 16 blocks, then the
#: second …; the weights of their columns likewise; a level for each; room for kept values; how many elements
#: a block has; numbers and tables; where the results are put, 16 of the first, then of the next.
GIVEN_TO_SEARCH = ("values", "weights", "levels", "room", "n", "floats", "integers", "tables", "out")
#: Steps of a loop over elements, by kind: from the result so far and one element's value to the next result.
_FOLDS: Mapping[str, Callable[[Lanes, Lanes], Lanes]] = {
    "sum": lambda found, own: found + own,
    "least": lambda found, own: further("<")(own, found),
    "most": lambda found, own: further(">")(own, found),
    # The first of several.
    "extreme": lambda found, own: select(own.called("fabs") > found.called("fabs"), own, found),
}


class _Searching(Summing):
    """Writes the loops of the steps that `searching.trace_search` gives."""

    def write(self) -> None:
        known = self.known
        level = self.memory.load("f4", known["levels"], 0, wide=True)
        found = self.steps(self.code["steps"], {**known, "level": level})
        for i, name in enumerate(self.code["results"]):
            self.memory.store("f4", known["out"], i * WIDTH, found[name].spread())

    def steps(self, steps: Iterable[Any], known: dict[str, Any]) -> dict[str, Any]:
        """Write some steps, and return the values by name after them."""
        for kind, *step in steps:
            known = getattr(self, kind)(known, *step)
        return known

    def line(self, known: dict[str, Any], line: str) -> dict[str, Any]:
        return self.run([line], known)

    def folds(
        self,
        known: dict[str, Any],
        lines: tuple[str, ...],
        reads: tuple[tuple[str, int], ...],
        puts: tuple[tuple[str, int], ...],
        folds: tuple[tuple[str, str, str], ...],
    ) -> dict[str, Any]:
        none = known["n"].constant(0, "i8")

        def at(element: Lanes) -> dict[str, Any]:
            return self.run(lines, {**known, **self.of_element(element, reads)})

        first = at(none) if any(kind != "sum" for _, kind, _ in folds) else {}
        places = {
            name: self.place("f4", 0.0 if kind == "sum" else first[term], wide=True)
            for name, kind, term in folds
        }

        def body(element: Lanes) -> None:
            found = at(element)
            for name, slot in puts:
                self.memory.store("f4", known["room"], self.place_of(element, slot), found[name].spread())
            for name, kind, term in folds:
                self.put(places[name], _FOLDS[kind](self.get(places[name]), found[term]))

        self.stepped(none, known["n"], 1, body)
        return {**known, **{name: self.get(place) for name, place in places.items()}}

    def tried(
        self,
        known: dict[str, Any],
        count: int,
        first: int,
        number: str,
        starts: tuple[tuple[str, str], ...],
        steps: tuple[Any, ...],
        results: tuple[str, ...],
    ) -> dict[str, Any]:
        places = {name: self.place("f4", known[start], wide=True) for name, start in starts}
        begin = known["n"].constant(first, "i8")

        def attempt(at: Lanes) -> None:
            state = {name: self.get(place) for name, place in places.items()}
            own = self.memory.load("f8", known["floats"], at).to("f4")
            found = self.steps(steps, {**known, **state, number: own})
            for place, result in zip(places.values(), results, strict=True):
                self.put(place, found[result])

        self.stepped(begin, begin + count, 1, attempt)
        return {**known, **{name: self.get(place) for name, place in places.items()}}

    def in_turn(
        self,
        known: dict[str, Any],
        rounds: int,
        slot: int,
        code: str,
        starts: tuple[tuple[str, str], ...],
        lines: tuple[str, ...],
        reads: tuple[tuple[str, int], ...],
        steps: tuple[Any, ...],
        results: tuple[str, ...],
    ) -> dict[str, Any]:
        places = {name: self.place("f4", known[start], wide=True) for name, start in starts}
        none = known["n"].constant(0, "i8")
        left = self.place("i8", rounds)
        moved = self.place("i8", 1)
        moves, new_code, *after = results

        def element(at: Lanes) -> None:
            state = {name: self.get(place) for name, place in places.items()}
            before = self.memory.load("f4", known["room"], self.place_of(at, slot), wide=True)
            env = {**known, **self.of_element(at, reads), **state, code: before}
            found = self.steps(steps, self.run(lines, env))
            self.put(moved, self.get(moved) + found[moves].count())
            own = select(found[moves], found[new_code], before)
            self.memory.store("f4", known["room"], self.place_of(at, slot), own)
            for (name, place), result in zip(places.items(), after, strict=True):
                self.put(place, select(found[moves], found[result], state[name]))

        def once() -> None:
            self.put(left, self.get(left) - 1)
            self.put(moved, none)
            self.stepped(none, known["n"], 1, element)

        self.whilst(lambda: (self.get(left) > 0) & (self.get(moved) > 0), once)
        return {**known, **{name: self.get(place) for name, place in places.items()}}

    def of_element(self, element: Lanes, reads: Iterable[tuple[str, int]]) -> dict[str, Lanes]:
        """Return an element of each block, its column's weight, and its kept values, by name."""
        own = {
            name: self.memory.load("f4", self.known[given], element * WIDTH, wide=True)
            for name, given in (("x_", "values"), ("w_", "weights"))
        }
        kept = {
            name: self.memory.load("f4", self.known["room"], self.place_of(element, slot), wide=True)
            for name, slot in reads
        }
        return own | kept

    def place_of(self, element: Lanes, slot: int) -> Lanes:
        """Return where a kept value of an element lies."""
        place: Lanes = (self.known["n"] * slot + element) * WIDTH
        return place


def searching(code: dict[str, Any], small: Iterable[FunctionType]) -> Any:
    """Return the loops of `_Searching` as a function of numba's."""
    return written_loops(
        GIVEN_TO_SEARCH, lambda builder, given: _Searching(builder, given, code, small).write()
    )
