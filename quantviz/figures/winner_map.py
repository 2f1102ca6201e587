"""Which of several schemes has the smaller error where: a map in which each scheme keeps its colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.figures.payload import Drawn
from quantviz.figures.small_plots import SMALL_PLOT_CONFIG, bare_layout
from quantviz.figures.theme import THEMES, Theme
from quantviz.text import DEFAULT_LANGUAGE, text

Array = npt.NDArray[Any]

#: For `st.plotly_chart(config=…)`.
WINNER_MAP_CONFIG = SMALL_PLOT_CONFIG
#: The usual height in pixels.
HEIGHT = 300
#: The colour of A, B, C …, as far apart from each other as may be; on light pages, and on dark ones.
_LIGHT = ("#1c5fb4", "#d06a00", "#1f8a4c", "#b5317f", "#6f52c4", "#8a6a1f", "#c62f2f", "#1590a0")
_DARK = ("#5b9dff", "#ff9d3d", "#4cc77f", "#f277c0", "#a98bff", "#d9b552", "#ff6f6a", "#46cfe0")
#: How much of its colour a winner by nothing has.
_FAINTEST = 0.3
#: The share of the leads that are told apart by colour: a few large ones would leave the others none.
_SPREAD = 0.95
#: Pixels of the frame around the map: left, right, top, bottom.
_MARGIN = (36, 6, 6, 24)


@dataclass(frozen=True, eq=False)
class WinnerMapData:
    """What the map shows."""

    #: (rows, columns): the number of the scheme of least error, −1 where several are equally good, −2 where
    #: nothing is.
    winner: Array
    #: By how much it is ahead of the next.
    lead: Array
    #: What the schemes are told as, A first.
    names: tuple[str, ...]
    #: The row and column that the map begins with.
    top: int = 0
    left: int = 0
    #: The rows and columns that pixels begin with, and the end; none where each cell has its own.
    row_edges: Array | None = None
    col_edges: Array | None = None
    #: The selected cell's row and column.
    selected: tuple[int, int] | None = None

    @property
    def strongest(self) -> float:
        """Return the lead from which on a colour is full."""
        leads = self.lead[np.isfinite(self.lead) & (self.winner >= 0)]
        return float(np.quantile(leads, _SPREAD)) if leads.size else 1.0


def scheme_colours(theme: str) -> tuple[str, ...]:
    """Return the colours of A, B, C … on a page."""
    return _DARK if theme.startswith("dark") else _LIGHT


def winner_map_figure(
    data: WinnerMapData, *, language: str = DEFAULT_LANGUAGE, theme: str = "light", height: int = HEIGHT
) -> Drawn:
    """Return the map: the winner's colour, the stronger the further it is ahead, grey at a tie; the selected
    cell is framed.

    >>> data = WinnerMapData(np.array([[0, 1, -1]], np.int8), np.array([[1.0, 0.5, 0.0]]), ("A", "B", "C"))
    >>> [trace["name"] for trace in winner_map_figure(data).to_dict()["data"]]
    ['A', 'B', 'Equal']
    """
    colours = THEMES[theme]
    places = _places(data, language)
    strongest = data.strongest or 1.0
    traces: list[dict[str, Any]] = []
    for k, (name, colour) in enumerate(zip(data.names, scheme_colours(theme), strict=False)):
        if (data.winner == k).any():
            ramp = [[0, _mixed(colours.surface, colour, _FAINTEST)], [1, colour]]
            lead = np.where(data.winner == k, data.lead, np.nan).astype(np.float32)
            told = text("contest.lead", language, lead="%{z:.3g}")
            traces.append(_trace(places, lead, name, ramp, strongest, told))
    if (data.winner == -1).any():
        grey = _mixed(colours.surface, colours.muted, 0.35)
        tied = np.where(data.winner == -1, 0.0, np.nan).astype(np.float32)
        name = text("contest.tie", language)
        traces.append(_trace(places, tied, name, [[0, grey], [1, grey]], strongest, ""))
    layout = bare_layout(colours, height, _MARGIN)
    rows, cols = _ends(data)
    layout["xaxis"] |= {"range": cols, "showgrid": False, "nticks": 8, "tickformat": "d"}
    layout["yaxis"] |= {"range": rows[::-1], "showgrid": False, "nticks": 6, "tickformat": "d"}
    layout["shapes"] = _frame(data, colours)
    return Drawn({"data": traces, "layout": layout})


def _places(data: WinnerMapData, language: str) -> dict[str, Any]:
    """Return where pixels are, and how their place is told: of many cells not at all."""
    if data.row_edges is not None and data.col_edges is not None:
        return {"y": data.row_edges - 0.5, "x": data.col_edges - 0.5, "told": ""}
    rows, cols = data.winner.shape
    return {
        "y": np.arange(data.top, data.top + rows),
        "x": np.arange(data.left, data.left + cols),
        "told": text("contest.place", language, row="%{y}", col="%{x}"),
    }


def _trace(
    places: dict[str, Any], z: Array, name: str, ramp: list[list[Any]], strongest: float, told: str
) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "x": places["x"],
        "y": places["y"],
        "z": z,
        "zmin": 0.0,
        "zmax": strongest,
        "colorscale": ramp,
        "showscale": False,
        "hoverongaps": False,
        "name": name,
        "hovertemplate": "<br>".join(filter(None, ("<b>%{fullData.name}</b>", told, places["told"])))
        + "<extra></extra>",
    }


def _ends(data: WinnerMapData) -> tuple[list[float], list[float]]:
    """Return the first and last edge of rows and columns, as the axes count."""
    if data.row_edges is not None and data.col_edges is not None:
        return (
            [float(data.row_edges[0]) - 0.5, float(data.row_edges[-1]) - 0.5],
            [float(data.col_edges[0]) - 0.5, float(data.col_edges[-1]) - 0.5],
        )
    rows, cols = data.winner.shape
    return [data.top - 0.5, data.top + rows - 0.5], [data.left - 0.5, data.left + cols - 0.5]


def _frame(data: WinnerMapData, theme: Theme) -> list[dict[str, Any]]:
    """Return the selected cell's frame, or, where a pixel stands for many, its pixel's."""
    if data.selected is None:
        return []
    row, col = data.selected
    height = width = 1
    if data.row_edges is not None and data.col_edges is not None:
        row, height = _pixel(data.row_edges, row)
        col, width = _pixel(data.col_edges, col)
    place = {
        "type": "rect",
        "x0": col - 0.5,
        "x1": col + width - 0.5,
        "y0": row - 0.5,
        "y1": row + height - 0.5,
    }
    return [
        place | {"line": {"color": colour, "width": thick}}
        for colour, thick in ((theme.mark_halo, 4), (theme.mark, 2))
    ]


def _pixel(edges: Array, at: int) -> tuple[int, int]:
    """Return where the pixel of a row or column begins, and how many it stands for."""
    k = int(np.searchsorted(edges, at, side="right")) - 1
    return int(edges[k]), int(edges[k + 1] - edges[k])


def _mixed(under: str, over: str, share: float) -> str:
    """Return a colour laid over another.

    >>> _mixed("#000000", "#ffffff", 0.5)
    '#808080'
    """
    pairs = zip(bytes.fromhex(under[1:]), bytes.fromhex(over[1:]), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)
