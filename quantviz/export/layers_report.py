"""The layers of a capture as one page of HTML: the error of weights beside that of outputs, and a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quantviz.checkpoints.model.tensor_names import KindMap, kind_map
from quantviz.export.html_page import MapCell, breakable, html_page
from quantviz.figures.numbers import number
from quantviz.text import DEFAULT_LANGUAGE, text

#: Columns of words, which stand at the left.
_OF_WORDS = ("layer", "method", "reason")
#: Percent of the colour for a map's largest error.
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
    #: The logarithm of the error, to any base, for the colour; −inf without an error.
    badness: Callable[[float], float]
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

    def table(name: str, columns: Sequence[str], found: Sequence[Row]) -> tuple[Any, ...]:
        kinds = ("" if each in _OF_WORDS else "number" for each in columns)
        headings = [
            (text(f"layers_report.{each}", language), kind) for each, kind in zip(columns, kinds, strict=True)
        ]
        return name, headings, [[_cell(row.get(each)) for each in columns] for row in found]

    kinds = kind_map([row["layer"] for row in rows])
    known = sorted((row for row in rows if row["status"] == "ok"), key=lambda row: -row["rel_out_held_back"])
    tables = [table("table", _COLUMNS, known)]
    if refused := [row for row in rows if row["reason"]]:
        tables.append(table("refused", ("layer", "reason"), refused))
    maps = [(each.name, list(_map(kinds, rows, each))) for each in _MAPS] if kinds.rows else []
    return html_page("layers", language=language, title=title, kinds=kinds.kinds, maps=maps, tables=tables)


def _map(kinds: KindMap, rows: Sequence[Row], quantity: _Quantity) -> Iterator[tuple[str, list[MapCell]]]:
    """Yield the rows of a map: one for each layer, a column for each kind."""
    values = {
        row["layer"]: float(row[quantity.name])
        for row in rows
        if row["status"] == "ok" and row[quantity.name] is not None
    }
    levels = {name: quantity.badness(value) for name, value in values.items()}
    finite = [level for level in levels.values() if math.isfinite(level)]
    low = min(finite, default=0.0)
    span = max(max(finite, default=0.0) - low, 1e-9)

    def cell(name: str | None) -> MapCell:
        if name is None:
            return MapCell()
        if name not in values:
            return MapCell("×", name)
        # An error beside outputs that are all 0 is inf, the worst of all.
        share = round(_FULL * min(max(0.0, (levels[name] - low) / span), 1.0))
        return MapCell(quantity.printed(values[name]), name, share=share)

    for numbers in kinds.rows:
        cells = [cell(kinds.tensors.get((numbers, kind))) for kind in kinds.kinds]
        yield ".".join(map(str, numbers)), cells


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return number(value, 3) if isinstance(value, float) else breakable(str(value), ".")
