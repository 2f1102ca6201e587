"""Kernel of the fast Hadamard transform: K·2^k values with K·k additions in place of K·2^k products each.

Imported only if numba is installed, by `streaming/hadamard.py` for large tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quantviz.compiled.lanes import WIDTH, Lanes, Loops, contracted, ir, select, written_loops
from quantviz.compiled.machine_code import jit, kernel_part

#: Neighbours that are turned in registers.
_LONG = 4 * WIDTH
#: The sums of four lines up to their sign: the place of each has a bit for the second, fourth and third line,
#: set where it has another sign than the first.
_SUMS = 8
#: Bytes of a cache's line: a read of two lines takes twice as long.
_LINE = 64
#: Groups of four rows that are summed at a time, so that their sums stay in the first cache.
_BATCH = 11


class _ButterflyWriter(Loops):
    """Writes the loops over numbers of the factor's kind, at addresses that are given by name."""

    def __init__(self, builder: Any, given: dict[str, Any]) -> None:
        super().__init__(builder)
        self.kind = "f4" if isinstance(given["factor"].type, ir.FloatType) else "f8"
        self.given = {
            name: Lanes(builder, self.kind if name == "factor" else "i8", value, wide=False)
            for name, value in given.items()
        }
        self.zero = self.same(0, "i8", wide=False)

    def line(self, name: str, at: Any) -> Lanes:
        """Return `WIDTH` numbers from a place of an array on."""
        return self.memory.load(self.kind, self.given[name], at, wide=True)

    def write(self, name: str, at: Any, value: Lanes) -> None:
        self.memory.store(self.kind, self.given[name], at, value)

    def turn_neighbours(self, lines: int) -> None:
        """Write runs of so many lines of `given` times Sylvester's matrix and `factor` to `out`."""
        factor = self.given["factor"].spread()

        def run(at: Lanes) -> None:
            values = [_across(self.line("given", at + WIDTH * i)) for i in range(lines)]
            half = 1
            while half < lines:
                for i in range(lines):
                    if not i & half:
                        one, two = values[i], values[i + half]
                        values[i], values[i + half] = one + two, one - two
                half *= 2
            for i, value in enumerate(values):
                self.write("out", at + WIDTH * i, value * factor)

        self.stepped(self.zero, self.given["count"], WIDTH * lines, run)

    def turn_pairs(self) -> None:
        """Write sums and differences of each run of `half` numbers and the next to their places in `out`."""
        half = self.given["half"]

        def run(start: Lanes) -> None:
            def pair(at: Lanes) -> None:
                one, two = self.line("out", at), self.line("out", at + half)
                self.write("out", at, one + two)
                self.write("out", at + half, one - two)

            self.stepped(start, start + half, WIDTH, pair)

        self.stepped(self.zero, self.given["count"], half + half, run)

    def turn_fours(self) -> None:
        """Do two steps of `turn_pairs` at once, with runs of `half` and of twice as many numbers."""
        half = self.given["half"]

        def run(start: Lanes) -> None:
            def four(at: Lanes) -> None:
                places = [at, at + half, at + half + half, at + half + half + half]
                one, two, three, four = (self.line("out", place) for place in places)
                sums = (one + two, one - two, three + four, three - four)
                turned = (sums[0] + sums[2], sums[1] + sums[3], sums[0] - sums[2], sums[1] - sums[3])
                for place, value in zip(places, turned, strict=True):
                    self.write("out", place, value)

            self.stepped(start, start + half, WIDTH, four)

        self.stepped(self.zero, self.given["count"], half * 4, run)

    def add_fours(self, lines: int) -> None:
        """Write the sums of each four rows of `given`, so many lines of each row, to `sums`.

        Rows begin `size` numbers apart.
        """
        size = self.given["size"]

        def group(g: Lanes) -> None:
            for i in range(lines):
                at = g * size * 4 + WIDTH * i
                one, two, three, four = (self.line("given", at + size * row) for row in range(4))
                of_two = (one + two, one - two, three + four, three - four)
                for place in range(_SUMS):
                    first, second = of_two[place & 1], of_two[2 + (place >> 1 & 1 ^ place >> 2)]
                    value = first - second if place & 4 else first + second
                    self.write("sums", ((g * _SUMS + place) * lines + i) * WIDTH, value)

        self.stepped(self.zero, self.given["groups"], 1, group)

    def add_sums(self, lines: int) -> None:
        """Write the total of one of each group's sums, times its sign, to each row of `out`.

        If `done` is not 0, the value already there is a part of it.
        """
        of_row, size, done = (self.given[name] for name in ("of_row", "size", "done"))

        def pair(i: Lanes) -> None:
            # Two rows at once: an addition does not wait for the one before.
            places = [(i + n // lines) * size + WIDTH * (n % lines) for n in range(2 * lines)]
            nothing = self.same(0.0, self.kind, wide=True)
            totals = [
                self.place(self.kind, select(done != 0, self.line("out", place), nothing), wide=True)
                for place in places
            ]

            def add(g: Lanes) -> None:
                for row in range(2):
                    at = (i + row) * of_row + g
                    place = self.memory.load("i8", self.given["places"], at)
                    sign = self.memory.load(self.kind, self.given["signs"], at).spread()
                    for n, total in enumerate(totals[row * lines : (row + 1) * lines]):
                        value = self.line("sums", place + WIDTH * n)
                        self.put(total, contracted(self.get(total), value, sign))

            self.stepped(self.zero, self.given["groups"], 1, add)
            for total, place in zip(totals, places, strict=True):
                self.write("out", place, self.get(total))

        self.stepped(self.zero, self.given["rows"], 2, pair)


def _across(value: Lanes) -> Lanes:
    """Return `WIDTH` neighbours times Sylvester's matrix."""
    half = 1
    while half < WIDTH:
        places = [i ^ half for i in range(WIDTH)]
        mask = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), places)
        other = value.of(value.kind, value.builder.shuffle_vector(value.value, value.value, mask))
        signs = ir.Constant(value.value.type, [-1.0 if i & half else 1.0 for i in range(WIDTH)])
        value = contracted(other, value, value.of(value.kind, signs))
        half *= 2
    return value


