"""Data go to stdout or into a file, in a form that reads back; everything else goes to stderr."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pandas
import pytest
from click.testing import CliRunner

from quantviz.cli import output as outputs
from quantviz.cli.output import Output, with_output, write
from quantviz.errors import QuantVizError

ROWS = [
    {"tensor": "a,\n权重\x9b", "shape": (2, 3), "mse": 0.1, "sqnr_db": float("inf"), "zero": None},
    {"tensor": "b", "shape": (4,), "mse": float("nan"), "sqnr_db": 52.123456789, "zero": None},
]


@click.command()
@with_output(html=".html")
def rows(output):
    if output.format == "html":
        outputs.put(output, "<p>")
    else:
        write(output, ROWS)


def run(*arguments):
    return CliRunner().invoke(rows, arguments)


@pytest.mark.parametrize("data", [ROWS, pandas.DataFrame(ROWS)], ids=["records", "frame"])
def test_every_form_reads_back(data, tmp_path):
    def written(form):
        write(Output(form, tmp_path / form), data)
        return (tmp_path / form).read_bytes()

    plain = [{**ROWS[0], "shape": [2, 3], "sqnr_db": None}, {**ROWS[1], "shape": [4], "mse": None}]
    assert json.loads(written("json")) == plain
    assert [json.loads(line) for line in written("jsonl").splitlines()] == plain
    assert b"\\u009b" in written("json")
    assert "权重".encode() in written("json")
    first, second = csv.DictReader(io.StringIO(written("csv").decode()))
    assert [first["tensor"], first["shape"], first["sqnr_db"]] == [ROWS[0]["tensor"], "[2, 3]", "inf"]
    assert [second["mse"], float(second["sqnr_db"]), second["zero"]] == ["", 52.123456789, ""]
    written("parquet")
    table = pandas.read_parquet(tmp_path / "parquet")
    assert list(table) == list(ROWS[0])
    assert table["sqnr_db"][0] == float("inf")
    assert table["mse"].isna().tolist() == [False, True]
    assert b"\x9b" not in written("table")
    assert sorted(os.listdir(tmp_path)) == ["csv", "json", "jsonl", "parquet", "table"]


def test_the_table_has_the_columns_for_people_and_the_others_all(tmp_path):
    for form, names in (("table", ["sqnr_db", "tensor"]), ("csv", list(ROWS[0]))):
        write(Output(form, tmp_path / form), ROWS[1:], for_people=("sqnr_db", "tensor", "none"))
        assert (tmp_path / form).read_text().splitlines()[0].replace(",", " ").split() == names


def test_one_record_is_one_object(tmp_path):
    write(Output("json", tmp_path / "a"), ROWS[1])
    assert json.loads((tmp_path / "a").read_text())["tensor"] == "b"


def test_the_suffix_decides_and_a_form_of_the_commands_own_is_handed_to_it(tmp_path):
    for name, begins in (("a.csv", "tensor,"), ("a.JSON", "["), ("a.txt", "tensor  "), ("a.html", "<p>")):
        done = run("-o", str(tmp_path / name))
        assert (done.exit_code, done.stdout) == (0, ""), done
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
    assert run("-o", str(tmp_path / "plain"), "--format", "jsonl").exit_code == 0
    assert run("-o", "-", "--format", "csv").stdout.startswith("tensor,")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["-o", "a.csv", "--format", "json"], "cli.two_formats"),
        (["-o", "a.xlsx"], "cli.unknown_suffix"),
        (["-o", "no/such/a.csv"], "cli.cannot_write"),
        (["-o", "folder.csv"], "cli.cannot_write"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(arguments, key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.setattr(outputs, "write", lambda *_: pytest.fail("it has begun"))
    error = run(*arguments).exception
    assert isinstance(error, QuantVizError)
    assert error.key == key
    assert all(error.message(language).isprintable() for language in ("en", "zh"))


def test_a_terminal_gets_no_parquet_and_no_line_wider_than_it_is(monkeypatch):
    with CliRunner().isolation() as (out, err, _):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", "30")
        with pytest.raises(QuantVizError, match="is not written to a terminal"):
            outputs._chosen("parquet", None, outputs.FORMATS)
        monkeypatch.delenv("NO_COLOR", raising=False)
        write(Output("table"), ROWS)
        bold = out.getvalue()
        monkeypatch.setenv("NO_COLOR", "1")
        write(Output("table"), ROWS)
        plain = out.getvalue()[len(bold) :].decode()
    assert b"\x1b[1m" in bold
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 30
    assert b"more columns" in err.getvalue()


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path, monkeypatch):
    old = tmp_path / "a.csv"
    old.write_text("old")
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left"))
    )
    with pytest.raises(QuantVizError, match="its disk is full"):
        write(Output("csv", old), ROWS)
    assert (old.read_text(), os.listdir(tmp_path)) == ("old", ["a.csv"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_told_in_a_file_and_on_stdout(tmp_path):
    done = run("-o", "/dev/full", "--format", "csv")
    assert isinstance(done.exception, QuantVizError)
    assert "its disk is full" in str(done.exception)
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "quantviz", "link", "builtin(name=course_3x3)", "-s", "int8_per_row"]
        shown = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert shown.returncode == 2
    said = shown.stderr.decode().splitlines()
    assert said[-1].startswith("The file 'stdout' cannot be written: its disk is full.")
    assert not any("Traceback" in line for line in said)
