"""Pasted addresses: of a model's page or of one of its files, or the model's name alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote, urlsplit

from quantviz.errors import QuantVizError
from quantviz.sources.hubs.hosts import HUBS, Hosts

USUAL_REVISION = "main"
#: The revision whose content never changes.
COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_REPO = re.compile(rf"{_PART}(/{_PART})?", re.ASCII)
_REVISION = re.compile(r"(?!.*\.\.)[^\x00-\x20\x7f?#\\]{1,200}")
_LONGEST_FILE = 1024
_NO_MODELS = frozenset(
    ("datasets", "spaces", "models", "docs", "api", "blog", "papers", "collections", "posts", "tasks")
)
_SHOWN = ("blob", "resolve", "raw", "tree")


@dataclass(frozen=True)
class HubAddress:
    """A model, or a file of it, at a revision."""

    repo: str
    revision: str = USUAL_REVISION
    #: "" where only the model is meant.
    file: str = ""
    #: As the operator lists it; "" where any hub may have it.
    host: str = ""

    def __post_init__(self) -> None:
        parts = self.file.split("/")
        if (
            not _REPO.fullmatch(self.repo)
            or ".." in self.repo
            or not _REVISION.fullmatch(self.revision)
            or len(self.file) > _LONGEST_FILE
            or (self.file and any(part in ("", ".", "..") for part in parts))
            or not self.file.isprintable()
        ):
            raise _not_understood(f"{self.repo}@{self.revision} {self.file}".rstrip())

    @property
    def pinned(self) -> bool:
        """Return whether everybody finds the same bytes."""
        return COMMIT.fullmatch(self.revision) is not None

    def at(self, commit: str) -> HubAddress:
        return replace(self, revision=commit)


def parse_address(pasted: str, hosts: Hosts) -> HubAddress:
    """Return the address of a model's page, a folder or a file, or of `owner/name` or `owner/name@revision`.

    Raises:
        QuantVizError: It names no model, or a host that is not listed.
    """
    words = pasted.strip()
    scheme, _, rest = words.rpartition("://")
    first = rest.partition("/")[0].casefold()
    if not scheme and first not in hosts.names and not _is_host(first, rest):
        repo, _, revision = words.partition("@")
        return _place(words, repo, revision or USUAL_REVISION)
    if scheme not in ("", "https", "http"):
        raise _not_understood(words)
    hosts.origin(first)
    try:
        path = urlsplit(f"//{rest}").path
    except ValueError:
        raise _not_understood(words) from None
    parts = [part for part in path.split("/") if part]
    if not parts or parts[0] in _NO_MODELS:
        raise _not_understood(words)
    # A model's name has one part or two; the rest of the path names the page of it.
    length = 1 if len(parts) == 1 or parts[1] in _SHOWN else 2
    repo = "/".join(parts[:length])
    shown = parts[length:]
    if len(shown) < 2 or shown[0] not in _SHOWN:
        return _place(words, repo, host=first)
    file = "" if shown[0] == "tree" else unquote("/".join(shown[2:]))
    return _place(words, repo, unquote(shown[1]), file, first)


def published_place(address: str) -> HubAddress:
    """Return the file at a commit on a listed hub; `QuantVizError` where the address names none."""
    place = parse_address(address, Hosts.of_environment())
    if not (place.file and place.pinned and place.host):
        raise _not_understood(address)
    return place


def published_address(origin: str, place: HubAddress) -> str:
    """>>> published_address("https://hub.co", HubAddress("a/b", "0" * 40, "x y.gguf"))[-19:]
    '00000000/x%20y.gguf'
    """
    return f"{origin}/{place.repo}/resolve/{place.revision}/{quote(place.file)}"


def published_name(address: str) -> str:
    """>>> published_name("https://hub.co/a/b/resolve/main/model.gguf")
    'a/b · model.gguf'
    """
    repo, _, rest = unquote(urlsplit(address).path).strip("/").partition("/resolve/")
    return f"{repo} · {rest.partition('/')[2]}"


def _place(
    words: str, repo: str, revision: str = USUAL_REVISION, file: str = "", host: str = ""
) -> HubAddress:
    try:
        return HubAddress(repo, revision, file, host)
    except QuantVizError:
        raise _not_understood(words) from None


def _is_host(first: str, rest: str) -> bool:
    """Return whether it begins with a host: three parts, the first with a dot."""
    return "." in first and rest.strip("/").count("/") >= 2


def _not_understood(got: str) -> QuantVizError:
    return QuantVizError("hub.address", got=got, variable=HUBS)
