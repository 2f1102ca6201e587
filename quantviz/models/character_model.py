"""The built-in models: the character model, its twin with loud channels, and one with QK-norm.

The twin is made, not found: some channels of the character model are scaled up, and the weights that read
them down, by the same powers of two. So it computes the same numbers to the last bit. The model with QK-norm
is the character model whose queries and keys were learned again with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import torch

from quantviz.errors import QuantVizError
from quantviz.models.network import KINDS, Network, Sizes
from quantviz.models.texts import as_tokens

#: The built-in models by name.
CHARACTER = "character"
TWIN = "character_twin"
QK_NORM = "character_qk_norm"
MODELS = (CHARACTER, TWIN, QK_NORM)
#: Their files: the weights, and those that QK-norm has in place of them or more.
MODEL_FILE = "character_model.safetensors"
QK_NORM_FILE = "character_qk_norm.safetensors"
#: The text that a model goes on from, if no other is chosen.
SEED_TEXT = 'def read(self, size):\n    """Return the '
_DATA = Path(__file__).parent / "data"
#: Channels of each normalization that are loud in the twin, and hidden units and channels of keys.
_LOUD_CHANNELS = (19, 70, 99)
_LOUD_UNITS = (37, 201, 340, 466)
_LOUD_KEYS = (5, 43, 90, 111)
#: How much louder they are: powers of two, so that no value is rounded.
_LOUDER = 32.0
_LOUDER_KEYS = 16.0


@cache
def network_of(name: str) -> Network:
    """Return a built-in model's network.

    Raises:
        QuantVizError: There is no such model.
    """
    if name == TWIN:
        return with_loud_channels(network_of(CHARACTER))
    if name == QK_NORM:
        own = {**network_of(CHARACTER).tensors, **_tensors_in(QK_NORM_FILE)}
        return Network(Sizes(), MappingProxyType(own))
    if name != CHARACTER:
        raise QuantVizError("model.unknown", got=name, known=", ".join(MODELS))
    return Network(Sizes(), MappingProxyType(_tensors_in(MODEL_FILE)))


def _tensors_in(file: str) -> dict[str, torch.Tensor]:
    """Return the tensors of one of the models' files, float32."""
    from quantviz.sources.files import open_tensors

    with open_tensors(_DATA / file) as catalog:
        return {each: catalog.load(each).to(torch.float32) for each in catalog.names}


@cache
def tokens_of(name: str) -> torch.Tensor:
    """Return excerpts of the text that is "held_back" from training, or of that for "calibration".

    int64 (excerpts, characters), one character longer than the model's context.
    """
    return excerpts_of((_DATA / f"{name}.txt").read_text(encoding="ascii"))


def excerpts_of(text: str) -> torch.Tensor:
    """Return a text in pieces as long as the context and one character, int64 (pieces, characters).

    A rest that fills no piece is left out, unless it is all there is.

    Raises:
        QuantVizError: The text has fewer than two of the model's characters.
    """
    tokens = as_tokens(text)
    if len(tokens) < 2:
        raise QuantVizError("model.no_text", got=len(tokens))
    length = min(Sizes().context + 1, len(tokens))
    return tokens.unfold(0, length, length)


def with_loud_channels(network: Network) -> Network:
    """Return a network that computes the same, with loud channels before linear layers and in its keys."""
    tensors = dict(network.tensors)
    for layer in range(network.sizes.layers):
        for name, axis, channels, factor in _scaled(f"model.layers.{layer}"):
            tensors[name] = _times(tensors[name], axis, channels, factor)
    return dataclasses.replace(network, tensors=MappingProxyType(tensors))


def loud_channels() -> Mapping[str, tuple[int, ...]]:
    """Return the loud input channels of the twin's linear layers, by their kinds.

    >>> loud_channels()["fc1"], loud_channels()["self_attn.out_proj"]
    ((19, 70, 99), ())
    """
    found = dict.fromkeys(KINDS, _LOUD_CHANNELS) | {"self_attn.out_proj": (), "fc2": _LOUD_UNITS}
    return MappingProxyType(found)


def _scaled(at: str) -> Iterator[tuple[str, int, tuple[int, ...], float]]:
    """Yield the tensors of a layer that are scaled: name, axis, channels and factor."""
    readers = {
        "self_attn_layer_norm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "final_layer_norm": ("fc1",),
    }
    for norm, names in readers.items():
        for part in ("weight", "bias"):
            yield f"{at}.{norm}.{part}", 0, _LOUD_CHANNELS, _LOUDER
        for name in names:
            yield f"{at}.{name}.weight", 1, _LOUD_CHANNELS, 1 / _LOUDER
    for part in ("weight", "bias"):
        yield f"{at}.fc1.{part}", 0, _LOUD_UNITS, _LOUDER
        yield f"{at}.self_attn.k_proj.{part}", 0, _LOUD_KEYS, _LOUDER_KEYS
        # A score is the product of a key and a query.
        yield f"{at}.self_attn.q_proj.{part}", 0, _LOUD_KEYS, 1 / _LOUDER_KEYS
    # ReLU leaves a positive factor as it is.
    yield f"{at}.fc2.weight", 1, _LOUD_UNITS, 1 / _LOUDER


def _times(values: torch.Tensor, axis: int, channels: tuple[int, ...], factor: float) -> torch.Tensor:
    """Return a tensor with some channels of an axis multiplied by a power of two."""
    scaled = values.clone()
    lines = scaled if axis == 0 else scaled.mT
    lines[list(channels)] *= factor
    return scaled
