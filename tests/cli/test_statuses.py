"""Each exit status that the command's README promises, and its opposite."""

import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from quantviz import cli
from quantviz.checkpoints.audit import auditing
from quantviz.cli import quantviz
from quantviz.layers.captures import Captured, Layers

#: Command lines by each phrase of the row of status 1; those after None find nothing.
FOUND = {
    "weights that were not read or not compared": (
        *("scan six.pt -r int8_per_row", "compare less.safetensors o.safetensors"),
        *("compare o.safetensors less.safetensors", "compare codes.safetensors o.safetensors"),
        *("scan codes.safetensors -r int8_per_row", None, "scan o.safetensors -r int8_per_row"),
    ),
    "constant or not finite ones": (
        *("scan zeros.safetensors -r int8_per_row", "scan nan.safetensors -r int8_per_row"),
        *("compare zeros.safetensors o.safetensors", "compare nan.safetensors o.safetensors"),
        *("compare column.safetensors o.safetensors", None, "compare o.safetensors o.safetensors"),
    ),
    "quantized or plain weights that are not the original's": (
        *("compare random.safetensors o.safetensors", "compare random8.safetensors o.safetensors"),
        *("compare times.safetensors o.safetensors", "compare times8.safetensors o.safetensors"),
        *(None, "compare int8.safetensors o.safetensors", "compare cast.safetensors o.safetensors"),
    ),
    "a tensor of a reference run that was not compared": (
        *("runs o.safetensors less.safetensors", None, "runs o.safetensors cast.safetensors"),
        "runs o.safetensors less.safetensors --allow-missing",
    ),
    "an SQNR below `--fail-under`": (
        *(
            "compare int8.safetensors o.safetensors --fail-under 50",
            "scan o.safetensors -r int8_per_row --fail-under 50",
        ),
        *(
            "compare cast.safetensors o.safetensors --fail-under 40",
            "measure o.safetensors a.weight -s int8_per_row --fail-under 60",
        ),
        *(
            "compare grid.safetensors o.safetensors --fail-under 50",
            "runs o.safetensors cast.safetensors --fail-under 40",
        ),
        *("compare norm.safetensors o.safetensors --fail-under 40", None),
        *(
            "compare int8.safetensors o.safetensors --fail-under 40",
            "scan o.safetensors -r int8_per_row --fail-under 40",
        ),
        *(
            "compare cast.safetensors o.safetensors --fail-under 20",
            "compare grid.safetensors o.safetensors --fail-under 40",
        ),
        *(
            "measure o.safetensors a.weight -s int8_per_row --fail-under 30",
            "runs o.safetensors cast.safetensors --fail-under 20",
        ),
    ),
    "a recipe under which nothing was measured where that is given": (
        *("scan o.safetensors -r int8_per_row --exclude *.weight --fail-under 1", None),
        "scan o.safetensors -r int8_per_row --exclude *.weight",
    ),
    "a layer's `rel_out` above `--fail-over` or without a meaning": (
        *("layers capture.safetensors -w int4_g32 -a none --fail-over 1e-6",),
        *("layers silent.safetensors -w int4_g32 -a none --fail-over 0.5", None),
        "layers capture.safetensors -w int4_g32 -a none --fail-over 0.5",
    ),
    "a tensor without one where `--fail-under` is given": (
        "scan nothing.safetensors -r int8_per_row --fail-under 1",
        None,
        "scan o.safetensors -r int8_per_row --fail-under 1",
    ),
    "a scheme of several that does not fit": (
        "measure o.safetensors a.weight -s int4_g128 -s int4_g32",
        None,
        "measure o.safetensors a.weight -s int4_g32",
    ),
    "a part of a link that cannot be used": (
        *("link {lab}&s=int99", None, "link {lab}&s=int8,symmetric,per_tensor,min_max,course"),
    ),
}
#: Those of status 2.
UNUSABLE = {
    "a wrong use": ("scan o.safetensors", "compare o.safetensors", "measure o.safetensors a.weight -s int99"),
    "something that cannot be opened": (
        "scan none.safetensors -r int8_per_row",
        "compare o.safetensors none.safetensors",
    ),
}


