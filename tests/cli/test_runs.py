"""`quantviz runs`: its table, its page, its sentences and its exit statuses."""

import json
import math
import struct
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import nn

import quantviz as qv
from quantviz.cli import quantviz
from quantviz.text import languages

HOSTILE = "<script>\x1b[31m"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a run of a model, and of the same with its weights quantized to 8 and 4 bits."""
    made = tmp_path_factory.mktemp("runs")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 300), nn.ReLU(), nn.Linear(300, 8))
        model.add_module(HOSTILE, nn.Softmax(-1))
    model.eval()
    x = torch.randn(40, 16, generator=torch.Generator().manual_seed(1))
    qv.capture(model, [x], made / "float.safetensors")
    for bits in (8, 4):
        with torch.no_grad():
            for layer in (model[0], model[2]):
                layer.weight.copy_(qv.quantize(layer.weight, f"int{bits}_per_row").x_hat)
        qv.capture(model, [x], made / f"int{bits}.safetensors")
    qv.capture(model, [x], made / "some.safetensors", ["0", "2"])
    return made


def run(*arguments, status=0):
    done = CliRunner().invoke(quantviz, ["runs", *map(str, arguments), "--no-progress"])
    assert done.exit_code == status, (done.output, done.exception)
    return done


def test_the_records_are_the_librarys_and_the_gate_is_by_sqnr(folder):
    files = [folder / f"{name}.safetensors" for name in ("float", "int8", "int4")]
    found = qv.compare_runs(files[0], files[1:])
    rows = json.loads(run(*files, "--format", "json").stdout)
    assert rows[0].pop("summary") == " ".join(found.messages())
    for row, expected in zip(rows, found.rows(), strict=True):
        assert row["sqnr_db"] == pytest.approx(expected["sqnr_db"])
        assert (row["tensor"], row["run"], row["op"]) == tuple(
            expected[name] for name in ("tensor", "run", "op")
        )
    beside = run(*files).stdout.splitlines()
    assert beside[0].split() == ["tensor", "op", "int8", "int4"]
    assert len(beside) == 1 + 5
    one = run(*files[:2]).stdout.splitlines()
    assert one[0].split()[:5] == ["tensor", "op", "status", "sqnr_db", "cosine"]
    lowest = min(each.sqnr_db for each in found.of("int8"))
    assert 20 < lowest < 60
    run(*files[:2], "--fail-under", lowest - 1)
    assert "below" in run(*files[:2], "--fail-under", lowest + 1, status=1).stderr
    gate = folder / "gate.xml"
    run(*files, "--fail-under", 20, "--junit", gate, status=1)
    suites = ElementTree.fromstring(gate.read_text(encoding="utf-8"))
    assert [(each.get("name"), each.get("tests")) for each in suites] == [("int8", "5"), ("int4", "5")]
    low = sum(each.sqnr_db < 20 for each in found.of("int4"))
    assert [int(each.get("failures")) for each in suites] == [0, low]
    assert low
    logits = run(*files[:2], "--logits", "2", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["kl"] is None for line in logits] == [True, True, False, True, True]


def test_a_tensor_that_the_run_lacks_is_found_unless_it_may_be_missing(folder):
    files = (folder / "float.safetensors", folder / "some.safetensors")
    done = run(*files, status=1)
    assert "none of this name (3)" in done.stderr
    run(*files, "--allow-missing", "--fail-under", 10)
    # What only the run has is counted, and is none of the gate's.
    done = run(*files[::-1])
    assert "reference has none of this name (3)" in done.stderr
    assert len(done.stdout.splitlines()) == 6
    assert "no file" in run(files[0], folder / "none.safetensors", status=2).stderr


@pytest.mark.parametrize("language", languages())
def test_the_page_stands_alone(folder, language):
    page = folder / f"{language}.html"
    files = [folder / f"{name}.safetensors" for name in ("float", "int8", "int4")]
    run(*files, "-o", page, "--lang", language)
    written = page.read_text(encoding="utf-8")
    assert "<script" not in written
    assert "\x1b" not in written
    assert "http" not in written
    assert written.count("<picture>") == 2 * 4
    # A picture each for light and dark.
    assert written.count("data:image/png") == 4 * 4
    assert written.count("<path d=") == 2
    found = qv.compare_runs(files[0], files[1:])
    assert written == qv.report(
        found, title="float.safetensors – int8.safetensors, int4.safetensors", language=language
    )
    same = qv.report(qv.compare_runs(files[0], files[0]), language=language)
    assert "<picture>" not in same
    assert "=" in same
    assert all(math.isinf(each.sqnr_db) for each in qv.compare_runs(files[0], files[0]).differences)


INF = math.inf
#: Pairs of tensors of a reference and a run of which at least one has no SQNR.
NO_NUMBER = {
    "mask": (torch.full((4, 4), -INF), torch.full((4, 4), -INF)),
    "nan": (torch.full((3,), math.nan), torch.full((3,), math.nan)),
    "nothing": (torch.empty(0, 4), torch.empty(0, 4)),
    "apart": (torch.tensor([1.0, INF]), torch.tensor([1.0, 2.0])),
    "number": (torch.tensor(1.0), torch.tensor(2.0)),
    "silent": (torch.zeros(2, 2), torch.ones(2, 2)),
    "x.logits": (torch.full((2, 3), math.nan), torch.full((2, 3), math.nan)),
}


def written_run(path, tensors):
    texts = {"order": json.dumps(list(tensors)), "op": "{}", "axes": "{}"}
    save_file(tensors, path, metadata={"format": "quantviz run 1", **texts})
    return path


@pytest.mark.parametrize("names", [*((name,) for name in NO_NUMBER), tuple(NO_NUMBER)])
def test_every_form_has_tensors_without_a_number(tmp_path, names):
    pair = [
        written_run(tmp_path / f"{side}.safetensors", {name: NO_NUMBER[name][side] for name in names})
        for side in (0, 1)
    ]
    files = [*map(str, pair), "--no-progress"]
    for ending in (".html", ".json", ".csv", ".parquet", ".txt"):
        done = CliRunner().invoke(quantviz, ["runs", *files, "-o", str(tmp_path / f"r{ending}")])
        assert done.exit_code == int("apart" in names), (ending, done.output, done.exception)
    gate = ["--fail-under", "20", "--junit", str(tmp_path / "j.xml")]
    assert CliRunner().invoke(quantviz, ["runs", *files, *gate]).exit_code == 1
    results = ["--results", str(tmp_path / "r.sqlite"), "--no-progress"]
    commands = [
        ["compare", *map(str, pair), *results, "-o", str(tmp_path / f"c{ending}")]
        for ending in (".html", ".md", ".json", ".parquet")
    ]
    commands += [
        [
            "scan",
            str(pair[0]),
            "-r",
            "int4_per_row",
            "--include",
            "*",
            *results,
            "-o",
            str(tmp_path / f"s{ending}"),
        ]
        for ending in (".html", ".json", ".parquet")
    ]
    for command in commands:
        done = CliRunner().invoke(quantviz, command)
        assert done.exit_code in (0, 1), (command, done.output, done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit)


def test_of_a_damaged_tensor_no_part_is_listed(tmp_path):
    """Its declared 2^80 elements would be 2^60 parts, listed before the first one is read."""
    for side in (0, 1):
        texts = {"format": "quantviz run 1", "order": '["a", "x"]', "op": "{}", "axes": "{}"}
        header = {
            "__metadata__": texts,
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "x": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [8, 12]},
        }
        raw = json.dumps(header).encode()
        content = struct.pack("<Q", len(raw)) + raw + struct.pack("<3f", side, 1, 2)
        (tmp_path / f"{side}.safetensors").write_bytes(content)
    files = [str(tmp_path / f"{side}.safetensors") for side in (0, 1)]
    results = ["--results", str(tmp_path / "r.sqlite"), "--no-progress"]
    for command in (
        ["runs", *files, "--no-progress", "--format", "json"],
        ["compare", *files, *results, "-o", str(tmp_path / "c.parquet")],
        ["scan", files[0], "-r", "int8_per_row", *results, "-o", str(tmp_path / "s.parquet")],
    ):
        done = CliRunner().invoke(quantviz, command)
        assert done.exit_code == 1, (done.output, done.exception)
        assert "damaged" in done.output or command[0] != "runs"


def test_an_expanded_tensor_in_a_small_file_is_refused(tmp_path):
    for side in (0, 1):
        expanded = torch.ones(1).expand(2**20, 2**20)
        torch.save({"a": torch.ones(3) * side, "x": expanded}, tmp_path / f"{side}.pt")
    done = run(tmp_path / "0.pt", tmp_path / "1.pt", "--format", "json", status=1)
    rows = {row["tensor"]: row for row in json.loads(done.stdout)}
    assert (rows["a"]["status"], rows["x"]["status"]) == ("compared", "not_read")
    assert "too large" in rows["x"]["reason"]
