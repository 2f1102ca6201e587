"""Results files that are damaged, forged or not ours: rows or a sentence come of each."""

import contextlib
import errno
import json
import random
import shutil
import sqlite3

import pytest
import safetensors.torch
import torch

import quantviz as qv
from quantviz.checkpoints.allocation.allocating import allocate
from quantviz.checkpoints.model_map import read_model
from quantviz.checkpoints.results import result_file
from quantviz.checkpoints.results.rows import STATUSES
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.results.stored_rows import MEASURED_COLUMNS, SCAN_COLUMNS, TENSOR_COLUMNS
from quantviz.checkpoints.results.table_files import read_table
from quantviz.checkpoints.results.typed_tables import COLUMNS
from quantviz.checkpoints.results.typed_values import RESULT_SCANS, RESULT_VALUE_BYTES
from quantviz.checkpoints.scan.scanning import run_scan
from quantviz.text import languages
from tests.fuzz.results_files import NAMES, RECIPES, write_results
from tests.helpers.damage import damaged
from tests.helpers.sample import sample_of

TABLES = {
    "scans": SCAN_COLUMNS,
    "tensors": ("position", "size", *TENSOR_COLUMNS),
    "measured": ("content", "scheme", "arithmetic", *MEASURED_COLUMNS),
}
#: What stands in place of a value. Of a file of texts each is one that JSON, a shape or a number is not.
VALUES = {
    "null": None,
    "empty": "",
    "a text": "seven",
    "a list": "[]",
    "nested lists": "[" * 100_000,
    "a mapping": "{}",
    "a list of nulls": "[null, null]",
    "a mapping of lists": json.dumps({"en": [], "zh": {}, "shape": [[]], "outputs": [9], "mse": [1]}),
    "numbers that are none": '{"mse": "x", "sqnr_db": null, "max_abs_error": [], "low": 1e999, "cells": -1}',
    "many digits": "[" + "9" * 5000 + "]",
    "a large shape": "[9223372036854775807, 9223372036854775807]",
    "negative lengths": "[-1, 8]",
    "pairs": '[["int8_per_row", "int8"], ["x"]]',
    "a place outside": "[8, 64]",
    "negative": -(2**63),
    "largest": 2**63 - 1,
    "a float": 1e308,
    "infinite": float("inf"),
    "bytes": b"\xff\xfe\x00",
    "half a character": "a\ud800b".encode("utf-8", "surrogatepass"),
    "too long": "x" * (RESULT_VALUE_BYTES + 1),
    "a large blob": b"\0" * (RESULT_VALUE_BYTES + 1),
}
#: Columns of keys, which SQLite itself keeps from being null.
KEYS = {("tensors", "position"), *(("measured", name) for name in ("content", "scheme", "arithmetic"))}
VALUE_TRIES = [
    (table, column, value)
    for table, names in TABLES.items()
    for column in names
    for value in VALUES
    if (table, column) not in KEYS or value != "null"
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("results") / "whole.sqlite")


@pytest.fixture(scope="module")
def wanted(whole):
    """The rows of each tensor of the first scan, and the scans, of the file that is not damaged."""
    with Results(whole, read_only=True) as results:
        found = {}
        for row in results.rows(1):
            found.setdefault(row.tensor, []).append(row)
        return found, results.scans()


@pytest.fixture
def file(whole, tmp_path):
    return shutil.copyfile(whole, tmp_path / "damaged.sqlite")


def changed(file, *statements):
    """Change a file as somebody would who forges it."""
    with contextlib.closing(sqlite3.connect(file)) as opened:
        opened.execute("PRAGMA journal_mode=DELETE")
        opened.execute("PRAGMA writable_schema=ON")
        for statement, *values in statements:
            opened.execute(statement, values)
        opened.commit()


