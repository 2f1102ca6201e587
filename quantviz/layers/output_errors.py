"""The squared errors of a whole layer against its outputs: in float64 with their parts, or quickly without.

The quick pass makes the two float32 products that the errors need. It goes over the outputs, some hundred at
a time: their weights are decoded, multiplied and summed while they are in a core's cache. Beside X̂ it
allocates nothing as large as X, W or Y.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import torch

from quantviz.layers.parts import PARTS, Layer
from quantviz.streaming.threads import runs_between

T = TypeVar("T")
#: Multiplications up to which the errors of a layer are summed in float64 at once: about 30 ms for a part.
EXACT = 2**26
#: Tokens and outputs whose products are computed at a time: operands in float64 are small beside a layer.
_LINES_PER_CHUNK = 256
#: Inputs of those tokens at most, where there are few outputs and so more tokens.
_MOST_INPUTS = 2**18
#: The smallest mean square of outputs beside which the squares of their errors have room in float32.
_SMALLEST = 1e-20
_ALL = slice(None)


class UsedAndHeldBack(NamedTuple, Generic[T]):
    """A number over the tokens on which scales may be chosen, and over those held back."""

    used: T
    held_back: T


class ProductSums:
    """Sums of products of two values of each output, over a token's outputs, and over an output's tokens."""

    def __init__(self, held_back: torch.Tensor, outputs: int) -> None:
        self._sides = torch.stack((~held_back, held_back)).to(torch.float64)
        self._outputs = torch.zeros(2, outputs, dtype=torch.float64)
        self.tokens = torch.zeros(len(held_back), dtype=torch.float64)

    def add(self, tokens: slice, outputs: slice, one: torch.Tensor, other: torch.Tensor) -> None:
        products = one * other
        self.tokens[tokens] += products.sum(1)
        self._outputs[:, outputs] += self._sides[:, tokens] @ products

    def add_quickly(self, outputs: slice, values: torch.Tensor) -> None:
        """Add the squares of values of all tokens, float32 (tokens, outputs), which are overwritten."""
        squares = values.square_()
        self.tokens += squares.sum(1)
        self._outputs[:, outputs] += self._sides.to(torch.float32) @ squares

    @property
    def by_output(self) -> UsedAndHeldBack[torch.Tensor]:
        return UsedAndHeldBack(self._outputs[0], self._outputs[1])

    @property
    def total(self) -> UsedAndHeldBack[torch.Tensor]:
        return UsedAndHeldBack(self._outputs[0].sum(), self._outputs[1].sum())


@dataclass(frozen=True, eq=False)
class OutputErrors:
    """The squares of a layer's errors, or of one part of them, against those of its outputs.

    Each number is ‖error‖² / ‖XWᵀ‖²: 0 where there is no error, inf where the outputs are 0 and the error is
    not. The bias is left out, as it would hide the error.
    """

    squares: ProductSums
    signal: ProductSums

    @property
    def rel_out(self) -> UsedAndHeldBack[float]:
        return _numbers(_ratios(self.squares.total, self.signal.total))

    @property
    def by_token(self) -> torch.Tensor:
        return _ratio(self.squares.tokens, self.signal.tokens)

    @property
    def by_output(self) -> UsedAndHeldBack[torch.Tensor]:
        return _ratios(self.squares.by_output, self.signal.by_output)


@dataclass(frozen=True, eq=False)
class PartErrors(OutputErrors):
    #: Sums of the part times the error.
    along: ProductSums
    whole: ProductSums

    @property
    def share(self) -> UsedAndHeldBack[float]:
        """Return Σ part·error / Σ error²: these shares of all parts add up to 1; 0 where there is no error.

        A part that cancels another one has a share below 0. Squares alone do not add up.
        """
        return _numbers(_ratios(self.along.total, self.whole.total))


def exact_errors(layer: Layer, held_back: torch.Tensor) -> dict[str, OutputErrors]:
    """Return the errors of a layer in float64, as "error", and those of each of its `PARTS`."""
    count = layer.weights.shape[0]
    signal = ProductSums(held_back, count)
    whole = ProductSums(held_back, count)
    squares = {name: ProductSums(held_back, count) for name in PARTS}
    along = {name: ProductSums(held_back, count) for name in PARTS}
    # Of few outputs many tokens at a time: a slice has the same cells, and X is read in fewer parts.
    few = min(_LINES_PER_CHUNK**2 // min(count, _LINES_PER_CHUNK), _MOST_INPUTS // layer.inputs.shape[1])
    for start, stop in runs_between(len(held_back), max(_LINES_PER_CHUNK, few)):
        tokens = slice(start, stop)
        for outputs in _slices(count):
            cells = layer.cells(tokens, outputs)
            error = cells.error
            signal.add(tokens, outputs, cells.product, cells.product)
            whole.add(tokens, outputs, error, error)
            for name in PARTS:
                part = getattr(cells, name)
                squares[name].add(tokens, outputs, part, part)
                along[name].add(tokens, outputs, part, error)
    parts = {name: PartErrors(squares[name], signal, along[name], whole) for name in PARTS}
    return {"error": OutputErrors(whole, signal), **parts}


def quick_errors(layer: Layer, held_back: torch.Tensor) -> OutputErrors | None:
    """Return the errors of a layer, or None where float32 has no room for their squares.

    Where both operands are quantized, an error is the difference of two products in float32, which has a
    noise of about 1e-6 of the outputs.
    """
    tokens, width = layer.inputs.shape
    count = layer.weights.shape[0]
    signal = ProductSums(held_back, count)
    squares = ProductSums(held_back, count)
    x = layer.inputs.values(_ALL)
    x_hat = layer.inputs.quantized(_ALL)
    y_hat = None if layer.outputs is None else layer.outputs.quantized(_ALL)
    decoded = torch.empty(min(_LINES_PER_CHUNK, count), width)
    products = torch.empty(2, tokens, min(_LINES_PER_CHUNK, count))
    for outputs in _slices(count):
        here = outputs.stop - outputs.start
        w = layer.weights.values(outputs)
        y = torch.mm(x, w.T, out=products[0, :, :here])
        if y_hat is not None:
            error = y_hat[:, outputs] - (y + layer.bias[outputs].to(torch.float32))
        elif layer.inputs.unrounded:
            change = torch.sub(layer.weights.quantized(outputs, decoded[:here]), w, out=decoded[:here])
            error = torch.mm(x, change.T, out=products[1, :, :here])
        else:
            w_hat = layer.weights.quantized(outputs, decoded[:here])
            error = torch.mm(x_hat, w_hat.T, out=products[1, :, :here]).sub_(y)
        if y_hat is None and layer.bias_change is not None:
            error += layer.bias_change[outputs].to(torch.float32)
        signal.add_quickly(outputs, y)
        squares.add_quickly(outputs, error)
    mean = signal.tokens.sum() / (tokens * count)
    fits = _SMALLEST < mean < torch.inf and bool(torch.isfinite(squares.tokens.sum()))
    return OutputErrors(squares, signal) if fits else None


def quick_outputs(layer: Layer, *, rounded: bool) -> torch.Tensor:
    """Return Y, or Ŷ before it is quantized itself, float32 (tokens, outputs), by one float32 product."""
    x = layer.inputs.quantized(_ALL) if rounded else layer.inputs.values(_ALL)
    y = torch.empty(len(x), layer.weights.shape[0])
    for outputs in _slices(layer.weights.shape[0]):
        w = layer.weights.quantized(outputs) if rounded else layer.weights.values(outputs)
        y[:, outputs] = x @ w.T
    bias = layer.bias
    if rounded and layer.bias_change is not None:
        bias = bias + layer.bias_change
    return y.add_(bias.to(torch.float32))


def _ratio(squares: torch.Tensor, signal: torch.Tensor) -> torch.Tensor:
    return torch.where(squares == 0, 0.0, squares / signal)


def _ratios(
    squares: UsedAndHeldBack[torch.Tensor], signal: UsedAndHeldBack[torch.Tensor]
) -> UsedAndHeldBack[torch.Tensor]:
    return UsedAndHeldBack(_ratio(squares.used, signal.used), _ratio(squares.held_back, signal.held_back))


def _numbers(values: UsedAndHeldBack[torch.Tensor]) -> UsedAndHeldBack[float]:
    return UsedAndHeldBack(values.used.item(), values.held_back.item())


def _slices(count: int) -> Iterator[slice]:
    return (slice(start, stop) for start, stop in runs_between(count, _LINES_PER_CHUNK))
