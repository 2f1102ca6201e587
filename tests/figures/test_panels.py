"""What the four panels show is right, and what is drawn is a valid figure."""

import base64
import dataclasses
import io
import json

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from PIL import Image

import quantviz as qv
from quantviz.figures.arrangement import MOST_CELLS, PANELS
from quantviz.figures.numbers import short_number
from quantviz.figures.panel_captions import edge_scales, error_caption, panels_alt
from quantviz.figures.panel_painter import panel_ramp
from quantviz.figures.panels import PANELS_CONFIG, panels_figure, plot_quantization_errors
from quantviz.figures.panels_data import panels_data, result_panels, symlog, with_value_scale
from quantviz.figures.pooled_panels import overview_panels
from quantviz.figures.theme import THEMES, rgb
from quantviz.quantization.cells import quantize_part
from quantviz.quantization.explanation import CAUSES
from quantviz.streaming.frames import Patch
from quantviz.streaming.magnitude_spread import Spread
from quantviz.streaming.overview import overview
from quantviz.tensors.lazy import InMemory
from quantviz.tensors.views import ERROR_VIEWS, POOLS, View
from quantviz.text import languages, text
from quantviz.ui.components.panels_bridge import _color_scale

#: The notebooks' tensor, and what it becomes with s = 3.5, z = -70.
NOTEBOOK = [[191.6, -13.5, 728.6], [92.14, 295.5, -184.0], [0.0, 684.6, 245.5]]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def result(x, form="int4,symmetric,per_tensor,min_max,course"):
    return qv.quantize(x, qv.Scheme.parse(form))


def decoded(field):
    array = np.frombuffer(base64.b64decode(field["bdata"]), dtype="<" + field["dtype"])
    return array.reshape([int(n) for n in str(field["shape"]).split(",")])


# ---- data ----


def test_the_arrays_are_the_results():
    r = result(normal(6, 8), "int4,asymmetric,per_group(size=4),min_max,course")
    data = result_panels(r)
    for name in ("x", "q", "x_hat", "error"):
        np.testing.assert_array_equal(getattr(data, name), getattr(r, name).numpy())
    assert data.shape == (6, 8)
    assert data.format_id == "int4"


@pytest.mark.parametrize(
    "x",
    [
        normal(5, 7),
        normal(5, 7).abs() + 3,
        -normal(5, 7).abs() - 3,
        torch.zeros(2, 2),
        torch.full((2, 3), -4.0),
        torch.ones(1),
    ],
)
def test_x_and_x_hat_share_one_range_that_no_scheme_changes(x):
    data = result_panels(result(x, "int3,asymmetric,per_tensor,min_max,course"))
    lo, hi = data.value_range
    assert lo < hi
    assert lo <= data.x.min()
    assert hi >= data.x.max()
    assert data.panel("x")[1] == data.panel("x_hat")[1] == data.value_range
    assert (
        result_panels(result(x, "int8,symmetric,per_channel,min_max,course")).value_range == data.value_range
    )
    if lo < 0 < hi:
        assert lo == -hi
    figure = panels_figure(data)
    assert (
        (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax)
        == (lo, hi)
        == (figure.layout.coloraxis3.cmin, figure.layout.coloraxis3.cmax)
    )


@pytest.mark.parametrize("name", qv.FORMATS)
def test_codes_are_shown_over_the_whole_format(name):
    fmt = qv.FORMATS[name]
    r = result(
        normal(4, 4).abs(),
        f"{name},{'asymmetric' if fmt.kind == 'integer' else 'symmetric'},per_tensor,min_max,course",
    )
    data = result_panels(r)
    assert data.code_range == (fmt.value_min, fmt.value_max)
    shown = data.panel("q")[0]
    # Codes that are no numbers are shown as what they stand for.
    assert shown.tolist() == (
        r.q.tolist()
        if fmt.kind == "integer"
        else [[pytest.approx(fmt.value(code), rel=1e-6) for code in row] for row in r.q.tolist()]
    )
    title = panels_figure(data).layout.annotations[1].text
    assert title.startswith("q codes (" if fmt.kind == "integer" else "q value (")


