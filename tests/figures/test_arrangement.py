"""Where the panels stand: inside the figure, apart from each other, with cells not stretched too far."""

import itertools
import math

import pytest

from quantviz.figures.arrangement import (
    BREAKPOINTS,
    GAP,
    MOST_PIXELS,
    MOST_STRETCH,
    arrange,
    arrangement_name,
    pixels_for,
)

WIDTHS = (280, 360, 519, 520, 760, 829, 830, 1060, 1216, 1500, 1900)
SHAPES = ((8, 8), (1, 1), (1, 8), (1, 512), (512, 1), (3, 3), (32, 32), (512, 512), (4, 64), (64, 4))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_panels_lie_inside_and_apart(width, shape):
    layout = arrange(width, shape)
    assert len(layout.boxes) == 4
    for box in layout.boxes:
        assert box.left >= 0
        assert box.left + box.width <= width
        assert box.top >= 20
        assert box.bar_top + layout.bar + 14 <= layout.height
        assert min(box.width, box.height) >= 20
    for one, other in itertools.combinations(layout.boxes, 2):
        beside = one.left + one.width <= other.left or other.left + other.width <= one.left
        above = one.top + one.height < other.top or other.top + other.height < one.top
        assert beside or above or layout.name == "single"


@pytest.mark.parametrize("shape", [(8, 8), (3, 3), (32, 32), (8, 10), (128, 128)])
@pytest.mark.parametrize("width", WIDTHS)
def test_cells_are_about_square(width, shape):
    box = arrange(width, shape).boxes[0]
    stretch = (box.width / shape[1]) / (box.height / shape[0])
    assert 1 / MOST_STRETCH - 1e-6 <= stretch <= MOST_STRETCH + 1e-6


def test_the_row_of_four_fits_a_laptop():
    assert arrange(1060, (8, 8)).name == "row"
    assert arrange(1060, (512, 512)).height == arrange(1140, (8, 8)).height == 248


def test_a_phone_has_one_panel_of_280_pixels_that_fills_its_width():
    layout = arrange(366, (8, 8))
    assert (layout.name, layout.height) == ("single", 280)
    assert layout.boxes[0].width > 0.9 * 366


def test_a_wide_screen_has_higher_panels_but_not_without_end():
    heights = [arrange(width, (8, 8)).height for width in range(1140, 3000, 20)]
    assert heights == sorted(heights)
    assert 350 <= arrange(1680, (8, 8)).height <= max(heights) <= 430


def test_the_height_can_be_given():
    assert arrange(1140, (8, 8), 300).height == 300


@pytest.mark.parametrize("panels", BREAKPOINTS)
def test_every_width_has_one_arrangement(panels):
    leasts = BREAKPOINTS[panels]
    assert [arrangement_name(least, panels) for least in leasts.values()] == list(leasts)
    assert list(leasts.values()) == sorted(leasts.values(), reverse=True)
    assert min(leasts.values()) == 0
    assert len(arrange(360, (8, 8), panels=panels).boxes) == panels


def test_a_phone_shows_four_panels_in_one_place():
    assert arrange(360, (8, 8)).boxes == (arrange(360, (8, 8)).boxes[0],) * 4


def test_enlarged_is_the_same_arrangement_larger():
    small, large = arrange(530, (3, 3), 200), arrange(530, (3, 3), 200).times(2)
    assert (large.width, large.height, large.bar, large.enlarged) == (
        2 * small.width,
        2 * small.height,
        2 * small.bar,
        2,
    )
    assert [box.bar_top for box in large.boxes] == [2 * box.bar_top for box in small.boxes]


@pytest.mark.parametrize("width", [320, 700, 1060, 1366, 1920, 3000])
@pytest.mark.parametrize(
    "matrix", [(4096, 11008), (11008, 4096), (3, 20000), (20000, 1), (200, 200), (129, 40)]
)
def test_no_more_pixels_than_the_screen_has_and_can_be_sent(matrix, width):
    height, across = pixels_for(width, matrix)
    box = arrange(width, matrix).boxes[0]
    assert 1 <= height <= min(matrix[0], box.height)
    assert 1 <= across <= min(matrix[1], box.width)
    assert height * across <= MOST_PIXELS
    # With one pixel less the largest would stand for more cells.
    for count, pixels in zip(matrix, (height, across), strict=True):
        assert pixels == 1 or math.ceil(count / (pixels - 1)) > math.ceil(count / pixels)
    assert pixels_for(width, matrix, (min(matrix[0], 128), min(matrix[1], 128))) == (
        min(matrix[0], 128),
        min(matrix[1], 128),
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", [(512, 128), (11008, 4096), (4096, 1)])
def test_a_high_matrix_fills_the_width_of_its_panel(width, shape):
    high, square = arrange(width, shape), arrange(width, (shape[0], shape[0]))
    # Beside it a square one has no more room.
    assert high.boxes[0].width >= square.boxes[0].width
    assert [box.left for box in high.boxes][1:] == pytest.approx(
        [box.left + box.width + GAP for box in high.boxes][:-1]
    ) or high.name != "row"
