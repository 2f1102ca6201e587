"""Learned transforms: SpinQuant's rotation (Liu et al. 2024, arXiv 2405.16406), and OmniQuant's scales and
shifts of channels and clips of blocks (Shao et al. 2023, arXiv 2308.13137).

All go down the slope of the layer's output error with both sides rounded, on the tokens that may be used,
where rounding counts as having slope 1. The best look is kept, the start among them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch

from quantviz.budget import StepCounter
from quantviz.errors import QuantVizError
from quantviz.layers.methods.channel_scales import smooth_scales
from quantviz.layers.methods.contract import (
    STEP,
    Basis,
    BasisMethod,
    CourseTrace,
    MethodTask,
    RoundedWeight,
    RoundingMethod,
    ScaledBasis,
    as_quantized,
    between,
    relative,
)
from quantviz.layers.methods.learned_rounding import move_by_adam
from quantviz.quantization.quantizer import found_by_reference, quantize, quantize_in_ranges
from quantviz.quantization.result import QuantResult
from quantviz.schemes.calibration import Range
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.hadamard import hadamard_transform
from quantviz.tensors import blocks
from quantviz.tensors.hadamard import largest_block


class Slopes(NamedTuple):
    """The output error of a layer in a basis, as a share, and its slopes by inputs and weights there."""

    error: float
    of_inputs: torch.Tensor
    of_weights: torch.Tensor
    #: By what is added to every output, (outputs,).
    of_bias: torch.Tensor


def slopes_in(task: MethodTask, basis: Basis) -> Slopes:
    """Return the error and the slopes of ½‖X̂Ŵᵀ + δWᵀ − XWᵀ‖² with both sides rounded in a basis, float64."""
    x_hat = _rounded(basis.of_inputs(task.x), task.inputs)
    w_hat = _rounded(basis.of_weights(task.w), task.weights)
    x = task.x if basis.shift is None else task.x - basis.shift
    error = x_hat @ w_hat.T - x @ task.w.T
    share = relative(float(error.square().sum()) / len(error), task.signal)
    return Slopes(share, error @ w_hat, error.T @ x_hat, error.sum(0))


def _rounded(values: torch.Tensor, scheme: Scheme | None) -> torch.Tensor:
    if scheme is None:
        return values
    return quantize(as_quantized(values, scheme), scheme).x_hat.to(torch.float64)


class _LearnedBasis(BasisMethod):
    work: ClassVar[float] = 300.0
    steps: int

    @property
    def roundings(self) -> int:
        return self.steps + 1

    def problems(self) -> Iterator[QuantVizError]:
        yield from between(self, "steps", 1, 10_000)

    def products(self, shape: Shape) -> float:
        tokens, inputs, outputs = shape
        values = inputs * (tokens + outputs)
        return self.roundings * (2 * STEP + self.work * values + 4 * tokens * inputs * outputs)

    def basis(self, task: MethodTask) -> Basis:
        basis = kept = self.start(task)
        errors: list[float] = []
        for step in StepCounter(self.steps + 1, is_whole=True).through(range(self.steps + 1)):
            slopes = slopes_in(task, basis)
            if slopes.error < min(errors, default=torch.inf):
                kept = basis
            errors.append(slopes.error)
            basis = self.moved(task, basis, slopes, step)
        kept.trace = CourseTrace(torch.arange(len(errors)), torch.tensor(errors, dtype=torch.float64))
        kept.notes = task.few_tokens
        return kept

    @abstractmethod
    def start(self, task: MethodTask) -> Basis: ...

    @abstractmethod
    def moved(self, task: MethodTask, basis: Basis, slopes: Slopes, step: int) -> Basis: ...


class MatrixBasis(Basis):
    """A basis of an orthogonal matrix R: inputs XR, weights WR. Inputs are turned when the model runs."""

    merges = False

    def __init__(self, matrix: torch.Tensor) -> None:
        #: R, float64 (inputs, inputs).
        self.matrix = matrix

    def of_inputs(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.matrix

    def of_weights(self, w: torch.Tensor) -> torch.Tensor:
        return w @ self.matrix

    def inputs_back(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.matrix.T

    def weights_back(self, w: torch.Tensor) -> torch.Tensor:
        return w @ self.matrix.T


@dataclass(frozen=True)
class SpinQuant(_LearnedBasis):
    """Multiply inputs and weights by a learned orthogonal matrix, which begins at a Hadamard matrix.

    A step is Cayley SGD's: R ← (1 + ηA/2)⁻¹ (1 − ηA/2) R with A = GRᵀ − RGᵀ, G the slope by R, and η such
    that ηA has the norm `rate`, which falls to 0. R stays orthogonal. The paper learns one R for all layers
    of a model by its loss; here it is one layer's own.
    """

    steps: int = 30
    rate: float = 0.5
    id: ClassVar[str] = "spinquant"
    cost: ClassVar[str] = "steps · (3 N m n + (N + m + n) n²)"

    def problems(self) -> Iterator[QuantVizError]:
        yield from super().problems()
        yield from between(self, "rate", 1e-6, 100)

    def products(self, shape: Shape) -> float:
        tokens, inputs, outputs = shape
        # Of n³ are two products, and the solution, a third of it for its factors.
        turned = inputs**2 * (2 * (tokens + outputs) + 10 / 3 * inputs)
        return super().products(shape) + self.roundings * turned

    def start(self, task: MethodTask) -> MatrixBasis:
        inputs = task.shape[1]
        identity = torch.eye(inputs, dtype=torch.float64)
        return MatrixBasis(hadamard_transform(identity, largest_block(inputs)))

    def moved(self, task: MethodTask, basis: Basis, slopes: Slopes, step: int) -> Basis:
        assert isinstance(basis, MatrixBasis)
        slope = task.x.T @ slopes.of_inputs + task.w.T @ slopes.of_weights
        return MatrixBasis(cayley_step(basis.matrix, slope, self.rate * (1 - step / self.steps)))


def cayley_step(matrix: torch.Tensor, slope: torch.Tensor, size: float) -> torch.Tensor:
    """Return an orthogonal matrix, (n, n), after a step of a size down a slope."""
    skew = slope @ matrix.T
    skew = skew - skew.T
    norm = float(torch.linalg.norm(skew))
    if not norm:
        return matrix
    half = skew * (size / norm / 2)
    identity = torch.eye(len(matrix), dtype=matrix.dtype)
    turned: torch.Tensor = torch.linalg.solve(identity + half, (identity - half) @ matrix)
    return turned


@dataclass(frozen=True)
class LearnedScales(_LearnedBasis):
    """Divide each input channel by a learned scale, and multiply its weights by it, as OmniQuant's LET does.

    Scales begin at SmoothQuant's with α = ½. A step moves log s against its slope, `rate` in the root mean
    square, which falls to 0. With `shift` LET's other half is learned too: what is taken off each channel,
    which begins at the middle of its range, and ends up in the bias with the weights as they are. It moves
    by `rate` halves of these ranges.
    """

    steps: int = 20
    rate: float = 0.02
    shift: bool = False
    id: ClassVar[str] = "learned_scales"
    cost: ClassVar[str] = "steps · 3 N m n"
    variants: ClassVar[tuple[str, ...]] = ("learned_scales(shift=true)",)

    def problems(self) -> Iterator[QuantVizError]:
        yield from super().problems()
        yield from between(self, "rate", 1e-6, 10)

    def start(self, task: MethodTask) -> ScaledBasis:
        middle = (task.x.amax(0) + task.x.amin(0)) / 2 if self.shift else None
        x = task.x if middle is None else task.x - middle
        return ScaledBasis(smooth_scales(x, (task.w,), 0.5), shift=middle)

    def moved(self, task: MethodTask, basis: Basis, slopes: Slopes, step: int) -> Basis:
        assert isinstance(basis, ScaledBasis)
        by_weights = slopes.of_weights * basis.of_weights(task.w)
        slope = by_weights.sum(0) - (slopes.of_inputs * basis.of_inputs(task.x)).sum(0)
        rate = self.rate * (1 - step / self.steps)
        scales = basis.scales * torch.exp(-rate * _of_size_1(slope))
        if basis.shift is None:
            return ScaledBasis(scales)
        reach = (task.x.amax(0) - task.x.amin(0)) / 2
        by_shift = slopes.of_bias @ task.w - slopes.of_inputs.sum(0) / basis.scales
        return ScaledBasis(scales, shift=basis.shift - rate * reach * _of_size_1(by_shift * reach))


def _of_size_1(slope: torch.Tensor) -> torch.Tensor:
    """Return a slope with a root mean square of 1; 0 stays."""
    return slope / (slope.square().mean().sqrt() or 1.0)


#: The logarithm of odds at which a clip begins: 98 % of a block's range.
_FIRST_ODDS = 4.0


@dataclass(frozen=True)
class LearnedClips(RoundingMethod):
    """Learn for each block which part of its range is kept: OmniQuant's learnable weight clipping (LWC).

    Both ends are multiplied by factors below 1, the sigmoids of learned numbers that begin at 4: two
    for each block, or one where the mode is symmetric. Adam.
    """

    steps: int = 50
    rate: float = 0.1
    id: ClassVar[str] = "learned_clips"
    cost: ClassVar[str] = "N n² + steps · m n²"
    work: ClassVar[float] = 250.0
    variants: ClassVar[tuple[str, ...]] = ("learned_scales+learned_clips",)

    def products(self, shape: Shape) -> float:
        tokens, inputs, outputs = shape
        step = 2 * STEP + super().products(shape) + outputs * inputs**2
        return tokens * inputs**2 + self.steps * step

    def problems(self) -> Iterator[QuantVizError]:
        yield from between(self, "steps", 1, 100_000)
        yield from between(self, "rate", 1e-6, 10)

    def round(self, task: MethodTask) -> RoundedWeight:
        ends = found_by_reference(task.values, task.scheme)
        if not isinstance(ends, Range):
            raise QuantVizError("method.awq.no_range", scheme=str(task.scheme))
        hessian = task.hessian
        symmetric = task.scheme.mode == "symmetric"
        odds = torch.full((2, *ends.hi.shape), _FIRST_ODDS, dtype=torch.float64)
        moments = torch.zeros(2, *odds.shape, dtype=torch.float64)
        kept, errors = task.nearest, [task.output_error(task.nearest.x_hat)]
        for step in StepCounter(self.steps, is_whole=True).through(range(1, self.steps + 1)):
            factors = torch.sigmoid(odds)
            if symmetric:
                factors = factors[:1].expand_as(factors)
            extreme = ends.extreme * torch.where(ends.extreme > 0, factors[0], factors[1])
            ranges = Range(ends.lo * factors[1], ends.hi * factors[0], extreme)
            result = quantize_in_ranges(task.values, task.scheme, ranges)
            slope = result.error.to(torch.float64) @ hessian
            error = relative(float((slope * result.error).sum()), task.signal)
            if error < min(errors):
                kept = result
            errors.append(error)
            of_ends = _slopes_of_ends(result, slope, ranges) * torch.stack([ends.hi, ends.lo])
            if symmetric:
                of_ends = of_ends.sum(0, keepdim=True).expand_as(of_ends)
            move_by_adam(odds, of_ends * factors * (1 - factors), moments, step, self.rate)
        trace = CourseTrace(torch.arange(len(errors)), torch.tensor(errors, dtype=torch.float64))
        return RoundedWeight(replace(kept, own_codes=True), trace, notes=task.few_tokens)


def _slopes_of_ends(result: QuantResult, slope: torch.Tensor, ends: Range) -> torch.Tensor:
    """Return the slopes of the error by the upper and the lower end of each block, (2, …).

    A value inside moves with the step, by its error over the width; a clipped one with the end where it lies.
    """
    lo, hi = (blocks.expand(end.to(torch.float64), result.layout, result.shape) for end in (ends.lo, ends.hi))
    width = torch.where(hi > lo, hi - lo, 1.0)
    inside = result.error / width
    above = result.x_hat > (hi + lo) / 2
    by_hi = torch.where(result.clipped, above.to(torch.float64), inside)
    by_lo = torch.where(result.clipped, (~above).to(torch.float64), -inside)
    return torch.stack([blocks.block_sums(slope * each, result.layout) for each in (by_hi, by_lo)])
