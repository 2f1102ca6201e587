"""A layer's error and its parts: window by window in float64, and as sums of squares over the whole layer.

With ΔW = Ŵ − W and ΔX = X̂ − X, the error of the product is

    X̂Ŵᵀ − XWᵀ = XΔWᵀ + ΔXWᵀ + ΔXΔWᵀ

Each part is a product of its own in float64, and the error is *defined* as the sum of the parts, from left to
right: so the parts add up to the last bit, where a difference of two large products would have lost digits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import torch

from quantviz.layers.operands import Operand
from quantviz.streaming.threads import runs_between

T = TypeVar("T")
#: The parts of an error, in the order in which they are added up: `Cells` has a field for each.
PARTS = ("weights", "inputs", "cross", "outputs")
#: Tokens and outputs whose products are computed at a time: operands in float64 are small beside a layer.
_TILE = 256


class UsedAndHeldBack(NamedTuple, Generic[T]):
    """A number over the tokens on which scales may be chosen, and over those held back."""

    used: T
    held_back: T


@dataclass(frozen=True, eq=False)
class Cells:
    """Some outputs of some tokens, float64 (tokens, outputs) each."""

    #: XWᵀ.
    product: torch.Tensor
    #: The bias of each output, (outputs,).
    bias: torch.Tensor
    #: The weight's part of the error, XΔWᵀ.
    weights: torch.Tensor
    #: The inputs' part, ΔXWᵀ.
    inputs: torch.Tensor
    #: The part of both changes at once, ΔXΔWᵀ.
    cross: torch.Tensor
    #: The rounding of the outputs themselves; 0 where these are not quantized.
    outputs: torch.Tensor

    @property
    def y(self) -> torch.Tensor:
        """Return Y = XWᵀ + b."""
        return self.product + self.bias

    @property
    def error(self) -> torch.Tensor:
        """Return Ŷ − Y: the sum of the parts, in the order of `PARTS`."""
        return self.of_product + self.outputs

    @property
    def of_product(self) -> torch.Tensor:
        """Return the error of the product, before its outputs are rounded."""
        return self.weights + self.inputs + self.cross

    @property
    def y_hat(self) -> torch.Tensor:
        """Return Ŷ = Y + error."""
        return self.y + self.error


@dataclass(frozen=True, eq=False)
class Layer:
    """The operands of a layer, as the sums read them."""

    weights: Operand
    inputs: Operand
    #: float64 (outputs,).
    bias: torch.Tensor
    #: Ŷ, (tokens, outputs), where it is quantized itself.
    outputs: Operand | None = None

    @property
    def size(self) -> int:
        """Return the number of multiplications of the product."""
        return self.inputs.shape[0] * self.inputs.shape[1] * self.weights.shape[0]

    def cells(self, tokens: slice, outputs: slice) -> Cells:
        """Return a window of the outputs with the parts of their errors."""
        x = self.inputs.values(tokens).to(torch.float64)
        x_change = self.inputs.changes(tokens)
        w = self.weights.values(outputs).to(torch.float64)
        w_change = self.weights.changes(outputs)
        product = x @ w.T
        unrounded = Cells(
            product,
            self.bias[outputs],
            weights=x @ w_change.T,
            inputs=x_change @ w.T,
            cross=x_change @ w_change.T,
            outputs=torch.zeros_like(product),
        )
        if self.outputs is None:
            return unrounded
        rounded = self.outputs.quantized(tokens)[:, outputs].to(torch.float64)
        return dataclasses.replace(unrounded, outputs=rounded - unrounded.y_hat)


class Sums:
    """Sums of products of two values of each output, over the outputs of a token, and over the tokens of an
    output.

    >>> sums = Sums(torch.tensor([False, True]), 3)
    >>> ones = torch.ones(2, 3, dtype=torch.float64)
    >>> sums.add(slice(0, 2), slice(0, 3), ones, ones)
    >>> sums.tokens.tolist(), sums.by_output.used.tolist(), sums.total.held_back
    ([3.0, 3.0], [1.0, 1.0, 1.0], tensor(3., dtype=torch.float64))
    """

    def __init__(self, held_back: torch.Tensor, outputs: int) -> None:
        self._sides = torch.stack((~held_back, held_back)).to(torch.float64)
        self._outputs = torch.zeros(2, outputs, dtype=torch.float64)
        #: float64 (tokens,).
        self.tokens = torch.zeros(len(held_back), dtype=torch.float64)

    def add(self, tokens: slice, outputs: slice, one: torch.Tensor, other: torch.Tensor) -> None:
        """Add the products of the values of a window, float64 (tokens, outputs) each."""
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
        """Return the sums of each output, float64 (outputs,)."""
        return UsedAndHeldBack(self._outputs[0], self._outputs[1])

    @property
    def total(self) -> UsedAndHeldBack[torch.Tensor]:
        """Return the sums of all outputs, float64 ()."""
        return UsedAndHeldBack(self._outputs[0].sum(), self._outputs[1].sum())


@dataclass(frozen=True, eq=False)
class Errors:
    """The squares of a layer's errors, or of one part of them, against those of its outputs.

    Each number is ‖error‖² / ‖XWᵀ‖²: 0 where there is no error, inf where the outputs are 0 and the error is
    not. The bias is left out, as it would hide the error.
    """

    squares: Sums
    signal: Sums

    @property
    def rel_out(self) -> UsedAndHeldBack[float]:
        """Return the number of all outputs together, over the used tokens and over those held back."""
        return _numbers(_ratios(self.squares.total, self.signal.total))

    @property
    def by_token(self) -> torch.Tensor:
        """Return the number of each token, float64 (tokens,)."""
        return _ratio(self.squares.tokens, self.signal.tokens)

    @property
    def by_output(self) -> UsedAndHeldBack[torch.Tensor]:
        """Return the number of each output, float64 (outputs,)."""
        return _ratios(self.squares.by_output, self.signal.by_output)


@dataclass(frozen=True, eq=False)
class PartErrors(Errors):
    """The squares of one part of a layer's errors, and its share in them."""

    #: Sums of the part times the error.
    along: Sums
    #: Sums of the squared error.
    whole: Sums

    @property
    def share(self) -> UsedAndHeldBack[float]:
        """Return Σ part·error / Σ error²: these shares of all parts add up to 1; 0 where there is no error.

        A part that cancels another one has a share below 0. Squares alone do not add up.
        """
        return _numbers(_ratios(self.along.total, self.whole.total))


