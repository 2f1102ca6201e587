"""Size against SQNR of a whole model: the line lies above every recipe given to all tensors."""

import math

import numpy as np
import plotly.graph_objects as go
import pytest

from quantviz.checkpoints.allocation.frontier import Frontier, FrontierPoint, allocation_frontier
from quantviz.figures.allocation_plot import allocation_plot_data, allocation_plot_figure
from quantviz.text import languages

DB = np.random.default_rng(0).normal(0, 2, (3, 6)) + np.array([[20.0], [26.0], [44.0]])
TABLE = {
    "tensor": [f"t{i}" for i in range(6)] * 3,
    "recipe": ["int4_g128"] * 6 + ["own"] * 6 + ["int8_per_row"] * 6,
    "bits": [412] * 6 + [500] * 6 + [816] * 6,
    "sqnr_db": DB.ravel().tolist(),
    "shape": [(10, 10)] * 18,
    "dtype": ["F32"] * 18,
}


def test_no_recipe_for_all_is_above_the_line():
    data = allocation_plot_data(allocation_frontier(TABLE))
    assert data.per_weight
    assert [name for name, *_ in data.uniform] == ["int4_g128", "own", "int8_per_row"]
    x, db = zip(*data.line, strict=True)
    assert list(x) == sorted(x)
    assert list(db) == sorted(db)
    for _, bits, reached in data.uniform:
        assert reached <= max(height for size, height in data.line if size <= bits + 1e-9) + 1e-9


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", languages())
def test_it_is_drawn(language, theme):
    found = allocation_frontier(TABLE)
    drawn = go.Figure(allocation_plot_figure(found, found.points[2], language=language, theme=theme))
    assert len(drawn.data) == 3
    assert len(drawn.layout.annotations) == 3
    assert drawn.data[2].x == (found.points[2].bits_per_weight,)


def test_without_points_it_is_empty():
    point = FrontierPoint(None, 8, None, math.inf, -math.inf)
    assert not allocation_plot_data(Frontier((point,), ())).line
    assert go.Figure(allocation_plot_figure(Frontier((), ())))
