"""Learned rounding: AdaRound (Nagel et al. 2020), BRECQ (Li et al. 2021) and SignRound (Cheng et al. 2023,
the core of AutoRound).

Each weight has two codes to choose from, the ones on both sides of it. Rounding to nearest takes the closer
one; these methods learn which one serves the outputs better, and keep the best rounding that they met.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch

from quantviz.budget import StepCounter
from quantviz.errors import Note, QuantVizError
from quantviz.layers.methods.contract import (
    STEP,
    MethodTask,
    RoundedWeight,
    RoundingMethod,
    as_quantized,
    between,
    relative,
)
from quantviz.quantization.cells import cell_index, quantize_with
from quantviz.quantization.qparams import largest_magnitude, stored_qparams
from quantviz.quantization.quantizer import values_of_codes
from quantviz.quantization.result import QParams, QuantResult, block_values
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks

#: AdaRound's stretched sigmoid reaches 0 and 1: h(V) = clip(1.2 σ(V) − 0.1, 0, 1).
_STRETCH, _SHIFT = 1.2, 0.1
#: The exponents of the penalty, from its first steps to its last.
_BETA = (20, 2)
#: Adam's decay rates, short enough for a hundred steps, and the number that keeps it from dividing by 0.
_DECAY, _TINY = (0.7, 0.9), 1e-8
#: The rounding is evaluated every so many steps.
_LOOKED_AT = 10


@dataclass(frozen=True, eq=False)
class LearningTrace:
    """The way of learned rounding: the output error that the rounding at each look would leave."""

    #: The steps at which it was looked at, int64 (looks,), and the errors there, float64 (looks,):
    #: ‖(Ŵ − W)Xᵀ‖² / ‖WXᵀ‖². The first is that of rounding to nearest.
    steps: torch.Tensor
    errors: torch.Tensor
    #: How far each look's choices are from settled: the mean of min(h, 1 − h), 0 to 0.5, float64 (looks,).
    undecided: torch.Tensor
    #: Whether each weight's code is another than that of rounding to nearest, bool (outputs, inputs).
    flipped: torch.Tensor

    @property
    def best(self) -> int:
        """Return the look whose rounding was kept."""
        return int(self.errors.argmin())


@dataclass(frozen=True, eq=False)
class CodePairs:
    """The two codes that each weight can become, and their values."""

    task: MethodTask
    nearest: QuantResult
    #: The code on the other side of the weight, in the dtype of codes, and its value, float32.
    other: torch.Tensor
    other_value: torch.Tensor

    @classmethod
    def of(cls, task: MethodTask) -> CodePairs:
        """Return the choices of a layer whose codes are whole numbers."""
        nearest = task.nearest
        scale = blocks.expand(nearest.qparams.scale, nearest.layout, nearest.shape)
        side = torch.sign(-nearest.error) * torch.sign(scale)
        low, high = task.scheme.code_min, task.scheme.code_max
        other = (nearest.q.to(torch.int64) + side.to(torch.int64)).clamp(low, high).to(nearest.q.dtype)
        return cls(task, nearest, other, values_of_codes(other, task.scheme, nearest.qparams))

    @cached_property
    def gap(self) -> torch.Tensor:
        """Return the other value less the nearest one, float64; 0 where there is no other."""
        return self.other_value.to(torch.float64) - self.nearest.x_hat.to(torch.float64)

    def chosen(self, flipped: torch.Tensor) -> QuantResult:
        """Return the result whose codes are the other ones where `flipped`."""
        q = torch.where(flipped, self.other, self.nearest.q)
        x_hat = torch.where(flipped, self.other_value, self.nearest.x_hat)
        error = x_hat - self.nearest.x
        return dataclasses.replace(self.nearest, q=q, x_hat=x_hat, error=error, own_codes=True)


@dataclass(frozen=True, eq=False)
class _Squares:
    """A weighted sum of the squared errors of a layer's outputs, which a learned rounding makes small."""

    #: Half the slope of the sum by the weights of which it is that of the outputs, over the tokens, float32.
    times: Callable[[torch.Tensor], torch.Tensor]
    #: The sum of a rounded weight's errors over `signal`, that of the outputs themselves, float64.
    error: Callable[[torch.Tensor], float]
    signal: float

    @classmethod
    def of_outputs(cls, task: MethodTask) -> _Squares:
        """Return the sum in which every output counts alike."""
        return cls(_product_with_hessian(task), task.output_error, task.signal)

    @classmethod
    def of_loss(cls, task: MethodTask, fisher: torch.Tensor) -> _Squares:
        """Return the sum in which an output counts as the model's loss bends with it."""
        weights = fisher / fisher.mean()
        x, of_outputs = task.x.to(torch.float32), weights.to(torch.float32)

        def total(w: torch.Tensor) -> float:
            return float(((task.x @ w.T).square() * weights).sum()) / len(x)

        signal = total(task.w)
        return cls(
            lambda w: ((x @ w.T) * of_outputs).T @ x / len(x),
            lambda w_hat: relative(total(w_hat.to(torch.float64) - task.w), signal),
            signal,
        )


