"""How a tensor is looked at: the part in view, its pixels and colours, and the sizes made at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quantviz.schemes.granularity import Shape, Window


@dataclass(frozen=True)
class ErrorView:
    """How the error is shown: as it is, or divided by a number of each cell.

    This is all there is to a view: the panels, their colours and the browser, which prints it into the cells,
    read it here. A view is added by an entry in `ERROR_VIEWS` and its words.
    """

    #: Whether it has a sign; without one it is a magnitude, in colours of one side.
    signed: bool = True
    #: The divisor: the magnitude of the cell's own "x", the "step" of the grid there, the reciprocal of how
    #: loud the cell's input is, "quiet", or none.
    over: str | None = None
    #: The end of its colours, where that is the same for every tensor.
    end: float | None = None
    #: How many of the unit that its range is shown in make 1: 100 for percent.
    unit: float = 1.0

    @property
    def pooled(self) -> bool:
        """Whether it can be shown of a pixel that stands for many cells."""
        return self.over is None


#: Every way of showing the error, by id, in the order they are offered.
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
#: How far the error's colours reach.
ERROR_RANGES = ("held", "fit", "half_step", "same_as_x")
#: How the colours of x and x̂ are spread over their values: as the tensor needs it, evenly to the largest, by
#: the logarithm beyond a linear middle, or evenly to the 99th percentile of the magnitudes.
VALUE_SCALES = ("auto", "linear", "symlog", "percentile")
#: The part of the tensor that the tiles of metrics count.
SCOPES = ("tensor", "slice")
#: The value that a pixel shows of many cells: the one of largest magnitude, their mean, their root mean
#: square.
POOLS = ("largest", "mean", "rms")
#: Elements up to which the result for a whole tensor is made at once: it takes some five times the tensor's
#: memory.
MOST_WHOLE = 2**20
#: Elements up to which a part of a larger tensor is made.
MOST_PART = 2**20


@dataclass(frozen=True)
class View:
    """Which part of a tensor is seen: a matrix of two of its axes, the others held at `at`, and a window of
    it.

    Rows and columns count from the matrix' first.

    >>> View.of((4, 6))
    View(rows=0, cols=1, at=(0, 0), top=0, left=0, height=None, width=None)
    """

    #: The axis shown as rows; none for a tensor of one axis.
    rows: int | None
    #: The axis shown as columns.
    cols: int
    #: One place for each axis; those of `rows` and `cols` are ignored.
    at: Shape
    #: The first row and column of the window.
    top: int = 0
    left: int = 0
    #: How many rows and columns it has; none for all that follow.
    height: int | None = None
    width: int | None = None

    @classmethod
    def of(cls, shape: Shape) -> View:
        """Return the usual view: the last two axes, the others at 0, all of the matrix."""
        return cls(len(shape) - 2 if len(shape) > 1 else None, len(shape) - 1, (0,) * len(shape))

    def fits(self, shape: Shape) -> bool:
        """Return whether a tensor of `shape` can be seen so."""
        axes = [axis for axis in (self.rows, self.cols) if axis is not None]
        known = len(axes) == len(set(axes) & set(range(len(shape)))) == min(len(shape), 2)
        if not known or len(self.at) != len(shape):
            return False
        rows, cols = self.matrix(shape)
        held = self.rows is None or all(0 <= i < n for i, n in zip(self.at, shape, strict=True))
        inside = 0 <= self.top < rows and 0 <= self.left < cols
        return held and inside and all(n is None or n > 0 for n in (self.height, self.width))

    def matrix(self, shape: Shape) -> tuple[int, int]:
        """Return rows and columns of the matrix that the window is cut from."""
        return 1 if self.rows is None else shape[self.rows], shape[self.cols]

    def size(self, shape: Shape) -> tuple[int, int]:
        """Return rows and columns of the window."""
        rows, cols = self.matrix(shape)
        return min(rows - self.top, self.height or rows), min(cols - self.left, self.width or cols)

    def window(self, top: int, left: int, rows: int, cols: int, shape: Shape) -> View:
        """Return the same matrix seen through another window, brought inside it.

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
        """Return the nearest view that shows the cell at `index`: this one where it does, else a window of
        the same size around it.

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
        """Return the place in the tensor of the cell at `row`, `col` of the matrix.

        >>> View(2, 0, (0, 5, 0)).index(1, 3)
        (3, 5, 1)
        """
        place = list(self.at)
        place[self.cols] = col
        if self.rows is not None:
            place[self.rows] = row
        return tuple(place)

    def place(self, index: Shape) -> tuple[int, int] | None:
        """Return row and column of the matrix at which the cell at `index` lies; None if it is not in this
        matrix.
        """
        row = 0 if self.rows is None else index[self.rows]
        col = index[self.cols]
        return (row, col) if self.index(row, col) == index else None

    def seen(self, index: Shape, shape: Shape) -> tuple[int, int] | None:
        """Return row and column of the cell at `index` if it lies in the window, else None."""
        place = self.place(index)
        rows, cols = self.size(shape)
        inside = place and self.top <= place[0] < self.top + rows and self.left <= place[1] < self.left + cols
        return place if inside else None

    def index_of(self, shape: Shape) -> Window:
        """Return the index of the window in a tensor of `shape`: one number or slice for each axis, in the
        tensor's order.

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
        """Return the index of the window as Python's text, whole axes as a colon.

        >>> View.of((3, 10, 5)).window(0, 0, 4, 5, (3, 10, 5)).index_text((3, 10, 5))
        '0, 0:4, :'
        """
        parts = [_part_words(part, length) for part, length in zip(self.index_of(shape), shape, strict=True)]
        return ", ".join(parts)


def _part_words(part: int | slice, length: int) -> str:
    """Return one axis of an index as Python writes it; a slice of all `length` cells is a colon."""
    if isinstance(part, int):
        return str(part)
    if (part.start, part.stop) == (0, length):
        return ":"
    return f"{part.start}:{part.stop}"
