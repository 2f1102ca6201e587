"""Whether all that a scheme needs is compiled, and how to compile it ahead."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import queue
import threading
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Literal, TypeVar

from quantviz.budget import Ended
from quantviz.compiled.kernel_cache import cache_folder
from quantviz.compiled.traced_values import Untraceable
from quantviz.compiled.tracing import trace_cell
from quantviz.jobs import Cost, runner
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits, searches
from quantviz.streaming.kernel_access import FIXED, compiling_by, fixed_ready
from quantviz.streaming.pieces import rows_of_piece
from quantviz.streaming.programs import block_code, compiled_program, lines_of_sums, types_of_scheme
from quantviz.streaming.regions import fills, in_line

T = TypeVar("T")

#: The shape of the tensor that fixed kernels run on, so that they are compiled for a large tensor's types.
_SAMPLE = (1032, 1024)
#: One thread: two would only slow down the server's own threads.
_COMPILING = Cost(threads=1, queue="compiling")


def scheme_ready(scheme: Scheme, shape: Shape) -> bool:
    """Return whether all that a scheme needs on a tensor of `shape` can be called, or is waited for here.

    A scheme's own code takes a fraction of a second. So where the reference takes longer, that code is waited
    for once the shared kernels are there.
    """
    if not fixed_ready():
        return False
    if kernel_access.waits() or is_compiled(scheme, shape, by_axis=True):
        return True
    own = kernel_access.of_scheme(scheme, shape)
    if math.prod(shape) >= limits.WORTH_WAITING:
        kernel_access.wait_for(own)
    return kernel_access.is_ready(own)


def warm(scheme: Scheme, shape: Shape) -> None:
    """Compile the code of `measure` and `codes` for a scheme on a tensor of `shape`, so that a later call
    does not wait for it.
    """
    layout = in_line(scheme.layout(shape))
    searches.warm(scheme, shape)
    program = compiled_program(scheme, types_of_scheme(scheme), layout.block_shape[-1] == 1)
    if program is not None:
        program.sums_addresses()
        program.errors_address()
        if fills(layout):
            program.of_ranges()


def compiles(scheme: Scheme, shape: Shape, *, by_axis: bool = False) -> bool:
    """Return whether `measure` would have to compile code for a scheme on a tensor of `shape`, because it is
    neither in memory nor in `cache_folder()`.

    >>> compiles(Scheme(), (3, 3))
    False
    """
    if math.prod(shape) <= limits.SMALL or not fixed_ready():
        return False
    return not is_compiled(scheme, shape, by_axis=by_axis)


def is_compiled(scheme: Scheme, shape: Shape, *, by_axis: bool, counted: bool = False) -> bool:
    """Return whether all code for a scheme on a tensor of `shape` is compiled; with `counted`, that for sums
    that count codes.
    """
    layout = in_line(scheme.layout(shape))
    rows = rows_of_piece(layout, shape, limits.PIECE, by_axis=by_axis)
    banded = rows < layout.view_shape[0] and fills(layout) and scheme.calibration.of_values
    from quantviz.compiled.compiler import compiler
    from quantviz.compiled.searching import source_of_search

    sources = _sources(scheme, layout.block_shape[-1] == 1, banded, by_axis, counted)
    searched = searches.code_of(scheme, shape)
    return compiler().knows(sources if searched is None else (*sources, source_of_search(searched)))


def why_not_compiled(scheme: Scheme, shape: Shape) -> Literal["no_numba", "no_form", "not_ready"]:
    """Return the reason why the reference's own operations measure a large tensor under a scheme: numba is
    missing, the arithmetic cannot be traced, or its code is not compiled yet.
    """
    if not kernel_access.has_kernels():
        return "no_numba"
    by_element = in_line(scheme.layout(shape)).block_shape[-1] == 1
    return "not_ready" if _sources(scheme, by_element, False, False, False) else "no_form"


@lru_cache(maxsize=256)
def _sources(scheme: Scheme, by_element: bool, banded: bool, by_axis: bool, counted: bool) -> tuple[str, ...]:
    """Return the sources compiled for a scheme; none if it cannot be traced."""
    types = types_of_scheme(scheme)
    try:
        code = trace_cell(scheme, dict(types))
        sums, counted = lines_of_sums(scheme, types, counted=counted)
    except Untraceable:
        return ()
    from quantviz.compiled.cell_sources import params_of, sources_of

    blocks = block_code(scheme, params_of(code)) if banded else None
    return sources_of(code, by_element, blocks, sums, counted=counted, errors=by_axis)


# ---- compiling ahead, while others compute --------------------------------------------------------


def compile_now(what: str) -> None:
    """Compile the fixed kernels or a scheme's own code, or load them from the cache folder.

    `what` is `FIXED`, or a scheme's text form and a shape as JSON.
    """
    if what == FIXED:
        _compile_fixed()
    else:
        form, shape = json.loads(what)
        warm(Scheme.parse(form), tuple(shape))


def _compile_fixed() -> None:
    import torch

    from quantviz.schemes import calibration
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


def is_kept() -> bool:
    """Return whether all that every scheme needs is in the folder of compiled code."""
    folder = cache_folder()
    return folder is not None and (folder / FIXED).exists()


def at_once() -> contextlib.AbstractContextManager[None]:
    """Run the block with the kernels that are compiled; compile others in the background, for later calls.

    >>> from quantviz.streaming.kernel_access import waits
    >>> with at_once():
    ...     waits()
    False
    """
    return compiling_by(warmer)


def run_at_once(work: Callable[[], T]) -> T:
    """Return the result of work that is done `at_once`."""
    with at_once():
        return work()


class Warmer:
    """Compiles each set of kernels once, one after the other, in the order of the calls.

    Compiling holds Python's lock, so a job does it and puts the kernels into the folder of compiled code,
    where this process finds them. If there is no such folder, a thread of this process compiles.
    """

    def __init__(self) -> None:
        self._asked: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
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
                if not self._asked:
                    threading.Thread(target=self._run, name="quantviz-compile", daemon=True).start()
                self._asked[what] = threading.Event()
                if what == FIXED and is_kept():
                    self._asked[what].set()
                else:
                    self._queue.put(what)
            return self._asked[what]

    def _run(self) -> None:
        while True:
            what = self._queue.get()
            try:
                if cache_folder() is not None:
                    # Where it ends without having compiled, this process does, and fails if it must.
                    with contextlib.suppress(Ended):
                        work = partial(compile_now, what)
                        runner().submit(work, ("compile", what), _COMPILING, stays=True).result()
                # This reads the kernels of the other process from the folder.
                compile_now(what)
            except Exception:
                logging.getLogger("quantviz").exception("compiling in the background failed: %s", what)
            self._asked[what].set()


@cache
def warmer() -> Warmer:
    """Return the process's one."""
    return Warmer()


# A child that is forked has no thread that compiles.
os.register_at_fork(after_in_child=warmer.cache_clear)
