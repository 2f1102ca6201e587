"""The words of the panels: titles, captions of colour bars, scales at the edge, a text for screen readers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantviz.figures.arrangement import PANELS
from quantviz.figures.numbers import short_number
from quantviz.figures.panels_data import PanelsData, Pixels
from quantviz.tensors.views import ERROR_VIEWS
from quantviz.text import DEFAULT_LANGUAGE, text

#: Blocks along an edge up to which each block's scale is written there.
MOST_EDGE_SCALES = 16


def panel_title(name: str, data: PanelsData, language: str = DEFAULT_LANGUAGE, *, scales: bool = True) -> str:
    """Return a panel's title in the app, such as "q codes (int4)"; without `scales` it does not mention those
    at the edge.
    """
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
    # In place of codes that are no numbers their values are shown.
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
    """Return the title of a panel whose pixels stand for many cells, such as "x, largest of 21 × 48"."""
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


def pixel_words(pixels: Pixels, language: str) -> str:
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
        """Return the scales as an axis' numbers."""
        return {"tickmode": "array", "tickvals": list(self.places), "ticktext": list(self.labels)}


def edge_scales(data: PanelsData) -> EdgeScales | None:
    """Return the scales to write at the edge of the codes; none where blocks are many or lie in both
    directions.
    """
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
    """Describe the picture for screen readers."""
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
    reach = (
        (text("panels.alt_error", language, range=error_caption(data, language)),)
        if "error" in data.open
        else ()
    )
    seen = () if data.seen == data.matrix else (text("panels.alt_window", language, **_ends(data)),)
    pixel = () if data.pixels is None else (pixel_words(data.pixels, language),)
    return " ".join((told, *reach, *seen, *pixel))


def _ends(data: PanelsData) -> dict[str, int]:
    rows, cols = data.seen
    return {"top": data.top, "bottom": data.top + rows - 1, "left": data.left, "right": data.left + cols - 1}


def error_caption(data: PanelsData, language: str = DEFAULT_LANGUAGE) -> str:
    """Return how far the error's colours reach, such as "±1.64, held"."""
    number = _error_end(data, data.error_range[1], language)
    span = f"±{number}" if ERROR_VIEWS[data.error_view].signed else f"0 … {number}"
    return text("panels.held", language, range=span) if data.error_held else span


def bar_ends(name: str, data: PanelsData, language: str = DEFAULT_LANGUAGE) -> tuple[str, str]:
    """Return the labels of the two ends of a panel's colour bar, such as "−1.64" and "1.64"."""
    if data.kind(name) == "error":
        low, high = (_error_end(data, end, language) for end in data.panel(name)[1])
        return low, high
    low, high = map(short_number, data.panel(name)[1])
    return low, high


def bar_remark(name: str, data: PanelsData, language: str = DEFAULT_LANGUAGE) -> str:
    """Return the remark at a colour bar, or "": the error's is held; the colours of x and x̂ are logarithmic,
    or cut before the ends.
    """
    kind = data.kind(name)
    if kind == "error":
        return text("panels.bar.held", language) if data.error_held else ""
    if kind not in ("x", "x_hat") or not (data.symlog or data.cut):
        return ""
    return text("panels.bar.symlog" if data.symlog else "panels.bar.cut", language)


def _error_end(data: PanelsData, end: float, language: str) -> str:
    number = short_number(end * ERROR_VIEWS[data.error_view].unit)
    return text("panels.unit." + data.error_view, language, number=number) if end else number
