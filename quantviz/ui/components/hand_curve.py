"""The curve of the error against the range under the hand's ruler: its data sent with the ruler, and the
parts that are computed after it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from quantviz.browser.packing import pack
from quantviz.ui.components.component import component
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    from quantviz.analysis.range_error import RangeCurve

_COMPONENT = "quantviz_curve"
_KEY = "hand_curve"

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class CurveMark:
    """A range marked on the curve of the error against the range."""

    #: The range's upper end.
    at: float
    mse: float
    #: Its full name, and the one on the curve.
    name: str
    label: str
    #: The text form of the scheme that a tap takes.
    scheme: str
    #: Whether none has a smaller error: its name is written first.
    best: bool = False

    def payload(self, locked: bool) -> dict[str, object]:
        """Return its data for the browser; `locked` marks cannot be taken."""
        return {
            "at": self.at,
            "mse": self.mse,
            "label": self.label,
            "best": self.best,
            "told": say("stage.range.take", what=self.name),
            "take": None if locked else {"kind": "scheme", "scheme": self.scheme},
        }


@dataclass(frozen=True, eq=False)
class HandCurve:
    """The curve as the ruler shows it at once."""

    #: Key of its tensor and scheme, so that later results come to the same curve.
    key: str = ""
    #: Whether it is of the selected cell's block alone.
    block: bool = False
    #: Estimates for several bits; those of the scheme's own are drawn until there are exact points.
    estimates: Mapping[int, RangeCurve] = field(default_factory=dict)
    #: The upper end of the range of all values.
    whole: float = 0.0
    #: Whether it is against the lower end alone, while the upper one stays.
    lower: bool = False

    def payload(self, bits: int | None = None) -> tuple[dict[str, Any], Arrays]:
        """Return its data for the browser, with the points of `bits` if that cannot make them by itself."""
        others = list(self.estimates.items())
        header: dict[str, Any] = {
            "key": self.key,
            "block": self.block,
            "lower": self.lower,
            "ghosts": [{"bits": each, "whole": self.whole} for each, _ in others],
        }
        arrays: Arrays = {}
        for place, (_, curve) in enumerate(others):
            arrays |= {f"curve.ghosts.{place}.at": curve.at, f"curve.ghosts.{place}.error": curve.mse}
        if bits is not None:
            header["estimate"] = {"estimated": True}
            arrays |= {f"curve.estimate.{name}": part for name, part in _parts(self.estimates[bits]).items()}
        return header, arrays


def _parts(curve: RangeCurve) -> Arrays:
    return {"lo": curve.lo, "at": curve.at, "rounding": curve.rounding, "clipping": curve.clipping}


def complete_curve(
    key: str, chart: str, marks: Sequence[CurveMark], points: RangeCurve | None, *, locked: bool
) -> None:
    """Show on the ruler beside `chart` the parts of its curve `key` that are computed by now.

    A tap on one of the `marks` takes it unless `locked`; `points` are the exact ones of a large tensor.
    """
    header: dict[str, Any] = {"key": key, "chart": chart, "marks": [mark.payload(locked) for mark in marks]}
    arrays: Arrays = {}
    if points is not None:
        header["points"] = {}
        arrays = {f"points.{name}": part for name, part in _parts(points).items()}
    component(_COMPONENT, "curve_component")(key=_KEY, data=pack(header, arrays))
