"""The error of a tensor under clipping ranges: that of rounding and that of clipping, as exact sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.analysis.study import Study
from quantviz.schemes.calibration import ManualRange
from quantviz.streaming.measuring import measure, measured

Array = npt.NDArray[Any]

_TRIED = 32
#: Least rise of the error between two minima that count as two, in dB.
_LEAST_DB = 0.1


@dataclass(frozen=True)
class RangeError:
    """Mean squared errors of a tensor under one range, in the units of x²."""

    #: Of the cells inside the range, over all cells.
    rounding: float
    #: Of the cells that were clipped, over all cells.
    clipping: float

    @property
    def mse(self) -> float:
        return self.rounding + self.clipping


_PARTS = ("rounding_mse", "clipping_mse")


def error_of_range(study: Study, lo: float, hi: float) -> RangeError:
    """Return the mean squared errors under a study's scheme with every block clipped to `lo` … `hi`.

    A large tensor takes one pass, with the kernel that is compiled for its metrics.

    Raises:
        QuantVizError: The range is not valid as a `ManualRange` under this scheme.
    """
    scheme = study.scheme.replace(calibration=ManualRange(lo, hi))
    if study.result is not None:
        of_scheme = Study.of(study.x, scheme, facts=study.facts)
        assert of_scheme.result is not None
        of_parts = measured(of_scheme.result, metrics=_PARTS)
    else:
        of_parts = measure(study.x, scheme, metrics=_PARTS, known=study.facts)
    return RangeError(*(of_parts.metrics[part] for part in _PARTS))


@dataclass(frozen=True, eq=False)
class RangeCurve:
    #: The ends of each range, float64; the upper ones ascend.
    lo: Array
    at: Array
    #: As `RangeError` has it, float64.
    rounding: Array
    clipping: Array

    @property
    def mse(self) -> Array:
        return self.rounding + self.clipping

    @property
    def minima(self) -> tuple[int, ...]:
        return minima_of(self.mse)


def ranges_to_try(study: Study, steps: int, beyond: int = 0) -> tuple[Array, Array] | None:
    """Return the ends of `steps` ranges that grow evenly to that of all values, and of `beyond` wider ones.

    Both ends grow alike from 0; where all values are above 0 from the smallest. None where no range has a
    width.
    """
    lo = study.facts.lo
    hi = study.facts.hi
    if study.scheme.mode == "symmetric":
        lo = -study.absmax
        hi = study.absmax
    if not lo < hi:
        return None
    start = lo if hi <= 0 else max(lo, 0.0)
    shares = np.arange(1, steps + beyond + 1) / steps
    return start + shares * (lo - start), start + shares * (hi - start)


def range_curve(study: Study, steps: int = _TRIED, beyond: int = 0) -> RangeCurve | None:
    """Return the errors under the ranges of `ranges_to_try`; None if no range has a width.

    Each is that of a quantization, which takes a pass over a large tensor.
    """
    ends = ranges_to_try(study, steps, beyond)
    if ends is None:
        return None
    errors = [error_of_range(study, lo, hi) for lo, hi in zip(*(end.tolist() for end in ends), strict=True)]
    return RangeCurve(
        *ends, np.array([error.rounding for error in errors]), np.array([error.clipping for error in errors])
    )


def minima_of(errors: Array) -> tuple[int, ...]:
    """Return the places of the minima between which an error rises by `_LEAST_DB` or more.

    The least error is always one of them. A lower hill between two is taken for roughness.

    >>> minima_of(np.array([9.0, 2.0, 3.0, 2.01, 2.0, 1.0, 5.0]))
    (1, 5)
    >>> minima_of(np.array([9.0, 2.0, 2.02, 1.0, 5.0]))
    (3,)
    """
    factor = 10 ** (_LEAST_DB / 10)
    minima = []
    low = 0
    high = 0
    falling = True
    for k, error in enumerate(errors.tolist()):
        if falling:
            if error < errors[low]:
                low = k
            elif error > errors[low] * factor:
                minima.append(low)
                falling = False
                high = k
        elif error > errors[high]:
            high = k
        elif error * factor < errors[high]:
            falling = True
            low = k
    least = int(np.argmin(errors))
    return tuple(sorted({*minima, least}))
