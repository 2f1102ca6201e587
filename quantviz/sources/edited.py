"""Small tensors with some values set by hand: a link carries the changed cells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes import text_form
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.granularity import Shape
from quantviz.sources.base import Derived, OpenedFiles, Source, edit_problems
from quantviz.sources.typed import nearest_float32, shortest
from quantviz.text import text

if TYPE_CHECKING:
    import torch

    from quantviz.tensors.lazy import Stored

#: Most cells that can be set: a link has room for them.
MOST_EDITS = 64

_CELL = re.compile(r"\d{1,5}(\.\d{1,5}){0,3}", re.ASCII)


@dataclass(frozen=True, eq=False)
class Edited(Derived):
    """The tensor of `source` with other values in some cells.

    `with_cell` makes it and keeps one form for one tensor: cells in order, none twice, and a typed tensor or
    a view as a matrix stays outermost.
    """

    source: Source
    #: Each changed cell with its value, kept as the nearest float32.
    changed: tuple[tuple[Shape, float], ...]
    id: ClassVar[str] = "edited"
    #: Edits by hand stay in the session, or travel in a link.
    shared: ClassVar[bool] = False

    @classmethod
    def of(cls, source: Source, changed: dict[Shape, float]) -> Source:
        """Return `source` with these cells changed; `QuantVizError` for too large a tensor, too many cells,
        one outside of it, and a value that is no finite float32.
        """
        if not changed:
            return source
        values = ((cell, nearest_float32(value)) for cell, value in sorted(changed.items()))
        edited = cls(source, tuple(values))
        for problem in edited._own_problems():
            raise problem
        return edited

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Edited) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Source, str]:
        # As text, 0.0 is not -0.0.
        return self.source, self._cells_text()

    def _cells_text(self) -> str:
        return ",".join(f"{'.'.join(map(str, cell))}={shortest(value)}" for cell, value in self.changed)

    @property
    def shape(self) -> Shape:
        return self.source.shape

    def problems(self) -> Iterator[QuantVizError]:
        yield from self.source.problems()
        yield from self._own_problems()

    def _own_problems(self) -> Iterator[QuantVizError]:
        if len(self.changed) > MOST_EDITS:
            yield QuantVizError("source.edited_too_many", most=MOST_EDITS)
        for cell, value in self.changed:
            yield from edit_problems(self.shape, cell, value)

    def tensor(self) -> torch.Tensor:
        return self._with_values(self.source.tensor())

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Stored:  # noqa: B008 (it holds nothing)
        from quantviz.tensors.conversion import as_dtype
        from quantviz.tensors.lazy import InMemory

        stored = self.source.open(at_hand)
        edited = self._with_values(stored.read((slice(None),) * len(self.shape)))
        if stored.dtype in HALVES:
            # As the values beside it: a cell has the dtype of its tensor.
            edited = as_dtype(edited, stored.dtype)[0].to(edited.dtype)
        return InMemory(edited, stored.notes, stored.dtype)

    def _with_values(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.clone()
        for cell, value in self.changed:
            tensor[cell] = value
        return tensor

    def own_edit(self, cell: Shape, value: float | None) -> Source:
        others = {place: number for place, number in self.changed if place != cell}
        return Edited.of(self.source, others if value is None else {**others, cell: value})

    @property
    def unedited(self) -> Source:
        return self.source

    @property
    def edits(self) -> tuple[tuple[Shape, float], ...]:
        return self.changed

    def title(self, language: str) -> str:
        count = len(self.changed)
        key = "sources.edited.title_one" if count == 1 else "sources.edited.title"
        return text(key, language, name=self.source.title(language), count=count)

    @property
    def stem(self) -> str:
        return f"{self.source.stem}-{self.id}"

    @property
    def key(self) -> str:
        return f"{self.id} {self._cells_text()} {self.source.key}"

    @property
    def axes(self) -> Axes:
        return self.source.axes

    def link_text(self) -> str:
        return f"{self.id}({self.source.link_text()},{self._cells_text()})"

    def code(self, large: bool, language: str) -> list[str] | None:
        lines = self.source.code(False, language)
        if lines is None:
            return None
        return [
            *lines,
            *(f"x[{', '.join(map(str, cell))}] = {shortest(value)}" for cell, value in self.changed),
        ]


def with_cell(source: Source, cell: Shape, value: float | None) -> Source:
    """Return `source` with `value` in a cell, None for the original one; `QuantVizError` for no such cell."""
    edited = source.own_edit(cell, value)
    if edited is not None:
        return edited
    return Edited.of(source, {} if value is None else {cell: value})


def read_edit(form: str) -> tuple[Shape, float]:
    cell, _, value = form.partition("=")
    if not _CELL.fullmatch(cell):
        raise QuantVizError("source.edited_form", got=form)
    return tuple(map(int, cell.split("."))), text_form.read_value(value, float)
