"""`quantviz layer` and `quantviz layers`: their numbers, their sentences and their exit statuses."""

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import quantviz as qv
from quantviz import cli
from quantviz.checkpoints.profiles import PROFILES
from quantviz.cli import quantviz
from quantviz.lab.layer_state import LayerState
from quantviz.layers.captures import Captured, Layers
from quantviz.layers.collecting import collect
from quantviz.layers.layer_numbers import errors_by_moments
from quantviz.layers.methods.chain import METHODS
from quantviz.text import languages
from tests.helpers.bad_capture import FAULTS, write_bad_capture
from tests.helpers.importance_file import write_dat

HOSTILE = "layers.1.<script>\x1b[31m"


def drawn(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def layers():
    x = drawn(40, 64, seed=1)
    x[:, 9] *= 30
    return Layers(
        (
            Captured("layers.0.up", "linear", drawn(16, 64, seed=2), x, drawn(16, seed=3), 400),
            Captured("layers.0.down", "linear", drawn(64, 16, seed=4), drawn(40, 16, seed=5), None, 400),
            Captured(HOSTILE, "conv1d", drawn(8, 64, seed=6), x, None, 400),
        )
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("layers")
    layers().save(made / "capture.safetensors")
    Layers(layers().layers[:1]).save(made / "one.safetensors")
    save_file({"up": layers()["layers.0.up"].weight, "b": torch.ones(3)}, made / "model.safetensors")
    np.save(made / "x.npy", layers()["layers.0.up"].inputs.numpy())
    return made


def run(*arguments, status=0):
    done = CliRunner().invoke(quantviz, list(map(str, arguments)))
    assert done.exit_code == status, (done.output, done.exception)
    return done


SCHEMES = ("-w", "int4_g32", "-a", "int8_per_tensor")


def test_a_layers_record_is_the_librarys(folder):
    up = layers()["layers.0.up"]
    expected = qv.layer(up.weight, up.inputs, "int4_g32", "int8_per_tensor", up.bias)
    done = run("layer", folder / "capture.safetensors", "layers.0.up", *SCHEMES, "--format", "json")
    record = json.loads(done.stdout)
    assert (record["rel_out_used"], record["rel_out_held_back"]) == pytest.approx(expected.rel_out)
    assert record["weight_sqnr_db"] == pytest.approx(qv.measure(up.weight, "int4_g32").metrics["sqnr_db"])
    assert record["inputs_share"] == pytest.approx(expected.parts["inputs"].share.held_back)
    assert (record["loud_input"], record["seen"]) == (9, 400)
    token, output = record["worst_cell"]
    assert record["culprit"] == expected.culprit(token, output).params["channel"]
    assert expected.culprit(token, output).message("en") in done.stderr
    dynamic = run("layer", folder / "one.safetensors", *SCHEMES, "--dynamic", "--format", "json")
    all_tokens = qv.layer(up.weight, up.inputs, "int4_g32", "int8_per_tensor", up.bias, static=False)
    assert json.loads(dynamic.stdout)["rel_out_used"] == pytest.approx(all_tokens.rel_out.used)


def test_a_layer_of_two_files_or_of_a_links_form_is_the_same(folder):
    weights = ("--weights", f"{folder}/model.safetensors:up", "--outputs-axis", 0, "--format", "json")
    own = json.loads(run("layer", *weights, "--inputs", folder / "x.npy", *SCHEMES).stdout)
    captured = json.loads(run("layer", folder / "one.safetensors", *SCHEMES, "--format", "json").stdout)
    assert own["rel_out_held_back"] == captured["rel_out_held_back"]
    table = run("layer", "builtin(name=loud_weight)", "-w", "int4_per_tensor", "-a", "none", "--lang", "zh")
    assert "来自权重" in table.stdout
    assert "来自输入" not in table.stdout
    assert (
        "  ok  " in run("layers", "builtin(name=loud_weight)", "-w", "int4_per_tensor", "-a", "none").stdout
    )
    form = "layer(normal(rows=8,cols=32),loud_channels(rows=16,cols=32))"
    assert "16 of 16 tokens" in run("layer", form, "-w", "int8_per_output").stderr


def test_groups_of_a_convolution_are_layers_whose_shared_scale_is_named(tmp_path):
    model = torch.nn.Conv2d(20, 40, 2, groups=20).eval()
    collect(model, [drawn(2, 20, 5, 5, seed=1)]).save(tmp_path / "groups.safetensors")
    file = tmp_path / "groups.safetensors"
    for inputs, sides in (("none", "W"), ("int8_per_tensor", "W, X")):
        done = run("layers", file, "-w", "int8_per_tensor", "-a", inputs, "--format", "json")
        rows = json.loads(done.stdout)
        assert len(rows) == 16
        assert {(row["kind"], row["inputs"], row["outputs"], row["status"]) for row in rows} == {
            ("conv2d", 4, 2, "ok")
        }
        aside, shared = done.stderr.splitlines()
        assert "(4 groups; captured and all of each): Conv2d (16/20)." in aside
        assert shared.startswith(f"{sides}: such a layer is one group of a convolution with 20 groups")
        one = run("layer", file, rows[3]["layer"], "-w", "int8_per_tensor", "-a", inputs)
        assert shared in one.stderr.splitlines()
    done = run("layers", file, "-w", "int8_per_output", "-a", "none", "--format", "json")
    assert "such a layer" not in done.stderr


def test_all_layers_are_a_table_a_page_and_a_gate(folder):
    file = folder / "capture.safetensors"
    done = run("layers", file, "-w", "int8_per_output", "-a", "int8_per_token", "--format", "json")
    rows = json.loads(done.stdout)
    for row, layer in zip(rows, layers(), strict=True):
        found = layer.result("int8_per_output", "int8_per_token")
        assert (row["rel_out_used"], row["rel_out_held_back"]) == pytest.approx(found.rel_out)
        assert row["status"] == "ok"
    table = run("layers", file, "-w", "int8_per_output").stdout.splitlines()
    assert len(table) == 4
    assert "\x1b" not in "".join(table)
    low, high = sorted(row["rel_out_held_back"] for row in rows)[::2]
    some = run("layers", file, "-w", "none", "--include", "*.up", "--include", "l*down", "--format", "jsonl")
    assert [json.loads(line)["layer"] for line in some.stdout.splitlines()] == [
        "layers.0.up",
        "layers.0.down",
    ]
    gate = ("layers", file, "-w", "int8_per_output", "--fail-over")
    above = run(*gate, (low + high) / 2, status=1)
    assert 1 <= above.stderr.count("above") <= 2
    run(*gate, high, "--junit", folder / "passed.xml")
    run(*gate, (low + high) / 2, "--junit", folder / "gate.xml", status=1)
    for report, failed in (("passed.xml", 0), ("gate.xml", above.stderr.count("above"))):
        (suite,) = ElementTree.fromstring((folder / report).read_text(encoding="utf-8"))
        assert suite.get("name") == "int8_per_output, int8_per_token"
        assert (suite.get("tests"), suite.get("failures")) == ("3", str(failed))
        assert sum(case.find("failure") is not None for case in suite) == failed
    for language in languages():
        page = folder / f"page_{language}.html"
        run("layers", file, "-w", "int8_per_output", "-o", page, "--lang", language)
        written = page.read_text(encoding="utf-8")
        assert "<script" not in written
        assert written.count('class="map"') == 2
        assert written.count("<td>nearest</td>") == 3


def test_what_does_not_fit_is_found_and_what_cannot_be_used_refused(folder):
    file = folder / "capture.safetensors"
    gate = folder / "refused.xml"
    some = run("layers", file, "-w", "int4_g32", "--format", "jsonl", "--junit", gate, status=1)
    (suite,) = ElementTree.fromstring(gate.read_text(encoding="utf-8"))
    assert [case.find("failure") is not None for case in suite] == [False, True, False]
    assert "group size" in suite[1][0].get("message")
    assert [json.loads(line)["status"] for line in some.stdout.splitlines()] == ["ok", "refused", "ok"]
    assert "group size" in some.stderr
    assert ">×<" in run("layers", file, "-w", "int4_g32", "--format", "html", status=1).stdout
    assert "above 1e-09" in run("layer", file, HOSTILE, *SCHEMES, "--fail-over", 1e-9, status=1).stderr
    model = f"{folder}/model.safetensors"
    for arguments, part in (
        (("layers", file, "-w", "int4_g128"), "group size"),
        (("layers", model), "No weight of this file has its inputs"),
        (("layers", folder / "none.safetensors"), "no file"),
        (("layers", file, "--include", "lm_head"), "'lm_head'"),
        (("layer", file), "has 3 layers"),
        (("layer", file, "layers.0.upp"), "'layers.0.up'"),
        (("layer", file, "layers.0.up", "-w", "int44"), "'int4"),
        (("layer",), "Give one layer"),
        (("layer", "--weights", model + ":up"), "Give one layer"),
        (("layer", file, "--weights", model + ":up"), "Give one layer"),
        (("layer", "--weights", model + ":up", "--inputs", model + ":b", *SCHEMES), "tokens × inputs"),
        (("layer", "builtin(name=loud_inputs)"), "'loud_input'"),
    ):
        done = run(*arguments, status=2)
        assert part in done.stderr
        assert done.stdout == ""
        assert "\x1b" not in done.stderr


@pytest.mark.parametrize("language", languages())
def test_the_page_opens_a_layer_of_the_folder_by_its_address(folder, monkeypatch, language):
    app = ("--app", "http://localhost:8501/", *SCHEMES, "--lang", language, "--format", "json")
    elsewhere = run("layer", folder / "capture.safetensors", HOSTILE, *app).stderr
    assert f"{folder}" in elsewhere.splitlines()[-1]
    monkeypatch.setenv("QUANTVIZ_DATA_DIR", str(folder))
    weights = ("--weights", f"{folder}/model.safetensors:up", "--outputs-axis", 0)
    for arguments in (
        (folder / "capture.safetensors", "layers.0.up", "--dynamic"),
        (*weights, "--inputs", folder / "x.npy"),
        ("builtin(name=minilm_4_value)",),
    ):
        done = run("layer", *arguments, *app)
        record = json.loads(done.stdout)
        (address,) = (line for line in done.stderr.splitlines() if line.startswith("http://localhost"))
        page = urlsplit(address)
        assert page.path == "/layers"
        parameters = dict(parse_qsl(page.query))
        state, problems = LayerState.read(parameters)
        assert problems == ()
        assert parameters.get("lang", "en") == language
        assert list(state.cell) == record["worst_cell"]
        layer = state.source.open()
        found = qv.layer(
            layer.weight, layer.inputs, *state.pair.schemes(), layer.bias, static=state.pair.static
        )
        assert found.rel_out.held_back == pytest.approx(record["rel_out_held_back"])


# ---- second moments ----


def test_second_moments_are_the_error_of_uncorrelated_inputs(folder):
    up = layers()["layers.0.up"]
    squares = up.inputs.square().mean(0)
    matrix = write_dat(folder / "imatrix.dat", {"up": squares})
    weights = ("--weights", f"{folder}/model.safetensors:up", "--outputs-axis", 0, "--format", "json")
    done = run("layer", *weights, "--imatrix", matrix, "-w", "int4_g32")
    found = json.loads(done.stdout)
    change = (qv.quantize(up.weight, "int4_g32").x_hat - up.weight).double().square().sum(0)
    power = up.weight.double().square().sum(0)
    expected = float((squares * change).sum() / (squares * power).sum())
    assert found["rel_out"] == pytest.approx(expected, rel=1e-4)
    assert found["costliest_channel"] == 9
    assert "uncorrelated" in done.stderr
    # These inputs are drawn independently: the error of the product is close.
    assert found["rel_out"] == pytest.approx(up.result("int4_g32", None).rel_out.used, rel=0.1)
    above = run("layer", *weights, "--imatrix", matrix, "-w", "int4_g32", "--fail-over", 1e-6, status=1)
    assert "above 1e-06" in above.stderr
    assert "Choose" not in run("layer", *weights, "--imatrix", matrix, "-w", "none", status=2).stdout
    for option in (("--method", "gptq"), ("--dynamic",), ("--app", "http://localhost:8501/")):
        assert option[0] in run("layer", *weights, "--imatrix", matrix, *option, status=2).stderr
    other = write_dat(folder / "other.dat", {"down": squares})
    assert "has down" in run("layer", *weights, "--imatrix", other, status=2).stderr


@pytest.mark.parametrize(
    ("moments", "key"),
    [
        ([1.0], "layer.moments_width"),
        ([1.0, -1.0], "layer.moments"),
        ([1.0, float("nan")], "layer.moments"),
        ([1.0, float("inf")], "layer.moments"),
        ([0.0, 0.0], "layer.moments"),
    ],
)
def test_wrong_moments_get_a_sentence(moments, key):
    with pytest.raises(qv.QuantVizError) as refused:
        errors_by_moments([[1.0, 2.0]], torch.tensor(moments), "int4_per_tensor")
    assert refused.value.key == key
    assert all(refused.value.message(language) for language in languages())


def test_a_method_is_the_librarys_and_the_best_one_is_taken_for_each_layer(folder):
    capture = folder / "capture.safetensors"
    scheme = "int4,symmetric,per_group(size=16),min_max,course"
    schemes = ("-w", scheme, "-a", "none")
    done = run("layer", capture, "layers.0.up", *schemes, "-m", "gptq", "--format", "json")
    expected = layers()["layers.0.up"].result(scheme, None, method="gptq")
    record = json.loads(done.stdout)
    assert record["method"] == "gptq"
    assert record["rel_out_held_back"] == pytest.approx(expected.rel_out.held_back)
    done = run("layers", capture, *schemes, "--methods", "gptq,adaround(steps=20)", "--format", "json")
    for row in json.loads(done.stdout):
        nearest = layers()[row["layer"]].result(scheme, None).rel_out
        # It is chosen on the tokens used; those held back only show what it leaves.
        assert row["rel_out_used"] <= nearest.used
        assert row["times_less"] == pytest.approx(nearest.held_back / row["rel_out_held_back"])
    done = CliRunner().invoke(quantviz, ["layers", str(capture), "--methods", "gtpq"])
    assert done.exit_code != 0
    assert "gptq" in done.output


@pytest.mark.parametrize("language", languages())
def test_outputs_that_are_all_0_pass_no_gate(tmp_path, language):
    file = tmp_path / "silent.safetensors"
    x = drawn(16, 8, seed=1)
    x[:, 0] = 0
    # An output of channel 0 alone: binary codes have no 0, and so an error beside it.
    alone = torch.eye(8)[:4] * torch.eye(8)[0]
    made = (("0.dead", drawn(4, 8, seed=2), 0 * x), ("0.alone", alone, x), ("0.zeros", 0 * alone, x))
    Layers(tuple(Captured(name, "linear", w, each, None, 16) for name, w, each in made)).save(file)

    def gate(scheme, name, status):
        gated = ("layers", file, "-w", scheme, "-a", "none", "--include", name, "--fail-over", 1e300)
        return run(*gated, "--format", "json", "--lang", language, status=status)

    for scheme, name, rel_out in (("int4_per_tensor", "0.dead", 0), ("binary_absmean", "0.alone", None)):
        done = gate(scheme, name, 1)
        (row,) = json.loads(done.stdout)
        assert (row["rel_out_held_back"], row["reason"].partition(name)[1]) == (rel_out, name)
        assert row["reason"] in done.stderr
    assert json.loads(gate("int4_per_tensor", "0.zeros", 0).stdout)[0]["reason"] is None
    one = ("layer", file, "0.dead", "-w", "int4_per_tensor", "-a", "none", "--fail-over", 1e300)
    assert "0 %" not in run(*one, "--lang", language, status=1).stderr
    page = run("layers", file, "-w", "binary_absmean", "--format", "html").stdout
    assert '<td style="--w:60" title="0.alone">∞</td>' in page


def test_faulty_layers_are_named_and_counted_and_pass_no_gate(tmp_path):
    file = tmp_path / "bad.safetensors"
    write_bad_capture(file)
    gate = tmp_path / "gate.xml"
    schemes = ("-w", "int8_per_output", "-a", "int8_per_token")
    done = run("layers", file, *schemes, "--format", "json", "--junit", gate, "--fail-over", 1, status=1)
    rows = {row["layer"]: row for row in json.loads(done.stdout)}
    assert {name for name, row in rows.items() if row["status"] == "ok"} == {"h.0.whole"}
    (suite,) = ElementTree.fromstring(gate.read_text(encoding="utf-8"))
    failed = {case.get("name"): case.find("failure") for case in suite}
    page = run("layers", file, *schemes, "--format", "html", status=1).stdout.replace("<wbr>", "")
    for name, part in FAULTS.items():
        assert part in rows[name]["reason"], name
        assert any(
            name in case and part in found.get("message")
            for case, found in failed.items()
            if found is not None
        )
        assert f'title="{name}">×<' in page
    assert sum(found is not None for found in failed.values()) == len(FAULTS) == len(rows) - 1
    assert f"{len(FAULTS)} of {len(rows)}" in done.stderr
    run("layers", file, *schemes, "--include", "*.whole", "--fail-over", 1)
    assert FAULTS["h.0.empty"] in run("layers", file, *schemes, "--include", "*.empty", status=2).stderr
    assert FAULTS["h.0.wide"] in run("layer", file, "h.0.wide", *schemes, status=2).stderr
    assert "has 8 layers" in run("layer", file, *schemes, status=2).stderr


def test_moments_that_miss_the_weight_hide_no_error():
    weight = torch.tensor([[1.0, 0.0], [0.5, 0.0]])
    moments = torch.tensor([0.0, 1.0])
    assert errors_by_moments(weight, moments, "binary_absmean").rel_out == math.inf
    assert errors_by_moments(weight, moments, "int4_per_tensor").rel_out == 0


def test_the_commands_page_names_every_method_and_the_help_every_engine():
    page = Path(cli.__file__).with_name("README.md").read_text(encoding="utf-8")
    missing = [name for name in METHODS if f"`{name}`" not in page]
    assert not missing, f"name {missing} in quantviz/cli/README.md"
    shown = " ".join(run("scan", "--help").stdout.split())
    assert [each.name for each in PROFILES.values() if each.name not in shown] == []


def test_a_layer_is_written_as_a_page_that_works_offline(folder, tmp_path):
    page = tmp_path / "x.html"
    run("layer", folder / "capture.safetensors", HOSTILE, "-w", "int4_per_row", "-m", "gptq", "-o", page)
    written = page.read_text(encoding="utf-8")
    assert "layers.1.&lt;script&gt;" in written
    moments = ("--weights", f"{folder / 'model.safetensors'}:up", "--imatrix", tmp_path / "no.dat")
    done = run("layer", *moments, "-o", page, status=2)
    assert "--inputs" in done.stderr
