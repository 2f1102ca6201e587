"""How the colours of x and x̂ are spread over their values, and the grey of a picture."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from quantviz.figures.panels_data import PanelsData
    from quantviz.streaming.magnitude_spread import Spread

#: The share of linear colours that the median magnitude has at least; below it the few largest values take
#: them all. A normal distribution's has 15 %.
WASHED_OUT = 0.1


def symlog(values: Any, linear: float) -> Any:
    """Return where values stand on a scale that is linear up to the magnitude `linear` and logarithmic beyond
    it.

    >>> [round(float(symlog(value, 1.0)), 3) for value in (-100, 0, 1, 100)]
    [-4.615, 0.0, 0.693, 4.615]
    >>> symlog(np.float32([3e38, -1e-3]), 1e-3).round(1)
    array([95.5, -0.7], dtype=float32)
    """
    # In float64: the largest float32 divided by a small number is beyond float32.
    far = np.log1p(np.divide(np.abs(values), linear, dtype=np.float64))
    return np.sign(values) * far.astype(getattr(values, "dtype", np.float64))


def with_value_scale(data: PanelsData, scale: str, spread: Spread) -> PanelsData:
    """Return the panels with the colours of x and x̂ spread by `scale`, one of `VALUE_SCALES`; `spread` is the
    whole tensor's.

    "auto" is "symlog" where a few values would wash out the rest: where linear colours would leave the median
    magnitude less than `WASHED_OUT` of them. A picture stays linear.

    Pixels that stand for many cells show the largest of them, which lie beyond the tensor's percentile:
    theirs is taken.
    """
    if scale == "auto" and not data.grey and spread.middle < WASHED_OUT * max(map(abs, data.value_range)):
        scale = "symlog"
    if scale == "symlog":
        return dataclasses.replace(data, symlog=spread.middle or None)
    if scale == "percentile":
        far = (
            spread.far
            if data.pixels is None
            else float(np.quantile(np.abs(data.x[np.isfinite(data.x)]), 0.99))
        )
        lo, hi = (min(max(end, -far), far) for end in data.value_range)
        # Where nearly all is 0 there is no such end.
        return dataclasses.replace(data, value_range=(lo, hi), cut=True) if lo < hi else data
    return data


def as_picture(data: PanelsData, *, symmetric: bool) -> PanelsData:
    """Return the panels of a picture: x, x̂ and the values of codes in grey, 0 black; with `symmetric` the
    code 0 means 0.
    """
    low, high = data.code_range
    return dataclasses.replace(
        data,
        grey=True,
        value_range=(0.0, data.value_range[1] if data.value_range[1] > 0 else 1.0),
        code_range=(max(low, 0.0) if symmetric else low, high),
    )
