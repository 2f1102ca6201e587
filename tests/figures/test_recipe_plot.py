"""Bits against SQNR: every recipe that fits is a point, and no two labels touch."""

import itertools
import math

import plotly.graph_objects as go
import pytest
import torch

import quantviz as qv
from quantviz.figures.recipe_plot import _LINE, _MARGIN, HEIGHT, answer_sentence, recipe_name, recipe_plot_data, recipe_plot_figure
from quantviz.figures.theme import THEMES
from quantviz.recipes import CURRENT, RECIPES, answer, recipe_rows, row_of
from quantviz.scenarios import SCENARIOS
from quantviz.text import catalogue, languages

TENSORS = {
    **{name: (scenario.source.tensor(), scenario.scheme) for name, scenario in SCENARIOS.items()},
    "zeros": (torch.zeros(4, 128), qv.Scheme("int8")),
    "whole_numbers": (torch.arange(-7, 9).float().repeat(4, 8), qv.Scheme("int6")),
    "vector": (torch.linspace(-1, 1, 7), qv.Scheme("uint2", "asymmetric")),
}


def drawn(name):
    x, scheme = TENSORS[name]
    return recipe_rows(x, current=scheme), row_of(qv.quantize(x, scheme))


@pytest.mark.parametrize("name", TENSORS)
def test_the_points_are_the_rows_that_fit(name):
    rows, current = drawn(name)
    data = recipe_plot_data(rows, current)
    fitting = [row.id for row in rows if row.fits]
    assert [point.row.id for point in data.points if point.row.id != CURRENT] == fitting
    assert data.current is not None
    assert data.current.row.bits == current.bits
    assert sum(point.row.is_current for point in data.points) == 1
    for point in data.points:
        assert point.y == point.row.sqnr_db or math.isinf(point.row.sqnr_db)
        assert data.bits_range[0] < point.row.bits < data.bits_range[1]
        assert data.db_range[0] < point.y < data.db_range[1]
    for point in data.points:
        if math.isinf(point.row.sqnr_db):
            assert point.y >= max(other.y for other in data.points)


@pytest.mark.parametrize("name", TENSORS)
def test_labels_do_not_touch(name):
    data = recipe_plot_data(*drawn(name))
    pixels = (HEIGHT - _MARGIN[2] - _MARGIN[3]) / (data.db_range[1] - data.db_range[0])
    places = sorted(point.label_y for point in data.points)
    assert all((high - low) * pixels >= _LINE - 1e-6 for low, high in itertools.pairwise(places))
    assert data.db_range[0] < places[0]
    assert places[-1] < data.db_range[1]
    for point in data.points:
        assert data.bits_range[0] < point.label_x < data.bits_range[1]
        assert (point.label_x > point.row.bits) == (point.side == "right")


def test_what_is_beaten_is_told():
    rows, _ = drawn("one_outlier")
    beaten = {point.row.id for point in recipe_plot_data(rows).points if point.beaten}
    # One outlier: a scale for all at 8 bits keeps less than rows do at 4.5.
    assert beaten == {"int8_per_tensor"}


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", TENSORS)
def test_it_is_drawn(name, theme, language):
    rows, current = drawn(name)
    figure = go.Figure(recipe_plot_figure(rows, current, language=language, theme=theme).to_dict())
    assert len(figure.layout.annotations) == len(recipe_plot_data(rows, current).points)
    assert figure.layout.height == HEIGHT


def test_nothing_to_show_is_a_valid_figure():
    figure = go.Figure(recipe_plot_figure(()).to_dict())
    assert not figure.layout.annotations
    only_problems = tuple(row for row in recipe_rows(torch.ones(2, 3), current=qv.Scheme()) if not row.fits)
    go.Figure(recipe_plot_figure(only_problems).to_dict())


@pytest.mark.parametrize("language", languages())
def test_every_recipe_has_its_words(language):
    for name in RECIPES:
        assert recipe_name(name, language)
        assert catalogue(language)[f"recipe_plot.short.{name}"]


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("name", TENSORS)
def test_the_sentence_names_the_choice(name, language):
    rows, _ = drawn(name)
    for target in (20.0, 200.0):
        found = answer(rows, target)
        assert recipe_name(found.choice.id, language) in answer_sentence(found, language)
    assert answer_sentence(None, language) == ""
