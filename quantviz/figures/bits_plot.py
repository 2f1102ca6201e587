"""SQNR against bits: what each further bit is worth on one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quantviz.figures.small_plots import bare_layout
from quantviz.figures.theme import THEMES
from quantviz.text import DEFAULT_LANGUAGE, text

_HEIGHT = 190


def bits_figure(
    points: Sequence[tuple[int, float]], now: int, *, theme: str, language: str = DEFAULT_LANGUAGE
) -> dict[str, Any]:
    """Return the plot of bits and SQNR in dB as plotly takes it; the point with `now` bits is marked.

    `theme` is one of `THEMES`.
    """
    own = THEMES[theme]
    layout = bare_layout(own, _HEIGHT, (8, 12, 8, 8))
    layout["xaxis"] |= {"title": {"text": text("lessons.plot_bits", language)}, "dtick": 1}
    layout["yaxis"] |= {"title": {"text": text("lessons.plot_sqnr", language)}}
    marked = [bits == now for bits, _ in points]
    line = {
        "type": "scatter",
        "x": [bits for bits, _ in points],
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
