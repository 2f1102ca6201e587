"""A results file, opened as data: our own tables and no others, read within bounds.

Whoever only looks opens the file so that nothing is written, neither into it nor beside it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from quantviz.checkpoints.results.typed_values import RESULT_QUERY_BYTES, RESULT_STEPS, RESULT_VALUE_BYTES
from quantviz.errors import QuantVizError
from quantviz.whole_files import is_full

#: Version of the tables below: a file of another one is refused.
VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS measured (
    content TEXT, scheme TEXT, arithmetic INTEGER, status TEXT, reason TEXT, numbers TEXT, place TEXT,
    PRIMARY KEY (content, scheme, arithmetic)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS contents (
    file TEXT, tensor TEXT, content TEXT, PRIMARY KEY (file, tensor)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS scans (
    id INTEGER PRIMARY KEY, path TEXT, recipes TEXT, notes TEXT, state TEXT, process INTEGER, started REAL,
    updated REAL, bytes INTEGER, bytes_done INTEGER, measured INTEGER, bytes_read INTEGER, seconds REAL,
    UNIQUE (path, recipes));
CREATE TABLE IF NOT EXISTS tensors (
    scan INTEGER, position INTEGER, tensor TEXT, file TEXT, dtype TEXT, shape TEXT, size INTEGER,
    content TEXT, status TEXT, reason TEXT, PRIMARY KEY (scan, position)) WITHOUT ROWID;
"""
#: SQL that makes an empty file one of results.
_FILLED = f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version={VERSION};COMMIT;"
#: Seconds to wait for another process that writes.
_WAIT = 60.0
#: SQLite calls back after so many instructions.
_BETWEEN_CALLS = 100_000
#: Tables that are compared with ours, and bytes of a file that is copied to be read.
_MOST_LISTED = 20
_MOST_COPIED = 2**30
#: Readings of a file that is replaced again and again.
_MOST_TIMES = 5
#: Keys that are texts, of which only those in the conditions are read.
_TEXT_KEYS = ("content", "scheme", "file", "tensor")
#: SQLite's codes of a full disk: for the file, and for the index of its log.
_DISK_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
#: SQLite's log beside a file, and its index.
_LOG = "-wal"
_INDEX = "-shm"


class TooLong:
    """In place of a value of more than `RESULT_VALUE_BYTES`, which is not read."""

    def __repr__(self) -> str:
        return f"> {RESULT_VALUE_BYTES:,} B"


