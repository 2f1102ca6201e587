"""The availability of compiled kernels, and whether to wait for them.

The code that compiles ahead calls a kernel as everybody does, and so imports the callers of this module.
Whoever runs the program hands the compiler over: see `compiling`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from quantviz.compiled import kernel_cache

if TYPE_CHECKING:
    from quantviz.schemes.granularity import Shape
    from quantviz.schemes.scheme import Scheme

#: Kernels that every scheme needs; a file of this name marks that they are kept.
FIXED = "fixed"
#: With this setting a server answers nobody before these, and all that it imports, are there.
READY_FIRST = "QUANTVIZ_READY_FIRST"


class BackgroundCompiler(Protocol):
    def ready(self, what: str) -> bool:
        """Return whether the kernels of a name are compiled, else queue them."""

    def wait(self, what: str) -> None:
        """Wait until they are."""


#: A forked process has another. Without one code waits for its kernels: scripts do, so that each run takes
#: the same path.
_COMPILER: ContextVar[Callable[[], BackgroundCompiler] | None] = ContextVar("compiler", default=None)


@contextlib.contextmanager
def compiling_by(compiler: Callable[[], BackgroundCompiler]) -> Iterator[None]:
    """Run the block with compiled kernels; `compiler` compiles others for later calls."""
    before = _COMPILER.set(compiler)
    try:
        yield
    finally:
        _COMPILER.reset(before)


def waits() -> bool:
    return _COMPILER.get() is None


def is_ready(what: str) -> bool:
    """Return whether kernels are compiled, or waited for here; else queue them."""
    compiler = _COMPILER.get()
    return compiler is None or compiler().ready(what)


def wait_for(what: str) -> None:
    """Wait for kernels where there is a compiler; without one the call compiles."""
    compiler = _COMPILER.get()
    if compiler is not None:
        compiler().wait(what)


def of_scheme(scheme: Scheme, shape: Shape) -> str:
    # The name of its kernels.
    return json.dumps([str(scheme), shape])


@cache
def has_kernels() -> bool:
    """Return whether numba is installed and compiles."""
    if not kernel_cache.has_numba():
        return False
    try:
        import quantviz.compiled.compiler  # noqa: F401
    except ImportError as missing:
        if missing.name != "numba" and not (missing.name or "").startswith(("numba", "llvmlite")):
            raise
        return False
    return True


def fixed_ready() -> bool:
    """Return whether the kernels that all schemes share are compiled, or waited for here."""
    return kernel_cache.has_numba() and is_ready(FIXED) and has_kernels()


def wait_for_kernels() -> None:
    """Wait for the shared kernels, for rare work that takes long without."""
    if not fixed_ready():
        wait_for(FIXED)


def cache_folder() -> Path | None:
    """Return the folder of compiled code; None if each process compiles anew."""
    return kernel_cache.cache_folder() if has_kernels() else None


def is_kept() -> bool:
    """Return whether the folder has what every scheme needs, or nothing compiles; import no numba."""
    if not kernel_cache.has_numba():
        return True
    folder = kernel_cache.cache_folder()
    return folder is not None and (folder / FIXED).exists()


def compiling_seconds() -> float:
    if not has_kernels():
        return 0.0
    from quantviz.compiled.compiler import compiler

    return compiler().seconds
