"""`quantviz runs`: runs of a model beside a reference run, tensor by tensor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.output import FOUND, Bound, Output, language, put, say, summarized, with_output, write
from quantviz.cli.reporting import ProgressLine, takes_progress
from quantviz.errors import QuantVizError
from quantviz.text import text, visible

if TYPE_CHECKING:
    from quantviz.checkpoints.results.rows import ResultRow
    from quantviz.models.runs import RunComparison

#: Columns of the table for people; all other forms have every column.
_FOR_PEOPLE = ("tensor", "op", "status", "sqnr_db", "cosine", "max_error", "kl", "shape", "reason")


@click.command(short_help="Compare runs of a model, tensor by tensor.")
@click.argument("reference")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--fail-under",
    type=Bound(),
    metavar="DB",
    help="End with status 1 if the SQNR of a tensor is below this many decibels.",
)
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Let pass tensors of the reference that a run does not have, or has in another shape.",
)
@click.option(
    "--logits",
    multiple=True,
    metavar="END",
    help="End of the names of tensors with logits, for KL; * is any text. Default: logits and lm_head.",
)
@click.option(
    "--tokens",
    metavar="FILE",
    help="File with the tokens that the model read, (batch, tokens): logits then have a perplexity.",
)
@click.option(
    "--skip",
    type=click.IntRange(0),
    metavar="N",
    help="Positions at the start of each row of tokens that do not count for it. Default: half of them.",
)
@click.option("--junit", "junit_file", type=click.Path(), metavar="FILE", help="Write what failed as JUnit.")
@takes_progress
@with_output(html=".html")
def runs(**arguments: Any) -> None:
    """Compare runs of a model with a reference run, tensor by tensor.

    REFERENCE and RUN are files as qv.capture(model, batches, FILE) writes them: the output of every
    operation of a torch or an ONNX model, in the order of execution. Tensors are compared by name and shape.
    How much was compared, where the error begins and where it jumps go to stderr, a row for each tensor to
    stdout; .html is a page with the worst tensor of each run in pictures. The status is 1 unless every tensor
    of the reference was compared.
    """
    request = _RunsArguments(**arguments)
    comparison = _compared(request)
    for sentence in comparison.messages(language()):
        click.echo(visible(sentence), err=True)
    _write_comparison(request, comparison)
    if _is_found(request, comparison):
        raise click.exceptions.Exit(FOUND)


@dataclass(frozen=True)
class _RunsArguments:
    reference: str
    runs: tuple[str, ...]
    fail_under: float | None
    allow_missing: bool
    logits: tuple[str, ...]
    tokens: str | None
    skip: int | None
    junit_file: str | None
    progress: bool
    output: Output


def _compared(request: _RunsArguments) -> RunComparison:
    from quantviz.models.runs import LOGITS, compare_runs
    from quantviz.sources.files import open_tensors

    tokens = None
    if request.tokens is not None:
        with open_tensors(request.tokens) as catalog:
            if len(catalog.names) != 1:
                raise QuantVizError("runs.tokens", got=", ".join(catalog.names))
            tokens = catalog.load(catalog.names[0])
    with ProgressLine(request.progress) as line:
        return compare_runs(
            request.reference,
            request.runs,
            logits=request.logits or LOGITS,
            tokens=tokens,
            skip=request.skip,
            report=lambda done, count: line.show(
                lambda: text("cli.progress", language(), done=done, all=count)
            ),
        )


def _write_comparison(request: _RunsArguments, comparison: RunComparison) -> None:
    output = request.output
    rows = comparison.rows(language())
    if output.format == "html":
        from quantviz.export.report import report

        title = f"{Path(request.reference).name} – {', '.join(Path(run).name for run in request.runs)}"
        put(output, report(comparison, title=title, language=language()))
    elif output.format == "table" and len(comparison.labels) > 1:
        write(output, _side_by_side(comparison))
    elif output.format == "table":
        write(output, rows, for_people=_FOR_PEOPLE)
    else:
        write(output, summarized(rows, " ".join(comparison.messages(language()))))


def _side_by_side(comparison: RunComparison) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for each in comparison.differences:
        record = found.setdefault(each.name, {"tensor": each.name, "op": each.op})
        record[each.run] = each.sqnr_db if each.is_compared else each.status
    columns = ("tensor", "op", *comparison.labels)
    return [{name: record.get(name) for name in columns} for record in found.values()]


def _is_found(request: _RunsArguments, comparison: RunComparison) -> bool:
    """Write JUnit, and return whether a tensor fails."""
    from quantviz.export.scan_gate import Gate, cases_of, junit

    gate = Gate(request.fail_under, request.allow_missing)
    cases = [_case(request, row) for row in comparison.rows(language()) if row["status"] != "extra"]
    if request.junit_file is not None:
        put(Output("junit", Path(request.junit_file)), junit(cases_of(cases, gate, language())))
    least = request.fail_under
    low = sum(case.status == "ok" and bool(gate.failure(case)) for case in cases)
    if low and least is not None:
        say("cli.runs.below", count=low, least=least)
    return any(gate.failure(case) for case in cases)


def _case(request: _RunsArguments, row: dict[str, Any]) -> ResultRow:
    """Return a row as the gate of a scan takes it: without numbers a tensor is not read, or refused."""
    from quantviz.checkpoints.results.rows import ResultRow

    status = "ok" if row["status"] == "compared" else "not_read"
    if row["status"] in ("missing", "shape") and request.allow_missing:
        status = "refused"
    return ResultRow(row["tensor"], row["run"], status, row["reason"], numbers={"sqnr_db": row["sqnr_db"]})
