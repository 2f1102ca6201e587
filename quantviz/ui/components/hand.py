"""The ruler under the hand in the page: when the hand lets go, one message goes to the server, see
`quantviz.lab.moves`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quantviz.live.hand_payload import HandRuler, LessonRuler, large_payload, small_payload
from quantviz.live.hand_words import Looks
from quantviz.ui.components.class_wall import votes_on_ruler
from quantviz.ui.components.component import component, last_message
from quantviz.ui.shell.classroom import enlarge_ruler
from quantviz.ui.shell.words import language, theme

if TYPE_CHECKING:
    from quantviz.quantization.explanation import Explanation

_COMPONENT = "quantviz_hand"
_SCRIPT = "hand_component"


def show_hand(
    ruler: HandRuler,
    *,
    key: str,
    on_release: Callable[[], None],
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
    component(_COMPONENT, _SCRIPT)(key=key, data=payload.packed(arrays), on_release_change=on_release)


def show_far_hand(
    ruler: HandRuler,
    why: Explanation,
    *,
    key: str,
    on_release: Callable[[], None],
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
    component(_COMPONENT, _SCRIPT)(key=key, data=payload.packed(arrays), on_release_change=on_release)


def asked(key: str) -> Mapping[str, Any] | None:
    """Return the range that a hand has come to on a large tensor in this run: `lo`, `hi` and a `number`."""
    message: Mapping[str, Any] | None = last_message(key, _SCRIPT, "try")
    return message


def released(key: str) -> Mapping[str, Any] | None:
    """Return the message of a hand that let go in this run: see `moves.moved`."""
    message: Mapping[str, Any] | None = last_message(key, _SCRIPT, "release")
    return message


def _looks() -> Looks:
    return Looks(language(), theme(), enlarge_ruler(), votes_on_ruler())
