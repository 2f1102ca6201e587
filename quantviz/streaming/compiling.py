"""Compile the code for the first opening of a large tensor, while others compute.

Compiling holds Python's lock, so a job does it and puts the kernels into the folder of compiled code, where
this process finds them. If there is no such folder, a thread of this process compiles.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import TypeVar

from quantviz.budget import Ended
from quantviz.compiled.kernel_cache import cache_folder
from quantviz.jobs import Cost, runner
from quantviz.streaming.kernel_access import FIXED, compiling_by, is_kept

T = TypeVar("T")

#: Fixed kernels run on this shape: it compiles them for a large tensor's types.
_SAMPLE = (1032, 1024)
#: One thread: two would only slow down the server's own threads.
_COMPILING = Cost(threads=1, queue="compiling")


def compile_now(what: str) -> None:
    """Compile the fixed kernels, or those of a scheme and shape as JSON, or load them from the folder."""
    from quantviz.schemes.scheme import Scheme
    from quantviz.streaming import readiness

    if what == FIXED:
        _compile_fixed()
    else:
        form, shape = json.loads(what)
        readiness.warm(Scheme.parse(form), tuple(shape))


def _compile_fixed() -> None:
    import torch

    from quantviz.schemes import calibration
    from quantviz.schemes.scheme import Scheme
    from quantviz.streaming import measuring, overview, ranges, surveying, tensor_facts
    from quantviz.streaming.frames import Patch
    from quantviz.tensors.lazy import InMemory
    from quantviz.tensors.views import View

    values = torch.randn(_SAMPLE, generator=torch.Generator().manual_seed(0))
    # Equal magnitudes of both signs, so that the order of the two decides.
    values[0, 0] = 8.0
    values[1, 1] = -8.0
    x = InMemory(values)
    scheme = Scheme("int8")
    known = tensor_facts.facts(x)
    qparams = ranges.qparams(x, scheme, ranges.ranges(x, scheme, absmax=known.absmax), absmax=known.absmax)
    for how in ("largest", "mean"):
        overview.overview(x, scheme, qparams, Patch(0, 0, *_SAMPLE), (64, 64), how, View.of(_SAMPLE))
    assert measuring.measure(x, scheme, qparams=qparams, by_axis=True, known=known).path == "fused"
    assert surveying.survey(x, scheme, qparams, known=known).noise > 0
    for other in (calibration.Percentile(99.0), calibration.AbsMean()):
        ranges.ranges(x, scheme.replace(calibration=other))
    folder = cache_folder()
    if folder:
        (folder / FIXED).touch()


def without_compiling() -> contextlib.AbstractContextManager[None]:
    """Run the block with compiled kernels; compile others in the background, for later calls.

    >>> from quantviz.streaming.kernel_access import waits
    >>> with without_compiling():
    ...     waits()
    False
    """
    return compiling_by(warmer)


def run_without_compiling(work: Callable[[], T]) -> T:
    with without_compiling():
        return work()


class Warmer:
    """Compiles each set of kernels once, in the order of the calls."""

    def __init__(self) -> None:
        self._asked: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="quantviz-compile", daemon=True)
        self._is_closed = False
        # Its own end, registered first, comes after that of compiling.
        runner()
        atexit.register(self.close)

    def close(self) -> None:
        """Wait for what this process compiles, and begin nothing more.

        Python ends a thread in compiled code at the end of the process, and the process with it.
        """
        self._is_closed = True
        runner().close()
        if self._thread.is_alive():
            self._queue.put("")
            self._thread.join()

    def ready(self, what: str) -> bool:
        """Return whether kernels are compiled, else queue them; true if they cannot: the call raises."""
        return self._done(what).is_set()

    def wait(self, what: str) -> None:
        self._done(what).wait()

    def _done(self, what: str) -> threading.Event:
        with self._lock:
            if what not in self._asked:
                if not self._asked:
                    self._thread.start()
                self._asked[what] = threading.Event()
                if what == FIXED and is_kept():
                    self._asked[what].set()
                else:
                    self._queue.put(what)
            return self._asked[what]

    def _run(self) -> None:
        while (what := self._queue.get()) and not self._is_closed:
            try:
                if cache_folder() is not None:
                    # If the job ends without having compiled, this process compiles, and fails if it must.
                    with contextlib.suppress(Ended):
                        work = partial(compile_now, what)
                        runner().submit(work, ("compile", what), _COMPILING, stays=True).result()
                # This reads the kernels of the other process from the folder.
                if not self._is_closed:
                    compile_now(what)
            except Exception:
                # Work that the end of the process cuts short has not failed.
                if not self._is_closed:
                    logging.getLogger("quantviz").exception("compiling in the background failed: %s", what)
            self._asked[what].set()


@cache
def warmer() -> Warmer:
    # The only one of the process.
    return Warmer()


# A child that is forked has no thread that compiles.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=warmer.cache_clear)
