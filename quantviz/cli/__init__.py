"""The command `quantviz`: one file a verb, each imported when it is asked for."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from quantviz.errors import QuantVizError

#: The verbs, each the function of its name in a module of its name.
VERBS = ("serve",)


class _Verbs(click.Group):
    """Imports a verb when it is used, so that `quantviz --help` is there at once."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        command = getattr(import_module(f"quantviz.cli.{name}"), name) if name in VERBS else None
        assert command is None or isinstance(command, click.Command)
        return command


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quantviz")
def quantviz() -> None:
    """Show what quantization does to a tensor, cell by cell, and why."""


def main() -> None:
    """Run the command; an error a person can mend is one sentence on stderr, with exit status 2."""
    try:
        quantviz()
    except QuantVizError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
