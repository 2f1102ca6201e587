"""Write files in one step: a process that reads one meanwhile gets the old content or the new, never a
mixture. And the folder in which this user's processes cache files.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from quantviz.errors import QuantVizError

#: Prefix of unfinished files. One whose process was killed can be deleted.
ASIDE = "tmp_quantviz_"


def put_whole(
    path: str | os.PathLike[str], content: str | bytes | Iterable[bytes], aside: Path | None = None
) -> None:
    """Write a file beside its place and move it there. It replaces an old file and keeps that one's mode.

    A device or a named pipe is written to directly.

    Args:
        path: The place of the file.
        content: The whole content, or its parts one after the other; text is written as UTF-8.
        aside: The folder of the unfinished file, on the same disk; by default that of `path`.

    Raises:
        OSError: It cannot be written. The old file is unchanged.
    """
    raw = content.encode("utf-8") if isinstance(content, str) else content
    parts = (raw,) if isinstance(raw, bytes | bytearray | memoryview) else raw
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        with place.open("wb") as device:
            for part in parts:
                device.write(part)
        return
    beside = (aside or place.parent) / f"{ASIDE}{secrets.token_hex(8)}"
    try:
        with beside.open("xb") as file:
            for part in parts:
                file.write(part)
        if place.exists():
            shutil.copymode(place, beside)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def write_file(path: str | os.PathLike[str], content: str | bytes | Iterable[bytes]) -> None:
    """Write a file that the user has named, in one step; `QuantVizError` if it cannot be written."""
    try:
        put_whole(path, content)
    except (OSError, ValueError) as error:  # a name can have a NUL in it
        raise cannot_write(path, error) from None


def cannot_write(path: str | os.PathLike[str], error: Exception) -> QuantVizError:
    system = (error.strerror if isinstance(error, OSError) else str(error)) or ""
    key = "disk_full" if is_full(error) else _REASONS.get(type(error), "system")
    reason = QuantVizError(f"cli.{key}", system=system)
    return QuantVizError("cli.cannot_write", file=str(path), reason=reason)


def is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


_REASONS: dict[type[Exception], str] = {
    IsADirectoryError: "is_folder",
    FileNotFoundError: "no_folder",
    PermissionError: "no_permission",
}


def own_folder(name: str) -> Path | None:
    """Return this user's cache folder `name`; None if it is not writable or others can write to it.

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
    """Return whether no other user can put files here: files from here are run or shown to others."""
    if sys.platform == "win32":
        return True
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
