"""The distribution of values on the grid, and of errors inside a step: two figures, by the cells' outcome."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from quantviz.evaluation.histogram_bins import (
    ERROR_BINS,
    PART_OF_CAUSE,
    PARTS,
    HistogramData,
    SplitHistogram,
    ValueBins,
    counted,
    error_places,
    histograms,
)
from quantviz.figures.numbers import number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import SMALL_PLOT_CONFIG, axis_title, bare_layout, shape
from quantviz.figures.theme import THEMES, Theme, translucent
from quantviz.quantization.explanation import causes
from quantviz.quantization.result import steps_of_error
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.quantization.result import QuantResult

#: For `st.plotly_chart(config=…)`.
HISTOGRAM_CONFIG = SMALL_PLOT_CONFIG
HEIGHT = 230
_MARGIN = (48, 8, 24, 46)


def histogram_data(result: QuantResult, mask: torch.Tensor | None = None) -> HistogramData:
    """Return the histograms of a result, of the cells in `mask` if given.

    >>> from quantviz import Given, Scheme, quantize
    >>> data = histogram_data(quantize([[-2.0, -0.4, 0.4, 0.0, 1.6]], Scheme("int4", calibration=Given(1.0))))
    >>> data.values.edges.tolist(), data.values.totals.tolist()
    ([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], [1, 0, 3, 0, 1])
    >>> data.values.codes.tolist(), data.values.counts["zeroed"].tolist()
    ([-2, -1, 0, 1, 2], [0, 0, 2, 0, 0])
    """
    chosen = torch.ones(result.shape, dtype=torch.bool) if mask is None else mask
    chosen = chosen if result.counted is None else chosen & result.counted
    parts = PART_OF_CAUSE[causes(result)[chosen].numpy()]
    x = result.x[chosen].numpy()
    bins = ValueBins.of(
        result.scheme, result.qparams, len(x), *((float(x.min()), float(x.max())) if len(x) else (0.0, 0.0))
    )
    value_counts = counted(bins.places(x), parts, len(bins.edges) - 1)
    error_counts = counted(error_places(steps_of_error(result)[chosen].numpy(), parts), parts, ERROR_BINS + 2)
    return histograms(result.scheme, result.qparams, bins, value_counts, error_counts)


# ---- drawing ------------------------------------------------------------------------------------


def histogram_figure(
    data: HistogramData,
    which: str = "values",
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    log_counts: bool = False,
) -> UncheckedFigure:
    """Return "values" of x, with a strip below the bars where codes reach, or "errors" in steps.

    With `log_counts` a single cell still shows beside thousands.
    """
    colours = THEMES[theme]
    bars, words = (data.values, _value_words) if which == "values" else (data.errors, _error_words)
    layout = _layout(which, bars, colours, language, log_counts)
    if which == "values":
        layout["xaxis"] |= {"range": _value_span(data), "nticks": 5}
        strips = {translucent(colours.muted, 0.45): data.reached_by_some, colours.muted: data.reached_by_all}
        layout["shapes"] = [
            shape("rect", reach, (-0.035, -0.005), {"width": 0}, xref="x", yref="paper", fillcolor=colour)
            for colour, reach in strips.items()
            if reach
        ]
    else:
        layout["xaxis"] |= {
            "range": [float(bars.edges[0]), float(bars.edges[-1])],
            "tickvals": [-0.5, -0.25, 0, 0.25, 0.5],
            "ticktext": ["−½", "−¼", "0", "¼", "½"],
        }
    return UncheckedFigure(
        {"data": _traces(bars, words(bars, language), colours, language), "layout": layout}
    )


def _layout(
    which: str, bars: SplitHistogram, theme: Theme, language: str, log_counts: bool
) -> dict[str, Any]:
    layout = bare_layout(theme, HEIGHT, _MARGIN)
    layout["xaxis"] |= {
        "title": axis_title(text(f"histogram.{which}_axis", language), 4),
        "showgrid": False,
        "ticks": "outside",
        "ticklen": 7,
        "tickcolor": "rgba(0,0,0,0)",
    }
    most = max(1, int(bars.totals.max(initial=0)))
    # On the log axis half a cell is the foot of the bars, so that a single cell still shows.
    counts = (
        {"type": "log", "range": [math.log10(0.5), math.log10(1.3 * most)], "dtick": 1}
        if log_counts
        else {"range": [0, 1.05 * most], "nticks": 5}
    )
    layout["yaxis"] |= {"title": axis_title(text("histogram.cells", language), 4), **counts}
    legend = {
        "orientation": "h",
        "x": 1,
        "xanchor": "right",
        "y": 1,
        "yanchor": "bottom",
        "font": {"size": 12},
        "itemclick": False,
        "itemdoubleclick": False,
        "traceorder": "normal",
    }
    return layout | {"barmode": "stack", "bargap": 0, "showlegend": True, "legend": legend}


def _traces(bars: SplitHistogram, words: list[str], theme: Theme, language: str) -> list[dict[str, Any]]:
    # Parts without a cell have none.
    colours = {"kept": theme.values[1], "zeroed": theme.values[3], "clipped": theme.errors[3]}
    shown = [part for part in PARTS if bars.counts[part].any()]
    middles = (bars.edges[1:] + bars.edges[:-1]) / 2
    widths = np.diff(bars.edges)
    return [
        {
            "type": "bar",
            "name": text(f"histogram.parts.{part}", language),
            "x": middles,
            "y": bars.counts[part],
            "width": widths,
            "hovertext": words,
            "hovertemplate": "%{hovertext}<br>%{fullData.name}: %{y}<extra></extra>",
            "marker": {
                "color": colours[part],
                "line": {"color": theme.surface, "width": 0.5 if len(middles) <= 48 else 0},
            },
        }
        for part in shown
    ]


def _value_span(data: HistogramData) -> list[float]:
    """Return the axis: the bars, and the values of codes unless the bars would become thin."""
    if not data.reached_by_some:
        return [-1.0, 1.0]
    low = float(data.values.edges[0])
    high = float(data.values.edges[-1])
    wide = min(low, data.reached_by_some[0]), max(high, data.reached_by_some[1])
    if wide[1] - wide[0] <= 4 * (high - low):
        low, high = wide
    room = 0.02 * (high - low)
    return [low - room, high + room]


def _value_words(bars: SplitHistogram, language: str) -> list[str]:
    # Shown on hover.
    spans = [
        text("histogram.span", language, low=number(low), high=number(high))
        for low, high in zip(bars.edges[:-1], bars.edges[1:], strict=True)
    ]
    if bars.codes is None:
        return spans
    last = bars.codes + bars.codes_per_bin - 1
    names = (
        number(one, 8) if one == other else f"{number(one, 8)} … {number(other, 8)}"
        for one, other in zip(bars.codes, last, strict=True)
    )
    return [
        text("histogram.code", language, code=name) + "<br>" + span
        for name, span in zip(names, spans, strict=True)
    ]


def _error_words(bars: SplitHistogram, language: str) -> list[str]:
    inner = [
        text("histogram.step_span", language, low=number(low, 3), high=number(high, 3))
        for low, high in zip(bars.edges[1:-2].round(6), bars.edges[2:-1].round(6), strict=True)
    ]
    return [text("histogram.below", language), *inner, text("histogram.above", language)]
