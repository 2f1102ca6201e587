"""A model under schemes: text, loss, KL divergence, layers and cache."""

import dataclasses
import math
import pickle

import pytest
import torch

import quantviz as qv
from quantviz.models.character_model import CHARACTER, MODELS, TWIN, network_of, tokens_of
from quantviz.models.layer_effects import PIECES, layer_effects
from quantviz.models.model_schemes import BITS, LayerSchemes, ModelSchemes, scheme_of_bits
from quantviz.models.network import HEAD, logits
from quantviz.models.quantizing import quantized_network, rounder
from quantviz.models.texts import as_text, first_difference, written


def of_bits(bits, **more):
    return ModelSchemes(LayerSchemes(scheme_of_bits(bits)), **more)


@pytest.mark.parametrize("model", MODELS)
def test_16_bits_give_the_originals_text_exactly(model):
    found = qv.run(model, of_bits(16, embedding=scheme_of_bits(16)))
    assert found.written == found.original_written
    assert found.first_difference is None
    assert found.original_choices == found.written
    assert found.changed_choices == 0
    assert found.kl == 0
    assert found.loss == found.original_loss


def test_fewer_bits_cost_more():
    runs = [qv.run(CHARACTER, of_bits(bits)) for bits in BITS]
    kls = [run.kl for run in runs]
    assert kls == sorted(kls)
    assert kls[-1] > 1 > 0.1 > kls[1]
    assert runs[-1].loss > runs[0].loss + 0.5
    assert runs[-1].written != runs[0].written


def test_loud_channels_cost_where_they_share_a_scale_with_others():
    plain, loud = (
        qv.run(model, LayerSchemes("int8_per_row", "int8_per_tensor")) for model in (CHARACTER, TWIN)
    )
    assert loud.kl > 10 * plain.kl
    assert loud.original_loss == plain.original_loss


def test_llm_int8_keeps_loud_inputs_in_half_precision():
    near, mixed = (
        qv.run(TWIN, LayerSchemes("int8_per_row", "int8_per_token", method))
        for method in ("nearest", "llm_int8")
    )
    assert mixed.kl < near.kl / 5
    assert mixed.bits > near.bits


def test_each_layer_takes_a_codebook_of_its_own():
    plain, own = (qv.run(CHARACTER, LayerSchemes(scheme_of_bits(3), None, m)) for m in ("nearest", "kmeans"))
    assert own.kl < plain.kl
    # Beside the scales of the rows eight values of 16 bits are stored with each layer.
    assert 0 < own.bits - plain.bits < 0.01
    weight = own.quantized.layers["model.layers.0.fc2"].weight
    assert {len(set(row.tolist())) for row in weight} <= set(range(2, 9))
    assert len(set(weight.flatten().tolist())) > 8


def test_a_codebook_for_loud_channels_needs_their_inputs():
    methods = ("kmeans", "kmeans(weighting=activation)")
    plain, weighed = (qv.run(TWIN, LayerSchemes(scheme_of_bits(4), None, each)) for each in methods)
    assert weighed.kl < plain.kl / 3


def test_kl_is_that_of_torch():
    found = qv.run(CHARACTER, "int4_per_row")
    tokens = tokens_of("held_back")[:, :-1]
    with torch.no_grad():
        before = logits(network_of(CHARACTER), tokens).double().log_softmax(-1)
        after = logits(found.quantized.network, tokens).double().log_softmax(-1)
        wanted = torch.nn.functional.kl_div(after, before, log_target=True, reduction="none").sum(-1).mean()
    assert found.kl == pytest.approx(wanted.item() / math.log(2), rel=1e-9)


def test_the_choices_are_those_of_torch():
    found = qv.run(CHARACTER, "int4_per_row")
    tokens = tokens_of("held_back")[:, :-1]
    with torch.no_grad():
        nets = (network_of(CHARACTER), found.quantized.network)
        before, after = (logits(each, tokens).argmax(-1) for each in nets)
    assert found.changed_choices == (before != after).double().mean().item() > 0
    # The first character that rounding changed is that at which the two texts part.
    own, other = found.written, found.original_choices
    assert first_difference(own, other) == found.first_difference
    assert other[found.first_difference] == found.original_written[found.first_difference]


def test_a_layer_has_the_numbers_of_the_layer_alone():
    found = qv.run(TWIN, LayerSchemes("int4_g32", "int8_per_token"))
    name = "model.layers.2.fc2"
    weight = network_of(TWIN).tensors[f"{name}.weight"]
    assert found.layers[name].weight_db == qv.metrics(qv.quantize(weight, "int4_g32"))["sqnr_db"]
    assert math.isinf(found.layers[HEAD].weight_db)
    assert found.layers[HEAD].rel_out == 0
    assert found.layers[name].bits == 4.5


def test_schemes_of_one_layer_are_its_own():
    name = "model.layers.0.fc1"
    schemes = ModelSchemes(own=((name, LayerSchemes("int2,symmetric,per_channel,min_max,course")),))
    found = quantized_network(CHARACTER, schemes)
    before = network_of(CHARACTER).tensors
    changed = {
        each for each, values in found.network.tensors.items() if not torch.equal(values, before[each])
    }
    assert changed == {f"{name}.weight"}
    with pytest.raises(qv.QuantVizError, match="fc3"):
        quantized_network(CHARACTER, ModelSchemes(own=(("fc3", LayerSchemes()),)))


