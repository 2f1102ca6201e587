"""The parts and words of the panels' figure as plotly takes them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from quantviz.figures import small_plots
from quantviz.figures.arrangement import (
    BREAKPOINTS,
    GAP,
    MOST_CELLS,
    PANELS,
    Arrangement,
    Box,
    PanelsStyle,
)
from quantviz.figures.colour_ranges import Array
from quantviz.figures.compared_panels import winner_ramp, winner_ticks
from quantviz.figures.numbers import short_number, text_width
from quantviz.figures.panels_data import BlockMap, PanelsData, PixelCells
from quantviz.figures.payload import encoded
from quantviz.figures.printing import fitting
from quantviz.figures.raster import data_uri
from quantviz.figures.small_plots import shape
from quantviz.figures.theme import GREYS, THEMES, Ramp, Theme, one_sided, stops, translucent
from quantviz.quantization.explanation import CAUSES
from quantviz.schemes.formats import entry_of, find_format
from quantviz.tensors.views import ERROR_VIEWS
from quantviz.text import DEFAULT_LANGUAGE, templates, text

#: Cells a side with values, block, scale and cause on a notebook's hover.
MOST_HOVER = 64
#: Cells a side with printed values in a notebook.
MOST_PRINTED = 10
#: Blocks along an edge with their scales written there.
MOST_EDGE_SCALES = 16
#: Where no axis reaches.
_OUT_OF_SIGHT = -1_000_000
#: A narrower figure is on a phone, where a finger that drags wants to scroll the page.
_PHONE = BREAKPOINTS[4]["grid"]
#: Opacity of the lit cells' map: where one of a pixel's cells is lit, and where all are.
_MAP_OPACITY = (0.3, 0.6)
#: Pixels between borders that are drawn.
_LEAST_BORDER_GAP = 8
#: Of titles, and of all else; a title or scales without room are smaller.
_TITLE = 14
_TEXT_SIZE = 12
_SMALL = 10
#: How much wider a bold text is.
_BOLD = 1.06
#: How many times as far as its held colours an error reaches that leaves them.
_LEAST_BEYOND = 1.005


@dataclass(frozen=True)
class PanelPainter:
    """Draws one figure's parts; it computes nothing but places."""

    data: PanelsData
    style: PanelsStyle
    boxes: Arrangement

    @property
    def theme(self) -> Theme:
        return THEMES[self.style.theme]

    def titles(self) -> list[str]:
        return [
            panel_title(name, self.data, self.style.language, scales=name != "q" or self._edge(i) is not None)
            for i, name in enumerate(self.data.panels)
        ]

    def traces(self) -> list[dict[str, Any]]:
        cells = self.data.pixels is None and max(self.data.shape) <= MOST_CELLS
        traces: list[dict[str, Any]] = []
        for i, name in enumerate(self.data.panels):
            if name in self.data.covered:
                # An empty panel with its frame.
                traces.append({**self._out_of_sight(i, name), "showscale": False, "z": [[0]]})
                continue
            traces += [self._heatmap(i, name)] if cells else self._image(i, name)
            if self.data.lit_share is not None:
                traces.append(self._differences(i, name))
        return traces

    def _heatmap(self, i: int, name: str) -> dict[str, Any]:
        trace = {
            **self._frame(i, name),
            "type": "heatmap",
            "coloraxis": axis_id("coloraxis", i),
            "z": encoded(self.data.colours(name)[0]),
            "x0": self.data.left,
            "y0": self.data.top,
            "hoverinfo": "none",
        }
        if self.style.hover:
            trace |= self._hover()
        if self.style.printed and max(self.data.shape) <= MOST_PRINTED:
            trace |= self._printed(i, name)
        return trace

    def _image(self, i: int, name: str) -> list[dict[str, Any]]:
        values, (lo, hi) = self.data.colours(name)
        picture = {
            **self._frame(i, name),
            "type": "image",
            **self._pixel_places(),
            "source": data_uri(
                values, lo, hi, panel_ramp(name, self.data, self.theme), self.data.middle(name)
            ),
            "hoverinfo": "none",
        }
        # An image has no colour bar: one cell far out of sight on the same axes brings it.
        bar = {**self._out_of_sight(i, name), "coloraxis": axis_id("coloraxis", i), "z": [[lo]]}
        return [picture, bar]

    def _pixel_places(self) -> dict[str, float]:
        """Return the middle of the first pixel and the distance to the next, in cells.

        Pixels are drawn alike: where they differ by a cell, that is less than a pixel.
        """
        down, across = (cells / pixels for cells, pixels in zip(self.data.seen, self.data.shape, strict=True))
        return {
            "x0": self.data.left + (across - 1) / 2,
            "y0": self.data.top + (down - 1) / 2,
            "dx": across,
            "dy": down,
        }

    def _out_of_sight(self, i: int, name: str) -> dict[str, Any]:
        # It keeps a panel's axes.
        return {
            **self._frame(i, name),
            "type": "heatmap",
            "x": [_OUT_OF_SIGHT],
            "y": [_OUT_OF_SIGHT],
            "hoverinfo": "skip",
        }

    def _differences(self, i: int, name: str) -> dict[str, Any]:
        share = self.data.lit_share
        assert share is not None
        faint, strong = (translucent(self.theme.lit, opacity) for opacity in _MAP_OPACITY)
        return {
            **self._frame(i, name),
            "type": "heatmap",
            "showscale": False,
            "colorscale": [[0, faint], [1, strong]],
            "zmin": 0,
            "zmax": 1,
            # A gap is drawn where there is no number.
            "z": encoded(np.where(share > 0, share, np.nan).astype(np.float32)),
            **self._pixel_places(),
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
            # A zoom belongs to the window in which it was made.
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
            layout["annotations"].append(small_plots.note(note, 0, 0, self.theme.muted, "top left", **_TEXT))
        for i, box in enumerate(self.boxes.boxes):
            layout[axis_id("xaxis", i)], layout[axis_id("yaxis", i)] = self._axes(i, box)
            if self.data.panels[i] not in self.data.covered:
                layout[axis_id("coloraxis", i)] = self._colours(i, self.data.panels[i])
        layout["annotations"] += self._questions()
        return layout

    def _points(self, size: float) -> float:
        return size * self.boxes.enlarged

    def _frame(self, i: int, name: str) -> dict[str, Any]:
        return {"name": name, "xaxis": axis_id("x", i), "yaxis": axis_id("y", i)}

    def _colours(self, i: int, name: str) -> dict[str, Any]:
        _, (lo, hi) = self.data.colours(name)
        ramp = panel_ramp(name, self.data, self.theme)
        return {
            "colorscale": list(zip(stops(ramp, self.data.middle(name)), ramp, strict=True)),
            "cmin": lo,
            "cmax": hi,
            **({"colorbar": self._bar(i, name)} if self.style.bars else {"showscale": False}),
        }

    def _bar(self, i: int, name: str) -> dict[str, Any]:
        box = self.boxes.boxes[i]
        lo, hi = self.data.colours(name)[1]
        first, last = bar_ends(name, self.data, self.style.language)
        size = self._points(_TEXT_SIZE)
        remarks = bar_remarks(name, self.data, self.style.language)
        fitting = (each for each in remarks if text_width(f"{first} {each}  {last}", size) <= box.width)
        remark = next(fitting, "")
        if remark:
            first = f"{first} {remark}"
        # Plotly centres its labels: they stand where they begin and end with the bar, or beyond its ends if
        # they would lie over each other.
        before = text_width(first, size)
        after = text_width(last, size)
        beyond = max(0.0, before + text_width("  ", size) + after - box.width) / 2
        shares = [max(0.0, before / 2 - beyond) / box.width, min(1.0, 1 - (after / 2 - beyond) / box.width)]
        ticks = {lo + share * (hi - lo): label for share, label in zip(shares, (first, last), strict=True)}
        if self.data.kind(name) == "winner":
            ticks = winner_ticks((lo, hi))
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
            # Without a line the white end of a picture's bar would not be seen on a white page.
            "outlinewidth": 1 if self.data.grey and self.data.kind(name) in ("x", "q", "x_hat") else 0,
            "outlinecolor": self.theme.line,
            "ticks": "",
            "tickvals": list(ticks),
            "ticktext": list(ticks.values()),
            "tickangle": 0,
            "ticklabeloverflow": "allow",
            "tickfont": {"size": size, "color": self.theme.muted},
        }

    def _axes(self, i: int, box: Box) -> tuple[dict[str, Any], dict[str, Any]]:
        (rows, cols), (all_rows, all_cols) = self.data.seen, self.data.matrix
        left, right, top, bottom = self.data.extent()
        width = self.boxes.width
        height = self.boxes.height
        longest = text_width(f"{all_cols}  ", self._points(_TEXT_SIZE))
        both = {"showgrid": False, "zeroline": False, "showline": False, "ticks": ""}
        labels = {
            # Numbers fit as they stand. To see whether they do, plotly would lay out the page for each.
            "tickangle": 0,
            "ticklabeloverflow": "allow",
            "tickfont": {"size": self._points(_TEXT_SIZE), "color": self.theme.muted},
        }
        x = {
            **both,
            **labels,
            "anchor": axis_id("y", i),
            "domain": [box.left / width, (box.left + box.width) / width],
            "range": [left, right],
            "minallowed": -0.5,
            "maxallowed": all_cols - 0.5,
            **_numbers(cols, box.width / max(self._points(18), longest / 1.6)),
        }
        y = {
            **both,
            "anchor": axis_id("x", i),
            "domain": [1 - (box.top + box.height) / height, 1 - box.top / height],
            # Rows run downwards.
            "range": [bottom, top],
            "minallowed": -0.5,
            "maxallowed": all_rows - 0.5,
            "showticklabels": False,
            # By default an image's axes are tied to square cells.
            "scaleanchor": False,
        }
        if i == 0 or box.left == self.boxes.boxes[0].left:
            # Beside the frame of a selected cell in the first column.
            numbers = _numbers(rows, box.height / self._points(16))
            y |= {**labels, **numbers, "showticklabels": True, "ticklabelstandoff": 3}
        if i:
            x["matches"] = "x"
            y["matches"] = "y"
        edge = self._edge(i) if self.data.panels[i] == "q" else None
        if edge and edge.side != "title":
            font = {"size": self._edge_size(edge, box), "color": self.theme.muted}
            if edge.side == "bottom":
                x |= {**edge.ticks(), "tickfont": font}
            else:
                beside = {"side": "right", "showticklabels": True, "ticklabelstandoff": 3}
                y |= {**labels, **edge.ticks(), "tickfont": font, **beside}
        return x, y

    def _edge(self, i: int) -> EdgeScales | None:
        # Without room for them there are none.
        edge = edge_scales(self.data) if "q" in self.data.open else None
        box = self.boxes.boxes[i]
        if edge is None or edge.side == "title":
            return edge
        return edge if self._edge_size(edge, box) else None

    def _edge_size(self, edge: EdgeScales, box: Box) -> float | None:
        # None without room.
        count = len(edge.places)
        if edge.side == "bottom":
            width = box.width / count
            height = math.inf
        else:  # between this panel and the next
            width = self._room_beside()
            height = box.height / count
        for size in self._edge_sizes():
            if max(text_width(label, size) for label in edge.labels) <= width - 3 and size <= height:
                return size
        return None

    def _edge_sizes(self) -> list[float]:
        # The larger one first.
        sizes = map(self._points, (_TEXT_SIZE, _SMALL))
        return [size for size in sizes if size >= self.style.least_digit]

    def _title_room(self, box: Box) -> float:
        return box.width + self._points(GAP / 2)

    def _title_sizes(self) -> list[float]:
        # The largest one first.
        # A title on a wall may have smaller letters than digits have, rather than lack words.
        small = [_SMALL] if self.style.least_digit else []
        return [self._points(size) for size in (_TITLE, _TEXT_SIZE, *small)]

    def room_of_codes(self) -> dict[str, Any] | None:
        """Return the room of the codes' title and scales, for a browser that writes them anew."""
        if "q" not in self.data.open:
            return None
        box = self.boxes.boxes[self.data.panels.index("q")]
        return {
            "sizes": [self._points(size) for size in (_TITLE, _TEXT_SIZE, _SMALL)],
            "across": round(box.width, 3),
            "down": round(box.height, 3),
            "gap": self._points(GAP),
            **({"plain": True} if self.data.plain else {}),
        }

    def reach_of_errors(self) -> dict[str, Any] | None:
        """Return the reach of the error's colours and the room at their bar, for the browser's labels.

        It is how far the error leaves held colours, and what others follow. None without such a bar.
        """
        data = self.data
        if not (self.style.bars and (data.error_held or data.error_follows) and "error" in data.open):
            return None
        return {
            "end": data.error_range[1],
            "follows": data.error_follows,
            "labels": bar_ends("error", data, self.style.language),
            "unit": [
                ERROR_VIEWS[data.error_view].unit,
                templates("panels.unit", self.style.language)[data.error_view],
            ],
            "size": self._points(_TEXT_SIZE),
            "width": round(self.boxes.boxes[self.data.panels.index("error")].width, 3),
        }

    def _room_beside(self) -> float:
        # Between a panel and the next.
        return self._points(GAP) if self.boxes.name == "row" else 0

    def _title(self, box: Box, title: str, i: int) -> dict[str, Any]:
        room = self._title_room(box)
        for size in self._title_sizes():
            if _BOLD * text_width(title, size) <= room:
                break
        while len(title) > 1 and _BOLD * text_width(title, size) > room:
            title = title.rstrip("…")[:-1] + "…"
        x = box.left / self.boxes.width
        y = 1 - (box.top - self._points(4)) / self.boxes.height
        own: dict[str, Any] = {"name": self.data.panels[i], "font": {"size": size, "weight": 600}}
        return small_plots.note(title, x, y, "", "bottom left", **_TEXT, **own)

    def _borders(self) -> list[dict[str, Any]]:
        data = self.data
        paths = [self._border(None if each in data.covered else data.blocks_of(each)) for each in data.panels]
        line = {"color": self.theme.border, "width": 1}
        return [
            {"type": "path", "path": path, **_on(i), "line": line} for i, path in enumerate(paths) if path
        ]

    def _border(self, blocks: BlockMap | None) -> str:
        if blocks is None:
            return ""
        left, right, top, bottom = self.data.extent()
        down = blocks.row_borders()
        across = blocks.col_borders()
        box = self.boxes.boxes[0]
        lines = []
        if len(down) and box.height / len(down) >= _LEAST_BORDER_GAP:
            lines += [f"M{left},{top + row}H{right}" for row in down.tolist()]
        if len(across) and box.width / len(across) >= _LEAST_BORDER_GAP:
            lines += [f"M{left + col},{top}V{bottom}" for col in across.tolist()]
        return "".join(lines)

    def _lit(self) -> list[dict[str, Any]]:
        if self.data.lit is None or not self.data.lit.any():
            return []
        path = outline(self.data.lit, self.data.top, self.data.left)
        return self._framed({"type": "path", "path": path}, self.theme.lit)

    def _marks(self, selected: tuple[int, int] | None) -> list[dict[str, Any]]:
        if selected is None:
            return []
        row, col = selected
        place = shape("rect", (col - 0.5, col + 0.5), (row - 0.5, row + 0.5), {})
        return self._framed(place, self.theme.mark)

    def _framed(self, place: dict[str, Any], colour: str) -> list[dict[str, Any]]:
        # Along a shape, in all panels.
        lines = ({"color": self.theme.mark_halo, "width": 4}, {"color": colour, "width": 2})
        return [{**place, **_on(i), "line": line} for i in range(len(self.data.panels)) for line in lines]

    def _covers(self) -> list[dict[str, Any]]:
        left, right, top, bottom = self.data.extent()
        line = {"color": self.theme.muted, "width": 1, "dash": "dot"}
        inside = {"fillcolor": self.theme.surface, "layer": "below"}
        frame = shape("rect", (left, right), (top, bottom), line, **inside)
        return [{**frame, **_on(i)} for i, name in enumerate(self.data.panels) if name in self.data.covered]

    def _questions(self) -> list[dict[str, Any]]:
        left, right, top, bottom = self.data.extent()
        sign = {
            "text": "?",
            "showarrow": False,
            "x": (left + right) / 2,
            "y": (top + bottom) / 2,
            "font": {"size": self._points(28), "color": self.theme.muted},
        }
        return [
            {**sign, "name": name, **_on(i)}
            for i, name in enumerate(self.data.panels)
            if name in self.data.covered
        ]

    def _printed(self, i: int, name: str) -> dict[str, Any]:
        # All have the same decimals; nothing where they do not fit.
        box = self.boxes.boxes[i]
        rows, cols = self.data.shape
        values = self.data.printed(name).tolist()
        # A notebook's font may be wider than ours.
        fit = fitting(values, self.data.styles(name), 0.93 * box.width / cols, box.height / rows, _SMALL)
        return {"text": fit[0], "texttemplate": "%{text}", "textfont": {"size": fit[1]}} if fit else {}

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
                f"{self._word(f'panels.field.{name}')} %{{customdata[{i}]:.6~g}}"
                for i, name in enumerate(PANELS)
            ),
        ]
        if self.data.blocks is not None:
            place = self.data.blocks.places()
            axes = ", ".join(f"%{{customdata[{len(cells) + i}]}}" for i in range(len(place)))
            cells += [*place, self.data.blocks.scale]
            lines.append(f"{self._word('panels.block')} {axes or self._word('panels.whole_tensor')}")
            lines.append(f"{self._word('panels.scale')} %{{customdata[{len(cells) - 1}]:.6~g}}")
        if self.data.unscaled is not None:
            bits = find_format(self.data.format_id).bits if self.data.format_id else 0
            cells.append(self.data.q)
            lines.insert(
                1 + PANELS.index("x_hat"),
                f"{self._word('panels.code')} %{{customdata[{len(cells) - 1}]:0{bits}b}}",
            )
        hover: dict[str, Any] = {
            "customdata": encoded(np.stack([cell.astype(np.float32) for cell in cells], axis=-1)),
            "hoverinfo": "all",
        }
        if self.data.cause is not None:
            words = np.array([self._word(f"causes.{name}") for name in CAUSES])
            hover["hovertext"] = words[self.data.cause].tolist()
            lines.append(f"{self._word('panels.cause')} %{{hovertext}}")
        return {**hover, "hovertemplate": "<br>".join(lines) + "<extra></extra>"}

    def _word(self, key: str) -> str:
        return text(key, self.style.language)