class _Learned(RoundingMethod):
    """A rounding whose codes are whole numbers, beside those of rounding to nearest."""

    steps: int
    #: The work of a step on each weight, and in all.
    work: ClassVar[float]
    of_step: ClassVar[float]

    def squares(self, task: MethodTask) -> _Squares:
        """Return the sum that the method makes small."""
        return _Squares.of_outputs(task)

    def products(self, shape: Shape) -> float:
        tokens, inputs, outputs = shape
        # A product with H in float32, which takes half as long as in float64.
        with_hessian = inputs * outputs * min(inputs, 2 * tokens) / 2
        return tokens * inputs**2 + self.steps * (self.of_step + super().products(shape) + with_hessian)

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        if weights is not None and weights.number_format.kind != "integer":
            yield QuantVizError("method.whole_codes", method=self.id, format=weights.format)


@dataclass(frozen=True)
class AdaRound(_Learned):
    """Learn for each weight whether it takes the code below or above it; a growing penalty forces the choice.

    Loss: ‖(Ŵ − W)Xᵀ‖² as a share of that of rounding to nearest, plus `penalty` times the mean of
    1 − |2h − 1|^β, with even β from 20 to 2; Adam.
    """

    steps: int = 100
    rate: float = 0.3
    penalty: float = 200.0
    id: ClassVar[str] = "adaround"
    cost: ClassVar[str] = "N n² + steps · m n²"
    work: ClassVar[float] = 85.0
    of_step: ClassVar[float] = STEP / 2

    def problems(self) -> Iterator[QuantVizError]:
        yield from between(self, "steps", 1, 100_000)
        yield from between(self, "rate", 1e-6, 10)
        yield from between(self, "penalty", 0, 1000)

    def round(self, task: MethodTask) -> RoundedWeight:
        choices = CodePairs.of(task)
        squares = self.squares(task)
        times = squares.times
        gap = choices.gap.to(torch.float32)
        change = choices.nearest.error.to(torch.float32)
        share = torch.where(gap == 0, 0.0, (-change / gap)).clamp(0.01, 0.99)
        v = -torch.log(_STRETCH / (share + _SHIFT) - 1)
        whole = float((times(change) * change).sum()) or 1.0
        of_loss = gap * (2 / whole)
        moments = torch.zeros(2, *v.shape)
        found = _Best(choices, squares)
        progress = StepCounter(self.steps, is_whole=True)
        for step in range(1, self.steps + 1):
            progress.step()
            sigmoid = torch.sigmoid(v)
            h = (_STRETCH * sigmoid).sub_(_SHIFT).clamp_(0, 1)
            if step % _LOOKED_AT == 0 or step == self.steps:
                result = choices.chosen(h > 0.5)
                found.meet(step, result, times(result.error), torch.minimum(h, 1 - h).mean())
            slope = times(torch.addcmul(change, gap, h)).mul_(of_loss)
            beta = 2 * round((_BETA[0] + (_BETA[1] - _BETA[0]) * step / self.steps) / 2)
            far = _odd_power((2 * h).sub_(1), beta - 1)
            slope.add_(far, alpha=-2 * beta * self.penalty / h.numel())
            slope.mul_(torch.addcmul(sigmoid, sigmoid, sigmoid, value=-1).mul_(_STRETCH))
            # Where h is cut off at 0 or 1 its slope is 0.
            slope = torch.ops.aten.hardtanh_backward(slope, h, 0.0, 1.0)
            move_by_adam(v, slope, moments, step, self.rate)
        return found.rounded()


