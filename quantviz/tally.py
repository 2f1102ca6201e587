"""What the metrics of a tensor are made of, added up over its parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.granularity import Shape
from quantviz.measures import METRICS, steps_of_error
from quantviz.quantizer import QuantResult

Array = npt.NDArray[Any]

#: Places in `sums`, float64: of x², x_hat², x · x_hat, error, and of error² and the same in steps, of cells that were not clipped and of those that were.
SIGNAL, VALUES, PRODUCT, BIAS, NOISE, CLIPPED_NOISE, STEPS, CLIPPED_STEPS = range(8)
#: Places in `counts`, int64: cells, those clipped, x that are 0, other x of which the value is 0; bits of the largest error and where it is;
#: the first and last of the codes that are known to have occurred one next to the other; and cells that were left out.
CELLS, CLIPPED, ZEROS, ZEROED, LARGEST, LARGEST_AT, FIRST_SEEN, LAST_SEEN, LEFT_OUT = range(9)
#: Bits of the smallest float32 that is no finite number.
INFINITE = 0x7F800000


class Tally:
    """Sums and counts. Those of several threads are added together.

    >>> tally = Tally(-8, 16, ())
    >>> tally.metrics(4.0)["levels_used"]
    0.0
    """

    def __init__(self, code_min: int, levels: int, shape: Shape) -> None:
        self.code_min = code_min
        self.sums = np.zeros(8)
        self.counts = np.zeros(9, np.int64)
        self.counts[LARGEST] = self.counts[LARGEST_AT] = self.counts[LAST_SEEN] = -1
        #: Which codes have occurred.
        self.seen = np.zeros(levels, np.bool_)
        #: Of x² and error² for each index of each axis, one axis after the other; empty where not asked for.
        self.shape = np.array(shape, np.int64)
        self.signal, self.noise = np.zeros(sum(shape)), np.zeros(sum(shape))

    def add(self, r: QuantResult, start: int) -> None:
        """Adds a run of cells, one axis, that begins at `start`."""
        errors, counted = r.error.abs(), r.counted
        sizes = (errors if counted is None else errors.masked_fill(~counted, -1.0)).contiguous()
        # As the bits of a number, NaN is larger than all.
        bits = sizes.view(torch.int32).masked_fill(sizes < 0, -1)
        bad = bits >= INFINITE
        at = int((bad if bool(bad.any()) else bits).to(torch.int64).argmax())
        self._larger(int(bits[at]), start + at)
        self._add_by_axis(r, start)
        if counted is not None:
            self.counts[LEFT_OUT] += int((~counted).sum())
        x, x_hat, error, clipped, q, steps = (part if counted is None else part[counted] for part in (r.x, r.x_hat, r.error, r.clipped, r.q, steps_of_error(r)))
        wide, wide_hat, wide_error = x.to(torch.float64), x_hat.to(torch.float64), error.to(torch.float64)
        apart = (wide_error[~clipped], wide_error[clipped], steps[~clipped], steps[clipped])
        terms = (wide.square(), wide_hat.square(), wide * wide_hat, wide_error, *(part.square() for part in apart))
        self.sums += [float(each.sum()) for each in terms]
        zero = x == 0
        self.counts[:LARGEST] += [x.numel(), *(int(each.sum()) for each in (clipped, zero, (x_hat == 0) & ~zero))]
        self.seen[torch.unique(q).to(torch.int64).numpy() - self.code_min] = True

    def join(self, others: Iterable[Tally]) -> Tally:
        """With those of other threads added."""
        for other in others:
            self.sums += other.sums
            self.counts[:LARGEST] += other.counts[:LARGEST]
            self.counts[LEFT_OUT] += other.counts[LEFT_OUT]
            self._larger(int(other.counts[LARGEST]), int(other.counts[LARGEST_AT]))
            self.seen |= other.seen
            self.signal += other.signal
            self.noise += other.noise
        return self

    @property
    def finite(self) -> bool:
        """Whether all errors are finite numbers."""
        return bool(self.counts[LARGEST] < INFINITE)

    @property
    def largest_at(self) -> int:
        """Where the first error of largest size is, or the first that is no finite number; 0 where no cell counts."""
        return max(int(self.counts[LARGEST_AT]), 0)

    @property
    def left_out(self) -> int:
        """How many cells were left out."""
        return int(self.counts[LEFT_OUT])

    def metrics(self, effective_bits: float) -> dict[str, float]:
        """Every one of `METRICS`, by name."""
        signal, values, product, bias, noise, clipped_noise, steps, clipped_steps = map(float, self.sums)
        cells, clipped, zeros, zeroed, largest = map(int, self.counts[: LARGEST + 1])
        lengths = math.sqrt(signal) * math.sqrt(values)
        rounding, clipping, noise = _over(noise, cells), _over(clipped_noise, cells), noise + clipped_noise
        found = {
            "mse": rounding + clipping,
            "rmse": math.sqrt(rounding + clipping),
            "rmse_steps": math.sqrt(_over(steps + clipped_steps, cells)),
            "unclipped_rmse_steps": math.sqrt(_over(steps, cells - clipped)) if cells > clipped or not cells else 0.0,
            "max_abs_error": float(torch.tensor(largest, dtype=torch.int32).view(torch.float32)) if cells else math.nan,
            "mean_error": _over(bias, cells),
            "l2_norm_error": math.sqrt(noise),
            "sqnr_db": math.nan if not cells else math.inf if noise == 0 else 10 * math.log10(signal / noise) if signal else -math.inf,
            "cosine": product / lengths if lengths else math.nan,
            "clipped_share": _over(clipped, cells),
            "zeroed_share": zeroed / (cells - zeros) if cells > zeros else 0.0,
            "nonzero_share": _over(cells - zeros, cells),
            "levels_used": float(self.seen.sum()),
            "rounding_mse": rounding,
            "clipping_mse": clipping,
            "effective_bits": effective_bits,
        }
        return {name: found[name] for name in METRICS}

    def _larger(self, bits: int, at: int) -> None:
        """Keeps the largest error, the first of its size; of errors that are no finite numbers the first."""
        own, own_at = int(self.counts[LARGEST]), int(self.counts[LARGEST_AT])
        beyond, own_beyond = bits >= INFINITE, own >= INFINITE
        if (beyond, 0 if beyond else bits, -at) > (own_beyond, 0 if own_beyond else own, -own_at):
            self.counts[LARGEST], self.counts[LARGEST_AT] = bits, at

    def _add_by_axis(self, r: QuantResult, start: int) -> None:
        rest, end = np.arange(start, start + r.x.numel()), len(self.signal)
        signal, noise = (part.to(torch.float64).square().nan_to_num(0.0, 0.0, 0.0).numpy() for part in (r.x, r.error))
        for n in map(int, self.shape[::-1]):
            at = end - n + rest % n
            np.add.at(self.signal, at, signal)
            np.add.at(self.noise, at, noise)
            rest, end = rest // n, end - n


def _over(total: float, count: int) -> float:
    return total / count if count else math.nan
