"""Ranges of activations that grow batch by batch, as the observers of engines keep them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from quantviz.errors import QuantVizError
from quantviz.public_calls import check_fields, checked_fields, public, public_class
from quantviz.quantization.entropy_ranges import least_window
from quantviz.quantization.histogram_ranges import BINS_TOGETHER, Quantiles, bin_at_share
from quantviz.quantization.qparams import params_to_try
from quantviz.schemes.calibration import FLOAT32_MAX, Range
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.blocks import viewed
from quantviz.tensors.conversion import as_plain

Array = npt.NDArray[Any]
Ends = tuple[float, float]

#: torch's `averaging_constant`, the weight of a new batch.
_NEW_BATCH = 0.01
#: Bins of a histogram: torch's, and onnxruntime's of its two calibrations.
_TORCH_BINS = 2048
_PERCENTILE_BINS = 2048
_ENTROPY_BINS = 128
#: onnxruntime's percentile, and the cells that its entropy merges bins into.
_PERCENTILE = 99.999
_ENTROPY_CELLS = 128
#: Bins whose windows are searched, at most: the time grows with their square.
_MOST_BINS = 4096
#: Parts that torch cuts a bin into before it moves it to a wider histogram.
_PARTS = 16
#: Ranges that are searched for at most, batches times orders: of thousands of bins one takes 25 ms.
_MOST_SEARCHES = 5_000
#: Orders of batches at most: each of them observes all batches again.
_MOST_ORDERS = 200


class Observer(ABC):
    #: Whether each range is searched for, which takes some milliseconds.
    searches: ClassVar[bool] = False

    def __init__(self, symmetric: bool) -> None:
        self.symmetric = symmetric

    @abstractmethod
    def add(self, x: torch.Tensor) -> None:
        """Observe a batch of finite float32 values, in one dimension."""

    @abstractmethod
    def ends(self) -> Ends:
        """Return the ends of the range of all batches so far."""


class MinMax(Observer):
    """The smallest and the largest value of all batches: torch's MinMaxObserver, onnxruntime's MinMax."""

    _ends = (math.inf, -math.inf)

    def add(self, x: torch.Tensor) -> None:
        self._ends = min(self._ends[0], float(x.min())), max(self._ends[1], float(x.max()))

    def ends(self) -> Ends:
        return self._ends


class MovingAverage(Observer):
    """torch's MovingAverageMinMaxObserver: a hundredth of the way from the range to that of each batch."""

    _ends: tuple[torch.Tensor, torch.Tensor] | None = None

    def add(self, x: torch.Tensor) -> None:
        of_batch = torch.aminmax(x)
        ends = self._ends or of_batch
        low, high = (end + _NEW_BATCH * (new - end) for end, new in zip(ends, of_batch, strict=True))
        self._ends = low, high

    def ends(self) -> Ends:
        assert self._ends is not None
        return float(self._ends[0]), float(self._ends[1])


class MeanOfBatches(Observer):
    """onnxruntime's MinMax with `moving_average`: the mean of the batches' ends."""

    def __init__(self, symmetric: bool) -> None:
        super().__init__(symmetric)
        self._batches: list[Ends] = []

    def add(self, x: torch.Tensor) -> None:
        self._batches.append((float(x.min()), float(x.max())))

    def ends(self) -> Ends:
        low, high = np.mean(np.array(self._batches, np.float32), axis=0)
        return float(low), float(high)


class Histogram(Observer):
    """onnxruntime's histogram from −max to max: the first batch sets the width of a bin, wider add bins."""

    bins = _ENTROPY_BINS
    most_bins = _MOST_BINS
    searches = True

    def __init__(self, symmetric: bool) -> None:
        super().__init__(symmetric)
        self._seen = MinMax(symmetric)
        self._counts: Array = np.zeros(self.bins, np.int64)
        self._edges: Array = np.zeros(self.bins + 1, np.float32)
        #: The end of the bins; of zeros alone it is 0, and the bins have a width all the same.
        self._largest: Any = np.float32(0)

    def add(self, x: torch.Tensor) -> None:
        self._seen.add(x)
        values = x.numpy()
        largest = self._largest
        of_batch = np.max(np.abs(values))
        more = 0
        if largest == 0:
            largest = of_batch
        elif of_batch > largest:
            width = 2 * largest / len(self._counts)
            more = self._more_bins(of_batch - largest, width)
            largest = more * width + largest
        before = self._counts
        # In float32, as the edges are.
        span: Any = (-largest, largest)
        counts, edges = self._counted(values, len(before) + 2 * more, span)
        counts[more : len(counts) - more] += before
        self._counts, self._edges, self._largest = counts, edges.astype(np.float32), largest

    def ends(self) -> Ends:
        low, high = self._in_histogram()
        least, most = self._seen.ends()
        return max(float(low), least), min(float(high), most)

    def _more_bins(self, beyond: Any, width: Any) -> int:
        """Return the bins that a side needs to reach so far beyond its last one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            more = beyond // width + 1
        if not len(self._counts) + 2 * more <= self.most_bins:
            raise QuantVizError("observers.bins", most=self.most_bins)
        return int(more)

    def _counted(self, values: Array, bins: Any, span: Any = None) -> tuple[Array, Array]:
        try:
            return np.histogram(values, bins, range=span)
        except ValueError:
            # float32 has no numbers between the edges of such narrow bins.
            raise QuantVizError("observers.bins", most=self.most_bins) from None

    def _in_histogram(self) -> tuple[Any, Any]:
        """Return onnxruntime's entropy: the window whose distribution changes least in 128 cells."""
        ((begin,), (end,)) = least_window(lambda: self._counts[None], len(self._counts), _ENTROPY_CELLS)
        return self._edges[begin], self._edges[end]


