"""Read FlatBuffers table by table, with a check of every offset before it is followed.

The `flatbuffers` package follows a file's offsets without any check; the classes for TFLite that go with it
are hundreds of generated files. Here a handful of fields is read, each within the bytes of the file and
within the limit of a header.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from quantviz.sources.files.file_data import FileData

#: The least cost of a table, in bytes, against the limit of the header.
_TABLE_COST = 32


class DamagedBuffer(Exception):
    """The bytes are not a valid FlatBuffer."""


class FlatBuffer:
    def __init__(self, data: FileData, check: Callable[[int], None]) -> None:
        self.view = data.view
        self._size = data.size
        self._check = check
        self._seen = 0

    def table(self, at: int) -> FlatbufferTable:
        self.count(_TABLE_COST)
        return FlatbufferTable(self, at)

    def count(self, cost: int) -> None:
        """Add a cost in bytes; raise `QuantVizError` where the total exceeds the limit of a header."""
        self._seen += cost
        self._check(self._seen)

    def number(self, form: str, at: int) -> int:
        """Return the whole number at an offset; `form` is a letter of `struct`."""
        size = struct.calcsize(f"<{form}")
        if not 0 <= at <= self._size - size:
            raise DamagedBuffer
        found: int = struct.unpack_from(f"<{form}", self.view, at)[0]
        return found

    def vector(self, at: int, size: int) -> tuple[int, int]:
        """Return the offset of the first element of a vector, and the number of elements."""
        start = at + self.number("I", at)
        count = self.number("I", start)
        if start + 4 + count * size > self._size:
            raise DamagedBuffer
        return start + 4, count


class FlatbufferTable:
    """Fields by their number, each of which may be missing."""

    def __init__(self, buffer: FlatBuffer, at: int) -> None:
        self._buffer = buffer
        self._at = at
        self._fields = at - buffer.number("i", at)
        self._size = buffer.number("H", self._fields)

    def _place(self, field: int) -> int:
        slot = 4 + 2 * field
        if slot + 2 > self._size:
            return 0
        offset = self._buffer.number("H", self._fields + slot)
        return self._at + offset if offset else 0

    def number(self, field: int, form: str, otherwise: int = 0) -> int:
        at = self._place(field)
        return self._buffer.number(form, at) if at else otherwise

    def table(self, field: int) -> FlatbufferTable | None:
        at = self._place(field)
        return self._buffer.table(at + self._buffer.number("I", at)) if at else None

    def place(self, field: int, size: int) -> tuple[int, int]:
        """Return `FlatBuffer.vector` of a field."""
        at = self._place(field)
        return self._buffer.vector(at, size) if at else (0, 0)

    def numbers(self, field: int, form: str, most: int) -> tuple[int | float, ...]:
        """Return a list of numbers; a longer one than `most` is damage."""
        size = struct.calcsize(f"<{form}")
        start, count = self.place(field, size)
        if count > most:
            raise DamagedBuffer
        self._buffer.count(count * size)
        return struct.unpack_from(f"<{count}{form}", self._buffer.view, start)

    def tables(self, field: int) -> Iterator[FlatbufferTable]:
        start, count = self.place(field, 4)
        for at in range(start, start + 4 * count, 4):
            yield self._buffer.table(at + self._buffer.number("I", at))

    def text(self, field: int, longest: int) -> str:
        start, count = self.place(field, 1)
        if count > longest:
            raise DamagedBuffer
        self._buffer.count(count)
        return bytes(self._buffer.view[start : start + count]).decode("utf-8")
