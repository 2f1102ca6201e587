"""Lines of a number over a count, and every rounding of a few weights as dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quantviz.figures.numbers import short_number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import axis_title, bare_layout, note, scatter, shape
from quantviz.figures.theme import THEMES, Theme, translucent
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.layers.methods.contract import CourseTrace
    from quantviz.layers.methods.every_rounding import EveryRounding
    from quantviz.layers.methods.learned_rounding import LearningTrace
    from quantviz.quantization.batch_ranges import BatchRanges

_HEIGHT = 190
#: The height before enlarging, with so many numbers beside it.
_LOWEST = 82
_FEW_TICKS = 4
_BESIDE = 8.6
#: Each place has a number on the axis.
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
    """Return counts and SQNR in dB; the `marked` one is larger.

    `counted` is the key of the count's words. `enlarge` makes text larger, for the back of a room.
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
    line = scatter(
        "lines+markers",
        counts,
        [db for _, db in points],
        line={"color": own.muted, "width": 1.5},
        marker={
            "color": [own.accent if each else own.muted for each in stands_out],
            "size": [enlarge * (12 if each else 6) for each in stands_out],
        },
        hovertemplate="%{x} · %{y:.3g} dB<extra></extra>",
    )
    return UncheckedFigure({"data": [line], "layout": layout})


def range_curve(
    found: BatchRanges,
    *,
    height: int,
    width: int | None = None,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return the curve of the scale within its ends over all orders, and the batches that settle it.

    A `width` is that of a figure by itself, on a page of the theme's own colour.
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
    # The spread is an area between two lines.
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


def learning_figure(
    trace: LearningTrace | CourseTrace,
    *,
    height: int,
    axis: str = "step",
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return the output error of each looked-at rounding, in per cent; a dot marks the one kept.

    `axis` names the words of the looks under `[rounding_plots]`.
    """
    colours = THEMES[theme]
    steps = [round(step, 4) for step in trace.steps.tolist()]
    errors = [100 * each for each in trace.errors.tolist()]
    line = scatter(
        "lines",
        steps,
        errors,
        hover=[f"{step}: {short_number(error)} %" for step, error in zip(steps, errors, strict=True)],
        line={"color": colours.schemes[0], "width": 2},
    )
    kept = scatter(
        "markers",
        [steps[trace.best]],
        [errors[trace.best]],
        hover=[f"{steps[trace.best]}: {short_number(errors[trace.best])} %"],
        marker={"size": 12, "color": colours.accent, "line": {"width": 2, "color": colours.surface}},
    )
    kept["cliponaxis"] = False
    # The first number of one axis stays off that of the other.
    ends = [-0.02 * steps[-1], 1.03 * steps[-1]]
    layout = _layout_of_errors(colours, height, axis, language, range=ends)
    return UncheckedFigure({"data": [line, kept], "layout": layout})


def every_figure(
    every: EveryRounding, *, height: int, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> UncheckedFigure:
    """Return each rounding's error over its flips as a dot; methods are marked."""
    colours = THEMES[theme]
    flips = every.flips.tolist()
    errors = [100 * each for each in every.errors.tolist()]
    # Dots of one column lie side by side, in the order in which they are counted.
    seen: dict[int, int] = {}
    places = []
    for count in flips:
        seen[count] = seen.get(count, 0) + 1
        places.append(count + 0.7 * ((seen[count] * 0.618) % 1 - 0.5))
    dots = scatter(
        "markers",
        places,
        errors,
        hover=[f"{short_number(error)} %" for error in errors],
        marker={"size": 4, "color": colours.muted, "opacity": 0.55},
        showlegend=False,
    )
    marks = {"nearest": (errors[0], places[0])} | {
        name: (100 * error, float(count)) for name, (error, count) in every.marks.items()
    }
    # Methods that end at the same rounding lie inside of each other.
    looks = zip(("circle", "diamond", "square"), (19, 15, 9), (colours.text, *colours.schemes), strict=False)
    named = []
    for (name, (error, place)), (symbol, size, shade) in zip(marks.items(), looks, strict=True):
        words = text(f"rounding_plots.{name}", language)
        look = {"size": size, "symbol": symbol, "color": shade}
        look["line"] = {"width": 1.5, "color": colours.surface}
        hover = [f"{words}: {short_number(error)} %"]
        mark = scatter("markers", [place], [error], hover=hover, marker=look)
        named.append({**mark, "name": words, "showlegend": True, "cliponaxis": False})
    layout = _layout_of_errors(colours, height, "flips", language, dtick=1)
    layout["showlegend"] = True
    layout["legend"] = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}}
    layout["margin"]["t"] = 28
    return UncheckedFigure({"data": [dots, *named], "layout": layout})


def _layout_of_errors(theme: Theme, height: int, axis: str, language: str, **across: Any) -> dict[str, Any]:
    # `across` are other properties of the axis.
    layout = bare_layout(theme, height, (10, 10, 8, 36))
    layout["yaxis"] |= {"rangemode": "tozero", "title": axis_title(text("rounding_plots.error", language))}
    title = axis_title(text(f"rounding_plots.{axis}", language))
    layout["xaxis"] |= {"title": title, "showgrid": False, **across}
    return layout
