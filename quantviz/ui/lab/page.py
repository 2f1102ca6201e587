"""The Lab page, one screen: title, scheme, numbers, panels and the stage; then the part below the fold.

The controls and the frame are painted before anything heavy is imported; then the panels, which a
change is waited for; then the rest.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.classroom import GROUPS
from quantviz.lab.state import LabState
from quantviz.schemes.arithmetic_changes import TensorTraits
from quantviz.ui.components.classroom_signs import show_prompt
from quantviz.ui.components.refusals import show_page_errors
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.components.tensor_cache import notes_of, stored_of, study_of
from quantviz.ui.lab.bars.answers import show_answers
from quantviz.ui.lab.bars.scheme_bar import show_scheme
from quantviz.ui.lab.bars.sharing import show_share
from quantviz.ui.lab.bars.title_line import show_title, tensor_name
from quantviz.ui.lab.learning import learn, terms_of
from quantviz.ui.lab.numbers import below_the_fold
from quantviz.ui.lab.numbers.tiles import show_numbers, tiles
from quantviz.ui.lab.picture.navigation import show_worst
from quantviz.ui.lab.picture.tensor_panels import (
    PANELS_KEY,
    error_end,
    height_to_come,
    show_error_choices,
    show_tensor_panels,
    show_value_choices,
    whole_panels,
)
from quantviz.ui.lab.sidebar.nonfinite import found_in, show_choice, show_note
from quantviz.ui.lab.sidebar.sidebar import show_sidebar
from quantviz.ui.lab.stage import Stage, comparing, fill_stage, has_hand, lit_in_view, show_stage
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.address import keep_place
from quantviz.ui.shell.bounds import HEAVY_ELEMENTS
from quantviz.ui.shell.classroom import classroom, embedded, visible
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.long_work import prepare
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import say, say_error

if TYPE_CHECKING:
    from quantviz.analysis.study import Study


#: The controls whose links are in their help, and those of *More*.
_HELPED = ("format", "bits", "mode", "granularity", "convention", "value_scale", "error")


@dataclass(frozen=True, eq=False)
class Areas:
    """Places of the parts that are filled after the frame was painted."""

    #: Contents of *Share* and *More*; None where they are not shown.
    share: Any
    more: Any
    numbers: Any
    #: The bridge stands before the panels: on a phone it shows the switch between them.
    bridge: Any
    panels: Any
    stage: Stage


def show_controls(state: LabState) -> Areas:
    """Show title, scheme, sidebar and the empty frame: without torch, but for a tensor from a file."""
    # There for every tensor: the parts below it keep their place while one is opened.
    opening = st.container(key="opening")
    if not state.source.finite:
        with opening:
            _open(state)
    st.html(Path(__file__).with_name("lab.css"))
    name_tab(say("pages.lab"), tensor_name(state))
    alone = classroom().projector or embedded()
    share, more = (None, None) if alone else show_title(state)
    with st.container(key="problems"):
        show_page_errors(*session.OWNER.problems)
        if errors.page_errors():
            show_choice("page")
    show_prompt()
    show_sidebar(state)
    if visible("scheme"):
        show_scheme(state, changes=classroom().projector)
    # An empty container has no place on the page: what comes after it would move when it is filled.
    numbers = st.container(key="numbers")
    if any(map(visible, GROUPS["tiles"])):
        numbers.empty()
    bridge = st.container(key="bridge")
    bridge.empty()
    panels = st.container(key=PANELS_KEY)
    if "lab_painted" not in st.session_state:
        panels = panels.skeleton(height=height_to_come(state))
        st.session_state["lab_painted"] = True
    stage = show_stage(state)
    warm_up()
    return Areas(share, more, numbers, bridge, panels, stage)


def _open(state: LabState) -> None:
    """Open a tensor that lies in a file or with a hub, and go back to the one before where that fails."""
    try:
        with st.spinner(say("lab.reading"), show_time=True):
            found_in(state.source)
    except QuantVizError as error:
        session.refuse(error)
        st.session_state[session.KIND_CHOSEN] = state.source.kind
        st.rerun()


def show_result(state: LabState, areas: Areas) -> Study:
    """Show numbers, panels and stage of the state's tensor under its scheme."""
    if math.prod(state.source.shape) >= HEAVY_ELEMENTS:
        prepare()
    try:
        with _working(state):
            study = study_of(state)
            why = study.explain(state.cell)
            # An engine's own infinities are found where all of the tensor is looked at.
            found = tiles(study, state)
    except QuantVizError as error:
        session.refuse(error)
        st.rerun()
    session.accept()
    _remember_facts(study, why)
    end = error_end(study, state) if visible("error") else None
    compared = comparing(state, areas.stage)
    lit = lit_in_view(state, areas.stage, compared)
    panels = show_tensor_panels(study, state, end, areas.bridge, areas.panels, lit)
    with areas.numbers:
        show_numbers(found, state)
    fill_stage(study, why, state, areas.stage, compared, panels)
    tensor = TensorTraits(study.x.dtype, finite=not study.facts.nonfinite)
    for note in (*session.mended_since(tensor), *study.notes, *notes_of(state.source)):
        show_note(note)
    return study


