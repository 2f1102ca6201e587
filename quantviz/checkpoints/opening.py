"""How a checkpoint is opened, at a path or an address: a file, an index of shards, a folder, a split GGUF.

Files beside one are opened wherever they lie, as in a cache whose names are links: it is the caller's own
disk, not that of a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

from quantviz.errors import QuantVizError
from quantviz.sources.files import BY_RANGES, Catalog, ShardedCatalog, catalog_of, reader_of
from quantviz.sources.files.file_data import FileData, check_kinds, clipped
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.files.npy import NpyCatalog
from quantviz.sources.files.npz import NpzCatalog
from quantviz.sources.files.onnx import OnnxCatalog
from quantviz.sources.files.other_formats import other_format_of_folder
from quantviz.sources.files.safetensors import SafetensorsCatalog
from quantviz.sources.files.several import GgufPart, JoinedGguf, JoinedSafetensors
from quantviz.sources.files.torch_save import TorchCatalog
from quantviz.sources.stores import addresses
from quantviz.sources.stores.addresses import is_address

#: Readers of the files that a folder is taken for a checkpoint of: the first of which there is a file.
_IN_FOLDERS: tuple[type[Catalog], ...] = (
    *(SafetensorsCatalog, GgufCatalog, TorchCatalog, OnnxCatalog, NpzCatalog, NpyCatalog),
)
#: How the files of one model are numbered: model-00002-of-00005.safetensors.
_NUMBERED = re.compile(r"(?P<stem>.*-)(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\..+)", re.ASCII)
#: Files that the numbers of each that is there may promise, and parts of a split file.
_MOST_PROMISED, _MOST_PARTS = 10, 1000


@dataclass(frozen=True)
class Found:
    """What is at a path: indexes of shards, or else files of one kind."""

    indexes: tuple[str, ...] = ()
    #: With those that the numbers in the names of others promise.
    files: tuple[str, ...] = ()


@contextmanager
def open_file(file: str) -> Iterator[Catalog]:
    """Open one file of tensors, or an index of shards, while the `with` block lasts.

    Raises:
        QuantVizError: It cannot be opened or read, is damaged, unknown, or beyond the limits.
    """
    catalog = _opened(file)
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def open_checkpoint(path: str | PurePath) -> Iterator[Catalog]:
    """Open all tensors of a checkpoint while the `with` block lasts, in however many files it lies.

    Args:
        path: A file of any reader, an index of shards, a folder with either, or any part of a split .gguf. Or
            the address of one of these.

    Raises:
        QuantVizError: Nothing can be opened at `path`, a folder holds several models, a file is missing, or
            two files have a tensor of the same name.
    """
    found = found_at(path)
    files = found.indexes or found.files
    kind = reader_of(name_of(files[0]))
    stems = {_stem(file) for file in files}
    if len(files) > 1 and kind is not SafetensorsCatalog and (kind is not GgufCatalog or len(stems) > 1):
        names = ", ".join(name_of(file) for file in files)
        raise QuantVizError("audit.folder", folder=clipped(name_of(str(path))), found=names)
    with ExitStack() as stack:
        parts = [stack.enter_context(open_file(file)) for file in files]
        check_some(files[0], parts)
        if len(parts) == 1:
            yield parts[0]
            return
        holders: dict[str, str] = {}
        for file, part in zip(files, parts, strict=True):
            check_part(file, part)
            if twice := next((name for name in part.names if name in holders), None):
                first, second = clipped(name_of(holders[twice])), clipped(name_of(file))
                raise QuantVizError("audit.twice", name=clipped(twice), first=first, second=second)
            holders |= dict.fromkeys(part.names, file)
        if kind is GgufCatalog:
            yield JoinedGguf([part for part in parts if isinstance(part, GgufCatalog)])
        else:
            yield JoinedSafetensors(parts)


def found_at(path: str | PurePath) -> Found:
    """Return the files of the checkpoint at a path or an address.

    Raises:
        QuantVizError: There is none.
    """
    check_kinds(path, None)
    place = str(path)
    listed = _files_in(place)
    if listed is None:
        if reader_of(name_of(place)) is ShardedCatalog:
            return Found(indexes=(place,))
        return Found(files=_split(place) if _is_gguf(place) else (place,))
    indexes = tuple(each for each in listed if reader_of(name_of(each)) is ShardedCatalog)
    if indexes:
        return Found(indexes)
    readers = [reader for reader in _IN_FOLDERS if not is_address(place) or reader in BY_RANGES.values()]
    for reader in readers:
        files = [each for each in listed if reader_of(name_of(each)) is reader]
        if files:
            return Found(files=(*files, *_missing(files)))
    names = [name_of(each) for each in (*listed, place.rstrip("/"))]
    if other := other_format_of_folder(names[-1], names[:-1]):
        raise QuantVizError(other.key, file=clipped(names[-1]))
    raise QuantVizError(
        "checkpoint.empty_folder",
        folder=clipped(name_of(place)),
        known=", ".join(suffix for reader in readers for suffix in reader.suffixes),
    )


def check_some(file: str, parts: Sequence[Catalog]) -> None:
    """Raise a `QuantVizError` where there is no tensor in any part of the checkpoint that a file is of."""
    if not any(part.names for part in parts):
        raise QuantVizError("file.empty", file=clipped(name_of(file)))


def check_part(file: str, catalog: Catalog) -> None:
    """Raise a `QuantVizError` where a file is not the part of a split .gguf that its name says."""
    named = _NUMBERED.fullmatch(name_of(file))
    if not isinstance(catalog, GgufCatalog) or named is None:
        return
    said = catalog.split
    if said is not None and said != (int(named["number"]), int(named["count"])):
        number, count = said
        raise QuantVizError("checkpoint.other_part", file=clipped(name_of(file)), number=number, count=count)


def beside(file: str, name: str) -> str:
    """Return the file of that name in the same folder."""
    return addresses.beside(file, name) if is_address(file) else str(Path(file).parent / name)


def name_of(file: str) -> str:
    """Return a file's name without its folders."""
    return addresses.name_of(file) if is_address(file) else Path(file).name


