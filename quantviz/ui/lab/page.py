"""The Lab page, from top to bottom: controls, tiles, panels, cell, and what is below the fold.

The controls and the frame are painted before anything heavy is imported; then the panels, which a
change is waited for; then the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.picture_parts import PANEL_PARTS
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import LabState
from quantviz.ui.components.cell import show_cell_inputs, show_cell_ruler, show_sentence, show_steps
from quantviz.ui.components.clipboard import copy_button
from quantviz.ui.components.lesson_place import go
from quantviz.ui.components.panels_bridge import bridge_width
from quantviz.ui.lab import below_the_fold, compared_engines, engine_comparison
from quantviz.ui.lab.navigation import has_places, show_places, show_worst
from quantviz.ui.lab.nonfinite import show_choice
from quantviz.ui.lab.scheme_bar import show_strip
from quantviz.ui.lab.sidebar import show_sidebar
from quantviz.ui.lab.tensor import notes_of, study_of
from quantviz.ui.lab.tensor_panels import (
    _PANELS_HEIGHT,
    BRIDGE_KEY,
    PANELS_KEY,
    Areas,
    error_end,
    is_pooled,
    show_error_choices,
    show_tensor_panels,
    show_value_choices,
    whole_panels,
)
from quantviz.ui.lab.tiles import show_tiles, tiles
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import classroom, visible
from quantviz.ui.shell.startup import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, plain, say, say_error, say_note

if TYPE_CHECKING:
    from quantviz.analysis.study import Study


def show_controls(state: LabState) -> Areas:
    """Title, strip, sidebar and the empty frame: all of it without torch."""
    name_tab(say("pages.lab"), _tab_name(state))
    recipes = _header(state) if not classroom().projector else None
    for problem in session.named():
        st.warning(say_error(problem))
    if session.named():
        show_choice("page")
    show_sidebar(state)
    if visible("scheme"):
        show_strip(state)
    tiles = st.container(key="tiles", horizontal=True, gap="small")
    bridge = st.container(key="bridge")
    panels = st.container(key=PANELS_KEY)
    comparison = st.container(key="compare")
    cell = st.container(key="cell")
    if "lab_painted" not in st.session_state:
        panels = panels.skeleton(height=_PANELS_HEIGHT)
        st.session_state["lab_painted"] = True
    warm_up()
    return Areas(tiles, bridge, panels, comparison, cell, recipes)


def _tab_name(state: LabState) -> str:
    name = session.scenario()
    return say(f"scenarios.{name}.name") if name else state.source.title(language())


def _header(state: LabState) -> Any:
    with st.container(key="header", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"# {say('lab.title')}\n\n{plain(_hint(state))}", width="stretch")
        with st.container(
            key="actions",
            horizontal=True,
            gap="small",
            width="content",
            wrap=False,
            vertical_alignment="center",
        ):
            way_back = session.way_back()
            if way_back:
                _back_to_the_lesson(way_back)
            recipes = _recipes_button() if visible("recipes") else None
            engine_comparison.show_button(state)
            if visible("actions"):
                _baseline_button(state)
                copy_button(
                    "copy_link",
                    say("lab.copy_link"),
                    say("lab.copied"),
                    explanation=say("lab.copy_link_help"),
                )
                _history_buttons()
                st.button(
                    say("lab.reset"),
                    key="reset",
                    on_click=session.safely(session.reset),
                    help=say("lab.reset_help"),
                )
    return recipes


def _history_buttons() -> None:
    """Undo and redo, by an icon each; the bridge presses them for Ctrl+Z and Ctrl+Shift+Z."""
    for name, act, possible in (
        ("undo", session.undo, session.can_undo()),
        ("redo", session.redo, session.can_redo()),
    ):
        st.button(
            say(f"lab.{name}"),
            key=name,
            icon=f":material/{name}:",
            on_click=session.safely(act),
            disabled=not possible,
            help=say(f"lab.{name}_help"),
        )


def _recipes_button() -> Any:
    # Some thirty quantizations, a table and a plot: made when they are asked for.
    return st.popover(
        say("recipes.question"), key="recipes", help=say("recipes.question_help"), on_change="rerun"
    )


def _hint(state: LabState) -> str:
    """Return what to look for; once the scheme was changed, it is told as what there was at the start.

    Where a teacher has left something out, they are the one to say; where a lesson's step was opened, it has
    said it.
    """
    if classroom().hidden or classroom().locked:
        return ""
    origin = session.origin()
    if origin:
        return say("lab.from_lesson", step=origin.step + 1, lesson=_lesson_title(origin.lesson))
    name = session.scenario()
    if name is None:
        return say("lab.hint")
    look = say(f"scenarios.{name}.look")
    return look if state.scheme == SCENARIOS[name].scheme else say("lab.at_the_start", look=look)


def _lesson_title(name: str) -> str:
    from quantviz.teaching.lessons import lessons
    from quantviz.teaching.lessons.model import Lesson

    found = lessons(language()).get(name)
    return found.title if isinstance(found, Lesson) else name


def _back_to_the_lesson(origin: session.Origin) -> None:
    if st.button(
        say("lab.back_to_lesson"),
        key="back_to_lesson",
        type="primary",
        help=say("lab.back_to_lesson_help", step=origin.step + 1),
    ):
        go(origin.lesson, origin.step)
        st.switch_page("pages/learn/lessons.py")


def _baseline_button(state: LabState) -> None:
    if state.baseline is None:
        st.button(
            say("lab.set_baseline"),
            key="set_baseline",
            on_click=session.safely(session.baseline),
            args=(state.scheme,),
            help=say("lab.set_baseline_help"),
        )
    else:
        st.button(
            say("lab.drop_baseline"),
            key="drop_baseline",
            on_click=session.safely(session.baseline),
            args=(None,),
            help=say("lab.drop_baseline_help", scheme=plain(state.baseline)),
        )


def show_result(state: LabState, areas: Areas) -> Study:
    """Show tiles, panels and cell of the state's tensor under its scheme."""
    try:
        with _working(state):
            study = study_of(state)
            why = study.explain(state.cell)
            # An engine's own infinities are found where all of the tensor is looked at.
            tiled = tiles(study, state)
    except QuantVizError as error:
        session.refuse(error)
        st.rerun()
    session.accept()
    _remember_facts(study, why)
    end = error_end(study, state) if visible("error") else None
    with areas.tiles:
        show_tiles(tiled, state)
    compared = compared_engines.comparing(state)
    show_tensor_panels(study, state, end, areas, compared)
    if compared:
        with areas.compare:
            engine_comparison.show_comparison(compared, state, pooled=is_pooled(state))
    with areas.cell:
        _cell(study, why, state, end)
    for note in (*study.notes, *notes_of(state.source)):
        st.info(say_note(note))
    return study


