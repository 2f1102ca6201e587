"""A model as a map of layers by kinds, with a strip of other tensors; and each kind's SQNR as dots.

The page finds a clicked square by its number.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from quantviz.checkpoints.model.tensor_names import place_of_name
from quantviz.checkpoints.model_map import AUDIT, CHOICE, ModelMap, ScannedModel, Square
from quantviz.figures.numbers import decibels, number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import (
    axis_title,
    bare_layout,
    heatmap,
    ink_on,
    named_axis,
    note,
    scatter,
    shape,
    squares_of,
)
from quantviz.figures.theme import THEMES, Ramp, Theme, one_sided, translucent
from quantviz.schemes.recipes import ALL_RECIPES, recipe_name
from quantviz.text import DEFAULT_LANGUAGE, text

#: Pixels: of a row, of all rows if that goes, of the strip, of the gap above it, and around all.
_HIGHEST = 30
_LOWEST = 14
_USUAL = 330
_STRIP = 24
_GAP = 12
_MARGIN = (8, 8, 8, 8)
#: For a colour bar and its longest labels: the map keeps its width as numbers come in.
_BAR_ROOM = 56
#: Plotly leaves the labels of a lower plot no room.
_LEAST = 96
#: Least pixels between labels of the colour bar.
_TICK = 18
#: Most columns and rows with printed numbers, and with the ranks of the worst.
_MOST_PRINTED = (9, 40)
_MOST_RANKED = (16, 16)
#: These have a colour a recipe.
_RECIPES_TOLD = frozenset(("winner", CHOICE))
#: Opacity of squares without a number, by status.
_GREY = MappingProxyType(
    {"waiting": 0.12, "left_aside": 0.16, "kept": 0.3, "refused": 0.3, "problem": 0.3, "not_read": 0.3}
)
#: In squares without a number, by status, and in the corner of one that has another type.
SIGNS = MappingProxyType({"left_aside": "=", "refused": "–", "problem": "!", "not_read": "?"})
INSTEAD = "◥"
#: Pixels of a kind in the distribution, and of all kinds if that goes: as high as the table beside it.
_HIGHEST_KIND = 38
_LOWEST_KIND = 22
_USUAL_KINDS = 340
#: Of more rows each fifth is labelled.
_MOST_LABELLED = 48


@dataclass(frozen=True)
class Scale:
    lowest: float
    highest: float
    #: Whether colours go by the logarithm.
    logarithmic: bool = False
    #: Labels of the colour bar.
    ticks: tuple[float, ...] = ()

    def at(self, value: float) -> float:
        # Beyond an end it is that end.
        if not self.logarithmic:
            return min(max(value, self.lowest), self.highest)
        return math.log10(min(max(value, self.lowest), self.highest))


#: Colourings by dB around 0, and by the logarithm.
_AROUND_ZERO = frozenset(("against_median", "difference"))
_LOGARITHMIC = frozenset(("peak_rms", "kurtosis"))
#: Smaller spans in dB are no reason for strong colours; and the largest number heeded: a results file may
#: have any.
_LEAST_SPAN = 6.0
_MOST_DB = 300.0
#: Of a logarithmic scale: 3, as a Gaussian's kurtosis, and at least the next.
_ENDS = tuple(float(f"{digit}e{power}") for power in range(10) for digit in (1, 3))[1:]
_MOST_STEPS = 6


def scale_of(*maps: ModelMap) -> Scale:
    """Return the colour scale of maps side by side: whole steps around their numbers, or around 0.

    >>> maps = [ModelMap("sqnr_db", (), (), (), (), (Square(0, 0, "a", 1, "ok", db),)) for db in (10.4, 19.0)]
    >>> scale_of(*maps)
    Scale(lowest=10, highest=20, logarithmic=False, ticks=(10, 12, 14, 16, 18, 20))
    """
    colour = maps[0].colour
    values = [
        square.value
        for data in maps
        for square in data.squares
        if square.status == "ok" and math.isfinite(square.value)
    ]
    if colour in _LOGARITHMIC:
        top = max(values, default=0.0)
        ends = [end for end in _ENDS if end < top] + [end for end in _ENDS if end >= top][:1]
        ends = ends if len(ends) > 1 else list(_ENDS[:2])
        every = math.ceil(len(ends) / _MOST_STEPS)
        return Scale(ends[0], ends[-1], True, tuple(ends[::every]))
    values = [min(max(value, -_MOST_DB), _MOST_DB) for value in values]
    low = min(values, default=0.0)
    high = max(values, default=0.0)
    if colour in _AROUND_ZERO:
        high = max(-low, high)
        low = -high
    lacking = max(_LEAST_SPAN - (high - low), 0.0)
    low -= lacking / 2
    high += lacking / 2
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100, 200) if (high - low) / size <= _MOST_STEPS)
    first = math.floor(low / step)
    last = math.ceil(high / step)
    return Scale(first * step, last * step, ticks=tuple(step * k for k in range(first, last + 1)))


def ramp_of(colour: str, theme: Theme) -> Ramp:
    """Return a number's colours, lowest first: bad numbers have the strong warm end."""
    if colour in ("sqnr_db", AUDIT):
        return theme.values[::-1]
    if colour in _AROUND_ZERO:
        return theme.errors[::-1]
    return one_sided(theme.values)


