"""`quantviz layers`: the output error of every captured layer, as a table, a map and a gate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from quantviz.cli.layer_arguments import open_layers, say_bound, scheme_named, takes_layer_schemes
from quantviz.cli.output import FOUND, Output, complain, language, put, say, with_output, write
from quantviz.errors import Note, QuantVizError
from quantviz.export.scan_gate import GateCase, junit
from quantviz.layers.methods.packages import help_table
from quantviz.schemes.text_form import split_outside_parentheses
from quantviz.text import text

#: Columns of the table for people; all other forms have every column.
_FOR_PEOPLE = (
    *("layer", "status", "method", "rel_out_used", "rel_out_held_back", "rel_out_nearest", "times_less"),
    "weight_sqnr_db",
    *("loud_input", "loud_input_times", "loud_weight", "loud_weight_times", "kind", "reason"),
)


@click.command(short_help="Print the output error of every layer of a capture.", epilog=help_table())
@click.argument("capture")
@takes_layer_schemes
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Measure only layers of such names; * is any text. Give it again for more.",
)
@click.option(
    "--methods",
    metavar="METHOD,…",
    help="Take for each layer the best of these methods and rounding to nearest on the tokens used, such as "
    "gptq,awq.",
)
@click.option("--junit", "junit_file", type=click.Path(), metavar="FILE", help="Write what failed as JUnit.")
@with_output(html=".html")
def layers(**arguments: Any) -> None:
    """Print the output error of every layer of a capture.

    CAPTURE is a file of layers, as qv.collect(model, batches).save(FILE) writes it. The table for people has
    the largest errors first; .html is a page with two maps of layers by kinds, the error of the weights
    beside the error of the outputs. With --methods a row has the method that leaves least on the tokens used;
    its error on those held back, and how many times less that is than by rounding to nearest, are no part of
    the choice.
    """
    request = _LayersArguments(**arguments)
    rows, notes = _measured(request)
    missing = [row for row in rows if row["status"] != "ok"]
    if len(missing) == len(rows):
        raise missing[0]["reason"]
    _put_layers(request.output, rows, Path(request.capture).name)
    for note in notes:
        complain(note)
    if missing:
        first = missing[0]
        reason = first["reason"].message(language())
        say("cli.layers.missing", count=len(missing), all=len(rows), layer=first["layer"], reason=reason)
    schemes = f"{request.weight_scheme}, {request.input_scheme}"
    cases = [_case(row, schemes, request.fail_over) for row in rows]
    if request.junit_file is not None:
        put(Output("junit", Path(request.junit_file)), junit(cases))
    if any(case.failure for case in cases):
        raise click.exceptions.Exit(FOUND)


@dataclass(frozen=True)
class _LayersArguments:
    capture: str
    weight_scheme: str
    input_scheme: str
    dynamic: bool
    fail_over: float | None
    include: tuple[str, ...]
    methods: str | None
    junit_file: str | None
    output: Output


def _measured(request: _LayersArguments) -> tuple[list[dict[str, Any]], tuple[Note, ...]]:
    """Return the record of each layer, and the remarks on them and on the layers that were left aside.

    Raises:
        QuantVizError: The file has no layers, or none of these names.
    """
    from quantviz.layers.layer_numbers import best_of_all, numbers_of_all, record_unread
    from quantviz.layers.methods.chain import as_chain

    weights = scheme_named(request.weight_scheme, "weights")
    inputs = scheme_named(request.input_scheme, "inputs")
    opened = open_layers(request.capture)
    forms = request.include or ("*",)
    named = {name for name in opened.names_listed if any(fnmatchcase(name, form) for form in forms)}
    wanted = [each for each in opened if each.name in named]
    unread = [each for each in opened.unread if each.name in named]
    if not wanted and not unread:
        raise QuantVizError("capture.no_layer", got=", ".join(forms), known=", ".join(opened.names_listed))
    static = not request.dynamic
    missing = map(record_unread, unread)
    notes = replace(opened, layers=tuple(wanted)).notes_under(weights, inputs)
    if request.methods is None:
        return [*numbers_of_all(wanted, weights, inputs, static=static), *missing], notes
    chains = [as_chain(form) for form in split_outside_parentheses(request.methods)]
    return [*best_of_all(wanted, weights, inputs, chains, static=static), *missing], notes


def _case(row: dict[str, Any], schemes: str, most: float | None) -> GateCase:
    """Print the sentence on a layer above the bound, and return its outcome under the gate."""
    if row["status"] != "ok":
        return GateCase(schemes, row["layer"], row["reason"].message(language()))
    rel_out = row["rel_out_held_back"]
    failure = say_bound(row["layer"], rel_out, most, row["reason"])
    return GateCase(schemes, row["layer"], failure, text("cli.layers.measured", language(), rel_out=rel_out))


def _put_layers(output: Output, rows: list[dict[str, Any]], title: str) -> None:
    """Write the records of layers: in their order, but for people the largest errors first."""
    from quantviz.export.layers_report import layers_page

    shown = [{**row, "reason": row["reason"] and row["reason"].message(language())} for row in rows]
    if output.format == "html":
        put(output, layers_page(shown, title=title, language=language()))
    elif output.format == "table":
        # A layer without a number is worse than any with one.
        shown.sort(key=lambda row: float(row.get("rel_out_held_back", math.inf)), reverse=True)
        write(output, shown, for_people=_FOR_PEOPLE)
    else:
        write(output, shown)
