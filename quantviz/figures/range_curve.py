"""The scale of an activation against the number of batches, and its spread over orders of the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantviz.figures.numbers import short_number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import axis_title, bare_layout, note, scatter
from quantviz.figures.theme import THEMES, translucent
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.quantization.batch_ranges import BatchRanges


def range_curve(
    found: BatchRanges,
    *,
    height: int,
    width: int | None = None,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return the curve of the scale in the order given within its smallest and largest over all orders, and
    the batches after which it is settled.

    Args:
        found: The ranges.
        height: CSS pixels.
        width: CSS pixels of a figure by itself, on a page of the theme's own colour; None takes its place's.
        language: The language of the words.
        theme: One of `THEMES`.
    """
    colours = THEMES[theme]
    accent = colours.accent
    counts = list(range(1, len(found.scale) + 1))
    least, scale, most = (values.tolist() for values in (found.least_scale, found.scale, found.most_scale))
    words = [
        text(
            "range_curve.hover",
            language,
            count=count,
            **dict(zip(("scale", "least", "most"), ends, strict=True)),
        )
        for count, *ends in zip(
            counts, *(map(short_number, values) for values in (scale, least, most)), strict=True
        )
    ]
    line = {"color": accent, "width": 2}
    nothing = {"width": 0, "color": accent}
    marker = {"size": 5, "color": accent}
    traces = [
        scatter("lines", counts, least, line=nothing, hoverinfo="skip"),
        scatter(
            "lines",
            counts,
            most,
            line=nothing,
            hoverinfo="skip",
            fill="tonexty",
            fillcolor=translucent(accent, 0.25),
        ),
        scatter("lines+markers", counts, scale, line=line, marker=marker, hover=words),
    ]
    layout = bare_layout(colours, height, (56, 12, 24, 42))
    layout["xaxis"] |= {"title": axis_title(text("range_curve.batches", language)), "showgrid": False}
    layout["yaxis"] |= {"title": axis_title(text("range_curve.scale", language)), "rangemode": "tozero"}
    if found.settled <= len(counts):
        at = found.settled
        layout["shapes"] = [
            {
                "type": "line",
                "x0": at,
                "x1": at,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": colours.muted, "dash": "dot", "width": 1},
            }
        ]
        settled = text("range_curve.settled", language, count=at)
        side = "bottom left" if 2 * at <= len(counts) else "bottom right"
        layout["annotations"] = [note(settled, at, 1.0, colours.muted, side, xref="x")]
    if width is not None:
        layout |= {"width": width, "paper_bgcolor": colours.surface}
    return UncheckedFigure({"data": traces, "layout": layout})
