"""The plots of methods: channels as mirrored bars, bars of errors, spread, singular values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from quantviz.figures.numbers import short_number
from quantviz.figures.payload import Drawn
from quantviz.figures.small_plots import bare_layout, scatter
from quantviz.figures.theme import THEMES, translucent
from quantviz.text import DEFAULT_LANGUAGE, text

#: Points of a drawn Gaussian.
_POINTS = 121
#: Bars that have room for a name and a number each.
_MOST_NAMED = 6


@dataclass(frozen=True)
class Mirrored:
    """Two numbers of each channel, one upwards and one downwards, now and before."""

    upper: tuple[float, ...]
    lower: tuple[float, ...]
    #: The same numbers before, drawn as an outline; empty for none.
    upper_before: tuple[float, ...] = ()
    lower_before: tuple[float, ...] = ()
    #: The places of channels that are lit.
    lit: frozenset[int] = frozenset()
    #: The keys of the words under `[method_plots]`: of both sides, and of the axis.
    upper_words: str = ""
    lower_words: str = ""
    axis: str = "channels"
    #: The channel of each place, for hover.
    channels: tuple[int, ...] = ()


def mirrored_figure(
    shown: Mirrored, *, height: int, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> Drawn:
    """Return bars upwards and downwards, each a share of the largest of its side, with outlines of before."""
    colours = THEMES[theme]
    upper = max((*shown.upper, *shown.upper_before), default=1.0) or 1.0
    lower = max((*shown.lower, *shown.lower_before), default=1.0) or 1.0
    sides = (
        (shown.upper, shown.upper_before, upper, 1, colours.schemes[1], shown.upper_words),
        (shown.lower, shown.lower_before, lower, -1, colours.schemes[0], shown.lower_words),
    )
    places = list(range(len(shown.upper)))
    traces: list[dict[str, Any]] = []
    for values, before, most, sign, colour, words in sides:
        name = text(f"method_plots.{words}", language)
        traces.append(
            {
                "type": "bar",
                "x": places,
                "y": [sign * value / most for value in values],
                "marker": {
                    "color": [colours.lit if at in shown.lit else colour for at in places],
                    "line": {"width": 0},
                },
                "text": [
                    f"{text('method_plots.channel', language, channel=channel)}: {name} {short_number(value)}"
                    for channel, value in zip(shown.channels, values, strict=True)
                ],
                "textposition": "none",
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
        if before:
            outline = [sign * value / most for value in before]
            line = {"color": colours.text, "width": 1, "shape": "hvh"}
            traces.append(scatter("lines", places, outline, hoverinfo="skip", line=line))
    layout = bare_layout(colours, height, (10, 10, 8, 36))
    layout |= {"barmode": "overlay", "bargap": 0 if len(places) > 60 else 0.2}
    layout["yaxis"] |= {"range": [-1.12, 1.12], "zeroline": True, "zerolinecolor": colours.muted}
    layout["yaxis"] |= {"showticklabels": False, "showgrid": False}
    layout["xaxis"] |= {
        "showticklabels": False,
        "showgrid": False,
        "title": _title(f"method_plots.{shown.axis}", language),
    }
    layout["annotations"] = [
        _side_name(text(f"method_plots.{words}", language), most, colour, top=sign > 0)
        for _, _, most, sign, colour, words in sides
    ]
    return Drawn({"data": traces, "layout": layout})


@dataclass(frozen=True)
class Bars:
    """A few errors side by side, with those before as an outline."""

    #: The name of each bar, below it; none of many bars has room for its own.
    names: tuple[str, ...]
    values: tuple[float, ...]
    before: tuple[float, ...] = ()
    #: The places of bars that are lit.
    lit: frozenset[int] = frozenset()
    #: The key of the axis' words under `[method_plots]`.
    axis: str = ""
    #: Whether the values are shares, each written above its bar in percent.
    percent: bool = False
    #: Whether the names are numbers, of which every second is written where there are many.
    numbers: bool = False
    #: A level to compare the bars with, and the key of its words under `[method_plots]`.
    level: tuple[float, str] | None = None


def bars_figure(shown: Bars, *, height: int, language: str = DEFAULT_LANGUAGE, theme: str = "light") -> Drawn:
    """Return the bars from 0 up, with the outline of those before."""
    colours = THEMES[theme]
    places = list(range(len(shown.values)))
    named = len(places) <= _MOST_NAMED
    unit = 100 if shown.percent else 1
    written = [f"{100 * value:.3g} %" if shown.percent else short_number(value) for value in shown.values]
    bars = {
        "type": "bar",
        "x": places,
        "y": [unit * value for value in shown.values],
        "marker": {
            "color": [colours.lit if at in shown.lit else colours.schemes[0] for at in places],
            "line": {"width": 0},
        },
        "text": written if named else None,
        "textposition": "outside" if named else "none",
        "textfont": {"size": 12, "color": colours.text},
        "cliponaxis": False,
        "hovertext": [f"{name}: {value}" for name, value in zip(shown.names, written, strict=True)],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    traces = [bars]
    if shown.before:
        line = {"color": colours.schemes[1], "width": 1.5, "shape": "hvh"}
        traces.append(
            scatter("lines", places, [unit * value for value in shown.before], hoverinfo="skip", line=line)
        )
    layout = bare_layout(colours, height, (10, 10, 8, 36))
    layout |= {"bargap": 0.2}
    level = () if shown.level is None else (shown.level[0],)
    top = max((*shown.values, *shown.before, *level), default=0.0) or 1.0
    layout["yaxis"] |= {"range": [0, 1.2 * unit * top], "showticklabels": not named, "showgrid": False}
    layout["yaxis"] |= {"nticks": 4, "exponentformat": "none", "ticksuffix": " %" if shown.percent else ""}
    layout["xaxis"] |= {"showgrid": False, "title": _title(f"method_plots.{shown.axis}", language)}
    layout["xaxis"] |= {"tickmode": "array", "tickangle": 0, "tickvals": [], "ticktext": []}
    if named or shown.numbers:
        step = 1 if named else 2
        layout["xaxis"] |= {"tickvals": places[::step], "ticktext": shown.names[::step]}
    if shown.before:
        layout["annotations"] = [
            _legend(text("method_plots.before", language), colours.schemes[1], 0),
            _legend(text("method_plots.after", language), colours.schemes[0], 1),
        ]
    if shown.level is not None:
        height_of, words = shown.level
        line = {"color": colours.muted, "width": 1, "dash": "4px,4px"}
        ends = {"x0": 0, "x1": 1, "xref": "paper", "y0": height_of, "y1": height_of}
        layout["shapes"] = [{"type": "line", "line": line, **ends}]
        name = f"{text(f'method_plots.{words}', language)} {short_number(height_of)}"
        layout["annotations"] = [_corner(name, colours.muted, height_of) | {"y": height_of}]
    return Drawn({"data": traces, "layout": layout})


@dataclass(frozen=True)
class Histogram:
    """The shares of values in equal bins, before and after, in root mean squares."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    #: The bins end at ± this.
    reach: float
    #: The values that codes have, drawn as lines.
    grid: tuple[float, ...] = ()
    #: The key of the axis' words under `[method_plots]`.
    axis: str = "in_rms"


