"""What a store is: it says what a file is now, gives ranges of its bytes, and lists a folder where it can."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from quantviz.errors import QuantVizError
from quantviz.sources.files.file_data import clipped
from quantviz.sources.stores.addresses import name_of, scheme_of, shown
from quantviz.text import visible

#: Where an address leads that no package is needed for.
WEB = ("http", "https")
#: What a version begins with that a changed file may have too.
PASSING = "~"
#: Characters of what a store says that are repeated in a sentence, and that are looked at for it.
_LONGEST_REASON, _LONGEST_LOOKED_AT = 200, 2000
#: The query of an address, which may sign it.
_QUERY = re.compile(r"(?<=://)([^\s?#'\"]*)[?#][^\s'\"]*")


@dataclass(frozen=True)
class About:
    """What a store says of a file."""

    #: Bytes.
    size: int
    #: What changes when the content does: an ETag, a digest, a time; "" where the store says nothing of the
    #: kind. It begins with `PASSING` where a change within a second would not show.
    version: str = ""


class Store(ABC):
    """Files at addresses of one kind. Safe for many threads."""

    @abstractmethod
    def about(self, address: str) -> About:
        """Return what the file at an address is now; `QuantVizError` where it cannot be read."""

    @abstractmethod
    def read(self, address: str, ranges: Sequence[tuple[int, int]], about: About) -> list[bytes]:
        """Return ranges of the bytes, each from the first to before the second number.

        Raises:
            QuantVizError: The file is not the one that `about` says any more, or its bytes do not come.
        """

    @abstractmethod
    def names(self, address: str) -> tuple[str, ...]:
        """Return the names of the files in a folder; `QuantVizError` where there is none, or no list."""


def store_of(address: str) -> Store:
    """Return the store that an address leads to.

    Raises:
        QuantVizError: There is none of that kind, or what it needs is not installed.
    """
    if scheme_of(address) in WEB:
        from quantviz.sources.stores.web import WebStore

        return WebStore()
    from quantviz.sources.stores.object_store import ObjectStore

    return ObjectStore(address)


def problem_at(address: str, key: str, **params: object) -> QuantVizError:
    """Return the error `store.<key>` that names the file at an address."""
    named = {"file": clipped(name_of(address)), "store": clipped(_place(address))}
    return QuantVizError(f"store.{key}", **named, **params)


def reason_of(problem: BaseException) -> str:
    """Return what a library says of a failure, short and without what may be secret."""
    try:
        words = " ".join(str(problem)[:_LONGEST_LOOKED_AT].split())
    except Exception:  # what a library raises is its own, and so is how it is written
        words = ""
    said = _QUERY.sub(r"\1", words) or type(problem).__name__
    return visible(said if len(said) <= _LONGEST_REASON else said[: _LONGEST_REASON - 1] + "…")


def _place(address: str) -> str:
    """Return scheme and host or bucket."""
    scheme, _, rest = shown(address).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
