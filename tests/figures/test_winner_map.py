"""Schemes side by side on held colours, and the map of who has the smaller error where."""

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

import quantviz as qv
from quantviz.analysis.scheme_comparison import MOST_SCHEMES, judged
from quantviz.figures.arrangement import SIDE_BY_SIDE, arrange
from quantviz.figures.compared_panels import (
    COMPARED_VIEWS,
    compared_panels,
    strongest_in_pixels,
    winner_ramp,
    winner_ticks,
    winner_values,
)
from quantviz.figures.panel_painter import panel_ramp
from quantviz.figures.panels import panels_figure
from quantviz.figures.panels_data import picture_panels, result_panels
from quantviz.figures.theme import THEMES, stops

X = torch.randn(12, 20, generator=torch.Generator().manual_seed(0))
SCHEMES = ("int4_per_tensor", "int4_per_row", "int8_per_column", "nf4_64")


@pytest.fixture(scope="module")
def found():
    return qv.compare_schemes(X, SCHEMES)


def beside(found, what):
    shown = {k: result_panels(qv.quantize(X, scheme)) for k, scheme in enumerate(SCHEMES) if k != 1}
    return compared_panels(shown, what, found.winner, found.lead, len(SCHEMES))


@pytest.mark.parametrize("what", COMPARED_VIEWS)
def test_each_panel_is_its_scheme_s_own_on_common_colours(found, what):
    data = beside(found, what)
    assert data.open == ("a", "c", "d", "winner")
    figure = go.Figure(panels_figure(data, titles=("", "", "", ""), tensor_key="")).to_dict()
    ends = []
    for k, name in ((0, "a"), (2, "c"), (3, "d")):
        own, span = result_panels(qv.quantize(X, SCHEMES[k])).panel(what)
        values, shown = data.panel(name)
        assert np.array_equal(values, own)
        assert np.array_equal(data.told[name], own)
        ends.append(shown)
        assert shown == span if what == "q" else shown[0] <= span[0] <= span[1] <= shown[1]
    # Codes of an integer and of a table have no common unit.
    assert len(set(ends)) == (3 if what == "q" else 1)
    for n, (lo, hi) in zip(("", 2, 3), ends, strict=True):
        axis = figure["layout"][f"coloraxis{n}"]
        assert (axis["cmin"], axis["cmax"]) == pytest.approx((lo, hi))
    # The browser tells who wins, and by how much; a tie and nothing come after the schemes.
    assert np.array_equal(data.told["winner"], np.where(found.winner == -1, 4, found.winner))
    assert np.array_equal(data.told["lead"], found.lead.astype(np.float32))


def test_the_winners_are_those_of_the_errors_shown(found):
    """What a window computes of its own cells is what the comparison of the whole tells of them."""
    shown = np.stack([np.abs(result_panels(qv.quantize(X, scheme)).error) for scheme in SCHEMES])
    winner, lead, _ = judged(shown)
    assert np.array_equal(winner, found.winner)
    assert np.allclose(lead, found.lead)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("schemes", [2, 3, 8])
def test_a_winner_has_its_scheme_s_colour_from_faint_to_full(theme, schemes):
    colours = THEMES[theme]
    assert len(set(colours.schemes)) == MOST_SCHEMES
    winner, lead = np.arange(-2, schemes), np.full(schemes + 2, 1.0)
    values, span = winner_values(winner, lead, schemes)
    ramp = winner_ramp(span, colours)
    # Evenly spaced: the picture of a large tensor takes the same ones.
    assert len(ramp) % 2 == 1
    assert len(ramp) == span[1] + 1
    assert stops(ramp) == pytest.approx(np.linspace(0, 1, len(ramp)))
    assert np.isnan(values[0])
    assert [ramp[int(each)] for each in values[2:]] == list(colours.schemes[:schemes])
    faint, _ = winner_values(winner, np.where(winner == 0, 0.0, 1.0), schemes)
    assert ramp[int(faint[2])] not in (*colours.schemes, ramp[int(values[1])])
    # Between two schemes' colours there is room for the rounding of a palette.
    for value in values[1:]:
        assert ramp[int(value)] in (ramp[int(value) + 1], ramp[int(value) - 1])
    assert list(winner_ticks(span).values()) == [*"ABCDEFGH"[:schemes], "="]


def test_a_pixel_of_parts_is_the_one_s_that_leads_most():
    winner = np.array([[0], [1], [-1], [-1], [-2], [-2]], np.int8)
    lead = np.array([[0.5], [2.0], [0.0], [0.0], [np.nan], [np.nan]])
    edges = np.array([0, 2, 4, 6]), np.array([0, 3, 5])
    who, ahead = strongest_in_pixels(winner, lead, 2, edges)
    assert who.tolist() == [[1, 1], [-1, -1], [-2, -2]]
    assert ahead[:2].tolist() == [[2.0, 2.0], [0.0, 0.0]]
    assert np.isnan(ahead[2]).all()


def test_a_pixel_tells_no_x_beside_errors_of_different_cells():
    results = [qv.quantize(X, scheme) for scheme in SCHEMES[:2]]
    shown = {k: picture_panels(r.x, r.q, r.x_hat, 5, scheme=r.scheme) for k, r in enumerate(results)}
    winner, lead = np.zeros((4, 5), np.int8), np.ones((4, 5))
    of_errors, of_values = (compared_panels(shown, what, winner, lead, 2) for what in ("error", "x_hat"))
    assert (of_errors.pixels.how, of_values.pixels.how) == ("largest_error", "largest")
    assert "x" not in of_errors.told
    assert of_errors.pixels.x_at is of_errors.pixels.error_at is None
    assert "x" in of_values.told
    assert of_values.pixels.x_at is not None
    figure = panels_figure(of_errors, titles=("", "", "")).to_dict()
    assert [each["name"] for each in figure["data"] if each["type"] == "image"] == ["a", "b", "winner"]
    assert panel_ramp("winner", of_errors, THEMES["light"]) == winner_ramp((0.0, 44.0), THEMES["light"])


@pytest.mark.parametrize("panels", SIDE_BY_SIDE)
def test_what_is_compared_is_never_seen_one_at_a_time(panels):
    for width in (300, 358, 530, 780, 1100, 1700):
        layout = arrange(width, (64, 64), panels=panels, breakpoints=SIDE_BY_SIDE[panels])
        places = {(round(box.left), round(box.top)) for box in layout.boxes}
        assert len(places) == panels
        for box in layout.boxes:
            assert box.left >= 0
            assert box.left + box.width <= width
            assert box.bar_top < layout.height
