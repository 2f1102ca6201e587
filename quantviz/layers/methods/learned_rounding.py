"""Learned rounding: AdaRound (Nagel et al. 2020), BRECQ (Li et al. 2021) and SignRound (Cheng et al. 2023,
the core of AutoRound).

Each weight has two codes to choose from, the ones on both sides of it. Rounding to nearest takes the closer
one; these methods learn which one serves the outputs better, and keep the best rounding that they met.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

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
        return int(self.errors.argmin())


@dataclass(frozen=True, eq=False)
class CodePairs:
    task: MethodTask
    nearest: QuantResult
    #: The code on the other side of the weight, in the dtype of codes, and its value, float32.
    other: torch.Tensor
    other_value: torch.Tensor

    @classmethod
    def of(cls, task: MethodTask) -> CodePairs:
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
        q = torch.where(flipped, self.other, self.nearest.q)
        x_hat = torch.where(flipped, self.other_value, self.nearest.x_hat)
        error = x_hat - self.nearest.x
        return dataclasses.replace(self.nearest, q=q, x_hat=x_hat, error=error, own_codes=True)


class _Squares(ABC):
    """A weighted sum of the squared errors of outputs, which a learned rounding makes small."""

    #: The sum of the outputs themselves, float64.
    signal: float

    @abstractmethod
    def measured(self, changes: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return half the slopes of the sum by the changes of each layer's weights, and its terms."""

    @abstractmethod
    def error(self, w_hats: Sequence[torch.Tensor]) -> float:
        """Return the sum for rounded weights over `signal`, in float64."""


