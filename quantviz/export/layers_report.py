"""The layers of a capture as one page of HTML: the error of weights beside that of outputs, and a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quantviz.checkpoints.model.tensor_names import KindMap, kind_map
from quantviz.export.html_page import REPORT_STYLE, escaped, html_page, html_table
from quantviz.figures.numbers import number
from quantviz.text import DEFAULT_LANGUAGE, text

_STYLE = """
.maps { display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; }
.map th { font-weight: 400; font-size: var(--qv-12); }
.map thead th:not(:first-child) { text-align: center; }
.map thead th span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 14rem; }
.map td { padding: .15rem .3rem; text-align: center; font-size: var(--qv-12); min-width: 2.6rem;
  border: 1px solid var(--surface);
  background: color-mix(in srgb, #c8591b calc(var(--w, 0) * 1%), var(--surface)); }
.muted { color: var(--muted); }
"""
#: Columns of words, which stand at the left.
_OF_WORDS = ("layer", "method")
#: Share of the colour that the largest error of a map has, in percent.
_FULL = 60
_COLUMNS = (
    *("layer", "method", "rel_out_used", "rel_out_held_back", "weight_sqnr_db"),
    *("loud_input", "loud_input_times", "loud_weight", "loud_weight_times"),
)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class _Quantity:
    """A number that a map shows."""

    name: str
    #: The logarithm of the error, to any base: the larger, the stronger the colour; −inf without an error.
    badness: Callable[[float], float]
    #: Returns the number as it is printed.
    printed: Callable[[float], str]


_MAPS = (
    _Quantity("weight_sqnr_db", lambda value: -value, lambda value: f"{value:.1f}"),
    _Quantity(
        "rel_out_held_back",
        lambda value: math.log(value) if value else -math.inf,
        lambda value: number(value, 2),
    ),
)


def layers_page(rows: Sequence[Row], *, title: str, language: str = DEFAULT_LANGUAGE) -> str:
    """Return the page of some layers' records, as `numbers_of_all` yields them, with reasons as text.

    >>> row = {"layer": "a.0.<q>", "status": "refused", "reason": "…"}
    >>> "a.0.&lt;q&gt;" in layers_page([row], title="capture")
    True
    """

    def word(key: str) -> str:
        return escaped(text(f"layers_report.{key}", language))

    kinds = kind_map([row["layer"] for row in rows])
    body = [f"<h1>{escaped(title)}</h1>", f'<p class="muted">{word("help")}</p>']
    if kinds.rows:
        maps = (f"<div><h2>{word(each.name)}</h2>{_map(kinds, rows, each, word)}</div>" for each in _MAPS)
        body.append(f'<div class="maps wide">{"".join(maps)}</div>')
    known = sorted((row for row in rows if row["status"] == "ok"), key=lambda row: -row["rel_out_held_back"])
    headings = [(word(name), "" if name in _OF_WORDS else "number") for name in _COLUMNS]
    table = [[_cell(row.get(name)) for name in _COLUMNS] for row in known]
    body += [f"<h2>{word('table')}</h2>", html_table(headings, table)]
    refused = [row for row in rows if row["reason"]]
    if refused:
        body.append(f"<h2>{word('refused')}</h2>")
        headings = [(word("layer"), ""), (word("reason"), "")]
        body.append(html_table(headings, [[_cell(row["layer"]), _cell(row["reason"])] for row in refused]))
    return html_page(title, "\n".join(body), language=language, style=REPORT_STYLE + _STYLE)


def _map(kinds: KindMap, rows: Sequence[Row], quantity: _Quantity, word: Callable[[str], str]) -> str:
    """Return one map: a row for each layer, a column for each kind."""
    by_name = {row["layer"]: row for row in rows}
    values = {
        name: float(row[quantity.name])
        for name, row in by_name.items()
        if row["status"] == "ok" and row[quantity.name] is not None
    }
    levels = {name: quantity.badness(value) for name, value in values.items()}
    finite = [level for level in levels.values() if math.isfinite(level)]
    low = min(finite, default=0.0)
    span = max(max(finite, default=0.0) - low, 1e-9)
    head = "".join(f'<th scope="col"><span>{escaped(kind)}</span></th>' for kind in kinds.kinds)
    lines = [f'<table class="map"><thead><tr><th>{word("number")}</th>{head}</tr></thead><tbody>']
    for numbers in kinds.rows:
        cells = []
        for kind in kinds.kinds:
            name = kinds.tensors.get((numbers, kind))
            if name is None:
                cells.append("<td></td>")
            elif name not in values:
                cells.append(f'<td title="{escaped(name)}">×</td>')
            else:
                # An error beside outputs that are all 0 is inf, the worst of all.
                share = round(_FULL * min(max(0.0, (levels[name] - low) / span), 1.0))
                shown = quantity.printed(values[name])
                cells.append(f'<td style="--w:{share}" title="{escaped(name)}">{shown}</td>')
        place = ".".join(map(str, numbers))
        lines.append(f'<tr><th scope="row">{place}</th>{"".join(cells)}</tr>')
    return "\n".join([*lines, "</tbody></table>"])


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return number(value, 3) if isinstance(value, float) else escaped(value).replace(".", ".<wbr>")
