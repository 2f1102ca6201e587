"""Bits against SQNR: each recipe on the tensor, the best, and the bounds of any quantizer if known."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantviz.analysis.recipe_ranking import CURRENT, RecipeAnswer, RecipeRow, pareto_front
from quantviz.figures.contest_marks import (
    HOPELESS_DB,
    ROOM,
    Contest,
    TryPoint,
    contest_lines,
    contest_names,
    ghosts_trace,
    tries_trace,
    try_points,
)
from quantviz.figures.numbers import number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.rate_lines import LineKey, line_traces, row_name, trails_trace
from quantviz.figures.small_plots import (
    SMALL_PLOT_CONFIG,
    axis_title,
    bare_layout,
    label_sides,
    name_beside,
    scatter,
    spread,
)
from quantviz.figures.theme import THEMES, Theme, translucent
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.granularity import Shape
from quantviz.schemes.recipes import MATRIX, RECIPES, recipe_name
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.analysis.rate_distortion import RateDistortion

RECIPE_PLOT_CONFIG = SMALL_PLOT_CONFIG
HEIGHT = 380
#: As they are stored, or if codes were entropy-coded.
STORED = "stored"
CODED = "coded"
BITS = (STORED, CODED)
#: Filled in by `RateDistortion`.
_OF_KNOWN = ("trail", "above_lloyd_max", "entropy_bits")

#: Around the plot: left, right, top, bottom.
_MARGIN = (44, 10, 8, 40)
#: Pixels from label to label.
_LINE = 15
#: Of the line through unbeaten points.
_FRONT_DASH = "4px,2px"
#: Of the height, at the bottom and top, without a point.
_EDGE = 0.06
#: The others are named on hover.
_MOST_LABELS = 8
#: Among lines and group sizes, which need room too.
_FEW_LABELS = 6
#: A recipe no better than this over one before it is not named, in dB.
_NEARLY_DB = 0.5
#: With group sizes, formats of more bits would leave the others half the room.
_MOST_BITS = 10.0


@dataclass(frozen=True)
class RecipePlotStyle:
    language: str = DEFAULT_LANGUAGE
    theme: str = "light"
    height: int = HEIGHT
    #: Names of channels.
    axes: Axes = MATRIX


_USUAL_STYLE = RecipePlotStyle()


@dataclass(frozen=True)
class RecipeLabel:
    """A name's beginning, in bits and dB, and its side."""

    x: float
    y: float
    side: str


@dataclass(frozen=True)
class RecipePoint:
    row: RecipeRow
    #: Drawn dB are its SQNR, or the top without an error, the bottom without anything else.
    x: float
    y: float
    #: Another recipe has no more bits and no less SQNR.
    beaten: bool
    #: Above the line of Lloyd–Max, one quantizer for all values.
    above: bool
    label: RecipeLabel | None


@dataclass(frozen=True)
class RecipePlotData:
    #: Recipes that fit, and the current scheme if it is none of them.
    points: tuple[RecipePoint, ...]
    #: Unbeaten recipes, by bits, as (bits, dB).
    front: tuple[tuple[float, float], ...]
    bits_range: tuple[float, float]
    db_range: tuple[float, float]
    tries: tuple[TryPoint, ...] = ()
    #: A contest's recipes without names.
    ghosts: tuple[tuple[float, float], ...] = ()
    #: Named on hover alone: group sizes that are no recipe's.
    sizes: tuple[RecipePoint, ...] = ()
    #: Of more bits than there is room for.
    beyond: tuple[RecipeRow, ...] = ()

    @property
    def above(self) -> tuple[RecipeRow, ...]:
        """Return the rows above one quantizer for all values: recipes, then other group sizes."""
        return tuple(point.row for point in (*self.points, *self.sizes) if point.above)

    @property
    def current(self) -> RecipePoint | None:
        return next((point for point in self.points if point.row.is_current), None)


