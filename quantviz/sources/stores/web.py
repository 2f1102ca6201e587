"""Files on a web server that gives ranges of bytes, which are checked as closely as a hub's; and those of
listed hubs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from quantviz.errors import QuantVizError
from quantviz.sources.hubs.addresses import Place, published_place
from quantviz.sources.hubs.connection import Answer, get_ranges
from quantviz.sources.hubs.hosts import Hosts, hubs_offered, origin_of, web_address
from quantviz.sources.hubs.models import find_model
from quantviz.sources.hubs.published import PIECE, Ranges
from quantviz.sources.limits import HubLimits
from quantviz.sources.stores.store import PASSING, About, Store, problem_at

#: The keys of errors for a file at an address, by those for hubs.
_KEYS = {
    "hub.missing": "missing",
    "hub.login": "denied",
    "hub.denied": "denied",
    "hub.no_ranges": "no_ranges",
    "hub.cut": "broken_off",
    "hub.wrong_range": "wrong_range",
    "hub.too_long": "wrong_range",
    "hub.encoded": "wrong_range",
    "hub.slow": "slow",
    "hub.unreachable": "unreachable",
    "hub.certificate": "certificate",
}


@dataclass(frozen=True)
class NamedHost(Hosts):
    """The host that the user named, in any network, and public ones that it redirects to over https."""

    named: str = ""

    def allow(self, url: str | SplitResult) -> bool:
        parts = urlsplit(url) if isinstance(url, str) else url
        return parts.scheme == "https" or self.anywhere(parts)

    def anywhere(self, parts: SplitResult) -> bool:
        return origin_of(parts) == self.named


class HubStore(Store):
    """Files of listed hubs: each byte is fetched once, checked and cached. Safe for many threads."""

    first_bytes = PIECE
    # Its pieces are split, fetched and cached by `Ranges`.
    range_bytes = 2**63

    def __init__(self, hosts: Hosts, limits: HubLimits) -> None:
        self._hosts = hosts
        self._limits = limits
        self._files: dict[Place, Ranges] = {}

    @staticmethod
    def has(address: str) -> bool:
        """Return whether an address names a file of a listed hub at a commit."""
        try:
            return hubs_offered() and bool(published_place(address))
        except QuantVizError:
            return False

    def about(self, address: str) -> About:
        ranges = self._ranges(address)
        return About(ranges.file.size, f"commit={ranges.model.commit}")

    def read(self, address: str, ranges: Sequence[tuple[int, int]], about: About) -> list[memoryview]:
        file = self._ranges(address)
        return [file.read(*part) for part in ranges]

    def names(self, address: str) -> tuple[str, ...]:
        raise problem_at(address, "no_list")

    def _ranges(self, address: str) -> Ranges:
        place = published_place(address)
        if place not in self._files:
            model = find_model(place)
            self._files[place] = Ranges(model, model.file(place.file), self._hosts, self._limits)
        return self._files[place]


class WebStore(Store):
    """Files at addresses of http and https. Every answer must be the requested range, of the same file."""

    def about(self, address: str) -> About:
        # The answer to a range of one byte has the whole length, and shows that the server sends ranges.
        return _about(_fetched(address, [(0, 1)])[0])

    def read(self, address: str, ranges: Sequence[tuple[int, int]], about: About) -> list[bytes]:
        answers = _fetched(address, ranges)
        if any(_about(each) != about for each in answers):
            raise problem_at(address, "changed")
        return [each.body for each in answers]

    def names(self, address: str) -> tuple[str, ...]:
        raise problem_at(address, "no_list")


def _fetched(address: str, ranges: Sequence[tuple[int, int]]) -> list[Answer]:
    """Return the answers with ranges of a file; a failed connection is tried once more."""
    try:
        parts = web_address(address)
    except QuantVizError:
        raise problem_at(address, "address") from None
    hosts = NamedHost(named=origin_of(parts)).logged_in()
    try:
        answers = dict(get_ranges(address, hosts, HubLimits.of_environment(), ranges))
        return [answers[k] for k in range(len(ranges))]
    except QuantVizError as problem:
        if problem.key == "hub.status" and str(problem.params["got"]) == "416":
            raise problem_at(address, "wrong_range") from None
        key = _KEYS.get(problem.key)
        if key is None:
            raise problem_at(address, "answered", problem=problem) from None
        more = {"seconds": problem.params["seconds"]} if key == "slow" else {}
        raise problem_at(address, key, **more) from None


def _about(answer: Answer) -> About:
    """Return size and version of the whole file from the headers of an answer.

    An ETag changes with every byte, unless it is marked as weak; a time has whole seconds only.
    """
    tag, time = (answer.headers.get(name, "").strip() for name in ("etag", "last-modified"))
    if tag and not tag.startswith("W/"):
        return About(answer.total, f"etag={tag}")
    headers = " ".join(each for each in (tag, time) if each)
    return About(answer.total, f"{PASSING}{headers}" if headers else "")
