"""What the four panels show is right: arrays, ranges, borders, windows and pixels."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

import quantviz as qv
from quantviz.figures.arrangement import PANELS, PanelsStyle
from quantviz.figures.panel_painter import panels_alt
from quantviz.figures.panels import panels_figure, plot_quantization_errors
from quantviz.figures.panels_data import overview_panels, panels_data, result_panels
from quantviz.quantization.cells import quantize_part
from quantviz.quantization.explanation import CAUSES
from quantviz.streaming.frames import Patch
from quantviz.streaming.overview import overview
from quantviz.tensors.lazy import InMemory
from quantviz.tensors.views import ERROR_VIEWS, POOLS, View
from quantviz.text import languages
from tests.helpers.drawn import normal
from tests.helpers.panels import result


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
    assert title.startswith("q codes · " if fmt.kind == "integer" else "q value · ")


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
    quiet = np.full((8, 8), 0.5, np.float32)
    fitted = result_panels(r, error_view=view, quiet=quiet)
    assert not fitted.error_held
    assert fitted.error_range[1] == pytest.approx(float(np.nanmax(np.abs(fitted.shown_error))))
    assert fitted.error_range[0] == (0 if view == "absolute" else -fitted.error_range[1])
    held = result_panels(r, error_view=view, error_range=1.64, quiet=quiet)
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
    figure = go.Figure(json.loads(panels_figure(data, PanelsStyle(language=language)).to_json()))
    images = [trace for trace in figure.data if trace.type == "image"]
    # The first pixel's middle, and from one to the next.
    assert {(image.x0, image.dx, image.y0, image.dy) for image in images} == {(12, 5, 7.5, 4)}
    assert figure.layout.meta["window"] == {"top": 6, "left": 10, "rows": 24, "cols": 40}
    assert len({annotation.text for annotation in figure.layout.annotations}) == 4
    assert "4 × 5" in figure.layout.annotations[0].text
    assert "4 × 5" in panels_alt(data, language)


def test_what_a_pixel_stands_for_is_sent_with_it():
    from quantviz.live.cells import pack_cells

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
