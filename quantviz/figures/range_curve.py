"""The scale of an activation against the number of batches, and its spread over orders of the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantviz.figures.numbers import short_number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import axis_title, bare_layout, note, scatter, shape
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
    traces = _traces(found, colours.accent, language)
    layout = bare_layout(colours, height, (56, 12, 24, 42))
    layout["xaxis"] |= {"title": axis_title(text("range_curve.batches", language)), "showgrid": False}
    layout["yaxis"] |= {"title": axis_title(text("range_curve.scale", language)), "rangemode": "tozero"}
    if found.settled <= len(found.scale):
        at = found.settled
        line = {"color": colours.muted, "dash": "dot", "width": 1}
        layout["shapes"] = [shape("line", (at, at), (0, 1), line, yref="paper")]
        settled = text("range_curve.settled", language, count=at)
        side = "bottom left" if 2 * at <= len(found.scale) else "bottom right"
        layout["annotations"] = [note(settled, at, 1.0, colours.muted, side, xref="x")]
    if width is not None:
        layout |= {"width": width, "paper_bgcolor": colours.surface}
    return UncheckedFigure({"data": traces, "layout": layout})


def _traces(found: BatchRanges, colour: str, language: str) -> list[dict[str, Any]]:
    """Return the spread as an area between two lines, and the curve of the order given."""
    counts = list(range(1, len(found.scale) + 1))
    least, scale, most = (values.tolist() for values in (found.least_scale, found.scale, found.most_scale))
    words = [
        text(
            "range_curve.hover",
            language,
            count=count,
            scale=short_number(scale[count - 1]),
            least=short_number(least[count - 1]),
            most=short_number(most[count - 1]),
        )
        for count in counts
    ]
    bare: dict[str, Any] = {"line": {"width": 0, "color": colour}, "hoverinfo": "skip"}
    return [
        scatter("lines", counts, least, **bare),
        scatter("lines", counts, most, **bare, fill="tonexty", fillcolor=translucent(colour, 0.25)),
        scatter(
            "lines+markers",
            counts,
            scale,
            line={"color": colour, "width": 2},
            marker={"size": 5, "color": colour},
            hover=words,
        ),
    ]
