"""The forward pass and the built-in models: against torch's own layers, with a cache, and the twin."""

import hashlib
from pathlib import Path

import pytest
import torch
from torch import nn

from quantviz.errors import QuantVizError
from quantviz.models import training
from quantviz.models.character_model import (
    CHARACTER,
    QK_NORM,
    QK_NORM_FILE,
    TWIN,
    excerpts_of,
    loud_channels,
    network_of,
    tokens_of,
)
from quantviz.models.network import HEAD, KINDS, Cache, distances, logits
from quantviz.models.quantizing import watched_on_calibration
from quantviz.models.training import bits_a_character


def torchs_own(network):
    """Return the layers as torch's `TransformerEncoderLayer`s with the network's tensors.

    They stay in training mode: in evaluation a fast path takes another mask than the given one.
    """
    sizes = network.sizes
    layers = []
    for number in range(sizes.layers):
        layer = nn.TransformerEncoderLayer(
            sizes.width, sizes.heads, sizes.hidden, dropout=0.0, batch_first=True, norm_first=True
        )
        at = f"model.layers.{number}"
        own = {}
        for part in ("weight", "bias"):
            q, k, v, out, fc1, fc2 = (network.tensors[f"{at}.{kind}.{part}"] for kind in KINDS)
            own |= {
                f"self_attn.in_proj_{part}": torch.cat((q, k, v)),
                f"self_attn.out_proj.{part}": out,
                f"linear1.{part}": fc1,
                f"linear2.{part}": fc2,
                f"norm1.{part}": network.tensors[f"{at}.self_attn_layer_norm.{part}"],
                f"norm2.{part}": network.tensors[f"{at}.final_layer_norm.{part}"],
            }
        layer.load_state_dict(own)
        layers.append(layer)
    return layers


@pytest.mark.parametrize("name", [CHARACTER, TWIN])
def test_the_forward_pass_is_that_of_torchs_own_layers(name):
    network = network_of(name)
    tokens = tokens_of("held_back")[:3, :-1]
    count = tokens.shape[1]
    tensors = network.tensors
    # One for each head of each text.
    mask = torch.full((count, count), -torch.inf).triu(1) - (
        0.25 ** torch.arange(4)[:, None, None] * (torch.arange(count)[:, None] - torch.arange(count))
    )
    mask = mask.repeat(len(tokens), 1, 1)
    with torch.no_grad():
        stream = tensors["model.embed_tokens.weight"][tokens]
        for layer in torchs_own(network):
            stream = layer(stream, src_mask=mask)
        norm = nn.LayerNorm(network.sizes.width)
        norm.load_state_dict({part: tensors[f"model.final_layer_norm.{part}"] for part in ("weight", "bias")})
        wanted = norm(stream) @ tensors[f"{HEAD}.weight"].T
        found = logits(network, tokens)
    assert (found - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_a_text_read_in_parts_with_a_cache_gives_the_same_scores():
    network = network_of(CHARACTER)
    tokens = tokens_of("held_back")[:2, :40]
    cache = Cache()
    with torch.no_grad():
        parts = [logits(network, part, cache) for part in tokens.split([17, 1, 22], dim=1)]
        whole = logits(network, tokens)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-5, atol=1e-5)


def test_the_twin_computes_the_same_to_the_last_bit_and_has_loud_channels():
    tokens = tokens_of("held_back")[:4, :-1]
    with torch.no_grad():
        assert torch.equal(logits(network_of(CHARACTER), tokens), logits(network_of(TWIN), tokens))
    for kind, channels in loud_channels().items():
        for model in (CHARACTER, TWIN):
            inputs = watched_on_calibration(model)[f"model.layers.1.{kind}"].abs().amax(0)
            loud = set(torch.nonzero(inputs > 8 * inputs.median()).flatten().tolist())
            assert loud >= set(channels if model == TWIN else ()), (model, kind)
    keys = {
        model: watched_on_calibration(model)["model.layers.1.keys"].abs().amax(0)
        for model in (CHARACTER, TWIN)
    }
    assert (keys[TWIN] / keys[CHARACTER]).unique().tolist() == [1.0, 16.0]


def test_the_shipped_weights_have_the_loss_that_their_page_states():
    # All of the text that is held back has 2.54 bits, its excerpts a little more or less.
    assert bits_a_character(network_of(CHARACTER), tokens_of("held_back")) == pytest.approx(2.53, abs=0.02)
    page = (Path(training.__file__).parent / "data" / "README.md").read_text(encoding="utf-8")
    raw = (Path(training.__file__).parent / "data" / "character_model.safetensors").read_bytes()
    assert len(raw) <= 2_000_000
    assert hashlib.sha256(raw).hexdigest() in page


def test_qk_norm_is_that_of_torchs_own_functions():
    """The first layer's attention by `scaled_dot_product_attention` on queries and keys of `nn.RMSNorm`."""
    network = network_of(QK_NORM)
    tensors = network.tensors
    tokens = tokens_of("held_back")[:2, :48]
    seen = {}
    with torch.no_grad():
        logits(network, tokens, watch=lambda name, value: seen.setdefault(name, value))
        at = "model.layers.0.self_attn"
        parts = {}
        for part in "qkv":
            linear = nn.functional.linear(
                seen[f"{at}.{part}_proj"],
                *(tensors[f"{at}.{part}_proj.{kind}"] for kind in ("weight", "bias")),
            )
            parts[part] = linear.unflatten(-1, (4, 32)).transpose(1, 2)
        for part in "qk":
            norm = nn.RMSNorm(32, eps=1e-6)
            norm.load_state_dict({"weight": tensors[f"{at}.{part}_norm.weight"]})
            parts[part] = norm(parts[part])
        wanted = nn.functional.scaled_dot_product_attention(*parts.values(), attn_mask=distances(4, 48, 48))
    found = seen[f"{at}.out_proj"]
    torch.testing.assert_close(found, wanted.transpose(1, 2).flatten(2), rtol=1e-5, atol=1e-5)


def test_the_model_with_qk_norm_has_the_loss_that_its_page_states():
    folder = Path(training.__file__).parent / "data"
    assert bits_a_character(network_of(QK_NORM), tokens_of("held_back")) == pytest.approx(2.56, abs=0.03)
    digest = hashlib.sha256((folder / QK_NORM_FILE).read_bytes()).hexdigest()
    assert digest in (folder / "README.md").read_text(encoding="utf-8")


def test_a_text_is_read_in_pieces_of_the_context():
    assert excerpts_of("abc").shape == (1, 3)
    assert excerpts_of("a" * 600).shape == (2, 257)
    with pytest.raises(QuantVizError, match="two"):
        excerpts_of("µ")
