"""A tensor with NaN and Inf in the Lab: refused with a choice beside the message, and each choice."""

import io

import numpy as np
import pytest

import quantviz as qv
from quantviz.lab.classroom import Classroom
from quantviz.lab.state import LabState
from quantviz.schemes.scheme import NONFINITE
from tests.helpers.controls import choose, controls
from tests.helpers.session import address, healthy, numbers, opened, panels, turned

X = np.array([[1.0, np.nan, -3.0, 0.5], [np.inf, 0.25, 2.0, -np.inf]], dtype=np.float32)
OFFERED = "nonfinite_file"


def uploaded(x=X, **link):
    at = opened(**link)
    at.selectbox(key="kind").set_value("file").run()
    return upload(at, x)


def upload(at, x, name="bad.npy"):
    buffer = io.BytesIO()
    np.save(buffer, x)
    at.file_uploader(key="tensor_file").set_value((name, buffer.getvalue(), "application/octet-stream")).run()
    assert not at.exception
    return at


def said(at):
    return " ".join(element.value.replace("\\", "") for element in (*at.error, *at.warning, *at.info))


def keys(at):
    return {radio.key for radio in at.radio}


def test_the_message_says_how_many_and_where_and_the_open_tensor_stays():
    at = uploaded()
    assert "values that are NaN or Inf (3), the first is NaN at (0, 1)" in said(at)
    assert panels(at)[0].shape == (8, 8)
    assert at.radio(key=OFFERED).value == "refuse"
    assert len(at.radio(key=OFFERED).options) == len(NONFINITE)
    # It still waits after something else was done.
    at.radio(key=OFFERED).set_value("refuse").run()
    assert panels(at)[0].shape == (8, 8)


@pytest.mark.parametrize("choice", ["clip", "ignore"])
def test_each_choice_opens_the_file(choice):
    at = uploaded()
    at.radio(key=OFFERED).set_value(choice).run()
    healthy(at)
    r = qv.quantize(X, qv.Scheme.parse(address(at)["s"]))
    assert r.scheme.nonfinite == choice
    for shown, own in zip(panels(at), (r.x, r.q, r.x_hat, r.error), strict=True):
        assert np.array_equal(shown, own.numpy(), equal_nan=True)
    assert numbers(at)[0].value == f"{qv.metrics(r)['mse']:.4g}"
    assert str(r.notes[0]) in said(at)
    # The choice is among the range's controls, and the offer is gone.
    assert controls(at)["nonfinite"]["value"] == choice
    assert OFFERED not in keys(at)
    # Undo brings the tensor back that was open before.
    choose(at, "undo")
    assert panels(healthy(at))[0].shape == (8, 8)


def test_every_cell_of_it_can_be_clicked():
    at = uploaded()
    at.radio(key=OFFERED).set_value("ignore").run()
    for row, col in np.ndindex(X.shape):
        at.number_input(key="cell_row").set_value(row)
        at.number_input(key="cell_col").set_value(col).run()
        sentence = next(
            element.proto.body for element in healthy(at).get("html") if "qv-sentence" in element.proto.body
        )
        assert ("left out" in sentence) == (not np.isfinite(X[row, col]))


def test_the_choice_in_the_range_group():
    at = uploaded()
    at.radio(key=OFFERED).set_value("clip").run()
    choose(at, ("nonfinite", "ignore"))
    assert address(healthy(at))["s"].endswith(",ignore")
    # Refusing the tensor that is open is told in place, and it stays open as it was.
    choose(at, ("nonfinite", "refuse"))
    assert "NaN or Inf (3)" in said(at)
    assert address(at)["s"].endswith(",ignore")
    assert panels(at)[0].shape == X.shape


def test_a_finite_tensor_has_no_such_control_unless_it_was_chosen():
    assert "nonfinite" not in keys(opened())
    at = opened(s="int4,symmetric,per_tensor,min_max,course,clip")
    assert controls(at)["nonfinite"]["value"] == "clip"
    choose(at, ("nonfinite", "refuse"))
    assert "nonfinite" not in keys(healthy(at))


