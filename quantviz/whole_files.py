"""Write files in one step: another process or session that reads one meanwhile gets the old content or the
new, never a part of either.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from quantviz.errors import QuantVizError

#: Prefix of unfinished files. One whose process was killed can be deleted.
ASIDE = "tmp_quantviz_"


def put_whole(path: str | os.PathLike[str], content: str | bytes, aside: Path | None = None) -> None:
    """Write a file beside its place and move it there. It replaces an old file and keeps that one's mode.

    A device or a named pipe is written to directly.

    Args:
        path: The place of the file.
        content: The whole content; text is written as UTF-8.
        aside: The folder of the unfinished file, on the same disk; by default that of `path`.

    Raises:
        OSError: It cannot be written. The old file is unchanged.
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
    """Write a file that the user has named, in one step; `QuantVizError` if it cannot be written."""
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
