"""Tables that a phone can read: the first column stays while others are scrolled, and the last ones wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import streamlit as st

#: CSS pixels of the page below which a table is a phone's.
_PHONE = 560
#: CSS pixels of a line, for a pointer and for a finger, and of the headings with a table's edges.
_LINE = 29
_TOUCHED_LINE = 44
_HEADINGS = 36


#: Shares of a page's width for a table and the plot beside it.
TABLE_AND_PLOT = (7, 5)


def columns_shown(
    names: Iterable[str], on_phone: Collection[str], page_width: float, *, beside_plot: bool = False
) -> list[str]:
    """Return the columns of a table that are shown at first, in their order: on a phone `on_phone` alone, and
    on a tablet where the table stands beside a plot.

    Streamlit's menu of the table shows the others.
    """
    room = page_width * TABLE_AND_PLOT[0] / sum(TABLE_AND_PLOT) if beside_plot else page_width
    return [name for name in names if not is_phone(room) or name in on_phone]


def line_height(page_width: float) -> int:
    """Return the height of a table's line in pixels: on a phone high enough for a finger."""
    return _TOUCHED_LINE if is_phone(page_width) else _LINE


def table_height(lines: int, page_width: float) -> int:
    """Return the height of a table with so many lines and their headings, in pixels."""
    return line_height(page_width) * lines + _HEADINGS


def is_phone(page_width: float) -> bool:
    """Return whether a table stands on a page as narrow as a phone's."""
    return page_width < _PHONE


def held_column(label: str, width: int, width_on_phone: int, page_width: float) -> Any:
    """Return the table's first column, which names its lines: on a phone it stays while others are scrolled.

    On a wider page all fit, and it grows with them, which a column that stays does not.
    """
    on_phone = is_phone(page_width)
    return st.column_config.TextColumn(label, width=width_on_phone if on_phone else width, pinned=on_phone)
