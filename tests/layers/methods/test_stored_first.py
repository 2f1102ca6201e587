"""A stored format that is rounded again: gguf's bits, torch's float8, and the errors that are told."""

import pytest
import torch

import quantviz as qv
from quantviz.layers.built_in import BuiltInLayer
from quantviz.layers.methods.chain import as_chain
from tests.layers.methods.record_gptq import layers
from tests.layers.methods.rows_apart import _again

LAYER = BuiltInLayer("minilm_4_value").open()


def values(form, method, w=LAYER.weight):
    found = qv.layer(w, LAYER.inputs, form, None, method=method)
    return found.weights.quantized(slice(None))


@pytest.mark.parametrize("number", [0, 5])
def test_q8_0_into_four_bits_has_the_bits_of_gguf(number):
    w, x = list(layers())[number]
    assert _again(number, w, x)


def test_fp8_into_fp8_has_the_bits_of_torch():
    """As vLLM quantizes fused layers again, at the scale of another range."""
    w = values(None, None).float()  # the layer's own are float16
    scale = w.abs().max() / 448
    stored = (w / scale).to(torch.float8_e4m3fn).float() * scale
    rows = stored.abs().amax(1, keepdim=True) / 448
    again = (stored / rows).to(torch.float8_e4m3fn).float() * rows
    assert torch.equal(values("fp8_e4m3_per_row", "stored", w), again)


def test_the_errors_told_are_those_of_layers():
    result = LAYER.result("int4_g32", None, method="stored(recipe=int4_per_row)")
    (note,) = (each for each in result.notes if each.key == "method_stored_again")
    alone = {
        "once": LAYER.result("int4_per_row", None),
        "again": result,
        "direct": LAYER.result("int4_g32", None),
    }
    for name, layer in alone.items():
        assert note.params[name] == pytest.approx(100 * layer.rel_out.used, rel=1e-6)
    assert note.params["again"] > note.params["direct"]


def test_a_weight_that_is_not_rounded_again_is_the_stored_one():
    for recipe in ("fp8_e4m3_per_tensor", "fp8_e4m3_per_row", "bnb_int8"):
        assert torch.equal(values(None, f"stored(recipe={recipe})"), values(recipe, None))


def test_the_error_is_from_the_weight_as_it_was():
    result = LAYER.result("int4_per_row", None, method="stored(recipe=int8_per_row)+gptq")
    assert not any(each.key == "method_in_basis" for each in result.notes)
    w, x = (side.values(slice(None)).double() for side in (result.weights, result.inputs))
    changes = result.weights.quantized(slice(None)).double() - w
    squares = ((x @ changes.T).square().sum(1), (x @ w.T).square().sum(1))
    used = ~result.held_back
    assert result.rel_out.used == pytest.approx(
        float(squares[0][used].sum() / squares[1][used].sum()), rel=1e-6
    )


def test_a_recipe_that_is_unknown_or_does_not_fit_is_refused():
    with pytest.raises(qv.QuantVizError) as unknown:
        as_chain("stored(recipe=q9_0)")
    assert unknown.value.key == "method.word"
    with pytest.raises(qv.QuantVizError):
        qv.layer(torch.ones(4, 20), torch.ones(8, 20), "int4_per_row", None, method="stored(recipe=q8_0)")
