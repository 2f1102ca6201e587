"""The Lab's panels: their data, the spread of their colours, and the effect of a click."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import streamlit as st

from quantviz.export.files import picture_name, scope_of
from quantviz.figures.arrangement import USUAL_WIDTH, arrange, pixels_for
from quantviz.lab.picture_parts import PANEL_PARTS
from quantviz.lab.state import LabState
from quantviz.live.cells import Picture
from quantviz.tensors.views import ERROR_RANGES, ERROR_VIEWS, POOLS, SCOPES, VALUE_SCALES
from quantviz.ui.components.cell import select
from quantviz.ui.components.controls import choose_field
from quantviz.ui.components.panels_bridge import (
    PanelsPlace,
    bridge_width,
    clicked_cell,
    page_style,
    show_panels,
    zoomed_window,
)
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.components.tensor_cache import loudness_of
from quantviz.ui.lab.compare import compared_engines
from quantviz.ui.lab.numbers.tiles import measured
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import classroom, enlarge, visible
from quantviz.ui.shell.words import language, number, say, shape_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from quantviz.analysis.study import Study
    from quantviz.figures.panels_data import PanelsData


PANELS_KEY = "panels"
BRIDGE_KEY = "panels_bridge"
#: Pixels of the panels' height above a projected ruler, before they are enlarged.
_ABOVE_RULER = 226


def show_tensor_panels(
    study: Study,
    state: LabState,
    end: float | None,
    bridge: Any,
    panels: Any,
    lit: Any,
) -> PanelsData:
    """Show the bridge and the panels, cells framed that are `lit` in view; return their data."""
    data = panels_of(study, state, end, bridge_width(BRIDGE_KEY)).only(
        [name for name in PANEL_PARTS if visible(name)]
    )
    if _has_fixed_end(state):
        data = dataclasses.replace(data, error_held=False)
    elif state.error_range != "held":
        data = dataclasses.replace(data, error_held=False, error_follows=state.error_range)
    if not visible("error"):
        # The cause of a cell's error is hidden too.
        data = dataclasses.replace(data, cause=None)
    show_panels(
        compared_engines.lighted(data, lit),
        linked_place(PANELS_KEY, bridge, panels),
        dataclasses.replace(page_style(BRIDGE_KEY), height=_height_on_wall()),
        tensor_key=tensor_key(state),
        selected=state.view.place(state.cell),
        picture=_picture(study, state),
    )
    return data


def height_to_come(state: LabState) -> int:
    """Return the height in pixels of the panels whose data is still to come."""
    width, panels = bridge_width(BRIDGE_KEY), sum(map(visible, PANEL_PARTS))
    usual = arrange(width / enlarge(width), state.view.matrix(state.source.shape), panels=max(panels, 1))
    return round(_height_on_wall() or usual.height * enlarge(width))


def _height_on_wall() -> float | None:
    """Return the panels' height in pixels on a projector that also shows the ruler; None elsewhere."""
    if not classroom().projector or not visible("number_line"):
        return None
    return _ABOVE_RULER * enlarge(bridge_width(BRIDGE_KEY))


def tensor_key(state: LabState) -> str:
    """Return the key of a zoom: it changes with the tensor, or with the two axes in view."""
    whole_view = dataclasses.replace(state.view, top=0, left=0, height=None, width=None)
    return f"{state.source.unedited.key} {whole_view}"


def _picture(study: Study, state: LabState) -> Picture:
    """Return name and captions of a saved picture: the tensor, and the visible ones of scheme and SQNR."""
    sqnr = measured(study, state).metrics["sqnr_db"] if visible("tiles.sqnr") else None
    scheme = state.scheme if visible("scheme") else None
    captions = [] if scheme is None else [scheme_words(scheme, state.source)]
    captions += [] if sqnr is None else [say("lab.picture_sqnr", sqnr=number(sqnr, 3))]
    title = f"{state.source.title(language())} · {shape_text(study.shape)}"
    if state.sliced:
        title += f" [{state.view.index_text(study.shape)}]"
    return Picture(picture_name(state.source, scheme, sqnr), title, " · ".join(captions))


def whole_panels(study: Study, state: LabState) -> PanelsData:
    """Return the panels of the whole matrix, of which a window is seen."""
    whole = state.replace(view=dataclasses.replace(state.view, top=0, left=0, height=None, width=None))
    end = error_end(study, state) if visible("error") else None
    return panels_of(study, whole, end, USUAL_WIDTH).only([name for name in PANEL_PARTS if visible(name)])


def panels_of(study: Study, state: LabState, end: float | None, width: float) -> PanelsData:
    """Return the data of the panels: the cells in view, or a pixel for many where there is no room."""
    from quantviz.figures.panels_data import as_picture, with_value_scale

    data = _linear_panels(study, state, end, width)
    if state.source.picture:
        data = as_picture(data, symmetric=state.scheme.mode == "symmetric")
    return data if state.value_scale == "linear" else with_value_scale(data, state.value_scale, study.spread)


