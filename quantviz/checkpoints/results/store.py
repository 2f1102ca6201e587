"""Measurements of scans in one SQLite file: by content, so that nothing is measured twice.

    with Results("results.sqlite") as results:
        for scan in results.scans():
            scan.state, scan.progress.tensors_done, scan.progress.seconds_left
            list(results.rows(scan.id))      # the rows so far, in plan order

One process writes, any number read meanwhile. A process that is killed loses at most the tensor it was at,
and so does a scan that a full disk ends. The file is untrusted data: `result_file` opens it, `stored_rows`
parses it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from quantviz.checkpoints.results import stored_rows
from quantviz.checkpoints.results import typed_values as values
from quantviz.checkpoints.results.result_file import ResultFile
from quantviz.checkpoints.results.rows import ResultRow
from quantviz.checkpoints.results.stored_rows import Listed, Scan
from quantviz.checkpoints.scan.listing import Entry, Unmeasured
from quantviz.checkpoints.scan.measuring import FOR_NOW, ContentMeasurement
from quantviz.checkpoints.scan.recipes import recipe_id, refusal_of, row_mark, seen_shape
from quantviz.checkpoints.scan.selection import ALL_QUANTIZED, Selection
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import stored_size
from quantviz.quantization.quantizer import ARITHMETIC
from quantviz.schemes.scheme import Scheme
from quantviz.sources.stores.addresses import is_address, shown
from quantviz.sources.stores.store import PASSING
from quantviz.text import DEFAULT_LANGUAGE
from quantviz.whole_files import own_folder

if TYPE_CHECKING:
    import pandas

#: Key in place of a scheme for a pair of an audit; keys in one query.
_PAIR = "compared"
_KEYS_PER_QUERY = 500
#: A file changed so shortly ago may change again within the same tick of its clock.
_TICK_NS = 20_000_000


def default_results() -> Path:
    """Return the default file, one for all checkpoints: a copy of one is not measured again. `QuantVizError`
    without a folder of this user's.
    """
    folder = own_folder("scans")
    if folder is None:
        raise QuantVizError("checkpoint.no_cache")
    return folder / "results.sqlite"


class Results:
    """The results in a file; with `read_only` nothing is written, neither into it nor beside it. One object
    belongs to one thread. `QuantVizError` for a file that is missing or none of ours.
    """

    def __init__(self, path: str | PurePath | None = None, *, read_only: bool = False) -> None:
        self.path = default_results() if path is None else Path(path)
        if read_only and not self.path.is_file():
            raise QuantVizError("checkpoint.no_results", file=self.path.name)
        self._file = ResultFile(self.path, read_only=read_only)

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    # ---- reading -------------------------------------------------------------------------------------

    def scans(self) -> tuple[Scan, ...]:
        scans = [scan for scan in self._scans() if isinstance(scan, Scan)]
        return tuple(sorted(scans, key=lambda scan: (-scan.updated, -scan.id)))

    def problems(self) -> tuple[QuantVizError, ...]:
        return tuple(scan for scan in self._scans() if isinstance(scan, QuantVizError))

    def scan(self, number: int) -> Scan:
        """Return the scan of that number; `QuantVizError` where there is none, or it cannot be read."""
        rows = self._file.rows(stored_rows.SCAN_COLUMNS, "scans WHERE id = ?", (number,), key="id", most=1)
        if not rows:
            raise QuantVizError("checkpoint.no_scan", got=number, file=self.path.name)
        return self._parsed(rows[0])

    def listed(self, number: int) -> tuple[Listed, ...]:
        rows = self._file.rows(
            stored_rows.TENSOR_COLUMNS,
            "tensors WHERE scan = ? ORDER BY position",
            (number,),
            key="scan, position",
            most=values.RESULT_TENSORS,
        )
        return tuple(stored_rows.listed_of(at, position, row) for at, (_, position, *row) in enumerate(rows))

    def rows(self, number: int, language: str = DEFAULT_LANGUAGE) -> Iterator[ResultRow]:
        for _, rows in self.rows_by_position(number, language):
            yield from rows

    def rows_by_position(
        self, number: int, language: str = DEFAULT_LANGUAGE, positions: Collection[int] | None = None
    ) -> Iterator[tuple[int, list[ResultRow]]]:
        """Yield the rows of each tensor, or of those at some positions; `QuantVizError` for more than are
        read.
        """
        recipes = self.scan(number).recipes
        listed = self.listed(number)
        wanted = [tensor for tensor in listed if positions is None or tensor.position in positions]
        if len(wanted) * len(recipes) > values.RESULT_ROWS:
            raise QuantVizError(
                "checkpoint.results_too_many_rows", file=self.path.name, most=values.RESULT_ROWS
            )
        # A scheme's text form takes as long as the rest of a row.
        forms = [str(scheme) for _, scheme in recipes]
        for tensor in wanted:
            yield tensor.position, list(self._rows_of(tensor, recipes, forms, language))

    def _rows_of(
        self, tensor: Listed, recipes: Sequence[tuple[str, Scheme]], forms: Sequence[str], language: str
    ) -> Iterator[ResultRow]:
        used = [tensor.instead.get(at, requested) for at, (_, requested) in enumerate(recipes)]
        forms = [str(used[at] or form) if at in tensor.instead else form for at, form in enumerate(forms)]
        marks = [row_mark(scheme, tensor.importance) if scheme else "" for scheme in used]
        keys = [form + mark for form, mark in zip(forms, marks, strict=True)]
        measured = self.measured(tensor, keys) if tensor.content else {}
        for at, ((name, requested), scheme) in enumerate(zip(recipes, used, strict=True)):
            measurement = measured.get(keys[at])
            outcome = _outcome(tensor, at, scheme, measurement)
            if outcome is None:
                continue
            status, reason = outcome
            row = ResultRow(
                tensor.tensor,
                name,
                status,
                reason[language] if reason else None,
                fallback=recipe_id(scheme) if scheme not in (None, requested) else None,
                importance=tensor.importance if marks[at] else None,
                shape=tensor.shape,
                dtype=tensor.dtype,
                content=tensor.content,
                scheme=forms[at],
                file=tensor.file,
            )
            if scheme and measurement and status == "ok":
                numbers = {**measurement.numbers, "max_error": measurement.numbers["max_abs_error"]}
                bits = stored_size(scheme, seen_shape(tensor.shape, tensor.outputs))
                row = replace(row, bits=bits, numbers=numbers, max_error_at=measurement.max_error_at)
            yield row

    def table(self, number: int, language: str = DEFAULT_LANGUAGE) -> pandas.DataFrame:
        """Return the rows of a scan so far: numbers are float64, NaN where there is none, counts Int64."""
        return stored_rows.frame_of(self.scan(number), self.rows(number, language), language)

    def measured(self, tensor: Listed, keys: Sequence[str]) -> dict[str, ContentMeasurement]:
        """Return the measurements of a tensor's content by key; one that cannot be read is a problem."""
        rows = self._file.rows(
            stored_rows.MEASURED_COLUMNS,
            f"measured WHERE content = ? AND scheme IN ({', '.join('?' * len(keys))})"
            " AND arithmetic IN (?, ?) ORDER BY arithmetic",  # the later one of two counts
            (tensor.content, *keys, FOR_NOW, ARITHMETIC),
            key="content, scheme, arithmetic",
            most=2 * values.RESULT_RECIPES,
        )
        results = {}
        for row in rows:
            content, key = map(str, row[:2])
            try:
                results[key] = stored_rows.measured_of(row, tensor.shape)
            except QuantVizError as problem:
                results[key] = ContentMeasurement(content, key, "problem", values.sentences(problem))
        return results

    def known(self, content: str) -> set[str]:
        """Return the keys of the rows that a content has: see `recipes.row_key`. Rows that lack a metric of
        today or cannot be read are measured again.
        """
        rows = self._file.rows(
            stored_rows.MEASURED_COLUMNS,
            "measured WHERE content = ? AND arithmetic = ?",
            (content, ARITHMETIC),
            key="content, scheme, arithmetic",
            most=values.RESULT_TENSORS,
        )
        keys = set()
        for row in rows:
            with contextlib.suppress(QuantVizError):
                measured = stored_rows.measured_of(row)
                keys |= {measured.key} if measured.is_complete else set()
        return keys

    def content(self, file: str, tensor: str) -> str | None:
        rows = self._file.rows(
            ("content",), "contents WHERE file = ? AND tensor = ?", (file, tensor), key="file, tensor", most=1
        )
        content = rows[0][-1] if rows else None
        return content if isinstance(content, str) else None

    def pairs(self, keys: Sequence[str]) -> dict[str, str]:
        records: dict[str, str] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            batch = keys[start : start + _KEYS_PER_QUERY]
            rows = self._file.rows(
                ("numbers",),
                f"measured WHERE content IN ({', '.join('?' * len(batch))}) AND scheme = ?"
                " AND arithmetic = ?",
                (*batch, _PAIR, ARITHMETIC),
                key="content, scheme, arithmetic",
                most=len(batch),
            )
            records |= {key: record for key, _, _, record in rows if isinstance(record, str)}
        return records

    def _scans(self) -> Iterator[Scan | QuantVizError]:
        rows = self._file.rows(
            stored_rows.SCAN_COLUMNS, "scans ORDER BY id", key="id", most=values.RESULT_SCANS
        )
        for row in rows:
            try:
                yield self._parsed(row)
            except QuantVizError as problem:
                yield problem

    def _parsed(self, row: Sequence[object]) -> Scan:
        number, *fields = row
        assert isinstance(number, int)  # an INTEGER PRIMARY KEY is one
        # The type is read without the value, whatever its length.
        done, count = self._file.count(
            "count(CASE WHEN typeof(status) != 'null' THEN 1 END), count(*)",
            "tensors WHERE scan = ?",
            (number,),
        )
        try:
            return stored_rows.scan_of(number, fields, done, count)
        except QuantVizError as problem:
            raise QuantVizError(
                "checkpoint.scan_unreadable", got=number, file=self.path.name, problem=problem.again()
            ) from None

    # ---- writing, by the one process that scans ---------------------------------------------------------

    def begin(
        self,
        path: str,
        recipes: Sequence[tuple[str, Scheme]],
        entries: Sequence[Entry],
        notes: Iterable[dict[str, str]] = (),
        selection: Selection = ALL_QUANTIZED,
    ) -> int:
        """Store a scan's plan and return its number: the previous one where it was begun before."""
        form = json.dumps(stored_rows.recipes_form(recipes, selection))
        path = stored_text(path)
        now = time.time()
        with self.together():
            rows = self._file.rows(
                ("state",), "scans WHERE path = ? AND recipes = ?", (path, form), key="id", most=1
            )
            number = rows[0][0] if rows else None
            self._file.write("DELETE FROM tensors WHERE scan = ?", (number,))
            number = self._file.write(
                "INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, 0, 0, 0, 0)",
                (
                    number, path, form, json.dumps(list(notes)), os.getpid(), now, now,
                    min(sum(entry.size for entry in entries), 2**63 - 1),
                ),
            )  # fmt: skip
            self._file.write_all(
                "INSERT INTO tensors VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
                (
                    (
                        number,
                        at,
                        stored_text(e.name),
                        stored_text(_whole_path(e.file)),
                        e.dtype,
                        json.dumps(stored_rows.shape_form(e)),
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
        rows: Collection[ContentMeasurement] = (),
        *,
        file: str = "",
    ) -> None:
        """Store all results of one tensor in one transaction. `file` is the stamp of the file as it was read,
        if the content may be taken from it next time.
        """
        with self.together():
            self.add(rows)
            if content and file:
                self._file.write(
                    "INSERT OR REPLACE INTO contents VALUES (?, ?, ?)",
                    (file, stored_text(entry.name), content),
                )
            self._file.write(
                "UPDATE tensors SET content = ?, status = ?, reason = ? WHERE scan = ? AND position = ?",
                (
                    content or None,
                    unmeasured.status if unmeasured else "ok",
                    json.dumps(values.sentences(unmeasured.reason)) if unmeasured else None,
                    number,
                    position,
                ),
            )
            self._file.write(
                "UPDATE scans SET bytes_done = bytes_done + ?, measured = measured + ?, updated = ?"
                " WHERE id = ?",
                (entry.size, len(rows), time.time(), number),
            )

    def show_for_now(self, number: int, position: int, row: ContentMeasurement) -> None:
        with self.together():
            self.add([row])
            self._file.write(
                "UPDATE tensors SET content = ? WHERE scan = ? AND position = ?",
                (row.content, number, position),
            )

    def add(self, rows: Iterable[ContentMeasurement]) -> None:
        self._file.write_all(
            "INSERT OR REPLACE INTO measured VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    row.content, row.key, row.arithmetic, row.status,
                    json.dumps(dict(row.reason)) if row.reason else None,
                    json.dumps(dict(row.numbers)),
                    json.dumps(row.max_error_at) if row.max_error_at is not None else None,
                )
                for row in rows
            ),
        )  # fmt: skip

    def put_pair(self, key: str, record: str) -> None:
        self._file.write(
            "INSERT OR REPLACE INTO measured VALUES (?, ?, ?, 'ok', NULL, ?, NULL)",
            (key, _PAIR, ARITHMETIC, record),
        )

    def note_rate(self, number: int, bytes_read: int, seconds: float) -> None:
        self._file.write(
            "UPDATE scans SET bytes_read = ?, seconds = ?, updated = ? WHERE id = ?",
            (bytes_read, seconds, time.time(), number),
        )

    def note_coverage(self, number: int, coverage: dict[str, str], is_complete: bool) -> None:
        with self.together():
            notes = [*self.scan(number).notes, {**coverage, stored_rows.COVERAGE: is_complete}]
            self._file.write("UPDATE scans SET notes = ? WHERE id = ?", (json.dumps(notes), number))

    def end(self, number: int, state: str) -> None:
        self._file.write("UPDATE scans SET state = ?, updated = ? WHERE id = ?", (state, time.time(), number))

    def together(self) -> contextlib.AbstractContextManager[None]:
        return self._file.together()


