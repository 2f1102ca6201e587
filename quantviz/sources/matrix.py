"""Weights seen as matrices, outputs × inputs, as engines store and group them: a convolution's first axis by
all the others, GPT-2's Conv1D turned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import CONVOLUTIONS, Orientation
from quantviz.sources.base import Derived, OpenedFiles, Source
from quantviz.sources.edited import with_cell

if TYPE_CHECKING:
    import torch

    from quantviz.tensors.lazy import Stored

#: The name of the outputs' field in a link.
_OUTPUTS = "outputs_axis"


@dataclass(frozen=True)
class AsMatrix(Derived):
    """The tensor of another source as a matrix: the values stay where they are.

    >>> from quantviz.sources.typed import Typed
    >>> AsMatrix(Typed((1.0,) * 24, (2, 3, 2, 2))).shape, AsMatrix(Typed((1.0,) * 6, (2, 3)), (1,)).shape
    ((2, 12), (3, 2))
    """

    source: Source
    #: The axes of the source's tensor that are outputs: the rows.
    outputs: tuple[int, ...] = (0,)
    id: ClassVar[str] = "as_matrix"

    @property
    def orientation(self) -> Orientation:
        return Orientation(self.outputs, "user")

    @property
    def shape(self) -> Shape:
        return self.orientation.seen(self.source.shape)

    def problems(self) -> Iterator[QuantVizError]:
        of_view = self.source.original is not self.source
        if of_view or len(self.source.shape) < (3 if self.orientation.is_usual else 2):
            yield QuantVizError("source.as_matrix", shape=self.source.shape)
        elif not self.orientation.fits(self.source.shape):
            yield QuantVizError("as_matrix_outputs", got=self.orientation.text, shape=self.source.shape)
        yield from self.source.problems()

    def tensor(self) -> torch.Tensor:
        from quantviz.tensors.lazy import as_matrix

        x: torch.Tensor = as_matrix(self.source.tensor(), self.outputs)
        return x

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Stored:  # noqa: B008 (it holds nothing)
        return self.seen(self.source.open(at_hand))

    def seen(self, stored: Stored) -> Stored:
        from quantviz.tensors.lazy import as_matrix

        matrix: Stored = as_matrix(stored, self.outputs)
        return matrix

    @property
    def original(self) -> Source:
        return self.source.original

    @property
    def axes(self) -> Axes:
        """Return rows and columns; a convolution's rows are output channels."""
        of_outputs = not self.orientation.is_usual
        return Axes(self.shape, convolution=of_outputs or len(self.source.shape) in CONVOLUTIONS)

    def own_edit(self, cell: Shape, value: float | None) -> Source:
        return AsMatrix(with_cell(self.source, self.place_of(cell), value), self.outputs)

    @property
    def unedited(self) -> Source:
        own = self.source.unedited
        return self if own is self.source else AsMatrix(own, self.outputs)

    @property
    def edits(self) -> tuple[tuple[Shape, float], ...]:
        return tuple((self.cell_of(place), value) for place, value in self.source.edits)

    @property
    def key(self) -> str:
        return f"{self._named} {self.source.key}"

    @property
    def _named(self) -> str:
        return self.id if self.orientation.is_usual else f"{self.id} {self.orientation.text}"

    @property
    def shared(self) -> bool:
        return self.source.shared

    def link_text(self) -> str:
        own = "" if self.orientation.is_usual else f",{_OUTPUTS}={self.orientation.text}"
        return f"{self.id}({self.source.link_text()}{own})"

    @classmethod
    def read_form(cls, inner: str) -> tuple[str, tuple[int, ...]]:
        """Return the source's form and the outputs; `QuantVizError` where those are not axes.

        >>> AsMatrix.read_form("normal(rows=8,cols=4),outputs_axis=1")
        ('normal(rows=8,cols=4)', (1,))
        """
        own, mark, form = inner.rpartition(f",{_OUTPUTS}=")
        if not mark or ")" in form:
            return inner, (0,)
        found = Orientation.parse(form)
        if found is None:
            raise QuantVizError("source.outputs_form", got=form)
        return own, found.outputs

    def code(self, large: bool, language: str) -> list[str] | None:
        lines = self.source.code(large, language)
        axes = self.outputs[0] if len(self.outputs) == 1 else self.outputs
        own = "" if self.orientation.is_usual else f", outputs_axis={axes}"
        return None if lines is None else [*lines, f"x = qv.as_matrix(x{own})"]

    def place_of(self, cell: Shape) -> Shape:
        """>>> from quantviz.sources.typed import Typed
        >>> AsMatrix(Typed((1.0,) * 24, (2, 3, 2, 2))).place_of((1, 7))
        (1, 1, 1, 1)
        """
        return self.orientation.place_of(cell, self.source.shape)

    def cell_of(self, place: Shape) -> Shape:
        """Return the inverse of `place_of`."""
        return self.orientation.cell_of(place, self.source.shape)


def as_opened(source: Source, orientation: Orientation = Orientation()) -> Source:  # noqa: B008 (frozen)
    """Return a tensor from a file as it is shown first: a weight as outputs × inputs."""
    if not orientation.is_usual and orientation.fits(source.shape):
        return AsMatrix(source, orientation.outputs)
    return AsMatrix(source) if len(source.shape) in CONVOLUTIONS else source
