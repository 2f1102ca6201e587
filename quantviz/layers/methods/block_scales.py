"""Other scales of blocks: double quantization (QLoRA, arXiv 2305.14314) stores the scales in 8 bits, four
over six (arXiv 2512.02010) ends each block of NVFP4 at 6 or at 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import stored_bits
from quantviz.layers.methods.contract import (
    MethodTask,
    RoundedWeight,
    RoundingMethod,
    as_quantized,
    between,
    one_of,
)
from quantviz.quantization.quantizer import dequantize, quantize
from quantviz.schemes.calibration import Searched
from quantviz.schemes.conventions import CONVENTIONS
from quantviz.schemes.granularity import Flat, PerGroup
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.blocks import Blocks, viewed

#: Bits of the scale of a block of scales.
_SECOND_BITS = 32


@dataclass(frozen=True, eq=False)
class ScalesTrace:
    """The scales of blocks before and after they are quantized, float32 in the order of the blocks."""

    before: torch.Tensor
    after: torch.Tensor
    #: Their mean, which is taken off before.
    mean: float


@dataclass(frozen=True)
class DoubleQuantization(RoundingMethod):
    """Store the scales of blocks less their mean in 8 bits, by bitsandbytes' dynamic map.

    The codes of weights are those of the scales as they were; their values are those of the stored ones.
    """

    #: Scales that share a scale of their own.
    block: int = 256
    id: ClassVar[str] = "double_quantization"
    cost: ClassVar[str] = "m n"

    def problems(self) -> Iterator[QuantVizError]:
        yield from between(self, "block", 1, 2**20)

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        two_levels = weights is not None and (
            weights.arithmetic.scale.format is not None or weights.search is not None
        )
        if weights is not None and (weights.granularity.single or weights.mode != "symmetric" or two_levels):
            yield QuantVizError("method.double_quantization.scheme", scheme=str(weights))

    def round(self, task: MethodTask) -> RoundedWeight:
        plain = task.nearest
        scales = plain.qparams.scale.to(torch.float32)
        mean = scales.mean()
        rounded = quantize((scales - mean).flatten(), _of_scales(self.block)).x_hat
        stored = viewed(rounded, tuple(scales.shape)) + mean
        params = dataclasses.replace(plain.qparams, scale=stored, stored=True)
        x_hat = dequantize(plain.q, task.scheme, params)
        result = dataclasses.replace(
            plain, qparams=params, x_hat=x_hat, error=x_hat - plain.x, own_codes=True
        )
        size = stored_bits(task.scheme)
        of_scale = stored_bits(_of_scales(self.block)).code + _SECOND_BITS / self.block
        bits = (of_scale - size.scale) * scales.numel() / plain.x.numel()
        return RoundedWeight(result, ScalesTrace(scales.flatten(), stored.flatten(), float(mean)), bits)


def _of_scales(block: int) -> Scheme:
    return Scheme("bnb_dynamic8", granularity=Flat(block), convention="bitsandbytes_dynamic8")


# ---- four over six ------------------------------------------------------------------------------------

#: NVFP4's blocks, and the search of each error.
_BLOCK = 16
_SEARCHES = {
    "squares": "four_over_six",
    "magnitudes": "four_over_six_mae",
    "largest": "four_over_six_abs_max",
}


@dataclass(frozen=True, eq=False)
class EndsTrace:
    #: Whether its largest magnitude became 4 and not 6, bool of the scales' shape.
    four: torch.Tensor


@dataclass(frozen=True)
class FourOverSix(RoundingMethod):
    """Scale each block of NVFP4 so that its largest magnitude becomes 6, or 4 where that errs less.

    Near 6 the values of FP4 lie 2 apart, near 4 only 1. The scale of the tensor is 256 · 6 in place of
    448 · 6, to leave room for the larger scales of blocks that end at 4.
    """

    #: The error that decides: of squares, of magnitudes, or the largest one.
    error: Literal["squares", "magnitudes", "largest"] = "squares"
    id: ClassVar[str] = "four_over_six"
    cost: ClassVar[str] = "2 m n"
    work: ClassVar[float] = 1500.0

    def problems(self) -> Iterator[QuantVizError]:
        yield from one_of(self, "error", tuple(_SEARCHES))

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        groups = (PerGroup(_BLOCK), PerGroup(_BLOCK, axis=1))
        if weights is not None and (weights.format != "float4_e2m1fn" or weights.granularity not in groups):
            yield QuantVizError("method.four_over_six.scheme", scheme=str(weights))

    def round(self, task: MethodTask) -> RoundedWeight:
        scheme = scheme_of_error(self.error)
        result = quantize(as_quantized(task.w, scheme), scheme)
        largest = Blocks(result.x_hat, result.layout, torch.float32).magnitudes().min_max()[1]
        scales = result.qparams.scale.to(torch.float32)
        return RoundedWeight(result, EndsTrace(largest < 5 * scales))


def scheme_of_error(error: str = "squares") -> Scheme:
    convention = CONVENTIONS["fouroversix"].replace(search=_SEARCHES[error])
    return Scheme("float4_e2m1fn", "symmetric", PerGroup(_BLOCK), Searched(), convention)
