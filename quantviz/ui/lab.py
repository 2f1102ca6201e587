"""The Lab page, from top to bottom: controls, tiles, panels, cell, and what is below the fold.

The controls and the frame are painted before anything heavy is imported; then the panels, which a
change is waited for; then the rest.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.link import ERROR_RANGES, ERROR_VIEWS, SCOPES, LabState
from quantviz.parts import PANEL_PARTS
from quantviz.scenarios import SCENARIOS, scenario_of
from quantviz.ui import below, compare, session
from quantviz.ui.bridge import bridge_width, clicked_cell
from quantviz.ui.cell import select, show_cell_inputs, show_number_line, show_sentence, show_steps
from quantviz.ui.clipboard import copy_button
from quantviz.ui.data import result_of, source_key, upload_notes
from quantviz.ui.picture import show_panels
from quantviz.ui.room import classroom, visible
from quantviz.ui.sidebar import show_sidebar
from quantviz.ui.start import warm_up
from quantviz.ui.strip import show_strip
from quantviz.ui.tiles import show_tiles
from quantviz.ui.words import number, plain, say, say_error, say_note

if TYPE_CHECKING:
    from quantviz.quantizer import QuantResult

#: The panels' height before they are drawn.
_PANELS_HEIGHT = 270
_PANELS, _BRIDGE = "panels", "panels_bridge"
#: Views with ends of their own: 100 %, half a step.
_FIXED_ENDS = MappingProxyType({"relative": 1.0, "steps": 0.5})


@dataclass(frozen=True, eq=False)
class Areas:
    """Where the parts go that are filled after the frame was painted."""

    tiles: Any
    #: The bridge stands before the panels: on a phone it shows the switch between them.
    bridge: Any
    panels: Any
    #: Between the panels, whose cells it frames, and the cell, which it chooses.
    compare: Any
    cell: Any
    #: Opened by a button in the header, filled last; none where there is no such button.
    recipes: Any


def show_controls(state: LabState) -> Areas:
    """Title, strip, sidebar and the empty frame: all of it without torch."""
    recipes = _header(state) if not classroom().projector else None
    for problem in session.named():
        st.warning(say_error(problem))
    show_sidebar(state)
    if visible("scheme"):
        show_strip(state)
    tiles = st.container(key="tiles", horizontal=True, gap="small")
    bridge = st.container(key="bridge")
    panels = st.container(key=_PANELS)
    comparison = st.container(key="compare")
    cell = st.container(key="cell")
    if "lab_painted" not in st.session_state:
        panels = panels.skeleton(height=_PANELS_HEIGHT)
        st.session_state["lab_painted"] = True
    warm_up()
    return Areas(tiles, bridge, panels, comparison, cell, recipes)


def _header(state: LabState) -> Any:
    with st.container(key="header", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{say('lab.title')}** &nbsp; {plain(_hint(state))}", width="stretch")
        with st.container(key="actions", horizontal=True, gap="small", width="content", wrap=False, vertical_alignment="center"):
            recipes = _recipes_button(state) if visible("recipes") else None
            compare.show_button(state)
            if visible("actions"):
                _baseline_button(state)
                copy_button("copy_link", say("lab.copy_link"), say("lab.copied"), explanation=say("lab.copy_link_help"))
                st.button(say("lab.undo"), key="undo", on_click=session.safely(session.undo), disabled=not session.can_undo(), help=say("lab.undo_help"))
                st.button(say("lab.reset"), key="reset", on_click=session.safely(session.reset), help=say("lab.reset_help"))
    return recipes


def _recipes_button(state: LabState) -> Any:
    # Some thirty quantizations: of a large tensor they are made when they are asked for.
    large = math.prod(state.source.shape) > below.MOST_UNASKED
    return st.popover(say("recipes.question"), key="recipes", help=say("recipes.question_help"), on_change="rerun" if large else "ignore")


def _hint(state: LabState) -> str:
    """What to look for; once the scheme was changed, it is told as what there was at the start.

    Where a teacher has left something out, they are the one to say.
    """
    if classroom().hidden or classroom().locked:
        return ""
    name = scenario_of(state.source)
    if name is None:
        return say("lab.hint")
    look = say(f"scenarios.{name}.look")
    return look if state.scheme == SCENARIOS[name].scheme else say("lab.at_the_start", look=look)


def _baseline_button(state: LabState) -> None:
    if state.baseline is None:
        st.button(
            say("lab.set_baseline"), key="set_baseline", on_click=session.safely(session.baseline), args=(state.scheme,), help=say("lab.set_baseline_help")
        )
    else:
        st.button(
            say("lab.drop_baseline"),
            key="drop_baseline",
            on_click=session.safely(session.baseline),
            args=(None,),
            help=say("lab.drop_baseline_help", scheme=plain(state.baseline)),
        )


def show_result(state: LabState, areas: Areas) -> QuantResult:
    """Tiles, panels and cell of the state's tensor under its scheme."""
    from quantviz.explanation import explain

    try:
        r = result_of(state)
    except QuantVizError as error:
        session.refuse(error)
        st.rerun()
    session.accept()
    why = explain(r, state.cell)
    _remember_facts(r, why)
    end = error_end(r, state) if visible("error") else None
    with areas.tiles:
        show_tiles(r, state)
    compared = compare.comparing(state)
    _panels(r, state, end, areas, compared)
    if compared:
        with areas.compare:
            compare.show_comparison(compared, state)
    with areas.cell:
        _cell(r, why, state, end)
    for note in (*r.notes, *upload_notes(state.source)):
        st.info(say_note(note))
    return r


