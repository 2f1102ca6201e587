"""The checkpoints and files of results in the server's folder."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from quantviz.sources.local import FolderListing, data_folder, list_files, real_path

RESULTS = ".sqlite"
#: Suffixes of importance matrices that are no GGUF files; a GGUF one has the word in its name.
IMATRICES = (".imatrix", "imatrix.dat")
#: Before a name in an address that is no text by itself.
_CODED = "~"
#: Suffixes of indices of shards, with those of their shards.
_INDEXES = {".safetensors.index.json": ".safetensors", ".bin.index.json": ".bin"}
_INDEX = tuple(_INDEXES)
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.", re.ASCII)
#: Suffixes of files of weights; numbers as text are none.
WEIGHTS = (
    *(".safetensors", ".sft", ".gguf", ".pt", ".pth", ".bin", ".ckpt", ".pth.tar"),
    *(".onnx", ".tflite", ".npz", ".npy"),
)


@dataclass(frozen=True)
class OfferedFiles:
    """Files to choose from, as paths below the folder; a path that ends in "/" is a folder of shards."""

    checkpoints: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    imatrices: tuple[str, ...] = ()
    cut_short: bool = False


def offered() -> OfferedFiles:
    """Return the files in the server's folder, if one is set; `QuantVizError` if it is none."""
    return offered_of(list_files(also=(RESULTS, *IMATRICES)))


def offered_of(listing: FolderListing) -> OfferedFiles:
    """Return the files to choose from in a listing: an index stands for its shards, a folder for numbered
    shards without one.

    >>> files = ("a/x-00001-of-00002.safetensors", "a/x-00002-of-00002.safetensors", "b.gguf", "r.sqlite")
    >>> offered_of(FolderListing(files, False))
    OfferedFiles(checkpoints=('a/', 'b.gguf'), results=('r.sqlite',), imatrices=(), cut_short=False)
    >>> offered_of(FolderListing(("a/imatrix.gguf", "b.imatrix"), False)).imatrices
    ('a/imatrix.gguf', 'b.imatrix')
    >>> files = ("a/x.bin.index.json", "a/x-00001-of-00002.bin", "a/x-00002-of-00002.bin")
    >>> offered_of(FolderListing(files, False)).checkpoints
    ('a/x.bin.index.json',)
    """
    indexed = {
        (_folder(file), shard)
        for file in listing.files
        for index, shard in _INDEXES.items()
        if file.endswith(index)
    }
    found: dict[str, None] = {}
    for file in listing.files:
        folder = _folder(file)
        if file.endswith(_INDEX):
            found[file] = None
        elif not file.endswith(WEIGHTS) or (folder, PurePosixPath(file).suffix) in indexed:
            continue
        elif _SHARD.search(file):
            found[f"{folder}/"] = None
        else:
            found[file] = None
    results = tuple(file for file in listing.files if file.endswith(RESULTS))
    names = {file: PurePosixPath(file).name.lower() for file in listing.files}
    imatrices = tuple(
        file
        for file, name in names.items()
        if name.endswith(IMATRICES) or (name.endswith(".gguf") and "imatrix" in name)
    )
    return OfferedFiles(tuple(found), results, imatrices, listing.cut_short)


def holder_of(file: str, checkpoints: Collection[str]) -> str:
    """Return the checkpoint of a file below the folder: itself, else its index or folder, else itself.

    >>> holder_of("a/x-00001-of-00002.safetensors", ["a/", "b.gguf"])
    'a/'
    """
    if not file or file in checkpoints:
        return file
    folder = _folder(file)
    holders = [
        name for name in checkpoints if name.endswith((*_INDEX, "/")) and _folder(f"{name}x") == folder
    ]
    return holders[0] if holders else file


def _folder(file: str) -> str:
    return PurePosixPath(file).parent.as_posix()


def as_link(name: str) -> str:
    r"""Return a file's name for an address: names are any bytes, and an address is text.

    >>> as_link("a/b.gguf"), from_link(as_link("\udcff.gguf")) == "\udcff.gguf"
    ('a/b.gguf', True)
    """
    is_text = name.encode(errors="ignore").decode() == name
    if is_text and not name.startswith(_CODED):
        return name
    return _CODED + base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode()


def from_link(form: str) -> str:
    """Return the name in an address; a text that `as_link` does not write is a name as it is."""
    if not form.startswith(_CODED):
        return form
    try:
        return base64.urlsafe_b64decode(form[len(_CODED) :]).decode("utf-8", "surrogatepass")
    except ValueError:
        return form


def checkpoint_path(name: str) -> Path:
    """Return the path of an offered checkpoint; `QuantVizError` if one of its files is missing or lies
    outside of the folder. A link keeps its name: its target may lack the suffix that shows the format, and
    the files beside it.
    """
    is_folder = real_path(name).is_dir()
    within = PurePosixPath(name) if is_folder else PurePosixPath(name).parent
    known = data_folder()
    assert known
    for each in sorted((known / within).iterdir()):
        if each.name.endswith(WEIGHTS) and not each.name.startswith("."):
            real_path((within / each.name).as_posix())
    return known / name


def below_folder(path: str) -> str | None:
    folder = data_folder()
    if folder is None or not Path(path).is_relative_to(folder):
        return None
    below = Path(path).relative_to(folder)
    return None if any(part.startswith(".") for part in below.parts) else below.as_posix()


def offered_as(path: str, checkpoints: Collection[str]) -> str | None:
    below = below_folder(path)
    if below is None:
        return None
    return next((name for name in (below, f"{below}/") if name in checkpoints), None)
