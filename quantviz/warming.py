"""Answers before kernels are compiled: who does not wait for that, and the one process that compiles for all meanwhile.

Compiling holds Python's lock, so a process of its own does it and puts what it made into the folder of compiled code, where this
one finds it. Where there is no such folder, a thread of this process compiles.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quantviz.granularity import Shape
    from quantviz.scheme import Scheme

#: Whether what runs here waits for kernels to be compiled. Who asks in a script wants the same path each time.
_WAITS: ContextVar[bool] = ContextVar("waits", default=True)
#: What every scheme needs, by the name it is asked for; a file of this name says that it is kept.
FIXED = "fixed"
#: How much later than others the compiling process gets its turn.
_NICE = 10
#: What fixed kernels are run on, so that they are compiled for what a large tensor is to them.
_SAMPLE = (1032, 1024)


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
    """Whether kernels are waited for here."""
    return _WAITS.get()


def of_scheme(scheme: Scheme, shape: Shape) -> str:
    """What a scheme needs on a tensor of `shape`, by the name it is asked for."""
    return json.dumps([str(scheme), shape])


class Warmer:
    """Has each thing compiled once, one after the other, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._asked: dict[str, threading.Event] = {}
        self._lock, self._thread = threading.Lock(), threading.Thread(target=self._run, name="quantviz-compile", daemon=True)
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()

    def ready(self, what: str) -> bool:
        """Whether it is compiled; if not, it will be. Also true of what cannot be: who then calls it is told why."""
        return self._done(what).is_set()

    def wait(self, what: str) -> None:
        """Wait until it is `ready`."""
        self._done(what).wait()

    def _done(self, what: str) -> threading.Event:
        with self._lock:
            if what not in self._asked:
                self._asked[what] = threading.Event()
                if what == FIXED and _is_kept():
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
                child = child if child and child.poll() is None else _compiling_process()
                if child:
                    _ask(child, what)
                # What the other process has made is read from the folder.
                compile_now(what)
            except Exception:
                logging.getLogger("quantviz").exception("compiling in the background failed: %s", what)
            self._asked[what].set()


@cache
def warmer() -> Warmer:
    """The process's one."""
    return Warmer()


def compile_now(what: str) -> None:
    """Compile, or read from the folder where it is kept."""
    from quantviz import kernels
    from quantviz.scheme import Scheme

    if what == FIXED:
        _compile_fixed()
    else:
        form, shape = json.loads(what)
        kernels.warm(Scheme.parse(form), tuple(shape))


def _compile_fixed() -> None:
    import torch

    from quantviz import calibration, compiled, kernels, overview
    from quantviz.link import View
    from quantviz.scheme import Scheme
    from quantviz.stored import InMemory
    from quantviz.study import Study

    values = torch.randn(_SAMPLE, generator=torch.Generator().manual_seed(0))
    # As large on either side, so that it matters which comes first.
    values[0, 0], values[1, 1] = 8.0, -8.0
    x = InMemory(values)
    scheme = Scheme("int8")
    study = Study.of(x, scheme)
    for how in ("largest", "mean"):
        study.overview(overview.Patch(0, 0, *_SAMPLE), (64, 64), how, View.of(_SAMPLE))
    assert study.measured.path == "fused"
    assert study.survey.noise > 0
    for other in (calibration.Percentile(99.0), calibration.AbsMean()):
        kernels.ranges(x, scheme.replace(calibration=other))
    folder = compiled.cache_folder()
    if folder:
        (folder / FIXED).touch()


def _is_kept() -> bool:
    from quantviz import compiled

    folder = compiled.cache_folder()
    return folder is not None and (folder / FIXED).exists()


# ---- the process that compiles -------------------------------------------------------------------


def serve() -> None:
    """Compile what is asked for, a line each, until nobody asks any more."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    for line in sys.stdin:
        compile_now(line.rstrip("\n"))
        print("done", flush=True)


def _compiling_process() -> subprocess.Popen[str] | None:
    """A process that compiles; none where it could not hand over what it makes."""
    from quantviz import compiled

    if compiled.cache_folder() is None:
        return None
    root = Path(__file__).parents[1]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from quantviz import warming; warming.serve()"
    # A thread: two would only hinder those who answer meanwhile.
    few = {**os.environ, "OMP_NUM_THREADS": "1", "QUANTVIZ_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=few)


def _ask(child: subprocess.Popen[str], what: str) -> None:
    """Has it compiled there. Where that process ends instead, it is compiled here, and fails here if it must."""
    assert child.stdin
    assert child.stdout
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(f"{what}\n")
        child.stdin.flush()
        child.stdout.readline()
