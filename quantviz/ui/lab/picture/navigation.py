"""Finding one's way in a tensor larger than the screen: the mini-map, jumps to the worst places, and the
ranked table of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.figures.arrangement import MOST_CELLS
from quantviz.figures.theme import THEMES, one_sided
from quantviz.lab.state import LabState
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.tensors.views import View
from quantviz.text import templates
from quantviz.ui.components.component import component
from quantviz.ui.components.controls import choose_among, switch
from quantviz.ui.components.phone_tables import PERCENT, clicked_line, number_column, numbers_written
from quantviz.ui.components.tensor_cache import kept, stored_of, study_of
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.words import language, say, say_axis, theme

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.figures.colour_ranges import Array

#: The picture is at most so many pixels wide and high.
MOST_WIDTH = 120
MOST_HEIGHT = 90
#: And at least so many: a matrix of a few rows would be a line.
_LEAST = 24
_COMPONENT = "quantviz_minimap"


def minimap_size(matrix: tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) in pixels of the mini-map of `matrix` (rows, columns), in its shape as far as
    that can be seen.

    >>> minimap_size((4096, 11008)), minimap_size((11008, 4096)), minimap_size((3, 9000))
    ((45, 120), (90, 33), (24, 120))
    """
    rows, cols = matrix
    scale = min(MOST_WIDTH / cols, MOST_HEIGHT / rows)
    return max(round(rows * scale), _LEAST), max(round(cols * scale), _LEAST)


def show_minimap(
    values: Array,
    *,
    matrix: tuple[int, int],
    window: tuple[int, int, int, int],
    key: str,
    chart: str = "panels",
) -> None:
    """Show where `window` (first row, first column, rows, columns) lies in `matrix` (rows, columns); nothing
    where it is all of it.

    `values` are x of the whole matrix in about `minimap_size(matrix)` pixels, each the value of largest
    magnitude; `chart` is the key of the panels' container.
    """
    if window == (0, 0, *matrix):
        return
    height, width = minimap_size(matrix)
    colours = THEMES[theme()]
    data = {
        "chart": chart,
        "picture": _picture(values, theme()),
        "width": width,
        "height": height,
        "rows": matrix[0],
        "cols": matrix[1],
        "window": dict(zip(("top", "left", "rows", "cols"), window, strict=True)),
        "labels": dict(templates("minimap", language())),
        "colors": colours.named("text", "muted", "surface", "line", "mark", "font"),
    }
    component(_COMPONENT, "minimap")(key=key, data=data)


def _picture(values: Array, theme_name: str) -> str:
    from quantviz.figures.colour_ranges import values_range
    from quantviz.figures.raster import data_uri

    lo, hi = values_range(values)
    ramp = THEMES[theme_name].values
    return data_uri(values, lo, hi, ramp if lo < 0 < hi else one_sided(ramp))


#: Cells a side of the window that a jump opens: few enough to be read one by one.
_NEAR = 32
_MINIMAP = "minimap"
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
        show_minimap(
            _map(study, state), matrix=matrix, window=(view.top, view.left, *view.size(shape)), key=_MINIMAP
        )
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
