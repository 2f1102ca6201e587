"""Stores: they describe a file's present version, read ranges of its bytes, and list a folder if they can."""

from __future__ import annotations

import pickle
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.jobs import ask
from quantviz.sources.files.file_data import clipped
from quantviz.sources.stores.addresses import is_near, name_of, shown
from quantviz.text import visible

#: The first character of a version that a changed file may share.
PASSING = "~"
#: Characters of a store's message that an error repeats, and that are read to find them.
_LONGEST_REASON = 200
_LONGEST_LOOKED_AT = 2000
#: The query of an address, which may sign it.
_QUERY = re.compile(r"(?<=://)([^\s?#'\"]*)[?#][^\s'\"]*")


@dataclass(frozen=True)
class About:
    size: int
    #: A text that changes with the content: an ETag, a digest, a time; "" if the store provides none. It
    #: begins with `PASSING` if a change within a second would not show.
    version: str = ""


class Store(ABC):
    """Files at addresses of one kind. Safe for many threads."""

    #: Bytes of a header that are read at first, and of one range, of which a store sends several at once.
    first_bytes = 2**16
    range_bytes = 2**22

    @abstractmethod
    def about(self, address: str) -> About: ...

    @abstractmethod
    def read(
        self, address: str, ranges: Sequence[tuple[int, int]], about: About
    ) -> Sequence[bytes | memoryview]:
        """Return ranges of the bytes, each from the first to before the second number.

        Raises:
            QuantVizError: The file is no longer the version in `about`, or its bytes do not come.
        """

    def names(self, address: str) -> tuple[str, ...]:
        """Return the files in a folder; raise `QuantVizError` if it cannot be listed."""
        raise problem_at(address, "no_list")


class AskedStore(Store):
    """In a confined process: the server that it belongs to asks the stores."""

    def about(self, address: str) -> About:
        about: About = ask(("about", address))
        return about

    def read(
        self, address: str, ranges: Sequence[tuple[int, int]], about: About
    ) -> Sequence[bytes | memoryview]:
        parts: list[bytes | memoryview] = ask(("read", address, list(ranges), about))
        return parts

    def names(self, address: str) -> tuple[str, ...]:
        names: tuple[str, ...] = ask(("names", address))
        return names


def answered(store: Store, opened: str, question: Any) -> Any:
    """Return the answer to a question of `AskedStore`, on an opened file or those beside it.

    Raises:
        QuantVizError: The store raises it, or the question is about other files.
    """
    match question:
        case ("about" | "names" as method, address) if is_near(address, opened):
            return getattr(store, method)(address)
        case ("read", address, list(ranges), About() as about) if is_near(address, opened):
            return list(map(pickle.PickleBuffer, store.read(address, ranges, about)))
    raise problem_at(opened, "denied")


def problem_at(address: str, key: str, **params: object) -> QuantVizError:
    scheme, _, rest = shown(address).partition("://")
    place = f"{scheme}://{rest.partition('/')[0]}"
    return QuantVizError(f"store.{key}", file=clipped(name_of(address)), store=clipped(place), **params)


def reason_of(problem: BaseException) -> str:
    """Return a library's message, shortened and without parts that may be secret."""
    try:
        words = " ".join(str(problem)[:_LONGEST_LOOKED_AT].split())
    except Exception:  # a library's error may fail when it is turned into text
        words = ""
    reason = _QUERY.sub(r"\1", words) or type(problem).__name__
    return visible(reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…")
