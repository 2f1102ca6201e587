"""Progress and links of the reports of `scan` and `compare`.

Progress is one line on a terminal, else a line now and then, as in the log of a build. Links lead from the
worst tensors to the Lab.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import click

from quantviz.cli.output import INTERRUPTED, say
from quantviz.cli.tensors import takes_outputs_axes
from quantviz.errors import QuantVizError
from quantviz.quoting import shell_command
from quantviz.schemes.scheme import Scheme

_F = TypeVar("_F", bound=Callable[..., Any])
#: Seconds between two lines where stderr is no terminal.
_BETWEEN_LINES = 30.0
#: Addresses that are printed.
_PRINTED = 3

takes_progress = click.option(
    "--progress/--no-progress",
    default=True,
    help="Say how far it is: in one line on a terminal, else in a line every half minute.",
)
_takes_app = click.option(
    "--app",
    metavar="ADDRESS",
    help="Where the app is, such as http://localhost:8501/: also print the addresses of the worst tensors in "
    "its Lab, and link them in a report of HTML.",
)


def takes_report(command: _F) -> _F:
    """Add `--progress`, `--app` and `--outputs-axis` to a command that reports on a checkpoint."""
    return takes_progress(_takes_app(takes_outputs_axes(command)))


class ProgressLine:
    """The line of a command's progress on stderr, if it `shows` one."""

    def __init__(self, shows: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._shows = shows
        self._terminal = sys.stderr.isatty()
        self._clock = clock
        self._said = clock()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, words: Callable[[], str]) -> None:
        """Write the line anew, or another one where it is time; `words` returns it."""
        if not self._shows or (not self._terminal and self._clock() - self._said < _BETWEEN_LINES):
            return
        self._said = self._clock()
        if self._terminal:
            click.echo(f"\r\x1b[2K{words()}", err=True, nl=False)
        else:
            click.echo(words(), err=True)

    def clear(self) -> None:
        if self._shows and self._terminal:
            click.echo("\r\x1b[2K", err=True, nl=False)


def interrupted() -> click.exceptions.Exit:
    """Print the command that resumes an interrupted run, and return the exception that ends it."""
    say("cli.scan.resume", command=shell_command(["quantviz", *sys.argv[1:]]))
    return click.exceptions.Exit(INTERRUPTED)


class LabTensor(NamedTuple):
    #: Its name in the report.
    name: str
    #: Its file, and its name there.
    file: str
    tensor: str
    scheme: Scheme | str
    #: The cell that is explained, such as "3,7"; None for the first.
    cell: str | None = None


def lab_links(app: str, tensors: Iterable[LabTensor]) -> dict[str, str]:
    """Return the Lab's addresses of tensors by their names in a report, where their files lie in the app's
    folder of data.

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
    for address in [*links.values()][:_PRINTED]:
        click.echo(address, err=True)
