"""Progress of a command: one line on a terminal, else a line now and then, such as in the log of a build."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

#: Seconds between two lines where stderr is no terminal.
_BETWEEN_LINES = 30.0

#: Decorator that adds `--progress` and hands the command `progress`.
takes_progress = click.option(
    "--progress/--no-progress",
    default=True,
    help="Say how far it is: in one line on a terminal, else in a line every half minute.",
)


class ProgressLine:
    """The line of a command's progress on stderr.

    Args:
        shows: Whether there is one.
        clock: Seconds of any clock.
    """

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
        """Take the line away."""
        if self._shows and self._terminal:
            click.echo("\r\x1b[2K", err=True, nl=False)