def _odd_power(values: torch.Tensor, exponent: int) -> torch.Tensor:
    """Return values to the power of an odd number, by products alone: `pow` takes three times as long."""
    power = values.clone()
    square = values.square()
    exponent //= 2
    while exponent:
        if exponent % 2:
            power.mul_(square)
        square.square_()
        exponent //= 2
    return power


def _product_with_hessian(task: MethodTask) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function that multiplies weights by H, float32."""
    tokens, inputs, _ = task.shape
    if 2 * tokens < inputs:
        # By the tokens, twice, it takes fewer multiplications than by H.
        root = (task.x / math.sqrt(tokens)).to(torch.float32)
        return lambda w: (w @ root.T) @ root
    hessian = task.hessian.to(torch.float32)
    return lambda w: w @ hessian


def move_by_adam(v: torch.Tensor, slope: torch.Tensor, moments: torch.Tensor, step: int, rate: float) -> None:
    """Take Adam's step down a slope; values and the slope's two moments are updated in place."""
    first, second = _DECAY
    moments[0].lerp_(slope, 1 - first)
    moments[1].mul_(second).addcmul_(slope, slope, value=1 - second)
    # The corrections of both moments, which begin at 0, are in the rate.
    unbiased = math.sqrt(1 - second**step)
    spread = moments[1].sqrt().add_(_TINY * unbiased)
    v.addcdiv_(moments[0], spread, value=-rate * unbiased / (1 - first**step))


@dataclass(frozen=True)
class BRECQ(AdaRound):
    """Learn the rounding as AdaRound does, where each output counts by the square of the loss's slope there:
    E[Δzᵀ diag((∂L/∂z)²) Δz] (Li et al. 2021, arXiv 2102.05426, formula 10), of a block's outputs z.

    A block here is one layer: a method sees one at a time, and what the layers after it in a block of the
    paper, such as those of a residual block, make of its error is not in the sum. The slopes are those of the
    loss of a model that runs; of a layer without one every output counts alike, which is AdaRound.
    """

    id: ClassVar[str] = "brecq"

    def squares(self, task: MethodTask) -> _Squares:
        if task.fisher is None:
            return super().squares(task)
        return _Squares.of_loss(task, task.fisher)

    def round(self, task: MethodTask) -> RoundedWeight:
        found = super().round(task)
        if task.fisher is not None:
            return found
        return dataclasses.replace(found, notes=(*found.notes, Note.of("method_no_slopes")))


@dataclass(frozen=True)
class SignRound(_Learned):
    """Each weight is moved by a learned share of a step, −0.5 to 0.5, before it is rounded: round(W/s + V).

    With `ranges`, each block's scale is learned too, as a factor of at most 1. Steps follow the sign of the
    slope at a rate of 1/`steps` that falls to 0.
    """

    steps: int = 200
    ranges: bool = True
    id: ClassVar[str] = "signround"
    cost: ClassVar[str] = "N n² + steps · m n²"
    work: ClassVar[float] = 120.0
    of_step: ClassVar[float] = STEP

    def problems(self) -> Iterator[QuantVizError]:
        yield from between(self, "steps", 1, 100_000)

    def round(self, task: MethodTask) -> RoundedWeight:
        choices = CodePairs.of(task)
        squares = self.squares(task)
        start = choices.nearest
        w = task.values
        v = torch.zeros_like(w)
        factor = torch.ones_like(start.qparams.scale, dtype=torch.float32)
        found = _Best(choices, squares)
        progress = StepCounter(self.steps, is_whole=True)
        for step in range(1, self.steps + 1):
            progress.step()
            result = moved_rounding(start, v, factor)
            slope = squares.times(result.error)
            found.meet(step, result, slope)
            scale = blocks.expand(result.qparams.scale.to(torch.float32), start.layout, start.shape)
            inside = ~result.clipped
            rate = (1 - (step - 1) / self.steps) / self.steps
            # The rounding itself counts as having slope 1, and the sum of a block's slopes is its scale's.
            v.sub_((slope * scale).mul_(inside).sign_(), alpha=rate).clamp_(-0.5, 0.5)
            if self.ranges:
                # By the factor, which is above 0, and not by the scale, which may have a sign of its own.
                of_factor = slope * torch.where(inside, result.error, result.x_hat)
                factor = (factor - rate * torch.sign(blocks.block_sums(of_factor, start.layout))).clamp(
                    0.5, 1
                )
        return found.rounded()


def moved_rounding(start: QuantResult, v: torch.Tensor, factor: torch.Tensor) -> QuantResult:
    """Return a weight rounded after it is moved by shares of a step, its scales times factors.

    Args:
        start: The weight, rounded to nearest.
        v: The share of a step by which each weight is moved, (outputs, inputs).
        factor: The factor of each block's scale, of the grid's shape.
    """
    scheme = start.scheme
    params = start.qparams
    if bool((factor != 1).any()):
        # Where codes come of the exact scale, that one is moved, and stored anew.
        exact = params.others.get("code_scale", params.scale)
        given = QParams(exact * factor, params.zero_point, zero_domain=params.zero_domain)
        params = stored_qparams(given, largest_magnitude(start.x), scheme, start.layout)
    cells = {
        name: blocks.expand(grid, start.layout, start.shape) for name, grid in block_values(params).items()
    }
    values = as_quantized(start.x + v * cells["scale"].to(torch.float32), scheme, known=True)
    cells |= cell_index(scheme, start.shape)
    q, x_hat, _, clipped = quantize_with(values, scheme, cells)
    return dataclasses.replace(
        start,
        qparams=params,
        q=q,
        x_hat=x_hat,
        error=x_hat - start.x,
        clipped=clipped,
        own_codes=True,
        range=None,
    )


class _Best:
    """The best rounding met so far, and the errors of all of them."""

    def __init__(self, choices: CodePairs, squares: _Squares) -> None:
        self._task = choices.task
        self._squares = squares
        self._nearest = choices.nearest
        self._kept = choices.nearest
        self._began = squares.error(choices.nearest.x_hat)
        self._looks = [(0, self._began, 0.5)]
        #: The least error so far, in float32 as `meet` measures it.
        self._least = math.inf

    def meet(
        self, step: int, result: QuantResult, slope: torch.Tensor, undecided: torch.Tensor | float = 0.0
    ) -> None:
        """Take a rounding if it is better.

        Args:
            step: The number of the step.
            result: The rounding.
            slope: Half the slope of its squares, from which these follow.
            undecided: How far the choices are from settled.
        """
        error = relative(float((slope * result.error).sum(dtype=torch.float64)), self._squares.signal)
        if error < self._least:
            self._least = error
            self._kept = result
        self._looks.append((step, error, float(undecided)))

    def rounded(self) -> RoundedWeight:
        """Return the best rounding with its trace; rounding to nearest where none is better."""
        least = self._squares.error(self._kept.x_hat)
        if least >= self._began:
            self._kept, least = self._nearest, self._began
        looks = zip(*self._looks, strict=True)
        steps, errors, undecided = (torch.tensor(each, dtype=torch.float64) for each in looks)
        # In float64 the best error may be above one that float32 has measured.
        errors[errors.argmin()] = least
        trace = LearningTrace(
            steps.to(torch.int64), errors.clamp(min=least), undecided, self._kept.q != self._nearest.q
        )
        found = dataclasses.replace(self._kept, own_codes=True)
        return RoundedWeight(found, trace, notes=self._task.few_tokens)
