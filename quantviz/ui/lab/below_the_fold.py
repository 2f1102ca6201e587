"""Which scheme to use, and below the fold: histograms, scales, exports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.analysis.recipe_ranking import RecipeRow, answer, recipe_rows
from quantviz.evaluation.tables import metrics_csv
from quantviz.export.files import scope_of
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.state import LabState
from quantviz.schemes.recipes import RECIPES, current_recipe
from quantviz.tensors.views import MOST_PART
from quantviz.ui.components.classroom_signs import show_lock
from quantviz.ui.components.clipboard import copy_button, picture_button
from quantviz.ui.components.code import show_python
from quantviz.ui.lab.engine_controls import group_of
from quantviz.ui.lab.navigation import block_words
from quantviz.ui.lab.tensor import kept, stored_of
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import locked, visible
from quantviz.ui.shell.words import language, number, plain, say, say_error, say_recipe, theme

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.evaluation.histogram_bins import HistogramData
    from quantviz.figures.panels_data import PanelsData
    from quantviz.quantization.result import QuantResult

#: Blocks up to which the scales are listed without asking.
_FEW_BLOCKS = 16
#: Blocks that are listed at most.
_MOST_LISTED = 10_000
#: Cells up to which there is a .csv: a line each, held in memory while it is made.
_MOST_CSV = 2**20


# ---- which one should I use? --------------------------------------------------------------------


def show_recipes(state: LabState, study: Study) -> None:
    """Show the recipes on this very tensor; a click loads one."""
    from quantviz.analysis.recipe_ranking import row_of
    from quantviz.figures.recipe_plot import RECIPE_PLOT_CONFIG, answer_sentence, recipe_plot_figure

    rows, axes = _rows(state), state.source.axes
    st.markdown(f"**{plain(answer_sentence(answer(rows), language(), axes))}**")
    if locked("scheme"):
        show_lock("scheme")
    else:
        st.caption(say("recipes.how"))
    table, plot = st.columns([7, 5], gap="small")
    with table:
        _table(rows, state)
    with plot:
        figure = recipe_plot_figure(
            rows, row_of(study.measured), language=language(), theme=theme(), axes=axes
        )
        st.plotly_chart(
            figure,
            key="recipe_plot",
            theme=None,
            config=dict(RECIPE_PLOT_CONFIG),
            alt=say("recipes.plot_alt"),
        )
    for reason, names in _not_fitting(rows, state).items():
        st.caption(f"{say('recipes.not_fitting', names=plain(', '.join(names)))} {reason}")


def _not_fitting(rows: tuple[RecipeRow, ...], state: LabState) -> dict[str, list[str]]:
    """Return the names of the recipes that cannot be used here, by the reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.problem:
            found.setdefault(say_error(row.problem), []).append(say_recipe(row.id, state.source))
    return found


def _rows(state: LabState) -> tuple[RecipeRow, ...]:
    """Return the rows of this tensor: computed once for it."""
    source, scheme = state.source, state.scheme
    with st.spinner(say("recipes.trying", count=len(RECIPES)), show_time=True):
        rows = kept(
            source,
            f"recipes {scheme.nonfinite}",
            lambda: recipe_rows(stored_of(source), current=scheme),
            aside=True,
        )
    now = current_recipe(scheme, source.shape)
    return tuple(dataclasses.replace(row, is_current=row.id == now) for row in rows)


