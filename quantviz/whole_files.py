"""Files that are put down whole: whoever reads one meanwhile, another process or session, finds the old one
or the new one, and never half of either.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from quantviz.errors import QuantVizError

#: How the names begin of files that are being written; one that was left by a process which was ended can be
#: removed.
ASIDE = "tmp_quantviz_"


def put_whole(path: str | os.PathLike[str], content: str | bytes, aside: Path | None = None) -> None:
    """Write a file beside its place and move it there; what is there is replaced, and keeps its mode.

    A device, or a named pipe, is written to where it is.

    Args:
        path: Where the file belongs; text is written as UTF-8.
        content: All of it.
        aside: The folder in which it is written, of the same disk; that of `path` where it is not given.

    Raises:
        OSError: It cannot be written. Then what was there is as it was.
    """
    raw = content.encode("utf-8") if isinstance(content, str) else content
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        place.write_bytes(raw)
        return
    beside = (aside or place.parent) / f"{ASIDE}{secrets.token_hex(8)}"
    try:
        with beside.open("xb") as file:
            file.write(raw)
        if place.exists():
            shutil.copymode(place, beside)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file that a person has named, all at once; `QuantVizError` where it cannot be."""
    try:
        put_whole(path, content)
    except (OSError, ValueError) as error:  # a name can have a NUL in it
        raise cannot_write(path, error) from None


def cannot_write(path: str | os.PathLike[str], error: Exception) -> QuantVizError:
    """Return the sentence for a file that cannot be written."""
    said = (error.strerror if isinstance(error, OSError) else str(error)) or ""
    reason = QuantVizError(f"cli.{_REASONS.get(type(error), 'system')}", system=said)
    return QuantVizError("cli.cannot_write", file=str(path), reason=reason)


_REASONS: dict[type[Exception], str] = {
    IsADirectoryError: "is_folder",
    FileNotFoundError: "no_folder",
    PermissionError: "no_permission",
}
