"""One request to a listed host: to a checked address, within its time, for no more bytes than requested.

Written on `http.client`, because the connection must go to the very address that was checked: a second
look-up of the host's name may lead elsewhere.
"""

from __future__ import annotations

import functools
import http.client
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import SplitResult

from quantviz.errors import QuantVizError
from quantviz.sources.hubs.hosts import HUBS, Hosts, is_public, web_address
from quantviz.sources.limits import HubLimits

_REDIRECTS = (301, 302, 303, 307, 308)
#: The errors of some status codes.
_REFUSED = {
    **{401: "hub.login", 403: "hub.login", 404: "hub.missing", 410: "hub.missing"},
    **{429: "hub.busy", 503: "hub.busy"},
}
#: Headers with which a hub describes a file before it redirects to the host that sends it.
_LINKED = ("x-linked-etag", "x-repo-commit")
#: Bytes that are taken from a connection at a time.
_AT_ONCE = 2**18
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", re.ASCII)


@dataclass(frozen=True, eq=False)
class Deadline:
    """The time limit of a reading, which also ends when its caller gives it up."""

    seconds: float
    until: float
    given_up: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, seconds: float) -> Deadline:
        """Return the deadline of a reading that begins now."""
        return cls(seconds, time.monotonic() + seconds)

    def left(self, host: str) -> float:
        """Return the seconds that are left; raise `QuantVizError` if there are none."""
        left = self.until - time.monotonic()
        if left <= 0 or self.given_up.is_set():
            raise QuantVizError("hub.slow", host=host, seconds=self.seconds)
        return left


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer of a host to a request."""

    #: The host that answered after all redirects.
    host: str
    #: The headers, in lower case, with those that described the file before a redirect.
    headers: Mapping[str, str]
    body: bytes
    #: Bytes of the whole file, for a request of a part of it.
    total: int = 0


class Places:
    """The places of a process's requests, which limit their number at one time, to one host and in all.

    Safe for many threads.

    A host that stalls keeps its places until its time is over, and gets no others.

    >>> places = Places()
    >>> with places.taken(("hub", "its store"), HubLimits(), 1):
    ...     sorted(places.held().items())
    [('hub', 1), ('its store', 1)]
    >>> places.held()
    {}
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._total = 0
        self._of_host: Counter[str] = Counter()

    def held(self) -> dict[str, int]:
        """Return the number of places that each host has, by its name."""
        with self._changed:
            return dict(self._of_host)

    @contextmanager
    def taken(self, hosts: tuple[str, ...], limits: HubLimits, seconds: float) -> Iterator[None]:
        """Wait for a place, and hold it for a `with` block.

        Args:
            hosts: The hosts that it counts for: that of the request, and the hub of the file.
            limits: The numbers of places.
            seconds: Seconds to wait.

        Raises:
            QuantVizError: No place is free by then.
        """
        counted = dict.fromkeys(hosts)
        until = time.monotonic() + seconds
        with self._changed:
            while full := self._full(counted, limits):
                left = until - time.monotonic()
                if left <= 0:
                    raise full
                self._changed.wait(left)
            self._total += 1
            self._of_host.update(counted.keys())
        try:
            yield
        finally:
            with self._changed:
                self._total -= 1
                self._of_host -= Counter(counted.keys())  # which forgets hosts without a place
                self._changed.notify_all()

    def _full(self, hosts: Iterable[str], limits: HubLimits) -> QuantVizError | None:
        """Return the error for the lack of a free place; none if there is one."""
        if self._total >= limits.requests:
            return QuantVizError("hub.crowded", most=limits.requests)
        for host in hosts:
            if self._of_host[host] >= limits.host_requests:
                return QuantVizError("hub.host_crowded", host=host, most=limits.host_requests)
        return None


#: The places of this process.
PLACES = Places()


