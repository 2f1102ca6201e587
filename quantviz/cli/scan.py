"""`quantviz scan`: measure every tensor of a checkpoint under recipes."""

from __future__ import annotations

import dataclasses
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.context import FOUND, INTERRUPTED, language
from quantviz.cli.lab_links import Shown, lab_links, takes_app
from quantviz.cli.output import Output, put, say, summarized, with_output, write
from quantviz.cli.tensors import takes_outputs_axes
from quantviz.quoting import shell_command
from quantviz.text import text, visible

if TYPE_CHECKING:
    from quantviz.checkpoints.stored_rows import Progress


#: Tensors that a sentence names.
_NAMED = 3
#: Seconds between two lines where stderr is no terminal.
_BETWEEN_LINES = 30.0
#: Columns of the table for people; all other forms have every column.
_FOR_PEOPLE = (
    "tensor",
    "recipe",
    "status",
    "fallback",
    "effective_bits",
    "sqnr_db",
    "mse",
    "max_error",
    "reason",
)


@click.command()
@click.argument("path", type=click.Path())
@click.option(
    "-r",
    "--recipe",
    "recipes",
    multiple=True,
    required=True,
    metavar="RECIPE",
    help="A recipe's id, such as int4_g128, or a scheme's text form. Repeat it for more.",
)
@click.option("--results", type=click.Path(), metavar="FILE", help="File that keeps what is measured.")
@click.option("--verify", is_flag=True, help="Read every tensor, also of files that have not changed.")
@click.option("--threads", type=click.IntRange(1, 1000), metavar="N", help="How many threads measure.")
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Measure on the workers of a Dask scheduler, such as tcp://10.0.0.5:8786.",
)
@click.option(
    "--engine",
    metavar="NAME",
    help="Measure what this engine quantizes, in the types that it uses: llama.cpp, vllm, … Without one: the "
    "matrices that engines quantize.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Measure only tensors of such names, whatever they are; * is any text. Give it again for more.",
)
@click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="Leave tensors of such names aside. Again for more."
)
@click.option(
    "--imatrix",
    type=click.Path(),
    metavar="FILE",
    help="llama.cpp's importance matrix, for the recipes that use it: q4_k, q6_k, iq4_nl, q4_0, …",
)
@click.option(
    "--fail-under",
    type=float,
    metavar="DB",
    help="Exit with status 1 if a tensor under a recipe has an SQNR below this, or none.",
)
@click.option(
    "--allow-refused", is_flag=True, help="With --fail-under: let pass tensors that a recipe does not fit."
)
@click.option("--junit", "junit_file", type=click.Path(), metavar="FILE", help="Write what failed as JUnit.")
@click.option(
    "--progress/--no-progress",
    default=True,
    help="Say how far it is: in one line on a terminal, else in a line every half minute.",
)
@takes_app
@takes_outputs_axes
@with_output(html=".html")
def scan(
    path: str,
    recipes: tuple[str, ...],
    results: str | None,
    verify: bool,
    threads: int | None,
    scheduler: str | None,
    outputs_axis: dict[str, tuple[int, ...]],
    engine: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    imatrix: str | None,
    fail_under: float | None,
    allow_refused: bool,
    junit_file: str | None,
    progress: bool,
    app: str | None,
    output: Output,
) -> None:
    """Measure every tensor of a checkpoint under recipes.

    PATH is a file of tensors, an index of shards, a folder of files, or any part of a split .gguf; or the
    address of one, such as https://host/model.safetensors or s3://bucket/model/, of which byte ranges are
    read. What was
    measured before is not measured again, so a scan that was interrupted goes on where it was.
    """
    from quantviz.checkpoints.results import Results
    from quantviz.checkpoints.scanning import run_scan, selection_of
    from quantviz.checkpoints.table import table

    selection = selection_of(engine, include, exclude, imatrix)
    with Results(results) as opened, _Cancelling() as cancelling, _Line(progress) as line:
        try:
            number = run_scan(
                opened,
                path,
                recipes,
                verify=verify,
                threads=threads,
                scheduler=scheduler,
                outputs_axis=outputs_axis,
                selection=selection,
                cancelled=cancelling.asked.is_set,
                report=line.show,
            )
        except KeyboardInterrupt:
            number = None
        line.clear()
        if number is None or opened.scan(number).state == "cancelled":
            say("cli.scan.resume", command=shell_command(["quantviz", *sys.argv[1:]]))
            raise click.exceptions.Exit(INTERRUPTED)
        scanned = opened.scan(number)
        for note in (scanned.coverage, *scanned.notes):
            click.echo(visible(note[language()]), err=True)
        found = table(opened, number, language())
    if output.format == "html":
        from quantviz.export.report import report

        links = {} if app is None else lab_links(app, _worst(found))
        put(output, report(found, title=Path(path).name, language=language(), links=links))
    else:
        write(output, summarized(found, scanned.coverage[language()]), for_people=_FOR_PEOPLE)
    from quantviz.export.scan_gate import Gate, counts_of, junit
    from quantviz.export.scan_summary import is_constant

    rows: Any = found.to_dict("records")
    constant = {row["tensor"]: None for row in rows if is_constant(row)}
    if constant:
        say("report.constant", count=len(constant), names=", ".join([*constant][:_NAMED]))
    spoilt = list(dict.fromkeys(found["tensor"][found["nan"].fillna(0) + found["inf"].fillna(0) > 0]))
    if spoilt:
        say("report.not_finite", count=len(spoilt), names=", ".join(spoilt[:_NAMED]))
    problems = int((found["status"] == "problem").sum())
    if problems:
        say("cli.scan.problems", count=problems)
    gate = Gate(fail_under, allow_refused)
    if fail_under is not None:
        low = int((found["sqnr_db"] < fail_under).sum())
        if low:
            say("cli.scan.below", count=low, least=fail_under)
        refused = [row for row in rows if row["status"] == "refused" and gate.failure(row)]
        if refused:
            say("cli.scan.refused", count=len(refused), reason=refused[0]["reason"])
    if junit_file is not None:
        put(Output("junit", Path(junit_file)), junit(rows, gate, language()))
    counted = counts_of(rows, gate)
    for each in counted:
        key = "cli.scan.counts_refused" if each.refused else "cli.scan.counts"
        say(key, **dataclasses.asdict(each))
    if constant or spoilt or not scanned.is_complete or any(each.failed for each in counted):
        raise click.exceptions.Exit(FOUND)


