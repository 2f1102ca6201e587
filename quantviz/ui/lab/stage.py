"""The stage below the panels: tabs that each open with one sentence that answers and one button that applies
it. Only the open tab is computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.moves import moved
from quantviz.lab.state import LabState
from quantviz.live.hand_payload import HandCurve, HandRuler, fits_hand, has_program, is_editable
from quantviz.schemes.calibration import ManualRange
from quantviz.ui.components import hand
from quantviz.ui.components.cell import show_cell_ruler, show_sentence, steps_html
from quantviz.ui.components.controls import choose_among, taken
from quantviz.ui.components.tensor_cache import opened_files
from quantviz.ui.lab.blame import blame_tab
from quantviz.ui.lab.compare import compare_tab, compared_engines
from quantviz.ui.lab.learning import CAUSES, learn, terms_of
from quantviz.ui.lab.numbers.tiles import WORDED_METRICS, baseline_tiles, metric_texts
from quantviz.ui.lab.picture.tensor_panels import PANELS_KEY, has_places, show_places
from quantviz.ui.lab.range import range_tab
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import classroom, locked, visible
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import language, say, say_error

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
            on_release=_let_go,
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
        on_release=_let_go,
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


def _let_go(message: Mapping[str, Any]) -> None:
    """Take the hand's move: one step to undo."""
    session.put(moved(session.state(), message, opened_files()))


#: The tabs whose tables stand beside their ruler.
_BESIDE = ("range", "blame")
_TAB = "lab_tab"
_COMPARED = "lab_tab_compared"


@dataclass(frozen=True, eq=False)
class Stage:
    """The stage's frame, painted before anything is computed."""

    #: The tab that is open, one of `TABS`.
    tab: str
    #: Places of the sentence, of the button that applies it, of the number line, of every step beside it, and
    #: of the tab's body.
    sentence: Any
    action: Any
    ruler: Any
    steps: Any
    body: Any
    #: Place of the links to the words' lessons, below the stage: its ruler takes all of a laptop's height.
    links: Any


def show_stage(state: LabState) -> Stage:
    """Show the tabs and the empty frame of the one that is open."""
    tab = open_tab(state)
    if tab in _BESIDE:
        st.html(Path(__file__).with_name("beside.css"))
    with st.container(key="stage"):
        with st.container(key="tabs"):
            words = {name: say(f"stage.{name}.name") for name in offered_tabs(state)}
            if len(words) > 1:
                choose_among(
                    "stage_tab",
                    "row",
                    say("stage.tabs"),
                    words,
                    tab,
                    _turn,
                    look="qv-unnamed qv-tabs",
                )
        sentence = st.container(key="sentence")
        action = st.container(key="apply")
        ruler = st.container(key="ruler")
        steps = st.container(key="steps")
        body = st.container(key="stage_body")
    links = st.container(key="stage_links")
    return Stage(tab, sentence, action, ruler, steps, body, links)


def _turn(tab: str) -> None:
    st.session_state[_TAB] = tab


def offered_tabs(state: LabState) -> tuple[str, ...]:
    """Return the tabs that have something to show; a projector has no room for more than the cell."""
    return tuple(name for name, is_offered in TABS.items() if is_offered(state))


def open_tab(state: LabState) -> str:
    """Return the open tab: the one chosen last; a state that compares engines opens the comparison."""
    offered = offered_tabs(state)
    compared = state.compared is not None and visible("compare")
    if compared and not st.session_state.get(_COMPARED, False):
        st.session_state[_TAB] = "compare"
    st.session_state[_COMPARED] = compared
    chosen = cast("str | None", st.session_state.get(_TAB))
    return chosen if chosen in offered else offered[0]


def comparing(state: LabState, stage: Stage) -> compared_engines.ComparisonView | None:
    """Return the comparison that the panels frame: while its tab is open, and always on a projector."""
    return compared_engines.comparing(state) if stage.tab == "compare" or classroom().projector else None


def lit_in_view(state: LabState, stage: Stage, compared: compared_engines.ComparisonView | None) -> Any:
    """Return the mask of the cells in view that the open tab is about, bool of rows and columns, or None."""
    if stage.tab == "blame":
        with _or_else(lambda _: None):  # the tab itself shows the reason
            return blame_tab.blamed(state)
        return None
    return compared_engines.differing(compared, state.view)


