""".npy: one NumPy array. NumPy's own reader of headers knows no marks of ml_dtypes: "<V2" and "<f1"."""

from __future__ import annotations

import functools
import math
import os
import re
import struct
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, NamedTuple

from quantviz.errors import QuantVizError
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Shape
from quantviz.sources.files.catalog import Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData, clipped

if TYPE_CHECKING:
    from quantviz.sources.files.mapped import Packing, StoredRows

MAGIC = b"\x93NUMPY"
#: The longest header, in bytes: NumPy itself refuses longer ones unless the caller trusts the file.
_LONGEST_HEADER = 2**16

_DESCR = re.compile(r"""['"]descr['"]\s*:\s*['"]([<>|=]?)([A-Za-z])(\d{0,9})(\[\w+\])?['"]""")
_ORDER = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(((?:\s*\d{1,18}L?\s*,)*(?:\s*\d{1,18}L?)?)\s*\)""")
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
_OTHER_KINDS = {
    **{"b": "bool", "O": "object", "U": "string", "S": "bytes", "M": "datetime", "m": "timedelta"},
    "V": "void",
}
#: The dtypes of ml_dtypes that a header identifies: NumPy's own bytes have no order, "|V2".
_OF_ML_DTYPES = {"<V2": "bfloat16", ">V2": "bfloat16", "<f1": "float8_e5m2", "|f1": "float8_e5m2"}
#: The environment variable that names the dtype of arrays of bytes: ml_dtypes saves FP8 and all else of one
#: byte as "<V1".
STORED_AS = "QUANTVIZ_NPY_DTYPE"
#: Its possible values, by the bytes of an element: dtypes of torch, and formats that ml_dtypes puts in bytes.
_NAMED = {
    1: (
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
        *("float8_e3m4", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
        *("int4", "uint4", "int2", "uint2", "int8", "uint8"),
    ),
    2: ("bfloat16", "float16", "int16", "uint16"),
}


class NpyHeader(NamedTuple):
    #: The dtype, as torch spells it where torch has it.
    dtype: str
    shape: Shape
    #: The first axis runs fastest.
    fortran_order: bool
    #: In the order of bytes that this machine does not use.
    swapped: bool
    item_bytes: int
    offset: int
    #: The header has only the number of bytes of an element, and no dtype.
    unnamed: bool = False

    @property
    def data_bytes(self) -> int:
        return self.item_bytes * math.prod(self.shape)


def read_header(stream: IO[bytes]) -> NpyHeader | None:
    """Return None if the stream has no valid header."""
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
    if len(header) < length:
        return None
    return _parse(header.decode("utf-8", "replace"), 8 + len(raw_length) + length)


@functools.lru_cache(maxsize=64)  # the members of an archive often have the same
def _parse(header: str, offset: int) -> NpyHeader | None:
    order = _ORDER.search(header)
    shape = _SHAPE.search(header)
    if not order or not shape:
        return None
    lengths = tuple(int(length.rstrip("Ll")) for length in shape[1].replace(" ", "").split(",") if length)
    descr = _DESCR.search(header)
    if not descr:
        return NpyHeader("structured", lengths, order[1] == "True", False, 0, offset)
    size = int(descr[3] or 0)
    name = f"{_KINDS[descr[2]]}{8 * size}" if descr[2] in _KINDS else _OTHER_KINDS.get(descr[2], "unknown")
    known = _OF_ML_DTYPES.get(f"{descr[1]}{descr[2]}{size}")
    unnamed = known is None and descr[2] == "V" and size in _NAMED
    name = known or name
    swapped = size > 1 and {"<": "little", ">": "big"}.get(descr[1], sys.byteorder) != sys.byteorder
    return NpyHeader(name, lengths, order[1] == "True", swapped, size, offset, unnamed)


def dtypes_of(problem: QuantVizError | None) -> tuple[str, ...]:
    """Return the possible dtypes of an array whose header has none."""
    if problem is None or problem.key != "file.npy_unnamed":
        return ()
    size = problem.params["bytes"]
    return _NAMED.get(size, ()) if isinstance(size, int) else ()


def stored_as(header: NpyHeader, data: FileData) -> NpyHeader:
    """Return the header with the dtype from the user or the environment, if it has none of its own.

    Raises:
        QuantVizError: There is no such dtype with the header's bytes an element.
    """
    named = data.stored_as or os.environ.get(STORED_AS, "")
    if not header.unnamed or not named:
        return header
    known = _NAMED[header.item_bytes]
    if named not in known:
        everything = (each for names in _NAMED.values() for each in names)
        if named in everything:
            return header  # it is meant for arrays of another size
        raise QuantVizError("file.npy_dtype", file=clipped(data.name), got=named, known=", ".join(known))
    return header._replace(dtype=named, unnamed=False)


def info_of(name: str, header: NpyHeader, shape: Shape, data: FileData) -> TensorInfo | None:
    """Return None for an array of NumPy's own dtypes."""
    if header.unnamed:
        problem = data.error("npy_unnamed", name=clipped(name), bytes=header.item_bytes, setting=STORED_AS)
        return TensorInfo(f"void{8 * header.item_bytes}", shape, problem=problem)
    if header.dtype in _NAMED[1]:
        return TensorInfo(header.dtype, shape)
    return None


def stored_rows_at(header: NpyHeader, start: int) -> StoredRows:
    import torch

    from quantviz.sources.files.mapped import StoredRows, packing_of, plain

    packing = _in_bytes(header.dtype) if header.item_bytes == 1 else None
    if packing is None:
        swapped = header.swapped
        packing = plain(getattr(torch, header.dtype), swapped=True) if swapped else packing_of(header.dtype)
    return StoredRows(start, packing, turned=header.fortran_order)


def _in_bytes(dtype: str) -> Packing | None:
    """Return the packing of codes, each in a byte; None for torch's own dtypes."""
    import torch

    from quantviz.sources.files.mapped import by_table, values_of

    if dtype in ("int8", "uint8") or dtype not in FORMATS:
        return None
    table = values_of(dtype)
    return by_table(table[torch.arange(256) % len(table)])


class NpyCatalog(Catalog):
    """The one array of a .npy, named after the file."""

    kind = ".npy"
    suffixes = (".npy",)
    of_models = False
    snippet = 'import numpy\nx = numpy.load({file!r}, mmap_mode="r")[:512]\nnumpy.save("cut_out.npy", x)'

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return bytes(data.view[: len(MAGIC)]) == MAGIC

    def _list(self) -> Mapping[str, TensorInfo]:
        with self._data.stream() as stream:
            header = read_header(stream)
        if header is None:
            raise self._data.error("damaged", kind=self.kind)
        name = self._data.stem
        shape = self._shape(self._data.stem, header.shape)
        self._header = header = stored_as(header, self._data)
        info = info_of(name, header, shape, self._data) or self._info(name, header.dtype, shape)
        if info.problem is None and self._data.size - header.offset < header.data_bytes:
            raise self._cut_short(self._data.stem, header.offset + header.data_bytes)
        return {self._data.stem: info}

    def _stored_rows(self, name: str) -> StoredRows:
        return stored_rows_at(self._header, self._header.offset)