#: Of all our annotations.
_TEXT: Mapping[str, Any] = MappingProxyType({"borderpad": 0, "align": "left"})


def axis_id(name: str, i: int) -> str:
    """Return plotly's name of its i-th axis.

    >>> axis_id("x", 0), axis_id("coloraxis", 3)
    ('x', 'coloraxis4')
    """
    return name if i == 0 else f"{name}{i + 1}"


def _on(i: int) -> dict[str, str]:
    return {"xref": axis_id("x", i), "yref": axis_id("y", i)}


def _numbers(count: int, most: float) -> dict[str, Any]:
    # Whole numbers only.
    return (
        {"tick0": 0, "dtick": 1} if count <= most else {"nticks": max(int(most / 1.6), 2), "tickformat": "d"}
    )


def panel_ramp(name: str, data: PanelsData, theme: Theme) -> Ramp:
    # From the low end of its range to the high one.
    kind = data.kind(name)
    if kind == "winner":
        return winner_ramp(data.panel(name)[1], theme)
    if data.grey and kind != "error":
        return GREYS
    if kind == "error":
        return theme.errors if ERROR_VIEWS[data.error_view].signed else one_sided(theme.errors)
    if data.two_sided:
        return theme.values
    ramp = one_sided(theme.values)
    return ramp if data.value_range[1] > 0 or kind == "q" else one_sided(theme.values[::-1])[::-1]


