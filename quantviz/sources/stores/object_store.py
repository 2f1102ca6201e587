"""Object stores and all else that fsspec reads: S3, Google Cloud Storage, Azure, SFTP, memory."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.sources.stores.addresses import scheme_of
from quantviz.sources.stores.store import PASSING, About, Store, problem_at, reason_of

#: What stores call a text that changes with the content, and a time that does.
_DIGESTS = (
    *("etag", "versionid", "version_id", "generation", "md5hash", "content_md5", "crc32c", "checksum"),
    *("blob_id", "sha256"),
)
_TIMES = ("lastmodified", "last_modified", "updated", "modified", "mtime", "created")
#: How often bytes are asked for that failed to come.
_TRIES = 2


class ObjectStore(Store):
    """Files that fsspec reads by the scheme of their addresses.

    Credentials are what fsspec takes from the environment and its configuration.
    """

    def __init__(self, address: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise problem_at(address, "not_installed") from None
        try:
            self._files, _ = url_to_fs(address)
        except ImportError as problem:
            raise problem_at(address, "needs_package", reason=reason_of(problem)) from None
        except ValueError:
            raise problem_at(address, "unknown_scheme", got=scheme_of(address)) from None
        except Exception as problem:
            raise problem_at(address, "failed", reason=reason_of(problem)) from None

    def about(self, address: str) -> About:
        with _told(address):
            # What was listed before may be of another content.
            self._files.invalidate_cache()
            said = self._files.info(address)
        if said.get("type") == "directory":
            raise problem_at(address, "folder")
        if type(said.get("size")) is not int or said["size"] < 0:
            raise problem_at(address, "no_size")
        return About(said["size"], version_of(said))

    def read(self, address: str, ranges: Sequence[tuple[int, int]], about: About) -> list[bytes]:
        starts, stops = zip(*ranges, strict=True)
        for tries in range(1, _TRIES + 1):
            try:
                with _told(address):
                    found = self._files.cat_ranges(
                        [address] * len(ranges), list(starts), list(stops), on_error="raise"
                    )
                for (start, stop), got in zip(ranges, found, strict=True):
                    if len(got) != stop - start:
                        raise problem_at(address, "cut", got=len(got), asked=stop - start)
            except QuantVizError as problem:
                if self.about(address) != about:
                    raise problem_at(address, "changed") from None
                if tries == _TRIES or problem.key not in ("store.failed", "store.cut"):
                    raise
                continue
            if self.about(address) != about:
                raise problem_at(address, "changed")
            return [bytes(got) for got in found]
        raise AssertionError

    def names(self, address: str) -> tuple[str, ...]:
        with _told(address):
            self._files.invalidate_cache()
            listed = self._files.ls(address, detail=True)
            is_folder = self._files.isdir(address)
        if not is_folder:
            raise problem_at(address, "missing" if not listed else "unknown_kind")
        files = (str(each["name"]) for each in listed if each.get("type") != "directory")
        return tuple(sorted(name.rpartition("/")[2] for name in files if not name.endswith("/")))


def version_of(said: Mapping[str, Any]) -> str:
    """Return what of a store's words on a file changes when its content does.

    >>> version_of({"name": "x", "size": 3, "ETag": '"abc"', "LastModified": "today"})
    'etag="abc" lastmodified=today'
    >>> version_of({"name": "x", "mtime": 12.0}), version_of({"name": "x", "mtime": 12.5}), version_of({})
    ('~mtime=12.0', 'mtime=12.5', '')
    """
    known = {str(key).lower().replace("-", "_"): value for key, value in said.items() if value}
    digests = [f"{key}={known[key]}" for key in _DIGESTS if key in known]
    times = {key: known[key] for key in _TIMES if key in known}
    sure = bool(digests) or any(map(_is_fine, times.values()))
    found = [*digests, *(f"{key}={value}" for key, value in times.items())]
    return ("" if sure or not found else PASSING) + " ".join(found)


def _is_fine(time: object) -> bool:
    """Return whether a time has parts of a second."""
    if isinstance(time, datetime.datetime):
        return time.microsecond != 0
    return isinstance(time, float) and not time.is_integer()


@contextmanager
def _told(address: str) -> Iterator[None]:
    """Turn whatever a store's library raises into one `QuantVizError` that names the file."""
    try:
        yield
    except QuantVizError:
        raise
    except FileNotFoundError:
        raise problem_at(address, "missing") from None
    except PermissionError:
        raise problem_at(address, "denied") from None
    except ImportError as problem:
        raise problem_at(address, "needs_package", reason=reason_of(problem)) from None
    except Exception as problem:
        raise problem_at(address, "failed", reason=reason_of(problem)) from None
