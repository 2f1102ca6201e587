"""The Lab takes the output channels for rows: as the file tells, or as somebody chooses in the sidebar."""

import numpy
import pytest
import safetensors.torch
import torch

from quantviz.sources import AsMatrix, parse_source
from quantviz.sources.local import FOLDER
from tests.helpers.controls import value_of
from tests.helpers.session import act, address, healthy, opened, told

X = torch.randn(16, 48, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    safetensors.torch.save_file(
        {"h.0.attn.c_attn.weight": X, "h.0.attn.c_attn.bias": torch.zeros(48)}, tmp_path / "model.safetensors"
    )
    numpy.save(tmp_path / "untold.npy", X.numpy())
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def at_file(file):
    return healthy(act(opened(), kind="folder", folder_file=file))


def shown(at):
    return parse_source(address(at)["t"])


def test_a_weight_that_lies_otherwise_is_seen_turned(folder):
    at = act(at_file("model.safetensors"), folder_tensor="h.0.attn.c_attn.weight")
    assert isinstance(shown(at), AsMatrix)
    assert value_of(at, "outputs") == "1"
    assert torch.equal(shown(at).tensor(), X.T)
    # Its link opens the same, and the other axis shows it as it is stored.
    assert shown(healthy(opened(**address(at)))) == shown(at)
    act(at, outputs="0")
    assert torch.equal(shown(at).tensor(), X)


def test_a_guess_is_said_and_can_be_changed(folder):
    at = at_file("untold.npy")
    guess = "The file does not say which axis has the output channels: axis 0 is a guess."
    assert guess in told(at.sidebar, "caption")
    before = address(at)["c"]
    act(at, outputs="1")
    assert shown(at).shape == (48, 16)
    assert guess not in told(at.sidebar, "caption")
    # The same cell stays chosen.
    place = shown(at).place_of(tuple(map(int, address(at)["c"].split("."))))
    assert "{}.{}".format(*place) == before
