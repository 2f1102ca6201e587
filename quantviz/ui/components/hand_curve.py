"""The parts of the curve under the hand's ruler that are computed after it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantviz.browser.packing import pack
from quantviz.live.hand_payload import Arrays, curve_parts
from quantviz.ui.components.component import component
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    from quantviz.analysis.range_error import RangeCurve

_COMPONENT = "quantviz_curve"
_KEY = "hand_curve"


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
        arrays = {f"points.{name}": part for name, part in curve_parts(points).items()}
    component(_COMPONENT, "curve_component")(key=_KEY, data=pack(header, arrays))
