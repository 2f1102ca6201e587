"""The sharing of a pass over a tensor among threads, and the ordered joining of its results."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache
from itertools import islice
from typing import Generic, TypeVar

from quantviz.budget import StepCounter
from quantviz.errors import QuantVizError
from quantviz.public_calls import keep_subnormals

_T = TypeVar("_T")
_Result = TypeVar("_Result")
#: The default number of threads of a pass over a tensor.
THREADS_VARIABLE = "QUANTVIZ_THREADS"


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(
        max(_MOST_THREADS, default_threads()), thread_name_prefix="quantviz", initializer=keep_subnormals
    )


# A child that is forked has none of the threads.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_pool.cache_clear)


#: Kept for passes; each begins when it is first needed.
_MOST_THREADS = 64


def default_threads() -> int:
    """Return the number of threads of a pass: `QUANTVIZ_THREADS`, else one for each processor."""
    setting = os.environ.get(THREADS_VARIABLE)
    if setting is None:
        return os.cpu_count() or 1
    if not re.fullmatch(r"[1-9]\d{0,3}", setting, re.ASCII):
        raise QuantVizError("limit_setting", variable=THREADS_VARIABLE, got=setting)
    return int(setting)


def shared_out(work: Callable[[Iterator[_T]], None], items: Iterable[_T], threads: int | None = None) -> None:
    """Run `work` on some threads, by default `default_threads()`; each takes one item after the other."""
    listed = list(items)
    lock = threading.Lock()
    rest = iter(listed)
    progress = StepCounter(len(listed))

    def taken() -> Iterator[_T]:
        while True:
            with lock:
                item = next(rest, None)
                if item is None:
                    return
                progress.step()
            yield item

    threads = min(threads or default_threads(), len(listed))
    if threads <= 1:
        work(taken())
        return
    running = [_pool().submit(copy_context().run, work, taken()) for _ in range(threads)]
    wait(running, return_when=FIRST_EXCEPTION)
    # Where one has failed, the others end at their next item.
    listed.clear()
    for done in running:
        done.result()


def results_of(
    work: Callable[[_T], _Result], items: Sequence[_T], workers: int = 1
) -> Generator[_Result, None, None]:
    """Yield the result of `work` for each item, in order, while threads work on `workers` of them.

    The threads are not those of passes, which `work` may wait for. At most `workers` items beyond the last
    result that is asked for are begun.

    >>> list(results_of(abs, [-2, 1, -3], workers=2))
    [2, 1, 3]
    """
    if workers <= 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="quantviz", initializer=keep_subnormals)
    rest = iter(items)

    def begun(count: int) -> list[Future[_Result]]:
        return [pool.submit(copy_context().run, work, item) for item in islice(rest, count)]

    coming = deque(begun(workers))
    try:
        while coming:
            result = coming.popleft().result()
            coming.extend(begun(1))
            yield result
    finally:
        pool.shutdown(cancel_futures=True)


class InOrder(Generic[_T]):
    """A queue that passes on the results of pieces in the order of the plan.

    >>> taken: list[str] = []
    >>> in_order = InOrder(taken.append)
    >>> in_order.put(2, "third")
    >>> in_order.put(0, "first and second", 2)
    >>> taken
    ['first and second', 'third']
    """

    def __init__(self, take: Callable[[_T], object]) -> None:
        self._take = take
        self._next = 0
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[int, _T]] = {}

    def put(self, first: int, result: _T, count: int = 1) -> None:
        with self._lock:
            self._waiting[first] = count, result
            while self._next in self._waiting:
                count, result = self._waiting.pop(self._next)
                self._next += count
                self._take(result)


def shares_of(
    count: int, least: int, *, in_place: bool, threads: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield runs, as start and stop, of `least` elements each for threads to take one after the other.

    In place they are up to half of each thread's remaining share: at each run a thread waits for the
    interpreter, which others may hold.

    >>> list(shares_of(10, 4, in_place=False))
    [(0, 4), (4, 8), (8, 10)]
    """
    start = 0
    threads = threads or default_threads()
    while start < count:
        size = max(least, (count - start) // (2 * threads) if in_place else 0)
        yield start, min(start + size, count)
        start += size


def runs_between(stop: int, size: int, start: int = 0) -> Iterator[tuple[int, int]]:
    return ((at, min(at + size, stop)) for at in range(start, stop, size))
