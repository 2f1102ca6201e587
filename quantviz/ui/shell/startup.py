"""Once a process: let runs take turns, and let go of sessions that have ended."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import gc
import itertools
import threading
import time
from collections.abc import Callable, Iterator

import streamlit as st
from streamlit import runtime

from quantviz.jobs import runner
from quantviz.ui.shell import streamlit_private

#: Runs that work at once. Python lets one thread compute at a time; the second works while the first waits.
_CONCURRENT_RUNS = 1
#: Seconds in which no turn has begun or ended after which the next run goes ahead all the same: one may hang.
_PATIENCE = 3.0
#: Most seconds between two looks for sessions that have ended: with `server.disconnectedSessionTTL` the
#: memory of a closed tab is free within a minute.
_BETWEEN_LOOKS = 10.0


class RunQueue:
    """Lets a few threads work at once, in the order in which they came.

    Forty runs at once would each get a fortieth of the processor, and the first answer come with the last.
    """

    def __init__(self, concurrent: int = _CONCURRENT_RUNS, patience: float = _PATIENCE) -> None:
        self._concurrent = concurrent
        self._patience = patience
        self._working = 0
        self._waiting: list[tuple[int, threading.Event]] = []
        self._arrivals = itertools.count()
        #: Time at which a turn last began or ended. A thread that waits long only because many wait goes on
        #: waiting: all at once they would hinder each other.
        self._moved = time.monotonic()
        self._lock = threading.Lock()
        self._own = threading.local()

    @property
    def held(self) -> bool:
        """Whether this thread has a turn."""
        return bool(getattr(self._own, "has", False))

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Wait for a turn, and have it meanwhile."""
        self._own.arrival = next(self._arrivals)
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextlib.contextmanager
    def leave(self) -> Iterator[None]:
        """Let another have the turn meanwhile, where this thread has one: for waiting, and for work outside
        Python.

        A returning thread keeps its place in the queue.
        """
        if not self.held:
            yield
            return
        self._end()
        try:
            yield
        finally:
            self._begin()

    def _begin(self) -> None:
        mine = threading.Event()
        with self._lock:
            bisect.insort(self._waiting, (self._own.arrival, mine), key=lambda waiting: waiting[0])
            self._call()
        while not mine.wait(self._patience):
            with self._lock:
                if time.monotonic() - self._moved >= self._patience and self._waiting:
                    self._call_next()
        self._own.has = True

    def _end(self) -> None:
        self._own.has = False
        with self._lock:
            self._working -= 1
            self._moved = time.monotonic()
            self._call()

    def _call(self) -> None:
        while self._waiting and self._working < self._concurrent:
            self._call_next()

    def _call_next(self) -> None:
        self._working += 1
        self._moved = time.monotonic()
        self._waiting.pop(0)[1].set()


@st.cache_resource(show_spinner=False)
def run_queue() -> RunQueue:
    """Return the turns of this process's runs."""
    return RunQueue()


@st.cache_resource(show_spinner=False)
def forget_ended_sessions(_forget_unused: Callable[..., bool]) -> bool:
    """Free sessions that were not resumed within `server.disconnectedSessionTTL`, with their uploads.

    Now and then `_forget_unused` is called too, which returns whether it let go of anything.

    Streamlit does so when the next session is left, which after the last one may be never.
    """
    if streamlit_private.has_sessions():
        threading.Thread(
            target=_forget_now_and_then, args=(_forget_unused,), name="quantviz-forget", daemon=True
        ).start()
    return True


def _forget_now_and_then(forget_unused: Callable[..., bool]) -> None:
    pause = min(_BETWEEN_LOOKS, max(1.0, float(st.get_option("server.disconnectedSessionTTL"))))
    before: set[str] = set()
    while True:
        time.sleep(pause)
        if not runtime.exists():
            return
        now = streamlit_private.expire_sessions()
        unused = forget_unused(is_alone=not now)
        if not now:
            runner().rest()
        if before - now or unused:
            # A session and its parts hold each other, and those of the first sessions were frozen with all
            # the rest.
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            # Memory that is free inside this process goes back to the system, where its C library can do so.
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)
        before = now
