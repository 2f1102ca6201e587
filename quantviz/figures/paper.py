"""A lesson's step on paper: panels as tables, and a ruler, with digits of 9 pt at least."""

from __future__ import annotations

import base64
import html
import math
from typing import TYPE_CHECKING

import numpy as np

from quantviz.figures.format_values import round_step
from quantviz.figures.numbers import number
from quantviz.figures.raster import data_uri
from quantviz.figures.theme import THEMES

if TYPE_CHECKING:
    from quantviz.figures.panels_data import PanelsData
    from quantviz.figures.ruler_data import RulerPicture

#: Larger tensors are coloured pixels.
_MOST_ROWS, _MOST_COLS = 12, 8
#: In units of a point on paper: width, bars' height, digits.
_WIDTH = 480
_HEIGHT = 76
_DIGIT = 10
_BINS = 80
_TICKS = 9
#: Each code has its tooth.
_TEETH = 64
_INK = (
    "<style>rect { fill: #8a8a8a; } path { stroke: #000000; fill: none; } .end { stroke-width: 2.5; }"
    " text { text-anchor: middle; }</style>"
)


def panels_on_paper(data: PanelsData, titles: dict[str, str]) -> str:
    panels = (_panel(data, name, titles[name]) for name in data.open)
    return f'<div class="qv-paper-panels">{"".join(panels)}</div>'


def _panel(data: PanelsData, name: str, title: str) -> str:
    rows, cols = data.shape
    head = f"<figure><figcaption>{html.escape(title)}</figcaption>"
    if rows <= _MOST_ROWS and cols <= _MOST_COLS:
        cells = (
            "".join(f"<td>{number(float(value), 3)}</td>" for value in row) for row in data.printed(name)
        )
        return f"{head}<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table></figure>"
    values, (lo, hi) = data.colours(name)
    theme = THEMES["light"]
    ramp = theme.errors if name == "error" else theme.values
    low, high = data.panel(name)[1]
    return (
        f'{head}<img alt="" style="--wide: {cols / rows:.3f}"'
        f' src="{data_uri(values, lo, hi, ramp, data.middle(name))}">'
        f"<p>{number(low, 3)} … {number(high, 3)}</p></figure>"
    )


def ruler_on_paper(picture: RulerPicture) -> str:
    """Return a block's values as dots over the axis, with the ends of its range, as HTML."""
    lo, hi = picture.domain
    values = picture.values[np.isfinite(picture.values)]

    def x(value: float) -> float:
        return 20 + (_WIDTH - 40) * (value - lo) / ((hi - lo) or 1.0)

    counts, edges = np.histogram(values, _BINS, (lo, hi))
    if picture.histogram is not None:
        counts, edges = picture.histogram.counts, picture.histogram.edges
    most = max(int(counts.max(initial=0)), 1)
    parts = []
    for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
        tall = (_HEIGHT - 8) * float(count) / most
        wide = max(x(right) - x(left) - 0.5, 0.5)
        parts.append(
            f'<rect x="{x(left):.1f}" y="{_HEIGHT - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'
        )
    parts.append(f'<path d="M20 {_HEIGHT}H{_WIDTH - 20}"/>')
    teeth = picture.levels if len(picture.levels) <= _TEETH and picture.stage != "dots" else ()
    for level in teeth:
        parts.append(f'<path d="M{x(level):.1f} {_HEIGHT}v6"/>')
    for end in picture.range or ():
        parts.append(f'<path class="end" d="M{x(end):.1f} 4V{_HEIGHT + 4}"/>')
    step = round_step((hi - lo) / (_TICKS - 1) or 1.0)
    for tick in (step * k for k in range(math.ceil(lo / step), math.floor(hi / step) + 1)):
        parts.append(f'<text x="{x(tick):.1f}" y="{_HEIGHT + 20}">{number(tick, 4)}</text>')
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT + 26}" font-size="{_DIGIT}" font-family="sans-serif"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{_INK}{"".join(parts)}</svg>'
    source = base64.b64encode(svg.encode()).decode("ascii")
    return f'<img class="qv-paper-ruler" alt="" src="data:image/svg+xml;base64,{source}">'
