"""The wire format of protocol buffers, field by field; fields that are not needed are skipped.

The package `protobuf` holds a message whole: of a model of 256 MiB it takes 512 more, and this 16.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


VARINT = 0
FIXED64 = 1
BYTES = 2
FIXED32 = 5
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
#: Bytes of integers of varying length that are decoded at a time.
_BYTES_PER_CHUNK = 2**20
LONGEST_VARINT = 10
#: Tags of the lowest number and from which on the numbers end.
_LOWEST_TAG = 1 << 3
_TAGS_END = 2**29 << 3


class DamagedMessage(Exception):
    pass


class WireField(NamedTuple):
    number: int
    wire: int
    #: Of the bytes of its value.
    start: int
    stop: int
    #: The value of a varint.
    value: int = 0


def read_varint(view: memoryview, at: int, stop: int) -> tuple[int, int]:
    """Return the number, below 2^64, and the place after it."""
    number = 0
    for place in range(at, min(stop, at + LONGEST_VARINT)):
        byte = view[place]
        number |= (byte & 0x7F) << 7 * (place - at)
        if byte < 0x80:
            if number >= 2**64:
                break
            return number, place + 1
    raise DamagedMessage


#: Makes a `WireField` of a tuple; its own constructor takes three times as long, and a model has a million.
_field = functools.partial(tuple.__new__, WireField)


def message_fields(view: memoryview, start: int, stop: int, *, cut: bool = False) -> Iterator[WireField]:
    """Yield the fields from `start` to before `stop`, in order, each inside it.

    With `cut` the last one may end behind it: the message was cut short.
    """
    at = start
    while at < stop:
        # Most tags and lengths are of one byte.
        tag = view[at]
        at += 1
        if tag >= 0x80:
            tag, at = read_varint(view, at - 1, stop)
        wire = tag & 7
        if not _LOWEST_TAG <= tag < _TAGS_END:
            raise DamagedMessage
        value = 0
        if wire == BYTES:
            if at < stop and view[at] < 0x80:
                length = view[at]
                at += 1
            else:
                length, at = read_varint(view, at, stop)
            end = at + length
        elif wire == VARINT:
            if at < stop and view[at] < 0x80:
                value = view[at]
                end = at + 1
            else:
                value, end = read_varint(view, at, stop)
        elif wire in _FIXED_SIZES:
            end = at + _FIXED_SIZES[wire]
        else:
            raise DamagedMessage
        if end > stop and not cut:
            raise DamagedMessage
        yield _field((tag >> 3, wire, at, end, value))
        at = end


def read_varints(view: memoryview) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield integers of varying length that lie side by side, some at a time."""
    import numpy as np

    data = np.frombuffer(view, dtype=np.uint8)
    at = 0
    while at < len(data):
        part = data[at : at + _BYTES_PER_CHUNK]
        ends = np.flatnonzero(part < 0x80)
        if not len(ends):
            raise DamagedMessage
        part = part[: ends[-1] + 1]
        starts = np.concatenate(([0], ends[:-1] + 1))
        place = np.arange(len(part)) - np.repeat(starts, ends - starts + 1)
        # The last byte of ten has room for one bit.
        if place.max() >= LONGEST_VARINT or (part[place == LONGEST_VARINT - 1] > 1).any():
            raise DamagedMessage
        yield np.bitwise_or.reduceat((part & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64), starts)
        at += len(part)
