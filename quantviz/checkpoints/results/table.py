"""A scan's results as a long table: a row for each tensor under each recipe."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from quantviz.checkpoints.results.table_rows import COLUMNS as COLUMNS
from quantviz.checkpoints.results.table_rows import WHOLE as WHOLE
from quantviz.checkpoints.results.table_rows import row_of as row_of
from quantviz.checkpoints.scan.measuring import NUMBERS
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.with_pandas import load_pandas
from quantviz.text import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    import pandas

    from quantviz.checkpoints.results.store import Results


def columns(results: Results, number: int, language: str = DEFAULT_LANGUAGE) -> dict[str, list[object]]:
    """Return the rows of a scan so far as columns, as `pandas.DataFrame` takes them."""
    rows = list(results.rows(number, language))
    return {name: [row[name] for row in rows] for name in COLUMNS}


def table(results: Results, number: int, language: str = DEFAULT_LANGUAGE) -> pandas.DataFrame:
    """Return the rows of a scan so far, in plan order, as a `pandas.DataFrame`.

    Numbers are float64, NaN where there is none; counts are Int64.

    Raises:
        QuantVizError: pandas is not installed.
    """
    pd = load_pandas()
    made: dict[str, Any] = {}
    for name, values in columns(results, number, language).items():
        if name in WHOLE:
            made[name] = pd.Series(values, dtype="Int64")
        elif name == "max_error" or name in METRICS or name in NUMBERS:
            made[name] = [math.nan if value is None else value for value in values]
        else:
            made[name] = pd.Series(values, dtype=object)
    frame: pandas.DataFrame = pd.DataFrame(made)
    scan = results.scan(number)
    frame.attrs["notes"] = [note[language] for note in scan.notes]
    frame.attrs["coverage"] = dict(scan.coverage)
    return frame
