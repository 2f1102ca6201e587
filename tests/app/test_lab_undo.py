"""Undo and redo in the Lab."""

import pytest

from tests.helpers.controls import controls
from tests.helpers.session import act, address, healthy, opened, went


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
