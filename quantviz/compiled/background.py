"""Answers before kernels are compiled: who does not wait for that, and the one process that compiles for all
meanwhile.

Compiling holds Python's lock, so a process of its own does it and puts what it made into the folder of
compiled code, where this one finds it. Where there is no such folder, a thread of this process compiles.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantviz.schemes.granularity import Shape
    from quantviz.schemes.scheme import Scheme

#: Whether what runs here waits for kernels to be compiled. Who asks in a script wants the same path each
#: time.
_WAITS: ContextVar[bool] = ContextVar("waits", default=True)
#: What every scheme needs, by the name it is asked for; a file of this name says that it is kept.
FIXED = "fixed"


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Answer by what is there: what is not compiled yet is compiled in the background, for later calls.

    >>> with at_once():
    ...     waits()
    False
    """
    before = _WAITS.set(False)
    try:
        yield
    finally:
        _WAITS.reset(before)


def waits() -> bool:
    """Return whether kernels are waited for here."""
    return _WAITS.get()


def of_scheme(scheme: Scheme, shape: Shape) -> str:
    """Return the name under which all that a scheme needs on a tensor of `shape` is asked for."""
    return json.dumps([str(scheme), shape])


class Warmer:
    """Has each thing compiled once, one after the other, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._asked: dict[str, threading.Event] = {}
        self._lock, self._thread = (
            threading.Lock(),
            threading.Thread(target=self._run, name="quantviz-compile", daemon=True),
        )
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()

    def ready(self, what: str) -> bool:
        """Return whether it is compiled; if not, it will be. Also true of what cannot be: who then calls it
        is told why.
        """
        return self._done(what).is_set()

    def wait(self, what: str) -> None:
        """Wait until it is `ready`."""
        self._done(what).wait()

    def _done(self, what: str) -> threading.Event:
        with self._lock:
            if what not in self._asked:
                self._asked[what] = threading.Event()
                if what == FIXED and _compiling().is_kept():
                    self._asked[what].set()
                else:
                    self._queue.put(what)
                    if not self._thread.ident:
                        self._thread.start()
            return self._asked[what]

    def _run(self) -> None:
        child = None
        while True:
            what = self._queue.get()
            try:
                child = child if child and child.poll() is None else _compiling().process()
                if child:
                    _ask(child, what)
                # What the other process has made is read from the folder.
                _compiling().compile_now(what)
            except Exception:
                logging.getLogger("quantviz").exception("compiling in the background failed: %s", what)
            self._asked[what].set()


@cache
def warmer() -> Warmer:
    """Return the process's one."""
    return Warmer()


# A child that is forked has no thread that compiles.
os.register_at_fork(after_in_child=warmer.cache_clear)


def _compiling() -> Any:
    """Return the module that compiles. It is imported by name, since it imports all that asks here."""
    return import_module("quantviz.streaming.compile_ahead")


def _ask(child: subprocess.Popen[str], what: str) -> None:
    """Have it compiled there. Where that process ends instead, it is compiled here, and fails here if it
    must.
    """
    assert child.stdin
    assert child.stdout
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(f"{what}\n")
        child.stdin.flush()
        child.stdout.readline()
