"""Tables for people: aligned, numbers to a few digits, as wide as the terminal at most."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from quantviz.text import visible

#: Significant digits of a number: enough to distinguish 6.5625 bits from 6.5.
_DIGITS = 5
_NONE = "–"
_GAP = "  "


def display_width(words: str) -> int:
    """Return the number of terminal columns that the text takes.

    >>> display_width("scale"), display_width("缩放"), display_width("e\u0301")
    (5, 4, 1)
    """
    if words.isascii():  # a table of many rows has little else
        return len(words)
    drawn = [each for each in words if not unicodedata.combining(each)]
    return len(drawn) + sum(unicodedata.east_asian_width(each) in "WF" for each in drawn)


def as_words(value: Any) -> str:
    r"""Return a value in one line, numbers rounded, with escapes for unprintable characters.

    >>> [as_words(each) for each in (None, True, 4.125, 1 / 3, 12345678, (64, 128), "a\x1b[31m")]
    ['–', 'yes', '4.125', '0.33333', '12345678', '64, 128', 'a\\x1b[31m']
    """
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(as_words, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {as_words(each)}" for name, each in value.items() if each is not None)
    return visible(str(value))


def text_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None) -> tuple[str, int]:
    """Return the lines of a table, the first the names of the columns, and the number of columns left out.

    Of columns that do not fit into `width`, those at the end are left out; None takes all. The first one is
    always there: no line is cut.

    >>> print(text_table(["tensor", "sqnr_db"], [["head", 52.5], ["嵌入", None]], 80)[0])
    tensor  sqnr_db
    head       52.5
    嵌入          –
    """
    cells = [[as_words(name) for name in columns], *([as_words(value) for value in row] for row in rows)]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    right = [_is_numeric(column) for column in zip(*rows, strict=True)] if rows else [False] * len(widths)
    shown = 0
    taken = -len(_GAP)
    while shown < len(widths):
        taken += len(_GAP) + widths[shown]
        if shown and width is not None and taken > width:
            break
        shown += 1
    lines = (
        _GAP.join(
            _padded(*each) for each in zip(row[:shown], widths[:shown], right[:shown], strict=True)
        ).rstrip()
        for row in cells
    )
    return "\n".join(lines), len(widths) - shown


def text_fields(record: Mapping[str, Any]) -> str:
    """Return one record, a line for each field.

    >>> print(text_fields({"scheme": "int4", "cell": (3, 7)}))
    scheme  int4
    cell    3, 7
    """
    width = max(map(display_width, record))
    return "\n".join(
        f"{_padded(name, width, False)}{_GAP}{as_words(value)}" for name, value in record.items()
    )


def _is_numeric(column: Sequence[Any]) -> bool:
    found = [value for value in column if value is not None]
    return bool(found) and all(isinstance(value, int | float) for value in found)


def _padded(words: str, width: int, right: bool) -> str:
    room = " " * (width - display_width(words))
    return room + words if right else words + room
