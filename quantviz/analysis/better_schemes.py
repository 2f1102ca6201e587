"""The best of several schemes for one tensor, and its gain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from quantviz.analysis.recipe_ranking import RecipeRow
from quantviz.schemes.granularity import PerChannel, Shape
from quantviz.schemes.scheme import Scheme

#: A smaller gain is none: it would not change the last digit that is shown.
LEAST_GAIN_DB = 0.05


def best_of(
    x: Any, schemes: Iterable[Scheme], *, now_db: float = -math.inf, cells: int | None = None
) -> RecipeRow | None:
    """Return the row of the scheme with the largest gain on `x`, as `worth_db` counts it.

    `x` is a tensor, nested list or `Stored`; of a large one about `cells` are measured, all by default. None
    if no scheme can be used, or none has a higher SQNR than `now_db`.
    """
    from quantviz.analysis.sampled_part import SampledPart
    from quantviz.tensors.lazy import as_stored

    stored, _ = as_stored(x)
    schemes = tuple(schemes)
    if not schemes:
        return None
    part = SampledPart.of(stored, schemes[0], cells or stored.count)
    # The SQNR of a scheme that cannot be used on this tensor is nan, which no comparison passes.
    rows = [row for row in (part.row("", scheme, None) for scheme in schemes) if row.sqnr_db > now_db]
    return max(rows, key=lambda row: worth_db(row.sqnr_db, row.bits), default=None)


def gain_db(better_db: float | None, now_db: float) -> float:
    """Return the gain in SQNR, in dB; 0 if it is below `LEAST_GAIN_DB`, or nothing better was found.

    >>> gain_db(None, 20.0), gain_db(22.5, 20.0), gain_db(20.01, 20.0)
    (0.0, 2.5, 0.0)
    """
    if better_db is None or math.isnan(better_db) or not math.isfinite(now_db):
        return 0.0
    gain = better_db - now_db
    return gain if gain >= LEAST_GAIN_DB else 0.0


def worth_db(gained_db: float, bits: float) -> float:
    """Return the SQNR gain net of the extra bits per element, in dB; each bit counts `DB_PER_BIT`.

    A scheme of more bits is better only where it beats the same bits spent on finer steps everywhere.
    """
    from quantviz.analysis.counterfactuals import DB_PER_BIT

    return gained_db - DB_PER_BIT * bits


def is_by_inputs(scheme: Scheme | None, shape: Shape) -> bool:
    """Return whether scales go with inputs: kernels add up products of inputs before they scale.

    >>> is_by_inputs(Scheme("int4", granularity=PerChannel(1)), (8, 8))
    True
    >>> is_by_inputs(Scheme("int4", granularity=PerChannel(0)), (8, 8))
    False
    """
    if scheme is None or len(shape) < 2 or not isinstance(scheme.granularity, PerChannel):
        return False
    return scheme.granularity.axis % len(shape) == len(shape) - 1