def _worst(table: Any) -> Iterator[Shown]:
    """Yield the worst tensors under the first recipe, each at its largest error."""
    from quantviz.export.report import WORST
    from quantviz.export.scan_summary import summary_of

    summary = summary_of(table, language())
    recipe = summary.recipes[0].recipe
    rows = {row["tensor"]: row for row in table.to_dict("records") if row["recipe"] == recipe}
    for each in summary.worst(recipe, WORST):
        row = rows[each.tensor]
        cell = ",".join(map(str, row["max_error_at"]))
        yield Shown(each.tensor, row["file"], each.tensor, row["scheme"], cell)


class _Cancelling:
    """Handler of the signals to end a process: measurements are kept first.

    A second one ends it at once.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Cancelling:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            raise KeyboardInterrupt
        self.asked.set()


class _Line:
    """Progress of a scan: one line on a terminal, else a line now and then, such as in the log of a build."""

    def __init__(self, shows: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._shows = shows
        self._terminal = sys.stderr.isatty()
        self._clock = clock
        self._said = clock()

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, progress: Progress) -> None:
        """Write the line anew, or another one where it is time."""
        if not self._shows or (not self._terminal and self._clock() - self._said < _BETWEEN_LINES):
            return
        self._said = self._clock()
        rate = progress.bytes_per_second
        left = progress.seconds_left
        words = text(
            "cli.scan.progress",
            language(),
            done=progress.tensors_done,
            all=progress.tensors,
            rate="–" if rate is None else f"{rate / 1e6:,.0f}",
            left="–" if left is None else _minutes(left),
        )
        if self._terminal:
            click.echo(f"\r\x1b[2K{words}", err=True, nl=False)
        else:
            click.echo(words, err=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._shows and self._terminal:
            click.echo("\r\x1b[2K", err=True, nl=False)


def _minutes(seconds: float) -> str:
    """Return a time as minutes and seconds.

    >>> _minutes(75.2), _minutes(3700)
    ('1:16', '1:01:40')
    """
    whole = -int(-seconds // 1)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
