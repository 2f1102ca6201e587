"""The folder in which this user's processes cache compiled kernels and parts of published models."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path


def own_folder(name: str) -> Path | None:
    """Return this user's cache folder called `name`; none if it is not writable or others can write to it.

    It lies in `QUANTVIZ_CACHE_DIR`, else in `XDG_CACHE_HOME/quantviz`, else in `~/.cache/quantviz`.
    """
    named = os.environ.get("QUANTVIZ_CACHE_DIR")
    try:
        base = (
            Path(named)
            if named
            else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quantviz"
        )
    except RuntimeError:  # there is no home
        return None
    folder = base / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return None
    return folder if all(map(_own, (base, folder))) else None


def _own(folder: Path) -> bool:
    """Return whether no other user can put files here, because files from here are run or shown to others."""
    if sys.platform == "win32":
        return True
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
