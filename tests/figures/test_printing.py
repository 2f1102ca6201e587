"""The values of a panel are printed with one number of decimals, chosen from the values and the room."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import quantviz as qv
from quantviz.figures.numbers import WRITING
from quantviz.figures.panels_data import result_panels
from quantviz.figures.printing import Style, ems, fitting, printed, printing_styles
from quantviz.sources import Builtin

FLOATS = arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    elements=st.floats(-(2.0**100), 2.0**100, width=32),
)


def decimals(shown):
    return {len(re.sub(r"e.*", "", each).partition(".")[2]) for each in shown}


@settings(deadline=None)
@given(FLOATS, st.floats(8, 90), st.floats(8, 60))
def test_all_values_of_a_panel_have_the_same_decimals_and_fit(values, width, height):
    fit = fitting(values.tolist(), printing_styles(values), width, height, 12)
    if fit is None:
        return
    texts, size = fit
    shown = [each for row in texts for each in row]
    powers = any("e" in each for each in shown)
    # By their power of ten 0 is written as it is.
    assert len(decimals(each for each in shown if not (powers and each == "0"))) <= 1
    assert all(ems(each) * size <= width for each in shown)
    assert WRITING.smallest <= size <= min(12, height)


@pytest.mark.parametrize(
    ("values", "style"),
    [
        # Literals keep their decimals.
        ([1.79, -11.95, 23.02, 0.05], Style(2)),
        ([191.6, -13.5, 728.6, 92.14], Style(2)),
        ([3.0, -7.0, 0.0], Style(0)),
        # Others have three significant digits of the largest, and two of the median.
        ([1.64492, -0.73123, 0.0], Style(2)),
        ([0.0512345, 0.0123456], Style(4)),
        ([104.123, 20.1234, 33.1234], Style(1)),
        ([100.1234, 0.67123, 0.73123], Style(2)),
        ([1.23e-5, 4.56e-7], Style(2, power=True)),
        ([2.5e9, 1.5], Style(2, power=True)),
        ([0.0, float("nan"), float("inf")], Style(0)),
    ],
)
def test_the_decimals_follow_from_the_values(values, style):
    assert printing_styles(np.array(values, dtype=np.float32))[0] == style


def test_the_first_screen_is_printed_as_it_was_typed():
    r = qv.quantize(Builtin("loud_column").tensor(), qv.Scheme("int4"))
    data = result_panels(r)
    # A cell at 1366 pixels.
    shown = {
        name: [
            each
            for row in fitting(data.printed(name).tolist(), data.styles(name), 31, 22.6, 12)[0]
            for each in row
        ]
        for name in ("x", "q", "x_hat", "error")
    }
    assert shown["x"][:6] == ["1.79", "−1.63", "0.11", "−0.36", "−0.74", "5.26"]
    assert [float(each.replace("−", "-")) for each in shown["x"]] == pytest.approx(
        r.x.flatten().tolist(), abs=1e-6
    )
    assert {name: decimals(texts) for name, texts in shown.items()} == {
        "x": {2},
        "q": {0},
        "x_hat": {2},
        "error": {2},
    }
    assert "23.02" in shown["x_hat"]


def test_many_values_are_printed_as_few_with_the_same_largest_are():
    values = np.random.default_rng(3).standard_normal((300, 300)).astype(np.float32)
    values[211, 77] = 123456.7
    assert printing_styles(values)[0] == Style(2)
    values[211, 77] = 1.5e9
    assert printing_styles(values)[0] == Style(2, power=True)


def test_x_hat_has_no_fewer_decimals_than_x():
    x = np.array([[1.25, 100.0]], dtype=np.float32)
    assert printing_styles(np.array([[0.0, 100.0]]), like=x)[0] == Style(2)


def test_what_no_longer_shows_a_digit_of_the_median_is_not_printed():
    values = [[0.67, -0.71, 2.5]]
    styles = printing_styles(np.array(values, dtype=np.float32))
    assert fitting(values, styles, 24, 20, 12)[0] == [["0.67", "−0.71", "2.50"]]
    assert fitting(values, styles, 19, 20, 12)[0] == [["0.7", "−0.7", "2.5"]]
    # Last of all the 0 before the point goes.
    assert fitting(values, styles, 15, 20, 12)[0] == [[".7", "−.7", "2.5"]]
    assert fitting(values, styles, 12, 20, 12) is None


def test_a_value_that_rounds_to_0_has_no_sign():
    assert [printed(value, Style(2)) for value in (-0.001, -0.0, 0.004)] == ["0.00"] * 3
