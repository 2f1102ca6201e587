"""`quantviz compare`: a quantized file beside its original."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.output import FOUND, Bound, Output, language, put, say, summarized, with_output, write
from quantviz.cli.reporting import LabTensor, ProgressLine, interrupted, lab_links, say_links, takes_report
from quantviz.jobs import keep_memory
from quantviz.text import text, visible

if TYPE_CHECKING:
    from quantviz.checkpoints.audit.auditing import Audit

#: Columns of the table for people.
_SHOWN = (
    *("tensor", "coverage", "status", "layout", "type", "format", "granularity", "symmetric", "bits"),
    *("sqnr_db", "fused_sqnr_db", "cosine"),
    *("rounding", "nearest_share", "saturated_blocks", "unused_codes"),
)


@click.command(short_help="Compare a quantized file with its original.")
@click.argument("quantized")
@click.argument("original")
@click.option(
    "--fail-under",
    type=Bound(),
    metavar="DB",
    help="End with status 1 if the SQNR of a tensor, quantized or not, is below this many decibels, or "
    "falls below it in an engine's kernel of one scale for siblings.",
)
@click.option("--results", type=click.Path(), metavar="FILE", help="File that keeps what is found.")
@click.option("--verify", is_flag=True, help="Compare every tensor, also of files that have not changed.")
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Compare on the workers of a Dask scheduler, such as tcp://10.0.0.5:8786.",
)
@takes_report
@with_output(html=".html", markdown=".md")
def compare(**arguments: Any) -> None:
    """Compare a quantized file with its original.

    Each is a file, an index of shards, a folder, or any part of a split .gguf; or the address of one, such as
    https://host/model.gguf or s3://bucket/model/, of which byte ranges are read. GPTQ, AWQ,
    compressed-tensors, FP8 by blocks, bitsandbytes and GGUF are decoded on either side, and every tensor is
    compared with the one of its name. What was not read, the verdict and what else is to be said go to
    stderr, a row for each tensor to stdout. The status is 1 unless everything was read and compared, and is
    the original's up to rounding, also where an engine multiplies siblings (q, k and v; gate and up) in one
    kernel under one scale; --fail-under holds every tensor to a bound, quantized or not. What was found
    before of files that have not changed is not read again, so a comparison that was interrupted goes on
    where it was.
    """
    request = _CompareArguments(**arguments)
    keep_memory()
    audit = _compared(request)
    for sentence in audit.messages(language()):
        click.echo(visible(sentence), err=True)
    _write_report(request, audit)
    least = request.fail_under
    low = () if least is None else audit.account.below(least)
    for each in low:
        say("cli.below", scheme=each.name, sqnr_db=each.outcome.sqnr_db, least=least)
    if low or not audit.account.is_sound:
        raise click.exceptions.Exit(FOUND)


@dataclass(frozen=True)
class _CompareArguments:
    quantized: str
    original: str
    fail_under: float | None
    results: str | None
    verify: bool
    scheduler: str | None
    progress: bool
    app: str | None
    outputs_axis: dict[str, tuple[int, ...]]
    output: Output


def _compared(request: _CompareArguments) -> Audit:
    from quantviz.checkpoints.audit.auditing import audit
    from quantviz.checkpoints.results.store import default_results

    with ProgressLine(request.progress) as line:
        try:
            return audit(
                request.quantized,
                request.original,
                outputs_axis=request.outputs_axis,
                results=default_results() if request.results is None else request.results,
                verify=request.verify,
                scheduler=request.scheduler,
                report=lambda done, count: line.show(
                    lambda: text("cli.progress", language(), done=done, all=count)
                ),
            )
        except KeyboardInterrupt:
            line.clear()
            raise interrupted() from None


def _write_report(request: _CompareArguments, audit: Audit) -> None:
    output = request.output
    links = {} if request.app is None else lab_links(request.app, _worst(audit))
    say_links(links)
    title = Path(request.quantized).name
    if output.format == "html":
        from quantviz.export.audit_report import audit_html

        put(output, audit_html(audit, title=title, language=language(), links=links))
    elif output.format == "markdown":
        from quantviz.export.audit_report import audit_markdown

        put(output, audit_markdown(audit, title=title, language=language()))
    elif output.format == "table":
        rows = audit.rows(language())
        in_kernels = any(row["fused_sqnr_db"] is not None for row in rows)
        names = [name for name in _SHOWN if in_kernels or name != "fused_sqnr_db"]
        write(output, [{name: row[name] for name in names} | _name_of(row) for row in rows])
    else:
        write(output, summarized(audit.rows(language()), audit.messages(language())[0]))


def _worst(audit: Audit) -> Iterator[LabTensor]:
    """Yield the originals of the worst tensors, each under the scheme of its quantized file."""
    from quantviz.export.audit_report import worst_tensors

    for each in worst_tensors(audit):
        if each.original_file and each.scheme is not None:
            yield LabTensor(each.tensor, each.original_file, each.original, each.scheme)


def _name_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the name of a row's tensor; one of the original alone has its name there."""
    return {"tensor": row["tensor"] or row["original"]}
