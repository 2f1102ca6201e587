"""The bins of the two histograms: of the values of x, and of the errors in steps.

Bins are bounded by numbers of x alone: cells can be counted a part at a time.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.quantization.explanation import CAUSES
from quantviz.quantization.operations import run_operations
from quantviz.quantization.result import QParams, block_values
from quantviz.quantization.value_to_code import code_operations
from quantviz.schemes.scheme import Scheme

Array = npt.NDArray[Any]

#: Parts of a bar, from the axis up.
PARTS = ("kept", "zeroed", "clipped")
#: The part of each of `CAUSES`.
PART_OF_CAUSE = np.array([PARTS.index(cause) if cause in PARTS else 0 for cause in CAUSES])
#: Most bars of the values' histogram.
MOST_BINS = 96
#: Bars between -1/2 and +1/2 step of the errors' histogram.
ERROR_BINS = 20
#: Codes from the first to the last cell beyond which bins are no longer made of codes.
_WIDEST_CODES = 2.0**40


@dataclass(frozen=True, eq=False)
class SplitHistogram:
    """A histogram whose bars are split into `PARTS`."""

    #: n + 1 ascending ends of the n bins.
    edges: Array
    #: Cells of each part in each bin, n int64 a part.
    counts: Mapping[str, Array]
    #: The first code of each bin of codes; codes the format does not have included.
    codes: Array | None = None
    codes_per_bin: int = 1

    @property
    def totals(self) -> Array:
        return np.asarray(sum(self.counts.values(), np.zeros(len(self.edges) - 1, dtype=np.int64)))


@dataclass(frozen=True, eq=False)
class HistogramData:
    #: Of x, in its units. With one block of integer codes the bins are those of its codes, aligned to where
    #: rounding changes its mind.
    values: SplitHistogram
    #: Of the error in steps. The first and the last bin hold all clipped cells, whatever their error.
    errors: SplitHistogram
    cells: int
    block_count: int
    #: The values that codes reach in every block, and in some block; none without cells.
    reached_by_all: tuple[float, float] | None
    reached_by_some: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class ValueBins:
    """The bins of x's histogram."""

    #: n + 1 ascending ends, as they are shown.
    edges: Array
    #: The smallest float32 of each bin but the first, n - 1: exact bounds, found by the arithmetic itself.
    cuts: Array
    #: As in `SplitHistogram`.
    codes: Array | None = None
    codes_per_bin: int = 1

    @classmethod
    def of(cls, scheme: Scheme, qparams: QParams, count: int, low: float, high: float) -> ValueBins:
        """Return bins for `count` cells from `low` to `high`; for no cells, no bins.

        With one block of integer codes a bin holds one code, or a power of two of them, and bins of the same
        size go on beyond the codes. Else bins have equal width.
        """
        if not count:
            return cls(np.zeros(1), np.zeros(0, dtype=np.float32))
        return (
            _code_bins(scheme, qparams, low, high) if _has_code_bins(scheme, qparams) else None
        ) or _equal_bins(count, low, high)

    def places(self, x: Array) -> Array:
        return np.searchsorted(self.cuts, x, side="right")

    def bars(self, counts: Array) -> SplitHistogram:
        """Return the bars of these bins; `counts` are cells, int64 (3, n), a row for each of `PARTS`."""
        return SplitHistogram(
            self.edges, dict(zip(PARTS, counts, strict=True)), self.codes, self.codes_per_bin
        )


def error_places(steps: Array, parts: Array) -> Array:
    """Return the bin of each error, in steps, of cells of `parts` (places in `PARTS`)."""
    # A scale of 0 has no steps: exact values are in the middle, all others at an end.
    steps = np.nan_to_num(steps, nan=0.0, posinf=1.0, neginf=-1.0)
    # An unclipped error may pass half a step by a float's last bit.
    inside = 1 + np.clip(np.floor((steps + 0.5) * ERROR_BINS), 0, ERROR_BINS - 1)
    return np.where(parts == PARTS.index("clipped"), np.where(steps < 0, 0, ERROR_BINS + 1), inside).astype(
        np.int64
    )


def counted(places: Array, parts: Array, bins: int) -> Array:
    """Return the cells of each part in each bin: int64 (3, bins)."""
    table = np.bincount(places + bins * parts, minlength=bins * len(PARTS))
    return np.stack([table[part * bins : (part + 1) * bins] for part in range(len(PARTS))])


def histograms(
    scheme: Scheme, qparams: QParams, values: ValueBins, value_counts: Array, error_counts: Array
) -> HistogramData:
    """Return both histograms, with the cells counted: int64 (3, n) and (3, `ERROR_BINS` + 2)."""
    lows, highs = _reach(scheme, qparams)
    some = (float(lows.min()), float(highs.max()))
    everywhere = (float(lows.max()), float(highs.min()))
    width = 1 / ERROR_BINS
    cells = int(error_counts.sum())
    return HistogramData(
        values=values.bars(value_counts),
        errors=SplitHistogram(
            np.linspace(-0.5 - width, 0.5 + width, ERROR_BINS + 3),
            dict(zip(PARTS, error_counts, strict=True)),
        ),
        cells=cells,
        block_count=lows.size,
        # Blocks that have no value in common are hinted at by the wider range alone.
        reached_by_all=everywhere if cells and everywhere[0] <= everywhere[1] else None,
        reached_by_some=some if cells else None,
    )