def get(
    url: str,
    hosts: Hosts,
    limits: HubLimits,
    deadline: Deadline,
    *,
    most: int,
    part: tuple[int, int] | None = None,
) -> Answer:
    """Return the answer of a listed host to a request.

    Args:
        url: The address.
        hosts: The allowed hosts, also of redirects.
        limits: The limits of a request.
        deadline: The time limit of the whole reading.
        most: The most bytes of the answer.
        part: The requested bytes, from the first to before the second. The answer has exactly these.

    Raises:
        QuantVizError: There is no usable answer; one of the keys `hub.*`.
    """
    linked: dict[str, str] = {}
    parts = web_address(url)
    first = parts.netloc
    encrypted = parts.scheme == "https"
    for _ in range(limits.redirects + 1):
        if not hosts.allow(parts):
            raise QuantVizError("hub.redirected", host=first, got=parts.netloc, variable=HUBS)
        if encrypted and parts.scheme != "https":
            raise QuantVizError("hub.unencrypted", host=first, got=parts.netloc)
        # A request to another host counts for the hub too, or a hub would use up the places of each such
        # host.
        with (
            PLACES.taken((first, parts.netloc), limits, deadline.left(parts.netloc)),
            _answering(parts, limits, deadline, part, hosts.anywhere(parts)) as response,
        ):
            headers = {name.casefold(): value for name, value in response.getheaders()}
            linked |= {name: headers[name] for name in _LINKED if name in headers and name not in linked}
            if response.status not in _REDIRECTS:
                return _taken(parts.netloc, response, headers | linked, deadline, most, part)
        parts = web_address(headers.get("location", ""), parts)
    raise QuantVizError("hub.redirects", host=first, most=limits.redirects)


def get_twice(
    url: str,
    hosts: Hosts,
    limits: HubLimits,
    deadline: Deadline,
    *,
    most: int,
    part: tuple[int, int] | None = None,
) -> Answer:
    """Return an answer as `get` does; a request whose answer was cut or failed to come is tried once more."""
    try:
        return get(url, hosts, limits, deadline, most=most, part=part)
    except QuantVizError as problem:
        if problem.key not in ("hub.cut", "hub.unreachable"):
            raise
    return get(url, hosts, limits, deadline, most=most, part=part)


