"""Where the values lie on the grid, and how the errors spread inside a step.

Two figures, because a page puts them side by side or, on a phone, one above the other. Both stack the
cells by what became of them: kept, rounded to zero, clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from plotly.graph_objs._figure import Figure

from quantviz.arithmetic import code_operations, run_operations
from quantviz.explanation import CAUSES, causes
from quantviz.figures.numbers import number
from quantviz.figures.small_plots import SMALL_PLOT_CONFIG, bare_layout, faint
from quantviz.figures.theme import THEMES, Theme
from quantviz.measures import steps_of_error
from quantviz.quantizer import block_values
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.quantizer import QuantResult

Array = npt.NDArray[Any]

#: What a bar is made of, from the axis up.
PARTS = ("kept", "zeroed", "clipped")
#: The part of each of `CAUSES`.
_PART_OF = np.array([PARTS.index(cause) if cause in PARTS else 0 for cause in CAUSES])
#: Most bars of the values' histogram.
MOST_BINS = 96
#: Bars between -1/2 and +1/2 step of the errors' histogram.
ERROR_BINS = 20
#: For `st.plotly_chart(config=…)`.
HISTOGRAM_CONFIG = SMALL_PLOT_CONFIG
#: The usual height in pixels.
HEIGHT = 230
_MARGIN = (48, 8, 24, 46)


@dataclass(frozen=True, eq=False)
class Bars:
    """A histogram whose bars are split into `PARTS`."""

    #: n + 1 ascending ends of the n bins.
    edges: Array
    #: How many cells of each part lie in each bin, n int64 a part.
    counts: Mapping[str, Array]
    #: The first code of each bin, where the bins are those of codes; codes the format does not have included.
    codes: Array | None = None
    #: How many codes a bin holds.
    codes_per_bin: int = 1

    @property
    def totals(self) -> Array:
        """Cells in each bin."""
        total: Array = sum(self.counts.values(), np.zeros(len(self.edges) - 1, dtype=np.int64))
        return total


@dataclass(frozen=True, eq=False)
class HistogramData:
    """Both histograms of a result."""

    #: Of x, in its units. With one block of integer codes the bins are those of its codes, aligned to where rounding changes its mind.
    values: Bars
    #: Of the error in steps. The first and the last bin hold all clipped cells, whatever their error.
    errors: Bars
    #: How many cells were counted.
    cells: int
    #: How many blocks the tensor has.
    block_count: int
    #: The values that codes reach in every block, and in some block; none without cells.
    reached_by_all: tuple[float, float] | None
    reached_by_some: tuple[float, float] | None


#: Codes from the first to the last cell beyond which bins are no longer made of codes.
_WIDEST_CODES = 2.0**40


def histogram_data(result: QuantResult, mask: torch.Tensor | None = None) -> HistogramData:
    """The histograms of a result, of the cells in `mask` (bool, of the result's shape) where one is given.

    >>> from quantviz import Given, Scheme, quantize
    >>> data = histogram_data(quantize([[-2.0, -0.4, 0.4, 0.0, 1.6]], Scheme("int4", calibration=Given(1.0))))
    >>> data.values.edges.tolist(), data.values.totals.tolist()
    ([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], [1, 0, 3, 0, 1])
    >>> data.values.codes.tolist(), data.values.counts["zeroed"].tolist()
    ([-2, -1, 0, 1, 2], [0, 0, 2, 0, 0])
    """
    chosen = torch.ones(result.shape, dtype=torch.bool) if mask is None else mask
    parts = _PART_OF[causes(result)[chosen].numpy()]
    x = result.x[chosen].to(torch.float64).numpy()
    lows, highs = _reach(result)
    some = (float(lows.min()), float(highs.max()))
    everywhere = (float(lows.max()), float(highs.min()))
    return HistogramData(
        values=_code_bars(result, chosen, parts) if _has_code_bins(result) else _value_bars(x, parts),
        errors=_error_bars(steps_of_error(result)[chosen].numpy(), parts),
        cells=len(x),
        block_count=result.layout.block_count,
        # Blocks that have no value in common are hinted at by the wider range alone.
        reached_by_all=everywhere if len(x) and everywhere[0] <= everywhere[1] else None,
        reached_by_some=some if len(x) else None,
    )


def _reach(result: QuantResult) -> tuple[Array, Array]:
    """The smallest and the largest value of each block's codes, float64."""
    ends = [_values(result, end) for end in (result.scheme.value_min, result.scheme.value_max)]
    return np.minimum(*ends), np.maximum(*ends)


def _values(result: QuantResult, unscaled: float | Array) -> Array:
    """What stands in each block for a value of the grid, float64: beyond float32 and between codes too."""
    scale = result.qparams.scale.to(torch.float64).numpy()
    zero_point = result.qparams.zero_point.to(torch.float64).numpy()
    domain = result.qparams.zero_domain
    if domain not in ("value", "value_middle"):
        return np.asarray(scale * (unscaled - zero_point))
    middle = (result.scheme.code_max + result.scheme.code_min + 1) // 2 if domain == "value_middle" else 0
    return np.asarray(scale * (unscaled - middle) + zero_point)


def _has_code_bins(result: QuantResult) -> bool:
    """Whether codes are equal steps of one scale, with ends half-way between them."""
    if result.layout.block_count > 1 or result.scheme.number_format.kind != "integer":
        return False
    return result.scheme.arithmetic.ties not in ("stochastic", "truncate") and bool(result.qparams.scale.to(torch.float64).abs() > 0)


def _code_bars(result: QuantResult, chosen: torch.Tensor, parts: Array) -> Bars:
    """One bin a code, or a power of two of them; beyond the codes there are, bins of the same size go on."""
    known = {name: values.squeeze() for name, values in block_values(result.qparams).items()}
    codes = run_operations(code_operations(result.scheme), {"x": result.x[chosen], **known})["y"].to(torch.float64).numpy()
    if not len(codes):
        return _bars(np.zeros(1), np.zeros(0, dtype=np.int64), parts)
    first, last = float(codes.min()), float(codes.max())
    if not last - first <= _WIDEST_CODES:  # a scale far too small: the codes there are would not be a pixel wide
        return _value_bars(result.x[chosen].to(torch.float64).numpy(), parts)
    size = 2 ** max(0, math.ceil(math.log2((last - first + 1) / MOST_BINS)))
    # Counted from the format's first code, so that its ends are ends of bins.
    start = result.scheme.code_min + math.floor((first - result.scheme.code_min) / size) * size
    bins = ((codes - start) // size).astype(np.int64)
    starts = start + size * np.arange(int(bins.max()) + 2, dtype=np.float64)
    edges = _values(result, starts - 0.5).ravel()
    numbers = starts[:-1].astype(np.int64) if abs(starts).max() < 2**53 else None
    if edges[0] > edges[-1]:  # a negative scale: the last code stands for the smallest value
        edges, bins, numbers = edges[::-1], bins.max() - bins, None if numbers is None else numbers[::-1]
    return _bars(edges, bins, parts, numbers, size)


def _value_bars(x: Array, parts: Array) -> Bars:
    """Bins of equal width from the smallest to the largest value."""
    if not len(x):
        return _bars(np.zeros(1), np.zeros(0, dtype=np.int64), parts)
    low, high = float(x.min()), float(x.max())
    if low == high:
        room = abs(low) / 2 or 0.5
        return _bars(np.array([low - room, high + room]), np.zeros(len(x), dtype=np.int64), parts)
    count = min(MOST_BINS, max(8, math.ceil(2 * len(x) ** 0.5)))
    bins = np.minimum((x - low) / (high - low) * count, count - 1).astype(np.int64)
    return _bars(np.linspace(low, high, count + 1), bins, parts)


def _error_bars(steps: Array, parts: Array) -> Bars:
    width = 1 / ERROR_BINS
    edges = np.linspace(-0.5 - width, 0.5 + width, ERROR_BINS + 3)
    # A scale of 0 has no steps: what came back exactly is in the middle, all else at an end.
    steps = np.nan_to_num(steps, nan=0.0, posinf=1.0, neginf=-1.0)
    # An unclipped error may pass half a step by a float's last bit.
    inside = 1 + np.clip(np.floor((steps + 0.5) * ERROR_BINS), 0, ERROR_BINS - 1)
    bins = np.where(parts == PARTS.index("clipped"), np.where(steps < 0, 0, ERROR_BINS + 1), inside).astype(np.int64)
    return _bars(edges, bins, parts)


def _bars(edges: Array, bins: Array, parts: Array, codes: Array | None = None, codes_per_bin: int = 1) -> Bars:
    count = len(edges) - 1
    table = np.bincount(bins + count * parts, minlength=count * len(PARTS))
    return Bars(edges, {part: table[i * count : (i + 1) * count] for i, part in enumerate(PARTS)}, codes, codes_per_bin)


# ---- drawing ------------------------------------------------------------------------------------


def histogram_figure(
    data: HistogramData, which: str = "values", *, language: str = DEFAULT_LANGUAGE, theme: str = "light", log_counts: bool = False, height: int = HEIGHT
) -> Figure:
    """One of the two histograms: "values" of x, with a strip below the bars where codes reach, or "errors" in steps.

    With `log_counts` a single cell still shows beside thousands.
    """
    colours = THEMES[theme]
    bars, words = (data.values, _value_words) if which == "values" else (data.errors, _error_words)
    layout = _layout(which, bars, colours, language, log_counts, height)
    if which == "values":
        layout["xaxis"] |= {"range": _value_span(data), "nticks": 7}
        layout["shapes"] = [*_strip(data.reached_by_some, faint(colours.muted, 0.45)), *_strip(data.reached_by_all, colours.muted)]
    else:
        span = [float(bars.edges[0]), float(bars.edges[-1])]
        layout["xaxis"] |= {"range": span, "tickvals": [-0.5, -0.25, 0, 0.25, 0.5], "ticktext": ["−½", "−¼", "0", "¼", "½"]}
    traces = _traces(bars, words(bars, language), colours, language)
    return Figure({"data": traces, "layout": layout}, _validate=False)  # type: ignore[no-untyped-call]


def _layout(which: str, bars: Bars, theme: Theme, language: str, log_counts: bool, height: int) -> dict[str, Any]:
    layout = bare_layout(theme, height, _MARGIN)
    layout["xaxis"] |= {"title": _title(f"{which}_axis", language), "showgrid": False, "ticks": "outside", "ticklen": 7, "tickcolor": "rgba(0,0,0,0)"}
    most = max(1, int(bars.totals.max(initial=0)))
    # On the log axis half a cell is the foot of the bars, so that a single cell still shows.
    counts = {"type": "log", "range": [math.log10(0.5), math.log10(1.3 * most)], "dtick": 1} if log_counts else {"range": [0, 1.05 * most], "nticks": 5}
    layout["yaxis"] |= {"title": _title("cells", language), **counts}
    legend = {
        "orientation": "h",
        "x": 1,
        "xanchor": "right",
        "y": 1,
        "yanchor": "bottom",
        "font": {"size": 11},
        "itemclick": False,
        "itemdoubleclick": False,
        "traceorder": "normal",
    }
    return layout | {"barmode": "stack", "bargap": 0, "showlegend": True, "legend": legend}


def _title(name: str, language: str) -> dict[str, Any]:
    return {"text": text(f"histogram.{name}", language), "standoff": 4, "font": {"size": 12}}


def _traces(bars: Bars, words: list[str], theme: Theme, language: str) -> list[dict[str, Any]]:
    """One set of bars a part that has any cells."""
    colours = {"kept": theme.values[1], "zeroed": theme.values[3], "clipped": theme.errors[3]}
    shown = [part for part in PARTS if bars.counts[part].any()]
    middles, widths = (bars.edges[1:] + bars.edges[:-1]) / 2, np.diff(bars.edges)
    return [
        {
            "type": "bar",
            "name": text(f"histogram.parts.{part}", language),
            "x": middles,
            "y": bars.counts[part],
            "width": widths,
            "hovertext": words,
            "hovertemplate": "%{hovertext}<br>%{fullData.name}: %{y}<extra></extra>",
            "marker": {"color": colours[part], "line": {"color": theme.surface, "width": 0.5 if len(middles) <= 48 else 0}},
        }
        for part in shown
    ]


def _value_span(data: HistogramData) -> list[float]:
    """The axis: the bars, and the values that codes reach unless the bars would become thin."""
    if not data.reached_by_some:
        return [-1.0, 1.0]
    low, high = float(data.values.edges[0]), float(data.values.edges[-1])
    wide = min(low, data.reached_by_some[0]), max(high, data.reached_by_some[1])
    if wide[1] - wide[0] <= 4 * (high - low):
        low, high = wide
    room = 0.02 * (high - low)
    return [low - room, high + room]


def _strip(reach: tuple[float, float] | None, colour: str) -> list[dict[str, Any]]:
    if reach is None:
        return []
    return [
        {"type": "rect", "xref": "x", "yref": "paper", "x0": reach[0], "x1": reach[1], "y0": -0.035, "y1": -0.005, "fillcolor": colour, "line": {"width": 0}}
    ]


def _value_words(bars: Bars, language: str) -> list[str]:
    """What each bar stands for, on hover."""
    spans = [text("histogram.span", language, low=number(low), high=number(high)) for low, high in zip(bars.edges[:-1], bars.edges[1:], strict=True)]
    if bars.codes is None:
        return spans
    last = bars.codes + bars.codes_per_bin - 1
    names = (number(one, 8) if one == other else f"{number(one, 8)} … {number(other, 8)}" for one, other in zip(bars.codes, last, strict=True))
    return [text("histogram.code", language, code=name) + "<br>" + span for name, span in zip(names, spans, strict=True)]


def _error_words(bars: Bars, language: str) -> list[str]:
    inner = [
        text("histogram.step_span", language, low=number(low, 3), high=number(high, 3))
        for low, high in zip(bars.edges[1:-2].round(6), bars.edges[2:-1].round(6), strict=True)
    ]
    return [text("histogram.below", language), *inner, text("histogram.above", language)]
