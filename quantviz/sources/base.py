"""What a source answers about itself, so that nobody has to ask which class it is of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Protocol

from quantviz.errors import QuantVizError
from quantviz.schemes import text_form
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import Orientation
from quantviz.text import text

if TYPE_CHECKING:
    import torch

    from quantviz.sources.files import Catalog
    from quantviz.tensors.lazy import Stored


#: Most elements of a tensor whose cells can be set by hand: it is copied whole.
MOST_EDITABLE = 2**16


class AtHand:
    """What is open already when a source is opened: here nothing; a page has more."""

    def catalog(self, file: str, read_as: str = "") -> Catalog | None:
        """Return the tensors of a file in the server's folder, see `open_local`."""
        return None

    def uploaded(self, source: Source) -> Stored:
        """Return what was uploaded in this session; `QuantVizError` for an upload of another one."""
        raise QuantVizError("link.upload")


class Source(Protocol):
    """Where a tensor comes from: a small frozen value that answers for itself. Only `tensor()` and `open()`
    need torch.

    The answers written out here are the usual ones, those of a dataclass whose id and fields make the tensor;
    a source gives another answer where its own differs.
    """

    #: Its name in links and in the words, `[sources.<id>]`.
    id: ClassVar[str]

    if TYPE_CHECKING:  # A dataclass that has it for a field would take a property for the field's default.

        @property
        def shape(self) -> Shape:
            """Return the tensor's shape, known without making the tensor."""

    @property
    def kind(self) -> str:
        """Return the group of controls that the source belongs to, of `KINDS` in `ui/lab/sidebar.py`.

        A class whose sources all have the same kind states it itself.
        """

    def problems(self) -> Iterator[QuantVizError]:
        """Yield what keeps it from giving a tensor."""
        yield from ()

    def tensor(self) -> torch.Tensor:
        """Return the tensor, of half precision in its own dtype, else float32, of `shape`, the same at each
        call.

        Raises the first of `problems()`.
        """

    def open(self, at_hand: AtHand = AtHand()) -> Stored:  # noqa: B008 (it holds nothing)
        """Return the tensor where it lies, to be read a part at a time."""
        from quantviz.tensors.lazy import InMemory

        return InMemory(self.tensor())

    # ---- what it is called ----

    def title(self, language: str) -> str:
        """Return the tensor's name for people. It may be a stranger's text: whoever shows it escapes it."""
        return text(f"sources.{self.id}.name", language)

    @property
    def stem(self) -> str:
        """Return the name, without an ending, of a file with its values."""
        return self.id

    @property
    def stored_as(self) -> str:
        """Return the quantized type that its values were decoded from.

        "" where they are plain numbers or the type is not known.
        """
        return ""

    @property
    def picture(self) -> bool:
        """Return whether its values are the light of a picture, 0 being black."""
        return False

    @property
    def orientation(self) -> Orientation:
        """Return the axes of `original` that are seen as its outputs."""
        return Orientation()

    def told_orientation(self, catalog: Catalog | None = None) -> Orientation | None:
        """Return which of its axes are outputs, as its file tells; none where it lies in none.

        An open file that is at hand is reused.
        """
        return None

    # ---- keeping ----

    @property
    def key(self) -> str:
        """Return what tells this tensor from any other of the session, without reading its values."""
        return self.link_text()

    @property
    def shared(self) -> bool:
        """Whether it is the same for all who name it. What is not stays in its session."""
        return True

    @property
    def finite(self) -> bool:
        """Whether its values are known to be neither NaN nor Inf; where not, they have to be looked at."""
        return True

    @property
    def in_file(self) -> bool:
        """Whether it lies in a file, which may not be here although the source is a good one."""
        return False

    @property
    def checkpoint(self) -> str | None:
        """Return the file below the server's folder that it lies in, with "/"; none where it lies in none."""
        return None

    # ---- the link and the script ----

    def link_text(self) -> str:
        """Return what a link says of it; `parse_source` reads it."""
        return text_form.write(self)

    def link_problem(self) -> QuantVizError | None:
        """Return why a link cannot carry it, where it cannot."""
        return None

    def code(self, large: bool, language: str) -> list[str] | None:
        """Return the lines of Python that make `x`.

        For a large tensor `x` is what reads it a part at a time.

        None where its values are too many to be written out.
        """
        made = f"{self!r}.tensor()"
        stored = ["from quantviz.tensors.lazy import InMemory"] if large else []
        return [
            f"from quantviz.sources import {type(self).__name__}",
            *stored,
            f"x = InMemory({made})" if large else f"x = {made}",
        ]

    # ---- what was set by hand ----

    def edited(self, cell: Shape, value: float | None) -> Source:
        """Return this tensor with `value` set by hand in a cell; None puts back what was there.

        `QuantVizError` where that cannot be: the tensor is too large, say.
        """
        from quantviz.sources.edited import Edited

        return Edited.of(self, {} if value is None else {cell: value})

    @property
    def unedited(self) -> Source:
        """Return the source without what was set by hand: itself where nothing was."""
        return self

    @property
    def edits(self) -> tuple[tuple[Shape, float], ...]:
        """Return each cell that was set by hand, with its value."""
        return ()

    # ---- what it is seen as ----

    @property
    def original(self) -> Source:
        """Return the source whose values these are: itself, but for a view of another one."""
        return self

    def seen(self, stored: Stored) -> Stored:
        """Return the tensor of `original` as this source sees it."""
        return stored

    @property
    def axes(self) -> Axes:
        """Return what the axes of the tensor are called."""
        return Axes(self.shape)

    def place_of(self, cell: Shape) -> Shape:
        """Return the place in the tensor of `original` of a cell."""
        return cell

    def cell_of(self, place: Shape) -> Shape:
        """Return the cell at which a place in the tensor of `original` lies."""
        return place


def edit_problems(shape: Shape, cell: Shape, value: float) -> Iterator[QuantVizError]:
    """Yield why no cell of a tensor of `shape` can be set by hand, or not this one to `value`, a float32."""
    count = math.prod(shape)
    if count > MOST_EDITABLE:
        yield QuantVizError("source.edited_too_large", count=count, most=MOST_EDITABLE)
    if len(cell) != len(shape) or not all(0 <= i < n for i, n in zip(cell, shape, strict=True)):
        yield QuantVizError("index_out_of_range", index=cell, shape=shape)
    if not math.isfinite(value):
        yield QuantVizError("source.edited_value", got=value)


def comment(key: str, language: str, **params: object) -> str:
    """Return a line of comment for a script."""
    return "# " + text(key, language, **params)


def file_code(file: str, name: str, large: bool, language: str, read_as: str = "") -> list[str]:
    """Return the lines that read the tensor called `name`, which is Python already, out of a file."""
    more = f", stored_as={read_as!r}" if read_as else ""
    need = comment("export.python.file", language, file=repr(file))
    return [
        need,
        f"with qv.open_tensors({file!r}{more}) as tensors:",
        f"    x = tensors.{'stored' if large else 'load'}({name})",
    ]
