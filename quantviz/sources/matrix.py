"""A tensor of more axes seen as a matrix: its first axis by all the others, as engines store and group a
convolution's weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.granularity import Shape, flat_index
from quantviz.sources.base import AtHand, Source

if TYPE_CHECKING:
    import torch

    from quantviz.tensors.lazy import Stored

#: Axes of a convolution's weight: output channels, input channels, height and width of the kernel.
_CONVOLUTION = 4


@dataclass(frozen=True)
class AsMatrix(Source):
    """The tensor of another source, of three axes or more, as a matrix: the values stay where they are.

    >>> from quantviz.sources.typed import Typed
    >>> AsMatrix(Typed((1.0,) * 24, (2, 3, 2, 2))).shape
    (2, 12)
    """

    source: Source
    id: ClassVar[str] = "as_matrix"

    @property
    def shape(self) -> Shape:
        """Return rows and columns."""
        rows, *rest = self.source.shape
        return rows, math.prod(rest)

    def problems(self) -> Iterator[QuantVizError]:
        """Yield what keeps it from giving a tensor."""
        if len(self.source.shape) < 3:
            yield QuantVizError("source.as_matrix", shape=self.source.shape)
        yield from self.source.problems()

    def tensor(self) -> torch.Tensor:
        """Return the tensor in the dtype of its source."""
        from quantviz.tensors.lazy import as_matrix

        x: torch.Tensor = as_matrix(self.source.tensor())
        return x

    def open(self, at_hand: AtHand = AtHand()) -> Stored:  # noqa: B008 (it holds nothing)
        """Return the tensor where it lies."""
        return self.seen(self.source.open(at_hand))

    def seen(self, stored: Stored) -> Stored:
        """Return the source's tensor as a matrix."""
        from quantviz.tensors.lazy import as_matrix

        matrix: Stored = as_matrix(stored)
        return matrix

    @property
    def original(self) -> Source:
        """Return the source itself."""
        return self.source.original

    @property
    def axes(self) -> Axes:
        """Return rows and columns; of a convolution's weight the rows are its output channels."""
        return Axes(self.shape, convolution=len(self.source.shape) == _CONVOLUTION)

    def edited(self, cell: Shape, value: float | None) -> Source:
        """Return the matrix with another value in a cell: it is the source's that is set."""
        return AsMatrix(self.source.edited(self.place_of(cell), value))

    @property
    def unedited(self) -> Source:
        """Return the matrix without what was set by hand."""
        own = self.source.unedited
        return self if own is self.source else AsMatrix(own)

    @property
    def edits(self) -> tuple[tuple[Shape, float], ...]:
        """Return each cell that was set by hand, with its value."""
        return tuple((self.cell_of(place), value) for place, value in self.source.edits)

    @property
    def kind(self) -> str:
        """Return the kind of the source; what follows is the source's too."""
        return self.source.kind

    def title(self, language: str) -> str:
        """Return the tensor's name for people."""
        return self.source.title(language)

    @property
    def stem(self) -> str:
        """Return the name, without an ending, of a file with its values."""
        return self.source.stem

    @property
    def stored_as(self) -> str:
        """Return the quantized type that its values were decoded from."""
        return self.source.stored_as

    @property
    def key(self) -> str:
        """Return what tells it from any other tensor, that of the source included."""
        return f"{self.id} {self.source.key}"

    @property
    def shared(self) -> bool:
        """Whether it is the same for all who name it."""
        return self.source.shared

    @property
    def finite(self) -> bool:
        """Whether its values are known to be neither NaN nor Inf."""
        return self.source.finite

    def link_text(self) -> str:
        """Return what a link says of it, with the source's own text inside."""
        return f"{self.id}({self.source.link_text()})"

    def link_problem(self) -> QuantVizError | None:
        """Return why a link cannot carry it."""
        return self.source.link_problem()

    def code(self, large: bool, language: str) -> list[str] | None:
        """Return the source's own lines, and the one that makes a matrix of it."""
        lines = self.source.code(large, language)
        return None if lines is None else [*lines, "x = qv.as_matrix(x)"]

    def place_of(self, cell: Shape) -> Shape:
        """Return the place in the source's own tensor of a cell of the matrix.

        >>> from quantviz.sources.typed import Typed
        >>> AsMatrix(Typed((1.0,) * 24, (2, 3, 2, 2))).place_of((1, 7))
        (1, 1, 1, 1)
        """
        row, flat = cell
        rest: Shape = ()
        for length in reversed(self.source.shape[1:]):
            rest, flat = (flat % length, *rest), flat // length
        return row, *rest

    def cell_of(self, place: Shape) -> Shape:
        """Return the cell of the matrix at which a place in the source's own tensor lies.

        >>> from quantviz.sources.typed import Typed
        >>> AsMatrix(Typed((1.0,) * 24, (2, 3, 2, 2))).cell_of((1, 1, 1, 1))
        (1, 7)
        """
        return place[0], flat_index(place[1:], self.source.shape[1:])


def as_opened(source: Source) -> Source:
    """Return a tensor from a file as it is shown first: a weight of four axes as a matrix."""
    return AsMatrix(source) if len(source.shape) == _CONVOLUTION else source
