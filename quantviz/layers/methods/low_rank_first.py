"""Low rank before rounding: SVDQuant (Li et al. 2024, arXiv 2411.05007), LoftQ (Li et al. 2023, 2310.08659).

Both multiply by Q(W − L) + L, where L has a low rank and 16 bits; low rank after rounding is `LowRank`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from quantviz.budget import StepCounter
from quantviz.errors import QuantVizError
from quantviz.layers.methods.channel_scales import smooth_scales
from quantviz.layers.methods.contract import (
    STEP,
    CourseTrace,
    MethodTask,
    Nearest,
    RoundedWeight,
    RoundingMethod,
    ScaledBasis,
    as_quantized,
    between,
    products_of_decomposition,
    products_of_errors,
    relative,
)
from quantviz.layers.methods.corrections import low_rank_bits
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.granularity import Shape

#: The shares of the inputs' range that are tried: 0 is no smoothing, as all scales are 1 then.
_ALPHAS = tuple(step / 10 for step in range(11))


def main_part(w: torch.Tensor, rank: int) -> torch.Tensor:
    """Return the nearest matrix of a rank, of the dtype of `w`.

    >>> main_part(torch.tensor([[3.0, 0.0], [0.0, 1.0]]), 1).tolist()
    [[3.0, 0.0], [0.0, 0.0]]
    """
    u, values, v = torch.linalg.svd(w, full_matrices=False)
    part: torch.Tensor = (u[:, :rank] * values[:rank]) @ v[:rank]
    return part


class _LowRankFirst(RoundingMethod):
    work: ClassVar[float] = 350.0
    rank: int

    def problems(self) -> Iterator[QuantVizError]:
        yield from between(self, "rank", 1, 2**20)

    def products(self, shape: Shape) -> float:
        tokens, inputs, outputs = shape
        values = self.work * inputs * (tokens + outputs)
        once = 2 * STEP + values + products_of_decomposition(outputs, inputs)
        return self.roundings * once + products_of_errors(shape, self.roundings)

    @property
    @abstractmethod
    def roundings(self) -> int:
        """Return how many times the weight is decomposed, and the rest rounded."""

    def rounded(self, task: MethodTask, w: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
        """Return Q(w − L) + L, float64."""
        rest = quantize(as_quantized(w - low, task.scheme), task.scheme)
        return rest.x_hat.to(torch.float64) + low


@dataclass(frozen=True)
class SVDQuant(_LowRankFirst):
    """Take the main singular parts out of the smoothed weight, and round the rest to nearest.

    Smoothing is SmoothQuant's with the α of least output error on the tokens that may be used, or none. Both
    parts read the same rounded inputs here; the paper's kernel hands L the inputs before rounding.
    """

    rank: int = 8
    #: The share of the inputs' range that moves into the weight; None tries 0, 0.1, … 1.
    alpha: float | None = None
    id: ClassVar[str] = "svdquant"
    cost: ClassVar[str] = "11 · (m n min(m, n) + N m n)"

    @property
    def roundings(self) -> int:
        return len(self._alphas)

    @property
    def _alphas(self) -> tuple[float, ...]:
        return _ALPHAS if self.alpha is None else (self.alpha,)

    def problems(self) -> Iterator[QuantVizError]:
        yield from super().problems()
        if self.alpha is not None:
            yield from between(self, "alpha", 0, 1)

    def round(self, task: MethodTask) -> RoundedWeight:
        tried = []
        for alpha in StepCounter(self.roundings, is_whole=True).through(self._alphas):
            none = torch.ones(task.shape[1], dtype=torch.float64)
            smooth = ScaledBasis(smooth_scales(task.x, (task.w,), alpha) if alpha else none)
            w = smooth.of_weights(task.w)
            w_hat = smooth.weights_back(self.rounded(task, w, main_part(w, self.rank)))
            tried.append((_error(task, w_hat, smooth), w_hat, smooth))
        errors = torch.tensor([error for error, *_ in tried], dtype=torch.float64)
        _, w_hat, smooth = tried[int(errors.argmin())]

        def inputs(x: torch.Tensor, nearest: Nearest) -> torch.Tensor:
            return smooth.inputs_back(nearest(smooth.of_inputs(x)))

        trace = CourseTrace(torch.tensor(self._alphas, dtype=torch.float64), errors)
        bits = low_rank_bits(self.rank, task.w)
        return RoundedWeight(task.nearest, trace, bits, task.few_tokens, values=w_hat, inputs=inputs)


def _error(task: MethodTask, w_hat: torch.Tensor, smooth: ScaledBasis) -> float:
    if task.inputs is None:
        return task.output_error(w_hat)
    seen = quantize(as_quantized(smooth.of_inputs(task.x), task.inputs), task.inputs)
    x_hat = smooth.inputs_back(seen.x_hat.to(torch.float64))
    error = (x_hat @ w_hat.T - task.x @ task.w.T).square().sum() / len(x_hat)
    return relative(float(error), task.signal)


@dataclass(frozen=True)
class LoftQ(_LowRankFirst):
    """Round the weight less a part of low rank, and take the main singular parts of what is left, in turns.

    The first round is LQER's: rounding the whole weight. The last round is kept, as in the paper; the error
    need not fall.
    """

    rank: int = 8
    rounds: int = 5
    id: ClassVar[str] = "loftq"
    cost: ClassVar[str] = "rounds · m n min(m, n)"

    @property
    def roundings(self) -> int:
        return self.rounds

    def problems(self) -> Iterator[QuantVizError]:
        yield from super().problems()
        yield from between(self, "rounds", 1, 1000)

    def round(self, task: MethodTask) -> RoundedWeight:
        low = torch.zeros_like(task.w)
        errors = [task.output_error(task.nearest.x_hat)]
        for _ in StepCounter(self.rounds, is_whole=True).through(range(self.rounds)):
            codes = self.rounded(task, task.w, low) - low
            low = main_part(task.w - codes, self.rank)
            errors.append(task.output_error(codes + low))
        trace = CourseTrace(torch.arange(self.rounds + 1), torch.tensor(errors, dtype=torch.float64), -1)
        bits = low_rank_bits(self.rank, task.w)
        return RoundedWeight(task.nearest, trace, bits, values=codes + low)