def winners(data: ModelMap, theme: str = "light") -> tuple[tuple[str, str], ...]:
    # A recipe keeps its colour.
    colours = THEMES[theme].schemes
    there = {square.winner for square in data.squares}
    return tuple((name, colours[k % len(colours)]) for k, name in enumerate(data.recipes) if name in there)


def kept_colour(theme: str = "light") -> str:
    # A choice leaves these as they are stored.
    return translucent(THEMES[theme].muted, _GREY["kept"])


def model_map_figure(
    data: ModelMap,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    scale: Scale | None = None,
    worst: Sequence[str] = (),
) -> UncheckedFigure:
    """Return the map. Each square's point has the square's number in `data.squares` as `customdata`.

    `scale` is by default that of `data` alone. The squares of the `worst` tensors are outlined and numbered
    from 1.
    """
    colours = THEMES[theme]
    layout = _map_layout(data, colours)
    outlined = list(_outlined(data, worst))
    layout["shapes"] = [frame for square, _ in outlined for frame in _frames(square, colours)]
    if _has_room(data, _MOST_RANKED):
        layout["annotations"] = [_rank(square, rank, colours) for square, rank in outlined]
    look = _Look(data, colours, theme, language, scale or scale_of(data))
    traces = [trace for of_strip in (False, True) for trace in _traces(look, of_strip)]
    return UncheckedFigure({"data": traces, "layout": layout})


@dataclass(frozen=True, eq=False)
class _Look:
    data: ModelMap
    colours: Theme
    theme: str
    language: str
    scale: Scale


def _outlined(data: ModelMap, names: Sequence[str]) -> Iterator[tuple[Square, str]]:
    """Yield squares, each once, with the ranks of its tensors."""
    found: dict[tuple[int, int], tuple[Square, list[str]]] = {}
    for rank, name in enumerate(names, 1):
        square = next((each for each in data.squares if _stands_for(each, name)), None)
        if square is not None:
            found.setdefault((square.row, square.column), (square, []))[1].append(str(rank))
    for square, ranks in found.values():
        yield square, " ".join(ranks)


def _stands_for(square: Square, name: str) -> bool:
    """Return whether a square is a tensor's, or that of all experts it is one of."""
    if square.tensor == name or square.count == 1:
        return square.tensor == name
    one, other = (replace(place_of_name(each), expert=-1) for each in (square.tensor, name))
    return one == other


def _axes_of(square: Square) -> tuple[str, str]:
    return ("x2", "y2") if square.row < 0 else ("x", "y")


def _frames(square: Square, colours: Theme) -> Iterator[dict[str, Any]]:
    # The wider one below shows on any colour.
    across, down = _axes_of(square)
    row, column = _place(square)
    ends = (column - 0.5, column + 0.5), (row - 0.5, row + 0.5)
    for colour, width in ((colours.mark_halo, 5), (colours.mark, 2)):
        yield shape("rect", *ends, {"color": colour, "width": width}, xref=across, yref=down)


def _rank(square: Square, rank: str, colours: Theme) -> dict[str, Any]:
    # In its corner.
    across, down = _axes_of(square)
    row, column = _place(square)
    corner = {
        "xref": across,
        "yref": down,
        "xshift": 1,
        "yshift": -1,
        "borderpad": 1,
        "bgcolor": colours.mark,
    }
    return note(rank, column - 0.5, row - 0.5, colours.mark_halo, "top left", **corner)


def _rows_height(data: ModelMap) -> float:
    rows = len(data.rows)
    return rows * min(_HIGHEST, max(_LOWEST, _USUAL / rows)) if rows else 0.0


