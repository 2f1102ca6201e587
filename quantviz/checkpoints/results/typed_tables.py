"""A table of tensors under recipes as typed columns, wherever it comes from: files, results, or a script.

Allocation and reports see no other table. Each value is parsed once, by `typed_values`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from quantviz.checkpoints.results import typed_values as values
from quantviz.checkpoints.results.stored_rows import COUNTS, STATUSES
from quantviz.checkpoints.results.table import COLUMNS
from quantviz.errors import QuantVizError

#: Columns of names, which each row has; of other texts, of counts and of lengths. All others are numbers.
NAMES = ("tensor", "recipe")
TEXTS = ("reason", "fallback", "importance", "dtype", "content", "scheme", "file")
_COUNTS = ("bits", *COUNTS)
_SHAPES = ("shape", "max_error_at")


def _parser(column: str) -> values.Parser:
    if column in NAMES:
        return values.name
    if column in TEXTS:
        return values.optional(values.text)
    if column in _COUNTS:
        return values.optional(values.whole)
    if column in _SHAPES:
        return values.optional(values.lengths)
    return values.optional(values.number)


#: The parser of each column that is known. Others are left aside.
PARSERS: Mapping[str, values.Parser] = MappingProxyType(
    {name: _parser(name) for name in (*COLUMNS, "cost")} | {"status": values.one_of(STATUSES)}
)


@dataclass(frozen=True, eq=False)
class TypedTable:
    """A table whose values are typed.

    Attributes:
        names: All its columns.
        columns: Those that are known, each of the same length; None where a value is missing or damaged.
        problems: The problem of a row, by its place: the first of its damaged values.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Sequence[Any]]
    problems: Mapping[int, QuantVizError]

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values()), ()))


def typed_table(table: Any) -> TypedTable:
    """Return a table with typed values: of a `pandas.DataFrame`, columns by name, or records.

    Raises:
        QuantVizError: It is no table, has more rows or columns than are read, or columns of several lengths.
    """
    raw = _columns_of(table)
    check_names(tuple(raw))
    counts = {name: len(column) for name, column in raw.items()}
    if len(set(counts.values())) > 1:
        one = min(counts, key=counts.__getitem__)
        other = max(counts, key=counts.__getitem__)
        raise QuantVizError(
            "tables.lengths_differ", column=one, count=counts[one], other=other, got=counts[other]
        )
    if max(counts.values(), default=0) > values.TABLE_ROWS:
        raise QuantVizError("tables.too_many_rows", most=values.TABLE_ROWS)
    problems: dict[int, QuantVizError] = {}
    columns = {name: _typed(name, raw[name], problems) for name in PARSERS if name in raw}
    return TypedTable(tuple(raw), columns, problems)


def check_names(names: Sequence[str]) -> None:
    """Refuse too many columns, and two of one name."""
    if len(names) > values.TABLE_COLUMNS:
        raise QuantVizError("tables.too_many_columns", count=len(names), most=values.TABLE_COLUMNS)
    for name in names:
        if names.count(name) > 1:
            raise QuantVizError("tables.column_twice", column=name)


def _columns_of(table: Any) -> dict[str, Sequence[Any]]:
    """Return the columns of a table as lists."""
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        names = list(map(str, table.columns))
        check_names(names)
        return {name: table.iloc[:, at].tolist() for at, name in enumerate(names)}
    if isinstance(table, Mapping):
        return {str(name): _list_of(str(name), column) for name, column in table.items()}
    if isinstance(table, str | bytes) or hasattr(table, "__array__") or not isinstance(table, Iterable):
        raise QuantVizError("allocate.no_table", got=type(table).__name__)
    records = list(table)
    for record in records:
        if not isinstance(record, Mapping):
            raise QuantVizError("allocate.no_table", got=type(record).__name__)
    known = dict.fromkeys(str(name) for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in known}


def _list_of(name: str, column: Any) -> Sequence[Any]:
    if hasattr(column, "tolist"):
        column = values.listed(column)
    if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable):
        raise QuantVizError("tables.no_column", column=name, got=type(column).__name__)
    return list(column)


def _typed(name: str, column: Sequence[Any], problems: dict[int, QuantVizError]) -> Sequence[Any]:
    """Return a column with typed values; note the problem of each row whose value is none."""
    parser = PARSERS[name]
    is_number = name not in (*NAMES, *TEXTS, *_COUNTS, *_SHAPES, "status")
    if is_number and {type(value) for value in column} <= {float}:
        return column
    #: Values that are there many times are parsed once.
    known: dict[Any, Any] = {}
    found: list[Any] = []
    for at, value in enumerate(column):
        try:
            if isinstance(value, QuantVizError):  # the reader of the file could make nothing of it
                raise value
            if not is_number and _is_missing(value):
                value = None
            if isinstance(value, str):
                if value not in known:
                    known[value] = parser(value, name)
                found.append(known[value])
            else:
                found.append(parser(value, name))
        except QuantVizError as problem:
            problems.setdefault(at, problem.again())
            found.append(None)
    return found


def _is_missing(value: Any) -> bool:
    """Return whether a value marks a missing one: None, NaN, or pandas' own mark."""
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")
