""".gguf: llama.cpp's file of metadata and tensors. Read by ranges: the `gguf` package maps whole files."""

from __future__ import annotations

import bisect
import functools
import math
import struct
from collections.abc import Container, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from quantviz.errors import Note, QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files.catalog import Catalog, TensorInfo
from quantviz.sources.files.file_data import FileData, clipped, size_text
from quantviz.sources.limits import Limits

if TYPE_CHECKING:
    import torch

    from quantviz.sources.files.gguf_blocks import BlockType
    from quantviz.sources.files.mapped import StoredRows

MAGIC = b"GGUF"
#: Versions that lay a file out alike. Version 1 counted in 32 bits.
VERSIONS = (2, 3)

_ALIGNMENT = 32
_ALIGNMENT_KEY = "general.alignment"
#: The keys that llama.cpp's gguf-split writes into each part: its number from 0, and the number of parts.
_SPLIT_KEYS = ("split.no", "split.count")
#: Longest names, in bytes. llama.cpp itself stops at 64 for tensors.
_LONGEST_KEY = 2**16 - 1
_LONGEST_NAME = 1024
#: Most axes of a tensor in GGML.
_MOST_AXES = 4
#: Bytes of a long list that are read at a time.
_BYTES_PER_READ = 2**16
#: Arrays inside arrays; llama.cpp reads none.
_DEEPEST = 4

_STRING = 8
_ARRAY = 9
#: The letter of `struct` for each other type of metadata.
_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_VALUE_BYTES = {number: struct.calcsize(f"<{letter}") for number, letter in _FORMATS.items()}
#: Longest texts, in bytes, and arrays of the metadata that are kept.
_LONGEST_KEPT = 4096

Scalar = int | float | bool | str


class _Cursor:
    """A place in the header; raises an error for bytes beyond the file or the limit."""

    def __init__(self, data: FileData, limits: Limits) -> None:
        self._data = data
        self._limits = limits
        self._most = limits.header_bytes
        self.at = 0

    def skip(self, count: int) -> int:
        start = self.at
        self.at = self.at + count
        if self.at > self._data.size:
            raise self._data.error("cut_in_list", there=size_text(self._data.size))
        if self.at > self._most:
            raise self._data.beyond("header_too_large", self._limits, "header_bytes", self.at)
        return start

    def damaged(self) -> QuantVizError:
        return self._data.error("damaged", kind=GgufCatalog.kind)

    def uint32(self) -> int:
        return int.from_bytes(self._taken(4), "little")

    def uint64(self) -> int:
        return int.from_bytes(self._taken(8), "little")

    def text(self, longest: int) -> str:
        length = self.uint64()
        if length > longest:
            raise self.damaged()
        return bytes(self._taken(length)).decode("utf-8")

    def _taken(self, count: int) -> memoryview:
        start = self.skip(count)
        return self._data.part(start, self.at)

    def value(self, kind: int) -> Scalar | tuple[Scalar, ...] | None:
        """Return a value of the metadata; None for a long text or array, or one that is not of numbers."""
        if kind in _FORMATS:
            return self._numbers(kind, 1)[0]
        start = self.at
        if kind == _STRING:
            length = self.uint64()
            if length <= _LONGEST_KEPT:
                return bytes(self._taken(length)).decode("utf-8", "replace")
        elif kind == _ARRAY:
            inner = self.uint32()
            count = self.uint64()
            if inner in _FORMATS and count <= _LONGEST_KEPT:
                return self._numbers(inner, count)
        self.at = start
        self.skip_value(kind)
        return None

    def _numbers(self, kind: int, count: int) -> tuple[Scalar, ...]:
        taken = self._taken(_VALUE_BYTES[kind] * count)
        numbers: tuple[Scalar, ...] = struct.unpack(f"<{count}{_FORMATS[kind]}", taken)
        return numbers

    def skip_value(self, kind: int, depth: int = 0) -> None:
        if kind in _VALUE_BYTES:
            self.skip(_VALUE_BYTES[kind])
        elif kind == _STRING:
            self.skip(self.uint64())
        elif kind == _ARRAY and depth < _DEEPEST:
            inner = self.uint32()
            count = self.uint64()
            if inner in _VALUE_BYTES:
                self.skip(_VALUE_BYTES[inner] * count)
                return
            if inner == _STRING:
                self._skip_texts(count)
                return
            # Each further element takes bytes, so the header's limit ends this too.
            for _ in range(count):
                self.skip_value(inner, depth + 1)
        else:
            raise self.damaged()

    def _skip_texts(self, count: int) -> None:
        """Move past `count` texts, in one loop because a vocabulary has some hundred thousand."""
        at = self.at
        last = min(self._data.size, self._most) - 8
        base = at
        view = memoryview(b"")
        for _ in range(count):
            if at > last:
                break
            if at + 8 - base > len(view):
                base = at
                view = self._data.part(at, at + _BYTES_PER_READ)
            at += 8 + int.from_bytes(view[at - base : at - base + 8], "little")
        else:
            self.skip(at - self.at)
            return
        # A text that begins too late, or one before it that ends too late, raises the usual error.
        self.skip(at + 8 - self.at)


