"""Files at addresses, as readers take them: the header first, then only the bytes they read."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable
from typing import Any

from quantviz.sources.files import BY_RANGES, Catalog
from quantviz.sources.files.file_data import ByteSource, FileData, RemoteData
from quantviz.sources.stores.addresses import beside, name_of
from quantviz.sources.stores.store import Store, answered

#: Bytes of announced parts that are fetched ahead: each part up to the first number, all of them up to the
#: second, across gaps up to the third.
_MOST_EXPECTED = 2**22
_MOST_TOGETHER = 2**26
_GAP = 2**14


class StoreData(RemoteData):
    """All its bytes are of one version of the file."""

    #: A request takes some time however few its bytes.
    bytes_per_read = 2**24

    def __init__(self, address: str, store: Store) -> None:
        super().__init__(name_of(address) or "?", beside=self._file_beside)
        self.address = address
        self._store = store
        self.first_bytes = self._store.first_bytes
        self._about = self._store.about(address)
        self.version = f"{self._about.version} size={self._about.size}" if self._about.version else ""
        #: Runs that were fetched ahead, each with its offset.
        self._ahead: list[tuple[int, bytes | memoryview]] = []

    @property
    def size(self) -> int:
        return self._about.size

    def answered(self, question: Any) -> Any:
        return answered(self._store, self.address, question)

    def fetched(self, start: int, stop: int) -> memoryview:
        ahead = self._found_ahead(start, stop)
        if ahead is not None:
            return ahead
        return memoryview(self._together([(start, stop)])[0] if start < stop else b"")

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

    def _file_beside(self, name: str) -> FileData:
        return StoreData(beside(self.address, name), self._store)

    def _found_ahead(self, start: int, stop: int) -> memoryview | None:
        at = bisect.bisect_right(self._ahead, start, key=lambda run: run[0]) - 1
        if at < 0:
            return None
        first, got = self._ahead[at]
        return memoryview(got)[start - first : stop - first] if stop - first <= len(got) else None

    def _together(self, runs: list[tuple[int, int]]) -> list[bytes | memoryview]:
        """Return each run's bytes from one request to the store."""
        step = self._store.range_bytes
        split = [[(at, min(at + step, stop)) for at in range(start, stop, step)] for start, stop in runs]
        got = iter(self._store.read(self.address, [piece for run in split for piece in run], self._about))
        return [next(got) if len(run) == 1 else b"".join(itertools.islice(got, len(run))) for run in split]


def reader_in(data: FileData) -> type[Catalog] | None:
    """Return the reader by ranges that recognizes the content."""
    return next((reader for reader in dict.fromkeys(BY_RANGES.values()) if reader.recognises(data)), None)


def reader_at(address: str) -> type[Catalog] | None:
    name = name_of(address).lower()
    return next((reader for suffix, reader in BY_RANGES.items() if name.endswith(suffix)), None)
