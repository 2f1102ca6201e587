"""Zip files, whose list of members counts as hostile too."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from quantviz.errors import QuantVizError
from quantviz.sources.files.file_data import FileData
from quantviz.sources.limits import Limits

_ENTRY = b"PK\x01\x02"
_MEMBER = b"PK\x03\x04"
_END = b"PK\x05\x06"
_END64 = b"PK\x06\x06"
_LOCATOR = b"PK\x06\x07"
#: Bytes of the end without a comment, of that with 64 bits, and of the place of the latter.
_END_BYTES, _END64_BYTES, _LOCATOR_BYTES = 22, 56, 20
#: Bytes from the end within which the end of the list begins: it has a comment of up to 64 KiB.
_FROM_END = 22 + 2**16
#: Members of a zip that hold no tensors: versions, byte orders and the like.
_OTHER_MEMBERS = 1000


class _Directory:
    """Refuses too long a list of members before it is parsed: a parsed one takes thirty times its bytes."""

    def __init__(self, stream: BinaryIO, data: FileData, limits: Limits) -> None:
        self._stream = stream
        self._data = data
        self._limits = limits
        self.seek = stream.seek
        self.tell = stream.tell
        self.seekable = stream.seekable
        self.listed = False

    def read(self, count: int = -1) -> bytes:
        if self.listed:
            return self._stream.read(count)
        count = count if count >= 0 else self._data.size - self.tell()
        if count > self._limits.header_bytes:
            raise self._data.beyond("header_too_large", self._limits, "header_bytes", count)
        read = self._stream.read(count)
        members = read.count(_ENTRY)
        if members > self._limits.tensors + _OTHER_MEMBERS:
            raise self._data.beyond("too_many_tensors", self._limits, "tensors", members)
        return read


@contextmanager
def opened_zip(data: FileData, limits: Limits) -> Iterator[zipfile.ZipFile]:
    """`QuantVizError` for too many members, `zipfile`'s own errors for damage."""
    with data.stream() as stream:
        directory = _Directory(stream, data, limits)
        with zipfile.ZipFile(directory) as archive:
            directory.listed = True
            yield archive


def has_one_list(data: FileData) -> bool:
    """Return whether a zip's list of members lies right before its end, and the end says so.

    `zipfile` looks there whatever the end says, and torch's reader where it says: a file could show each of
    them other members.
    """
    end = data.size - _END_BYTES
    if end < 0 or bytes(data.view[end : end + 4]) != _END or bytes(data.view[-2:]) != b"\0\0":
        return False
    length, start = struct.unpack("<2I", data.view[end + 12 : end + 20])
    locator = end - _LOCATOR_BYTES
    if locator >= _END64_BYTES and bytes(data.view[locator : locator + 4]) == _LOCATOR:
        end = locator - _END64_BYTES
        short = length, start
        length, start = struct.unpack("<2Q", data.view[end + 40 : end + 56])
        (place,) = struct.unpack("<Q", data.view[locator + 8 : locator + 16])
        sound = bytes(data.view[end : end + 4]) == _END64 and place == end
        if not sound or short != tuple(min(each, 2**32 - 1) for each in (length, start)):
            return False
    return bool(start + length == end)


def is_cut_zip(data: FileData) -> bool:
    """Return whether a zip ends before its list of members, which comes last."""
    return bytes(data.part(0, 4)) == _MEMBER and _END not in bytes(
        data.part(max(0, data.size - _FROM_END), data.size)
    )


def member_names(data: FileData) -> list[str]:
    """[] if the file is not a readable zip."""
    if data.members is None:
        data.members = _member_names(data) if bytes(data.view[:2]) == b"PK" else []
    return data.members


def _member_names(data: FileData) -> list[str]:
    try:
        with opened_zip(data, Limits()) as archive:
            return archive.namelist()
    except QuantVizError:
        raise
    except Exception:
        return []
