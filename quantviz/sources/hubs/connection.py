"""One request to a listed host: to a checked address, within its time, for no more bytes than requested.

Written on `http.client`, because the connection must go to the very address that was checked: a second
look-up of the host's name may lead elsewhere.
"""

from __future__ import annotations

import functools
import http.client
import io
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult

from quantviz.errors import QuantVizError
from quantviz.sources.hubs.hosts import HUBS, TOKEN, Hosts, is_public, origin_of, web_address
from quantviz.sources.limits import HubLimits

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_REDIRECTS = (301, 302, 303, 307, 308)
_REFUSED = {
    **{401: "hub.login", 403: "hub.login", 404: "hub.missing", 410: "hub.missing"},
    **{429: "hub.busy", 503: "hub.busy"},
}
#: Headers with which a hub describes a file before it redirects to the host that sends it.
_LINKED = ("x-linked-etag", "x-repo-commit")
_BYTES_PER_READ = 2**18
_HEADERS = {"User-Agent": "quantviz", "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", re.ASCII)


@dataclass(frozen=True, eq=False)
class Deadline:
    """The time limit of a reading, which also ends when its caller gives it up."""

    seconds: float
    until: float
    given_up: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, seconds: float) -> Deadline:
        return cls(seconds, time.monotonic() + seconds)

    def left(self, host: str) -> float:
        """Return the seconds that are left; raise `QuantVizError` if there are none."""
        left = self.until - time.monotonic()
        if left <= 0 or self.given_up.is_set():
            raise QuantVizError("hub.slow", host=host, seconds=self.seconds)
        return left


@dataclass(frozen=True, eq=False)
class HostResponse:
    #: After all redirects.
    host: str
    #: In lower case, with those that described the file before a redirect.
    headers: Mapping[str, str]
    body: bytes
    #: Of the whole file, for a request of a part of it.
    total: int = 0


