"""Which scheme to use, and below the fold: histograms, scales, exports."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.export import slice_index
from quantviz.link import LabState
from quantviz.recipes import RECIPES, RecipeRow, answer, current_recipe, recipe_rows
from quantviz.ui import session
from quantviz.ui.arithmetic import group_of, recipe_words
from quantviz.ui.clipboard import copy_button
from quantviz.ui.data import source_key, tensor_of, upload_place
from quantviz.ui.room import locked
from quantviz.ui.signs import show_lock
from quantviz.ui.words import language, plain, say, say_error, theme

if TYPE_CHECKING:
    from quantviz.quantizer import QuantResult

#: Elements up to which every recipe is tried before anyone has asked.
MOST_UNASKED = 2**18
#: Blocks up to which the scales are listed without asking.
_FEW_BLOCKS = 16
#: Blocks that are listed at most.
_MOST_LISTED = 10_000
#: Cells up to which there is a .csv: a line each, held in memory while it is made.
_MOST_CSV = 2**20


# ---- which one should I use? --------------------------------------------------------------------


def show_recipes(state: LabState, r: QuantResult) -> None:
    """The recipes on this very tensor; a click loads one."""
    from quantviz.figures.recipe_plot import RECIPE_PLOT_CONFIG, answer_sentence, recipe_plot_figure
    from quantviz.recipes import row_of

    rows = _rows(state)
    st.markdown(f"**{plain(answer_sentence(answer(rows), language()))}**")
    if locked("scheme"):
        show_lock("scheme")
    else:
        st.caption(say("recipes.how"))
    table, plot = st.columns([7, 5], gap="small")
    with table:
        _table(rows)
    with plot:
        figure = recipe_plot_figure(rows, row_of(r), language=language(), theme=theme())
        st.plotly_chart(figure, key="recipe_plot", theme=None, config=dict(RECIPE_PLOT_CONFIG), alt=say("recipes.plot_alt"))
    for reason, names in _not_fitting(rows).items():
        st.caption(f"{say('recipes.not_fitting', names=plain(', '.join(names)))} {reason}")


def _not_fitting(rows: tuple[RecipeRow, ...]) -> dict[str, list[str]]:
    """The names of the recipes that cannot be used here, by the reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.problem:
            found.setdefault(say_error(row.problem), []).append(recipe_words(row.id))
    return found


def _rows(state: LabState) -> tuple[RecipeRow, ...]:
    """The rows of this tensor: computed once for it, kept in the session."""
    key = source_key(state.source)
    kept = st.session_state.get("recipe_rows")
    if kept is None or kept[0] != key:
        kept = st.session_state["recipe_rows"] = (key, recipe_rows(tensor_of(state.source), current=state.scheme))
    now = current_recipe(state.scheme, state.source.shape)
    return tuple(dataclasses.replace(row, is_current=row.id == now) for row in kept[1])


def _table(rows: tuple[RecipeRow, ...]) -> None:
    from quantviz.figures.recipe_plot import HEIGHT

    fitting = [row for row in rows if not row.problem]
    columns: dict[str, list[Any]] = {
        "group": [group_of(row.id) for row in fitting],
        "name": [recipe_words(row.id) for row in fitting],
        "bits": [row.bits for row in fitting],
        "sqnr_db": [row.sqnr_db for row in fitting],
        "zeroed": [100 * row.zeroed_share for row in fitting],
        "mse": [row.mse for row in fitting],
    }
    st.dataframe(
        columns,
        key="recipe_table",
        hide_index=True,
        on_select="ignore" if locked("scheme") else session.safely(lambda: _load([row.id for row in fitting])),
        selection_mode="single-cell",
        row_height=29,
        height=HEIGHT,
        column_config={
            "group": st.column_config.TextColumn(say("recipes.group"), width=80),
            "name": st.column_config.TextColumn(say("recipes.name"), width=168),
            "bits": st.column_config.NumberColumn(say("recipes.bits"), format="%.3f", width=64),
            "sqnr_db": st.column_config.NumberColumn(say("recipes.sqnr"), format="%.1f", width=72),
            "zeroed": st.column_config.NumberColumn(say("recipes.zeroed"), format="%.1f %%", width=64),
            "mse": st.column_config.NumberColumn(say("recipes.mse"), format="%.3g", width=72),
        },
        alt=say("recipes.table_alt"),
    )


def _load(ids: list[str]) -> None:
    """Load the recipe whose cell was clicked; a click on a heading sorts and selects no cell."""
    cells = st.session_state["recipe_table"]["selection"]["cells"]
    if cells:
        session.change(scheme=RECIPES[ids[cells[0][0]]])


# ---- histograms, scales -------------------------------------------------------------------------


def show_histograms(r: QuantResult, state: LabState) -> None:
    """x over the grid, and the error in steps."""
    from quantviz.figures.histograms import HISTOGRAM_CONFIG, histogram_data, histogram_figure

    data = histogram_data(r, _mask(r, state))
    for which, column in zip(("values", "errors"), st.columns(2, gap="medium"), strict=True):
        with column:
            figure = histogram_figure(data, which, language=language(), theme=theme(), log_counts=bool(st.session_state.get("log_counts")))
            st.plotly_chart(figure, key=f"histogram_{which}", theme=None, config=dict(HISTOGRAM_CONFIG), alt=say(f"below.histogram_{which}"))
    st.toggle(say("below.log_counts"), key="log_counts")


def _mask(r: QuantResult, state: LabState) -> Any:
    """Where the cells lie that the tiles count; none for all of them."""
    import torch

    if state.scope == "tensor":
        return None
    mask = torch.zeros(r.shape, dtype=torch.bool)
    mask[slice_index(state.view, r.shape)] = True
    return mask


def show_scales(r: QuantResult, state: LabState) -> None:
    """Scale and zero point of each block."""
    from quantviz.export import scales_table

    count = r.layout.block_count
    opened = st.expander(say("below.scales", count=count), expanded=1 < count <= _FEW_BLOCKS, key="scales", on_change="rerun")
    if not opened.open:
        return
    with opened:
        columns = {name: values[:_MOST_LISTED] for name, values in scales_table(r).items()}
        st.dataframe(
            columns,
            key="scales_table",
            hide_index=True,
            row_height=29,
            column_config={name: st.column_config.NumberColumn(say(f"export.column.{name}"), format="%.6g") for name in columns},
            alt=say("below.scales_alt"),
        )
        if count > _MOST_LISTED:
            st.caption(say("below.scales_cut", listed=_MOST_LISTED, count=count))


# ---- exports ------------------------------------------------------------------------------------


def show_exports(r: QuantResult, state: LabState) -> None:
    """Downloads, and the Python that prints these numbers."""
    from quantviz.export import as_csv, as_npz, file_name, python_lines

    with st.container(key="exports", horizontal=True, gap="small", vertical_alignment="center"):
        # Made when they are asked for: nobody waits for a file that is not wanted.
        for ending, make, most in (("npz", partial(as_npz, r), math.inf), ("csv", partial(as_csv, r), _MOST_CSV)):
            too_many = r.x.numel() > most
            st.download_button(
                say(f"below.{ending}"),
                make,
                file_name(state.source, state.scheme, ending),
                key=f"download_{ending}",
                on_click="ignore",
                disabled=too_many,
                help=say("below.csv_too_many", most=_MOST_CSV) if too_many else None,
            )
        lines = python_lines(state, uploaded=upload_place(state.source), language=language())
        copy_button("copy_python", say("below.copy_python"), say("lab.copied"), text=lines)
    with st.expander(say("below.python"), key="python"):
        st.code(lines, language="python")
