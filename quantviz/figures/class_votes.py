"""The answers of a class in one picture: places on an axis as dots, and cells of a tensor as heat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.figures.numbers import number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import NO_TICKS, bare_layout, note, scatter
from quantviz.figures.theme import THEMES, Theme, translucent

#: Columns of dots across the picture, and how many dots a column has room for in full size.
_COLUMNS = 64
_TALL = 9
_DOT = 8.0
#: Height in pixels, before the picture is enlarged.
HEIGHT = 88
#: Whole numbers on an axis up to which each has its tick: there are no 2.4 bits.
_WHOLE = 20
#: Share of the axis that stays free at either end.
_FREE = 0.04


@dataclass(frozen=True)
class VotedPlace:
    """A place on the axis with how many have chosen it."""

    at: float
    sure: int
    guessed: int


def places_figure(
    votes: Sequence[VotedPlace],
    theme: str,
    *,
    before: Sequence[VotedPlace] = (),
    truth: float | None = None,
    mistakes: Mapping[str, float] | None = None,
    values: npt.NDArray[Any] | None = None,
) -> UncheckedFigure:
    """Return every vote as a dot: full where it was sure, open where it was a guess.

    Args:
        votes: The last round's places.
        theme: One of `THEMES`.
        before: Those of the first round, as an outline.
        truth: The right place, as a line.
        mistakes: Places of mistakes by the sign beside them, as thin lines.
        values: The tensor's values, whose distribution stands behind the dots.
    """
    colours = THEMES[theme]
    marks = {**(mistakes or {}), **({} if truth is None else {f"✓ {number(truth, 3)}": truth})}
    inside = np.array([each.at for each in (*votes, *before)] + list(marks.values()), dtype=np.float64)
    if values is not None:
        inside = np.concatenate([inside, values[np.isfinite(values)].ravel().astype(np.float64)])
    lo, hi = float(inside.min()), float(inside.max())
    spare = _FREE * (hi - lo) or abs(hi) or 1.0
    edges = np.linspace(lo - spare, hi + spare, _COLUMNS + 1)
    sure, guessed = (_columns(votes, edges, part) for part in ("sure", "guessed"))
    first = _columns(before, edges, "sure") + _columns(before, edges, "guessed")
    tallest = max(int((sure + guessed).max()), int(first.max()), _TALL)
    traces = []
    if values is not None:
        counts, _ = np.histogram(values[np.isfinite(values)], edges)
        shape = 0.8 * tallest * counts / max(int(counts.max()), 1)
        area = scatter("lines", _middles(edges), shape, fill="tozeroy", line={"width": 0})
        traces.append(area | {"fillcolor": translucent(colours.accent, 0.18)})
    if before:
        dashes = {"color": colours.text, "width": 1.5, "dash": "dot", "shape": "hvh"}
        traces.append(scatter("lines", _middles(edges), first, line=dashes))
    size = min(_DOT, _DOT * _TALL / tallest)
    for counts, floor, symbol in ((sure, 0 * sure, "circle"), (guessed, sure, "circle-open")):
        column = np.repeat(np.arange(_COLUMNS), counts)
        height = np.concatenate([np.arange(n) for n in counts]) if counts.any() else np.array([])
        marker = {
            "size": size,
            "symbol": symbol,
            "color": colours.clipping,
            "line": {"width": 1.5, "color": colours.clipping},
        }
        up = height + floor[column] + 0.5
        traces.append(scatter("markers", _middles(edges)[column], up, marker=marker))
    layout = bare_layout(colours, HEIGHT, (4, 4, 14, 16))
    layout["xaxis"] |= {"range": [float(edges[0]), float(edges[-1])], "showgrid": False}
    if values is None and hi - lo < _WHOLE and all(at.is_integer() for at in inside.tolist()):
        layout["xaxis"]["dtick"] = 1
    layout["yaxis"] |= {**NO_TICKS, "range": [0, tallest + 0.5]}
    layout |= _lines(marks, truth, colours)
    return UncheckedFigure({"data": traces, "layout": layout})


def _lines(marks: Mapping[str, float], truth: float | None, colours: Theme) -> dict[str, Any]:
    """Return plotly's lines and their names: of the truth a broad one."""
    shapes, names = [], []
    for words, at in marks.items():
        # A mistake may stand close to the truth: its sign is beside its line, and lower.
        colour, width, y, corner = (colours.muted, 1, 0.95, "top left")
        if at == truth:
            colour, width, y, corner = (colours.accent, 3, 1.0, "bottom center")
        ends = {"xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
        shapes.append({"type": "line", **ends, "line": {"color": colour, "width": width}})
        names.append(note(words, at, y, colours.text, corner, xref="x"))
    return {"shapes": shapes, "annotations": names}


def _columns(votes: Sequence[VotedPlace], edges: npt.NDArray[Any], part: str) -> npt.NDArray[np.int64]:
    """Return how many votes stand in each column."""
    at = [each.at for each in votes]
    weights = [getattr(each, part) for each in votes]
    return np.histogram(at, edges, weights=weights)[0].astype(np.int64)


def _middles(edges: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.asarray((edges[:-1] + edges[1:]) / 2, dtype=np.float64)


def cells_figure(
    counts: npt.NDArray[np.int64], theme: str, right: Sequence[tuple[int, int]] = ()
) -> UncheckedFigure:
    """Return the clicks on each cell of a matrix as heat; the `right` cells are framed."""
    colours = THEMES[theme]
    rows, cols = counts.shape
    layout = bare_layout(colours, HEIGHT + 20, (4, 4, 4, 16))
    layout["xaxis"] |= {"showgrid": False, "constrain": "domain", "range": [-0.5, cols - 0.5], "dtick": 1}
    layout["yaxis"] |= {"showgrid": False, "scaleanchor": "x", "range": [rows - 0.5, -0.5], "dtick": 1}
    if max(rows, cols) > _COLUMNS // 4:
        layout["xaxis"].pop("dtick")
    layout["yaxis"].pop("dtick")
    scale = [[0, translucent(colours.accent, 0.06)], [1, colours.accent]]
    heat = {"type": "heatmap", "z": counts, "colorscale": scale, "showscale": False, "hoverinfo": "skip"}
    layout["shapes"] = [
        {
            "type": "rect",
            **{"x0": col - 0.5, "x1": col + 0.5, "y0": row - 0.5, "y1": row + 0.5},
            "line": {"color": colours.text, "width": 3},
        }
        for row, col in right
    ]
    return UncheckedFigure(
        {"data": [heat | {"zmin": 0, "zmax": max(int(counts.max()), 1)}], "layout": layout}
    )
