"""The bytes of a file, the JSON in them, and errors that name it."""

from __future__ import annotations

import functools
import json
import math
import mmap
import os
import re
import shlex
import stat
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Protocol, cast

from quantviz.errors import QuantVizError
from quantviz.sources.limits import Limits, setting_of

#: Characters of a name that an error repeats.
_LONGEST_NAME = 80
#: With fewer, reads from disk start later and take more of a processor; with more, the bytes have left a
#: core's cache before they are decoded.
_BYTES_PER_READ = 2**21


#: Pieces as uploaders and `split` name them: m.gguf.part1of2, m.gguf-split-a, m.gguf.part-aa, m.gguf.001.
_PIECE = re.compile(
    r"(?P<whole>.+\.(gguf|safetensors|sft|bin|pth?|ckpt|onnx|onnx_data|np[yz]|tflite|zip))"
    r"([._-](part|split|chunk|piece)[._-]?|\.(?=\d+$|[a-z]{2}$))"
    r"(?P<at>(\d{1,4}|[a-z]{1,3})([._-]?of[._-]?\d{1,4})?)",
    re.ASCII | re.IGNORECASE,
)
#: Names that lead out of a folder, on one system or another.
_ELSEWHERE = re.compile(r"[\\\0]|^[A-Za-z]:")
#: Bytes above which a header's total is damage, and not that of a file that was cut short.
MOST_LIKELY = 2**50
_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")

#: Without waiting: a pipe with no writer would block forever.
READ_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)