def _opened(file: str) -> Catalog:
    # Whether a part without tensors is all there is, is asked when all parts are open.
    of_part = GgufPart if _NUMBERED.fullmatch(name_of(file)) and _is_gguf(file) else None
    if not is_address(file):
        return catalog_of(FileData(Path(file), Path(file).name), reader=of_part)
    from quantviz.sources.stores.store import problem_at
    from quantviz.sources.stores.store_data import StoreData, reader_at

    reader = of_part or reader_at(file)
    if reader is None:
        raise problem_at(file, "unknown_kind")
    return catalog_of(StoreData(file), reader=reader)


def _is_gguf(file: str) -> bool:
    return reader_of(name_of(file)) is GgufCatalog


def _files_in(folder: str) -> list[str] | None:
    """Return the files of a folder by their names; none where it is a file."""
    if not is_address(folder):
        if not Path(folder).is_dir():
            return None
        found = (each for each in Path(folder).iterdir() if each.is_file())
        return sorted(str(each) for each in found if not each.name.startswith("."))
    from quantviz.sources.stores.store import store_of
    from quantviz.sources.stores.store_data import reader_at

    if reader_at(folder) is not None:
        return None
    names = store_of(folder).names(folder)
    return [addresses.inside(folder, name) for name in names if not name.startswith(".")]


def _split(file: str) -> tuple[str, ...]:
    """Return all parts of a .gguf that was split; the file alone where it was not, or cannot be read."""
    named = _NUMBERED.fullmatch(name_of(file))
    if named is None:
        return (file,)
    try:
        with open_file(file) as catalog:
            count = catalog.split[1] if isinstance(catalog, GgufCatalog) and catalog.split else 0
    except QuantVizError:
        return (file,)  # why is said where it is read
    believed = count == int(named["count"]) <= _MOST_PARTS
    return tuple(_siblings(file, named)) if believed else (file,)


def _missing(files: list[str]) -> Iterator[str]:
    """Yield the files that the numbers in the names of others promise."""
    there = {name_of(file) for file in files}
    promised: dict[str, None] = {
        sibling: None
        for file in files
        if (named := _NUMBERED.fullmatch(name_of(file)))
        and int(named["count"]) <= _MOST_PROMISED * len(files)
        for sibling in _siblings(file, named)
    }
    return (file for file in promised if name_of(file) not in there)


def _siblings(file: str, named: re.Match[str]) -> Iterator[str]:
    for number in range(1, int(named["count"]) + 1):
        yield beside(file, f"{named['stem']}{number:05d}-of-{named['count']}{named['suffix']}")


def _stem(file: str) -> str:
    """Return what the names of one model's files have in common."""
    named = _NUMBERED.fullmatch(name_of(file))
    return f"{named['stem']}{named['count']}" if named else name_of(file)
