"""`quantviz compare`: a quantized file beside its original."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.context import FOUND, INTERRUPTED, language
from quantviz.cli.lab_links import Shown, lab_links, say_links, takes_app
from quantviz.cli.output import Output, put, say, summarized, with_output, write
from quantviz.cli.progress_line import ProgressLine, takes_progress
from quantviz.cli.tensors import takes_outputs_axes
from quantviz.own_process import keep_memory
from quantviz.quoting import shell_command
from quantviz.text import text, visible

if TYPE_CHECKING:
    from quantviz.checkpoints.audit.auditing import Audit

#: The columns that a person is shown.
_SHOWN = (
    *("tensor", "coverage", "status", "layout", "type", "format", "granularity", "symmetric", "bits"),
    *("sqnr_db", "cosine"),
    *("rounding", "nearest_share", "saturated_blocks", "unused_codes"),
)


@click.command(short_help="Compare a quantized file with its original.")
@click.argument("quantized")
@click.argument("original")
@click.option(
    "--fail-under",
    type=float,
    metavar="DB",
    help="End with status 1 if the SQNR of a quantized tensor is below this many decibels.",
)
@click.option("--results", type=click.Path(), metavar="FILE", help="File that keeps what is found.")
@click.option("--verify", is_flag=True, help="Compare every tensor, also of files that have not changed.")
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Compare on the workers of a Dask scheduler, such as tcp://10.0.0.5:8786.",
)
@takes_progress
@takes_app
@takes_outputs_axes
@with_output(html=".html", markdown=".md")
def compare(
    quantized: str,
    original: str,
    fail_under: float | None,
    results: str | None,
    verify: bool,
    scheduler: str | None,
    progress: bool,
    app: str | None,
    outputs_axis: dict[str, tuple[int, ...]],
    output: Output,
) -> None:
    """Compare a quantized file with its original.

    Each is a file, an index of shards, a folder, or any part of a split .gguf; or the address of one, such as
    https://host/model.gguf or s3://bucket/model/, of which byte ranges are read. GPTQ, AWQ,
    compressed-tensors, FP8 by blocks, bitsandbytes and GGUF are decoded on either side, and every tensor is
    compared with the one of its name. What was not read, the verdict and what else is to be said go to
    stderr, a row for each tensor to stdout. The status is 1 unless everything was read and compared, and is
    the original's. What was found before of files that have not changed is not read again, so a comparison
    that was interrupted goes on where it was.
    """
    from quantviz.checkpoints.audit.auditing import audit
    from quantviz.checkpoints.results.store import default_results

    keep_memory()
    with ProgressLine(progress) as line:
        try:
            found = audit(
                quantized,
                original,
                outputs_axis=outputs_axis,
                results=default_results() if results is None else results,
                verify=verify,
                scheduler=scheduler,
                report=lambda done, count: line.show(
                    lambda: text("cli.progress", language(), done=done, all=count)
                ),
            )
        except KeyboardInterrupt:
            line.clear()
            say("cli.scan.resume", command=shell_command(["quantviz", *sys.argv[1:]]))
            raise click.exceptions.Exit(INTERRUPTED) from None
    rows = found.rows(language())
    for sentence in found.messages(language()):
        click.echo(visible(sentence), err=True)
    links = {} if app is None else lab_links(app, _worst(found))
    say_links(links)
    if output.format == "html":
        from quantviz.export.audit_report import audit_html

        put(output, audit_html(found, title=Path(quantized).name, language=language(), links=links))
    elif output.format == "markdown":
        from quantviz.export.audit_report import audit_markdown

        put(output, audit_markdown(found, title=Path(quantized).name, language=language()))
    elif output.format == "table":
        write(output, [_shown(row) for row in rows])
    else:
        write(output, summarized(rows, found.messages(language())[0]))
    low = [
        row for row in rows if fail_under is not None and row["status"] == "ok" and _below(row, fail_under)
    ]
    for row in low:
        say("cli.below", scheme=row["tensor"], sqnr_db=row["sqnr_db"], least=fail_under)
    if low or not found.is_sound:
        raise click.exceptions.Exit(FOUND)


def _worst(found: Audit) -> Iterator[Shown]:
    """Yield the originals of the worst tensors, each under the scheme of its quantized file."""
    from quantviz.export.audit_report import worst_tensors

    for each in worst_tensors(found):
        if each.original_file and each.scheme is not None:
            yield Shown(each.tensor, each.original_file, each.original, each.scheme)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row for display; a tensor of the original alone has its name there."""
    return {name: row[name] for name in _SHOWN} | {"tensor": row["tensor"] or row["original"]}


def _below(row: dict[str, Any], least: float) -> bool:
    return math.isnan(row["sqnr_db"]) or row["sqnr_db"] < least
