"""LLM.int8() (Dettmers et al. 2022, arXiv 2208.07339): keep loud input channels in half precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import stored_bits
from quantviz.layers.methods.contract import Nearest, Rounded, RoundingMethod, Task, between, one_of
from quantviz.schemes.scheme import Scheme

#: Bits of a weight in half precision.
_HALF_BITS = 16


@dataclass(frozen=True, eq=False)
class OutlierTrace:
    """The input channels that stay in half precision."""

    #: The largest |x| of each channel over the tokens that may be used, float64 (inputs,).
    x_max: torch.Tensor
    #: Whether it stays in half precision, bool (inputs,).
    kept: torch.Tensor
    threshold: float


@dataclass(frozen=True)
class LLMInt8(RoundingMethod):
    """Multiply the input channels with any |x| of the threshold or more in float16, all others in codes.

    Scales of inputs are found without these channels in the paper; in bitsandbytes without the loud values
    alone, so that a quiet value of a loud channel may still set a scale. A weight's row keeps its scale.
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

    def round(self, task: Task) -> Rounded:
        x_max = task.x.abs().amax(0)
        kept = x_max >= self.threshold
        result = task.nearest
        w_hat = torch.where(kept, in_half(task.w), result.x_hat.to(torch.float64))

        def rounded(x: torch.Tensor, nearest: Nearest) -> torch.Tensor:
            return torch.where(kept, in_half(x), nearest(self.coded(x, kept)))

        share = float(kept.to(torch.float64).mean())
        bits = share * (_HALF_BITS - stored_bits(task.scheme).code)
        return Rounded(result, OutlierTrace(x_max, kept, self.threshold), bits, values=w_hat, inputs=rounded)

    def coded(self, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        """Return the part of inputs that becomes codes: the loud channels, or their loud values, are 0."""
        return x.masked_fill(kept if self.variant == "paper" else x.abs() >= self.threshold, 0)


def in_half(values: torch.Tensor) -> torch.Tensor:
    """Return values in float16, those beyond its range in bfloat16, float64.

    >>> in_half(torch.tensor([0.1, 1e6], dtype=torch.float64)).tolist()
    [0.0999755859375, 999424.0]
    """
    fits = values.abs() <= torch.finfo(torch.float16).max
    return torch.where(fits, values.to(torch.float16), values.to(torch.bfloat16).to(torch.float64))