def outline(lit: Array, top: int = 0, left: int = 0) -> str:
    """Return a path around the lit cells of a window: neighbours share one frame, or all lit would be a cage.

    Places are absolute: plotly reads no relative ones.
    >>> outline(np.array([[False, True]]))
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
        x = left + col
        y = top + row
        # A side reaches the neighbour's where that is lit too.
        x0 = x - (0.46 if open_left else 0.5)
        x1 = x + (0.46 if open_right else 0.5)
        y0 = y - (0.46 if open_up else 0.5)
        y1 = y + (0.46 if open_down else 0.5)
        if open_up and open_down and open_left and open_right:
            path.append(f"M{x0},{y0}H{x1}V{y1}H{x0}Z")
            continue
        path += [f"M{x0},{end}H{x1}" for end, open_side in ((y0, open_up), (y1, open_down)) if open_side]
        path += [f"M{end},{y0}V{y1}" for end, open_side in ((x0, open_left), (x1, open_right)) if open_side]
    return "".join(path)


# ---- words --------------------------------------------------------------------------------------


def panel_title(name: str, data: PanelsData, language: str = DEFAULT_LANGUAGE, *, scales: bool = True) -> str:
    """Return a panel's title in the app; without `scales` it does not mention those at the edge."""
    if name in data.covered:
        return text(f"panels.covered.{name}", language)
    if data.plain:
        return text(f"panels.plain.{name}", language)
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
    what, form = _shown_codes(data, language)
    edge = edge_scales(data)
    if edge and scales:
        return text(f"panels.title.{what}_{edge.side}", language, format=form, scale=edge.labels[0])
    return text(f"panels.title.{what}", language, format=form)


