"""Tables of rows with typed columns, wherever they come from: files, results, or a script.

Each value is parsed once, by the kind of its column.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from quantviz.checkpoints.results import typed_values as values
from quantviz.checkpoints.results.rows import COUNT, FIELDS, NUMBER, Kind, ResultRow
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import METRICS

#: Numbers besides metrics: the largest magnitude over the root mean square, the smallest and the largest
#: value, counts of what is not finite, and of measured elements.
NUMBERS = ("peak_rms", "low", "high", "nan", "inf", "cells")
_NUMBERS: Mapping[str, Kind] = MappingProxyType(
    {
        name: COUNT if name in ("nan", "inf", "cells") else NUMBER
        for name in ("mse", "sqnr_db", "max_error", *METRICS, *NUMBERS, "cost")
    }
)
KINDS: Mapping[str, Kind] = MappingProxyType({**FIELDS, **_NUMBERS})
_LAST = ("scheme", "file")
#: The columns of a scan's table, in their order.
COLUMNS = (
    *(name for name in FIELDS if name not in ("max_error_at", *_LAST)),
    *("mse", "sqnr_db", "max_error", "max_error_at"),
    *(name for name in _NUMBERS if name not in ("mse", "sqnr_db", "max_error", "cost")),
    *_LAST,
)


@dataclass(frozen=True, eq=False)
class TypedTable:
    names: tuple[str, ...]
    rows: tuple[ResultRow, ...]

    @classmethod
    def of(cls, table: Any) -> TypedTable:
        """Return the rows of a DataFrame, columns by name, records, or rows; `QuantVizError` for other
        things, too many rows or columns, or columns of several lengths.
        """
        if isinstance(table, TypedTable):
            return table
        if isinstance(table, list | tuple) and table and all(isinstance(row, ResultRow) for row in table):
            return cls(COLUMNS, tuple(table))
        raw = _columns_of(table)
        check_names(tuple(raw))
        counts = {name: len(column) for name, column in raw.items()}
        if len(set(counts.values())) > 1:
            one = min(counts, key=counts.__getitem__)
            other = max(counts, key=counts.__getitem__)
            raise QuantVizError(
                "tables.lengths_differ", column=one, count=counts[one], other=other, got=counts[other]
            )
        count = max(counts.values(), default=0)
        if count > values.TABLE_ROWS:
            raise QuantVizError("tables.too_many_rows", most=values.TABLE_ROWS)
        problems: dict[int, QuantVizError] = {}
        typed = {name: _typed(kind, name, raw[name], problems) for name, kind in KINDS.items() if name in raw}
        return cls(tuple(raw), tuple(_rows(typed, count, problems)))

    @property
    def recipes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.recipe for row in self.rows))

    def check_column(self, name: str) -> None:
        if name not in self.names:
            raise QuantVizError("allocate.no_column", column=name, known=", ".join(self.names))


def check_names(names: Sequence[str]) -> None:
    if len(names) > values.TABLE_COLUMNS:
        raise QuantVizError("tables.too_many_columns", count=len(names), most=values.TABLE_COLUMNS)
    for name in names:
        if names.count(name) > 1:
            raise QuantVizError("tables.column_twice", column=name)


def _columns_of(table: Any) -> dict[str, Sequence[Any]]:
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        names = list(map(str, table.columns))
        check_names(names)
        return {name: table.iloc[:, at].tolist() for at, name in enumerate(names)}
    if isinstance(table, Mapping):
        return {str(name): _list_of(str(name), column) for name, column in table.items()}
    if isinstance(table, str | bytes) or hasattr(table, "__array__") or not isinstance(table, Iterable):
        raise QuantVizError("allocate.no_table", got=type(table).__name__)
    return columns_of(table)


def columns_of(rows: Iterable[Any], names: Iterable[str] = ()) -> dict[str, Sequence[Any]]:
    """Return the columns of records; those that are not read have no values."""
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for count, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise QuantVizError("allocate.no_table", got=type(row).__name__)
        if count == values.TABLE_ROWS:
            raise QuantVizError("tables.too_many_rows", most=values.TABLE_ROWS)
        for name in [name for name in row if name not in columns]:
            if len(columns) == values.TABLE_COLUMNS:
                raise QuantVizError(
                    "tables.too_many_columns", count=len(columns) + 1, most=values.TABLE_COLUMNS
                )
            columns[name] = [None] * count
        for name, column in columns.items():
            column.append(row.get(name) if name in KINDS else None)
    return {str(name): column for name, column in columns.items()}


def _list_of(name: str, column: Any) -> Sequence[Any]:
    if hasattr(column, "tolist"):
        column = values.listed(column)
    if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable):
        raise QuantVizError("tables.no_column", column=name, got=type(column).__name__)
    return list(column)


def _typed(kind: Kind, name: str, column: Sequence[Any], problems: dict[int, QuantVizError]) -> Sequence[Any]:
    """Return a column with typed values; note the problem of each row whose value is none."""
    if kind is NUMBER and {type(value) for value in column} <= {float}:
        return column
    # Values that are there many times are parsed once.
    parsed: dict[Any, Any] = {}
    typed: list[Any] = []
    for at, value in enumerate(column):
        try:
            if isinstance(value, QuantVizError):  # the reader of the file could make nothing of it
                raise value
            if kind is not NUMBER and _is_missing(value):
                value = None
            if value is None and not kind.is_needed:
                typed.append(None)
            elif isinstance(value, str):
                if value not in parsed:
                    parsed[value] = kind.parse(value, name)
                typed.append(parsed[value])
            else:
                typed.append(kind.parse(value, name))
        except QuantVizError as problem:
            problems.setdefault(at, problem.again())
            typed.append(None)
    return typed


def _rows(
    typed: Mapping[str, Sequence[Any]], count: int, problems: Mapping[int, QuantVizError]
) -> Iterator[ResultRow]:
    """Yield the rows of typed columns: of one whose name or status is damaged, a substitute."""
    fields = {name: typed.get(name, (None,) * count) for name in FIELDS}
    fields["tensor"] = [f"#{at}" if name is None else name for at, name in enumerate(fields["tensor"], 1)]
    fields["recipe"] = [name or "–" for name in fields["recipe"]]
    fields["status"] = [status or "problem" for status in typed.get("status", ("ok",) * count)]
    names = [name for name in _NUMBERS if name in typed]
    for at, field_values in enumerate(zip(*fields.values(), strict=True)):
        numbers = {name: value for name in names if (value := typed[name][at]) is not None}
        yield ResultRow(
            **dict(zip(fields, field_values, strict=True)), numbers=numbers, problem=problems.get(at)
        )


def _is_missing(value: Any) -> bool:
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")
