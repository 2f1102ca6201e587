"""The Lab's panels: their data, the spread of their colours, the effect of a click, the mini-map,
and jumps to the worst places.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import streamlit as st

from quantviz.export.files import picture_name, scope_of
from quantviz.figures.arrangement import MOST_CELLS, USUAL_WIDTH, arrange, pixels_for
from quantviz.figures.theme import THEMES, one_sided
from quantviz.lab.picture_parts import PANEL_PARTS
from quantviz.lab.state import LabState
from quantviz.live.cells import Picture
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.tensors.views import ERROR_RANGES, ERROR_VIEWS, POOLS, SCOPES, VALUE_SCALES, View
from quantviz.text import templates
from quantviz.ui.components.cell import select
from quantviz.ui.components.component import component
from quantviz.ui.components.controls import choose_among, choose_field, switch
from quantviz.ui.components.panels_bridge import (
    PanelsPlace,
    bridge_width,
    clicked_cell,
    page_style,
    show_panels,
    zoomed_window,
)
from quantviz.ui.components.phone_tables import PERCENT, clicked_line, number_column, numbers_written
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.components.tensor_cache import kept, loudness_of, stored_of, study_of
from quantviz.ui.lab.compare import compared_engines
from quantviz.ui.lab.numbers.tiles import measured
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import classroom, enlarge, visible
from quantviz.ui.shell.words import language, number, say, say_axis, shape_text, theme

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from quantviz.analysis.study import Study
    from quantviz.figures.colour_ranges import Array
    from quantviz.figures.panels_data import PanelsData


#: The picture is at most so many pixels wide and high.
MOST_WIDTH = 120
MOST_HEIGHT = 90
#: And at least so many: a matrix of a few rows would be a line.
_LEAST = 24
_COMPONENT = "quantviz_minimap"
_MINIMAP = "minimap"


def minimap_size(matrix: tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) in pixels of the mini-map of `matrix` (rows, columns), in its shape as far as
    that can be seen.

    >>> minimap_size((4096, 11008)), minimap_size((11008, 4096)), minimap_size((3, 9000))
    ((45, 120), (90, 33), (24, 120))
    """
    rows, cols = matrix
    scale = min(MOST_WIDTH / cols, MOST_HEIGHT / rows)
    return max(round(rows * scale), _LEAST), max(round(cols * scale), _LEAST)


def _show_minimap(values: Array, matrix: tuple[int, int], window: tuple[int, int, int, int]) -> None:
    """Show where `window` (first row, first column, rows, columns) lies in `matrix` (rows, columns).

    `values` are x of the whole matrix in about `minimap_size(matrix)` pixels, each the value of largest
    magnitude.
    """
    height, width = minimap_size(matrix)
    colours = THEMES[theme()]
    data = {
        "chart": "panels",
        "picture": _picture_of_map(values, theme()),
        "width": width,
        "height": height,
        "rows": matrix[0],
        "cols": matrix[1],
        "window": dict(zip(("top", "left", "rows", "cols"), window, strict=True)),
        "labels": dict(templates("minimap", language())),
        "colors": colours.named("text", "muted", "surface", "line", "mark", "font"),
    }
    component(_COMPONENT, _MINIMAP)(key=_MINIMAP, data=data)


def _picture_of_map(values: Array, theme_name: str) -> str:
    from quantviz.figures.colour_ranges import values_range
    from quantviz.figures.raster import data_uri

    lo, hi = values_range(values)
    ramp = THEMES[theme_name].values
    return data_uri(values, lo, hi, ramp if lo < 0 < hi else one_sided(ramp))


#: Cells a side of the window that a jump opens: few enough to be read one by one.
_NEAR = 32
#: Kinds of parts that are ranked.
RANKED = ("cells", "rows", "columns", "blocks")
#: Most of each.
MOST_RANKED = 20


