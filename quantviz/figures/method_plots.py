"""The pictures of methods: a kind of series each, drawn by `method_figure`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from quantviz.figures.numbers import short_number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import NO_TICKS, axis_title, bare_layout, heatmap, note, scatter, shape
from quantviz.figures.theme import THEMES, Theme, translucent
from quantviz.text import DEFAULT_LANGUAGE, text

_POINTS = 121
#: Bars with room for a name and a number each.
_MOST_NAMED = 6
#: A block's values above its codes, in rows.
_ABOVE = 0.34


@dataclass(frozen=True)
class ErrorBars:
    """A few errors side by side, with those before as an outline."""

    #: Below each bar; none of many has room for its own.
    names: tuple[str, ...]
    values: tuple[float, ...]
    before: tuple[float, ...] = ()
    #: The lit bars.
    lit: frozenset[int] = frozenset()
    #: Its words' key under `[method_plots]`.
    axis: str = ""
    #: Written above the bars.
    percent: bool = False
    #: Whether names are numbers, of which every second is written where there are many.
    numbers: bool = False
    #: To compare the bars with, and its words' key.
    level: tuple[float, str] | None = None


@dataclass(frozen=True)
class Histogram:
    """Shares of values in equal bins, before and after, in root mean squares."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    reach: float
    #: Values of codes, drawn as lines.
    grid: tuple[float, ...] = ()
    axis: str = "in_rms"


@dataclass(frozen=True)
class GridEnds:
    """A block's values over its scale, for each end of the grid that its largest may become."""

    #: 6 and 4.
    ends: tuple[float, ...]
    #: Over the scale, and of their codes, for each end.
    values: tuple[tuple[float, ...], ...]
    rounded: tuple[tuple[float, ...], ...]
    #: The block's squared error under each end.
    errors: tuple[float, ...]
    #: Values of codes, 0 and above.
    grid: tuple[float, ...]


@dataclass(frozen=True)
class Likeness:
    """The cosine of each pair of input channels, −1 to 1."""

    #: The loudest channels first.
    cosines: tuple[tuple[float, ...], ...]
    channels: tuple[int, ...]


Shown: TypeAlias = ErrorBars | Histogram | GridEnds | Likeness


