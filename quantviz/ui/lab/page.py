"""The Lab page, from top to bottom: controls, tiles, panels, cell, and what is below the fold.

The controls and the frame are painted before anything heavy is imported; then the panels, which a
change is waited for; then the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.export.files import scope_of
from quantviz.figures.arrangement import USUAL_WIDTH
from quantviz.lab.picture_parts import PANEL_PARTS
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.state import LabState
from quantviz.tensors.views import ERROR_RANGES, ERROR_VIEWS, SCOPES, VALUE_SCALES
from quantviz.ui.components.cell import select, show_cell_inputs, show_number_line, show_sentence, show_steps
from quantviz.ui.components.choice import choose
from quantviz.ui.components.clipboard import copy_button
from quantviz.ui.components.lesson_place import go
from quantviz.ui.components.panels import show_panels
from quantviz.ui.components.panels_bridge import Picture, bridge_width, clicked_cell, zoomed_window
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.lab import below_the_fold, compared_engines, engine_comparison
from quantviz.ui.lab.navigation import has_places, show_places, show_pool, show_worst
from quantviz.ui.lab.nonfinite import show_choice
from quantviz.ui.lab.scheme_bar import show_strip
from quantviz.ui.lab.sidebar import show_sidebar
from quantviz.ui.lab.tensor import notes_of, study_of
from quantviz.ui.lab.tiles import measured, show_tiles, tiles
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import classroom, visible
from quantviz.ui.shell.startup import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, number, plain, say, say_error, say_note, shape_text

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.figures.panels_data import PanelsData

#: The panels' height before they are drawn.
_PANELS_HEIGHT = 270
_PANELS, _BRIDGE = "panels", "panels_bridge"


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
    panels = st.container(key=_PANELS)
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
    _panels(study, state, end, areas, compared)
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


def _panels(
    study: Study, state: LabState, end: float | None, areas: Areas, compared: compared_engines.Shown | None
) -> None:
    data = panels_of(study, state, end, bridge_width(_BRIDGE)).only(
        [name for name in PANEL_PARTS if visible(name)]
    )
    if _has_fixed_end(state) or state.error_range != "held":
        data = dataclasses.replace(data, error_held=False)
    if not visible("error"):
        # Why a cell errs is not told either.
        data = dataclasses.replace(data, cause=None)
    whole_view = dataclasses.replace(state.view, top=0, left=0, height=None, width=None)
    show_panels(
        compared_engines.lighted(data, compared, state.view),
        key=_PANELS,
        bridge_area=areas.bridge,
        area=areas.panels,
        tensor_key=f"{state.source.key} {whole_view}",
        selected=state.view.place(state.cell),
        on_cell=_clicked,
        on_window=_zoomed,
        picture=_picture(study, state),
    )


def _picture(study: Study, state: LabState) -> Picture:
    """Return what a saved picture tells: the tensor, and its scheme and SQNR as far as they are to be
    seen.
    """
    from quantviz.export.files import picture_name

    sqnr = measured(study, state).metrics["sqnr_db"] if visible("tiles.sqnr") else None
    scheme = state.scheme if visible("scheme") else None
    told = [] if scheme is None else [scheme_words(scheme, state.source)]
    told += [] if sqnr is None else [say("lab.picture_sqnr", sqnr=number(sqnr, 3))]
    title = f"{state.source.title(language())} · {shape_text(study.shape)}"
    if state.sliced:
        title += f" [{state.view.index_text(study.shape)}]"
    return Picture(picture_name(state.source, scheme, sqnr), title, " · ".join(told))


def _whole_panels(study: Study, state: LabState) -> PanelsData:
    """Return the panels of the whole matrix, of which a window is seen."""
    whole = state.replace(view=dataclasses.replace(state.view, top=0, left=0, height=None, width=None))
    end = error_end(study, state) if visible("error") else None
    return panels_of(study, whole, end, USUAL_WIDTH).only([name for name in PANEL_PARTS if visible(name)])


def panels_of(study: Study, state: LabState, end: float | None, width: float) -> PanelsData:
    """Return what the panels show: the cells in view, or, where they are more than the screen has room for, a
    pixel for many.
    """
    from quantviz.figures.panels_data import with_value_scale

    data = _linear_panels(study, state, end, width)
    return (
        data
        if state.value_scale == VALUE_SCALES[0]
        else with_value_scale(data, state.value_scale, study.spread)
    )


def _linear_panels(study: Study, state: LabState, end: float | None, width: float) -> PanelsData:
    from quantviz.figures.arrangement import pixels_for
    from quantviz.figures.panels_data import result_panels
    from quantviz.figures.pooled_panels import POOLED_ERROR_VIEWS, overview_panels
    from quantviz.streaming.frames import Patch

    view, shape = state.view, study.shape
    matrix, seen = view.matrix(shape), view.size(shape)
    ends = (study.facts.lo, study.facts.hi)
    pixels = pixels_for(width, matrix, seen)
    if pixels == seen and study.result is not None:
        return result_panels(
            study.result, view=view, error_view=state.error_view, error_range=end, value_range=ends
        )
    if pixels == seen:
        r = study.part(view.index_of(shape))
        return result_panels(
            r, view=view, error_view=state.error_view, error_range=end, whole=shape, value_range=ends
        )
    pooled = study.overview(Patch(view.top, view.left, *seen), pixels, state.pool, view)
    error_view = state.error_view if state.error_view in POOLED_ERROR_VIEWS else POOLED_ERROR_VIEWS[0]
    return overview_panels(
        pooled, scheme=state.scheme, matrix=matrix, value_range=ends, error_view=error_view, error_range=end
    )


def _clicked() -> None:
    cell = clicked_cell(_BRIDGE)
    if cell:
        select(*cell)


def _zoomed() -> None:
    window = zoomed_window(_BRIDGE)
    if window:
        now = session.state()
        session.look(now.view.window(*window, now.source.shape))


def error_end(study: Study, state: LabState) -> float | None:
    """Return the end of the error's colours; none to fit them to this error."""
    if _has_fixed_end(state):
        return ERROR_VIEWS[state.error_view].end
    if state.error_range == "fit":
        return None
    if state.error_range == "half_step":
        return (study.largest_step or 2.0) / 2
    if state.error_range == "same_as_x":
        return study.absmax or 1.0
    if state.held is None:
        largest = study.measured.metrics["max_abs_error"] or (study.largest_step or 2.0) / 2
        session.remember_held(float(f"{largest:.3g}"))
    return session.state().held


