"""What long work may take: it is looked at between its parts, and ends with a sentence where it is spent.

    with spending(Spending(20.0)):
        ranges(x, scheme)

Without a budget, as in a script, work takes as long as it takes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from quantviz.errors import QuantVizError

#: Seconds of work from which what is done of it tells how long all of it takes.
_TELLING = 0.5


class Ended(BaseException):
    """The end of work whose budget is spent, with the sentence for it.

    It is no `QuantVizError`: those that are caught on the way say of a scheme that it does not fit.
    """

    def __init__(self, key: str, **params: object) -> None:
        super().__init__(key)
        self.problem = QuantVizError(key, **params)

    def __str__(self) -> str:
        return str(self.problem)


class Spending:
    """The seconds that one piece of work may take.

    >>> now = iter([0.0, 1.0, 3.0])
    >>> spent = Spending(2.0, clock=lambda: next(now))
    >>> spent.check()
    >>> spent.check()
    Traceback (most recent call last):
    ...
    quantviz.budget.Ended: This takes too long for a page: more than 2 s. Take larger groups, a
    smaller part of the tensor, or a range without a search, such as min_max; a script has no such limit.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self._begun, self._dropped = clock(), threading.Event()

    @property
    def now(self) -> float:
        """Return the time, in seconds."""
        return self._clock()

    def drop(self) -> None:
        """Have the work end at its next look: nobody waits for it any more."""
        self._dropped.set()

    def check(self, share: float = 0.0, since: float = 0.0) -> None:
        """Raise `Ended` where the budget is spent, or will be, or the work was dropped.

        Args:
            share: How much of a part of the work is done, 0 to 1; 0 where that is not known.
            since: When that part began.
        """
        if self._dropped.is_set():
            raise Ended("work.dropped")
        now = self.now
        if now - self._begun > self.seconds:
            raise Ended("work.too_long", seconds=f"{self.seconds:.3g}")
        expected = since - self._begun + (now - since) / share if share else 0.0
        if now - since > _TELLING and expected > self.seconds:
            raise Ended("work.too_long", seconds=f"{expected:.2g}")


_SPENDING: ContextVar[Spending | None] = ContextVar("spending", default=None)


@contextlib.contextmanager
def spending(budget: Spending) -> Iterator[None]:
    """Have what follows spend a budget while the `with` block lasts."""
    before = _SPENDING.set(budget)
    try:
        yield
    finally:
        _SPENDING.reset(before)


def too_long(end: Ended) -> QuantVizError:
    """Return the sentence of one part of the work that takes too long: what else is asked for is still done.

    Raises:
        Ended: The work ends for another reason, and the other parts with it.
    """
    if end.problem.key != "work.too_long":
        raise end
    return end.problem


class Progress:
    """How far a part of the work is, told step by step."""

    def __init__(self, count: int) -> None:
        self._budget, self._count, self._done = _SPENDING.get(), count, 0
        self._since = self._budget.now if self._budget else 0.0

    def step(self) -> None:
        """Note that a step begins; raise `Ended` where the budget is spent or will be."""
        if self._budget:
            self._budget.check(self._done / self._count, self._since)
            self._done += 1
