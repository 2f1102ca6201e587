"""The sums and counts behind the metrics of a tensor, added up over its parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.evaluation.moments import Moments, number_of
from quantviz.quantization.result import QuantResult, steps_of_error
from quantviz.schemes.granularity import Shape
from quantviz.tensors.blocks import viewed

Array = npt.NDArray[Any]

#: Places in `sums`, float64: of x², x_hat², x · x_hat, error, and of error² and the same in steps, of cells
#: that were not clipped and of those that were.
SIGNAL, VALUES, PRODUCT, BIAS, NOISE, CLIPPED_NOISE, STEPS, CLIPPED_STEPS = range(8)
SUMS = 8
#: Places in `counts`, int64: cells, those clipped, x that are 0, other x of which the value is 0; bits of the
#: largest error and where it is; the first and last of the codes that are known to have occurred one next to
#: the other; and cells that were left out.
CELLS, CLIPPED, ZEROS, ZEROED, LARGEST, LARGEST_AT, FIRST_SEEN, LAST_SEEN, LEFT_OUT = range(9)
#: Codes that are next to each other are counted in several lists: one would wait for the other. The lowest
#: bytes of codes.
LISTS = 4
BYTES = 256
#: Bits of the smallest float32 that is no finite number.
INFINITE = 0x7F800000


class Tally:
    """Sums and counts. Those of several threads are added together.

    >>> Tally(-8, 16, ()).moments().cells.item()
    0.0
    """

    def __init__(self, code_min: int, levels: int, shape: Shape, *, room: int = 0) -> None:
        self.code_min = code_min
        #: How often the codes of each lowest byte have occurred, in `LISTS` lists that are added together,
        #: and room for the codes of some cells on their way; empty if codes are not counted.
        self.occurred = np.zeros(LISTS * BYTES if room else 0, np.int64)
        self.codes = np.empty(room, np.uint8)
        self.sums = np.zeros(SUMS)
        self.counts = np.zeros(9, np.int64)
        self.counts[LARGEST] = self.counts[LARGEST_AT] = self.counts[LAST_SEEN] = -1
        #: Which codes have occurred.
        self.seen = np.zeros(levels, np.bool_)
        #: Of x² and error² for each index of each axis, one axis after the other; empty if not wanted.
        self.shape = np.array(shape, np.int64)
        self.signal = np.zeros(sum(shape))
        self.noise = np.zeros(sum(shape))

    def add(self, r: QuantResult, start: int) -> None:
        """Add a run of cells, one axis, that begins at `start`."""
        counted = r.counted
        # As the bits of a number, NaN is larger than all.
        bits = r.error.abs().contiguous().view(torch.int32).numpy()
        bits = bits if counted is None else np.where(counted.numpy(), bits, -1)
        finite = int(bits.max()) < INFINITE
        at = int((bits if finite else bits >= INFINITE).argmax())
        self._larger(int(bits[at]), start + at)
        self._add_by_axis(r, start, finite=finite and counted is None)
        if counted is not None:
            self.counts[LEFT_OUT] += int((~counted).sum())
        x, x_hat, error, clipped, q, steps = (
            (part if counted is None else part[counted]).numpy()
            for part in (r.x, r.x_hat, r.error, r.clipped, r.q, steps_of_error(r))
        )
        wide, wide_hat, wide_error = (part.astype(np.float64) for part in (x, x_hat, error))
        lost, lost_steps = (part[clipped] if clipped.any() else part[:0] for part in (wide_error, steps))
        kept, kept_steps = (
            (np.where(clipped, 0.0, part) for part in (wide_error, steps))
            if len(lost)
            else (wide_error, steps)
        )
        # einsum is on one thread, so that it adds up in one order.
        self.sums += [
            float(np.einsum("i,i" if len(parts) == 2 else "i->", *parts))
            for parts in (
                (wide, wide),
                (wide_hat, wide_hat),
                (wide, wide_hat),
                (wide_error,),
                (kept, kept),
                (lost, lost),
                (kept_steps, kept_steps),
                (lost_steps, lost_steps),
            )
        ]
        zero = x == 0
        self.counts[:LARGEST] += [
            x.size,
            len(lost),
            *(int(np.count_nonzero(each)) for each in (zero, (x_hat == 0) & ~zero)),
        ]
        # Most runs have no new code, which their ends show sooner than their cells.
        ends = slice(int(q.min()) - self.code_min, int(q.max()) - self.code_min + 1) if len(q) else slice(0)
        if not self.seen[ends].all():
            self.seen[q.astype(np.int64) - self.code_min] = True

    def with_sums(self, sums: Array, signal: Array, noise: Array) -> Tally:
        # Counts and codes seen are its own.
        other = copy(self)
        other.sums = sums
        other.signal = signal
        other.noise = noise
        return other

    def join(self, others: Iterable[Tally]) -> Tally:
        """Add the tallies of other threads to this one, and return it."""
        for other in others:
            self.sums += other.sums
            self.counts[:LARGEST] += other.counts[:LARGEST]
            self.counts[LEFT_OUT] += other.counts[LEFT_OUT]
            self._larger(int(other.counts[LARGEST]), int(other.counts[LARGEST_AT]))
            self.seen |= other.seen
            self.occurred += other.occurred
            self.signal += other.signal
            self.noise += other.noise
        return self

    @property
    def finite(self) -> bool:
        """Whether all errors are finite numbers."""
        return bool(self.counts[LARGEST] < INFINITE)

    @property
    def largest_at(self) -> int:
        """Return where the first error of largest size is, or the first that is no finite number; 0 where no
        cell counts.
        """
        return max(int(self.counts[LARGEST_AT]), 0)

    @property
    def left_out(self) -> int:
        return int(self.counts[LEFT_OUT])

    def moments(self) -> Moments:
        signal, values, product, bias, noise, clipped_noise, steps, clipped_steps = torch.from_numpy(
            self.sums.copy()
        ).unbind()
        cells, clipped, zeros, zeroed = torch.from_numpy(self.counts[:LARGEST].astype(np.float64)).unbind()
        largest = int(self.counts[LARGEST])
        counts = self.code_counts()
        return Moments(
            cells=cells,
            clipped=clipped,
            zeros=zeros,
            zeroed=zeroed,
            x2=signal,
            x_hat2=values,
            x_x_hat=product,
            e=bias,
            e2=noise + clipped_noise,
            kept_e2=noise,
            clipped_e2=clipped_noise,
            kept_steps2=steps,
            clipped_steps2=clipped_steps,
            max_error=torch.tensor(largest, dtype=torch.int32).view(torch.float32).to(torch.float64)
            if self.counts[CELLS]
            else number_of(-math.inf),
            codes_seen=torch.from_numpy(self.seen if counts is None else counts > 0).to(torch.float64),
            code_counts=None if counts is None else torch.from_numpy(counts).to(torch.float64),
        )

    @property
    def marks(self) -> tuple[Array, Array, Array]:
        """Return the arrays that mark and count the codes that occur, as kernels take them."""
        return self.seen, self.occurred, self.codes

    def code_counts(self) -> Array | None:
        """Return the count of each code, int64 (levels,); None if codes are not counted."""
        if not len(self.occurred):
            return None
        of_bytes = self.occurred[:BYTES].copy()
        for first in range(BYTES, LISTS * BYTES, BYTES):
            of_bytes += self.occurred[first : first + BYTES]
        counts: Array = of_bytes[(self.code_min + np.arange(len(self.seen))) % BYTES]
        return counts

    def along_axes(self) -> tuple[Moments, ...]:
        """Return Σx² and Σe² of each index of each axis; empty if they were not wanted."""
        ends = np.cumsum((0, *self.shape))
        parts = itertools.pairwise(ends) if len(self.shape) else ()
        return tuple(
            Moments(x2=torch.from_numpy(self.signal[low:high]), e2=torch.from_numpy(self.noise[low:high]))
            for low, high in parts
        )

    def _larger(self, bits: int, at: int) -> None:
        """Keep the largest error, the first of its size; of errors that are no finite numbers the first."""
        own = int(self.counts[LARGEST])
        own_at = int(self.counts[LARGEST_AT])
        beyond = bits >= INFINITE
        own_beyond = own >= INFINITE
        if (beyond, 0 if beyond else bits, -at) > (own_beyond, 0 if own_beyond else own, -own_at):
            self.counts[LARGEST] = bits
            self.counts[LARGEST_AT] = at

    def _add_by_axis(self, r: QuantResult, start: int, *, finite: bool) -> None:
        """Add a run's squared values and errors to their lines, 0 for numbers that are not finite."""
        if not len(self.shape):
            return
        length = int(self.shape[-1])
        end = len(self.signal)
        # Part of a line, whole lines, part of a line.
        first = start // length
        count = r.x.numel()
        head = min(-start % length, count)
        middle = (count - head) // length
        for sums, part in ((self.signal, r.x), (self.noise, r.error)):
            squares = np.square(part.numpy(), dtype=np.float64)
            if not finite:
                np.nan_to_num(squares, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
            before, lines, after = np.split(squares, [head, head + middle * length])
            lines = viewed(torch.from_numpy(lines), (middle, length)).numpy()
            of_columns = sums[end - length :]
            of_lines = np.concatenate([[before.sum()], lines.sum(1), [after.sum()]])
            column = start % length
            of_columns[column : column + head] += before
            of_columns += lines.sum(0)
            of_columns[: len(after)] += after
            rest = first + np.arange(len(of_lines)) - (head == 0)
            place = end - length
            for n in map(int, self.shape[-2::-1]):
                place -= n
                # The last is beyond the tensor where no part of a line is left.
                sums[place : place + n] += np.bincount(rest % n, of_lines, n)
                rest = rest // n