def _table(rows: tuple[RecipeRow, ...], state: LabState) -> None:
    from quantviz.figures.recipe_plot import HEIGHT

    fitting = [row for row in rows if not row.problem]
    columns: dict[str, list[Any]] = {
        "group": [group_of(row.id) for row in fitting],
        "name": [say_recipe(row.id, state.source) for row in fitting],
        "bits": [row.bits for row in fitting],
        "sqnr_db": [row.sqnr_db for row in fitting],
        "zeroed": [100 * row.zeroed_share for row in fitting],
        "mse": [row.mse for row in fitting],
    }
    st.dataframe(
        columns,
        key="recipe_table",
        hide_index=True,
        on_select="ignore"
        if locked("scheme")
        else session.safely(lambda: _load([row.id for row in fitting])),
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
    """Load the recipe whose cell was clicked."""
    line = session.clicked_line("recipe_table")
    if line is not None:
        session.change(scheme=RECIPES[ids[line]].replace(nonfinite=session.state().scheme.nonfinite))


# ---- histograms, scales -------------------------------------------------------------------------


def show_histograms(study: Study, state: LabState) -> None:
    """Show x over the grid, and the error in steps. On a large tensor each scheme takes one more pass for
    them, so they wait to be asked for.
    """
    # Two keys: what was open for a small tensor is not for a large one.
    key = "histograms_of_large" if state.large else "histograms"
    opened = st.expander(say("below.histograms"), expanded=not state.large, key=key, on_change="rerun")
    if not opened.open:
        return
    with opened:
        _show_histograms(study, state)


def _show_histograms(study: Study, state: LabState) -> None:
    from quantviz.figures.histograms import HISTOGRAM_CONFIG, histogram_figure

    seen = "" if scope_of(state) == "tensor" else state.view.index_of(study.shape)
    data = kept(state.source, f"histograms {state.scheme} {seen}", lambda: _histograms(study, state))
    for which, column in zip(("values", "errors"), st.columns(2, gap="medium"), strict=True):
        with column:
            figure = histogram_figure(
                data,
                which,
                language=language(),
                theme=theme(),
                log_counts=bool(st.session_state.get("log_counts")),
            )
            st.plotly_chart(
                figure,
                key=f"histogram_{which}",
                theme=None,
                config=dict(HISTOGRAM_CONFIG),
                alt=say(f"below.histogram_{which}"),
            )
    st.toggle(say("below.log_counts"), key="log_counts")


def _histograms(study: Study, state: LabState) -> HistogramData:
    """Show the histograms of the cells that the tiles count."""
    import torch

    from quantviz.figures.histograms import histogram_data

    index = state.view.index_of(study.shape)
    if scope_of(state) == "tensor":
        return study.survey.histograms if study.result is None else histogram_data(study.result)
    if study.result is None:
        return histogram_data(study.part(index))
    mask = torch.zeros(study.shape, dtype=torch.bool)
    mask[index] = True
    return histogram_data(study.result, mask)


def show_scales(study: Study, state: LabState) -> None:
    """Scale and zero point of each block."""
    count = study.layout.block_count
    opened = st.expander(
        say("below.scales", count=count), expanded=1 < count <= _FEW_BLOCKS, key="scales", on_change="rerun"
    )
    if not opened.open:
        return
    with opened:
        columns = {name: values[:_MOST_LISTED] for name, values in study.scales(_MOST_LISTED).items()}
        # Where a block lies says more than its place in the grid of blocks, an axis each.
        grid = zip(
            *(columns.pop(f"axis_{axis}") for axis in range(len(study.layout.grid_shape))), strict=True
        )
        places = [block_words(study.layout, study.shape, state.view, block) for block in grid]
        st.dataframe(
            {"block": columns.pop("block"), "place": places, **columns},
            key="scales_table",
            hide_index=True,
            row_height=29,
            column_config={
                "place": st.column_config.TextColumn(say("places.columns.index")),
                **{
                    name: st.column_config.NumberColumn(say(f"export.column.{name}"), format="%.6g")
                    for name in ("block", *columns)
                },
            },
            alt=say("below.scales_alt"),
        )
        if count > _MOST_LISTED:
            st.caption(
                say(
                    "below.scales_cut" if study.result else "below.scales_cut_large",
                    listed=_MOST_LISTED,
                    count=count,
                )
            )


# ---- metrics ----------------------------------------------------------------------------------------


def show_metrics(study: Study, state: LabState) -> None:
    """Show every metric of the whole tensor, with what it means. On a large one some take a pass of their
    own, so they wait to be asked for.
    """
    if not all(map(visible, TILE_PARTS)):  # a class guesses what its teacher has hidden
        return
    opened = st.expander(say("metrics.title"), key="metrics", on_change="rerun")
    if not opened.open:
        return
    with opened:
        from quantviz.evaluation.metric_formulas import METRICS
        from quantviz.export.files import file_name

        found = study.metrics
        rows = [
            (say(f"metrics.{name}.name"), found[name], each.unit, say(f"metrics.{name}.help"))
            for name, each in METRICS.items()
        ]
        st.dataframe(
            {
                "metric": [name for name, _, _, _ in rows],
                "value": [number(100 * value if unit == "share" else value, 6) for _, value, unit, _ in rows],
                "unit": [say(f"metrics.units.{unit or 'none'}") for _, _, unit, _ in rows],
                "meaning": [meaning for _, _, _, meaning in rows],
            },
            key="metrics_table",
            hide_index=True,
            row_height=29,
            height="content",
            column_config={
                name: st.column_config.TextColumn(
                    say(f"metrics.{name}"), alignment="right" if name == "value" else "left"
                )
                for name in ("metric", "value", "unit", "meaning")
            },
            alt=say("metrics.alt"),
        )
        st.download_button(
            say("metrics.csv"),
            lambda: metrics_csv(found),
            file_name(state.source, state.scheme, "metrics.csv"),
            key="download_metrics",
            on_click="ignore",
        )


# ---- exports ------------------------------------------------------------------------------------


def show_exports(study: Study, state: LabState, chart: str, whole: Callable[[], PanelsData]) -> None:
    """Show downloads, and the Python that prints these numbers.

    Pictures are of the panels in the container `chart`, or, where a window of the matrix is seen, of what
    `whole` gives.
    """
    from quantviz.evaluation.tables import Within, as_csv, as_npz
    from quantviz.export.files import file_name, python_lines

    # Of a large tensor it is the part in view that leaves.
    index, result = state.view.index_of(study.shape), study.result
    rows, cols = state.view.size(study.shape)
    count = rows * cols if result is None else result.x.numel()

    def exported() -> QuantResult:
        return study.part(index) if result is None else result

    with st.container(key="exports", horizontal=True, gap="small", vertical_alignment="center"):
        # Made when they are asked for: nobody waits for a file that is not wanted.
        within = Within(index, study.shape) if result is None else None
        for ending, write, most in (
            ("npz", partial(as_npz, within=within), MOST_PART),
            ("csv", partial(as_csv, within=within), _MOST_CSV),
        ):
            too_many = count > most
            help_text = (
                say("below.too_many", most=most)
                if too_many
                else say("below.of_the_slice")
                if result is None
                else None
            )
            st.download_button(
                say(f"below.{ending}"),
                lambda write=write: write(exported()),  # type: ignore[misc]
                file_name(state.source, state.scheme, ending),
                key=f"download_{ending}",
                on_click="ignore",
                disabled=too_many,
                help=help_text,
            )
        _pictures(state, study, chart, whole)
        lines = python_lines(state, language=language())
        copy_button("copy_python", say("below.copy_python"), say("lab.copied"), text=lines)
    show_python(say("below.python"), "python", lambda: lines)


def _pictures(state: LabState, study: Study, chart: str, whole: Callable[[], PanelsData]) -> None:
    """Show the panels as files that need no browser."""
    figure = None
    windowed = state.view.size(study.shape) != state.view.matrix(study.shape)
    asked = windowed and st.session_state.get("picture_whole", False)
    if asked:
        from quantviz.figures.panels import panels_figure

        # As the page has it side by side, on a phone too.
        figure = panels_figure(whole(), language=language(), theme=theme()).to_json()  # type: ignore[no-untyped-call]
    for ending in ("png", "svg"):
        picture_button(f"picture_{ending}", say(f"below.picture_{ending}"), chart, ending, figure)
    if windowed:
        st.toggle(say("below.picture_whole"), key="picture_whole", help=say("below.picture_whole_help"))
