"""A tensor with NaN and Inf in the Lab: refused with a choice beside the message, and each choice."""

import numpy as np
import pytest

import quantviz as qv
from quantviz.schemes.scheme import NONFINITE
from tests.helpers.controls import choose, controls, value_of, words_of
from tests.helpers.session import (
    act,
    address,
    bodies,
    healthy,
    keys_of,
    numbers,
    opened,
    panels,
    turned,
    upload,
)

X = np.array([[1.0, np.nan, -3.0, 0.5], [np.inf, 0.25, 2.0, -np.inf]], dtype=np.float32)
OFFERED = "nonfinite_file"


def uploaded(x=X, **link):
    return upload(opened(**link), "bad.npy", x)


def said(at):
    return " ".join(element.value.replace("\\", "") for element in (*at.error, *at.warning, *at.info))


def test_the_message_says_how_many_and_where_and_the_open_tensor_stays():
    at = uploaded()
    assert "values that are NaN or Inf (3), the first is NaN at (0, 1)" in said(at)
    assert panels(at)[0].shape == (8, 8)
    assert value_of(at, OFFERED) == "refuse"
    assert len(words_of(at, OFFERED)) == len(NONFINITE)
    # It still waits after something else was done.
    choose(at, (OFFERED, "refuse"))
    assert panels(at)[0].shape == (8, 8)


@pytest.mark.parametrize("choice", ["clip", "ignore"])
def test_each_choice_opens_the_file(choice):
    at = healthy(act(uploaded(), nonfinite_file=choice))
    r = qv.quantize(X, qv.Scheme.parse(address(at)["s"]))
    assert r.scheme.nonfinite == choice
    for shown, own in zip(panels(at), (r.x, r.q, r.x_hat, r.error), strict=True):
        assert np.array_equal(shown, own.numpy(), equal_nan=True)
    assert numbers(at)[0].value == f"{qv.metrics(r)['mse']:.4g}"
    assert str(r.notes[0]) in said(at)
    # The choice is among the range's controls, and the offer is gone.
    assert controls(at)["nonfinite"]["value"] == choice
    assert OFFERED not in keys_of(at)
    # A cell of each kind can be looked at.
    for row, col in ((0, 0), (0, 1), (1, 3)):
        choose(at, ("cell_row", row))
        sentence = bodies(act(at, cell_col=col), "qv-sentence")[0]
        assert ("left out" in sentence) == (not np.isfinite(X[row, col]))
    # Undo brings the tensor back that was open before.
    assert panels(act(at, "undo"))[0].shape == (8, 8)


def test_the_choice_in_the_range_group():
    at = act(uploaded(), nonfinite_file="clip", nonfinite="ignore")
    assert address(healthy(at))["s"].endswith(",ignore")
    # Refusing the tensor that is open is told in place, and it stays open as it was.
    act(at, nonfinite="refuse")
    assert "NaN or Inf (3)" in said(at)
    assert address(at)["s"].endswith(",ignore")
    assert panels(at)[0].shape == X.shape


def test_a_finite_tensor_has_no_such_control_unless_it_was_chosen():
    assert "nonfinite" not in keys_of(opened())
    at = opened(s="int4,symmetric,per_tensor,min_max,course,clip")
    assert controls(at)["nonfinite"]["value"] == "clip"
    assert "nonfinite" not in keys_of(healthy(act(at, nonfinite="refuse")))


def test_another_file_takes_the_place_of_the_one_that_waits():
    at = uploaded()
    assert OFFERED in keys_of(at)
    upload(at, "good.npy", np.ones((3, 3), dtype=np.float32))
    assert panels(healthy(at))[0].shape == (3, 3)
    assert OFFERED not in keys_of(at)
    assert OFFERED in keys_of(upload(at, "bad.npy", X))
    assert OFFERED not in keys_of(upload(at, "worse.npy", b"\x93NUMPY"))


def test_typed_values_and_a_link_whose_scheme_refuses_them():
    at = act(opened(), kind="typed", typed_text="1 nan\n-2 inf")
    assert "NaN or Inf (2)" in said(at)
    assert panels(at)[0].shape == (8, 8)
    act(at, nonfinite_typed="ignore")
    link = address(at)
    for again in (at, opened(**link)):
        assert np.array_equal(panels(healthy(again))[0], [[1, np.nan], [-2, np.inf]], equal_nan=True)
    again = opened(**link | {"s": "int4,symmetric,per_tensor,min_max,course"})
    assert "NaN or Inf (2)" in said(again)
    x, q, x_hat, _ = panels(healthy(act(again, nonfinite_page="clip")))
    assert np.array_equal(x, [[1, np.nan], [-2, np.inf]], equal_nan=True)
    # +Inf saturates, NaN is 0.
    assert (q[1, 1], q[0, 1], x_hat[0, 1]) == (7, 0, 0)
    assert x_hat[1, 1] == x_hat.max()


@pytest.mark.nightly
def test_a_recipe_and_a_baseline_keep_the_choice():
    x = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
    x[0, 0] = np.nan
    at = act(turned(opened(), "compare"), "set_baseline")  # it refuses NaN
    act(upload(at, "bad.npy", x), nonfinite_file="ignore")
    assert len(numbers(healthy(at))) == 5
    assert address(act(at, recipe="int8_per_row"))["s"] == f"{qv.RECIPES['int8_per_row']},ignore"


def test_a_locked_range_keeps_its_choice():
    at = uploaded(k="lock-range")
    assert controls(at)[OFFERED]["disabled"]
    assert panels(at)[0].shape == (8, 8)
    # A tensor is opened at once where the scheme says what to do.
    at = uploaded(k="lock-range", s="int4,symmetric,per_tensor,min_max,course,ignore")
    assert panels(healthy(at))[0].shape == X.shape
    assert controls(at)["nonfinite"]["disabled"]
