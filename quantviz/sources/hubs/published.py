"""Published models at a commit, and the bytes of their files by ranges."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from quantviz.errors import QuantVizError
from quantviz.sources.files import is_index
from quantviz.sources.files.file_data import clipped
from quantviz.sources.hubs.addresses import HubAddress, published_address
from quantviz.sources.hubs.byte_cache import ByteCache
from quantviz.sources.hubs.connection import HostResponse, get_ranges
from quantviz.sources.hubs.hosts import Hosts, downloads
from quantviz.sources.limits import HubLimits
from quantviz.whole_files import own_folder

PIECE = 2**20
_PIECES_A_REQUEST = 8
#: Up to here a file is read and checked as a whole, whatever part of it is needed.
_SMALL = 4 * PIECE


@dataclass(frozen=True)
class PublishedFile:
    name: str
    size: int
    #: "" if the hub does not provide it.
    sha256: str = ""
    #: Git's SHA-1 of its content, "" if that is a pointer's.
    blob: str = ""


@dataclass(frozen=True)
class PublishedModel:
    host: str
    repo: str
    commit: str
    #: Readable by ranges.
    files: tuple[PublishedFile, ...]
    configurations: tuple[PublishedFile, ...] = ()

    def file(self, name: str) -> PublishedFile:
        """Return a readable file by its path; raise `QuantVizError` if there is none."""
        for entry in (*self.files, *self.configurations):
            if entry.name == name:
                return entry
        raise QuantVizError("hub.no_file", file=clipped(name), model=self.repo, commit=self.commit[:12])

    def address(self, file: str) -> str:
        """Return a file's address at the commit; `QuantVizError` if its hub is no longer listed."""
        origin = Hosts.of_environment().origin(self.host)
        return published_address(origin, HubAddress(self.repo, self.commit, file))

    def size_with(self, file: str) -> int:
        """Return the bytes of a file; of an index, of all files beside it."""
        folder = PurePosixPath(file).parent
        beside = (entry for entry in self.files if PurePosixPath(entry.name).parent == folder)
        return sum(entry.size for entry in beside) if is_index(file) else self.file(file).size


