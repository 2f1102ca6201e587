"""What a clipping range costs a tensor: the error of rounding and that of clipping, as exact sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.analysis.study import Study
from quantviz.schemes.calibration import ManualRange
from quantviz.streaming.measuring import measure, measured

Array = npt.NDArray[Any]

#: Ranges that a curve tries.
_TRIED = 32


@dataclass(frozen=True)
class RangeError:
    """Mean squared errors of a tensor under one range, in the units of x²."""

    #: Of the cells inside the range, over all cells.
    rounding: float
    #: Of the cells that were clipped, over all cells.
    clipping: float

    @property
    def mse(self) -> float:
        """Return the mean squared error of all cells."""
        return self.rounding + self.clipping


_PARTS = ("rounding_mse", "clipping_mse")


def error_of_range(study: Study, lo: float, hi: float) -> RangeError:
    """Return what the scheme of `study` costs where every block is clipped to `lo` … `hi`.

    Of a large tensor this takes one pass, with the kernel that its metrics are compiled for.

    Raises:
        QuantVizError: where the range is refused, as `ManualRange` under this scheme.

    >>> import torch
    >>> from quantviz import Scheme
    >>> from quantviz.tensors.lazy import InMemory
    >>> study = Study.of(InMemory(torch.tensor([[1.0, 0.1], [-2.0, 7.5]])), Scheme("int4"))
    >>> for end in (8.0, 3.5):
    ...     found = error_of_range(study, -end, end)
    ...     print(f"{found.rounding:.4f} {found.clipping:.4f}")
    0.0905 0.0000
    0.0025 4.0000
    """
    scheme = study.scheme.replace(calibration=ManualRange(lo, hi))
    if study.result is not None:
        own = Study.of(study.x, scheme, facts=study.facts)
        assert own.result is not None
        found = measured(own.result, metrics=_PARTS)
    else:
        found = measure(study.x, scheme, metrics=_PARTS, known=study.facts)
    return RangeError(*(found.metrics[part] for part in _PARTS))


@dataclass(frozen=True, eq=False)
class RangeCurve:
    """Both parts of the error for ranges of several widths."""

    #: The upper end of each range, ascending, float64.
    at: Array
    #: The mean squared error of each, as `RangeError` has it, float64.
    rounding: Array
    clipping: Array


def range_curve(study: Study, count: int = _TRIED) -> RangeCurve | None:
    """Return what `count` ranges cost, their upper ends evenly spaced up to the largest value.

    A symmetric range has both ends equally far from 0; of another one the lower end is the smallest value.
    None where no value lies above the lower end. Of a large tensor each range takes a pass.
    """
    symmetric = study.scheme.mode == "symmetric"
    lo, hi = (0.0, study.absmax) if symmetric else (study.facts.lo, study.facts.hi)
    if not lo < hi:
        return None
    ends = np.linspace(lo, hi, count + 1)[1:]
    found = [error_of_range(study, -end if symmetric else lo, end) for end in ends.tolist()]
    return RangeCurve(
        ends, np.array([each.rounding for each in found]), np.array([each.clipping for each in found])
    )
