"""What scans have measured, kept in one SQLite file: by content, so that nothing is measured twice.

    with Results("results.sqlite") as results:
        for scan in results.scans():
            scan.state, scan.progress.tensors_done, scan.progress.seconds_left
            list(results.rows(scan.id))      # the rows so far, in plan order; `table(results, scan.id)`

One process writes, any number read meanwhile. A process that is killed loses at most the tensor it was at.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

from quantviz.checkpoints.listing import Entry, Unmeasured
from quantviz.checkpoints.measuring import FOR_NOW, Row
from quantviz.checkpoints.recipes import recipe_id, refusal_of
from quantviz.checkpoints.selection import ALL_QUANTIZED, Selection
from quantviz.errors import QuantVizError
from quantviz.own_folder import own_folder
from quantviz.quantization.quantizer import ARITHMETIC
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.sources.stores.addresses import shown
from quantviz.text import DEFAULT_LANGUAGE, languages

#: Version of the tables below: a file of another one is refused.
VERSION = 1
#: Seconds to wait for another process that writes.
_WAIT = 60.0
#: What marks, among the notes of a scan, the one on how much was read; whether that is all.
_COVERAGE = "complete"
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


@dataclass(frozen=True)
class Progress:
    """How far a scan is."""

    #: Tensors that have a row for each recipe, and all of them; the same in bytes of the files.
    tensors_done: int
    tensors: int
    bytes_done: int
    bytes: int
    #: Rows that this run measured; all others were known.
    measured: int
    #: Bytes a second of this run, and seconds left at this rate; none before there is a rate.
    bytes_per_second: float | None
    seconds_left: float | None


@dataclass(frozen=True)
class Scan:
    """One checkpoint under some recipes."""

    id: int
    path: str
    #: Names as they were asked for, with the schemes.
    recipes: tuple[tuple[str, Scheme], ...]
    #: "running", "done", "cancelled", or "killed" where its process ended without a word.
    state: str
    #: Its process.
    process: int
    #: Seconds since the epoch.
    started: float
    updated: float
    progress: Progress
    #: What a person should know of the checkpoint's files, by language.
    notes: tuple[dict[str, str], ...]
    #: How much of it was read, by language; nothing in files of before that was counted.
    coverage: dict[str, str] = field(default_factory=dict)
    #: Whether that is all of it.
    is_complete: bool = True
    #: Which of its tensors are measured.
    selection: Selection = ALL_QUANTIZED


class Listed(NamedTuple):
    """A tensor of a scan: what it holds and its status are None as long as it waits."""

    position: int
    tensor: str
    file: str
    dtype: str
    shape: Shape
    content: str | None
    status: str | None


def default_results() -> Path:
    """Return the file where results are kept unless another is named: one for all checkpoints, so that a copy
    of one is not measured again.

    Raises:
        QuantVizError: There is no folder that is this user's alone.
    """
    folder = own_folder("scans")
    if folder is None:
        raise QuantVizError("checkpoint.no_cache")
    return folder / "results.sqlite"


class Results:
    """The results in a file. One object belongs to one thread."""

    def __init__(
        self, path: str | PurePath | None = None, *, create: bool = True, read_only: bool = False
    ) -> None:
        self.path = default_results() if path is None else Path(path)
        if (read_only or not create) and not self.path.is_file():
            raise QuantVizError("checkpoint.no_results", file=self.path.name)
        try:
            if read_only:
                self._open = _opened_to_read(self.path)
            else:
                self._open = sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)
                self._open.execute("PRAGMA journal_mode=WAL")
                self._open.execute("PRAGMA synchronous=NORMAL")
            version = self._open.execute("PRAGMA user_version").fetchone()[0]
            tables = self._open.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if version != VERSION and (version or tables or read_only):
                raise QuantVizError("checkpoint.other_results", file=self.path.name)
            if not version and not read_only:
                self._open.executescript(f"BEGIN;{_TABLES}PRAGMA user_version={VERSION};COMMIT;")
        except sqlite3.Error as error:
            raise QuantVizError(
                "checkpoint.results_unreadable", file=self.path.name, problem=str(error)
            ) from None

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._open.close()

    # ---- reading -------------------------------------------------------------------------------------

    def scans(self) -> tuple[Scan, ...]:
        """Return all scans, the one written to last first."""
        found = self._open.execute("SELECT id FROM scans ORDER BY updated DESC, id DESC").fetchall()
        return tuple(self.scan(number) for (number,) in found)

    def scan(self, number: int) -> Scan:
        """Return the scan of that number and how far it is."""
        names = (
            "path", "recipes", "notes", "state", "process", "started", "updated", "bytes", "bytes_done",
            "measured", "bytes_read", "seconds",
        )  # fmt: skip
        row = self._open.execute(f"SELECT {', '.join(names)} FROM scans WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise QuantVizError("checkpoint.no_scan", got=number, file=self.path.name)
        found = dict(zip(names, row, strict=True))
        asked = json.loads(found["recipes"])
        selection = Selection.of_record(asked if isinstance(asked, dict) else {})
        listed = asked["recipes"] if isinstance(asked, dict) else asked
        recipes = tuple((name, Scheme.parse(form)) for name, form in listed)
        tensors = self._open.execute(
            "SELECT count(*), count(status) FROM tensors WHERE scan = ?", (number,)
        ).fetchone()
        rate = found["bytes_read"] / found["seconds"] if found["seconds"] and found["bytes_read"] else None
        state = found["state"]
        if state == "running" and not _alive(found["process"]):
            state = "killed"
        left = None
        if rate and state == "running":
            left = (found["bytes"] - found["bytes_done"]) / rate
        progress = Progress(
            tensors[1], tensors[0], found["bytes_done"], found["bytes"], found["measured"], rate, left
        )
        notes = json.loads(found["notes"])
        coverage = next((note for note in notes if _COVERAGE in note), {_COVERAGE: True})
        said = {str(language): str(words) for language, words in coverage.items() if language != _COVERAGE}
        return Scan(
            number, found["path"], recipes, state, found["process"], found["started"], found["updated"],
            progress, tuple(note for note in notes if _COVERAGE not in note), said,
            bool(coverage[_COVERAGE]), selection,
        )  # fmt: skip

    def listed(self, number: int) -> tuple[Listed, ...]:
        """Return the tensors of a scan in plan order, and which of them have all their rows."""
        found = self._open.execute(
            "SELECT position, tensor, file, dtype, shape, content, status FROM tensors WHERE scan = ?"
            " ORDER BY position",
            (number,),
        )
        return tuple(
            Listed(position, tensor, file, dtype, _shape_of(shape).shape, content, status)
            for position, tensor, file, dtype, shape, content, status in found
        )

    def rows(
        self, number: int, language: str = DEFAULT_LANGUAGE, positions: Collection[int] | None = None
    ) -> Iterator[dict[str, object]]:
        """Yield what is known so far of each tensor under each recipe, in plan order: names and numbers as
        `table.COLUMNS` has them. `positions` asks for some of the tensors alone.
        """
        from quantviz.checkpoints.table import row_of

        recipes = self.scan(number).recipes
        tensors = self._open.execute(
            "SELECT position, tensor, file, dtype, shape, content, status, reason FROM tensors WHERE scan = ?"
            " ORDER BY position",
            (number,),
        )
        for position, tensor, file, dtype, shape, content, status, reason in tensors.fetchall():
            if positions is not None and position not in positions:
                continue
            measured = self.measured(content, language) if content else {}
            lengths, outputs, instead = _shape_of(shape)
            for at, (name, asked) in enumerate(recipes):
                scheme = instead.get(at, asked)
                base: dict[str, object] = {
                    "tensor": tensor, "recipe": name, "shape": lengths, "dtype": dtype,
                    "content": content, "scheme": str(scheme or asked), "file": file,
                    "fallback": recipe_id(scheme) if scheme not in (None, asked) else None,
                }  # fmt: skip
                if status not in (None, "ok"):
                    yield row_of(base, status, _in(reason, language))
                elif scheme is None:
                    kept = QuantVizError("checkpoint.does_not_divide", shape=lengths)
                    yield row_of(base, "left_aside", kept.message(language))
                elif (refusal := refusal_of(scheme, lengths, outputs)) is not None:
                    yield row_of(base, "refused", refusal.message(language))
                elif str(scheme) in measured:
                    yield row_of(base, *measured[str(scheme)], outputs=outputs)

    def measured(
        self, content: str, language: str = DEFAULT_LANGUAGE
    ) -> dict[str, tuple[str, str | None, dict[str, float], Shape | None]]:
        """Return what is known of a content by scheme: status, reason, numbers and the largest error's
        place.
        """
        found = self._open.execute(
            "SELECT scheme, status, reason, numbers, place FROM measured"
            " WHERE content = ? AND arithmetic IN (?, ?) ORDER BY arithmetic",
            (content, FOR_NOW, ARITHMETIC),  # the later one of two is what counts
        )
        return {
            scheme: (
                status,
                _in(reason, language),
                json.loads(numbers),
                tuple(json.loads(place)) if place else None,
            )
            for scheme, status, reason, numbers, place in found
        }

    def known(self, content: str) -> set[str]:
        """Return the schemes that a content has been measured under.

        Rows from before the least and largest values were kept are measured again: without these nothing
        tells that all values are equal.
        """
        found = self._open.execute(
            "SELECT scheme FROM measured WHERE content = ? AND arithmetic = ?"
            """ AND (status != 'ok' OR instr(numbers, '"low":'))""",
            (content, ARITHMETIC),
        )
        return {scheme for (scheme,) in found}

    def content(self, file: str, tensor: str) -> str | None:
        """Return the content of a tensor in a file as it is now, where it is known."""
        found = self._open.execute(
            "SELECT content FROM contents WHERE file = ? AND tensor = ?", (file, tensor)
        ).fetchone()
        return found[0] if found else None

    # ---- writing, by the one process that scans ---------------------------------------------------------

    def begin(
        self,
        path: str,
        recipes: Sequence[tuple[str, Scheme]],
        entries: Sequence[Entry],
        notes: Iterable[dict[str, str]] = (),
        selection: Selection = ALL_QUANTIZED,
    ) -> int:
        """Put a scan's plan down and return its number: the one it had where it was begun before."""
        listed = [[name, str(scheme)] for name, scheme in recipes]
        # As before there was a choice, where none is made.
        asked = json.dumps({"recipes": listed, **selection.record()} if selection.record() else listed)
        path = stored_text(path)
        now = time.time()
        with self.together():
            found = self._open.execute(
                "SELECT id FROM scans WHERE path = ? AND recipes = ?", (path, asked)
            ).fetchone()
            number = found[0] if found else None
            self._open.execute("DELETE FROM tensors WHERE scan = ?", (number,))
            written = self._open.execute(
                "INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, 0, 0, 0, 0)",
                (
                    number, path, asked, json.dumps(list(notes)), os.getpid(), now, now,
                    sum(entry.size for entry in entries),
                ),
            )  # fmt: skip
            number = int(written.lastrowid or 0)
            self._open.executemany(
                "INSERT INTO tensors VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
                (
                    (
                        number,
                        at,
                        stored_text(e.name),
                        stored_text(shown(e.file)),
                        e.dtype,
                        _shape_text(e),
                        e.size,
                    )
                    for at, e in enumerate(entries)
                ),
            )
        return number

    def finish_tensor(
        self,
        number: int,
        position: int,
        entry: Entry,
        content: str = "",
        unmeasured: Unmeasured | None = None,
        rows: Collection[Row] = (),
        *,
        file: str = "",
    ) -> None:
        """Put down at once all that is known of one tensor: its rows, its content, and that it is done.

        `file` tells the file as it was read, where the tensor's content may be taken from that next time.
        """
        with self.together():
            self.add(rows)
            if content and file:
                self._open.execute(
                    "INSERT OR REPLACE INTO contents VALUES (?, ?, ?)",
                    (file, stored_text(entry.name), content),
                )
            self._open.execute(
                "UPDATE tensors SET content = ?, status = ?, reason = ? WHERE scan = ? AND position = ?",
                (
                    content or None,
                    unmeasured.status if unmeasured else "ok",
                    _in_each_language(unmeasured.reason) if unmeasured else None,
                    number,
                    position,
                ),
            )
            self._open.execute(
                "UPDATE scans SET bytes_done = bytes_done + ?, measured = measured + ?, updated = ?"
                " WHERE id = ?",
                (entry.size, len(rows), time.time(), number),
            )

    def show_for_now(self, number: int, position: int, row: Row) -> None:
        """Put down what is shown of a tensor until it is measured."""
        with self.together():
            self.add([row])
            self._open.execute(
                "UPDATE tensors SET content = ? WHERE scan = ? AND position = ?",
                (row.content, number, position),
            )

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows; one that is there is replaced."""
        self._open.executemany(
            "INSERT OR REPLACE INTO measured VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    row.content, row.scheme, row.arithmetic, row.status,
                    _in_each_language(row.reason) if row.reason else None,
                    json.dumps(dict(row.numbers)),
                    json.dumps(row.max_error_at) if row.max_error_at is not None else None,
                )
                for row in rows
            ),
        )  # fmt: skip

    def note_rate(self, number: int, bytes_read: int, seconds: float) -> None:
        """Put down how many bytes this run has gone through and how long it took."""
        self._open.execute(
            "UPDATE scans SET bytes_read = ?, seconds = ?, updated = ? WHERE id = ?",
            (bytes_read, seconds, time.time(), number),
        )

    def note_coverage(self, number: int, coverage: dict[str, str], is_complete: bool) -> None:
        """Put down how much of the checkpoint was read, by language."""
        with self.together():
            found = self._open.execute("SELECT notes FROM scans WHERE id = ?", (number,)).fetchone()
            notes = [note for note in json.loads(found[0]) if _COVERAGE not in note]
            notes.append({**coverage, _COVERAGE: is_complete})
            self._open.execute("UPDATE scans SET notes = ? WHERE id = ?", (json.dumps(notes), number))

    def end(self, number: int, state: str) -> None:
        """Put down that a scan is "done" or "cancelled"."""
        self._open.execute(
            "UPDATE scans SET state = ?, updated = ? WHERE id = ?", (state, time.time(), number)
        )

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Write all that is put down meanwhile at once."""
        if self._open.in_transaction:
            yield
            return
        self._open.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._open.execute("ROLLBACK")
            raise
        self._open.execute("COMMIT")


