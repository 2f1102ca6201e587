"""Bits against SQNR: what each recipe makes of this very tensor, and what to take from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from quantviz.analysis.recipe_ranking import CURRENT, RecipeAnswer, RecipeRow, pareto_front
from quantviz.figures.contest_marks import (
    HOPELESS_DB,
    ROOM,
    Contest,
    TryPoint,
    contest_lines,
    contest_names,
    tries_trace,
    try_points,
)
from quantviz.figures.numbers import number
from quantviz.figures.payload import Drawn
from quantviz.figures.small_plots import SMALL_PLOT_CONFIG, bare_layout, faint
from quantviz.figures.theme import THEMES, Theme
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.recipes import MATRIX, recipe_name
from quantviz.text import DEFAULT_LANGUAGE, text

#: For `st.plotly_chart(config=…)`.
RECIPE_PLOT_CONFIG = SMALL_PLOT_CONFIG
#: The usual height in pixels.
HEIGHT = 300

#: Pixels of the frame around the plot: left, right, top, bottom.
_MARGIN = (44, 10, 8, 40)
#: Pixels between two labels one above the other.
_LINE = 15
#: Points at most so far apart, as a share of the plot's width, are labelled on the same side.
_CLUSTER = 0.15
#: Between a cluster and its labels, as a share of the plot's width.
_ASIDE = 0.07
#: Names that are written at most; the others are told on hover.
_MOST_LABELS = 15
#: A recipe nearly as good as one before it is not named too, in dB.
_NEARLY_DB = 0.5


@dataclass(frozen=True)
class RecipeLabel:
    """Where a name begins, in bits and dB, and on which side of its point."""

    x: float
    y: float
    side: str


@dataclass(frozen=True)
class RecipePoint:
    """One scheme in the plot."""

    row: RecipeRow
    #: dB at which it is drawn: its SQNR, or the top of the plot where there is no error, and the bottom where
    #: there is nothing else.
    y: float
    #: Whether some other recipe has no more bits and no less SQNR.
    beaten: bool
    #: Its name's place, where it is written.
    label: RecipeLabel | None


@dataclass(frozen=True)
class RecipePlotData:
    """What the plot shows."""

    #: The recipes that fit, and the scheme that is set now where it is none of them.
    points: tuple[RecipePoint, ...]
    #: The recipes no other one beats, by bits, as (bits, dB).
    front: tuple[tuple[float, float], ...]
    bits_range: tuple[float, float]
    db_range: tuple[float, float]
    tries: tuple[TryPoint, ...] = ()

    @property
    def current(self) -> RecipePoint | None:
        """Return the scheme that is set now."""
        return next((point for point in self.points if point.row.is_current), None)


def recipe_plot_data(
    rows: Iterable[RecipeRow],
    current: RecipeRow | None = None,
    *,
    height: int = HEIGHT,
    contest: Contest | None = None,
) -> RecipePlotData:
    """Return places of points and labels. Rows that do not fit the tensor are left out; without any, and
    without a contest, the plot is empty.

    Named are what is set now and the recipes that no other one beats; the others are told on hover.

    >>> from quantviz import Scheme
    >>> from quantviz.analysis.recipe_ranking import recipe_rows
    >>> data = recipe_plot_data(recipe_rows([[1.0, 2.0, 3.0, 40.0]], current=Scheme()))
    >>> data.points[0].row.id, data.current.row.id, [point.row.id for point in data.points if point.label][:3]
    ('int8_per_tensor', 'int8_per_tensor', ['int8_per_tensor', 'int4_per_tensor', 'int4_per_column'])
    """
    recipes = [row for row in rows if row.fits]
    alone = current is not None and current.fits and not any(row.is_current for row in recipes)
    shown = [*recipes, current] if current is not None and alone else recipes
    tried = contest.tries if contest else ()
    marks = [(contest.budget + off, contest.par_db) for off in ROOM] if contest else []
    # What is hopeless would leave the others no room: it is drawn at the bottom.
    lowest = contest.par_db - HOPELESS_DB if contest else -math.inf
    marks += [(row.bits, max(row.sqnr_db, lowest)) for row in (*shown, *tried)]
    bits_range, db_range = _bits_range([bits for bits, _ in marks]), _db_range([db for _, db in marks])
    margin = 0.06 * (db_range[1] - db_range[0])
    bottom, top = db_range[0] + margin, db_range[1] - margin
    heights = [max(bottom, min(row.sqnr_db, top)) for row in shown]
    gap = _LINE * (db_range[1] - db_range[0]) / (height - _MARGIN[2] - _MARGIN[3])
    front = pareto_front(recipes)
    named = [i for i, row in enumerate(shown) if row.is_current or row in _worth_naming(front)]
    sides = _label_sides([shown[i].bits for i in named], bits_range)
    places = _spread([heights[i] for i in named], gap, db_range)
    labels = {i: RecipeLabel(x, y, side) for i, (x, side), y in zip(named, sides, places, strict=True)}
    return RecipePlotData(
        points=tuple(
            RecipePoint(row, y, _is_beaten(row, front), labels.get(i))
            for i, (row, y) in enumerate(zip(shown, heights, strict=True))
        ),
        front=tuple((row.bits, max(bottom, min(row.sqnr_db, top))) for row in front),
        bits_range=bits_range,
        db_range=db_range,
        tries=tuple(try_points(contest, bottom, top)) if contest else (),
    )


def _worth_naming(front: Sequence[RecipeRow]) -> list[RecipeRow]:
    """Return the recipes to name: of those that no other one beats, the ones clearly better than the one
    before, as many as there is room for.
    """
    kept: list[RecipeRow] = []
    for row in front:
        if not kept or row.sqnr_db - kept[-1].sqnr_db >= _NEARLY_DB:
            kept.append(row)
    return kept[: _MOST_LABELS - 1]


def _is_beaten(row: RecipeRow, front: Iterable[RecipeRow]) -> bool:
    return any(
        other.bits <= row.bits
        and other.sqnr_db >= row.sqnr_db
        and (other.bits, other.sqnr_db) != (row.bits, row.sqnr_db)
        for other in front
    )


def _db_range(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)] or [0.0, 40.0]
    low, high = min(finite), max(finite)
    room = max(4.0, 0.12 * (high - low))
    # A scheme without any error is drawn at the top, above all others.
    return low - room, high + (3 if len(finite) < len(values) else 1) * room


def _bits_range(bits: Sequence[float]) -> tuple[float, float]:
    low, high = (min(bits), max(bits)) if bits else (4.0, 8.0)
    room = max(0.4, 0.06 * (high - low))
    return low - room, high + room


def _label_sides(bits: Sequence[float], bits_range: tuple[float, float]) -> list[tuple[float, str]]:
    """Return for each point where its label begins, in bits, and on which side: beside its cluster, toward
    the middle of the plot.
    """
    width, middle = bits_range[1] - bits_range[0], sum(bits_range) / 2
    places: dict[int, tuple[float, str]] = {}
    for cluster in _clusters(bits, _CLUSTER * width):
        low, high = bits[cluster[0]], bits[cluster[-1]]
        right = (low + high) / 2 <= middle
        for i in cluster:
            places[i] = (high + _ASIDE * width, "right") if right else (low - _ASIDE * width, "left")
    return [places[i] for i in range(len(bits))]


def _clusters(bits: Sequence[float], near: float) -> Iterator[list[int]]:
    """Split the places in `bits`, ascending, into runs whose neighbours are at most `near` apart."""
    cluster: list[int] = []
    for i in sorted(range(len(bits)), key=lambda i: bits[i]):
        if cluster and bits[i] - bits[cluster[-1]] > near:
            yield cluster
            cluster = []
        cluster.append(i)
    if cluster:
        yield cluster


def _spread(wanted: Sequence[float], gap: float, limits: tuple[float, float]) -> list[float]:
    """Return places at least `gap` apart, as near to the wanted ones as that allows, inside the limits.

    >>> _spread([5.0, 5.0, 9.0], 2.0, (0.0, 10.0))
    [4.0, 6.0, 9.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    low, high = limits[0] + gap / 2, limits[1] - gap / 2
    # Neighbours that touch are joined, and a joined group stands around the mean of what it wants.
    groups: list[list[float]] = []
    for rank, i in enumerate(order):
        groups.append([max(low + rank * gap, min(wanted[i], high - (len(order) - 1 - rank) * gap))])
        while len(groups) > 1 and _start(groups[-1], gap) < _start(groups[-2], gap) + len(groups[-2]) * gap:
            last = groups.pop()
            groups[-1] += last
    placed = [_start(group, gap) + i * gap for group in groups for i in range(len(group))]
    return [placed[order.index(i)] for i in range(len(wanted))]


def _start(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


# ---- words --------------------------------------------------------------------------------------


def answer_sentence(
    answer: RecipeAnswer | None, language: str = DEFAULT_LANGUAGE, axes: Axes = MATRIX
) -> str:
    """Return which recipe to use, in one or two sentences; empty without an answer.

    >>> from quantviz import Scheme
    >>> from quantviz.analysis.recipe_ranking import answer, recipe_rows
    >>> rows = recipe_rows([[0.1, 0.2, 0.3, 8.0], [0.3, -0.2, 0.1, 0.2]], current=Scheme())
    >>> found = answer(rows, target_db=30.0)
    >>> print(answer_sentence(found))  # doctest: +NORMALIZE_WHITESPACE
    To reach at least 30 dB with the fewest bits, use int4 per column: 32 dB at 4.004 bits.
    For comparison: Ternary, mean magnitude, 1.37 dB at 2 bits; MXFP6 E3M2, 48.7 dB at 6.25 bits.
    """
    if answer is None:
        return ""

    def facts(row: RecipeRow) -> dict[str, str]:
        return {
            "name": recipe_name(row.id, language, axes),
            "db": number(row.sqnr_db, 3),
            "bits": f"{row.bits:.4g}",
        }

    key = "reached" if answer.reached else "missed"
    sentences = [
        text(
            f"recipe_plot.answer.{key}", language, target=number(answer.target_db, 3), **facts(answer.choice)
        )
    ]
    others = [text("recipe_plot.answer.other", language, **facts(row)) for row in answer.others]
    if others:
        sentences.append(
            text(
                "recipe_plot.answer.others",
                language,
                others=text("recipe_plot.answer.between_others", language).join(others),
            )
        )
    return text("recipe_plot.answer.between", language).join(sentences)


# ---- drawing ------------------------------------------------------------------------------------


def recipe_plot_figure(
    rows: Iterable[RecipeRow],
    current: RecipeRow | None = None,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    height: int = HEIGHT,
    axes: Axes = MATRIX,
    contest: Contest | None = None,
) -> Drawn:
    """Return bits (x) against SQNR (y): a point a recipe, a line through those no other one beats, a ring
    around what is set now, or around the best try of a `contest`.

    `axes` are those of the tensor, which recipes per channel are named by.
    """
    data = recipe_plot_data(rows, current, height=height, contest=contest)
    colours = THEMES[theme]
    traces = [_front(data, colours), *_rings(data, colours), _points(data, colours, language, axes)]
    layout = _layout(data, colours, language, height, axes)
    if contest:
        traces.append(tries_trace(data.tries, colours, language))
        layout["shapes"] = contest_lines(contest, data.bits_range, colours)
        layout["annotations"] += contest_names(contest, data.bits_range, colours, language)
    return Drawn({"data": traces, "layout": layout})


def _front(data: RecipePlotData, theme: Theme) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [bits for bits, _ in data.front],
        "y": [db for _, db in data.front],
        "line": {"color": theme.values[1], "width": 1.5, "dash": "dot"},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _points(data: RecipePlotData, theme: Theme, language: str, axes: Axes) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [point.row.bits for point in data.points],
        "y": [point.y for point in data.points],
        # Recipes on the line are filled, those that another one beats are hollow.
        "marker": {
            "color": [theme.surface if point.beaten else theme.values[0] for point in data.points],
            "size": 8,
            "line": {"color": theme.values[0], "width": 1.5},
        },
        "text": [_hover(point.row, language, axes) for point in data.points],
        "customdata": [point.row.id for point in data.points],
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
    }


def _rings(data: RecipePlotData, theme: Theme) -> list[dict[str, Any]]:
    """Return a ring around what is set now."""
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [point.row.bits],
            "y": [point.y],
            "marker": {
                "symbol": "circle-open",
                "size": 17,
                "line": {"width": 2.5},
                "color": theme.errors[-1],
            },
            "hoverinfo": "skip",
            "showlegend": False,
        }
        for point in ([data.current] if data.current else [])
    ]


