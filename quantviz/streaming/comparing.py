"""Comparison of a file's codes and values with those nearest to the original, a band of rows at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.evaluation.moments import Moments
from quantviz.quantization.qparams import largest_magnitude, stored_qparams
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QParams, QuantResult
from quantviz.schemes.calibration import External
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits
from quantviz.streaming.programs import CompiledScheme, program_of
from quantviz.streaming.result_metrics import moments_of_sums
from quantviz.streaming.tensor_facts import DECODED
from quantviz.tensors import blocks

_Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Scales:
    program: CompiledScheme
    #: By blocks as the program reads them, float64, those of one name `count` after those of another.
    params: _Array
    count: int
    #: One a block, float32: those that values follow from.
    scale: _Array
    zero_point: _Array
    #: Blocks of which all codes have the same value; empty where there is none.
    apart: _Array

    def of_rows(self, start: int, stop: int, count: int) -> Scales:
        # No block spans two rows.
        blocks_of_row = self.scale.size // count
        here = slice(start * blocks_of_row, stop * blocks_of_row)
        of_blocks = (self.scale[here], self.zero_point[here], self.apart[here])
        return Scales(self.program, self.params[here.start :], self.count, *of_blocks)


@dataclass(frozen=True, eq=False)
class WeightBand:
    """Some rows of a weight: the file's codes, values and scales, and the original values."""

    scheme: Scheme
    #: The original's, float32 or of half precision.
    stored: torch.Tensor
    #: The file's codes, or the function that unpacks them.
    #: The file's, or the function that unpacks them.
    codes: torch.Tensor | Callable[[], torch.Tensor]
    #: The file's values; none where each follows in float32: (code − zero point) · scale, or code · scale +
    #: zero point where that is a value.
    given: torch.Tensor | None
    #: One a block; 0 if all codes of the block have the same value.
    scale: torch.Tensor
    zero_point: torch.Tensor
    #: Up to so many steps, and so much of the original's value, a code counts as nearest.
    slack: tuple[float, float]
    #: Of four-bit codes: eight neighbours of a row a word, the first lowest, int32 `(columns / 8, rows)`.
    words: torch.Tensor | None = None
    #: Prepared with those of other rows.
    scales: Scales | None = None

    @cached_property
    def q(self) -> torch.Tensor:
        return self.codes if isinstance(self.codes, torch.Tensor) else self.codes()

    @cached_property
    def x(self) -> torch.Tensor:
        return self.stored.float()

    @cached_property
    def x_hat(self) -> torch.Tensor:
        if self.given is not None:
            return self.given
        shape = tuple(self.stored.shape)
        layout = self.scheme.layout(shape)
        scale, zero = (
            blocks.expand(_grid(values, layout), layout, shape) for values in (self.scale, self.zero_point)
        )
        codes = self.q.float()
        return codes * scale + zero if self.adds else (codes - zero) * scale

    @property
    def adds(self) -> bool:
        return self.scheme.zero_domain == "value"

    @property
    def params(self) -> QParams:
        # Nothing is divided by 0.
        return _params(self.scheme, self.scale, self.zero_point)


def _params(scheme: Scheme, scale: torch.Tensor, zero_point: torch.Tensor) -> QParams:
    safe = torch.where(scale == 0, 1.0, scale)
    return QParams(safe, zero_point, zero_domain=scheme.zero_domain, stored=True)


@dataclass(frozen=True, eq=False)
class Added:
    """Sums and counts of compiled code: see `moments_of_sums`."""

    sums: _Array
    cells: int
    largest: int
    counts: _Array

    def join(self, other: Added) -> Added:
        return Added(
            self.sums + other.sums,
            self.cells + other.cells,
            max(self.largest, other.largest),
            self.counts + other.counts,
        )

    @property
    def moments(self) -> Moments:
        return moments_of_sums(self.sums, self.cells, self.largest, self.counts)


