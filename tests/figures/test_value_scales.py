"""How the colours of x and x̂ are spread."""

import dataclasses

import numpy as np
import pytest
import torch

from quantviz.figures.arrangement import PANELS
from quantviz.figures.colour_ranges import symlog
from quantviz.figures.panel_painter import panel_ramp
from quantviz.figures.panels import panels_figure
from quantviz.figures.panels_data import WASHED_OUT, as_picture, panels_data, result_panels, with_value_scale
from quantviz.figures.theme import GREYS, THEMES, rgb
from quantviz.live.cells import color_scale
from quantviz.streaming.value_distribution import MagnitudeSpread
from tests.helpers.panels import decoded, result

SPREAD = MagnitudeSpread(0.5, 3.0)


def with_outlier():
    x = torch.linspace(-3, 3, 100).reshape(10, 10)
    x[0, 0] = 100.0
    return result_panels(result(x, "int8,symmetric,per_channel,min_max,course"))


def test_the_colours_of_x_end_at_the_percentile_and_say_so():
    linear, cut = with_outlier(), with_value_scale(with_outlier(), "percentile", SPREAD)
    assert (linear.value_range, cut.value_range) == ((-100, 100), (-3, 3))
    assert with_value_scale(linear, "linear", SPREAD) is linear
    layout = panels_figure(cut).to_dict()["layout"]
    for axis in ("coloraxis", "coloraxis3"):  # x and x̂ share their colours
        assert (layout[axis]["cmin"], layout[axis]["cmax"]) == (-3, 3)
        assert layout[axis]["colorbar"]["ticktext"] == ["−3 · 99 % of |x|", "3"]
    assert layout["coloraxis4"]["cmax"] == linear.error_range[1]
    # Where nearly all is 0 the ends stay.
    assert with_value_scale(linear, "percentile", MagnitudeSpread(0.5, 0.0)).value_range == (-100, 100)
    one_sided = dataclasses.replace(linear, value_range=(2.0, 100.0))
    assert with_value_scale(one_sided, "percentile", SPREAD).value_range == (2, 3)
    assert with_value_scale(
        dataclasses.replace(linear, value_range=(5.0, 100.0)), "percentile", SPREAD
    ).value_range == (5, 100)


@pytest.mark.parametrize("side", [10, 200])
def test_the_colours_of_x_are_logarithmic_beyond_the_median(side):
    x = torch.linspace(-3, 3, side * side).reshape(side, side)
    x[0, 0] = 100.0
    data = with_value_scale(
        result_panels(result(x, "int8,symmetric,per_channel,min_max,course")), "symlog", SPREAD
    )
    figure = panels_figure(data).to_dict()
    end = np.log1p(200)
    layout = figure["layout"]["coloraxis"]
    assert (layout["cmin"], layout["cmax"]) == (pytest.approx(-end), pytest.approx(end))
    assert layout["colorbar"]["ticktext"] == ["−100 logarithmic", "100"]
    if side == 10:
        z = decoded(figure["data"][0]["z"]).ravel()
        assert z[0] == pytest.approx(end)
        assert z[1:] == pytest.approx(
            np.sign(x.numpy().ravel()[1:]) * np.log1p(np.abs(x.numpy().ravel()[1:]) / 0.5), abs=1e-6
        )
    # Codes and errors are drawn as ever.
    assert data.colours("q")[1] == data.code_range
    assert data.colours("error")[1] == data.error_range


@pytest.mark.parametrize(
    ("largest", "scale"), [(0.99 / WASHED_OUT, None), (1.01 / WASHED_OUT, 1.0), (1000.0, 1.0)]
)
def test_left_to_itself_x_is_logarithmic_where_its_largest_value_would_wash_out_the_rest(largest, scale):
    x = torch.tensor([[1.0, -1.0, 1.0, largest]])
    data = panels_data(x, torch.zeros(1, 4), x)
    found = with_value_scale(data, "auto", MagnitudeSpread(1.0, largest))
    assert found.symlog == scale
    # The bar says so.
    left = panels_figure(found).to_dict()["layout"]["coloraxis"]["colorbar"]["ticktext"][0]
    assert left.endswith(" logarithmic") == (scale is not None)


def test_all_zeros_have_no_logarithm():
    x = torch.zeros(2, 2)
    assert with_value_scale(panels_data(x, x, x), "auto", MagnitudeSpread(0.0, 0.0)).symlog is None


@pytest.mark.parametrize("mode", ["symmetric", "asymmetric"])
def test_a_picture_is_grey_from_black_on(mode):
    x = torch.linspace(0.2, 1, 100).reshape(10, 10)
    x[0, 0] = 0.0
    data = as_picture(
        result_panels(result(x, f"int4,{mode},per_tensor,min_max,course")), symmetric=mode == "symmetric"
    )
    for theme in ("light", "dark"):
        for name in PANELS:
            assert (panel_ramp(name, data, THEMES[theme]) == GREYS) == (name != "error")
    assert (GREYS[0], GREYS[-1]) == ("#000000", "#ffffff")
    assert data.value_range == (0, 1)
    # The code of 0 is black too.
    assert data.code_range == (data.q[0, 0], 7)
    # A dark picture is not brightened where that is not asked for.
    dark = MagnitudeSpread(0.001, 1.0)
    assert with_value_scale(data, "auto", dark).symlog is None
    assert with_value_scale(data, "symlog", dark).symlog == 0.001
    # Its pixels are square.
    box = panels_figure(data).to_dict()["layout"]
    across, down = (box["xaxis"]["domain"], box["yaxis"]["domain"])
    assert (across[1] - across[0]) * box["width"] == pytest.approx((down[1] - down[0]) * box["height"])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_browser_knows_the_colours_of_a_logarithmic_scale(theme):
    """Between its stops it goes straight: what is printed is told apart from the colour that plotly draws."""
    data = with_value_scale(with_outlier(), "symlog", SPREAD)
    scale = color_scale("x", data, THEMES[theme])
    assert scale["stops"] == sorted(scale["stops"])
    assert (scale["stops"][0], scale["stops"][-1]) == (0, 1)
    told = np.array([[int(shade[i : i + 2], 16) for i in (1, 3, 5)] for shade in scale["ramp"]])
    places, ends = np.linspace(0, 1, 255), data.colours("x")[1]
    drawn = rgb(panel_ramp("x", data, THEMES[theme]), 255, data.middle("x"))
    for value in (-100.0, -3.0, -0.4, 0.0, 0.1, 1.0, 20.0, 100.0):
        place = (float(symlog(value, 0.5)) - ends[0]) / (ends[1] - ends[0])
        share = (value - scale["lo"]) / (scale["hi"] - scale["lo"])
        for channel in range(3):
            assert np.interp(share, scale["stops"], told[:, channel]) == pytest.approx(
                np.interp(place, places, drawn[:, channel]), abs=6
            )
