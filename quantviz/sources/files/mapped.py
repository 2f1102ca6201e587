"""Tensors that lie in a file or an upload as they are: parts of them are decoded, the rest is not touched.

numpy cuts, because it takes any strides at any address without copying; torch decodes.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from quantviz.errors import Note
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.granularity import Shape, Window
from quantviz.sources.files.file_data import ByteSource, FileData, clipped
from quantviz.sources.files.windows import indices, window_shape
from quantviz.sources.limits import Limits
from quantviz.tensors.lazy import Stored, Values

_VALUES_PER_CHUNK = 2**22


@dataclass(frozen=True)
class Packing:
    """`length` neighbours in a unit of `size` bytes."""

    length: int
    size: int
    #: uint8 of (units, size) → the values in their stored dtype, (units, length).
    decode: Callable[[torch.Tensor], torch.Tensor]
    #: float32 in this machine's order needs no decoding.
    is_float32: bool = False
    #: Of elements side by side in this machine's order of bytes.
    dtype: torch.dtype | None = None
    #: The dtype that `packing_of` makes it of.
    named: str = ""

    def byte_count(self, count: int) -> int:
        """The last unit may be padded."""
        return -(-count // self.length) * self.size


@dataclass(frozen=True)
class StoredRows:
    start: int
    packing: Packing
    #: Whether its first axis runs fastest, instead of the last.
    turned: bool = False


class Raw(NamedTuple):
    """Bytes as they lie in a file or an upload."""

    packing: Packing
    source: ByteSource
    start: int
    size: int


_COMPARED = 2**22
#: Bytes at either end of a tensor by which two tensors count as the same.
_ENDS = 2**12


def ends_of(raw: Raw) -> bytes:
    """Return the first and the last bytes of a tensor, 4,096 each."""
    ends = bytearray(min(2 * _ENDS, raw.size))
    half = len(ends) // 2
    view = memoryview(ends)
    raw.source.read_into(view[:half], raw.start)
    raw.source.read_into(view[half:], raw.start + raw.size - (len(ends) - half))
    return bytes(ends)


def same_bytes(one: Raw, other: Raw) -> bool:
    """Return whether two tensors have the same bytes, read as far as they do."""
    if one.size != other.size:
        return False
    step = min(_COMPARED, one.size)
    rooms = [memoryview(bytearray(step)), memoryview(bytearray(step))]
    for start in range(0, one.size, max(step, 1)):
        parts = [room[: min(step, one.size - start)] for room in rooms]
        for raw, part in zip((one, other), parts, strict=True):
            raw.source.read_into(part, raw.start + start)
        if parts[0] != parts[1]:
            return False
    return True


def plain(dtype: torch.dtype, *, swapped: bool = False) -> Packing:
    """Return the packing of elements side by side, `swapped` in the order that this machine does not use.

    >>> plain(torch.int16).decode(torch.tensor([[1, 0], [0, 1]], dtype=torch.uint8)).tolist()
    [[1], [256]]
    """

    if dtype.is_floating_point and dtype.itemsize == 1:
        return by_table(torch.arange(256, dtype=torch.uint8).view(dtype).to(torch.float32))

    def decode(raw: torch.Tensor) -> torch.Tensor:
        return (raw.flip(1) if swapped else raw.contiguous()).view(dtype)

    in_order = None if swapped else dtype
    return Packing(1, dtype.itemsize, decode, is_float32=in_order == torch.float32, dtype=in_order)


def by_table(table: torch.Tensor) -> Packing:
    """Return codes of a byte each, which are looked up: many times as fast as converting them.

    >>> by_table(torch.tensor([0.0, 0.5, 1.0])).decode(torch.tensor([[2], [1]], dtype=torch.uint8)).tolist()
    [[1.0], [0.5]]
    """
    return Packing(1, 1, functools.partial(looked_up, table))


def looked_up(table: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Much faster than an index."""
    return table.index_select(0, codes.flatten().to(torch.int32)).reshape(codes.shape)


