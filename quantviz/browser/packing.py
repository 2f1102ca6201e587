"""Pack numbers for a script: a JSON header and arrays in one run of bytes; `page/component.js` reads it."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def pack(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the message: the header's length, the header as JSON, then the arrays, each at a multiple of 8.

    Args:
        header: Values that JSON has; lists and dictionaries as the script is to have them.
        arrays: By the path of their place in the header, "picture.values" for one beside its other entries.
    """
    places: dict[str, tuple[str, int, int]] = {}
    parts: list[bytes] = []
    offset = 0
    for way, array in arrays.items():
        # A number beyond its type ends here, where it would be another one there.
        data = np.ascontiguousarray(array.astype(_plain_dtype(array), casting="same_value", copy=False))
        places[way] = (f"{data.dtype.kind}{data.dtype.itemsize}", offset, data.size)
        parts += [data.tobytes(), bytes(-data.nbytes % 8)]
        offset += data.nbytes + -data.nbytes % 8
    # In fewer bytes than with spaces, and with signs escaped, as those of Chinese.
    text = json.dumps({**header, "arrays": places}, ensure_ascii=False, separators=(",", ":"))
    head = text.encode("utf-8", "replace")
    # Spaces at its end bring the arrays after it to a multiple of 8.
    head += b" " * (-(len(head) + 4) % 8)
    return b"".join((struct.pack("<I", len(head)), head, *parts))


def _plain_dtype(array: npt.NDArray[Any]) -> np.dtype[Any]:
    """Return the little-endian type; 4-byte integers for 8-byte ones, which JavaScript reads as BigInt."""
    dtype = np.dtype(np.int32) if array.dtype.kind in "iu" and array.dtype.itemsize == 8 else array.dtype
    return dtype.newbyteorder("<")
