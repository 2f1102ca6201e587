"""The kernel that hands blocks to a compiled search, 16 side by side.

Imported only where numba is there, when scales are searched.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import call_cells
from quantviz.compiled.lanes import WIDTH
from quantviz.compiled.machine_code import jit


@jit
def search(cells, rows, weights, levels, in_run, kept, constants, results):
    """Put the results of each block into `results`, a line for each number; return whether all elements are
    finite, else the results are not valid.

    `rows` has a line for each block, `weights` one for each block of a line of the tensor, after which they
    begin anew, `levels` a number for each `in_run` blocks. `cells` is the address of the compiled search,
    `kept` how many values of each element it keeps, and `constants` the numbers and tables that it reads.
    """
    floats, integers, tables = constants
    blocks, size = rows.shape
    values = np.zeros((size, WIDTH), np.float32)
    own = np.ones((size, WIDTH), np.float32)
    room = np.empty((max(kept, 1), size, WIDTH), np.float32)
    level = np.zeros(WIDTH, np.float32)
    out = np.empty((len(results), WIDTH), np.float32)
    for first in range(0, blocks, WIDTH):
        count = min(WIDTH, blocks - first)
        finite = True
        for k in range(count):
            for i in range(size):
                value = rows[first + k, i]
                finite &= abs(value) < np.inf
                values[i, k] = value
        if not finite:
            return False
        if len(weights):
            for k in range(count):
                line = weights[(first + k) % len(weights)]
                for i in range(size):
                    own[i, k] = line[i]
        if len(levels):
            for k in range(count):
                level[k] = levels[(first + k) // in_run]
        call_cells(
            cells, values.ctypes.data, own.ctypes.data, level.ctypes.data, room.ctypes.data, size,
            floats.ctypes.data, integers.ctypes.data, tables.ctypes.data, out.ctypes.data,
        )  # fmt: skip
        for i in range(len(results)):
            for k in range(count):
                results[i, first + k] = out[i, k]
    return True
