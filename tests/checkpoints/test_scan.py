"""A scan has a row for every tensor under every recipe, and measures nothing twice."""

import html
import json
import math
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pandas
import pytest
import safetensors.torch
import torch
from click.testing import CliRunner

import quantviz as qv
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.results.typed_tables import COLUMNS
from quantviz.checkpoints.scan import scanning
from quantviz.checkpoints.scan.scanning import Execution, run_scan
from quantviz.cli import quantviz
from tests.helpers.drawn import normal as values
from tests.helpers.sharded import write_model

ROOT = Path(__file__).parents[2]
RECIPES = ("int8_per_row", "int4_g32")


def tensors():
    spoilt = values(8, 64, seed=1)
    spoilt[0, 0], spoilt[1, 2], spoilt[3, 4] = math.nan, math.inf, -math.inf
    return {
        "brain": values(160, 128).bfloat16(),
        "half": values(16, 64, seed=2).half(),
        "double": values(4, 32, seed=3).double(),
        "convolution": values(6, 32, 2, 2, seed=4),
        "spoilt": spoilt,
        "vector": values(64, seed=5),
        "odd": values(5, 7, seed=6),
        "nothing finite": torch.full((2, 32), math.nan),
        "indices": torch.arange(6),
        "mask": torch.ones(3, dtype=torch.bool),
        "scalar": torch.tensor(1.5),
        "empty": torch.zeros(0, 4),
        "tied": values(160, 128).bfloat16(),
    }


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results.sqlite"


