"""The tensors of a checkpoint: of one file, of the files an index names, or of a folder of shards.

What cannot be measured is listed with its reason, so that every tensor has its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from quantviz.checkpoints.locations import beside, files_in, name_of, open_file
from quantviz.errors import Note, QuantVizError
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.sources.files import BY_RANGES, Catalog, ShardedCatalog, TensorInfo, reader_of
from quantviz.sources.files.file_data import check_kinds, clipped
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.files.npy import NpyCatalog
from quantviz.sources.files.npz import NpzCatalog
from quantviz.sources.files.onnx import OnnxCatalog
from quantviz.sources.files.safetensors import SafetensorsCatalog
from quantviz.sources.files.torch_save import TorchCatalog
from quantviz.sources.stores.addresses import is_address

#: Readers of the files that a folder is taken for a checkpoint of: the first of which there is a file.
_IN_FOLDERS: tuple[type[Catalog], ...] = (
    *(SafetensorsCatalog, GgufCatalog, TorchCatalog, OnnxCatalog, NpzCatalog, NpyCatalog),
)
#: How the files of one model are numbered: model-00002-of-00005.safetensors.
_NUMBERED = re.compile(r"(?P<stem>.*-)(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\..+)", re.ASCII)
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


@dataclass(frozen=True)
class Listing(Picklable):
    """The tensors of a checkpoint in its order, and what a person should know of its files."""

    entries: tuple[Entry, ...]
    notes: tuple[Note, ...] = ()


def list_checkpoint(path: str | PurePath) -> Listing:
    """Return the tensors of a checkpoint.

    Args:
        path: A file of any reader, an index of shards, or a folder: its index where it has one, else all its
            files of one kind. Or the address of one of these, such as s3://bucket/model/.

    Raises:
        QuantVizError: Nothing can be opened at `path`.
    """
    check_kinds(path, None)
    place = str(path)
    files = files_in(place)
    if files is None:
        return _of_index(place) if reader_of(name_of(place)) is ShardedCatalog else _of_file(place)
    indexes = [each for each in files if reader_of(name_of(each)) is ShardedCatalog]
    if indexes:
        return _of_index(indexes[0])
    readers = [reader for reader in _IN_FOLDERS if not is_address(place) or reader in BY_RANGES.values()]
    for reader in readers:
        shards = [each for each in files if reader_of(name_of(each)) is reader]
        if shards:
            return _of_shards(shards)
    raise QuantVizError(
        "checkpoint.empty_folder",
        folder=clipped(name_of(place)),
        known=", ".join(suffix for reader in readers for suffix in reader.suffixes),
    )


def _of_file(file: str) -> Listing:
    with open_file(file) as catalog:
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


def _of_shards(files: list[str]) -> Listing:
    """List all files of a folder; a name that another file had before is a problem."""
    entries: list[Entry] = []
    first: dict[str, str] = {}
    for file in [*files, *_missing(files)]:
        try:
            with open_file(file) as catalog:
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


def _missing(files: list[str]) -> Iterator[str]:
    """Yield the files that the numbers in the names of others promise."""
    there = {name_of(file) for file in files}
    promised: Mapping[str, None] = {
        beside(file, f"{found['stem']}{number:05d}-of-{found['count']}{found['suffix']}"): None
        for file in files
        if (found := _NUMBERED.fullmatch(name_of(file))) and int(found["count"]) <= 10 * len(files)
        for number in range(1, int(found["count"]) + 1)
    }
    return (file for file in promised if name_of(file) not in there)


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
    return Entry(name, file, info.dtype, info.shape, _bytes_of(info), unmeasured, version)


def _bytes_of(info: TensorInfo) -> int:
    bits = re.search(r"\d+", info.dtype)
    return info.count * int(bits[0]) // 8 if bits and int(bits[0]) <= 64 else 4 * info.count
