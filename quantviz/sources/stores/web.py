"""Files on a web server that gives ranges of bytes, which are checked as closely as a hub's; and those of
listed hubs.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from quantviz.errors import QuantVizError
from quantviz.sources.hubs.addresses import Place, published_place
from quantviz.sources.hubs.connection import Answer, Deadline, get_twice
from quantviz.sources.hubs.hosts import Hosts, hubs_offered, web_address
from quantviz.sources.hubs.models import find_model
from quantviz.sources.hubs.published import Ranges
from quantviz.sources.limits import HubLimits
from quantviz.sources.stores.store import PASSING, About, Store, problem_at

#: Requests at a time for one reading.
_AT_ONCE = 4
#: The keys of errors for a file at an address, by those for hubs.
_KEYS = {
    "hub.missing": "missing",
    "hub.login": "denied",
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
        return parts.scheme == "https" or f"{parts.scheme}://{parts.netloc}" == self.named

    def anywhere(self, parts: SplitResult) -> bool:
        return f"{parts.scheme}://{parts.netloc}" == self.named


class HubStore(Store):
    """Files of listed hubs: each byte is fetched once, checked and cached. Safe for many threads."""

    def __init__(self) -> None:
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

    def read(self, address: str, ranges: Sequence[tuple[int, int]], about: About) -> list[bytes]:
        file = self._ranges(address)
        return [bytes(file.read(*part)) for part in ranges]

    def names(self, address: str) -> tuple[str, ...]:
        raise problem_at(address, "no_list")

    def _ranges(self, address: str) -> Ranges:
        place = published_place(address)
        if place not in self._files:
            model = find_model(place)
            hosts = Hosts.of_environment()
            self._files[place] = Ranges(model, model.file(place.file), hosts, HubLimits.of_environment())
        return self._files[place]


class WebStore(Store):
    """Files at addresses of http and https. Every answer must be the requested range, of the same file."""

    def about(self, address: str) -> About:
        # The answer to a range of one byte has the whole length, and shows that the server sends ranges.
        return _about(_fetched(address, 0, 1, Deadline.of(HubLimits.of_environment().seconds)))

    def read(self, address: str, ranges: Sequence[tuple[int, int]], about: About) -> list[bytes]:
        deadline = Deadline.of(HubLimits.of_environment().seconds)

        def read(part: tuple[int, int]) -> bytes:
            answer = _fetched(address, *part, deadline)
            if _about(answer) != about:
                raise problem_at(address, "changed")
            return answer.body

        if len(ranges) == 1:
            return [read(ranges[0])]
        with ThreadPoolExecutor(min(_AT_ONCE, len(ranges)), "quantviz-store") as pool:
            try:
                return list(pool.map(read, ranges))
            finally:
                # If one request fails, do not wait for the others.
                deadline.given_up.set()
                pool.shutdown(cancel_futures=True)

    def names(self, address: str) -> tuple[str, ...]:
        raise problem_at(address, "no_list")


def _fetched(address: str, start: int, stop: int, deadline: Deadline) -> Answer:
    """Return the answer with a range of a file; a failed connection is tried once more."""
    limits = HubLimits.of_environment()
    try:
        parts = web_address(address)
    except QuantVizError:
        raise problem_at(address, "address") from None
    hosts = NamedHost(named=f"{parts.scheme}://{parts.netloc}")
    try:
        return get_twice(address, hosts, limits, deadline, most=stop - start, part=(start, stop))
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