def promises(status):
    """The phrases of a row of the README's table."""
    told = Path(cli.__file__).with_name("README.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| {status} \| (.*) \|$", told, re.MULTILINE)[1]
    return (
        row.removeprefix("finished, and something was found: ")
        .partition(";")[0]
        .replace(", or ", ", ")
        .split(", ")
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("statuses")
    generator = torch.Generator().manual_seed(0)
    x, other = (torch.randn(40, 96, generator=generator) for _ in range(2))
    norm = torch.rand(96, generator=generator) + 0.5

    def rows(w):
        scale = w.abs().amax(1, keepdim=True) / 127
        return torch.round(w / scale).to(torch.int8), scale

    def int8(w):
        codes, scale = rows(w)
        return {"a.weight": codes, "a.weight_scale": scale}

    codes, scale = rows(x)
    column = x.clone()
    column[:, 5] = 0
    nan = x.clone()
    nan[3, 4] = torch.nan
    files = {
        "o": {"a.weight": x},
        "less": {},
        "codes": {"a.weight": codes},
        "zeros": {"a.weight": torch.zeros_like(x)},
        "nan": {"a.weight": nan},
        "nothing": {"a.weight": x * torch.nan},
        "column": {"a.weight": column},
        "random": {"a.weight": other},
        "random8": int8(other),
        "times": {"a.weight": x * 1.5},
        "times8": int8(x * 1.5),
        "int8": int8(x),
        "cast": {"a.weight": x.to(torch.float8_e4m3fn)},
        "grid": {"a.weight": codes * scale},
    }
    for name, tensors in files.items():
        save_file({**tensors, "norm.weight": norm}, made / f"{name}.safetensors")
    off = norm + 0.1 * torch.randn(96, generator=generator)
    save_file({"a.weight": x, "norm.weight": off}, made / "norm.safetensors")
    torch.save({"a.weight": torch.randn(4, 4, 2, 2, 2, 2)}, made / "six.pt")
    inputs = torch.randn(64, 96, generator=generator)
    for name, seen in (("capture", inputs), ("silent", torch.zeros_like(inputs))):
        Layers((Captured("a", "linear", x, seen),)).save(made / f"{name}.safetensors")
    return made


def status(line, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(folder / "cache"))
    lab = "http://localhost/lab?t=builtin(name=picture)"
    words = [word.format(lab=lab) for word in line.split()]
    done = CliRunner().invoke(quantviz, words)
    assert done.stderr or done.exit_code == 0, "a status without a sentence"
    return done.exit_code


@pytest.mark.parametrize("phrase", FOUND)
def test_what_is_found_ends_with_status_1(folder, monkeypatch, phrase):
    lines = FOUND[phrase]
    wanted = {line: int(at < lines.index(None)) for at, line in enumerate(lines) if line}
    assert {line: status(line, folder, monkeypatch) for line in wanted} == wanted


@pytest.mark.parametrize("phrase", UNUSABLE)
def test_what_cannot_be_used_ends_with_status_2(folder, monkeypatch, phrase):
    assert {line: status(line, folder, monkeypatch) for line in UNUSABLE[phrase]} == dict.fromkeys(
        UNUSABLE[phrase], 2
    )


def test_an_interrupted_command_ends_with_status_130_and_says_how_to_go_on(folder, monkeypatch):
    def interrupted(*_, **named):
        raise KeyboardInterrupt

    monkeypatch.chdir(folder)
    monkeypatch.setattr(auditing, "audited", interrupted)
    line = ["compare", "int8.safetensors", "o.safetensors", "--verify", "--results", "r.sqlite"]
    done = CliRunner().invoke(quantviz, line)
    assert (done.exit_code, "Go on with: " in done.stderr) == (130, True)


def test_each_promise_has_its_commands():
    """Of 141, see test_a_closed_pipe_is_silent."""
    assert promises(1) == [*FOUND]
    assert promises(2) == [*UNUSABLE]
    assert promises(0) == ["all is well"]
