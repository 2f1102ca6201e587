"""LLM.int8() (Dettmers et al. 2022, arXiv 2208.07339): keep loud input channels in half precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import stored_bits
from quantviz.layers.methods.contract import Rounded, RoundingMethod, Task, as_quantized, between, one_of
from quantviz.quantization.quantizer import choose_qparams, quantize
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
        inputs = task.inputs
        assert inputs is not None
        x_max = task.x.abs().amax(0)
        kept = x_max >= self.threshold
        result = task.nearest
        w_hat = torch.where(kept, in_half(task.w), result.x_hat.to(torch.float64))

        def rounded(x: torch.Tensor) -> torch.Tensor:
            coded = _quantized(self.coded(x, kept), self.coded(task.x, kept), inputs)
            return torch.where(kept, in_half(x), coded)

        share = float(kept.to(torch.float64).mean())
        bits = share * (_HALF_BITS - stored_bits(task.scheme).code)
        return Rounded(result, OutlierTrace(x_max, kept, self.threshold), bits, values=w_hat, inputs=rounded)

    def coded(self, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        """Return the part of inputs that becomes codes: the loud channels, or their loud values, are 0."""
        return x.masked_fill(kept if self.variant == "paper" else x.abs() >= self.threshold, 0)


def _quantized(x: torch.Tensor, used: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """Return rounded inputs, float64. Scales that all tokens share are those of the used tokens."""
    values = as_quantized(x, scheme)
    shared = scheme.layout(tuple(values.shape)).grid_shape[0] == 1 != len(values)
    if shared:
        found = choose_qparams(as_quantized(used, scheme), scheme)
        return quantize(values, scheme, qparams=found).x_hat.to(torch.float64)
    return quantize(values, scheme).x_hat.to(torch.float64)


def in_half(values: torch.Tensor) -> torch.Tensor:
    """Return values in float16; beyond its range in bfloat16, float64."""
    largest = torch.finfo(torch.float16).max
    dtype = torch.float16 if float(values.abs().max()) <= largest else torch.bfloat16
    return values.to(dtype).to(torch.float64)