@pytest.fixture
def file(tmp_path):
    safetensors.torch.save_file(tensors(), tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def measured(results, path, recipes=RECIPES, **how):
    """Scan, and return how many rows were measured for it."""
    with Results(results) as opened:
        return opened.scan(run_scan(opened, path, recipes, **how)).progress.measured


@pytest.mark.parametrize("missing", [("low", "high"), ("cosine",), tuple(qv.METRICS)[-1:]])
def test_rows_that_lack_a_number_of_today_are_measured_again(tmp_path, results, missing):
    file = tmp_path / "small.safetensors"  # of which the reference measures all
    safetensors.torch.save_file({"a": torch.randn(8, 32), "b": torch.randn(4)}, file)
    measured(results, file, RECIPES[:1])
    wanted = qv.scan(file, RECIPES[:1], results=results)
    assert measured(results, file, RECIPES[:1]) == 0
    kept = sqlite3.connect(results)
    for content, scheme, numbers in kept.execute("SELECT content, scheme, numbers FROM measured").fetchall():
        of_before = {name: value for name, value in json.loads(numbers).items() if name not in missing}
        values = json.dumps(of_before), content, scheme
        kept.execute("UPDATE measured SET numbers = ? WHERE content = ? AND scheme = ?", values)
    kept.commit()
    (ok,) = kept.execute("SELECT count(*) FROM measured WHERE status = 'ok'").fetchone()
    kept.close()
    assert 0 < measured(results, file, RECIPES[:1]) == ok
    assert qv.scan(file, RECIPES[:1], results=results).equals(wanted)


def test_every_tensor_has_a_row_for_each_recipe_and_what_measure_says(file, results):
    found = qv.scan(file, RECIPES, results=results, include="*")
    assert tuple(found.columns) == COLUMNS
    assert set(qv.METRICS) < set(COLUMNS)
    with qv.open_tensors(file) as catalog:
        assert list(zip(found.tensor, found.recipe, strict=True)) == [
            (name, recipe) for name in catalog.names for recipe in RECIPES
        ]
    status = {key: rows.status.tolist() for key, rows in found.groupby("tensor")}
    assert status == {
        **{key: ["ok", "ok"] for key in ("brain", "half", "double", "convolution", "spoilt", "tied")},
        **{"vector": ["refused", "ok"], "odd": ["ok", "refused"], "nothing finite": ["problem", "problem"]},
        **{key: ["left_aside", "left_aside"] for key in ("indices", "mask", "empty", "scalar")},
    }
    assert found.reason.isna().tolist() == (found.status == "ok").tolist()
    for row in found[found.status == "ok"].to_dict("records"):
        x = tensors()[row["tensor"]].float()
        x = qv.as_matrix(x) if x.dim() == 4 else x
        scheme = qv.RECIPES[row["recipe"]].replace(nonfinite="ignore")
        wanted = qv.measure(x, scheme, metrics=qv.METRICS)
        assert {name: row[name] for name in qv.METRICS} == pytest.approx(
            dict(wanted.metrics), rel=1e-6, abs=1e-12, nan_ok=True
        )
        error = qv.quantize(x, scheme).error.abs().nan_to_num()
        assert row["max_error"] == error.max()
        assert tensors()[row["tensor"]].isfinite()[row["max_error_at"]]
        assert row["bits"] == math.ceil(wanted.metrics["effective_bits"] * x.numel())
        kept = x[x.isfinite()].double()
        assert row["peak_rms"] == pytest.approx(kept.abs().max() / kept.square().mean().sqrt())
        assert (row["nan"], row["inf"], row["cells"]) == (
            *((1, 2) if row["tensor"] == "spoilt" else (0, 0)),
            len(kept),
        )
    contents = dict(zip(found.tensor, found.content, strict=True))
    assert contents["tied"] == contents["brain"] != contents["half"]


def test_nothing_is_measured_twice(file, results, tmp_path, monkeypatch):
    # Five tensors under two recipes, one under one, and one that has nothing finite; one is there twice.
    assert measured(results, file) == 5 * 2 + 1 + 2
    assert measured(results, file) == 0
    assert measured(results, file, [*RECIPES, "int8_per_tensor"]) == 7
    other = tmp_path / "elsewhere" / "renamed.safetensors"
    other.parent.mkdir()
    shutil.copy(file, other)
    assert measured(results, other) == 0
    file.rename(tmp_path / "moved.safetensors")
    assert measured(results, tmp_path / "moved.safetensors") == 0

    before, raw = other.stat(), bytearray(other.read_bytes())
    length = int.from_bytes(raw[:8], "little")
    raw[8 + length + json.loads(raw[8 : 8 + length])["half"]["data_offsets"][0]] ^= 1
    other.write_bytes(raw)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert measured(results, other) == 2

    time.sleep(0.05)  # a file that was written just now is read again
    assert measured(results, other) == 0
    monkeypatch.setattr(scanning, "GroupReader", None)
    assert measured(results, other) == 0
    with pytest.raises(TypeError):
        measured(results, other, execution=Execution(verify=True))


def test_one_row_is_shown_before_kernels_are_compiled_and_is_not_taken_for_measured(
    tmp_path, results, monkeypatch
):
    file = tmp_path / "model.safetensors"
    tensors = {"large": values(512, 256), "small": values(160, 128, seed=1).half(), "tiny": values(8, 8)}
    safetensors.torch.save_file(tensors, file)
    recipes = ("int8_per_row", "int4_per_tensor")
    plain = qv.scan(file, recipes, results=tmp_path / "plain.sqlite")

    monkeypatch.setattr(scanning, "is_compiled", lambda *_, **__: False)
    monkeypatch.setattr(scanning, "smallest_first", lambda tasks: plan_of(tasks, "small"))
    shown = []

    class Looking(scanning.GroupReader):
        def __init__(self, groups):
            with Results(results, read_only=True) as opened:
                number = opened.scans()[0].id
                rows = list(opened.rows(number))
                shown.extend(rows)
                assert opened.known(rows[0].content) == set()
                assert opened.scan(number).progress.measured == 0
            super().__init__(groups)

    monkeypatch.setattr(scanning, "GroupReader", Looking)
    found = qv.scan(file, recipes, results=results)
    assert [(row.tensor, row.recipe, row.status) for row in shown] == [("small", "int8_per_row", "ok")]
    last = found[(found.tensor == "small") & (found.recipe == "int8_per_row")].iloc[0]
    assert shown[0].content == last.content
    assert shown[0].sqnr_db == pytest.approx(last.sqnr_db, rel=1e-6)
    pandas.testing.assert_frame_equal(found, plain, check_exact=True)


def plan_of(tasks, name):
    """Return the tasks with a tensor of that name first, in one of its own."""
    return tuple(
        scanning.ScanTask((position,), (entry,), (schemes,))
        for _, position, entry, schemes in sorted(
            (
                (entry.name != name, position, entry, schemes)
                for task in tasks
                for position, entry, schemes in zip(task.positions, task.entries, task.schemes, strict=True)
            ),
            key=lambda each: each[:2],
        )
    )


def test_rows_have_the_same_bits_for_any_number_of_threads(tmp_path):
    safetensors.torch.save_file({"x": values(1100, 1024).half()}, tmp_path / "x.safetensors")
    found = [
        qv.scan(tmp_path / "x.safetensors", ["int8_per_row"], results=tmp_path / f"{n}.sqlite", threads=n)
        for n in (1, 3)
    ]
    assert found[0].equals(found[1])


def test_a_damaged_or_missing_shard_names_its_tensors_and_the_rest_goes_on(tmp_path, results):
    shards = {f"s{k}": {f"w{k}": values(4, 32, seed=k)} for k in range(4)}
    index = write_model(tmp_path, **shards)
    (tmp_path / "s1.safetensors").unlink()
    whole = (tmp_path / "s2.safetensors").read_bytes()
    (tmp_path / "s2.safetensors").write_bytes(whole[:-8])
    (tmp_path / "s3.safetensors").write_bytes(b"\x08")
    for path in (index, tmp_path):
        found = qv.scan(path, RECIPES, results=results)
        assert found.tensor.tolist() == [f"w{k}" for k in range(4) for _ in RECIPES]
        assert found.status.tolist() == ["ok"] * 2 + ["problem"] * 6
        assert "s1.safetensors" in found.reason[2]


def test_a_folder_of_shards_needs_no_index_and_duplicates_are_named(tmp_path, results):
    for k, names in ((1, "ab"), (2, "bc")):
        shard = {name: values(4, 32, seed=ord(name)) for name in names}
        safetensors.torch.save_file(shard, tmp_path / f"model-{k:05}-of-00003.safetensors")
    found = qv.scan(tmp_path, ["int8_per_row"], results=results)
    assert list(zip(found.tensor, found.status, strict=True)) == [
        *(("a", "ok"), ("b", "ok"), ("b", "problem"), ("c", "ok")),
        ("model-00003-of-00003.safetensors", "problem"),
    ]
    assert "'b'" in found.reason[2]
    assert "model-00001-of-00003" in found.reason[2]
    index = {"a": "model-00001-of-00003.safetensors", "c": "model-00002-of-00003.safetensors"}
    index["b"] = index["a"]
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    found = qv.scan(tmp_path, ["int8_per_row"], results=results)
    assert found.status.tolist() == ["ok"] * 3
    assert "'b'" in found.attrs["notes"][0]


def test_killed_at_any_moment_it_goes_on_and_loses_nothing(tmp_path, results):
    model = {f"layers.{k}.weight": values(8, 32, seed=k) for k in range(6)}
    safetensors.torch.save_file(model, tmp_path / "model.safetensors")
    code = f"""
import os, signal
from quantviz.checkpoints.scan import scanning
from quantviz.checkpoints.results.store import Results
from quantviz.checkpoints.scan.scanning import Execution, run_scan
asked = []
def cancelled():
    asked.append(1)
    if len(asked) == 9:  # within a tensor, two of which are stored
        os.kill(os.getpid(), signal.SIGKILL)
    return False
with Results({str(results)!r}) as opened:
    run_scan(opened, {str(tmp_path / "model.safetensors")!r}, {RECIPES!r}, cancelled=cancelled)
"""
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert child.returncode == -signal.SIGKILL
    with Results(results) as opened:
        (scan,) = opened.scans()
        stored = scan.progress.measured
        assert (scan.state, 0 < stored < 12, scan.progress.tensors_done) == ("killed", True, stored // 2)
        assert len(list(opened.rows(scan.id))) == stored
        assert run_scan(opened, tmp_path / "model.safetensors", RECIPES) == scan.id
        again = opened.scan(scan.id)
        assert (again.state, again.progress.measured) == ("done", 12 - stored)
        after = opened.table(scan.id)
    assert after.equals(qv.scan(tmp_path / "model.safetensors", RECIPES, results=tmp_path / "whole.sqlite"))


def test_the_command_writes_the_table_and_says_what_it_found(file, results, tmp_path, monkeypatch):
    def run(*more):
        return CliRunner().invoke(quantviz, ["scan", str(file), "--results", str(results), *more])

    recipes = [f"-r{recipe}" for recipe in RECIPES]
    done = run(*recipes, "--format", "json")
    rows = json.loads(done.stdout)
    assert (done.exit_code, len(rows), tuple(rows[0])) == (1, 26, (*COLUMNS, "summary"))
    assert "reason" in done.stderr
    assert run(*recipes, "-o", str(tmp_path / "t.csv")).stdout == ""
    assert pandas.read_csv(tmp_path / "t.csv").mse.tolist() == pytest.approx(
        qv.scan(file, RECIPES, results=results).mse.tolist(), nan_ok=True
    )
    one = tmp_path / "one.safetensors"
    safetensors.torch.save_file({"x": values(8, 32)}, one)
    asked = [
        "scan",
        str(one),
        "-r",
        "int4_per_row",
        "--results",
        str(results),
        "-o",
        str(tmp_path / "t.jsonl"),
    ]
    assert CliRunner().invoke(quantviz, asked).exit_code == 0
    assert CliRunner().invoke(quantviz, [*asked, "--fail-under", "40"]).exit_code == 1
    for wrong in (["-rint4_g3"], ["-rint8_per_row", "-o", "t.doc"], []):
        assert run(*wrong).exit_code == 2
    assert CliRunner().invoke(quantviz, ["scan", str(tmp_path / "no.gguf"), "-rq8_0"]).exit_code == 2

    # The worst tensors of the report lead to the Lab, where the app opens their file.
    asked = ["scan", str(file), "-rint8_per_row", "--results", str(results), "--app", "http://h:8501/"]
    outside = CliRunner().invoke(quantviz, [*asked, "-o", str(tmp_path / "a.html")])
    monkeypatch.setenv("QUANTVIZ_DATA_DIR", str(file.parent))
    inside = CliRunner().invoke(quantviz, [*asked, "-o", str(tmp_path / "b.html")])
    assert outside.exit_code == inside.exit_code != 2
    assert f"QUANTVIZ_DATA_DIR for this command and the app to {file.parent}" in outside.stderr
    assert "http://h:8501/lab" not in outside.stderr
    # Three are named, as in the table for people, which begins with what has no number.
    said = re.search(r"Worst under int8_per_row: (.*)\.$", inside.stderr, re.MULTILINE)[1].split(" dB), ")
    assert len(said) == inside.stderr.count("http://h:8501/lab") == 3
    listed = run("-rint8_per_row").stdout.splitlines()[1:]
    ordered = [line.split()[0] for line in listed if line.split()[2] == "ok"]
    assert ordered[:3] == [each.split(" ")[0] for each in said]
    statuses = [line.split()[2] for line in listed]
    assert statuses == sorted(statuses, key=lambda status: status == "ok")
    assert len(statuses) == len(rows) // len(RECIPES) - done.stdout.count('"left_aside"') // len(RECIPES)
    assert "<a href" not in (tmp_path / "a.html").read_text(encoding="utf-8")
    [address, *_] = re.findall(
        r'<a href="(http://h:8501/lab[^"]*)"', (tmp_path / "b.html").read_text("utf-8")
    )
    read = CliRunner().invoke(quantviz, ["link", html.unescape(address), "--format", "json"])
    assert json.loads(read.stdout)["recipe"] == "int8_per_row"

    finish = Results.finish_tensor

    def interrupted(*given, **named):
        monkeypatch.setattr(Results, "finish_tensor", finish)
        finish(*given, **named)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Results, "finish_tensor", interrupted)
    done = CliRunner().invoke(quantviz, ["scan", str(file), "-rq8_0", "--results", str(results)])
    assert done.exit_code == 130
    assert "quantviz" in done.stderr
    with Results(results) as opened:
        assert opened.scans()[0].state == "cancelled"
