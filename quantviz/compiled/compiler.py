"""The compiler of a scheme's own arithmetic: schemes that differ in numbers only share its functions."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import types

from quantviz.compiled.cell_functions import (
    bits,
    brain,
    ceil,
    copysign,
    exponent,
    fabs,
    floor,
    fma,
    half,
    least,
    load,
    of_bits,
    rint,
    select,
    storer,
    trunc,
    two_to,
)
from quantviz.compiled.driving import drive, drive_bands, drive_pieces
from quantviz.compiled.kernel_cache import cache_folder
from quantviz.compiled.machine_code import b1, caching_in, f4, f8, i4, i8, pointer, several
from quantviz.compiled.vector_comparing import comparing
from quantviz.compiled.vector_searches import searching
from quantviz.compiled.vector_sums import summing, trying
from quantviz.whole_files import put_whole

#: Arguments of compiled arithmetic that are addresses, and the types of the numbers there; all others are
#: whole numbers.
_POINTERS: dict[str, Any] = {
    "x": types.float32, "bases": types.int64, "params": types.float64,
    "floats": types.float64, "integers": types.int64, "tables": types.float64,
    "q": types.int32, "x_hat": types.float32, "error": types.float32, "clipped": types.uint8,
    "steps": types.float64, "low": types.int32, "high": types.int32, "absmax": types.float64,
    "out": types.float64, "found": types.float64, "codes": types.uint8,
    "firsts": types.int64, "numbers": types.int64, "columns": types.int64, "allowed": types.float32,
    "slack": types.float32, "near": types.int32, "hit": types.int32,
}  # fmt: skip
#: Functions of the lines, by name.
_NAMES = {
    "rint": rint, "floor": floor, "ceil": ceil, "trunc": trunc, "fabs": fabs, "copysign": copysign,
    "fma": fma, "select": select, "bits": bits, "of_bits": of_bits, "half": half, "brain": brain,
    "least": least,
    **{f"load_{kind}": load for kind in ("i4", "i8", "f4", "f8")},
    "store_i4": storer(i4, "q"), "store_x_hat": storer(f4, "x_hat"), "store_error": storer(f4, "error"),
    "store_b1": storer(b1, "clipped"), "store_f8": storer(f8, "steps"),
    "two_to": two_to, "exponent": exponent, "f4": f4, "f8": f8, "i4": i4, "i8": i8,
}  # fmt: skip


class Compiler:
    """Compiled arithmetic by its source: schemes that differ in numbers only share it."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()
        #: Seconds spent compiling, or reading functions that were compiled before.
        self.seconds = 0.0

    def knows(self, sources: Iterable[str]) -> bool:
        """Return whether all sources (of `sources_of`) are compiled: in memory, or kept in the folder."""
        return all(source in self._made or _kept(source) for source in sources)

    def address(self, source: str) -> int:
        """Return the address of the function that a source defines, compiled once."""
        with self._lock:
            if source not in self._made:
                start = time.perf_counter()
                try:
                    self._made[source] = _made(source)
                    self._finish()
                finally:
                    self.seconds += time.perf_counter() - start
            return int(self._made[source].address)

    def _finish(self) -> None:
        """Compile the kernels that call the cells' arithmetic, for arrays of these types alone."""
        if drive.signatures:
            return
        numbers, wholes, flags, codes = (types.Array(of, 1, "C") for of in (f8, i8, b1, i4))
        singles = types.Array(f4, 1, "C")
        run = types.Array(f4, 1, "C", readonly=True)
        table = types.Array(f8, 2, "C")
        code = several((i8, i8, several((i8, f8, f8)), i8))
        place = several((i8, i8, i8, i8, wholes))
        of_blocks = several((numbers, i8, numbers, wholes, numbers))
        arrays = several((codes, singles, singles, flags, numbers))
        marks = several((flags, wholes, types.Array(types.uint8, 1, "C")))
        by_axis = several((wholes, numbers, numbers))
        totals = several((i8, numbers, wholes, marks))
        cells = place, of_blocks, arrays
        of_pieces = b1, wholes, numbers, i8, wholes, marks, several((table, table, table))
        drive.compile((code, i8, run, i8, *cells, b1, b1, by_axis, numbers, totals))
        drive_pieces.compile((code, i8, run, i8, i8, *cells, *of_pieces))
        ranges = several((i8, numbers, wholes, numbers))
        drive_bands.compile(
            (ranges, i8, i8, b1, numbers, codes, codes, code, run, i8, i8, i8, *cells, *of_pieces)
        )


@cache
def compiler() -> Compiler:
    """Return the process's one compiler."""
    return Compiler()


def _path(source: str) -> str:
    """Return the file name that a source is compiled under. numba keeps compiled code by it."""
    folder = cache_folder()
    name = f"cells_{hashlib.sha256(source.encode()).hexdigest()[:16]}.py"
    return f"<{name}>" if folder is None else str(folder / name)


def _kept(source: str) -> bool:
    """Return whether it was compiled before and kept."""
    path = Path(_path(source))
    return cache_folder() is not None and path.exists() and any(path.parent.rglob(f"{path.stem}.*.nbi"))


def _made(source: str) -> Any:
    folder = cache_folder()
    path = _path(source)
    if folder is not None and not Path(path).exists():
        put_whole(path, source)
    names = {
        **_NAMES,
        "summing": summing,
        "trying": trying,
        "comparing": comparing,
        "searching": searching,
        "small": [function.py_func for function in (least, two_to, exponent, brain)],
    }
    exec(compile(source, path, "exec"), names)
    function: Any = names["cells"]
    function.__module__ = __name__
    with caching_in(folder):
        names_given = function.__code__.co_varnames[: function.__code__.co_argcount]
        given = [pointer(_POINTERS[name]) if name in _POINTERS else i8 for name in names_given]
        return numba.cfunc(types.void(*given), cache=folder is not None, error_model="numpy")(function)
