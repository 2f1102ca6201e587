"""Size against SQNR: the best allocation at each size, and each recipe given to all tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quantviz.checkpoints.allocation.frontier import Frontier, FrontierPoint
from quantviz.figures.numbers import number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import (
    bare_layout,
    label_sides,
    name_beside,
    scatter,
    spread,
)
from quantviz.figures.theme import THEMES, Theme
from quantviz.schemes.recipes import RECIPES, recipe_name
from quantviz.text import DEFAULT_LANGUAGE, text

HEIGHT = 320

#: Around the plot: left, right, top, bottom; and between two names one above the other.
_MARGIN = (48, 12, 8, 44)
_LINE = 15


@dataclass(frozen=True)
class AllocationPlotData:
    """The line and points, each as (bits a weight, or in all, and dB)."""

    line: tuple[tuple[float, float], ...]
    uniform: tuple[tuple[str, float, float], ...]
    chosen: tuple[float, float] | None
    #: Else x is bits in all.
    per_weight: bool
    x_range: tuple[float, float]
    db_range: tuple[float, float]


def allocation_plot_data(frontier: Frontier, chosen: FrontierPoint | None = None) -> AllocationPlotData:
    """Return the places of points with a finite SQNR, and of the `chosen` allocation."""
    points = (*frontier.points, *frontier.uniform, *([chosen] if chosen else []))
    per_weight = all(point.bits_per_weight is not None for point in points)

    def place(point: FrontierPoint) -> tuple[float, float]:
        return (point.bits_per_weight or 0.0) if per_weight else float(point.bits), point.sqnr_db

    def drawn(of: Sequence[FrontierPoint]) -> list[FrontierPoint]:
        return [point for point in of if math.isfinite(point.sqnr_db)]

    places = [place(point) for point in drawn(points)] or [(4.0, 0.0), (8.0, 40.0)]
    return AllocationPlotData(
        tuple(place(point) for point in drawn(frontier.points)),
        tuple((point.recipe or "", *place(point)) for point in drawn(frontier.uniform)),
        place(chosen) if chosen and math.isfinite(chosen.sqnr_db) else None,
        per_weight,
        _with_room([x for x, _ in places]),
        _with_room([db for _, db in places]),
    )


def _with_room(values: Sequence[float]) -> tuple[float, float]:
    low = min(values)
    high = max(values)
    room = 0.08 * (high - low) or 0.5
    return low - room, high + room


def allocation_plot_figure(
    frontier: Frontier,
    chosen: FrontierPoint | None = None,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return size against SQNR: the smallest error as a line, each recipe alone, and the `chosen` point."""
    data = allocation_plot_data(frontier, chosen)
    colours = THEMES[theme]
    layout = bare_layout(colours, HEIGHT, _MARGIN)
    unit = "per_weight" if data.per_weight else "in_all"
    for axis, key, ends in (("xaxis", unit, data.x_range), ("yaxis", "sqnr", data.db_range)):
        words = text(f"allocation_plot.{key}", language)
        layout[axis] |= {"range": list(ends), "nticks": 7, "title": {"text": words, "standoff": 6}}
    layout["annotations"] = _names(data, colours, language)
    traces = [_line(data, colours, language), *_points(data, colours, language)]
    return UncheckedFigure({"data": traces, "layout": layout})


def _line(data: AllocationPlotData, theme: Theme, language: str) -> dict[str, Any]:
    hover = [_told("smallest", x, db, data, language) for x, db in data.line]
    sizes = [x for x, _ in data.line]
    db = [db for _, db in data.line]
    return scatter("lines", sizes, db, hover=hover, line={"color": theme.accent, "width": 2})


def _points(data: AllocationPlotData, theme: Theme, language: str) -> list[dict[str, Any]]:
    uniform = scatter(
        "markers",
        [x for _, x, _ in data.uniform],
        [db for _, _, db in data.uniform],
        hover=[
            _told("uniform", x, db, data, language, _name(name, language)) for name, x, db in data.uniform
        ],
        marker={"color": theme.surface, "size": 8, "line": {"color": theme.values[-1], "width": 2}},
    )
    if data.chosen is None:
        return [uniform]
    x, db = data.chosen
    hover = [_told("chosen", x, db, data, language)]
    marker = {"color": theme.errors[-1], "size": 11}
    return [uniform, scatter("markers", [x], [db], hover=hover, marker=marker)]


def _told(key: str, x: float, db: float, data: AllocationPlotData, language: str, name: str = "") -> str:
    size = f"{x:.4g}" if data.per_weight else f"{x:,.0f}"
    unit = text(f"allocation_plot.{'per_weight' if data.per_weight else 'in_all'}", language)
    return text(f"allocation_plot.{key}", language, size=size, unit=unit, db=number(db, 3), name=name)


def _name(recipe: str, language: str) -> str:
    return recipe_name(recipe, language, short=True) if recipe in RECIPES else recipe


def _names(data: AllocationPlotData, theme: Theme, language: str) -> list[dict[str, Any]]:
    # None touches another.
    if not data.uniform:
        return []
    low, high = data.db_range
    gap = (high - low) * _LINE / (HEIGHT - _MARGIN[2] - _MARGIN[3])
    sides = label_sides([x for _, x, _ in data.uniform], data.x_range)
    heights = spread([db for *_, db in data.uniform], gap, data.db_range)
    return [
        name_beside(_name(name, language), (x, db), (start, at), side, theme.text, theme)
        for (name, x, db), (start, side), at in zip(data.uniform, sides, heights, strict=True)
    ]
