"""Sums over cells as loops of vector instructions: the traced lines run once on `WIDTH` numbers side by side.

A compiler that vectorises loops by itself joins their sums after each block, which costs more than a small
block's cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from quantviz.compiled.hand_written import by_hand
from quantviz.compiled.lanes import (
    WIDTH,
    Lanes,
    Loops,
    contracted,
    further,
    ir,
    names_of_lines,
    select,
    written_loops,
)
from quantviz.compiled.tracing import CellCode

#: Names of the sums over some cells, in their order in memory, float64: sums of x², value², x · value,
#: error, and of error² and the same in steps, of cells that were not clipped and of those that were; how many
#: were clipped, x that are 0, other x of which the value is 0, blocks of which the steps are not between
#: `STEP_LIMITS`; bits of the largest error; the first and the last code.
SUM_NAMES = (
    "signal",
    "values",
    "product",
    "bias",
    "noise",
    "steps",
    "clipped_noise",
    "clipped_steps",
    "clipped",
    "zeros",
    "zeroed",
    "apart",
    "largest",
    "first",
    "last",
)
AT = {name: i for i, name in enumerate(SUM_NAMES)}
#: Sums that begin in float32, with at most `TERMS` cells a lane, of which `ROUNDS` are added up before they
#: go on in float64, which halves the work: a term is rounded at most TERMS + ROUNDS + 5 times, so that a sum
#: is off by at most (TERMS + ROUNDS + 5) / 2^24 = 9.6e-7 of its terms' magnitudes. Where steps are not
#: between `STEP_LIMITS`, or less than `LEAST` comes out, steps for each cell, float32 may not have held the
#: squares: such sums are made again without it.
_BEGUN = ("signal", "values", "product", "bias", "noise")
TERMS = 8
ROUNDS = 3
STEP_LIMITS = (2.0**-40, 2.0**40)
LEAST = {"signal": 2.0**-100, "values": 2.0**-100, "noise": 2.0**-100, "steps": 2.0**-46}
#: Accumulators that count; those of a smallest or largest number, with their kind, their start and the
#: comparison that joins two of them; the others are sums of float64. Codes are floats, which hold all of 16
#: bits: most are computed as such.
_COUNTS = ("clipped", "zeros", "zeroed", "apart")
_ENDS: dict[str, tuple[str, Any, str]] = {
    "largest": ("i4", 0, ">"),
    "first": ("f4", math.inf, "<"),
    "last": ("f4", -math.inf, ">"),
}


class Summing(Loops):
    """Writes the loops of one cell's arithmetic."""

    def __init__(
        self, builder: Any, given: dict[str, Any], code: dict[str, Any], small: Iterable[FunctionType]
    ) -> None:
        super().__init__(builder)
        self.code = code
        self.known: dict[str, Any] = {
            name: Lanes(builder, "i8", value, wide=False) for name, value in given.items()
        }
        self.names = names_of_lines(self.memory, small)
        self.sums: dict[bool, dict[str, Any]] = {}
        self.begun: dict[bool, dict[str, Any]] = {}
        self.gathered: dict[bool, dict[str, Any]] = {}
        self.rounds: dict[bool, Any] = {}
        self.gapped: dict[bool, Any] = {}

    def run(self, lines: Iterable[str], known: dict[str, Any]) -> dict[str, Any]:
        # The lines are the trace's own, numbers and names of `names_of_lines`: nothing else can be named.
        names = {"__builtins__": {}, **self.names, **known}
        for line in lines:
            exec(line, names)
        return {
            name: value for name, value in names.items() if name not in self.names and name != "__builtins__"
        }

    def result(self, name: str, found: dict[str, Any]) -> Any:
        """Return a result of the lines, which is one of their names, or always true or never."""
        return {"True": True, "False": False, **found}[self.code[name]]

    def of_block(self, block: Lanes, known: dict[str, Any], *, wide: bool) -> dict[str, Any]:
        """Run the lines of a block, or of `WIDTH` of them from `block` on, and return all values by name,
        those among them that `cells` needs for steps.
        """
        found = self.lines_of_block(block, known, wide=wide)
        if self.code["step_of_block"]:
            step = self.result("step", found)
            inverse = 1.0 / step
            found["inverse_of_step"] = inverse
            found["inverse_square"] = inverse * inverse
            self.count(
                self.sums[wide]["apart"], ((step >= STEP_LIMITS[0]) & (step <= STEP_LIMITS[1]) ^ True).count()
            )
        return found

    def lines_of_block(self, block: Lanes, known: dict[str, Any], *, wide: bool) -> dict[str, Any]:
        """Load the parameters of a block, or of `WIDTH` of them from `block` on, run the block's lines, and
        return all values by name.
        """
        read = {
            name: self.memory.load("f8", known["params"], known["blocks"] * i + block, wide=wide).to(
                self.code["types"][name]
            )
            for i, name in enumerate(self.code["params"])
        }
        return self.run(self.code["of_block"], {**known, **read})

    def cells(self, values: Lanes, place: Lanes, known: dict[str, Any], noise: Any) -> None:
        """Add one cell, or `WIDTH` of them from `place` on, to the sums of `begun`; error² to `noise`."""
        code = self.code
        wide = values.wide
        index = self.known["flat"] + place
        if wide:
            index = index + Lanes(
                self.builder,
                "i8",
                ir.Constant(ir.VectorType(ir.IntType(64), WIDTH), list(range(WIDTH))),
                wide=True,
            )
        found = self.run(code["of_cell"], {**known, "x_": values, "index": index})
        q, x_hat, error, clipped, step = (
            self.result(name, found) for name in ("q", "x_hat", "error", "clipped", "step")
        )
        sums = self.sums[wide]
        begun = self.begun[wide]
        self.add(begun["signal"], values, values)
        self.add(begun["values"], x_hat, x_hat)
        self.add(begun["product"], values, x_hat)
        self.put(begun["bias"], self.get(begun["bias"]) + error)
        kept = self.place("f4", error, wide=wide)
        zero = values == 0.0
        zero_value = x_hat == 0.0
        if isinstance(clipped, bool):
            out = zero
        elif wide:
            out = clipped.spread()
        else:
            out = clipped

        gap = self.result("inverse_gap", found) if "inverse_gap" in code else None

        def in_steps(value: Lanes) -> Any:
            if code["step_of_block"]:
                value = value if gap is None else value * gap.to("f8")
                steps = value * known["inverse_of_step"].to("f8")
            else:
                steps = value / step.to("f8")
            return select(value == 0.0, 0.0, steps)

        self.count(sums["zeroed"], zero_value.count())
        # Rare cases cost one test for all lanes.
        with self.builder.if_then(((zero | out).count() != 0).value, likely=False):
            self.count(sums["zeros"], zero.count())
            self.count(sums["zeroed"], -(zero & zero_value).count())
            if not isinstance(clipped, bool):
                lost = select(out, error, 0.0).to("f8")
                scaled = in_steps(lost)
                self.add(sums["clipped_noise"], lost, lost)
                self.add(sums["clipped_steps"], scaled, scaled)
                self.count(sums["clipped"], out.count())
                self.put(kept, select(out, 0.0, error))
        rest = self.get(kept)
        self.add(noise, rest, rest)
        if gap is not None:
            scaled = rest * gap
            self.add(self.gapped[wide], scaled, scaled)
        if code["counted"]:
            self.memory.store_bytes(self.known["codes"], place, q)
        if gap is not None:
            self.extend(sums["largest"], error.bits() & 0x7FFFFFFF, ">")
            return
        if not code["step_of_block"]:
            scaled = in_steps(rest.to("f8"))
            self.add(sums["steps"], scaled, scaled)
        self.extend(sums["largest"], error.bits() & 0x7FFFFFFF, ">")
        codes = q.to("f4").spread() if wide else q.to("f4")
        self.extend(sums["first"], codes, "<")
        self.extend(sums["last"], codes, ">")

    def add(self, at: Any, a: Lanes, b: Lanes) -> None:
        self.put(at, contracted(self.get(at), a, b))

    def count(self, at: Any, number: Lanes) -> None:
        self.put(at, self.get(at) + number)

    def next_of(self, place: Lanes, ahead: Lanes, wide: bool) -> Lanes:
        """Return the cells at a place, those `ahead` of them being fetched."""
        if wide and by_hand("prefetch"):
            self.memory.fetch(self.known["x"], place + ahead)
        return self.memory.load("f4", self.known["x"], place, wide=wide)

    def several(
        self,
        begin: Lanes,
        stop: Lanes,
        step: int,
        known: dict[str, Any],
        cell: Callable[[Lanes, Any], None],
        *,
        wide: bool,
    ) -> Lanes:
        """Add cells of one block, or of `WIDTH` side by side, to `begun`; return the next place."""
        begun = self.begun[wide]
        noise = self.place("f4", 0.0, wide=wide)
        # Of a grid whose gaps differ errors are counted in gaps, and in the block's scale afterwards.
        gapped = self.place("f4", 0.0, wide=wide) if "inverse_gap" in self.code else None
        self.gapped[wide] = gapped

        def two(place: Lanes) -> None:
            cell(place, noise)
            cell(place + step, noise)

        twice = self.stepped(begin, stop, 2 * step, two) if wide else begin
        done = self.stepped(twice, stop, step, lambda place: cell(place, noise))
        self.put(begun["noise"], self.get(begun["noise"]) + self.get(noise))
        if self.code["step_of_block"]:
            steps = noise if gapped is None else gapped
            self.add(begun["steps"], self.get(steps), known["inverse_square"])
        return done

    def settle(self, *, wide: bool) -> None:
        """Add the sums of `begun` to those of `gathered`, and after `ROUNDS` rounds these to the total."""
        for name, place in self.gathered[wide].items():
            self.move(self.begun[wide][name], place, wide=wide)
        rounds = self.get(self.rounds[wide]) + 1
        self.put(self.rounds[wide], rounds)
        with self.builder.if_then((rounds == ROUNDS).value):
            self.hand_over(wide=wide)

    def hand_over(self, *, wide: bool) -> None:
        """Add the sums of `gathered` to the total."""
        for name, place in self.gathered[wide].items():
            self.move(place, self.sums[wide][name], wide=wide)
        self.put(self.rounds[wide], self.same(0, "i8", wide=False))

    def move(self, place: Any, to: Any, *, wide: bool) -> None:
        """Add the value at a place to that at another, and leave 0 there."""
        self.put(to, self.get(to) + self.get(place))
        self.put(place, self.same(0.0, place[1], wide=wide))

    def write(self) -> None:
        known = self.known
        one = known["n"].constant(1, "i8")
        counts = {name: self.place("i8", 0) for name in _COUNTS}
        for wide in (True, False):
            self.sums[wide] = {
                **counts,
                **{name: self.place(kind, start, wide=wide) for name, (kind, start, _) in _ENDS.items()},
                **{
                    name: self.place("f8", 0.0, wide=wide)
                    for name in SUM_NAMES
                    if name not in _COUNTS and name not in _ENDS
                },
            }
            names = (*_BEGUN, "steps") if self.code["step_of_block"] else _BEGUN
            self.begun[wide], self.gathered[wide] = (
                {name: self.place("f4", 0.0, wide=wide) for name in names} for _ in range(2)
            )
            self.rounds[wide] = self.place("i8", 0)
        known |= self.run(self.code["fixed"], known)
        (self.columns if self.code["by_element"] else self.lines)(one)
        for wide in (True, False):
            self.hand_over(wide=wide)
        for name in SUM_NAMES:
            total = self.get(self.sums[False][name])
            if name not in _COUNTS:
                join = further(_ENDS[name][2]) if name in _ENDS else Lanes.__add__
                total = join(self.get(self.sums[True][name]).joined(join), total)
            self.memory.store("f8", known["out"], AT[name], total.to("f8"))

    def columns(self, one: Lanes) -> None:
        """Write the loops for blocks of one element along the last axis.

        A few columns at a time are gone through in all `rows` lines below each other.
        """
        known = self.known
        column = known["flat"] - known["offset"]
        column = column.of("i8", self.builder.srem(column.value, known["length"].value))
        first = self.memory.load("i8", known["bases"], known["line"]) + column

        def tile(at: Lanes, wide: bool) -> None:
            here = self.of_block(first + at, known, wide=wide)
            # At the end of these lines the lines after them come next, unless the cells to fetch are further
            # ahead in any case.
            turns = (known["ahead"] < known["length"]) & (at + known["ahead"] >= known["length"])
            ahead = known["ahead"] + select(turns, (known["rows"] - 1) * known["length"], one - 1)

            def cell(row: Lanes, noise: Any) -> None:
                place = row * known["length"] + at
                self.cells(self.next_of(place, ahead, wide), place, here, noise)

            self.several(one - 1, known["rows"], 1, here, cell, wide=wide)
            self.settle(wide=wide)

        done = self.stepped(one - 1, known["n"], WIDTH, lambda at: tile(at, True))
        self.stepped(done, known["n"], 1, lambda at: tile(at, False))

    def lines(self, one: Lanes) -> None:
        """Write the loops for blocks of several elements along the last axis, one block after the other."""
        b = self.builder
        known = self.known
        length = known["length"]
        width = known["width"]
        n = known["n"]
        start = known["flat"] - known["offset"]
        column = self.place("i8", one.of("i8", b.srem(start.value, length.value)))
        line = self.place("i8", known["line"])
        within = self.place("i8", one.of("i8", b.srem(self.get(column).value, width.value)))
        jump = one.of("i8", b.sdiv(self.get(column).value, width.value))
        block = self.place("i8", self.memory.load("i8", known["bases"], self.get(line)) + jump)
        made = self.place("i8", 0)
        terms = self.place("i8", 0)

        def cell(place: Lanes, noise: Any, here: dict[str, Any], wide: bool) -> None:
            self.cells(self.next_of(place, known["ahead"], wide), place, here, noise)

        def vectors(start: Lanes, end: Lanes, here: dict[str, Any]) -> Lanes:
            """Add up at most `TERMS` times `WIDTH` cells of a block."""
            count = one.of(
                "i8", b.ashr((end - start).value, one.constant(WIDTH.bit_length() - 1, "i8").value)
            )
            with b.if_then((self.get(terms) + count > TERMS).value):
                self.settle(wide=True)
                self.put(terms, one - 1)
            self.put(terms, self.get(terms) + count)
            return self.several(
                start, end, WIDTH, here, lambda place, noise: cell(place, noise, here, True), wide=True
            )

        def gone(size: Lanes, blocks: Lanes) -> None:
            """Note that so many cells and blocks are done; a last block may have had fewer cells."""
            stop = self.get(made) + size
            after = self.get(column) + size
            self.put(made, stop)
            ends = after == length
            next_line = self.get(line) + select(ends, one, one - 1)
            self.put(line, next_line)
            self.put(column, select(ends, one - 1, after))
            # Here the block is done, or the cells are.
            self.put(within, one - 1)
            # After the last line there is no base to be read.
            safe = select(stop < n, next_line, known["line"])
            self.put(
                block, select(ends, self.memory.load("i8", known["bases"], safe), self.get(block) + blocks)
            )

        def part(room: Lanes) -> None:
            """Add up a block, or the rest of it in this line."""
            begin = self.get(made)
            size = width - self.get(within)
            size = select(size < room, size, room)
            here = self.of_block(self.get(block), known, wide=False)
            stop = begin + size
            place = self.place("i8", begin)

            def parts() -> None:
                start = self.get(place)
                most = self.get(place) + WIDTH * TERMS
                self.put(place, vectors(start, select(most < stop, most, stop), here))

            self.whilst(lambda: self.get(place) + WIDTH <= stop, parts)
            with b.if_then((self.get(place) < stop).value):

                def alone(start: Lanes) -> None:
                    self.several(
                        start,
                        start + 1,
                        1,
                        here,
                        lambda place, noise: cell(place, noise, here, False),
                        wide=False,
                    )
                    self.settle(wide=False)

                self.stepped(self.get(place), stop, 1, alone)
            gone(size, one)

        def whole(room: Lanes) -> None:
            """Add up blocks of a few whole vectors, as many as there are in the line.

            Small blocks have a loop of their own: the work for each block counts there.
            """
            count = one.of("i8", b.sdiv(room.value, width.value))
            begin = self.get(made)
            first = self.get(block)

            def each(k: Lanes) -> None:
                start = begin + k * width
                vectors(start, start + width, self.of_block(first + k, known, wide=False))

            self.stepped(one - 1, count, 1, each)
            gone(count * width, count)

        few = ((width & (WIDTH - 1)) == 0) & (width <= WIDTH * TERMS)

        def piece() -> None:
            room = length - self.get(column)
            left = n - self.get(made)
            room = select(left < room, left, room)
            with b.if_else((few & (self.get(within) == 0) & (room >= width)).value) as (then, otherwise):
                with then:
                    whole(room)
                with otherwise:
                    part(room)

        self.whilst(lambda: self.get(made) < n, piece)
        self.settle(wide=True)


