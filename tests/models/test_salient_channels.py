"""Salient channels of the built-in models: which they are, and what they cost."""

import dataclasses

import pytest

from quantviz.models.character_model import TWIN, loud_channels, network_of, pieces_of
from quantviz.models.model_schemes import scheme_of_bits
from quantviz.models.running import divergence, original, scores_of
from quantviz.models.running import run_built_in as run
from quantviz.models.salient_channels import KEPT_BY, salient_channels, salient_costs
from quantviz.quantization.quantizer import quantize

SCHEME = scheme_of_bits(4)


@pytest.fixture(scope="module")
def costs():
    return salient_costs(TWIN, SCHEME)


def test_the_largest_inputs_of_the_twin_are_its_loud_channels():
    for kind, loud in loud_channels().items():
        for layer in range(4 if loud else 0):
            found = salient_channels(TWIN, f"model.layers.{layer}.{kind}", "activation")
            assert len(set(found.tolist()) & set(loud)) == min(len(found), len(loud))
            assert not set(salient_channels(TWIN, f"model.layers.{layer}.{kind}", "weight").tolist()) & set(
                loud
            )


def test_channels_chosen_by_the_inputs_alone_lower_the_divergence(costs):
    assert costs["activation"].kl < costs["nothing"].kl / 2
    for choice in ("weight", "random"):
        assert costs[choice].kl == pytest.approx(costs["nothing"].kl, rel=0.02)
    # 2 of 128 channels, or 6 of 512, have 16 bits.
    assert {round(costs[choice].bits, 2) for choice in KEPT_BY} == {4.44}
    assert costs["scaled 2"].bits == costs["nothing"].bits


def test_nothing_kept_is_the_model_under_the_scheme(costs):
    found = run(TWIN, SCHEME)
    assert costs["nothing"].kl == pytest.approx(found.kl, rel=1e-6)
    assert costs["nothing"].bits == pytest.approx(found.bits)


def test_scaled_channels_are_rounded_on_a_finer_grid(costs):
    network = network_of(TWIN)
    tensors = dict(network.tensors)
    for name in network.sizes.linear_layers()[:-1]:
        weight = tensors[f"{name}.weight"].clone()
        loud = salient_channels(TWIN, name, "activation")
        weight[:, loud] *= 4
        rounded = quantize(weight, SCHEME).x_hat.clone()
        rounded[:, loud] /= 4
        tensors[f"{name}.weight"] = rounded
    changed = dataclasses.replace(network, tensors=tensors)
    kl = divergence(original(TWIN, None), scores_of(changed, pieces_of(TWIN, None)))
    assert costs["scaled 4"].kl == pytest.approx(kl, rel=1e-6)
    assert costs["scaled 4"].kl < costs["nothing"].kl