def _reach(scheme: Scheme, qparams: QParams) -> tuple[Array, Array]:
    """Return the smallest and the largest value of each block's codes, float64."""
    ends = [_values(scheme, qparams, end) for end in (scheme.value_min, scheme.value_max)]
    return np.minimum(*ends), np.maximum(*ends)


def _values(scheme: Scheme, qparams: QParams, unscaled: float | Array) -> Array:
    """Return the x̂ of an unscaled value of the grid in each block, float64: also beyond float32 and between
    codes.
    """
    scale = qparams.scale.to(torch.float64).numpy()
    zero_point = qparams.zero_point.to(torch.float64).numpy()
    domain = qparams.zero_domain
    if domain not in ("value", "value_middle"):
        return np.asarray(scale * (unscaled - zero_point))
    middle = (scheme.code_max + scheme.code_min + 1) // 2 if domain == "value_middle" else 0
    return np.asarray(scale * (unscaled - middle) + zero_point)


def _has_code_bins(scheme: Scheme, qparams: QParams) -> bool:
    """Return whether codes are equal steps of one scale, with ends half-way between them."""
    if qparams.scale.numel() > 1 or scheme.number_format.kind != "integer":
        return False
    return scheme.arithmetic.ties not in ("stochastic", "truncate") and bool(
        qparams.scale.to(torch.float64).abs() > 0
    )


def _code_bins(scheme: Scheme, qparams: QParams, low: float, high: float) -> ValueBins | None:
    params = {name: values.squeeze() for name, values in block_values(qparams).items()}

    def codes_of(x: Array) -> Array:
        return (
            run_operations(code_operations(scheme), {"x": torch.from_numpy(x), **params})["y"]
            .to(torch.float64)
            .numpy()
        )

    ends = codes_of(np.array([low, high], dtype=np.float32))
    first = float(ends.min())
    last = float(ends.max())
    if not last - first <= _WIDEST_CODES:  # a scale far too small: codes would not be a pixel wide
        return None
    size = 2 ** max(0, math.ceil(math.log2((last - first + 1) / MOST_BINS)))
    # Counted from the format's first code, so that its ends are ends of bins.
    start = scheme.code_min + math.floor((first - scheme.code_min) / size) * size
    bins = int((last - start) // size) + 1
    starts = start + size * np.arange(bins + 1, dtype=np.float64)
    edges = _values(scheme, qparams, starts - 0.5).ravel()
    numbers = starts[:-1].astype(np.int64) if abs(starts).max() < 2**53 else None
    if edges[0] > edges[-1]:  # a negative scale: the last code stands for the smallest value
        edges = edges[::-1]
        numbers = None if numbers is None else numbers[::-1]
        return ValueBins(
            edges, _cuts(lambda x: bins - 1 - (codes_of(x) - start) // size, bins, low, high), numbers, size
        )
    return ValueBins(edges, _cuts(lambda x: (codes_of(x) - start) // size, bins, low, high), numbers, size)


def _equal_bins(count: int, low: float, high: float) -> ValueBins:
    if low == high:
        room = abs(low) / 2 or 0.5
        return ValueBins(np.array([low - room, high + room]), np.zeros(0, dtype=np.float32))
    bins = min(MOST_BINS, max(8, math.ceil(2 * count**0.5)))

    def place(x: Array) -> Array:
        return np.asarray(np.minimum(np.floor((x.astype(np.float64) - low) / (high - low) * bins), bins - 1))

    return ValueBins(np.linspace(low, high, bins + 1), _cuts(place, bins, low, high))


def _cuts(place: Callable[[Array], Array], bins: int, low: float, high: float) -> Array:
    """Return the smallest float32 of each bin but the first, by halving over the float32 numbers in their
    order.

    `place` gives the bin of a value, and never a smaller one for a larger value.
    """
    wanted = np.arange(1, bins)
    below, above = (np.full(bins - 1, _order(end), dtype=np.int64) for end in (low, high))
    # The last bin's first value is `high` at the latest; that of a bin without any is that of the next.
    while (above - below > 1).any():
        middle = (below + above) // 2
        reached = place(_float32_at(middle)) >= wanted
        above = np.where(reached, middle, above)
        below = np.where(reached, below, middle)
    return _float32_at(above)


def _order(value: float) -> int:
    """Return the place of a float32 among all float32 numbers; -0 and 0 have one place."""
    bits: int = struct.unpack("<i", struct.pack("<f", value))[0]
    return bits if bits >= 0 else -(bits + 2**31)


def _float32_at(order: Array) -> Array:
    magnitude = torch.from_numpy(np.abs(order).astype(np.int32)).view(torch.float32).numpy()
    return np.where(order < 0, -magnitude, magnitude).astype(np.float32)
