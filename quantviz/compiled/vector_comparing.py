"""Comparison of cells with the nearest ones, in loops of vector instructions as those of `vector_sums`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from quantviz.compiled.lanes import WIDTH, Lanes, contracted, further, ir, select, written_loops
from quantviz.compiled.result_sums import SUMS
from quantviz.compiled.vector_sums import Summing

#: Sums that count.
_COUNTS = ("clipped", "zeros", "zeroed")
#: Numbers after the sums: bits of the largest error and of the largest error of the nearest codes, and the
#: ends of x and of the values; each with its kind, its start, and the comparison that joins two of them.
_ENDS: dict[str, tuple[str, Any, str]] = {
    "largest": ("i4", 0, ">"),
    "of_nearest": ("i4", 0, ">"),
    "least_x": ("f4", math.inf, "<"),
    "most_x": ("f4", -math.inf, ">"),
    "least_value": ("f4", math.inf, "<"),
    "most_value": ("f4", -math.inf, ">"),
}
#: The place of each number, and where they start.
AT = {name: i for i, name in enumerate((*SUMS, *_ENDS))}
START = (*(0.0 for _ in SUMS), *(float(start) for _, start, _ in _ENDS.values()))


class _Comparing(Summing):
    """Writes the loops that compare cells with those nearest to x, by the lines of one cell's arithmetic."""

    def write(self) -> None:
        known = self.known
        known |= self.run(self.code["fixed"], known)
        known |= {name: self.memory.load("f4", known["slack"], i) for i, name in enumerate(_SLACK)}
        counts = {name: self.place("i8", 0) for name in _COUNTS}
        for wide in (True, False):
            self.sums[wide] = {
                **counts,
                **{name: self.place("f8", 0.0, wide=wide) for name in SUMS if name not in _COUNTS},
                **{name: self.place(kind, start, wide=wide) for name, (kind, start, _) in _ENDS.items()},
            }
        self.stepped(known["count"].constant(0, "i8"), known["count"], 1, self.run_of_block)
        for name, at in AT.items():
            total = self.get(self.sums[False][name])
            join = further(_ENDS[name][2]) if name in _ENDS else Lanes.__add__
            if name not in _COUNTS:
                total = join(self.get(self.sums[True][name]).joined(join), total)
            before = self.memory.load("f8", known["out"], at)
            self.memory.store("f8", known["out"], at, join(total.to("f8"), before))

    def run_of_block(self, k: Lanes) -> None:
        """Write the loops over the cells of one block in one row."""
        known = self.known
        begin, column, block = (
            self.memory.load("i8", known[name], k) for name in ("firsts", "columns", "numbers")
        )
        stop = self.memory.load("i8", known["firsts"], k + 1)
        here = self.lines_of_block(block, known, wide=False)
        here |= {"to_column_": column - begin}
        here["allowed_"] = self.memory.load("f4", known["allowed"], k)
        outs = self.place("i8", 0)
        done = self.cells_of_block(begin, stop, here, outs, wide=True)
        with self.builder.if_then((done < stop).value, likely=False):
            self.cells_of_block(done, stop, here, outs, wide=False)
        self.count(self.sums[True]["clipped"], self.get(outs))
        hit = self.memory.load("i4", known["hit"], block) + self.get(outs).to("i4")
        self.memory.store("i4", known["hit"], block, hit)

    def cells_of_block(
        self, begin: Lanes, stop: Lanes, known: dict[str, Any], outs: Any, *, wide: bool
    ) -> Lanes:
        """Write the loop over cells of a block, and return where it ends."""
        squares = {name: self.place("f8", 0.0, wide=wide) for name in ("kept", "clipped")}
        done = self.stepped(
            begin, stop, WIDTH if wide else 1, lambda at: self.compared(at, known, squares, outs, wide=wide)
        )
        for name, place in squares.items():
            total = self.get(place)
            self.count(self.sums[wide][f"{name}_e2"], total)
            if self.code["step_of_block"]:
                inverse = known["inverse_step"]
                self.add(self.sums[wide][f"{name}_steps2"], total, inverse * inverse)
        return done

    def compared(
        self, place: Lanes, known: dict[str, Any], squares: dict[str, Any], outs: Any, *, wide: bool
    ) -> None:
        """Add one cell, or `WIDTH` of them from `place` on; error² to `squares`, and to `outs` how many were
        clipped.
        """
        sums = self.sums[wide]
        x, x_hat = (self.memory.load("f4", known[name], place, wide=wide) for name in ("x", "x_hat"))
        index = known["flat"] + place
        if wide:
            lanes = ir.Constant(ir.VectorType(ir.IntType(64), WIDTH), list(range(WIDTH)))
            index = index + Lanes(self.builder, "i8", lanes, wide=True)
        found = self.run(self.code["of_cell"], {**known, "x_": x, "index": index})
        nearest, clipped, step = (self.result(name, found) for name in ("error", "clipped", "step"))
        error = x_hat - x
        self.moments(x.to("f8"), x_hat.to("f8"), sums)
        self.put(sums["e"], self.get(sums["e"]) + error.to("f8"))
        size = known["of_steps"] * step.to("f4") + known["of_x"] * x.called("fabs") + known["allowed_"]
        is_near = (error.called("fabs") > nearest.called("fabs") + size) ^ True
        of_column = place + known["to_column_"]
        counted = self.memory.load("i4", known["near"], of_column, wide=wide) + is_near.to("i4")
        self.memory.store("i4", known["near"], of_column, counted)
        for value, least, most in ((x, "least_x", "most_x"), (x_hat, "least_value", "most_value")):
            self.extend(sums[least], value, "<")
            self.extend(sums[most], value, ">")
        self.extend(sums["largest"], error.bits() & 0x7FFFFFFF, ">")
        self.extend(sums["of_nearest"], nearest.bits() & 0x7FFFFFFF, ">")
        self.zeros(x, x_hat, sums)
        kept = error
        if not isinstance(clipped, bool):
            # Where blocks are small and a code is missing at one end, as often as not one is clipped.
            out = clipped.spread() if wide else clipped
            self.count(outs, out.count())
            kept = select(out, 0.0, error)
            self.add_squares("clipped", select(out, error, 0.0).to("f8"), step, squares, sums)
        self.add_squares("kept", kept.to("f8"), step, squares, sums)

    def moments(self, x: Lanes, x_hat: Lanes, sums: dict[str, Any]) -> None:
        """Add powers of x and of the values, float64."""
        square = x * x
        self.put(sums["x"], self.get(sums["x"]) + x)
        self.put(sums["x2"], self.get(sums["x2"]) + square)
        for name, a, b in (
            ("x3", square, x),
            ("x4", square, square),
            ("x_hat2", x_hat, x_hat),
            ("x_x_hat", x, x_hat),
        ):
            self.put(sums[name], contracted(self.get(sums[name]), a, b))

    def add_squares(
        self, name: str, error: Lanes, step: Any, squares: dict[str, Any], sums: dict[str, Any]
    ) -> None:
        """Add error², and the same in steps where those are not a block's."""
        self.add(squares[name], error, error)
        if not self.code["step_of_block"]:
            scaled = select(error == 0.0, 0.0, error * (1.0 / step.to("f8")))
            self.add(sums[f"{name}_steps2"], scaled, scaled)

    def zeros(self, x: Lanes, x_hat: Lanes, sums: dict[str, Any]) -> None:
        """Count x that are 0, and other x of which the value is 0."""
        zero = x == 0.0
        zero_value = x_hat == 0.0
        self.count(sums["zeroed"], zero_value.count())
        # Rare cases cost one test for all lanes.
        with self.builder.if_then((zero.count() != 0).value, likely=False):
            self.count(sums["zeros"], zero.count())
            self.count(sums["zeroed"], -(zero & zero_value).count())


#: Names of the numbers at `slack`.
_SLACK = ("of_steps", "of_x")
#: Arguments of `comparing`, whole numbers and addresses: cells `x` and their values, of which the first is
#: the tensor's at `flat`; `count` runs of cells of one block in one row, each with its first cell (and where
#: the last one ends), the block's number, the first cell's column, and how much more the error of a code that
#: counts as nearest can be; the blocks' parameters; by how much it can be for each step and each x. Nearest
#: codes are counted by columns in `near`, codes that saturation changed by blocks in `hit`, and all else is
#: added to `out`, see `AT`.
GIVEN_TO_COMPARE = (
    *("x", "x_hat", "flat", "count", "firsts", "numbers", "columns", "allowed"),
    *("params", "blocks", "floats", "integers", "tables", "slack", "near", "hit", "out"),
)


def comparing(code: dict[str, Any], small: Iterable[FunctionType]) -> Any:
    """Return the loops of `_Comparing` as a function of numba's."""
    return written_loops(
        GIVEN_TO_COMPARE, lambda builder, given: _Comparing(builder, given, code, small).write()
    )
