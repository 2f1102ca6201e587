"""Group sizes and bounds in the plot of bits against SQNR."""

import itertools
import math

import plotly.graph_objects as go
import pytest
import torch

import quantviz as qv
from quantviz.analysis.recipe_ranking import row_of
from quantviz.figures.rate_lines import line_keys, line_words, row_name
from quantviz.figures.recipe_plot import (
    _FEW_LABELS,
    _LINE,
    _MARGIN,
    _MOST_BITS,
    BITS,
    CODED,
    HEIGHT,
    STORED,
    RecipePlotStyle,
    front_key,
    recipe_plot_data,
    recipe_plot_figure,
)
from quantviz.schemes.recipes import RECIPES
from quantviz.streaming.measuring import measured
from quantviz.text import languages

#: Its rows differ in size, so that scales of their own beat one quantizer for all values.
X = torch.randn(16, 32, generator=torch.Generator().manual_seed(0)) * torch.logspace(-1, 1, 16)[:, None]
NOW = qv.Scheme("int5", granularity=qv.PerGroup(16))


@pytest.fixture(scope="module")
def known():
    return qv.rate_distortion(X, current=NOW)


def rows(known):
    return [row for row in known.rows if row.id in RECIPES]


@pytest.mark.parametrize("bits", BITS)
def test_every_format_that_fits_is_a_dot_or_told_to_lie_beyond(known, bits):
    data = recipe_plot_data(rows(known), row_of(measured(qv.quantize(X, NOW))), known=known, bits=bits)
    shown = {point.row.scheme for point in (*data.points, *data.sizes)} | {row.scheme for row in data.beyond}
    assert shown == {row.scheme for row in known.rows if row.fits}
    assert {row.scheme.format for row in data.beyond} >= {"float16", "bfloat16"}
    assert all(row.bits > _MOST_BITS for row in data.beyond)
    for point in (*data.points, *data.sizes):
        assert point.x == (point.row.bits if bits == STORED else point.row.entropy_bits)
        assert data.bits_range[0] < point.x < data.bits_range[1]
        assert data.db_range[0] < point.y < data.db_range[1]
        better = [each for each in (*data.points, *data.sizes) if each.x <= point.x and each.y >= point.y]
        assert point.beaten == any((each.x, each.y) != (point.x, point.y) for each in better)
    # What is set now is one of the sizes: drawn once, with what is known of it.
    assert data.current is not None
    assert data.current.row.trail == "int5"
    assert data.current.row.entropy_bits < data.current.row.bits


@pytest.mark.parametrize("bits", BITS)
def test_few_names_are_written_and_none_touches_another(known, bits):
    data = recipe_plot_data(rows(known), row_of(measured(qv.quantize(X, NOW))), known=known, bits=bits)
    places = sorted(point.label.y for point in data.points if point.label)
    pixels = (HEIGHT - _MARGIN[2] - _MARGIN[3]) / (data.db_range[1] - data.db_range[0])
    assert 2 <= len(places) <= _FEW_LABELS
    assert all((high - low) * pixels >= _LINE - 1e-6 for low, high in itertools.pairwise(places))


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("bits", BITS)
def test_lines_say_what_they_are_and_dots_what_to_load(known, bits, language):
    figure = go.Figure(
        recipe_plot_figure(
            rows(known), None, RecipePlotStyle(language), known=known, bits=bits, priced_as=(4096, 4096)
        )
    )
    drawn = {trace.name: trace for trace in figure.data if trace.name}
    keys = line_keys(known, "dark", language)
    assert [key.words for key in keys] == [line_words(line, language) for line in known.lines]
    front = front_key("light", language)
    line = drawn["front"].line
    assert (line.color, line.dash.replace("px", "")) == (front.colour, front.dash)
    assert len({(key.colour, key.dash) for key in (front_key("dark", language), *keys)}) == len(keys) + 1
    for line, key in zip(known.lines, keys, strict=True):
        assert all(told.startswith(key.words) for told in drawn[line.id].text)
    assert "4096 × 4096" in figure.layout.xaxis.title.text
    dots = [form for trace in figure.data if trace.customdata is not None for form in trace.customdata]
    assert {str(qv.Scheme.parse(form)) for form in dots} == set(dots)


@pytest.mark.parametrize("language", languages())
def test_every_size_has_a_name_of_its_own(known, language):
    fitting = [row for row in known.rows if row.fits and row.id not in RECIPES]
    names = [row_name(row, language) for row in fitting]
    assert all(names)
    assert len(set(names)) == len(names)


def test_a_dot_above_lloyd_max_says_why(known):
    data = recipe_plot_data(rows(known), known=known)
    above = {row.id for row in data.above}
    assert "int4_per_row" in above
    shown = [point.row for point in (*data.points, *data.sizes)]
    assert list(data.above) == [row for row in shown if row.above_lloyd_max]
    assert above - set(RECIPES), "other group sizes are told too"
    line = known.line("lloyd_max")
    assert all(row.sqnr_db > line.at(row.bits) for row in data.above)
    figure = go.Figure(recipe_plot_figure(rows(known), known=known))
    told = {
        name: text
        for trace in figure.data
        if trace.text
        for name, text in zip(trace.customdata or (), trace.text, strict=False)
    }
    assert ["above Lloyd–Max" in told[str(row.scheme)] for row in rows(known) if row.fits] == [
        row.id in above for row in rows(known) if row.fits
    ]


def test_a_dot_above_lloyd_max_is_judged_by_the_bits_that_are_drawn(known):
    data = recipe_plot_data(rows(known), known=known, bits=CODED)
    line = known.line("lloyd_max")
    assert all(row.sqnr_db > line.at(row.entropy_bits) for row in data.above)
    assert any(row.sqnr_db < line.at(row.bits) for row in data.above), "coding alone lifts some"
    assert "fixed rate" in str(recipe_plot_figure(rows(known), known=known, bits=CODED).to_dict())


def test_what_has_no_entropy_is_left_out_where_it_is_x(known):
    now = row_of(measured(qv.quantize(X, qv.Scheme("int4", calibration=qv.Percentile(99.0)))))
    assert math.isnan(now.entropy_bits)
    assert recipe_plot_data(rows(known), now, known=known, bits=CODED).current is None
    assert recipe_plot_data(rows(known), now, known=known).current is not None
