"""Stores by their addresses; web servers' ranges are checked as closely as a hub's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from quantviz.errors import QuantVizError
from quantviz.jobs import can_ask
from quantviz.sources.hubs.connection import HostResponse, get_ranges
from quantviz.sources.hubs.hosts import Hosts, origin_of, web_address
from quantviz.sources.hubs.models import HubStore
from quantviz.sources.limits import HubLimits
from quantviz.sources.stores.addresses import WEB, scheme_of
from quantviz.sources.stores.object_store import ObjectStore
from quantviz.sources.stores.store import PASSING, About, AskedStore, Store, problem_at

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


class WebStore(Store):
    """Every answer must be the requested range, of the same file."""

    def about(self, address: str) -> About:
        # The answer to a range of one byte has the whole length, and shows that the server sends ranges.
        return _about(_fetched(address, [(0, 1)])[0])

    def read(self, address: str, ranges: Sequence[tuple[int, int]], about: About) -> list[bytes]:
        answers = _fetched(address, ranges)
        if any(_about(each) != about for each in answers):
            raise problem_at(address, "changed")
        return [each.body for each in answers]


def store_of(address: str) -> Store:
    """Raise `QuantVizError` for an unknown kind, and for one whose package is not installed."""
    if can_ask():
        return AskedStore()
    if scheme_of(address) not in WEB:
        return ObjectStore(address)
    if HubStore.has(address):
        return HubStore(Hosts.of_environment(), HubLimits.of_environment())
    return WebStore()


def _fetched(address: str, ranges: Sequence[tuple[int, int]]) -> list[HostResponse]:
    """A failed connection is tried once more."""
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


def _about(answer: HostResponse) -> About:
    """Read size and version from the headers: an ETag changes with every byte, unless it is marked as weak; a
    time has whole seconds only.
    """
    tag, time = (answer.headers.get(name, "").strip() for name in ("etag", "last-modified"))
    if tag and not tag.startswith("W/"):
        return About(answer.total, f"etag={tag}")
    headers = " ".join(each for each in (tag, time) if each)
    return About(answer.total, f"{PASSING}{headers}" if headers else "")