def _name(row: RecipeRow, language: str, axes: Axes, *, short: bool) -> str:
    return (
        text("recipe_plot.current", language)
        if row.id == CURRENT
        else recipe_name(row.id, language, axes, short=short)
    )


def _hover(row: RecipeRow, language: str, axes: Axes) -> str:
    return text(
        "recipe_plot.hover",
        language,
        name=_name(row, language, axes, short=False),
        db=number(row.sqnr_db, 3),
        bits=f"{row.bits:.4g}",
    )


def _layout(data: RecipePlotData, theme: Theme, language: str, height: int, axes: Axes) -> dict[str, Any]:
    layout = bare_layout(theme, height, _MARGIN)
    layout["xaxis"] |= {"range": list(data.bits_range), "title": _title("bits", language), "nticks": 8}
    layout["yaxis"] |= {"range": list(data.db_range), "title": _title("sqnr", language), "nticks": 6}
    return layout | {
        "annotations": [
            _label(point, point.label, theme, language, axes) for point in data.points if point.label
        ]
    }


def _title(name: str, language: str) -> dict[str, Any]:
    return {"text": text(f"recipe_plot.{name}", language), "standoff": 5, "font": {"size": 12}}


def _label(point: RecipePoint, place: RecipeLabel, theme: Theme, language: str, axes: Axes) -> dict[str, Any]:
    """Return the name, tied to its point by a thin line."""
    words = _name(point.row, language, axes, short=True) + (" ∞" if point.row.sqnr_db == math.inf else "")
    if point.row.is_current:
        if point.row.id != CURRENT:
            words = text("recipe_plot.is_current", language, name=words)
        words = f"<b>{words}</b>"
    return {
        "text": words,
        "x": point.row.bits,
        "y": point.y,
        "ax": place.x,
        "ay": place.y,
        "axref": "x",
        "ayref": "y",
        "xanchor": "left" if place.side == "right" else "right",
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": faint(theme.muted, 0.7),
        "standoff": 5,
        "bgcolor": faint(theme.surface, 0.8),
        "borderpad": 0,
        "font": {"size": 11, "color": theme.errors[-1] if point.row.is_current else theme.text},
    }