def recipe_plot_data(
    rows: Iterable[RecipeRow],
    current: RecipeRow | None = None,
    *,
    height: int = HEIGHT,
    contest: Contest | None = None,
    known: RateDistortion | None = None,
    bits: str = STORED,
) -> RecipePlotData:
    """Return places of points and labels of the rows that fit; without any or a contest it is empty.

    The current scheme and unbeaten recipes have labels; others are named on hover. `known` adds other group
    sizes, and `CODED` bits.

    >>> from quantviz import Scheme
    >>> from quantviz.analysis.recipe_ranking import recipe_rows
    >>> data = recipe_plot_data(recipe_rows([[1.0, 2.0, 3.0, 40.0]], current=Scheme()))
    >>> data.points[0].row.id, data.current.row.id, [point.row.id for point in data.points if point.label][:3]
    ('int8_per_tensor', 'int8_per_tensor', ['int8_per_tensor', 'int4_per_tensor', 'int4_per_column'])
    """
    recipes = [row for row in rows if row.fits]
    alone = current is not None and current.fits and not any(row.is_current for row in recipes)
    shown = [*recipes, current] if current is not None and alone else recipes
    sizes: list[RecipeRow] = []
    beyond: list[RecipeRow] = []
    if known:
        shown, sizes = _joined(shown, known)
        beyond = [row for row in sizes if row.bits > _MOST_BITS]
        sizes = [row for row in sizes if row.bits <= _MOST_BITS]
    if bits == CODED:
        shown, sizes = ([row for row in part if math.isfinite(row.entropy_bits)] for part in (shown, sizes))
    x_of = {id(row): row.entropy_bits if bits == CODED else row.bits for row in (*shown, *sizes)}
    frame = _framed(shown, sizes, x_of, contest)
    best = _front_of([row for row in shown if row.id != CURRENT], shown, x_of)
    front = _front_of([*best, *sizes], [*shown, *sizes], x_of) if sizes else best
    places = [(x_of[id(row)], row.sqnr_db) for row in front]
    worth = _worth_naming(best, _FEW_LABELS if known else _MOST_LABELS)
    named = [i for i, row in enumerate(shown) if row.is_current or row in worth]
    sides = label_sides([x_of[id(shown[i])] for i in named], frame.bits_range)
    heights = spread([frame.height_of(shown[i]) for i in named], frame.line_db(height), frame.db_range)
    labels = {i: RecipeLabel(x, y, side) for i, (x, side), y in zip(named, sides, heights, strict=True)}

    def point(row: RecipeRow, label: RecipeLabel | None = None) -> RecipePoint:
        at = x_of[id(row)]
        db = row.sqnr_db
        above = known is not None and known.line("lloyd_max").is_below(at, db)
        beaten = any(x <= at and y >= db and (x, y) != (at, db) for x, y in places)
        return RecipePoint(row, at, frame.height_of(row), beaten, above, label)

    return RecipePlotData(
        points=tuple(point(row, labels.get(i)) for i, row in enumerate(shown)),
        front=tuple((x_of[id(row)], frame.height_of(row)) for row in front),
        bits_range=frame.bits_range,
        db_range=frame.db_range,
        tries=tuple(try_points(contest, frame.bottom, frame.top)) if contest else (),
        ghosts=tuple((row.bits, frame.height_of(row)) for row in contest.ghosts) if contest else (),
        sizes=tuple(map(point, sizes)),
        beyond=tuple(beyond),
    )


@dataclass(frozen=True)
class _AxisRanges:
    bits_range: tuple[float, float]
    db_range: tuple[float, float]

    @property
    def bottom(self) -> float:
        return self.db_range[0] + _EDGE * (self.db_range[1] - self.db_range[0])

    @property
    def top(self) -> float:
        return self.db_range[1] - _EDGE * (self.db_range[1] - self.db_range[0])

    def height_of(self, row: RecipeRow) -> float:
        return max(self.bottom, min(row.sqnr_db, self.top))

    def line_db(self, height: int) -> float:
        # Of a line of text.
        return _LINE * (self.db_range[1] - self.db_range[0]) / (height - _MARGIN[2] - _MARGIN[3])


def _framed(
    shown: Sequence[RecipeRow],
    sizes: Sequence[RecipeRow],
    x_of: Mapping[int, float],
    contest: Contest | None,
) -> _AxisRanges:
    # `x_of` are the bits by the rows' `id`.
    marks: list[tuple[float, float]] = []
    lowest = -math.inf
    if contest:
        # A hopeless scheme would leave the others no room: it is drawn at the bottom.
        lowest = contest.par_db - HOPELESS_DB
        marks += [(contest.budget + off, contest.par_db) for off in ROOM]
        marks += [(row.bits, max(row.sqnr_db, lowest)) for row in (*contest.tries, *contest.ghosts)]
    marks += [(x_of[id(row)], max(row.sqnr_db, lowest)) for row in shown]
    lowest = max(lowest, min((db for _, db in marks if math.isfinite(db)), default=lowest))
    marks += [(x_of[id(row)], max(row.sqnr_db, lowest)) for row in sizes]
    bits = [at for at, _ in marks] or [4.0, 8.0]
    room = max(0.4, 0.06 * (max(bits) - min(bits)))
    return _AxisRanges((min(bits) - room, max(bits) + room), _db_range([db for _, db in marks]))