@pytest.mark.parametrize("name", ["int2", "int4", "int8", "uint4"])
def test_zero_is_neutral_where_there_are_values_on_both_sides(name):
    data = result_panels(result(normal(4, 4), f"{name},asymmetric,per_tensor,min_max,course"))
    figure = panels_figure(data)
    for panel, axis in zip(PANELS, ("coloraxis", "coloraxis2", "coloraxis3", "coloraxis4"), strict=True):
        lo, hi = data.panel(panel)[1]
        place, colour = figure.layout[axis].colorscale[2]
        assert colour == "#f1f0ec"
        assert lo + place * (hi - lo) == pytest.approx(
            7.5 if (panel, name) == ("q", "uint4") else 0, abs=1e-6
        )


@pytest.mark.parametrize("view", ERROR_VIEWS)
def test_the_error_is_centred_at_zero_and_held_where_it_is_given(view):
    r = result(normal(8, 8))
    fitted = result_panels(r, error_view=view)
    assert not fitted.error_held
    assert fitted.error_range[1] == pytest.approx(float(np.nanmax(np.abs(fitted.shown_error))))
    assert fitted.error_range[0] == (0 if view == "absolute" else -fitted.error_range[1])
    held = result_panels(r, error_view=view, error_range=1.64)
    assert held.error_held
    assert held.error_range == ((0, 1.64) if view == "absolute" else (-1.64, 1.64))


def test_the_errors_views():
    x = torch.tensor([[0.0, 1.0, -2.0, 10.0]])
    r = qv.quantize(x, qv.Scheme("int8"), qparams=qv.QParams(0.7, 0))
    error = r.error.numpy()
    np.testing.assert_array_equal(result_panels(r, error_view="absolute").shown_error, np.abs(error))
    np.testing.assert_allclose(result_panels(r, error_view="steps").shown_error, error / 0.7, rtol=1e-6)
    np.testing.assert_allclose(
        result_panels(r, error_view="relative").shown_error, [[0, *(error[0, 1:] / [1, 2, 10])]], rtol=1e-6
    )
    assert np.abs(result_panels(r, error_view="steps").shown_error).max() <= 0.5 + 1e-6
    # A value of 0 that becomes something else has no relative error.
    assert np.isnan(
        panels_data([0.0, 1.0], [1, 1], [1.0, 1.0], error_view="relative").shown_error
    ).tolist() == [[True, False]]


def test_steps_are_those_of_the_grid_at_x():
    r = qv.quantize([[-2.4, 5.2, 0.1, 6.0]], qv.Scheme("float4_e2m1fn", calibration=qv.Given(1.0)))
    data = result_panels(r, error_view="steps")
    # The grid has 2 and 3, 4 and 6, 0 and 0.5 there.
    np.testing.assert_allclose(data.shown_error, [[0.4, 0.4, -0.2, 0]], rtol=1e-5, atol=1e-6)
    assert data.panel("q")[0].tolist() == [[-2.0, 6.0, 0.0, 6.0]]
    assert data.code_range == (-6, 6)