@dataclass(frozen=True, eq=False)
class BandComparison:
    found: Moments | Added
    #: Codes in each column that are nearest to the original's value.
    near: torch.Tensor
    #: Of blocks, and of those in which saturation would change a code.
    blocks: int
    saturated: int
    #: The finite ends of the original's values, and of the file's; none where they were not looked for.
    ends: tuple[tuple[float, float], tuple[float, float]] | None = None

    @property
    def moments(self) -> Moments:
        return self.found.moments if isinstance(self.found, Added) else self.found


def _grid(values: torch.Tensor, layout: BlockLayout) -> torch.Tensor:
    grid = blocks.to_grid(values, layout)
    assert grid is not None
    return grid.float()


def result_of_band(band: WeightBand) -> tuple[QuantResult, torch.Tensor]:
    """Return the file's codes and values as a result, and whether each code is nearest to the original.

    `clipped` is true where rounding with the file's scales would leave the range of the codes.
    """
    x = band.x
    nearest = quantize(x, band.scheme.replace(nonfinite="ignore"), qparams=band.params)
    error = torch.where(torch.isfinite(x), band.x_hat - x, math.nan)
    of_steps, of_x = band.slack
    slack = of_steps * nearest.step_of_cells()
    slack = slack + of_x * x.abs() if of_x else slack
    as_near = ~(error.abs() > nearest.error.abs() + slack)  # cells that are left out count as near
    apart = _apart(band, nearest)
    as_near = as_near if apart is None else as_near | apart
    result = dataclasses.replace(nearest, q=band.q, x_hat=band.x_hat, error=error, own_codes=True)
    return result, as_near


def _apart(band: WeightBand, like: QuantResult) -> torch.Tensor | None:
    # The cell's block has one value for all codes.
    stored = blocks.to_grid(band.scale, like.layout)
    if stored is None or not bool((stored == 0).any()):
        return None
    return blocks.expand(stored, like.layout, like.shape) == 0


def compared(band: WeightBand, *, count: int) -> BandComparison:
    """Return the comparison of a band of a weight of `count` elements with its original.

    Compiled code computes it if there is any, all values are finite, and the weight is large enough. Counts
    are the reference's; sums agree to 1e-9.
    """
    comparison = _by_kernel(band) if _by_kernels(count) else None
    return by_reference(band) if comparison is None else comparison


def _by_kernels(count: int) -> bool:
    return count > limits.FUSED and kernel_access.fixed_ready()


def by_reference(band: WeightBand) -> BandComparison:
    r, as_near = result_of_band(band)
    saturated = int((blocks.block_sums(r.clipped, r.layout) > 0).sum())
    return BandComparison(Moments.of(r), as_near.sum(0), r.layout.block_count, saturated)


@lru_cache(maxsize=64)
def _given(scheme: Scheme, shape: Shape) -> tuple[Scheme, BlockLayout] | None:
    """Return the scheme with given scales, and its blocks; None if kernels cannot compare under it."""
    scheme_given = scheme.replace(nonfinite="refuse", calibration=External())
    if scheme_given.number_format.bits > 8 or any(scheme_given.problems(shape)):
        return None
    layout = scheme_given.layout(shape)
    return (scheme_given, layout) if len(layout.view_shape) == 2 else None


def _by_kernel(band: WeightBand) -> BandComparison | None:
    """Return the comparison; None without compiled code, or if a number is not finite."""
    shape = tuple(band.stored.shape)
    fixed = _given(band.scheme, shape)
    if fixed is None:
        return None
    scheme, layout = fixed
    scales = band.scales
    if scales is None:
        absmax = largest_magnitude(band.x) if scheme.arithmetic.scale.global_rule else torch.tensor(0.0)
        scales = _scales(scheme, layout, band.scale, band.zero_point, absmax)
    return None if scales is None else _run(band, layout, scales)


def scales_of_rows(
    scheme: Scheme, scale: torch.Tensor, zero_point: torch.Tensor, shape: Shape
) -> Scales | None:
    """Return the scales of all rows of a weight; None without rows of their own, or compiled code."""
    fixed = _given(scheme, shape) if _by_kernels(math.prod(shape)) else None
    if fixed is None or fixed[1].grid_shape[0] != shape[0] or fixed[0].arithmetic.scale.global_rule:
        return None
    return _scales(*fixed, scale, zero_point, torch.tensor(0.0))