def spread_figure(
    shown: Histogram, *, height: int, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> Drawn:
    """Return both histograms on a logarithmic axis, and the Gaussian of the same root mean square."""
    colours = THEMES[theme]
    width = 2 * shown.reach / len(shown.after)
    middles = [-shown.reach + width * (at + 0.5) for at in range(len(shown.after))]
    least = min((share for share in (*shown.before, *shown.after) if share > 0), default=1e-6)
    points = [shown.reach * (2 * at / (_POINTS - 1) - 1) for at in range(_POINTS)]
    bell = [width * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) for x in points]
    inside = [at for at in range(_POINTS) if bell[at] >= least / 2]
    bars = {
        "type": "bar",
        "x": middles,
        "y": shown.after,
        "marker": {"color": translucent(colours.schemes[0], 0.65), "line": {"width": 0}},
        "hovertemplate": "%{x:.1f}: %{y:.3g}<extra></extra>",
    }
    outline = scatter(
        "lines",
        middles,
        [share or None for share in shown.before],
        hoverinfo="skip",
        line={"color": colours.schemes[1], "width": 2, "shape": "hvh"},
    )
    gaussian = scatter(
        "lines",
        [points[at] for at in inside],
        [bell[at] for at in inside],
        hoverinfo="skip",
        line={"color": colours.text, "width": 1, "dash": "4px,4px"},
    )
    layout = bare_layout(colours, height, (10, 12, 8, 36))
    layout["bargap"] = 0
    layout["yaxis"] |= {"type": "log", "showticklabels": False, "nticks": 4}
    low = math.log10(least / 2)
    peak = math.log10(max(*shown.before, *shown.after, *bell))
    layout["yaxis"] |= {"title": _title("method_plots.share", language)}
    # Names stand above the bars.
    layout["yaxis"]["range"] = [low, low + (peak - low) / 0.7]
    drawn = zip(middles, shown.after, shown.before or shown.after, strict=True)
    filled = [abs(middle) for middle, *shares in drawn if any(shares)]
    reach = max(3.0, *filled, *map(abs, shown.grid)) + width
    layout["xaxis"] |= {"title": _title(f"method_plots.{shown.axis}", language), "showgrid": False}
    layout["xaxis"]["range"] = [-reach, reach]
    named = [("before", colours.schemes[1]), ("after", colours.schemes[0]), ("gaussian", colours.text)]
    if shown.grid:
        named = [("weights", colours.schemes[0]), ("gaussian", colours.text), ("grid", colours.accent)]
        line = {"color": colours.accent, "width": 1}
        ends = {"y0": 0, "y1": 0.12, "yref": "paper"}
        layout["shapes"] = [
            {"type": "line", "line": line, "x0": value, "x1": value, **ends} for value in shown.grid
        ]
    layout["annotations"] = [
        _legend(text(f"method_plots.{name}", language), colour, row)
        for row, (name, colour) in enumerate(named)
    ]
    lines = [outline, gaussian] if shown.before else [gaussian]
    return Drawn({"data": [bars, *lines], "layout": layout})


