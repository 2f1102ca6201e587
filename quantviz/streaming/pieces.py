"""The planned pieces of a tensor: their sizes, their sums, and buffers for their cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.compiled.partial_sums import SUMS, Tally
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.streaming import limits
from quantviz.streaming.regions import rows_of_band

Array = npt.NDArray[Any]


class PieceSums:
    """The sums of planned pieces, a row each; the plan alone decides a piece's sums.

    >>> PieceSums(2, 2**19, 0).arrays[0].shape
    (2, 8)
    """

    def __init__(self, count: int, size: int, lines: int) -> None:
        self.size = size
        #: Σx² and Σe² of each index of each axis come last.
        self.arrays = np.zeros((count, SUMS)), np.zeros((count, lines)), np.zeros((count, lines))

    def of(self, k: int, tally: Tally) -> Tally:
        """Return the tally with the sums of one piece."""
        sums, signal, noise = self.arrays
        return tally.with_sums(sums[k], signal[k], noise[k])

    def from_piece(self, k: int) -> PieceSums:
        # In the same memory.
        rest = PieceSums(0, self.size, 0)
        sums, signal, noise = self.arrays
        rest.arrays = sums[k:], signal[k:], noise[k:]
        return rest

    def add_to(self, tally: Tally) -> None:
        # One piece after the other.
        for sums, signal, noise in zip(*self.arrays, strict=True):
            tally.sums += sums
            tally.signal += signal
            tally.noise += noise


class Buffers:
    """Codes, values, errors, saturation and errors in steps of some cells, or errors alone."""

    def __init__(self, size: int, *, errors_alone: bool = False) -> None:
        self.errors_alone = errors_alone
        others = 0 if errors_alone else size
        self.arrays: tuple[Array, ...] = (
            np.empty(others, np.int32),
            np.empty(others, np.float32),
            np.empty(size, np.float32),
            np.empty(others, np.bool_),
            np.empty(others),
        )

    def part(self, start: int, stop: int) -> Buffers:
        # In the same memory.
        part = Buffers(0, errors_alone=self.errors_alone)
        part.arrays = tuple(array[start:stop] for array in self.arrays)
        return part


def size_of_piece(shape: Shape, size: int, *, by_axis: bool) -> int:
    """Return the elements of a piece: with sums along axes so many that these hardly cost."""
    return max(size, 128 * sum(shape) if by_axis else 0)


def rows_of_piece(layout: BlockLayout, shape: Shape, size: int, *, by_axis: bool) -> int:
    """Return the rows of the view in a piece of about `size` elements, in whole bands."""
    size = size_of_piece(shape, size, by_axis=by_axis)
    band = rows_of_band(layout, min(limits.BAND, size))
    return max(rows_of_band(layout, size) // band, 1) * band
