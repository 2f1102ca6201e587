"""One tensor under one recipe: the row that scans keep, files hold, pages show and gates judge.

A column states its kind once: how its values are read from whatever holds them, and their dtype in pandas.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

from quantviz.checkpoints.results import typed_values as values
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.schemes.granularity import Shape

#: Numbers of a row besides metrics: the largest magnitude over the root mean square, the smallest and the
#: largest value, counts of what is not finite, and of the elements that were measured.
NUMBERS = ("peak_rms", "low", "high", "nan", "inf", "cells")
#: Outcomes of a tensor under a recipe.
STATUSES = ("ok", "left_aside", "refused", "not_read", "problem")
#: Those of a tensor of whose values nothing is known.
UNREAD = ("problem", "not_read")


@dataclass(frozen=True)
class Kind:
    """Values of a column."""

    parse: values.Parser
    dtype: str = "object"
    #: Whether a CSV has them as text, which can look like a number.
    is_text: bool = False
    #: Whether each row has one.
    is_needed: bool = False


_NAME = Kind(values.name, is_text=True, is_needed=True)
_TEXT = Kind(values.text, is_text=True)
_STATUS = Kind(values.one_of(STATUSES), is_text=True, is_needed=True)
_LENGTHS = Kind(values.lengths)
_COUNT = Kind(values.whole, "Int64")
_NUMBER = Kind(values.number, "float64")


@dataclass(frozen=True)
class Row:
    """A tensor under a recipe."""

    tensor: Annotated[str, _NAME]
    recipe: Annotated[str, _NAME]
    status: Annotated[str, _STATUS] = "ok"
    #: Why it was not measured.
    reason: Annotated[str | None, _TEXT] = None
    #: The recipe that the engine uses in its place.
    fallback: Annotated[str | None, _TEXT] = None
    #: A hash of the weights of the tensor's columns, where the scheme uses them.
    importance: Annotated[str | None, _TEXT] = None
    shape: Annotated[Shape | None, _LENGTHS] = None
    dtype: Annotated[str | None, _TEXT] = None
    #: A hash of the tensor's bytes, dtype and shape.
    content: Annotated[str | None, _TEXT] = None
    #: Bits of the whole tensor as the recipe stores it.
    bits: Annotated[int | None, _COUNT] = None
    #: Place of the first error of largest size.
    max_error_at: Annotated[Shape | None, _LENGTHS] = None
    scheme: Annotated[str | None, _TEXT] = None
    file: Annotated[str | None, _TEXT] = None
    #: Columns of numbers that it has.
    numbers: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    #: Its outcome in the account of an audit.
    became: str = ""
    #: What is wrong with the first of its damaged values.
    problem: QuantVizError | None = None

    def value(self, column: str) -> Any:
        """Return the value of a column; None where it has none."""
        return getattr(self, column) if column in _OWN else self.numbers.get(column)

    def number(self, column: str) -> float | None:
        """Return a number; None where it has none, or NaN."""
        found: float | None = self.value(column)
        return None if found is None or found != found else float(found)

    def told(self, language: str) -> Row:
        """Return it with the problem of a damaged value as its reason."""
        if self.problem is None:
            return self
        return replace(self, status="problem", reason=self.problem.message(language), problem=None)

    @property
    def is_unread(self) -> bool:
        """Return whether nothing is known of the tensor's values."""
        return self.status in UNREAD

    @property
    def sqnr_db(self) -> float | None:
        """Return its SQNR in dB, if it was measured."""
        return self.number("sqnr_db") if self.status == "ok" else None

    @property
    def bits_per_weight(self) -> float | None:
        """Return the bits of one weight."""
        own = self.number("effective_bits")
        if own is None and self.bits is not None and (count := math.prod(self.shape or (0,))):
            own = self.bits / count
        return own


_OWN: Mapping[str, Kind] = MappingProxyType(
    {
        name: kind.__metadata__[0]
        for name, kind in get_type_hints(Row, include_extras=True).items()
        if hasattr(kind, "__metadata__")
    }
)
_NUMBERS: Mapping[str, Kind] = MappingProxyType(
    {
        name: _COUNT if name in ("nan", "inf", "cells") else _NUMBER
        for name in ("mse", "sqnr_db", "max_error", *METRICS, *NUMBERS, "cost")
    }
)
#: Every column that is read, by its kind; all others are left aside.
KINDS: Mapping[str, Kind] = MappingProxyType({**_OWN, **_NUMBERS})
_LAST = ("scheme", "file")
#: The columns of a scan's table, in their order.
COLUMNS = (
    *(name for name in _OWN if name not in ("max_error_at", *_LAST)),
    *("mse", "sqnr_db", "max_error", "max_error_at"),
    *(name for name in _NUMBERS if name not in ("mse", "sqnr_db", "max_error", "cost")),
    *_LAST,
)


@dataclass(frozen=True, eq=False)
class TypedTable:
    """Rows, and the names of all columns of what they were read from."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, table: Any) -> TypedTable:
        """Return the rows of a table: of a `pandas.DataFrame`, columns by name, records, or rows.

        Raises:
            QuantVizError: It is no table, has more rows or columns than are read, or columns of several
                lengths.
        """
        if isinstance(table, TypedTable):
            return table
        if isinstance(table, list | tuple) and table and all(isinstance(row, Row) for row in table):
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
        """Return the recipes in their order."""
        return tuple(dict.fromkeys(row.recipe for row in self.rows))

    def check_column(self, name: str) -> None:
        """Raise a `QuantVizError` where there is no such column."""
        if name not in self.names:
            raise QuantVizError("allocate.no_column", column=name, known=", ".join(self.names))


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


def _typed(kind: Kind, name: str, column: Sequence[Any], problems: dict[int, QuantVizError]) -> Sequence[Any]:
    """Return a column with typed values; note the problem of each row whose value is none."""
    if kind is _NUMBER and {type(value) for value in column} <= {float}:
        return column
    #: Values that are there many times are parsed once.
    known: dict[Any, Any] = {}
    found: list[Any] = []
    for at, value in enumerate(column):
        try:
            if isinstance(value, QuantVizError):  # the reader of the file could make nothing of it
                raise value
            if kind is not _NUMBER and _is_missing(value):
                value = None
            if value is None and not kind.is_needed:
                found.append(None)
            elif isinstance(value, str):
                if value not in known:
                    known[value] = kind.parse(value, name)
                found.append(known[value])
            else:
                found.append(kind.parse(value, name))
        except QuantVizError as problem:
            problems.setdefault(at, problem.again())
            found.append(None)
    return found


def _rows(
    typed: Mapping[str, Sequence[Any]], count: int, problems: Mapping[int, QuantVizError]
) -> Iterator[Row]:
    """Yield the rows of typed columns: of one whose name or status is damaged, a substitute."""
    own = {name: typed.get(name, (None,) * count) for name in _OWN}
    own["tensor"] = [f"#{at}" if name is None else name for at, name in enumerate(own["tensor"], 1)]
    own["recipe"] = [name or "–" for name in own["recipe"]]
    own["status"] = [each or "problem" for each in typed.get("status", ("ok",) * count)]
    names = [name for name in _NUMBERS if name in typed]
    for at, each in enumerate(zip(*own.values(), strict=True)):
        found = {name: value for name in names if (value := typed[name][at]) is not None}
        yield Row(**dict(zip(own, each, strict=True)), numbers=found, problem=problems.get(at))


def _is_missing(value: Any) -> bool:
    """Return whether a value marks a missing one: None, NaN, or pandas' own mark."""
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")
