"""What the browser tells the formats page: the line's width, and the code clicked in the table."""

from __future__ import annotations

from quantviz.ui.components.component import told

#: The line's widths in pixels that it is laid out for; the browser tells which of them fits.
WIDTHS = (300, 340, 480, 660, 820, 960, 1040, 1180, 1320, 1500, 1700)
_USUAL_WIDTH = 1040
BRIDGE = "formats_bridge"


def line_width() -> int:
    """Return the line's width in pixels, as far as the browser has told."""
    width = told(BRIDGE, "width")
    return int(width) if isinstance(width, int | float) and width in WIDTHS else _USUAL_WIDTH


def nothing() -> None:
    pass
