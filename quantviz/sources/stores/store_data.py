"""A file at an address, in the form that readers take: its header first, then only the bytes they read."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from quantviz.sources.files import BY_RANGES, Catalog
from quantviz.sources.files.file_data import ByteSource, FileData, RemoteData
from quantviz.sources.stores.addresses import beside, name_of, scheme_of
from quantviz.sources.stores.store import Store

#: Bytes of one range, of which a store sends several at once.
_RANGE = 2**22
#: Bytes of announced parts that are fetched ahead: each part up to the first number, all of them up to the
#: second, across gaps up to the third.
_MOST_EXPECTED = 2**22
_MOST_TOGETHER = 2**26
_GAP = 2**14
#: Schemes of addresses that need no package.
_WEB = ("http", "https")


def store_of(address: str) -> Store:
    """Return the store that an address leads to.

    Raises:
        QuantVizError: There is no store of that kind, or its package is not installed.
    """
    if scheme_of(address) in _WEB:
        from quantviz.sources.stores.web import HubStore, WebStore

        return HubStore() if HubStore.has(address) else WebStore()
    from quantviz.sources.stores.object_store import ObjectStore

    return ObjectStore(address)


class StoreData(RemoteData):
    """A file at an address; all its bytes are of one version of it."""

    #: A request takes some time however few its bytes.
    at_once = 4 * _RANGE
    first_bytes = 2**16

    def __init__(self, address: str, store: Store | None = None) -> None:
        super().__init__(name_of(address) or "?")
        self._address = address
        self._store = store or store_of(address)
        self._about = self._store.about(address)
        self.version = f"{self._about.version} size={self._about.size}" if self._about.version else ""
        #: The runs of bytes that were fetched ahead, each with its offset.
        self._ahead: list[tuple[int, bytes]] = []

    @property
    def size(self) -> int:
        return self._about.size

    def fetched(self, start: int, stop: int) -> memoryview:
        ahead = self._found_ahead(start, stop)
        if ahead is not None:
            return ahead
        return memoryview(b"".join(self._together([(start, stop)]) if start < stop else ()))

    @property
    def source(self) -> ByteSource:
        return self

    def read_into(self, part: memoryview, start: int) -> None:
        part[:] = self.part(start, start + len(part))

    def expect(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ahead = []
        runs: list[tuple[int, int]] = []
        total = 0
        for start, stop in sorted(ranges):
            if stop - start > _MOST_EXPECTED or total + stop - start > _MOST_TOGETHER:
                continue
            total += stop - start
            if runs and start - runs[-1][1] <= _GAP:
                runs[-1] = runs[-1][0], max(stop, runs[-1][1])
            else:
                runs.append((start, stop))
        if runs:
            self._ahead = [(start, got) for (start, _), got in zip(runs, self._together(runs), strict=True)]

    def beside(self, name: str) -> FileData:
        return StoreData(beside(self._address, name), self._store)

    def _found_ahead(self, start: int, stop: int) -> memoryview | None:
        at = bisect.bisect_right(self._ahead, start, key=lambda run: run[0]) - 1
        if at < 0:
            return None
        first, got = self._ahead[at]
        return memoryview(got)[start - first : stop - first] if stop - first <= len(got) else None

    def _together(self, runs: list[tuple[int, int]]) -> list[bytes]:
        """Return each run's bytes, all of them from one request to the store."""
        pieces = [piece for run in runs for piece in _pieces(*run)]
        got = iter(self._store.read(self._address, pieces, self._about))
        return [b"".join(next(got) for _ in _pieces(*run)) for run in runs]


def _pieces(start: int, stop: int) -> list[tuple[int, int]]:
    return [(first, min(first + _RANGE, stop)) for first in range(start, stop, _RANGE)]


def reader_in(data: FileData) -> type[Catalog] | None:
    """Return the reader for a file's content; none if no reader by ranges recognizes it."""
    return next((reader for reader in dict.fromkeys(BY_RANGES.values()) if reader.recognises(data)), None)


def reader_at(address: str) -> type[Catalog] | None:
    """Return the reader for the name of the file at an address; none if no reader by ranges fits it."""
    name = name_of(address).lower()
    return next((reader for suffix, reader in BY_RANGES.items() if name.endswith(suffix)), None)