class _Declared(NamedTuple):
    shape: Shape
    #: Of its type.
    number: int
    #: From the start of all tensors' bytes.
    offset: int


class GgufCatalog(Catalog):
    """Quantized tensors are dequantized to float32. Axes are in torch's order: the last runs fastest."""

    kind = "GGUF"
    suffixes = (".gguf",)
    #: The parts of a split file have no index.
    apart: Mapping[str, str] = MappingProxyType({})
    snippet = (
        "import gguf, numpy\n"
        "tensor = next(each for each in gguf.GGUFReader({file!r}).tensors if each.name == {name!r})\n"
        'numpy.save("cut_out.npy", gguf.dequantize(tensor.data[:512], tensor.tensor_type))'
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return bytes(data.part(0, 4)) == MAGIC

    def _list(self) -> Mapping[str, TensorInfo]:
        cursor = _Cursor(self._data, self._limits)
        cursor.skip(len(MAGIC))
        self._check_version(cursor.uint32())
        tensors = cursor.uint64()
        metadata = cursor.uint64()
        self._check_count(tensors)
        #: The metadata by key, but for long texts and arrays.
        self.metadata: Mapping[str, Scalar | tuple[Scalar, ...]] = _metadata(cursor, metadata)
        alignment = _alignment(cursor, self.metadata)
        declared: dict[str, _Declared] = {}
        for _ in range(tensors):
            name = cursor.text(_LONGEST_NAME)
            if name in declared:
                raise self._data.error("duplicate_name", name=clipped(name))
            axes = cursor.uint32()
            if not 1 <= axes <= _MOST_AXES:
                raise cursor.damaged()
            # The file names the fastest axis first.
            shape = self._shape(name, [cursor.uint64() for _ in range(axes)][::-1])
            declared[name] = _Declared(shape, cursor.uint32(), cursor.uint64())
        self._alignment = alignment
        self._body = -(-cursor.at // alignment) * alignment
        #: The offset in the file.
        self._placed: dict[str, tuple[int, BlockType]] = {}
        starts = sorted({entry.offset for entry in declared.values()})
        infos = {name: self._entry_info(name, entry, starts) for name, entry in declared.items()}
        return {name: _with_scale(info, scale_name(name), declared) for name, info in infos.items()}

    def _check_version(self, version: int) -> None:
        # The other byte order leaves the lower half of the number empty.
        if version and not version & 0xFFFF:
            raise self._data.error("gguf_big_endian")
        if version not in VERSIONS:
            raise self._data.error("gguf_version", got=version, known=", ".join(map(str, VERSIONS)))

    def _entry_info(self, name: str, entry: _Declared, starts: list[int]) -> TensorInfo:
        """`starts` are the offsets of all tensors, in order."""
        from quantviz.sources.files.gguf_blocks import BLOCK_TYPES, OTHER_TYPES

        shape = entry.shape
        kind = BLOCK_TYPES.get(entry.number)
        if kind is None:
            return self._unread_type(name, shape, OTHER_TYPES.get(entry.number, str(entry.number)))
        stored = kind.plain or kind.name
        if shape[-1] % kind.length:
            problem = self._data.error(
                "gguf_row", name=clipped(name), got=shape[-1], type=kind.name, length=kind.length
            )
            return TensorInfo(stored, shape, problem=problem)
        size = math.prod(shape) // kind.length * kind.size
        start = self._body + entry.offset
        if max(shape) >= 2**63 or entry.offset % self._alignment:
            return TensorInfo(stored, shape, problem=self._damaged(name))
        following = bisect.bisect_right(starts, entry.offset)
        if following < len(starts) and starts[following] < entry.offset + size:
            # PrismML's fork of llama.cpp, where the type comes from, has twice as many values a block.
            if kind.name == "Q2_0":
                return self._unread_type(name, shape, "Q2_0 (128)")
            return TensorInfo(stored, shape, problem=self._damaged(name))
        if start + size > self._data.size:
            return TensorInfo(stored, shape, problem=self._cut_short(name, start + size))
        self._placed[name] = start, kind
        if kind.plain:
            return self._info(name, stored, shape)
        note = Note.of("source.dequantized", type=kind.name, bits=kind.bits)
        return TensorInfo(stored, shape, source_type=kind.name, notes=(note,))

    def _unread_type(self, name: str, shape: Shape, stored: str) -> TensorInfo:
        from quantviz.sources.files.gguf_blocks import BLOCK_TYPES

        known = ", ".join(each.name for each in BLOCK_TYPES.values() if not each.plain)
        problem = self._data.error("gguf_type", name=clipped(name), type=stored, known=known)
        return TensorInfo(stored, shape, problem=problem)

    @property
    def split(self) -> tuple[int, int] | None:
        """The number of this part of a split model, from 1, and the number of parts."""
        number, count = (self.metadata.get(key) for key in _SPLIT_KEYS)
        if type(number) is not int or type(count) is not int or count < 2:
            return None
        return number + 1, count

    @property
    def may_be_empty(self) -> bool:
        """The first part of a split model may hold the metadata alone."""
        return self.split is not None

    def _declared_orientation(self, name: str) -> Orientation:
        # llama.cpp multiplies by every weight in this way: its converter turns those that lie otherwise.
        return Orientation((0,), "layout")

    def block_type(self, name: str) -> BlockType | None:
        """Return the type of the blocks; None for plain numbers."""
        self._readable(name)
        kind = self._placed[name][1]
        return None if kind.plain else kind

    def blocks(self, name: str, start: int, stop: int) -> torch.Tensor:
        """Return blocks as they are in the file: uint8 of `(stop - start, BlockType.size)`."""
        import torch

        info = self._readable(name)
        begin, kind = self._placed[name]
        if not 0 <= start < stop <= info.count // kind.length:
            raise self._data.error("index", name=clipped(name), shape=info.shape, index=f"{start}:{stop}")
        part = self._data.part(begin + start * kind.size, begin + stop * kind.size)
        return torch.frombuffer(bytearray(part), dtype=torch.uint8).view(stop - start, kind.size)

    def _stored_rows(self, name: str) -> StoredRows:
        import torch

        from quantviz.sources.files.gguf_blocks import decode_blocks
        from quantviz.sources.files.mapped import Packing, StoredRows

        start, kind = self._placed[name]
        decode = functools.partial(decode_blocks, kind)
        dtype = getattr(torch, kind.plain) if kind.plain else None
        packing = Packing(
            kind.length, kind.size, decode, is_float32=dtype == torch.float32, dtype=dtype, named=kind.plain
        )
        return StoredRows(start, packing)


def scale_name(name: str) -> str:
    """Return the name of a tensor's second level of scales, by which llama.cpp multiplies the product."""
    return name.removesuffix(".weight") + ".scale"


def _with_scale(info: TensorInfo, scale: str, names: Container[str]) -> TensorInfo:
    if not info.source_type or scale not in names:
        return info
    return replace(info, notes=(*info.notes, Note.of("source.scale_apart", scale=clipped(scale))))


def _metadata(cursor: _Cursor, count: int) -> dict[str, Scalar | tuple[Scalar, ...]]:
    """Of texts and arrays only short ones are kept, and arrays of numbers alone."""
    found: dict[str, Scalar | tuple[Scalar, ...]] = {}
    for _ in range(count):
        key = cursor.text(_LONGEST_KEY)
        kind = cursor.uint32()
        value = cursor.value(kind)
        if value is not None:
            found[key] = value
    return found


def _alignment(cursor: _Cursor, metadata: Mapping[str, object]) -> int:
    alignment = metadata.get(_ALIGNMENT_KEY, _ALIGNMENT)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise cursor.damaged()
    return alignment