def _shown_codes(data: PanelsData, language: str) -> tuple[str, str | None]:
    if data.unscaled is None:
        return "q", data.format_id
    return "value", text(f"formats.{entry_of(data.format_id or '')}.name", language)


def _pooled_title(name: str, data: PanelsData, pixels: PixelCells, language: str) -> str:
    # A pixel stands for many cells: "x, largest of 21 × 48".
    codes, form = _shown_codes(data, language)
    what = {"q": codes, "error": f"error_{data.error_view}"}.get(name, name)
    rows, cols = pixels.size()
    found = "_found" if pixels.x_at is not None and name in ("q", "x_hat") else ""
    return text(
        f"panels.pooled.{pixels.how}{found}",
        language,
        what=text(f"panels.pooled.what.{what}", language, format=form),
        rows=rows,
        cols=cols,
    )


def pixel_words(pixels: PixelCells, language: str) -> str:
    rows, cols = pixels.size()
    return text(f"panels.pixel.{pixels.how}", language, rows=rows, cols=cols)


@dataclass(frozen=True)
class EdgeScales:
    """Scales of a few blocks at the edge of the codes."""

    #: "title" for one block, "bottom" for blocks side by side, "right" for others.
    side: str
    #: Of each block's middle, in cells.
    places: tuple[float, ...]
    labels: tuple[str, ...]

    def ticks(self) -> dict[str, Any]:
        return {"tickmode": "array", "tickvals": list(self.places), "ticktext": list(self.labels)}


