"""The protocol of sources, whose methods replace checks of a source's class."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar, cast

from quantviz.errors import QuantVizError
from quantviz.schemes import text_form
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import Orientation
from quantviz.text import text, visible

if TYPE_CHECKING:
    import torch

    from quantviz.sources.files.catalog import Catalog
    from quantviz.tensors.lazy import Stored


#: Most elements of a tensor whose cells can be set by hand: it is copied whole.
MOST_EDITABLE = 2**16


class OpenedFiles:
    """Open files and uploads that a source can reuse: none here; a page has more."""

    def catalog(self, file: str, read_as: str = "") -> Catalog | None:
        return None

    def uploaded(self, source: Source) -> Stored:
        """Return the tensor of an upload; raise `QuantVizError` if it belongs to another session."""
        raise QuantVizError("link.upload")


class Source(Protocol):
    """A small frozen value; only `tensor()` and `open()` need torch.

    The methods here are the defaults, for a dataclass whose id and fields define the tensor.
    """

    #: Its name in links and in the texts, `[sources.<id>]`.
    id: ClassVar[str]

    if TYPE_CHECKING:  # A dataclass that has it for a field would take a property for the field's default.

        @property
        def shape(self) -> Shape: ...

    @property
    def kind(self) -> str:
        """Return the group of controls, of `KINDS` in `ui/lab/sidebar/sidebar.py`."""

    def problems(self) -> Iterator[QuantVizError]:
        yield from ()

    def tensor(self) -> torch.Tensor:
        """Return the same tensor at each call, in float32 or its half precision; raise a problem it has."""

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Stored:  # noqa: B008 (it holds nothing)
        from quantviz.tensors.lazy import InMemory

        return InMemory(self.tensor())

    def listed(self, at_hand: OpenedFiles) -> tuple[Catalog, str] | None:
        """Return the open file in the server's folder that lists it, and its name there."""
        return None

    # ---- its name ----

    def title(self, language: str) -> str:
        """Return the name for people. It may be a stranger's text, so callers escape it."""
        return text(f"sources.{self.id}.name", language)

    @property
    def stem(self) -> str:
        return self.id

    @property
    def stored_as(self) -> str:
        """Return the quantized type that the values were decoded from; "" where none is known."""
        return ""

    @property
    def picture(self) -> bool:
        """Whether its values are the light of a picture, 0 being black."""
        return False

    @property
    def orientation(self) -> Orientation:
        """Return the axes of `original` that are seen as outputs."""
        return Orientation()

    def file_orientation(self, catalog: Catalog | None = None) -> Orientation | None:
        """Return the axes that are outputs by the tensor's file, which may be open already."""
        return None

    # ---- keeping ----

    @property
    def key(self) -> str:
        """Return a text that identifies the tensor within the session, without reading its values."""
        return self.link_text()

    @property
    def shared(self) -> bool:
        """Whether its name means the same tensor for everybody. Other tensors stay in their session."""
        return True

    @property
    def finite(self) -> bool:
        """Whether its values are known to be finite without reading them."""
        return True

    @property
    def in_file(self) -> bool:
        """Whether it lies in a file, which may not be here although the source is a good one."""
        return False

    @property
    def checkpoint(self) -> str | None:
        return None

    # ---- the link and the script ----

    def link_text(self) -> str:
        """Return the form in a link, which `parse_source` reads."""
        return text_form.write(self)

    def link_problem(self) -> QuantVizError | None:
        return None

    def code(self, large: bool, language: str) -> list[str] | None:
        """Return the lines of Python that make `x`, a `large` one as a `Stored`; None for too many values."""
        source = f"from quantviz.sources import {type(self).__name__}"
        if large:
            return [source, "from quantviz.tensors.lazy import InMemory", f"x = InMemory({self!r}.tensor())"]
        return [source, f"x = {self!r}.tensor()"]

    # ---- its edits ----

    def own_edit(self, cell: Shape, value: float | None) -> Source | None:
        """Return the tensor with `value` in a cell as its class writes it, see `edited.with_cell`; None where
        an `Edited` around it has the value.

        Raises:
            QuantVizError: The cell cannot be edited.
        """
        return None

    @property
    def unedited(self) -> Source:
        return self

    @property
    def edits(self) -> tuple[tuple[Shape, float], ...]:
        return ()

    # ---- its view ----

    @property
    def original(self) -> Source:
        return self

    def seen(self, stored: Stored) -> Stored:
        return stored

    @property
    def axes(self) -> Axes:
        return Axes(self.shape)

    def place_of(self, cell: Shape) -> Shape:
        """Return the place in the tensor of `original`."""
        return cell

    def cell_of(self, place: Shape) -> Shape:
        """Return the cell of a place in the tensor of `original`."""
        return place


