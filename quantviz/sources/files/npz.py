""".npz: a zip of .npy members. NumPy's own reader unpacks an array whole; here windows of it are read."""

from __future__ import annotations

import struct
import sys
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, cast

from quantviz.schemes.granularity import Shape, Window
from quantviz.sources.files.catalog import Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData, clipped
from quantviz.sources.files.npy import NpyHeader, info_of, read_header, stored_as, stored_rows_at
from quantviz.sources.files.windows import indices, pieces, window_shape
from quantviz.sources.files.zips import member_names, opened_zip

if TYPE_CHECKING:
    import torch

#: The compression methods of members, which are those of NumPy.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1
#: The header before a member: a magic number and, at the end, the lengths of two texts that follow.
_LOCAL = struct.Struct("<4s22xHH")
_LOCAL_MAGIC = b"PK\x03\x04"
_BYTES_PER_READ = 2**24


class NpzCatalog(Catalog):
    kind = ".npz"
    suffixes = (".npz",)
    snippet = 'import numpy\nx = numpy.load({file!r})[{name!r}][:512]\nnumpy.save("cut_out.npy", x)'

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return any(name.endswith(".npy") for name in member_names(data))

    def _list(self) -> Mapping[str, TensorInfo]:
        self._members: dict[str, tuple[zipfile.ZipInfo, NpyHeader]] = {}
        infos: dict[str, TensorInfo] = {}
        read = 0
        with opened_zip(self._data, self._limits) as archive:
            self._check_count(len(archive.infolist()))
            for member in archive.infolist():
                if not member.filename.endswith(".npy"):
                    continue
                name = member.filename.removesuffix(".npy")
                if name in infos:
                    raise self._data.error("duplicate_name", name=clipped(name))
                infos[name] = self._member_info(archive, member, name)
                # A packed header of spaces takes a hundred bytes of the file and a thousand times that to
                # read.
                read += self._members[name][1].offset if name in self._members else 0
                self._check_header(read)
        return infos

    def _member_info(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> TensorInfo:
        if member.flag_bits & _ENCRYPTED or member.compress_type not in _PACKINGS:
            return TensorInfo("unknown", (), problem=self._damaged(name))
        with archive.open(member) as packed:
            header = read_header(packed)
        if header is None:
            return TensorInfo("unknown", (), problem=self._damaged(name))
        header, shape = stored_as(header, self._data), self._shape(name, header.shape)
        self._members[name] = member, header
        info = info_of(name, header, shape, self._data) or self._info(name, header.dtype, shape)
        # The size the zip declares and the one the array declares must agree before anything is inflated.
        if info.problem is None and member.file_size != header.offset + header.data_bytes:
            return TensorInfo(info.dtype, info.shape, problem=self._damaged(name))
        # It is turned as a whole.
        if info.problem is None and header.fortran_order and info.count > self._limits.elements:
            return TensorInfo(info.dtype, info.shape, problem=self._too_large(name, info.count))
        return info

    def _parts(self, name: str, window: Window) -> Iterator[torch.Tensor]:
        import torch

        member, header = self._members[name]
        with self._data.stream() as stream:
            # The directory was read when the file was opened: one of many members takes seconds to read
            # again.
            stream.seek(_start_of(self._data, member))
            packed = cast("IO[bytes]", zipfile.ZipExtFile(stream, "r", member))
            _skip(packed, header.offset)
            if not header.fortran_order:
                yield from self._unpacked(name, packed, header, header.shape, window)
                _skip(packed, sys.maxsize)  # the check sum is at the end
                return
            # The first axis runs fastest: the same bytes, read with the axes in reverse.
            turned = torch.cat(list(self._unpacked(name, packed, header, header.shape[::-1], window[::-1])))
            _skip(packed, sys.maxsize)
        lengths = window_shape(window)
        straight = turned.reshape(lengths[::-1]).permute(*reversed(range(len(lengths))))
        for piece in pieces(
            tuple(slice(0, length, 1) for length in lengths), _BYTES_PER_READ // header.item_bytes
        ):
            yield straight[piece].flatten()

    def _unpacked(
        self, name: str, packed: IO[bytes], header: NpyHeader, shape: Shape, window: Window
    ) -> Iterator[torch.Tensor]:
        """Yield the window of an array that lies row by row in a stream, some elements at a time."""
        import numpy
        import torch

        packing = stored_rows_at(header, 0).packing
        at = 0
        for start, stop, lengths, strides in _runs(shape, window, _BYTES_PER_READ // header.item_bytes):
            _skip(packed, (start - at) * header.item_bytes)
            raw = bytearray((stop - start) * header.item_bytes)
            if _fill(packed, memoryview(raw)) < len(raw):
                raise self._damaged(name)
            at = stop
            items = numpy.frombuffer(raw, dtype=f"V{header.item_bytes}")
            steps = [stride * header.item_bytes for stride in strides]
            strided = numpy.lib.stride_tricks.as_strided(items, lengths, steps, writeable=False)
            part = numpy.array(strided, order="C")
            yield packing.decode(torch.from_numpy(part.reshape(-1, 1).view(numpy.uint8))).flatten()


def _start_of(data: FileData, member: zipfile.ZipInfo) -> int:
    """Return the offset of the packed bytes, behind the member's own header."""
    local = bytes(data.view[member.header_offset : member.header_offset + _LOCAL.size])
    magic, name_length, extra_length = cast("tuple[bytes, int, int]", _LOCAL.unpack(local))
    if magic != _LOCAL_MAGIC:
        raise zipfile.BadZipFile
    return member.header_offset + _LOCAL.size + name_length + extra_length


def _runs(shape: Shape, window: Window, most: int) -> Iterator[tuple[int, int, Shape, Shape]]:
    """Yield runs of elements that together hold the window: start, stop, and the lengths and strides of the
    wanted elements in each.

    >>> list(_runs((4, 5), (slice(0, 4, 1), slice(1, 3, 1)), 10))
    [(1, 8, (2, 2), (5, 1)), (11, 18, (2, 2), (5, 1))]
    """
    wanted = [indices(part) for part in window]
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    yield from _cut(wanted, strides, most)


def _cut(wanted: list[range], strides: list[int], most: int) -> Iterator[tuple[int, int, Shape, Shape]]:
    start = sum(each[0] * stride for each, stride in zip(wanted, strides, strict=True))
    stop = sum(each[-1] * stride for each, stride in zip(wanted, strides, strict=True)) + 1
    axis = next((axis for axis, each in enumerate(wanted) if len(each) > 1), None)
    if axis is None or stop - start <= most:
        steps = tuple(each.step * stride for each, stride in zip(wanted, strides, strict=True))
        yield start, stop, tuple(map(len, wanted)), steps
        return
    indices_per_read = max(1, most // (wanted[axis].step * strides[axis]))
    for first in range(0, len(wanted[axis]), indices_per_read):
        some = wanted[axis][first : first + indices_per_read]
        yield from _cut([*wanted[:axis], some, *wanted[axis + 1 :]], strides, most)


def _fill(packed: IO[bytes], into: memoryview) -> int:
    """Read until `into` is full or the stream ends; return how far that was."""
    at = 0
    # Read at once, zipfile would put the pieces together by copying all of them for each.
    while at < len(into) and (some := packed.read(min(2**20, len(into) - at))):
        into[at : at + len(some)] = some
        at += len(some)
    return at


def _skip(packed: IO[bytes], count: int) -> None:
    while count > 0 and (some := packed.read(min(2**20, count))):
        count -= len(some)
