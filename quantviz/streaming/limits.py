"""Numbers of elements that are read, compiled for, and processed at a time."""

from __future__ import annotations

#: Elements up to which nothing is compiled.
SMALL = 2**20
#: Elements from which on compiling a scheme's own code takes less time than the reference does.
WORTH_WAITING = 2**22
#: Elements up to which the reference is as fast as code that is compiled already.
FUSED = 2**14
#: Elements of a piece that is read at a time, at least where nothing is copied.
PIECE = 2**19
#: Elements of a block next to each other from which on sums are made side by side.
LANES = 16
#: Elements of a band whose ranges are found and then used while it is in a core's second cache.
BAND = 2**16
#: Number of elements that memory is prefetched ahead.
AHEAD = 1024
#: Elements of a piece that the reference's own operations run on: the intermediate results stay in a core's
#: cache.
CHUNK = 2**16
#: Cells that are processed at a time: with fewer, two threads wait for each other between the calls.
CELLS_PER_STEP = 1 << 18
#: Cells that are read at a time where nothing is computed from them, or their errors alone.
CELLS_PER_READ = 1 << 20
#: Cells whose errors are computed at a time, then read while they are in a core's cache.
ERRORS_PER_STEP = 1 << 18
#: Cells that are read at a time in place: with more, a thread waits less often for the interpreter, which
#: others may hold.
CELLS_IN_PLACE = 1 << 22
