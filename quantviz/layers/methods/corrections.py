"""Corrections after rounding: low rank (LQER, arXiv 2402.02446), and bias (Nagel et al. 2019, 1906.04721)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch

from quantviz.errors import QuantVizError
from quantviz.layers.methods.contract import (
    Correction,
    CorrectionMethod,
    MethodTask,
    between,
    one_of,
    products_of_decomposition,
)
from quantviz.schemes.granularity import Shape

#: Bits of each number of L and R.
FACTOR_BITS = 16
#: An eigenvalue of H counts as 0 below this share of the largest.
_NONE = 1e-12


@dataclass(frozen=True, eq=False)
class LowRankTrace:
    """The singular values that a picture shows, largest first, float64; computed on their first use.

    In a pickle are these alone, not the matrices that they are of.
    """

    rank: int
    #: Those of ES, as it was decomposed; S is the weighting in which the error is measured.
    of_weighted: torch.Tensor
    #: ‖WS‖².
    signal: float
    #: W and E = W − Ŵ.
    _matrices: tuple[torch.Tensor, ...]

    @cached_property
    def of_weight(self) -> torch.Tensor:
        return _singular_values(self._matrices[0])

    @cached_property
    def of_error(self) -> torch.Tensor:
        return _singular_values(self._matrices[1])

    def __getstate__(self) -> dict[str, Any]:
        names = ("rank", "of_weighted", "signal", "of_weight", "of_error")
        return {"_matrices": (), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class LowRank(CorrectionMethod):
    """Add L·R of a rank to the rounded weight: the nearest to E = W − Ŵ, or to ES in a weighting S.

    S is 1 in LQER, mean|x_j| of each channel in L²QER, and (XᵀX)^½ for the least output error. The factors
    are not rounded here; their sizes count 16 bits a number.
    """

    rank: int = 8
    #: S: "none", "activation" (L²QER), or "optimum".
    weighting: Literal["none", "activation", "optimum"] = "optimum"
    #: For "optimum": this share of H's mean diagonal is added to its diagonal. At 0 only the tokens count
    #: that may be used.
    damping: float = 0.01
    id: ClassVar[str] = "low_rank"
    cost: ClassVar[str] = "n³ + m n min(m, n)"
    work: ClassVar[float] = 1000.0

    def products(self, shape: Shape) -> float:
        # With the singular values of two matrices that its picture shows, a third of a decomposition each.
        tokens, inputs, outputs = shape
        decomposed = 5 / 3 * products_of_decomposition(outputs, inputs)
        if self.weighting == "optimum":
            directions = inputs**2 * (3 * outputs + 2 * min(tokens, inputs))
            decomposed += products_of_decomposition(tokens, inputs) + directions
        return super().products(shape) + decomposed

    def problems(self) -> Iterator[QuantVizError]:
        yield from between(self, "rank", 1, 2**20)
        yield from one_of(self, "weighting", ("none", "activation", "optimum"))
        yield from between(self, "damping", 0, 1)

    def problems_with(self, weights: object, inputs: object) -> Iterator[QuantVizError]:
        if weights is None:
            yield QuantVizError("method.no_weight_scheme")

    def correct(self, task: MethodTask, w_hat: torch.Tensor, x_hat: torch.Tensor) -> Correction:
        error = task.w - w_hat
        weighting, inverse = self._weighting(task)
        weighted = _times(error, weighting)
        u, values, v = torch.linalg.svd(weighted, full_matrices=False)
        rank = min(self.rank, len(values))
        product = _times((u[:, :rank] * values[:rank]) @ v[:rank], inverse)
        signal = float(_times(task.w, weighting).square().sum())
        bits = low_rank_bits(rank, task.w)
        trace = LowRankTrace(rank, values, signal, (task.w, error))
        notes = task.few_tokens if self.weighting == "optimum" else ()
        return Correction(product, extra_bits=bits, trace=trace, notes=notes)

    def _weighting(self, task: MethodTask) -> tuple[torch.Tensor, torch.Tensor]:
        """Return S and its inverse: a number for each input channel, or a matrix, float64."""
        if self.weighting == "none":
            ones = torch.ones(task.w.shape[1], dtype=torch.float64)
            return ones, ones
        if self.weighting == "activation":
            means = task.x.abs().mean(0)
            alive = means > 0
            return means, torch.where(alive, 1 / means.where(alive, torch.ones_like(means)), 0.0)
        # H + λ = V(Λ + λ)Vᵀ + λ(1 − VVᵀ), where V are the directions that the tokens have.
        found = torch.linalg.svd(task.x, full_matrices=False)
        vectors = found.Vh.T
        values = found.S.square() / len(task.x)
        added = self.damping * float(values.sum()) / len(vectors)
        rest = math.sqrt(added)
        alive = values + added > _NONE * (values[0] + added)
        roots = torch.where(alive, values + added, 1.0).sqrt()
        inverse = 1 / rest if rest else 0.0
        weighting = (vectors * (torch.where(alive, roots, 0.0) - rest)) @ vectors.T
        weighting.diagonal().add_(rest)
        back = (vectors * (torch.where(alive, 1 / roots, 0.0) - inverse)) @ vectors.T
        back.diagonal().add_(inverse)
        return weighting, back


def low_rank_bits(rank: int, w: torch.Tensor) -> float:
    outputs, inputs = w.shape
    return min(rank, outputs, inputs) * (outputs + inputs) * FACTOR_BITS / (outputs * inputs)


def _times(values: torch.Tensor, weighting: torch.Tensor) -> torch.Tensor:
    return values @ weighting if weighting.dim() == 2 else values * weighting


def _singular_values(matrix: torch.Tensor) -> torch.Tensor:
    values: torch.Tensor = torch.linalg.svdvals(matrix)
    return values


# ---- the bias ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BiasTrace:
    """The output errors of the tokens that were used, before the bias is corrected.

    >>> error = torch.tensor([[1.0, 0.0], [3.0, -2.0]], dtype=torch.float64)
    >>> trace = BiasTrace(error.mean(0), error.square().mean(0))
    >>> trace.removed.tolist(), trace.share
    ([4.0, 1.0], 0.7142857142857143)
    """

    #: The mean error of each output, and its mean squared error, float64 (outputs,).
    mean: torch.Tensor
    squares: torch.Tensor

    @property
    def removed(self) -> torch.Tensor:
        return self.mean.square()

    @property
    def left(self) -> torch.Tensor:
        """Return the mean squared error of each output that stays: the error's variance."""
        return self.squares - self.removed

    @property
    def share(self) -> float:
        whole = float(self.squares.sum())
        return float(self.removed.sum()) / whole if whole else 0.0


@dataclass(frozen=True)
class BiasCorrection(CorrectionMethod):
    """Subtract each output's mean error, over the tokens that may be used, from its bias.

    It removes the mean of the error and nothing else: with inputs whose mean is 0, it does nothing. Its cost
    at run time is none, as the bias is added anyway.
    """

    id: ClassVar[str] = "bias_correction"
    cost: ClassVar[str] = "2 N m n"

    def products(self, shape: Shape) -> float:
        return super().products(shape) + 2 * math.prod(shape)

    def correct(self, task: MethodTask, w_hat: torch.Tensor, x_hat: torch.Tensor) -> Correction:
        error = x_hat @ w_hat.T - task.x @ task.w.T
        trace = BiasTrace(error.mean(0), error.square().mean(0))
        return Correction(bias=-trace.mean, trace=trace)
