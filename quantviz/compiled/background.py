"""Answers before kernels are compiled: the setting not to wait, and the one process that compiles for all
meanwhile.

Compiling holds Python's lock, so a process of its own does it and puts the kernels into the folder of
compiled code, where this one finds them. If there is no such folder, a thread of this process compiles.
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

#: Whether code of this context waits for kernels to be compiled. Scripts wait, so that each run takes the
#: same path.
_WAITS: ContextVar[bool] = ContextVar("waits", default=True)
#: Name of the kernels that every scheme needs; a file of this name marks that they are kept.
FIXED = "fixed"


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Run the block with the kernels that are compiled; compile others in the background, for later calls.

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
    """Return the name of the kernels that a scheme needs on a tensor of `shape`."""
    return json.dumps([str(scheme), shape])


class Warmer:
    """Compiles each set of kernels once, one after the other, in the order of the calls."""

    def __init__(self) -> None:
        self._asked: dict[str, threading.Event] = {}
        self._lock, self._thread = (
            threading.Lock(),
            threading.Thread(target=self._run, name="quantviz-compile", daemon=True),
        )
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()

    def ready(self, what: str) -> bool:
        """Return whether the kernels of a name are compiled; if not, queue them. Also true if they cannot
        compile; the call then raises.
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
                # This reads the kernels of the other process from the folder.
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
    """Return the module that compiles. It is imported by name, since it imports the callers of this one."""
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
