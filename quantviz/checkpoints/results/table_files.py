"""A long table from a file: Parquet, CSV, JSON, JSON Lines, or the results that scans keep.

A file is untrusted data: it is read within bounds, and damaged values are left for `rows`, which names the
row.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from quantviz.checkpoints.results import typed_values as values
from quantviz.checkpoints.results.typed_tables import COLUMNS, KINDS, TypedTable, check_names, columns_of
from quantviz.errors import QuantVizError
from quantviz.quoting import from_csv_text

_RESULTS = b"SQLite format 3\x00"
#: Characters of a line of JSON.
_MOST_OF_LINE = 2**22
#: Lists and objects of JSON for each row: the record, its shape, and a place.
_LISTS_OF_ROW = 4
_ROWS_PER_READ = 1024
Columns: TypeAlias = Mapping[str, Sequence[Any]]


def read_table(path: str | os.PathLike[str]) -> TypedTable:
    """Return the rows of a table for `allocate`, of a file of results the newest scan; `QuantVizError` for a
    file that is no table, beyond the bounds, or without a scan.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened:
            is_results = opened.read(len(_RESULTS)) == _RESULTS
        if is_results:
            return _of_results(file)
        reader = _READERS.get(file.suffix.lower())
        if reader is None:
            raise QuantVizError("allocate.no_table_file", file=os.fspath(file), known=", ".join(_READERS))
        most = values.TABLE_JSON_BYTES if reader is _of_json else values.TABLE_BYTES
        if file.stat().st_size > most:
            raise QuantVizError("tables.too_large", file=os.fspath(file), most=most)
        return TypedTable.of(reader(file))
    except QuantVizError:
        raise
    except (OSError, ValueError, OverflowError, RecursionError, csv.Error) as error:
        raise QuantVizError("allocate.cannot_read", file=os.fspath(file), reason=str(error)) from None


def csv_table(file: TextIO) -> tuple[list[str], Iterator[dict[str, str]]]:
    """Return the names of a CSV's columns and its rows by these, cells as they are written. A short row lacks
    its last columns; `QuantVizError` for a name that is there twice, and later for a row that is too long.
    """
    reader = csv.reader(file)
    names = next(reader, [])
    check_names(names)

    def rows() -> Iterator[dict[str, str]]:
        for row in reader:
            if len(row) > len(names):
                line = reader.line_num
                count = len(row)
                raise QuantVizError("tables.row_too_long", line=line, count=count, most=len(names))
            if row:
                yield dict(zip(names, row, strict=False))

    return names, rows()


def _of_results(path: Path) -> TypedTable:
    from quantviz.checkpoints.results.store import Results

    with Results(path, read_only=True) as results:
        scans = results.scans()
        if not scans:
            problem = next(iter(results.problems()), None)
            raise problem or QuantVizError("allocate.no_scan", file=os.fspath(path))
        return TypedTable(COLUMNS, tuple(results.rows(max(scan.id for scan in scans))))


def _of_parquet(path: Path) -> Columns:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise QuantVizError("cli.needs_pyarrow") from None
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            check_names(names)
            if file.metadata.num_rows > values.TABLE_ROWS:
                raise QuantVizError("tables.too_many_rows", most=values.TABLE_ROWS)
            known = [name for name in names if name in KINDS]
            found: dict[str, list[Any]] = {name: [] for name in known}
            left = values.TABLE_BYTES
            for batch in file.iter_batches(_ROWS_PER_READ, columns=known):
                left -= batch.nbytes
                if left < 0:
                    raise QuantVizError("tables.too_large", file=os.fspath(path), most=values.TABLE_BYTES)
                for name in known:
                    found[name] += batch.column(name).to_pylist()
            others = {name: [None] * file.metadata.num_rows for name in names if name not in KINDS}
            return found | others
    except pyarrow.ArrowException as error:
        raise QuantVizError("allocate.cannot_read", file=os.fspath(path), reason=str(error)) from None


def _of_csv(path: Path) -> Columns:
    with path.open(encoding="utf-8-sig", newline="") as file:
        names, rows = csv_table(file)
        return columns_of(({name: _cell(name, text) for name, text in row.items()} for row in rows), names)


def _of_json(path: Path) -> Columns:
    raw = path.read_bytes()
    if raw.count(b"[") + raw.count(b"{") > _LISTS_OF_ROW * values.TABLE_ROWS:
        raise QuantVizError("tables.too_many_rows", most=values.TABLE_ROWS)
    found = _parsed(raw)
    if not isinstance(found, dict | list):
        raise QuantVizError("allocate.no_table", got=type(found).__name__)
    return found if isinstance(found, dict) else columns_of(found)


def _of_lines(path: Path) -> Columns:
    with path.open(encoding="utf-8") as file:
        return columns_of(_parsed(line) for line in _lines(file) if line.strip())


_READERS = {".parquet": _of_parquet, ".csv": _of_csv, ".json": _of_json, ".jsonl": _of_lines}


def _lines(file: TextIO) -> Iterator[str]:
    number = 0
    while line := file.readline(_MOST_OF_LINE + 1):
        number += 1
        if len(line) > _MOST_OF_LINE:
            raise QuantVizError("tables.line_too_long", line=number, most=_MOST_OF_LINE)
        yield line


def _parsed(raw: bytes | str) -> Any:
    return json.loads(raw, parse_int=_whole_number)


def _whole_number(digits: str) -> Any:
    """Return a whole number of JSON; an error as a value in place of one that is too long."""
    if len(digits) > values.NUMBER_DIGITS:
        return QuantVizError("rows.digits", field="JSON", count=len(digits), most=values.NUMBER_DIGITS)
    return int(digits)


def _cell(column: str, written: str) -> Any:
    """Return the value of a CSV cell: names and texts as they are, numbers in columns of numbers alone."""
    kind = KINDS.get(column)
    if kind and kind.is_text and (written or column in ("tensor", "recipe")):
        return from_csv_text(written)
    if not written or kind is None or kind.dtype == "object":
        return written or None
    try:
        return values.from_digits(written, column)
    except QuantVizError as problem:
        return problem
