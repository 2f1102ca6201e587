"""Start a helper process: Python with this package, whatever folder the server was started in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

#: Niceness of a helper process: the server that answers the users comes first.
NICE = 10


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


def stand_behind() -> None:
    """Lower this process's priority below the server's, on systems that can."""
    if hasattr(os, "nice"):
        os.nice(NICE)
