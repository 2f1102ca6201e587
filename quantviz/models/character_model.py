"""The built-in models: the character model, one with QK-norm, the adder, and twins with loud channels.

A twin is made, not found: some channels of a model are scaled up, and the weights that read them down, by the
same powers of two. So it computes the same numbers to the last bit. The model with QK-norm is the character
model whose queries and keys were learned again with it. The adder adds two numbers: see `sums`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import torch

from quantviz.errors import QuantVizError
from quantviz.models.network import KINDS, Network, Sizes
from quantviz.models.sums import ADDER_SIZES, drawn_sums, sums_in, tokens_of_sums
from quantviz.models.texts import as_tokens

CHARACTER = "character"
TWIN = "character_twin"
QK_NORM = "character_qk_norm"
ADDER = "adder"
ADDER_TWIN = "adder_twin"
MODELS = (CHARACTER, TWIN, QK_NORM, ADDER, ADDER_TWIN)
#: Those that add, all others write text.
ADDERS = (ADDER, ADDER_TWIN)
#: Their files: the weights, and those that QK-norm has in place of them or more.
MODEL_FILE = "character_model.safetensors"
QK_NORM_FILE = "character_qk_norm.safetensors"
ADDER_FILE = "adder.safetensors"
#: Tokens that the inputs of a layer are of, on the text for calibration.
CALIBRATED_ON = 1024
#: The text that a model goes on from, if no other is chosen.
SEED_TEXT = 'def read(self, size):\n    """Return the '
_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class _LoudChannels:
    """The loud channels of a twin: of each normalization, hidden units, and channels of keys.

    The first two are `factor` times louder than the model's, a power of two, so that no value is rounded.
    """

    channels: tuple[int, ...]
    units: tuple[int, ...]
    keys: tuple[int, ...]
    factor: float


#: The twins, with the model that each is made of.
_TWINS = MappingProxyType(
    {
        TWIN: (CHARACTER, _LoudChannels((19, 70, 99), (37, 201, 340, 466), (5, 43, 90, 111), 32.0)),
        ADDER_TWIN: (ADDER, _LoudChannels((19, 50), (37, 201), (5, 22, 43, 60), 64.0)),
    }
)
#: How much louder keys are: likewise a power of two.
_LOUDER_KEYS = 16.0


@cache
def network_of(name: str) -> Network:
    """Return a built-in model's network.

    Raises:
        QuantVizError: There is no such model.
    """
    if name in _TWINS:
        model, loud = _TWINS[name]
        return _with_loud_channels(network_of(model), loud)
    if name == QK_NORM:
        own = {**network_of(CHARACTER).tensors, **_tensors_in(QK_NORM_FILE)}
        return Network(Sizes(), MappingProxyType(own))
    if name not in MODELS:
        raise QuantVizError("model.unknown", got=name, known=", ".join(MODELS))
    file = ADDER_FILE if name == ADDER else MODEL_FILE
    return Network(sizes_of(name), MappingProxyType(_tensors_in(file)))


def sizes_of(name: str) -> Sizes:
    """Return a built-in model's sizes, without reading its weights."""
    return ADDER_SIZES if name in ADDERS else Sizes()


def _tensors_in(file: str) -> dict[str, torch.Tensor]:
    from quantviz.sources.files import open_tensors

    with open_tensors(_DATA / file) as catalog:
        return {each: catalog.load(each).to(torch.float32) for each in catalog.names}


@cache
def tokens_of(part: str, model: str = CHARACTER) -> torch.Tensor:
    """Return excerpts of the text that is "held_back" from training, or of that for "calibration"; of an
    adder, sums.

    int64 (excerpts, characters), one character longer than the model's context.
    """
    if model in ADDERS:
        return tokens_of_sums(drawn_sums(part))
    return excerpts_of((_DATA / f"{part}.txt").read_text(encoding="ascii"))


def pieces_of(model: str, text: str | None) -> torch.Tensor:
    """Return a text as the pieces that a model reads, int64 (pieces, characters); None is the held-back text.

    An adder has one sum a line.
    """
    if text is None:
        return tokens_of("held_back", model)
    return tokens_of_sums(sums_in(text)) if model in ADDERS else excerpts_of(text)


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


def _with_loud_channels(network: Network, loud: _LoudChannels) -> Network:
    """Return a network that computes the same, with loud channels before linear layers and in its keys."""
    tensors = dict(network.tensors)
    for layer in range(network.sizes.layers):
        for name, axis, channels, factor in _scaled(f"model.layers.{layer}", loud):
            tensors[name] = _times(tensors[name], axis, channels, factor)
    return dataclasses.replace(network, tensors=MappingProxyType(tensors))


def loud_channels(twin: str = TWIN) -> Mapping[str, tuple[int, ...]]:
    """Return the loud input channels of a twin's linear layers, by their kinds."""
    _, loud = _TWINS[twin]
    found = dict.fromkeys(KINDS, loud.channels) | {"self_attn.out_proj": (), "fc2": loud.units}
    return MappingProxyType(found)


def _scaled(at: str, loud: _LoudChannels) -> Iterator[tuple[str, int, tuple[int, ...], float]]:
    """Yield the tensors of a layer that are scaled: name, axis, channels and factor."""
    readers = {
        "self_attn_layer_norm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "final_layer_norm": ("fc1",),
    }
    for norm, names in readers.items():
        for part in ("weight", "bias"):
            yield f"{at}.{norm}.{part}", 0, loud.channels, loud.factor
        for name in names:
            yield f"{at}.{name}.weight", 1, loud.channels, 1 / loud.factor
    for part in ("weight", "bias"):
        yield f"{at}.fc1.{part}", 0, loud.units, loud.factor
        yield f"{at}.self_attn.k_proj.{part}", 0, loud.keys, _LOUDER_KEYS
        # A score is the product of a key and a query.
        yield f"{at}.self_attn.q_proj.{part}", 0, loud.keys, 1 / _LOUDER_KEYS
    # ReLU leaves a positive factor as it is.
    yield f"{at}.fc2.weight", 1, loud.units, 1 / loud.factor


def _times(values: torch.Tensor, axis: int, channels: tuple[int, ...], factor: float) -> torch.Tensor:
    scaled = values.clone()
    lines = scaled if axis == 0 else scaled.mT
    lines[list(channels)] *= factor
    return scaled