def method_figure(
    shown: Shown, *, height: int, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> UncheckedFigure:
    page = _MethodFigure(THEMES[theme], language)
    page.layout |= bare_layout(page.colours, height, (10, 12 if isinstance(shown, Histogram) else 10, 8, 36))
    match shown:
        case ErrorBars():
            page.bars(shown)
        case Histogram():
            page.histogram(shown)
        case GridEnds():
            page.ends(shown)
        case Likeness():
            page.likeness(shown)
    return UncheckedFigure({"data": page.traces, "layout": page.layout})


@dataclass
class _MethodFigure:
    colours: Theme
    language: str
    traces: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)

    def say(self, key: str, /, **params: object) -> str:
        return text(key, self.language, **params)

    def title(self, axis: str, key: str) -> None:
        self.layout[axis]["title"] = axis_title(self.say(f"method_plots.{key}"))

    def line(self, x: list[Any], y: list[Any], colour: str, width: float, **line: Any) -> None:
        style = {"color": colour, "width": width, **line}
        self.traces.append(scatter("lines", x, y, hoverinfo="skip", line=style))

    def names(self, *named: tuple[str, str]) -> None:
        # One below the other in the upper right.
        self.layout["annotations"] = [
            note(f"<b>{self.say(f'method_plots.{key}')}</b>", 1, 1, colour, "top right", yshift=-16 * row)
            for row, (key, colour) in enumerate(named)
        ]

    def lit(self, lit: frozenset[int], places: list[int], colour: str) -> dict[str, Any]:
        return {
            "color": [self.colours.lit if at in lit else colour for at in places],
            "line": {"width": 0},
        }

    def bars(self, shown: ErrorBars) -> None:
        colours = self.colours
        places = list(range(len(shown.values)))
        named = len(places) <= _MOST_NAMED
        unit = 100 if shown.percent else 1
        written = [f"{100 * value:.3g} %" if shown.percent else short_number(value) for value in shown.values]
        self.traces.append(
            {
                "type": "bar",
                "x": places,
                "y": [unit * value for value in shown.values],
                "marker": self.lit(shown.lit, places, colours.schemes[0]),
                "text": written if named else None,
                "textposition": "outside" if named else "none",
                "textfont": {"size": 12, "color": colours.text},
                "cliponaxis": False,
                "hovertext": [f"{name}: {value}" for name, value in zip(shown.names, written, strict=True)],
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )
        if shown.before:
            before = [unit * value for value in shown.before]
            self.line(places, before, colours.schemes[1], 1.5, shape="hvh")
            self.names(("before", colours.schemes[1]), ("after", colours.schemes[0]))
        level = () if shown.level is None else (shown.level[0],)
        top = max((*shown.values, *shown.before, *level), default=0.0) or 1.0
        self.layout["bargap"] = 0.2
        self.layout["yaxis"] |= {"range": [0, 1.2 * unit * top], "showticklabels": not named}
        self.layout["yaxis"] |= {"nticks": 4, "exponentformat": "none", "showgrid": False}
        self.layout["yaxis"]["ticksuffix"] = " %" if shown.percent else ""
        step = 1 if named else 2
        ticks = slice(0, None if named or shown.numbers else 0, step)
        self.layout["xaxis"] |= {"showgrid": False, "tickmode": "array", "tickangle": 0}
        self.layout["xaxis"] |= {"tickvals": places[ticks], "ticktext": shown.names[ticks]}
        self.title("xaxis", shown.axis)
        if shown.level is not None:
            reached, words = shown.level
            line = {"color": colours.muted, "width": 1, "dash": "4px,4px"}
            self.layout["shapes"] = [shape("line", (0, 1), (reached, reached), line, xref="paper")]
            name = f"{self.say(f'method_plots.{words}')} {short_number(reached)}"
            self.layout["annotations"] = [note(name, 1, reached, colours.muted, "bottom right", yref="y")]

    def histogram(self, shown: Histogram) -> None:
        # The Gaussian has the same root mean square.
        colours = self.colours
        width = 2 * shown.reach / len(shown.after)
        middles = [-shown.reach + width * (at + 0.5) for at in range(len(shown.after))]
        least = min((share for share in (*shown.before, *shown.after) if share > 0), default=1e-6)
        points = [shown.reach * (2 * at / (_POINTS - 1) - 1) for at in range(_POINTS)]
        bell = [(x, width * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)) for x in points]
        inside = [(x, share) for x, share in bell if share >= least / 2]
        self.traces.append(
            {
                "type": "bar",
                "x": middles,
                "y": shown.after,
                "marker": {"color": translucent(colours.schemes[0], 0.65), "line": {"width": 0}},
                "hovertemplate": "%{x:.1f}: %{y:.3g}<extra></extra>",
            }
        )
        if shown.before:
            outline = [share or None for share in shown.before]
            self.line(middles, outline, colours.schemes[1], 2, shape="hvh")
        self.line([x for x, _ in inside], [share for _, share in inside], colours.text, 1, dash="4px,4px")
        low = math.log10(least / 2)
        peak = math.log10(max(*shown.before, *shown.after, *(share for _, share in bell)))
        self.layout["bargap"] = 0
        # Names stand above the bars.
        ends = [low, low + (peak - low) / 0.7]
        self.layout["yaxis"] |= {"type": "log", "showticklabels": False, "nticks": 4, "range": ends}
        drawn = zip(middles, shown.after, shown.before or shown.after, strict=True)
        filled = [abs(middle) for middle, *shares in drawn if any(shares)]
        reach = max(3.0, *filled, *map(abs, shown.grid)) + width
        self.layout["xaxis"] |= {"showgrid": False, "range": [-reach, reach]}
        self.title("yaxis", "share")
        self.title("xaxis", shown.axis)
        gaussian = ("gaussian", colours.text)
        if not shown.grid:
            self.names(("before", colours.schemes[1]), ("after", colours.schemes[0]), gaussian)
            return
        self.names(("weights", colours.schemes[0]), gaussian, ("grid", colours.accent))
        line = {"color": colours.accent, "width": 1}
        self.layout["shapes"] = [
            shape("line", (value, value), (0, 0.12), line, yref="paper") for value in shown.grid
        ]

    def ends(self, shown: GridEnds) -> None:
        """Draw a line for each end: its grid, and above it the block's values, tied to their codes."""
        colours = self.colours
        grid = sorted({sign * value for value in shown.grid for sign in (-1, 1)})
        best = min(range(len(shown.ends)), key=shown.errors.__getitem__)
        codes = {"size": 9, "color": colours.surface, "line": {"width": 2, "color": colours.text}}
        names = []
        for at, end in enumerate(shown.ends):
            row, above = -at, -at + _ABOVE
            colour = colours.schemes[0] if at == best else colours.muted
            pairs = list(zip(shown.values[at], shown.rounded[at], strict=True))
            line = {"color": colours.line}
            self.traces.append(scatter("lines", [grid[0], grid[-1]], [row] * 2, hoverinfo="skip", line=line))
            ties = [place for pair in pairs for place in (*pair, None)]
            self.line(ties, [place for _ in pairs for place in (above, row, None)], colour, 1)
            hover = [f"{short_number(value)} → {short_number(code)}" for value, code in pairs]
            self.traces += [
                scatter(
                    "markers", grid, [row] * len(grid), hover=list(map(short_number, grid)), marker=codes
                ),
                scatter(
                    "markers",
                    [value for value, _ in pairs],
                    [above] * len(pairs),
                    hover=hover,
                    marker={"size": 7, "color": colour},
                ),
            ]
            words = self.say("method_plots.end", end=short_number(end), error=short_number(shown.errors[at]))
            words = f"<b>{words}</b>" if at == best else words
            names.append(note(words, 0, above + 0.12, colour, "bottom left", yref=None))
        self.layout["annotations"] = names
        self.layout["xaxis"] |= {"range": [grid[0] - 0.4, grid[-1] + 0.4], "dtick": 2, "showgrid": False}
        self.layout["yaxis"] |= {"range": [0.7 - len(shown.ends), 0.85], **NO_TICKS}
        self.title("xaxis", "over_scale")

    def likeness(self, shown: Likeness) -> None:
        count = len(shown.channels)
        tickfont = {"size": 12, "color": self.colours.muted}
        bar = {"thickness": 8, "outlinewidth": 0, "tickvals": [-1, 0, 1], "tickfont": tickfont}
        said = [
            [
                self.say("method_plots.pair", one=one, other=other, cosine=short_number(cosine))
                for other, cosine in zip(shown.channels, row, strict=True)
            ]
            for one, row in zip(shown.channels, shown.cosines, strict=True)
        ]
        more = {"showscale": True, "colorbar": bar, "text": said, "hovertemplate": "%{text}<extra></extra>"}
        self.traces.append(heatmap(shown.cosines, self.colours.values, (-1, 1), **more))
        square = {"ticks": "", "constrain": "domain", **NO_TICKS}
        self.layout["xaxis"] |= {**square, "range": [-0.5, count - 0.5]}
        self.layout["yaxis"] |= {**square, "range": [count - 0.5, -0.5], "scaleanchor": "x"}
        self.title("xaxis", "loudest")
