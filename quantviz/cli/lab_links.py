"""Links from a report to the Lab."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import click

from quantviz.cli.output import say
from quantviz.errors import QuantVizError
from quantviz.schemes.scheme import Scheme

_Command = TypeVar("_Command", bound=Callable[..., object])

#: Addresses that are printed.
_PRINTED = 3


class Shown(NamedTuple):
    """A tensor as the Lab is to show it."""

    #: Its name in the report.
    name: str
    #: Its file, and its name there.
    file: str
    tensor: str
    #: Its scheme, or that one's text form.
    scheme: Scheme | str
    #: The cell that is explained, such as "3,7"; None for the first.
    cell: str | None = None


def takes_app(command: _Command) -> _Command:
    """Return a command with the option `--app`."""
    return click.option(
        "--app",
        metavar="ADDRESS",
        help="Where the app is, such as http://localhost:8501/: also print the addresses of the worst "
        "tensors in its Lab, and link them in a report of HTML.",
    )(command)


def lab_links(app: str, tensors: Iterable[Shown]) -> dict[str, str]:
    """Return the Lab's addresses of tensors by their names in a report; of those that the app opens, because
    their files lie in its folder of data.

    A sentence names that folder where the app would have to offer another one.
    """
    from quantviz.cli.lab_source import lab_source
    from quantviz.cli.link import lab_address
    from quantviz.sources.local import FOLDER

    links: dict[str, str] = {}
    elsewhere: dict[str, None] = {}
    for each in tensors:
        try:
            source, folder = lab_source(each.file, each.tensor)
            if folder is None:
                links[each.name] = lab_address(app, source, str(each.scheme), each.cell)
            else:
                elsewhere[folder] = None
        except QuantVizError:
            continue  # the Lab does not open it: a link would lead nowhere
    if elsewhere:
        say("cli.scan.no_links", variable=FOLDER, folder=", ".join(elsewhere))
    return links


def say_links(links: Mapping[str, str]) -> None:
    """Print the addresses of the worst tensors on stderr."""
    for address in [*links.values()][:_PRINTED]:
        click.echo(address, err=True)
