"""A built-in model under schemes beside the same one without: loss, KL divergence, text, and each layer."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType

import torch

from quantviz.models.character_model import ADDERS, CHARACTER, SEED_TEXT, network_of, pieces_of
from quantviz.models.model_schemes import LayerSchemes, ModelSchemes, as_schemes, check_names
from quantviz.models.network import PARTS, Network, logits
from quantviz.models.quantizing import Quantized, QuantizedLinear, quantized_network
from quantviz.models.sums import ANSWER_DIGITS, Sums, answered, drawn_sums, sums_in
from quantviz.models.texts import choices, first_difference, written
from quantviz.public_calls import check_fields, checked_fields, public, public_class
from quantviz.schemes.scheme import Scheme
from quantviz.text import table

#: Characters that a run writes.
WRITTEN = 160
#: The growth of an error from one place to the next that counts as a jump.
_JUMP = 2.0
#: One of so many tokens is kept to measure each layer's outputs with.
_EVERY = 4


@dataclass(frozen=True, eq=False)
class Scores:
    """The probabilities that a network gives to a text, and the values on the way to them."""

    #: Log probabilities of each next character, float64 (tokens, characters), and the true one, (tokens,).
    log_probabilities: torch.Tensor
    targets: torch.Tensor
    #: The residual stream after each part of each layer, (tokens, width), by name in order of execution.
    streams: Mapping[str, torch.Tensor]
    #: Some inputs of each linear layer, (tokens, inputs), by its name; none of a quantized network.
    inputs: Mapping[str, torch.Tensor]

    @property
    def loss(self) -> float:
        """Return the mean loss in bits a character."""
        of_target = self.log_probabilities.gather(1, self.targets[:, None])
        return -of_target.mean().item() / math.log(2)


def scores_of(
    network: Network,
    pieces: torch.Tensor,
    *,
    keep_inputs: bool = False,
    done: tuple[int, torch.Tensor] | None = None,
) -> Scores:
    """Return the scores of the characters of pieces, int64 (pieces, characters), that are not given.

    `done` is as `logits` takes it.
    """
    streams: dict[str, torch.Tensor] = {}
    inputs: dict[str, torch.Tensor] = {}
    linear = set(network.sizes.linear_layers())
    given = network.sizes.given

    def watch(name: str, value: torch.Tensor) -> None:
        if name.rpartition(".")[2] in PARTS:
            streams[name] = value.flatten(0, 1)
        elif keep_inputs and name in linear:
            inputs[name] = value.flatten(0, 1)[::_EVERY].clone()

    with torch.inference_mode():
        scores = logits(network, pieces[:, :-1], watch=watch, done=done)[:, given - 1 :].flatten(0, 1)
        found = scores.to(torch.float64).log_softmax(-1)
    return Scores(found, pieces[:, given:].flatten(), MappingProxyType(streams), MappingProxyType(inputs))


@lru_cache(maxsize=4)
def original(model: str, text: str | None) -> Scores:
    """Return the scores of a text, None for the held-back one, under a built-in model without schemes."""
    return scores_of(network_of(model), pieces_of(model, text), keep_inputs=True)


@lru_cache(maxsize=4)
def original_sums(model: str, text: str | None) -> Sums:
    """Return the sums of a text, None for those that are held back, as an adder without schemes answers."""
    return answered(network_of(model), _pairs(text))


def _pairs(text: str | None) -> torch.Tensor:
    return drawn_sums("held_back") if text is None else sums_in(text)


@lru_cache(maxsize=16)
def _original_text(model: str, seed_text: str, draw: int) -> str:
    return written(network_of(model), seed_text, WRITTEN, draw)


@dataclass(frozen=True)
class LayerNumbers:
    """The errors of one linear layer whose inputs are those of the original."""

    weight_db: float
    #: ‖error‖² / ‖XWᵀ‖² of its outputs.
    rel_out: float
    bits: float


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class RunResult:
    """A built-in model under schemes beside the original. Numbers are computed on their first use.

    The text, the loss and the KL divergence are of the whole model; `layers` are each by itself.
    """

    model: str
    schemes: ModelSchemes
    #: The text it is measured on; None for the held-back one.
    text: str | None
    #: The text it goes on from, and the seed of the draws.
    seed_text: str
    draw: int

    def __post_init__(self) -> None:
        check_fields(self)
        check_names(self.schemes, network_of(self.model).sizes.linear_layers())
        pieces_of(self.model, self.text)

    def __repr__(self) -> str:
        right = f", sums right {self.sums}" if self.sums else ""
        numbers = f"{self.loss:.3f} bits a character, KL {self.kl:.4f}{right}"
        return f"RunResult({self.model}, {self.schemes}: {numbers})"

    def _repr_html_(self) -> str:
        return table(
            [
                ("model", self.model),
                ("schemes", self.schemes),
                ("loss, bits a character", self.loss),
                ("loss of the original", self.original_loss),
                ("KL divergence, bits a character", self.kl),
                ("bits a weight", self.bits),
                ("sums right", self.sums) if self.sums else ("writes", self.written),
            ]
        )

    @property
    def loss(self) -> float:
        """Return the mean loss of the next character, in bits."""
        return self._scores.loss

    @property
    def original_loss(self) -> float:
        """Return the same of the original."""
        return self._original.loss

    @cached_property
    def kl(self) -> float:
        """Return the mean KL divergence of its probabilities from the original's, in bits a character."""
        return divergence(self._original, self._scores)

    @property
    def changed_choices(self) -> float:
        """Return the share of next characters of the text of which another one is the likeliest."""
        before, after = (each.log_probabilities.argmax(1) for each in (self._original, self._scores))
        return (before != after).to(torch.float64).mean().item()

    @property
    def bits(self) -> float:
        """Return the mean bits of a weight of the linear layers, with scales."""
        return self.quantized.bits

    @cached_property
    @public
    def written(self) -> str:
        """Return the text that it writes after the seed text; of an adder, its sums, one a line."""
        if self.sums:
            return self.sums.written
        network = self.quantized.network
        # The nearest to it among those that round nothing on the way.
        cheap = dataclasses.replace(network, inputs={}, cached={})
        like = (cheap, self.original_written)
        return written(network, self.seed_text, WRITTEN, self.draw, like=like)

    @property
    def original_written(self) -> str:
        """Return the text that the original writes."""
        if self.sums:
            return original_sums(self.model, self.text).written
        return _original_text(self.model, self.seed_text, self.draw)

    @property
    def original_choices(self) -> str:
        """Return the characters that the original would write in the places of `written`, after the same
        text each; of an adder, its sums.
        """
        if self.sums:
            return self.original_written
        return choices(network_of(self.model), self.seed_text, self.written, self.draw)

    @property
    def first_difference(self) -> int | None:
        """Return the place of the first character that differs; None where there is none."""
        return first_difference(self.original_written, self.written)

    @cached_property
    @public
    def sums(self) -> Sums | None:
        """Return an adder's sums: those of its text, or a thousand that are held back from training; None of
        other models.
        """
        return answered(self.quantized.network, _pairs(self.text)) if self.model in ADDERS else None

    @cached_property
    def layers(self) -> Mapping[str, LayerNumbers]:
        """Return the errors of each linear layer by name."""
        inputs = self._original.inputs
        return MappingProxyType(
            {
                name: layer_numbers(self.model, each, inputs[name])
                for name, each in self.quantized.layers.items()
            }
        )

    @property
    def depth(self) -> Mapping[str, float]:
        """Return the error of the residual stream after each part of each layer: ‖error‖² / ‖stream‖²."""
        return MappingProxyType(
            {
                name: relative_error(self._scores.streams[name], stream)
                for name, stream in self._original.streams.items()
            }
        )

    @cached_property
    @public
    def quantized(self) -> Quantized:
        """Return the model under its schemes."""
        return quantized_network(self.model, self.schemes)

    @cached_property
    @public
    def _scores(self) -> Scores:
        return scores_of(self.quantized.network, pieces_of(self.model, self.text))

    @property
    def _original(self) -> Scores:
        return original(self.model, self.text)


