"""Rounding to other values than the scheme's: those of least error for a Gaussian, HIGGS (Malinovskii et al.
2024, arXiv 2411.17525), or for the weights themselves, k-means (Han et al. 2016, "Deep Compression").

HIGGS's paper turns blocks of weights by a Hadamard matrix with random signs first, so that they are nearly
Gaussian: `rotation(signs=true)+higgs`. Its grids of single values are those of Lloyd and Max (1960).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from quantviz.analysis.fitted_codebook import fit_codebook
from quantviz.analysis.source_bounds import MOST_ATOMS
from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import bits_per_element
from quantviz.layers.methods.contract import MethodTask, RoundedWeight, RoundingMethod, one_of, relative
from quantviz.layers.methods.rotation import shares_of_bins
from quantviz.quantization.grids import nearest
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QuantResult
from quantviz.schemes.formats import MOST_OWN_VALUES, NumberFormat
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.blocks import block_sizes, block_sums, expand

_SCALE_BITS = 16
#: The most bits of a code for which a grid is computed.
_MOST_BITS = 8
#: Multiplications that take as long as all rounds of k-means on a value.
_ROUNDS = 1e5
#: The change of every value, in standard deviations, below which a grid is found; and rounds at most.
_FOUND = 1e-12
_MOST_ROUNDS = 20_000


@dataclass(frozen=True, eq=False)
class GridTrace:
    #: The values of the grid in standard deviations, smallest first.
    values: tuple[float, ...]
    #: The mean squared error as a share of the mean square: of a Gaussian, and of these weights.
    gaussian: float
    weights: float
    #: The share of weights in each of `BINS` bins between ±`REACH` scales, float64 (BINS,).
    bins: torch.Tensor


@dataclass(frozen=True, eq=False)
class CodebookTrace:
    values: tuple[float, ...]
    #: ‖Ŵ − W‖² / ‖W‖² under the scheme, and under the codebook.
    nearest: float
    fitted: float
    #: The share of weights in each of `BINS` bins between ±`REACH` units, float64 (BINS,).
    bins: torch.Tensor


@dataclass(frozen=True)
class Higgs(RoundingMethod):
    """Divide each block by its root mean square, and round to the values of least error for a Gaussian.

    Blocks and bits of a code are those of the weight's scheme. There is no zero point, and a scale is a
    float16.
    """

    id: ClassVar[str] = "higgs"
    cost: ClassVar[str] = "m n"
    work: ClassVar[float] = 2000.0
    variants: ClassVar[tuple[str, ...]] = ("rotation(signs=true)+higgs",)

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        if weights is not None and weights.number_format.bits > _MOST_BITS:
            yield QuantVizError("method.higgs.bits", scheme=str(weights), most=_MOST_BITS)

    def round(self, task: MethodTask) -> RoundedWeight:
        result = task.nearest
        layout = result.layout
        shape = tuple(task.w.shape)
        bits = task.scheme.number_format.bits
        grid = gaussian_grid(bits)
        rms = (block_sums(task.w.square(), layout) / block_sizes(layout)).sqrt()
        scales = expand(_in_half(rms), layout, shape)
        units = (task.w / torch.where(scales > 0, scales, 1.0)).clamp(grid.value_min, grid.value_max)
        w_hat = scales * nearest(units, grid, "even")
        signal = float(task.w.square().sum())
        error = float((w_hat - task.w).square().sum())
        lost = error / signal if signal else 0.0
        trace = GridTrace(grid.codebook, gaussian_error(grid.codebook), lost, shares_of_bins(task.w, scales))
        own_bits = bits + _SCALE_BITS * layout.block_count / task.w.numel()
        return RoundedWeight(result, trace, own_bits - bits_per_element(task.scheme, shape), values=w_hat)


@dataclass(frozen=True)
class KMeans(RoundingMethod):
    """Round to a codebook of the weight's own, with as many values as the weight's scheme has codes.

    One codebook for the whole weight; the scheme's blocks have a scale each. Squared errors count alike, or
    by the mean square of their input (Kim et al. 2024, arXiv 2306.07629, "SqueezeLLM").
    """

    weighting: Literal["none", "activation"] = "none"
    id: ClassVar[str] = "kmeans"
    cost: ClassVar[str] = "m n"
    work: ClassVar[float] = 8000.0
    variants: ClassVar[tuple[str, ...]] = ("kmeans(weighting=activation)",)

    def problems(self) -> Iterator[QuantVizError]:
        yield from one_of(self, "weighting", ("none", "activation"))

    def problems_with(self, weights: Scheme | None, inputs: Scheme | None) -> Iterator[QuantVizError]:
        yield from super().problems_with(weights, inputs)
        if weights is not None and weights.number_format.levels > MOST_OWN_VALUES:
            levels = weights.number_format.levels
            yield QuantVizError("codebook_too_long", got=weights.format, levels=levels, most=MOST_OWN_VALUES)

    def products(self, shape: Shape) -> float:
        # All rounds fit some thousands of neighbours together.
        _, inputs, outputs = shape
        return super().products(shape) + _ROUNDS * min(inputs * outputs, MOST_ATOMS)

    def round(self, task: MethodTask) -> RoundedWeight:
        importance = task.x.square().mean(0) if self.weighting == "activation" else None
        result = quantize(task.values, fit_codebook(task.values, task.scheme, importance=importance))
        return RoundedWeight(result, _codebook_trace(task, result) if task.traced else None)


def _codebook_trace(task: MethodTask, result: QuantResult) -> CodebookTrace:
    scales = expand(result.qparams.scale.to(torch.float64), result.layout, result.shape)
    units = task.values / torch.where(scales == 0, 1.0, scales)
    rms = float(units.square().mean().sqrt()) or 1.0
    signal = float(task.w.square().sum())
    nearest, fitted = (
        relative(float((each.x_hat.to(torch.float64) - task.w).square().sum()), signal)
        for each in (task.nearest, result)
    )
    values = tuple(value / rms for value in result.scheme.number_format.codebook)
    return CodebookTrace(values, nearest, fitted, shares_of_bins(units))


@functools.cache
def gaussian_grid(bits: int) -> NumberFormat:
    """Return the 2^bits values with the least mean squared error for N(0, 1), as a codebook.

    Lloyd's rounds: each value moves to the mean of those that are nearest to it, until none moves.

    >>> [round(value, 4) for value in gaussian_grid(2).codebook]
    [-1.5104, -0.4528, 0.4528, 1.5104]
    """
    count = 2**bits
    places = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    # For many values the best density is that of N(0, 3).
    values = math.sqrt(3) * torch.special.ndtri(places)
    for _ in range(_MOST_ROUNDS):
        chances, moments = _parts(values)
        moved = moments / chances
        change = float((moved - values).abs().max())
        values = (moved - moved.flip(0)) / 2
        if change < _FOUND:
            break
    codebook = tuple(values.tolist())
    return NumberFormat(f"gaussian{bits}", "codebook", bits, True, "uint8", 0, count - 1, codebook=codebook)


def gaussian_error(values: tuple[float, ...]) -> float:
    """Return the mean squared error of N(0, 1) rounded to the nearest of some values, smallest first."""
    grid = torch.tensor(values, dtype=torch.float64)
    chances, moments = _parts(grid)
    return float(1 - 2 * (grid * moments).sum() + (grid.square() * chances).sum())


def _parts(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the chance of each value to be the nearest, and the integral of x there, float64 (values,)."""
    middles = (values[1:] + values[:-1]) / 2
    infinity = torch.tensor([math.inf], dtype=torch.float64)
    ends = torch.cat((-infinity, middles, infinity))
    density = torch.exp(-ends.square() / 2) / math.sqrt(2 * math.pi)
    return torch.special.ndtr(ends).diff(), -density.diff()


def _in_half(scales: torch.Tensor) -> torch.Tensor:
    """Return scales as float16 stores them, float64; raise `QuantVizError` beyond its range."""
    stored = scales.to(torch.float16).to(torch.float64)
    if bool(torch.isinf(stored).any()):
        raise QuantVizError("method.higgs.scale", got=f"{float(scales.max()):.4g}")
    return stored
