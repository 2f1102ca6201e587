"""The hosts of published models as the operator lists them, the login to one of them as users of
`huggingface_hub` set it, and the internet addresses that connections may go to.

One rule for addresses: each is globally routable, and reserved for nothing else. Python's `ipaddress`
contains most of IANA's registries of special addresses, each release another part of them: the parts that any
release lacks are listed here.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, urljoin, urlsplit

from quantviz.errors import QuantVizError

#: The recommended value: a hub, its mirror, and the hosts that both send files from.
HUBS = "QUANTVIZ_HUBS"
USUAL = "huggingface.co hf-mirror.com *.hf.co"

#: The last one keeps the token from being sent.
ENDPOINT = "HF_ENDPOINT"
TOKEN = "HF_TOKEN"
DISABLED = "HF_HUB_DISABLE_IMPLICIT_TOKEN"
USUAL_ENDPOINT = "https://huggingface.co"
_OLD_TOKEN = "HUGGING_FACE_HUB_TOKEN"
_YES = ("1", "on", "yes", "true")
_LONGEST_TOKEN = 4096

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = rf"{_LABEL}(\.{_LABEL})*\.[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?"
_HUB = re.compile(rf"(https://)?(?P<netloc>{_NAME}(:[1-9]\d{{0,4}})?)/?", re.ASCII)
_STORE = re.compile(rf"\*\.(?P<domain>{_NAME})", re.ASCII)
#: A hub on the operator's own machine, such as one under test: any other host needs encryption.
_LOCAL = re.compile(r"(?P<origin>http://(?P<netloc>(127\.0\.0\.1|\[::1\]):[1-9]\d{0,4}))/?", re.ASCII)


@dataclass(frozen=True)
class Hosts:
    """The hosts that the operator lists."""

    #: Scheme, host and port, in the order in which they are asked.
    hubs: tuple[str, ...] = ()
    #: Domains whose hosts, and all below them, may send a hub's files.
    stores: tuple[str, ...] = ()
    #: The only hub that gets the login.
    endpoint: str = USUAL_ENDPOINT
    token: str = field(default="", repr=False)

    @classmethod
    def read(cls, listed: str, variable: str = HUBS) -> Hosts:
        """Return the hosts of a list with spaces or commas; a `QuantVizError` names the list's variable."""
        hubs = []
        stores = []
        for entry in listed.replace(",", " ").casefold().split():
            if found := _STORE.fullmatch(entry):
                stores.append(found["domain"])
            elif found := _LOCAL.fullmatch(entry):
                hubs.append(found["origin"])
            elif found := _HUB.fullmatch(entry):
                hubs.append(f"https://{found['netloc']}")
            else:
                raise QuantVizError("hub.setting", variable=variable, got=entry, example=USUAL)
        return cls(tuple(dict.fromkeys(hubs)), tuple(dict.fromkeys(stores)))

    @classmethod
    def of_environment(cls) -> Hosts:
        """Return the operator's hosts with the login, `HF_ENDPOINT` first; `QuantVizError` for none."""
        hosts = cls.read(os.environ.get(HUBS, "")).logged_in()
        if not hosts.hubs:
            raise QuantVizError("hub.not_set", variable=HUBS, example=USUAL)
        if hosts.endpoint == USUAL_ENDPOINT:
            return hosts
        return replace(hosts, hubs=tuple(dict.fromkeys((hosts.endpoint, *hosts.hubs))))

    def logged_in(self) -> Self:
        """Return the hosts with the environment's login and the hub that gets it."""
        named = self.read(os.environ.get(ENDPOINT, ""), ENDPOINT).hubs
        return replace(self, endpoint=named[0] if named else USUAL_ENDPOINT, token=hub_token())

    def token_for(self, origin: str) -> str:
        return self.token if origin == self.endpoint else ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(urlsplit(hub).netloc for hub in self.hubs)

    def origin(self, name: str) -> str:
        """Return scheme, host and port; `QuantVizError` for a hub that is not listed."""
        for hub, known in zip(self.hubs, self.names, strict=True):
            if name == known:
                return hub
        raise QuantVizError("hub.unlisted", got=name, known=", ".join(self.names), variable=HUBS)

    def allow(self, url: str | SplitResult) -> bool:
        """Return whether an address is that of a listed hub, or of a host that sends its files."""
        parts = urlsplit(url) if isinstance(url, str) else url
        if origin_of(parts) in self.hubs:
            return True
        host = parts.netloc
        return parts.scheme == "https" and any(
            host == domain or (host.endswith(f".{domain}") and _HUB.fullmatch(host)) for domain in self.stores
        )

    def anywhere(self, parts: SplitResult) -> bool:
        """Return whether an address may lead into a private network."""
        return False


