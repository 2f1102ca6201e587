"""The small verbs, each run in this process: what they print, where, and with which exit status."""

import json
import os
import re
from importlib import import_module
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import quantviz as qv
from quantviz import cli
from quantviz.analysis.study import Study
from quantviz.checkpoints.results.stored_rows import ScanProgress
from quantviz.cli import figure, output, quantviz, scan, serve
from quantviz.cli.reporting import ProgressLine
from quantviz.export.cell_words import derivation
from quantviz.lab.state import LabState
from quantviz.live.hand_words import Looks
from quantviz.live.standalone import LivePage, LivePages
from quantviz.text import text
from tests.helpers.browser import chromium_of_tests

HOSTILE = "<script>alert(1)</script>\x1b[31m"
DARK = Looks("en", "dark")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("models")
    drawn = torch.Generator().manual_seed(0)
    tensors = {
        "layers.0.q": torch.randn(8, 32, generator=drawn),
        "conv": torch.randn(4, 2, 3, 3, generator=drawn),
        HOSTILE: torch.full((2, 32), 0.25),
    }
    save_file(tensors, made / "a.safetensors")
    save_file({"only": tensors["layers.0.q"]}, made / "one.safetensors")
    return made


def run(*arguments, status=0):
    done = CliRunner().invoke(quantviz, list(map(str, arguments)))
    assert done.exit_code == status, (done.output, done.exception)
    return done


def x_of(folder, name="layers.0.q"):
    with qv.open_tensors(folder / "a.safetensors") as tensors:
        return tensors.load(name)


# ---- measure ------------------------------------------------------------------------------------


def test_every_metric_is_that_of_the_library(folder):
    done = run(
        *("measure", folder / "a.safetensors", "layers.0.q", "-s", "q4_0", "-s", "int8_per_row"),
        *("--outputs-axis", 0, "--format", "json"),
    )
    for row in json.loads(done.stdout):
        known = qv.measure(x_of(folder), row["recipe"], metrics=qv.METRICS).metrics
        assert {name: row[name] for name in qv.METRICS} == pytest.approx(dict(known))
        assert [row["status"], row["shape"], row["dtype"]] == ["ok", [8, 32], "float32"]
        # As `scan` has it: the bits of the tensor, a whole number.
        assert row["bits"] == known["effective_bits"] * 8 * 32
        assert (
            row["max_error"]
            == abs(x_of(folder) - qv.quantize(x_of(folder), row["recipe"]).x_hat)[tuple(row["max_error_at"])]
        )
    table = run("measure", folder / "one.safetensors", "-s", "q4_0", "--lang", "zh").stdout
    assert text("metrics.sqnr_db.name", "zh") in table
    assert done.stderr == ""


def test_a_codebook_is_fitted_and_measured_by_its_text(folder):
    file = folder / "one.safetensors"
    done = run("measure", file, "-s", "int4_per_tensor", "--fit", "--outputs-axis", 0, "--format", "json")
    linear, fitted = json.loads(done.stdout)
    assert fitted["scheme"] == str(qv.fit_codebook(x_of(folder), "int4_per_tensor"))
    assert f"-s '{fitted['scheme']}'" in done.stderr
    assert fitted["mse"] < linear["mse"]
    assert fitted["recipe"] == "fit(int4_per_tensor)"


def test_what_is_found_ends_with_1_and_what_cannot_be_used_with_2(folder):
    file = folder / "a.safetensors"
    low = run("measure", file, "layers.0.q", "-s", "q4_0", "--fail-under", 100, status=1)
    assert "below 100 dB" in low.stderr
    fine = run("measure", file, "layers.0.q", "-s", "q4_0", "--fail-under", 5, "--outputs-axis", 0)
    assert fine.stderr == ""
    # Without any error the SQNR is infinite: null in JSON, above every bound.
    exact = run("measure", file, HOSTILE, "-s", "int8_per_row", "--fail-under", 90, "--format", "json")
    assert json.loads(exact.stdout)[0]["sqnr_db"] is None
    some = run("measure", file, "layers.0.q", "-s", "int4_g128", "-s", "q4_0", "--format", "jsonl", status=1)
    assert [json.loads(line)["status"] for line in some.stdout.splitlines()] == ["refused", "ok"]
    assert "int4_g128: " in some.stderr
    for arguments, part in (
        ((file, "layers.0.q", "-s", "int4_g128"), "group size"),
        ((file, "layers.0.k", "-s", "q4_0"), "'layers.0.q'"),
        ((file, "-s", "q4_0"), "has 3 tensors"),
        ((folder / "none.gguf", "-s", "q4_0"), "There is no file"),
        ((file, "layers.0.q", "-s", "q4_00"), "'q4_0'"),
        (("builtin(name=pictur)", "-s", "q4_0"), "'picture'"),
    ):
        done = run("measure", *arguments, status=2)
        assert part in done.stderr
        assert done.stdout == ""
    assert "\x1b" not in run("measure", file, HOSTILE + "x", "-s", "q4_0", status=2).stderr