def _height(data: ModelMap) -> float:
    strip = _STRIP if data.strip else 0
    gap = _GAP if data.strip and data.rows else 0
    return _rows_height(data) + strip + gap


def _map_layout(data: ModelMap, colours: Theme) -> dict[str, Any]:
    # The names of the kinds are above the rows, in view however many layers there are.
    from quantviz.checkpoints.model.tensor_names import short_names

    rows = max(len(data.rows), 1)
    kinds = max(len(data.kinds), 1)
    main = _rows_height(data)
    strip = _STRIP if data.strip else 0
    height = _height(data)
    total = max(height, _LEAST)
    left, right, top, bottom = _MARGIN
    right = right if data.colour in _RECIPES_TOLD else _BAR_ROOM
    layout = bare_layout(colours, round(total + top + bottom), (left, right, top, bottom))
    layout |= {"hovermode": "closest", "hoverdistance": -1, "clickmode": "event+select"}
    layout["hoverlabel"] |= {
        "align": "left",
        "font": {"color": colours.text, "family": colours.font, "size": 14},
    }
    columns = max(kinds, len(data.strip))
    axis = {"showgrid": False, "ticks": "", "fixedrange": True, "automargin": True}
    step = 1 if len(data.rows) <= _MOST_LABELLED else 5
    layout["xaxis"] |= axis | {
        **named_axis(list(map(_named, data.short_kinds)), kinds),
        "domain": [0, kinds / columns],
        "side": "top",
        "autotickangles": [0, -35, -90],
    }
    layout["yaxis"] |= axis | {
        "range": [rows - 0.5, -0.5],
        "tickvals": list(range(0, len(data.rows), step)),
        "ticktext": [_shown(label) for label in data.rows[::step]],
        "domain": [1 - main / height if height else 0, 1],
    }
    if data.strip:
        layout["xaxis2"] = layout["xaxis"] | {
            **named_axis(list(map(_named, short_names(data.strip)))),
            "domain": [0, len(data.strip) / columns],
            "side": "bottom",
            "autotickangles": [0, 35, 90],
            "anchor": "y2",
        }
        layout["yaxis2"] = layout["yaxis"] | {
            "range": [0.5, -0.5],
            "tickvals": [],
            "domain": [0, strip / height],
            "anchor": "x2",
        }
    return layout


def _named(name: str) -> str:
    # A module of a list is named by its number, which alone would be read as a place on the axis.
    return _shown(f"{name}.weight" if name.isdecimal() else name)


def _shown(name: str) -> str:
    # Plotly shows it literally.
    return html.escape(name if len(name) <= 24 else f"…{name[-23:]}")


def _traces(look: _Look, of_strip: bool) -> list[dict[str, Any]]:
    data = look.data
    colours = look.colours
    squares = [(k, square) for k, square in enumerate(data.squares) if (square.row < 0) == of_strip]
    if not squares:
        return []
    size = (1, len(data.strip)) if of_strip else (len(data.rows), len(data.kinds))
    axes = {"xaxis": "x2", "yaxis": "y2"} if of_strip else {"xaxis": "x", "yaxis": "y"}
    made = []

    def layer(picked: Mapping[tuple[int, int], float], ramp: Ramp, *ends: float, **more: Any) -> None:
        z = np.full(size, np.nan, np.float32)
        for place, value in picked.items():
            z[place] = value
        low, high = ends or (0, 1)
        made.append(heatmap(z, ramp, (low, high), xgap=2, ygap=2, hoverinfo="skip", **axes, **more))

    for status, strength in _GREY.items():
        places = {_place(square): 0.0 for _, square in squares if square.status == status}
        if places:
            told = data.colour == AUDIT and status == "not_read"
            # No colour of the scale: it is not known how good or bad such a tensor is.
            flat = colours.text if told else translucent(colours.muted, strength)
            layer(places, (flat,) * 3)
    known = [square for _, square in squares if square.status == "ok"]
    if data.colour in _RECIPES_TOLD:
        for name, colour in winners(data, look.theme):
            places = {_place(square): 0.0 for square in known if square.winner == name}
            if places:
                layer(places, (colour,) * 3)
    elif known:
        scale = look.scale
        places = {_place(square): scale.at(square.value) for square in known}
        # One bar, with the rows; where none of them has a number yet, with the strip.
        has_bar = not of_strip or all(square.status != "ok" or square.row < 0 for square in data.squares)
        bar = (
            {"showscale": True, "colorbar": _bar(scale, colours, max(_height(data), _LEAST))}
            if has_bar
            else {}
        )
        layer(places, ramp_of(data.colour, colours), *map(scale.at, (scale.lowest, scale.highest)), **bar)
    marked = [square for square in known if square.found.fallback and data.colour != CHOICE]
    if marked:
        made.append(_corners(marked, colours) | axes)
    return [*made, _points(look, squares, axes)]