class Percentile(Histogram):
    """onnxruntime's Percentile: in that histogram; symmetric in one of |x|, which grows upwards."""

    bins = _PERCENTILE_BINS
    most_bins = BINS_TOGETHER
    searches = False
    _empty = True

    def add(self, x: torch.Tensor) -> None:
        if not self.symmetric:
            super().add(x)
            return
        self._seen.add(x)
        magnitudes = x.abs().numpy()
        if self._empty:
            self._empty = False
            self._counts, edges = self._counted(magnitudes, self.bins)
            self._edges = edges.astype(np.float32)
            return
        edges = self._edges
        largest = magnitudes.max()
        if largest > edges[-1]:
            width = edges[1] - edges[0]
            self._more_bins(largest - edges[-1], width)
            edges = np.hstack([edges, np.arange(edges[-1] + width, largest + width, width)])
        counts, edges = self._counted(magnitudes, edges)
        counts[: len(self._counts)] += self._counts
        self._counts, self._edges = counts, edges.astype(np.float32)

    def _in_histogram(self) -> tuple[Any, Any]:
        if self.symmetric:
            high = bin_at_share(self._counts[None], self._edges[None], _PERCENTILE / 100)[0]
            return -high, high
        cut = (100 - _PERCENTILE) / 200
        low, high = (
            bin_at_share(self._counts[None], self._edges[None], share)[0] for share in (cut, 1 - cut)
        )
        return low, high


