"""The colours of the scales: saturated ends, a neutral middle near the page."""

import colorsys

import pytest

from quantviz.figures.theme import THEMES
from tests.helpers.colours import channels, luminance

SCALES = [(name, scale) for name in THEMES for scale in ("values", "errors")]


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_the_ends_of_a_scale_are_saturated_not_pale(name, scale):
    ramp = getattr(THEMES[name], scale)
    for end in (ramp[0], ramp[-1]):
        assert colorsys.rgb_to_hsv(*channels(end))[1] >= 0.74
    middle = ramp[len(ramp) // 2]
    assert colorsys.rgb_to_hsv(*channels(middle))[1] <= 0.3


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_a_scale_leaves_the_page_step_by_step_on_both_sides(name, scale):
    theme = THEMES[name]
    page = luminance(theme.surface)
    away = [abs(luminance(colour) - page) for colour in getattr(theme, scale)]
    half = len(away) // 2
    assert away[half:] == sorted(away[half:])
    assert away[: half + 1] == sorted(away[: half + 1], reverse=True)
