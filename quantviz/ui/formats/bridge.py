"""Read the browser's messages to the formats page: the line's width, and the code clicked in the table."""

from __future__ import annotations

from quantviz.ui.components.component import told

#: The line's widths in pixels that it is laid out for; the browser chooses the one that fits.
WIDTHS = (300, 340, 480, 660, 820, 960, 1040, 1180, 1320, 1500, 1700)
_USUAL_WIDTH = 1040
#: The component's key and its script.
BRIDGE = SCRIPT = "formats_bridge"


def line_width() -> int:
    """Return the line's width in pixels, from the browser's last message, else a usual one."""
    width = told(BRIDGE, SCRIPT, "width", lambda width: width in WIDTHS)
    return _USUAL_WIDTH if width is None else int(width)
