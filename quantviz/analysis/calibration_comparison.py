"""Calibrations compared on one tensor, or on one of its blocks."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from quantviz.analysis.sampled_part import SampledPart, has_whole_blocks
from quantviz.analysis.study import Study
from quantviz.budget import Ended, too_long
from quantviz.errors import QuantVizError
from quantviz.evaluation.with_pandas import data_frame
from quantviz.public_calls import public
from quantviz.schemes.calibration import (
    CALIBRATIONS,
    Calibration,
    Given,
    ManualRange,
    Percentile,
    Range,
    Searched,
    starting,
)
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme

if TYPE_CHECKING:
    import pandas

#: From hardly any clipping to a lot.
PERCENTILES = (99.99, 99.9, 99.5, 99.0, 98.0, 95.0, 90.0)
#: No rule finds these for any scheme.
_BY_HAND = (ManualRange, Given, Searched)


@dataclass(frozen=True)
class CalibrationRow:
    """The result of one calibration on a tensor or block, or the reason why it cannot be used there."""

    calibration: Calibration
    #: None where the two do not go together.
    scheme: Scheme | None
    #: The numbers are nan then.
    problem: QuantVizError | None = None
    #: A symmetric scheme's range is mirrored; nan of several blocks, or of a scale without a range.
    lo: float = math.nan
    hi: float = math.nan
    mse: float = math.nan
    sqnr_db: float = math.nan
    #: Over the calibration that is set, in dB.
    gain_db: float = math.nan
    clipped_share: float = math.nan
    #: As a share of the range of all values, the median of blocks; nan without a range.
    width_share: float = math.nan
    #: To find the range and measure it.
    seconds: float = math.nan


@dataclass(frozen=True, eq=False)
class CalibrationComparison:
    #: The calibration that is set first.
    rows: tuple[CalibrationRow, ...]
    #: Its place in the grid; None for the whole tensor.
    block: Shape | None = None
    #: Of the cells that were looked at.
    share: float = 1.0

    @property
    def current(self) -> CalibrationRow:
        return self.rows[0]

    @property
    def best(self) -> CalibrationRow | None:
        """Return the row of the least error; None where no calibration can be used."""
        fitting = [row for row in self.rows if row.problem is None and not math.isnan(row.mse)]
        return min(fitting, key=lambda row: row.mse, default=None)

    def table(self) -> pandas.DataFrame:
        """Return a row for each calibration.

        Raises:
            QuantVizError: pandas is not installed.
        """
        numbers = ("lo", "hi", "mse", "sqnr_db", "gain_db", "clipped_share", "width_share", "seconds")
        return data_frame(
            {
                "calibration": [row.calibration.id for row in self.rows],
                "scheme": [str(row.scheme or "") for row in self.rows],
                **{name: [getattr(row, name) for row in self.rows] for name in numbers},
                "problem": [row.problem.message() if row.problem else "" for row in self.rows],
            }
        )


def all_calibrations(percentiles: Sequence[float] = PERCENTILES) -> tuple[Calibration, ...]:
    """Return every calibration that finds a range, as it starts, and these percentiles."""
    found: list[Calibration] = []
    for kind in CALIBRATIONS.values():
        if kind is Percentile:
            found += map(Percentile, percentiles)
        elif kind not in _BY_HAND:
            found.append(starting(kind, {}))
    return tuple(found)


@public
def compare_calibrations(
    x: Any,
    scheme: Scheme | str,
    calibrations: Sequence[Calibration] | None = None,
    *,
    block: Shape | None = None,
    cells: int | None = None,
) -> CalibrationComparison:
    """Return the result of each calibration on `x`, under a scheme that is otherwise the same.

    Args:
        x: A real tensor or nested list of 1 to 4 axes, or a `Stored`.
        scheme: The scheme, a recipe or a text form. The others are compared with its own calibration.
        calibrations: The calibrations to try; `all_calibrations()` by default.
        block: The place of a block in the scheme's grid of blocks, whose values alone are looked at.
        cells: About how many cells of a large tensor are looked at, in rows spread over it; all by default,
            and if a scale is shared by several rows.

    Raises:
        QuantVizError: Where the scheme itself cannot be used on `x`, or there is no such block.

    >>> from quantviz import MinMax
    >>> x = [[0.5, -1.0, 0.25, 0.75, 8.0]]
    >>> found = compare_calibrations(x, Scheme("int4"), [MinMax(), Percentile(80.0)])
    >>> [(row.calibration.id, round(row.hi, 2), round(row.gain_db, 1)) for row in found.rows]
    [('min_max', 8.0, 0.0), ('percentile', 2.4, -18.1)]
    """
    from quantviz.tensors.lazy import as_stored

    scheme = as_scheme(scheme)
    stored, _ = as_stored(x)
    part = None
    if block is None and cells and stored.own_scales(scheme) is None:
        for problem in scheme.problems(stored.shape):
            raise problem
        if has_whole_blocks(scheme, stored.shape):
            part = SampledPart.of(stored, scheme, cells)
    study = Study.of(part.x if part else stored, scheme)
    if block is not None:
        study = study.alone(block)
    scheme = study.scheme
    tried = all_calibrations() if calibrations is None else calibrations
    whole = _whole_range(study)
    current = _row(part, study, scheme.calibration, None, whole)
    rows = [
        current,
        *(_row(part, study, each, current, whole) for each in tried if each != scheme.calibration),
    ]
    return CalibrationComparison(tuple(rows), block, part.share if part else 1.0)


def _row(
    part: SampledPart | None,
    study: Study,
    calibration: Calibration,
    current: CalibrationRow | None,
    whole: Range | None,
) -> CalibrationRow:
    scheme = None
    began = time.perf_counter()
    try:
        scheme = study.scheme.replace(calibration=calibration)
        own = Study.of(study.x, scheme, facts=study.facts, keep=study.keep)
        m = (part.weighted(own.measured) if part else own.measured).metrics
    except QuantVizError as problem:
        return CalibrationRow(calibration, scheme, problem=problem)
    except Ended as end:
        return CalibrationRow(calibration, scheme, problem=too_long(end))
    seconds = time.perf_counter() - began
    lo, hi = _ends(own)
    return CalibrationRow(
        calibration,
        scheme,
        lo=lo,
        hi=hi,
        mse=m["mse"],
        sqnr_db=m["sqnr_db"],
        gain_db=0.0 if current is None else m["sqnr_db"] - current.sqnr_db,
        clipped_share=m["clipped_share"],
        width_share=_width_share(own, whole),
        seconds=seconds,
    )


def _ends(study: Study) -> tuple[float, float]:
    ends = study.range
    if ends is None or ends.lo.numel() != 1:
        return math.nan, math.nan
    lo = float(ends.lo)
    hi = float(ends.hi)
    far = max(-lo, hi)
    if study.scheme.mode == "symmetric":
        return (-far, far)
    return (lo, hi)


def _whole_range(study: Study) -> Range | None:
    # Of all values; None where the scheme takes no range.
    try:
        return Study.of(study.x, study.scheme.with_every_value(), facts=study.facts, keep=study.keep).range
    except QuantVizError:
        return None


def _width_share(study: Study, whole: Range | None) -> float:
    if study.range is None or whole is None:
        return math.nan
    shares = _widths(study.range, study.scheme) / _widths(whole, study.scheme)
    # A block of zeros has a range without a width.
    return float(shares[torch.isfinite(shares)].nanmedian())


def _widths(found: Range, scheme: Scheme) -> torch.Tensor:
    # Half of a symmetric one.
    if scheme.mode == "symmetric":
        return torch.maximum(-found.lo, found.hi)
    return found.hi - found.lo