def described(
    code: CellCode,
    params: tuple[str, ...],
    by_element: bool,
    fixed: Iterable[str],
    of_block: Iterable[str],
    of_cell: Iterable[str],
) -> dict[str, Any]:
    """Return all that the loops are written from, as plain values."""
    return {
        **code.results,
        "step_of_block": code.step_of_block,
        "types": {name: code.types[name] for name in params},
        "params": list(params),
        "by_element": by_element,
        "fixed": list(fixed),
        "of_block": list(of_block),
        "of_cell": list(of_cell),
    }


#: Arguments of `summing`, whole numbers and addresses: `rows` lines of `n` cells (one line if blocks are
#: longer than one), of which `x` is the first and `flat` its place; blocks begin at `offset`, lines are
#: `length` long, blocks `width`; `line` counts lines of `bases`. The cells `ahead` by so many come next and
#: are fetched meanwhile. If codes are counted, the lowest byte of each goes to `codes`.
GIVEN = (
    "x",
    "n",
    "flat",
    "offset",
    "length",
    "width",
    "rows",
    "line",
    "bases",
    "params",
    "blocks",
    "floats",
    "integers",
    "tables",
    "ahead",
    "out",
    "codes",
)


def summing(code: dict[str, Any], small: Iterable[FunctionType]) -> Any:
    """Return the loops as a function of numba's."""
    return written_loops(GIVEN, lambda builder, given: Summing(builder, given, code, small).write())