def looked(file):
    """Read a file as every reader does; the scans, sentences and rows that come of it."""
    before = sorted(file.parent.iterdir())
    scans, said, rows = (), [], {}
    try:
        with Results(file, read_only=True) as results:
            scans = results.scans()
            said += results.problems()
            for scan in scans:
                assert scan.state in ("running", "done", "cancelled", "killed")
                assert all(set(languages()) <= set(note) for note in scan.notes)
                listed = results.listed(scan.id)
                rows[scan.id] = list(results.rows(scan.id))
                model = read_model(
                    [(each.tensor, each.shape, each.dtype, each.file) for each in listed],
                    rows[scan.id],
                    [name for name, _ in scan.recipes],
                )
                assert all(tensor.status(RECIPES[0]) in (*STATUSES, "waiting") for tensor in model.tensors)
                table = results.table(scan.id)
                assert tuple(table) == COLUMNS
                if rows[scan.id]:
                    assert "<html" in qv.report(rows[scan.id])
                with contextlib.suppress(qv.QuantVizError):
                    allocate(table, budget_bits=10**9)
    except qv.QuantVizError as problem:
        said.append(problem)
    with contextlib.suppress(qv.QuantVizError):
        read_table(file)
    for problem in said:
        assert all(len(problem.message(language)) < 3000 for language in languages())
    assert sorted(file.parent.iterdir()) == before, "a look left something beside the file"
    return scans, said, rows


@pytest.mark.parametrize(
    ("table", "column", "value"), sample_of(VALUE_TRIES, 24), ids=lambda each: str(each).replace(" ", "_")
)
def test_a_value_that_is_none_is_a_problem_and_the_rest_is_shown(file, wanted, table, column, value):
    first = {
        "scans": "id = 1",
        "tensors": "scan = 1 AND position = 0",
        "measured": f"content = 'content0' AND scheme = '{qv.RECIPES[RECIPES[0]]}'",
    }[table]
    given = VALUES[value]
    cast = "CAST(? AS TEXT)" if value == "half a character" else "?"
    changed(file, (f"UPDATE {table} SET {column} = {cast} WHERE {first}", given))
    scans, said, rows = looked(file)
    of_rows, before = wanted
    assert {scan.id for scan in scans} >= {2}, said
    assert next(scan for scan in scans if scan.id == 2) == next(scan for scan in before if scan.id == 2)
    if table == "scans":
        assert 1 in rows or said
        return
    # One tensor was changed; the others have the rows that they had.
    shown = {}
    for row in rows[1]:
        shown.setdefault(row.tensor, []).append(row)
    for name in NAMES[1:3]:
        assert shown[name] == of_rows[name]
    for row in rows[1]:
        assert (row.status == "ok") == (row.reason is None)