def exact_errors(layer: Layer, held_back: torch.Tensor) -> dict[str, Errors]:
    """Return the errors of a layer in float64, as "error", and those of each of its `PARTS`."""
    count = layer.weights.shape[0]
    signal = Sums(held_back, count)
    whole = Sums(held_back, count)
    squares = {name: Sums(held_back, count) for name in PARTS}
    along = {name: Sums(held_back, count) for name in PARTS}
    for tokens in _slices(len(held_back)):
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
    return {"error": Errors(whole, signal), **parts}


def _ratio(squares: torch.Tensor, signal: torch.Tensor) -> torch.Tensor:
    return torch.where(squares == 0, 0.0, squares / signal)


def _ratios(
    squares: UsedAndHeldBack[torch.Tensor], signal: UsedAndHeldBack[torch.Tensor]
) -> UsedAndHeldBack[torch.Tensor]:
    return UsedAndHeldBack(_ratio(squares.used, signal.used), _ratio(squares.held_back, signal.held_back))


def _numbers(values: UsedAndHeldBack[torch.Tensor]) -> UsedAndHeldBack[float]:
    return UsedAndHeldBack(values.used.item(), values.held_back.item())


def _slices(count: int) -> Iterator[slice]:
    return (slice(start, stop) for start, stop in runs_between(count, _TILE))
