"""The pooling kernel of `pooling.py` in NumPy, bit for bit: for the first picture, while that compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Of a float32; magnitudes above Inf's are NaN.
_MAGNITUDE = np.int32(0x7FFFFFFF)
_INF = np.int32(0x7F800000)
#: The intermediate results stay in a core's cache.
_TOGETHER = 2**16


def add_largest(
    bits: Array,
    lines: tuple[int, int],
    cells: tuple[int, int],
    line_edges: Array,
    cell_edges: Array,
    turned: bool,
    found: Array,
    found_at: Array,
) -> None:
    stride = cells[1] - cells[0]
    first = int(np.searchsorted(cell_edges, cells[0], side="right")) - 1
    last = int(np.searchsorted(cell_edges, cells[1], side="left"))
    here = cell_edges[first : last + 1]
    begin = np.clip(here, *cells) - cells[0]
    values: Array = np.ndarray((lines[1] - lines[0], stride), bits.dtype, bits)
    i = int(np.searchsorted(line_edges, lines[0], side="right")) - 1
    top = lines[0]
    while top < lines[1]:
        bottom = min(int(line_edges[i + 1]), lines[1])
        of_lines = values[top - lines[0] : bottom - lines[0]]
        down = top - int(line_edges[i])
        whole = int(line_edges[i + 1] - line_edges[i])
        pixels, row, cell = _firsts(of_lines, begin, turned)
        across = cell + cells[0] - here[pixels]
        at = across * whole + down + row if turned else (down + row) * np.diff(here)[pixels] + across
        new = found[i, first:last]
        new_at = found_at[i, first:last]
        value = of_lines[row, cell]
        known = new[pixels] & _MAGNITUDE
        known_at = new_at[pixels]
        better = (
            (known_at < 0) | (value & _MAGNITUDE > known) | ((value & _MAGNITUDE == known) & (at < known_at))
        )
        new[pixels[better]] = value[better]
        new_at[pixels[better]] = at[better]
        top = bottom
        i = i + 1


def _firsts(values: Array, begin: Array, turned: bool) -> tuple[Array, Array, Array]:
    """Return pixels with a number, and the line and column of their first largest cell."""
    columns = np.full(values.shape[1], -1, dtype=np.int32)
    step = max(1, _TOGETHER // values.shape[1])
    for start in range(0, len(values), step):
        np.maximum(columns, _sizes(values[start : start + step]).max(0), out=columns)
    most = np.maximum.reduceat(columns, begin[:-1])
    pixel_of = np.repeat(np.arange(len(most)), np.diff(begin))
    cell = np.flatnonzero((columns == most[pixel_of]) & (columns >= 0))
    pixels = pixel_of[cell]
    row = np.empty(len(cell), dtype=np.int64)
    step = max(1, _TOGETHER // len(values))
    for start in range(0, len(cell), step):
        part = slice(start, start + step)
        row[part] = (_sizes(values[:, cell[part]]) == most[pixels[part]]).argmax(0)
    if not len(pixels):
        return pixels, row, cell
    # Of several columns with an equally large cell, take the leftmost if lines are columns of the picture,
    # else the one with the highest cell.
    starts = np.flatnonzero(np.diff(pixels, prepend=-1))
    place = cell if turned else row * values.shape[1] + cell
    least = np.repeat(np.minimum.reduceat(place, starts), np.diff(starts, append=len(pixels)))
    kept = place == least
    return pixels[kept], row[kept], cell[kept]


def _sizes(bits: Array) -> Array:
    # In the order of magnitudes, -1 for NaN.
    sizes: Array = bits & _MAGNITUDE
    sizes[sizes > _INF] = -1
    return sizes
