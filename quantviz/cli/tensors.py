"""The tensor and the schemes that a command is given: `FILE [TENSOR] -s SCHEME`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quantviz.cli.output import language, say
from quantviz.errors import QuantVizError
from quantviz.schemes.orientation import CONVOLUTIONS, Orientation
from quantviz.text import text

if TYPE_CHECKING:
    from quantviz.schemes.granularity import Shape
    from quantviz.schemes.scheme import Scheme
    from quantviz.sources import Source
    from quantviz.sources.files import Catalog
    from quantviz.tensors.lazy import Stored

_F = TypeVar("_F", bound=Callable[..., Any])

_USUAL = Orientation()
#: Tensors that are named where one has to be chosen.
_MOST_NAMED = 8


@dataclass(frozen=True, eq=False)
class Chosen:
    """A tensor at hand, as the Lab opens it: a weight as outputs × inputs."""

    name: str
    #: The file and the tensor in it, for people.
    title: str
    stored: Stored
    #: Its dtype in the file, "" where it is in none.
    dtype: str
    #: Its shape in the file.
    shape: Shape
    #: The file's axes that are the rows.
    orientation: Orientation = _USUAL

    def cell(self, form: str) -> Shape:
        """Return the cell written as "3,7": of the tensor, or of the matrix that it is seen as."""
        return place_of(form, self.stored.shape, self.shape, self.orientation)


def place_of(form: str, seen: Shape, shape_given: Shape, orientation: Orientation = _USUAL) -> Shape:
    """Return the cell written as `form`, of a tensor of shape `shape_given` that is `seen` as a matrix, or as
    it is.

    The numbers count in either; negative ones count from the end. `QuantVizError` where there is no such
    cell.

    >>> place_of("3,7", (4, 8), (4, 8)), place_of("1, 0, 1, 1", (2, 12), (2, 3, 2, 2))
    ((3, 7), (1, 3))
    """
    if not re.fullmatch(r"-?\d{1,18}(,-?\d{1,18})*", form.replace(" ", ""), re.ASCII):
        raise QuantVizError("cli.cell", got=form, shape=seen)
    place = tuple(int(number) for number in form.split(","))
    shape = seen if len(place) == len(seen) else shape_given
    if len(place) != len(shape) or not all(-n <= i < n for i, n in zip(place, shape, strict=True)):
        raise QuantVizError("index_out_of_range", index=place, shape=shape)
    place = tuple(i % n for i, n in zip(place, shape, strict=True))
    return place if shape == seen else orientation.cell_of(place, shape)


def takes_tensor(command: _F) -> _F:
    """Add `FILE [TENSOR]` to a command, as `file` and `tensor`."""
    file = click.argument("file")
    return file(click.argument("tensor", required=False)(command))


takes_schemes = click.option(
    "-s",
    "--scheme",
    "schemes",
    multiple=True,
    required=True,
    help="A recipe such as int4_g128, or a scheme's text form. Give it again for more.",
)
takes_scheme = click.option(
    "-s", "--scheme", required=True, help="A recipe such as int4_g128, or a scheme's text form."
)


def _orientation(context: click.Context, _: click.Parameter, form: str | None) -> Orientation | None:
    orientation = Orientation.parse(form) if form is not None else None
    if orientation is None and form is not None:
        raise QuantVizError("cli.outputs_axis", got=form)
    return orientation


def _axes(context: click.Context, _: click.Parameter, forms: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    axes = {}
    for form in forms:
        name, mark, written = form.rpartition("=")
        orientation = Orientation.parse(written)
        if orientation is None or (mark and not name):
            raise QuantVizError("cli.outputs_axis", got=form)
        axes[name or "*"] = orientation.outputs
    return axes


takes_outputs_axis = click.option(
    "--outputs-axis",
    callback=_orientation,
    metavar="AXIS",
    help="The axis of the output channels, where the file does not tell: 1 for a weight of "
    "inputs × outputs, 0.2 for stacked experts of inputs × outputs.",
)
#: As `outputs_axis`: axes by name.
takes_outputs_axes = click.option(
    "--outputs-axis",
    callback=_axes,
    multiple=True,
    metavar="[NAME=]AXIS",
    help="The axis of the output channels, where the files do not tell: 1 for weights of inputs × "
    "outputs. Before =, the weights that it is of; * is any text. Give it again for more.",
)


def open_tensor(file: str, tensor: str | None, outputs_axis: Orientation | None = None) -> Chosen:
    """Return the tensor of that name in a checkpoint, or the only one there, as outputs × inputs.

    `file` is an argument of `open_near`, or a source as in the Lab's links, `builtin(name=picture)`. The axis
    of the outputs is found by the file unless it is given.

    Raises:
        QuantVizError: The file cannot be opened, or the name is missing or not there.
    """
    from quantviz.checkpoints.model.opening import open_near
    from quantviz.sources.stores.addresses import shown

    source = written_source(file)
    if source:
        stored = source.open()
        return _chosen(file, source.title(language()), stored, "", outputs_axis or Orientation(by="user"))
    # A decoded weight is read from its file later, so that stays open until the command ends.
    catalog = click.get_current_context().with_resource(open_near(file, tensor))
    name = name_in(catalog, shown(file), tensor)
    title = f"{shown(file)} · {name}"
    dtype = catalog.info(name).dtype
    orientation = outputs_axis or catalog.orientation(name)
    return _chosen(name, title, catalog.stored(name), dtype, orientation)


def _chosen(name: str, title: str, stored: Stored, dtype: str, orientation: Orientation) -> Chosen:
    from quantviz.tensors.lazy import as_matrix

    shape = stored.shape
    if len(shape) < 2 and orientation.is_usual:
        return Chosen(name, title, stored, dtype, shape)
    if orientation.by == "guess" and len(shape) == 2:
        say("cli.outputs_guessed", name=name, rows=shape[0], columns=shape[1])
    elif not orientation.is_usual and orientation.by != "user":
        evidence = text(f"orientation.by.{orientation.by}", language())
        say("cli.outputs_told", name=name, axis=orientation.text, told=evidence)
    if not orientation.is_usual or len(shape) in CONVOLUTIONS:
        stored = as_matrix(stored, orientation.outputs)
    return Chosen(name, title, stored, dtype, shape, orientation)


def written_source(form: str) -> Source | None:
    """Return the source that `form` writes; None where it is a path. `QuantVizError` for a wrong one.

    >>> written_source("builtin(name=picture)"), written_source("model.safetensors")
    (Builtin(name='picture'), None)
    """
    from quantviz.sources import parse_source

    return parse_source(form) if re.match(r"[a-z_]+\(", form) and form.endswith(")") else None


def name_in(catalog: Catalog, file: str, tensor: str | None) -> str:
    """Return the name of a tensor that is in the file; where none is given, that of the only one."""
    if tensor is not None:
        catalog.info(tensor)
        return tensor
    names = catalog.names
    if len(names) > 1:
        some = ", ".join([*names[:_MOST_NAMED], *(["…"] if len(names) > _MOST_NAMED else [])])
        raise QuantVizError("cli.which_tensor", file=file, count=len(names), names=some)
    return names[0]


def schemes_named(forms: tuple[str, ...]) -> dict[str, Scheme]:
    from quantviz.schemes.recipes import as_scheme

    return {form: as_scheme(form) for form in forms}