def _opened_to_read(path: Path) -> sqlite3.Connection:
    """Return a file of results that is only read, also where nothing can be written beside it."""
    for how in ("mode=ro", "mode=ro&immutable=1"):
        opened = sqlite3.connect(
            f"{path.resolve().as_uri()}?{how}", uri=True, timeout=_WAIT, isolation_level=None
        )
        try:
            opened.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError:
            opened.close()
            if how.endswith("=1"):
                raise
        else:
            break
    return opened


def _alive(process: int) -> bool:
    """Return whether there is a process of that number."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # there is one, of somebody else
        return True
    return True


def stored_text(name: str) -> str:
    """Return a tensor's name as SQLite takes it: a file may hold halves of characters."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _in_each_language(reason: QuantVizError) -> str:
    return json.dumps({language: reason.message(language) for language in languages()}, ensure_ascii=False)


def _in(reason: str | None, language: str) -> str | None:
    return None if reason is None else str(json.loads(reason)[language])


class _Stored(NamedTuple):
    """The column `shape` of a tensor: its shape, its outputs, and what is used in place of schemes."""

    shape: Shape
    outputs: tuple[int, ...] = (0,)
    instead: Mapping[int, Scheme | None] = MappingProxyType({})


def _shape_text(entry: Entry) -> str:
    """Return a tensor's shape as the table has it: with its outputs where they are not its first axis, and
    with what an engine uses on it in place of schemes.
    """
    more: dict[str, Any] = {}
    if entry.outputs != (0,):
        more["outputs"] = entry.outputs
    if entry.instead:
        more["instead"] = {at: scheme and str(scheme) for at, scheme in entry.instead}
    return json.dumps({"shape": entry.shape, **more} if more else entry.shape)


def _shape_of(form: str) -> _Stored:
    """Return what `_shape_text` wrote."""
    found = json.loads(form)
    if not isinstance(found, dict):
        return _Stored(tuple(found))
    instead = {int(at): form and Scheme.parse(form) for at, form in found.get("instead", {}).items()}
    return _Stored(tuple(found["shape"]), tuple(found.get("outputs", (0,))), instead)