def test_scales_of_0_and_negative_ones_have_steps_to_show():
    x = torch.zeros(2, 32)
    x[1, :3] = torch.tensor([8.0, 3.2, -1.4])
    r = qv.quantize(x, qv.Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed"))
    shown = result_panels(r, error_view="steps").shown_error
    np.testing.assert_allclose(shown[1, :3], [0, -0.2, 0.4], rtol=1e-4, atol=1e-6)
    assert not shown[0].any()


def test_the_bits_of_codes_that_are_no_numbers_are_told_on_hover():
    from quantviz.ui.components.panels_bridge import pack_cells

    r = result([[1.0, -2.0, 0.3]], "float4_e2m1fn,symmetric,per_tensor,min_max,course")
    packed = pack_cells(result_panels(r), "panels", "light")
    assert b'"code_bits": [1, 2, 1]' in packed
    assert r.q.numpy().tobytes() in packed
    assert b"code_bits" not in pack_cells(result_panels(r).only(PANELS, {"q"}), "panels", "light")
    trace = plot_quantization_errors(r.x, r.q, r.x_hat, torch.uint8, 4, result=r).to_plotly_json()["data"][1]
    told = decoded(trace["customdata"])[0, 1].tolist()
    assert told[1] == -6.0
    assert told[-1] == r.q[0, 1].item()
    assert "<br>code %{customdata[5]:04b}<br>" in trace["hovertemplate"]


def test_no_error_at_all_still_has_a_range():
    data = panels_data([[1.0, 2.0]], [[1, 2]], [[1.0, 2.0]])
    assert not data.shown_error.any()
    assert data.error_range == (-1, 1)


@pytest.mark.parametrize(
    ("granularity", "down", "across"),
    [
        (qv.PerTensor(), [], []),
        (qv.PerChannel(0), [1, 2, 3], []),
        (qv.PerChannel(1), [], [1, 2, 3, 4, 5]),
        (qv.PerGroup(3, 1), [1, 2, 3], [3]),
        (qv.PerGroup(2, 0), [2], [1, 2, 3, 4, 5]),
        (qv.PerBlock(2, 3), [2], [3]),
    ],
)
def test_borders_are_where_the_block_changes(granularity, down, across):
    r = qv.quantize(normal(4, 6), qv.Scheme("int4", granularity=granularity))
    data = result_panels(r)
    assert data.blocks.row_borders().tolist() == down
    assert data.blocks.col_borders().tolist() == across
    by_row, by_col = data.blocks.separated()
    np.testing.assert_array_equal(by_row[:, None] + by_col, data.blocks.ids)
    np.testing.assert_array_equal(
        data.blocks.scale.astype(np.float32), r.scale_of_cells().expand(r.shape).numpy()
    )
    paths = [shape.path for shape in panels_figure(data).layout.shapes]
    assert len(paths) == (4 if down or across else 0)
    for path in paths:
        assert path.count("H") == len(down)
        assert path.count("V") == len(across)


def test_borders_too_close_to_tell_apart_are_left_out():
    data = result_panels(qv.quantize(normal(128, 128), qv.Scheme("int4", granularity=qv.PerGroup(32, 1))))
    paths = {shape.path for shape in panels_figure(data).layout.shapes}
    assert len(paths) == 1
    path = paths.pop()
    assert path.count("V") == 3
    assert "H" not in path


def test_causes_are_the_explanations():
    x = torch.tensor([[0.0, 1.0, 0.2, 9.0], [7.0, -0.3, torch.inf, 2.4]])
    r = qv.quantize(x, qv.Scheme("int4", calibration=qv.ManualRange(-7, 7), nonfinite="ignore"))
    data = result_panels(r)
    for row in range(2):
        for col in range(4):
            assert CAUSES[data.cause[row, col]] == qv.explain(r, (row, col)).cause
    assert {CAUSES[place] for place in data.cause.ravel()} == set(CAUSES)


@pytest.mark.parametrize(
    "view", [View(1, 2, (1, 0, 0)), View(2, 0, (0, 3, 0)), View(0, 1, (0, 0, 4), top=1, left=2)]
)
def test_a_view_shows_the_cells_it_names(view):
    r = qv.quantize(normal(3, 4, 5), qv.Scheme("int4", granularity=qv.PerGroup(2, 1)))
    data = result_panels(r, view=view)
    assert data.shape == view.size(r.shape)
    scale = r.scale_of_cells().expand(r.shape)
    for row in range(data.shape[0]):
        for col in range(data.shape[1]):
            index = view.index(view.top + row, view.left + col)
            assert data.x[row, col] == r.x[index]
            assert data.q[row, col] == r.q[index]
            assert data.blocks.scale[row, col] == pytest.approx(float(scale[index]))
            assert CAUSES[data.cause[row, col]] == qv.explain(r, index).cause


def test_one_axis_is_one_row_and_more_show_the_last_two():
    assert result_panels(result(normal(5))).shape == (1, 5)
    four = normal(2, 3, 4, 5)
    np.testing.assert_array_equal(result_panels(result(four)).x, four[0, 0].numpy())


def test_the_stamp_tells_results_apart():
    x = normal(8, 8)
    stamps = {
        result_panels(result(x, f"int{bits},symmetric,per_tensor,min_max,course")).stamp
        for bits in (2, 3, 4, 8)
    }
    assert len(stamps) == 4


# ---- windows of larger matrices ----


def window_of(x, scheme, view):
    shape = tuple(x.shape)
    rows, cols = view.size(shape)
    index = list(view.at)
    index[view.rows], index[view.cols] = slice(view.top, view.top + rows), slice(view.left, view.left + cols)
    return quantize_part(x[tuple(index)], scheme, qv.choose_qparams(x, scheme), shape, tuple(index))


@pytest.mark.parametrize(
    "granularity", [qv.PerTensor(), qv.PerChannel(0), qv.PerChannel(1), qv.PerGroup(4, 1), qv.PerBlock(5, 4)]
)
@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_a_window_shows_what_the_whole_shows_there(granularity, axes):
    x, scheme = normal(20, 12), qv.Scheme("int4", "asymmetric", granularity)
    all_of_it = View(*axes, (0, 0))
    view = all_of_it.window(3, 2, 8, 7, (20, 12))
    whole = result_panels(qv.quantize(x, scheme), view=all_of_it)
    ends = (float(x.min()), float(x.max()))
    part = result_panels(window_of(x, scheme, view), view=view, whole=(20, 12), value_range=ends)
    assert (part.top, part.left, part.seen, part.matrix, part.whole) == (3, 2, (8, 7), whole.matrix, False)
    there = np.s_[3:11, 2:9]
    for name in ("x", "q", "x_hat", "error", "cause"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[there])
    np.testing.assert_array_equal(part.blocks.ids, whole.blocks.ids[there])
    np.testing.assert_array_equal(
        part.blocks.scale.astype(np.float32), whole.blocks.scale[there].astype(np.float32)
    )
    assert part.blocks.grid_shape == whole.blocks.grid_shape
    assert part.value_range == whole.value_range
    figure = go.Figure(json.loads(panels_figure(part, selected=(4, 5)).to_json()))
    assert (figure.layout.xaxis.range, figure.layout.yaxis.range) == ((1.5, 8.5), (10.5, 2.5))
    assert (figure.layout.xaxis.minallowed, figure.layout.xaxis.maxallowed) == (-0.5, whole.matrix[1] - 0.5)
    assert {(trace.x0, trace.y0) for trace in figure.data} == {(2, 3)}
    assert {(shape.x0, shape.y0) for shape in figure.layout.shapes if shape.type == "rect"} == {(4.5, 3.5)}
    # Borders lie where the whole has them.
    down = [row for row in whole.blocks.row_borders().tolist() if 3 < row < 11]
    assert (part.blocks.row_borders() + 3).tolist() == down
    assert all(f",{row - 0.5}H" in shape.path for shape in figure.layout.shapes if shape.path for row in down)


def pooled_panels(x, scheme, pixels, how="largest", **options):
    seen = overview(InMemory(x), scheme, qv.choose_qparams(x, scheme), Patch(6, 10, 24, 40), pixels, how)
    return overview_panels(
        seen, scheme=scheme, matrix=tuple(x.shape), value_range=(float(x.min()), float(x.max())), **options
    )


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("how", POOLS)
@pytest.mark.parametrize("form", ["int4", "float4_e2m1fn"])
def test_an_overview_is_a_picture_in_the_matrix_places(form, how, language):
    x = normal(60, 80)
    data = pooled_panels(x, qv.Scheme(form), (6, 8), how, error_view="absolute")
    assert (data.shape, data.seen, data.pixels.size(), data.whole) == ((6, 8), (24, 40), (4, 5), False)
    if how == "largest":
        assert data.value_range[1] == pytest.approx(float(x.abs().max()))
    else:
        # Colours reach to the ends of what is shown, which is less than the largest value.
        assert data.value_range[1] == pytest.approx(max(np.abs(data.x).max(), np.abs(data.x_hat).max()))
        assert (data.value_range[0] == 0) == (how == "rms")
    assert (data.pixels.x_at is not None) == (how == "largest")
    figure = go.Figure(json.loads(panels_figure(data, language=language).to_json()))
    images = [trace for trace in figure.data if trace.type == "image"]
    # The first pixel's middle, and from one to the next.
    assert {(image.x0, image.dx, image.y0, image.dy) for image in images} == {(12, 5, 7.5, 4)}
    assert figure.layout.meta["window"] == {"top": 6, "left": 10, "rows": 24, "cols": 40}
    assert len({annotation.text for annotation in figure.layout.annotations}) == 4
    assert "4 × 5" in figure.layout.annotations[0].text
    assert "4 × 5" in panels_alt(data, language)


def test_what_a_pixel_stands_for_is_sent_with_it():
    from quantviz.ui.components.panels_bridge import pack_cells

    x = normal(60, 80)
    data = pooled_panels(x, qv.Scheme("int4"), (6, 8))
    block = x[14:18, 25:30]
    assert data.pixels.x_at[2, 3] == int(block.abs().argmax())
    sent = pack_cells(data, "panels", "light")
    for array in (
        data.x,
        data.x_hat,
        data.error,
        data.pixels.x_at.astype("<u2"),
        data.pixels.error_at.astype("<u2"),
        data.pixels.row_edges.astype("<i4"),
    ):
        assert array.tobytes() in sent


def test_an_error_in_steps_needs_cells():
    with pytest.raises(qv.QuantVizError) as refused:
        pooled_panels(normal(60, 80), qv.Scheme("int4"), (6, 8), error_view="steps")
    assert refused.value.key == "panels.pooled_error_view"
    assert all("steps" in refused.value.message(language) for language in languages())


def test_pictures_of_two_places_are_told_apart():
    x, scheme = torch.zeros(300, 300), qv.Scheme("int4", calibration=qv.ManualRange(-1, 1))
    views = [View.of((300, 300)).window(top, left, 5, 5, (300, 300)) for top in (0, 7) for left in (0, 7)]
    assert (
        len({result_panels(window_of(x, scheme, view), view=view, whole=(300, 300)).stamp for view in views})
        == 4
    )


# ---- mistakes ----


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (lambda: panels_data([[1.0]], [[1, 2]], [[1.0]]), "panels.shapes_differ"),
        (lambda: panels_data([[1.0], [1.0, 2.0]], [[1]], [[1.0]]), "input_not_tensor"),
        (lambda: panels_data([[1.0]], [[1]], [[1.0]], error_view="cubed"), "panels.error_view"),
        (lambda: panels_data([[1.0]], [[1]], [[1.0]], error_view="steps"), "panels.steps_need_scale"),
        (lambda: panels_data(1.0, 1, 1.0), "input_dims"),
        (lambda: panels_data([], [], []), "input_empty"),
        (
            lambda: plot_quantization_errors(torch.zeros(2, 2), torch.zeros(2), torch.zeros(2, 2)),
            "panels.shapes_differ",
        ),
    ],
)
def test_a_mistake_is_named_in_both_languages(call, key):
    with pytest.raises(qv.QuantVizError) as caught:
        call()
    assert caught.value.key == key
    assert all(caught.value.message(language) for language in languages())


