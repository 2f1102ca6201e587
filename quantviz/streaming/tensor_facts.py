"""Facts of a whole tensor under any scheme: ends, places, counts, and sums of powers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.evaluation.moments import Moments, number_of
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.streaming import limits
from quantviz.streaming.kernel_access import fixed_ready, has_kernels
from quantviz.streaming.regions import place_of, run_of
from quantviz.streaming.threads import runs_between, shared_out, shares_of
from quantviz.tensors.conversion import NonFinite
from quantviz.tensors.lazy import Stored, Values

Array = npt.NDArray[Any]
#: One kernel decodes and surveys these in the same loop.
DECODED = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, eq=False)
class Facts(Picklable):
    #: Of the finite values; 0 if there are none.
    lo: float
    hi: float
    #: The first finite value of largest magnitude.
    largest: Shape
    #: None if all values are finite.
    found: NonFinite | None
    #: Finite values below 0.
    negative: int

    @property
    def nonfinite(self) -> int:
        return self.found.count if self.found else 0

    @property
    def absmax(self) -> float:
        return max(abs(self.lo), abs(self.hi))


def facts(x: Stored) -> Facts:
    """Return the facts of a tensor, from one pass.

    >>> import torch
    >>> from quantviz.tensors.lazy import InMemory
    >>> found = facts(InMemory(torch.tensor([[1.0, -3.0], [torch.nan, 3.0]])))
    >>> found.lo, found.hi, found.largest, found.nonfinite, found.found.first, found.negative
    (-3.0, 3.0, (0, 1), 1, (1, 0), 1)
    """
    # Skip the import for small tensors: it takes as long as many runs.
    if x.count <= limits.SMALL or not fixed_ready():
        return _facts_of_runs(x)
    from quantviz.compiled import run_kernels

    states: list[Array] = []

    def work(runs: Iterator[tuple[int, int]]) -> None:
        state = run_kernels.new_look()
        states.append(state)
        for start, stop in runs:
            run_kernels.look(run_of(x, start, stop), start, state)

    shared_out(work, shares_of(x.count, limits.PIECE, in_place=x.in_place))
    return facts_of_looks(states, x.shape, lambda at: float(x.run(at, at + 1)[0]))


def facts_of_looks(states: list[Array], shape: Shape, value_at: Callable[[int], float]) -> Facts:
    """Return the facts in the states of `look`; `value_at` reads a value by its flat index."""
    from quantviz.compiled import run_kernels

    best = max(states, key=lambda state: (state[run_kernels.SIZE], -state[run_kernels.SIZE_AT]))
    lo, hi = (
        (0.0, 0.0)
        if best[run_kernels.SIZE] < 0
        else (
            _of_key(min(state[run_kernels.LOW] for state in states)),
            _of_key(max(state[run_kernels.HIGH] for state in states)),
        )
    )
    nan, inf, minus_inf, negative = (
        int(sum(state[at] for state in states))
        for at in (run_kernels.NAN, run_kernels.INF, run_kernels.MINUS_INF, run_kernels.NEGATIVE)
    )
    first = min(
        (int(state[run_kernels.FIRST_BAD]) for state in states if state[run_kernels.FIRST_BAD] >= 0),
        default=-1,
    )
    nonfinite = (
        NonFinite(nan, inf, minus_inf, place_of(first, shape), value_at(first)) if first >= 0 else None
    )
    return Facts(lo, hi, place_of(int(best[run_kernels.SIZE_AT]), shape), nonfinite, negative)


def _of_key(key: int) -> float:
    from quantviz.compiled.run_kernels import numbers_of

    return float(numbers_of(np.array([key]))[0])


def _facts_of_runs(x: Stored) -> Facts:
    lo = math.inf
    hi = -math.inf
    best = -1.0
    largest = 0
    negative = 0
    nan = inf = minus_inf = 0
    first = -1
    value = 0.0
    for start, stop in runs_between(x.count, limits.PIECE):
        run = x.run(start, stop)
        ends = float(run.min()), float(run.max())
        if not all(map(math.isfinite, ends)):
            finite = np.isfinite(run)
            if first < 0:
                first = start + int(np.argmin(finite))
                value = float(run[first - start])
            nan += int(np.isnan(run).sum())
            inf += int((run == np.inf).sum())
            minus_inf += int((run == -np.inf).sum())
            if not finite.any():
                continue
            ends = float(run[finite].min()), float(run[finite].max())
            run = np.where(finite, run, np.float32(np.nan))
        lo = min(lo, ends[0])
        hi = max(hi, ends[1])
        negative += int(np.count_nonzero(run < 0))
        top = max(-ends[0], ends[1])
        if top > best:
            best = top
            largest = start + int(np.argmax(np.abs(run) == top))
    if best < 0:
        lo = hi = 0.0
    nonfinite = NonFinite(nan, inf, minus_inf, place_of(first, x.shape), value) if first >= 0 else None
    return Facts(lo, hi, place_of(largest, x.shape), nonfinite, negative)


# ---- sums of powers ------------------------------------------------------------------------------


def power_sums(x: Stored, *, threads: int | None = None) -> Moments:
    """Return the sums of powers of finite values: the same bits for any number of threads.

    >>> import torch
    >>> from quantviz.tensors.lazy import InMemory
    >>> float(power_sums(InMemory(torch.tensor([1.0, -2.0, 3.0]))).x3)
    20.0
    """
    pieces = list(runs_between(x.count, limits.PIECE))
    sums = np.zeros((len(pieces), 4))

    def work(numbers: Iterator[int]) -> None:
        for k in numbers:
            _add_powers(run_of(x, *pieces[k]), sums[k])

    shared_out(work, range(len(pieces)), threads)
    whole = np.zeros(4)
    for of_piece in sums:
        whole += of_piece
    return moments_of_powers(whole)


def moments_of_powers(sums: Array) -> Moments:
    one, two, three, four = (number_of(float(total)) for total in sums)
    return Moments(x=one, x2=two, x3=three, x4=four)


def _add_powers(values: Values, sums: Array) -> None:
    if has_kernels():
        from quantviz.compiled.run_kernels import add_powers

        add_powers(values, sums)
        return
    for start, stop in runs_between(len(values), limits.CHUNK):
        wide = values[start:stop].astype(np.float64)
        square = wide * wide
        sums += (wide.sum(), square.sum(), (square * wide).sum(), (square * square).sum())


# ---- both, while a tensor is read ----------------------------------------------------------------


class OnePassFacts:
    """Facts and sums of powers of values that arrive one run after the other.

    >>> found = OnePassFacts()
    >>> part = torch.tensor([1.0, -2.0, 3.0]).bfloat16().view(torch.uint8).numpy()
    >>> values = np.empty(3, np.float32)
    >>> found.take(part, torch.bfloat16, values, 0)
    >>> values.tolist(), found.facts((3,)).lo, float(found.powers().x3)
    ([1.0, -2.0, 3.0], -2.0, 20.0)
    """

    def __init__(self) -> None:
        from quantviz.compiled import run_kernels

        self._looked: Array = run_kernels.new_look()
        self._sums = np.zeros(4)
        self._first: float | None = None

    def take(self, part: Array, dtype: torch.dtype | None, values: Array, start: int) -> None:
        """Take a run from flat index `start`: `values`, or decoded into them from `part` if `DECODED`."""
        from quantviz.compiled import decoding, run_kernels

        kinds: dict[torch.dtype | None, int] = dict(
            zip(DECODED, (decoding.BRAIN, decoding.HALF), strict=True)
        )
        stored = kinds.get(dtype, decoding.SINGLE)
        words = part.view(np.uint16) if stored else np.empty(0, np.uint16)
        state = self._looked
        decoding.take(words, stored, values.view(np.uint32), values, start, state, self._sums)
        if self._first is None and state[run_kernels.FIRST_BAD] >= 0:
            self._first = float(values[state[run_kernels.FIRST_BAD] - start])

    def facts(self, shape: Shape) -> Facts:
        return facts_of_looks([self._looked], shape, lambda at: self._first or 0.0)

    def powers(self) -> Moments:
        """Return the sums of powers, valid only if all values are finite."""
        return moments_of_powers(self._sums)