class _OfOutputs(_Squares):
    """The sum over the outputs of one layer, in which every one counts alike."""

    def __init__(self, task: MethodTask) -> None:
        self._task, self._times = task, _product_with_hessian(task)
        self.signal = task.signal

    def measured(self, changes: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
        half = self._times(changes[0])
        return [half], half * changes[0]

    def error(self, w_hats: Sequence[torch.Tensor]) -> float:
        return self._task.output_error(w_hats[0])


class _OfLoss(_Squares):
    """The sum over the outputs of a block, in which one counts as the model's loss bends with it.

    Every layer but the first is fed by the one before it.
    """

    def __init__(self, tasks: Sequence[MethodTask]) -> None:
        fisher = tasks[-1].fisher
        assert fisher is not None
        self._tasks, self._weights = tasks, fisher / fisher.mean()
        self._single = [(task.x.to(torch.float32), task.w.to(torch.float32)) for task in tasks]
        self._of_outputs = self._weights.to(torch.float32)
        last = tasks[-1]
        self.signal = self._total(last.x @ last.w.T)

    def measured(self, changes: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
        inputs, moved = self._moved(self._single, changes)
        slope = moved[-1] * self._of_outputs
        terms = slope * moved[-1] / len(slope)
        slopes = [slope.T @ inputs[-1] / len(slope)]
        for layer in range(len(changes) - 1, 0, -1):
            feed = self._tasks[layer].feed
            assert feed is not None
            slope = feed.slopes(slope @ (self._single[layer][1] + changes[layer]), moved[layer - 1])
            slopes.insert(0, slope.T @ inputs[layer - 1] / len(slope))
        return slopes, terms

    def error(self, w_hats: Sequence[torch.Tensor]) -> float:
        sides = [(task.x, task.w) for task in self._tasks]
        changes = [w_hat.to(torch.float64) - w for w_hat, (_, w) in zip(w_hats, sides, strict=True)]
        return relative(self._total(self._moved(sides, changes)[1][-1]), self.signal)

    def _total(self, outputs: torch.Tensor) -> float:
        return float((outputs.square() * self._weights).sum()) / len(outputs)

    def _moved(
        self, sides: Sequence[tuple[torch.Tensor, torch.Tensor]], changes: Sequence[torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return each layer's inputs after the layers before are changed, and the change of its outputs."""
        inputs, moved = [sides[0][0]], [sides[0][0] @ changes[0].T]
        for task, (x, w), change in zip(self._tasks[1:], sides[1:], changes[1:], strict=True):
            assert task.feed is not None
            inputs.append(task.feed.inputs(moved[-1]))
            moved.append(inputs[-1] @ change.T + (inputs[-1] - x) @ w.T)
        return inputs, moved


class _Learned(RoundingMethod):
    steps: int
    #: The work of a step on each weight, and in all.
    work: ClassVar[float]
    of_step: ClassVar[float]

    def squares(self, task: MethodTask) -> _Squares:
        return _OfOutputs(task)

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
        return self._learned([task], self.squares(task))[0]

    def _learned(
        self, tasks: Sequence[MethodTask], squares: _Squares, known: Sequence[RoundedWeight] = ()
    ) -> list[RoundedWeight]:
        """`known` are the weights to return if no better are met."""
        layers = [_Softened(task) for task in tasks]
        whole = float(squares.measured([layer.change for layer in layers])[1].sum()) or 1.0
        found = _Best([layer.choices for layer in layers], squares)
        if known:
            found.meet(0, [each.result for each in known], [0.0] * len(known))
        progress = StepCounter(self.steps, is_whole=True)
        for step in range(1, self.steps + 1):
            progress.step()
            beta = 2 * round((_BETA[0] + (_BETA[1] - _BETA[0]) * step / self.steps) / 2)
            h = [layer.soft() for layer in layers]
            if step % _LOOKED_AT == 0 or step == self.steps:
                chosen = [layer.choices.chosen(each > 0.5) for layer, each in zip(layers, h, strict=True)]
                found.meet(step, chosen, [torch.minimum(each, 1 - each).mean() for each in h])
            slopes = squares.measured([layer.softly() for layer in layers])[0]
            for layer, slope in zip(layers, slopes, strict=True):
                layer.move(slope, 2 / whole, beta, self, step)
        return found.rounded()


class _Softened:
    """The choices of a layer's weights on their way to either code, from 0 for the nearest to 1."""

    def __init__(self, task: MethodTask) -> None:
        self.choices = CodePairs.of(task)
        self._gap = self.choices.gap.to(torch.float32)
        self.change = self.choices.nearest.error.to(torch.float32)
        share = torch.where(self._gap == 0, 0.0, (-self.change / self._gap)).clamp(0.01, 0.99)
        self._v = -torch.log(_STRETCH / (share + _SHIFT) - 1)
        self._moments = torch.zeros(2, *self._v.shape)

    def soft(self) -> torch.Tensor:
        self._sigmoid = torch.sigmoid(self._v)
        self._h = (_STRETCH * self._sigmoid).sub_(_SHIFT).clamp_(0, 1)
        return self._h

    def softly(self) -> torch.Tensor:
        return torch.addcmul(self.change, self._gap, self._h)

    def move(self, half: torch.Tensor, factor: float, beta: int, method: AdaRound, step: int) -> None:
        """Take a step down the slope of the loss, of which `half` is half that of the squares."""
        h, sigmoid = self._h, self._sigmoid
        slope = half.mul_(self._gap * factor)
        far = _odd_power((2 * h).sub_(1), beta - 1)
        slope.add_(far, alpha=-2 * beta * method.penalty / h.numel())
        slope.mul_(torch.addcmul(sigmoid, sigmoid, sigmoid, value=-1).mul_(_STRETCH))
        # Where h is cut off at 0 or 1 its slope is 0.
        slope = torch.ops.aten.hardtanh_backward(slope, h, 0.0, 1.0)
        move_by_adam(self._v, slope, self._moments, step, method.rate)


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

    The layers of a feed-forward part of a built-in model are one block: their roundings are learned together,
    and are never worse than those that are learned one by one. Any other layer is a block of its own. The
    slopes are those of the loss of a model that runs; of a layer without one every output counts alike, which
    is AdaRound.
    """

    id: ClassVar[str] = "brecq"

    def squares(self, task: MethodTask) -> _Squares:
        return super().squares(task) if task.fisher is None else _OfLoss([task])

    def round(self, task: MethodTask) -> RoundedWeight:
        found = super().round(task)
        if task.fisher is not None:
            return found
        return dataclasses.replace(found, notes=(*found.notes, Note.of("method_no_slopes")))

    def round_together(self, tasks: Sequence[MethodTask]) -> list[RoundedWeight]:
        alone = super().round_together(tasks)
        if any(task.feed is None for task in tasks[1:]):
            return alone
        return alone if len(tasks) == 1 else self._learned(tasks, _OfLoss(tasks), alone)


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
        found = _Best([choices], squares)
        progress = StepCounter(self.steps, is_whole=True)
        for step in range(1, self.steps + 1):
            progress.step()
            result = moved_rounding(start, v, factor)
            (slope,), terms = squares.measured([result.error])
            found.met(step, [result], terms)
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
        return found.rounded()[0]


def moved_rounding(start: QuantResult, v: torch.Tensor, factor: torch.Tensor) -> QuantResult:
    """Return a weight rounded after it is moved by shares of a step, its scales times factors.

    `start` is the weight rounded to nearest, `v` each weight's share, (outputs, inputs), and `factor` that of
    each block's scale.
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
    """The best rounding of some layers met so far, and the errors of all of them."""

    def __init__(self, choices: Sequence[CodePairs], squares: _Squares) -> None:
        self._tasks = [each.task for each in choices]
        self._squares = squares
        self._nearest = self._kept = [each.nearest for each in choices]
        self._began = squares.error([each.x_hat for each in self._nearest])
        self._looks = [(0, self._began, [0.5] * len(choices))]
        #: The least error so far, in float32 as `met` measures it.
        self._least = math.inf

    def meet(self, step: int, results: Sequence[QuantResult], undecided: Sequence[Any]) -> None:
        """Take a rounding of each layer if it is better; `undecided` says how far each is from settled."""
        self.met(step, results, self._squares.measured([each.error for each in results])[1], undecided)

    def met(
        self,
        step: int,
        results: Sequence[QuantResult],
        terms: torch.Tensor,
        undecided: Sequence[Any] = (0.0,),
    ) -> None:
        """Do as `meet` where the terms of the squares are known."""
        error = relative(float(terms.sum(dtype=torch.float64)), self._squares.signal)
        if error < self._least:
            self._least = error
            self._kept = [*results]
        self._looks.append((step, error, [float(each) for each in undecided]))

    def rounded(self) -> list[RoundedWeight]:
        """Return the best rounding of each layer with its trace; rounding to nearest where none is better."""
        least = self._squares.error([each.x_hat for each in self._kept])
        if least >= self._began:
            self._kept, least = self._nearest, self._began
        steps, errors, undecided = zip(*self._looks, strict=True)
        measured = torch.tensor(errors, dtype=torch.float64)
        # In float64 the best error may be above one that float32 has measured.
        measured[measured.argmin()] = least
        measured.clamp_(min=least)
        settling = torch.tensor(undecided, dtype=torch.float64).unbind(1)
        found = []
        for task, kept, nearest, own in zip(self._tasks, self._kept, self._nearest, settling, strict=True):
            trace = LearningTrace(torch.tensor(steps), measured, own, kept.q != nearest.q)
            result = dataclasses.replace(kept, own_codes=True)
            found.append(RoundedWeight(result, trace, notes=task.few_tokens))
        return found
