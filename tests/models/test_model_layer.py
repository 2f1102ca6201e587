"""Layers of the built-in models: their forms in links, and their values."""

import pytest
import torch

from quantviz.errors import QuantVizError
from quantviz.lab.layer_sources import parse_layer, write_layer
from quantviz.models.character_model import CALIBRATED_ON, CHARACTER, MODELS, TWIN, network_of, sizes_of
from quantviz.text import languages


@pytest.mark.parametrize("model", MODELS)
def test_a_layer_of_a_model_is_its_form_its_weight_and_its_inputs(model):
    for name in sizes_of(model).linear_layers():
        form = f"model(name={model},layer={name})"
        source = parse_layer(form)
        assert write_layer(source) == source.key == form
        layer = source.open()
        assert layer.shape == source.shape
        assert torch.equal(layer.weight, network_of(model).tensors[f"{name}.weight"])
        assert layer.inputs.shape == (CALIBRATED_ON, layer.weight.shape[1])
        for language in languages():
            assert name.removeprefix("model.") in source.title(language)


def test_a_layer_of_the_twin_computes_the_same_from_louder_inputs():
    one, other = (
        parse_layer(f"model(name={model},layer=model.layers.1.self_attn.v_proj)").open()
        for model in (CHARACTER, TWIN)
    )
    assert torch.equal(one.inputs @ one.weight.T, other.inputs @ other.weight.T)
    assert other.inputs.abs().amax() > 8 * one.inputs.abs().amax()


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ("model(name=nothing,layer=lm_head)", "model.unknown"),
        ("model(name=character,layer=model.layers.4.fc1)", "model.no_layer"),
        ("model(name=character)", "layer.form"),
        ("changed(model(name=nothing,layer=lm_head),x0=1.0)", "model.unknown"),
    ],
)
def test_a_form_of_no_layer_of_a_model_gets_a_sentence(form, key):
    with pytest.raises(QuantVizError) as refused:
        parse_layer(form)
    assert refused.value.key == key