# ---- figure ----


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [360, 700, 1060])
@pytest.mark.parametrize("shape", [(1, 1), (7,), (8, 8), (1, 200), (130, 40)])
def test_the_figure_is_valid_and_serializes(shape, width, theme, language):
    data = result_panels(result(normal(*shape), "int4,asymmetric,per_channel,min_max,course"))
    figure = panels_figure(data, width=width, theme=theme, language=language, selected=(0, 0), tensor_key="t")
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
    held = error_caption(result_panels(r, error_view=view, error_range=1.64), language)
    assert ("164" if view == "relative" else "1.64") in held
    assert held != error_caption(result_panels(r, error_view=view), language)
    assert panels_alt(result_panels(r), language)
    titles = [
        annotation.text
        for annotation in panels_figure(
            result_panels(r, error_view=view), language=language
        ).layout.annotations
    ]
    assert len(set(titles)) == 4
    assert "int4" in titles[1]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.6449, "1.64"), (-0.5, "−0.5"), (0.0, "0"), (127.0, "127"), (1.5e-9, "1.5e−9"), (3e38, "3e38")],
)
def test_numbers_are_short(value, shown):
    assert short_number(value) == shown


# ---- the notebook's call ----


@pytest.mark.parametrize("kind", [list, torch.tensor])
def test_the_notebooks_call(kind):
    r = qv.quantize(NOTEBOOK, qv.Scheme("int8", "asymmetric", calibration=qv.Given(3.5, -70)))
    figure = plot_quantization_errors(kind(NOTEBOOK), kind(r.q.tolist()), kind(r.x_hat.tolist()))
    go.Figure(json.loads(figure.to_json()))
    texts = [annotation.text for annotation in figure.layout.annotations]
    assert texts[:4] == [
        "Original Tensor",
        "8-bit Linear Quantized Tensor",
        "Dequantized Tensor",
        "Quantization Error Tensor",
    ]
    assert "result=" in texts[4]
    assert (figure.layout.coloraxis2.cmin, figure.layout.coloraxis2.cmax) == (-128, 127)
    for trace in figure.to_plotly_json()["data"]:
        cells = decoded(trace["customdata"])
        assert cells.shape == (3, 3, 4)
        np.testing.assert_allclose(cells[0, 2], [728.6, 127, 689.5, -39.1], rtol=1e-5)
        assert "texttemplate" in trace


