"""Which of several schemes serves one tensor best, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from quantviz.analysis.recipe_ranking import RecipeRow, row_of
from quantviz.errors import QuantVizError
from quantviz.schemes.scheme import Scheme

#: A smaller gain is none: it would not change the last digit that is shown.
LEAST_GAIN_DB = 0.05


def best_of(x: Any, schemes: Iterable[Scheme]) -> RecipeRow | None:
    """Return what the scheme of the highest SQNR makes of `x`, a tensor, nested list or `Stored`; none where
    none of them can be used on it.

    >>> loud = [[0.1, 8.0], [0.2, -7.0], [-0.3, 6.0]]
    >>> best_of(loud, [Scheme("int4"), Scheme("int8")]).scheme.format
    'int8'
    """
    from quantviz.streaming.measuring import measure
    from quantviz.tensors.lazy import as_stored

    stored, _ = as_stored(x)
    rows = []
    for scheme in schemes:
        try:
            row = row_of(measure(stored, scheme), is_current=False)
        except QuantVizError:
            # It cannot be used on this tensor, so it is none to choose.
            continue
        if not math.isnan(row.sqnr_db):
            rows.append(row)
    return max(rows, key=lambda row: row.sqnr_db, default=None)


def gain_db(better_db: float | None, now_db: float) -> float:
    """Return by how many dB the SQNR of what was found beats what there is now; 0 where it does not, or
    hardly, or nothing was found.

    >>> gain_db(None, 20.0), gain_db(22.5, 20.0), gain_db(20.01, 20.0)
    (0.0, 2.5, 0.0)
    """
    if better_db is None or math.isnan(better_db) or not math.isfinite(now_db):
        return 0.0
    gain = better_db - now_db
    return gain if gain >= LEAST_GAIN_DB else 0.0
