"""Rotation (QuIP#, QuaRot, SpinQuant): turn the axis of inputs, so that a loud channel is spread over all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from quantviz.errors import QuantVizError
from quantviz.layers.methods.contract import Basis, BasisMethod, MethodTask, between, one_of
from quantviz.schemes.granularity import Shape
from quantviz.streaming.hadamard import hadamard_transform
from quantviz.tensors.blocks import viewed
from quantviz.tensors.hadamard import base_factor, base_matrix, has_hadamard, is_skew, largest_block

#: The angle at which each pair of a butterfly is mixed in equal parts, in degrees: a Hadamard matrix.
FULL_ANGLE = 45.0
#: Bins of a histogram, and where they end, in root mean squares.
BINS = 81
REACH = 8.1


@dataclass(frozen=True)
class RotationSpread:
    """The spread of some values around 0: both numbers fall where a few loud ones are spread over all."""

    #: The mean of x⁴ over the square of that of x²: 3 for a Gaussian, 1.8 for equally likely values.
    kurtosis: float
    #: The largest magnitude over the root mean square.
    peak: float

    @classmethod
    def of(cls, values: torch.Tensor) -> RotationSpread:
        squares = values.to(torch.float64).square()
        mean = float(squares.mean())
        if mean == 0:
            return cls(0.0, 0.0)
        return cls(float(squares.square().mean()) / mean**2, math.sqrt(float(squares.max()) / mean))


@dataclass(frozen=True)
class RotationTrace:
    """The spread of weights and inputs before and after a rotation."""

    block: int
    weights: tuple[RotationSpread, RotationSpread]
    inputs: tuple[RotationSpread, RotationSpread]
    #: The share of values in each of `BINS` bins between ±`REACH` root mean squares, before and after; those
    #: beyond are in the outermost ones. float64 (BINS,).
    weight_bins: tuple[torch.Tensor, torch.Tensor]
    input_bins: tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Rotation(BasisMethod):
    """Multiply inputs and weights by one orthogonal matrix: XR(WR)ᵀ = XWᵀ."""

    #: A Hadamard matrix over the root of its order, or a random orthogonal one.
    kind: Literal["hadamard", "orthogonal"] = "hadamard"
    #: Neighbouring input channels that are turned together; None for as many as a Hadamard matrix has.
    block: int | None = None
    #: Whether the sign of each channel is drawn before a Hadamard matrix is applied.
    signs: bool = False
    #: The angle of each step of a Hadamard matrix in degrees: 45 for the matrix itself, 0 for no rotation.
    angle: float = FULL_ANGLE
    #: Draws random signs, or the random matrix.
    seed: int = 0
    id: ClassVar[str] = "rotation"
    cost: ClassVar[str] = "(m + N) n log n"
    #: On each weight and on each input.
    work: ClassVar[float] = 1200.0
    variants: ClassVar[tuple[str, ...]] = ("rotation+gptq",)

    def problems(self) -> Iterator[QuantVizError]:
        yield from one_of(self, "kind", ("hadamard", "orthogonal"))
        yield from between(self, "angle", 0, FULL_ANGLE)
        yield from between(self, "seed", 0, 2**31 - 1)
        if self.block is not None:
            yield from between(self, "block", 1, 2**20)

    def products(self, shape: Shape) -> float:
        tokens, inputs, outputs = shape
        block = self.block or inputs
        values = inputs * (tokens + outputs)
        # A matrix multiplies all values there, for the picture, and back; a random one is factorized before.
        is_matrix = self.kind == "orthogonal" or self.angle != FULL_ANGLE
        drawn = 4 * block**3 if self.kind == "orthogonal" else 0
        return self.work * values + drawn + (3 * block * values if is_matrix else 0)

    def basis(self, task: MethodTask) -> Turned:
        inputs = task.w.shape[1]
        turned = Turned(self, inputs)
        if not task.traced:
            return turned
        before = task.w, task.x
        after = turned.of_weights(task.w), turned.of_inputs(task.x)
        spreads = [
            (RotationSpread.of(one), RotationSpread.of(other))
            for one, other in zip(before, after, strict=True)
        ]
        bins = [
            (shares_of_bins(one), shares_of_bins(other)) for one, other in zip(before, after, strict=True)
        ]
        turned.trace = RotationTrace(turned.block, spreads[0], spreads[1], bins[0], bins[1])
        return turned


class Turned(Basis):
    """The basis of a rotation. Inputs are turned when the model runs, unless the layer before is linear."""

    merges = False

    def __init__(self, method: Rotation, inputs: int) -> None:
        self.block = _block_of(method, inputs)
        generator = torch.Generator().manual_seed(method.seed)
        self._signs: torch.Tensor | None = None
        self._matrix: torch.Tensor | None = None
        if method.kind == "orthogonal":
            self._matrix = random_orthogonal(self.block, generator)
            return
        if method.signs:
            drawn = torch.randint(0, 2, (inputs,), generator=generator)
            self._signs = (2 * drawn - 1).to(torch.float64)
        if method.angle != FULL_ANGLE:
            self._matrix = turned_by(self.block, method.angle)

    def of_inputs(self, x: torch.Tensor) -> torch.Tensor:
        return self._turned(x if self._signs is None else x * self._signs)

    def of_weights(self, w: torch.Tensor) -> torch.Tensor:
        return self.of_inputs(w)

    def inputs_back(self, x: torch.Tensor) -> torch.Tensor:
        turned = self._turned(x, back=True)
        return turned if self._signs is None else turned * self._signs

    def weights_back(self, w: torch.Tensor) -> torch.Tensor:
        return self.inputs_back(w)

    def _turned(self, values: torch.Tensor, *, back: bool = False) -> torch.Tensor:
        if self._matrix is None:
            return hadamard_transform(values, self.block, back=back)
        matrix = self._matrix.T if back else self._matrix
        return viewed(viewed(values.contiguous(), (-1, self.block)) @ matrix, tuple(values.shape))


def turned_by(order: int, angle: float) -> torch.Tensor:
    """Return the orthogonal matrix on the way from the identity to a Hadamard matrix, float64 (order, order).

    Each pair of a butterfly is turned by `angle` in degrees. At 45 it is `hadamard(order)` over its root, but
    for signs of columns.

    Raises:
        QuantVizError: There is no such way for this order.
    """
    factor = base_factor(order)
    if factor is None:
        raise QuantVizError("method.rotation.order", got=order, block=largest_block(order))
    if not is_skew(factor):
        raise QuantVizError("method.rotation.angle", got=order, factor=factor)
    half_turn = math.radians(angle)
    pair = torch.tensor(
        [[math.cos(half_turn), -math.sin(half_turn)], [math.sin(half_turn), math.cos(half_turn)]],
        dtype=torch.float64,
    )
    matrix = torch.ones(1, 1, dtype=torch.float64)
    if factor > 1:
        identity = torch.eye(factor, dtype=torch.float64)
        root = math.sqrt(factor - 1)
        turn = math.atan(root) * angle / FULL_ANGLE
        matrix = math.cos(turn) * identity + math.sin(turn) / root * (base_matrix(factor) - identity)
    while len(matrix) < order:
        matrix = torch.kron(matrix, pair)
    return matrix


def hadamard_blocks(inputs: int) -> tuple[int, ...]:
    """Return the sizes of blocks from 2 on that a Hadamard rotation of so many input channels may have.

    >>> hadamard_blocks(48)
    (2, 4, 8, 12, 16, 24, 48)
    """
    return tuple(size for size in range(2, inputs + 1) if inputs % size == 0 and has_hadamard(size))


def can_turn_by_angle(block: int) -> bool:
    factor = base_factor(block)
    return factor is not None and is_skew(factor)


def random_orthogonal(order: int, generator: torch.Generator) -> torch.Tensor:
    """Return an orthogonal matrix drawn from all alike, float64 (order, order)."""
    drawn = torch.randn(order, order, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(drawn)
    turned: torch.Tensor = q * r.diagonal().sign()
    return turned


def shares_of_bins(values: torch.Tensor, unit: torch.Tensor | None = None) -> torch.Tensor:
    """Return the share of values in each of `BINS` bins between ±`REACH` units, float64 (BINS,).

    The unit is their root mean square unless given; values beyond are in the outermost bins.
    """
    unit = values.square().mean().sqrt() if unit is None else unit
    inside = (values / torch.where(unit > 0, unit, 1.0)).clamp(-REACH, REACH)
    return torch.histc(inside.flatten(), BINS, -REACH, REACH) / inside.numel()


def _block_of(method: Rotation, inputs: int) -> int:
    if method.block is None:
        return largest_block(inputs) if method.kind == "hadamard" else inputs
    if inputs % method.block:
        raise QuantVizError(
            "method.rotation.block", got=method.block, width=inputs, block=largest_block(inputs)
        )
    if method.kind == "hadamard" and not has_hadamard(method.block):
        raise QuantVizError("method.rotation.order", got=method.block, block=largest_block(method.block))
    return method.block
