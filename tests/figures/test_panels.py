"""What is drawn of the panels is a valid figure, with the exact numbers and nothing that is covered."""

import base64
import dataclasses
import io
import json
from functools import partial

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from PIL import Image

import quantviz as qv
from quantviz.figures.arrangement import MOST_CELLS, PANELS, PanelsStyle
from quantviz.figures.numbers import short_number, text_width
from quantviz.figures.panel_painter import edge_scales, error_caption, panels_alt
from quantviz.figures.panels import PANELS_CONFIG, panels_figure
from quantviz.figures.panels_data import panels_data, result_panels
from quantviz.figures.theme import THEMES
from quantviz.tensors.views import ERROR_VIEWS
from quantviz.text import languages
from tests.helpers.drawn import normal
from tests.helpers.panels import NOTEBOOK, decoded, result


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [360, 700, 1060])
@pytest.mark.parametrize("shape", [(1, 1), (7,), (8, 8), (1, 200), (130, 40)])
def test_the_figure_is_valid_and_serializes(shape, width, theme, language):
    data = result_panels(result(normal(*shape), "int4,asymmetric,per_channel,min_max,course"))
    figure = panels_figure(
        data, PanelsStyle(width=width, theme=theme, language=language), selected=(0, 0), tensor_key="t"
    )
    # The figure is built unchecked; here plotly checks each property of it.
    go.Figure(json.loads(figure.to_json()))
    assert {trace.type for trace in figure.data} == (
        {"heatmap"} if max(data.shape) <= MOST_CELLS else {"image", "heatmap"}
    )
    assert len(figure.layout.annotations) == 4
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    assert all(
        figure.layout[axis].matches in (axis[0], None) for axis in ("xaxis", "xaxis2", "yaxis3", "yaxis4")
    )


def test_heatmaps_carry_the_exact_numbers_and_nothing_else():
    r = result(normal(128, 128))
    figure = panels_figure(result_panels(r)).to_plotly_json()
    for trace, tensor in zip(figure["data"], (r.x, r.q, r.x_hat, r.error), strict=True):
        np.testing.assert_array_equal(decoded(trace["z"]), tensor.numpy())
        assert "customdata" not in trace
        assert "texttemplate" not in trace
    # Three float32 and one int8 a cell in base64, and little besides.
    assert len(json.dumps(figure, default=list)) < 128 * 128 * 13 * 4 / 3 + 8_000


def test_images_are_the_size_of_the_tensor_and_in_the_heatmaps_colours():
    r = result(normal(200, 140))
    data = result_panels(r)
    sources = [trace.source for trace in panels_figure(data).data if trace.type == "image"]
    assert len(sources) == 4
    for name, source in zip(PANELS, sources, strict=True):
        picture = Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
        assert picture.size == (140, 200)
        colours = np.asarray(picture.convert("RGB")).reshape(-1, 3)
        values, (lo, hi) = data.panel(name)
        # What is 0 has the neutral colour, the code 0 too.
        brightness = colours[np.abs(values.ravel()) < (hi - lo) / 1000].astype(int)
        assert len(brightness)
        assert np.abs(brightness - [0xF1, 0xF0, 0xEC]).max() <= 3


def test_a_cell_without_a_value_is_transparent_in_an_image():
    x = torch.ones(1, 200)
    x[0, 3] = 0
    data = panels_data(x, x.to(torch.int8), torch.full((1, 200), 0.5), error_view="relative")
    source = [trace.source for trace in panels_figure(data).data if trace.type == "image"][3]
    opacity = np.asarray(Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))).convert("RGBA"))[
        0, :, 3
    ]
    assert np.flatnonzero(opacity == 0).tolist() == [3]


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("view", ERROR_VIEWS)
def test_the_errors_range_is_printed(view, language):
    r = result(normal(4, 4))
    # Inputs of which each is as loud as the others, for the view that weighs by them.
    shown = partial(result_panels, r, error_view=view, quiet=np.full((4, 4), 2.0))
    held = error_caption(shown(error_range=1.64), language)
    assert ("164" if view == "relative" else "1.64") in held
    assert held != error_caption(shown(), language)
    assert panels_alt(result_panels(r), language)
    titles = [
        annotation.text
        for annotation in panels_figure(shown(), PanelsStyle(language=language)).layout.annotations
    ]
    assert len(set(titles)) == 4
    assert "int4" in titles[1]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.6449, "1.64"), (-0.5, "−0.5"), (0.0, "0"), (127.0, "127"), (1.5e-9, "1.5e−9"), (3e38, "3e38")],
)
def test_numbers_are_short(value, shown):
    assert short_number(value) == shown


