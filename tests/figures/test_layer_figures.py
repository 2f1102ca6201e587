"""The figures of a layer: what they draw is what the layer has."""

import numpy as np
import pytest
import torch

import quantviz as qv
from quantviz.figures.layer_plots import MIRRORED, PairPoint, channels_figure, pairs_figure
from quantviz.figures.model_run_plots import (
    coloured,
    depth_figure,
    effects_figure,
    kinds_of,
    predictions_figure,
)
from quantviz.figures.multiplication import ColourEnds, multiplication_alt, multiplication_figure
from quantviz.layers.layer_picture import layer_picture
from quantviz.models.layer_effects import CHEAP, LayerEffect


@pytest.fixture(scope="module")
def result():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 40, generator=generator)
    x[:, 7] *= 30
    return qv.layer(torch.randn(20, 40, generator=generator), x, "int4_per_row", "int8_per_tensor")


def spec(figure):
    found = figure.to_dict()
    figure.update_layout(height=100)  # plotly itself takes it
    return found


def test_the_parts_lie_as_in_the_multiplication_and_share_their_axes(result):
    picture = layer_picture(result, (0, 12), (0, 40), (0, 20), "error", 64)
    ends = ColourEnds(1.0, 2.0, 3.0)
    drawn = multiplication_figure(picture, ends, height=400)
    layout = drawn.to_dict()["layout"]
    assert layout["xaxis2"]["domain"] == layout["xaxis3"]["domain"]
    assert layout["yaxis"]["domain"] == layout["yaxis3"]["domain"]
    assert layout["xaxis"]["domain"][1] < layout["xaxis3"]["domain"][0]
    assert layout["yaxis3"]["domain"][1] < layout["yaxis2"]["domain"][0]
    assert (layout["xaxis2"]["matches"], layout["yaxis3"]["matches"]) == ("x3", "y")
    traces = spec(drawn)["data"]
    assert [trace["zmax"] for trace in traces] == [1.0, 2.0, 3.0]
    words = multiplication_alt(picture, ends, "zh")
    assert "0–39" in words
    assert "±3" in words


def test_small_parts_have_their_values_printed():
    result = qv.layer(torch.eye(3), torch.ones(2, 3), "int8_per_tensor", None)
    picture = layer_picture(result, (0, 2), (0, 3), (0, 3), "x", 64)
    traces = multiplication_figure(picture, ColourEnds(1, 1, 1), height=400).to_dict()["data"]
    assert all("texttemplate" in trace for trace in traces)


def printed_errors(w, x):
    """The picture of the errors of a small layer in int8, and the texts in its cells."""
    result = qv.layer(w, x, "int8_per_tensor", "int8_per_tensor")
    picture = layer_picture(result, (0, 5), (0, 5), (0, 5), "error", 64)
    traces = multiplication_figure(picture, ColourEnds(0, 0, 0), height=400).to_dict()["data"]
    return picture, [trace["text"] for trace in traces]


def test_an_error_of_float32s_own_is_printed_as_0_and_keeps_its_value():
    # The scale 0.37 is no float32, so that codes times it are off by a last bit.
    generator = torch.Generator().manual_seed(1)
    codes = (torch.randint(-126, 127, (5, 5), generator=generator).double() for _ in range(2))
    x, w = ((each * 0.37).float() for each in codes)
    x[0, 0] = w[0, 0] = 127 * 0.37
    picture, texts = printed_errors(w, x)
    assert {text for part in texts for row in part for text in row} == {"0"}
    assert all(0 < part.largest < 1e-3 for part in (picture.x, picture.w, picture.y))
    w[1, 2] += 1e-3
    _, texts = printed_errors(w, x)
    assert float(texts[1][2][1].replace("−", "-")) == pytest.approx(-1e-3, rel=1e-3)
    assert sum(text != "0" for row in texts[1] for text in row) == 1
    assert all(row[1] != "0" for row in texts[2])


@pytest.mark.parametrize("mirrored", MIRRORED)
@pytest.mark.parametrize("ranked", [True, False])
def test_channels_stand_upwards_and_downwards(result, mirrored, ranked):
    channels = result.channels
    drawn = spec(channels_figure(channels, mirrored, ranked=ranked, height=270, language="zh"))
    upper, lower = (np.array(trace["y"]) for trace in drawn["data"])
    order = drawn["data"][0]["customdata"]
    wanted = getattr(channels, MIRRORED[mirrored][0])
    assert np.allclose(upper, wanted[order] / wanted.max())
    assert upper.max() == 1
    assert lower.min() == -1
    if ranked:
        assert (np.diff(upper) <= 0).all()
    else:
        assert order == list(range(40))
    if mirrored == "size":
        assert "7" in [each["text"] for each in drawn["layout"]["annotations"]]


def test_pairs_without_an_error_stand_at_the_edge():
    points = [
        PairPoint("A", "one", 40.0, 20.0),
        PairPoint("B", "other", float("inf"), 30.0),
    ]
    diagonal, dots = spec(pairs_figure(points, 0, height=250))["data"]
    assert diagonal["x"] == diagonal["y"]
    assert dots["y"] == [20.0, 30.0]
    assert dots["x"][0] == 40.0
    assert dots["x"][1] == diagonal["x"][1]


def test_dots_and_lines_have_the_colours_of_the_legend_beside_them():
    names = [f"model.layers.{n}.{kind}" for n in range(2) for kind in ("self_attn.q_proj", "fc1", "fc2")]
    effects = [LayerEffect(name, 20.0 + k, 0.01 * k, 0.1 * k, 0.2) for k, name in enumerate(names)]
    legend = coloured(kinds_of(effects).values(), "dark")
    for cheap in CHEAP:
        drawn = spec(predictions_figure(effects, cheap, height=230, theme="dark"))
        assert [(each["name"], each["marker"]["color"]) for each in drawn["data"]] == legend
        assert not drawn["layout"]["showlegend"]
    runs = {"4 bits": {"model.layers.0.attention": 0.1}, "3 bits": {"model.layers.0.attention": 0.3}}
    lines = spec(depth_figure(runs, height=230))["data"]
    assert [(each["name"], each["line"]["color"]) for each in lines] == coloured(runs, "light")


def test_the_names_of_kinds_stand_above_the_map_of_a_model_that_runs():
    effects = [LayerEffect("model.layers.0.fc1", 9.21, 0.01, 0.1, 0.2)]
    drawn = spec(effects_figure(effects, "weight_db"))
    assert drawn["layout"]["xaxis"]["side"] == "top"
    assert drawn["data"][1]["text"] == ["9.2"]
    assert "9.2 dB" in drawn["data"][1]["hovertext"][0]
