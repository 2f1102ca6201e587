"""The histogram of a tensor's values, which depends on no scheme."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.pickling import Picklable
from quantviz.streaming.threads import runs_between, shared_out
from quantviz.tensors.lazy import Stored

Array = npt.NDArray[Any]

#: Bars of a histogram for display, and of one for computation: a multiple.
BARS = 96
FINE_BARS = 3072
#: Elements counted at a time: the intermediate results stay in a core's cache.
_AT_ONCE = 2**17


@dataclass(frozen=True, eq=False)
class ValueHistogram(Picklable):
    """The counts of values in bars of equal width."""

    #: Ascending, float64, one more than bars.
    edges: Array
    #: float64.
    counts: Array

    def joined(self, bars: int) -> ValueHistogram:
        """Return the histogram with fewer bars, each joined from equally many.

        >>> fine = ValueHistogram(np.linspace(0, 1, 5), np.array([1.0, 2.0, 3.0, 4.0]))
        >>> fine.joined(2).edges.tolist(), fine.joined(2).counts.tolist()
        ([0.0, 0.5, 1.0], [3.0, 7.0])
        """
        each = len(self.counts) // bars
        return ValueHistogram(
            self.edges[::each], np.add.reduceat(self.counts, np.arange(0, len(self.counts), each))
        )


def histogram_of(x: Stored, lo: float, hi: float, bars: int = BARS) -> ValueHistogram | None:
    """Return the histogram of a tensor whose finite values lie from `lo` to `hi`, from one pass over it; none
    if all values are equal.

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
        own = np.zeros(bars, dtype=np.int64)
        tables.append(own)
        for start, stop in runs:
            own += _counts(np.asarray(x.run(start, stop)), lo, hi, bars)

    shared_out(work, runs_between(x.count, _AT_ONCE))
    return ValueHistogram(np.linspace(lo, hi, bars + 1), np.sum(tables, axis=0).astype(np.float64))


def _counts(values: Array, lo: float, hi: float, bars: int) -> Array:
    shares = (values[np.isfinite(values)].astype(np.float64) - lo) * (bars / (hi - lo))
    # The largest may come out a last bit beyond the last bar.
    return np.bincount(np.minimum(shares.astype(np.int32), bars - 1), minlength=bars)
