"""The small plots of a layer: its input channels, and pairs of schemes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantviz.figures.numbers import short_number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import NO_TICKS, axis_title, bare_layout, note, scatter
from quantviz.figures.theme import THEMES, Theme
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    import torch

    from quantviz.layers.causes import Channels

#: Of a product's error, by the names of `Products`.
PARTS = ("weights", "inputs", "cross")
#: Values upwards and downwards, by the names of `Channels`.
MIRRORED = {"size": ("x_max", "w_max"), "cost": ("weight_error", "cost")}
#: Around the points of the pairs.
_AROUND_DB = 4.0
#: Sides of a dot for its letter, by Plotly's names, and the place there in pixels.
_LETTERS = {
    "middle right": (14.0, 0.0),
    "middle left": (-14.0, 0.0),
    "top center": (0.0, 14.0),
    "bottom center": (0.0, -14.0),
}
#: Pixels around a letter with room enough.
_ROOM = 14.0
#: Margins of the pairs' plot, and its width on a phone.
_PAIRS_MARGIN = (48, 12, 8, 40)
_PAIRS_WIDTH = 350


def part_colours(theme: str) -> dict[str, str]:
    colours = THEMES[theme]
    return {"weights": colours.schemes[0], "inputs": colours.schemes[1], "cross": colours.muted}


def channels_figure(
    channels: Channels,
    mirrored: str,
    *,
    ranked: bool,
    height: int,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return mirrored bars of the input channels, each a share of the largest on its side.

    `mirrored` is one of `MIRRORED`. If `ranked`, the largest upper values come first.
    """
    colours = THEMES[theme]
    names = MIRRORED[mirrored]
    upper, lower = (getattr(channels, name) for name in names)
    count = len(upper)
    order = upper.argsort(descending=True, stable=True).tolist() if ranked else list(range(count))
    shades = (colours.schemes[1], colours.schemes[0]) if mirrored == "size" else colours.schemes[:2]
    traces = [
        _channel_bars(name, values, order, shade, downwards=at == 1, language=language)
        for at, (name, values, shade) in enumerate(zip(names, (upper, lower), shades, strict=True))
    ]
    layout = _channels_layout(
        order, height, colours, text(f"layer_plots.channels_{'ranked' if ranked else 'in_place'}", language)
    )
    layout["annotations"] = [
        note(
            f"<b>{text(f'layer_plots.channel.{name}', language)}</b> ≤ {short_number(float(values.max()))}",
            1,
            1 - at,
            shade,
            "bottom right",
        )
        for at, (name, values, shade) in enumerate(zip(names, (upper, lower), shades, strict=True))
    ]
    if mirrored == "size":
        loud = {*channels.loud_inputs, *channels.loud_weights}
        places = [at for at, channel in enumerate(order) if channel in loud][:8]
        layout["annotations"] += [
            note(str(order[at]), at, 0.86 if step else 1.0, colours.text, "bottom left", xref="x", yref="y")
            for step, at in enumerate(_apart(places, count))
        ]
    return UncheckedFigure({"data": traces, "layout": layout})


def _channels_layout(order: Sequence[int], height: int, theme: Theme, title: str) -> dict[str, Any]:
    # It has the numbers of the first and the last channel.
    count = len(order)
    layout = bare_layout(theme, height, (10, 10, 20, 36))
    layout["barmode"] = "overlay"
    layout["bargap"] = 0 if count > 60 else 0.2
    layout["yaxis"] |= {
        # Below the bars there is room for the name of the lower ones; that of the upper ones stands above.
        "range": [-1.5, 1.3],
        "zeroline": True,
        "zerolinecolor": theme.muted,
        **NO_TICKS,
    }
    ticks = sorted({0, count - 1})
    layout["xaxis"] |= {
        "title": axis_title(title),
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": [str(order[at]) for at in ticks],
        "showgrid": False,
        "range": [-0.5 - count * 0.005, count - 0.5 + count * 0.005],
    }
    return layout


