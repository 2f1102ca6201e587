"""Numbers of elements that are read, compiled for, and processed at a time."""

from __future__ import annotations

#: Up to here nothing is compiled.
SMALL = 2**20
#: From here on compiling a scheme's own code takes less time than the reference.
WORTH_WAITING = 2**22
#: Up to here the reference is as fast as code that is compiled already.
FUSED = 2**14
#: Read at a time, at least where nothing is copied.
PIECE = 2**19
#: Neighbours in a block from which on sums are made side by side.
LANES = 16
#: A band's ranges are found and then used while it is in a core's second cache.
BAND = 2**16
#: Elements that memory is prefetched ahead.
AHEAD = 1024
#: For the reference's own operations: the intermediate results stay in a core's cache.
CHUNK = 2**16
#: With fewer, two threads wait for each other between the calls.
CELLS_PER_STEP = 1 << 18
#: Where nothing is computed from cells, or their errors alone.
CELLS_PER_READ = 1 << 20
#: Errors are computed, then read while they are in a core's cache.
ERRORS_PER_STEP = 1 << 18
#: In place: with more, a thread waits less often for the interpreter, which others may hold.
CELLS_IN_PLACE = 1 << 22