def _loops(names: str, write: Callable[[_ButterflyWriter], None]) -> Any:
    """Return a function of numba's that takes a number of the arrays' kind, and then these."""
    return written_loops(
        ("factor", *names.split()), lambda builder, given: write(_ButterflyWriter(builder, given))
    )


_turn_long = _loops("given out count", lambda loops: loops.turn_neighbours(4))
_turn_short = _loops("given out count", lambda loops: loops.turn_neighbours(1))
_turn_pairs = _loops("out count half", _ButterflyWriter.turn_pairs)
_turn_fours = _loops("out count half", _ButterflyWriter.turn_fours)
_long_fours = _loops("given sums size groups", lambda loops: loops.add_fours(4))
_short_fours = _loops("given sums size groups", lambda loops: loops.add_fours(1))
_ROWS = "sums places signs of_row out size rows groups done"
_long_rows = _loops(_ROWS, lambda loops: loops.add_sums(4))
_short_rows = _loops(_ROWS, lambda loops: loops.add_sums(1))


@kernel_part
def _sylvester(given, out, size, factor):
    """Write runs of 2^k values, at least `WIDTH`, times Sylvester's matrix and a factor to `out`."""
    at = out.ctypes.data
    half = _LONG if size >= _LONG else WIDTH
    if half == _LONG:
        _turn_long(factor, given.ctypes.data, at, given.size)
    else:
        _turn_short(factor, given.ctypes.data, at, given.size)
    while 4 * half <= size:
        _turn_fours(factor, at, given.size, half)
        half *= 4
    if half < size:
        _turn_pairs(factor, at, given.size, half)


@kernel_part
def _in_lines(count, like):
    """Return new memory for so many numbers, from the start of a cache's line on."""
    spare = _LINE // like.itemsize
    made = np.empty(count + spare, dtype=like.dtype)
    first = (-made.ctypes.data % _LINE) // like.itemsize
    return made[first : first + count]


@jit
def transform(values, out, outer, size, factor):
    """Write each run of K·2^k values times (K × K) ⊗ Sylvester, times `factor`, to `out`.

    `outer` is the matrix of K rows, `size` is 2^k, at least `WIDTH`; values and out are flat and contiguous,
    and may be one. Of each four rows the eight sums are computed once, and every line of the result adds one
    of each four.
    """
    rows = outer.shape[0]
    block = rows * size
    if rows == 1:
        for start in range(0, values.size, block):
            _sylvester(values[start : start + block], out[start : start + block], size, factor)
        return
    groups = rows // 4
    width = _LONG if size >= _LONG else WIDTH
    kept = _in_lines(block, out)
    sums = _in_lines(_SUMS * min(groups, _BATCH) * _LONG, out)
    places = np.empty((rows, groups), dtype=np.int64)
    for i in range(rows):
        for g in range(groups):
            sign = outer[4 * g, i]
            place = (
                (outer[4 * g + 1, i] != sign)
                + 2 * (outer[4 * g + 3, i] != sign)
                + 4 * (outer[4 * g + 2, i] != sign)
            )
            places[i, g] = (_SUMS * (g % _BATCH) + place) * width
    signs = outer[::4].T.copy()
    for start in range(0, values.size, block):
        _sylvester(values[start : start + block], kept, size, factor)
        for at in range(0, size, width):
            line = out[start + at :].ctypes.data
            for done in range(0, groups, _BATCH):
                count = min(_BATCH, groups - done)
                four = kept[4 * done * size + at :].ctypes.data
                place = places[0, done:].ctypes.data
                sign = signs[0, done:].ctypes.data
                # Not once before the loop: numba frees an array after its last use by name.
                table = sums.ctypes.data
                if width == _LONG:
                    _long_fours(factor, four, table, size, count)
                    _long_rows(factor, table, place, sign, groups, line, size, rows, count, done)
                else:
                    _short_fours(factor, four, table, size, count)
                    _short_rows(factor, table, place, sign, groups, line, size, rows, count, done)
