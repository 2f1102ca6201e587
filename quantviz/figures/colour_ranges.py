"""The ends of the panels' colours, and the error as each view shows it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quantviz.errors import QuantVizError
from quantviz.tensors.views import ERROR_VIEWS

if TYPE_CHECKING:
    from quantviz.schemes.scheme import Scheme


Array = npt.NDArray[Any]
Span = tuple[float, float]


def as_float32(cells: Array) -> Array:
    return cells.astype(np.float32, copy=False)


def values_range(x: Array) -> Span:
    """Return the ends of the colours of x; NaN and Inf have none."""
    return around_zero(smallest_finite(x), greatest_finite(x))


def around_zero(lo: float, hi: float) -> Span:
    """Return the range of x, made symmetric around 0 if it lies on both sides.

    x̂ has it too, so that x looks the same under any scheme.
    """
    if lo < 0 < hi:
        far = max(-lo, hi)
        return -far, far
    if lo < hi:
        return lo, hi
    # A tensor of one value has a range on the value's side of 0.
    return (0.0, lo or 1.0) if lo >= 0 else (lo, 0.0)


def range_of_codes(q: Array, scheme: Scheme | None) -> Span:
    if scheme:
        return float(scheme.value_min), float(scheme.value_max)
    lo = smallest_finite(q)
    hi = greatest_finite(q)
    return (lo, hi) if lo < hi else (lo - 1, hi + 1)


def shown_error(error: Array, x: Array, step: Array | None, view: str, quiet: Array | None = None) -> Array:
    """Return the error as a view shows it; `quiet` is 1 over the root mean square of each cell's inputs.

    `quantviz/browser/panels/cells.js` does the same, cell by cell; a test holds them together. An error over
    0 is 0 if the value is exact, else NaN.
    """
    way = ERROR_VIEWS[view]
    shown = error if way.signed else np.abs(error)
    if way.over is None:
        return shown
    divisor = {"x": x, "step": step, "quiet": quiet}[way.over]
    if divisor is None:
        raise QuantVizError("panels.steps_need_scale" if way.over == "step" else "panels.seen_needs_inputs")
    by = np.abs(as_float32(divisor))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(error == 0, np.float32(0), np.where(by == 0, np.float32(np.nan), shown / by))


def range_of_error(shown: Array, view: str, held: float | None) -> Span:
    largest = max(abs(smallest_finite(shown)), abs(greatest_finite(shown)))
    # A picture without any error needs some range all the same.
    far = held or largest or 1.0
    return (-far, far) if ERROR_VIEWS[view].signed else (0.0, far)


def smallest_finite(cells: Array) -> float:
    lowest = float(cells.min())
    return lowest if math.isfinite(lowest) else min(cells[np.isfinite(cells)].tolist(), default=0.0)


def greatest_finite(cells: Array) -> float:
    highest = float(cells.max())
    return highest if math.isfinite(highest) else max(cells[np.isfinite(cells)].tolist(), default=0.0)


def symlog(values: Any, linear: float) -> Any:
    """Return the places of values on a scale that is linear up to `linear` and logarithmic beyond.

    >>> [round(float(symlog(value, 1.0)), 3) for value in (-100, 0, 1, 100)]
    [-4.615, 0.0, 0.693, 4.615]
    >>> symlog(np.float32([3e38, -1e-3]), 1e-3).round(1)
    array([95.5, -0.7], dtype=float32)
    """
    # In float64: the largest float32 divided by a small number is beyond float32.
    far = np.log1p(np.divide(np.abs(values), linear, dtype=np.float64))
    return np.sign(values) * far.astype(getattr(values, "dtype", np.float64))
