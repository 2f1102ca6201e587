"""Verbs on a checkpoint at an address, and the Lab's link to a tensor of a hub."""

import json

import pytest
import safetensors.torch
import torch
from click.testing import CliRunner

from quantviz.cli import quantviz, serve
from quantviz.lab.state import LabState, weight_codec
from quantviz.sources.hubs.hosts import HUBS
from quantviz.text import languages
from tests.helpers import layouts
from tests.helpers.hub import COMMIT, REPO, serving

TENSORS = {"a": torch.linspace(-1, 1, 96).view(3, 32), "b": torch.linspace(-2, 3, 64).view(2, 32)}


def run(*arguments, status=0):
    done = CliRunner().invoke(quantviz, list(map(str, arguments)))
    assert done.exit_code == status, (done.output, done.stderr, done.exception)
    return done


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(HUBS, raising=False)
    parts = {"one": {"a": TENSORS["a"]}, "two": {"b": TENSORS["b"]}}
    files = {f"{name}.safetensors": safetensors.torch.save(part) for name, part in parts.items()}
    index = {name: f"{part}.safetensors" for part, own in parts.items() for name in own}
    files["model.safetensors.index.json"] = json.dumps({"weight_map": index}).encode()
    with serving(files) as serving_hub:
        yield serving_hub


def address(hub, name="model.safetensors.index.json", query="?signature=secret"):
    return f"{hub.origin}/{REPO}/resolve/{COMMIT}/{name}{query}"


def test_a_tensor_at_an_address_is_that_of_the_file(hub, tmp_path):
    local = tmp_path / "model.safetensors"
    safetensors.torch.save_file(TENSORS, local)
    asked = ["b", "-s", "int4_g32", "--format", "json"]
    assert run("measure", address(hub), *asked).stdout == run("measure", local, *asked).stdout
    asked = ["b", "1,7", *asked[1:]]
    assert run("explain", address(hub), *asked).stdout == run("explain", local, *asked).stdout
    run("figure", address(hub), "b", "-s", "int4_g32", "-o", tmp_path / "x.html", "--cdn")
    drawn = (tmp_path / "x.html").read_text()
    assert f"{address(hub, query='')} · b" in drawn
    assert "secret" not in drawn
    said = run("measure", address(hub), "-s", "int4_g32", status=2).stderr
    assert "Name one of them: a, b" in said
    assert "secret" not in said
    # Of a file as it is on the web only the bytes of the tensor are fetched, with the header.
    hub.asked.clear()
    run("measure", address(hub, "two.safetensors"), "-s", "int4_g32")
    assert {path.rpartition("/")[2].partition("?")[0] for path, _ in hub.asked} == {"two.safetensors"}
    assert "missing" not in run("measure", address(hub, "no.safetensors"), "-s", "int4_g32", status=2).stdout


def test_checkpoints_at_addresses_are_compared(tmp_path):
    def quantize(base, weight):
        q, zero, scale = layouts.rounded(weight, 4, 32)
        return layouts.gptq(base, q, zero.clamp(min=1), scale, 4)

    tensors = layouts.llama()
    twin = layouts.quantized_by(tensors, quantize)
    (tmp_path / "twin").mkdir()
    config = {"quant_method": "gptq", "checkpoint_format": "gptq"}
    local = layouts.write(tmp_path / "twin" / "model.safetensors", twin, config)
    original = layouts.write(tmp_path / "original.safetensors", tensors)
    files = {f"twin/{file.name}": file.read_bytes() for file in local.parent.iterdir()}
    files["original.safetensors"] = original.read_bytes()
    wanted = run("compare", local, original, "--format", "json")
    with serving(files) as hub:
        quantized = address(hub, "twin/model.safetensors")
        found = run("compare", quantized, address(hub, "original.safetensors"), "--format", "json")
        # Small tensors of a weight come together.
        assert len(hub.ranges) < 3 * sum(map(len, (tensors, twin)))
    assert (found.stdout, found.stderr) == (wanted.stdout, wanted.stderr)


def test_the_lab_opens_what_lies_on_a_listed_hub(hub, monkeypatch):
    place = address(hub, query="")
    for language in languages():
        refused = run("link", place, "b", "-s", "int4_g32", "--lang", language, status=2).stderr
        assert HUBS in refused
        assert place in refused
    assert HUBS in run("link", "s3://bucket/model.safetensors", "b", "-s", "int4_g32", status=2).stderr
    monkeypatch.setenv(HUBS, hub.origin)
    link = run("link", place, "b", "-s", "int4_g32").stdout.strip()
    told = json.loads(run("link", link, "--format", "json").stdout)
    assert (told["recipe"], told["shape"]) == ("int4_g32", [2, 32])
    assert f"hub({REPO}@{COMMIT}," in told["source"]
    helper = []
    monkeypatch.setattr(serve.os, "execve", lambda *_: None)
    monkeypatch.setattr(serve.subprocess, "Popen", lambda command, **_: helper.append(command))
    monkeypatch.setattr(serve.subprocess, "call", lambda *_, **__: 0)
    run("serve", place, "--server.port", "8700")
    opened, problems = LabState.read(
        dict(part.split("=") for part in helper[0][3].split("?")[1].split("&")), t=weight_codec(present=False)
    )
    assert (opened.source.shape, problems) == ((3, 32), ())