def test_the_effect_of_a_layer_is_that_of_whole_runs():
    names = ("model.layers.0.self_attn.k_proj", "model.layers.2.fc1", HEAD)
    own = {name: LayerSchemes(scheme_of_bits(3), "int8_per_row") for name in names}
    text = as_text(tokens_of("held_back")[:PIECES].flatten())

    def kl(*rounded):
        return qv.run(TWIN, ModelSchemes(own=tuple((name, own[name]) for name in rounded)), text).kl

    for effect in layer_effects(TWIN, ModelSchemes(own=tuple(own.items()))):
        assert effect.kl_alone == kl(effect.name) > 0
        assert effect.kl_others == kl(*(name for name in names if name != effect.name))


def test_the_cache_rounds_keys_and_values():
    by_channel = qv.run(TWIN, ModelSchemes(keys="int4_per_column", values="int4_per_row"))
    by_token = qv.run(TWIN, ModelSchemes(keys="int4_per_row", values="int4_per_row"))
    assert by_token.kl > 3 * by_channel.kl > 0
    assert by_channel.bits == 16
    eight = qv.run(TWIN, ModelSchemes(keys="fp8_e4m3_per_tensor", values="fp8_e4m3_per_tensor"))
    assert eight.kl < by_token.kl


def test_a_text_written_with_a_rounded_cache_is_that_of_one_pass():
    """Each character written is the likeliest of a pass over the whole text, up to its draw."""
    schemes = ModelSchemes(LayerSchemes("int4_per_row", "int8_per_token"), keys="int4_per_column")
    network = quantized_network(TWIN, schemes).network
    text = written(network, "import os\n", 24)
    for count in (1, 7, 23):
        assert written(network, "import os\n", count) == text[:count]
    # Guesses save passes and change nothing, whether they are right or wrong.
    for other in (written(network_of(TWIN), "import os\n", 24), "~" * 24):
        assert written(network, "import os\n", 24, like=(network_of(TWIN), other)) == text
    cheap = dataclasses.replace(network, inputs={}, cached={})
    assert written(network, "import os\n", 24, like=(cheap, "~" * 24)) == text


def test_a_scale_that_tokens_share_is_chosen_ahead():
    seen = torch.tensor([[1.0, -4.0], [7.0, 2.0]])
    per_tensor = rounder(qv.Scheme("int4"), seen)
    assert per_tensor(torch.tensor([[70.0, 0.6]])).tolist() == [[7.0, 1.0]]
    per_token = rounder(qv.Scheme("int4", granularity=qv.PerChannel(0)), seen)
    assert per_token(torch.tensor([[70.0, 0.6]])).tolist() == [[70.0, 0.0]]


@pytest.mark.parametrize(("method", "together"), [("nearest", 1), ("rotation", 1), ("smoothquant", 3)])
def test_queries_keys_and_values_round_the_inputs_that_they_share_once(method, together):
    network = quantized_network(
        TWIN, ModelSchemes(LayerSchemes("int8_per_row", "int8_per_tensor", method))
    ).network
    tokens = tokens_of("held_back")[:1, :9]
    calls = []

    def counted(rounder):
        def rounded(x):
            calls.append(x.shape)
            return rounder(x)

        return rounded

    own = {rounder: counted(rounder) for rounder in network.inputs.values()}
    inputs = {name: own[rounder] for name, rounder in network.inputs.items()}
    apart = {name: counted(rounder) for name, rounder in network.inputs.items()}
    shared = logits(dataclasses.replace(network, inputs=inputs), tokens)
    assert len(calls) == network.sizes.layers * (together + 3)
    # Each with a rounder of its own: the same numbers, more often.
    torch.testing.assert_close(
        logits(dataclasses.replace(network, inputs=apart), tokens), shared, rtol=0, atol=0
    )
    assert len(calls) == network.sizes.layers * (together + 3 + 6)


@pytest.mark.parametrize("recipe", ["q4_k", "iq4_xs", "tq2_0"])
@pytest.mark.parametrize("side", ["weights", "inputs", "keys", "values"])
def test_blocks_wider_than_a_layer_are_refused_by_a_sentence(recipe, side):
    of_layers = side in ("weights", "inputs")
    schemes = ModelSchemes(LayerSchemes(**{side: recipe})) if of_layers else ModelSchemes(**{side: recipe})
    with pytest.raises(qv.QuantVizError, match="256"):
        _ = qv.run(CHARACTER, schemes, "def f(x):\n    return x\n").loss


def test_a_layer_that_is_named_twice_is_refused():
    twice = (("lm_head", LayerSchemes("int8_per_row")), ("lm_head", LayerSchemes("int4_per_row")))
    with pytest.raises(qv.QuantVizError) as caught:
        ModelSchemes(own=twice)
    assert caught.value.key == "model.layer_twice"


def test_words_and_values():
    assert first_difference("same", "same") is None
    found = qv.run(CHARACTER, "int8_per_row", "def f(x):\n    return x\n" * 12)
    assert 0 < found.loss < 4
    assert "RunResult(character" in repr(found)
    assert "bits a weight" in found._repr_html_()
    assert pickle.loads(pickle.dumps(found.schemes)) == found.schemes
    for bad in (
        lambda: qv.run("gpt5"),
        lambda: qv.run(CHARACTER, text="x"),
        lambda: qv.run(CHARACTER, "int4").kl,
    ):
        with pytest.raises(qv.QuantVizError):
            bad()
    with pytest.raises(qv.QuantVizError, match="256"):
        written(network_of(CHARACTER), "x" * 250, 20)
