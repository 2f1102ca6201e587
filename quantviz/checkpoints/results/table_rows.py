"""The columns of the table of a scan's results, and one of its rows."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from quantviz.checkpoints.results.stored_rows import COUNTS
from quantviz.checkpoints.scan.measuring import NUMBERS
from quantviz.checkpoints.scan.recipes import seen_shape
from quantviz.evaluation.metric_formulas import METRICS, stored_size
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme

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
