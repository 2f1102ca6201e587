"""AWQ (Lin et al. 2023, arXiv 2306.00978): scale weights up where inputs are loud, then clip each group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from quantviz.budget import StepCounter
from quantviz.errors import QuantVizError
from quantviz.layers.methods.contract import (
    STEP,
    BasisMethod,
    MethodTask,
    RoundedWeight,
    RoundingMethod,
    ScaledBasis,
    between,
    one_of,
    products_of_errors,
    relative,
)
from quantviz.quantization.quantizer import found_by_reference, quantize, quantize_in_ranges
from quantviz.schemes.calibration import Range
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming.threads import runs_between
from quantviz.tensors.blocks import Blocks, block_sums, expand

#: The ends of scales, the number added to a weight's power, and the points of the search, by whose it is.
_LEAST = 1e-4
_MOST = 1e4
_TINY = float(torch.finfo(torch.float32).tiny)
#: Weights of trials that are rounded together, at most: so many stay in the processor's cache.
_WEIGHTS_PER_CHUNK = 2**19
_DRAWS = 5
_GRIDS = {
    "paper": tuple(i / 20 for i in range(20)),
    "autoawq": tuple(i / 20 for i in range(20)),
    "llm_compressor": tuple(i / 18 for i in range(19)),
    "modelopt": tuple(torch.arange(0, 1.1, 0.1).tolist()),
}


@dataclass(frozen=True, eq=False)
class AwqTrace:
    #: The exponents r that were tried, and ‖error‖² / ‖XWᵀ‖² of each on the tokens that may be used.
    ratios: tuple[float, ...]
    losses: tuple[float, ...]
    #: The same number without scaling.
    unscaled: float
    #: The place of the best exponent, and whether it leaves less than no scaling, which llm-compressor tries
    #: first.
    best: int
    scaled: bool
    #: The mean |x| of each input channel, the mean of its weights' shares of their group's largest one, and
    #: its scale, float64 (inputs,).
    x_mean: torch.Tensor
    w_mean: torch.Tensor
    scales: torch.Tensor


@dataclass(frozen=True)
class AWQ(BasisMethod):
    """Multiply the weights of channel j by s_j = mean|x_j|^r, and divide its inputs; r has the least error.

    The variants "autoawq" (its `duo_scaling`), "llm_compressor" and "modelopt" divide by w̄_j^(1−r) besides,
    where w̄ is the mean share of a weight in its group's largest one: with them r = 0 is not the identity,
    which llm-compressor tries besides.
    """

    variant: Literal["paper", "autoawq", "llm_compressor", "modelopt"] = "paper"
    #: The exponent r, from 0 to 1; None for the one with the least error.
    ratio: float | None = None
    id: ClassVar[str] = "awq"
    cost: ClassVar[str] = "20 m n N"
    #: Of one trial.
    work: ClassVar[float] = 350.0
    excludes: ClassVar[dict[str, str]] = {
        "smoothquant": "basis.two_scales",
        "equalization": "basis.two_scales",
    }

    def problems(self) -> Iterator[QuantVizError]:
        yield from one_of(self, "variant", tuple(_GRIDS))
        if self.ratio is not None:
            yield from between(self, "ratio", 0, 1)

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        if weights is None:
            yield QuantVizError("method.no_weight_scheme")

    @property
    def roundings(self) -> int:
        return len(_GRIDS[self.variant])

    def products(self, shape: Shape) -> float:
        trials = self.roundings
        return trials * (STEP + super().products(shape)) + products_of_errors(shape, trials)

    def basis(self, task: MethodTask) -> ScaledBasis:
        x_mean = task.x.abs().mean(0)
        w_mean = relative_magnitudes(task.w, task.scheme)
        ratios = _GRIDS[self.variant]
        tried = [awq_scales(x_mean, w_mean, ratio, self.variant) for ratio in ratios]
        progress = StepCounter(len(tried), is_whole=True)
        losses = [task.output_error(w_hat) for w_hat in progress.through(_rounded_trials(task, tried))]
        best = min(range(len(losses)), key=losses.__getitem__)
        ratio = ratios[best] if self.ratio is None else self.ratio
        scales = awq_scales(x_mean, w_mean, ratio, self.variant)
        # The paper's first exponent, 0, scales nothing.
        unscaled = losses[0] if self.variant == "paper" else task.output_error(task.nearest.x_hat)
        scaled = self.ratio is not None or self.variant != "llm_compressor" or losses[best] < unscaled
        if not scaled:
            scales = torch.ones_like(scales)
        return ScaledBasis(
            scales, AwqTrace(ratios, tuple(losses), unscaled, best, scaled, x_mean, w_mean, scales)
        )


def awq_scales(
    x_mean: torch.Tensor, w_mean: torch.Tensor, ratio: float, variant: str = "paper"
) -> torch.Tensor:
    """Return the scale of each input channel for an exponent, so that largest times smallest is 1."""
    if variant == "modelopt":
        scales = (x_mean.pow(ratio) / (w_mean.pow(1 - ratio) + _TINY)).clamp(_LEAST, _MOST)
    elif variant in ("autoawq", "llm_compressor"):
        scales = (x_mean.pow(ratio) / (w_mean.pow(1 - ratio) + _LEAST)).clamp(min=_LEAST)
    else:
        scales = x_mean.pow(ratio).clamp(min=_LEAST)
    return scales / (scales.max() * scales.min()).sqrt()


def relative_magnitudes(w: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """Return the mean over the outputs of |w| over its block's largest, of each input channel, (inputs,)."""
    layout = scheme.layout(tuple(w.shape))
    largest = Blocks(w, layout, w.dtype).magnitudes().min_max()[1]
    return (w.abs() / (expand(largest, layout, tuple(w.shape)) + _TINY)).mean(0)


