"""Loops of vector instructions that try many scales and zero points on the cells of a block."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from quantviz.compiled.lanes import WIDTH, Lanes, written_loops
from quantviz.compiled.vector_sums import Summing


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
