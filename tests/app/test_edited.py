"""Cells set by hand in the Lab: what is said, how they are put back, and what stays as it was."""

import io

import numpy as np
import pytest

from quantviz.lab.classroom import Classroom
from quantviz.lab.moves import moved
from quantviz.lab.page_state import History
from quantviz.lab.state import LabState, opening
from quantviz.sources import AsMatrix, Builtin, Edited, Normal, with_cell
from quantviz.ui.lab import tensor
from tests.helpers.controls import choose, controls
from tests.helpers.session import address, healthy, hint, opened, panels

FORM = "edited(builtin(name=loud_column),2.3=5.25)"


def state(at):
    return at.session_state["lab_state"].now


def captions(at):
    """The sidebar's small texts, without what keeps Markdown out of them."""
    return [each.value.replace("\\", "").replace("\u2060", "") for each in at.sidebar.caption]


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", ("Set by hand: ", "Put the values back", "1 cell changed", "changed by hand")),
        ("zh", ("手动设置：", "还原这些值", "改了 1 个单元格", "张量已手动修改")),
    ],
)
def test_the_page_says_what_was_set(language, said):
    at = opened(t=FORM, lang=language)
    sentence, button, title, words = said
    (caption,) = [each for each in captions(at) if sentence in each]
    assert "(2, 3) = 5.25" in caption
    assert at.button(key="put_back").label == button
    assert any(title in each.proto.body for each in at.get("html"))
    assert panels(at)[0][2, 3] == 5.25
    # It is the scenario's tensor still, and its hint says that it was changed.
    assert at.selectbox(key="kind").value == "scenario"
    assert at.selectbox(key="scenario").value == "one_loud_column"
    assert words in hint(at)


def test_values_are_put_back():
    at = opened(t=FORM)
    choose(at, ("bits", 8))
    assert address(healthy(at))["t"] == FORM
    at.button(key="put_back").click().run()
    assert state(healthy(at)).source == Builtin("loud_column")
    assert state(at).scheme.format == "int8"
    assert not [each for each in captions(at) if "by hand" in each]
    assert not [each for each in at.button if each.key == "put_back"]
    assert "changed by hand" not in hint(at)
    choose(at, "undo")
    assert address(healthy(at))["t"] == FORM
    at.button(key="reset").click().run()
    assert state(healthy(at)) == opening().replace(held=state(at).held)


def test_many_cells_are_counted():
    found = moved(opening(), {"kind": "cell", "cell": [2, 3], "value": -1.5})
    (caption,) = [each.replace("\\", "") for each in captions(opened(**found.written())) if "by hand" in each]
    assert caption == "Set by hand: (2, 3) = −1.5."
    found = opening()
    for row in range(6):
        found = moved(found, {"kind": "cell", "cell": [row, 0], "value": 0.5})
    at = opened(**found.written())
    (caption,) = [each for each in captions(at) if "set by hand" in each]
    assert caption == (
        "6 cells were set by hand, among them (0, 0) = 0.5, (1, 0) = 0.5, (2, 0) = 0.5, (3, 0) = 0.5."
    )


def test_a_locked_tensor_is_not_put_back():
    at = opened(t=FORM, k=str(Classroom(locked=frozenset({"tensor"}))))
    assert at.button(key="put_back").disabled
    at.button(key="put_back")._value = True  # whatever a browser sends
    assert address(healthy(at.run()))["t"] == FORM


def test_other_numbers_of_the_same_kind_are_another_tensor():
    at = opened(t="edited(normal(rows=8,cols=6,seed=1),2.3=5.25)")
    assert at.selectbox(key="kind").value == "random"
    at.number_input(key="random_seed").set_value(2).run()
    assert state(healthy(at)).source == Normal(8, 6, 2)
    choose(at, "undo")
    assert state(healthy(at)).source == with_cell(Normal(8, 6, 1), (2, 3), 5.25)
    at.selectbox(key="distribution").set_value("laplace").run()
    assert (state(healthy(at)).source.rows, state(at).source.seed) == (8, 1)


def test_a_course_tensor_and_typed_numbers_go_on_from_the_cells():
    at = opened(t="edited(builtin(name=course_randn_3x3),0.0=9.0)")
    at.selectbox(key="kind").set_value("typed").run()
    assert state(healthy(at)).source.values[0] == 9
    assert at.text_area(key="typed_text").value.startswith("[[9.0, ")


def upload(at, name, array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    at.file_uploader(key="tensor_file").set_value((name, buffer.getvalue(), "application/octet-stream")).run()
    return state(healthy(at))


def test_an_upload_keeps_its_cells_as_axes_and_as_a_matrix_and_when_the_next_one_comes(monkeypatch):
    at = opened()
    at.selectbox(key="kind").set_value("file").run()
    first = upload(at, "conv.npy", np.arange(24, dtype="float32").reshape(2, 3, 2, 2))
    assert isinstance(first.source, AsMatrix)
    at.session_state["lab_state"] = History(first.replace(source=with_cell(first.source, (1, 7), -50.0)))
    healthy(at.run())
    assert panels(at)[0][1, 7] == -50
    at.segmented_control(key="seen_as").set_value("axes").run()
    assert state(healthy(at)).source.edits == (((1, 1, 1, 1), -50.0),)
    assert isinstance(state(at).source, Edited)
    at.segmented_control(key="seen_as").set_value("matrix").run()
    assert state(healthy(at)).source.edits == (((1, 7), -50.0),)
    # No room for more than the one that is open and the next: undo still finds the edited one.
    monkeypatch.setattr(tensor, "UPLOAD_BYTES", 1)
    upload(at, "next.npy", np.ones((3, 3), dtype="float32"))
    choose(at, "undo")
    assert panels(healthy(at))[0][1, 7] == -50
    # Where a tensor is gone, undo does not lead to a matrix of it either.
    choose(at, "redo")
    upload(at, "third.npy", np.ones((4, 4), dtype="float32"))
    choose(at, "undo")
    assert panels(healthy(at))[0].shape == (3, 3)
    assert controls(at)["undo"]["disabled"]


def test_the_way_back_to_a_lesson_stays():
    at = opened("pages/learn/lessons.py", l="rounding_against_clipping", k="shown")
    healthy(at.button(key="lesson_to_lab").click().run())
    healthy(at.switch_page("pages/lab/playground.py").run())
    now = state(at)
    at.session_state["lab_state"] = History(now.replace(source=with_cell(now.source, (0, 0), 3.0)))
    healthy(at.run())
    assert at.button(key="back_to_lesson")


def test_a_link_without_its_cell_opens_the_scenarios():
    found, problems = LabState.read({"v": "1", "t": FORM})
    assert (found.cell, found.scheme, problems) == (opening().cell, opening().scheme, ())
