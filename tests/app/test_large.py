"""The Lab on tensors larger than the screen."""

import base64
import json
import re

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.sources import OneOutlier
from quantviz.streaming import surveying
from quantviz.tensors.views import View
from quantviz.text import text
from quantviz.ui.lab.picture import navigation
from quantviz.ui.lab.range import range_tab
from quantviz.ui.shell import shared_cache
from tests.helpers.controls import choose
from tests.helpers.session import address, healthy, numbers, opened, turned

SIDES = {"rows": 300, "cols": 260}
LARGE = "one_outlier(rows=300,cols=260,value=40,row=271,col=13)"
SCHEME = "int4,symmetric,per_channel(axis=0),min_max,course"


@pytest.fixture
def x():
    return OneOutlier(**SIDES, value=40.0, row=271, col=13).tensor()


def figure(at):
    return json.loads(at.get("plotly_chart")[0].proto.spec)


def state(at):
    return at.session_state["lab_state"].now


def jump(at, name):
    return healthy(at.menu_button(key="go_to").click(name).run())


def test_the_whole_is_a_picture_and_a_part_is_cells(x):
    at = healthy(opened(t=LARGE, s=SCHEME))
    assert {trace["type"] for trace in figure(at)["data"]} == {"image", "heatmap"}
    jump(at, "largest_value")
    assert state(at).cell == (271, 13)
    assert state(at).view.size((300, 260)) == (32, 32)
    heat = [trace for trace in figure(at)["data"] if trace["type"] == "heatmap"]
    z = heat[0]["z"]
    cells = np.frombuffer(base64.b64decode(z["bdata"]), dtype=z["dtype"]).reshape(
        [int(n) for n in z["shape"].split(",")]
    )
    view = state(at).view
    assert np.array_equal(cells, x[view.top : view.top + 32, view.left : view.left + 32].numpy())


def test_jumps_find_the_worst(x):
    at = healthy(opened(t=LARGE, s=SCHEME))
    error = qv.quantize(x, qv.Scheme.parse(SCHEME)).error
    assert state(jump(at, "largest_error")).cell == tuple(
        int(i) for i in torch.nonzero(error.abs() == error.abs().max())[0]
    )
    assert state(jump(at, "worst_row")).cell[0] == int(error.double().square().sum(1).argmax()) == 271
    assert state(jump(at, "worst_column")).cell[1] == int(error.double().square().sum(0).argmax())
    assert state(jump(at, "worst_block")).cell[0] == 271


def test_looking_around_is_no_step_to_undo():
    at = healthy(opened(t=LARGE, s=SCHEME))
    choose(at, ("bits", 8))
    jump(at, "largest_value")
    choose(at, "undo")
    assert state(at).scheme.format == "int4"


def test_the_window_by_numbers_and_in_the_link():
    at = healthy(opened(t=LARGE, s=SCHEME))
    for name, value in (("height", 20), ("width", 30), ("top", 299)):
        at.number_input(key=f"view_{name}").set_value(value)
    at.button(key="show_window").click().run()
    view = state(healthy(at)).view
    assert (view.top, view.left, view.height, view.width) == (280, 0, 20, 30)
    link = address(at)
    again = healthy(opened(**link))
    assert state(again).view == view
    # A cell out of sight moves the window to it.
    again.number_input(key="cell_row").set_value(3).run()
    moved = state(healthy(again)).view
    assert moved.top <= 3 < moved.top + 20
    assert (moved.height, moved.width) == (20, 30)


def test_what_a_pixel_shows_is_chosen_and_kept():
    at = healthy(opened(t=LARGE, s=SCHEME))
    before = figure(at)["data"][0]["source"]
    at.radio(key="pool").set_value("rms").run()
    assert figure(healthy(at))["data"][0]["source"] != before
    assert address(at)["p"] == "rms"
    jump(at, "largest_value")
    assert not [radio for radio in at.radio if radio.key == "pool"]


