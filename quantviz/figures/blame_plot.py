"""SQNR against how many parts are kept in 16 bits: what each further one is worth on one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quantviz.figures.small_plots import bare_layout
from quantviz.figures.theme import THEMES
from quantviz.text import DEFAULT_LANGUAGE, text

HEIGHT = 216


def blame_figure(
    points: Sequence[tuple[int, float]], chosen: int | None, *, theme: str, language: str = DEFAULT_LANGUAGE
) -> dict[str, Any]:
    """Return the plot of kept parts and the whole tensor's SQNR in dB as plotly takes it; the point with
    `chosen` parts is marked.

    `theme` is one of `THEMES`.
    """
    own = THEMES[theme]
    layout = bare_layout(own, HEIGHT, (8, 12, 8, 8))
    counts = [count for count, _ in points]
    layout["xaxis"] |= {
        "title": {"text": text("blame.plot_kept", language)},
        "tickvals": counts if len(counts) <= 10 else None,
        "rangemode": "tozero",
    }
    layout["yaxis"] |= {"title": {"text": text("blame.plot_sqnr", language)}}
    marked = [count == chosen for count in counts]
    line = {
        "type": "scatter",
        "x": counts,
        "y": [db for _, db in points],
        "mode": "lines+markers",
        "line": {"color": own.muted, "width": 1.5},
        "marker": {
            "color": [own.accent if each else own.muted for each in marked],
            "size": [12 if each else 6 for each in marked],
        },
        "hovertemplate": "%{x} · %{y:.3g} dB<extra></extra>",
    }
    return {"data": [line], "layout": layout}