# ---- explain ------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_steps_are_those_of_the_lab(folder, language):
    why = qv.explain(qv.quantize(x_of(folder), "mxfp4"), (3, 7))
    arguments = ("explain", folder / "a.safetensors", "layers.0.q", "3, 7", "-s", "mxfp4", "--lang", language)
    told = json.loads(run(*arguments, "--format", "json").stdout)
    lines = list(derivation(why, lambda key, **params: text(key, language, **params)))
    assert [each["words"] for each in told["steps"]] == [line.words for line in lines]
    steps = [each for each in told["steps"] if "line" in each]
    assert [(each["line"], each["gives"]) for each in steps] == [
        (step.code_line, step.output) for step in why.steps
    ]
    assert (told["code"], told["x_hat"], told["cause"]) == (why.q, why.x_hat, why.cause)
    table = run(*arguments).stdout
    assert all(line.words in table and line.numbers in table for line in lines)
    assert len(run(*arguments, "--format", "csv").stdout.splitlines()) == len(why.steps) + 1


def test_a_convolution_has_the_cells_of_its_matrix_and_its_own(folder):
    file = folder / "a.safetensors"
    for cell in ("3,13", "3,1,1,1", "-1,-1,1,1"):
        why = json.loads(
            run("explain", "-s", "int8_per_row", "--format", "json", "--", file, "conv", cell).stdout
        )
        assert (why["cell"], why["x"]) == ([3, 13], float(x_of(folder, "conv")[3, 1, 1, 1]))
    for cell in ("3,18", "4,0,0,0", "1,2,3", "x", "1" * 5000):
        run("explain", file, "conv", cell, "-s", "int8_per_row", status=2)


# ---- link ---------------------------------------------------------------------------------------


def test_an_address_says_what_it_was_made_of(folder, monkeypatch):
    monkeypatch.delenv("QUANTVIZ_DATA_DIR", raising=False)
    made = run(
        *("link", folder / "a.safetensors", "conv", "-s", "int8_per_row", "--cell", "3,1,1,1"),
        *("-a", "q8_0", "--app", "https://lab.example/qv", "--lang", "zh"),
        status=2,
    )
    assert "18" in made.stderr, "groups of 32 do not fit"
    made = run(
        *("link", folder / "a.safetensors", "conv", "-s", "int8_per_row", "--cell", "3,1,1,1"),
        *("-a", "int4_per_row", "--app", "https://lab.example/qv", "--lang", "zh"),
    )
    address = made.stdout.strip()
    assert address.startswith("https://lab.example/qv/lab?")
    assert str(folder) in made.stderr
    told = json.loads(run("link", address, "--format", "json").stdout)
    assert told["title"] == "a.safetensors · conv"
    assert (told["shape"], told["cell"], told["recipe"], told["lang"]) == (
        [4, 18],
        [3, 13],
        "int8_per_row",
        "zh",
    )
    assert told["against"] == [str(qv.RECIPES["int4_per_row"])]
    # It opens where the folder is offered, and nothing needs to be told then.
    monkeypatch.setenv("QUANTVIZ_DATA_DIR", str(folder))
    again = run("link", folder / "a.safetensors", "conv", "-s", "int8_per_row")
    assert again.stderr == ""
    query = dict(
        part.split("=", 1) for part in again.stdout.strip().replace("%29", ")").partition("?")[2].split("&")
    )
    state, problems = LabState.read(query)
    assert (problems, state.source.shape, state.scheme) == ((), (4, 18), qv.RECIPES["int8_per_row"])


def test_what_an_address_cannot_say_is_told_and_not_made_up():
    done = run("link", "?t=upload&s=int8,symmetric,per_tensor,min_max,course", "--format", "json", status=1)
    told = json.loads(done.stdout)
    assert (told["source"], told["recipe"]) == (None, "int8_per_tensor")
    assert "uploaded" in done.stderr
    for address in ("http://x/golf?t=1", "http://x/lab", "http://x/"):
        assert run("link", address, status=2).stdout == ""


def test_an_address_of_before_says_what_was_corrected():
    query = "t=normal(rows=4,cols=4,seed=1)&s=int8,symmetric,per_tensor,percentile(p=99.9),onnxruntime"
    done = {version: run("link", f"?v={version}&{query}", "--format", "json") for version in ("1", "2")}
    assert done["1"].stdout == done["2"].stdout
    assert "made before onnxruntime was corrected" in done["1"].stderr
    assert done["2"].stderr == ""


# ---- figure -------------------------------------------------------------------------------------


