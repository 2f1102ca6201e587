"""Tensors of one to four axes: what their axes are called, how a weight is seen, and whose words choices
have.
"""

import pytest
import safetensors.torch
import torch

import quantviz as qv
from quantviz.sources import AsMatrix, LocalTensor
from quantviz.sources.local import FOLDER
from tests.helpers.controls import choose, controls, words_of
from tests.helpers.session import act, address, bodies, healthy, numbers, opened
from tests.helpers.session import lab_state as state

#: Lengths that no label has for another reason.
SHAPES = {
    "vector": (577,),
    "linear": (144, 233),
    "stft": (258, 1, 256),
    "conv1d": (128, 129, 3),
    "stem": (61, 3, 7, 7),
    "wide": (32, 32, 3, 3),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    draw = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(shape, generator=draw) for name, shape in SHAPES.items()}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def source(name, *, matrix=False):
    tensor = LocalTensor("model.safetensors", name, SHAPES[name])
    return AsMatrix(tensor) if matrix else tensor


def form(of):
    return f"as_matrix({form(of.source)})" if isinstance(of, AsMatrix) else f"local.{of.to_payload()}"


def test_a_choice_of_another_tensor_changes_nothing(folder):
    """What a browser sends that still shows the tensor before, with a click on something else."""
    at = opened(t=form(source("stft")), s="int4,symmetric,per_group(size=32),min_max,course")
    before = state(at)
    stale = [("view_rows", each) for each in ("3", "-1", "a name of yesterday", "")]
    at = healthy(choose(at, *stale, ("granularity", "tensor")))
    assert [warning.value for warning in at.warning] == []
    assert state(at).replace(scheme=before.scheme, held=before.held) == before
    assert str(state(at).scheme) == "int4,symmetric,per_tensor,min_max,course"


# ---- what axes are called -----------------------------------------------------------------------


@pytest.mark.parametrize("matrix", [False, True])
def test_one_word_is_one_axis(folder, matrix):
    """The strip, the recipe, the sentence of the scheme and the number below the SQNR mean the same axis by
    the same words.
    """
    scheme = "int4,symmetric,per_channel,min_max,course"
    at = opened(t=form(source("stem", matrix=matrix)), s=scheme, lang="en")
    shown = controls(at)["granularity"]
    name = next(name for name, label, *_ in shown["choices"] if label == "output channel (axis 0)")
    assert shown["value"] == name
    assert controls(at)["recipe"]["value"] == "int4_per_row"
    assert "int4 per output channel" in words_of(at, "recipe")
    x = state(at).source.tensor()
    expected = qv.metrics(qv.quantize(x, qv.Scheme("int4", granularity=qv.PerChannel(0))))["sqnr_db"]
    assert numbers(at)[1].value.startswith(f"{expected:.3g}"[:4])
    choose(at, ("granularity", "tensor"), ("granularity", name))
    assert str(state(healthy(at)).scheme) == scheme


def test_what_is_seen_as_rows_does_not_change_what_a_button_means(folder):
    at = opened(t=form(source("conv1d")), s="int4,symmetric,per_tensor,min_max,course", lang="en")
    before = words_of(at, "granularity")
    assert words_of(act(at, view_rows=0), "granularity") == before
    assert state(act(at, granularity="axis1")).scheme.granularity == qv.PerChannel(1)


# ---- a weight as a matrix -----------------------------------------------------------------------


def test_a_convolutions_weight_opens_as_a_matrix_and_others_as_they_are(folder):
    at = act(opened(), kind="folder", folder_file="model.safetensors")
    for name, shape in SHAPES.items():
        act(at, folder_tensor=name)
        assert state(at).source == source(name, matrix=len(shape) == 4)
    assert state(opened(**address(at))) == state(at)
    # What engines group fits the matrix and not its kernels.
    assert state(act(at, recipe="q4_0")).scheme == qv.RECIPES["q4_0"]
    assert all(qv.RECIPES[name].problems(SHAPES["wide"]) for name in ("q4_0", "nvfp4", "int4_g32"))


def test_links_of_before_keep_four_axes(folder):
    at = opened(t=form(source("stem")), s="int4,symmetric,per_channel(axis=3),min_max,course", c="1.2.3.4")
    assert (state(at).source, state(at).cell) == (source("stem"), (1, 2, 3, 4))
    assert address(at)["t"] == form(source("stem"))


def test_the_view_changes_and_the_cell_stays_the_same_one(folder):
    matrix = source("stem", matrix=True)
    at = opened(t=form(matrix), c=f"5.{2 * 49 + 3 * 7 + 4}", lang="en")
    assert bodies(at, "Cell (5, 123), at (5, 2, 3, 4) of 61 × 3 × 7 × 7:")
    value = state(at).source.tensor()[5, 123]
    act(at, seen_as="axes")
    assert (state(at).source, state(at).cell) == (source("stem"), (5, 2, 3, 4))
    assert state(at).source.tensor()[5, 2, 3, 4] == value
    assert state(at).view.seen(state(at).cell, (61, 3, 7, 7))
    act(at, seen_as="matrix")
    assert (state(at).source, state(at).cell) == (matrix, (5, 123))
