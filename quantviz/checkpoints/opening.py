"""A checkpoint as one catalogue: of a file, an index of shards, or a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from quantviz.errors import QuantVizError
from quantviz.sources.files import Catalog, ShardedCatalog, catalog_of
from quantviz.sources.files.file_data import FileData, check_kinds, clipped
from quantviz.sources.files.gguf import GgufCatalog
from quantviz.sources.files.safetensors import SafetensorsCatalog


@contextmanager
def open_checkpoint(path: str | PurePath) -> Iterator[Catalog]:
    """Open all tensors of a checkpoint: a file of any reader, an index of shards, or a folder with either.

    Files beside it are opened wherever they lie, as in a cache whose names are links: it is the caller's own
    disk, not that of a server.

    Raises:
        QuantVizError: Nothing can be opened at `path`, a folder holds several models, or two of its files
            have a tensor of the same name.
    """
    check_kinds(path, None)
    place = Path(path)
    catalog = _of_folder(place) if place.is_dir() else _of_file(place)
    try:
        yield catalog
    finally:
        catalog.close()


def _of_file(path: Path) -> Catalog:
    return catalog_of(FileData(path, path.name, beside=lambda name: FileData(path.parent / name, name)))


def _of_folder(folder: Path) -> Catalog:
    def ending(suffixes: tuple[str, ...]) -> list[Path]:
        return sorted(each for each in folder.iterdir() if each.name.endswith(suffixes))

    indexes = ending(ShardedCatalog.suffixes)
    files = indexes or ending(SafetensorsCatalog.suffixes) or ending(GgufCatalog.suffixes)
    if len(files) == 1:
        return _of_file(files[0])
    if not files or indexes or not files[0].name.endswith(SafetensorsCatalog.suffixes):
        names = ", ".join(each.name for each in files)
        raise QuantVizError("audit.folder", folder=clipped(folder.name), found=names or "-")
    shards: dict[str, str] = {}
    for file in files:
        catalog = _of_file(file)
        try:
            twice = next((name for name in catalog.names if name in shards), None)
            if twice is not None:
                first, second = clipped(shards[twice]), clipped(file.name)
                raise QuantVizError("audit.twice", name=clipped(twice), first=first, second=second)
            shards |= dict.fromkeys(catalog.names, file.name)
        finally:
            catalog.close()
    index = json.dumps({"weight_map": shards}).encode()
    name = f"{folder.name}{ShardedCatalog.suffixes[0]}"
    return catalog_of(FileData(index, name, beside=lambda name: FileData(folder / name, name)))