def _remember_facts(r: QuantResult, why: Any) -> None:
    """What a range set by hand starts from: the whole tensor's ends, the selected block's scale and zero point."""
    lo, hi = float(r.x.min()), float(r.x.max())
    st.session_state["lab_facts"] = {"lo": lo, "hi": hi if hi > lo else lo + 1.0, "scale": abs(why.scale) or 1.0, "zero_point": round(why.zero_point)}


def _panels(r: QuantResult, state: LabState, end: float | None, areas: Areas, compared: compare.Shown | None) -> None:
    from quantviz.figures.panels import result_panels

    data = result_panels(r, view=state.view, error_view=state.error_view, error_range=end).only([name for name in PANEL_PARTS if visible(name)])
    if not visible("error"):
        # Why a cell errs is not told either.
        data = dataclasses.replace(data, cause=None)
    show_panels(
        compare.lighted(data, compared, state.view),
        key=_PANELS,
        bridge_area=areas.bridge,
        area=areas.panels,
        tensor_key=f"{source_key(state.source)} {state.view}",
        selected=state.view.seen(state.cell, state.source.shape),
        on_cell=_clicked,
    )


def _clicked() -> None:
    cell = clicked_cell(_BRIDGE)
    if cell:
        select(*cell)


def error_end(r: QuantResult, state: LabState) -> float | None:
    """The end of the error's colours; none to fit them to this error."""
    if state.error_view in _FIXED_ENDS:
        return _FIXED_ENDS[state.error_view]
    if state.error_range == "fit":
        return None
    if state.error_range == "half_step":
        return _half_step(r)
    if state.error_range == "same_as_x":
        return float(r.x.abs().max()) or 1.0
    if state.held is None:
        largest = float(r.error.abs().max()) or _half_step(r)
        session.remember_held(float(f"{largest:.3g}"))
    return session.state().held


def _half_step(r: QuantResult) -> float:
    """Half of the largest step there is; 1 where no block has one, as with scales of 0."""
    steps = r.step_of_cells()
    return float(steps[(steps > 0) & steps.isfinite()].max()) / 2 if bool(((steps > 0) & steps.isfinite()).any()) else 1.0


def _cell(r: QuantResult, why: Any, state: LabState, end: float | None) -> None:
    right = st.container()
    if not classroom().projector:
        left, right = st.columns([1, 5], gap="small")
        with left:
            show_cell_inputs(state)
            if visible("error"):
                _error_choices(state, end)
    with right:
        if visible("sentence"):
            show_sentence(why)
        if visible("number_line"):
            show_number_line(r, why, bridge_width(_BRIDGE))
    if visible("steps"):
        show_steps(why)


def _error_choices(state: LabState, end: float | None) -> None:
    """What the error panel shows, how far its colours reach, and what the tiles count."""
    reach = say("error.reach_fixed" if state.error_view in _FIXED_ENDS else f"error.reach_{state.error_range}")
    shown = say("error.fitted") if end is None else f"±{number(end, 3)}"
    with st.popover(f"{say('error.label')}: {shown}, {reach}", key="error_choices", width="stretch"):
        st.radio(
            say("error.view"),
            ERROR_VIEWS,
            key=session.show("error_view", state.error_view),
            on_change=session.safely(lambda: session.change(error_view=st.session_state["error_view"])),
            format_func=lambda name: say(f"error.views.{name}"),
        )
        st.radio(
            say("error.range"),
            ERROR_RANGES,
            key=session.show("error_range", state.error_range),
            on_change=session.safely(lambda: session.change(error_range=st.session_state["error_range"])),
            disabled=state.error_view in _FIXED_ENDS,
            help=say("error.range_fixed") if state.error_view in _FIXED_ENDS else None,
            format_func=lambda name: say(f"error.ranges.{name}"),
        )
        if state.sliced:
            st.radio(
                say("error.scope"),
                SCOPES,
                key=session.show("scope", state.scope),
                on_change=session.safely(lambda: session.change(scope=st.session_state["scope"])),
                format_func=lambda name: say(f"error.scopes.{name}"),
            )


def show_below(r: QuantResult, state: LabState, areas: Areas) -> None:
    """Which scheme to use; below the fold histograms, scales and exports."""
    if areas.recipes is not None and areas.recipes.open is not False:
        with areas.recipes:
            below.show_recipes(state, r)
    if visible("below"):
        below.show_histograms(r, state)
        below.show_scales(r, state)
        below.show_exports(r, state)
        st.caption(say("lab.purpose"))


def show_link() -> None:
    """The address bar, and what a link cannot carry."""
    problem = session.write_address()
    if problem:
        st.info(say_error(problem))
