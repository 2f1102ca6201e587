"""Start a process of the app's own: Python with this package, whatever folder the server was started in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

#: How far behind others such a process stands: whoever uses the app comes first.
NICE = 10


def start(
    module: str, arguments: Iterable[str] = (), *, environment: Mapping[str, str] | None = None, **more: Any
) -> subprocess.Popen[Any]:
    """Return a process that runs a module of this package, from a clone as from an installed package.

    `environment` is added to the server's own, and `more` is what `subprocess.Popen` takes.
    """
    paths = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(environment or {})},
        start_new_session=True,
        **more,
    )


def stand_behind() -> None:
    """Have this process get its turn after the server, where the system can do that."""
    if hasattr(os, "nice"):
        os.nice(NICE)
