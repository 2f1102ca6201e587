"""The plots of a block under two ends of its grid, and of the likeness of input channels."""

from __future__ import annotations

from dataclasses import dataclass

from quantviz.figures.numbers import short_number
from quantviz.figures.payload import Drawn
from quantviz.figures.small_plots import bare_layout, scatter
from quantviz.figures.theme import THEMES
from quantviz.text import DEFAULT_LANGUAGE, text

#: How far above its codes a block's values are drawn, in rows.
_ABOVE = 0.34


@dataclass(frozen=True)
class Ends:
    """The values of a block over its scale, once for each end of the grid that its largest may become."""

    #: The magnitude that the largest value becomes, 6 and 4.
    ends: tuple[float, ...]
    #: The values over the scale, and the values of their codes, for each end.
    values: tuple[tuple[float, ...], ...]
    rounded: tuple[tuple[float, ...], ...]
    #: The squared error of the block under each end.
    errors: tuple[float, ...]
    #: The values that codes have, 0 and above.
    grid: tuple[float, ...]


def ends_figure(shown: Ends, *, height: int, language: str = DEFAULT_LANGUAGE, theme: str = "light") -> Drawn:
    """Return a line for each end: its grid, and above it the block's values, each tied to its code."""
    colours = THEMES[theme]
    grid = sorted({sign * value for value in shown.grid for sign in (-1, 1)})
    best = min(range(len(shown.ends)), key=shown.errors.__getitem__)
    traces = []
    names = []
    for at, end in enumerate(shown.ends):
        row = -at
        colour = colours.schemes[0] if at == best else colours.muted
        pairs = list(zip(shown.values[at], shown.rounded[at], strict=True))
        ties_x = [place for value, code in pairs for place in (value, code, None)]
        ties_y = [place for _ in pairs for place in (row + _ABOVE, row, None)]
        traces += [
            scatter("lines", [grid[0], grid[-1]], [row, row], hoverinfo="skip", line={"color": colours.line}),
            scatter("lines", ties_x, ties_y, hoverinfo="skip", line={"color": colour, "width": 1}),
            scatter(
                "markers",
                grid,
                [row] * len(grid),
                hover=[short_number(value) for value in grid],
                marker={"size": 9, "color": colours.surface, "line": {"width": 2, "color": colours.text}},
            ),
            scatter(
                "markers",
                [value for value, _ in pairs],
                [row + _ABOVE] * len(pairs),
                hover=[f"{short_number(value)} → {short_number(code)}" for value, code in pairs],
                marker={"size": 7, "color": colour},
            ),
        ]
        words = text(
            "method_plots.end", language, end=short_number(end), error=short_number(shown.errors[at])
        )
        names.append(
            {
                "text": f"<b>{words}</b>" if at == best else words,
                "x": 0,
                "xref": "paper",
                "xanchor": "left",
                "y": row + _ABOVE + 0.12,
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": 12, "color": colour},
            }
        )
    layout = bare_layout(colours, height, (10, 10, 8, 36))
    layout["xaxis"] |= {
        "range": [grid[0] - 0.4, grid[-1] + 0.4],
        "dtick": 2,
        "showgrid": False,
        "title": {"text": text("method_plots.over_scale", language), "font": {"size": 12}, "standoff": 6},
    }
    layout["yaxis"] |= {
        "range": [0.7 - len(shown.ends), 0.85],
        "showticklabels": False,
        "showgrid": False,
    }
    layout["annotations"] = names
    return Drawn({"data": traces, "layout": layout})


@dataclass(frozen=True)
class Likeness:
    """The cosine of each pair of input channels, −1 to 1."""

    #: Row by row, loudest channels first.
    cosines: tuple[tuple[float, ...], ...]
    #: The channel of each row.
    channels: tuple[int, ...]


def likeness_figure(
    shown: Likeness, *, height: int, language: str = DEFAULT_LANGUAGE, theme: str = "light"
) -> Drawn:
    """Return the square of cosines: 1 on the diagonal, 0 in the neutral colour."""
    colours = THEMES[theme]
    ramp = colours.values
    count = len(shown.channels)
    hover = [
        [
            text("method_plots.pair", language, one=one, other=other, cosine=short_number(cosine))
            for other, cosine in zip(shown.channels, row, strict=True)
        ]
        for one, row in zip(shown.channels, shown.cosines, strict=True)
    ]
    square = {
        "type": "heatmap",
        "z": shown.cosines,
        "zmin": -1,
        "zmax": 1,
        "colorscale": [[at / (len(ramp) - 1), colour] for at, colour in enumerate(ramp)],
        "colorbar": {
            "thickness": 8,
            "outlinewidth": 0,
            "tickvals": [-1, 0, 1],
            "tickfont": {"size": 12, "color": colours.muted},
        },
        "text": hover,
        "hovertemplate": "%{text}<extra></extra>",
    }
    layout = bare_layout(colours, height, (10, 10, 8, 36))
    words = text("method_plots.loudest", language)
    layout["xaxis"] |= {
        "showticklabels": False,
        "ticks": "",
        "showgrid": False,
        "constrain": "domain",
        "range": [-0.5, count - 0.5],
        "title": {"text": words, "font": {"size": 12}, "standoff": 6},
    }
    layout["yaxis"] |= {
        "showticklabels": False,
        "ticks": "",
        "showgrid": False,
        "scaleanchor": "x",
        "constrain": "domain",
        "range": [count - 0.5, -0.5],
    }
    return Drawn({"data": [square], "layout": layout})
