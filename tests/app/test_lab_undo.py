"""Undo and redo in the Lab."""

import io

import numpy as np
import pytest

from quantviz.lab import page_state
from quantviz.ui.lab import tensor
from tests.helpers.controls import choose, controls
from tests.helpers.session import address, healthy, opened, panels


@pytest.mark.nightly
def test_undo_finds_uploads_again(monkeypatch):
    at = opened()
    at.selectbox(key="kind").set_value("file").run()

    def upload(name, side):
        buffer = io.BytesIO()
        np.save(buffer, np.full((side, side), 0.5, dtype=np.float32))
        at.file_uploader(key="tensor_file").set_value(
            (name, buffer.getvalue(), "application/octet-stream")
        ).run()
        assert panels(healthy(at))[0].shape == (side, side)

    def undo(side):
        choose(at, "undo")
        assert panels(healthy(at))[0].shape == (side, side)

    def redo(side):
        choose(at, "redo")
        assert panels(healthy(at))[0].shape == (side, side)

    upload("a.npy", 3)
    upload("b.npy", 4)
    undo(3)
    undo(8)
    redo(3)
    redo(4)
    upload("c.npy", 5)
    undo(4)
    undo(3)
    redo(4)
    redo(5)
    # Where there is no room for so many, undo reaches back as far as there are tensors: to the one that was
    # open.
    monkeypatch.setattr(tensor, "UPLOAD_BYTES", 1)
    upload("d.npy", 6)
    undo(5)
    assert controls(at)["undo"]["disabled"]
    redo(6)


@pytest.mark.nightly
def test_undo_reaches_back_many_steps_and_forward_again(monkeypatch):
    assert page_state.MOST_STEPS == 50
    monkeypatch.setattr(page_state, "MOST_STEPS", 4)
    at = opened()

    def bits(now=None):
        if now is not None:
            choose(at, ("bits", now))
        return controls(at)["bits"]["value"]

    steps = [2, 3, 4, 5, 6, 7]
    for each in steps:
        bits(each)
    back = []
    while not controls(at)["undo"]["disabled"]:
        choose(at, "undo")
        back.append(bits())
    assert back == [6, 5, 4, 3]
    forward = []
    while not controls(at)["redo"]["disabled"]:
        choose(at, "redo")
        forward.append(bits())
    assert forward == [4, 5, 6, 7]
    # Another choice begins another way.
    choose(at, "undo")
    bits(16)
    assert controls(at)["redo"]["disabled"]
    choose(at, "undo")
    assert bits() == 6


def test_undo_and_redo_keep_the_cell_that_is_looked_at():
    at = opened()
    choose(at, ("bits", 8))
    at.number_input(key="cell_row").set_value(6).run()
    for button, code in (("undo", "int4"), ("redo", "int8")):
        choose(at, button)
        assert address(healthy(at))["s"].startswith(code)
        assert address(at)["c"] == "6.3"
    # What moves by itself is part of its step.
    at.selectbox(key="scenario").set_value("one_cell").run()
    choose(at, "undo")
    assert address(at)["c"] == "6.3"


def test_a_step_that_could_not_be_taken_is_none_to_undo():
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    buffer = io.BytesIO()
    np.save(buffer, np.array([[3e38, -3e38], [1.0, 2.0]], dtype=np.float32))
    at.file_uploader(key="tensor_file").set_value(
        ("huge.npy", buffer.getvalue(), "application/octet-stream")
    ).run()
    assert any("too wide for float32" in warning.value for warning in at.warning)
    assert controls(at)["undo"]["disabled"]


def went(at, shown):
    """The browser's own button went to an address, which its script marks."""
    at.query_params.clear()
    for name, value in {**shown, "went": "1"}.items():
        at.query_params[name] = value
    return healthy(at.run())


def test_the_browsers_back_and_forward_undo_and_redo():
    """The address moved back, and the page wrote the present state over it."""
    at = opened(lang="en")
    first = address(at)
    healthy(choose(at, ("bits", 8)))
    second = address(at)
    assert second != first
    assert address(went(at, first)) == first
    assert controls(at)["undo"]["disabled"]
    assert address(went(at, second)) == second
    assert controls(at)["redo"]["disabled"]
    # An older address that is not marked is one that the browser has not been told anew yet.
    for name, value in first.items():
        at.query_params[name] = value
    assert address(healthy(at.run())) == second


def test_back_to_where_one_looked_moves_the_cell_alone():
    at = opened(lang="en")
    healthy(choose(at, ("bits", 8)))
    shown = address(at)
    assert address(went(at, {**shown, "c": "5.6"})) == {**shown, "c": "5.6"}
    assert not controls(at)["undo"]["disabled"]
    assert controls(at)["redo"]["disabled"]


def test_back_to_an_address_that_cannot_be_had_changes_nothing():
    at = opened(lang="en")
    healthy(choose(at, ("bits", 8)))
    shown = address(at)
    assert address(went(at, {**shown, "t": "upload"})) == shown


def test_back_changes_nothing_that_a_teacher_has_locked():
    at = opened(lang="en", k="lock-scheme")
    shown = address(at)
    assert address(went(at, {**shown, "s": "int8,symmetric,per_tensor,min_max,course"})) == shown