class OpenFile:
    """A plain file on disk that stays open as long as this object exists, with a check for changes.

    If a mapped file is cut short, the next access to the map kills the process, so users of a map call
    `check` first.
    """

    bytes_per_read = _BYTES_PER_READ

    def __init__(self, descriptor: int, name: str, path: Path) -> None:
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._name = name
        #: Where systems have it: a path to this very file, even if another has taken its place since.
        by_number = Path(f"/dev/fd/{descriptor}")
        self.path = by_number if by_number.exists() else path
        self._first = os.fstat(self.descriptor)
        if stat.S_ISDIR(self._first.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(self._first.st_mode):
            raise OSError

    @property
    def size(self) -> int:
        return self._first.st_size

    def check(self) -> None:
        """Raise a `QuantVizError` if the file has been changed since it was opened."""
        now = os.fstat(self.descriptor)
        if (now.st_size, now.st_mtime_ns) != (self._first.st_size, self._first.st_mtime_ns):
            raise QuantVizError("file.changed", file=clipped(self._name))

    def read_into(self, part: memoryview, start: int) -> None:
        """Fill `part` past the map: mapped pages are not read ahead.

        Raises:
            QuantVizError: The file ends before.
        """
        done = 0
        while done < len(part):
            got = os.preadv(self.descriptor, [part[done:]], start + done)
            if not got:
                raise QuantVizError("file.changed", file=clipped(self._name))
            done += got


class ByteSource(Protocol):
    bytes_per_read: int

    def check(self) -> None: ...

    def read_into(self, part: memoryview, start: int) -> None:
        """Fill `part` from `start` on; raise `QuantVizError` if the bytes cannot be read."""


class BytesHeld:
    bytes_per_read = _BYTES_PER_READ

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def check(self) -> None:
        """Bytes in memory do not change."""

    def read_into(self, part: memoryview, start: int) -> None:
        part[:] = self._view[start : start + len(part)]


class FileData:
    """The bytes of a file, and its name for messages.

    `beside` opens a file of the same folder, or below it, by its name; for a path that is the folder of the
    file, and an upload has none.
    """

    #: A text that changes with the content, where another machine provides one.
    version = ""

    def __init__(
        self,
        content: str | PurePath | bytes | bytearray | memoryview | OpenFile,
        filename: str | None,
        *,
        beside: Callable[[str], FileData] | None = None,
    ) -> None:
        check_kinds(content, filename)
        path = Path(content) if isinstance(content, str | PurePath) else None
        #: Without its folders: an error never shows where a server keeps its files.
        self.name = "?"
        if filename:
            self.name = PurePath(filename.replace("\\", "/")).name or "?"
        elif path:
            self.name = path.name or str(path) or "?"
        #: Of a zip: each reader needs them.
        self.members: list[str] | None = None
        #: The dtype that the user chose for elements of which the file has only their bytes.
        self.stored_as = ""
        self._map: mmap.mmap | None = None
        self._content = b"" if path or isinstance(content, OpenFile) else bytes(cast("bytes", content))
        self._view = memoryview(self._content)
        self._beside = beside or (functools.partial(_beside, path) if path else None)
        #: None for an upload, which cannot change.
        self.opened: OpenFile | None = None
        if path:
            self.opened = self._opened(path)
        elif isinstance(content, OpenFile):
            self.opened = content
        self.closed = False
        #: For libraries that open the file themselves.
        self.path = self.opened.path if self.opened else None
        if self.opened and self.opened.size:
            try:
                self._map = mmap.mmap(self.opened.descriptor, 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                raise self.error("not_readable") from None
            self._view = memoryview(self._map)

    def _opened(self, path: Path) -> OpenFile:
        try:
            return OpenFile(os.open(path, READ_FLAGS), self.name, path)
        except (FileNotFoundError, NotADirectoryError):
            raise self.error("missing") from None
        except IsADirectoryError:
            raise self.error("is_folder") from None
        except (OSError, ValueError):
            raise self.error("not_readable") from None

    def beside(self, name: str) -> FileData:
        """Return the file of that name in the same folder, or below it; `QuantVizError` for any other."""
        if not _is_below(name):
            raise self.error("shard_outside", shard=clipped(name))
        if self._beside is None:
            raise self.error("shards_elsewhere")
        return self._beside(name)

    def is_beside(self, name: str) -> bool:
        try:
            self.beside(name).close()
        except QuantVizError:
            return False
        return True

    def check(self) -> None:
        if self.closed:
            raise self.error("closed")
        if self.opened:
            self.opened.check()

    @property
    def size(self) -> int:
        return len(self._view)

    @property
    def suffix(self) -> str:
        return PurePath(self.name).suffix.lower()

    @property
    def stem(self) -> str:
        return PurePath(self.name).stem

    @property
    def view(self) -> memoryview:
        return self._view

    def part(self, start: int, stop: int) -> memoryview:
        """Return these bytes as far as the file goes, read-only: of a remote file only they are fetched."""
        return self.view[start:stop]

    def answered(self, question: Any) -> Any:
        """Answer the process that reads a remote file for this one; `QuantVizError` for no such answer."""
        raise self.error("not_readable")

    @property
    def source(self) -> ByteSource:
        return self.opened if self.opened and hasattr(os, "preadv") else BytesHeld(self.view)

    def expect(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Announce the next ranges: small parts of a remote file come in one request."""

    def header_read(self) -> None:
        """Note that the tensors are listed: from now on only their own bytes are read."""

    def stream(self) -> BinaryIO:
        return self.path.open("rb") if self.path else BytesIO(self._content)

    def close(self) -> None:
        """Close the file and release its map."""
        self.closed = True
        # A view of the map that is still in use, in a traceback perhaps, holds it open.
        with suppress(BufferError):
            self._view.release()
            if self._map:
                self._map.close()
        self.opened = None

    def error(self, key: str, /, **params: object) -> QuantVizError:
        return QuantVizError(f"file.{key}", file=clipped(self.name), **params)

    def beyond(self, key: str, limits: Limits, limit: str, got: int, **params: object) -> QuantVizError:
        most = getattr(limits, limit)
        setting = setting_of(limit)
        return self.error(key, got=got, most=most, setting=setting, **params)


class RemoteData(FileData):
    #: Of a header; twice as many each time, so that a long one takes few requests.
    first_bytes: int

    def __init__(self, name: str, *, beside: Callable[[str], FileData] | None = None) -> None:
        super().__init__(b"", name, beside=beside)
        #: While the header is read.
        self._head: memoryview | None = memoryview(b"")

    def fetched(self, start: int, stop: int) -> memoryview:
        raise NotImplementedError

    @property
    def view(self) -> memoryview:
        return self.part(0, self.size)

    def part(self, start: int, stop: int) -> memoryview:
        stop = max(start, min(stop, self.size))
        if self._head is None:
            return self.fetched(start, stop)
        if stop > len(self._head):
            whole = min(self.size, max(stop, 2 * len(self._head), self.first_bytes))
            self._head = memoryview(bytes(self._head) + bytes(self.fetched(len(self._head), whole)))
        return self._head[start:stop]

    def header_read(self) -> None:
        self._head = None

    def stream(self) -> BinaryIO:
        raise self.error("not_readable")


def check_kinds(content: object, filename: object) -> None:
    if not isinstance(content, str | PurePath | bytes | bytearray | memoryview | OpenFile):
        raise QuantVizError("file.no_path", got=type(content).__name__)
    if filename is not None and not isinstance(filename, str):
        raise QuantVizError("file.no_filename", got=type(filename).__name__)
    # Path("") is the folder one is in.
    if content == "":
        raise QuantVizError("file.no_path", got="''")


def _beside(path: Path, name: str) -> FileData:
    # Links are followed wherever they lead, as in a cache of links: it is the caller's own disk.
    return FileData(path.parent / name, name)


def _is_below(name: str) -> bool:
    """Return whether a name leads to a file in the same folder or below it, and to no hidden one.

    >>> [_is_below(name) for name in ("model.onnx_data", "weights/1.bin", "../etc/passwd", "C:x")]
    [True, True, False, False]
    """
    parts = name.split("/")
    return not any(part in ("", ".") or part.startswith(".") for part in parts) and not _ELSEWHERE.search(
        name
    )


def raw_part(name: str) -> QuantVizError | None:
    """Return the error of a piece of a file that was cut up, by its name."""
    named = _PIECE.fullmatch(name)
    if named is None:
        return None
    whole = named["whole"]
    pieces = f"$(ls {shlex.quote(name[: named.start('at')])}* | sort -V)"
    names = {"file": clipped(name), "whole": clipped(whole)}
    return QuantVizError("file.raw_part", **names, pieces=pieces, target=shlex.quote(whole))


def cut_short(data: FileData, wanted: int) -> QuantVizError:
    if problem := raw_part(data.name):
        return problem
    sizes = size_text(wanted), size_text(data.size)
    if sizes[0] == sizes[1]:
        sizes = f"{wanted:,} B", f"{data.size:,} B"
    return data.error("cut_short", wanted=sizes[0], there=sizes[1])


def size_text(count: int) -> str:
    """Return a number of bytes as people read it.

    >>> size_text(4_912_345_678), size_text(98_304), size_text(14)
    ('4.9 GB', '98 kB', '14 B')
    """
    if count < 1000:
        return f"{count} B"
    power = min((len(str(count)) - 1) // 3, len(_UNITS))
    number = count / 1000**power
    return f"{number:.1f} {_UNITS[power - 1]}" if number < 10 else f"{number:.0f} {_UNITS[power - 1]}"


def clipped(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


# ---- JSON: no entry twice, no endless lists, no number lost -------------------------------------


class _DuplicateName(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise _DuplicateName(name)
        entries[name] = value
    return entries


class _Beyond(float):
    """Infinity, where a number stands that is too large for Python; the word Infinity gives a plain one."""

    _digits: str

    def __new__(cls, digits: str) -> _Beyond:
        beyond = super().__new__(cls, digits)
        beyond._digits = digits
        return beyond

    def __str__(self) -> str:
        return self._digits


def _number(digits: str) -> float:
    value = float(digits)
    return _Beyond(digits) if math.isinf(value) else value


def parsed_json(data: FileData, view: memoryview, limits: Limits) -> Any:
    """Return the JSON in a part of the file; refuse an object with two entries of one name."""
    raw = bytes(view)
    if (brackets := raw.count(b"[") + raw.count(b"{")) > limits.brackets:
        raise data.beyond("too_many_lists", limits, "brackets", brackets)
    try:
        return json.loads(raw, object_pairs_hook=_no_duplicates, parse_float=_number)
    except _DuplicateName as duplicate:
        raise data.error("duplicate_name", name=clipped(str(duplicate))) from None
