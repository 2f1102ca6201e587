"""LLM.int8() (Dettmers et al. 2022, arXiv 2208.07339): keep loud input channels in half precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import stored_bits
from quantviz.layers.methods.contract import (
    MethodTask,
    Nearest,
    RoundedWeight,
    RoundingMethod,
    as_quantized,
    between,
    one_of,
)
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.scheme import Scheme

_HALF_BITS = 16


@dataclass(frozen=True, eq=False)
class OutlierTrace:
    #: The largest |x| of each channel over the tokens that may be used, float64 (inputs,).
    x_max: torch.Tensor
    #: Whether it stays in half precision, bool (inputs,).
    kept: torch.Tensor
    threshold: float


@dataclass(frozen=True)
class LLMInt8(RoundingMethod):
    """Multiply the input channels with any |x| of the threshold or more in float16, all others in codes.

    In the paper the weights of these channels stay in float16 as well, and scales of inputs are found without
    the channels. bitsandbytes stores no weight but its codes, so loud inputs multiply decoded codes; and it
    finds scales without the loud values alone, so that a quiet value of a loud channel may still set one.
    """

    threshold: float = 6.0
    variant: Literal["paper", "bitsandbytes"] = "paper"
    id: ClassVar[str] = "llm_int8"
    cost: ClassVar[str] = "m n + N n"

    def problems(self) -> Iterator[QuantVizError]:
        yield from between(self, "threshold", 0, 1e9)
        yield from one_of(self, "variant", ("paper", "bitsandbytes"))

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        if inputs is None:
            yield QuantVizError("method.llm_int8.inputs")

    def round(self, task: MethodTask) -> RoundedWeight:
        x_max = self.seen(task.x).abs().amax(0)
        kept = (x_max >= self.threshold) & self._splits

        def rounded(x: torch.Tensor, nearest: Nearest) -> torch.Tensor:
            return torch.where(kept, in_half(x), nearest(self.coded(x, kept)))

        trace = OutlierTrace(x_max, kept, self.threshold)
        if self.variant == "paper":
            bits = float(kept.to(torch.float64).mean()) * (_HALF_BITS - stored_bits(task.scheme).code)
            w_hat = torch.where(kept, in_half(task.w), task.nearest.x_hat.to(torch.float64))
            return RoundedWeight(task.nearest, trace, bits, values=w_hat, inputs=rounded)
        found = quantize(as_quantized(self.seen(task.w), task.scheme), task.scheme)
        result = replace(found, x=task.values, error=found.x_hat - task.values, own_codes=True)
        w_hat = torch.where(kept, in_half(found.x_hat), found.x_hat.to(torch.float64))
        return RoundedWeight(result, trace, values=w_hat, inputs=rounded)

    @property
    def _splits(self) -> bool:
        """Return whether any channel may stay apart: for bitsandbytes a threshold of 0 means none."""
        return self.variant == "paper" or self.threshold > 0

    def seen(self, values: torch.Tensor) -> torch.Tensor:
        """Return weights or inputs as the codes are chosen: bitsandbytes converts them to half precision."""
        return values if self.variant == "paper" else in_half(values)

    def coded(self, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        """Return the part of inputs that becomes codes: the loud channels, or their loud values, are 0."""
        if self.variant == "paper" or not self._splits:
            return self.seen(x).masked_fill(kept, 0)
        half = self.seen(x)
        # A channel that is loud only in tokens held back is none of those that stay apart.
        return half.masked_fill(kept & (half.abs() >= self.threshold), 0)


def in_half(values: torch.Tensor) -> torch.Tensor:
    """Return values in float16, those beyond its range in bfloat16, float64.

    >>> in_half(torch.tensor([0.1, 1e6], dtype=torch.float64)).tolist()
    [0.0999755859375, 999424.0]
    """
    fits = values.abs() <= torch.finfo(torch.float16).max
    return torch.where(fits, values.to(torch.float16), values.to(torch.bfloat16).to(torch.float64))