@contextlib.contextmanager
def _working(state: LabState) -> Iterator[None]:
    """Show the name of the work, where that takes longer than half a second."""
    work = f"{state.source.key} {state.scheme}"
    if not state.large or st.session_state.get("lab_worked") == work:
        yield
        return
    from quantviz.streaming import readiness

    scheme = state.scheme.on_input(stored_of(state.source).dtype)
    shape = state.source.shape
    compiles = not scheme.problems(shape) and readiness.compiles(scheme, shape, by_axis=True)
    words = say("lab.compiling" if compiles else "lab.reading")
    with st.container(key="working"), st.spinner(words, show_time=True):
        yield
    st.session_state["lab_worked"] = work


def _remember_facts(study: Study, why: Any) -> None:
    """Remember the start of a range set by hand: the tensor's ends, the block's scale and zero point."""
    lo = study.facts.lo
    ends = {"lo": lo, "hi": study.facts.hi if study.facts.hi > lo else lo + 1.0}
    block = {"scale": abs(why.scale) or 1.0, "zero_point": round(why.zero_point)}
    st.session_state[session.FACTS] = ends | block


def show_below(study: Study, state: LabState, areas: Areas) -> None:
    """Show the contents of *Share* and *More*; below the fold the worst cells, histograms and scales."""
    if areas.share is not None:
        with areas.share:
            show_share(study, state, PANELS_KEY, lambda: whole_panels(study, state))
    if areas.more is not None:
        with areas.more:
            _more(state)
    if has_hand(study, state, areas.stage):
        show_answers(study, state)
    if visible("below"):
        show_worst(study, state)
        below_the_fold.show_histograms(study, state)
        below_the_fold.show_scales(study, state)
        below_the_fold.show_metrics(study, state)
        st.caption(say("lab.purpose"))
        if state.large:
            st.caption(say(f"lab.paths.{_way(study)}", count=study.x.count))


def _way(study: Study) -> str:
    """Return the path by which a large tensor was measured, or the reason why not by compiled code."""
    from quantviz.streaming.readiness import why_not_compiled

    path = study.measured.path
    return why_not_compiled(study.scheme, study.shape) if path == "chunked" else path


def _more(state: LabState) -> None:
    """Show the controls that are rarely needed."""
    if visible("actions"):
        show_button(say("lab.reset"), "reset", session.reset, help=say("lab.reset_help"))
    if visible("x") or visible("x_hat"):
        show_value_choices(state)
    if visible("error"):
        show_error_choices(state)
    # For users of the keyboard, who cannot reach the text of a help.
    st.caption(learn(*(term for control in _HELPED for term in terms_of(control))))


def show_link() -> None:
    """Write the address bar, have the browser keep the place, and list the parts that a link cannot carry."""
    problem = session.write_address()
    if problem:
        st.info(say_error(problem))
    elif not (classroom().projector or embedded()):
        keep_place("lab", tensor_name(session.state()), st.query_params.to_dict())
