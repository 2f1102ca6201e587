"""Long work of a page: in a process of its own, for one session at a time, within a budget, and only as long
as its session waits for it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeVar

import streamlit as st

from quantviz.budget import Ended
from quantviz.errors import QuantVizError
from quantviz.ui.shell import streamlit_private
from quantviz.ui.shell.bounds import HEAVY_SECONDS
from quantviz.ui.shell.imports import ahead
from quantviz.ui.shell.startup import turns
from quantviz.work_process import WorkProcess

T = TypeVar("T")

#: Seconds for which work that took too long is not tried again, and the most keys of such work.
_REFUSED_SECONDS = 600.0
_MOST_REFUSED = 1000


class HeavyWork:
    """Does long work, one piece after the other; all others have the turn meanwhile."""

    def __init__(self, seconds: float = HEAVY_SECONDS, ready_for: Iterable[str] = ()) -> None:
        self._seconds = seconds
        self.process = WorkProcess(ready_for)
        self._refused: OrderedDict[str, tuple[float, QuantVizError]] = OrderedDict()
        self._lock = threading.Lock()

    def run(
        self,
        name: str,
        work: Callable[[], T],
        is_wanted: Callable[[], bool],
        on_share: Callable[[float], None] = lambda share: None,
    ) -> T:
        """Return the result of the work.

        Args:
            name: Its key; under it a refusal is cached for a while.
            work: A function that can be pickled.
            is_wanted: Whether a run still waits for it.
            on_share: Gets the share of it that is done now and then, where the work knows it.

        Raises:
            QuantVizError: It takes too long, or no run waits for it any more.
        """
        self._refuse_again(name)
        try:
            with turns().leave():
                return self.process.ask(work, self._seconds, is_wanted, on_share)
        except Ended as end:
            if end.problem.key != "work.dropped":
                self._note(name, end.problem)
            raise end.problem.again() from None

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
    return HeavyWork(ready_for=ahead().long_work)


def prepare() -> None:
    """Have the process of long work ready for this session, where this process serves sessions."""
    if streamlit_private.has_sessions():
        _heavy().process.prepare()


def heavily(name: str, work: Callable[[], T], on_share: Callable[[float], None] = lambda share: None) -> T:
    """Return the result of long work for this session; `QuantVizError` where it takes too long.

    `on_share` gets the share of it that is done now and then, where the work knows it.
    """
    try:
        return _heavy().run(name, work, streamlit_private.is_awaited(), on_share)
    except QuantVizError as problem:
        if problem.key == "work.dropped":
            streamlit_private.end_if_asked()
        raise