def _front_of(
    rows: Sequence[RecipeRow], every: Sequence[RecipeRow], x_of: Mapping[int, float]
) -> list[RecipeRow]:
    # By bits along x, then in the order of `every`.
    placed = {id(row): dataclasses.replace(row, bits=x_of[id(row)]) for row in rows}
    unbeaten = {id(row) for row in pareto_front(placed.values())}
    front = (row for row in every if id(placed.get(id(row))) in unbeaten)
    return sorted(front, key=lambda row: x_of[id(row)])


def _joined(shown: Sequence[RecipeRow], known: RateDistortion) -> tuple[list[RecipeRow], list[RecipeRow]]:
    """Return the rows with all fields, the current one among them, and the rows of other group sizes."""
    by_id = {row.id: row for row in known.rows}
    by_scheme = {row.scheme: row for row in known.rows if row.fits}
    joined = []
    for row in shown:
        known_row = by_scheme.get(row.scheme) if row.id == CURRENT else by_id.get(row.id)
        facts = {name: getattr(known_row, name) for name in _OF_KNOWN} if known_row else {}
        joined.append(dataclasses.replace(row, **facts))
    taken = {row.scheme for row in shown}
    return joined, [
        row for row in known.rows if row.fits and row.id not in RECIPES and row.scheme not in taken
    ]


