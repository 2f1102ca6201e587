"""The inputs of a layer that bring its error: the products of one output cell, and each channel's numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from quantviz.errors import Note
from quantviz.evaluation.with_pandas import data_frame
from quantviz.layers.parts import Layer
from quantviz.streaming.threads import runs_between

if TYPE_CHECKING:
    import pandas

#: A channel is loud from so many times the median channel on.
LOUD = 6.0
#: Per cent of an output's error below which no channel alone is its cause.
CULPRIT = 10.0
_LINES_PER_READ = 256


@dataclass(frozen=True, eq=False)
class Products:
    """The products of one output of one token, those that contribute most to its error first.

    Each product x_j·w_j of input channel j has an error of three parts, float64 (inputs,) each.
    """

    token: int
    output: int
    channels: torch.Tensor
    x: torch.Tensor
    x_hat: torch.Tensor
    w: torch.Tensor
    w_hat: torch.Tensor

    @property
    def weights(self) -> torch.Tensor:
        return self.x * (self.w_hat - self.w)

    @property
    def inputs(self) -> torch.Tensor:
        return (self.x_hat - self.x) * self.w

    @property
    def cross(self) -> torch.Tensor:
        return (self.x_hat - self.x) * (self.w_hat - self.w)

    @property
    def contributions(self) -> torch.Tensor:
        return self.weights + self.inputs + self.cross

    @property
    def shares(self) -> torch.Tensor:
        """Return each contribution as a share of the cell's error, which add up to 1; 0 where there is none.

        A product that cancels others has a share below 0, and one that is cancelled may have one above 1.
        """
        contributions = self.contributions
        error = contributions.sum()
        return torch.where(error == 0, 0.0, contributions / error)

    def table(self) -> pandas.DataFrame:
        names = ("channels", "x", "x_hat", "w", "w_hat", "weights", "inputs", "cross")
        columns = {name: getattr(self, name).tolist() for name in (*names, "contributions", "shares")}
        return data_frame({"channel": columns.pop("channels"), **columns})


@dataclass(frozen=True, eq=False)
class Channels:
    """Each input channel of a layer: its inputs, its weights, and the error that it costs; float64 (inputs,).

    The same weight error costs H_jj times as much in channel j: where inputs are loud, weight error misleads.
    """

    #: The largest magnitude of its inputs, over all tokens, and of its weights, over all outputs.
    x_max: torch.Tensor
    w_max: torch.Tensor
    #: H_jj: the mean of its squared inputs over the tokens that are not held back.
    second_moment: torch.Tensor
    #: Σ(ŵ − w)² over all outputs.
    weight_error: torch.Tensor
    #: The largest |ŵ − w| over all outputs, and its output.
    largest_change: torch.Tensor
    changed_most: torch.Tensor

    def worst_weight(self, loudness: Any) -> tuple[int, int]:
        """Return the output and the input of the largest |ŵ − w|, times the loudness of each input."""
        channel = int((torch.as_tensor(loudness) * self.largest_change).argmax())
        return int(self.changed_most[channel]), channel

    @property
    def cost(self) -> torch.Tensor:
        """Return H_jj · Σ(ŵ − w)², the weight's squared output error of a token if channels are
        uncorrelated.
        """
        return self.second_moment * self.weight_error

    @property
    def loud_inputs(self) -> tuple[int, ...]:
        return _loud(self.x_max)

    @property
    def loud_weights(self) -> tuple[int, ...]:
        return _loud(self.w_max)

    def table(self) -> pandas.DataFrame:
        names = ("x_max", "w_max", "second_moment", "weight_error", "cost")
        columns = {name: getattr(self, name).tolist() for name in names}
        return data_frame({"channel": range(len(self.x_max)), **columns})


def products_of(layer: Layer, token: int, output: int) -> Products:
    """Return the products of one output cell, sorted by the magnitude of their contributions."""
    tokens = slice(token, token + 1)
    outputs = slice(output, output + 1)
    lines = (
        layer.inputs.values(tokens),
        layer.inputs.quantized(tokens),
        layer.weights.values(outputs),
        layer.weights.quantized(outputs),
    )
    channels = torch.arange(layer.weights.shape[1])
    unsorted = Products(token, output, channels, *(each[0].to(torch.float64) for each in lines))
    order = unsorted.contributions.abs().argsort(descending=True, stable=True)
    sides = (unsorted.x, unsorted.x_hat, unsorted.w, unsorted.w_hat)
    return Products(token, output, channels[order], *(each[order] for each in sides))


def channels_of(layer: Layer, held_back: torch.Tensor) -> Channels:
    count = layer.weights.shape[1]
    x_max = torch.zeros(count, dtype=torch.float64)
    moments = torch.zeros(count, dtype=torch.float64)
    for start, stop in runs_between(len(held_back), _LINES_PER_READ):
        x = layer.inputs.values(slice(start, stop)).to(torch.float64)
        x_max = torch.maximum(x_max, x.abs().amax(0))
        moments += x[~held_back[start:stop]].square().sum(0)
    w_max = torch.zeros(count, dtype=torch.float64)
    errors = torch.zeros(count, dtype=torch.float64)
    largest = torch.full((count,), -1.0, dtype=torch.float64)
    changed_most = torch.zeros(count, dtype=torch.long)
    for start, stop in runs_between(layer.weights.shape[0], _LINES_PER_READ):
        outputs = slice(start, stop)
        w_max = torch.maximum(w_max, layer.weights.values(outputs).to(torch.float64).abs().amax(0))
        changes = layer.weights.changes(outputs)
        errors += changes.square().sum(0)
        here, line = changes.abs().max(0)
        changed_most = torch.where(here > largest, start + line, changed_most)
        largest = torch.maximum(largest, here)
    moments /= int((~held_back).sum())
    return Channels(x_max, w_max, moments, errors, largest, changed_most)


def note_on_culprit(products: Products, channels: Channels) -> Note:
    """Return the sentence on the channel that contributes most to a cell's error.

    Its note has no `channel` if no product has an error.
    """
    if not bool(products.contributions.any()):
        return Note.of("layer_no_error")
    channel = int(products.channels[0])
    percent = 100 * float(products.shares[0])
    written = f"{percent:.{1 if abs(percent) < CULPRIT else 0}f}".replace("-", "−")
    if abs(percent) < CULPRIT:
        return Note.of("layer_no_culprit", channel=channel, percent=written)
    return Note.of(
        "layer_culprit",
        channel=channel,
        percent=written,
        x_max=float(channels.x_max[channel]),
        x_median=float(channels.x_max.median()),
        w_max=float(channels.w_max[channel]),
        w_median=float(channels.w_max.median()),
    )


def _loud(sizes: torch.Tensor) -> tuple[int, ...]:
    median = sizes.median()
    count = int((sizes >= LOUD * median).sum()) if median > 0 else 0
    return tuple(sizes.argsort(descending=True, stable=True)[:count].tolist())
