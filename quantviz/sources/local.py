"""Tensors in a folder of the server, which the environment names: read-only, and nothing outside of it.

All users of the server may read them. Names are untrusted: the part of a path below the folder is resolved
step by step, so that no link of the file system, however late it was created, leads out.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from quantviz.errors import QuantVizError
from quantviz.schemes.granularity import Shape
from quantviz.schemes.orientation import MOST_WEIGHT_AXES
from quantviz.sources.base import InFile, OpenedFiles, file_code
from quantviz.text import visible

if TYPE_CHECKING:
    from quantviz.sources.files import Catalog
    from quantviz.sources.files.file_data import FileData
    from quantviz.sources.sandbox import Read
    from quantviz.tensors.lazy import Stored

#: The environment variable with the folder's path.
FOLDER = "QUANTVIZ_DATA_DIR"

#: Most files in a list, most levels of folders below the folder, and most entries of folders that are read.
MOST_LISTED = 2_000
DEEPEST = 8
_MOST_LOOKED_AT = 100_000
#: Most characters of a file's path.
_LONGEST_PATH = 1024


@dataclass(frozen=True)
class FolderListing:
    #: Below the folder, with "/", sorted.
    files: tuple[str, ...]
    #: There are more files.
    cut_short: bool
    #: Links that lead nowhere, in a circle or out, and paths that the server may not open.
    skipped: tuple[str, ...] = ()


def folder_offered() -> bool:
    return bool(os.environ.get(FOLDER))


def data_folder() -> Path | None:
    """Return the folder with all links followed; `QuantVizError` if it is not a folder."""
    if not folder_offered():
        return None
    folder = Path(os.environ[FOLDER]).resolve()
    if not folder.is_dir():
        raise QuantVizError("local.no_folder", variable=FOLDER)
    return folder


def list_files(also: tuple[str, ...] = ()) -> FolderListing:
    """Return the files that some reader may read, and those with an ending in `also`; no hidden ones."""
    from quantviz.sources.files import reader_of

    folder = data_folder()
    files: list[str] = []
    skipped: list[str] = []
    looked_at = 0
    cut_short = False
    waiting = [(folder, 0)] if folder else []

    def below(path: str | Path) -> str:
        return os.path.relpath(path, folder).replace(os.sep, "/")

    def listing(more: bool) -> FolderListing:
        return FolderListing(tuple(sorted(files)), more, tuple(sorted(skipped)[:MOST_LISTED]))

    while waiting:
        directory, depth = waiting.pop(0)
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError:  # not ours to read, or gone
            skipped.append(f"{below(directory)}/")
            continue
        for entry in entries:
            looked_at += 1
            if looked_at > _MOST_LOOKED_AT or len(files) == MOST_LISTED:
                return listing(True)
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                cut_short = cut_short or depth == DEEPEST
                if depth < DEEPEST:
                    waiting.append((Path(entry.path), depth + 1))
            elif reader_of(entry.name) or (also and entry.name.endswith(also)):
                file = below(entry.path)
                (files if _is_readable(file) else skipped).append(file)
    return listing(cut_short)


def _is_readable(file: str) -> bool:
    try:
        real = real_path(file)
    except QuantVizError:
        return False
    return real.is_file() and os.access(real, os.R_OK)


@dataclass(frozen=True)
class _Below:
    file: str
    read_as: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.file).name

    @property
    def version(self) -> tuple[str, str, str]:
        return self.file, self.read_as, local_version(self.file)

    def data(self) -> FileData:
        found = _open(self.file)
        found.stored_as = self.read_as
        return found


def open_local(file: str, read_as: str = "", read: Read | None = None) -> Catalog:
    """Return the tensors of the file at that path below the folder.

    `read_as` is `stored_as` of `open_tensors`. The file stays open as long as the catalogue or one of its
    tensors exists.

    Raises:
        QuantVizError: The path leads out of the folder, or the file cannot be opened, as in `open_tensors`.
    """
    from quantviz.sources.sandbox import read_apart
    from quantviz.sources.sandboxed import Sandboxed

    return Sandboxed(_Below(file, read_as), read or read_apart)


def local_version(file: str) -> str:
    """Return a text that changes with the file, with the shards of an index, and with the data beside an ONNX
    model.

    Raises:
        QuantVizError: The file is gone.
    """
    from quantviz.sources.files import is_index, reader_of
    from quantviz.sources.files.npy import STORED_AS

    paths = [real_path(file)]
    folder = data_folder()
    path = PurePosixPath(file)
    assert folder
    # A link keeps its name, by which the others are found.
    beside = folder / path.parent
    if is_index(path.name):
        # Every file that may be a shard of it.
        paths += sorted(sibling for sibling in beside.iterdir() if reader_of(sibling.name))
    elif path.suffix == ".onnx":
        paths += sorted(sibling for sibling in beside.iterdir() if sibling.name.startswith(path.name))
    named = os.environ.get(STORED_AS, "") if path.suffix in (".npy", ".npz") else ""
    return named + ".".join(map(_stat_text, paths))


def _stat_text(path: Path) -> str:
    """Return a version; "-" of a missing shard, which is reported when one of its tensors is read."""
    try:
        stat = path.stat()
    except OSError:
        return "-"
    return f"{stat.st_ino:x}-{stat.st_size:x}-{stat.st_mtime_ns:x}"


def _open(file: str) -> FileData:
    from quantviz.sources.files.file_data import FileData, OpenFile

    real = real_path(file)
    path = PurePosixPath(file)
    try:
        opened = OpenFile(_descriptor(real), path.name, real)
    except FileNotFoundError:
        raise _error("missing", file) from None
    except IsADirectoryError:
        raise QuantVizError("file.is_folder", file=short(file)) from None
    except (OSError, ValueError):
        raise QuantVizError("file.not_readable", file=short(file)) from None
    return FileData(opened, path.name, beside=lambda name: _open(str(path.parent / name)))


def real_path(file: str) -> Path:
    """Return the path with all links resolved; `QuantVizError` where it does not exist or leads outside."""
    folder = data_folder()
    if folder is None:
        raise _error("not_set", file)
    path = PurePosixPath(file)
    if not 0 < len(file) <= _LONGEST_PATH or path.is_absolute() or not path.parts or _hidden(path.parts):
        raise _error("outside", file)
    try:
        real = (folder / path).resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        raise _error("missing", file) from None
    except (OSError, RuntimeError, ValueError):  # links in a circle, a name too long, a zero byte
        raise QuantVizError("file.not_readable", file=short(file)) from None
    if not real.is_relative_to(folder) or _hidden(real.relative_to(folder).parts):
        raise _error("outside", file)
    return real


def _hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith(".") for part in parts)


def _descriptor(real: Path) -> int:
    """Open a file step by step: a link put there since it was found is not followed."""
    from quantviz.sources.files.file_data import READ_FLAGS

    folder = data_folder()
    assert folder
    if os.open not in os.supports_dir_fd:
        return os.open(real, READ_FLAGS)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        *folders, name = real.relative_to(folder).parts
        for part in folders:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


def _error(key: str, file: str) -> QuantVizError:
    return QuantVizError(f"local.{key}", file=short(file), variable=FOLDER)


def short(file: str) -> str:
    from quantviz.sources.files.file_data import clipped

    return clipped(file)


#: The name of a dtype in a link.
_DTYPE = re.compile(r"[a-z0-9_]{1,32}", re.ASCII)


@dataclass(frozen=True)
class LocalTensor(InFile):
    #: Below the folder, with "/".
    file: str
    name: str
    shape: Shape
    #: The chosen dtype of NumPy's arrays of bytes, "" if the file has the dtype.
    read_as: str = ""
    id: ClassVar[str] = "local"
    kind: ClassVar[str] = "folder"

    @classmethod
    def of(cls, file: str, name: str, catalog: Catalog | None = None, *, read_as: str = "") -> LocalTensor:
        info = (catalog or open_local(file, read_as)).info(name)
        if info.problem:
            raise info.problem.again()
        return cls(file, name, info.shape, read_as)

    def stored(self, catalog: Catalog | None = None) -> Stored:
        """Return the tensor, mapped from its file if possible."""
        return self._catalog(catalog).stored(self.name)

    def open(self, at_hand: OpenedFiles = OpenedFiles()) -> Stored:  # noqa: B008 (it holds nothing)
        return self.stored(at_hand.catalog(self.file, self.read_as))

    def listed(self, at_hand: OpenedFiles) -> tuple[Catalog, str]:
        return self._catalog(at_hand.catalog(self.file, self.read_as)), self.name

    @property
    def checkpoint(self) -> str | None:
        return self.file

    def title(self, language: str) -> str:
        return visible(f"{self.file} · {self.name}")

    @property
    def stem(self) -> str:
        return f"{PurePath(self.file).stem}-{self.name}"

    @property
    def key(self) -> str:
        return f"{self.link_text()} {self.version}"

    def link_text(self) -> str:
        return f"{self.id}.{self.to_payload()}"

    def code(self, large: bool, language: str) -> list[str]:
        """Return the lines that read it by the file's name alone: readers do not have the server's folder."""
        return file_code(PurePosixPath(self.file).name, repr(self.name), large, language, self.read_as)

    @property
    def version(self) -> str:
        return local_version(self.file)

    def _open_file(self) -> Catalog:
        return open_local(self.file, self.read_as)

    def _shown(self, name: str) -> str:
        return short(name)

    def to_payload(self) -> str:
        """Return the source in `[A-Za-z0-9_-]`: names are any text there is."""
        identity = [self.file, self.name, *self.shape, *([self.read_as] if self.read_as else [])]
        fields = json.dumps(identity, ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(fields.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")

    @classmethod
    def from_payload(cls, payload: str) -> LocalTensor:
        """Return the source; `QuantVizError` for anything that `to_payload` does not write."""
        try:
            raw = base64.b64decode(payload + "=" * (-len(payload) % 4), altchars=b"-_", validate=True)
            fields: Any = json.loads(raw.decode("utf-8", "surrogatepass"))
            file, name, *shape = fields
            read_as = shape.pop() if shape and isinstance(shape[-1], str) else ""
            whole = all(type(length) is int and 0 < length < 2**63 for length in shape)
            if (
                not isinstance(file, str)
                or not isinstance(name, str)
                or (read_as and not _DTYPE.fullmatch(read_as))
                or not 1 <= len(shape) <= MOST_WEIGHT_AXES
                or not whole
                or math.prod(shape) >= 2**63
            ):
                raise ValueError
        except (binascii.Error, ValueError, TypeError, RecursionError):
            raise QuantVizError("local.payload_damaged") from None
        return cls(file, name, tuple(shape), read_as)
