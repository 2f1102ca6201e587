"""Stamps of files, which show whether a file has changed since it was read."""

from __future__ import annotations

import os
import time

from quantviz.sources.stores.addresses import is_address, shown
from quantviz.sources.stores.store import PASSING

#: A file changed so shortly before it was looked at may change again within the same tick of its clock.
_TICK_NS = 20_000_000


def stamp_of(file: str, version: str = "") -> str | None:
    """Return a text that changes with a file: its place on the disk, its size and its times; None where a
    change could go unnoticed.

    Args:
        file: Its path or its address.
        version: The version of it that was read, where it has an address.
    """
    if is_address(file):
        # Each reading was of this version, or it has failed.
        sure = version and not version.startswith(PASSING)
        return f"{shown(file)} {version}" if sure else None
    try:
        found = os.stat(file)
    except OSError:
        return None
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < _TICK_NS:
        return None
    return f"{found.st_dev}-{found.st_ino}-{found.st_size}-{found.st_mtime_ns}-{found.st_ctime_ns}"
