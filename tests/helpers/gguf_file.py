"""A writer of small .gguf files that also writes what no sound program would."""

import struct
from typing import NamedTuple

#: Types of metadata.
UINT8, UINT32, BOOL, STRING, ARRAY, FLOAT64 = 0, 4, 7, 8, 9, 12


class Entry(NamedTuple):
    """A tensor: its axes with the fastest first, the number of its type, its bytes, and its offset if it is
    not the next free one.
    """

    name: str | bytes
    axes: tuple[int, ...]
    kind: int
    data: bytes = b""
    offset: int | None = None


def string(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, value):
    """One entry of the metadata, its value in bytes."""
    return string(key) + struct.pack("<I", kind) + value


def array(kind, count, items):
    return struct.pack("<IQ", kind, count) + items


def gguf_file(entries, metadata=(), *, magic=b"GGUF", version=3, alignment=32, tensors=None, pairs=None):
    """The file's bytes. `tensors` and `pairs` are the counts it declares, if not the true ones."""
    header = magic + struct.pack(
        "<IQQ",
        version,
        len(entries) if tensors is None else tensors,
        len(metadata) if pairs is None else pairs,
    )
    header += b"".join(metadata)
    body = b""
    for entry in entries:
        offset = len(body) if entry.offset is None else entry.offset
        header += string(entry.name) + struct.pack(
            f"<I{len(entry.axes)}QIQ", len(entry.axes), *entry.axes, entry.kind, offset
        )
        body += entry.data + bytes(-len(entry.data) % alignment)
    return header + bytes(-len(header) % alignment) + body
