"""The map of who has the smaller error where."""

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

import quantviz as qv
from quantviz.analysis.scheme_comparison import MOST_SCHEMES
from quantviz.figures.theme import THEMES
from quantviz.figures.winner_map import WinnerMapData, scheme_colours, winner_map_figure
from quantviz.text import languages

X = torch.randn(12, 20, generator=torch.Generator().manual_seed(0))
SCHEMES = ("int4_per_tensor", "int4_per_row", "int4_per_column")


@pytest.fixture(scope="module")
def found():
    return qv.compare_schemes(X, SCHEMES)


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("theme", THEMES)
def test_each_cell_is_painted_once_by_its_winner(found, theme, language):
    data = WinnerMapData(found.winner, found.lead, ("A", "B", "C"), selected=(3, 4))
    figure = go.Figure(winner_map_figure(data, theme=theme, language=language))
    painted = np.stack([np.isfinite(np.asarray(trace.z, float)) for trace in figure.data])
    assert (painted.sum(0) == 1).all()
    for trace in figure.data[:3]:
        k = "ABC".index(trace.name)
        mine = np.isfinite(np.asarray(trace.z, float))
        assert np.array_equal(mine, found.winner == k)
        assert np.allclose(np.asarray(trace.z)[mine], found.lead[mine])
        assert trace.colorscale[-1][1] == scheme_colours(theme)[k]
        assert trace.zmax == data.strongest > 0
    frame = figure.layout.shapes[-1]
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (3.5, 4.5, 2.5, 3.5)
    # Rows run downwards.
    assert figure.layout.yaxis.range == (11.5, -0.5)


def test_a_colour_stays_a_scheme_s_own_where_another_wins_nothing():
    data = WinnerMapData(np.array([[2, 2]], np.int8), np.array([[1.0, 2.0]]), ("A", "B", "C"))
    (trace,) = go.Figure(winner_map_figure(data)).data
    assert (trace.name, trace.colorscale[-1][1]) == ("C", scheme_colours("light")[2])
    for theme in THEMES:
        assert len(set(scheme_colours(theme))) == MOST_SCHEMES


def test_pixels_lie_where_their_cells_are_and_the_selected_cell_s_is_framed():
    found = qv.compare_schemes(X, SCHEMES[:2], pixels=(4, 5))
    data = WinnerMapData(
        found.winner,
        found.lead,
        ("A", "B"),
        row_edges=found.row_edges,
        col_edges=found.col_edges,
        selected=(11, 7),
    )
    figure = go.Figure(winner_map_figure(data))
    assert list(figure.data[0].x) == [-0.5, 3.5, 7.5, 11.5, 15.5, 19.5]
    frame = figure.layout.shapes[-1]
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (3.5, 7.5, 8.5, 11.5)


@pytest.mark.parametrize(("winner", "drawn"), [(-1, 1), (-2, 0)])
def test_ties_are_grey_and_nothing_is_left_out(winner, drawn):
    data = WinnerMapData(np.full((2, 2), winner, np.int8), np.zeros((2, 2)), ("A", "B"))
    assert len(go.Figure(winner_map_figure(data)).data) == drawn