def test_the_notebooks_call_with_a_result_has_borders():
    r = qv.quantize(normal(6, 6), qv.Scheme("uint4", "asymmetric", qv.PerChannel(0)))
    figure = qv.plot_quantization_errors(r.x, r.q, r.x_hat, torch.uint8, 4, result=r)
    assert len(figure.layout.shapes) == 4
    assert len(figure.layout.annotations) == 4
    marked = qv.plot_quantization_errors(r.x, r.q, r.x_hat, torch.uint8, 4, result=r, selected=(2, 3))
    assert [(shape.x0, shape.y0) for shape in marked.layout.shapes[4:]] == [(2.5, 1.5)] * 8
    assert figure.layout.annotations[1].text == "4-bit Linear Quantized Tensor"
    assert (figure.layout.coloraxis2.cmin, figure.layout.coloraxis2.cmax) == (0, 15)


@pytest.mark.parametrize(
    ("granularity", "place"),
    [
        (qv.PerTensor(), []),
        (qv.PerChannel(0), [4]),
        (qv.PerChannel(1), [2]),
        (qv.PerGroup(2), [4, 1]),
        (qv.PerBlock(6, 2), [1]),
    ],
)
def test_the_notebooks_figure_tells_what_became_of_a_cell(granularity, place):
    r = qv.quantize(normal(6, 6), qv.Scheme("int4", granularity=granularity, calibration=qv.Percentile(80)))
    why = qv.explain(r, (4, 2))
    for trace in plot_quantization_errors(r.x, r.q, r.x_hat, n_bits=4, result=r).to_plotly_json()["data"]:
        told = decoded(trace["customdata"])[4, 2]
        np.testing.assert_allclose(told, [why.x, why.q, why.x_hat, why.error, *place, why.scale], rtol=1e-6)
        block = ", ".join(f"%{{customdata[{4 + i}]}}" for i in range(len(place))) or "the whole tensor"
        scale = f"scale %{{customdata[{4 + len(place)}]:.6~g}}"
        assert trace["hovertemplate"].split("<br>")[5:] == [
            f"block {block}",
            scale,
            "cause %{hovertext}<extra></extra>",
        ]
        # Format %d: where scales stand in place of row numbers, a bare %{y} would tell the scale.
        assert trace["hovertemplate"].startswith("(%{y:d}, %{x:d})<br>x ")
        assert trace["hovertext"] == [
            [text(f"causes.{qv.explain(r, (row, col)).cause}") for col in range(6)] for row in range(6)
        ]
    assert {"clipped", "rounded"} <= {word for row in trace["hovertext"] for word in row}