class TorchHistogram(Observer):
    """torch's HistogramObserver: 2048 bins, moved to wider ones in sixteenths, and its search by
    quantiles.
    """

    searches = True
    _counts: torch.Tensor | None = None
    _low = _high = torch.tensor(0.0)

    def add(self, x: torch.Tensor) -> None:
        low, high = torch.aminmax(x)
        before = self._counts
        if before is not None:
            low, high = torch.minimum(low, self._low), torch.maximum(high, self._high)
        counts = torch.histc(x, _TORCH_BINS, min=float(low), max=float(high))
        if before is not None:
            counts = counts + self._moved(before, low, high)
        self._counts, self._low, self._high = counts, low, high

    def _moved(self, before: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        """Return a histogram of the range so far as one of a range around it."""
        if low == self._low and high == self._high:
            return before
        if self._low == self._high:
            return torch.histc(self._low, _TORCH_BINS, min=float(low), max=float(high)) * before.sum()
        parts = _TORCH_BINS * _PARTS
        middles = torch.linspace(float(self._low), float(self._high), parts + 1)[:-1]
        middles = middles + 0.5 * ((self._high - self._low) / parts)
        edges = torch.linspace(float(low), float(high), _TORCH_BINS + 1)
        at = (torch.bucketize(middles, edges, right=True) - 1).clamp(0, _TORCH_BINS - 1)
        return torch.bincount(at, before.repeat_interleave(_PARTS) / _PARTS, _TORCH_BINS)

    def ends(self) -> Ends:
        assert self._counts is not None
        low, high = (end.numpy()[None] for end in (self._low, self._high))
        (first,), (last,) = Quantiles(self._counts.numpy()[None], low, high, 256).search()
        width = (high - low) / np.float32(_TORCH_BINS)
        return float((low + width * np.float32(first))[0]), float((low + width * np.float32(last + 1))[0])


#: Observers by name, each as an engine has it.
OBSERVERS: dict[str, type[Observer]] = {
    "min_max": MinMax,
    "moving_average": MovingAverage,
    "mean": MeanOfBatches,
    "percentile": Percentile,
    "entropy": Histogram,
    "histogram": TorchHistogram,
}


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class BatchRanges:
    """The range of activations after each batch, and the scale that follows: float64 (batches,) each."""

    observer: str
    scheme: Scheme
    lo: torch.Tensor
    hi: torch.Tensor
    scale: torch.Tensor
    #: The smallest and the largest scale after as many batches, over `orders` orders of them.
    least_scale: torch.Tensor
    most_scale: torch.Tensor
    orders: int

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        return f"BatchRanges({self.observer}: {len(self.scale)} batches, scale {float(self.scale[-1]):.4g})"

    @property
    def settled(self) -> int:
        """Return the batches after which, in every order, the scale stays within 1 % of that of all."""
        last = self.scale[-1]
        near = (self.least_scale >= 0.99 * last) & (self.most_scale <= 1.01 * last)
        away = torch.nonzero(~near).flatten()
        return int(away[-1]) + 2 if len(away) else 1


@public
def ranges_over_batches(
    batches: Iterable[Any],
    observer: str = "min_max",
    scheme: Scheme | str = "int8,asymmetric,per_tensor,min_max,course",
    *,
    orders: int = 20,
    seed: int = 0,
) -> BatchRanges:
    """Return the range that an engine's observer has after each batch, and the scale that follows.

    Args:
        batches: Tensors of any shapes, one a batch.
        observer: One of `OBSERVERS`. Of torch: "min_max", "moving_average" (constant 0.01) and "histogram"
            (2048 bins). Of onnxruntime: "min_max", "mean" (its `moving_average`), "percentile" (99.999, 2048
            bins) and "entropy" (128 bins), whose histograms grow with the batches.
        scheme: A scheme with one scale, of an integer format.
        orders: The orders of the batches that the spread is taken over, the given one among them.
        seed: Draws the other orders.

    Returns:
        The ranges in the order given, and the spread of the scale over orders.

    Raises:
        QuantVizError: There is no such observer, a batch is empty or has NaN or Inf, the scheme has more than
            one scale, "entropy" or "histogram" would search for more than 5,000 ranges, or a histogram does
            not hold the batches: the first one is far narrower than another.

    >>> found = ranges_over_batches([torch.tensor([-1.0, 1.0]), torch.tensor([0.0, 3.0])], orders=2)
    >>> found.lo.tolist(), found.hi.tolist(), found.settled
    ([-1.0, -1.0], [1.0, 3.0], 2)
    """
    if observer not in OBSERVERS:
        raise QuantVizError("observers.unknown", got=observer, known=", ".join(OBSERVERS))
    if not 1 <= orders <= _MOST_ORDERS:
        raise QuantVizError("observers.orders", got=orders, most=_MOST_ORDERS)
    chosen = as_scheme(scheme)
    if chosen.granularity.id != "per_tensor" or chosen.number_format.kind != "integer":
        raise QuantVizError("observers.scheme", got=str(chosen))
    values = [_values_of(batch, number) for number, batch in enumerate(batches)]
    if not values:
        raise QuantVizError("observers.no_batches")
    searches = len(values) * orders
    if OBSERVERS[observer].searches and searches > _MOST_SEARCHES:
        most = max(1, _MOST_SEARCHES // len(values))
        raise QuantVizError(
            "observers.work", observer=observer, got=searches, most=_MOST_SEARCHES, orders=most
        )
    draw = torch.Generator().manual_seed(seed)
    permutations = [torch.randperm(len(values), generator=draw) for _ in range(orders - 1)]
    ends = torch.stack(
        [
            _observed(values, order.tolist(), OBSERVERS[observer], chosen.mode == "symmetric")
            for order in (torch.arange(len(values)), *permutations)
        ]
    )
    scales = _scales(ends, chosen)
    lo, hi = ends[0].double().unbind(-1)
    return BatchRanges(observer, chosen, lo, hi, scales[0], scales.amin(0), scales.amax(0), orders)


def _values_of(batch: Any, number: int) -> torch.Tensor:
    values = as_plain(batch).to(torch.float32).ravel()
    if not len(values) or not bool(torch.isfinite(values).all()):
        raise QuantVizError("observers.batch", number=number, count=len(values))
    return values


def _observed(
    values: list[torch.Tensor], order: list[int], observer: type[Observer], symmetric: bool
) -> torch.Tensor:
    """Return the ends after each batch in an order, float32 (batches, 2)."""
    observing = observer(symmetric)
    ends = []
    for number in order:
        observing.add(values[number])
        ends.append(observing.ends())
    if not all(math.isfinite(end) for pair in ends for end in pair):
        width = float(max(x.max() for x in values)) - float(min(x.min() for x in values))
        raise QuantVizError("range_beyond_float32", width=width, largest=FLOAT32_MAX)
    return torch.tensor(ends, dtype=torch.float32)


def _scales(ends: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """Return the scale of ranges (…, 2), float64 (…)."""
    lo, hi = (end.double().ravel() for end in ends.unbind(-1))
    # A percentile of one value can end below where it starts: onnxruntime's scale is of the range with 0.
    crossed = lo > hi
    lo, hi = lo.where(~crossed, lo.clamp(max=0)), hi.where(~crossed, hi.clamp(min=0))
    extreme = torch.where(hi.abs() >= lo.abs(), hi, lo)
    params, _ = params_to_try(Range(lo, hi, extreme), extreme.abs().amax(), scheme, scheme.layout((1, 1)))
    return viewed(params.scale.double(), ends.shape[:-1])