def _scales(
    scheme: Scheme, layout: BlockLayout, scale: torch.Tensor, zero_point: torch.Tensor, absmax: torch.Tensor
) -> Scales | None:
    params = stored_qparams(_params(scheme, scale, zero_point), absmax, scheme, layout)
    program = program_of(scheme, params, layout)
    if program is None:
        return None
    scales, zero = (_grid(values, layout).flatten().numpy() for values in (scale, zero_point))
    apart = scales == 0
    apart = apart if apart.any() else apart[:0]
    return Scales(program, program.of_blocks(params), layout.block_count, scales, zero, apart)


def _run(band: WeightBand, layout: BlockLayout, scales: Scales) -> BandComparison | None:
    from quantviz.compiled.comparing import TILE, compare
    from quantviz.compiled.partial_sums import INFINITE
    from quantviz.compiled.result_sums import SUMS, TABLES
    from quantviz.compiled.vector_comparing import AT, START

    fmt = band.scheme.number_format
    codes = np.empty(0, np.uint8)
    words = np.empty((0, 0), np.uint32)
    if band.words is None:
        codes = band.q.contiguous().flatten().view(torch.uint8).numpy()
    else:
        words = band.words.contiguous().numpy().view(np.uint32)
    near = np.zeros(band.stored.shape[1], np.int32)
    hit = np.zeros(layout.block_count, np.int32)
    counts = np.zeros((TABLES, 256), np.int64)
    out = np.array(START)
    decoded = np.empty(TILE, np.float32)
    program = scales.program
    compare(
        program.comparison_address(),
        _words(band.stored),
        _rule(band, scales),
        (codes, words, fmt.code_min),
        (
            program.place(layout, 0, band.stored.numel()),
            (scales.params, scales.count, *program.constants),
        ),
        (decoded, decoded.view(np.uint32), np.empty(TILE, np.float32)),
        (np.array(band.slack, np.float32), scales.apart),
        (near, hit, counts, out),
    )
    sums = out[: len(SUMS)]
    if not (np.isfinite(sums).all() and out[AT["of_nearest"]] < INFINITE):
        return None
    of_bytes = counts.sum(0)
    if band.words is not None:
        low, high = (np.bincount(places, of_bytes) for places in (np.arange(256) & 15, np.arange(256) >> 4))
        of_bytes = low + high
    # The first codes are those of the format: a code has no other byte.
    added = Added(sums, band.stored.numel(), int(out[AT["largest"]]), of_bytes[: fmt.levels])
    lo, hi, lo_value, hi_value = out[AT["least_x"] :].tolist()
    ends = (lo, hi), (lo_value, hi_value)
    return BandComparison(
        added, torch.from_numpy(near).to(torch.int64), layout.block_count, int(np.count_nonzero(hit)), ends
    )


def _words(x: torch.Tensor) -> tuple[npt.NDArray[np.uint16], int, npt.NDArray[np.float32]]:
    # As the kernel takes them: words of 16 bits, or float32.
    from quantviz.compiled.decoding import BRAIN, HALF, SINGLE

    flat = x.contiguous().flatten()
    if x.dtype not in DECODED:
        return np.empty(0, np.uint16), SINGLE, flat.float().numpy()
    words = flat.view(torch.int16).numpy().view(np.uint16)
    return words, BRAIN if x.dtype == torch.bfloat16 else HALF, np.empty(0, np.float32)


def _rule(
    band: WeightBand, scales: Scales
) -> tuple[int, npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    # How the kernel computes the file's values.
    from quantviz.compiled.comparing import ADDED, GIVEN, SHIFTED

    none = np.empty(0, np.float32)
    if band.given is not None:
        return GIVEN, band.given.contiguous().flatten().numpy(), none, none
    return ADDED if band.adds else SHIFTED, none, scales.scale, scales.zero_point