def _worth_naming(front: Sequence[RecipeRow], most: int) -> list[RecipeRow]:
    """Return the recipes to name: each clearly better than the one before, spread over the unbeaten."""
    kept: list[RecipeRow] = []
    for row in front:
        if not kept or row.sqnr_db - kept[-1].sqnr_db >= _NEARLY_DB:
            kept.append(row)
    most -= 1  # one label is the current scheme's
    return kept if len(kept) <= most else [kept[i * (len(kept) - 1) // (most - 1)] for i in range(most)]


def _db_range(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)] or [0.0, 40.0]
    low = min(finite)
    high = max(finite)
    room = max(4.0, 0.12 * (high - low))
    # A scheme without any error is drawn at the top, above all others.
    return low - room, high + (3 if len(finite) < len(values) else 1) * room


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
    target = number(answer.target_db, 3)
    sentences = [text(f"recipe_plot.answer.{key}", language, target=target, **facts(answer.choice))]
    if answer.others:
        between = text("recipe_plot.answer.between_others", language)
        others = between.join(
            text("recipe_plot.answer.other", language, **facts(row)) for row in answer.others
        )
        sentences.append(text("recipe_plot.answer.others", language, others=others))
    return text("sentences.between", language).join(sentences)


# ---- drawing ------------------------------------------------------------------------------------


def recipe_plot_figure(
    rows: Iterable[RecipeRow],
    current: RecipeRow | None = None,
    style: RecipePlotStyle = _USUAL_STYLE,
    *,
    contest: Contest | None = None,
    known: RateDistortion | None = None,
    bits: str = STORED,
    priced_as: Shape | None = None,
) -> UncheckedFigure:
    """Return bits (x) against SQNR (y): a point a recipe, a line through those no other one beats, a ring
    around the current scheme, or around the best try of a `contest`.

    `known` adds the other sizes of groups and the bounds of any quantizer. `bits`, one of `BITS`, are the
    bits along x, and `priced_as` is the shape that they are counted for, if it is not the tensor's own.
    """
    data = recipe_plot_data(rows, current, height=style.height, contest=contest, known=known, bits=bits)
    colours = THEMES[style.theme]
    language = style.language
    traces = []
    if known:
        traces = [*line_traces(known, data.bits_range, colours, language)]
        by_bits = sorted((*data.points, *data.sizes), key=lambda point: point.x)
        traces.append(trails_trace(((point.row.trail, point.x, point.y) for point in by_bits), colours))
        traces.append(_points(data.sizes, style, bits, small=True))
    rings = [_ring(data.current, colours)] if data.current else []
    traces += [_front(data, colours), *rings, _points(data.points, style, bits)]
    layout = _layout(data, style)
    layout["xaxis"]["title"] = _title(bits, language, priced_as)
    if contest:
        traces += [ghosts_trace(data.ghosts, colours), tries_trace(data.tries, colours, language)]
        layout["shapes"] = contest_lines(contest, data.bits_range, colours)
        layout["annotations"] += contest_names(contest, data.bits_range, colours, language)
    return UncheckedFigure({"data": traces, "layout": layout})


def front_key(theme: str = "light", language: str = DEFAULT_LANGUAGE) -> LineKey:
    """Return the legend's entry of the line through the points that no other one beats."""
    return LineKey(
        text("recipe_plot.front", language), THEMES[theme].values[1], _FRONT_DASH.replace("px", "")
    )


def _front(data: RecipePlotData, theme: Theme) -> dict[str, Any]:
    bits = [bits for bits, _ in data.front]
    db = [db for _, db in data.front]
    line = {"color": theme.values[1], "width": 1.5, "dash": _FRONT_DASH}
    return scatter("lines", bits, db, name="front", line=line, hoverinfo="skip")


def _points(
    points: Sequence[RecipePoint], style: RecipePlotStyle, bits: str, *, small: bool = False
) -> dict[str, Any]:
    theme = THEMES[style.theme]
    colour = translucent(theme.values[0], 0.55) if small else theme.values[0]
    return scatter(
        "markers",
        [point.x for point in points],
        [point.y for point in points],
        hover=[_hover(point, style, bits) for point in points],
        # Recipes on the line are filled, those that another one beats are hollow.
        marker={
            "color": [theme.surface if point.beaten else colour for point in points],
            "size": 5 if small else 8,
            "line": {"color": colour, "width": 1 if small else 1.5},
            "opacity": 1,
        },
        # A click takes the scheme; nothing is to pale then.
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
        customdata=[str(point.row.scheme) for point in points],
    )


def _ring(point: RecipePoint, theme: Theme) -> dict[str, Any]:
    marker = {"symbol": "circle-open", "size": 17, "line": {"width": 2.5}, "color": theme.errors[-1]}
    return scatter("markers", [point.x], [point.y], marker=marker, hoverinfo="skip")


def _name(row: RecipeRow, style: RecipePlotStyle, *, short: bool) -> str:
    if row.id == CURRENT:
        return text("recipe_plot.current", style.language)
    return row_name(row, style.language, style.axes, short=short)


def _hover(point: RecipePoint, style: RecipePlotStyle, bits: str) -> str:
    row = point.row
    language = style.language
    words = text(
        "recipe_plot.hover",
        language,
        name=_name(row, style, short=False),
        db=number(row.sqnr_db, 3),
        bits=f"{row.bits:.4g}",
    )
    if math.isfinite(row.entropy_bits):
        words += text("recipe_plot.hover_coded", language, bits=f"{row.entropy_bits:.4g}")
    if point.above:
        words += text(f"recipe_plot.hover_above.{bits}", language)
    return words


def _layout(data: RecipePlotData, style: RecipePlotStyle) -> dict[str, Any]:
    layout = bare_layout(THEMES[style.theme], style.height, _MARGIN)
    layout["xaxis"] |= {"range": list(data.bits_range), "nticks": 8}
    layout["yaxis"] |= {"range": list(data.db_range), "title": _title("sqnr", style.language), "nticks": 6}
    labels = [_label(point, point.label, style) for point in data.points if point.label]
    return layout | {"annotations": labels}


def _title(name: str, language: str, priced_as: Shape | None = None) -> dict[str, Any]:
    words = text(f"recipe_plot.{name}", language)
    if priced_as:
        words = text("recipe_plot.priced", language, bits=words, shape=" × ".join(map(str, priced_as)))
    return axis_title(words, 5)


def _label(point: RecipePoint, place: RecipeLabel, style: RecipePlotStyle) -> dict[str, Any]:
    theme = THEMES[style.theme]
    words = _name(point.row, style, short=True) + (" ∞" if point.row.sqnr_db == math.inf else "")
    if point.row.is_current:
        if point.row.id != CURRENT:
            words = text("recipe_plot.is_current", style.language, name=words)
        words = f"<b>{words}</b>"
    colour = theme.errors[-1] if point.row.is_current else theme.text
    name = name_beside(words, (point.x, point.y), (place.x, place.y), place.side, colour, theme)
    return name | {"borderpad": 0}
