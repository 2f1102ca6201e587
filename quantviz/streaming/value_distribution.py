"""The distribution of a tensor's values: spread of magnitudes, and histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.pickling import Picklable
from quantviz.streaming.threads import runs_between, shared_out
from quantviz.tensors.lazy import Stored

Array = npt.NDArray[Any]


# ---- spread --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MagnitudeSpread:
    """Of a tensor's finite magnitudes."""

    #: The median of those but 0; 0 if all are 0.
    middle: float
    #: The 99th percentile of all.
    far: float


#: Bits of a float32 to sort by: 11 after its exponent make a percentile exact to three digits.
_SORTED_BITS = 19
#: At once.
_SORTED = 2**20
#: Up to here they are sorted by themselves: so many counts would take longer.
_FEW = 2**16


def spread(x: Stored) -> MagnitudeSpread:
    """Return the median and the 99th percentile of magnitudes, each exact to a part in 4000 at least.

    >>> import torch
    >>> from quantviz.tensors.lazy import InMemory
    >>> found = spread(InMemory(torch.cat([torch.full((98,), 0.5), torch.zeros(2), torch.tensor([1000.0])])))
    >>> round(found.middle, 3), round(found.far, 3)
    (0.5, 0.5)
    """
    if x.count <= _FEW:
        return _spread_of_few(np.abs(np.asarray(x.run(0, x.count), dtype=np.float32)))
    unsorted = 31 - _SORTED_BITS
    counts = np.zeros(1 << _SORTED_BITS, dtype=np.int64)
    zeros = 0
    for start in range(0, x.count, _SORTED):
        values = np.ascontiguousarray(x.run(start, min(start + _SORTED, x.count)))
        bits = values.view(np.uint32) & np.uint32(0x7FFFFFFF)
        finite = bits[bits < 0x7F800000]
        zeros += int(np.count_nonzero(finite == 0))
        counts += np.bincount(finite >> np.uint32(unsorted), minlength=len(counts))
    # Rather 0 itself than the least of the tiny numbers beside it.
    counts[0] -= zeros

    def value(share: float, before: int) -> float:
        wanted = share * (int(counts.sum()) + before) - before
        if wanted <= 0:
            return 0.0
        place = int(np.searchsorted(np.cumsum(counts), wanted))
        # The middle of its numbers.
        return float(np.uint32((place << unsorted) + (1 << (unsorted - 1))).view(np.float32))

    return MagnitudeSpread(value(0.5, 0), value(0.99, zeros))


def _spread_of_few(magnitudes: npt.NDArray[np.float32]) -> MagnitudeSpread:
    finite = np.sort(magnitudes[np.isfinite(magnitudes)])
    others = finite[finite > 0]

    def value(share: float, among: npt.NDArray[np.float32]) -> float:
        return float(among[math.ceil(share * len(among)) - 1]) if len(among) else 0.0

    return MagnitudeSpread(value(0.5, others), value(0.99, finite))


# ---- histogram -----------------------------------------------------------------------------------

#: For display, and for computation: a multiple.
BARS = 96
FINE_BARS = 3072
#: The intermediate results stay in a core's cache.
_ELEMENTS_PER_CHUNK = 2**17


@dataclass(frozen=True, eq=False)
class ValueHistogram(Picklable):
    """Counts of values in bars of equal width."""

    #: Ascending, float64, one more than bars.
    edges: Array
    #: float64.
    counts: Array

    def joined(self, bars: int) -> ValueHistogram:
        """Return fewer bars, each joined from equally many.

        >>> fine = ValueHistogram(np.linspace(0, 1, 5), np.array([1.0, 2.0, 3.0, 4.0]))
        >>> fine.joined(2).edges.tolist(), fine.joined(2).counts.tolist()
        ([0.0, 0.5, 1.0], [3.0, 7.0])
        """
        each = len(self.counts) // bars
        return ValueHistogram(
            self.edges[::each], np.add.reduceat(self.counts, np.arange(0, len(self.counts), each))
        )


def histogram_of(x: Stored, lo: float, hi: float, bars: int = BARS) -> ValueHistogram | None:
    """Return the histogram of finite values from `lo` to `hi`, from one pass; None if all are equal.

    >>> import torch
    >>> from quantviz.tensors.lazy import InMemory
    >>> found = histogram_of(InMemory(torch.tensor([0.0, 1.0, 96.0, torch.nan])), 0.0, 96.0)
    >>> found.counts[:3].tolist(), float(found.counts.sum()), found.edges[:3].tolist()
    ([1.0, 1.0, 0.0], 3.0, [0.0, 1.0, 2.0])
    """
    if not lo < hi:
        return None
    tables: list[Array] = []

    def work(runs: Iterator[tuple[int, int]]) -> None:
        counts = np.zeros(bars, dtype=np.int64)
        tables.append(counts)
        for start, stop in runs:
            values = np.asarray(x.run(start, stop))
            shares = (values[np.isfinite(values)].astype(np.float64) - lo) * (bars / (hi - lo))
            # The largest may come out a last bit beyond the last bar.
            counts += np.bincount(np.minimum(shares.astype(np.int32), bars - 1), minlength=bars)

    shared_out(work, runs_between(x.count, _ELEMENTS_PER_CHUNK))
    return ValueHistogram(np.linspace(lo, hi, bars + 1), np.sum(tables, axis=0).astype(np.float64))