def test_the_config_keeps_data_at_home():
    assert PANELS_CONFIG["displaylogo"] is False
    assert "sendChartToCloud" in PANELS_CONFIG["modeBarButtonsToRemove"]


@pytest.mark.parametrize(
    ("granularity", "side", "count"),
    [
        (qv.PerTensor(), "title", 1),
        (qv.PerChannel(0), "right", 4),
        (qv.PerChannel(1), "bottom", 6),
        (qv.PerBlock(2, 6), "right", 2),
        (qv.PerGroup(3), None, 0),
    ],
)
def test_few_scales_are_written_at_the_edge_of_the_codes(granularity, side, count):
    r = qv.quantize(torch.arange(24.0).reshape(4, 6) - 7, qv.Scheme("int4", granularity=granularity))
    edge = edge_scales(result_panels(r))
    if side is None:
        assert edge is None
        return
    assert (edge.side, len(edge.labels)) == (side, count)
    assert [float(label.replace("−", "-")) for label in edge.labels] == pytest.approx(
        r.qparams.scale.flatten().tolist(), rel=0.06
    )


@pytest.mark.parametrize("names", [("x",), ("x", "q"), ("x", "q", "x_hat"), ("x", "error")])
def test_a_figure_shows_some_of_the_panels(names):
    figure = go.Figure(panels_figure(result_panels(result(NOTEBOOK)).only(names), PanelsStyle(width=640)))
    assert [trace.name for trace in figure.data] == list(names)
    assert len(figure.layout.annotations) == len(names)
    assert figure.layout.meta["panels"] == list(names) or figure.layout.meta["panels"] == names


@pytest.mark.parametrize("width", [360, 640, 1060])
def test_what_is_covered_is_nowhere_in_the_figure_or_the_cells(width):
    from quantviz.live.cells import pack_cells

    r = result(NOTEBOOK)
    data = result_panels(r).only(PANELS, {"q", "x_hat", "error", "scale"})
    figure = go.Figure(panels_figure(data, PanelsStyle(width=width)))
    sent = figure.to_json().encode() + pack_cells(data, "panels", "light")
    for secret in (r.q.numpy(), r.x_hat.numpy(), r.error.numpy()):
        raw = secret.tobytes()
        assert raw not in sent
        assert base64.b64encode(raw) not in sent
    # What is open is there, so the search can find what is sent.
    assert r.x.numpy().tobytes() in pack_cells(data, "panels", "light")
    assert f"{r.qparams.scale.item():.4g}".encode() not in sent
    assert [annotation.text for annotation in figure.layout.annotations].count("?") == 3


def test_lit_cells_are_framed_in_every_panel():
    data = dataclasses.replace(result_panels(result(NOTEBOOK)), lit=np.eye(3, dtype=bool))
    shapes = go.Figure(panels_figure(data)).layout.shapes
    assert {shape.xref for shape in shapes} == {"x", "x2", "x3", "x4"}
    assert all(shape.path.count("M") == 3 for shape in shapes)