def test_a_tensor_is_opened_at_once_where_the_scheme_says_what_to_do():
    at = uploaded(s="int4,symmetric,per_tensor,min_max,course,ignore")
    assert panels(healthy(at))[0].shape == X.shape


def test_another_file_takes_the_place_of_the_one_that_waits():
    at = uploaded()
    upload(at, np.ones((3, 3), dtype=np.float32), "good.npy")
    assert panels(healthy(at))[0].shape == (3, 3)
    assert OFFERED not in keys(at)
    upload(at, X)
    at.file_uploader(key="tensor_file").set_value(
        ("worse.npy", b"\x93NUMPY", "application/octet-stream")
    ).run()
    assert OFFERED not in keys(at)


def test_nothing_finite_at_all():
    at = uploaded(np.full((2, 2), np.nan, dtype=np.float32))
    at.radio(key=OFFERED).set_value("clip").run()
    assert panels(healthy(at))[0].shape == (2, 2)
    assert panels(at)[2].tolist() == [[0, 0], [0, 0]]
    assert numbers(at)[0].value == "–"
    choose(at, ("nonfinite", "ignore"))
    assert numbers(healthy(at))[0].value == "–"


def test_typed_values():
    at = opened()
    at.selectbox(key="kind").set_value("typed").run()
    at.text_area(key="typed_text").set_value("1 nan\n-2 inf").run()
    assert "NaN or Inf (2)" in said(at)
    assert panels(at)[0].shape == (8, 8)
    at.radio(key="nonfinite_typed").set_value("ignore").run()
    assert np.array_equal(panels(healthy(at))[0], [[1, np.nan], [-2, np.inf]], equal_nan=True)
    # Its link opens the same state.
    again = opened(**address(at))
    assert np.array_equal(panels(healthy(again))[0], [[1, np.nan], [-2, np.inf]], equal_nan=True)


def test_a_link_whose_scheme_refuses_its_tensor_offers_the_choice():
    at = opened()
    at.selectbox(key="kind").set_value("typed").run()
    at.text_area(key="typed_text").set_value("1 nan\n-2 inf").run()
    at.radio(key="nonfinite_typed").set_value("ignore").run()
    link = address(at) | {"s": "int4,symmetric,per_tensor,min_max,course"}
    again = opened(**link)
    assert "NaN or Inf (2)" in said(again)
    again.radio(key="nonfinite_page").set_value("clip").run()
    x, q, x_hat, _ = panels(healthy(again))
    assert np.array_equal(x, [[1, np.nan], [-2, np.inf]], equal_nan=True)
    # +Inf saturates, NaN is 0.
    assert (q[1, 1], q[0, 1], x_hat[0, 1]) == (7, 0, 0)
    assert x_hat[1, 1] == x_hat.max()


@pytest.mark.nightly
def test_a_recipe_and_a_baseline_keep_the_choice():
    x = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
    x[0, 0] = np.nan
    at = turned(opened(), "compare")
    at.button(key="set_baseline").click().run()  # it refuses NaN
    at.selectbox(key="kind").set_value("file").run()
    upload(at, x).radio(key=OFFERED).set_value("ignore").run()
    assert len(numbers(healthy(at))) == 5
    choose(at, ("recipe", "int8_per_row"))
    assert address(healthy(at))["s"] == f"{qv.RECIPES['int8_per_row']},ignore"


def test_a_locked_range_keeps_its_choice():
    room = str(Classroom(locked=frozenset({"range"})))
    at = uploaded(k=room)
    assert at.radio(key=OFFERED).disabled
    assert panels(at)[0].shape == (8, 8)
    at = uploaded(k=room, s="int4,symmetric,per_tensor,min_max,course,ignore")
    assert panels(healthy(at))[0].shape == X.shape
    assert controls(at)["nonfinite"]["disabled"]


@pytest.mark.parametrize("choice", NONFINITE)
def test_a_link_carries_the_choice(choice):
    from quantviz.lab.state import opening

    state = opening().replace(scheme=qv.Scheme("int4", nonfinite=choice))
    assert LabState.read(state.written()) == (state, ())
