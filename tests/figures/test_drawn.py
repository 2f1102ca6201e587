"""A figure that is taken apart only where more is asked of it than what it was made of."""

import copy
import json

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest

from quantviz.figures.line_plots import marked_line_figure
from quantviz.figures.payload import UncheckedFigure, encoded
from tests.helpers.panels import decoded

SPEC = {
    "data": [{"type": "heatmap", "z": [[1.0, 2.0]]}, {"type": "bar", "y": [3, 4], "name": "a"}],
    "layout": {"template": {}, "xaxis": {"range": [0, 9]}},
}


def drawn():
    return UncheckedFigure(copy.deepcopy(SPEC))


def plotlys():
    return go.Figure(copy.deepcopy(SPEC), _validate=False)


def test_what_is_sent_is_what_plotly_would_send():
    assert (
        json.loads(pio.to_json(drawn(), validate=False))
        == json.loads(pio.to_json(plotlys(), validate=False))
        == SPEC
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda figure: figure.update_layout(height=100),
        lambda figure: figure.add_bar(y=[1, 2]),
        lambda figure: setattr(figure, "layout", {"height": 100}),
        lambda figure: setattr(figure.layout.xaxis, "range", [0, 1]),
        lambda figure: figure.update_traces(visible=False),
        lambda figure: figure["data"][1].update(name="b"),
        lambda figure: figure.update_layout(xaxis_title="x").add_vline(x=0),
    ],
)
def test_it_can_be_changed_like_any_figure(use):
    mine, other = drawn(), plotlys()
    use(mine)
    use(other)
    assert isinstance(mine, go.Figure)
    assert mine == other
    assert mine.to_dict() == other.to_dict() != SPEC


def test_it_can_be_copied_compared_and_read():
    one = drawn()
    other = copy.deepcopy(one)
    other.update_layout(height=100)
    assert one.to_dict() == SPEC
    assert one != other
    assert one == drawn()
    assert [trace.type for trace in one.data] == ["heatmap", "bar"]
    assert "heatmap" in repr(drawn())
    with pytest.raises(AttributeError):
        one.nonsense  # noqa: B018
    with pytest.raises(AttributeError):
        drawn().nonsense  # noqa: B018


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3)])
def test_arrays_come_back_from_their_code(dtype, shape):
    array = np.arange(6).reshape(shape).astype(dtype)
    np.testing.assert_array_equal(decoded(encoded(array)), array)


@pytest.mark.parametrize("values", [[], ["a", "b"], [np.nan, 1.0], [2, 3]])
def test_an_array_is_sent_as_the_browser_reads_it(values):
    sent = UncheckedFigure({"data": [{"type": "bar", "y": np.array(values)}], "layout": {}}).to_dict()[
        "data"
    ][0]["y"]
    assert sent == values if not values or isinstance(values[0], str) else sent["dtype"] in ("f8", "i4")


def test_enlarged_text_marks_and_height_are_larger_and_data_as_before():
    font = {"size": 12, "color": "#000000"}
    data = [
        {"type": "scatter", "x": np.array([1, 2]), "marker": {"size": [6, 12]}, "line": {"width": 2}},
        {"type": "bar", "y": [3, 4], "width": 0.5, "textfont": font},
    ]
    arrow = {"ax": 10, "ay": 2, "ayref": "y", "font": font, "standoff": 5, "x": 3}
    layout = {"height": 200, "width": None, "margin": {"l": 8, "r": 4}, "annotations": [arrow]}
    large = UncheckedFigure({"data": data, "layout": layout}).enlarged(1.5).to_dict()
    assert large["data"][0]["marker"]["size"] == [9, 18]
    assert large["data"][0]["line"]["width"] == 3
    assert large["data"][0]["x"] == encoded(np.array([1, 2]))
    assert large["data"][1] == {**data[1], "textfont": {"size": 18, "color": "#000000"}}
    assert large["layout"]["height"] == 300
    assert large["layout"]["margin"] == {"l": 12, "r": 6}
    assert large["layout"]["annotations"] == [
        {"ax": 15, "ay": 2, "ayref": "y", "font": {"size": 18, "color": "#000000"}, "standoff": 7.5, "x": 3}
    ]
    assert UncheckedFigure({"data": data, "layout": layout}).enlarged(1).to_dict()["layout"] == layout


@pytest.mark.parametrize("factor", [1.0, 1.125, 2.0])
def test_a_curve_of_counts_has_the_letters_of_its_page(factor):
    drawn = marked_line_figure(
        [(2, 5.0), (4, 20.0)], 4, counted="blame.plot_kept", theme="light", enlarge=factor
    ).to_dict()
    assert drawn["layout"]["font"]["size"] == 12 * factor
    assert drawn["data"][0]["marker"]["size"] == [6 * factor, 12 * factor]
