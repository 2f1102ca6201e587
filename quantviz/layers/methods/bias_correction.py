"""Bias correction (Nagel et al. 2019, arXiv 1906.04721): take the output error's mean out of the bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from quantviz.layers.methods.contract import Correction, CorrectionMethod, Task


@dataclass(frozen=True, eq=False)
class BiasTrace:
    """The output errors of the tokens that were used, before the bias is corrected.

    >>> error = torch.tensor([[1.0, 0.0], [3.0, -2.0]], dtype=torch.float64)
    >>> trace = BiasTrace(error.mean(0), error.square().mean(0))
    >>> trace.removed.tolist(), trace.worst, trace.share
    ([4.0, 1.0], 0, 0.7142857142857143)
    """

    #: The mean error of each output, and its mean squared error, float64 (outputs,).
    mean: torch.Tensor
    squares: torch.Tensor

    @property
    def removed(self) -> torch.Tensor:
        """Return the mean squared error of each output that its correction removes, float64 (outputs,)."""
        return self.mean.square()

    @property
    def left(self) -> torch.Tensor:
        """Return the mean squared error of each output that stays: the error's variance."""
        return self.squares - self.removed

    @property
    def worst(self) -> int:
        """Return the output whose correction removes most."""
        return int(self.removed.argmax())

    @property
    def share(self) -> float:
        """Return the share of all squared errors that the correction removes, 0 to 1."""
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

    def correct(self, task: Task, w_hat: torch.Tensor, x_hat: torch.Tensor) -> Correction:
        error = x_hat @ w_hat.T - task.x @ task.w.T
        trace = BiasTrace(error.mean(0), error.square().mean(0))
        return Correction(bias=-trace.mean, trace=trace)