def _linear_panels(study: Study, state: LabState, end: float | None, width: float) -> PanelsData:
    from quantviz.figures.panels_data import overview_panels, result_panels
    from quantviz.streaming.frames import Patch

    view = state.view
    shape = study.shape
    matrix = view.matrix(shape)
    seen = view.size(shape)
    ends = (study.facts.lo, study.facts.hi)
    pixels = pixels_for(width, matrix, seen)
    error_view = error_view_of(state, pooled=pixels != seen)
    loudness = _loudness_in_view(state) if error_view == "seen" else None
    if pixels == seen:
        return result_panels(
            study.result or study.part(view.index_of(shape)),
            view=view,
            error_view=error_view,
            error_range=end,
            whole=None if study.result else shape,
            value_range=ends,
            quiet=None if loudness is None else _quiet_cells(*loudness, seen),
        )
    pooled = study.overview(Patch(view.top, view.left, *seen), pixels, state.pool, view, loudness)
    return overview_panels(
        pooled, scheme=state.scheme, matrix=matrix, value_range=ends, error_view=error_view, error_range=end
    )


def error_view_of(state: LabState, *, pooled: bool) -> str:
    """Return how the error is shown: weighted by its inputs only where these are known, and of a pixel that
    stands for many cells only in a way that it has.
    """
    view = state.error_view
    possible = not pooled or ERROR_VIEWS[view].pooled
    if view == "seen":
        possible = loudness_of(state.source) is not None and (not pooled or state.pool == "largest")
    return view if possible else "signed"


def _loudness_in_view(state: LabState) -> tuple[npt.NDArray[np.float32], int]:
    """Return the root mean square of the inputs of each line of cells in view, float32, and which lines these
    are: 0 for rows, 1 for columns.
    """
    view = state.view
    rows, cols = view.size(state.source.shape)
    across = view.cols == 1
    first, count = (view.left, cols) if across else (view.top, rows)
    loudness = cast("npt.NDArray[np.float32]", loudness_of(state.source))
    return loudness[first : first + count], int(across)


def _quiet_cells(
    loudness: npt.NDArray[np.float32], axis: int, seen: tuple[int, int]
) -> npt.NDArray[np.float32]:
    """Return 1 over the root mean square of the inputs of each cell in view, float32. An input channel that
    is always 0 makes no error: its cells are infinitely quiet.
    """
    with np.errstate(divide="ignore"):
        quiet = 1 / loudness
    return np.ascontiguousarray(np.broadcast_to(quiet if axis else quiet[:, None], seen))


def linked_place(key: str, bridge: Any, panels: Any, group: str | None = None) -> PanelsPlace:
    """Return a place for panels of the Lab's tensor: a click in them selects a cell, and a zoom changes the
    window of all panels.
    """

    def clicked(_: object) -> None:
        now = session.state()
        cell = clicked_cell(place.bridge, now.view.matrix(now.source.shape))
        if cell:
            select(*cell)

    def zoomed(_: object) -> None:
        now = session.state()
        window = zoomed_window(place.bridge)
        if window:
            session.look(now.view.window(*window, now.source.shape))

    place = PanelsPlace(key, bridge, panels, clicked, zoomed, group=group)
    return place


def error_end(study: Study, state: LabState) -> float | None:
    """Return the end of the error's colours; none to fit them to this error."""
    if _has_fixed_end(state):
        return ERROR_VIEWS[error_view_of(state, pooled=is_pooled(state))].end
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
    """Return whether the error's colours have an end of their own."""
    if ERROR_VIEWS[state.error_view].pooled:
        return False
    return not ERROR_VIEWS[error_view_of(state, pooled=is_pooled(state))].pooled


def is_pooled(state: LabState) -> bool:
    """Return whether a pixel of the picture stands for many cells."""
    seen = state.view.size(state.source.shape)
    return pixels_for(bridge_width(BRIDGE_KEY), state.view.matrix(state.source.shape), seen) != seen


def show_value_choices(state: LabState) -> None:
    """Show the choice of how the colours of x and x̂ are spread."""
    names = {name: f"{say(f'values.{name}')}\n{say(f'values.{name}_help')}" for name in VALUE_SCALES}
    _ask("value_scale", say("values.question"), names)


def _ask(field: str, question: str, names: Mapping[str, str], **more: Any) -> None:
    """Show a field of the state as a question with its answers below each other."""
    choose_field(session.OWNER, field, "row", question, names, key=field, look="qv-below", **more)


def show_error_choices(state: LabState) -> None:
    """Show the choices of the error panel's quantity, the reach of its colours, and the scope of numbers."""
    known = loudness_of(state.source) is not None
    offered = [name for name in ERROR_VIEWS if name != "seen" or known or state.error_view == name]
    _ask("error_view", say("error.view"), {name: say(f"error.views.{name}") for name in offered})
    if state.error_view == "seen" and not known:
        st.caption(say("error.seen_unknown"))
    elif error_view_of(state, pooled=is_pooled(state)) != state.error_view:
        st.caption(say("error.of_one_cell"))
    elif state.error_view == "seen":
        st.caption(say("error.seen"))
    fixed = _has_fixed_end(state)
    about = say("error.range_fixed") if fixed else ""
    names = {name: say(f"error.ranges.{name}") for name in ERROR_RANGES}
    _ask("error_range", say("error.range"), names, disabled=fixed, help=about)
    if state.sliced:
        _ask("scope", say("error.scope"), {name: say(f"error.scopes.{name}") for name in SCOPES})
        if state.scope != scope_of(state):
            st.caption(say("error.scope_too_large"))
    if is_pooled(state):
        names = {name: f"{say(f'places.pools.{name}')}\n{say(f'places.pools.{name}_help')}" for name in POOLS}
        _ask("pool", say("places.pool"), names)
