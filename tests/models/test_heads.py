"""Heads that captured layers make: queries, keys and values of one layer, parted as models do."""

import importlib
import time

import pytest
import torch

import quantviz as qv
from quantviz.layers.captures import Captured, Layers
from quantviz.models.heads import heads_of_layers, names_of_projections, projections_of

TOKENS, INPUTS, WIDTH = 7, 32, 8


def a_fused_layer(name, outputs):
    draw = torch.Generator().manual_seed(outputs)
    weight, bias = torch.randn(outputs, INPUTS, generator=draw), torch.randn(outputs, generator=draw)
    x = torch.randn(TOKENS, INPUTS, generator=draw)
    return Layers((Captured(name, "linear", weight, x, bias, TOKENS),)), x @ weight.T + bias


@pytest.mark.parametrize(
    ("name", "outputs", "layout"),
    [
        ("h.0.attn.c_attn", 96, "blocks"),
        ("layers.0.self_attn.qkv_proj", 64, "blocks"),
        ("blocks.0.attn.qkv", 48, "blocks"),
        ("blocks.0.attn.Wqkv", 96, "blocks"),
        ("h.0.self_attention.query_key_value", 96, "heads"),
        # Heads that share their keys have no third of their own.
        ("h.0.self_attention.query_key_value", 48, "blocks"),
    ],
)
def test_one_layer_makes_queries_keys_and_values(name, outputs, layout):
    layers, y = a_fused_layer(name, outputs)
    (before,) = names_of_projections(layers.names)
    assert before == name.rpartition(".")[0]
    made = projections_of(layers, before)
    assert made.layout == layout
    assert WIDTH in made.widths
    heads = heads_of_layers(layers, made, WIDTH, 10**6)
    if layout == "heads":
        q, k, v = y.view(TOKENS, -1, 3, WIDTH).permute(2, 1, 0, 3)
    else:
        shared = (outputs - INPUTS) // 2
        q, k, v = (
            part.unflatten(1, (-1, WIDTH)).transpose(0, 1)
            for part in y.split([outputs - 2 * shared, shared, shared], 1)
        )
    for made, wanted in zip((heads.q, heads.k, heads.v), (q, k, v), strict=True):
        assert torch.equal(made, wanted)


def test_a_layer_that_is_too_narrow_for_keys_is_refused():
    layers, _ = a_fused_layer("attn.qkv", INPUTS)
    with pytest.raises(qv.QuantVizError, match=r"attn\.qkv: 32 × 32"):
        projections_of(layers, "attn")
    assert not names_of_projections(("h.0.crossattention.c_attn", "mixer.in_proj", "mlp.c_fc"))


#: Models with one layer for all three, by their module in transformers, their class and their settings.
MODELS = {
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 1, "n_head": 4}),
    "bloom": ("Bloom", {"hidden_size": 32, "n_layer": 1, "n_head": 4}),
    "gpt_neox": (
        "GPTNeoX",
        {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64},
    ),
    "phi3": (
        "Phi3",
        {
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 64,
            "pad_token_id": 0,
        },
    ),
}


# The filter is for torch's own warnings, while transformers is imported.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.nightly
@pytest.mark.parametrize("model", MODELS)
def test_models_part_their_layer_likewise(model):
    """Transformers keeps the same values, and the same key of the first token; positions turn the others."""
    module = importlib.import_module(f"transformers.models.{model}")
    name, sizes = MODELS[model]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = getattr(module, f"{name}Model")(
            getattr(module, f"{name}Config")(vocab_size=50, **sizes)
        ).eval()
    tokens = torch.arange(1, 1 + TOKENS)[None]
    layers = qv.collect(network, [{"input_ids": tokens}])
    (before,) = names_of_projections(layers.names)
    heads = heads_of_layers(layers, projections_of(layers, before), 8, 10**6)
    with torch.inference_mode():
        (kept,) = network(tokens, use_cache=True).past_key_values.layers
    torch.testing.assert_close(heads.v, kept.values[0])
    torch.testing.assert_close(heads.k[:, 0], kept.keys[0, :, 0])
    assert len(heads.q) == 4


def test_long_names_are_read_once():
    start = time.process_time()
    names = [f"{name}{number}_" for name in ("a" * 4000, ".proj" * 800) for number in range(20)]
    assert not names_of_projections(names)
    # A search for the last word that began again at each place took a minute.
    assert time.process_time() - start < 5
