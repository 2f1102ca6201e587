"""The ruler of the Lab's stage: the block of the selected cell, with handles for what a hand may move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.moves import moved, range_counts
from quantviz.lab.state import LabState
from quantviz.schemes.calibration import ManualRange, MinMax
from quantviz.ui.components import hand
from quantviz.ui.components.cell import show_cell_ruler
from quantviz.ui.components.panels_bridge import bridge_width
from quantviz.ui.lab.tensor import at_hand, kept
from quantviz.ui.lab.tensor_panels import BRIDGE_KEY, PANELS_KEY
from quantviz.ui.lab.tiles import WORDED_METRICS, metric_texts
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.fragments import fragment
from quantviz.ui.shell.words import language

if TYPE_CHECKING:
    from quantviz.analysis.range_error import RangeCurve
    from quantviz.analysis.study import Study
    from quantviz.figures.panels_data import PanelsData

_HAND_KEY = "hand"
#: Points of a large tensor's error against the range: each is a pass over all values.
_POINTS = 65


def show_lab_ruler(
    study: Study,
    why: Any,
    state: LabState,
    panels: PanelsData,
    *,
    curve: bool,
    marks: Sequence[hand.CurveMark] = (),
) -> None:
    """Show the ruler; with `curve` also the error against the range, with `marks` on it."""
    fixed = locked("scheme") or locked("range")
    label = "" if why.cause == "left_out" else _sentence(study, why)
    if study.result is not None and hand.fits_hand(state):
        hand.show_hand(
            study,
            state,
            key=_HAND_KEY,
            chart=PANELS_KEY,
            stamp=panels.stamp,
            label=label,
            curve=curve,
            locked=fixed,
            on_release=session.safely(_let_go),
            marks=marks,
        )
    elif hand.has_program(state.scheme) and why.cause != "left_out":
        _show_far(study, why, state, panels.stamp, label, fixed, curve, marks)
    else:
        show_cell_ruler(why, study, key="cell_ruler", width=bridge_width(BRIDGE_KEY))


def _sentence(study: Study, why: Any) -> str:
    """Return the ruler in a sentence."""
    from quantviz.figures.ruler_data import ruler_of_cell, ruler_sentence

    return ruler_sentence(why, ruler_of_cell(study, why), study.qparams, language())


@fragment
def _show_far(
    study: Study,
    why: Any,
    state: LabState,
    stamp: int,
    label: str,
    fixed: bool,
    curve: bool,
    marks: Sequence[hand.CurveMark],
) -> None:
    """Show the ruler of a large tensor. It runs by itself while a hand drags the range, to sum the error."""
    if session.state() != state:
        st.rerun()  # The hand let go: the whole page follows.
    question = hand.asked(_HAND_KEY)
    hand.show_far_hand(
        study,
        state,
        why,
        key=_HAND_KEY,
        chart=PANELS_KEY,
        stamp=stamp,
        label=label,
        curve=_curve(study, state) if curve else None,
        locked=fixed,
        figures=metric_texts(study.measured.metrics),
        tried=_tried(study, state, question) if question else None,
        on_release=session.safely(_let_go),
        marks=marks,
    )


def _curve(study: Study, state: LabState) -> RangeCurve | None:
    """Return the error against the range; none where a pass for each point would take too long."""
    from quantviz.analysis.range_error import range_curve

    if state.scheme.number_format.kind != "integer" or not range_counts(state.scheme):
        return None
    scheme = state.scheme.replace(calibration=MinMax())
    return kept(state.source, f"curve {scheme}", lambda: range_curve(study, _POINTS))


def _tried(study: Study, state: LabState, question: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the numbers under the range that a hand has come to; none where it is refused."""
    from quantviz.streaming.measuring import measure

    try:
        scheme = moved(state, {**question, "kind": "range"}).scheme
        assert isinstance(scheme.calibration, ManualRange)
        return metric_texts(measure(study.x, scheme, metrics=WORDED_METRICS, known=study.facts).metrics)
    except QuantVizError:
        return None


def _let_go() -> None:
    """Take what the hand moved: one step to undo."""
    message = hand.released(_HAND_KEY)
    if message is not None:
        session.put(moved(session.state(), message, at_hand()))
