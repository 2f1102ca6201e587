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


def test_a_layer_is_shown_by_its_weights():
    layer = qv.layer(X, torch.randn(20, 8), "int4_per_row", "int8_per_tensor")
    assert torch.equal(qv.show(layer).result.q, layer.weights.study.result.q)


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
        (qv.layer(X, torch.randn(20, 8), "int4_per_row", method="gptq"), None, "a method"),
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