@contextmanager
def _answering(
    parts: SplitResult, limits: HubLimits, deadline: Deadline, part: tuple[int, int] | None, anywhere: bool
) -> Iterator[http.client.HTTPResponse]:
    """Send a request, and yield the answer before its body; the connection ends afterwards, or when time is
    up.
    """
    host = parts.netloc
    over = threading.Event()
    sock: socket.socket | None = None
    try:
        sock = _connected(parts, limits, deadline, anywhere)
        with (
            _shut_down_after(deadline.left(host), sock, over),
            closing(_requested(sock, parts, part)) as answer,
        ):
            yield answer
    except TimeoutError:
        raise QuantVizError(
            "hub.slow", host=host, seconds=min(limits.quiet_seconds, deadline.seconds)
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        if isinstance(problem, QuantVizError):
            raise
        if over.is_set() or deadline.given_up.is_set():
            raise QuantVizError("hub.slow", host=host, seconds=deadline.seconds) from None
        if sock is None:
            raise QuantVizError("hub.unreachable", host=host) from None
        raise QuantVizError("hub.cut", host=host) from None
    finally:
        if sock is not None:
            sock.close()


@contextmanager
def _shut_down_after(seconds: float, sock: socket.socket, over: threading.Event) -> Iterator[None]:
    """Shut the connection down once the time is up, and set `over` then.

    A host may send a byte now and then for ever, in its headers too: no time-out of a socket sees that.
    """

    def end() -> None:
        over.set()
        with suppress(OSError):  # past TLS, which would take leave of the other side first
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    alarm = threading.Timer(seconds, end)
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def _requested(
    sock: socket.socket, parts: SplitResult, part: tuple[int, int] | None
) -> http.client.HTTPResponse:
    """Send the request, and return the answer before its body."""
    connection = http.client.HTTPConnection(parts.netloc)
    connection.sock = sock
    headers = {
        "Host": parts.netloc,
        "User-Agent": "quantviz",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    if part:
        headers["Range"] = f"bytes={part[0]}-{part[1] - 1}"
    query = f"?{parts.query}" if parts.query else ""
    connection.request("GET", (parts.path or "/") + query, headers=headers)
    return connection.getresponse()


def _taken(
    host: str,
    response: http.client.HTTPResponse,
    headers: Mapping[str, str],
    deadline: Deadline,
    most: int,
    part: tuple[int, int] | None,
) -> Answer:
    """Return the answer with its body, after a check that it matches the request."""
    status = response.status
    if status in _REFUSED:
        raise QuantVizError(_REFUSED[status], host=host)
    if status not in (200, 206):
        raise QuantVizError("hub.status", host=host, got=status)
    encoding = headers.get("content-encoding", "identity").casefold()
    if encoding != "identity":
        raise QuantVizError("hub.encoded", host=host, got=encoding)
    length = headers.get("content-length")
    total = 0
    if part:
        # Refuse an answer that begins at the file's start although the request was for its middle.
        if status == 200:
            raise QuantVizError("hub.no_ranges", host=host)
        found = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
        first, last, total = map(int, found.groups()) if found else (-1, -1, 0)
        if (first, last + 1) != part or total < part[1]:
            raise QuantVizError("hub.wrong_range", host=host)
        most = part[1] - part[0]
        if length is not None and length.strip() != str(most):
            raise QuantVizError("hub.wrong_range", host=host)
    elif status != 200:
        raise QuantVizError("hub.status", host=host, got=status)
    elif length is not None and not (length.strip().isdecimal() and int(length) <= most):
        raise QuantVizError("hub.too_long", host=host, most=most)
    body = _body(host, response, deadline, most)
    if len(body) > most:
        raise QuantVizError("hub.too_long", host=host, most=most)
    if (part and len(body) != most) or (length is not None and len(body) != int(length)):
        deadline.left(host)  # it may be our own alarm that cut it
        raise QuantVizError("hub.cut", host=host)
    return Answer(host, headers, body, total)


def _body(host: str, response: http.client.HTTPResponse, deadline: Deadline, most: int) -> bytes:
    """Return the body, or of a longer one a byte more than it may have."""
    body = bytearray()
    while len(body) <= most:
        deadline.left(host)
        got = response.read1(min(_AT_ONCE, most + 1 - len(body)))
        if not got:
            break
        body += got
    return bytes(body)


def _connected(parts: SplitResult, limits: HubLimits, deadline: Deadline, anywhere: bool) -> socket.socket:
    """Return a connection to the host, encrypted if its scheme is https."""
    host = parts.hostname or ""
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    sock: socket.socket | None = None
    problem: OSError | None = None
    # Without encryption the host is the operator's own machine, listed by its IP address, or a host that the
    # user named.
    for address in _addresses(host, port, deadline, anywhere) if secure or anywhere else [host]:
        try:
            sock = socket.create_connection((address, port), min(limits.quiet_seconds, deadline.left(host)))
            break
        except OSError as error:
            problem = error
    if sock is None:
        raise problem or OSError(host)
    if not secure:
        return sock
    try:
        return _certificates().wrap_socket(sock, server_hostname=host)
    except (OSError, ValueError) as error:
        sock.close()
        if isinstance(error, TimeoutError):
            raise
        raise QuantVizError("hub.certificate", host=host) from None


@functools.cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def _addresses(host: str, port: int, deadline: Deadline, anywhere: bool) -> list[str]:
    """Return the host's addresses, unless it may be anywhere all of them public: one that is not refuses the
    host.

    The system looks names up for as long as it likes, so it does so aside.
    """
    looked_up: Future[list[str]] = Future()

    def look_up() -> None:
        try:
            looked_up.set_result(resolve(host, port))
        except BaseException as problem:
            looked_up.set_exception(problem)

    threading.Thread(target=look_up, name="quantviz-hub-name", daemon=True).start()
    addresses = looked_up.result(deadline.left(host))
    if not addresses:
        raise OSError(host)
    if not anywhere and not all(map(is_public, addresses)):
        raise QuantVizError("hub.private", host=host)
    return addresses


def resolve(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host from the system's resolver, each once."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
