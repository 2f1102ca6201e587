"""What the browser tells the formats page: the line's width, and the code clicked in the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

#: The line's widths in pixels that it is laid out for; the browser tells which of them fits.
WIDTHS = (300, 340, 480, 660, 820, 960, 1040, 1180, 1320, 1500, 1700)
_USUAL_WIDTH = 1040
BRIDGE = "formats_bridge"


def told_by_browser(name: str) -> Any:
    told = st.session_state.get(BRIDGE)
    return told.get(name) if isinstance(told, Mapping) else getattr(told, name, None)


def line_width() -> int:
    """Return the line's width in pixels, as far as the browser has told."""
    width = told_by_browser("width")
    return int(width) if isinstance(width, int | float) and width in WIDTHS else _USUAL_WIDTH


def nothing() -> None:
    pass
