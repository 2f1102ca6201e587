"""Start a helper process: Python with this package, whatever folder the server was started in."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

#: Niceness of a helper process: the server that answers the users comes first.
NICE = 19


def start(
    module: str, arguments: Iterable[str] = (), *, environment: Mapping[str, str] | None = None, **more: Any
) -> subprocess.Popen[Any]:
    """Return a process that runs a module of this package, from a clone as from an installed package.

    `environment` is added to the server's own, and `more` goes to `subprocess.Popen`.
    """
    paths = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(environment or {})},
        start_new_session=True,
        **more,
    )


def lower_priority() -> None:
    """Lower this process's priority below the server's, on systems that can."""
    if hasattr(os, "nice"):
        os.nice(NICE)


def keep_memory() -> None:
    """Have this process keep memory that it lets go of, for what it takes next: of large tensors that come
    and go, having their pages made anew took a quarter of the time.

    For a process that does one thing and ends. Where the C library has no such setting nothing is done.
    """
    setting = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if setting is not None:
        for parameter, value in _KEPT:
            setting(parameter, value)


#: Numbers of glibc's settings, and their values: what is freed at the end of the heap is given back from
#: 1 GiB on, and what is smaller than 32 MiB, the most that can be named, comes from the heap.
_KEPT = ((-1, 2**30), (-3, 2**25))
