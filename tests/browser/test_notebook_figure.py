"""What a notebook's figure tells where the pointer is, drawn by plotly itself."""

import pytest
import torch

import quantviz as qv
from tests.helpers.sample import sample_of


@pytest.mark.parametrize(
    ("granularity", "block"),
    sample_of(
        [
            (qv.PerChannel(0), "block 1"),
            (qv.PerChannel(1), "block 2"),
            (qv.PerTensor(), "block the whole tensor"),
        ],
        1,
    ),
)
def test_pointing_at_a_cell(new_context, tmp_path, granularity, block):
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(0)) * 3
    r = qv.quantize(x, qv.Scheme("int4", granularity=granularity))
    figure = qv.plot_quantization_errors(r.x, r.q, r.x_hat, n_bits=4, result=r)
    figure.write_html(tmp_path / "figure.html", include_plotlyjs=True)
    page = new_context(viewport={"width": 1300, "height": 420}).new_page()
    page.goto((tmp_path / "figure.html").as_uri())
    codes = page.locator(".nsewdrag").nth(1)
    codes.wait_for()
    box = codes.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 2.4 / 8, box["y"] + box["height"] * 1.4 / 6)
    lines = page.locator(".hoverlayer text tspan.line")
    lines.first.wait_for()
    told = lines.all_text_contents()
    why = qv.explain(r, (1, 2))
    # The row and the column, although scales stand in place of their numbers at this panel's edge.
    assert told[:3] == ["(1, 2)", f"x {why.x:.6g}", f"q {why.q}"]
    assert told[5:] == [block, f"scale {why.scale:.6g}", f"cause {why.cause}"]
