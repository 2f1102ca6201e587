"""Weights α of the tensors' errors: from a mapping, a CSV, or llama.cpp's importance matrix."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantviz.checkpoints.results.table_files import csv_table
from quantviz.checkpoints.results.typed_values import TABLE_BYTES
from quantviz.checkpoints.scan.importance import Importance, by_tensor, importances, mean_squares
from quantviz.errors import QuantVizError
from quantviz.quoting import from_csv_text

if TYPE_CHECKING:
    from quantviz.checkpoints.allocation.offers import Offers, Sensitivities

#: Names of the column of weights in a CSV.
_COLUMNS = ("alpha", "sensitivity")


def alphas(given: Sensitivities, read: Offers) -> Mapping[str, float]:
    """Return α of each tensor of a table that has one, the others weigh 1; `QuantVizError` for a file that
    cannot be read, an unknown tensor, or a weight that is no finite number of at least 0.
    """
    if given is None:
        return {}
    weights: Mapping[str, Any] = given if isinstance(given, Mapping) else weights_in(Path(given))
    if any(isinstance(each, Importance) for each in weights.values()):
        file = "?" if isinstance(given, Mapping) else os.fspath(given)
        weights = _of_importance(weights, file, read)
    found: dict[str, float] = {}
    for tensor, alpha in weights.items():
        if tensor not in read.first:
            raise QuantVizError("allocate.unknown_tensor", got=tensor, known=", ".join(read.first))
        try:
            found[tensor] = float(alpha)
        except (TypeError, ValueError):
            raise QuantVizError("allocate.alpha_not_number", tensor=tensor, got=alpha) from None
        if not (math.isfinite(found[tensor]) and found[tensor] >= 0):
            raise QuantVizError("allocate.alpha_not_number", tensor=tensor, got=alpha)
    return found


def weights_in(path: Path) -> Mapping[str, Any]:
    return _of_csv(path) if path.suffix.lower() in (".csv", ".txt") else importances(path)


def _of_importance(theirs: Mapping[str, Importance], file: str, read: Offers) -> dict[str, float]:
    """Return α of each tensor so that α · relative squared error is the squared error of its output.

    The output of a row of weights errs by Σⱼ E[xⱼ²]·eⱼ² if inputs are uncorrelated. A table has no error of
    each column, so that the mean of E[xⱼ²] stands for all of them: α = mean E[x²] · Σ W². A tensor that the
    matrix does not have, such as an embedding, gets the mean of the others' inputs.
    """
    weights: dict[str, float] = {}
    errors = read.relative_errors()
    inputs = mean_squares(by_tensor(theirs, read.first))
    if not inputs:
        raise QuantVizError(
            "allocate.importance_of_others",
            file=file,
            got=next(iter(theirs), "–"),
            known=", ".join(read.first),
        )
    mean = math.fsum(inputs.values()) / len(inputs)
    for tensor in read.first:
        count = read.weights([tensor])
        if tensor not in errors:
            # It has no error under any recipe, or none that is known: nothing depends on its weight.
            continue
        if count is None:
            raise QuantVizError("allocate.no_shapes")
        mse, db = errors[tensor]
        power = mse * 10 ** (db / 10)
        weights[tensor] = inputs.get(tensor, mean) * power * count
    return weights


def _of_csv(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > TABLE_BYTES:
            raise QuantVizError("tables.too_large", file=os.fspath(path), most=TABLE_BYTES)
        with open(path, encoding="utf-8-sig", newline="") as file:
            names, rows = csv_table(file)
            column = next((name for name in _COLUMNS if name in names), None)
            if column is None or "tensor" not in names:
                raise QuantVizError("allocate.alpha_columns", file=os.fspath(path), got=", ".join(names))
            found: dict[str, Any] = {}
            for row in rows:
                tensor = from_csv_text(row.get("tensor", ""))
                if tensor in found:
                    raise QuantVizError("allocate.alpha_twice", file=os.fspath(path), tensor=tensor)
                found[tensor] = row.get(column)
            return found
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise QuantVizError("allocate.cannot_read", file=os.fspath(path), reason=str(error)) from None
