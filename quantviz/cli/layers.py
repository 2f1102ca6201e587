"""`quantviz layers`: the output error of every captured layer, as a table, a map and a gate."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from quantviz.cli.layer_arguments import open_layers, say_bound, scheme_named, takes_layer_schemes
from quantviz.cli.output import FOUND, Output, language, put, say, with_output, write
from quantviz.errors import QuantVizError
from quantviz.schemes.text_form import split_outside_parentheses

#: Columns of the table for people; all other forms have every column.
_FOR_PEOPLE = (
    *("layer", "status", "method", "rel_out_used", "rel_out_held_back", "rel_out_nearest", "times_less"),
    "weight_sqnr_db",
    *("loud_input", "loud_input_times", "loud_weight", "loud_weight_times", "kind", "reason"),
)


@click.command(short_help="Print the output error of every layer of a capture.")
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
    help="Take for each layer the best of these methods and rounding to nearest, such as gptq,awq.",
)
@with_output(html=".html")
def layers(
    capture: str,
    weight_scheme: str,
    input_scheme: str,
    dynamic: bool,
    fail_over: float | None,
    include: tuple[str, ...],
    methods: str | None,
    output: Output,
) -> None:
    """Print the output error of every layer of a capture.

    CAPTURE is a file of layers, as qv.collect(model, batches).save(FILE) writes it. The table for people has
    the largest errors first; .html is a page with two maps of layers by kinds, the error of the weights
    beside the error of the outputs. With --methods a row has the method that leaves least on the tokens held
    back, and how many times less that is than by rounding to nearest.
    """
    from quantviz.layers.layer_numbers import best_of_all, numbers_of_all
    from quantviz.layers.methods.chain import as_chain

    weights = scheme_named(weight_scheme, "weights")
    inputs = scheme_named(input_scheme, "inputs")
    opened = open_layers(capture)
    wanted = [each for each in opened if not include or any(fnmatchcase(each.name, form) for form in include)]
    if not wanted:
        raise QuantVizError("capture.no_layer", got=", ".join(include), known=", ".join(opened.names))
    if methods is None:
        found = numbers_of_all(wanted, weights, inputs, static=not dynamic)
    else:
        chains = [as_chain(form) for form in split_outside_parentheses(methods)]
        found = best_of_all(wanted, weights, inputs, chains, static=not dynamic)
    rows = list(found)
    refused = [row for row in rows if row["status"] != "ok"]
    if len(refused) == len(rows):
        raise refused[0]["reason"]
    _put_layers(output, rows, Path(capture).name)
    if refused:
        say("cli.layers.refused", count=len(refused), reason=refused[0]["reason"].message(language()))
    above = [
        say_bound(row["layer"], row["rel_out_held_back"], fail_over, row["reason"])
        for row in rows
        if row["status"] == "ok"
    ]
    if refused or any(above):
        raise click.exceptions.Exit(FOUND)


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
