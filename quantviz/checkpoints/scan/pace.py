"""Rate of a scan in bytes a second, to estimate the time left."""

from __future__ import annotations

from quantviz.streaming import limits


class Pace:
    """Counts bytes and seconds from the first tensor on that kernels have measured.

    Until then kernels are compiled, once for all tensors: a rate of that time would estimate hours for a scan
    that takes a minute.

    >>> pace = Pace()
    >>> pace.finished(4096, 1024, now=30.0)
    >>> pace.finished(10**6, 2**20, now=60.0)  # its kernels were compiled
    >>> pace.rate
    (0, 0.0)
    >>> pace.finished(10**6, 2**20, now=60.5)
    >>> pace.rate
    (1000000, 0.5)
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._bytes = 0
        self._seconds = 0.0

    @property
    def rate(self) -> tuple[int, float]:
        """Return bytes, and the seconds that they took; nothing before there is a rate."""
        return self._bytes, self._seconds

    def finished(self, size: int, elements: int, now: float) -> None:
        """Count a tensor of `size` bytes that is done `now`, in seconds of any clock."""
        if self._began is not None:
            self._bytes += size
            self._seconds = now - self._began
        elif elements > limits.FUSED:
            self._began = now