def test_a_figure_is_one_page_in_which_a_name_is_text(folder, tmp_path):
    page = tmp_path / "x.html"
    run(
        "figure", folder / "a.safetensors", HOSTILE, "-s", "int4_per_row", "-o", page, "--cdn", "--lang", "zh"
    )
    written = page.read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in written
    assert "alert(1)</script>" not in written
    assert '<html lang="zh"' in written
    assert "Plotly.newPlot" in written
    assert os.listdir(tmp_path) == ["x.html"]


@pytest.mark.parametrize(("size", "lives"), [(64, True), (2048, False)])
def test_a_figure_of_a_small_tensor_lives_in_its_page(size, lives, tmp_path):
    page = tmp_path / "x.html"
    run("figure", f"normal(rows={size},cols=64)", "-s", "int4_per_row", "-o", page)
    assert ('id="qv-hand"' in page.read_text(encoding="utf-8")) == lives


def test_a_figure_of_several_schemes_has_each_beside_the_others(tmp_path):
    page = tmp_path / "x.html"
    named = ("figure", "normal(rows=8,cols=64)", "-s", "int4_per_row", "-s", "int8_per_tensor")
    run(*named, "-o", page)
    written = page.read_text(encoding="utf-8")
    assert ('id="qv-frames"' in written, "data-theme=" in written.partition("<head>")[0]) == (True, False)
    # In a theme it is that of the page and of each frame in it.
    run(*named, "--theme", "dark", "-o", page)
    assert 'data-theme="dark"' in page.read_text(encoding="utf-8").partition("<head>")[0]
    one = LivePage.of(Study.of_result(qv.quantize(torch.ones(2, 4), "int8_per_row")), "", DARK)
    assert b'data-theme="dark"' in LivePages((one,), follows=False)._parts("dark")[0]["frame0"]
    assert "shows one scheme" in run(*named, "--cdn", "-o", page, status=2).stderr


def test_a_picture_without_what_draws_it_is_a_sentence_that_names_the_page(folder, tmp_path, monkeypatch):
    arguments = ("figure", folder / "one.safetensors", "-s", "int4_per_row", "-o", tmp_path / "x.svg")
    found = figure.find_spec
    monkeypatch.setattr(figure, "find_spec", lambda name: None if name == "kaleido" else found(name))
    assert "quantviz[images]" in run(*arguments, status=2).stderr
    monkeypatch.setattr(figure, "find_spec", lambda name: True)

    def no_browser(*_, **__):
        raise RuntimeError("\n\nKaleido requires Chrome.\nmore")

    monkeypatch.setattr("quantviz.figures.payload.UncheckedFigure.to_image", no_browser)
    done = run(*arguments, status=2)
    assert "Kaleido requires Chrome" in done.stderr
    assert ".html" in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.browser
