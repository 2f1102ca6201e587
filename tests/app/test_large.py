"""The Lab on tensors larger than the screen."""

import re

import numpy as np
import pytest

import quantviz as qv
from quantviz.sources import OneOutlier
from quantviz.streaming import surveying
from quantviz.text import text
from quantviz.ui.lab.range import range_tab
from quantviz.ui.shell import shared_cache
from tests.helpers.controls import choose
from tests.helpers.session import (
    act,
    address,
    healthy,
    keys_of,
    numbers,
    opened,
    panels,
    spec,
    table,
    told,
    turned,
    unfolded,
)
from tests.helpers.session import (
    lab_state as state,
)

SIDES = {"rows": 300, "cols": 260}
LARGE = "one_outlier(rows=300,cols=260,value=40,row=271,col=13)"
SCHEME = "int4,symmetric,per_channel(axis=0),min_max,course"


@pytest.fixture
def x():
    return OneOutlier(**SIDES, value=40.0, row=271, col=13).tensor()


@pytest.fixture
def at():
    return opened(t=LARGE, s=SCHEME)


def figure(at):
    return spec(at, "panels_chart")


def jump(at, name):
    return healthy(act(at, go_to=name))


def test_the_whole_is_a_picture_and_a_part_is_cells(at, x):
    assert {trace["type"] for trace in figure(at)["data"]} == {"image", "heatmap"}
    jump(at, "largest_value")
    assert state(at).cell == (271, 13)
    view = state(at).view
    assert view.size((300, 260)) == (32, 32)
    cells = x[view.top : view.top + 32, view.left : view.left + 32].numpy()
    assert np.array_equal(panels(at)[0], cells)


def test_jumps_find_the_worst(at, x):
    error = qv.quantize(x, qv.Scheme.parse(SCHEME)).error
    largest = divmod(int(error.abs().argmax()), SIDES["cols"])
    assert state(jump(at, "largest_error")).cell == largest
    assert state(jump(at, "worst_row")).cell[0] == int(error.double().square().sum(1).argmax()) == 271
    assert state(jump(at, "worst_column")).cell[1] == int(error.double().square().sum(0).argmax())
    assert state(jump(at, "worst_block")).cell[0] == 271


def test_the_window_by_numbers_and_in_the_link(at):
    for name, value in (("height", 20), ("width", 30), ("top", 299)):
        choose(at, (f"view_{name}", value))
    view = state(at).view
    assert (view.top, view.left, view.height, view.width) == (280, 0, 20, 30)
    again = opened(**address(at))
    assert state(again).view == view
    # A cell out of sight moves the window to it.
    moved = state(act(again, cell_row=3)).view
    assert moved.top <= 3 < moved.top + 20
    assert (moved.height, moved.width) == (20, 30)


def test_what_a_pixel_shows_is_chosen_and_kept(at):
    before = figure(at)["data"][0]["source"]
    act(unfolded(at), pool="rms")
    assert figure(at)["data"][0]["source"] != before
    assert address(at)["p"] == "rms"
    assert "pool" not in keys_of(unfolded(jump(at, "largest_value")))


def test_errors_of_one_cell_are_told_apart_only_there():
    at = opened(t=LARGE, s=SCHEME, e="steps")
    assert text("error.of_one_cell") in told(unfolded(at), "caption")
    assert text("error.of_one_cell") not in told(unfolded(jump(at, "largest_value")), "caption")


@pytest.mark.parametrize(
    ("what", "first"), [("cells", "error"), ("rows", "noise_share"), ("columns", "rmse"), ("blocks", "scale")]
)
def test_the_ranked_table(at, what, first):
    at.session_state["worst"] = True
    act(at.run(), worst_of=what)
    assert list(table(at, first).index) == list(range(1, 21))


@pytest.mark.nightly
def test_a_tensor_too_large_to_be_made_as_a_whole(monkeypatch):
    """The same page from streaming passes: what it says stays the same. What is said of a part is held by
    `tests/analysis`.
    """
    link = {"t": LARGE, "s": SCHEME, "a": "0.1_0.0_264.0.30.30", "c": "271.13"}
    said = [(metric.label, metric.value, metric.delta) for metric in numbers(opened(**link))]
    monkeypatch.setattr("quantviz.analysis.study.MOST_WHOLE", 1000)
    monkeypatch.setattr("quantviz.lab.state.MOST_WHOLE", 1000)
    shared_cache._cache.cache_clear()
    at = opened(**link)
    assert [(metric.label, metric.value, metric.delta) for metric in numbers(at)] == said
    assert turned(at, "compare").button(key="compare_open").disabled
    assert "Measured on" not in told(at, "markdown"), "the part is all of it"
    monkeypatch.setattr("quantviz.analysis.sampled_part.SAMPLED", 2**11)
    monkeypatch.setattr(range_tab, "_CELLS", 2**13)
    shared_cache._cache.cache_clear()
    measured_on = r"Measured on [\d.]+.% of the values"
    # In *Range* at first of the selected cell's block alone.
    for tab, chosen, exact in (
        ("compare", {}, "recipes_exact"),
        ("range", {"calibrations_of": "tensor"}, "calibrations_exact"),
    ):
        act(turned(at, tab), **chosen)
        assert re.search(measured_on, told(healthy(at.run()), "markdown")), tab
        assert "Measured on" not in told(act(at, **{exact: True}), "markdown")
    turned(at, "cell")
    # One more pass is taken only for who wants to see what comes of it.
    surveyed = []
    real = surveying.survey
    monkeypatch.setattr(
        surveying, "survey", lambda *given, **named: surveyed.append(1) or real(*given, **named)
    )
    healthy(at.run())
    assert (len(at.get("plotly_chart")), surveyed) == (1, [])
    at.session_state["histograms"] = at.session_state["scales"] = True
    healthy(at.run())
    assert len(surveyed) == 1
    healthy(act(unfolded(at), scope="slice"))
    shared_cache._cache.cache_clear()
