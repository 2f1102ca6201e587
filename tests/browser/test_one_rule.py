"""Python and the browser write the same numbers and show the same errors: the browser follows what the server
hands it.
"""

import dataclasses
import json
import re

import numpy as np
import pytest

import quantviz as qv
from quantviz.browser import read_script
from quantviz.figures.numbers import WRITING, short_number
from quantviz.figures.panels_data import result_panels
from quantviz.tensors.views import ERROR_VIEWS

BRIDGE = read_script("panels_bridge")


@pytest.fixture(scope="module")
def bridge(browser):
    """A blank page with the bridge's own functions."""
    page = browser.new_page()
    page.goto("about:blank")
    source = BRIDGE + "\nObject.assign(window, { significant, shownError });"
    page.evaluate(
        """async (source) => {
            await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
        }""",
        source,
    )
    yield page
    page.close()


def numbers():
    rng = np.random.default_rng(0)
    spread = (rng.standard_normal(3000) * 10.0 ** rng.integers(-12, 12, 3000)).astype(np.float32).tolist()
    whole = rng.integers(-(2**31), 2**31, 300).tolist() + rng.integers(-300, 300, 300).tolist()
    ties = [sign * k / 2**p for k in range(1, 64) for p in range(1, 8) for sign in (1, -1)]
    edges = [
        0.0,
        -0.0,
        1e-4,
        0.99999e-4,
        0.000099996,
        999999.0,
        999999.6,
        1e6,
        -1e6,
        1e21,
        3e38,
        1e-45,
        0.15,
        0.25,
        2.125,
        1234.5,
        9.995,
        99.95,
    ]
    return [*spread, *map(float, whole), *ties, *edges]


def test_the_browser_writes_a_number_as_the_server_does(bridge):
    values, writing = numbers(), dataclasses.asdict(WRITING)
    for digits in {*WRITING.value, *WRITING.code, *WRITING.decoded, WRITING.card}:
        got = bridge.evaluate(
            "([values, digits, writing]) => values.map((value) => significant(value, digits, writing))",
            [values, digits, writing],
        )
        wrong = [
            (value, there, here)
            for value, there in zip(values, got, strict=True)
            if there != (here := short_number(value, digits))
        ]
        assert not wrong, (digits, len(wrong), wrong[:5])
    strange = bridge.evaluate(
        "(writing) => [NaN, Infinity, -Infinity].map((value) => significant(value, 3, writing))", writing
    )
    assert strange == [short_number(value) for value in (float("nan"), float("inf"), float("-inf"))]


@pytest.mark.parametrize("view", ERROR_VIEWS)
@pytest.mark.parametrize(
    "form",
    [
        "int4,asymmetric,per_group(size=8),min_max,course",
        "float4_e2m1fn,symmetric,per_channel,min_max,course",
    ],
)
def test_the_browser_shows_the_error_as_the_server_does(bridge, view, form):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((48, 64)).astype(np.float32)
    x[0, :8] = x[5, 5] = 0.0
    x[7, 8:16] = 0.0
    data = result_panels(qv.quantize(x, qv.Scheme.parse(form)), error_view=view)
    cells = [
        {"x": x, "error": error, "step": step}
        for x, error, step in zip(
            data.x.ravel().tolist(),
            data.error.ravel().tolist(),
            data.blocks.step.astype(np.float32).ravel().tolist(),
            strict=True,
        )
    ]
    # JSON has no NaN.
    found = bridge.evaluate(
        """([cells, view]) => {
            const shown = cells.map((cell) => shownError(cell, view));
            return shown.map((value) => (Number.isNaN(value) ? null : value));
        }""",
        [cells, dataclasses.asdict(ERROR_VIEWS[view])],
    )
    got = np.array([np.nan if value is None else value for value in found], dtype=np.float64).reshape(
        data.shape
    )
    np.testing.assert_array_equal(got, data.shown_error.astype(np.float64))


def test_the_browser_has_no_list_of_views_and_no_digits_of_its_own():
    """What an error view is and how a number is written stands in Python alone."""
    assert not re.findall(r"""["'](?:signed|relative|steps|NaN|∞|−∞)["']""", BRIDGE)
    assert not re.findall(r"significant\([^)]*,\s*\d", BRIDGE)
    assert all(name in BRIDGE for name in ("writing.least", "writing.most", "cells.rounding"))
    assert json.loads(json.dumps(dataclasses.asdict(WRITING)))["card"] == WRITING.card
