"""The line shows every value, alone or counted; the staircase is the gap."""

import numpy as np
import plotly.graph_objects as go
import pytest

from quantviz.errors import QuantVizError
from quantviz.figures.format_gaps import gap_data, gap_figure
from quantviz.figures.format_line import formats_figure, formats_words, row_colour
from quantviz.figures.format_values import VIEWS, WIDTH, formats_data
from quantviz.figures.theme import THEMES
from quantviz.quantization.format_facts import finite_values, gap_at
from quantviz.quantization.grids import nearest
from quantviz.schemes.formats import FORMATS
from quantviz.text import languages

ALL = [pytest.param(fmt, id=name) for name, fmt in FORMATS.items()]
PAIRS = [
    ("float4_e2m1fn", "int4"),
    ("float8_e4m3fn", "float8_e5m2"),
    ("float16", "bfloat16"),
    ("nf4", "float8_e8m0fnu"),
    ("binary", "uint16"),
]


@pytest.mark.parametrize("width", [300, WIDTH])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("fmt", ALL)
def test_every_value_is_shown_once_or_said_to_be_out_of_view(fmt, view, width):
    data = formats_data(fmt, x=0.7, view=view, width=width)
    marks, values = data.rows[0], np.array(finite_values(fmt))
    assert marks.shown + sum(marks.out_of_view) == len(values)
    if view != "near":
        assert marks.out_of_view == (0, 0)
    seen = values[marks.out_of_view[0] : len(values) - marks.out_of_view[1]]
    # The marks partition the values in view, in their order.
    ends = np.cumsum(marks.counts)
    assert np.array_equal(
        seen[np.concatenate([[0], ends[:-1]]).astype(int)] if len(seen) else seen, marks.firsts
    )
    assert np.array_equal(seen[ends - 1] if len(seen) else seen, marks.lasts)
    assert (np.diff(marks.places) > 0).all()
    assert len(marks.places) <= width / 2 + 1
    alone = marks.counts == 1
    assert np.array_equal(marks.places[alone], data.axis.at(marks.firsts[alone]))


@pytest.mark.parametrize("fmt", ALL)
def test_symlog_keeps_the_order_and_makes_each_doubling_one_step(fmt):
    axis = formats_data(fmt, view="symlog").axis
    places = axis.at(finite_values(fmt))
    assert (np.diff(places) > 0).all()
    doubled = axis.at([axis.threshold, 2 * axis.threshold, 4 * axis.threshold])
    assert np.allclose(np.diff(doubled), 1)
    assert axis.at([-axis.threshold, 0, axis.threshold]).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("x", [None, 0.0, 2.5, -3.3e-5, 1e12, -1e300])
def test_where_the_number_lands(first, second, view, x):
    import torch

    data = formats_data(FORMATS[first], FORMATS[second], x=x, view=view)
    assert [marks.format.id for marks in data.rows] == [first, second]
    for marks in data.rows:
        if x is None:
            assert marks.landing is None
            continue
        values = finite_values(marks.format)
        wanted = (
            nearest(torch.tensor(x, dtype=torch.float64), marks.format, "even")
            .clamp(values[0], values[-1])
            .item()
        )
        assert marks.landing.value == wanted
    if x is not None and view == "near":  # both neighbours in the first format are in sight
        landing = data.rows[0].landing
        assert all(
            0 <= data.axis.share(each) <= 1 for each in (landing.below, landing.above) if each is not None
        )


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("theme", THEMES)
def test_the_figures_can_be_drawn(language, theme):
    for first, second in PAIRS:
        for view in VIEWS:
            data = formats_data(FORMATS[first], FORMATS[second], x=0.3, view=view)
            figure = formats_figure(data, language=language, theme=theme)
            values = [trace for trace in figure.data if trace["name"] == "values"]
            assert [len(trace["customdata"]) for trace in values] == [
                len(marks.places) for marks in data.rows
            ]
            go.Figure(figure.to_dict())
            assert len(formats_words(data, language)) >= 2
        figure = go.Figure(
            gap_figure(
                gap_data(FORMATS[first], FORMATS[second], x=-0.3), language=language, theme=theme
            ).to_dict()
        )
        assert figure.layout.xaxis.type == "log"
    assert row_colour(theme, 0) != row_colour(theme, 1)