@contextlib.contextmanager
def _working(state: LabState) -> Iterator[None]:
    """Say what is waited for, where that takes longer than half a second."""
    work = f"{state.source.key} {state.scheme}"
    if not state.large or st.session_state.get("lab_worked") == work:
        yield
        return
    from quantviz.streaming import readiness

    compiles = not state.scheme.problems(state.source.shape) and readiness.compiles(
        state.scheme, state.source.shape, by_axis=True
    )
    with (
        st.container(key="working"),
        st.spinner(say("lab.compiling" if compiles else "lab.reading"), show_time=True),
    ):
        yield
    st.session_state["lab_worked"] = work


def _remember_facts(study: Study, why: Any) -> None:
    """Remember what a range set by hand starts from: the whole tensor's ends, the selected block's scale and
    zero point.
    """
    lo, hi = study.facts.lo, study.facts.hi
    st.session_state["lab_facts"] = {
        "lo": lo,
        "hi": hi if hi > lo else lo + 1.0,
        "scale": abs(why.scale) or 1.0,
        "zero_point": round(why.zero_point),
    }


def _cell(study: Study, why: Any, state: LabState, end: float | None) -> None:
    right = st.container()
    if not classroom().projector:
        left, right, *last = st.columns([1, 4, 1] if has_places(state) else [1, 5], gap="small")
        with left:
            show_cell_inputs(state)
            if visible("x") or visible("x_hat"):
                show_value_choices(state)
            if visible("error"):
                show_error_choices(state, end)
        for places in last:
            with places:
                show_places(study, state)
    with right:
        if visible("sentence"):
            show_sentence(why, state.source)
        if visible("number_line"):
            hidden = not all(map(visible, PANEL_PARTS))
            show_cell_ruler(why, study, key="ruler", alone=hidden, width=bridge_width(BRIDGE_KEY))
    if visible("steps"):
        show_steps(why)


def show_below(study: Study, state: LabState, areas: Areas) -> None:
    """Show which scheme to use; below the fold the worst cells, histograms, scales and exports."""
    if areas.recipes is not None and areas.recipes.open:
        with areas.recipes:
            below_the_fold.show_recipes(state, study)
    if visible("below"):
        show_worst(study, state)
        below_the_fold.show_histograms(study, state)
        below_the_fold.show_scales(study, state)
        below_the_fold.show_metrics(study, state)
        below_the_fold.show_exports(study, state, PANELS_KEY, lambda: whole_panels(study, state))
        st.caption(say("lab.purpose"))
        if state.large:
            st.caption(say(f"lab.paths.{study.measured.path}", count=study.x.count))


def show_link() -> None:
    """Write the address bar, and say what a link cannot carry."""
    problem = session.write_address()
    if problem:
        st.info(say_error(problem))
