"""A scan's results as a long table: a row for each tensor under each recipe."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from quantviz.checkpoints.results.stored_rows import COUNTS, Scan
from quantviz.checkpoints.scan.measuring import NUMBERS
from quantviz.checkpoints.scan.recipes import seen_shape
from quantviz.evaluation.metric_formulas import METRICS, stored_size
from quantviz.evaluation.with_pandas import load_pandas
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme

if TYPE_CHECKING:
    import pandas

#: Metrics that stand first.
_FIRST = ("mse", "sqnr_db")
#: The columns in their order. `importance` is a hash of the weights of a tensor's columns, `content` one of
#: its bytes, dtype and shape; `bits` is its size as the recipe stores it, a whole number, and the metric
#: `effective_bits` the same for one weight.
COLUMNS = (
    *("tensor", "recipe", "status", "reason", "fallback", "importance", "shape", "dtype", "content", "bits"),
    *_FIRST,
    *("max_error", "max_error_at", *(name for name in METRICS if name not in _FIRST)),
    *(*NUMBERS, "scheme", "file"),
)
#: Of these the numbers are counts.
WHOLE = ("bits", *COUNTS)


def row_of(
    base: Mapping[str, object],
    status: str,
    reason: str | None,
    numbers: Mapping[str, float] | None = None,
    place: Shape | None = None,
    *,
    outputs: tuple[int, ...] = (0,),
) -> dict[str, object]:
    """Return a row of the table: None where a column has no value."""
    row: dict[str, object] = dict.fromkeys(COLUMNS) | dict(base) | {"status": status, "reason": reason}
    if status == "ok" and numbers is not None:
        shape: Any = base["shape"]
        scheme = _scheme_of(str(base["scheme"]))
        row |= numbers
        row |= {"bits": stored_size(scheme, seen_shape(shape, outputs))}
        row |= {"max_error": numbers["max_abs_error"], "max_error_at": place}
        row |= {name: int(numbers[name]) for name in WHOLE if name in numbers}
    return row


#: A scan has a few schemes and many rows.
_scheme_of = functools.lru_cache(maxsize=512)(Scheme.parse)


def frame_of(columns: Mapping[str, list[object]], scan: Scan, language: str) -> pandas.DataFrame:
    """Return the columns of a scan's table as a `pandas.DataFrame`, with the scan's notes in `attrs`.

    Raises:
        QuantVizError: pandas is not installed.
    """
    pd = load_pandas()
    typed: dict[str, Any] = {}
    for name, values in columns.items():
        if name in WHOLE:
            typed[name] = pd.Series(values, dtype="Int64")
        elif name == "max_error" or name in METRICS or name in NUMBERS:
            typed[name] = [math.nan if value is None else value for value in values]
        else:
            typed[name] = pd.Series(values, dtype=object)
    frame: pandas.DataFrame = pd.DataFrame(typed)
    frame.attrs["notes"] = [note[language] for note in scan.notes]
    frame.attrs["coverage"] = dict(scan.coverage)
    return frame