def packed(format_id: str) -> Packing:
    """Return codes of fewer than 8 bits side by side, the first in the lowest bits.

    >>> packed("int2").decode(torch.tensor([[0b11_10_01_00]], dtype=torch.uint8)).tolist()
    [[0.0, 1.0, -2.0, -1.0]]
    """
    fmt = FORMATS[format_id]
    size = math.lcm(fmt.bits, 8) // 8
    table = values_of(format_id)

    def decode(raw: torch.Tensor) -> torch.Tensor:
        whole = torch.zeros(len(raw), 1, dtype=torch.int32)
        for place in range(size):
            whole |= raw[:, place : place + 1].to(torch.int32) << 8 * place
        codes = (whole >> torch.arange(0, 8 * size, fmt.bits, dtype=torch.int32)) & ((1 << fmt.bits) - 1)
        return looked_up(table, codes)

    return Packing(8 * size // fmt.bits, size, decode)


def packing_of(dtype: str) -> Packing:
    """Return the packing of elements side by side in this machine's order."""
    short = dtype in FORMATS and FORMATS[dtype].bits < 8
    return replace(packed(dtype) if short else plain(getattr(torch, dtype)), named=dtype)


def values_of(format_id: str) -> torch.Tensor:
    """Return the value of each bit pattern, float32; negative integers are two's complements.

    >>> values_of("int2").tolist()
    [0.0, 1.0, -2.0, -1.0]
    """
    fmt = FORMATS[format_id]
    return torch.tensor(
        [fmt.value(bits if bits <= fmt.code_max else bits - (1 << fmt.bits)) for bits in range(1 << fmt.bits)]
    )


def cut(
    view: memoryview, packing: Packing, shape: Shape, window: Window, *, turned: bool = False
) -> torch.Tensor:
    """Return a window, not empty, of a tensor at the start of `view`: in its stored dtype, with its own
    memory.

    >>> cut(memoryview(bytes(range(12))), plain(torch.uint8), (3, 4), (slice(1, 3, 1), 2))
    tensor([ 6, 10], dtype=torch.uint8)
    """
    if turned:  # the same bytes, read with the axes in reverse
        backwards = cut(view, packing, shape[::-1], window[::-1])
        return backwards.permute(*reversed(range(backwards.dim()))).contiguous()
    if not shape:
        return cut(view, packing, (1,), (0,))
    units = _units(view, packing, math.prod(shape))
    if shape[-1] % packing.length:
        return _gathered(units, packing, shape, window)
    columns, inside = whole_units(window[-1], packing.length)
    grid = units.reshape(*shape[:-1], shape[-1] // packing.length)
    part = np.array(grid[(*window[:-1], columns)], order="C")  # a copy in any case
    in_row = part.shape[-1] * packing.length
    if len(range(in_row)[inside]) == in_row:
        return _decoded(part, packing).reshape(window_shape(window))
    # A few columns of many rows: keep no other elements of their units.
    rows = part.reshape(-1, part.shape[-1])
    rows_per_chunk = max(1, _VALUES_PER_CHUNK // in_row)
    pieces = [
        _decoded(rows[at : at + rows_per_chunk], packing).reshape(-1, in_row)[:, inside].clone()
        for at in range(0, len(rows), rows_per_chunk)
    ]
    return torch.cat(pieces).reshape(window_shape(window))


def cut_out(data: FileData, lies: StoredRows, shape: Shape, window: Window) -> torch.Tensor:
    """Do as `cut` does; rows before and after the window are not read."""
    packing = lies.packing
    start = lies.start
    width = math.prod(shape[1:])
    if shape and not lies.turned and not width % packing.length:
        part = window[0]
        rows = indices(part)
        start += packing.byte_count(rows[0] * width)
        shape = (rows[-1] + 1 - rows[0], *shape[1:])
        window = (0 if isinstance(part, int) else slice(0, shape[0], part.step), *window[1:])
    stop = start + packing.byte_count(math.prod(shape))
    in_one_run = all(indices(part) == range(length) for part, length in zip(window, shape, strict=True))
    if data.opened and in_one_run and not lies.turned and stop <= data.size:
        # Past the map, whose pages come a few at a time.
        units = np.empty(((stop - start) // packing.size, packing.size), np.uint8)
        data.opened.read_into(units.reshape(-1).data, start)
        values = packing.decode(torch.from_numpy(units)).flatten()[: math.prod(shape)]
        return values.reshape(window_shape(window))
    return cut(data.part(start, stop), packing, shape, window, turned=lies.turned)


def whole_units(part: int | slice, length: int) -> tuple[slice, slice]:
    """Return the units of a row in which the columns `part` lie, and the columns' places in these.

    >>> whole_units(slice(40, 70, 3), 32)
    (slice(1, 3, 1), slice(8, 38, 3))
    """
    columns = indices(part)
    if length == 1:
        return slice(columns.start, columns.stop, columns.step), slice(0, len(columns), 1)
    first = columns[0] // length
    units = slice(first, columns[-1] // length + 1, 1)
    return units, slice(columns.start - first * length, columns.stop - first * length, columns.step)


def _units(view: memoryview, packing: Packing, count: int) -> npt.NDArray[np.void]:
    """Return units as opaque items, wherever they begin in memory."""
    return np.frombuffer(view, dtype=f"V{packing.size}", count=-(-count // packing.length))


def _decoded(units: npt.NDArray[np.void], packing: Packing) -> torch.Tensor:
    """Return `(units, length)` of units with memory of their own."""
    return packing.decode(torch.from_numpy(units.reshape(-1, 1).view(np.uint8)))


def _gathered(units: npt.NDArray[np.void], packing: Packing, shape: Shape, window: Window) -> torch.Tensor:
    """Return a window whose rows may begin within a unit: each element is located by itself."""
    axes = [indices(part) for part in window]
    lengths = tuple(map(len, axes))
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    pieces = []
    for at in range(0, math.prod(lengths), _VALUES_PER_CHUNK):
        places = np.unravel_index(np.arange(at, min(at + _VALUES_PER_CHUNK, math.prod(lengths))), lengths)
        flat = sum(
            (axis.start + axis.step * place) * stride
            for axis, place, stride in zip(axes, places, strides, strict=True)
        )
        values = _decoded(units[flat // packing.length], packing)
        pieces.append(values[torch.arange(len(values)), torch.from_numpy(flat % packing.length)])
    return torch.cat(pieces).reshape(window_shape(window))


class Mapped(Stored):
    """A tensor that stays in its file or upload, which it keeps open; all its values are float32 values."""

    def __init__(
        self,
        data: FileData,
        name: str,
        lies: StoredRows,
        shape: Shape,
        dtype: str,
        notes: tuple[Note, ...],
        limits: Limits,
    ) -> None:
        self._dtype = dtype
        self._shape = shape
        self.data = data
        self.lies = lies
        self._packing = lies.packing
        self._notes = notes
        self._limits = limits
        self._name = name
        self._opened = data.opened
        size = lies.packing.byte_count(math.prod(shape))
        self._view = data.part(lies.start, lies.start + size)
        self._units = _units(self._view, lies.packing, math.prod(shape))
        #: The values themselves where they lie in place as float32.
        self._floats: Values | None = None
        if lies.packing.is_float32:
            floats = np.frombuffer(self._view, dtype=np.float32)
            self._floats = floats if floats.flags.aligned else None

    def __repr__(self) -> str:
        return f"Mapped({clipped(self._name)!r}, shape={self._shape}, dtype={self.dtype})"

    @property
    def in_place(self) -> bool:
        return self._floats is not None

    def check(self) -> None:
        if self._opened:
            self._opened.check()

    def run(self, start: int, stop: int) -> Values:
        self.check()
        if self._floats is not None:
            return self._floats[start:stop]
        length = self._packing.length
        first = start // length
        part = self._units[first : -(-stop // length)].copy()
        values: Values = _decoded(part, self._packing).to(torch.float32).flatten().numpy()
        return values[start - first * length : stop - first * length]

    def rows_as_stored(self, start: int, stop: int) -> torch.Tensor:
        dtype = self._packing.dtype
        by_descriptor = self._opened is not None and hasattr(os, "preadv")
        if dtype not in (torch.bfloat16, torch.float16) or not by_descriptor:
            return super().rows_as_stored(start, stop)
        self.check()
        width = math.prod(self._shape[1:])
        made = torch.empty((stop - start, *self._shape[1:]), dtype=dtype)
        room = made.view(torch.int16).numpy().data.cast("B")
        assert self._opened is not None
        self._opened.read_into(room, self.lies.start + start * width * dtype.itemsize)
        return made

    def read(self, index: Window) -> torch.Tensor:
        self.check()
        window = tuple(
            part if isinstance(part, int) else slice(*part.indices(length))
            for part, length in zip(index, self._shape, strict=True)
        )
        got = math.prod(window_shape(window))
        if got > self._limits.elements:
            raise self.data.beyond(
                "tensor_too_large", self._limits, "elements", got, name=clipped(self._name)
            )
        return cut(self._view, self._packing, self._shape, window).to(torch.float32)
