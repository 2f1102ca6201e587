"""The style of panels, and their places in pixels: in a row, two by two, or one at a time on a phone.

The browser measures the width and Python lays out for it, so this arithmetic exists once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from types import MappingProxyType

from quantviz.text import DEFAULT_LANGUAGE

#: In the order they stand.
PANELS = ("x", "q", "x_hat", "error")
#: Least widths in pixels by the number of panels, the widest first.
BREAKPOINTS: Mapping[int, Mapping[str, int]] = MappingProxyType(
    {
        1: MappingProxyType({"row": 0}),
        2: MappingProxyType({"row": 300, "single": 0}),
        3: MappingProxyType({"row": 520, "single": 0}),
        4: MappingProxyType({"row": 830, "grid": 520, "single": 0}),
    }
)
#: Of panels side by side: never one at a time.
SIDE_BY_SIDE: Mapping[int, Mapping[str, int]] = MappingProxyType(
    {
        3: MappingProxyType({"row": 520, "grid": 0}),
        4: MappingProxyType({"row": 700, "grid": 0}),
        5: MappingProxyType({"row": 900, "threes": 520, "grid": 0}),
    }
)
#: Until the browser has sent its own.
USUAL_WIDTH = 1060
#: Above so many cells a side a pixel may stand for many.
MOST_CELLS = 128
#: Of a panel: four with the values of each pixel stay below 1.5 MB.
MOST_PIXELS = 50_000
#: Width to height of a cell, or height to width; beyond `MOST_CELLS` rows any width is as good. Numbers are
#: wider than high, so wide cells print them larger.
MOST_STRETCH = 1.6
#: Of a row on a laptop, and of a phone's one panel, with titles and colour bars.
ROW_HEIGHT = 248
SINGLE_HEIGHT = 280
#: Between panels side by side.
GAP = 28

_TITLE = 23
_COLUMN_NUMBERS = 18
_BAR_GAP = 2
_BAR = 6
_BAR_NUMBERS = 18
_BELOW = _COLUMN_NUMBERS + _BAR_GAP + _BAR + _BAR_NUMBERS
_ROW_GAP = 10
_DIGIT = 6.2
# A panel is never thinner.
_THREAD = 44
# Scales of blocks stand right of the last panel too.
_RIGHT = 6
# A row is as high as a laptop has room for up to this width, which 1366 pixels leave without the sidebar; on
# a wider screen it grows by this share of the extra width, up to this height.
_LAPTOP = 1330
_HIGHER = 0.6
_HIGHEST_ROW = 430
# Width of a panel of two by two for its height, and its greatest height.
_GRID_STRETCH = 1.5
_HIGHEST_OF_GRID = 300


@dataclass(frozen=True)
class PanelsStyle:
    #: Of `text.languages()`; a theme of `figures.theme.THEMES`.
    language: str = DEFAULT_LANGUAGE
    theme: str = "light"
    width: float = USUAL_WIDTH
    #: By the arrangement if None.
    height: float | None = None
    #: Text and gaps are larger, for the back of a room.
    enlarge: float = 1.0
    #: In pixels; narrower digits are not printed.
    least_digit: float = 0
    bars: bool = True
    #: The figure itself shows values on hover, for a notebook; in the app the bridge does, much faster.
    hover: bool = False
    #: Values in the cells, likewise.
    printed: bool = False
    #: All panels are in sight at any width: a picture has no switch.
    together: bool = False


USUAL_STYLE = PanelsStyle()


@dataclass(frozen=True)
class Box:
    """A heatmap in pixels from the figure's top left corner."""

    left: float
    top: float
    width: float
    height: float
    bar_top: float


@dataclass(frozen=True)
class Arrangement:
    """The figure's size and boxes, in the panels' order."""

    #: "row", "grid" of two across, "threes" or "single"; in "single" the boxes are the same.
    name: str
    width: float
    height: float
    boxes: tuple[Box, ...]
    bar: float = _BAR
    #: Text too.
    enlarged: float = 1.0

    def times(self, factor: float) -> Arrangement:
        boxes = tuple(Box(*(factor * length for length in astuple(box))) for box in self.boxes)
        sizes = {name: factor * getattr(self, name) for name in ("width", "height", "bar", "enlarged")}
        return replace(self, boxes=boxes, **sizes)


def arrangement_name(
    width: float, panels: int = len(PANELS), breakpoints: Mapping[str, int] | None = None
) -> str:
    """Return the arrangement of panels that fits a width.

    >>> arrangement_name(1060), arrangement_name(700), arrangement_name(358), arrangement_name(358, 2)
    ('row', 'grid', 'single', 'row')
    """
    return next(name for name, least in (breakpoints or BREAKPOINTS[panels]).items() if width >= least)


