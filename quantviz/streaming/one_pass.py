"""Finds the facts and powers of a tensor while it is read: one kernel decodes each piece and looks at it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.evaluation.moments import Moments
from quantviz.schemes.granularity import Shape
from quantviz.streaming.powers import moments_of_powers
from quantviz.streaming.tensor_facts import Facts, facts_of_looks

Array = npt.NDArray[Any]
#: The dtypes that one kernel decodes and surveys in the same loop.
DECODED = (torch.bfloat16, torch.float16)


class OnePassFacts:
    """The facts and the sums of powers of a tensor whose values arrive one run after the other.

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
        """Decode a run of values, and add them to the facts and sums.

        Args:
            part: The bytes that they are decoded from, if `dtype` is one of `DECODED`.
            dtype: The stored dtype; with any other, `values` contains the values already.
            values: The array that receives the values, float32.
            start: The flat index of the first one.
        """
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
        """Return the facts of all values so far."""
        return facts_of_looks([self._looked], shape, lambda at: self._first or 0.0)

    def powers(self) -> Moments:
        """Return the sums of powers of all values so far, which are valid only if all are finite."""
        return moments_of_powers(self._sums)
