"""`qv.show`: what it takes and refuses, and what comes back from its widget."""

import importlib.util

import pytest
import torch

import quantviz as qv
from quantviz.live import notebook

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(4))


def test_a_result_and_its_tensor_are_shown_alike(tmp_path):
    widget = qv.show(X, "int4_per_row", language="zh")
    same = qv.show(qv.quantize(X, "int4_per_row"))
    assert (widget.scheme, widget.cell) == (same.scheme, same.cell)
    assert torch.equal(widget.result.q, qv.quantize(X, "int4_per_row").q)
    widget.save(tmp_path / "x.html", panels=False)
    assert 'lang="zh"' in (tmp_path / "x.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("method", [None, "smoothquant+gptq+bias_correction"])
def test_a_layer_is_shown_by_its_multiplication(tmp_path, method):
    inputs = torch.randn(20, 8, generator=torch.Generator().manual_seed(5))
    layer = qv.layer(X, inputs, "int4_per_row", "int8_per_tensor", method=method)
    widget = qv.show(layer)
    assert widget.result is layer
    token, output, channel = widget.cell
    assert abs(layer.cells().error[token, output]) == layer.cells().error.abs().max()
    assert layer.culprit(token, output).params["channel"] == channel
    assert "rel_out" in widget._repr_mimebundle_()[0]["text/html"]
    widget.scheme = "int8_per_row"
    same = qv.layer(X, inputs, "int4_per_row", "int8_per_row", method=method)
    assert widget.result.rel_out == same.rel_out
    widget.cell = (19, 5, 7)
    widget.save(tmp_path / "x.html")
    for wrong in ((20, 0, 0), (0, 6, 0), (0, 0, 8), (0, 0)):
        with pytest.raises(qv.QuantVizError):
            widget.cell = wrong


def test_what_a_hand_moves_in_a_layer_comes_back():
    widget = qv.show(qv.layer(X, torch.randn(20, 8), "int4_per_row", "int8_per_tensor"))
    moved = {"scheme": widget.scheme, "cell": [1, 2, 3], "edits": [[[5], 4.0], [[2, 3], 1.5]]}
    widget._hear(widget, {"chosen": moved}, [])
    found = widget.result
    assert widget.cell == (1, 2, 3)
    assert found.inputs.values(slice(None))[:, 5].abs().max() == 4
    assert found.weights.values(slice(None))[2, 3] == 1.5


def test_layers_that_a_page_cannot_hold_are_refused_with_the_way_out():
    wide = torch.ones(64, 2**12)
    with pytest.raises(qv.QuantVizError, match="room for"):
        qv.show(qv.layer(wide, wide))
    with pytest.raises(qv.QuantVizError, match="outputs="):
        qv.show(qv.layer(X, X, None, None, outputs="int8_per_tensor"))


def test_where_no_scripts_run_it_is_a_picture():
    bundle, _ = qv.show(X, "int4_per_row")._repr_mimebundle_()
    assert {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"} <= bundle.keys()


def test_what_is_set_in_python_is_shown(monkeypatch):
    widget = qv.show(X, "int4_per_row")
    said = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=(): said.append(content))
    widget.scheme = "int8_per_tensor"
    assert widget.scheme == str(qv.RECIPES["int8_per_tensor"])
    assert torch.equal(widget.result.q, qv.quantize(X, "int8_per_tensor").q)
    widget.cell = (5, 7)
    assert said == [{"anew": True}] * 2
    for wrong in ({"scheme": "int99"}, {"scheme": "int4_g128"}, {"cell": (6, 0)}):
        with pytest.raises(qv.QuantVizError):
            widget.set_trait(*wrong.popitem())
    assert (widget.scheme, widget.cell) == (str(qv.RECIPES["int8_per_tensor"]), (5, 7))


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"chosen": {}},
        {"asked": {"view": 3, "dark": True}},
        {"chosen": {"scheme": "int4", "cell": [-1], "edits": []}},
    ],
)
def test_a_damaged_message_changes_nothing(message):
    widget = qv.show(X, "int4_per_row")
    before = widget.scheme, widget.cell
    widget._hear(widget, message, [])
    assert (widget.scheme, widget.cell) == before


@pytest.mark.parametrize(
    ("what", "scheme", "said"),
    [
        (X, None, "needs the scheme"),
        (qv.quantize(X, "int4_per_row"), "int8_per_row", "its own scheme"),
        (torch.ones(300, 300), "int4_per_row", "at most"),
        (qv.layer(X, X, "int4_per_row"), "int8_per_row", "its own scheme"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_way_out(what, scheme, said):
    with pytest.raises(qv.QuantVizError, match=said):
        qv.show(what, scheme)


def test_without_anywidget_it_says_what_to_install(monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(notebook, "find_spec", lambda name: None if name == "anywidget" else there(name))
    with pytest.raises(qv.QuantVizError, match=r"quantviz\[notebook\]"):
        qv.show(X, "int4_per_row")