def arrange(
    width: float,
    shape: tuple[int, int],
    height: float | None = None,
    panels: int = len(PANELS),
    stretch: float = MOST_STRETCH,
    breakpoints: Mapping[str, int] | None = None,
    bars: bool = True,
) -> Arrangement:
    """Return the boxes of panels for a tensor of `shape` (rows, columns) in a figure of `width` pixels.

    The `height` is by default chosen by the width. A cell is at most `stretch` times as wide as high, or as
    high as wide. Without `bars` no room is kept for them.

    >>> layout = arrange(1130, (8, 8))
    >>> layout.name, layout.height, round(layout.boxes[0].width / layout.boxes[0].height, 2)
    ('row', 248, 1.42)
    """
    name = arrangement_name(width, panels, breakpoints)
    across = {"row": panels, "threes": 3, "grid": 2, "single": 1}[name]
    down = 1 if name == "single" else math.ceil(panels / across)
    below = _BELOW if bars else _COLUMN_NUMBERS + _BAR_GAP
    numbers = _DIGIT * len(str(shape[0] - 1)) + 8
    slot_width = (width - numbers - GAP * (across - 1) - _RIGHT) / across
    if height is None:
        height = _usual_height(name, width, slot_width, shape, down, below)
    slot_height = max((height - _ROW_GAP * (down - 1)) / down - _TITLE - below, 24)
    box_width, box_height = _fitted(slot_width, slot_height, shape, stretch)
    boxes = []
    for i in range(panels) if name != "single" else (0,) * panels:
        left = numbers + (i % across) * (slot_width + GAP) + (slot_width - box_width) / 2
        top = (i // across) * (height + _ROW_GAP) / down + _TITLE
        bar_top = top + box_height + _COLUMN_NUMBERS + _BAR_GAP
        boxes.append(Box(left, top, box_width, box_height, bar_top))
    return Arrangement(name, width, height, tuple(boxes))


def pixels_for(width: float, matrix: tuple[int, int], seen: tuple[int, int] | None = None) -> tuple[int, int]:
    """Return (height, width) in pixels of a window of `seen` rows and columns of `matrix` in a `width`.

    As many as a panel has on the screen, and at most `MOST_PIXELS`; each stands for as many cells as far as
    that goes. It is `seen` itself if the window is small enough to be shown cell by cell.

    >>> pixels_for(1060, (4096, 11008)), pixels_for(1060, (4096, 11008), (128, 128))
    ((137, 230), (128, 128))
    """
    rows, cols = seen or matrix
    if max(rows, cols) <= MOST_CELLS:
        return rows, cols
    box = arrange(width, matrix).boxes[0]
    down = min(int(box.height), rows)
    across = min(int(box.width), cols)
    if down * across > MOST_PIXELS:
        # The shorter side keeps its pixels as long as it is below that of a square.
        side = math.isqrt(MOST_PIXELS)
        down, across = (
            min(down, max(side, MOST_PIXELS // across)),
            min(across, max(side, MOST_PIXELS // down)),
        )
    return tuple(math.ceil(count / math.ceil(count / most)) for count, most in ((rows, down), (cols, across)))  # type: ignore[return-value]


def _usual_height(
    name: str, width: float, slot_width: float, shape: tuple[int, int], down: int, below: float
) -> float:
    of_grid = down * (min(slot_width / _GRID_STRETCH, _HIGHEST_OF_GRID) + _TITLE + below)
    most = {
        "row": min(ROW_HEIGHT + _HIGHER * max(width - _LAPTOP, 0), _HIGHEST_ROW),
        "single": SINGLE_HEIGHT,
    }.get(name, of_grid)
    # A short, wide tensor needs no more than its own height.
    wanted = max(slot_width / shape[1] * MOST_STRETCH * shape[0], _THREAD)
    return round(min(most, down * (wanted + _TITLE + below))) + _ROW_GAP * (down - 1)


def _fitted(width: float, height: float, shape: tuple[int, int], most: float) -> tuple[float, float]:
    """Return the largest box in a slot with cells not stretched too far; never a thread."""
    rows, cols = shape
    stretch = (width / cols) / (height / rows)
    if stretch > most and rows <= MOST_CELLS:
        return max(width * most / stretch, min(0.5 * width, height)), height
    if stretch < 1 / most:
        return width, max(height * most * stretch, min(height, _THREAD))
    return width, height