def edge_scales(data: PanelsData) -> EdgeScales | None:
    """Return the scales at the edge of the codes; None if blocks are many or lie in both directions."""
    if data.blocks is None or "scale" in data.covered:
        return None
    down = data.blocks.row_borders().tolist()
    across = data.blocks.col_borders().tolist()
    if (down and across) or max(len(down), len(across)) >= MOST_EDGE_SCALES:
        return None
    edges = [0, *(down or across), data.shape[0 if down else 1]]
    scale = data.blocks.scale[:, 0] if down else data.blocks.scale[0]
    first = data.top if down else data.left
    places = tuple(first + (start + end - 1) / 2 for start, end in itertools.pairwise(edges))
    if down:
        side = "right"
    elif across:
        side = "bottom"
    else:
        side = "title"
    return EdgeScales(
        side,
        places,
        tuple(short_number(float(scale[start]), 4 if side == "title" else 2) for start in edges[:-1]),
    )


def panels_alt(data: PanelsData, language: str = DEFAULT_LANGUAGE) -> str:
    rows, cols = data.matrix
    if data.open == PANELS:
        low, high = (float(reach.reduce(data.x, axis=None)) for reach in (np.fmin, np.fmax))
        numbers = {
            "low": short_number(low),
            "high": short_number(high),
            "error": short_number(float(np.fmax.reduce(np.abs(data.error), axis=None))),
        }
        parts = [text("panels.alt", language, rows=rows, cols=cols, **numbers)]
    else:
        panels = ", ".join(panel_title(name, data, language) for name in data.panels)
        parts = [text("panels.alt_part", language, rows=rows, cols=cols, panels=panels)]
    if "error" in data.open:
        parts.append(text("panels.alt_error", language, range=error_caption(data, language)))
    if data.seen != data.matrix:
        height, width = data.seen
        ends = {"bottom": data.top + height - 1, "right": data.left + width - 1}
        parts.append(text("panels.alt_window", language, top=data.top, left=data.left, **ends))
    if data.pixels is not None:
        parts.append(pixel_words(data.pixels, language))
    return " ".join(parts)