class Places:
    """Limits of a process's requests at one time, to one host and in all. Safe for many threads.

    A host that stalls keeps its places until its time is over, and gets no others.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: Places taken by host, and under "" all of them.
        self._taken: Counter[str] = Counter()

    def held(self) -> dict[str, int]:
        with self._changed:
            return {host: count for host, count in self._taken.items() if host}

    @contextmanager
    def taken(self, hosts: tuple[str, ...], limits: HubLimits, seconds: float) -> Iterator[None]:
        """Wait some seconds for a place, and hold it for a `with` block.

        It counts for the host of the request and the hub of the file.

        Raises:
            QuantVizError: No place is free by then.
        """
        most = {"": limits.requests, **dict.fromkeys(hosts, limits.host_requests)}

        def full() -> list[str]:
            return [host for host in most if self._taken[host] >= most[host]]

        with self._changed:
            if not self._changed.wait_for(lambda: not full(), seconds):
                host = full()[0]
                key = "hub.host_crowded" if host else "hub.crowded"
                raise QuantVizError(key, host=host, most=most[host])
            self._taken.update(most.keys())
        try:
            yield
        finally:
            with self._changed:
                self._taken -= Counter(most.keys())  # which forgets hosts without a place
                self._changed.notify_all()


PLACES = Places()


def get(
    url: str,
    hosts: Hosts,
    limits: HubLimits,
    deadline: Deadline,
    *,
    most: int,
    part: tuple[int, int] | None = None,
) -> HostResponse:
    """Return the answer of a listed host.

    Args:
        url: The address.
        hosts: The allowed hosts, also of redirects.
        limits: The limits of a request.
        deadline: The limit of the whole reading.
        most: The most bytes of the answer.
        part: The first byte and the byte after the last. The answer has exactly these.

    Raises:
        QuantVizError: There is no usable answer; one of the keys `hub.*`.
    """
    linked: dict[str, str] = {}
    parts = web_address(url)
    first = parts.netloc
    origin = origin_of(parts)
    token = hosts.token_for(origin)
    for _ in range(limits.redirects + 1):
        if not hosts.allow(parts):
            raise QuantVizError("hub.redirected", host=first, got=parts.netloc, variable=HUBS)
        if origin.startswith("https:") and parts.scheme != "https":
            raise QuantVizError("hub.unencrypted", host=first, got=parts.netloc)
        if origin_of(parts) != origin:
            token = ""  # also if it leads back: only the hub itself sees its login
        headers = {
            **({"Range": f"bytes={part[0]}-{part[1] - 1}"} if part else {}),
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }
        # A request to another host counts for the hub too, or a hub would use up the places of each such
        # host.
        with (
            PLACES.taken((first, parts.netloc), limits, deadline.left(parts.netloc)),
            _answering(parts, limits, deadline, headers, hosts.anywhere(parts)) as response,
        ):
            if token and response.status in (401, 403):
                raise QuantVizError("hub.denied", host=parts.netloc, variable=TOKEN)
            told = {name.casefold(): value for name, value in response.getheaders()}
            linked |= {name: told[name] for name in _LINKED if name in told and name not in linked}
            if response.status not in _REDIRECTS:
                return _taken(parts.netloc, response, told | linked, most, part)
        parts = web_address(told.get("location", ""), parts)
    raise QuantVizError("hub.redirects", host=first, most=limits.redirects)


def get_twice(
    url: str,
    hosts: Hosts,
    limits: HubLimits,
    deadline: Deadline,
    *,
    most: int,
    part: tuple[int, int] | None = None,
) -> HostResponse:
    """Try a request once more whose answer was cut or failed to come."""
    try:
        return get(url, hosts, limits, deadline, most=most, part=part)
    except QuantVizError as problem:
        if problem.key not in ("hub.cut", "hub.unreachable"):
            raise
    return get(url, hosts, limits, deadline, most=most, part=part)


def get_ranges(
    url: str, hosts: Hosts, limits: HubLimits, ranges: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, HostResponse]]:
    """Get ranges of bytes, several at a time, and yield each with its number as it comes.

    A `QuantVizError` is raised where one has no usable answer; others may have been yielded before.
    """
    deadline = Deadline.of(limits.seconds)
    with ThreadPoolExecutor(min(limits.requests, limits.host_requests), "quantviz-hub") as pool:
        coming = {
            pool.submit(get_twice, url, hosts, limits, deadline, most=part[1] - part[0], part=part): k
            for k, part in enumerate(ranges)
        }
        try:
            for done in as_completed(coming):
                yield coming[done], done.result()
        finally:
            # If one request fails, do not wait for the others.
            deadline.given_up.set()
            pool.shutdown(cancel_futures=True)


class _InTime(io.RawIOBase):
    """The bytes of a connection. Each wait for them ends with the time that is left: a host may send a byte
    now and then for ever, in its headers too.
    """

    def __init__(self, sock: socket.socket, host: str, limits: HubLimits, deadline: Deadline) -> None:
        self._sock = sock
        self._host = host
        self._quiet = limits.quiet_seconds
        self._deadline = deadline

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(self, _BYTES_PER_READ)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._sock.settimeout(min(self._quiet, self._deadline.left(self._host)))
        return self._sock.recv_into(buffer)


@contextmanager
def _answering(
    parts: SplitResult, limits: HubLimits, deadline: Deadline, headers: Mapping[str, str], anywhere: bool
) -> Iterator[http.client.HTTPResponse]:
    """Send a request, and yield the answer before its body."""
    host = parts.netloc
    connection = http.client.HTTPConnection(host)
    query = f"?{parts.query}" if parts.query else ""
    sock: socket.socket | None = None
    try:
        sock = connection.sock = _connected(parts, limits, deadline, anywhere)
        connection.request("GET", (parts.path or "/") + query, headers={**_HEADERS, **headers})
        with closing(http.client.HTTPResponse(cast(Any, _InTime(sock, host, limits, deadline)))) as answer:
            answer.begin()
            yield answer
    except TimeoutError:
        raise QuantVizError(
            "hub.slow", host=host, seconds=min(limits.quiet_seconds, deadline.seconds)
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        if isinstance(problem, QuantVizError):
            raise
        deadline.left(host)  # `http.client` has an error of its own where it was over
        raise QuantVizError("hub.cut" if sock else "hub.unreachable", host=host) from None
    finally:
        if sock is not None:
            sock.close()


def _taken(
    host: str,
    response: http.client.HTTPResponse,
    headers: Mapping[str, str],
    most: int,
    part: tuple[int, int] | None,
) -> HostResponse:
    """Return the answer with its body, after a check against the request."""
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
        match = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
        first, last, total = map(int, match.groups()) if match else (-1, -1, 0)
        if (first, last + 1) != part or total < part[1]:
            raise QuantVizError("hub.wrong_range", host=host)
        most = part[1] - part[0]
        if length is not None and length.strip() != str(most):
            raise QuantVizError("hub.wrong_range", host=host)
    elif status != 200:
        raise QuantVizError("hub.status", host=host, got=status)
    elif length is not None and not (length.strip().isdecimal() and int(length) <= most):
        raise QuantVizError("hub.too_long", host=host, most=most)
    body = response.read(most + 1)
    if len(body) > most:
        raise QuantVizError("hub.too_long", host=host, most=most)
    if (part and len(body) != most) or (length is not None and len(body) != int(length)):
        raise QuantVizError("hub.cut", host=host)
    return HostResponse(host, headers, body, total)


def _connected(parts: SplitResult, limits: HubLimits, deadline: Deadline, anywhere: bool) -> socket.socket:
    """Return a connection, encrypted if the scheme is https."""
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
    """Return the host's addresses: one that is not public refuses a host that may not be anywhere.

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
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in addresses))