class _Trying(Summing):
    """Writes the loops that give Σ error² of cells for many scales and zero points: these lie side by side,
    and one cell after the other is tried with all of them. So each sum is added up cell by cell, in the same
    order everywhere.
    """

    def write(self) -> None:
        known = self.known
        known |= self.run(self.code["fixed"], known)
        none = known["n"].constant(0, "i8")

        def several(first: Lanes) -> None:
            here = self.of_block(first, known, wide=True)
            noise = self.place("f8", self.memory.load("f8", known["out"], first, wide=True), wide=True)

            def cell(j: Lanes) -> None:
                value = self.memory.load("f4", known["x"], j)
                index = self.memory.load("i8", known["places"], j)
                error = (
                    self.result(
                        "error", self.run(self.code["of_cell"], {**here, "x_": value, "index": index})
                    )
                    .spread()
                    .to("f8")
                )
                self.add(noise, error, error)

            self.stepped(none, known["n"], 1, cell)
            self.memory.store("f8", known["out"], first, self.get(noise))

        self.stepped(known["begin"], known["end"], WIDTH, several)


#: Arguments of `trying`, whole numbers and addresses: `n` cells from `x` on, all of one block, their places
#: in the tensor (read only by stochastic rounding), the block's trials, from `begin` to before `end`, a
#: multiple of `WIDTH`, a block's parameters in each of all `blocks` trials, and a sum of each.
GIVEN_TO_TRY = ("x", "places", "n", "begin", "end", "params", "blocks", "floats", "integers", "tables", "out")


def trying(code: dict[str, Any], small: Iterable[FunctionType]) -> Any:
    """Return the loops of `_Trying` as a function of numba's."""
    return written_loops(GIVEN_TO_TRY, lambda builder, given: _Trying(builder, given, code, small).write())