def test_a_mark_says_how_many_values_it_stands_for():
    data = formats_data(FORMATS["float16"])
    figure = formats_figure(data)
    trace = next(trace for trace in figure.data if trace["name"] == "values")
    assert f"{data.rows[0].most:,} values on this line" in "".join(trace["hovertext"])
    assert f"to {data.rows[0].most:,} a line" in formats_words(data)[0]
    assert "each line is one of its 15 values" in formats_words(formats_data(FORMATS["float4_e2m1fn"]))[0]


def test_a_wider_format_laid_over_does_not_shrink_the_first():
    data = formats_data(FORMATS["float8_e4m3fn"], FORMATS["bfloat16"])
    assert data.axis.hi < 500
    assert sum(data.rows[1].out_of_view) > 0
    assert data.rows[1].shown + sum(data.rows[1].out_of_view) == len(finite_values(FORMATS["bfloat16"]))
    ends = [each["text"] for each in formats_figure(data)["layout"]["annotations"]]
    assert "goes on to 3.38953e38 →" in ends


@pytest.mark.parametrize("fmt", ALL)
def test_the_staircase_is_the_gap(fmt):
    line = gap_data(fmt, x=None).lines[0]
    assert (np.diff(line.sizes) >= 0).all()
    for low, high, gap in zip(line.sizes[::2], line.sizes[1::2], line.gaps[::2], strict=True):
        assert gap_at(low + 0.37 * (high - low), fmt) == gap


def test_an_unknown_view_is_named():
    with pytest.raises(QuantVizError, match="linear, symlog, near"):
        formats_data(FORMATS["int4"], view="log")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("fmt", ALL)
def test_no_two_values_are_written_alike(fmt, view):
    for x in (0.7, 1000.3, -0.1):
        marks = formats_data(fmt, x=x, view=view).rows[0]
        words = [words for _, words in marks.labels]
        assert len(set(words)) == len(words)
        assert marks.landing.value in [value for value, _ in marks.labels]


@pytest.mark.parametrize("width", [340, 1000])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_number_is_written_into_the_words_at_the_ends(language, width):
    data = formats_data(FORMATS["nf4"], FORMATS["float6_e3m2fn"], x=0.3, width=width)
    annotations = formats_figure(data, language=language, theme="light")["layout"]["annotations"]
    notes = [
        note for note in annotations if "28" in note["text"] and ("←" in note["text"] or "→" in note["text"])
    ]
    assert len(notes) == 2
    for note in notes:
        beside = [
            each for each in annotations if each is not note and each["y"] == note["y"] and each not in notes
        ]
        assert beside
        assert min(abs(each["x"] - note["x"]) for each in beside) * width / 2 > 7 * len(note["text"]) / 2


def test_values_that_all_stand_in_one_line_are_not_counted_as_many():
    words = [
        formats_words(formats_data(FORMATS["bfloat16"], FORMATS["int16"], x=2.5, view="linear"), language)[1]
        for language in languages()
    ]
    assert words == [
        "**INT16**: all 65,536 values in one line.",
        "**INT16**：全部 65,536 个值画成一条线。",
    ]


@pytest.mark.parametrize("x", [5e-324, -1e-300, 1e-45, 1.7e308])
def test_gaps_are_drawn_beside_a_value_of_any_size(x):
    for name in ("float4_e2m1fn", "float8_e4m3fn", "bfloat16", "int8"):
        axis = gap_figure(gap_data(FORMATS[name], x=x), language="en", theme="light").to_dict()["layout"][
            "xaxis"
        ]
        assert 2 <= len(axis["tickvals"]) <= 12, name