def _title(key: str, language: str) -> dict[str, Any]:
    return {"text": text(key, language), "font": {"size": 12}, "standoff": 6}


def _corner(words: str, colour: str, level: float) -> dict[str, Any]:
    """Return the name of a level on a logarithmic axis, at its right end."""
    return {
        "text": words,
        "x": 1,
        "xref": "paper",
        "xanchor": "right",
        "y": math.log10(level) if level > 0 else 0,
        "yref": "y",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12, "color": colour},
    }


def _side_name(words: str, largest: float, colour: str, *, top: bool) -> dict[str, Any]:
    """Return the name of one side's bars, and how far they reach."""
    return {
        "text": f"<b>{words}</b> ≤ {short_number(largest)}",
        "x": 1,
        "y": int(top),
        "xref": "paper",
        "yref": "paper",
        "xanchor": "right",
        "yanchor": "top" if top else "bottom",
        "showarrow": False,
        "font": {"size": 12, "color": colour},
    }


def _legend(words: str, colour: str, row: int) -> dict[str, Any]:
    """Return the name of a line, in the upper right corner below those before."""
    return {
        "text": f"<b>{words}</b>",
        "x": 1,
        "y": 1,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "right",
        "yanchor": "top",
        "yshift": -16 * row,
        "showarrow": False,
        "font": {"size": 12, "color": colour},
    }
