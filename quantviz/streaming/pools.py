"""The pooling of each pixel's cells: the largest, their mean or their root mean square."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.streaming import limits, pooling_without_numba
from quantviz.streaming.coding import Coder
from quantviz.streaming.frames import FrameStretch, PixelFrame
from quantviz.streaming.kernel_access import fixed_ready, wait_for_kernels
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.regions import read_only
from quantviz.tensors.lazy import Values
from quantviz.tensors.views import POOLS

Array = npt.NDArray[Any]


def pooling_kernels() -> Any:
    """Return the compiled pooling kernels; wait for them if they are not ready."""
    from quantviz.compiled import pooling

    wait_for_kernels()
    return pooling


class LargestCells:
    """The first cell of largest magnitude of each pixel, row-major."""

    def __init__(self, frame: PixelFrame) -> None:
        size = (len(frame.line_edges) - 1, len(frame.cell_edges) - 1)
        self._frame = frame
        self._values = np.full(size, math.nan, dtype=np.float32)
        # The smallest dtype that fits: allocating memory costs more than the work on it.
        of_pixel = int(np.diff(frame.line_edges).max()) * int(np.diff(frame.cell_edges).max())
        self._at = np.full(size, -1, dtype=np.int32 if of_pixel < 2**31 else np.int64)

    def add(self, values: Array, part: FrameStretch) -> None:
        frame = self._frame
        kernels = pooling_kernels() if fixed_ready() else pooling_without_numba
        kernels.add_largest(
            read_only(values.view(np.int32)),
            part.lines,
            part.cells,
            frame.line_edges,
            frame.cell_edges,
            frame.turned,
            self._values.view(np.int32),
            self._at,
        )

    def add_errors(self, values: Values, part: FrameStretch, coder: Coder, buffers: Buffers) -> None:
        """Add the errors of neighbouring cells, without storing all."""
        frame, (base, stride, _), (top, bottom), (left, right) = (
            self._frame,
            self._frame.strides,
            part.lines,
            part.cells,
        )
        start = base + top * stride + left
        address, place, of_blocks = coder.errors(start, start + (bottom - top - 1) * stride + right - left)
        bits = read_only(buffers.arrays[2].view(np.int32))
        pooling_kernels().add_largest_errors(
            address, read_only(values), start, stride, place, of_blocks, buffers.arrays, bits,
            limits.ERRORS_PER_STEP, part.lines, part.cells, frame.line_edges, frame.cell_edges, frame.turned,
            self._values.view(np.int32), self._at,
        )  # fmt: skip

    def result(self) -> tuple[Array, Array]:
        np.maximum(self._at, 0, out=self._at)
        at = self._at.view(np.uint32) if self._at.dtype == np.int32 else self._at.astype(np.uint32)
        return (self._values.T.copy(), at.T.copy()) if self._frame.turned else (self._values, at)


class CellMeans:
    """The mean of each pixel's cells, or their root mean square, in float64."""

    def __init__(self, frame: PixelFrame, squared: bool) -> None:
        size = (len(frame.line_edges) - 1, len(frame.cell_edges) - 1)
        self._frame = frame
        self._squared = squared
        self._sums = np.zeros(size)
        self._counts = np.zeros(size)

    def add(self, values: Array, part: FrameStretch) -> None:
        frame = self._frame
        pooling_kernels().add_sums(
            read_only(values),
            part.lines,
            part.cells,
            frame.line_edges,
            frame.cell_edges,
            self._squared,
            self._sums,
            self._counts,
        )

    def result(self) -> tuple[Array, Array]:
        means = np.divide(
            self._sums, self._counts, out=np.full_like(self._sums, math.nan), where=self._counts > 0
        )
        values = (np.sqrt(means) if self._squared else means).astype(np.float32)
        values = values.T.copy() if self._frame.turned else values
        return values, np.zeros(values.shape, dtype=np.uint32)


def pool_of(frame: PixelFrame, how: str) -> LargestCells | CellMeans:
    assert how in POOLS
    return LargestCells(frame) if how == "largest" else CellMeans(frame, squared=how == "rms")