HUGE = "SELECT 1 AS id, zeroblob(1000000000) AS path"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n"
#: Statements that make a file other than ours.
FORGED = {
    "a view of a huge blob": ("DROP TABLE scans", f"CREATE VIEW scans AS {HUGE}"),
    "a view that never ends": ("DROP TABLE scans", f"CREATE VIEW scans AS {ENDLESS}"),
    "a view of tensors": ("DROP TABLE tensors", f"CREATE VIEW tensors AS {ENDLESS}"),
    "a trigger": ("CREATE TRIGGER t AFTER UPDATE ON scans BEGIN DELETE FROM tensors; END",),
    "a table more": ("CREATE TABLE more (a)",),
    "a column more": ("ALTER TABLE scans ADD COLUMN more TEXT",),
    "a generated column": ("ALTER TABLE tensors ADD COLUMN g AS (zeroblob(1000000000))",),
    "a column less": ("ALTER TABLE scans DROP COLUMN seconds",),
    "a table less": ("DROP TABLE contents",),
    "no table": tuple(f"DROP TABLE {name}" for name in ("contents", *TABLES)),
    "an index on an expression": ("CREATE INDEX i ON tensors (length(zeroblob(size)))",),
    "a renamed column": ("ALTER TABLE measured RENAME COLUMN numbers TO number",),
    "a check": (
        "UPDATE sqlite_master SET sql = replace(sql, 'size INTEGER', 'size INTEGER CHECK (1)')"
        " WHERE name = 'tensors'",
    ),
    "tables of statistics": ("ANALYZE",),
    "a virtual table": ("CREATE VIRTUAL TABLE v USING fts5(a)",),
    "another version": ("PRAGMA user_version=2",),
    "no version": ("PRAGMA user_version=0",),
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("read_only", [True, False])
def test_tables_that_are_not_ours_are_refused_before_anything_is_done(file, name, read_only):
    changed(file, *((statement,) for statement in FORGED[name]))
    before = file.read_bytes()
    with pytest.raises(qv.QuantVizError) as refused:
        Results(file, read_only=read_only)
    assert refused.value.key == "checkpoint.other_results"
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    assert file.read_bytes() == before


@pytest.mark.parametrize("seed", sample_of(range(400), 24))
def test_a_file_that_is_damaged_at_random_gives_rows_or_a_sentence(file, whole, seed):
    chance = random.Random(seed)
    content = whole.read_bytes()
    file.write_bytes(damaged(content, [content], chance))
    looked(file)
    # Whoever scans into it goes on, or is told why not.
    with contextlib.suppress(qv.QuantVizError), Results(file) as results:
        results.known("content0")
        results.content("a", "b")
        results.begin("/x", [(RECIPES[0], qv.RECIPES[RECIPES[0]])], [])


def test_a_list_that_is_too_long_is_refused(file):
    many = [
        (
            "INSERT INTO scans SELECT NULL, ?, recipes, notes, state, process, started, updated, bytes,"
            " bytes_done, measured, bytes_read, seconds FROM scans WHERE id = 1",
            f"/{at}",
        )
        for at in range(RESULT_SCANS)
    ]
    changed(file, *many)
    _, (said,), _ = looked(file)
    assert (said.key, said.params["most"]) == ("checkpoint.results_too_many_rows", RESULT_SCANS)


@pytest.mark.parametrize(("bound", "key"), [("RESULT_STEPS", "steps"), ("RESULT_QUERY_BYTES", "bytes")])
def test_a_query_has_so_many_steps_and_bytes(whole, monkeypatch, bound, key):
    monkeypatch.setattr(result_file, "_BETWEEN_CALLS", 100)
    many = ", ".join("?" * 2000)
    asked = f"scans WHERE path NOT IN ({many})", [f"x{at}" for at in range(2000)]
    with Results(whole, read_only=True) as results:
        monkeypatch.setattr(result_file, bound, 100)
        with pytest.raises(qv.QuantVizError) as refused:
            results._file.rows(("path", "notes", "recipes"), *asked, key="id", most=9)
    assert refused.value.key == f"checkpoint.results_too_many_{key}"


def test_a_full_disk_ends_a_scan_with_a_sentence_and_what_was_measured_stays(tmp_path):
    """SQLite raises the same error where a file may have no more pages as where a disk has no more room."""
    tensors = {f"layers.{k}.weight": torch.full((4, 32), float(k)) for k in range(40)}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    path = tmp_path / "results.sqlite"
    with Results(path) as results:
        begin, pages = results.begin, []

        def begun(*arguments):
            number = begin(*arguments)
            [(now,)] = results._file._open.execute("PRAGMA page_count").fetchall()
            pages.extend(results._file._open.execute(f"PRAGMA max_page_count={now + 4}").fetchall())
            return number

        results.begin = begun
        with pytest.raises(qv.QuantVizError) as ended:
            run_scan(results, tmp_path / "model.safetensors", RECIPES)
    assert (ended.value.key, len(pages)) == ("checkpoint.disk_full", 1)
    with Results(path, read_only=True) as results:
        (scan,) = results.scans()
        done = scan.progress.tensors_done
        assert scan.state == "cancelled"
        assert 0 < done < len(tensors)
        kept = list(results.rows(scan.id))
        assert len(kept) == 2 * done
    # With room again it goes on where it was, and measures the rest alone.
    with Results(path) as results:
        again = results.scan(run_scan(results, tmp_path / "model.safetensors", RECIPES))
        assert (again.state, again.progress.measured) == ("done", 2 * (len(tensors) - done))
        assert list(results.rows(again.id))[: len(kept)] == kept


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, None])
def test_every_error_of_a_full_disk_has_one_sentence(tmp_path, code):
    """SQLite's error for the index of its log is another one, and a new file has the system's own."""
    error = OSError(errno.ENOSPC, "") if code is None else sqlite3.OperationalError("disk I/O error")
    if code is not None:
        error.sqlite_errorcode = code
    with (
        Results(tmp_path / "r.sqlite") as results,
        pytest.raises(qv.QuantVizError) as refused,
        results._file._sentences(),
    ):
        raise error
    assert refused.value.key == "checkpoint.disk_full"
