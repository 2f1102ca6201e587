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
    """The sums of some planned pieces of a tensor, a row each; the plan alone decides a piece's sums.

    >>> PieceSums(2, 2**19, 0).arrays[0].shape
    (2, 8)
    """

    def __init__(self, count: int, size: int, lines: int) -> None:
        #: Cells of a piece.
        self.size = size
        #: Sums, and Σx² and Σe² of each index of each axis.
        self.arrays = np.zeros((count, SUMS)), np.zeros((count, lines)), np.zeros((count, lines))

    def of(self, k: int, tally: Tally) -> Tally:
        """Return the tally with the sums of one piece in place of its own."""
        sums, signal, noise = self.arrays
        return tally.with_sums(sums[k], signal[k], noise[k])

    def from_piece(self, k: int) -> PieceSums:
        """Return the pieces from the k-th on, in the same memory."""
        rest = PieceSums(0, self.size, 0)
        sums, signal, noise = self.arrays
        rest.arrays = sums[k:], signal[k:], noise[k:]
        return rest

    def add_to(self, tally: Tally) -> None:
        """Add the sums of one piece after the other to those of a tally."""
        for sums, signal, noise in zip(*self.arrays, strict=True):
            tally.sums += sums
            tally.signal += signal
            tally.noise += noise


class Buffers:
    """Buffers for the results of some cells: codes, values, errors, whether saturation changed the code, and
    errors in steps. With `errors_alone` only errors have room, for code that writes nothing else.
    """

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
        """Return a view of the buffers from `start` to before `stop`."""
        part = Buffers(0, errors_alone=self.errors_alone)
        part.arrays = tuple(array[start:stop] for array in self.arrays)
        return part


def size_of_piece(shape: Shape, size: int, *, by_axis: bool) -> int:
    """Return the number of elements of a planned piece: about `size`, and with sums along each axis many
    times their number, so that these take hardly any time.
    """
    return max(size, 128 * sum(shape) if by_axis else 0)


def rows_of_piece(layout: BlockLayout, shape: Shape, size: int, *, by_axis: bool) -> int:
    """Return the number of rows of the view in a planned piece of about `size` elements: whole bands."""
    size = size_of_piece(shape, size, by_axis=by_axis)
    band = rows_of_band(layout, min(limits.BAND, size))
    return max(rows_of_band(layout, size) // band, 1) * band
