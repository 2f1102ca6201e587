"""A notebook's figure: of a large tensor a picture, and a PNG beside plotly's own."""

import copy
import io
import json
import pickle

import numpy as np
import plotly.io
import pytest
import torch
from PIL import Image

import quantviz as qv
from quantviz.figures.panels import MOST_PIXELS
from quantviz.figures.panels_data import picture_panels
from quantviz.figures.theme import THEMES, rgb

X = torch.tensor([[1.0, -2.0, 0.5], [-0.25, 2.0, 0.0]])


def figure_of(x, scheme="int4_per_row", with_result=True):
    r = qv.quantize(x, scheme)
    return qv.plot_quantization_errors(
        r.x, r.q, r.x_hat, n_bits=r.scheme.number_format.bits, result=r if with_result else None
    )


def test_a_pixel_tells_its_largest_cell_and_its_largest_error():
    x = torch.randn(37, 53, generator=torch.Generator().manual_seed(5))
    r = qv.quantize(x, "int4_per_row")
    data = picture_panels(r.x, r.q, r.x_hat, 10)
    rows, cols = data.pixels.row_edges.tolist(), data.pixels.col_edges.tolist()
    assert (rows[0], rows[-1], cols[0], cols[-1], data.shape, data.matrix) == (
        0,
        37,
        0,
        53,
        (10, 10),
        (37, 53),
    )
    for i in range(10):
        for j in range(10):
            part = (slice(rows[i], rows[i + 1]), slice(cols[j], cols[j + 1]))
            at = int(r.x[part].abs().argmax())
            assert (data.x[i, j], data.q[i, j], data.x_hat[i, j]) == tuple(
                values[part].flatten()[at].item() for values in (r.x, r.q, r.x_hat)
            )
            assert abs(data.error[i, j]) == r.error[part].abs().max().item()


@pytest.mark.parametrize("scheme", ["int8_per_tensor", "int4_g32", "nf4_64", "fp8_e4m3_per_row"])
@pytest.mark.parametrize("with_result", [True, False])
@pytest.mark.parametrize("shape", [(3000, 1024), (2, 2, 2000, 64), (40_000,)], ids=str)
def test_a_large_tensor_makes_a_small_figure(shape, with_result, scheme):
    if len(shape) == 1 and scheme == "fp8_e4m3_per_row":
        shape = (1, *shape)
    figure = figure_of(torch.randn(shape, generator=torch.Generator().manual_seed(6)), scheme, with_result)
    assert len(figure.to_json()) < 1_500_000
    assert [trace["type"] for trace in figure.to_dict()["data"]] == ["image", "heatmap"] * 4
    assert "Each pixel shows" in " ".join(each["text"] for each in figure.to_dict()["layout"]["annotations"])


def test_a_small_tensor_keeps_its_cells():
    data = json.loads(figure_of(torch.randn(100, 100)).to_json())["data"]
    assert [trace["type"] for trace in data] == ["heatmap"] * 4
    assert picture_panels(X, X, X, MOST_PIXELS).pixels is None


def test_codes_of_another_result_are_refused_however_large():
    r = qv.quantize(torch.randn(500, 500), "int4_per_row")
    with pytest.raises(qv.QuantVizError):
        qv.plot_quantization_errors(r.x, -r.q, r.x_hat, result=r)
    with pytest.raises(qv.QuantVizError, match="quantize"):
        qv.plot_quantization_errors(r.x, r.q, r.x_hat, result="r")


@pytest.fixture
def mimetypes():
    before, plotly.io.renderers.default = plotly.io.renderers.default, "plotly_mimetype"
    yield
    plotly.io.renderers.default = before


def test_the_png_has_each_cell_in_the_figures_colour(mimetypes):
    bundle = figure_of(X)._repr_mimebundle_()
    assert "application/vnd.plotly.v1+json" in bundle
    pixels = np.asarray(Image.open(io.BytesIO(bundle["image/png"])).convert("RGB"))
    # The lowest and the highest value of x, in the middle of their cells: see `static` for where a panel
    # lies.
    ends = rgb(THEMES["light"].values, 255)[[0, -1]]
    width = 260 / 3
    for (row, col), colour in (((0, 1), ends[0]), ((1, 1), ends[1])):
        assert (
            pixels[int(42 + (row + 0.5) * width), int(20 + (col + 0.5) * width)].tolist() == colour.tolist()
        )


def test_a_notebook_without_nbformat_shows_the_figure(mimetypes, monkeypatch):
    """plotly raised there: "Mime type rendering requires nbformat>=4.2.0 but it is not installed"."""
    IPython = pytest.importorskip("IPython")
    shown = []
    monkeypatch.setattr("plotly.io._renderers.nbformat", None)
    monkeypatch.setattr(IPython.display, "display", lambda bundle, raw: shown.append((bundle, raw)))
    figure_of(X)._ipython_display_()
    ((bundle, raw),) = shown
    assert raw
    assert {"application/vnd.plotly.v1+json", "image/png", "text/plain"} <= bundle.keys()
    assert len(bundle["text/plain"]) < 100


def test_a_figure_can_be_changed_copied_and_sent(mimetypes):
    figure = figure_of(X)
    figure.update_layout(height=500)
    assert figure.layout.height == 500
    assert "image/png" in figure._repr_mimebundle_()
    for other in (copy.deepcopy(figure), pickle.loads(pickle.dumps(figure))):
        assert other.to_dict() == figure.to_dict()
        assert "application/vnd.plotly.v1+json" in other._repr_mimebundle_()
