""".safetensors, read here so that windows are read alone and fp4 too."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

from quantviz.schemes.granularity import Shape
from quantviz.sources.files.catalog import Catalog, TensorInfo, bits_of
from quantviz.sources.files.file_data import MOST_LIKELY, FileData, clipped, parsed_json

#: Every dtype of the format's specification, as torch spells it where torch has it.
DTYPES: Mapping[str, str] = {
    "BOOL": "bool",
    "F4": "float4_e2m1fn",
    "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
}

#: A header's length is a multiple of this, in bytes, so that values lie on their own boundaries.
_ALIGNED = 8


def written_header(texts: Mapping[str, str], tensors: Mapping[str, tuple[str, Shape]]) -> bytes:
    """Return the beginning of a file, after which the tensors' bytes lie one after the other.

    Args:
        texts: The texts of `__metadata__`.
        tensors: Dtypes, as torch spells them, and shapes, in the order of the bytes.

    >>> written_header({}, {"x": ("float32", (2,))})[8:]
    b'{"__metadata__": {}, "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}       '
    """
    header: dict[str, Any] = {"__metadata__": dict(texts)}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * bits_of(dtype) // 8
        spelled = next(key for key, each in DTYPES.items() if each == dtype)
        header[name] = {"dtype": spelled, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % _ALIGNED)
    return struct.pack("<Q", len(written)) + written


class SafetensorsCatalog(Catalog):
    kind = ".safetensors"
    suffixes = (".safetensors", ".sft")
    snippet = (
        "from safetensors.torch import safe_open, save_file\n"
        'with safe_open({file!r}, "pt") as file: x = file.get_slice({name!r})[:512]\n'
        'save_file({{"cut_out": x.contiguous()}}, "cut_out.safetensors")'
    )

    @classmethod
    def recognises(cls, data: FileData) -> bool:
        return (
            data.size >= 10
            and bytes(data.part(8, 9)) == b"{"
            and struct.unpack("<Q", data.part(0, 8))[0] <= data.size - 8
        )

    @classmethod
    def wanted(cls, data: FileData) -> int | None:
        length = int.from_bytes(data.part(0, 8), "little")
        begins = data.size > 8 and bytes(data.part(8, 9)) == b"{" and length <= MOST_LIKELY
        return 8 + length if begins and 8 + length > data.size else None

    def _list(self) -> Mapping[str, TensorInfo]:
        header = self._header()
        self._check_count(len(header))
        self._starts: dict[str, tuple[int, str]] = {}
        texts = header.pop("__metadata__", None)
        self._texts: dict[str, str] = texts if isinstance(texts, dict) else {}
        self._check_ranges(header)
        return {name: self._entry_info(name, entry) for name, entry in header.items()}

    def _check_ranges(self, header: Mapping[str, Any]) -> None:
        """Refuse bytes that two tensors share, and bytes of no tensor, as the format demands."""
        ranges = []
        for name, entry in header.items():
            start, stop = entry["data_offsets"]
            for number in (start, stop):
                if type(number) is not int or not 0 <= number < 2**63:
                    raise self._data.error("damaged", kind=self.kind)
            ranges.append((start, stop, name))
        expected = 0
        for start, stop, name in sorted(ranges):
            if start != expected or stop < start:
                raise self._data.error("ranges", name=clipped(name), got=start, expected=expected)
            expected = stop
        #: Of the last tensor, from the start of the first.
        self._end = expected
        if ranges and expected < self._data.size - self._body:
            raise self._data.error("rest", got=self._data.size - self._body - expected)

    def _header(self) -> dict[str, Any]:
        length: int = struct.unpack("<Q", self._data.part(0, 8))[0]
        self._check_header(length)
        self._body = 8 + length
        part = self._data.part(8, self._body)
        # Each tensor has this key once: too many are refused before they are parsed, which takes seconds.
        self._check_count(bytes(part).count(b'"data_offsets"'))
        header = parsed_json(self._data, part, self._limits)
        if not isinstance(header, dict):
            raise self._data.error("damaged", kind=self.kind)
        return header

    def _entry_info(self, name: str, entry: dict[str, Any]) -> TensorInfo:
        shape = self._shape(name, entry["shape"])
        start, stop = entry["data_offsets"]
        for number in shape:
            if type(number) is not int or not 0 <= number < 2**63:
                raise self._data.error("damaged", kind=self.kind)
        dtype = DTYPES.get(entry["dtype"])
        if dtype is None:
            return self._info(name, str(entry["dtype"]), shape)
        info = self._info(name, dtype, shape)
        if 8 * (stop - start) != bits_of(dtype) * math.prod(shape):
            return TensorInfo(dtype, shape, problem=self._damaged(name))
        if stop > self._data.size - self._body:
            # Report the header's total: the user can compare that with the size of the download.
            return TensorInfo(dtype, shape, problem=self._cut_short(name, self._body + self._end))
        self._starts[name] = self._body + start, dtype
        return info

    def header_texts(self, name: str) -> Mapping[str, str]:
        return {key: text for key, text in self._texts.items() if isinstance(text, str)}
