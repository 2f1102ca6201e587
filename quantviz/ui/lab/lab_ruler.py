"""The ruler of the Lab's stage: the block of the selected cell, with handles for what a hand may move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantviz.lab.moves import moved
from quantviz.lab.state import LabState
from quantviz.ui.components.cell import show_number_line
from quantviz.ui.components.hand import fits_hand, released, show_hand
from quantviz.ui.components.panels_bridge import bridge_width
from quantviz.ui.lab.tensor import at_hand
from quantviz.ui.lab.tensor_panels import BRIDGE_KEY, PANELS_KEY
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import locked

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.figures.panels_data import PanelsData

_HAND_KEY = "hand"


def show_lab_ruler(study: Study, why: Any, state: LabState, panels: PanelsData, *, curve: bool) -> None:
    """Show the ruler; with `curve` also the error against the range."""
    if study.result is not None and fits_hand(state):
        show_hand(
            study,
            state,
            key=_HAND_KEY,
            chart=PANELS_KEY,
            stamp=panels.stamp,
            curve=curve,
            locked=locked("scheme") or locked("range"),
            on_release=session.safely(_let_go),
        )
        return
    show_number_line(why, study.qparams, bridge_width(BRIDGE_KEY))


def _let_go() -> None:
    """Take what the hand moved: one step to undo."""
    message = released(_HAND_KEY)
    if message is not None:
        session.put(moved(session.state(), message, at_hand()))
