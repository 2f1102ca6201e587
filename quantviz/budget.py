"""A time budget for long work, checked between its parts; work that exceeds it ends with an error message.

    with spending(Spending(20.0)):
        ranges(x, scheme)

Without a budget, as in a script, work has no time limit.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from quantviz.errors import QuantVizError

T = TypeVar("T")

#: Seconds of work after which the share that is done predicts how long all of it takes.
_TELLING = 0.5


class Ended(BaseException):
    """The end of work whose budget is spent, with its error message in `problem`.

    Not a `QuantVizError`: callers catch those on the way, where one means that a scheme does not fit.
    """

    def __init__(self, key: str, **params: object) -> None:
        super().__init__(key)
        self.problem = QuantVizError(key, **params)

    def __str__(self) -> str:
        return str(self.problem)


class TimeBudget:
    """The seconds that one piece of work may take.

    >>> now = iter([0.0, 1.0, 3.0])
    >>> spent = TimeBudget(2.0, clock=lambda: next(now))
    >>> spent.check()
    >>> spent.check()
    Traceback (most recent call last):
    ...
    quantviz.budget.Ended: This takes too long for a page: more than 2 s. Take larger groups, a
    smaller part of the tensor, or a range without a search, such as min_max; a script has no such limit.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        on_share: Callable[[float, float], None] = lambda done, whole: None,
    ) -> None:
        self.seconds = seconds
        #: Gets the done and the whole work, where that is known.
        self.on_share = on_share
        self._clock = clock
        self._begun = clock()
        self._dropped = threading.Event()

    @property
    def now(self) -> float:
        return self._clock()

    @property
    def is_dropped(self) -> bool:
        return self._dropped.is_set()

    def drop(self) -> None:
        """Make the work end at its next check, because nobody waits for its result."""
        self._dropped.set()

    def check(self, share: float = 0.0, since: float = 0.0) -> None:
        """Raise `Ended` if the budget is spent, if it will be at this speed, or if the work was dropped.

        `share` is the done share of a part of the work, 0 if unknown; `since` is when that part began, by
        this budget's clock.
        """
        if self._dropped.is_set():
            raise Ended("work.dropped")
        now = self.now
        if now - self._begun > self.seconds:
            raise Ended("work.too_long", seconds=f"{self.seconds:.3g}")
        expected = since - self._begun + (now - since) / share if share else 0.0
        if now - since > _TELLING and expected > self.seconds:
            raise Ended("work.too_long", seconds=f"{expected:.2g}")


_SPENDING: ContextVar[TimeBudget | None] = ContextVar("spending", default=None)


@contextlib.contextmanager
def spending(budget: TimeBudget) -> Iterator[None]:
    before = _SPENDING.set(budget)
    try:
        yield
    finally:
        _SPENDING.reset(before)


def is_dropped() -> bool:
    budget = _SPENDING.get()
    return budget is not None and budget.is_dropped


def report(done: float, whole: float) -> None:
    """Tell whoever waits for this work the done and the whole of it."""
    budget = _SPENDING.get()
    if budget is not None:
        budget.on_share(done, whole)


def too_long(end: Ended) -> QuantVizError:
    """Return the error of a part of the work that takes too long, so that the other parts can go on.

    Raises:
        Ended: The work ended for another reason, which ends the other parts too.
    """
    if end.problem.key != "work.too_long":
        raise end
    return end.problem


class StepCounter:
    """Counts the steps of a part of the work, and checks the budget at each.

    With `is_whole` this part is nearly all of the work: its share is reported.
    """

    def __init__(self, count: int, *, is_whole: bool = False) -> None:
        self._budget = _SPENDING.get()
        self._count = count
        self._is_whole = is_whole
        self._done = 0
        self._since = self._budget.now if self._budget else 0.0

    def through(self, steps: Iterable[T]) -> Iterator[T]:
        for each in steps:
            self.step()
            yield each

    def step(self) -> None:
        if self._budget:
            share = self._done / self._count
            self._budget.check(share, self._since)
            if self._is_whole:
                self._budget.on_share(self._done, self._count)
            self._done += 1