def has_places(state: LabState) -> bool:
    """Return whether the tensor is too large to read at once: a large matrix, or one of many."""
    return len(state.source.shape) > 2 or max(state.view.matrix(state.source.shape)) > MOST_CELLS


def show_places(study: Study, state: LabState) -> None:
    """Show the place of the window, and places to go to."""
    shape = study.shape
    view = state.view
    matrix = view.matrix(shape)
    if view.size(shape) != matrix:
        _show_minimap(_map(study, state), matrix, (view.top, view.left, *view.size(shape)))
    words = {name: _jump_words(name, state) for name in _JUMPS if not _nowhere(name, study, view)}
    label = say("places.go")
    choose_among("go_to", "list", label, words, None, _go, example=label, look="qv-unnamed")


def _nowhere(name: str, study: Study, view: View) -> bool:
    """Return whether this tensor has no such place."""
    return (name in ("worst_row", "worst_column") and view.rows is None) or (
        name == "first_nonfinite" and study.nonfinite is None
    )


def _map(study: Study, state: LabState) -> Any:
    from quantviz.streaming.frames import Patch
    from quantviz.streaming.overview import pooled

    view = state.view
    matrix = view.matrix(study.shape)

    def pixels() -> Any:
        return pooled(stored_of(state.source), Patch(0, 0, *matrix), minimap_size(matrix), view=view)[0]

    return kept(state.source, f"map {view.rows} {view.cols} {view.at}", pixels)


def _jump_words(name: str, state: LabState) -> str:
    axis = {"worst_row": state.view.rows, "worst_column": state.view.cols}.get(name)
    if axis is None:
        return say(f"places.{name}")
    return say("places.worst_line", one=say_axis(state.source, axis, "one"))


_JUMPS = ("largest_error", "largest_value", "first_nonfinite", "worst_row", "worst_column", "worst_block")


def _go(name: str) -> None:
    state = session.state()
    study = study_of(state)
    view = state.view
    if name.startswith("worst"):
        what = name.removeprefix("worst_") + "s"
        go(_cell_of(study, what, ranked(study, what, view, 1), 0, view))
    elif name == "largest_error":
        go(study.measured.largest_error)
    elif name == "first_nonfinite" and study.nonfinite:
        go(study.nonfinite.first)
    else:
        go(study.facts.largest)


