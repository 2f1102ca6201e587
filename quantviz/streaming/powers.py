"""Σx … Σx⁴ of a tensor of any size, whatever the scheme."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from quantviz.evaluation.moments import Moments, number_of
from quantviz.streaming import limits
from quantviz.streaming.kernel_access import has_kernels
from quantviz.streaming.regions import run_of
from quantviz.streaming.threads import runs_between, shared_out
from quantviz.tensors.lazy import Stored, Values

Sums = npt.NDArray[np.float64]


def power_sums(x: Stored, *, threads: int | None = None) -> Moments:
    """Return the sums of powers of a tensor without NaN and Inf: the same bits for any number of threads.

    >>> import torch
    >>> from quantviz.tensors.lazy import InMemory
    >>> float(power_sums(InMemory(torch.tensor([1.0, -2.0, 3.0]))).x3)
    20.0
    """
    pieces = list(runs_between(x.count, limits.PIECE))
    sums = np.zeros((len(pieces), 4))

    def work(numbers: Iterator[int]) -> None:
        for k in numbers:
            _add(run_of(x, *pieces[k]), sums[k])

    shared_out(work, range(len(pieces)), threads)
    whole = np.zeros(4)
    for of_piece in sums:
        whole += of_piece
    return moments_of_powers(whole)


def moments_of_powers(sums: Sums) -> Moments:
    """Return Σx … Σx⁴ as moments."""
    one, two, three, four = (number_of(float(total)) for total in sums)
    return Moments(x=one, x2=two, x3=three, x4=four)


def _add(values: Values, sums: Sums) -> None:
    if has_kernels():
        from quantviz.compiled.run_kernels import add_powers

        add_powers(values, sums)
        return
    for start, stop in runs_between(len(values), limits.CHUNK):
        wide = values[start:stop].astype(np.float64)
        square = wide * wide
        sums += (wide.sum(), square.sum(), (square * wide).sum(), (square * square).sum())
