"""The cache on disk for bytes of published models, so that nothing is fetched twice.

Nothing that a person typed, uploaded or edited comes in here. What a login may read has names of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from quantviz.whole_files import put_whole

_DIGEST = hashlib.sha256().digest_size


class ByteCache:
    """Pieces by a shelf and a name, of at most `most` bytes together; the least recently used go first.

    A piece that was damaged on the disk counts as missing. Safe for many threads and processes: a piece is
    written to a temporary file and moved to its place.
    """

    def __init__(self, folder: Path | None, most: int) -> None:
        #: Without one nothing is cached.
        self._folder = folder
        self._most = most

    def get(self, shelf: str, name: str) -> bytes | None:
        """Return a piece and mark it as used now."""
        if self._folder is None:
            return None
        path = self._folder / shelf / name
        try:
            found = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        content = found[:-_DIGEST]
        digest = found[-_DIGEST:]
        if hashlib.sha256(content).digest() != digest:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        return content

    def put(self, shelf: str, name: str, content: bytes) -> None:
        """Store a piece; the caller makes room first. On a full disk it is not stored."""
        if self._folder is None or len(content) + _DIGEST > self._most:
            return
        with contextlib.suppress(OSError):
            (self._folder / shelf).mkdir(mode=0o700, exist_ok=True)
            piece = content + hashlib.sha256(content).digest()
            put_whole(self._folder / shelf / name, piece, aside=self._folder)

    def names(self, shelf: str) -> set[str]:
        try:
            return set(os.listdir(self._folder / shelf)) if self._folder else set()
        except OSError:
            return set()

    def drop(self, shelf: str) -> None:
        if self._folder:
            shutil.rmtree(self._folder / shelf, ignore_errors=True)

    def make_room(self, coming: int) -> None:
        """Remove pieces until the rest and the coming bytes fit."""
        if self._folder is None:
            return
        pieces = []
        # Temporary files of processes that ended while writing lie beside the shelves.
        for path in (*self._folder.glob("*/*"), *self._folder.glob("tmp*")):
            with contextlib.suppress(OSError):
                found = path.stat()
                pieces.append((found.st_mtime, found.st_size, path))
        held = sum(size for _, size, _ in pieces) + coming
        for _, size, path in sorted(pieces):
            if held <= self._most:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                held -= size
                path.parent.rmdir()  # refused as long as a piece lies on the shelf
