"""Tables of HTML that a notebook shows in the place of a `repr`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return rows of a table, each cell's text escaped; the first cell of a row says what it is.

    >>> table([("shape", "<2 × 3>")])
    '<table><tbody><tr><th>shape</th><td>&lt;2 × 3&gt;</td></tr></tbody></table>'
    """
    body = "".join(
        f"<tr><th>{escape(str(first))}</th>{''.join(f'<td>{escape(str(cell))}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    top = f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"
