"""The mini-map: the whole matrix in a small picture, with a frame around the part in the panels.

The panels' bridge moves the frame while a person zooms, and is moved by it; it requests the values of the
new window by itself (`chart_bridge(on_window=…)`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantviz.figures.theme import THEMES
from quantviz.text import templates
from quantviz.ui.components.component import component
from quantviz.ui.shell.words import language, theme

if TYPE_CHECKING:
    from quantviz.figures.colour_ranges import Array

#: The picture is at most so many pixels wide and high.
MOST_WIDTH = 120
MOST_HEIGHT = 90
#: And at least so many: a matrix of a few rows would be a line.
_LEAST = 24
_COMPONENT = "quantviz_minimap"


def minimap_size(matrix: tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) in pixels of the mini-map of `matrix` (rows, columns), in its shape as far as
    that can be seen.

    >>> minimap_size((4096, 11008)), minimap_size((11008, 4096)), minimap_size((3, 9000))
    ((45, 120), (90, 33), (24, 120))
    """
    rows, cols = matrix
    scale = min(MOST_WIDTH / cols, MOST_HEIGHT / rows)
    return max(round(rows * scale), _LEAST), max(round(cols * scale), _LEAST)


def show_minimap(
    values: Array,
    *,
    matrix: tuple[int, int],
    window: tuple[int, int, int, int],
    key: str,
    chart: str = "panels",
) -> None:
    """Show where `window` (first row, first column, rows, columns) lies in `matrix` (rows, columns); nothing
    where it is all of it.

    `values` are x of the whole matrix in about `minimap_size(matrix)` pixels, each the value of largest
    magnitude; `chart` is the key of the panels' container.
    """
    if window == (0, 0, *matrix):
        return
    height, width = minimap_size(matrix)
    colours = THEMES[theme()]
    data = {
        "chart": chart,
        "picture": _picture(values, theme()),
        "width": width,
        "height": height,
        "rows": matrix[0],
        "cols": matrix[1],
        "window": dict(zip(("top", "left", "rows", "cols"), window, strict=True)),
        "labels": dict(templates("minimap", language())),
        "colors": colours.named("text", "muted", "surface", "line", "mark", "font"),
    }
    component(_COMPONENT, "minimap")(key=key, data=data)


def _picture(values: Array, theme_name: str) -> str:
    from quantviz.figures.colour_ranges import values_range
    from quantviz.figures.raster import data_uri
    from quantviz.figures.theme import one_sided

    lo, hi = values_range(values)
    ramp = THEMES[theme_name].values
    return data_uri(values, lo, hi, ramp if lo < 0 < hi else one_sided(ramp))