@pytest.mark.parametrize("side", [6, 200])
def test_a_map_of_the_lit_cells_lies_over_every_panel(side):
    data = result_panels(result(normal(side, side)))
    share = np.zeros((side, side), dtype=np.float32)
    share[1, 2], share[3, 4] = 1, 0.25
    drawn = panels_figure(dataclasses.replace(data, lit_share=share))
    plain = panels_figure(data)
    go.Figure(json.loads(drawn.to_json()))
    traces = drawn.to_dict()["data"]
    maps = [trace for trace in traces if "colorscale" in trace]
    assert [(one["name"], one["xaxis"]) for one in maps] == list(
        zip(PANELS, ("x", "x2", "x3", "x4"), strict=True)
    )
    for one in maps:
        # Later traces lie above earlier ones.
        assert traces.index(one) > max(
            i for i, trace in enumerate(traces) if trace["name"] == one["name"] and trace is not one
        )
        found = decoded(one["z"])
        assert [tuple(place) for place in np.argwhere(np.isfinite(found))] == [(1, 2), (3, 4)]
        assert all(0 < float(colour.rpartition(",")[2][:-1]) < 1 for _, colour in one["colorscale"])
        assert (one["x0"], one["dx"]) == (0, 1)
    assert len(drawn.data) == len(plain.data) + 4
    assert not [shape for shape in drawn.layout.shapes if shape.type == "path"]


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("name", ["int4", "float8_e4m3fnuz", "nf4"])
@pytest.mark.parametrize("axis", ["per_tensor", "per_channel(axis=0)", "per_channel(axis=1)"])
@pytest.mark.parametrize("view", ["signed", "relative"])
@pytest.mark.parametrize("width", [360, 530, 830, 1140, 1680])
def test_titles_and_ends_of_colour_bars_fit(width, view, axis, name, language):
    data = dataclasses.replace(
        result_panels(
            result(normal(8, 8), f"{name},symmetric,{axis},min_max,course"), error_view=view, error_range=1.64
        ),
        symlog=0.5,
    )
    layout = panels_figure(data, PanelsStyle(width=width, language=language)).to_dict()["layout"]
    step = width if layout["meta"]["arrangement"] == "single" else None
    starts = [title["x"] * width for title in layout["annotations"]]
    for i, title in enumerate(layout["annotations"]):
        following = [start for start in starts if start > starts[i] + 1]
        room = (step or min([*following, width])) - starts[i]
        assert text_width(title["text"], title["font"]["size"]) <= room
        assert title["font"]["size"] in (12, 14)
        axis_name = f"xaxis{i + 1 if i else ''}"
        left, right = (share * width for share in layout[axis_name]["domain"])
        assert title["x"] * width == pytest.approx(left)
        scale = layout[f"coloraxis{i + 1 if i else ''}"]
        bar = scale["colorbar"]
        places = [
            left + (value - scale["cmin"]) / (scale["cmax"] - scale["cmin"]) * (right - left)
            for value in bar["tickvals"]
        ]
        half = [text_width(words, bar["tickfont"]["size"]) / 2 for words in bar["ticktext"]]
        assert len(places) == 2
        # They begin and end with the bar, and do not meet.
        assert places[0] - half[0] == pytest.approx(left)
        assert places[1] + half[1] == pytest.approx(right)
        assert places[0] + half[0] < places[1] - half[1]


def test_large_ends_of_a_narrow_bar_do_not_lie_over_each_other():
    """On the wall “−0.899” and “0.899” were printed over each other."""
    style = PanelsStyle(width=240, enlarge=2.2)
    data = result_panels(result(normal(8, 8))).only(["x", "error"])
    layout = panels_figure(data, style).to_dict()["layout"]
    for number, axis in enumerate(("xaxis", "xaxis2"), 1):
        scale = layout[f"coloraxis{number if number > 1 else ''}"]
        bar, (left, right) = scale["colorbar"], layout[axis]["domain"]
        share = (np.array(bar["tickvals"]) - scale["cmin"]) / (scale["cmax"] - scale["cmin"])
        first, last = (left + share * (right - left)) * 240
        before, after = (text_width(words, bar["tickfont"]["size"]) for words in bar["ticktext"])
        assert first + before / 2 < last - after / 2


def test_held_colours_say_how_far_the_error_leaves_them():
    r = result(normal(8, 8))
    most = float(r.error.abs().max())

    def first_end(held, width=1060):
        figure = panels_figure(result_panels(r, error_range=held), style=PanelsStyle(width=width))
        return figure.to_dict()["layout"]["coloraxis4"]["colorbar"]["ticktext"][0]

    assert first_end(1.64) == "−1.64 fixed"
    assert "fixed" not in first_end(None)
    left = float(f"{most / 2.3:.3g}")
    assert first_end(left).endswith(" fixed, error reaches 2.3 ×")
    assert first_end(left, 840).endswith(" fixed, 2.3 ×")
    # Colours are held at three digits of the largest error, which does not leave them by the rest.
    assert first_end(most / 1.004).endswith(" fixed")
    assert "±1.64, fixed." in panels_alt(result_panels(r, error_range=1.64))
    told = panels_alt(result_panels(r, error_range=left))
    assert f"±{short_number(left)}, fixed, error reaches 2.3 ×." in told


def test_enlarged_text_is_larger():
    usual, large = (
        go.Figure(panels_figure(result_panels(result(NOTEBOOK)), PanelsStyle(enlarge=factor)))
        for factor in (1.0, 1.5)
    )
    assert large.layout.annotations[0].font.size == 1.5 * usual.layout.annotations[0].font.size
    assert large.layout.width == usual.layout.width


def test_without_colour_bars_the_cells_have_their_room():
    usual, bare = (
        go.Figure(panels_figure(result_panels(result(NOTEBOOK)), PanelsStyle(height=248, bars=bars)))
        for bars in (True, False)
    )
    heights = [figure.layout.yaxis.domain[1] - figure.layout.yaxis.domain[0] for figure in (usual, bare)]
    assert heights[1] > heights[0]
    assert usual.layout.coloraxis.colorbar.ticktext
    assert bare.layout.coloraxis.showscale is False