class ResultFile:
    """The connection to a results file. One object belongs to one thread."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self._read_only = read_only
        #: Of a link the log lies beside its target.
        self._log = _beside(path.resolve(), _LOG)
        self._steps_left = 0
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        with self._sentences():
            if not read_only and not path.exists():
                self._put_down_empty()
            self._connect()

    def close(self) -> None:
        self._open.close()
        if self._copy is not None:
            self._copy.cleanup()

    # ---- reading -------------------------------------------------------------------------------------

    def rows(
        self, columns: Sequence[str], rest: str, values: Sequence[object] = (), *, key: str, most: int
    ) -> list[tuple[Any, ...]]:
        """Return the rows of `SELECT columns FROM rest`, after the columns of the table's primary `key`.

        A value that is too long is `TooLong`. `QuantVizError` for too many rows, or a damaged or changing
        file.
        """

        def read() -> list[tuple[Any, ...]]:
            try:
                return self._fetch(f"SELECT {key}, {', '.join(columns)} FROM {rest}", values, most)
            except sqlite3.DataError:  # a value is too long
                return self._each_value(columns, rest, values, key, most)

        return self._read(read)

    def count(self, columns: str, rest: str, values: Sequence[object]) -> tuple[int, ...]:
        [row] = self._read(lambda: self._fetch(f"SELECT {columns} FROM {rest}", values, 1))
        return row

    def _read(self, read: Callable[[], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        """Return the rows of `read`; read again if an immutable file was written to meanwhile."""
        with self._sentences():
            for _ in range(_MOST_TIMES):
                if self._has_changed():
                    self._open.close()
                    self._connect()
                try:
                    rows = read()
                except sqlite3.DatabaseError:
                    if not self._has_changed():
                        raise
                else:
                    if not self._has_changed():
                        return rows
            raise QuantVizError("checkpoint.results_changing", file=self.path.name)

    def _each_value(
        self, columns: Sequence[str], rest: str, values: Sequence[object], key: str, most: int
    ) -> list[tuple[Any, ...]]:
        names = key.split(", ")
        table = rest.split()[0]
        # A foreign number may be too long itself; the requested ones are not.
        read_names = [name if name in _TEXT_KEYS else _whole(name) for name in names]
        keys = self._fetch(f"SELECT {', '.join(read_names)} FROM {rest}", values, most)
        condition = " AND ".join(f"{name} IS ?" for name in names)
        return [
            (*key_row, *(self._one(name, table, condition, key_row) for name in columns)) for key_row in keys
        ]

    def _too_many(self, what: str, most: int) -> QuantVizError:
        return QuantVizError(f"checkpoint.results_too_many_{what}", file=self.path.name, most=most)

    def _one(self, column: str, table: str, condition: str, key: Sequence[object]) -> Any:
        try:
            rows = self._fetch(f"SELECT {column} FROM {table} WHERE {condition}", key, 1)
        except sqlite3.DataError:
            return TooLong()
        return rows[0][0] if rows else TooLong()

    def _fetch(self, query: str, values: Sequence[object], most: int) -> list[tuple[Any, ...]]:
        self._steps_left = RESULT_STEPS
        rows: list[tuple[Any, ...]] = []
        left = RESULT_QUERY_BYTES
        for row in self._open.execute(query, values):
            left -= sum(len(value) for value in row if isinstance(value, str | bytes))
            if left < 0:
                raise self._too_many("bytes", RESULT_QUERY_BYTES)
            if len(rows) == most:
                raise self._too_many("rows", most)
            rows.append(row)
        return rows

    # ---- writing -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Write all changes inside the `with` block in one transaction; rows written before a full disk
        stay.
        """
        if self._open.in_transaction:
            yield
            return
        with self._sentences():
            self._open.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._open.execute("COMMIT")
            except BaseException:
                if self._open.in_transaction:  # a full disk has ended it already
                    self._open.execute("ROLLBACK")
                raise

    def write(self, statement: str, values: Sequence[object]) -> int:
        with self._sentences():
            return int(self._open.execute(statement, values).lastrowid or 0)

    def write_all(self, statement: str, values: Iterator[Sequence[object]]) -> None:
        with self._sentences():
            self._open.executemany(statement, values)

    # ---- opening -------------------------------------------------------------------------------------

    def _put_down_empty(self) -> None:
        """Write a file of empty tables in one step: a reader meanwhile finds no file or one that can be read.
        On a disk without hard links `_check_tables` fills it where it lies.
        """
        path = self.path.resolve()
        with tempfile.TemporaryDirectory(prefix=".quantviz_results_", dir=path.parent) as folder:
            new = Path(folder) / path.name
            with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as filled:
                filled.executescript(_FILLED)
            with contextlib.suppress(OSError):  # another process was first, or there are no links
                os.link(new, path)

    def _connect(self) -> None:
        self._seen = _state_of(self.path, self._log)
        self._is_immutable = False
        if self._read_only:
            self._open = sqlite3.connect(self._address(), uri=True, timeout=_WAIT, isolation_level=None)
        else:
            self._open = sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)
        try:
            self._bound()
            self._check_tables()
        except BaseException:
            self._open.close()
            raise

    def _address(self) -> str:
        """Return the address that opens the file so that nothing is written beside it.

        Without a log no process writes it: it is opened as immutable. With the log of another process, its
        index is there too, and both are read. A log alone is copied with the file: SQLite would make its
        index anew beside it.
        """
        path = self.path.resolve()
        if not self._is_written():
            self._is_immutable = True
            return f"{path.as_uri()}?mode=ro&immutable=1"
        if not _beside(path, _INDEX).exists():
            log = _beside(path, _LOG)
            if path.stat().st_size + log.stat().st_size > _MOST_COPIED:
                raise self._too_many("bytes", _MOST_COPIED)
            self._copy = tempfile.TemporaryDirectory(prefix="quantviz_results_")
            copied = Path(self._copy.name) / "results.sqlite"
            shutil.copyfile(path, copied)
            shutil.copyfile(log, _beside(copied, _LOG))
            path = copied
        return f"{path.as_uri()}?mode=ro"

    def _is_written(self) -> bool:
        try:
            return self._log.stat().st_size > 0
        except FileNotFoundError:
            return False

    def _has_changed(self) -> bool:
        return self._is_immutable and _state_of(self.path, self._log) != self._seen

    def _bound(self) -> None:
        """Bound lengths and steps, and let nothing in the file be run."""
        self._open.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, RESULT_VALUE_BYTES)
        self._open.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._steps_left = RESULT_STEPS
        self._open.set_progress_handler(self._step, _BETWEEN_CALLS)
        # Some names are bytes that are no UTF-8, and damaged values are any bytes.
        self._open.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
        self._open.execute("PRAGMA trusted_schema=OFF")
        self._open.execute("PRAGMA cell_size_check=ON")

    def _step(self) -> bool:
        self._steps_left -= _BETWEEN_CALLS
        return self._steps_left < 0

    def _check_tables(self) -> None:
        """Refuse a file that has not our tables alone, before anything of it is used; fill an empty one."""
        [(version,)] = self._fetch("PRAGMA user_version", (), 1)
        listed = f"SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT {_MOST_LISTED}"
        there = self._fetch(listed, (), _MOST_LISTED)
        is_new = not version and not there and not self._read_only
        if not is_new and (version != VERSION or _shape_of(there) != _own_shape()):
            raise QuantVizError("checkpoint.other_results", file=self.path.name)
        if self._read_only:
            return
        self._open.execute("PRAGMA journal_mode=WAL")
        self._open.execute("PRAGMA synchronous=NORMAL")
        if is_new:
            self._open.executescript(_FILLED)

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code in _DISK_FULL or is_full(error):
                raise QuantVizError("checkpoint.disk_full", file=self.path.name) from None
            if code == sqlite3.SQLITE_INTERRUPT:
                raise self._too_many("steps", RESULT_STEPS) from None
            raise QuantVizError(
                "checkpoint.results_unreadable", file=self.path.name, problem=str(error)
            ) from None


def _whole(column: str) -> str:
    return f"CASE typeof({column}) WHEN 'integer' THEN {column} END"


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _state_of(path: Path, log: Path) -> tuple[int, ...]:
    """Return inode, size and times of a file and its log: they change when a write begins or is done."""
    stats = []
    for file in (path, log):
        try:
            stat = os.stat(file)
        except OSError:
            stats += [0]
        else:
            stats += [stat.st_ino, stat.st_size, stat.st_mtime_ns]
    return tuple(stats)


def _shape_of(listed: Sequence[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    return {(*row[:3], " ".join(str(row[3]).split())) for row in listed}


def _own_shape() -> set[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_TABLES)
        return _shape_of(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall())
