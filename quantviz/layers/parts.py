"""A layer's error and its parts: window by window, in float64.

With ΔW = Ŵ − W and ΔX = X̂ − X, the error of the product is

    X̂Ŵᵀ − XWᵀ = XΔWᵀ + ΔXWᵀ + ΔXΔWᵀ

Each part is a product of its own in float64, and the error is *defined* as the sum of the parts, from left to
right: so the parts add up to the last bit, where a difference of two large products would have lost digits.

A product is summed as the machine's library does it, whose order differs between machines and sizes. A small
layer's are added up from the first input channel to the last: the same bits everywhere, in a browser too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from quantviz.layers.changes import SMALL
from quantviz.layers.operands import Operand

#: The parts of an error, in the order in which they are added up: `Cells` has a field for each.
PARTS = ("weights", "inputs", "cross", "outputs")


@dataclass(frozen=True, eq=False)
class Cells:
    """Some outputs of some tokens, float64 (tokens, outputs) each."""

    #: XWᵀ.
    product: torch.Tensor
    bias: torch.Tensor
    #: The weight's part of the error, XΔWᵀ, with the change of the bias where a method makes one.
    weights: torch.Tensor
    #: The inputs' part, ΔXWᵀ.
    inputs: torch.Tensor
    #: The part of both changes at once, ΔXΔWᵀ.
    cross: torch.Tensor
    #: The rounding of the outputs themselves; 0 where these are not quantized.
    outputs: torch.Tensor

    @property
    def y(self) -> torch.Tensor:
        return self.product + self.bias

    @property
    def error(self) -> torch.Tensor:
        """Return Ŷ − Y: the sum of the parts, in the order of `PARTS`."""
        return self.of_product + self.outputs

    @property
    def of_product(self) -> torch.Tensor:
        return self.weights + self.inputs + self.cross

    @property
    def y_hat(self) -> torch.Tensor:
        return self.y + self.error


@dataclass(frozen=True, eq=False)
class Layer:
    weights: Operand
    inputs: Operand
    bias: torch.Tensor
    #: Ŷ, (tokens, outputs), where it is quantized itself.
    outputs: Operand | None = None
    #: The change of the bias that a method makes, float64 (outputs,): a part of the weight's error.
    bias_change: torch.Tensor | None = None

    @property
    def size(self) -> int:
        return self.inputs.shape[0] * self.inputs.shape[1] * self.weights.shape[0]

    @property
    def is_small(self) -> bool:
        return max(*self.inputs.shape, self.weights.shape[0]) <= SMALL

    def cells(self, tokens: slice, outputs: slice) -> Cells:
        x = self.inputs.values(tokens).to(torch.float64)
        x_change = self.inputs.changes(tokens)
        w = self.weights.values(outputs).to(torch.float64)
        w_change = self.weights.changes(outputs)
        multiplied = summed_in_order if self.is_small else summed_in_any_order
        product = multiplied(x, w)
        of_weights = multiplied(x, w_change)
        if self.bias_change is not None:
            of_weights = of_weights + self.bias_change[outputs]
        unrounded = Cells(
            product,
            self.bias[outputs],
            weights=of_weights,
            inputs=multiplied(x_change, w),
            cross=multiplied(x_change, w_change),
            outputs=torch.zeros_like(product),
        )
        if self.outputs is None:
            return unrounded
        rounded = self.outputs.quantized(tokens)[:, outputs].to(torch.float64)
        return dataclasses.replace(unrounded, outputs=rounded - unrounded.y_hat)


def summed_in_order(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return xwᵀ, float64 (tokens, outputs), each output summed from the first input on.

    Each product and each sum is rounded.
    """
    total = torch.zeros(len(x), len(w), dtype=torch.float64)
    for of_tokens, of_outputs in zip(x.T, w.T, strict=True):
        total += torch.outer(of_tokens, of_outputs)
    return total


def summed_in_any_order(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return xwᵀ as the machine's library sums it, float64 (tokens, outputs)."""
    return x @ w.T
