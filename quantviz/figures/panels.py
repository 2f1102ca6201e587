"""The linked heatmaps: x, q, x̂ and the error.

`panels_data` computes everything that is shown; `panels_figure` only draws it. The figure is put
together from plain dictionaries and base64 arrays: checking each property, as plotly does by
default, takes longer than everything else on the server together. Tests check the figures instead.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from quantviz.errors import QuantVizError
from quantviz.figures.arrangement import (
    BREAKPOINTS,
    MOST_CELLS,
    PANELS,
    USUAL_WIDTH,
    Arrangement,
    Box,
    arrange,
)
from quantviz.figures.numbers import short_number as short_number
from quantviz.figures.panels_data import (
    Array,
    PanelsData,
    Pixels,
    overview_panels,
    panels_data,
    picture_panels,
    result_panels,
)
from quantviz.figures.payload import Drawn, encoded
from quantviz.figures.raster import data_uri
from quantviz.figures.static import NotebookFigure, panels_png
from quantviz.figures.theme import THEMES, Ramp, Theme, one_sided, stops
from quantviz.quantization.explanation import CAUSES
from quantviz.quantization.result import refuse_other_than_results
from quantviz.schemes.formats import FORMATS
from quantviz.tensors.conversion import as_plain
from quantviz.tensors.views import ERROR_VIEWS
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.quantization.result import QuantResult

__all__ = [
    "PANELS",
    "PANELS_CONFIG",
    "PanelsData",
    "error_caption",
    "overview_panels",
    "panels_alt",
    "panels_data",
    "panels_figure",
    "plot_quantization_errors",
    "result_panels",
]

#: Cells a side up to which a notebook's figure tells x, q, x_hat, error, block, scale and cause at each
#: panel's cells.
MOST_HOVER = 64
#: Cells a side up to which a notebook's figure prints the values.
MOST_PRINTED = 10
#: Cells a side up to which a notebook's figure has each of them; a larger tensor's has so many pixels.
MOST_PIXELS = 384
#: Pixels above a notebook's figure for plotly's buttons.
_BUTTONS = 24
#: Where no axis reaches.
_OUT_OF_SIGHT = -1_000_000
#: A narrower figure is on a phone, where a finger that drags wants to scroll the page.
_PHONE = BREAKPOINTS[4]["grid"]
#: Pixels between two borders below which they are left out.
_LEAST_BORDER_GAP = 5
#: Pixels of a colour bar from which on a sentence fits between its ends.
_WIDE = 190
#: Blocks along an edge up to which each block's scale is written there.
MOST_EDGE_SCALES = 16
#: For `fig.show(config=…)` and `st.plotly_chart(config=…)`: no logo, no upload of the data to somebody's
#: cloud, no tips in English.
PANELS_CONFIG: Mapping[str, Any] = MappingProxyType(
    {
        "displaylogo": False,
        "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
        "doubleClick": "reset",
        "showTips": False,
        "toImageButtonOptions": {"filename": "quantviz", "scale": 2},
    }
)


def panels_figure(
    data: PanelsData,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    width: float = USUAL_WIDTH,
    height: float | None = None,
    selected: tuple[int, int] | None = None,
    titles: Sequence[str] | None = None,
    note: str | None = None,
    hover: bool = False,
    printed: bool = False,
    tensor_key: str = "",
    enlarge: float = 1.0,
) -> Drawn:
    """Return the heatmaps of `data.panels`, arranged for `width` pixels.

    `hover` and `printed` make the figure tell values by itself, for a notebook, as far as the tensor
    is small enough; in the app the bridge does both at a fraction of the time. `titles` are one a panel,
    the usual ones if none; `selected` is a cell marked in all; `note` is a line under them; `enlarge`
    makes text and gaps so many times larger, for the back of a room.
    The bridge keeps the zoom from one figure to the next while `tensor_key` and the matrix' size stay the
    same.
    """
    # By the whole matrix: the boxes stay where they are while a person looks around in it.
    layout = arrange(width / enlarge, data.matrix, height and height / enlarge, len(data.panels)).times(
        enlarge
    )
    painter = _Painter(data, THEMES[theme], layout, language)
    heatmap = data.pixels is None and max(data.shape) <= MOST_CELLS
    traces: list[dict[str, Any]] = []
    for i, name in enumerate(data.panels):
        if name in data.covered:
            traces.append(painter.covered(i, name))
        else:
            traces += [painter.heatmap(i, name, hover, printed)] if heatmap else painter.image(i, name)
    usual = [
        panel_title(name, data, language, scales=name != "q" or painter.edge(i) is not None)
        for i, name in enumerate(data.panels)
    ]
    drawn = painter.layout(titles or usual, selected, note)
    figure = {
        "data": traces,
        "layout": {
            **drawn,
            # Without plotly's own hover the bridge shows the card.
            "hovermode": "closest" if hover else False,
            "meta": _meta(data, layout, tensor_key, drawn),
        },
    }
    # Unchecked: see above.
    return Drawn(figure)


def _meta(data: PanelsData, layout: Arrangement, tensor_key: str, drawn: dict[str, Any]) -> dict[str, Any]:
    """What the bridge must know of the drawing it finds."""
    (rows, cols), (all_rows, all_cols) = data.seen, data.matrix
    axis_ids = [_axis_id("x", i) for i in range(len(data.panels))]
    return {
        "arrangement": layout.name,
        "panels": data.panels,
        "open": data.open,
        # Where one panel is shown at a time, these tell whose each shape and each annotation is.
        "shapes": [axis_ids.index(shape["xref"]) for shape in drawn["shapes"]],
        "annotations": [
            data.panels.index(text["name"]) if "name" in text else -1 for text in drawn["annotations"]
        ],
        "rows": all_rows,
        "cols": all_cols,
        "window": {"top": data.top, "left": data.left, "rows": rows, "cols": cols},
        "shape": data.shape,
        "whole": data.whole,
        "large": not data.whole or max(data.matrix) > MOST_CELLS,
        "tensor": f"{tensor_key} {all_rows}x{all_cols}",
        "stamp": data.stamp,
        "enlarged": layout.enlarged,
    }


def panel_ramp(name: str, data: PanelsData, theme: Theme) -> Ramp:
    """Return the colours of a panel, from the low end of its range to the high one."""
    if name == "error":
        return theme.errors if ERROR_VIEWS[data.error_view].signed else one_sided(theme.errors)
    if data.two_sided:
        return theme.values
    ramp = one_sided(theme.values)
    return ramp if data.value_range[1] > 0 or name == "q" else one_sided(theme.values[::-1])[::-1]


def panel_title(name: str, data: PanelsData, language: str = DEFAULT_LANGUAGE, *, scales: bool = True) -> str:
    """Return a panel's title in the app, such as "q codes (int4)"; without `scales` it tells nothing of those
    at the edge.
    """
    if name in data.covered:
        return text(f"panels.covered.{name}", language)
    if data.pixels is not None:
        return _pooled_title(name, data, data.pixels, language)
    if name == "error":
        # Steps are not s wide where the grid's own differ.
        local = "_local" if data.error_view == "steps" and data.unscaled is not None else ""
        return text(f"panels.title.error_{data.error_view}{local}", language)
    if name == "q" and data.format_id is None:
        return text("panels.title.q_plain", language)
    if name != "q":
        return text(f"panels.title.{name}", language)
    # Codes that are no numbers are not shown, but what they stand for.
    what, form = (
        ("q", data.format_id)
        if data.unscaled is None
        else ("value", text(f"formats.{data.format_id}.name", language))
    )
    edge = edge_scales(data)
    if edge and scales:
        return text(f"panels.title.{what}_{edge.side}", language, format=form, scale=edge.labels[0])
    return text(f"panels.title.{what}", language, format=form)


def _pooled_title(name: str, data: PanelsData, pixels: Pixels, language: str) -> str:
    """What the pixels of a panel show, such as "x, largest of 21 × 48"."""
    form = data.format_id and (
        data.format_id if data.unscaled is None else text(f"formats.{data.format_id}.name", language)
    )
    what = {"q": "q" if data.unscaled is None else "value", "error": f"error_{data.error_view}"}.get(
        name, name
    )
    rows, cols = pixels.size()
    found = "_found" if pixels.x_at is not None and name in ("q", "x_hat") else ""
    return text(
        f"panels.pooled.{pixels.how}{found}",
        language,
        what=text(f"panels.pooled.what.{what}", language, format=form),
        rows=rows,
        cols=cols,
    )


def _pixel_words(pixels: Pixels, language: str) -> str:
    rows, cols = pixels.size()
    return text(f"panels.pixel.{pixels.how}", language, rows=rows, cols=cols)


@dataclass(frozen=True)
class EdgeScales:
    """The scales of a few blocks, to be written at the edge of the codes."""

    #: "title" for one block, "bottom" for blocks side by side, "right" for blocks one below the other.
    side: str
    #: The middle of each block, in cells.
    places: tuple[float, ...]
    labels: tuple[str, ...]

    def ticks(self) -> dict[str, Any]:
        """As an axis' numbers."""
        return {"tickmode": "array", "tickvals": list(self.places), "ticktext": list(self.labels)}


