"""The plots of learned rounding: its error by step, and every rounding of a few weights as dots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantviz.figures.numbers import short_number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import axis_title, bare_layout, scatter
from quantviz.figures.theme import THEMES
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.layers.methods.contract import CourseTrace
    from quantviz.layers.methods.every_rounding import EveryRounding
    from quantviz.layers.methods.learned_rounding import LearningTrace


def learning_figure(
    trace: LearningTrace | CourseTrace,
    *,
    height: int,
    axis: str = "step",
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return the output error that each looked-at rounding leaves, in per cent; a dot marks the one kept.

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
    layout = bare_layout(colours, height, (10, 10, 8, 36))
    layout["yaxis"] |= {"rangemode": "tozero", "title": axis_title(text("rounding_plots.error", language))}
    # The first number of one axis stays off that of the other.
    ends = [-0.02 * steps[-1], 1.03 * steps[-1]]
    layout["xaxis"] |= {
        "title": axis_title(text(f"rounding_plots.{axis}", language)),
        "showgrid": False,
        "range": ends,
    }
    return UncheckedFigure({"data": [line, kept], "layout": layout})


def every_figure(
    every: EveryRounding, *, height: int, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> UncheckedFigure:
    """Return each rounding as a dot, its error upwards and its flips across; methods are marked."""
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
    layout = bare_layout(colours, height, (10, 10, 8, 36))
    layout["yaxis"] |= {"rangemode": "tozero", "title": axis_title(text("rounding_plots.error", language))}
    layout["xaxis"] |= {
        "title": axis_title(text("rounding_plots.flips", language)),
        "showgrid": False,
        "dtick": 1,
    }
    layout["showlegend"] = True
    layout["legend"] = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}}
    layout["margin"]["t"] = 28
    return UncheckedFigure({"data": [dots, *named], "layout": layout})
