"""`quantviz measure`: all metrics of one tensor under one scheme or several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from quantviz.cli.output import FOUND, Bound, Output, language, say, with_output, write
from quantviz.cli.tensors import (
    Chosen,
    open_tensor,
    schemes_named,
    takes_outputs_axis,
    takes_schemes,
    takes_tensor,
)
from quantviz.errors import QuantVizError
from quantviz.schemes.orientation import Orientation

if TYPE_CHECKING:
    from quantviz.schemes.scheme import Scheme


@click.command(short_help="Print the metrics of a tensor under schemes.")
@takes_tensor
@takes_schemes
@takes_outputs_axis
@click.option(
    "--fit",
    is_flag=True,
    help="After each scheme, measure the codebook of as many values that fits the tensor best, and print its "
    "text form.",
)
@click.option(
    "--fail-under",
    type=Bound(),
    metavar="DB",
    help="End with status 1 if the SQNR of a scheme is below this many decibels.",
)
@with_output()
def measure(
    file: str,
    tensor: str | None,
    schemes: tuple[str, ...],
    outputs_axis: Orientation | None,
    fit: bool,
    fail_under: float | None,
    output: Output,
) -> None:
    """Print the metrics of a tensor under schemes.

    FILE is a file of tensors (safetensors, GGUF, ONNX, PyTorch, NumPy and others), an index
    of shards, a folder, or the address of one, such as https://host/model.safetensors or s3://bucket/model/;
    or a source such as 'builtin(name=picture)'. TENSOR is a name in it, and may be left out where there is
    only one.
    """
    named = schemes_named(schemes)
    chosen = open_tensor(file, tensor, outputs_axis)
    if fit:
        named = _with_codebooks(chosen, named)
    rows = [_row(chosen, form, scheme) for form, scheme in named.items()]
    refused = [row["reason"] for row in rows if row["reason"]]
    if len(refused) == len(rows):
        raise refused[0]
    shown = [{**row, "reason": row["reason"] and row["reason"].message(language())} for row in rows]
    write(output, _side_by_side(shown) if output.format == "table" else shown)
    for row in shown if refused else ():
        if row["reason"]:
            say("cli.refused", scheme=row["recipe"], reason=row["reason"])
    low = []
    if fail_under is not None:
        numbered = [row for row in rows if row.get("sqnr_db") is not None]
        low = [row for row in numbered if not row["sqnr_db"] >= fail_under]
    for row in low:
        say("cli.below", scheme=row["recipe"], sqnr_db=row.get("sqnr_db", math.nan), least=fail_under)
    if refused or low:
        raise click.exceptions.Exit(FOUND)


def _with_codebooks(chosen: Chosen, named: Mapping[str, Scheme]) -> dict[str, Scheme]:
    from quantviz.analysis.fitted_codebook import fit_codebook
    from quantviz.streaming.regions import read_whole

    x = read_whole(chosen.stored)
    schemes: dict[str, Scheme] = {}
    for form, scheme in named.items():
        fitted = fit_codebook(x, scheme)
        schemes |= {form: scheme, f"fit({form})": fitted}
        say("cli.fitted", scheme=form, codebook=str(fitted))
    return schemes


def _row(chosen: Chosen, form: str, scheme: Any) -> dict[str, Any]:
    """Return the metrics as a row of `scan`, with the reason in it where the scheme does not fit."""
    from quantviz.evaluation.metric_formulas import METRICS, stored_size
    from quantviz.streaming.measuring import measure as measured

    row = {
        "tensor": chosen.name,
        "recipe": form,
        "status": "ok",
        "reason": None,
        # As the places of cells count.
        "shape": chosen.shape if chosen.orientation.is_usual else chosen.stored.shape,
        "dtype": chosen.dtype or None,
        "scheme": str(scheme),
    }
    try:
        result = measured(chosen.stored, scheme, metrics=METRICS)
    except QuantVizError as problem:
        return {**row, "status": "refused", "reason": problem}
    bits = stored_size(scheme, result.shape)
    largest = {"max_error": result.metrics["max_abs_error"], "max_error_at": result.largest_error}
    return {**row, "bits": bits, **result.metrics, **largest, "cells": result.counted}


def _side_by_side(rows: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the metrics as lines, a column for each scheme: for people."""
    from quantviz.evaluation.metric_formulas import METRICS
    from quantviz.text import text

    unit = text("cli.columns.unit", language())
    metric = text("cli.columns.metric", language())
    lines: list[Mapping[str, Any]] = []
    for name, formula in METRICS.items():
        times = 100 if formula.unit == "share" else 1
        lines.append(
            {
                metric: text(f"metrics.{name}.name", language()),
                unit: text(f"metrics.units.{formula.unit or 'none'}", language()),
                **{row["recipe"]: times * row[name] if name in row else None for row in rows},
            }
        )
    return lines
