""".npy: one NumPy array. The header is read here, so that nothing of it is evaluated."""

from __future__ import annotations

import functools
import math
import re
import struct
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from quantviz.schemes.granularity import Shape
from quantviz.sources.files.catalog import Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData

if TYPE_CHECKING:
    from quantviz.sources.files.mapped import Lies

MAGIC = b"\x93NUMPY"
#: numpy itself refuses longer headers unless it is told to trust the file.
_LONGEST_HEADER = 2**16

_DESCR = re.compile(r"""['"]descr['"]\s*:\s*['"]([<>|=]?)([A-Za-z])(\d{0,9})(\[\w+\])?['"]""")
_ORDER = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(((?:\s*\d{1,18}L?\s*,)*(?:\s*\d{1,18}L?)?)\s*\)""")
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
_OTHER_KINDS = {
    "b": "bool",
    "O": "object",
    "U": "string",
    "S": "bytes",
    "M": "datetime",
    "m": "timedelta",
    "V": "void",
}


class NpyHeader(NamedTuple):
    """What the header of a .npy says."""

    #: As torch spells it, where torch has it.
    dtype: str
    shape: Shape
    #: Whether the first axis runs fastest.
    fortran_order: bool
    #: Whether bytes are in the order this machine does not use.
    swapped: bool
    item_bytes: int
    #: Where the values start.
    offset: int

    @property
    def data_bytes(self) -> int:
        """Return bytes of the values."""
        return self.item_bytes * math.prod(self.shape)


def read_header(stream: BinaryIO) -> NpyHeader | None:
    """Return the header at the start of `stream`; None if there is none that makes sense."""
    start = stream.read(10)
    if len(start) < 10 or not start.startswith(MAGIC) or start[6] not in (1, 2, 3):
        return None
    raw_length = start[8:10] if start[6] == 1 else start[8:10] + stream.read(2)
    if len(raw_length) != (2 if start[6] == 1 else 4):
        return None
    length: int = struct.unpack("<H" if start[6] == 1 else "<I", raw_length)[0]
    if length > _LONGEST_HEADER:
        return None
    header = stream.read(length)
    return (
        _parse(header.decode("utf-8", "replace"), 8 + len(raw_length) + length)
        if len(header) == length
        else None
    )


@functools.lru_cache(maxsize=64)  # the members of an archive often have the same
def _parse(header: str, offset: int) -> NpyHeader | None:
    order, shape = _ORDER.search(header), _SHAPE.search(header)
    if not order or not shape:
        return None
    lengths = tuple(int(length.rstrip("Ll")) for length in shape[1].replace(" ", "").split(",") if length)
    descr = _DESCR.search(header)
    if not descr:
        return NpyHeader("structured", lengths, order[1] == "True", False, 0, offset)
    size = int(descr[3] or 0)
    name = f"{_KINDS[descr[2]]}{8 * size}" if descr[2] in _KINDS else _OTHER_KINDS.get(descr[2], "unknown")
    swapped = size > 1 and {"<": "little", ">": "big"}.get(descr[1], sys.byteorder) != sys.byteorder
    return NpyHeader(name, lengths, order[1] == "True", swapped, size, offset)


def lies_at(header: NpyHeader, start: int) -> Lies:
    """Return how the values that `header` describes lie from `start` on."""
    import torch

    from quantviz.sources.files.mapped import Lies, plain

    return Lies(
        start, plain(getattr(torch, header.dtype), swapped=header.swapped), turned=header.fortran_order
    )


class NpyCatalog(Catalog):
    """The one array of a .npy, named after the file."""

    kind = ".npy"
    suffixes = (".npy",)
    snippet = 'import numpy\nx = numpy.load({file!r}, mmap_mode="r")[:512]\nnumpy.save("cut_out.npy", x)'

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return bytes(data.view[: len(MAGIC)]) == MAGIC

    def _list(self) -> Mapping[str, TensorInfo]:
        with self._data.stream() as stream:
            header = read_header(stream)
        if header is None:
            raise self._data.error("damaged", kind=self.kind)
        self._header = header
        info = self._info(self._data.stem, header.dtype, self._shape(self._data.stem, header.shape))
        if info.problem is None and self._data.size - header.offset < header.data_bytes:
            raise self._cut_short(self._data.stem, header.offset + header.data_bytes)
        return {self._data.stem: info}

    def _lies(self, name: str) -> Lies:
        return lies_at(self._header, self._header.offset)
