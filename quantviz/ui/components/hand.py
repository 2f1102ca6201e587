"""The ruler under the hand in the page: when the hand lets go, one message goes to the server, see
`quantviz.lab.moves`. And the ruler without a hand: dots over a comb of codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quantviz.browser.packing import pack
from quantviz.live.hand_payload import (
    Arrays,
    HandPayload,
    HandRuler,
    LessonRuler,
    curve_parts,
    large_payload,
    small_payload,
)
from quantviz.live.hand_words import Looks, ruler_settings
from quantviz.ui.components.class_wall import votes_on_ruler
from quantviz.ui.components.component import component, counted, last_message
from quantviz.ui.shell.classroom import enlarge_ruler
from quantviz.ui.shell.words import language, say, theme

if TYPE_CHECKING:
    from quantviz.analysis.range_error import RangeCurve
    from quantviz.figures.ruler_data import RulerPicture
    from quantviz.quantization.explanation import Explanation


_RULER = "quantviz_ruler"
_RULER_SCRIPT = "ruler_component"


def show_ruler(
    picture: RulerPicture,
    *,
    key: str,
    label: str,
    movable: bool = False,
    on_moved: Callable[[Mapping[str, Any]], None] | None = None,
    larger: float | None = None,
    words: Mapping[str, str] | None = None,
    votes: Mapping[str, Any] | None = None,
) -> None:
    """Show a ruler; `on_moved` gets the handle and place of a drag.

    `label` is the picture in a sentence, for people who cannot see it. Where it is `movable` the selected
    value can be dragged. `larger` is how many times larger it is where a lesson shows it on a projector: all
    its digits have one size there. `words` are this ruler's own, in place of those of every ruler. `votes`
    are a class's, by default those of the page.
    """
    larger = larger or enlarge_ruler()
    settings = {
        **ruler_settings(theme(), language()),
        "enlarge": larger or 1.0,
        "wall": bool(larger),
        "votes": votes or votes_on_ruler(),
    }
    moved, take = counted(key, on_moved) if on_moved else (0, None)
    header, arrays = picture.for_script(settings, label, movable=movable, words=words)
    component(_RULER, _RULER_SCRIPT)(
        key=key, data=pack({**header, "moved": moved}, arrays), on_moved_change=take
    )


_COMPONENT = "quantviz_hand"
_SCRIPT = "hand_component"
_CURVE = "quantviz_curve"
_CURVE_KEY = "hand_curve"


def show_hand(
    ruler: HandRuler,
    *,
    key: str,
    on_release: Callable[[Mapping[str, Any]], None],
    lesson: LessonRuler | None = None,
    pays: bool = False,
) -> None:
    """Show the ruler of the selected cell's block, whose handles change the scheme or a value.

    Args:
        ruler: The ruler, of a tensor that is small enough: see `fits_hand`.
        key: Names the component, for `released`.
        on_release: Called before the page runs when the hand has let go; `released(key)` returns the change.
        lesson: Settings of the ruler in a lesson's step.
        pays: Whether a line below the ruler shows the cost to the other cells during a drag of the value.
    """
    payload, arrays = small_payload(ruler, _looks(), lesson, pays)
    _mount(key, payload, arrays, on_release)


def show_far_hand(
    ruler: HandRuler,
    why: Explanation,
    *,
    key: str,
    on_release: Callable[[Mapping[str, Any]], None],
    figures: Mapping[str, str],
    tried: Mapping[str, str] | None,
) -> None:
    """Show the ruler of a large tensor: its range can be dragged, and the server sums the error meanwhile.

    `why` explains the selected cell, `figures` are the numbers above the panels by their keys, and `tried`
    those under the range that `asked(key)` returned; else as `show_hand`.
    """
    payload, arrays = large_payload(ruler, why, _looks())
    drag = asked(key)
    answer = {"number": drag["number"], "figures": dict(tried)} if drag and tried else None
    payload = replace(payload, figures=dict(figures), tried=answer)
    _mount(key, payload, arrays, on_release)


def _mount(
    key: str, payload: HandPayload, arrays: Arrays, on_release: Callable[[Mapping[str, Any]], None]
) -> None:
    """Mount the ruler; what it gets names the last of its moves that the server has taken."""
    released, take = counted(key, on_release)
    payload = replace(payload, released=released)
    component(_COMPONENT, _SCRIPT)(key=key, data=payload.packed(arrays), on_release_change=take)


def asked(key: str) -> Mapping[str, Any] | None:
    """Return the range that a hand has come to on a large tensor in this run: `lo`, `hi` and a `number`."""
    message: Mapping[str, Any] | None = last_message(key, _SCRIPT, "try")
    return message


def _looks() -> Looks:
    return Looks(language(), theme(), enlarge_ruler(), votes_on_ruler())


# ---- the parts of the curve under a ruler that are computed after it is shown ------------------------


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
    component(_CURVE, "curve_component")(key=_CURVE_KEY, data=pack(header, arrays))
