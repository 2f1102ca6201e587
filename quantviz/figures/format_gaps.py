"""The gap between a format's neighbouring values over their magnitude."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantviz.figures.colour_ranges import Array
from quantviz.figures.format_line import row_paint
from quantviz.figures.numbers import number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import axis_title, bare_layout, scatter
from quantviz.figures.theme import THEMES, Theme
from quantviz.quantization.format_facts import gap_at, gap_steps
from quantviz.schemes.formats import NumberFormat
from quantviz.text import DEFAULT_LANGUAGE, text

GAPS_HEIGHT = 190


@dataclass(frozen=True, eq=False)
class GapLine:
    """One format's gap over the magnitude: a staircase."""

    format: NumberFormat
    #: Of its corners, magnitudes ascending.
    sizes: Array
    gaps: Array
    #: None beyond the ends.
    at_x: float | None


@dataclass(frozen=True, eq=False)
class GapData:
    """The gaps on the side of 0 that x lies on."""

    lines: tuple[GapLine, ...]
    x: float | None
    negative: bool


def gap_data(first: NumberFormat, second: NumberFormat | None = None, *, x: float | None = None) -> GapData:
    """Return the staircases of one or two formats.

    >>> from quantviz.schemes.formats import FORMATS
    >>> line = gap_data(FORMATS["float4_e2m1fn"], x=2.5).lines[0]
    >>> line.sizes.tolist(), line.gaps.tolist(), line.at_x
    ([0.25, 2.0, 2.0, 4.0, 4.0, 6.0], [0.5, 0.5, 1.0, 1.0, 2.0, 2.0], 1.0)
    """
    negative = x is not None and x < 0
    formats = (first,) if second is None else (first, second)
    steps = {fmt.id: gap_steps(fmt, negative) for fmt in formats}
    at_x = {fmt.id: None if x is None else gap_at(x, fmt) for fmt in formats}
    # On a logarithmic axis there is no 0: the first step begins at half its width (at half its end, where it
    # reaches across 0), and x is in view.
    starts = [min(each[0].gap, each[0].end) / 2 for each in steps.values() if each and not each[0].start]
    start = min(
        [*starts, *([abs(x)] if x and any(gap is not None for gap in at_x.values()) else [])], default=0.0
    )
    lines = []
    for fmt in formats:
        corners = [(size or start, step.gap) for step in steps[fmt.id] for size in (step.start, step.end)]
        sizes, gaps = (np.array([corner[i] for corner in corners], dtype=np.float64) for i in (0, 1))
        lines.append(GapLine(fmt, sizes, gaps, at_x[fmt.id]))
    return GapData(tuple(lines), x, negative)


def gap_figure(
    data: GapData,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    # Both axes are logarithmic; x is marked on each.
    colours = THEMES[theme]
    layout = bare_layout(colours, GAPS_HEIGHT, (52, 10, 8, 40))
    for name, key in (("xaxis", "size_negative" if data.negative else "size"), ("yaxis", "gap")):
        found = np.concatenate(
            [line.sizes if name == "xaxis" else line.gaps for line in data.lines] or [np.zeros(0)]
        )
        low, high = (math.log10(found.min()), math.log10(found.max())) if len(found) else (0.0, 1.0)
        room = 0.04 * (high - low) + 0.05
        title = axis_title(text(f"formats.figure.{key}", language), 4)
        span = high - low
        base = 10 if span > 2 else 2
        stride = next(
            each
            for each in (1, 2, 3, 5, 10, 20, 50, 100, 200)
            if span / math.log10(base) / each <= (8 if name == "xaxis" else 5)
        )
        powers = range(math.floor(low / math.log10(base)), math.ceil(high / math.log10(base)) + 1)
        ticks = [float(base) ** power for power in powers if power % stride == 0]
        layout[name] |= {
            "type": "log", "range": [low - room, high + room], "title": title,
            "ticks": "outside", "ticklen": 3, "tickvals": ticks,
            "ticktext": [number(tick) for tick in ticks], "tickfont": {"size": 12},
        }  # fmt: skip
    return UncheckedFigure({"data": list(_gap_traces(data, colours, language)), "layout": layout})


def _gap_traces(data: GapData, theme: Theme, language: str) -> Iterator[dict[str, Any]]:
    for row, line in enumerate(data.lines):
        colour = row_paint(theme, row)
        name = text(f"formats.{line.format.id}.name", language)
        said = text("formats.figure.gap_hover", language, name=name, size="%{x:.4g}", gap="%{y:.4g}")
        hover = f"{said}<extra></extra>"
        drawn = {"color": colour, "width": 2, "dash": "dot" if row else "solid"}
        yield scatter("lines", line.sizes, line.gaps, line=drawn, hovertemplate=hover)
        if data.x and line.at_x:
            rim = {"color": theme.surface, "width": 1.5}
            marker = {"color": colour, "size": 11, "line": rim}
            yield scatter("markers", [abs(data.x)], [line.at_x], marker=marker, hovertemplate=hover)
