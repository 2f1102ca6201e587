"""How many elements are read, compiled for and worked on at a time."""

from __future__ import annotations

#: Elements up to which nothing is compiled.
SMALL = 2**20
#: Elements from which on compiling a scheme's own code takes less time than the reference does.
WORTH_WAITING = 2**22
#: Elements up to which the reference is as fast as what is compiled already.
FUSED = 2**14
#: Elements of a piece that is read at a time, at least where nothing is copied.
PIECE = 2**19
#: Elements of a block next to each other from which on sums are made side by side.
LANES = 16
#: Elements of a band whose ranges are found and then used while it is in a core's second cache.
BAND = 2**16
#: How many elements before they are needed they are asked of memory.
AHEAD = 1024
#: Elements of a piece that the reference's own operations run on: what they make of it stays in a core's
#: cache.
CHUNK = 2**16
#: Cells that are worked on at a time: fewer, and two threads wait for each other between the calls.
CELLS_AT_ONCE = 1 << 18
#: Cells that are read at once where nothing is made of them, or their errors alone.
CELLS_READ_AT_ONCE = 1 << 20
#: Cells of which errors are made at a time, then looked at while a core has them at hand.
ERRORS_AT_ONCE = 1 << 18
#: Cells that are looked at at once where they lie: the interpreter, which others may use, is waited for less
#: often.
CELLS_IN_PLACE = 1 << 22
