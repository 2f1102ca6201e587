"""`quantviz link`: the Lab's address of a tensor under a scheme, and the parts of an address."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import click

from quantviz.cli.lab_source import lab_source
from quantviz.cli.output import FOUND, Output, complain, language, put, say, with_output, write
from quantviz.cli.tensors import schemes_named, takes_outputs_axis, takes_tensor
from quantviz.errors import QuantVizError
from quantviz.schemes.orientation import Orientation
from quantviz.text import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from quantviz.lab.state import LabState
    from quantviz.sources import Source

#: Streamlit's own address.
APP = "http://localhost:8501/"

#: The printed names of each part of an address.
_SAID_BY: Mapping[str, tuple[str, ...]] = {
    "link.names.lab_t": ("source", "title", "shape", "cell", "view"),
    "link.names.lab_s": ("scheme", "recipe"),
    "link.names.lab_c": ("cell",),
    "link.names.lab_a": ("view",),
    "link.names.lab_b": ("against",),
    "link.names.lab_y": ("against",),
}


@click.command()
@takes_tensor
@click.option("-s", "--scheme", help="A recipe such as int4_g128, or a scheme's text form.")
@click.option("--cell", metavar="CELL", help="The cell that is explained, such as 3,7.")
@click.option(
    "-a",
    "--against",
    multiple=True,
    metavar="SCHEME",
    help="A scheme that it is held against. Give it again for more.",
)
@takes_outputs_axis
@click.option("--app", default=APP, show_default=True, metavar="ADDRESS", help="Where the app is.")
@with_output()
def link(
    file: str,
    tensor: str | None,
    scheme: str | None,
    cell: str | None,
    against: tuple[str, ...],
    outputs_axis: Orientation | None,
    app: str,
    output: Output,
) -> None:
    """Print the Lab's address of a tensor, or read one.

    FILE is a file of tensors, the address of one on a hub that QUANTVIZ_HUBS lists, a source such as
    'builtin(name=picture)', or an address of the Lab. Of an address of the Lab it prints the tensor, the
    scheme and the view, and ends with status 1 if a part of it cannot be used.
    """
    if _is_of_the_lab(file):
        if tensor or scheme or cell or against or outputs_axis:
            raise click.UsageError("An address is read by itself, without other arguments.")
        _read(file, output)
        return
    if scheme is None:
        raise click.UsageError("Missing option '-s' / '--scheme'.")
    source, folder = lab_source(file, tensor, outputs_axis)
    address = lab_address(app, source, scheme, cell, against)
    if output.format == "table":
        put(output, f"{address}\n")
    else:
        write(output, {"address": address, "folder": folder})
    if folder:
        say("cli.link_folder", folder=folder)


def _is_of_the_lab(form: str) -> bool:
    from quantviz.sources.files import reader_of
    from quantviz.sources.stores.addresses import is_address, name_of

    if is_address(form):
        return reader_of(name_of(form)) is None
    return "://" in form or form.startswith(("?", "/lab?", "lab?"))


def lab_address(
    app: str, source: Source, scheme: str | None, cell: str | None = None, against: tuple[str, ...] = ()
) -> str:
    """Return the address of the Lab that opens a tensor; `QuantVizError` where no link can carry it."""
    from quantviz.cli.tensors import place_of
    from quantviz.lab.share_links import short_link, write_address
    from quantviz.lab.state import opening

    problem = source.link_problem()
    if problem:
        raise problem
    state = opening().with_source(source)
    for named in schemes_named((scheme,) if scheme else ()).values():
        _check(named, source)
        state = state.with_scheme(named)
    others = list(schemes_named(against).values())
    for named in others:
        _check(named, source)
    state = state.remembering(others)
    if cell is not None:
        place = place_of(cell, source.shape, source.original.shape, source.orientation)
        state = state.replace(cell=place, view=state.view.showing(place, source.shape))
    parameters = short_link(state, present=False)
    if language() != DEFAULT_LANGUAGE:
        parameters["lang"] = language()
    return write_address(app, "lab", parameters)


def _check(scheme: Any, source: Source) -> None:
    for problem in scheme.problems(source.shape):
        raise problem


def _read(address: str, output: Output) -> None:
    from quantviz.lab.state import LabState, change_notes, has_state, weight_codec
    from quantviz.schemes.arithmetic_changes import TensorTraits

    parts = urlsplit(address)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    if PurePosixPath(parts.path).name not in ("", "lab") or not (parts.query or parts.path):
        raise QuantVizError("cli.not_the_lab", got=address)
    if not has_state(parameters):
        raise QuantVizError("cli.no_state", got=address)
    state, problems = LabState.read(parameters, t=weight_codec(present=False))
    facts = _facts(state, parameters)
    for problem in problems:
        for name in _SAID_BY.get(getattr(problem.params.get("part"), "key", ""), ()):
            facts[name] = None  # the state has another in its place
    write(output, facts)
    for problem in problems:
        complain(problem)
    for note in change_notes(parameters, state, TensorTraits(finite=state.source.finite)):
        complain(note)
    if problems:
        raise click.exceptions.Exit(FOUND)


def _facts(state: LabState, parameters: dict[str, str]) -> dict[str, Any]:
    """Return the parts of an address by name, with the parts hidden from those who open it."""
    from quantviz.schemes.recipes import current_recipe
    from quantviz.sources import write_source

    source = state.source
    return {
        "source": write_source(source),
        "title": source.title(language()),
        "shape": source.shape,
        "scheme": str(state.scheme),
        "recipe": current_recipe(state.scheme, source.shape),
        "cell": state.cell,
        "against": list(map(str, state.remembered)),
        "view": dataclasses.asdict(state.view),
        "error_view": state.error_view,
        "error_range": state.error_range,
        "held": state.held,
        "scope": state.scope,
        "conventions": state.compared,
        "pool": state.pool,
        "value_scale": state.value_scale,
        "classroom": parameters.get("k"),
        "lang": parameters.get("lang"),
    }