def test_errors_of_one_cell_are_told_apart_only_there():
    at = healthy(opened(t=LARGE, s=SCHEME, e="steps"))
    assert any(text("error.of_one_cell") == caption.value for caption in at.caption)
    jump(at, "largest_value")
    assert not any(text("error.of_one_cell") == caption.value for caption in at.caption)


@pytest.mark.parametrize(
    ("what", "first"), [("cells", "error"), ("rows", "noise_share"), ("columns", "rmse"), ("blocks", "scale")]
)
def test_the_ranked_table(what, first):
    at = opened(t=LARGE, s=SCHEME)
    at.session_state["worst"] = True
    healthy(at.run())
    at.segmented_control(key="worst_of").set_value(what).run()
    table = next(element.value for element in healthy(at).dataframe if first in element.value.columns)
    assert len(table) == 20
    assert list(table.index) == list(range(1, 21))


def said_of(at):
    return " ".join(each.value for each in at.markdown).replace("\\", "").replace("\u2060", "")


def recipes(at):
    """SQNR of the recipes in the table, by their names."""
    table = next(each.value for each in at.dataframe if "zeroed" in each.value)
    return dict(zip(table["name"], table["sqnr_db"], strict=True))


def gains(at):
    """Decibels gained by the calibrations in the table, the least error first."""
    return next(each.value for each in at.dataframe if "gain" in each.value)["gain"].tolist()


@pytest.mark.nightly
def test_a_tensor_too_large_to_be_made_as_a_whole(monkeypatch, x):
    """The same page from streaming passes: what it says stays the same."""
    at = healthy(opened(t=LARGE, s=SCHEME, a="0.1_0.0_264.0.30.30", c="271.13"))
    said = [(metric.label, metric.value, metric.delta) for metric in numbers(at)]
    monkeypatch.setattr("quantviz.analysis.study.MOST_WHOLE", 1000)
    monkeypatch.setattr("quantviz.lab.state.MOST_WHOLE", 1000)
    shared_cache._cache.clear()
    at = healthy(opened(t=LARGE, s=SCHEME, a="0.1_0.0_264.0.30.30", c="271.13"))
    assert [(metric.label, metric.value, metric.delta) for metric in numbers(at)] == said
    assert turned(at, "compare").button(key="compare_open").disabled
    assert "Measured on" not in said_of(at), "the part is all of it"
    monkeypatch.setattr("quantviz.analysis.sampled_part.SAMPLED", 2**11)
    shared_cache._cache.clear()
    assert re.search(r"Measured on [\d.]+.% of the values", said_of(healthy(at.run())))
    estimated = recipes(at)
    at.toggle(key="recipes_exact").set_value(True).run()
    assert "Measured on" not in said_of(healthy(at))
    exact = recipes(at)
    assert set(exact) == set(estimated)
    assert exact["int4 per row"] == pytest.approx(qv.metrics(qv.quantize(x, "int4_per_row"))["sqnr_db"])
    assert exact["int4 per row"] != estimated["int4 per row"] == pytest.approx(exact["int4 per row"], abs=3)
    monkeypatch.setattr(range_tab, "_CELLS", 2**13)
    at = healthy(turned(at, "range"))
    # At first of the selected cell's block alone.
    healthy(at.segmented_control(key="calibrations_of").set_value("tensor").run())
    assert re.search(r"Measured on [\d.]+.% of the values", said_of(at))
    estimated = gains(at)
    assert any(each.value.endswith(", cells=8192).table()`") for each in at.caption)
    tried = [qv.Percentile(99.9), qv.Percentile(99.0), qv.MSE()]
    part = qv.compare_calibrations(x, SCHEME, tried, cells=8192)
    assert part.share < 0.2
    assert estimated == sorted((row.gain_db for row in part.rows), reverse=True)
    at.toggle(key="calibrations_exact").set_value(True).run()
    assert "Measured on" not in said_of(healthy(at))
    whole = qv.compare_calibrations(x, SCHEME, tried)
    assert gains(at) == sorted((row.gain_db for row in whole.rows), reverse=True)
    assert estimated == pytest.approx(gains(at), abs=0.5)
    turned(at, "cell")
    # One more pass is taken only for who wants to see what comes of it.
    surveyed = []
    survey = surveying.survey
    monkeypatch.setattr(
        surveying, "survey", lambda *given, **named: surveyed.append(given) or survey(*given, **named)
    )
    healthy(at.run())
    assert (len(at.get("plotly_chart")), surveyed) == (1, [])
    at.session_state["histograms"] = True
    healthy(at.run())
    assert (len(at.get("plotly_chart")), len(surveyed)) == (3, 1)
    at.radio(key="scope").set_value("slice").run()
    healthy(at)
    at.session_state["scales"] = True
    healthy(at.run())
    shared_cache._cache.clear()


