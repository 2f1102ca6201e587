"""The availability of compiled kernels, and whether to wait for them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from quantviz.compiled import background, kernel_cache


@cache
def has_kernels() -> bool:
    """Return whether compiled kernels can be imported: numba is installed, and compiles."""
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
    """Return whether the kernels that all schemes share can be called: they are compiled, or this thread
    waits for them.
    """
    return kernel_cache.has_numba() and background.is_ready(background.FIXED) and has_kernels()


def wait_for_kernels() -> None:
    """Wait for the shared kernels, for rare work that would take long without them."""
    if not fixed_ready():
        background.wait_for(background.FIXED)


def cache_folder() -> Path | None:
    """Return the folder that caches compiled code between processes; none if each process compiles anew."""
    return kernel_cache.cache_folder() if has_kernels() else None


def compiling_seconds() -> float:
    if not has_kernels():
        return 0.0
    from quantviz.compiled.compiler import compiler

    return compiler().seconds