def stored_text(name: str) -> str:
    """Return a tensor's name as SQLite takes it: a file may hold halves of characters."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _whole_path(file: str) -> str:
    return shown(file) if is_address(file) else os.path.abspath(file)


def _outcome(
    tensor: Listed, at: int, scheme: Scheme | None, measurement: ContentMeasurement | None
) -> tuple[str, Mapping[str, str] | None] | None:
    if tensor.status not in (None, "ok"):
        return tensor.status, tensor.reason
    if scheme is None:
        return "left_aside", values.sentences(QuantVizError("checkpoint.does_not_divide", shape=tensor.shape))
    if at in tensor.refused:
        return "refused", values.sentences(QuantVizError("checkpoint.tool_refuses_rows", shape=tensor.shape))
    if (refusal := refusal_of(scheme, tensor.shape, tensor.outputs)) is not None:
        return "refused", values.sentences(refusal)
    return None if measurement is None else (measurement.status, measurement.reason)


def stamp_of(file: str, version: str = "") -> str | None:
    """Return a text that changes with a file, by its place, size and times; None where a change could go
    unnoticed. `version` is the one that was read at an address.
    """
    if is_address(file):
        # Each reading was of this version, or it has failed.
        sure = version and not version.startswith(PASSING)
        return f"{shown(file)} {version}" if sure else None
    try:
        status = os.stat(file)
    except OSError:
        return None
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _TICK_NS:
        return None
    return f"{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}"
