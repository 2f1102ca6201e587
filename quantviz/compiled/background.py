"""Answers before kernels are compiled: the setting not to wait, and the compiler that was handed over for it.

The code that compiles a kernel ahead calls it as everybody does, and so imports the callers of this module.
Whoever runs the program hands it over: see `quantviz.streaming.compile_ahead`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from quantviz.schemes.granularity import Shape
    from quantviz.schemes.scheme import Scheme

#: Name of the kernels that every scheme needs; a file of this name marks that they are kept.
FIXED = "fixed"


class BackgroundCompiler(Protocol):
    """Compiles sets of kernels while others compute."""

    def ready(self, what: str) -> bool:
        """Return whether the kernels of a name are compiled; if not, queue them."""

    def wait(self, what: str) -> None:
        """Wait until they are."""


#: Returns the compiler of this context, another one in a forked process. Without one the code waits for its
#: kernels: scripts do, so that each run takes the same path.
_COMPILER: ContextVar[Callable[[], BackgroundCompiler] | None] = ContextVar("compiler", default=None)


@contextlib.contextmanager
def compiling_by(compiler: Callable[[], BackgroundCompiler]) -> Iterator[None]:
    """Run the block with the kernels that are compiled; the result of `compiler` compiles others for later
    calls.
    """
    before = _COMPILER.set(compiler)
    try:
        yield
    finally:
        _COMPILER.reset(before)


def waits() -> bool:
    """Return whether kernels are waited for here."""
    return _COMPILER.get() is None


def is_ready(what: str) -> bool:
    """Return whether the kernels of a name can be called: they are compiled, or waited for here. If not, they
    are queued.
    """
    compiler = _COMPILER.get()
    return compiler is None or compiler().ready(what)


def wait_for(what: str) -> None:
    """Wait until the compiler of this context has the kernels of a name; without one the call compiles."""
    compiler = _COMPILER.get()
    if compiler is not None:
        compiler().wait(what)


def of_scheme(scheme: Scheme, shape: Shape) -> str:
    """Return the name of the kernels that a scheme needs on a tensor of `shape`."""
    return json.dumps([str(scheme), shape])
