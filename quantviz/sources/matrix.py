"""A tensor of more axes seen as a matrix: its first axis by all the others, as engines store and group a convolution's weight."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from quantviz.axes import Axes
from quantviz.errors import QuantVizError
from quantviz.granularity import Shape, flat_index

if TYPE_CHECKING:
    import torch

#: Axes of a convolution's weight: output channels, input channels, height and width of the kernel.
_CONVOLUTION = 4


@dataclass(frozen=True)
class AsMatrix:
    """The tensor of another source, of three axes or more, as a matrix: the values stay where they are.

    >>> from quantviz.sources.typed import Typed
    >>> AsMatrix(Typed((1.0,) * 24, (2, 3, 2, 2))).shape
    (2, 12)
    """

    #: A source, or what a page has uploaded.
    source: Any
    id: ClassVar[str] = "as_matrix"

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        rows, *rest = self.source.shape
        return rows, math.prod(rest)

    def problems(self) -> Iterator[QuantVizError]:
        """What keeps it from giving a tensor."""
        if len(self.source.shape) < 3:
            yield QuantVizError("source.as_matrix", shape=self.source.shape)
        yield from self.source.problems()

    def tensor(self) -> torch.Tensor:
        """The tensor, float32 of `shape`."""
        from quantviz.stored import as_matrix

        x: torch.Tensor = as_matrix(self.source.tensor())
        return x

    def place(self, cell: Shape) -> Shape:
        """The place in the source's own tensor of a cell of the matrix.

        >>> from quantviz.sources.typed import Typed
        >>> AsMatrix(Typed((1.0,) * 24, (2, 3, 2, 2))).place((1, 7))
        (1, 1, 1, 1)
        """
        row, flat = cell
        rest: Shape = ()
        for length in reversed(self.source.shape[1:]):
            rest, flat = (flat % length, *rest), flat // length
        return row, *rest

    def cell(self, place: Shape) -> Shape:
        """The cell of the matrix at which a place in the source's own tensor lies.

        >>> from quantviz.sources.typed import Typed
        >>> AsMatrix(Typed((1.0,) * 24, (2, 3, 2, 2))).cell((1, 1, 1, 1))
        (1, 7)
        """
        return place[0], flat_index(place[1:], self.source.shape[1:])


def original(source: Any) -> Any:
    """The source itself, without the view of it as a matrix."""
    return source.source if isinstance(source, AsMatrix) else source


def as_opened(source: Any) -> Any:
    """A tensor from a file as it is seen at first: one of four axes, a convolution's weight, as a matrix."""
    return AsMatrix(source) if len(source.shape) == _CONVOLUTION else source


def axes_of(source: Any) -> Axes:
    """What the axes of a source's tensor are called."""
    return Axes(source.shape, convolution=isinstance(source, AsMatrix) and len(source.source.shape) == _CONVOLUTION)