def _corners(squares: Sequence[Square], colours: Theme) -> dict[str, Any]:
    """Return the marks of squares whose tensors have another type than the recipe."""
    marker = {"symbol": "triangle-ne", "size": 7, "opacity": 1, "color": colours.text}
    return scatter(
        "markers",
        [square.column + 0.44 for square in squares],
        [max(square.row, 0) - 0.32 for square in squares],
        hoverinfo="skip",
        marker=marker,
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
    )


def _place(square: Square) -> tuple[int, int]:
    return max(square.row, 0), square.column


def _bar(scale: Scale, colours: Theme, height: float) -> dict[str, Any]:
    """Return the colour bar of a map, with as many ticks as so many pixels have room for."""
    steps = len(scale.ticks) - 1
    every = next(
        k for k in range(1, steps + 1) if steps % k == 0 and (k == steps or steps / k * _TICK <= height)
    )
    ticks = scale.ticks[::every]
    return {
        "thickness": 9,
        "len": 1,
        "x": 1,
        "y": 0,
        "yanchor": "bottom",
        "xpad": 4,
        "ypad": 0,
        "outlinewidth": 0,
        "tickvals": [scale.at(tick) for tick in ticks],
        "ticktext": [number(tick, signed=scale.lowest == -scale.highest) for tick in ticks],
        "tickfont": {"size": 12, "color": colours.muted},
    }


def _has_room(data: ModelMap, most: tuple[int, int]) -> bool:
    return len(data.kinds) <= most[0] and len(data.rows) <= most[1]


def _points(look: _Look, squares: Sequence[tuple[int, Square]], axes: Mapping[str, str]) -> dict[str, Any]:
    """Return invisible points that respond to the pointer, with the printed numbers."""
    data = look.data
    # Signs have room where numbers have none.
    numbers = _has_room(data, _MOST_PRINTED)
    said = [
        _printed(square, data.colour) if numbers or square.status != "ok" else "" for _, square in squares
    ]
    return squares_of(
        [square.column for _, square in squares],
        [max(square.row, 0) for _, square in squares],
        said=said,
        inks=[_ink(square, look) for _, square in squares],
        cards=[card(square, data, look.language) for _, square in squares],
        customdata=[[k] for k, _ in squares],
        unselected={"marker": {"opacity": 0}, "textfont": {"color": look.colours.muted}},
        **axes,
    )


def _printed(square: Square, colour: str) -> str:
    if square.status != "ok":
        return SIGNS.get(square.status, "")
    if colour in _RECIPES_TOLD:
        return ""
    return decibels(square.value, signed=colour in _AROUND_ZERO)


def _ink(square: Square, look: _Look) -> str:
    colour = look.data.colour
    if colour == AUDIT and square.status == "not_read":
        return look.colours.surface
    if square.status != "ok" or colour in _RECIPES_TOLD:
        return look.colours.muted
    low, high, value = map(look.scale.at, (look.scale.lowest, look.scale.highest, square.value))
    return ink_on(ramp_of(colour, look.colours), (value - low) / (high - low))


