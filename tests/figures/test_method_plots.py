"""The plots of methods: the numbers that they draw."""

import math

import pytest

from quantviz.figures.method_plots import ErrorBars, GridEnds, Histogram, Likeness, method_figure


def test_few_bars_have_names_and_shares_and_many_have_an_outline_alone():
    few = method_figure(
        ErrorBars(("none", "best"), (0.04, 0.01), axis="kept", percent=True), height=100
    ).to_dict()
    assert few["data"][0]["text"] == ["4 %", "1 %"]
    assert few["layout"]["xaxis"]["ticktext"] == ("none", "best")
    names = tuple(map(str, range(32)))
    many = ErrorBars(names, (0.5,) * 32, (1.0,) * 32, frozenset({3}), "group")
    bars, outline = method_figure(many, height=100).to_dict()["data"]
    assert bars["text"] is None
    assert outline["y"] == [1.0] * 32
    assert bars["marker"]["color"][3] != bars["marker"]["color"][4]
    numbers = method_figure(
        ErrorBars(names, (0.5,) * 32, axis="clips", percent=True, numbers=True), height=100
    ).to_dict()
    assert numbers["data"][0]["y"] == [50.0] * 32
    assert numbers["layout"]["xaxis"]["ticktext"] == names[::2]


def test_a_histogram_has_the_gaussian_of_its_bins():
    shares = tuple(0.1 for _ in range(10))
    bars, outline, gaussian = method_figure(Histogram((0.0, *shares[1:]), shares, 5.0), height=100).to_dict()[
        "data"
    ]
    assert bars["x"][0] == -4.5
    assert outline["y"][0] is None
    assert max(gaussian["y"]) == pytest.approx(1 / math.sqrt(2 * math.pi))


def test_a_grid_stands_below_the_histogram_and_a_level_over_bars():
    shares = tuple(0.1 for _ in range(10))
    figure = method_figure(Histogram((), shares, 5.0, grid=(-1.5, 0.5)), height=100).to_dict()
    assert [line["x0"] for line in figure["layout"]["shapes"]] == [-1.5, 0.5]
    assert len(figure["data"]) == 2
    level = method_figure(
        ErrorBars(("a",), (2.0,), level=(6.0, "threshold"), axis="scales"), height=100
    ).to_dict()
    assert level["layout"]["shapes"][0]["y0"] == 6.0
    assert level["layout"]["yaxis"]["range"][1] > 6


def test_each_value_of_a_block_is_tied_to_its_code_and_the_better_end_stands_out():
    ends = GridEnds(
        (6.0, 4.0), ((5.5, -1.2), (3.7, -0.8)), ((6.0, -1.0), (4.0, -1.0)), (0.3, 0.1), (0.0, 1, 4, 6)
    )
    figure = method_figure(ends, height=100).to_dict()
    _, ties, grid, values = figure["data"][:4]
    assert ties["x"] == [5.5, 6.0, None, -1.2, -1.0, None]
    assert grid["x"] == [-6, -4, -1, 0.0, 1, 4, 6]
    assert values["x"] == [5.5, -1.2]
    first, second = figure["layout"]["annotations"]
    assert "<b>" in second["text"]
    assert "<b>" not in first["text"]


def test_likeness_names_the_two_channels_of_each_square():
    square = method_figure(Likeness(((1.0, -0.5), (-0.5, 1.0)), (7, 3)), height=100).to_dict()["data"][0]
    assert "7" in square["text"][0][1]
    assert "3" in square["text"][0][1]
    assert square["zmin"] == -square["zmax"] == -1