class Derived(Source):
    source: Source

    @property
    def kind(self) -> str:
        return self.source.kind

    def title(self, language: str) -> str:
        return self.source.title(language)

    @property
    def stem(self) -> str:
        return self.source.stem

    @property
    def stored_as(self) -> str:
        return self.source.stored_as

    @property
    def finite(self) -> bool:
        return self.source.finite

    def link_problem(self) -> QuantVizError | None:
        return self.source.link_problem()


class InFile(Source):
    file: str
    name: str

    #: Its values have to be read to find out.
    finite: ClassVar[bool] = False
    in_file: ClassVar[bool] = True

    def _open_file(self) -> Catalog:
        raise NotImplementedError

    def file_orientation(self, catalog: Catalog | None = None) -> Orientation:
        return self._catalog(catalog).orientation(self.name)

    def problems(self) -> Iterator[QuantVizError]:
        try:
            self._catalog()
        except QuantVizError as problem:
            yield problem

    def tensor(self) -> torch.Tensor:
        """Return all of it in memory; `QuantVizError` where it cannot be read, or has too many elements."""
        return self._catalog().load(self.name)

    def _catalog(self, opened: Catalog | None = None) -> Catalog:
        """Return the open file, after a check that it holds this tensor."""
        catalog = opened or self._open_file()
        info = catalog.info(self.name)
        if info.problem:
            raise info.problem.again()
        if info.shape != self.shape:
            names = {"file": self._shown(self.file), "name": self._shown(self.name)}
            raise QuantVizError(f"{self.id}.other_shape", **names, got=info.shape, expected=self.shape)
        return catalog

    def _shown(self, name: str) -> str:
        return visible(name)


def edit_problems(shape: Shape, cell: Shape, value: float) -> Iterator[QuantVizError]:
    count = math.prod(shape)
    if count > MOST_EDITABLE:
        yield QuantVizError("source.edited_too_large", count=count, most=MOST_EDITABLE)
    if len(cell) != len(shape) or not all(0 <= i < n for i, n in zip(cell, shape, strict=True)):
        yield QuantVizError("index_out_of_range", index=cell, shape=shape)
    if not math.isfinite(value):
        yield QuantVizError("source.edited_value", got=value)


def comment(key: str, language: str, **params: object) -> str:
    return "# " + text(key, language, **params)


def file_code(file: str, name: str, large: bool, language: str, read_as: str = "") -> list[str]:
    """Return the lines that read a tensor out of a file; `name` is Python already."""
    more = f", stored_as={read_as!r}" if read_as else ""
    need = comment("export.python.file", language, file=repr(file))
    return [
        need,
        f"with qv.open_tensors({file!r}{more}) as tensors:",
        f"    x = tensors.{'stored' if large else 'load'}({name})",
    ]


T = TypeVar("T")


def of_tensor(tensor: Source | Stored, work: Callable[[Stored], T]) -> T:
    """Return the result of `work` for a tensor, or for the tensor of a source."""
    from quantviz.tensors.lazy import Stored

    return work(tensor if isinstance(tensor, Stored) else _opened(tensor.key, cast("Hashable", tensor)))


@lru_cache(maxsize=1)
def _opened(key: str, source: Hashable) -> Stored:
    # The key differs between versions of a file.
    return cast("Source", source).open()
