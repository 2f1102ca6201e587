"""Tensors of a checkpoint as float32 in kept buffers, with content hashes: read once, ahead of use.

Threads read the next tensors while the last ones are measured. Bytes are hashed and decoded while a core
still has them at hand.
"""

from __future__ import annotations

import functools
import json
import math
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import xxhash

from quantviz.checkpoints.model.folders import name_of
from quantviz.checkpoints.model.opening import open_file, open_model
from quantviz.checkpoints.scan.listing import Entry
from quantviz.errors import QuantVizError
from quantviz.evaluation.moments import Moments
from quantviz.schemes.granularity import Shape, Window
from quantviz.schemes.orientation import Orientation
from quantviz.sources.files import Catalog
from quantviz.sources.files.file_data import OpenFile, clipped
from quantviz.sources.files.mapped import Packing, Raw
from quantviz.sources.layouts.decoded import ModelTensors, model_tensors
from quantviz.streaming import limits
from quantviz.streaming.kernel_access import has_kernels
from quantviz.streaming.tensor_facts import DECODED, Facts, OnePassFacts
from quantviz.streaming.threads import runs_between, shared_out
from quantviz.tensors.blocks import oriented, viewed
from quantviz.tensors.lazy import InMemory, Matrix, Oriented, Stored, Values

Array = npt.NDArray[Any]

#: Larger tensors are measured in bands.
MOST_LOADED = 2**26
#: Threads that read ahead, and elements up to which each of them has a group at a time.
_READERS = 2
_MOST_AHEAD = 2**26
_VALUES_PER_CHUNK = 2**22
#: Values are read in multiples of this.
_TOGETHER = 2**10
#: Errors that apply to every tensor of a file.
_AWAY = ("store.slow", "store.unreachable", "store.changed", "hub.slow", "hub.unreachable", "hub.changed")
#: Prefix of content keys: the hash's name, so that keys of another hash would differ.
HASH = "xxh3"


@dataclass(frozen=True, eq=False)
class LoadedTensor:
    entry: Entry
    #: Hash of its bytes, dtype and shape; "" where they could not be read.
    content: str = ""
    #: Valid until the next group is read; None where they could not be read.
    values: Stored | None = None
    problem: QuantVizError | None = None
    #: By-products of kernels that decode it: its facts, and sums of powers if all is finite.
    known: Facts | None = None
    powers: Moments | None = None
    #: Keeps its file open, where values are still read from it.
    opened: ExitStack | None = None


class GroupReader:
    """Iterator over groups of tensors in their order; two threads read the next ones meanwhile. A group's
    values are gone when the next group is requested.
    """

    def __init__(self, groups: Sequence[Sequence[Entry]]) -> None:
        self._groups = groups
        largest = max(map(loaded_elements, groups), default=0)
        # One group is measured while each thread reads another, or, where those are large, while one does.
        # A tensor that is too large to load takes one value.
        size = min((_READERS + 1) * largest, max(2 * largest, _MOST_AHEAD))
        self._memory = TensorMemory(max(size, _READERS + 1))
        self._own = threading.local()

    def __iter__(self) -> Iterator[list[LoadedTensor]]:
        rest = deque(self._groups)
        coming: deque[Future[list[LoadedTensor]]] = deque()
        pool = ThreadPoolExecutor(_READERS, "quantviz-read")
        with ExitStack() as opened:
            try:
                while rest or coming:
                    while rest and (room := self._memory.take(loaded_elements(rest[0]))) is not None:
                        coming.append(pool.submit(self._read, rest.popleft(), room, opened))
                    yield coming.popleft().result()
                    self._memory.give_back()
            finally:
                pool.shutdown(cancel_futures=True)

    def _read(self, group: Sequence[Entry], room: Array, opened: ExitStack) -> list[LoadedTensor]:
        own = self._own
        if not hasattr(own, "files"):
            own.files = opened.enter_context(FileCache())
            own.buffer = Buffer()
        own.buffer.begin(room)
        own.files.expect(group)
        return [read_tensor(entry, own.files, own.buffer) for entry in group]


