"""Places for requests, which limit their number at one time, to one host and to all of them together.

A host that stalls keeps its places until its time is over, and gets no others.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from quantviz.errors import QuantVizError
from quantviz.sources.limits import HubLimits


class Places:
    """The places of all requests of a process. Safe for many threads.

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


#: Those of this process.
PLACES = Places()