def _rounded_trials(task: MethodTask, tried: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield the weights times the scales of each trial, rounded to nearest and divided again, float64.

    Small weights whose rows are rounded apart are rounded together, as the rows of one matrix.
    """
    trials_per_chunk = max(1, _WEIGHTS_PER_CHUNK // task.w.numel()) if _has_rows_apart(task) else 1
    for start, stop in runs_between(len(tried), trials_per_chunk):
        scales = torch.stack(tuple(tried[start:stop]))[:, None]
        scaled = (task.w * scales).to(torch.float32)
        rounded = quantize(scaled.flatten(0, 1), task.scheme)
        yield from rounded.x_hat.view_as(scaled).to(torch.float64) / scales


def _has_rows_apart(task: MethodTask) -> bool:
    """Return whether a row of the weight is rounded the same whatever the other rows are."""
    scheme = task.scheme
    shape = tuple(task.w.shape)
    layout = scheme.layout(shape)
    convention = scheme.arithmetic
    return (
        layout.view_shape == shape
        and layout.block_shape[0] == 1
        and not convention.scale.depends_on_tensor
        and convention.ties != "stochastic"
        and not scheme.calibration.together
    )


@dataclass(frozen=True)
class KeptApart:
    """The output error of a layer on the tokens held back with some input channels kept in float16."""

    #: The number of channels, and the error without any.
    count: int
    none: float
    #: With the channels of the loudest inputs, of the largest weights, and of a random choice.
    by_inputs: float
    by_weights: float
    at_random: float


def kept_apart(
    w: torch.Tensor, w_hat: torch.Tensor, x: torch.Tensor, held_back: torch.Tensor, share: float = 0.01
) -> KeptApart:
    """Return the output errors with a share of the input channels kept, rounded up, as in AWQ's first table.

    >>> w, x = torch.eye(4), torch.tensor([[1.0, 1.0, 1.0, 9.0]] * 2)
    >>> found = kept_apart(w, 0.9 * w, x, torch.tensor([False, True]))
    >>> found.count, round(found.none, 4), round(found.by_inputs, 4)
    (1, 0.01, 0.0004)
    """
    count = math.ceil(share * w.shape[1])
    error = (w_hat - w).to(torch.float64)
    seen = x[held_back].to(torch.float64)
    signal = float((seen @ w.to(torch.float64).T).square().sum())

    def without(order: torch.Tensor) -> float:
        left = error.clone()
        left[:, order[:count]] = w[:, order[:count]].to(torch.float16).to(torch.float64) - w[:, order[:count]]
        return relative(float((seen @ left.T).square().sum()), signal)

    def loudest(values: torch.Tensor) -> torch.Tensor:
        return values.abs().mean(0).argsort(descending=True, stable=True)

    drawn = [
        without(torch.randperm(w.shape[1], generator=torch.Generator().manual_seed(seed)))
        for seed in range(_DRAWS)
    ]
    return KeptApart(
        count,
        relative(float((seen @ error.T).square().sum()), signal),
        without(loudest(x[~held_back])),
        without(loudest(w)),
        sum(drawn) / len(drawn),
    )


# ---- clipping -----------------------------------------------------------------------------------------

#: The shares of a group's largest magnitude that are tried, in this order; of equal errors the first counts.
_SHARES = {
    "paper": tuple(1 - i / 20 for i in range(10)),
    "modelopt": tuple(round(0.5 + 0.05 * i, 2) for i in range(11)),
}
_TOKENS = {"paper": 512, "modelopt": 64}


@dataclass(frozen=True, eq=False)
class ClipTrace:
    shares: tuple[float, ...]
    #: ‖error‖² of the blocks' own outputs at each, added up, over that of the first.
    losses: tuple[float, ...]
    #: The share of each block, float64 of the scales' shape.
    chosen: torch.Tensor


@dataclass(frozen=True)
class AWQClip(RoundingMethod):
    """Clip each block of weights where the error of its own outputs is least: AWQ's second search."""

    variant: Literal["paper", "modelopt"] = "paper"
    #: About so many of the tokens that may be used are looked at, evenly spaced; None for as many as the
    #: variant's code takes: 512, or modelopt 64 of a batch.
    tokens: int | None = None
    id: ClassVar[str] = "awq_clip"
    cost: ClassVar[str] = "N n g + 10 m n g"
    #: Of one share.
    work: ClassVar[float] = 250.0
    variants: ClassVar[tuple[str, ...]] = ("awq+awq_clip",)

    def products(self, shape: Shape) -> float:
        # Where a block is a whole row: others take less.
        tokens, inputs, outputs = shape
        share = STEP + super().products(shape) + outputs * inputs**2
        return tokens * inputs**2 + len(_SHARES[self.variant]) * share

    def problems(self) -> Iterator[QuantVizError]:
        yield from one_of(self, "variant", tuple(_SHARES))
        if self.tokens is not None:
            yield from between(self, "tokens", 1, 2**20)

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        if weights is not None and weights.granularity.id == "flat":
            yield QuantVizError("method.awq.blocks", scheme=str(weights))

    def round(self, task: MethodTask) -> RoundedWeight:
        ends = found_by_reference(task.values, task.scheme)
        if not isinstance(ends, Range):
            raise QuantVizError("method.awq.no_range", scheme=str(task.scheme))
        step = max(1, len(task.x) // (_TOKENS[self.variant] if self.tokens is None else self.tokens))
        x = task.x[::step]
        width = task.scheme.layout(tuple(task.w.shape)).block_shape[1]
        hessians = [part.T @ part for part in torch.split(x, width, 1)]
        shares = _SHARES[self.variant]
        trials = StepCounter(len(shares), is_whole=True).through(shares)
        losses = [_errors_of_blocks(task, hessians, _clipped(ends, share)) for share in trials]
        best = torch.stack(losses).argmin(0)
        chosen = torch.tensor(shares, dtype=torch.float64)[best]
        result = quantize_in_ranges(task.values, task.scheme, _clipped(ends, chosen))
        first = float(losses[0].sum())
        whole = tuple(float(loss.sum()) / first if first else 0.0 for loss in losses)
        return RoundedWeight(replace(result, own_codes=True), ClipTrace(shares, whole, chosen))


def _clipped(ends: Range, share: torch.Tensor | float) -> Range:
    end = ends.extreme.abs() * share
    return Range(torch.maximum(ends.lo, -end), torch.minimum(ends.hi, end), ends.extreme.sign() * end)


def _errors_of_blocks(task: MethodTask, hessians: Sequence[torch.Tensor], ranges: Range) -> torch.Tensor:
    """Return ‖error‖² of the outputs of each block of weights by itself, float64 of the ranges' shape.

    `hessians` are XᵀX of the inputs of each column of blocks.
    """
    result = quantize_in_ranges(task.values, task.scheme, ranges)
    error = result.x_hat.to(torch.float64) - task.w
    layout = result.layout
    parts = torch.split(error, layout.block_shape[1], 1)
    squares = torch.cat([(part @ h) * part for part, h in zip(parts, hessians, strict=True)], 1)
    return block_sums(squares, layout)
