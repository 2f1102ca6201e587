"""Object stores and all else that fsspec reads: S3, Google Cloud Storage, Azure, SFTP, memory.

Each store has a library of its own, and none of them is ours: `_called` is the one place that takes their
results and their errors.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from quantviz.errors import QuantVizError
from quantviz.sources.stores.addresses import scheme_of
from quantviz.sources.stores.store import PASSING, About, Store, problem_at, reason_of

_T = TypeVar("_T")

#: The keys of a text that changes with the content, in several stores, and the keys of a time that does.
_DIGESTS = (
    *("etag", "versionid", "version_id", "generation", "md5hash", "content_md5", "crc32c", "checksum"),
    *("blob_id", "sha256"),
)
_TIMES = ("lastmodified", "last_modified", "updated", "modified", "mtime", "created")
#: Characters up to which a version is the store's own text; a longer one is replaced by its digest.
_LONGEST_VERSION = 500
#: Bytes that a file may have: more than any number in a file can point at.
_MOST_BYTES = 2**63 - 1
MOST_NAMES = 100_000
_TRIES = 2


class ObjectStore(Store):
    """Fsspec takes the credentials from the environment and its configuration."""

    def __init__(self, address: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise problem_at(address, "not_installed") from None

        def call() -> Any:
            try:
                return url_to_fs(address)[0]
            except ImportError:
                raise
            except ValueError:
                raise problem_at(address, "unknown_scheme", got=scheme_of(address)) from None

        self._files = _called(address, call)

    def about(self, address: str) -> About:
        def call() -> About:
            # An earlier listing may be that of another content.
            self._files.invalidate_cache()
            return _about(address, self._files.info(address))

        return _called(address, call)

    def read(self, address: str, ranges: Sequence[tuple[int, int]], about: About) -> list[bytes]:
        starts, stops = zip(*ranges, strict=True)

        def call() -> list[bytes]:
            found = self._files.cat_ranges(
                [address] * len(ranges), list(starts), list(stops), on_error="raise"
            )
            if not isinstance(found, list | tuple) or len(found) != len(ranges):
                raise problem_at(address, "answer", got=type(found).__name__)
            return [
                _part(address, got, stop - start) for (start, stop), got in zip(ranges, found, strict=True)
            ]

        for tries in range(1, _TRIES + 1):
            try:
                found = _called(address, call)
            except QuantVizError as problem:
                if self.about(address) != about:
                    raise problem_at(address, "changed") from None
                if tries == _TRIES or problem.key not in ("store.failed", "store.cut"):
                    raise
                continue
            if self.about(address) != about:
                raise problem_at(address, "changed")
            return found
        raise AssertionError

    def names(self, address: str) -> tuple[str, ...]:
        def call() -> tuple[str, ...]:
            self._files.invalidate_cache()
            listed = self._files.ls(address, detail=True)
            if not isinstance(listed, list | tuple):
                raise problem_at(address, "answer", got=type(listed).__name__)
            if not self._files.isdir(address):
                raise problem_at(address, "missing" if not listed else "unknown_kind")
            if len(listed) > MOST_NAMES:
                raise problem_at(address, "too_many_files", got=len(listed), most=MOST_NAMES)
            return tuple(sorted(filter(None, (_name_in(address, each) for each in listed))))

        return _called(address, call)


def _called(address: str, call: Callable[[], _T]) -> _T:
    """Call a library; a `QuantVizError` that names the file stands for any error."""
    try:
        return call()
    except QuantVizError:
        raise
    except FileNotFoundError:
        raise problem_at(address, "missing") from None
    except PermissionError:
        raise problem_at(address, "denied") from None
    except ImportError as problem:
        raise problem_at(address, "needs_package", reason=reason_of(problem)) from None
    # A cancelled asynchronous call is not an `Exception`.
    except (Exception, asyncio.CancelledError) as problem:
        raise problem_at(address, "failed", reason=reason_of(problem)) from None


def _about(address: str, entry: object) -> About:
    if not isinstance(entry, Mapping):
        raise problem_at(address, "answer", got=type(entry).__name__)
    if entry.get("type") == "directory":
        raise problem_at(address, "folder")
    size = entry.get("size")
    if type(size) is not int or not 0 <= size <= _MOST_BYTES:
        raise problem_at(address, "no_size")
    return About(size, version_of(entry))


def _part(address: str, got: object, wanted: int) -> bytes:
    if isinstance(got, Exception):  # some libraries ignore the request to raise errors
        raise got
    if not isinstance(got, bytes | bytearray | memoryview):
        raise problem_at(address, "answer", got=type(got).__name__)
    if memoryview(got).nbytes != wanted:
        raise problem_at(address, "cut", got=memoryview(got).nbytes, asked=wanted)
    return bytes(got)


def _name_in(address: str, entry: object) -> str:
    """Return the name; "" where it is a folder, or no address can name it."""
    if not isinstance(entry, Mapping) or not isinstance(name := entry.get("name"), str):
        raise problem_at(address, "answer", got=type(entry).__name__)
    if entry.get("type") == "directory" or name.endswith("/"):
        return ""
    name = name.rpartition("/")[2]
    return name if name.isprintable() else ""


def version_of(entry: Mapping[str, Any]) -> str:
    """Return the metadata that changes with the file's content.

    >>> version_of({"name": "x", "size": 3, "ETag": '"abc"', "LastModified": "today"})
    'etag="abc" lastmodified=today'
    >>> version_of({"name": "x", "mtime": 12.0}), version_of({"name": "x", "mtime": 12.5}), version_of({})
    ('~mtime=12.0', 'mtime=12.5', '')
    """
    known = {str(key).lower().replace("-", "_"): value for key, value in entry.items() if value}
    digests = [f"{key}={known[key]}" for key in _DIGESTS if key in known]
    times = {key: known[key] for key in _TIMES if key in known}
    sure = bool(digests) or any(map(_is_fine, times.values()))
    found = [*digests, *(f"{key}={value}" for key, value in times.items())]
    return ("" if sure or not found else PASSING) + _short(" ".join(found))


def _short(version: str) -> str:
    """Return a version, or its digest where it is long or not plain text."""
    if len(version) <= _LONGEST_VERSION and version.isprintable():
        return version
    return f"sha256={hashlib.sha256(version.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _is_fine(time: object) -> bool:
    if isinstance(time, datetime.datetime):
        return time.microsecond != 0
    return isinstance(time, float) and not time.is_integer()
