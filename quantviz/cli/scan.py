"""`quantviz scan`: measure every tensor of a checkpoint under recipes."""

from __future__ import annotations

import dataclasses
import math
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.output import FOUND, Bound, Output, language, put, say, summarized, with_output, write
from quantviz.cli.reporting import LabTensor, ProgressLine, interrupted, lab_links, say_links, takes_report
from quantviz.cli.tensors import open_tensor
from quantviz.figures.numbers import time_words
from quantviz.schemes.orientation import Orientation
from quantviz.text import text, visible

if TYPE_CHECKING:
    from quantviz.checkpoints.results.rows import ResultRow
    from quantviz.checkpoints.results.stored_rows import Scan, ScanProgress
    from quantviz.export.scan_summary import ScanSummary


#: Tensors that a report opens to the hand.
_OPEN = 3
#: Tensors that a sentence names.
_NAMED = 3
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
    help="Measure what this engine quantizes, in the types that it uses: llama.cpp, vllm, modelopt, "
    "onnxruntime, torchao, bitsandbytes, mlx or litert. Without one: the matrices that engines quantize.",
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
    type=Bound(),
    metavar="DB",
    help="Exit with status 1 if a tensor under a recipe has an SQNR below this, or none.",
)
@click.option(
    "--allow-refused", is_flag=True, help="With --fail-under: let pass tensors that a recipe does not fit."
)
@click.option("--junit", "junit_file", type=click.Path(), metavar="FILE", help="Write what failed as JUnit.")
@takes_report
@with_output(html=".html", markdown=".md", latex=".tex")
def scan(**arguments: Any) -> None:
    """Measure every tensor of a checkpoint under recipes.

    PATH is a file of tensors, an index of shards, a folder of files, or any part of a split .gguf; or the
    address of one, such as https://host/model.safetensors or s3://bucket/model/, of which byte ranges are
    read. What was
    measured before is not measured again, so a scan that was interrupted goes on where it was.
    """
    request = _ScanArguments(**arguments)
    scanned, rows = _measured(request)
    for note in (scanned.coverage, *scanned.notes):
        click.echo(visible(note[language()]), err=True)
    _write_report(request, scanned, rows)
    oddities = _say_oddities(rows)
    failures = _say_failures(request, rows)
    if oddities or failures or not scanned.is_complete:
        raise click.exceptions.Exit(FOUND)


@dataclass(frozen=True)
class _ScanArguments:
    path: str
    recipes: tuple[str, ...]
    results: str | None
    verify: bool
    threads: int | None
    scheduler: str | None
    outputs_axis: dict[str, tuple[int, ...]]
    engine: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    imatrix: str | None
    fail_under: float | None
    allow_refused: bool
    junit_file: str | None
    progress: bool
    app: str | None
    output: Output


def _measured(request: _ScanArguments) -> tuple[Scan, list[ResultRow]]:
    from quantviz.checkpoints.results.store import Results
    from quantviz.checkpoints.scan.scanning import Execution, run_scan, selection_of

    selection = selection_of(request.engine, request.include, request.exclude, request.imatrix)
    with (
        Results(request.results) as results,
        _Cancelling() as cancelling,
        ProgressLine(request.progress) as line,
    ):
        try:
            number = run_scan(
                results,
                request.path,
                request.recipes,
                Execution(request.verify, request.threads, request.scheduler),
                outputs_axis=request.outputs_axis,
                selection=selection,
                cancelled=cancelling.requested.is_set,
                report=lambda far: line.show(lambda: _progress_words(far)),
            )
        except KeyboardInterrupt:
            number = None
        line.clear()
        if number is None or results.scan(number).state == "cancelled":
            raise interrupted()
        return results.scan(number), list(results.rows(number, language()))


def _write_report(request: _ScanArguments, scanned: Scan, rows: list[ResultRow]) -> None:
    from quantviz.checkpoints.results.stored_rows import frame_of
    from quantviz.export.report import scan_html, scan_latex, scan_markdown
    from quantviz.export.scan_summary import summary_of

    output = request.output
    summary = summary_of(rows, language())
    links = {} if request.app is None else lab_links(request.app, _worst(summary))
    if output.format == "table":
        write(output, [{name: row.value(name) for name in _FOR_PEOPLE} for row in _worst_first(rows)])
    else:
        table = frame_of(scanned, rows, language())
        title = Path(request.path).name
        if output.format == "html":
            live = _live(request, summary)
            put(output, scan_html(table, live, title=title, language=language(), links=links))
        elif output.format == "markdown":
            put(output, scan_markdown(table, title=title, language=language()))
        elif output.format == "latex":
            put(output, scan_latex(table, title=title, language=language()))
        else:
            write(output, summarized(table, scanned.coverage[language()]))
    _say_worst(summary)
    say_links(links)


