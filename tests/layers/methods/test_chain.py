"""Chains of methods: their text form, their order, and the laws that hold for any of them."""

import pickle

import pytest
import torch

import quantviz as qv
from quantviz.layers.methods.chain import METHODS, Chain, as_chain
from quantviz.layers.methods.contract import STAGES


def drawn(rows, cols, seed):
    return torch.empty(rows, cols).normal_(generator=torch.Generator().manual_seed(seed))


W = drawn(6, 32, 1)
X = drawn(64, 32, 2) @ drawn(32, 32, 3)


@pytest.mark.parametrize("name", METHODS)
def test_each_method_has_a_text_form_and_a_stage(name):
    chain = as_chain(name)
    assert str(chain) == name
    assert as_chain(str(chain)) == chain
    assert pickle.loads(pickle.dumps(chain)) == chain
    assert METHODS[name].stage in STAGES


def test_the_empty_chain_is_rounding_to_nearest_to_the_bit():
    plain = qv.layer(W, X, "int4_g32", "int8_per_token")
    for method in (None, "nearest", Chain()):
        same = qv.layer(W, X, "int4_g32", "int8_per_token", method=method)
        assert same.rel_out == plain.rel_out
        assert torch.equal(same.weights.quantized(slice(None)), plain.weights.quantized(slice(None)))
        assert str(same.method) == "nearest"
        assert same.effective_bits == 4.5


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ("gtpq", "method.unknown"),
        ("gptq+", "method.unknown"),
        ("gptq+gptq", "method.twice"),
        ("gptq(blok=3)", "text_form_unknown_field"),
        ("gptq(order=falling)", "method.word"),
        ("gptq(damping=-1.0)", "method.number"),
        ("gptq(block=0)", "method.number"),
        (3, "method.form"),
    ],
)
def test_a_wrong_chain_is_refused_with_its_reason(form, key):
    with pytest.raises(qv.QuantVizError) as caught:
        as_chain(form)
    assert caught.value.key == key


def test_the_leaderboard_ranks_a_result_as_its_layer():
    result = qv.layer(W, X, "int4_g32", None)
    found = qv.leaderboard(result, ["int4_g32"], ["nearest", "GPTQ"])
    errors = dict(zip(found.method, found.rel_out_held_back, strict=True))
    assert errors == {
        "nearest": result.rel_out.held_back,
        "gptq": qv.layer(W, X, "int4_g32", None, method="gptq").rel_out.held_back,
    }


def test_a_method_never_sees_a_token_that_is_held_back():
    first = qv.layer(W, X, "int4_g32", None, method="gptq")
    changed = X.clone()
    changed[first.held_back] = 1000.0
    again = qv.layer(W, changed, "int4_g32", None, method="gptq")
    assert torch.equal(first.weights.quantized(slice(None)), again.weights.quantized(slice(None)))
