"""How functions become machine code: numba's decorators and types, and the folder compiled code is kept in.

Imported only where numba is there. Kernels hold no lock of Python's, so that threads run side by side.
Where there is no folder that can be trusted, code is compiled in memory, once a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy.typing as npt
from llvmlite import ir as _ir
from numba import types
from numba.extending import intrinsic as _intrinsic
from numba.extending import overload as _overload

from quantviz.compiled.kernel_cache import cache_folder

Array = npt.NDArray[Any]
#: numba compiles these functions by types of its own: nothing here has Python's types.
intrinsic: Any = _intrinsic
overload: Any = _overload
_config: Any = numba.config
_njit: Any = numba.njit
ir: Any = _ir


def jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel when it is first called, once for each type of arguments."""
    return _in_folder(_njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function))


def kernel_part(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels: Python does not call it, so that no wrapper is compiled to unpack its
    arguments.
    """
    return _in_folder(
        _njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)(function)
    )


def _in_folder(compiled: Any) -> Any:
    folder = cache_folder()
    if folder is not None:
        with caching_in(folder):
            compiled.enable_caching()
    return compiled


@contextmanager
def caching_in(folder: Path | None) -> Iterator[None]:
    """Make numba keep functions that are compiled in this context in a folder; other code keeps its own."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = before if folder is None else str(folder)
    try:
        yield
    finally:
        _config.CACHE_DIR = before


star: Any = types.StarArgTuple
several: Any = types.Tuple
pointer: Any = types.CPointer
# In kernels a number that is written out is of one of these: numba compiles a function once more for each
# number that it is given as it stands.
f4: Any = types.float32
f8: Any = types.float64
i4: Any = types.int32
i8: Any = types.int64
b1: Any = types.boolean
#: A place that is known not to be negative: others are looked at twice.
place_at: Any = types.uint64


def inline_part(function: Callable[..., Any]) -> Any:
    return numba.njit(nogil=True, inline="always", error_model="numpy")(function)


def in_any_order(function: Callable[..., Any]) -> Any:
    """Compile sums whose terms may be added in any order, and products rounded once with them or not."""
    return numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})(function)
