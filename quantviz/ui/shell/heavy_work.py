"""Long work of a page: off the shared path, for one session at a time, within a budget, and only as long as
its session waits for it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import streamlit as st

from quantviz.budget import Ended, Spending, spending
from quantviz.errors import QuantVizError
from quantviz.ui.shell import streamlit_private
from quantviz.ui.shell.bounds import HEAVY_AT_ONCE, HEAVY_SECONDS
from quantviz.ui.shell.startup import turns

T = TypeVar("T")

#: Seconds between two looks whether the session still waits.
_LOOK = 0.1
#: Seconds for which a step of long work waits at most until no run works.
_GIVES_WAY = 1.0
#: For so many seconds what was too long is not tried again, and so many of these are known.
_REFUSED_SECONDS, _MOST_REFUSED = 600.0, 1000
#: Whether this is part of long work already.
_INSIDE: ContextVar[bool] = ContextVar("inside_heavy_work", default=False)


class HeavyWork:
    """Does long work in a thread of its own for each, a few at once; all others wait.

    A permit is taken before anything else is locked, and what is part of long work needs none: so nobody who
    has one waits for somebody who has not.
    """

    def __init__(self, seconds: float = HEAVY_SECONDS, at_once: int = HEAVY_AT_ONCE) -> None:
        self._seconds, self._permits = seconds, threading.BoundedSemaphore(at_once)
        self._refused: OrderedDict[str, tuple[float, QuantVizError]] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, name: str, work: Callable[[], T], is_wanted: Callable[[], bool]) -> T:
        """Return what the work gives.

        Args:
            name: What it is; under this name a refusal is known for a while.
            work: What is done.
            is_wanted: Whether somebody still waits for it.

        Raises:
            QuantVizError: It takes too long, or nobody waits for it any more.
        """
        if _INSIDE.get():
            return work()
        self._refuse_again(name)
        with turns().leave():
            while not self._permits.acquire(timeout=_LOOK):
                if not is_wanted():
                    raise QuantVizError("work.dropped")
            # Between its steps it waits until no run works: Python lets one thread compute at a time.
            budget = Spending(self._seconds, give_way=lambda: turns().wait_until_idle(_GIVES_WAY))
            answer = Future[T]()
            thread = threading.Thread(
                target=copy_context().run,
                args=(self._do, work, budget, answer),
                name="quantviz-heavy",
                daemon=True,
            )
            streamlit_private.share_run(thread)
            thread.start()
            return self._awaited(name, answer, budget, is_wanted)

    def _awaited(self, name: str, answer: Future[T], budget: Spending, is_wanted: Callable[[], bool]) -> T:
        while True:
            try:
                return answer.result(_LOOK)
            except TimeoutError:
                if not is_wanted():
                    budget.drop()
                    raise QuantVizError("work.dropped") from None
            except Ended as end:
                if end.problem.key == "work.too_long":
                    self._note(name, end.problem)
                raise end.problem.again() from None

    def _do(self, work: Callable[[], T], budget: Spending, answer: Future[T]) -> None:
        _INSIDE.set(True)
        try:
            with spending(budget):
                found = work()
        except BaseException as problem:  # whatever it is, it is raised where it is waited for
            answer.set_exception(problem)
        else:
            answer.set_result(found)
        finally:
            self._permits.release()

    def _refuse_again(self, name: str) -> None:
        with self._lock:
            until, problem = self._refused.get(name, (0.0, None))
            if problem is not None and time.monotonic() < until:
                raise problem.again()

    def _note(self, name: str, problem: QuantVizError) -> None:
        with self._lock:
            self._refused[name] = time.monotonic() + _REFUSED_SECONDS, problem
            while len(self._refused) > _MOST_REFUSED:
                self._refused.popitem(last=False)


@st.cache_resource(show_spinner=False)
def _heavy() -> HeavyWork:
    return HeavyWork()


def heavily(name: str, work: Callable[[], Any]) -> Any:
    """Return what long work of this session gives; `QuantVizError` where it takes too long."""
    try:
        return _heavy().run(name, work, streamlit_private.is_awaited())
    except QuantVizError as problem:
        if problem.key == "work.dropped":
            streamlit_private.end_if_asked()
        raise