def _has_fixed_end(state: LabState) -> bool:
    return ERROR_VIEWS[state.error_view].end is not None and not is_pooled(state)


def is_pooled(state: LabState) -> bool:
    """Return whether a pixel of the picture stands for many cells."""
    from quantviz.figures.arrangement import pixels_for

    shape, view = state.source.shape, state.view
    return pixels_for(bridge_width(_BRIDGE), view.matrix(shape), view.size(shape)) != view.size(shape)


def _cell(study: Study, why: Any, state: LabState, end: float | None) -> None:
    right = st.container()
    if not classroom().projector:
        left, right, *last = st.columns([1, 4, 1] if has_places(state) else [1, 5], gap="small")
        with left:
            show_cell_inputs(state)
            if visible("x") or visible("x_hat"):
                _value_choices(state)
            if visible("error"):
                _error_choices(state, end)
        for places in last:
            with places:
                show_places(study, state)
    with right:
        if visible("sentence"):
            show_sentence(why, state.source)
        if visible("number_line"):
            show_number_line(why, study.qparams, bridge_width(_BRIDGE))
    if visible("steps"):
        show_steps(why)


def _value_choices(state: LabState) -> None:
    """Show the choice of how the colours of x and x̂ are spread."""
    with st.popover(
        say("app.labelled", name=say("values.label"), value=say(f"values.short.{state.value_scale}")),
        key="value_choices",
        width="stretch",
    ):
        choose(
            st.radio,
            say("values.question"),
            VALUE_SCALES,
            key=session.show("value_scale", state.value_scale, folded=True),
            on_change=session.safely(lambda: session.change(value_scale=st.session_state["value_scale"])),
            format_func=lambda name: say(f"values.{name}"),
            captions=[say(f"values.{name}_help") for name in VALUE_SCALES],
        )


def _error_choices(state: LabState, end: float | None) -> None:
    """Show the choice of what the error panel shows, how far its colours reach, and what the tiles count."""
    reach = say("error.reach_fixed" if _has_fixed_end(state) else f"error.reach_{state.error_range}")
    shown = say("error.fitted") if end is None else f"±{number(end, 3)}"
    with st.popover(
        say("app.labelled", name=say("error.label"), value=f"{shown}{say('places.and')}{reach}"),
        key="error_choices",
        width="stretch",
    ):
        choose(
            st.radio,
            say("error.view"),
            tuple(ERROR_VIEWS),
            key=session.show("error_view", state.error_view, folded=True),
            on_change=session.safely(lambda: session.change(error_view=st.session_state["error_view"])),
            format_func=lambda name: say(f"error.views.{name}"),
        )
        if not ERROR_VIEWS[state.error_view].pooled and is_pooled(state):
            st.caption(say("error.of_one_cell"))
        choose(
            st.radio,
            say("error.range"),
            ERROR_RANGES,
            key=session.show("error_range", state.error_range, folded=True),
            on_change=session.safely(lambda: session.change(error_range=st.session_state["error_range"])),
            disabled=_has_fixed_end(state),
            help=say("error.range_fixed") if _has_fixed_end(state) else None,
            format_func=lambda name: say(f"error.ranges.{name}"),
        )
        if state.sliced:
            choose(
                st.radio,
                say("error.scope"),
                SCOPES,
                key=session.show("scope", state.scope, folded=True),
                on_change=session.safely(lambda: session.change(scope=st.session_state["scope"])),
                format_func=lambda name: say(f"error.scopes.{name}"),
            )
            if state.scope != scope_of(state):
                st.caption(say("error.scope_too_large"))
        if is_pooled(state):
            show_pool(state)


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
        below_the_fold.show_exports(study, state, _PANELS, lambda: _whole_panels(study, state))
        st.caption(say("lab.purpose"))
        if state.large:
            st.caption(say(f"lab.paths.{study.measured.path}", count=study.x.count))


def show_link() -> None:
    """Write the address bar, and say what a link cannot carry."""
    problem = session.write_address()
    if problem:
        st.info(say_error(problem))
