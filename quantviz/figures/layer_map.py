"""Layers by kinds as a map of squares, coloured and printed; the page finds one by its place in the list."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantviz.checkpoints.model.tensor_names import KindMap, kind_map, short_names
from quantviz.figures.numbers import decibels, short_number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import bare_layout, heatmap, ink_on, named_axis, shape, squares_of
from quantviz.figures.theme import THEMES, one_sided, translucent
from quantviz.text import DEFAULT_LANGUAGE, text

#: Pixels of a row, of all rows if that goes, and of the axis of kinds.
_HIGHEST = 36
_LOWEST = 20
_USUAL = 360
_AXIS = 34
#: Most columns with printed numbers, and least columns of layers without one.
_MOST_PRINTED = 9
_OTHERS = 6
#: Signs of a name in a square of a phone's width.
_LONGEST = 9
#: Numbers of the two maps, and the least span of their colours, in dB.
MAPPED = ("weight_sqnr_db", "output_db")
_LEAST_DB = 3.0
NO_NUMBER = "×"


@dataclass(frozen=True)
class LayerSquare:
    name: str
    #: 0 to 1; None where it has no number.
    strength: float | None
    #: Its number, and its words on hover.
    printed: str
    card: str


def layer_map(
    squares: Sequence[LayerSquare], *, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> UncheckedFigure:
    """Return the map of layers by kinds; a square's data is its place in `squares`.

    Layers without a number stand in rows of their own below.
    """
    colours = THEMES[theme]
    kinds = kind_map([square.name for square in squares])
    columns = len(kinds.kinds) or min(_OTHERS, len(kinds.others)) or 1
    at = _places(kinds, columns)
    count = 1 + max((row for row, _ in at.values()), default=0)
    z = np.full((count, columns), np.nan, np.float32)
    for each in squares:
        if each.strength is not None:
            z[at[each.name]] = each.strength
    ramp = one_sided(colours.values)
    heat = heatmap(z, ramp, (0, 1), xgap=2, ygap=2, hoverinfo="skip")
    height = min(_HIGHEST, max(_LOWEST, _USUAL // count))
    # No axis names these.
    shown = dict(zip(kinds.others, short_names(kinds.others), strict=True)) if height == _HIGHEST else {}
    printed = [_named(shown.get(each.name), each.printed) for each in squares]
    points = squares_of(
        [at[each.name][1] for each in squares],
        [at[each.name][0] for each in squares],
        said=printed if columns <= _MOST_PRINTED else [],
        inks=[colours.text if each.strength is None else ink_on(ramp, each.strength) for each in squares],
        cards=[each.card for each in squares],
        customdata=[[k] for k in range(len(squares))],
    )
    layout = bare_layout(colours, height * count + _AXIS, (8, 8, 4, 8))
    layout |= {"hovermode": "closest", "hoverdistance": -1, "clickmode": "event+select"}
    bare = {"showgrid": False, "ticks": ""}
    names = [html.escape(kind) for kind in kinds.kinds]
    layout["xaxis"] |= bare | named_axis(names, columns) | {"side": "top"}
    rows = [text("model_plots.layer", language, layer=".".join(map(str, numbers))) for numbers in kinds.rows]
    rows += [text("model_plots.others", language) if rows else ""] * (count - len(rows))
    layout["yaxis"] |= bare | named_axis(rows, down=True)
    # A square without a number is outlined.
    line = {"color": translucent(colours.muted, 0.5), "width": 1}
    layout["shapes"] = [
        shape("rect", (column - 0.48, column + 0.48), (row - 0.46, row + 0.46), line)
        for row, column in (at[each.name] for each in squares if each.strength is None)
    ]
    return UncheckedFigure({"data": [heat, points], "layout": layout})


def error_maps(
    rows: Sequence[Mapping[str, Any]], *, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> tuple[UncheckedFigure, UncheckedFigure]:
    """Return two maps in the same colours: SQNR of weights, and of outputs.

    `rows` are records of `numbers_of_all`, with `output_db`, and reasons as text.
    """
    sides = [[decibels_in(row, name) for row in rows] for name in MAPPED]
    finite = [value for values in sides for value in values if value is not None and math.isfinite(value)]
    most = max(finite, default=0.0)
    span = max(most - min(finite, default=0.0), _LEAST_DB)

    def square(row: Mapping[str, Any], value: float | None) -> LayerSquare:
        # An error beside outputs that are all 0 has −∞ dB.
        strength = None if value is None else min((most - min(value, most)) / span, 1.0)
        return LayerSquare(row["layer"], strength, _written(value), _card(row, language))

    weights, outputs = (
        layer_map(
            [square(row, value) for row, value in zip(rows, values, strict=True)],
            language=language,
            theme=theme,
        )
        for values in sides
    )
    return weights, outputs


def decibels_in(row: Mapping[str, Any], name: str) -> float | None:
    """Return one of `MAPPED`, inf for a weight that is not rounded; None of a layer refused."""
    if row["status"] != "ok":
        return None
    value: float | None = row[name]
    return math.inf if value is None else value


def _written(value: float | None) -> str:
    return NO_NUMBER if value is None else decibels(value)


def _card(row: Mapping[str, Any], language: str) -> str:
    # Its numbers, or the reason why it has none.
    name = f"<b>{html.escape(row['layer'])}</b>"
    if row["status"] != "ok":
        return f"{name}<br>{html.escape(row['reason'])}"
    values = {
        "weight": _written(decibels_in(row, "weight_sqnr_db")),
        "output": _written(row["output_db"]),
        "held_back": short_number(100 * row["rel_out_held_back"]),
        "used": short_number(100 * row["rel_out_used"]),
        "channel": row["loud_input"],
    }
    lines = [text(f"layers_map.card.{line}", language, **values) for line in ("sqnr", "error", "loud")]
    return "<br>".join((name, *lines, *([html.escape(row["reason"])] if row["reason"] else [])))


def _places(kinds: KindMap, columns: int) -> dict[str, tuple[int, int]]:
    places = {
        name: (kinds.rows.index(numbers), kinds.kinds.index(kind))
        for (numbers, kind), name in kinds.tensors.items()
    }
    for number, name in enumerate(kinds.others):
        places[name] = (len(kinds.rows) + number // columns, number % columns)
    return places


def _named(name: str | None, printed: str) -> str:
    if name is None:
        return printed
    cut = name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
    return f"{html.escape(cut)}<br>{printed}"