def go(cell: Shape) -> None:
    """Select a cell and open a window around it in which cells can be read."""
    now = session.state()
    shape = now.source.shape
    view = now.view
    rows, cols = view.matrix(shape)
    if max(rows, cols) > MOST_CELLS:
        view = view.showing(cell, shape)
        row, col = view.place(cell) or (0, 0)
        view = view.window(row - _NEAR // 2, col - _NEAR // 2, _NEAR, _NEAR, shape)
    session.look(view.showing(cell, shape), cell)


# ---- the ranked table ---------------------------------------------------------------------------


def ranked(study: Study, what: str, view: View, most: int = MOST_RANKED) -> dict[str, list[Any]]:
    """Return the worst of `RANKED`, as columns; empty where there is nothing of the kind."""
    from quantviz.streaming.surveying import worst_blocks, worst_cells, worst_lines

    if what == "cells":
        return worst_cells(study.survey)
    if what == "blocks":
        return worst_blocks(study.survey, most)
    axis = view.rows if what == "rows" else view.cols
    return {"index": []} if axis is None else worst_lines(study.survey, axis, most)


def _cell_of(study: Study, what: str, table: dict[str, list[Any]], line: int, view: View) -> Shape:
    """Return the cell to look at for a line of the table: the one with its largest error."""
    if what == "cells":
        return cast("Shape", table["index"][line])
    if what == "blocks":
        return study.worst_of_block(table["block"][line])
    axis = view.rows if what == "rows" else view.cols
    assert axis is not None
    return study.worst_of_line(axis, table["index"][line])


def show_worst(study: Study, state: LabState) -> None:
    """Show the worst cells, rows, columns and blocks, each a click away from its derivation."""
    import pandas as pd

    what = switch("worst_of", say("places.worst"), {name: _ranked_words(name, state) for name in RANKED})
    table = ranked(study, what, state.view)
    shown = {
        name: _column(name, values, study, state.view)
        for name, values in table.items()
        if (what, name) != ("blocks", "index")  # their place in the grid is enough
    }
    count = len(table["index"])
    index = pd.RangeIndex(1, count + 1, name=say("places.rank"))
    forms = {name: _form(name) for name in shown if _form(name)}
    st.dataframe(
        numbers_written(pd.DataFrame(shown, index=index), forms),
        key=f"worst_{what}",
        on_select=errors.safely(lambda: _clicked(what)),
        selection_mode="single-cell",
        row_height=29,
        height=min(8, count + 1) * 29 + 12,
        column_config={name: _column_form(name, count) for name in shown},
        alt=say("places.worst"),
    )
    st.caption(say("places.worst_how"))


def _form(name: str) -> str:
    """Return the form of numbers in a column of the ranked places; "" for words."""
    if name in ("index", "block"):
        return ""
    return PERCENT if name == "noise_share" else "%.4g"


def _column_form(name: str, lines: int) -> Any:
    """Return a column of the ranked places."""
    title = say(f"places.columns.{name}")
    form = _form(name)
    if form:
        return number_column(title, form, lines)
    return st.column_config.TextColumn(title)


def _ranked_words(name: str, state: LabState) -> str:
    if name in ("cells", "blocks"):
        return say(f"places.ranked.{name}")
    axis = state.view.rows if name == "rows" else state.view.cols
    # A tensor of one axis has a heading for rows too, under which there are none.
    return say_axis(state.source, axis or 0, "many")


def _column(name: str, values: list[Any], study: Study, view: View) -> list[Any]:
    """Return a column of the table: places in words."""
    if name == "block":
        return [block_words(study.layout, study.shape, view, block) for block in values]
    return [_place(value) for value in values] if name == "index" else values


def _place(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def block_words(layout: BlockLayout, shape: Shape, view: View, block: Shape) -> str:
    """Return the place of a block in a tensor of `shape` in words, such as "row 3999, columns 10992–11007",
    by the rows and columns in view.

    An axis that it takes up wholly is left out. Blocks of a flattened tensor that end in another row than
    they begin in are named by their first and last cell.
    """
    from quantviz.streaming.regions import place_of

    window = layout.window(block)
    if layout.view_shape != shape:
        if len(window) > 1:
            return say("places.strided", first=_place(place_of(block[-1], shape)), step=layout.view_shape[-1])
        first, last = (place_of(flat, shape) for flat in (window[0].start, window[0].stop - 1))
        # As a part of the tensor, where it is one: within a line, or whole lines.
        window = tuple(slice(a, b + 1) for a, b in zip(first, last, strict=True))
        if math.prod(part.stop - part.start for part in window) != layout.size_of(block):
            return say("places.run", first=_place(first), last=_place(last))
    parts = [
        _part_words(axis, part, view)
        for axis, part in enumerate(window)
        if (part.start, part.stop) != (0, shape[axis])
    ]
    return say("places.and").join(parts) or say("places.whole")


def _part_words(axis: int, part: slice, view: View) -> str:
    one = part.stop - part.start == 1
    at = str(part.start) if one else f"{part.start}–{part.stop - 1}"
    if axis not in (view.rows, view.cols):
        return say("places.on_axis", axis=axis, at=at)
    name = "row" if axis == view.rows else "column"
    return say(f"places.at_{name}" if one else f"places.at_{name}s", at=at)


def _clicked(what: str) -> None:
    """Go to the line whose cell was clicked."""
    state = session.state()
    study = study_of(state)
    table = ranked(study, what, state.view)
    line = clicked_line(f"worst_{what}", len(table["index"]))
    if line is not None:
        go(_cell_of(study, what, table, line, state.view))


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
