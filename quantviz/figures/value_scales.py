"""How the colours of x and x̂ are spread over their values, and the grey of a picture."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from quantviz.figures.panels_data import PanelsData
    from quantviz.streaming.value_distribution import Spread

#: The share of linear colours that the median magnitude has at least; below it the few largest values take
#: them all. A normal distribution's has 15 %.
WASHED_OUT = 0.1


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
