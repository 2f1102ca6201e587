"""A page of HTML that stands alone: no other file, no other host."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from quantviz.text import DEFAULT_LANGUAGE, visible

#: The app's colours and its sizes of type, as shares of the reader's own 16.
_STYLE = """
:root { --qv-12: .75rem; --qv-14: .875rem; --qv-16: 1rem; --qv-20: 1.25rem; }
:root { color-scheme: light dark; --surface: #ffffff; --text: #17212b; --muted: #55636f; --line: #c9d3da;
  --raised: #f3f6f8; --accent: #0f6e84; }
@media (prefers-color-scheme: dark) { :root:not([data-theme=light]) { --surface: #10161c; --text: #e6edf2;
  --muted: #a3b1bc; --line: #3a4753; --raised: #18212a; --accent: #4fc1d8; } }
:root[data-theme=light] { color-scheme: light; }
:root[data-theme=dark] { color-scheme: dark; --surface: #10161c; --text: #e6edf2; --muted: #a3b1bc;
  --line: #3a4753; --raised: #18212a; --accent: #4fc1d8; }
body { margin: 0 auto; padding: 1.2rem; max-width: 72rem; background: var(--surface); color: var(--text);
  font-size: var(--qv-14); line-height: 1.5;
  font-family: system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif; }
h1 { font-size: var(--qv-20); line-height: 1.25; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: var(--qv-16); margin: 1.8rem 0 .4rem; }
p { margin: .3rem 0; max-width: 44em; overflow-wrap: anywhere; }
"""
#: Style of a report: its verdict, and the tables of `html_table`.
REPORT_STYLE = """
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
/* Chinese may be broken after each sign: words stay whole, and the table scrolls. */
th, td { padding: .2rem .55rem; text-align: left; vertical-align: bottom; word-break: keep-all; }
th { font-weight: 600; color: var(--muted); border-bottom: 1px solid var(--line); }
td { vertical-align: baseline; border-bottom: 1px solid color-mix(in srgb, var(--line) 45%, transparent); }
.number { text-align: right; }
td.number { white-space: nowrap; }
.wide { overflow-x: auto; }
.verdict { font-size: var(--qv-16); padding: .7rem .9rem; background: var(--raised); border-radius: .4rem;
  width: fit-content; }
"""


def html_page(
    title: str, body: str, *, language: str = DEFAULT_LANGUAGE, theme: str | None = None, style: str = ""
) -> str:
    """Return a whole page; `body` is HTML already, `title` is text.

    It is light or dark as the reader's system is, unless `theme` is "light" or "dark".

    >>> "<title>&lt;b&gt;</title>" in html_page("<b>", "<p>…</p>")
    True
    """
    chosen = f' data-theme="{theme}"' if theme else ""
    return (
        f'<!doctype html>\n<html lang="{language}"{chosen}>\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def html_table(headings: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of HTML as a table; each heading has the class of its column, "" for none.

    >>> print(html_table([("a", ""), ("b", "number")], [["x", "1"]]).splitlines()[1])
    <tr><td>x</td><td class="number">1</td></tr>
    """
    columns = [(words, f' class="{name}"' if name else "") for words, name in headings]
    head = "".join(f'<th scope="col"{own}>{words}</th>' for words, own in columns)
    body = ""
    for row in rows:
        cells = (f"<td{own}>{cell}</td>" for (_, own), cell in zip(columns, row, strict=True))
        body += f"<tr>{''.join(cells)}</tr>\n"
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def linked(address: str, shown: str) -> str:
    """Return HTML that leads to an address of the web; unchanged where there is none.

    >>> linked("http://h/?a=1&b=2", "<i>w</i>"), linked("javascript:x", "w")
    ('<a href="http://h/?a=1&amp;b=2"><i>w</i></a>', 'w')
    """
    if not address.startswith(("http://", "https://")):
        return shown
    return f'<a href="{escaped(address)}">{shown}</a>'


def escaped(words: object) -> str:
    """Return untrusted text as HTML that shows it, with invisible characters spelled out."""
    return html.escape(visible(str(words)))