def test_a_picture_is_drawn(folder, tmp_path, monkeypatch):
    pytest.importorskip("kaleido")
    # The browser of the other tests: kaleido looks for one with windows alone.
    monkeypatch.setenv("BROWSER_PATH", chromium_of_tests())
    run("figure", folder / "one.safetensors", "-s", "int4_per_row", "-o", tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert "one.safetensors · only · 8 × 32 · int4_per_row · SQNR" in drawn
    # In a column of a paper all four panels are in sight, in its own width.
    run("figure", "builtin(name=picture)", "-s", "int4_per_row", "--width", "88mm", "-o", tmp_path / "x.pdf")
    width = re.search(rb"MediaBox *\[0 0 ([\d.]+) ", (tmp_path / "x.pdf").read_bytes())[1]
    assert float(width) == pytest.approx(88 / 25.4 * 72, abs=1)


@pytest.mark.parametrize("width", ["12mm", "88cm", "-1", "0x500", "9999"])
def test_a_width_that_is_none_is_a_wrong_use(width, tmp_path):
    done = run(
        "figure",
        "builtin(name=picture)",
        "-s",
        "int4_per_row",
        "--width",
        width,
        "-o",
        tmp_path / "x.svg",
        status=2,
    )
    assert "88mm" in done.stderr


# ---- serve --------------------------------------------------------------------------------------


@pytest.fixture
def served(monkeypatch):
    """Runs `serve`; gives the server's command and environment, and the command that opens the browser."""
    monkeypatch.delenv("QUANTVIZ_DATA_DIR", raising=False)

    def serving(*arguments):
        server, helper = [], []
        monkeypatch.setattr(
            serve.os, "execve", lambda _, command, environment: server.append((command, environment))
        )
        monkeypatch.setattr(serve.subprocess, "Popen", lambda command, **_: helper.append(command))
        monkeypatch.setattr(serve.subprocess, "call", lambda *_, **__: 0)
        run("serve", *arguments)
        return (*server[0], helper[0] if helper else None)

    return serving


def test_serve_opens_the_lab_on_a_file_for_this_computer_alone(folder, served):
    command, environment, helper = served(
        *("--server.port", "8700", folder / "a.safetensors", "-t", "conv", "-s", "int4_per_row")
    )
    assert environment["QUANTVIZ_DATA_DIR"] == str(folder)
    # Nobody else reads with this user's login to a hub.
    assert environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"] == "0"
    assert command[-6:] == [
        *("--server.port", "8700", "--server.address", "localhost"),
        *("--server.headless", "true"),
    ]
    address, health, browser = helper[3:]
    assert (health, browser) == ("http://localhost:8700/_stcore/health", "--open")
    told = json.loads(run("link", address, "--format", "json").stdout)
    assert (told["title"], told["recipe"]) == ("a.safetensors · conv", "int4_per_row")


def test_serve_hands_on_streamlits_options(folder, served):
    command, environment, helper = served("--server.port", "8700", "--server.headless=false")
    assert command[-3:] == ["--server.port", "8700", "--server.headless=false"]
    assert (helper, "QUANTVIZ_DATA_DIR" in environment) == (None, False)
    command, environment, helper = served(
        folder, "--server.address=0.0.0.0", "--server.headless", "true", "--server.baseUrlPath", "/qv"
    )
    assert "localhost" not in command
    assert environment["QUANTVIZ_DATA_DIR"] == str(folder)
    port = command[command.index("--server.port") + 1]
    assert helper[3:] == [f"http://localhost:{port}/qv/lab", f"http://localhost:{port}/qv/_stcore/health"]


# ---- scan ---------------------------------------------------------------------------------------


def test_a_scan_is_written_as_a_report(folder, tmp_path):
    arguments = ("scan", folder / "a.safetensors", "-r", "int4_per_row", "--results", tmp_path / "kept")
    # One weight has one value alone, which is a finding.
    said = run(*arguments, "-o", tmp_path / "scan.html", "--lang", "zh", status=1).stderr
    assert "值全部相等" in said
    page = (tmp_path / "scan.html").read_text(encoding="utf-8")
    assert text("report.heading.recipes", "zh") in page
    assert "layers.0.q" in page
    assert "&lt;script&gt;alert(1)" in page
    # Its own scripts alone: those that open tensors to the hand.
    assert "<script>alert" not in page


def test_nothing_is_held_to_a_bound_that_is_no_number(folder):
    """No SQNR is below NaN: such a gate would let everything pass."""
    model = str(folder / "model.safetensors")
    for verb in (["scan", model, "-r", "q8_0"], ["measure", model, "-s", "q8_0"], ["compare", model, model]):
        for value in ("nan", "-NaN"):
            assert "is not a number" in run(*verb, "--fail-under", value, status=2).stderr
    for verb in ("layer", "layers"):
        assert "is not a number" in run(verb, model, "--fail-over", "nan", status=2).stderr
    assert "is not a number" in run("runs", model, model, "--fail-under", "nan", status=2).stderr


def test_every_exit_status_is_told():
    told = Path(cli.__file__).with_name("README.md").read_text(encoding="utf-8")
    table = told.partition("| exit status | |\n")[2].partition("\n\n")[0]
    statuses = [int(line.split("|")[1]) for line in table.splitlines()[1:]]
    assert statuses == [0, cli.FOUND, cli.UNUSABLE, cli.INTERRUPTED, output.CLOSED_PIPE]


def test_a_log_gets_a_line_now_and_then(capsys):
    """Where stderr is no terminal: every half minute, by a clock that the test sets."""
    now = [0.0]
    with ProgressLine(True, lambda: now[0]) as line:
        for now[0] in (1.0, 29.0, 31.0, 40.0, 62.0):
            line.show(lambda: "3/9")
    with ProgressLine(False, lambda: now[0]) as line:
        now[0] = 99.0
        line.show(lambda: "3/9")
    assert capsys.readouterr().err == "3/9\n" * 2
    # There is no rate before kernels have measured.
    words = (
        scan._progress_words(ScanProgress(3, 9, 10, 100, 3, *rate)) for rate in ((2e6, 75.0), (None, None))
    )
    assert tuple(words) == ("3/9 tensors, 2 MB/s, 1:15 left", "3/9 tensors")


def test_ranges_says_that_it_reads_the_first_batches_alone(folder, monkeypatch):
    ranges = import_module("quantviz.cli.ranges")
    whole = run("ranges", folder / "one.safetensors", "--format", "json")
    assert (len(json.loads(whole.stdout)), "Only the first" in whole.stderr) == (8, False)
    monkeypatch.setattr(ranges, "_MOST_BATCHES", 5)
    some = run("ranges", folder / "one.safetensors", "--format", "json")
    assert len(json.loads(some.stdout)) == 5
    assert "Only the first 5 of 8 batches" in some.stderr