def test_one_scale_stands_under_the_notebooks_figure():
    r = result(NOTEBOOK)
    note = plot_quantization_errors(r.x, r.q, r.x_hat, n_bits=4, result=r).layout.annotations[4].text
    assert note == f"One scale for the whole tensor: {short_number(r.qparams.scale.item())}."


def test_the_result_of_other_codes_is_refused():
    r, other = result(NOTEBOOK), result(normal(3, 3))
    for x, q in ((NOTEBOOK, other.q), ([[1.0, 2.0]], [[1, 2]])):
        with pytest.raises(qv.QuantVizError) as refused:
            plot_quantization_errors(x, q, x, result=r)
        assert refused.value.key == "panels.result_of_others"


@pytest.mark.parametrize(
    ("cols", "value", "shown"),
    [(2, -1.2345, "−1.23"), (8, -1.2345, "−1.23"), (10, -1.2345, "−1.2"), (2, -0.0012345, "−0.00123")],
)
def test_values_are_printed_as_far_as_they_fit(cols, value, shown):
    x = torch.full((2, cols), value)
    trace = plot_quantization_errors(x, torch.zeros(2, cols), x).to_plotly_json()["data"][0]
    assert (trace["text"], trace["texttemplate"]) == ([[shown] * cols] * 2, "%{text}")


