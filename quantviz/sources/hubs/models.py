"""Published models by their names: their files, and the tensors of a file."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from quantviz.errors import QuantVizError
from quantviz.jobs import can_ask
from quantviz.sources.files import BY_RANGES, is_index
from quantviz.sources.hubs.addresses import COMMIT, HubAddress, parse_address, published_place
from quantviz.sources.hubs.connection import Deadline, get_twice
from quantviz.sources.hubs.hosts import USUAL_ENDPOINT, Hosts, hubs_offered
from quantviz.sources.hubs.published import PIECE, PublishedFile, PublishedModel, Ranges, kept
from quantviz.sources.limits import HubLimits, Limits
from quantviz.sources.sandbox import Read, read_apart
from quantviz.sources.stores.addresses import name_of
from quantviz.sources.stores.store import About, AskedStore, Store
from quantviz.sources.stores.store_data import StoreData

if TYPE_CHECKING:
    from quantviz.sources.sandboxed import Sandboxed

_CONFIGURATIONS = ("config.json",)
_SHELF = "models"
_MOST_OPEN = 16


def find_model(place: HubAddress) -> PublishedModel:
    """Return a model at the commit that its revision means now; `QuantVizError` where no hub gives it."""
    model = replace(place, file="")
    hosts = Hosts.of_environment()
    # The content of a commit never changes.
    return _found_once(model, hosts) if place.pinned else _found(model, hosts)


def _found(place: HubAddress, hosts: Hosts) -> PublishedModel:
    limits = HubLimits.of_environment()
    # A commit is the same everywhere: if the hub in a link is not listed, try the others. `HF_ENDPOINT` names
    # the one to ask in place of the usual one.
    stands_in = hosts.endpoint != USUAL_ENDPOINT == f"https://{place.host}"
    names = (place.host,) if place.host in hosts.names and not stands_in else hosts.names
    first: QuantVizError | None = None
    for name in names:
        try:
            return _find(name, place, hosts, limits)
        except QuantVizError as problem:
            first = first or problem
    assert first
    raise first


_found_once = functools.lru_cache(_MOST_OPEN)(_found)


def _find(host: str, place: HubAddress, hosts: Hosts, limits: HubLimits) -> PublishedModel:
    """Return the model as one hub lists it; the listing of a commit is cached."""
    store = kept(limits)
    before = store.get(_SHELF, _name(host, place, hosts)) if place.pinned else None
    # A cached listing may be damaged, or of another version of QuantViz: then fetch it again.
    model = _model(host, place, before) if before is not None else None
    if model is None:
        listed = _listed(host, place, hosts, limits)
        model = _model(host, place, listed)
        if model is None:
            raise QuantVizError("hub.listing", host=host, model=place.repo)
        store.make_room(len(listed))
        store.put(_SHELF, _name(host, place.at(model.commit), hosts), listed)
    if not model.files:
        raise QuantVizError("hub.no_files", model=place.repo, known=", ".join(BY_RANGES))
    return model


def _listed(host: str, place: HubAddress, hosts: Hosts, limits: HubLimits) -> bytes:
    revision = quote(place.revision, safe="")
    deadline = Deadline.of(min(limits.seconds, 2 * limits.quiet_seconds))
    url = f"{hosts.origin(host)}/api/models/{place.repo}/revision/{revision}?blobs=true"
    try:
        return get_twice(url, hosts, limits, deadline, most=Limits.of_environment().json_bytes).body
    except QuantVizError as problem:
        # A token that is not valid is refused for public models, too.
        if problem.key in ("hub.missing", "hub.login"):
            raise QuantVizError(
                "hub.no_model", host=host, model=place.repo, revision=place.revision
            ) from None
        raise


def _name(host: str, place: HubAddress, hosts: Hosts) -> str:
    """Return the listing's name in the cache, one of its own for each login."""
    token = hosts.token_for(hosts.origin(host))
    return hashlib.sha256(f"{host} {place.repo} {place.revision} {token}".rstrip().encode()).hexdigest()


