"""Tables that a phone can read: the first column stays while others are scrolled, and the last ones wait.

Their numbers are written as everywhere on the pages, with a minus sign, and are sorted as numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import streamlit as st

from quantviz.ui.components.component import chosen
from quantviz.ui.shell import errors
from quantviz.ui.shell.words import say

#: CSS pixels of the page below which a table is a phone's.
_PHONE = 560
#: CSS pixels of a line, for a pointer and for a finger, and of the headings with a table's edges.
_LINE = 29
_TOUCHED_LINE = 44
_HEADINGS = 36
#: Lines up to which the server writes a table's numbers; a browser writes more of them, with hyphens.
_MOST_WRITTEN = 2000
#: The form of a share as a percentage.
PERCENT = "percent"
_EXPONENT = re.compile(r"e([+-])0*(\d+)")


#: A table's share of the Lab's width beside a ruler (`beside.css`), and the width from which it stands there.
_BESIDE_RULER, _RULER_FROM = 0.41, 1000


def room_beside_ruler(page_width: float) -> float:
    """Return the width of a table in a tab with a ruler, in CSS pixels: the page's where it stands below."""
    return page_width * _BESIDE_RULER if page_width >= _RULER_FROM else page_width


def columns_shown(columns: Sequence[TableColumn], page_width: float, room: float) -> list[str]:
    """Return the columns of a table that are shown at first, in their order: those of a phone, and the first
    others that fit into `room`, in CSS pixels.

    Streamlit's menu of the table shows the others.
    """
    kept = [each for each in columns if each.on_phone or each.names_lines]
    left = room - sum(each.pixels(page_width) for each in kept)
    for each in columns:
        if each not in kept and each.width <= left:
            kept.append(each)
            left -= each.width
    return [each.id for each in columns if each in kept]


def line_height(page_width: float) -> int:
    """Return the height of a table's line in pixels: on a phone high enough for a finger."""
    return _TOUCHED_LINE if is_phone(page_width) else _LINE


def table_height(lines: int, page_width: float) -> int:
    """Return the height of a table with so many lines and their headings, in pixels."""
    return line_height(page_width) * lines + _HEADINGS


def is_phone(page_width: float) -> bool:
    """Return whether a table stands on a page as narrow as a phone's."""
    return page_width < _PHONE


def written(value: float | None, form: str) -> str:
    """Return a number of a table as people read it; `form` is `PERCENT`, or as in `"%.2f" % value`.

    >>> written(-1.5, "%+.2f"), written(5.81e-5, "%.3e"), written(0.7678, PERCENT), written(math.inf, "%.1f")
    ('−1.50', '5.810e−5', '76.78 %', '∞')
    """
    if value is None or math.isnan(value):
        return ""
    words = "%.2f %%" % (100 * value) if form == PERCENT else form % value
    words = _EXPONENT.sub(lambda exponent: f"e{exponent[1].strip('+')}{exponent[2]}", words)
    return words.replace("-", "−").replace("inf", "∞")


def numbers_written(columns: Any, forms: Mapping[str, str]) -> Any:
    """Return the table of `columns` for `st.dataframe`, with numbers written in the columns with a form."""
    import pandas as pd

    frame = pd.DataFrame(columns)
    if len(frame) > _MOST_WRITTEN:
        return frame
    return frame.style.format({name: partial(written, form=forms[name]) for name in forms if name in frame})


def number_column(heading: str, form: str, lines: int, width: int | None = None) -> Any:
    """Return the column of numbers for `st.dataframe`, in a table of so many lines by `numbers_written`."""
    own = form if lines > _MOST_WRITTEN else None
    return st.column_config.NumberColumn(heading, format=own, width=width)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table, with its values from the first line to the last."""

    id: str
    values: Sequence[Any]
    #: CSS pixels.
    width: int
    #: The form of numbers, as "%.2f"; empty for words.
    form: str = ""
    _: KW_ONLY
    #: Whether a phone shows it at first, and its width there where that is another one.
    on_phone: bool = False
    width_on_phone: int | None = None
    #: Whether it names the lines: on a phone it stays while others are scrolled. On a wider page all fit, and
    #: it grows with them, which a column that stays does not.
    names_lines: bool = False
    #: Whether its words are numbers, and a sign for a missing one.
    align_right: bool = False

    def pixels(self, page_width: float) -> int:
        """Return its width on a page of this width, both in CSS pixels."""
        return (is_phone(page_width) and self.width_on_phone) or self.width

    def config(self, heading: str, page_width: float) -> Any:
        """Return the column for `st.dataframe`."""
        if self.form:
            return number_column(heading, self.form, len(self.values), self.width)
        return st.column_config.TextColumn(
            heading,
            width=self.pixels(page_width),
            pinned=is_phone(page_width) if self.names_lines else None,
            alignment="right" if self.align_right else None,
        )


def show_table(
    key: str,
    columns: Sequence[TableColumn],
    page_width: float,
    *,
    words: str,
    alt: str,
    lines: int | None = None,
    room: float | None = None,
    take: Callable[[int], None] | None = None,
) -> None:
    """Show a table of `columns` in the widget `key`.

    Args:
        key: The table's key.
        columns: The columns, in their order.
        page_width: The width of the page in CSS pixels.
        words: The key in the catalogue under which each column's id has its heading.
        alt: The description for screen readers.
        lines: Lines that are seen at once; all without it.
        room: The table's own width in CSS pixels; the page's without it.
        take: Called with the line whose cell was clicked; without it a click does nothing.
    """
    count = len(columns[0].values)

    def clicked() -> None:
        line = clicked_line(key, count)
        if take is not None and line is not None:
            take(line)

    st.dataframe(
        numbers_written(
            {each.id: each.values for each in columns}, {each.id: each.form for each in columns if each.form}
        ),
        key=key,
        column_order=columns_shown(columns, page_width, page_width if room is None else room),
        hide_index=True,
        on_select="ignore" if take is None else errors.safely(clicked),
        selection_mode="single-cell",
        row_height=line_height(page_width),
        height=table_height(count if lines is None else min(count, lines), page_width),
        column_config={each.id: each.config(say(f"{words}.{each.id}"), page_width) for each in columns},
        alt=alt,
    )


def clicked_line(key: str, lines: int) -> int | None:
    """Return the line of a table, with `key` and so many lines, whose cell was clicked; none after a click on
    a heading, which sorts.

    The cell is let go of: another click on it is one more.
    """
    cells = chosen(key, "cells", lambda cells: all(line < lines for line, _ in cells))
    if not cells:
        return None
    st.session_state[key] = {"selection": {"rows": [], "columns": [], "cells": []}}
    line: int = cells[0][0]
    return line