def _live(request: _ScanArguments, summary: ScanSummary) -> Mapping[str, Any]:
    """Return the values of a report's page for the worst tensors that a browser can quantize by itself; {}
    where there are none or plotly is missing.
    """
    from quantviz.analysis.study import Study
    from quantviz.export.report import WORST
    from quantviz.live.hand_payload import MOST_INTEGERS
    from quantviz.live.hand_words import Looks
    from quantviz.live.standalone import LivePage, LivePages
    from quantviz.schemes.recipes import as_scheme

    recipe = summary.recipes[0].recipe
    room = MOST_INTEGERS
    pages: list[LivePage] = []
    for row in summary.worst(recipe, WORST) if find_spec("plotly") else ():
        if len(pages) == _OPEN or math.prod(row.shape or ()) > room:
            continue
        axes = request.outputs_axis.get(row.tensor)
        chosen = open_tensor(request.path, row.tensor, Orientation(axes, by="user") if axes else None)
        title = f"{row.tensor} · {recipe}"
        page = LivePage.of(Study.of(chosen.stored, as_scheme(recipe)), title, Looks(language()))
        if page.problem is None:
            pages.append(page)
            room -= page.study.x.count
    return LivePages(tuple(pages)).values() if pages else {}


def _say_oddities(rows: list[ResultRow]) -> bool:
    """Name the tensors that are constant or not finite; return whether there are some."""
    from quantviz.export.scan_summary import is_constant

    constant = list(dict.fromkeys(row.tensor for row in rows if is_constant(row)))
    if constant:
        say("report.constant", count=len(constant), names=", ".join(constant[:_NAMED]))
    not_finite = list(
        dict.fromkeys(row.tensor for row in rows if row.numbers.get("nan") or row.numbers.get("inf"))
    )
    if not_finite:
        say("report.not_finite", count=len(not_finite), names=", ".join(not_finite[:_NAMED]))
    return bool(constant or not_finite)


def _say_failures(request: _ScanArguments, rows: list[ResultRow]) -> bool:
    """Print the numbers of tensors by outcome, and write JUnit; return whether a tensor failed."""
    from quantviz.export.scan_gate import Gate, cases_of, counts_of, junit

    gate = Gate(request.fail_under, request.allow_refused)
    problems = sum(row.status == "problem" for row in rows)
    if problems:
        say("cli.scan.problems", count=problems)
    if gate.least is not None:
        low = sum(row.sqnr_db is not None and row.sqnr_db < gate.least for row in rows)
        if low:
            say("cli.scan.below", count=low, least=gate.least)
        refused = [row for row in rows if row.status == "refused" and gate.failure(row)]
        if refused:
            say("cli.scan.refused", count=len(refused), reason=refused[0].reason)
    if request.junit_file is not None:
        put(Output("junit", Path(request.junit_file)), junit(cases_of(rows, gate, language())))
    counts = counts_of(rows, gate)
    for count in counts:
        key = "cli.scan.counts_refused" if count.refused else "cli.scan.counts"
        say(key, **dataclasses.asdict(count))
    # A gate that held nothing to its bound has not passed.
    empty = [count for count in counts if gate.least is not None and not count.measured + count.refused]
    for count in empty:
        if not count.failed:
            say("cli.scan.nothing", recipe=count.recipe)
    return bool(empty) or any(count.failed for count in counts)


def _worst_first(rows: list[ResultRow]) -> list[ResultRow]:
    """Return the rows for people: tensors without a number, then those of lowest SQNR.

    Tensors that are left aside are most of a model's; the last line counts them.
    """
    shown = [row for row in rows if row.status != "left_aside"]
    return sorted(shown or rows, key=lambda row: -math.inf if row.sqnr_db is None else row.sqnr_db)


def _say_worst(summary: ScanSummary) -> None:
    for recipe in summary.recipes:
        worst = summary.worst(recipe.recipe, _NAMED)
        named = (
            text("report.named", language(), tensor=row.tensor, sqnr_db=f"{row.sqnr_db:.1f}") for row in worst
        )
        if worst:
            names = text("report.between", language()).join(named)
            say("cli.scan.worst", recipe=recipe.recipe, names=names)


def _worst(summary: ScanSummary) -> Iterator[LabTensor]:
    """Yield the worst tensors under the first recipe, each at its largest error."""
    from quantviz.export.report import WORST

    for row in summary.worst(summary.recipes[0].recipe, WORST):
        cell = ",".join(map(str, row.max_error_at or ()))
        yield LabTensor(row.tensor, str(row.file), row.tensor, str(row.scheme), cell)


class _Cancelling:
    """Handler of the signals to end a process: measurements are kept first. A second signal ends it at
    once.
    """

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Cancelling:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.requested.is_set():
            raise KeyboardInterrupt
        self.requested.set()


def _progress_words(progress: ScanProgress) -> str:
    words = text("cli.progress", language(), done=progress.tensors_done, all=progress.tensors)
    rate = progress.bytes_per_second
    left = progress.seconds_left
    if rate is None or left is None:
        return words
    return words + text("cli.scan.rate", language(), rate=f"{rate / 1e6:,.0f}", left=time_words(left))
