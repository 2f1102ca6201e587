"""Cells set by hand in the Lab: what is said, how they are put back, and what stays as it was."""

import numpy as np

from quantviz.lab.moves import moved
from quantviz.lab.page_state import History
from quantviz.lab.state import opening
from quantviz.sources import AsMatrix, Builtin, Edited, Normal, with_cell
from quantviz.ui.components import tensor_cache
from tests.helpers.controls import controls, value_of
from tests.helpers.session import (
    act,
    address,
    bodies,
    healthy,
    hint,
    keys_of,
    opened,
    panels,
    told,
    unfolded,
    upload,
)
from tests.helpers.session import (
    lab_state as state,
)

FORM = "edited(builtin(name=loud_column),2.3=5.25)"


def test_the_page_says_what_was_set():
    at = opened(t=FORM, lang="en")
    assert "Set by hand: (2, 3) = 5.25" in told(at.sidebar, "caption")
    assert bodies(at, "1 cell changed")
    assert panels(at)[0][2, 3] == 5.25
    # It is the scenario's tensor still, and its hint says that it was changed.
    assert value_of(at, "kind") == "scenario"
    assert value_of(at, "scenario") == "one_loud_column"
    assert "changed by hand" in hint(at)


def test_values_are_put_back():
    at = act(opened(t=FORM), bits=8)
    assert address(at)["t"] == FORM
    act(at, "put_back")
    assert state(at).source == Builtin("loud_column")
    assert state(at).scheme.format == "int8"
    assert "by hand" not in told(at.sidebar, "caption") + hint(at)
    assert "put_back" not in keys_of(at)
    assert address(act(at, "undo"))["t"] == FORM
    assert state(act(unfolded(at), "reset")) == opening().replace(held=state(at).held)


def test_many_cells_are_counted():
    found = opening()
    for row in range(6):
        found = moved(found, {"kind": "cell", "cell": [row, 0], "value": -0.5})
    said = "6 cells were set by hand, among them (0, 0) = −0.5, (1, 0) = −0.5, (2, 0) = −0.5, (3, 0) = −0.5."
    assert said in told(opened(**found.written()).sidebar, "caption")


def test_a_locked_tensor_is_not_put_back():
    at = opened(t=FORM, k="lock-tensor")
    assert at.button(key="put_back").disabled
    at.button(key="put_back")._value = True  # whatever a browser sends
    assert address(healthy(at.run()))["t"] == FORM


def test_other_numbers_of_the_same_kind_are_another_tensor():
    at = opened(t="edited(normal(rows=8,cols=6,seed=1),2.3=5.25)")
    assert value_of(at, "kind") == "random"
    assert state(act(at, random_seed=2)).source == Normal(8, 6, 2)
    assert state(act(at, "undo")).source == with_cell(Normal(8, 6, 1), (2, 3), 5.25)
    laplace = state(act(at, distribution="laplace")).source
    assert (laplace.rows, laplace.seed) == (8, 1)
    # Typed numbers go on from the cells.
    at = act(opened(t="edited(builtin(name=course_randn_3x3),0.0=9.0)"), kind="typed")
    assert state(at).source.values[0] == 9
    assert at.text_area(key="typed_text").value.startswith("[[9.0, ")


def test_an_upload_keeps_its_cells_as_axes_and_as_a_matrix_and_when_the_next_one_comes(monkeypatch):
    at = opened()
    first = state(upload(at, "conv.npy", np.arange(24, dtype="float32").reshape(2, 3, 2, 2)))
    assert isinstance(first.source, AsMatrix)
    at.session_state["lab_state"] = History(first.replace(source=with_cell(first.source, (1, 7), -50.0)))
    assert panels(healthy(at.run()))[0][1, 7] == -50
    assert state(act(at, seen_as="axes")).source.edits == (((1, 1, 1, 1), -50.0),)
    assert isinstance(state(at).source, Edited)
    assert state(act(at, seen_as="matrix")).source.edits == (((1, 7), -50.0),)
    # No room for more than the one that is open and the next: undo still finds the edited one.
    monkeypatch.setattr(tensor_cache, "UPLOAD_BYTES", 1)
    upload(at, "next.npy", np.ones((3, 3), dtype="float32"))
    assert panels(act(at, "undo"))[0][1, 7] == -50
    # Where a tensor is gone, undo does not lead to a matrix of it either.
    upload(act(at, "redo"), "third.npy", np.ones((4, 4), dtype="float32"))
    assert panels(act(at, "undo"))[0].shape == (3, 3)
    assert controls(at)["undo"]["disabled"]


def test_the_way_back_to_a_lesson_stays():
    at = act(opened("pages/learn/lessons.py", l="rounding_against_clipping", k="shown"), "lesson_to_lab")
    healthy(at.switch_page("pages/lab/playground.py").run())
    now = state(at)
    at.session_state["lab_state"] = History(now.replace(source=with_cell(now.source, (0, 0), 3.0)))
    assert healthy(at.run()).button(key="back_to_lesson")
