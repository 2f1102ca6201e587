"""Kernels that try many ranges on a block's cells, and that hand blocks to a compiled search, 16 at a time.

Imported only where numba is there, when a range or scales are searched for.
"""

from __future__ import annotations

import numpy as np

from quantviz.compiled.cell_functions import call_cells
from quantviz.compiled.driving import CELLS_TOGETHER
from quantviz.compiled.lanes import WIDTH
from quantviz.compiled.machine_code import jit


@jit
def add_noises(cells, x, place, of_trials, finite_only, chance, noises):
    """Add the error² of a run's cells to `noises`, a sum for each trial: those of block b are from begins[b]
    to before begins[b + 1].

    The run is whole lines, or a part of one. Its `place` is the flat index of its first cell, the number of
    cells of each line and the first of them, the width of blocks, the number of the first block of each
    line, and `begins`. `cells` is the address of
    compiled arithmetic, and `of_trials` its input: the block's parameters in each trial, the number of
    trials, numbers and tables. With `chance` it reads where cells are in the tensor.
    """
    flat, columns, first, width, bases, begins = place
    # Narrow blocks are gathered side by side, so that neighbouring cells are read together.
    together = max(1, WIDTH // width)
    values = np.empty((together, CELLS_TOGETHER), np.float32)
    places = np.empty((together, CELLS_TOGETHER if chance else 1), np.int64)
    filled = np.zeros(together, np.int64)
    rows = x.size // columns
    line = 0
    while line < rows:
        more = 1
        while line + more < rows and bases[line + more] == bases[line]:
            more += 1
        column = first
        while column < first + columns:
            number = column // width
            stop = min((number + together) * width, first + columns)
            count = (stop - 1) // width - number + 1
            block = bases[line] + number
            for row in range(line, line + more):
                left = column
                for b in range(count):
                    right = min((number + b + 1) * width, stop)
                    if begins[block + b] == begins[block + b + 1]:
                        left = right
                    while left < right:
                        size = min(right - left, CELLS_TOGETHER - filled[b])
                        at = row * columns + left - first
                        if finite_only:
                            for k in range(at, at + size):
                                if abs(x[k]) < np.inf:
                                    values[b, filled[b]] = x[k]
                                    if chance:
                                        places[b, filled[b]] = flat + k
                                    filled[b] += 1
                        else:
                            values[b, filled[b] : filled[b] + size] = x[at : at + size]
                            if chance:
                                for k in range(size):
                                    places[b, filled[b] + k] = flat + at + k
                            filled[b] += size
                        left += size
                        if filled[b] == CELLS_TOGETHER:
                            _try(cells, values[b], places[b], filled[b], begins, block + b, of_trials, noises)
                            filled[b] = 0
            for b in range(count):
                if filled[b] > 0:
                    _try(cells, values[b], places[b], filled[b], begins, block + b, of_trials, noises)
                    filled[b] = 0
            column = stop
        line += more


@jit
def _try(cells, values, places, n, begins, block, of_trials, noises):
    # `cells` adds the error² of `n` cells of one block to the sums of its trials.
    begin = begins[block]
    end = begins[block + 1]
    params, trials, floats, integers, tables = of_trials
    call_cells(
        cells, values.ctypes.data, places.ctypes.data, n, begin, end, params.ctypes.data, trials,
        floats.ctypes.data, integers.ctypes.data, tables.ctypes.data, noises.ctypes.data,
    )  # fmt: skip


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