def _model(host: str, place: HubAddress, listed: bytes) -> PublishedModel | None:
    """Return None if the listing is not understood."""
    try:
        listing = json.loads(listed)
        commit = listing["sha"]
        siblings = listing["siblings"]
        if not COMMIT.fullmatch(commit) or (place.pinned and commit != place.revision):
            return None
        files = tuple(sorted(_files(siblings, tuple(BY_RANGES)), key=lambda file: file.name))
        configurations = tuple(_files(siblings, _CONFIGURATIONS))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return PublishedModel(host, place.repo, commit, files, configurations)


def _files(siblings: Iterable[Mapping[str, Any]], ends: tuple[str, ...]) -> Iterator[PublishedFile]:
    for sibling in siblings:
        name = sibling["rfilename"]
        lfs = sibling.get("lfs") or {}
        if not name.lower().endswith(ends):
            continue
        size = lfs.get("size", sibling.get("size"))
        sha256 = lfs.get("sha256", "")
        blob = "" if lfs else sibling.get("blobId") or ""
        if type(size) is not int or not 0 <= size < 2**63 or not isinstance(sha256, str | None):
            raise ValueError(name)
        try:
            HubAddress("a/b", file=name)
        except QuantVizError:
            continue  # no address can name it
        yield PublishedFile(name, size, sha256 or "", str(blob))


def published_file(pasted: str) -> tuple[PublishedModel, str]:
    """Return the model, and the path of the file that an address names or that holds the model."""
    place = parse_address(pasted, Hosts.of_environment())
    model = find_model(place)
    if place.file:
        return model, model.file(place.file).name
    # Judged by names: at the top, and an index before others.
    names = [file.name for file in model.files]
    return model, min(names, key=lambda name: (name.count("/"), not is_index(name), name))


def published_catalog(model: PublishedModel, file: str, read: Read = read_apart) -> Sandboxed:
    """Return the tensors of a published file, quantized weights decoded among them; only the header is read.

    Raises:
        QuantVizError: The hub does not give it, or it is damaged, unknown or beyond the limits.
    """
    address = model.address(model.file(file).name)
    known = Hosts.of_environment(), HubLimits.of_environment(), Limits.of_environment()
    return _catalog(address, *known, read)


@functools.lru_cache(_MOST_OPEN)
def _catalog(address: str, hosts: Hosts, limits: HubLimits, most: Limits, read: Read) -> Sandboxed:
    from quantviz.sources.sandboxed import Sandboxed

    return Sandboxed(_Published(address, hosts, limits), read)


@dataclass(frozen=True)
class _Published:
    """A published file; where it is sent to, no login goes with it."""

    address: str
    hosts: Hosts = field(default_factory=Hosts)
    limits: HubLimits = field(default_factory=HubLimits)

    @property
    def name(self) -> str:
        return name_of(self.address)

    @property
    def version(self) -> Hashable:
        return self.address, hash(self)

    def data(self) -> StoreData:
        return StoreData(self.address, AskedStore() if can_ask() else HubStore(self.hosts, self.limits))

    def __reduce__(self) -> tuple[Any, ...]:
        return _Published, (self.address,)


class HubStore(Store):
    """Each byte is fetched once, checked and cached. Safe for many threads."""

    first_bytes = PIECE
    # Its pieces are split, fetched and cached by `Ranges`.
    range_bytes = 2**63

    def __init__(self, hosts: Hosts, limits: HubLimits) -> None:
        self._hosts = hosts
        self._limits = limits
        self._files: dict[HubAddress, Ranges] = {}

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

    def _ranges(self, address: str) -> Ranges:
        place = published_place(address)
        if place not in self._files:
            model = find_model(place)
            self._files[place] = Ranges(model, model.file(place.file), self._hosts, self._limits)
        return self._files[place]
