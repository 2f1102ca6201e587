"""What a change to one part of a scheme would bring on one tensor: another range, or finer scales."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from quantviz.analysis.recipe_ranking import RecipeRow, row_of
from quantviz.errors import QuantVizError
from quantviz.schemes.calibration import Calibration, MinMax, Percentile
from quantviz.schemes.scheme import Scheme

#: A smaller gain is none: it would not change the last digit that is shown.
LEAST_GAIN_DB = 0.05
#: The percentiles that are tried, from hardly any clipping to a lot.
PERCENTILES = (99.99, 99.9, 99.5, 99.0, 98.0, 95.0, 90.0)


def ranges_to_try(scheme: Scheme, percentiles: tuple[float, ...] = PERCENTILES) -> tuple[Scheme, ...]:
    """Return the scheme with other ranges: that of all values, and those of some percentiles; none where its
    engine searches scales by itself.

    >>> [str(each.calibration.id) for each in ranges_to_try(Scheme("int4"), (99.0,))]
    ['percentile']
    """
    if scheme.search is not None:
        return ()
    tried: tuple[Calibration, ...] = (MinMax(), *map(Percentile, percentiles))
    return tuple(scheme.replace(calibration=each) for each in tried if each != scheme.calibration)


def best_of(x: Any, schemes: Iterable[Scheme]) -> RecipeRow | None:
    """Return what the scheme of the highest SQNR makes of `x`, a tensor, nested list or `Stored`; none where
    none of them can be used on it.

    >>> loud = [[0.1, 8.0], [0.2, -7.0], [-0.3, 6.0]]
    >>> best_of(loud, ranges_to_try(Scheme("int4"), (90.0, 99.0))).scheme.calibration
    Percentile(p=99.0)
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


def gain_db(row: RecipeRow | None, now_db: float) -> float:
    """Return by how many dB a row beats what there is now; 0 where it does not, or hardly.

    >>> gain_db(None, 20.0)
    0.0
    """
    if row is None or math.isnan(now_db) or math.isinf(now_db):
        return 0.0
    gain = row.sqnr_db - now_db
    return gain if gain >= LEAST_GAIN_DB else 0.0
