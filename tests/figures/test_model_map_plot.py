"""The picture of a model: every square once, its number on its point, names of strangers as text."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest

from quantviz.checkpoints.model_map import COLOURS, ModelMap, Square, model_map, read_model
from quantviz.checkpoints.results.typed_tables import TypedTable
from quantviz.figures.model_map_plot import (
    card,
    distribution_figure,
    model_map_figure,
    scale_of,
    winners,
)
from quantviz.figures.theme import THEMES
from quantviz.text import languages

RECIPES = ("int4_g128", "int8_per_row")
HOSTILE = "model.layers.0.<img src=x onerror=alert(1)>%{x}.weight"


@pytest.fixture(scope="module")
def model():
    numbers = {"peak_rms": 8.0, "kurtosis": 5.0, "effective_bits": 4.1, "reason": None}
    names = ["embed.weight", HOSTILE, *(f"model.layers.{n}.up.weight" for n in range(3))]
    rows = [
        numbers
        | {"tensor": name, "file": "f", "recipe": recipe, "shape": (8, 8), "dtype": "F32"}
        | {"status": "ok" if k < 4 else "problem", "sqnr_db": (float("inf") if k == 0 else 12.0 + k + 20 * r)}
        for k, name in enumerate(names)
        for r, recipe in enumerate(RECIPES)
    ]
    return read_model([(name, (8, 8), "F32", "f") for name in names], TypedTable.of(rows).rows, RECIPES)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("theme", THEMES)
def test_every_square_is_painted_once_and_answers_by_its_number(model, colour, theme):
    data = model_map(model, "int4_g128", colour)
    figure = go.Figure(model_map_figure(data, theme=theme, language=languages()[0]))
    painted = sum(
        int(np.isfinite(np.asarray(trace.z, float)).sum()) for trace in figure.data if trace.type == "heatmap"
    )
    points = [trace for trace in figure.data if trace.type == "scatter"]
    assert painted == len(data.squares)
    assert sorted(each[0] for trace in points for each in trace.customdata) == list(range(len(data.squares)))
    assert not any(trace.marker.opacity for trace in points)


def test_a_square_and_its_card_write_a_number_alike_and_kinds_are_named_above(model):
    data = model_map(model, "int4_g128", "against_median")
    drawn = model_map_figure(data).to_dict()
    points = [trace for trace in drawn["data"] if trace["type"] == "scatter"]
    told = [pair for trace in points for pair in zip(trace["text"], trace["hovertext"], strict=True)]
    numbers = [(printed, words) for printed, words in told if "against the median" in words]
    assert {"−0.5", "+0.5"} <= {printed for printed, _ in numbers}
    assert all(f"{printed} dB against" in words for printed, words in numbers)
    rows, strip = (drawn["layout"][name] for name in ("yaxis", "yaxis2"))
    assert (drawn["layout"]["xaxis"]["side"], drawn["layout"]["xaxis2"]["side"]) == ("top", "bottom")
    assert strip["domain"][1] < rows["domain"][0]


def test_a_tensor_of_another_type_has_a_corner_and_is_told():
    row = {"tensor": "a.weight", "file": "f", "recipe": "q4_k", "shape": (8, 96), "dtype": "F32"}
    row |= {"status": "ok", "sqnr_db": 27.0, "effective_bits": 5.5, "peak_rms": 4.0, "kurtosis": 3.0}
    for fallback, corners, type_told in ((None, 0, "Q4_K"), ("q5_0", 1, "Q5_0")):
        model = read_model(
            [("a.weight", (8, 96), "F32", "f")], TypedTable.of([row | {"fallback": fallback}]).rows, ["q4_k"]
        )
        data = model_map(model, "q4_k")
        traces = go.Figure(model_map_figure(data)).data
        assert (
            sum(
                len(trace.x)
                for trace in traces
                if trace.type == "scatter" and trace.marker.symbol == "triangle-ne"
            )
            == corners
        )
        told = card(data.squares[0], data)
        assert type_told in told
        assert ("in place of Q4_K" in told) == bool(fallback)


@pytest.mark.parametrize("language", languages())
def test_a_stranger_s_name_is_text(model, language):
    for figure in (
        model_map_figure(model_map(model, "int4_g128"), language=language),
        distribution_figure(model, "int4_g128", language=language),
    ):
        sent = json.dumps(figure.to_dict(), default=str)
        assert "<img" not in sent
        assert "&lt;img" in sent


def test_colours_run_over_the_numbers_of_the_map_and_two_beside_each_other_share_them(model):
    maps = [model_map(model, recipe) for recipe in RECIPES]
    for recipe, data, expected in zip(RECIPES, maps, ((11, 17), (31, 37)), strict=True):
        scale = scale_of(data)
        assert (scale.lowest, scale.highest) == expected, recipe
        assert scale.at(float("inf")) == scale.highest
        ends = {
            (trace.zmin, trace.zmax)
            for trace in go.Figure(model_map_figure(data)).data
            if trace.type == "heatmap" and trace.zmax != 1
        }
        assert ends == {expected}
    both = scale_of(*maps)
    assert (both.lowest, both.highest) == (10, 35)
    assert both.ticks[0] == both.lowest
    assert both.ticks[-1] == both.highest


@pytest.mark.parametrize("colour", ["against_median", "peak_rms", "kurtosis", "sqnr_db"])
def test_a_colour_scale_holds_its_numbers_whatever_they_are(colour):
    for values in ((), (0.0,), (-2.5, 1.0), (4.9, 5.0), (3.0, 250.0), (-1e308, 1e308), (1.2, 40_000.0)):
        squares = tuple(Square(0, k, f"{k}", 1, "ok", value) for k, value in enumerate(values))
        scale = scale_of(ModelMap(colour, (), (), (), (), squares))
        assert scale.lowest < scale.highest
        assert 2 <= len(scale.ticks) <= 9
        assert all(scale.lowest <= tick <= scale.highest for tick in scale.ticks)
        if colour == "against_median":
            assert scale.lowest == -scale.highest


def test_the_worst_are_outlined_also_as_one_of_many_experts():
    names = [f"model.layers.{n}.mlp.experts.{e}.down.weight" for n in range(2) for e in range(2)]
    rows = [
        {"tensor": name, "file": "f", "recipe": "int4_g128", "shape": (8, 8), "dtype": "F32", "status": "ok"}
        | {"sqnr_db": 10.0 + k, "peak_rms": 8.0, "kurtosis": 5.0, "effective_bits": 4.1}
        for k, name in enumerate(names)
    ]
    data = model_map(
        read_model([(name, (8, 8), "F32", "f") for name in names], TypedTable.of(rows).rows, RECIPES),
        RECIPES[0],
    )
    layout = go.Figure(model_map_figure(data, worst=(names[1], names[3], names[0]))).layout
    assert [(each.y, each.text) for each in layout.annotations] == [(-0.5, "1 3"), (0.5, "2")]
    assert len(layout.shapes) == 4


def test_a_checkpoint_of_nothing_is_a_picture_all_the_same():
    empty = read_model([], [], RECIPES)
    assert go.Figure(model_map_figure(model_map(empty, RECIPES[0]))).layout.height > 0
    assert len(go.Figure(distribution_figure(empty, RECIPES[0])).data) == 2


def test_a_choice_is_painted_whatever_other_recipes_could_not_do():
    measured = {"shape": (8, 8), "dtype": "F32", "peak_rms": 8.0, "kurtosis": 5.0, "effective_bits": 4.1}
    statuses = {"odd": "refused", "even": "ok", "kept": "ok"}
    rows = [
        measured
        | {"tensor": f"model.layers.0.{name}.weight", "file": "f", "recipe": recipe, "reason": None}
        | ({"status": "ok", "sqnr_db": 40.0} if recipe == RECIPES[1] else {"status": status, "sqnr_db": 20.0})
        for name, status in statuses.items()
        for recipe in RECIPES
    ]
    names = [f"model.layers.0.{name}.weight" for name in statuses]
    of_three = read_model([(name, (8, 8), "F32", "f") for name in names], TypedTable.of(rows).rows, RECIPES)
    data = model_map(of_three, RECIPES[0], choice=dict(zip(names[:2], RECIPES[::-1], strict=True)))
    told = {square.tensor: (square.status, square.winner) for square in data.squares}
    assert told == dict(zip(names, [("ok", RECIPES[1]), ("ok", RECIPES[0]), ("kept", "")], strict=True))
    said = {square.tensor: card(square, data) for square in data.squares}
    assert "40.0 dB" in said[names[0]]
    assert "int8" in said[names[0]]
    assert "20.0 dB" in said[names[1]]
    assert [name for name, _ in winners(data)] == list(RECIPES)
    figure = go.Figure(model_map_figure(data))
    painted = sum(int(np.isfinite(np.asarray(t.z, float)).sum()) for t in figure.data if t.type == "heatmap")
    assert painted == len(names)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_labels_of_a_low_map_s_colour_bar_have_room_each(count):
    names = [f"model.layers.{k}.up.weight" for k in range(count)]
    numbers = {"peak_rms": 8.0, "kurtosis": 5.0, "effective_bits": 4.1, "reason": None, "status": "ok"}
    rows = [
        numbers
        | {"tensor": name, "file": "f", "recipe": "int4_g128", "shape": (8, 8), "dtype": "F32"}
        | {"sqnr_db": 12.0 + k}
        for k, name in enumerate(names)
    ]
    model = read_model(
        [(name, (8, 8), "F32", "f") for name in names], TypedTable.of(rows).rows, ("int4_g128",)
    )
    drawn = model_map_figure(model_map(model, "int4_g128", "sqnr_db")).to_dict()
    (bar,) = (trace["colorbar"] for trace in drawn["data"] if trace.get("showscale"))
    layout = drawn["layout"]
    height = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
    scale = scale_of(model_map(model, "int4_g128", "sqnr_db"))
    assert [bar["tickvals"][0], bar["tickvals"][-1]] == [scale.lowest, scale.highest]
    assert height / (len(bar["tickvals"]) - 1) >= 16