def _channel_bars(
    name: str, values: torch.Tensor, order: Sequence[int], colour: str, *, downwards: bool, language: str
) -> dict[str, Any]:
    # Shares of the largest, on one side.
    largest = float(values.max()) or 1.0
    sign = -1 if downwards else 1
    what = text(f"layer_plots.channel.{name}", language)
    hover = [
        text(
            "layer_plots.channel_hover",
            language,
            channel=channel,
            what=what,
            value=short_number(float(values[channel])),
        )
        for channel in order
    ]
    return {
        "type": "bar",
        "x": list(range(len(order))),
        "y": [sign * float(values[channel]) / largest for channel in order],
        "name": name,
        "customdata": order,
        "marker": {"color": colour, "line": {"width": 0}},
        "text": hover,
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
    }


def _apart(places: Sequence[int], count: int) -> list[int]:
    # Names need room beside the ones before.
    kept: list[int] = []
    for place in places:
        if all(abs(place - other) > count * 0.05 for other in kept):
            kept.append(place)
    return kept


@dataclass(frozen=True)
class PairPoint:
    #: Beside the dot, and of the pair.
    letter: str
    name: str
    #: dB; inf where nothing is lost.
    weight_db: float
    output_db: float


def _sides_of_letters(
    points: Sequence[PairPoint], place: Callable[[float], float], width: float, height: int
) -> list[str]:
    """Return the side of each dot with most room for its letter, the right one where all have room.

    The plot is `width` dB wide and `height` pixels high.
    """
    left, right, top, bottom = _PAIRS_MARGIN
    across = (_PAIRS_WIDTH - left - right) / width
    upwards = (height - top - bottom) / width
    dots = [(across * place(point.weight_db), upwards * place(point.output_db)) for point in points]
    taken = list(dots)
    sides = []
    for dot in dots:
        others = [other for other in taken if other != dot]
        places = {side: (dot[0] + x, dot[1] + y) for side, (x, y) in _LETTERS.items()}
        rooms = {
            side: min((_ROOM, *(math.dist(letter, other) for other in others)))
            for side, letter in places.items()
        }
        best = max(rooms, key=rooms.__getitem__)
        sides.append(best)
        taken.append(places[best])
    return sides


def pairs_figure(
    points: Sequence[PairPoint],
    chosen: int,
    *,
    height: int,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return each pair's SQNR of weight and outputs as a dot, whose data is its place, and the diagonal."""
    colours = THEMES[theme]
    dbs = [db for point in points for db in (point.weight_db, point.output_db) if math.isfinite(db)] or [0.0]
    low = min(dbs) - _AROUND_DB
    high = max(dbs) + _AROUND_DB

    def place(db: float) -> float:
        return min(max(db, low), high)

    dots = scatter(
        "markers+text",
        [place(point.weight_db) for point in points],
        [place(point.output_db) for point in points],
        text=[f" {point.letter} " for point in points],
        hovertemplate="%{hovertext}<extra></extra>",
        hovertext=[
            text(
                "layer_plots.pair_hover",
                language,
                name=point.name,
                weight=short_number(point.weight_db),
                output=short_number(point.output_db),
            )
            for point in points
        ],
        marker={
            "size": [14 if at == chosen else 10 for at in range(len(points))],
            "color": [colours.schemes[at % len(colours.schemes)] for at in range(len(points))],
            "line": {"width": 1.5, "color": colours.text},
        },
        customdata=list(range(len(points))),
        textposition=_sides_of_letters(points, place, high - low, height),
        textfont={"size": 14, "color": colours.text},
        cliponaxis=False,
    )
    diagonal = scatter(
        "lines",
        [low, high],
        [low, high],
        line={"color": colours.muted, "width": 1, "dash": "4px,4px"},
        hoverinfo="skip",
    )
    layout = bare_layout(colours, height, _PAIRS_MARGIN)
    for axis, name in (("xaxis", "weight_db"), ("yaxis", "output_db")):
        layout[axis] |= {
            "range": [low, high],
            "title": axis_title(text(f"layer_plots.{name}", language)),
        }
    return UncheckedFigure({"data": [diagonal, dots], "layout": layout})
