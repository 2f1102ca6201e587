"""Undo and redo in the Lab."""

import numpy as np
import pytest

from quantviz.ui.components import tensor_cache
from tests.helpers.controls import controls
from tests.helpers.session import act, address, healthy, opened, panels, upload, went


@pytest.mark.nightly
def test_undo_finds_uploads_again(monkeypatch):
    at = opened()

    def bring(*sides):
        for side in sides:
            upload(at, f"{side}.npy", np.full((side, side), 0.5, dtype=np.float32))
            assert panels(healthy(at))[0].shape == (side, side)

    def go(button, *sides):
        for side in sides:
            act(at, button)
            assert panels(healthy(at))[0].shape == (side, side)

    bring(3, 4)
    go("undo", 3, 8)
    go("redo", 3, 4)
    bring(5)
    go("undo", 4, 3)
    go("redo", 4, 5)
    # Where there is no room for so many, undo reaches back as far as there are tensors: to the one that was
    # open.
    monkeypatch.setattr(tensor_cache, "UPLOAD_BYTES", 1)
    bring(6)
    go("undo", 5)
    assert controls(at)["undo"]["disabled"]
    go("redo", 6)


def test_undo_and_redo_keep_the_cell_that_is_looked_at():
    at = act(opened(), bits=8, cell_row=6)
    for button, code in (("undo", "int4"), ("redo", "int8")):
        act(at, button)
        assert address(healthy(at))["s"].startswith(code)
        assert address(at)["c"] == "6.3"
    # What moves by itself is part of its step.
    assert address(act(at, "undo", scenario="one_cell"))["c"] == "6.3"


def test_back_to_where_one_looked_moves_the_cell_alone():
    at = act(opened(lang="en"), bits=8)
    shown = address(at)
    assert address(went(at, {**shown, "c": "5.6"})) == {**shown, "c": "5.6"}
    assert not controls(at)["undo"]["disabled"]
    assert controls(at)["redo"]["disabled"]


@pytest.mark.parametrize(
    ("room", "asked"),
    [({}, {"t": "upload"}), ({"k": "lock-scheme"}, {"s": "int8,symmetric,per_tensor,min_max,course"})],
    ids=["what cannot be had", "what a teacher has locked"],
)
def test_back_changes_nothing_of(room, asked):
    at = opened(lang="en", **room)
    shown = address(at)
    assert address(went(at, {**shown, **asked})) == shown