def card(square: Square, data: ModelMap, language: str = DEFAULT_LANGUAGE) -> str:

    def words(key: str, **params: object) -> str:
        return text(f"model_map.card.{key}", language, **params)

    name = square.tensor if len(square.tensor) <= 70 else f"…{square.tensor[-69:]}"
    lines = [f"<b>{html.escape(name)}</b>"]
    found = square.found
    if square.count > 1:
        lines.append(words("worst_of", count=square.count))
    if found.status != "waiting":
        lines.append(html.escape(f"{' × '.join(map(str, found.shape or ()))} · {found.dtype}"))
    if data.colour == AUDIT:
        lines += _audit_lines(square, language)
        return "<br>".join(lines)
    if square.status == "ok":
        numbers = found.numbers
        used = html.escape(recipe_words(found.fallback or found.recipe, language))
        bits = number(numbers["effective_bits"], 4)
        lines.append(words("sqnr", db=decibels(numbers["sqnr_db"]), bits=bits, recipe=used))
        if found.fallback:
            lines.append(words("instead", recipe=html.escape(recipe_words(found.recipe, language))))
        if data.colour in _AROUND_ZERO:
            lines.append(words(data.colour, db=decibels(square.value, signed=True)))
        if data.colour == "winner":
            lines.append(words("winner", recipe=html.escape(recipe_words(square.winner, language))))
        peak, kurtosis = (number(numbers.get(name, math.nan), 3) for name in ("peak_rms", "kurtosis"))
        lines.append(words("spread", peak=peak, kurtosis=kurtosis))
    elif square.status in ("waiting", "kept"):
        lines.append(words(square.status))
    else:
        lines += _reason_lines(square) or [words("nothing")]
    if data.colour != CHOICE:  # whose squares lead nowhere
        lines.append(words("opens" if square.opens else "click"))
    return "<br>".join(lines)


def _audit_lines(square: Square, language: str) -> list[str]:
    found = square.found
    lines = [text(f"checkpoints.audit.became.{found.became}", language)]
    if square.status == "ok" and "sqnr_db" in found.numbers:
        lines.append(text("model_map.card.audit", language, db=decibels(found.numbers["sqnr_db"])))
    return lines + _reason_lines(square)


def _reason_lines(square: Square) -> list[str]:
    reason = square.found.reason or ""
    return [html.escape(reason[k : k + 70]) for k in range(0, min(len(reason), 280), 70)]


def recipe_words(name: str, language: str = DEFAULT_LANGUAGE) -> str:
    # A scheme that is no recipe has its text form.
    return recipe_name(name, language, short=True) if name in ALL_RECIPES else name


def distribution_figure(
    model: ScannedModel,
    recipe: str,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return every weight's SQNR as a dot in its kind's row, and each kind's median as a line."""
    from quantviz.checkpoints.model.tensor_names import short_names

    colours = THEMES[theme]
    kinds = list(dict.fromkeys(tensor.place.kind for tensor in model.weights if tensor.place.layer >= 0))
    kinds += list(dict.fromkeys(tensor.place.kind for tensor in model.weights if tensor.place.layer < 0))
    rows = {kind: at for at, kind in reversed(list(enumerate(kinds)))}
    dots = [
        (value, rows[tensor.place.kind], tensor)
        for tensor in model.weights
        if math.isfinite(value := tensor.number(recipe, "sqnr_db"))
    ]
    medians = model.medians(recipe)
    marks = [(medians[kind], k) for k, kind in enumerate(kinds) if math.isfinite(medians.get(kind, math.nan))]
    traces = [
        scatter(
            "markers",
            [value for value, _, _ in dots],
            [row for _, row, _ in dots],
            hovertext=[
                f"<b>{html.escape(tensor.name)}</b><br>{decibels(value)} dB" for value, _, tensor in dots
            ],
            hoverinfo="text",
            marker={"size": 8, "color": translucent(colours.accent, 0.55), "line": {"width": 0}},
        ),
        scatter(
            "markers",
            [median for median, _ in marks],
            [row for _, row in marks],
            hoverinfo="skip",
            marker={"symbol": "line-ns", "size": 14, "line": {"width": 2, "color": colours.text}},
        ),
    ]
    labels = list(map(_named, short_names(kinds)))
    return UncheckedFigure({"data": traces, "layout": _distribution_layout(model, labels, colours, language)})


def _distribution_layout(
    model: ScannedModel, labels: Sequence[str], colours: Theme, language: str
) -> dict[str, Any]:
    every = [
        value
        for name in model.recipes
        for tensor in model.weights
        if math.isfinite(value := tensor.number(name, "sqnr_db"))
    ]
    low, high = (min(0.0, min(every)), max(every)) if every else (0.0, 50.0)
    row = min(_HIGHEST_KIND, max(_LOWEST_KIND, _USUAL_KINDS / max(len(labels), 1)))
    layout = bare_layout(colours, round(max(110, row * len(labels) + 44)), (8, 12, 6, 38))
    layout["hovermode"] = "closest"
    layout["xaxis"] |= {
        "range": [low - 0.02 * (high - low), high + 0.03 * (high - low)],
        "title": axis_title(text("model_map.sqnr_axis", language), 4),
    }
    layout["yaxis"] |= named_axis(labels, down=True)
    return layout
