"""The tensors of a checkpoint: of one file, of the files an index names, or of a folder of shards.

What cannot be measured is listed with its reason, so that every tensor has its rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from quantviz.checkpoints.opening import beside, check_part, check_some, found_at, name_of, open_file
from quantviz.checkpoints.recipes import seen_shape
from quantviz.errors import Note, QuantVizError
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.sources.files import Catalog, ShardedCatalog, TensorInfo
from quantviz.sources.files.file_data import clipped

#: dtypes of codes, indices and masks: nothing that is quantized.
_WHOLE = re.compile(r"u?int\d+|bool", re.ASCII)


@dataclass(frozen=True)
class Unmeasured(Picklable):
    """Why a tensor, or a recipe on it, has no result."""

    #: "refused" where it is not for quantizing, "problem" where something is wrong with it.
    status: str
    reason: QuantVizError


@dataclass(frozen=True)
class Entry(Picklable):
    """One tensor of a checkpoint, as the headers tell it."""

    name: str
    #: The file that holds it, with its folder.
    file: str
    dtype: str
    shape: Shape
    #: Bytes that are read for it, as far as the dtype tells.
    size: int
    #: Why it is not measured; none where it is.
    unmeasured: Unmeasured | None = None
    #: What its file on another machine was then, see `FileData.version`.
    version: str = ""
    #: Which of its axes are outputs, the rows as which it is quantized.
    outputs: tuple[int, ...] = (0,)

    @property
    def seen(self) -> Shape:
        """Return the shape in which it is quantized."""
        return seen_shape(self.shape, self.outputs)


@dataclass(frozen=True)
class Listing(Picklable):
    """The tensors of a checkpoint in its order, and what a person should know of its files."""

    entries: tuple[Entry, ...]
    notes: tuple[Note, ...] = ()


def list_checkpoint(path: str | PurePath) -> Listing:
    """Return the tensors of a checkpoint.

    Args:
        path: A file of any reader, an index of shards, a folder, or any part of a split .gguf; or the address
            of one of these, such as s3://bucket/model/. Of a folder it is the index where it has one, else
            all its files of one kind.

    Raises:
        QuantVizError: Nothing can be opened at `path`.
    """
    found = found_at(path)
    if found.indexes:
        return _of_index(found.indexes[0])
    return _of_file(found.files[0]) if len(found.files) == 1 else _of_shards(found.files)


def _of_file(file: str) -> Listing:
    with open_file(file) as catalog:
        check_some(file, [catalog])
        return Listing(tuple(_entry(name, file, catalog) for name in catalog.names))


def _of_index(path: str) -> Listing:
    """List what an index names; a shard that is damaged or not there has its tensors named all the same."""
    entries: list[Entry] = []
    with open_file(path) as catalog:
        assert isinstance(catalog, ShardedCatalog)
        holders: dict[str, str] = {name: catalog.shard_of(name) for name in catalog.names}
        failed: dict[str, QuantVizError] = {}
        for name, shard in holders.items():
            file = beside(path, shard)
            try:
                if shard in failed:
                    raise failed[shard].again()
                entries.append(_entry(name, file, catalog))
            except QuantVizError as problem:
                if problem.key != "file.shard_lacks":
                    failed[shard] = problem
                entries.append(Entry(name, file, "", (), 0, Unmeasured("problem", problem)))
        notes = tuple(
            Note.of("checkpoint.also_in", name=clipped(name), shard=clipped(other), used=clipped(shard))
            for name, shard in holders.items()
            for other in catalog.open_shards
            if other != shard and name in catalog.names_in(other)
        )
    return Listing(tuple(entries), notes)


def _of_shards(files: Sequence[str]) -> Listing:
    """List all files of a folder; a name that another file had before is a problem."""
    entries: list[Entry] = []
    first: dict[str, str] = {}
    for file in files:
        try:
            with open_file(file) as catalog:
                check_part(file, catalog)
                for name in catalog.names:
                    entry = _entry(name, file, catalog)
                    if name in first:
                        problem = QuantVizError(
                            "checkpoint.duplicate",
                            name=clipped(name),
                            file=clipped(name_of(file)),
                            first=clipped(name_of(first[name])),
                        )
                        entry = Entry(
                            name, entry.file, entry.dtype, entry.shape, 0, Unmeasured("problem", problem)
                        )
                    first.setdefault(name, file)
                    entries.append(entry)
        except QuantVizError as problem:
            # The names in it are not known.
            entries.append(Entry(name_of(file), file, "", (), 0, Unmeasured("problem", problem)))
    return Listing(tuple(entries))


def _entry(name: str, file: str, catalog: Catalog) -> Entry:
    unmeasured, info = None, catalog.info(name)
    if _WHOLE.fullmatch(info.dtype):
        reason = QuantVizError("checkpoint.whole_numbers", name=clipped(name), dtype=info.dtype)
        unmeasured = Unmeasured("refused", reason)
    elif info.problem:
        status = "refused" if info.problem.key == "file.not_numbers" else "problem"
        unmeasured = Unmeasured(status, info.problem)
    elif not info.count:
        unmeasured = Unmeasured("refused", QuantVizError("input_empty", shape=info.shape))
    elif not 1 <= len(info.shape) <= 4:
        reason = QuantVizError("input_dims", got=len(info.shape), shape=info.shape)
        unmeasured = Unmeasured("refused", reason)
    version = catalog.version_of(name)
    outputs = catalog.orientation(name).outputs if unmeasured is None else (0,)
    return Entry(name, file, info.dtype, info.shape, _bytes_of(info), unmeasured, version, outputs)


def _bytes_of(info: TensorInfo) -> int:
    bits = re.search(r"\d+", info.dtype)
    return info.count * int(bits[0]) // 8 if bits and int(bits[0]) <= 64 else 4 * info.count
