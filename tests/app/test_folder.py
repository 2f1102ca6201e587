"""The server's folder on the page: choosing a file and a tensor, links to it, and what cannot be had."""

import itertools
import json
import os
import struct

import ml_dtypes
import numpy
import pytest
import safetensors.torch
import torch

from quantviz.sources.local import FOLDER
from quantviz.ui.lab.sidebar.files import MOST_OFFERED
from tests.helpers.controls import controls, value_of, words_of
from tests.helpers.sample import sample_of
from tests.helpers.session import act, address, arrived, bodies, healthy, opened, panels, told


@pytest.fixture
def folder(tmp_path, monkeypatch):
    numpy.save(tmp_path / "a.npy", numpy.arange(6, dtype="float32").reshape(2, 3))
    safetensors.torch.save_file(
        {f"layer.{i:04}": torch.full((2, 2), float(i)) for i in range(MOST_OFFERED + 50)},
        tmp_path / "many.safetensors",
    )
    (tmp_path / "bad.npy").write_bytes(b"no array")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def shown(at):
    return healthy(at).session_state["lab_state"].now.source


def at_file(name):
    return act(opened(), kind="folder", folder_file=name)


def test_choosing_a_file_and_one_of_its_tensors(folder):
    at = act(opened(), kind="folder")
    assert words_of(at, "folder_file") == ["a.npy", "bad.npy", "many.safetensors"]
    act(at, folder_file="a.npy")
    assert (shown(at).file, shown(at).name, shown(at).shape) == ("a.npy", "a", (2, 3))
    assert shown(act(at, folder_file="many.safetensors")).name == "layer.0000"
    # Of many names a part is offered, beside a box that finds the others; the chosen one stays among them.
    assert len(words_of(at, "folder_tensor")) == MOST_OFFERED
    act(at, folder_tensor_filter="LAY R.024")
    found = [each.split()[0] for each in words_of(at, "folder_tensor")]
    assert found == ["layer.0000", *(f"layer.{i:04}" for i in range(240, 250))]
    assert shown(act(at, folder_tensor="layer.0245")).name == "layer.0245"
    assert shown(opened(**address(at))) == shown(at)


def test_what_cannot_be_read_is_said_and_the_tensor_stays(folder):
    at = at_file("a.npy")
    before = shown(at)
    act(at, folder_file="bad.npy")
    said = told(at.sidebar, "error")
    assert said.startswith("The file 'bad.npy' is a short text, not tensors: it begins with 'no array'.")
    assert at.session_state["lab_state"].now.source == before
    assert shown(act(at, folder_file="many.safetensors")).name == "layer.0000"


def test_names_that_no_screen_can_show_are_spelled_out(folder):
    x = json.dumps({"\ud800<b>\u202e**": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    content = struct.pack("<Q", len(x)) + x + struct.pack("<f", 2.5)
    (folder / os.fsdecode(b"\xff.safetensors")).write_bytes(content)
    at = act(opened(), kind="folder")
    assert words_of(at, "folder_file")[-1] == "\\udcff.safetensors"
    act(at, folder_file=controls(at)["folder_file"]["choices"][-1][0])
    assert words_of(at, "folder_tensor") == ["\\ud800<b>\\u202e**  [1]  float32"]
    assert bodies(at, "\\ud800&lt;b&gt;\\u202e**")
    assert shown(opened(**address(at))) == shown(at)


def test_a_link_to_what_is_gone_says_so(folder):
    link = address(at_file("a.npy"))
    (folder / "a.npy").unlink()
    said = told(opened(**link), "warning")
    assert "The file 'a.npy' is not in the folder that this server offers" in said


def test_without_a_folder_there_is_no_such_choice(monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    assert "The server's folder" not in words_of(opened(), "kind")


def test_settings_that_cannot_be_are_said(monkeypatch):
    monkeypatch.setenv("QUANTVIZ_MAX_ELEMENTS", "many")
    at = arrived()
    assert "QUANTVIZ_MAX_ELEMENTS must be a whole number" in told(at, "error")


def test_what_cannot_be_read_does_not_take_the_list(folder):
    (folder / "circle.npy").symlink_to("circle.npy")
    (folder / "<b>_*x*.npy").symlink_to("gone")
    at = healthy(act(opened(), kind="folder"))
    assert words_of(at, "folder_file") == ["a.npy", "bad.npy", "many.safetensors"]
    assert (
        "Some of the folder cannot be read and is left out (2): <b>_*x*.npy, circle.npy. "
        "Check where these entries lead and who may read them." in told(at.sidebar, "caption")
    )


def test_an_array_without_a_dtype_asks_for_it_and_its_link_says_it(folder):
    x = numpy.array([[0.5, -1.0, 1.5], [2.0, 0.0, -0.25]], dtype="f4")
    numpy.save(folder / "fp8.npy", x.astype(ml_dtypes.float8_e4m3fn))
    at = at_file("fp8.npy")
    assert "Choose the type beside the tensor" in told(at, "error")
    act(at, folder_read_as="float8_e4m3fn")
    again = opened(**address(at))
    for each in (at, again):
        assert shown(each).read_as == "float8_e4m3fn"
        assert numpy.array_equal(panels(each)[0], x)
    assert value_of(again, "folder_read_as") == "float8_e4m3fn"


Q4_0 = "int4,symmetric,per_group(size=32),min_max,gguf_signed"
FORMS = [
    Q4_0,
    *(f"int4,symmetric,{each},min_max,course" for each in ("per_channel", "per_block(rows=4,cols=4)")),
]


def test_a_tensor_without_axes_or_values_is_refused_in_one_sentence(folder):
    shapes = {"empty": torch.zeros(0, 4), "fc": torch.randn(8, 64), "scalar": torch.tensor(1.5)}
    safetensors.torch.save_file(shapes, folder / "m.safetensors")
    fc = address(act(at_file("m.safetensors"), folder_tensor="fc"))
    refused = {"empty": "empty", "scalar": "got 0, shape"}
    for form, name in sample_of(itertools.product(FORMS, refused), 3):
        at = opened(**{**fc, "s": form})
        before = address(at)
        act(at, folder_tensor=name)
        (error,) = (*at.error, *at.warning)
        assert refused[name] in error.value.replace("\\", "")
        assert "our side" not in error.value
        assert address(at) == before
