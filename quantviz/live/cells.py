"""The panels' cells for the browser, and the state of the bridge between a chart of panels and its page: see
`quantviz/browser/panels_bridge.js`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from quantviz.browser.packing import pack
from quantviz.figures.arrangement import PanelsStyle
from quantviz.figures.numbers import WRITING
from quantviz.figures.theme import THEMES, Theme, rgb, stops
from quantviz.schemes.formats import find_format
from quantviz.tensors.views import ERROR_VIEWS
from quantviz.text import templates, text

if TYPE_CHECKING:
    from quantviz.figures.panels_data import BlockMap, PanelsData, PixelCells

#: Colour stops of a logarithmic scale.
_SYMLOG_STOPS = 33


@dataclass(frozen=True)
class Picture:
    #: The file's name without its ending.
    name: str
    #: Two lines above the panels.
    title: str
    subtitle: str


def bridge_state(
    chart: str,
    data: PanelsData,
    style: PanelsStyle,
    *,
    selected: tuple[int, int] | None = None,
    picture: Picture | None = None,
) -> dict[str, Any]:
    """Return the state of the bridge of a chart that is alone, and whose zoom stays in the browser."""
    colours = THEMES[style.theme]
    return {
        "chart": chart,
        "group": chart,
        "selected": None if selected is None else list(selected),
        "first": None,
        "width": style.width,
        "breakpoints": {name: least * style.enlarge for name, least in data.breakpoints.items()},
        "windows": False,
        "picture": picture and vars(picture),
        "labels": _labels(style.language),
        "colors": {**colours.named("text", "surface", "line", "mark", "font"), "halo": colours.mark_halo},
    }


def pack_cells(
    data: PanelsData, chart_key: str, theme: str, words: Mapping[str, Any] = MappingProxyType({})
) -> bytes:
    """Return the cells' values for the browser: a JSON header, then the arrays, each at a multiple of 8.

    `words` are "labels" of the card's values, where they differ from the usual, and "words" in place of
    numbers.
    """
    from quantviz.figures.panels_data import ROUNDING

    # Hidden values do not leave the server, so that they cannot be looked up in the page.
    arrays = dict(data.told)
    if data.pixels is None and {"x", "x_hat"} <= arrays.keys():
        # Their difference is the error: the browser computes it.
        arrays.pop("error", None)
    if data.cause is not None and not data.covered and not data.plain:
        arrays["cause"] = data.cause
    header: dict[str, Any] = {
        "chart": chart_key,
        "stamp": data.stamp,
        "rows": data.shape[0],
        "cols": data.shape[1],
        "top": data.top,
        "left": data.left,
        "error_view": vars(ERROR_VIEWS[data.error_view]),
        "rounding": ROUNDING,
        "writing": vars(WRITING),
        "open": data.open,
        "told": tuple(data.told),
        "together": data.printed_together,
        "codes": {"two_sided": data.two_sided, "grey": data.grey},
        **words,
    }
    arrays |= {} if data.quiet is None or "error" not in data.open else {"quiet": data.quiet}
    if data.pixels is not None:
        header["how"] = data.pixels.how
        arrays |= _pixel_arrays(data.pixels)
    if data.unscaled is not None and data.unscaled is not data.q and "q" in data.open:
        # The panel has the code's meaning; the card has its bits too.
        arrays["code"] = data.q
        header["code_bits"] = (
            [len(part) for part in find_format(data.format_id).split(0)] if data.format_id else []
        )
    if (
        data.blocks is not None
        and "error" in data.open
        and ERROR_VIEWS[data.error_view].over == "step"
        and "scale" not in data.covered
    ):
        arrays["step"] = data.blocks.step.astype(np.float32)
    if data.blocks is not None and "scale" not in data.covered:
        header["grid"] = data.blocks.grid_shape
        arrays |= _block_arrays(data.blocks)
        header["scale_cols"] = int(arrays["scale_of_col"].max()) + 1 if "scale_of_col" in arrays else 0
    header["scales"] = {name: color_scale(name, data, THEMES[theme]) for name in data.open}
    if data.pixels is None:
        header["styles"] = {name: [*map(vars, data.styles(name))] for name in data.open}
    return pack(header, arrays)


def _pixel_arrays(pixels: PixelCells) -> dict[str, np.ndarray[Any, Any]]:
    rows, cols = pixels.size()
    place = np.uint16 if rows * cols <= 1 << 16 else np.uint32
    places = {"x_at": pixels.x_at, "error_at": pixels.error_at}
    return {
        "row_edges": pixels.row_edges.astype(np.int32),
        "col_edges": pixels.col_edges.astype(np.int32),
        **{name: at.astype(place) for name, at in places.items() if at is not None},
    }


def color_scale(name: str, data: PanelsData, theme: Theme) -> dict[str, Any]:
    """Return the colours of a panel's values: the browser prints on them in black or white."""
    # Imported here: the page paints its frame before torch comes in.
    from quantviz.figures.panel_painter import panel_ramp

    ramp = panel_ramp(name, data, theme)
    middle = data.middle(name)
    lo, hi = data.panel(name)[1]
    if not data.symlog or name not in ("x", "x_hat"):
        return {"ramp": ramp, "stops": stops(ramp, middle), "lo": lo, "hi": hi}
    # The browser draws straight lines between values: enough of them follow the logarithm.
    places = np.linspace(*data.colours(name)[1], _SYMLOG_STOPS)
    values = np.sign(places) * np.expm1(np.abs(places)) * data.symlog
    shades = [
        f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in rgb(ramp, _SYMLOG_STOPS, middle).tolist()
    ]
    return {"ramp": shades, "stops": np.clip((values - lo) / (hi - lo), 0, 1).tolist(), "lo": lo, "hi": hi}


def _block_arrays(blocks: BlockMap) -> dict[str, np.ndarray[Any, Any]]:
    """Return the block and scale of each cell, as two short lists by row and column where that is enough."""
    separated = blocks.separated()
    if separated is None:
        return {"block_of_cell": blocks.ids, "scale": blocks.scale.astype(np.float64)}
    by_row, by_col = separated
    _, first_rows, of_row = np.unique(by_row, return_index=True, return_inverse=True)
    _, first_cols, of_col = np.unique(by_col, return_index=True, return_inverse=True)
    return {
        "block_of_row": by_row,
        "block_of_col": by_col,
        "scale_of_row": of_row.astype(np.int32),
        "scale_of_col": of_col.astype(np.int32),
        "scale": blocks.scale[np.ix_(first_rows, first_cols)].astype(np.float64),
    }


@cache
def _labels(language: str) -> dict[str, Any]:
    from quantviz.quantization.explanation import CAUSES

    plain = ("row", "col", "code", "block", "whole_tensor", "scale", "cause", "switch")
    return {
        **{name: text(f"panels.{name}", language) for name in plain},
        **templates("panels.field", language),
        "tabs": dict(templates("panels.tab", language)),
        "causes": [text(f"causes.{name}", language) for name in CAUSES],
        "pixel": dict(templates("panels.card", language)),
    }