def error_caption(data: PanelsData, language: str = DEFAULT_LANGUAGE) -> str:
    """Return the reach of the error's colours, such as "±1.64, held", and how far the error leaves it."""
    number = _error_end(data, data.error_range[1], language)
    span = f"±{number}" if ERROR_VIEWS[data.error_view].signed else f"0 … {number}"
    if data.error_follows:
        what = text(f"panels.bar.{data.error_follows}", language)
        return text("panels.following", language, range=span, what=what)
    if not data.error_held:
        return span
    times = _times_beyond(data)
    return text(f"panels.held{'_left' if times else ''}", language, range=span, times=times)


def _times_beyond(data: PanelsData) -> str:
    # "" where it stays in its held colours.
    reach = float(np.fmax.reduce(np.abs(data.shown_error), axis=None))
    times = reach / data.error_range[1] if data.error_range[1] else 1.0
    # Colours are held at a number of three digits.
    return short_number(times, 2) if times >= _LEAST_BEYOND else ""


def bar_ends(name: str, data: PanelsData, language: str = DEFAULT_LANGUAGE) -> tuple[str, str]:
    if data.kind(name) == "error":
        low, high = (_error_end(data, end, language) for end in data.panel(name)[1])
        return low, high
    low, high = map(short_number, data.panel(name)[1])
    return low, high


def bar_remarks(name: str, data: PanelsData, language: str = DEFAULT_LANGUAGE) -> tuple[str, ...]:
    """Return the remarks at a colour bar, the longest first.

    The error's is held, and how far the error leaves it, or what it follows; the colours of x and x̂ are
    logarithmic, or cut before the ends.
    """
    kind = data.kind(name)
    if kind == "error":
        if data.error_follows:
            return (text(f"panels.bar.{data.error_follows}", language),)
        return _held_remarks(data, language) if data.error_held else ()
    if kind not in ("x", "x_hat") or not (data.symlog or data.cut):
        return ()
    return (text("panels.bar.symlog" if data.symlog else "panels.bar.cut", language),)


def _held_remarks(data: PanelsData, language: str) -> tuple[str, ...]:
    times = _times_beyond(data)
    left = (text(f"panels.bar.{key}", language, times=times) for key in ("left", "left_short"))
    return (*(left if times else ()), text("panels.bar.held", language))


def _error_end(data: PanelsData, end: float, language: str) -> str:
    number = short_number(end * ERROR_VIEWS[data.error_view].unit)
    return text("panels.unit." + data.error_view, language, number=number) if end else number
