"""The places of a patch's pixels in a tensor, and the parts in which the patch is read."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.schemes.granularity import Shape, Window
from quantviz.streaming.coding import Coder
from quantviz.streaming.pieces import Buffers
from quantviz.tensors.lazy import Stored, Values
from quantviz.tensors.views import View

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Patch:
    """The part of a matrix on the screen: its first row and column, and how many."""

    top: int
    left: int
    rows: int
    cols: int


@dataclass(frozen=True)
class FrameStretch:
    """Cells that are read at once: the same stretch of some lines, first and end, absolute."""

    lines: tuple[int, int]
    cells: tuple[int, int]


@dataclass(frozen=True, eq=False)
class PixelFrame:
    """The places of a patch's pixels in a tensor.

    Cells are read in lines of neighbours: rows, or columns if the last axis is shown downwards. Cells of a
    line are apart in memory only if the last axis is not shown.
    """

    shape: Shape
    #: From one line to the next (none for one axis), and along a line.
    line_axis: int | None
    cell_axis: int
    at: Shape
    #: Whether lines are columns.
    turned: bool
    #: The first index of each pixel along the axes, and the end, absolute.
    line_edges: Array
    cell_edges: Array

    @classmethod
    def of(cls, shape: Shape, patch: Patch, pixels: tuple[int, int], view: View | None) -> PixelFrame:
        view = view or View.of(shape)
        rows = _edges(patch.top, patch.rows, pixels[0])
        cols = _edges(patch.left, patch.cols, pixels[1])
        turned = view.rows == len(shape) - 1
        if turned:
            return cls(shape, view.cols, len(shape) - 1, view.at, True, cols, rows)
        return cls(shape, view.rows, view.cols, view.at, False, rows, cols)

    @property
    def row_edges(self) -> Array:
        return self.cell_edges if self.turned else self.line_edges

    @property
    def col_edges(self) -> Array:
        return self.line_edges if self.turned else self.cell_edges

    def split(self, axis: int) -> PixelFrame:
        # For each row (axis 0) or column (axis 1) of the patch.
        edges = (self.row_edges, self.col_edges)[axis]
        along = np.arange(edges[0], edges[-1] + 1)
        if (axis == 0) == self.turned:
            return dataclasses.replace(self, cell_edges=along)
        return dataclasses.replace(self, line_edges=along)

    @property
    def strides(self) -> tuple[int, int, int]:
        """Return the flat place of line 0, cell 0, and the steps to the next line and cell."""
        steps = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        shown = (self.line_axis, self.cell_axis)
        base = sum(
            i * step for axis, (i, step) in enumerate(zip(self.at, steps, strict=True)) if axis not in shown
        )
        return base, 0 if self.line_axis is None else steps[self.line_axis], steps[self.cell_axis]

    def parts(self, most: int) -> Iterator[list[FrameStretch]]:
        """Yield lists of about `most` cells: whole pixels, or the pieces of a larger one."""
        tallest = int(np.diff(self.line_edges).max())
        widest = int(np.diff(self.cell_edges).max())
        width = int(self.cell_edges[-1] - self.cell_edges[0])
        # Whole lines where they are not too long: their neighbours follow in memory.
        across = len(self.cell_edges) - 1 if width <= most else max(1, most // (tallest * widest))
        down = max(1, most // (tallest * width))
        for top, bottom in _stretches(self.line_edges, down):
            for left, right in _stretches(self.cell_edges, across):
                yield list(self._pieces(top, bottom, left, right, most))

    def _pieces(self, top: int, bottom: int, left: int, right: int, most: int) -> Iterator[FrameStretch]:
        # A pixel larger than `most` comes in pieces.
        width = min(right - left, most)
        height = max(1, most // width)
        for line, cell in itertools.product(range(top, bottom, height), range(left, right, width)):
            yield FrameStretch((line, min(line + height, bottom)), (cell, min(cell + width, right)))

    def read(self, x: Stored, part: FrameStretch) -> Values:
        base, line_stride, cell_stride = self.strides
        (top, bottom), (left, right) = part.lines, part.cells
        width = right - left
        if cell_stride == 1:
            start = base + top * line_stride + left
            if bottom - top == 1 or line_stride == width:
                return x.run(start, start + (bottom - top) * width)
            values = np.empty((bottom - top) * width, dtype=np.float32)
            for i in range(bottom - top):
                values[i * width : (i + 1) * width] = x.run(
                    start + i * line_stride, start + i * line_stride + width
                )
            return values
        index: list[int | slice] = list(self.at)
        assert self.line_axis is not None
        index[self.line_axis] = slice(top, bottom)
        index[self.cell_axis] = slice(left, right)
        window: Window = tuple(index)
        read = x.read(window)
        return np.ascontiguousarray((read if self.line_axis < self.cell_axis else read.T).numpy()).ravel()

    def put(self, values: Values, part: FrameStretch, coder: Coder, buffers: Buffers) -> None:
        """Write codes, values and errors of a part's cells into `buffers`."""
        base, line_stride, cell_stride = self.strides
        (top, bottom), (left, right) = part.lines, part.cells
        width = right - left
        if cell_stride != 1:
            lines = torch.arange(top, bottom) * line_stride
            cells = torch.arange(left, right) * cell_stride
            coder.put_at(values, base + (lines[:, None] + cells).flatten(), buffers)
            return
        start = base + left
        if line_stride == width:
            coder.put(values, start + top * line_stride, buffers)
            return
        for i, line in enumerate(range(top, bottom)):
            here = i * width, (i + 1) * width
            coder.put(values[slice(*here)], start + line * line_stride, buffers.part(*here))

    def places_in(self, at: Array) -> torch.Tensor:
        """Return the flat place of the cell `at` of each pixel, int64 (h, w)."""
        heights = np.diff(self.row_edges)[:, None]
        widths = np.diff(self.col_edges)[None, :]
        rows = self.row_edges[:-1, None] + at // widths
        cols = self.col_edges[None, :-1] + at % widths
        assert (rows < self.row_edges[:-1, None] + heights).all()
        base, line_stride, cell_stride = self.strides
        lines, cells = (cols, rows) if self.turned else (rows, cols)
        return torch.from_numpy(base + lines * line_stride + cells * cell_stride)


def _edges(first: int, count: int, pixels: int) -> Array:
    pixels = min(pixels, count)
    return first + np.arange(pixels + 1, dtype=np.int64) * count // pixels


def _stretches(edges: Array, pixels: int) -> Iterator[tuple[int, int]]:
    last = len(edges) - 1
    for i in range(0, last, pixels):
        yield int(edges[i]), int(edges[min(i + pixels, last)])
