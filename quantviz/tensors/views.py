"""The part of a tensor in view, its pixels and colours, and the sizes made at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quantviz.schemes.granularity import Shape, Window


@dataclass(frozen=True)
class ErrorView:
    """How the error is shown: as it is, or divided by a number of each cell.

    The panels, their colours and the browser all read it here. A view is added by an entry in `ERROR_VIEWS`
    and its words.
    """

    #: A magnitude without a sign has colours of one side.
    signed: bool = True
    #: The divisor: the cell's "x", the grid's "step" there, or "quiet", 1 over its input's loudness.
    over: str | None = None
    #: The end of its colours, if it is the same for every tensor.
    end: float | None = None
    #: Makes 1 of the unit that is shown: 100 for percent.
    unit: float = 1.0

    @property
    def pooled(self) -> bool:
        """Whether a pixel that stands for many cells can show it."""
        return self.over is None


#: In the order they are offered.
ERROR_VIEWS: Mapping[str, ErrorView] = MappingProxyType(
    {
        "signed": ErrorView(),
        "absolute": ErrorView(signed=False),
        # 100 %, and half a step.
        "relative": ErrorView(over="x", end=1.0, unit=100.0),
        "steps": ErrorView(over="step", end=0.5),
        # Its square is the factor of the weight's squared error in an output's, for uncorrelated inputs.
        "seen": ErrorView(over="quiet"),
    }
)
#: The reach of the error's colours.
ERROR_RANGES = ("held", "fit", "half_step", "same_as_x")
#: The spread of the colours of x and x̂: as the tensor needs it, even, logarithmic beyond a linear middle, or
#: even to the 99th percentile of the magnitudes.
VALUE_SCALES = ("auto", "linear", "symlog", "percentile")
#: The part that the tiles of metrics count.
SCOPES = ("tensor", "slice")
#: The value that a pixel shows of many cells: the largest magnitude, the mean, or the root mean square.
POOLS = ("largest", "mean", "rms")
#: A whole result is made at once up to so many elements: it takes some five times the tensor's memory.
MOST_WHOLE = 2**20
#: And a part of a larger tensor.
MOST_PART = 2**20


@dataclass(frozen=True)
class View:
    """The part of a tensor in view: a window of a matrix of two axes, the others held at `at`.

    >>> View.of((4, 6))
    View(rows=0, cols=1, at=(0, 0), top=0, left=0, height=None, width=None)
    """

    #: None for a tensor of one axis.
    rows: int | None
    cols: int
    #: One place an axis; those of `rows` and `cols` are ignored.
    at: Shape
    #: Of the window in the matrix.
    top: int = 0
    left: int = 0
    #: None for all that follow.
    height: int | None = None
    width: int | None = None

    @classmethod
    def of(cls, shape: Shape) -> View:
        """Return the usual view: the last two axes, the others at 0, all of the matrix."""
        return cls(len(shape) - 2 if len(shape) > 1 else None, len(shape) - 1, (0,) * len(shape))

    def fits(self, shape: Shape) -> bool:
        axes = [axis for axis in (self.rows, self.cols) if axis is not None]
        known = len(axes) == len(set(axes) & set(range(len(shape)))) == min(len(shape), 2)
        if not known or len(self.at) != len(shape):
            return False
        rows, cols = self.matrix(shape)
        held = self.rows is None or all(0 <= i < n for i, n in zip(self.at, shape, strict=True))
        inside = 0 <= self.top < rows and 0 <= self.left < cols
        return held and inside and all(n is None or n > 0 for n in (self.height, self.width))

    def matrix(self, shape: Shape) -> tuple[int, int]:
        return 1 if self.rows is None else shape[self.rows], shape[self.cols]

    def size(self, shape: Shape) -> tuple[int, int]:
        rows, cols = self.matrix(shape)
        return min(rows - self.top, self.height or rows), min(cols - self.left, self.width or cols)

    def window(self, top: int, left: int, rows: int, cols: int, shape: Shape) -> View:
        """Return another window of the same matrix, brought inside it.

        >>> View.of((100, 200)).window(90, -5, 20, 50, (100, 200))
        View(rows=0, cols=1, at=(0, 0), top=80, left=0, height=20, width=50)
        >>> View.of((100, 200)).window(0, 0, 100, 300, (100, 200)) == View.of((100, 200))
        True
        """
        all_rows, all_cols = self.matrix(shape)
        rows = max(1, min(rows, all_rows))
        cols = max(1, min(cols, all_cols))
        return dataclasses.replace(
            self,
            top=max(0, min(top, all_rows - rows)),
            left=max(0, min(left, all_cols - cols)),
            height=rows if rows < all_rows else None,
            width=cols if cols < all_cols else None,
        )

    def showing(self, index: Shape, shape: Shape) -> View:
        """Return this view if it shows the cell at `index`, else a window of the same size around it.

        >>> View.of((100, 200)).window(0, 0, 10, 10, (100, 200)).showing((50, 3), (100, 200))
        View(rows=0, cols=1, at=(0, 0), top=45, left=0, height=10, width=10)
        """
        matrix = dataclasses.replace(
            self, at=tuple(0 if axis in (self.rows, self.cols) else i for axis, i in enumerate(index))
        )
        if matrix.seen(index, shape):
            return matrix
        rows, cols = self.size(shape)
        row, col = matrix.place(index) or (0, 0)
        top = self.top if self.top <= row < self.top + rows else row - rows // 2
        left = self.left if self.left <= col < self.left + cols else col - cols // 2
        return matrix.window(top, left, rows, cols, shape)

    def index(self, row: int, col: int) -> Shape:
        """Return the place in the tensor of a cell of the matrix.

        >>> View(2, 0, (0, 5, 0)).index(1, 3)
        (3, 5, 1)
        """
        place = list(self.at)
        place[self.cols] = col
        if self.rows is not None:
            place[self.rows] = row
        return tuple(place)

    def place(self, index: Shape) -> tuple[int, int] | None:
        """Return the row and column of the matrix for a place; None if it is not in this matrix."""
        row = 0 if self.rows is None else index[self.rows]
        col = index[self.cols]
        return (row, col) if self.index(row, col) == index else None

    def seen(self, index: Shape, shape: Shape) -> tuple[int, int] | None:
        """Return the row and column of a place in the window, else None."""
        place = self.place(index)
        rows, cols = self.size(shape)
        inside = place and self.top <= place[0] < self.top + rows and self.left <= place[1] < self.left + cols
        return place if inside else None

    def index_of(self, shape: Shape) -> Window:
        """Return the window's index in a tensor of `shape`, one number or slice an axis.

        >>> View.of((2, 3, 4)).index_of((2, 3, 4))
        (0, slice(0, 3, None), slice(0, 4, None))
        """
        rows, cols = self.size(shape)
        picked: list[slice | int] = list(self.at)
        picked[self.cols] = slice(self.left, self.left + cols)
        if self.rows is not None:
            picked[self.rows] = slice(self.top, self.top + rows)
        return tuple(picked)

    def index_text(self, shape: Shape) -> str:
        """Return the same as Python's text, whole axes as a colon.

        >>> View.of((3, 10, 5)).window(0, 0, 4, 5, (3, 10, 5)).index_text((3, 10, 5))
        '0, 0:4, :'
        """
        parts = [_part_words(part, length) for part, length in zip(self.index_of(shape), shape, strict=True)]
        return ", ".join(parts)


def _part_words(part: int | slice, length: int) -> str:
    if isinstance(part, int):
        return str(part)
    if (part.start, part.stop) == (0, length):
        return ":"
    return f"{part.start}:{part.stop}"