def origin_of(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}"


def web_address(address: str, of: SplitResult | None = None) -> SplitResult:
    """Return the parts of an address of http or https, which may be relative to another, without the
    fragment.

    Raises:
        QuantVizError: It is no such address, or contains a user name.

    >>> web_address("../x#y", web_address("https://Host/a/b/c")).geturl()
    'https://host/a/x'
    """
    try:
        parts = urlsplit(urljoin(of.geturl(), address) if of else address)
        usable = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and parts.port != 0
            # Any other character could start another line of the request.
            and address.isascii()
            and address.isprintable()
            and " " not in address
        )
    except ValueError:
        usable = False
    if not usable:
        # Leave the query out of the message: it may contain a signature.
        raise QuantVizError("hub.damaged_address", got=address.partition("?")[0])
    return parts._replace(netloc=parts.netloc.casefold(), fragment="")


def hubs_offered() -> bool:
    return bool(os.environ.get(HUBS, "").strip())


def hub_token() -> str:
    """Return the token of the environment or of the file that `hf auth login` writes.

    Raises:
        QuantVizError: It has characters that no token has. The message does not repeat it.
    """
    if _asks_as_nobody():
        return ""
    token = (os.environ.get(TOKEN) or os.environ.get(_OLD_TOKEN) or _saved()).strip()
    # Any other character could start another line of the request.
    if not token.isascii() or not token.isprintable() or " " in token:
        raise QuantVizError("hub.token", variable=TOKEN)
    return token


def downloads() -> Path | None:
    """Return the folder of `huggingface_hub`'s files; None without a login, which they may have needed."""
    return None if _asks_as_nobody() else _in_home("HF_HUB_CACHE", "hub")


def _asks_as_nobody() -> bool:
    return os.environ.get(DISABLED, "").casefold() in _YES


def _in_home(variable: str, name: str) -> Path:
    """Return the path in a variable, else that of `name` in the folder of `huggingface_hub`."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    path = os.environ.get(variable) or f"{home}/{name}"
    return Path(os.path.expanduser(os.path.expandvars(path)))


def _saved() -> str:
    try:
        with _in_home("HF_TOKEN_PATH", "token").open(encoding="utf-8") as file:
            return file.read(_LONGEST_TOKEN)
    except (OSError, ValueError):  # none is saved
        return ""


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Nothing else of IPv6 is assigned to hosts that everybody can reach.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
#: The network in which an address leads to the IPv4 address in its last bytes (RFC 6052), which machines
#: without an IPv4 address of their own get from their resolver.
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
#: Special networks that some release of `ipaddress` takes for global.
_RESERVED = tuple(
    map(
        ipaddress.ip_network,
        (
            # Assignments of the IETF: of them a release lets single addresses pass.
            "192.0.0.0/24",
            # The way from IPv6 to IPv4 that was given up (RFC 7526).
            "192.88.99.0/24",
            # Azure's service for its own machines, which answers with their secrets.
            "168.63.129.16/32",
            # Assignments of the IETF, among them Teredo, which leads to the IPv4 address inside it.
            "2001::/23",
            # 6to4, which leads to the IPv4 address inside it.
            "2002::/16",
            # Two networks for documents.
            "2001:db8::/32",
            "3fff::/20",
        ),
    )
)


def is_public(address: str) -> bool:
    """Return whether everybody can reach an address, or the IPv4 address it contains."""
    try:
        ip = _meant(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    return (
        ip.is_global
        and not (ip.is_private or ip.is_multicast or ip.is_reserved)
        and (ip.version == 4 or ip in _GLOBAL_UNICAST)
        and not any(ip in network for network in _RESERVED)
    )


def _meant(ip: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 address contains or is translated to."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _TRANSLATED:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip
