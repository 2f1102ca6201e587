"""Pictures of two runs compared, without a script: the worst tensor's panels, and SQNR along the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quantviz.figures.colour_ranges import Array, Span, around_zero, greatest_finite, smallest_finite
from quantviz.figures.raster import data_uri
from quantviz.figures.theme import THEMES, Ramp, Theme, one_sided, ramp_between
from quantviz.models.worst_part import WorstPart

#: Of the worst tensor, in order.
RUN_PANELS = ("reference", "run", "error", "relative")
#: The end of the relative error's colours.
_WHOLE = 1.0
#: Width ÷ height of the narrowest and the widest panel.
_ASPECTS = (0.6, 3.0)
#: Decibels between two lines: the first that makes few enough.
_STEPS = (10, 20, 50, 100, 200, 500)
_MOST_LINES = 8
#: Of the height, between no error and the scale's upper end.
_EXACT = 0.1


@dataclass(frozen=True)
class RunPanel:
    """A panel as pictures for a light and a dark page."""

    #: One of `RUN_PANELS`.
    name: str
    #: By theme; colours from the lowest value to the highest.
    pictures: dict[str, str]
    ramps: dict[str, Ramp]
    span: Span
    #: Width ÷ height.
    aspect: float


def run_panels(part: WorstPart) -> tuple[RunPanel, ...]:
    """Return a part's panels: both runs on one scale of colours, the error, and the relative error."""
    lo = min(smallest_finite(part.reference), smallest_finite(part.run))
    hi = max(greatest_finite(part.reference), greatest_finite(part.run))
    values = around_zero(lo, hi)
    far = max(-smallest_finite(part.error), greatest_finite(part.error)) or 1.0
    arrays: dict[str, tuple[Array, Span]] = {
        "reference": (part.reference, values),
        "run": (part.run, values),
        "error": (part.error, (-far, far)),
        "relative": (np.minimum(part.relative, _WHOLE), (0.0, _WHOLE)),
    }
    rows, cols = part.matrix
    aspect = min(max(cols / rows, _ASPECTS[0]), _ASPECTS[1])
    panels = []
    for name, (array, span) in arrays.items():
        ramps = {theme: _ramp(name, span, THEMES[theme]) for theme in ("light", "dark")}
        pictures = {theme: data_uri(array, *span, ramp) for theme, ramp in ramps.items()}
        panels.append(RunPanel(name, pictures, ramps, span, aspect))
    return tuple(panels)


def _ramp(name: str, span: Span, theme: Theme) -> Ramp:
    if name == "error":
        return theme.errors
    if name == "relative":
        return one_sided(theme.errors)
    return ramp_between(theme.values, *span)


@dataclass(frozen=True)
class DecibelScale:
    """A vertical scale in dB; above it is the place of no error."""

    low: float
    high: float
    lines: tuple[int, ...]

    def height(self, sqnr_db: float) -> float:
        """Return a number's distance from the top, 0 to 1: without error it is at the top.

        >>> [decibel_scale([0.0, 10.0]).height(db) for db in (math.inf, 10.0, 0.0, -math.inf)]
        [0.0, 0.1, 1.0, 1.0]
        """
        if sqnr_db == math.inf:
            return 0.0
        share = (self.high - sqnr_db) / (self.high - self.low)
        return _EXACT + (1 - _EXACT) * min(max(share, 0.0), 1.0)


def decibel_scale(numbers: Sequence[float]) -> DecibelScale:
    """Return a scale around all finite numbers.

    >>> decibel_scale([3.0, 41.0, math.inf])
    DecibelScale(low=0.0, high=50.0, lines=(0, 10, 20, 30, 40, 50))
    """
    finite = [each for each in numbers if math.isfinite(each)] or [0.0]
    lowest = min(finite)
    highest = max(finite)
    step = next((each for each in _STEPS if (highest - lowest) / each < _MOST_LINES - 1), _STEPS[-1])
    low = math.floor(lowest / step)
    high = max(math.ceil(highest / step), low + 1)
    return DecibelScale(float(low * step), float(high * step), tuple(k * step for k in range(low, high + 1)))


def run_line(numbers: Sequence[float], scale: DecibelScale) -> str:
    """Return a run's line in a box of 1 × 1: a step for each SQNR, none for NaN.

    >>> run_line([10.0, math.nan, 0.0, 10.0], decibel_scale([0.0, 10.0]))
    'M0,0.1H0.25M0.5,1H0.75V0.1H1'
    """
    width = len(numbers)
    path = []
    follows = False
    for k, sqnr_db in enumerate(numbers):
        known = not math.isnan(sqnr_db)
        if known:
            height = scale.height(sqnr_db)
            start = f"V{height:.4g}" if follows else f"M{k / width:.5g},{height:.4g}"
            path.append(f"{start}H{(k + 1) / width:.5g}")
        follows = known
    return "".join(path)
