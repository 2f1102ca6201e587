"""Lends memory to groups of tensors, which give it back in the order in which they took it."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np
import numpy.typing as npt


class HeldMemory:
    """A ring of float32 values. A thread that takes some waits until there is room.

    The system gives the memory once, and its pages are used again and again. Safe for many threads.

    >>> memory = HeldMemory(10)
    >>> first, second = memory.take(6), memory.take(4)
    >>> memory.give_back()  # the first
    >>> len(memory.take(5))
    5
    """

    def __init__(self, size: int) -> None:
        self._values = np.empty(size, np.float32)
        #: Begin and end of each part that is taken, the oldest first.
        self._taken: deque[tuple[int, int]] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def take(self, count: int) -> npt.NDArray[np.float32] | None:
        """Return room for `count` values, at most as many as there are in all; none once it is closed."""
        # An empty part takes one value: parts are identified by where they begin.
        size = max(count, 1)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._free(size) is not None)
            start = self._free(size)
            if self._closed or start is None:
                return None
            self._taken.append((start, start + size))
            return self._values[start : start + count]

    def give_back(self) -> None:
        """Give back the values that were taken first."""
        with self._changed:
            self._taken.popleft()
            self._changed.notify_all()

    def close(self) -> None:
        """End all waits for room."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _free(self, size: int) -> int | None:
        """Return the place of free room; None where there is none."""
        if not self._taken:
            return 0
        oldest = self._taken[0][0]
        end = self._taken[-1][1]
        if end <= oldest:  # they go round the end
            return end if end + size <= oldest else None
        if end + size <= len(self._values):
            return end
        return 0 if size <= oldest else None