def edge_scales(data: PanelsData) -> EdgeScales | None:
    """Return the scales to write at the edge of the codes; none where blocks are many or lie in both
    directions.
    """
    if data.blocks is None or "scale" in data.covered:
        return None
    down, across = data.blocks.row_borders().tolist(), data.blocks.col_borders().tolist()
    if (down and across) or max(len(down), len(across)) >= MOST_EDGE_SCALES:
        return None
    edges = [0, *(down or across), data.shape[0 if down else 1]]
    scale = data.blocks.scale[:, 0] if down else data.blocks.scale[0]
    first = data.top if down else data.left
    places = tuple(first + (start + end - 1) / 2 for start, end in itertools.pairwise(edges))
    side = "right" if down else "bottom" if across else "title"
    return EdgeScales(
        side,
        places,
        tuple(short_number(float(scale[start]), 3 if side == "title" else 2) for start in edges[:-1]),
    )


def panels_alt(data: PanelsData, language: str = DEFAULT_LANGUAGE) -> str:
    """What the picture is, for those who hear it."""
    rows, cols = data.matrix
    low, high = (float(reach.reduce(data.x, axis=None)) for reach in (np.fmin, np.fmax))
    if data.open == PANELS:
        numbers = {
            "low": short_number(low),
            "high": short_number(high),
            "error": short_number(float(np.fmax.reduce(np.abs(data.error), axis=None))),
        }
        told = text("panels.alt", language, rows=rows, cols=cols, **numbers)
    else:
        told = text(
            "panels.alt_part",
            language,
            rows=rows,
            cols=cols,
            panels=", ".join(panel_title(name, data, language) for name in data.panels),
        )
    seen = () if data.seen == data.matrix else (text("panels.alt_window", language, **_ends(data)),)
    pixel = () if data.pixels is None else (_pixel_words(data.pixels, language),)
    return " ".join((told, *seen, *pixel))