def sums_right(found: RunResult) -> int:
    """Return the number of an adder's sums that are right, as `RunResult.sums` counts them, without writing
    them.

    In a right sum each digit is the likeliest after the right ones before it.
    """
    scores = found._scores
    likeliest = scores.log_probabilities.argmax(1) == scores.targets
    return int(torch.stack(torch.split(likeliest, ANSWER_DIGITS)).all(1).sum())


def first_jump(depth: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the place where the error of the stream first grows more than twofold, and the factor, or None.

    >>> first_jump({"a": 0.01, "b": 0.015, "c": 0.06})
    ('c', 4.0)
    """
    for (_, before), (name, error) in itertools.pairwise(depth.items()):
        if before > 0 and error > _JUMP * before:
            return name, error / before
    return None


def divergence(before: Scores, after: Scores) -> float:
    """Return the mean KL divergence of probabilities `after` from those `before`, in bits a character."""
    gap = before.log_probabilities - after.log_probabilities
    return (before.log_probabilities.exp() * gap).sum(1).mean().item() / math.log(2)


def relative_error(changed: torch.Tensor, before: torch.Tensor) -> float:
    """Return ‖changed − before‖² / ‖before‖²: 0 without an error, inf where only the divisor is 0."""
    signal = before.to(torch.float64)
    squares = (changed.to(torch.float64) - signal).square().sum()
    return torch.where(squares == 0, 0.0, squares / signal.square().sum()).item()


def layer_numbers(model: str, rounded: QuantizedLinear, inputs: torch.Tensor) -> LayerNumbers:
    """Return the errors of a linear layer on some of the original's inputs, (tokens, inputs)."""
    before = inputs @ network_of(model).tensors[f"{rounded.name}.weight"].T
    return LayerNumbers(rounded.sqnr_db, relative_error(rounded.outputs(inputs), before), rounded.bits)


@public
def run_built_in(
    model: str = CHARACTER,
    schemes: ModelSchemes | LayerSchemes | Scheme | str | None = None,
    text: str | None = None,
    *,
    seed_text: str = SEED_TEXT,
    draw: int = 0,
) -> RunResult:
    """Return a built-in model under schemes, beside itself without: its loss, its text and its layers.

    A torch model of your own is run by `run(model, batches, loss, schemes)`: see `run_module`.

    Args:
        model: "character", trained on Python's standard library; "character_twin", the same with loud
            channels that were made; "character_qk_norm", the same with QK-norm; "adder", which adds two
            numbers; or "adder_twin".
        schemes: Schemes of the model; one scheme, or a recipe, is that of the weights of the layers.
        text: The text to measure the loss on; None for an excerpt of the library that is held back.
            Characters that the model does not have, all but printable ASCII and ends of lines, are left out.
            Of an adder, one sum a line, as "12+345"; None for a thousand that are held back.
        seed_text: The text that it goes on from when it writes; an adder writes sums alone.
        draw: Draws the characters that it writes, the same for every scheme.

    Returns:
        The result; its numbers are computed on their first use.

    Raises:
        QuantVizError: There is no such model or layer, or a scheme does not fit.

    >>> found = run_built_in("character", "int8_per_row")
    >>> found.kl < 0.01 < found.loss, len(found.written)
    (True, 160)
    >>> run_built_in("adder", "int8_per_row", "12+345").sums.every[0].answer
    '0357'
    """
    return RunResult(model, as_schemes(schemes), text, seed_text, draw)


@dataclass(frozen=True)
class Texts:
    seed_text: str
    written: str
    choices: str
    original: str


@dataclass(frozen=True)
class Ran:
    #: Losses and KL divergence in bits a character, and bits a weight with scales.
    loss: float
    original_loss: float
    kl: float
    bits: float
    #: The share of next characters of the text of which another one is the likeliest.
    changed: float
    depth: Mapping[str, float]
    #: Of a model that writes text, and of an adder.
    texts: Texts | None = None
    sums: Sums | None = None


def ran(model: str, schemes: ModelSchemes) -> Ran:
    found = run_built_in(model, schemes)
    texts = None
    if found.sums is None:
        texts = Texts(found.seed_text, found.written, found.original_choices, found.original_written)
    return Ran(
        found.loss,
        found.original_loss,
        found.kl,
        found.bits,
        found.changed_choices,
        dict(found.depth),
        texts,
        found.sums,
    )
