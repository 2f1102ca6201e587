"""Bits against SQNR: every recipe that fits is a point, and no two labels touch."""

import functools
import itertools
import math

import plotly.graph_objects as go
import pytest
import torch

import quantviz as qv
from quantviz.analysis.recipe_ranking import CURRENT, RecipeRow, answer, recipe_rows, row_of
from quantviz.figures.contest_marks import Contest
from quantviz.figures.recipe_plot import (
    _LINE,
    _MARGIN,
    _MOST_LABELS,
    HEIGHT,
    RecipePlotStyle,
    answer_sentence,
    recipe_plot_data,
    recipe_plot_figure,
)
from quantviz.figures.theme import THEMES
from quantviz.lab.scenarios import SCENARIOS
from quantviz.schemes.recipes import RECIPE_GROUPS, RECIPES, recipe_name
from quantviz.streaming.measuring import measured
from quantviz.text import catalogue, languages

TENSORS = {
    **{name: (scenario.source.tensor(), scenario.scheme) for name, scenario in SCENARIOS.items()},
    "zeros": (torch.zeros(4, 128), qv.Scheme("int8")),
    "whole_numbers": (torch.arange(-7, 9).float().repeat(4, 8), qv.Scheme("int6")),
    "vector": (torch.linspace(-1, 1, 7), qv.Scheme("uint2", "asymmetric")),
}


@functools.cache
def drawn(name):
    x, scheme = TENSORS[name]
    return recipe_rows(x, current=scheme), row_of(measured(qv.quantize(x, scheme)))


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
            ends = [other.y for other in data.points]
            assert point.y == (max(ends) if point.row.sqnr_db > 0 else min(ends))


@pytest.mark.parametrize("name", TENSORS)
def test_labels_do_not_touch(name):
    data = recipe_plot_data(*drawn(name))
    pixels = (HEIGHT - _MARGIN[2] - _MARGIN[3]) / (data.db_range[1] - data.db_range[0])
    labels = [(point, point.label) for point in data.points if point.label]
    places = sorted(label.y for _, label in labels)
    assert 2 <= len(labels) <= _MOST_LABELS
    assert data.current in [point for point, _ in labels]
    assert all((high - low) * pixels >= _LINE - 1e-6 for low, high in itertools.pairwise(places))
    assert data.db_range[0] < places[0]
    assert places[-1] < data.db_range[1]
    for point, label in labels:
        assert data.bits_range[0] < label.x < data.bits_range[1]
        assert (label.x > point.row.bits) == (label.side == "right")
        assert not point.beaten or point.row.is_current or point.row.id == CURRENT


def test_what_is_beaten_is_told():
    rows, _ = drawn("one_outlier")
    points = {point.row.id: point for point in recipe_plot_data(rows).points}
    # One outlier: a scale for all at 8 bits keeps less than rows do at 4.5.
    assert points["int8_per_tensor"].beaten
    for name, point in points.items():
        better = [
            other
            for other in points.values()
            if other.row.bits <= point.row.bits
            and other.row.sqnr_db >= point.row.sqnr_db
            and other is not point
        ]
        equal = [
            other
            for other in better
            if (other.row.bits, other.row.sqnr_db) == (point.row.bits, point.row.sqnr_db)
        ]
        assert point.beaten == (len(better) > len(equal)), name


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", TENSORS)
def test_it_is_drawn(name, theme, language):
    rows, current = drawn(name)
    figure = go.Figure(recipe_plot_figure(rows, current, RecipePlotStyle(language, theme)).to_dict())
    assert len(figure.layout.annotations) == sum(
        point.label is not None for point in recipe_plot_data(rows, current).points
    )
    assert figure.layout.height == HEIGHT


def test_nothing_to_show_is_a_valid_figure():
    figure = go.Figure(recipe_plot_figure(()).to_dict())
    assert not figure.layout.annotations
    only_problems = tuple(row for row in recipe_rows(torch.ones(2, 3), current=qv.Scheme()) if not row.fits)
    go.Figure(recipe_plot_figure(only_problems).to_dict())


@pytest.mark.parametrize("language", languages())
def test_every_recipe_has_its_words(language):
    for group in RECIPE_GROUPS:
        assert catalogue(language)[f"recipes.groups.{group}"]
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


def test_a_contest_has_its_budget_par_and_tries_in_the_plot():
    rows = {name: RecipeRow(name, qv.Scheme(), bits=bits, sqnr_db=db) for name, bits, db in TRIES}
    contest = Contest(4.5, 30.0, tuple(rows.values()))
    data = recipe_plot_data((), contest=contest)
    assert [(point.row.id, point.number, point.counts, point.best) for point in data.tries] == [
        ("poor", 1, True, False),
        ("edge", 2, True, True),
        ("over", 3, False, False),
    ]
    assert data.db_range[0] < 12.0 < 40.0 < data.db_range[1]
    assert data.bits_range[0] < 2.0 < 5.0 < data.bits_range[1]
    figure = go.Figure(recipe_plot_figure((), None, RecipePlotStyle("zh", "dark"), contest=contest))
    assert [trace.text for trace in figure.data if trace.mode == "markers+text"] == [("1", "<b>2</b>", "3")]
    assert {shape.x1 for shape in figure.layout.shapes} == {4.5, data.bits_range[1]}
    assert recipe_plot_data(()).tries == ()


TRIES = (("poor", 2.0, 12.0), ("edge", 4.5, 31.0), ("over", 5.0, 40.0))