def test_values_that_do_not_fit_are_not_printed():
    x = torch.full((2, 10), -0.0012345)
    assert "text" not in plot_quantization_errors(x, torch.zeros(2, 10), x).to_plotly_json()["data"][0]


@pytest.mark.parametrize("n", [64, 100, 300])
def test_a_larger_notebook_figure_leaves_out_what_is_dear(n):
    r = result(normal(n, n))
    traces = plot_quantization_errors(r.x, r.q, r.x_hat, n_bits=4).to_plotly_json()["data"]
    assert all(("customdata" in trace) == (n <= 64) and "texttemplate" not in trace for trace in traces)


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


# ---- fewer panels, covered ones, lit cells --------------------------------------------------------


@pytest.mark.parametrize("names", [("x",), ("x", "q"), ("x", "q", "x_hat"), ("x", "error")])
def test_a_figure_shows_some_of_the_panels(names):
    figure = go.Figure(panels_figure(result_panels(result(NOTEBOOK)).only(names), width=640))
    assert [trace.name for trace in figure.data] == list(names)
    assert len(figure.layout.annotations) == len(names)
    assert figure.layout.meta["panels"] == list(names) or figure.layout.meta["panels"] == names


@pytest.mark.parametrize("width", [360, 640, 1060])
def test_what_is_covered_is_nowhere_in_the_figure_or_the_cells(width):
    from quantviz.ui.components.panels_bridge import pack_cells

    r = result(NOTEBOOK)
    data = result_panels(r).only(PANELS, {"q", "x_hat", "error", "scale"})
    figure = go.Figure(panels_figure(data, width=width))
    sent = figure.to_json().encode() + pack_cells(data, "panels", "light")
    for secret in (r.q.numpy(), r.x_hat.numpy(), r.error.numpy()):
        raw = secret.tobytes()
        assert raw not in sent
        assert base64.b64encode(raw) not in sent
    # What is open is there, so the search can find what is sent.
    assert r.x.numpy().tobytes() in pack_cells(data, "panels", "light")
    assert f"{r.qparams.scale.item():.3g}".encode() not in sent
    assert [annotation.text for annotation in figure.layout.annotations].count("?") == 3


