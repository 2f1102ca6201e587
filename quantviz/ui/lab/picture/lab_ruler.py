"""The ruler of the Lab's stage: the block of the selected cell, with handles for range, scale and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.moves import moved
from quantviz.lab.state import LabState
from quantviz.live.hand_payload import HandCurve, HandRuler, fits_hand, has_program, is_editable
from quantviz.schemes.calibration import ManualRange
from quantviz.ui.components import hand
from quantviz.ui.components.cell import show_cell_ruler
from quantviz.ui.components.controls import taken
from quantviz.ui.components.tensor_cache import opened_files
from quantviz.ui.lab.numbers.tiles import WORDED_METRICS, baseline_tiles, metric_texts
from quantviz.ui.lab.picture.tensor_panels import PANELS_KEY
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import language

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.figures.panels_data import PanelsData

_HAND_KEY = "hand"


def show_lab_ruler(
    study: Study,
    why: Any,
    state: LabState,
    panels: PanelsData,
    curve: HandCurve | None,
    *,
    tab: str,
    pays: bool = False,
) -> None:
    """Show the ruler of a tab of the stage, with the error against the range on a `curve`; `pays`: with a
    dragged value's cost.
    """
    fixed = locked("scheme") or locked("range")
    label = "" if why.cause == "left_out" else _sentence(study, why)
    if study.of_file:  # a hand would draw codes from the values' range, not the file's
        show_cell_ruler(why, study, key="cell_ruler")
    elif is_at_hand(study, state):
        baseline = {tile.key: tile.raw for tile in baseline_tiles(state)}
        hand.show_hand(
            HandRuler(study, state, PANELS_KEY, panels.stamp, label, curve, fixed, baseline, tab, taken()),
            key=_HAND_KEY,
            on_release=errors.safely(_let_go),
            pays=pays,
        )
    elif has_program(state.scheme) and why.cause != "left_out":
        _show_far(HandRuler(study, state, PANELS_KEY, panels.stamp, label, curve, fixed, tab=tab), why)
    else:
        show_cell_ruler(why, study, key="cell_ruler")


def is_at_hand(study: Study, state: LabState) -> bool:
    """Return whether the browser quantizes the whole tensor by itself."""
    return not study.of_file and study.result is not None and fits_hand(state)


def can_drag_value(study: Study, why: Any, state: LabState) -> bool:
    """Return whether a hand can drag the selected cell's value, and all others follow at once."""
    fixed = locked("scheme") or locked("range")
    free = study.result is not None and why.cause != "left_out" and not fixed
    return free and fits_hand(state) and is_editable(state)


def _sentence(study: Study, why: Any) -> str:
    """Return the ruler in a sentence."""
    from quantviz.figures.ruler_data import ruler_of_cell, ruler_sentence

    return ruler_sentence(why, ruler_of_cell(study, why), study.qparams, language())


@fragment
def _show_far(ruler: HandRuler, why: Any) -> None:
    """Show the ruler of a large tensor. It runs by itself while a hand drags the range, to sum the error."""
    if session.state() != ruler.state:
        st.rerun()  # The hand let go: the whole page follows.
    question = hand.asked(_HAND_KEY)
    hand.show_far_hand(
        ruler,
        why,
        key=_HAND_KEY,
        on_release=errors.safely(_let_go),
        figures=metric_texts(ruler.study.measured.metrics),
        tried=_tried(ruler.study, ruler.state, question) if question else None,
    )


def _tried(study: Study, state: LabState, question: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the numbers under the range of a hand's drag; None where that is refused."""
    from quantviz.streaming.measuring import measure

    try:
        scheme = moved(state, {**question, "kind": "range"}).scheme
        assert isinstance(scheme.calibration, ManualRange)
        return metric_texts(measure(study.x, scheme, metrics=WORDED_METRICS, known=study.facts).metrics)
    except QuantVizError:
        return None


def _let_go() -> None:
    """Take the hand's move: one step to undo."""
    message = hand.released(_HAND_KEY)
    if message is not None:
        session.put(moved(session.state(), message, opened_files()))
