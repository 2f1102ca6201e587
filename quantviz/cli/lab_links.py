"""Links from a report to the Lab."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import click

from quantviz.errors import QuantVizError
from quantviz.schemes.scheme import Scheme

_Command = TypeVar("_Command", bound=Callable[..., object])


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
        help="With -o x.html: where the app is, such as http://localhost:8501/. The worst tensors lead to "
        "its Lab, as far as it opens their files.",
    )(command)


def lab_links(app: str, tensors: Iterable[Shown]) -> dict[str, str]:
    """Return the Lab's addresses of tensors by their names in a report; of such as the app opens, for their
    files lie in its folder of data.
    """
    from quantviz.cli.lab_source import lab_source
    from quantviz.cli.link import lab_address

    links: dict[str, str] = {}
    for each in tensors:
        try:
            source, folder = lab_source(each.file, each.tensor)
            if folder is None:
                links[each.name] = lab_address(app, source, str(each.scheme), each.cell)
        except QuantVizError:
            continue  # the Lab does not open it: a link would lead nowhere
    return links
