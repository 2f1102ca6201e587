"""Below the fold: histograms, scales, every metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from quantviz.evaluation.tables import metrics_csv
from quantviz.export.files import scope_of
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.state import LabState
from quantviz.ui.components.phone_tables import number_column, numbers_written
from quantviz.ui.components.small_parts import show_plot
from quantviz.ui.components.tensor_cache import kept
from quantviz.ui.lab.picture.navigation import block_words
from quantviz.ui.shell.classroom import visible
from quantviz.ui.shell.words import language, number, say, theme

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.evaluation.histogram_bins import HistogramData

#: Blocks up to which the scales are listed without asking.
_FEW_BLOCKS = 16
#: Blocks that are listed at most.
_MOST_LISTED = 10_000


# ---- histograms, scales -------------------------------------------------------------------------


def show_histograms(study: Study, state: LabState) -> None:
    """Show x over the grid, and the error in steps, once opened: two more charts make a change of the scheme
    take a third longer in the browser, and a large tensor takes one more pass for them.
    """
    opened = st.expander(say("below.histograms"), expanded=False, key="histograms", on_change="rerun")
    if not opened.open:
        return
    with opened:
        _show_histograms(study, state)


def _show_histograms(study: Study, state: LabState) -> None:
    from quantviz.figures.histograms import HISTOGRAM_CONFIG, histogram_figure

    seen = "" if scope_of(state) == "tensor" else state.view.index_of(study.shape)
    data = kept(state.source, f"histograms {state.scheme} {seen}", lambda: _histograms(study, state))
    log_counts = bool(st.session_state.get("log_counts"))
    for which, column in zip(("values", "errors"), st.columns(2, gap="medium"), strict=True):
        with column:
            figure = histogram_figure(data, which, language=language(), theme=theme(), log_counts=log_counts)
            show_plot(figure, f"histogram_{which}", say(f"below.histogram_{which}"), config=HISTOGRAM_CONFIG)
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
        # The place in the tensor is clearer than that in the grid of blocks, an axis each.
        axes = range(len(study.layout.grid_shape))
        grid = zip(*(columns.pop(f"axis_{axis}") for axis in axes), strict=True)
        places = [block_words(study.layout, study.shape, state.view, block) for block in grid]
        table = {"block": columns.pop("block"), "place": places, **columns}
        forms = dict.fromkeys(("block", *columns), "%.6g")
        st.dataframe(
            numbers_written(table, forms),
            key="scales_table",
            hide_index=True,
            row_height=29,
            column_config={
                "place": st.column_config.TextColumn(say("places.columns.index")),
                **{
                    name: number_column(say(f"export.column.{name}"), form, len(places))
                    for name, form in forms.items()
                },
            },
            alt=say("below.scales_alt"),
        )
        if count > _MOST_LISTED:
            key = "below.scales_cut" if study.result else "below.scales_cut_large"
            st.caption(say(key, listed=_MOST_LISTED, count=count))


# ---- metrics ----------------------------------------------------------------------------------------


def show_metrics(study: Study, state: LabState) -> None:
    """Show every metric with its meaning, once opened: some take a pass over a large tensor."""
    if not all(map(visible, TILE_PARTS)):  # a class guesses the hidden numbers
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