def _ends(data: PanelsData) -> dict[str, int]:
    rows, cols = data.seen
    return {"top": data.top, "bottom": data.top + rows - 1, "left": data.left, "right": data.left + cols - 1}


def error_caption(data: PanelsData, language: str = DEFAULT_LANGUAGE) -> str:
    """Return how far the error's colours reach, such as "±1.64, held"."""
    view = ERROR_VIEWS[data.error_view]
    number = text(
        "panels.unit." + data.error_view, language, number=short_number(data.error_range[1] * view.unit)
    )
    span = f"±{number}" if view.signed else f"0 … {number}"
    return text("panels.held", language, range=span) if data.error_held else span


def value_caption(data: PanelsData, language: str = DEFAULT_LANGUAGE, *, wide: bool = True) -> str:
    """Return how the colours of x and x̂ are spread where they are not linear to the ends, such as "99 % of
    |x|"; shorter where there is no room.
    """
    if data.symlog is None:
        return text("panels.cut", language)
    return text(
        "panels.symlog" if wide else "panels.symlog_short",
        language,
        number=("±" if data.two_sided else "") + short_number(data.symlog, 2),
    )


@dataclass(frozen=True)
class _Painter:
    """Draws one figure's parts; it computes nothing but places."""

    data: PanelsData
    theme: Theme
    boxes: Arrangement
    language: str

    def heatmap(self, i: int, name: str, hover: bool, printed: bool) -> dict[str, Any]:
        trace = {
            **self._frame(i, name),
            "type": "heatmap",
            "coloraxis": _axis_id("coloraxis", i),
            "z": encoded(self.data.colours(name)[0]),
            "x0": self.data.left,
            "y0": self.data.top,
            "hoverinfo": "none",
        }
        if hover:
            trace |= self._hover()
        if printed and max(self.data.shape) <= MOST_PRINTED:
            trace |= self._printed(i, name)
        return trace

    def image(self, i: int, name: str) -> list[dict[str, Any]]:
        values, (lo, hi) = self.data.colours(name)
        # Pixels are drawn alike; where they differ by a cell, that is less than a pixel.
        down, across = (cells / pixels for cells, pixels in zip(self.data.seen, self.data.shape, strict=True))
        picture = {
            **self._frame(i, name),
            "type": "image",
            "x0": self.data.left + (across - 1) / 2,
            "y0": self.data.top + (down - 1) / 2,
            "dx": across,
            "dy": down,
            "source": data_uri(
                values, lo, hi, panel_ramp(name, self.data, self.theme), self.data.middle(name)
            ),
            "hoverinfo": "none",
        }
        # An image has no colour bar: one cell far out of sight on the same axes brings it.
        bar = {
            **self._frame(i, name),
            "type": "heatmap",
            "coloraxis": _axis_id("coloraxis", i),
            "z": [[lo]],
            "x": [_OUT_OF_SIGHT],
            "y": [_OUT_OF_SIGHT],
            "hoverinfo": "skip",
        }
        return [picture, bar]

    def covered(self, i: int, name: str) -> dict[str, Any]:
        """Return nothing of the panel but its frame: one cell out of sight keeps its axes."""
        return {
            **self._frame(i, name),
            "type": "heatmap",
            "showscale": False,
            "z": [[0]],
            "x": [_OUT_OF_SIGHT],
            "y": [_OUT_OF_SIGHT],
            "hoverinfo": "skip",
        }

    def layout(
        self, titles: Sequence[str], selected: tuple[int, int] | None, note: str | None
    ) -> dict[str, Any]:
        under = 18 if note else 0
        layout: dict[str, Any] = {
            # An empty template: the usual one is 6 kB that every slider move would send.
            "template": {},
            "width": self.boxes.width,
            "height": self.boxes.height + under,
            "autosize": False,
            "margin": {"l": 0, "r": 0, "t": 0, "b": under, "autoexpand": False},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": self.theme.font, "color": self.theme.text, "size": self._points(12)},
            "showlegend": False,
            "dragmode": False if self.boxes.width < _PHONE * self.boxes.enlarged else "zoom",
            # What a person zoomed to belongs to the window it was zoomed in.
            "uirevision": f"panels {self.data.top} {self.data.left} {self.data.seen}",
            "annotations": [
                self._title(box, title, i)
                for i, (box, title) in enumerate(zip(self.boxes.boxes, titles, strict=True))
            ],
            "shapes": [*self._borders(), *self._covers(), *self._lit(), *self._marks(selected)],
            "modebar": {
                "bgcolor": "rgba(0,0,0,0)",
                "color": self.theme.muted,
                "activecolor": self.theme.text,
            },
        }
        if note:
            layout["annotations"].append(
                {
                    **_TEXT,
                    "text": note,
                    "x": 0,
                    "y": 0,
                    "yanchor": "top",
                    "xanchor": "left",
                    "font": {"size": 11, "color": self.theme.muted},
                }
            )
        for i, box in enumerate(self.boxes.boxes):
            layout[_axis_id("xaxis", i)], layout[_axis_id("yaxis", i)] = self._axes(i, box)
            if self.data.panels[i] not in self.data.covered:
                layout[_axis_id("coloraxis", i)] = self._colours(i, self.data.panels[i])
        layout["annotations"] += self._questions()
        return layout

    def _points(self, size: float) -> float:
        return size * self.boxes.enlarged

    def _frame(self, i: int, name: str) -> dict[str, Any]:
        return {"name": name, "xaxis": _axis_id("x", i), "yaxis": _axis_id("y", i)}

    def _colours(self, i: int, name: str) -> dict[str, Any]:
        _, (lo, hi) = self.data.colours(name)
        ramp = panel_ramp(name, self.data, self.theme)
        return {
            "colorscale": list(zip(stops(ramp, self.data.middle(name)), ramp, strict=True)),
            "cmin": lo,
            "cmax": hi,
            "colorbar": self._bar(i, name),
        }

    def _bar(self, i: int, name: str) -> dict[str, Any]:
        box = self.boxes.boxes[i]
        ends, (lo, hi) = self.data.panel(name)[1], self.data.colours(name)[1]
        told, middle = dict(zip((lo, hi), map(short_number, ends), strict=True)), (lo + hi) / 2
        if name == "error":
            ticks = {middle: error_caption(self.data, self.language)}
        elif name != "q" and (self.data.symlog or self.data.cut):
            ticks = told | {
                middle: value_caption(self.data, self.language, wide=box.width >= self._points(_WIDE))
            }
        elif name == "q" or self.data.two_sided:
            ticks = told | ({0: "0"} if abs(middle) < (hi - lo) / 4 else {})
        else:
            ticks = told
        return {
            "orientation": "h",
            "x": box.left / self.boxes.width,
            "xanchor": "left",
            "y": 1 - box.bar_top / self.boxes.height,
            "yanchor": "top",
            "len": box.width / self.boxes.width,
            "thickness": self.boxes.bar,
            "xpad": 0,
            "ypad": 0,
            "outlinewidth": 0,
            "ticks": "",
            "tickvals": list(ticks),
            "ticktext": list(ticks.values()),
            "ticklabeloverflow": "allow",
            "tickfont": {"size": self._points(10), "color": self.theme.muted},
        }

    def _axes(self, i: int, box: Box) -> tuple[dict[str, Any], dict[str, Any]]:
        (rows, cols), (all_rows, all_cols) = self.data.seen, self.data.matrix
        left, right, top, bottom = self.data.extent()
        width, height = self.boxes.width, self.boxes.height
        both = {
            "showgrid": False,
            "zeroline": False,
            "showline": False,
            "ticks": "",
            "tickfont": {"size": self._points(10), "color": self.theme.muted},
        }
        x = {
            **both,
            "anchor": _axis_id("y", i),
            "domain": [box.left / width, (box.left + box.width) / width],
            "range": [left, right],
            "minallowed": -0.5,
            "maxallowed": all_cols - 0.5,
            **_numbers(cols, box.width / self._points(24)),
        }
        y = {
            **both,
            "anchor": _axis_id("x", i),
            "domain": [1 - (box.top + box.height) / height, 1 - box.top / height],
            # Rows run downwards.
            "range": [bottom, top],
            "minallowed": -0.5,
            "maxallowed": all_rows - 0.5,
            **_numbers(rows, box.height / self._points(22)),
            # Beside the frame of a selected cell in the first column.
            "ticklabelstandoff": 3,
            "showticklabels": i == 0 or self.boxes.name == "single" or (self.boxes.name == "grid" and i == 2),
            # An image's axes are tied to square cells unless this is said.
            "scaleanchor": False,
        }
        if i:
            x["matches"], y["matches"] = "x", "y"
        edge = self.edge(i) if self.data.panels[i] == "q" else None
        if edge and edge.side == "bottom":
            x |= edge.ticks()
        elif edge and edge.side == "right":
            y |= {
                **edge.ticks(),
                "side": "right",
                "showticklabels": True,
                "tickfont": {"size": self._points(9), "color": self.theme.muted},
            }
        return x, y

    def edge(self, i: int) -> EdgeScales | None:
        """Return the scales at the edge of the codes, the i-th panel; none where there is no room for
        them.
        """
        edge, box = edge_scales(self.data) if "q" in self.data.open else None, self.boxes.boxes[i]
        if edge is None or edge.side == "title":
            return edge
        across = edge.side == "bottom"
        room = (
            box.width / len(edge.places) >= 24
            if across
            else self.boxes.name == "row" and box.height / len(edge.places) >= 10
        )
        return edge if room else None

    def _title(self, box: Box, title: str, i: int) -> dict[str, Any]:
        return {
            **_TEXT,
            "text": title,
            "name": self.data.panels[i],
            "x": box.left / self.boxes.width,
            "xanchor": "left",
            "y": 1 - (box.top - self._points(4)) / self.boxes.height,
            "yanchor": "bottom",
            "font": {"size": self._points(13)},
        }

    def _borders(self) -> list[dict[str, Any]]:
        if self.data.blocks is None:
            return []
        left, right, top, bottom = self.data.extent()
        down, across = self.data.blocks.row_borders(), self.data.blocks.col_borders()
        box = self.boxes.boxes[0]
        lines = []
        if len(down) and box.height / len(down) >= _LEAST_BORDER_GAP:
            lines += [f"M{left},{top + row}H{right}" for row in down.tolist()]
        if len(across) and box.width / len(across) >= _LEAST_BORDER_GAP:
            lines += [f"M{left + col},{top}V{bottom}" for col in across.tolist()]
        if not lines:
            return []
        path = "".join(lines)
        line = {"color": self.theme.border, "width": 1}
        return [
            {"type": "path", "path": path, "xref": _axis_id("x", i), "yref": _axis_id("y", i), "line": line}
            for i in range(len(self.data.panels))
        ]

    def _lit(self) -> list[dict[str, Any]]:
        """Return a frame around the lit cells, in all panels."""
        if self.data.lit is None or not self.data.lit.any():
            return []
        path = _outline(self.data.lit, self.data.top, self.data.left)
        lines = ({"color": self.theme.mark_halo, "width": 4}, {"color": self.theme.lit, "width": 2})
        return [
            {"type": "path", "path": path, "xref": _axis_id("x", i), "yref": _axis_id("y", i), "line": line}
            for i in range(len(self.data.panels))
            for line in lines
        ]

    def _covers(self) -> list[dict[str, Any]]:
        """Return an empty frame where a covered panel will be."""
        left, right, top, bottom = self.data.extent()
        place = {"type": "rect", "x0": left, "x1": right, "y0": top, "y1": bottom}
        look = {
            "line": {"color": self.theme.muted, "width": 1, "dash": "dot"},
            "fillcolor": self.theme.surface,
            "layer": "below",
        }
        return [
            {**place, **look, "xref": _axis_id("x", i), "yref": _axis_id("y", i)}
            for i, name in enumerate(self.data.panels)
            if name in self.data.covered
        ]

    def _questions(self) -> list[dict[str, Any]]:
        """Return a question mark in the middle of each covered panel."""
        left, right, top, bottom = self.data.extent()
        font = {"size": self._points(40), "color": self.theme.muted}
        middle = {
            "text": "?",
            "showarrow": False,
            "x": (left + right) / 2,
            "y": (top + bottom) / 2,
            "font": font,
        }
        places = [
            (name, _axis_id("x", i), _axis_id("y", i))
            for i, name in enumerate(self.data.panels)
            if name in self.data.covered
        ]
        return [{**middle, "name": name, "xref": x, "yref": y} for name, x, y in places]

    def _marks(self, selected: tuple[int, int] | None) -> list[dict[str, Any]]:
        if selected is None:
            return []
        row, col = selected
        place = {"type": "rect", "x0": col - 0.5, "x1": col + 0.5, "y0": row - 0.5, "y1": row + 0.5}
        lines = ({"color": self.theme.mark_halo, "width": 4}, {"color": self.theme.mark, "width": 2})
        return [
            {**place, "xref": _axis_id("x", i), "yref": _axis_id("y", i), "line": line}
            for i in range(len(self.data.panels))
            for line in lines
        ]

    def _printed(self, i: int, name: str) -> dict[str, Any]:
        """Return the values in their cells: as many digits as fit, none where not even two do."""
        values = self.data.printed(name).tolist()
        room = self.boxes.boxes[i].width / self.data.shape[1]
        for digits, size in ((3, 10), (2, 10), (2, 9)):
            texts = [[short_number(value, digits) for value in row] for row in values]
            # A digit is about half as wide as it is high.
            if max(len(shown) for row in texts for shown in row) * size * 0.54 <= room:
                return {"text": texts, "texttemplate": "%{text}", "textfont": {"size": size}}
        return {}

    def _hover(self) -> dict[str, Any]:
        # With a format plotly takes the number itself; without one it takes the axis' label, which may be a
        # scale.
        index = "(%{y:d}, %{x:d})"
        if max(self.data.shape) > MOST_HOVER:
            return {"hoverinfo": "all", "hovertemplate": f"{index}  %{{z:.6~g}}<extra></extra>"}
        cells = [self.data.x, self.data.panel("q")[0], self.data.x_hat, self.data.error]
        lines = [
            index,
            *(
                f"{text(f'panels.field.{name}', self.language)} %{{customdata[{i}]:.6~g}}"
                for i, name in enumerate(PANELS)
            ),
        ]
        if self.data.blocks is not None:
            place = self.data.blocks.places()
            axes = ", ".join(f"%{{customdata[{len(cells) + i}]}}" for i in range(len(place)))
            cells += [*place, self.data.blocks.scale]
            lines.append(
                f"{text('panels.block', self.language)} {axes or text('panels.whole_tensor', self.language)}"
            )
            lines.append(f"{text('panels.scale', self.language)} %{{customdata[{len(cells) - 1}]:.6~g}}")
        if self.data.unscaled is not None:
            bits = FORMATS[self.data.format_id].bits if self.data.format_id else 0
            cells.append(self.data.q)
            lines.insert(
                1 + PANELS.index("x_hat"),
                f"{text('panels.code', self.language)} %{{customdata[{len(cells) - 1}]:0{bits}b}}",
            )
        hover: dict[str, Any] = {
            "customdata": encoded(np.stack([cell.astype(np.float32) for cell in cells], axis=-1)),
            "hoverinfo": "all",
        }
        if self.data.cause is not None:
            words = np.array([text(f"causes.{name}", self.language) for name in CAUSES])
            hover["hovertext"] = words[self.data.cause].tolist()
            lines.append(f"{text('panels.cause', self.language)} %{{hovertext}}")
        return {**hover, "hovertemplate": "<br>".join(lines) + "<extra></extra>"}


