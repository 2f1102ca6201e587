"""Runs of a model in a file: the output of every operation, in the order of execution.

The file is a .safetensors whose tensors are the outputs, by name. The header's `__metadata__` has four texts.
`format` is "quantviz run 1". `order` is a JSON list of the names, in the order of execution. `op` is a JSON
object with the operation of each name, and `axes` one with the names of its axes, "" for one without a name.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import IO, Any

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.layers.collecting import note_on_names
from quantviz.pickling import Picklable
from quantviz.public_calls import check_fields, checked_fields, public_class
from quantviz.schemes.granularity import Shape
from quantviz.sources.files import Catalog, open_tensors
from quantviz.sources.files.catalog import REAL_DTYPES
from quantviz.sources.files.safetensors import DTYPES, written_header
from quantviz.whole_files import cannot_write, write_file

FORMAT = "quantviz run 1"
_WRITTEN = REAL_DTYPES & frozenset(DTYPES.values())
_BYTES_PER_COPY = 2**22


@dataclass(frozen=True)
class RunTensor:
    """An output of an operation, as a file describes it."""

    name: str
    #: The operation, such as "Linear" or "MatMul"; "" if the file does not name it.
    op: str
    #: The names of its axes, "" for one without a name.
    axes: tuple[str, ...]
    shape: Shape
    dtype: str
    #: The reason why it cannot be read, None if it can.
    problem: QuantVizError | None = field(default=None, compare=False)


@checked_fields
@public_class
@dataclass(frozen=True, eq=False)
class CapturedRun(Picklable):
    """The outputs of a model's operations in a file, in the order of execution. Their values stay there."""

    path: str
    tensors: tuple[RunTensor, ...]
    #: Whether the file names the order of execution; without it tensors have the order of the file.
    is_ordered: bool = True
    #: Remarks for the user, such as on outputs that were left aside.
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        return f"CapturedRun({self.path!r}: {len(self.tensors)} tensors)"

    def __len__(self) -> int:
        return len(self.tensors)

    def __iter__(self) -> Iterator[RunTensor]:
        return iter(self.tensors)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tensors."""
        return tuple(tensor.name for tensor in self.tensors)

    @classmethod
    def open(cls, path: str | PurePath) -> CapturedRun:
        """Return the run in a file; any other file of tensors is a run without order.

        Raises:
            QuantVizError: It cannot be read, or its description is damaged.
        """
        with open_tensors(path) as catalog:
            return run_in(catalog, str(path))


def is_run(catalog: Catalog) -> bool:
    return bool(catalog.names) and catalog.header_texts(catalog.names[0]).get("format") == FORMAT


def run_in(catalog: Catalog, path: str) -> CapturedRun:
    if not is_run(catalog):
        tensors = tuple(_tensor_in(catalog, path, name, {}, {}) for name in catalog.names)
        return CapturedRun(path, tensors, is_ordered=False)
    texts = catalog.header_texts(catalog.names[0])
    order = _parsed(texts, "order", list, path)
    ops = _parsed(texts, "op", dict, path)
    axes = _parsed(texts, "axes", dict, path)
    if not all(isinstance(name, str) for name in order) or sorted(order) != sorted(catalog.names):
        raise QuantVizError("runs.damaged", file=path, entry="order")
    return CapturedRun(path, tuple(_tensor_in(catalog, path, name, ops, axes) for name in order))


def _parsed(texts: Mapping[str, str], key: str, kind: type, path: str) -> Any:
    try:
        parsed = json.loads(texts.get(key, ""))
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, kind):
        raise QuantVizError("runs.damaged", file=path, entry=key)
    return parsed


def _tensor_in(
    catalog: Catalog, path: str, name: str, ops: Mapping[str, Any], axes: Mapping[str, Any]
) -> RunTensor:
    info = catalog.info(name)
    op = ops.get(name, "")
    named = axes.get(name, [""] * len(info.shape))
    are_names = isinstance(named, list) and all(isinstance(axis_name, str) for axis_name in named)
    if not isinstance(op, str) or not are_names or len(named) != len(info.shape):
        raise QuantVizError("runs.damaged", file=path, entry=name)
    return RunTensor(name, op, tuple(named), tuple(info.shape), info.dtype, info.problem)


@dataclass
class _Written:
    """A tensor that is being written: the places of its parts in the unfinished file, in their order."""

    op: str
    axes: tuple[str, ...]
    dtype: str
    shape: Shape
    places: list[tuple[int, int]] = field(default_factory=list)


class RunWriter:
    """Writes outputs, one after the other, into a file of a run.

    Each lies in an unfinished file beside it at once: one output at a time is in memory. The outputs of
    several batches are joined along the first axis; where their other lengths differ, the later one is called
    `NAME@BATCH`. The second output of a name in one batch is called `NAME#2`. A name that another output has
    already gets an apostrophe behind it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._tensors: dict[str, _Written] = {}
        self._left_aside: dict[str, None] = {}
        self._calls: dict[str, int] = {}
        #: The operation's own name, and the number of its call, of each name that is written.
        self._owners: dict[str, tuple[str, int]] = {}
        self._batch = -1
        self._end = 0
        try:
            self._aside: IO[bytes] = tempfile.TemporaryFile(dir=self._path.absolute().parent)  # noqa: SIM115
        except OSError as error:
            raise cannot_write(path, error) from None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.close()

    def begin_batch(self) -> None:
        self._batch += 1
        self._calls.clear()

    def add(self, name: str, op: str, axes: tuple[str, ...], output: torch.Tensor) -> None:
        """Write an output; one without real numbers in it is left aside."""
        call = self._calls[name] = self._calls.get(name, 0) + 1
        owner = (name, call)
        name = self._free(f"{name}#{call}" if call > 1 else name, owner)
        values = output.detach()
        if values.is_quantized:
            values = values.dequantize()
        dtype = str(values.dtype).removeprefix("torch.")
        if dtype not in _WRITTEN or values.layout != torch.strided or not values.numel():
            self.leave_aside(name)
            return
        if not values.dim():
            values = values[None]
        shape = tuple(values.shape)
        written = self._tensors.get(name)
        if written is not None and (written.dtype, written.shape[1:]) != (dtype, shape[1:]):
            name = self._free(f"{name}@{self._batch}", owner)
            written = None
        if written is None:
            named = axes if len(axes) == len(shape) else ("",) * len(shape)
            written = self._tensors[name] = _Written(op, named, dtype, (0, *shape[1:]))
        written.shape = (written.shape[0] + shape[0], *shape[1:])
        self._put(written, values.to("cpu").contiguous())

    def leave_aside(self, name: str) -> None:
        self._left_aside[name] = None

    def _free(self, name: str, owner: tuple[str, int]) -> str:
        while self._owners.setdefault(name, owner) != owner:
            name += "'"
        return name

    def _put(self, written: _Written, values: torch.Tensor) -> None:
        raw = values.flatten().view(torch.uint8).numpy().data
        try:
            self._aside.write(raw)
        except OSError as error:
            raise cannot_write(self._path, error) from None
        written.places.append((self._end, self._end + raw.nbytes))
        self._end += raw.nbytes

    def finish(self) -> CapturedRun:
        """Write the file in one step, and return the run in it.

        Raises:
            QuantVizError: There is no output, or the file cannot be written.
        """
        if not self._tensors:
            raise QuantVizError("runs.nothing_ran")
        texts = {
            "format": FORMAT,
            "order": json.dumps(list(self._tensors)),
            "op": json.dumps({name: entry.op for name, entry in self._tensors.items()}),
            "axes": json.dumps({name: entry.axes for name, entry in self._tensors.items()}),
        }
        declared = {name: (entry.dtype, entry.shape) for name, entry in self._tensors.items()}
        write_file(self._path, self._parts(written_header(texts, declared)))
        tensors = tuple(
            RunTensor(name, entry.op, entry.axes, entry.shape, entry.dtype)
            for name, entry in self._tensors.items()
        )
        notes = tuple(note_on_names("run_left_aside", list(self._left_aside)))
        return CapturedRun(str(self._path), tensors, notes=notes)

    def _parts(self, header: bytes) -> Iterator[bytes]:
        yield header
        for entry in self._tensors.values():
            for start, stop in entry.places:
                self._aside.seek(start)
                for at in range(start, stop, _BYTES_PER_COPY):
                    yield self._aside.read(min(_BYTES_PER_COPY, stop - at))
