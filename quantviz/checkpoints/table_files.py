"""A long table from a file: Parquet, CSV, JSON, JSON Lines, or the results that scans keep."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quantviz.errors import QuantVizError

#: The first bytes of a file of results, which is SQLite's.
_RESULTS = b"SQLite format 3\x00"


def read_table(path: str | os.PathLike[str]) -> Mapping[str, Sequence[Any]]:
    """Return the columns of a table by name, as `allocate` takes them.

    Of a file of results it is the newest scan.

    Raises:
        QuantVizError: The file cannot be read, is no table, or has no scan.
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
        return reader(file)
    except QuantVizError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise QuantVizError("allocate.cannot_read", file=os.fspath(file), reason=str(error)) from None


def _of_results(path: Path) -> Mapping[str, Sequence[Any]]:
    from quantviz.checkpoints.results import Results
    from quantviz.checkpoints.table import columns

    with Results(path, read_only=True) as results:
        scans = results.scans()
        if not scans:
            raise QuantVizError("allocate.no_scan", file=os.fspath(path))
        return columns(results, max(scan.id for scan in scans))


def _of_parquet(path: Path) -> Mapping[str, Sequence[Any]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise QuantVizError("cli.needs_pyarrow") from None
    found: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    return found


def _of_csv(path: Path) -> Mapping[str, Sequence[Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return _columns([{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)])


def _of_json(path: Path) -> Mapping[str, Sequence[Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else _columns(found)


def _of_lines(path: Path) -> Mapping[str, Sequence[Any]]:
    with path.open(encoding="utf-8") as file:
        return _columns([json.loads(line) for line in file if line.strip()])


_READERS = {".parquet": _of_parquet, ".csv": _of_csv, ".json": _of_json, ".jsonl": _of_lines}


def _columns(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Sequence[Any]]:
    rows = list(rows)
    if not all(isinstance(row, Mapping) for row in rows):
        raise QuantVizError("allocate.no_table", got=type(rows[0]).__name__)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def _value(text: str | None) -> Any:
    """Return a number where a cell of a CSV is one, None where it is empty."""
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