class FileCache:
    """Open files, the last one kept: neighbours in a checkpoint lie in the same file."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._name = ""
        self._catalog: Catalog | None = None
        #: With its quantized weights decoded, once one of them was needed.
        self._model: ModelTensors | None = None
        #: A file that cannot be read at all, and why.
        self._failed: tuple[str, QuantVizError] | None = None

    def __enter__(self) -> FileCache:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def catalog(self, entry: Entry) -> Catalog:
        """Return the tensors of the file that a tensor is in; `QuantVizError` as from `open_file`."""
        file = entry.file
        if self._failed and self._failed[0] == file:
            raise self._failed[1].again()
        if self._catalog is None or file != self._name:
            self._stack.close()
            self._catalog = self._model = None
            if entry.spread:
                self._model = self._stack.enter_context(open_model(file)).tensors
                self._catalog = self._model.file
            else:
                self._catalog = self._stack.enter_context(open_file(file))
            self._name = file
        # FP8 may be codes, which the model knows of.
        if not entry.decoded and not entry.dtype.startswith("float8"):
            return self._catalog
        self._model = self._model or model_tensors(self._catalog)
        return self._model

    def leave(self) -> ExitStack:
        """Return the stack that keeps the last file open; a later request opens the file anew."""
        left = self._stack
        self._stack = ExitStack()
        self._name = ""
        self._catalog = self._model = None
        return left

    def expect(self, group: Sequence[Entry]) -> None:
        """Note that the tensors of a group, which lie in one file, are read next. A file or a store that is
        away is waited for once, and not for each tensor.
        """
        self._failed = None
        opened = False
        try:
            catalog = self.catalog(group[0])
            opened = True
            decoded = next((entry for entry in group if entry.decoded), None)
            if decoded is not None:
                catalog = self.catalog(decoded)  # it has the others too
            catalog.expect(entry.name for entry in group)
        except QuantVizError as problem:
            if not opened or problem.key in _AWAY:
                self._failed = group[0].file, problem


class Buffer:
    @classmethod
    def of(cls, group: Sequence[Entry]) -> Buffer:
        buffer = cls()
        buffer.begin(np.empty(loaded_elements(group), np.float32))
        return buffer

    def __init__(self) -> None:
        self._values: Array = np.empty(0, np.float32)
        self._passing: dict[npt.DTypeLike, Array] = {}
        self._used = 0

    def begin(self, room: Array) -> None:
        self._used = 0
        self._values = room

    def values(self, count: int) -> Array:
        self._used += count
        return self._values[self._used - count : self._used]

    def passing(self, count: int, dtype: npt.DTypeLike = np.float32) -> Array:
        """Return reused room for values, or bytes, that are not kept."""
        room = self._passing.get(dtype)
        if room is None or count > len(room):
            room = self._passing[dtype] = np.empty(count, dtype)
        return room[:count]


def loaded_elements(group: Sequence[Entry]) -> int:
    return sum(math.prod(entry.shape) for entry in group if not is_giant(entry))


def is_giant(entry: Entry) -> bool:
    return math.prod(entry.shape) > MOST_LOADED


def read_tensor(entry: Entry, files: FileCache, buffer: Buffer, *, by_kernels: bool = True) -> LoadedTensor:
    """Return a tensor's values in `buffer` and the hash of its content, or the error of reading it; with
    `by_kernels` also its facts, where it is not small.
    """
    try:
        catalog = files.catalog(entry)
        check_listed(entry, catalog)
        usual = entry.outputs == (0,)
        raw = catalog.raw(entry.name) if usual else None
        digest = _digest(entry)
        if raw is None:
            # Not as it lies in the file: the values are hashed.
            if is_giant(entry):
                return _read_by_parts(entry, catalog, files)
            tensor = catalog.read(entry.name).tensor
            digest.update(np.ascontiguousarray(tensor.numpy()).data)
            seen = viewed(tensor, entry.seen) if usual else oriented(tensor, Orientation(entry.outputs))
            return LoadedTensor(entry, _named(digest), InMemory(seen, dtype=entry.dtype_read))
        values = buffer.values(loaded_elements([entry]))
        at = 0
        by_kernels = by_kernels and math.prod(entry.shape) > limits.FUSED and has_kernels()
        passing = OnePassFacts() if by_kernels else None
        for part in _parts(raw, buffer, values if len(values) and raw.packing.is_float32 else None):
            digest.update(part.data)
            count = min(len(part) // raw.packing.size * raw.packing.length, math.prod(entry.shape) - at)
            into = values[at : at + count] if len(values) else buffer.passing(count)
            if raw.packing.is_float32:
                into = into if len(values) else part.view(np.float32)
            elif passing is None or raw.packing.dtype not in DECODED:
                _decode_by_torch(part, raw.packing, into, entry)
            if passing:
                passing.take(part, raw.packing.dtype, into, at)
            at += count
        x: Stored = RawTensor(raw, entry)
        if len(values):
            x = InMemory(viewed(torch.from_numpy(values), x.shape), dtype=entry.dtype)
        known = passing.facts(x.shape) if passing else None
        sums = passing.powers() if passing and known and known.found is None else None
        return LoadedTensor(entry, _named(digest), x, known=known, powers=sums)
    except QuantVizError as problem:
        return LoadedTensor(entry, problem=problem)


def _read_by_parts(entry: Entry, catalog: Catalog, files: FileCache) -> LoadedTensor:
    """Return a tensor too large to load, decoded or transposed a part at a time."""
    x = catalog.stored(entry.name)
    digest = _digest(entry)
    for start in range(0, x.count, _VALUES_PER_CHUNK):
        digest.update(np.ascontiguousarray(x.run(start, min(start + _VALUES_PER_CHUNK, x.count))).data)
    x.check()
    if entry.outputs != (0,):
        x = Oriented(x, Orientation(entry.outputs))
    elif x.shape != entry.seen:
        x = Matrix(x)
    return LoadedTensor(entry, _named(digest), x, opened=files.leave())


class RawTensor(Stored):
    """A tensor too large to load: parts of it are read and decoded on request."""

    def __init__(self, raw: Raw, entry: Entry) -> None:
        self._raw = raw
        self._entry = entry

    @classmethod
    def of(cls, entry: Entry, files: FileCache) -> RawTensor:
        """Return a tensor of which parts are read, however small it is; `QuantVizError` if it is not as it
        was listed, or cannot be read in parts.
        """
        catalog = files.catalog(entry)
        check_listed(entry, catalog)
        raw = catalog.raw(entry.name) if entry.outputs == (0,) else None
        if raw is None:
            raise QuantVizError("file.changed", file=clipped(name_of(entry.file)))
        raw.source.check()
        return cls(raw, entry)

    @property
    def shape(self) -> Shape:
        return self._entry.seen

    @property
    def dtype(self) -> str:
        return self._entry.dtype

    def check(self) -> None:
        # A store gives one version of a file or an error, also where the reader has gone on to the next file.
        if isinstance(self._raw.source, OpenFile):
            self._raw.source.check()

    def fill(self, values: Array, start: int, *, threads: int | None = None) -> None:
        packing = self._raw.packing
        # From a store as much at once as it gives.
        values_per_read = max(limits.PIECE, self._raw.source.bytes_per_read // packing.size * packing.length)

        def work(runs: Iterator[tuple[int, int]]) -> None:
            for first, last in runs:
                values[first - start : last - start] = self.run(first, last)

        shared_out(work, runs_between(start + len(values), values_per_read, start), threads)

    def run(self, start: int, stop: int) -> Values:
        raw = self._raw
        length = self._raw.packing.length
        first = start // length
        last = -(-stop // length)
        part = np.empty((last - first) * raw.packing.size, np.uint8)
        raw.source.read_into(part.data, raw.start + first * raw.packing.size)
        values = np.empty((last - first) * length, np.float32)
        if raw.packing.is_float32:
            values = part.view(np.float32)
        else:
            decode(part, raw.packing, values, self._entry)
        return values[start - first * length : stop - first * length]

    def read(self, index: Window) -> torch.Tensor:
        raise NotImplementedError  # bands of it are read by runs


def check_listed(entry: Entry, catalog: Catalog) -> None:
    """Raise a `QuantVizError` where a tensor is not as it was listed: its file is another one now."""
    info = catalog.info(entry.name)
    found = info.dtype, info.shape, catalog.version_of(entry.name)
    if info.problem or found != (entry.dtype_read, entry.shape, entry.version):
        raise QuantVizError("file.changed", file=clipped(name_of(entry.file)))


def _parts(raw: Raw, buffer: Buffer, into: Array | None = None) -> Iterator[Array]:
    """Yield a tensor's bytes in whole units, some at a time: in `into` where it has room for all of them."""
    raw.source.check()
    size = raw.size
    # Sums are made of so many values at a time: they have the same bits whatever is read at once.
    unit = -(-_TOGETHER // raw.packing.length) * raw.packing.size
    step = max(raw.source.bytes_per_read // unit, 1) * unit
    whole = None if into is None else into.view(np.uint8)
    for start in range(0, size, step):
        stop = min(start + step, size)
        part = buffer.passing(stop - start, np.uint8) if whole is None else whole[start:stop]
        raw.source.read_into(part.data, raw.start + start)
        yield part
    raw.source.check()


def decode(part: Array, packing: Packing, out: Array, entry: Entry) -> None:
    """Put the values of whole units of bytes into `out`, float32; `QuantVizError` for one beyond float32."""
    kernel = _kernel(packing.dtype)
    if kernel is not None:
        kernel(part.view(np.uint16), out.view(np.uint32))
    else:
        _decode_by_torch(part, packing, out, entry)


def _decode_by_torch(part: Array, packing: Packing, out: Array, entry: Entry) -> None:
    raw = torch.from_numpy(part)
    stored = packing.decode(viewed(raw, (-1, packing.size))).flatten()[: len(out)]
    decoded = torch.from_numpy(out)
    decoded.copy_(stored)
    if stored.dtype == torch.float64 and bool((decoded.isinf() & stored.isfinite()).any()):
        lost = (decoded.isinf() & stored.isfinite()).nonzero().flatten()
        raise QuantVizError(
            "checkpoint.beyond_float32", name=clipped(entry.name), value=stored[lost[0]].item()
        )


@functools.cache
def _kernel(dtype: torch.dtype | None) -> Any:
    """Return the kernel that decodes a dtype; None where torch does."""
    if dtype not in DECODED or not has_kernels():
        return None
    from quantviz.compiled import decoding

    return decoding.decode_brain if dtype == torch.bfloat16 else decoding.decode_half


def _digest(entry: Entry) -> xxhash.xxh3_128:
    """Return a hash begun with a tensor's dtype and shape, and its outputs if not the first axis."""
    known = [entry.dtype_read, entry.shape, *([] if entry.outputs == (0,) else [entry.outputs])]
    return xxhash.xxh3_128(json.dumps(known).encode())


def _named(digest: xxhash.xxh3_128) -> str:
    return f"{HASH}:{digest.hexdigest()}"


class TensorMemory:
    """A ring of float32 values, of which parts are taken and given back in one order.

    The system gives the memory once, and its pages are used again and again.

    >>> memory = TensorMemory(10)
    >>> first, second = memory.take(6), memory.take(4)
    >>> memory.take(5) is None
    True
    >>> memory.give_back()  # the first
    >>> len(memory.take(5))
    5
    """

    def __init__(self, size: int) -> None:
        self._values = np.empty(size, np.float32)
        #: Begin and end of each taken part, the oldest first.
        self._taken: deque[tuple[int, int]] = deque()

    def take(self, count: int) -> npt.NDArray[np.float32] | None:
        # An empty part takes one value: parts are identified by where they begin.
        size = max(count, 1)
        start = self._free(size)
        if start is None:
            return None
        self._taken.append((start, start + size))
        return self._values[start : start + count]

    def give_back(self) -> None:
        self._taken.popleft()

    def _free(self, size: int) -> int | None:
        if not self._taken:
            return 0
        oldest = self._taken[0][0]
        end = self._taken[-1][1]
        if end <= oldest:  # they go round the end
            return end if end + size <= oldest else None
        if end + size <= len(self._values):
            return end
        return 0 if size <= oldest else None