def test_lit_cells_are_framed_in_every_panel():
    data = dataclasses.replace(result_panels(result(NOTEBOOK)), lit=np.eye(3, dtype=bool))
    shapes = go.Figure(panels_figure(data)).layout.shapes
    assert {shape.xref for shape in shapes} == {"x", "x2", "x3", "x4"}
    assert all(shape.path.count("M") == 3 for shape in shapes)


def test_enlarged_text_is_larger():
    usual, large = (
        go.Figure(panels_figure(result_panels(result(NOTEBOOK)), enlarge=factor)) for factor in (1.0, 1.5)
    )
    assert large.layout.annotations[0].font.size == 1.5 * usual.layout.annotations[0].font.size
    assert large.layout.width == usual.layout.width


def test_errors_below_the_rounding_of_x_are_printed_as_none():
    one = np.float32(12.5)
    x = [[float(one), 0.0, 1.0]]
    x_hat = [[float(np.nextafter(one, np.float32(13))), 1e-7, 1.0001]]
    figure = plot_quantization_errors(x, [[1, 2, 3]], x_hat)
    printed = figure.data[3].text[0]
    assert printed[0] == "0"
    assert printed[1] == "1e−7"
    assert printed[2].startswith("0.0001")
    # The number itself is told where the pointer is.
    assert decoded_hover(figure)[0] == pytest.approx(9.5367e-07, rel=1e-4)


def decoded_hover(figure):
    """The errors of the first row as the pointer tells them."""
    custom = figure.to_dict()["data"][3]["customdata"]
    shape = [int(n) for n in custom["shape"].split(",")]
    return np.frombuffer(base64.b64decode(custom["bdata"]), dtype=custom["dtype"]).reshape(shape)[0, :, 3]


SPREAD = Spread(0.5, 3.0)


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
        assert layout[axis]["colorbar"]["ticktext"] == ["−3", "3", "99 % of |x|"]
    assert layout["coloraxis4"]["cmax"] == linear.error_range[1]
    # Where nearly all is 0 the ends stay.
    assert with_value_scale(linear, "percentile", Spread(0.5, 0.0)).value_range == (-100, 100)
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
    assert layout["colorbar"]["ticktext"] == ["−100", "100", "log beyond ±0.5"]
    if side == 10:
        z = np.frombuffer(base64.b64decode(figure["data"][0]["z"]["bdata"]), dtype="f4")
        assert z[0] == pytest.approx(end)
        assert z[1:] == pytest.approx(
            np.sign(x.numpy().ravel()[1:]) * np.log1p(np.abs(x.numpy().ravel()[1:]) / 0.5), abs=1e-6
        )
    # Codes and errors are drawn as ever.
    assert data.colours("q")[1] == data.code_range
    assert data.colours("error")[1] == data.error_range


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_browser_knows_the_colours_of_a_logarithmic_scale(theme):
    """Between its stops it goes straight: what is printed is told apart from the colour that plotly draws."""
    data = with_value_scale(with_outlier(), "symlog", SPREAD)
    scale = _color_scale("x", data, THEMES[theme])
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