class Ranges:
    """The bytes of one published file, cached on disk. Safe for many threads."""

    def __init__(self, model: PublishedModel, file: PublishedFile, hosts: Hosts, limits: HubLimits) -> None:
        self.model = model
        self.file = file
        self._hosts = hosts
        self._limits = limits
        self._url = published_address(
            hosts.origin(model.host), HubAddress(model.repo, model.commit, file.name)
        )
        self._kept = kept(limits)
        identity = (model.host, model.repo, model.commit, file.name, file.size, file.sha256, file.blob)
        # Bytes that only a login may read are on a shelf that only this login finds.
        login = hosts.token_for(hosts.origin(model.host))
        self._shelf = hashlib.sha256(f"{identity}{login}".encode()).hexdigest()[:32]
        copies = downloads()
        #: Downloaded by `huggingface_hub`.
        self._copy = (
            copies / f"models--{model.repo.replace('/', '--')}" / "snapshots" / model.commit / file.name
            if copies and hosts.origin(model.host) == hosts.endpoint
            else None
        )
        self._count = -(-file.size // PIECE)
        self._lock = threading.Lock()
        #: The file's ETag in the first answer of each host.
        self._tags: dict[tuple[str, str], str] = {}

    def read(self, start: int, stop: int) -> memoryview:
        """Return bytes within the file, read-only.

        Raises:
            QuantVizError: They are too many, or the hub does not give them.
        """
        if stop - start > self._limits.tensor_bytes:
            raise QuantVizError(
                "hub.too_large", got=stop - start, most=self._limits.tensor_bytes, file=self._name
            )
        first = start // PIECE
        last = -(-stop // PIECE)
        if self.file.size <= _SMALL:
            first = 0
            last = self._count
        if copied := self._copied(start, stop):
            return memoryview(copied)
        base = first * PIECE
        content = bytearray(min(last * PIECE, self.file.size) - base)

        def fill(piece: int, got: bytes) -> None:
            content[piece * PIECE - base : piece * PIECE - base + len(got)] = got

        with self._lock:
            missing = []
            for piece in range(first, last):
                got = self._kept.get(self._shelf, str(piece))
                if got is not None and len(got) == self._length(piece):
                    fill(piece, got)
                else:
                    missing.append(piece)
            if missing:
                self._kept.make_room(sum(self._length(piece) + 64 for piece in missing))
                for piece, got in self._fetched(missing):
                    fill(piece, got)
                    self._kept.put(self._shelf, str(piece), got)
                self._check_whole(content if last - first == self._count else None)
        return memoryview(content)[start - base : stop - base].toreadonly()

    def _copied(self, start: int, stop: int) -> bytes:
        """Return bytes of `huggingface_hub`'s copy of the file at its commit."""
        if self._copy is None:
            return b""
        try:
            with self._copy.open("rb") as file:
                file.seek(start)
                got = file.read(stop - start)
                return got if os.fstat(file.fileno()).st_size == self.file.size else b""
        except OSError:
            return b""

    @property
    def _name(self) -> str:
        return clipped(self.file.name)

    def _length(self, piece: int) -> int:
        return min(PIECE, self.file.size - piece * PIECE)

    def _fetched(self, missing: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        runs = _runs(missing)
        ranges = ((run[0] * PIECE, run[-1] * PIECE + self._length(run[-1])) for run in runs)
        for k, answer in get_ranges(self._url, self._hosts, self._limits, ranges):
            self._check_same(answer)
            for i, piece in enumerate(runs[k]):
                yield piece, answer.body[i * PIECE : i * PIECE + self._length(piece)]

    def _check_same(self, answer: HostResponse) -> None:
        """Raise a `QuantVizError` where the file is not the listed one, or not the same as before."""
        changed = QuantVizError("hub.changed", file=self._name, host=answer.host)
        commit = answer.headers.get("x-repo-commit", self.model.commit)
        if answer.total != self.file.size or commit != self.model.commit:
            raise changed
        for name, host in (("x-linked-etag", self.model.host), ("etag", answer.host)):
            tag = answer.headers.get(name, "").strip().removeprefix("W/").strip('"')
            if not tag:
                continue
            if name == "x-linked-etag" and self.file.sha256 and tag != self.file.sha256:
                raise changed
            if self._tags.setdefault((name, host), tag) != tag:
                raise changed

    def _check_whole(self, content: bytearray | None) -> None:
        """Compare the digest if the whole file is in memory or on the disk.

        Raises:
            QuantVizError: The content differs. Its pieces are removed from the cache.
        """
        if content is None:
            if len(self._kept.names(self._shelf)) < self._count:
                return
            parts: Iterable[bytes | bytearray | None] = (
                self._kept.get(self._shelf, str(piece)) for piece in range(self._count)
            )
        else:
            parts = (content,)
        if self.file.sha256:
            digest = hashlib.sha256()
            expected = self.file.sha256
        elif self.file.blob:
            digest = hashlib.sha1(usedforsecurity=False)
            expected = self.file.blob
            digest.update(f"blob {self.file.size}\0".encode())
        else:
            return
        for part in parts:
            if part is None:  # it went meanwhile
                return
            digest.update(part)
        if digest.hexdigest() != expected:
            self._kept.drop(self._shelf)
            raise QuantVizError("hub.digest", file=self._name, host=self.model.host)


def kept(limits: HubLimits) -> ByteCache:
    return ByteCache(own_folder("hubs"), limits.cache_bytes)


def _runs(missing: Iterable[int]) -> list[range]:
    """>>> _runs([0, 1, 2, 5, 6])
    [range(0, 3), range(5, 7)]
    """
    runs: list[range] = []
    for piece in missing:
        if runs and runs[-1].stop == piece and len(runs[-1]) < _PIECES_A_REQUEST:
            runs[-1] = range(runs[-1].start, piece + 1)
        else:
            runs.append(range(piece, piece + 1))
    return runs