def fill_stage(
    study: Study,
    why: Any,
    state: LabState,
    stage: Stage,
    compared: compared_engines.ComparisonView | None,
    panels: PanelsData,
) -> None:
    """Show the open tab of a study, whose selected cell `why` explains."""
    if classroom().projector and compared:
        with stage.body:
            compare_tab.show_engines(compared, state)
    curve = answer = None
    if stage.tab != "compare" and visible("number_line"):
        pays = stage.tab == "blame" and can_drag_value(study, why, state)
        # The ruler comes before slower parts, and of a small tensor with them.
        with stage.ruler:
            if stage.tab == "range":
                with _or_else(lambda _: None):  # the tab itself shows the reason
                    answer = range_tab.answer_at_once(study, why, state)
            curve = range_tab.curve_at_once(study, why, state) if stage.tab == "range" else None
            show_lab_ruler(study, why, state, panels, curve, tab=stage.tab, pays=pays)
            if curve is not None and answer is not None:
                range_tab.complete_marks(curve, study, why, state)
    if stage.tab == "compare":
        # It takes a while: the last tab's number line goes at once.
        stage.ruler.empty()
    with _or_else(lambda problem: stage.sentence.warning(say_error(problem))):
        if stage.tab == "cell":
            _fill_cell(study, why, state, stage)
        elif stage.tab == "range":
            range_tab.show_range(state, stage.sentence, stage.action, answer)
            with stage.body:
                range_tab.show_calibrations(study, why, state)
        elif stage.tab == "blame":
            blame_tab.show_blame(study, state, stage.sentence, stage.action, stage.body)
        else:
            compare_tab.show_compare(study, state, compared, stage.sentence, stage.action, stage.body)
    if not classroom().projector:
        words = CAUSES.get(why.cause, ()) if stage.tab == "cell" else ()
        with stage.links:
            st.caption(learn(*terms_of(f"stage_tab_{stage.tab}"), *words))
    if curve is not None and answer is None:
        # Without the marks that take too long it is still the curve.
        with stage.ruler, _or_else(lambda _: None):
            range_tab.complete_marks(curve, study, why, state)


def has_hand(study: Study, state: LabState, stage: Stage) -> bool:
    """Return whether the open tab has a ruler under the hand, and the browser all of the tensor."""
    return stage.tab != "compare" and visible("number_line") and is_at_hand(study, state)


@contextlib.contextmanager
def _or_else(tell: Callable[[QuantVizError], object]) -> Iterator[None]:
    """Skip work that takes too long, and call `tell` with the error: the rest of the page remains."""
    try:
        yield
    except QuantVizError as problem:
        if problem.key not in ("work.too_long", "work.lost"):
            raise
        tell(problem)


def _fill_cell(study: Study, why: Any, state: LabState, stage: Stage) -> None:
    if visible("sentence"):
        with stage.sentence:
            show_sentence(why, state.source)
    if visible("steps"):
        with stage.action:
            opened = st.checkbox(say("cell.steps"), key="cell_steps")
        if opened:
            stage.steps.html(steps_html(why, scrolls=True))
    if has_places(state) and not classroom().projector:
        with stage.body:
            show_places(study, state)


def _has_range(state: LabState) -> bool:
    """Return whether a class may see the gain of another range."""
    return visible("range") and visible("scheme") and visible("tiles.sqnr")


def _has_blame(state: LabState) -> bool:
    """Return whether a class may see the sources of the error and their remedies."""
    told = ("error", "scheme", "tiles.sqnr", "range", "recipes")
    return not classroom().projector and all(map(visible, told))


def _has_comparison(state: LabState) -> bool:
    return not classroom().projector and any(map(visible, ("recipes", "compare", "actions")))


#: Whether a tab has something to show, by the tab's id, in their order.
TABS: Mapping[str, Callable[[LabState], bool]] = {
    "cell": lambda state: True,
    "range": _has_range,
    "blame": _has_blame,
    "compare": _has_comparison,
}
