"""The command `quantviz`: one file a verb, each imported on its first use."""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from quantviz.cli.output import FOUND as FOUND
from quantviz.cli.output import INTERRUPTED, LANGUAGE, UNUSABLE
from quantviz.errors import QuantVizError
from quantviz.text import DEFAULT_LANGUAGE, languages, visible

#: The verbs with their line in `quantviz --help`, each the function of its name in a module of its name. The
#: line stands here so that the help imports none of them; a test holds it against the command's own.
VERBS: Mapping[str, str] = MappingProxyType(
    {
        "scan": "Measure every tensor of a checkpoint under recipes.",
        "compare": "Compare a quantized file with its original.",
        "runs": "Compare runs of a model, tensor by tensor.",
        "allocate": "Choose a recipe for each tensor within a budget of bits.",
        "measure": "Print the metrics of a tensor under schemes.",
        "layer": "Print what rounding does to the outputs of a layer.",
        "layers": "Print the output error of every layer of a capture.",
        "attention": "Print what rounding keys and values does to attention.",
        "ranges": "Print how a range grows with the batches it is taken from.",
        "explain": "Print every step of the arithmetic of one cell.",
        "link": "Print the Lab's address of a tensor, or read one.",
        "figure": "Draw a tensor, its codes and its error into a file.",
        "serve": "Open the app in the browser, on a file if one is given.",
    }
)


def _keep_language(context: click.Context, _: click.Parameter, chosen: str | None) -> None:
    if chosen:
        context.meta[LANGUAGE] = chosen


def _language_option() -> click.Option:
    return click.Option(
        ["--lang"],
        type=click.Choice(languages()),
        is_eager=True,
        expose_value=False,
        callback=_keep_language,
        help="Language of sentences and errors.",
    )


class _UserError(click.ClickException):
    """An error that the user can fix: its sentence alone on stderr."""

    exit_code = UNUSABLE

    def show(self, file: Any = None) -> None:
        click.echo(visible(self.message), file=file or sys.stderr)


class _Verbs(click.Group):
    """Imports a verb when it is used, so that `quantviz --help` is there at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in VERBS if Path(__file__).with_name(f"{name}.py").is_file()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, which takes `--lang` as the group does."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = copy.copy(getattr(import_module(f"quantviz.cli.{cmd_name}"), cmd_name))
        assert isinstance(command, click.Command)
        command.params = [*command.params, _language_option()]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb. An error that the user can fix is one sentence; an interrupt has its own exit
        status.

        A bug has a traceback and the exit status of a wrong use: 1 would mean that the verb finished.
        """
        try:
            return super().invoke(ctx)
        except QuantVizError as error:
            raise _UserError(error.message(ctx.meta.get(LANGUAGE, DEFAULT_LANGUAGE))) from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception:
            traceback.print_exc()
            raise click.exceptions.Exit(UNUSABLE) from None


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[_language_option()],
    epilog="Exit status: 0 all well; 1 finished, and something was found; 2 wrong use, or a file that cannot "
    "be opened; 130 interrupted.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, asked: _tell_version(context) if asked else None,
    help="Show the version and exit.",
)
def quantviz() -> None:
    """Show what quantization does to a tensor, cell by cell, and why."""


def _tell_version(context: click.Context) -> None:
    from quantviz.version import version

    click.echo(f"quantviz {version()}")
    context.exit()


def main() -> None:
    try:
        quantviz()
    except KeyboardInterrupt:  # before a verb has begun
        sys.exit(INTERRUPTED)
