"""Scales of channels from their ranges: SmoothQuant (Xiao et al. 2022, arXiv 2211.10438) moves a part of the
inputs' range into the weights, cross-layer equalization (Nagel et al. 2019, arXiv 1906.04721) gives the
channels between two layers equal ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from quantviz.errors import QuantVizError
from quantviz.layers.methods.contract import BasisMethod, MethodTask, ScaledBasis, between, one_of

#: The smallest scale, and the smallest maximum of a channel's weights, of the authors' code.
_LEAST = 1e-5
#: torchao adds this to both maxima.
_TORCHAO_EPS = 2.0**-23
#: modelopt's bounds of a factor of inputs, and the maximum up to which a channel counts as dead.
_MODELOPT_ENDS = (1e-4, 1e4)
_MODELOPT_DEAD = 2.0**-31
_VARIANTS = ("paper", "torchao", "llm_compressor", "modelopt")
_ALPHAS = {"modelopt": 1.0}


@dataclass(frozen=True, eq=False)
class SmoothTrace:
    #: The largest |x| over the tokens that may be used, and the largest |w| over the outputs.
    x_max: torch.Tensor
    w_max: torch.Tensor
    scales: torch.Tensor
    #: α; ½ makes both maxima equal.
    alpha: float = 0.5


@dataclass(frozen=True)
class SmoothQuant(BasisMethod):
    """Divide channel j of the inputs by s_j = max|x_j|^α / max|w_j|^(1−α), and multiply its weights by it."""

    #: The share of the inputs' range that moves into the weights: 0 makes all weights' maxima 1, 1 makes all
    #: inputs' maxima 1, and ½ makes both equal. None for the default of the variant's package: 1 for
    #: modelopt, else ½.
    alpha: float | None = None
    #: The origin of the formula: formulas differ in the range, and in channels without values.
    variant: Literal["paper", "torchao", "llm_compressor", "modelopt"] = "paper"
    id: ClassVar[str] = "smoothquant"
    cost: ClassVar[str] = "(m + N) n"
    excludes: ClassVar[dict[str, str]] = {"awq": "basis.two_scales", "equalization": "basis.two_scales"}

    def problems(self) -> Iterator[QuantVizError]:
        if self.alpha is not None:
            yield from between(self, "alpha", 0, 1)
        yield from one_of(self, "variant", _VARIANTS)

    def basis(self, task: MethodTask) -> ScaledBasis:
        alpha = _ALPHAS.get(self.variant, 0.5) if self.alpha is None else self.alpha
        scales = smooth_scales(task.x, (task.w,), alpha, self.variant)
        trace = SmoothTrace(task.x.abs().amax(0), task.w.abs().amax(0), scales, alpha)
        return ScaledBasis(scales, trace)


def smooth_scales(
    x: torch.Tensor, weights: tuple[torch.Tensor, ...], alpha: float, variant: str = "paper"
) -> torch.Tensor:
    """Return the scale of each input channel, of the dtype of `x`: (inputs,), above 0.

    `weights` are those of all layers that read these inputs: the largest counts.
    """
    x_max = x.abs().amax(0)
    w_max = torch.stack([w.abs().amax(0) for w in weights]).amax(0).to(x.dtype)
    if variant == "torchao":
        return (x_max + _TORCHAO_EPS).pow(alpha) / (w_max + _TORCHAO_EPS).pow(1 - alpha)
    if variant == "llm_compressor":
        width = x.amax(0) - x.amin(0)
        scales = width.pow(alpha) / (2 * w_max).pow(1 - alpha)
        return torch.where(w_max > 0, scales, width).clamp(min=_LEAST)
    if variant == "modelopt":
        of_inputs = w_max.pow(1 - alpha) / x_max.pow(alpha)
        if float(of_inputs.amin()) <= _MODELOPT_DEAD:
            of_inputs = torch.where(x_max <= _MODELOPT_DEAD, 1.0, of_inputs)
        return 1 / of_inputs.clamp(*_MODELOPT_ENDS)
    return (x_max.pow(alpha) / w_max.clamp(min=_LEAST).pow(1 - alpha)).clamp(min=_LEAST)


# ---- equalization -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Equalization(BasisMethod):
    """Divide channel j of the inputs by s_j = √(r₁ / r₂), the ranges of its inputs and of its weights.

    The rows of the layer before, which have r₁ in the paper, are not known of one layer: the range of the
    inputs that they make stands for them. `equalize` has the paper's form for two layers.
    """

    #: The largest magnitude, as in the paper, or the width from smallest to largest, as in torch.
    ranges: Literal["magnitude", "width"] = "magnitude"
    id: ClassVar[str] = "equalization"
    cost: ClassVar[str] = "(m + N) n"
    excludes: ClassVar[dict[str, str]] = {"awq": "basis.two_scales", "smoothquant": "basis.two_scales"}

    def problems(self) -> Iterator[QuantVizError]:
        yield from one_of(self, "ranges", ("magnitude", "width"))

    def basis(self, task: MethodTask) -> ScaledBasis:
        scales = equal_scales(range_of(task.x, 0, self.ranges), range_of(task.w, 0, self.ranges))
        trace = SmoothTrace(task.x.abs().amax(0), task.w.abs().amax(0), scales)
        return ScaledBasis(scales, trace)


def equalize(
    before: torch.Tensor, bias: torch.Tensor, after: torch.Tensor, ranges: str = "magnitude"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return two layers and the first one's bias with equal ranges of the channels between them.

    W₂ φ(W₁x + b₁) stays for any φ with φ(sx) = sφ(x) for s > 0, such as ReLU. `before` is W₁, (channels,
    inputs), `after` W₂, (outputs, channels).
    """
    scales = equal_scales(range_of(before, 1, ranges), range_of(after, 0, ranges))
    return before / scales.unsqueeze(1), bias / scales, after * scales


def equal_scales(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return √(r₁ / r₂) of each channel: 1 where a range is 0."""
    alive = (one > 0) & (other > 0)
    return torch.where(alive, (one / torch.where(alive, other, 1.0)).sqrt(), 1.0)


def range_of(values: torch.Tensor, axis: int, ranges: str) -> torch.Tensor:
    if ranges == "width":
        return values.amax(axis) - values.amin(axis)
    return values.abs().amax(axis)
