"""The places of parts of a tensor: bands of whole rows, windows of whole blocks, runs of flat elements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.schemes.granularity import BlockLayout, Shape, Window
from quantviz.tensors.blocks import viewed
from quantviz.tensors.lazy import Over, Stored

Array = npt.NDArray[Any]


class RowBand(Over):
    """Whole neighbouring rows of a tensor's view."""

    def __init__(self, x: Stored, offset: int, shape: Shape) -> None:
        super().__init__(x)
        self._offset = offset
        self._shape = shape

    @property
    def in_place(self) -> bool:
        return self._stored.in_place

    def run(self, start: int, stop: int) -> Array:
        return self._stored.run(self._offset + start, self._offset + stop)

    def read(self, index: Window) -> torch.Tensor:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ElementRange:
    """Flat elements from `start` to before `stop`, and the layout of their blocks."""

    x: Stored
    start: int
    stop: int
    layout: BlockLayout
    #: The place of the layout's first element: a band's or the whole tensor's.
    offset: int = 0


def rows_of_band(layout: BlockLayout, piece: int) -> int:
    """Return the rows of the view, in whole blocks, with about `piece` elements."""
    step = layout.block_shape[0]
    return min(max(piece // math.prod(layout.view_shape[1:]) // step, 1) * step, layout.view_shape[0])


def layout_of_rows(layout: BlockLayout, first: int, last: int) -> BlockLayout:
    # A block begins at `first`.
    return BlockLayout(
        (last - first, *layout.view_shape[1:]),
        layout.block_shape,
        (-(-(last - first) // layout.block_shape[0]), *layout.grid_shape[1:]),
        layout.tail,
    )


def in_line(layout: BlockLayout) -> BlockLayout:
    """Return the layout of one block as a line of flat elements; any other as it is."""
    count = math.prod(layout.view_shape)
    return (
        BlockLayout((count,), (count,), (1,), layout.tail)
        if layout.block_count == 1 and count == layout.block_size
        else layout
    )


def fills(layout: BlockLayout) -> bool:
    return all(n % of == 0 for n, of in zip(layout.view_shape, layout.block_shape, strict=True))


def windows_of(
    layout: BlockLayout, piece: int
) -> Iterator[tuple[tuple[slice, ...], BlockLayout, tuple[slice, ...]]]:
    """Yield windows of whole blocks of about `piece` elements, their layouts and places in the grid."""
    axis = max(range(len(layout.grid_shape)), key=lambda a: layout.grid_shape[a])
    of_block = math.prod(n for a, n in enumerate(layout.view_shape) if a != axis) * layout.block_shape[axis]
    step = max(piece // of_block, 1)
    for first in range(0, layout.grid_shape[axis], step):
        last = min(first + step, layout.grid_shape[axis])
        low = first * layout.block_shape[axis]
        high = min(last * layout.block_shape[axis], layout.view_shape[axis])
        view = tuple(high - low if a == axis else n for a, n in enumerate(layout.view_shape))
        grid = tuple(last - first if a == axis else n for a, n in enumerate(layout.grid_shape))
        window, place = ([slice(0, n) for n in lengths] for lengths in (layout.view_shape, layout.grid_shape))
        window[axis] = slice(low, high)
        place[axis] = slice(first, last)
        yield tuple(window), BlockLayout(view, layout.block_shape, grid, layout.tail), tuple(place)


def read_window(x: Stored, layout: BlockLayout, window: tuple[slice, ...]) -> torch.Tensor:
    # A view has one or two axes if it differs from the tensor's shape.
    if layout.view_shape == x.shape and not isinstance(x, RowBand):
        return x.read(window)
    length = layout.view_shape[-1]
    lines = [()] if len(layout.view_shape) == 1 else np.ndindex(*(s.stop - s.start for s in window[:-1]))
    runs = []
    for line in lines:
        at = 0
        for i, s, n in zip(line, window, layout.view_shape, strict=False):
            at = at * n + i + s.start
        runs.append(x.run(at * length + window[-1].start, at * length + window[-1].stop))
    return viewed(torch.from_numpy(np.concatenate(runs)), tuple(s.stop - s.start for s in window))


def read_only(values: Array) -> Array:
    # One kernel serves arrays in memory and in files if they are read-only, aligned and contiguous.
    view = values[:]
    if not view.flags.aligned or not view.flags.c_contiguous:
        view = view.copy()
    view.flags.writeable = False
    return view


def run_of(x: Stored, start: int, stop: int) -> Array:
    return read_only(x.run(start, stop))


def bases_of(layout: BlockLayout, start: int, stop: int) -> Array:
    """Return the first block of each row of the view's last axis that a flat run goes through."""
    length = layout.view_shape[-1]
    rest = np.arange(start // length, (stop - 1) // length + 1)
    bases = np.zeros(len(rest), np.int64)
    factor = layout.grid_shape[-1]
    for n, size, count in reversed(
        list(zip(layout.view_shape, layout.block_shape, layout.grid_shape, strict=True))[:-1]
    ):
        bases += rest % n // size * factor
        rest = rest // n
        factor = factor * count
    return bases


def place_of(flat: int, shape: Shape) -> Shape:
    """Return the index of a place in row-major order.

    >>> place_of(5, (2, 3))
    (1, 2)
    """
    return tuple(map(int, np.unravel_index(flat, shape)))


def read_whole(x: Stored) -> torch.Tensor:
    return x.read((slice(None),) * len(x.shape))
