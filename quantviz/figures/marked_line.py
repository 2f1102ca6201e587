"""SQNR against a count, such as that of bits: the gain of each further one on one tensor."""

from __future__ import annotations

from collections.abc import Sequence

from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import bare_layout
from quantviz.figures.theme import THEMES
from quantviz.text import DEFAULT_LANGUAGE, text

_HEIGHT = 190
#: Enlarged it is so high before that, with so many numbers beside it.
_LOWEST = 82
_FEW_TICKS = 4
_BESIDE = 8.6
#: Up to so many places each has a number on the axis.
_MOST_TICKS = 10


def marked_line_figure(
    points: Sequence[tuple[int, float]],
    marked: int | None,
    *,
    counted: str,
    theme: str,
    language: str = DEFAULT_LANGUAGE,
    enlarge: float = 1.0,
) -> UncheckedFigure:
    """Return the plot of counts and SQNR in dB; the point with `marked` of them is larger.

    `counted` is the key of the words for the count, and `theme` one of `THEMES`. `enlarge` makes text so many
    times larger, for the back of a room.
    """
    own = THEMES[theme]
    layout = bare_layout(own, round(max(_HEIGHT, _LOWEST * enlarge)), (8, 12, 8, 8))
    if enlarge > 1:
        layout["font"]["size"] *= enlarge
        layout["yaxis"]["nticks"] = _FEW_TICKS
    counts = [count for count, _ in points]
    layout["xaxis"] |= {"title": {"text": text(counted, language)}}
    if len(counts) <= _MOST_TICKS:
        layout["xaxis"]["tickvals"] = counts
    layout["yaxis"] |= {"title": {"text": text("lessons.plot_sqnr", language)}}
    if enlarge > 1:
        # It stands along a side that has not become as much longer.
        layout["yaxis"]["title"]["font"] = {"size": _BESIDE * enlarge}
    stands_out = [count == marked for count in counts]
    line = {
        "type": "scatter",
        "x": counts,
        "y": [db for _, db in points],
        "mode": "lines+markers",
        "line": {"color": own.muted, "width": 1.5},
        "marker": {
            "color": [own.accent if each else own.muted for each in stands_out],
            "size": [enlarge * (12 if each else 6) for each in stands_out],
        },
        "hovertemplate": "%{x} · %{y:.3g} dB<extra></extra>",
    }
    return UncheckedFigure({"data": [line], "layout": layout})