@pytest.mark.parametrize(
    ("button", "large"),
    [("group", qv.PerGroup(128, -1)), ("block", qv.PerBlock(128, 128)), ("flat", qv.Flat(64))],
)
def test_blocks_of_a_layer_begin_as_large_as_they_usually_are(monkeypatch, button, large):
    side = "normal(rows=256,cols=384)"
    assert (
        healthy(choose(opened(t=side, s=SCHEME), ("granularity", button)))
        .session_state["lab_state"]
        .now.scheme.granularity
        != large
    )
    monkeypatch.setattr("quantviz.lab.state.MOST_WHOLE", 1000)
    assert (
        healthy(choose(opened(t=side, s=SCHEME), ("granularity", button)))
        .session_state["lab_state"]
        .now.scheme.granularity
        == large
    )


@pytest.mark.parametrize(
    ("granularity", "shape", "block", "en", "zh"),
    [
        (
            qv.PerGroup(16, axis=1),
            (4096, 11008),
            (3999, 687),
            "row 3999, columns 10992–11007",
            "第 3999 行，第 10992–11007 列",
        ),
        (qv.PerChannel(1), (64, 128), (0, 5), "column 5", "第 5 列"),
        (qv.PerTensor(), (64, 128), (0, 0), "the whole tensor", "整个张量"),
        (
            qv.PerBlock(4, 8),
            (3, 64, 128),
            (1, 2, 0),
            "axis 0: 1, rows 8–11, columns 0–7",
            "轴 0：1，第 8–11 行，第 0–7 列",
        ),
        (qv.Flat(64), (64, 128), (3,), "row 1, columns 64–127", "第 1 行，第 64–127 列"),
        (qv.Flat(256), (64, 128), (1,), "rows 2–3", "第 2–3 行"),
        (qv.Flat(192), (6, 128), (1,), "cells (1, 64) to (2, 127)", "单元格 (1, 64) 到 (2, 127)"),
        (
            qv.Flat(2, strided=True),
            (4, 8),
            (0, 2),
            "from (0, 2) on, every 16 cells",
            "从 (0, 2) 起，每 16 个单元格取一个",
        ),
    ],
)
def test_a_blocks_place_in_the_tensor_is_told_in_words(monkeypatch, granularity, shape, block, en, zh):
    for language, told in (("en", en), ("zh", zh)):
        monkeypatch.setattr(
            navigation, "say", lambda key, _language=language, **params: text(key, _language, **params)
        )
        assert navigation.block_words(granularity.layout(shape), shape, View.of(shape), block) == told


def test_the_table_of_the_worst_blocks_tells_where_they_lie():
    at = opened(t=LARGE, s="int4,symmetric,per_group(size=20,axis=-1),min_max,course")
    at.session_state["worst"], at.session_state["worst_of"] = True, "blocks"
    table = next(
        element.value for element in healthy(at.run()).dataframe if "noise_share" in element.value.columns
    )
    assert all(re.fullmatch(r"row \d+, columns \d+–\d+", place) for place in table["block"])