def _outline(lit: Array, top: int = 0, left: int = 0) -> str:
    """Return a path around the lit cells of a window, a little inside them: neighbours share one frame, or
    all lit would be a cage.

    In absolute places, for plotly reads no relative ones.

    >>> _outline(np.array([[False, True]]))
    'M0.54,-0.46H1.46V0.46H0.54Z'
    """
    dark = ~np.pad(lit, 1)
    path = []
    # Among lit cells there is nothing to draw.
    edge = lit & (dark[:-2, 1:-1] | dark[2:, 1:-1] | dark[1:-1, :-2] | dark[1:-1, 2:])
    for row, col in np.argwhere(edge).tolist():
        open_up, open_down, open_left, open_right = (
            bool(dark[row + i, col + j]) for i, j in ((0, 1), (2, 1), (1, 0), (1, 2))
        )
        x, y = left + col, top + row
        # A side reaches the neighbour's where that is lit too.
        x0, x1 = x - (0.46 if open_left else 0.5), x + (0.46 if open_right else 0.5)
        y0, y1 = y - (0.46 if open_up else 0.5), y + (0.46 if open_down else 0.5)
        if open_up and open_down and open_left and open_right:
            path.append(f"M{x0},{y0}H{x1}V{y1}H{x0}Z")
            continue
        path += [f"M{x0},{end}H{x1}" for end, open_side in ((y0, open_up), (y1, open_down)) if open_side]
        path += [f"M{end},{y0}V{y1}" for end, open_side in ((x0, open_left), (x1, open_right)) if open_side]
    return "".join(path)


