"""The notebooks' figure: titles, hover and printed values."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

import quantviz as qv
from quantviz.figures.arrangement import PANELS
from quantviz.figures.numbers import short_number
from quantviz.figures.panels import plot_quantization_errors
from quantviz.figures.panels_data import result_panels
from quantviz.text import text
from tests.helpers.drawn import normal
from tests.helpers.panels import NOTEBOOK, decoded, result


def test_the_bits_of_codes_that_are_no_numbers_are_told_on_hover():
    from quantviz.live.cells import pack_cells

    r = result([[1.0, -2.0, 0.3]], "float4_e2m1fn,symmetric,per_tensor,min_max,course")
    packed = pack_cells(result_panels(r), "panels", "light")
    assert b'"code_bits":[1,2,1]' in packed
    assert r.q.numpy().tobytes() in packed
    assert b"code_bits" not in pack_cells(result_panels(r).only(PANELS, {"q"}), "panels", "light")
    trace = plot_quantization_errors(r.x, r.q, r.x_hat, torch.uint8, 4, result=r).to_plotly_json()["data"][1]
    told = decoded(trace["customdata"])[0, 1].tolist()
    assert told[1] == -6.0
    assert told[-1] == r.q[0, 1].item()
    assert "<br>code %{customdata[5]:04b}<br>" in trace["hovertemplate"]


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
    assert note == f"One scale for the whole tensor: {short_number(r.qparams.scale.item(), 4)}."


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


def test_errors_below_the_rounding_of_x_are_printed_as_none():
    one = np.float32(12.5)
    x = [[float(one), 0.0, 1.0]]
    x_hat = [[float(np.nextafter(one, np.float32(13))), 1e-7, 1.0001]]
    figure = plot_quantization_errors(x, [[1, 2, 3]], x_hat)
    printed = figure.data[3].text[0]
    assert printed[0] == "0"
    assert printed[1:] == ["1.00e−7", "1.00e−4"]
    # The number itself is told where the pointer is.
    assert decoded_hover(figure)[0] == pytest.approx(9.5367e-07, rel=1e-4)


def decoded_hover(figure):
    """The errors of the first row as the pointer tells them."""
    return decoded(figure.to_dict()["data"][3]["customdata"])[0, :, 3]