#: What all our annotations share.
_TEXT: Mapping[str, Any] = MappingProxyType(
    {"xref": "paper", "yref": "paper", "showarrow": False, "borderpad": 0, "align": "left"}
)


def _axis_id(name: str, i: int) -> str:
    """What plotly calls the i-th of its axes.

    >>> _axis_id("x", 0), _axis_id("coloraxis", 3)
    ('x', 'coloraxis4')
    """
    return name if i == 0 else f"{name}{i + 1}"


def _numbers(count: int, most: float) -> dict[str, Any]:
    """Whole row or column numbers only."""
    return (
        {"tick0": 0, "dtick": 1} if count <= most else {"nticks": max(int(most / 1.6), 2), "tickformat": "d"}
    )


# ---- the notebook's call ------------------------------------------------------------------------


def plot_quantization_errors(
    original: Any,
    quantized: Any,
    dequantized: Any,
    dtype: torch.dtype = torch.int8,
    n_bits: int = 8,
    *,
    result: QuantResult | None = None,
    selected: tuple[int, int] | None = None,
) -> NotebookFigure:
    """Return the source notebooks' figure: original, quantized, dequantized and error tensor side by side.

    The three are tensors or nested lists of one shape, 1 to 4 axes. `dtype` (signed or not) and
    `n_bits` give the codes' colour range. The error is dequantized - original. `result`, what
    `quantize` returned with these codes, adds block borders and scales, and each cell's block,
    scale and cause where the pointer is; without it a line says that they are missing. `selected`
    is a cell (row, column) marked in all four. Of a tensor with more cells a side than a screen has pixels
    for, the figure is a picture in which a pixel tells the largest of its cells. Where a notebook's front end
    draws no plotly, it shows a PNG. Raises `QuantVizError` where shapes differ, and for the result of other
    codes.

    >>> figure = plot_quantization_errors([[1.0, -2.0]], [[64, -127]], [[1.008, -2.0]])
    >>> [annotation.text for annotation in figure.layout.annotations][1]
    '8-bit Linear Quantized Tensor'
    """
    if not isinstance(dtype, torch.dtype) or not isinstance(n_bits, int) or not 1 <= n_bits <= 64:
        raise QuantVizError("dtype_wanted", got=dtype, n_bits=n_bits)
    code_range = (
        (float(-(1 << (n_bits - 1))), float((1 << (n_bits - 1)) - 1))
        if dtype.is_signed
        else (0.0, float((1 << n_bits) - 1))
    )
    if result is not None:
        refuse_other_than_results(result)
        if not _same_codes(result, quantized):
            raise QuantVizError("panels.result_of_others")
    coded = result.scheme if result is not None and result.scheme.number_format.kind != "integer" else None
    data = picture_panels(original, quantized, dequantized, MOST_PIXELS, scheme=coded, code_range=code_range)
    if result is not None and data.pixels is None:
        own = result_panels(result)
        data = dataclasses.replace(data, blocks=own.blocks, cause=own.cause, format_id=own.format_id)
        if own.unscaled is not None:
            data = dataclasses.replace(data, unscaled=own.unscaled, code_range=own.code_range)
    titles = [text(f"panels.notebook.{name}", n_bits=n_bits) for name in PANELS]
    edge = edge_scales(data)
    one = edge.labels[0] if edge and edge.side == "title" else None
    notes = (
        [text("panels.notebook.one_scale", scale=one)]
        if one
        else []
        if result is not None
        else [text("panels.no_result")]
    )
    note = (
        " ".join([*notes, *([] if data.pixels is None else [_pixel_words(data.pixels, DEFAULT_LANGUAGE)])])
        or None
    )
    figure = panels_figure(data, titles=titles, note=note, hover=True, printed=True, selected=selected)
    # A notebook may be dark, and it does not say so: the light colours bring their own page.
    page = THEMES["light"]
    figure.update_layout(
        paper_bgcolor=page.surface,
        hoverlabel={
            "bgcolor": page.surface,
            "bordercolor": page.line,
            "font": {"color": page.text},
            "align": "left",
        },
    )
    # Nor does it take a config: the buttons stand above the titles, and those that do nothing here are left
    # out.
    figure.update_layout(
        margin_t=_BUTTONS,
        height=figure.layout.height + _BUTTONS,
        modebar_remove=["select2d", "lasso2d", "autoScale2d"],
    )
    ramps = [panel_ramp(name, data, page) for name in data.panels]
    return NotebookFigure(figure.to_dict(), lambda: panels_png(data, titles, ramps, page, note))


def _same_codes(result: QuantResult, quantized: Any) -> bool:
    codes = as_plain(quantized)
    return tuple(codes.shape) == result.shape and bool((codes == result.q).all())
