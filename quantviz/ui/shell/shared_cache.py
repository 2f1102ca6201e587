"""The cache that all sessions share: tensors by source, and the facts computed from them; each held once,
within a bound.

A class opens one tensor and tries the same schemes on it. The first request does the work, requests meanwhile
wait for it, later ones find it done. Nothing of an upload comes in here: it belongs to one session.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import threading
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from quantviz.errors import QuantVizError
from quantviz.ui.shell.startup import run_queue

if TYPE_CHECKING:
    from quantviz.tensors.lazy import Stored

T = TypeVar("T")

#: Environment variables with the most bytes of tensors, and of facts about them, that no session is using.
TENSOR_BYTES = "QUANTVIZ_SHARED_BYTES"
FACT_BYTES = "QUANTVIZ_SHARED_FACTS_BYTES"
_DEFAULTS: Mapping[str, int] = {TENSOR_BYTES: 2 * 2**30, FACT_BYTES: 512 * 2**20}
#: Bytes counted for a value beyond its numbers: keys, objects.
_OBJECT = 1024
#: Seconds after which a value of more than so many bytes is let go that nobody asks for; of more than the
#: second number where there is no session.
_UNUSED_SECONDS = 40.0
_LARGE = 2**24
_SMALL = 2**20
_NOTHING = object()


@dataclass(eq=False)
class _CacheEntry:
    value: Any
    bytes: int
    #: Seconds that it took to make.
    seconds: float
    #: The one of least worth goes first.
    worth: float
    #: The time at which it was last asked for.
    used: float


class Shared:
    """Values by key, of at most `most_bytes` together. Safe for many threads.

    The first entry to go is the one that took the least time to make for its bytes and was not used lately
    (GreedyDual-Size: Cao and Irani, "Cost-aware WWW proxy caching algorithms", 1997). An evicted value is
    still found as long as other code holds it, so that nothing is in memory twice.

    >>> kept = Shared(10_000)
    >>> kept.get("a", lambda: "made"), kept.get("a", lambda: "made again")
    ('made', 'made')
    """

    def __init__(self, most_bytes: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.most_bytes = most_bytes
        self._clock = clock
        self._kept: OrderedDict[Hashable, _CacheEntry] = OrderedDict()
        #: Priority of the last evicted entry, added to each new access so that idle entries age.
        self._floor = 0.0
        self._alive: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        #: One lock for each key that is being made, and how many wait for it.
        self._making: dict[Hashable, threading.Lock] = {}
        self._waiting: Counter[Hashable] = Counter()

    @property
    def held(self) -> int:
        """Return the bytes that are kept, also while no session uses them."""
        with self._lock:
            return sum(kept.bytes for kept in self._kept.values())

    def get(self, key: Hashable, make: Callable[[], T], *, aside: bool = False, by_job: bool = False) -> T:
        """Return the value under `key`, never to be changed; made for the first request. Where making it
        fails, the next request tries.

        `aside`: while it is made another run has the turn; worth it where that takes long, or happens outside
        of Python. `by_job`: all who ask wait for the same job, and none for another's run.
        """
        found = self._find(key)
        if found is not _NOTHING:
            return cast(T, found)
        one_maker = nullcontext() if by_job else self._one_maker(key)
        with run_queue().leave() if aside else nullcontext(), one_maker:
            found = self._find(key)
            if found is not _NOTHING:
                return cast(T, found)
            start = self._clock()
            value = make()
            with self._lock:
                self._keep(key, value, self._clock() - start)
            return value

    def forget_unused(self, least: int = _LARGE) -> bool:
        """Let go of values of more than `least` bytes that nobody has asked for in a while; return whether
        there were some.
        """
        with self._lock:
            before = self._clock() - _UNUSED_SECONDS
            old = [key for key, kept in self._kept.items() if kept.used < before and kept.bytes > least]
            for key in old:
                del self._kept[key]
            return bool(old)

    def _find(self, key: Hashable) -> Any:
        with self._lock:
            kept = self._kept.get(key)
            if kept:
                self._kept.move_to_end(key)
                kept.worth = self._floor + kept.seconds / kept.bytes
                kept.used = self._clock()
                return kept.value
            value = self._alive.get(key, _NOTHING)
            if value is not _NOTHING:
                # Whoever holds it keeps it in memory anyway.
                self._keep(key, value, 0.0)
            return value

    def _keep(self, key: Hashable, value: Any, seconds: float) -> None:
        size = held_bytes(value)
        if type(value).__weakrefoffset__:
            self._alive[key] = value
        if size > self.most_bytes:
            # It would drive out all others and then go itself.
            return
        self._kept[key] = _CacheEntry(value, size, seconds, self._floor + seconds / size, self._clock())
        room = self.most_bytes - sum(kept.bytes for kept in self._kept.values())
        while room < 0:
            # The run that has made the last one may ask for it again.
            others = (each for each in self._kept if each != key)
            least = min(others, key=lambda each: self._kept[each].worth)
            self._floor = self._kept[least].worth
            room += self._kept.pop(least).bytes

    @contextmanager
    def _one_maker(self, key: Hashable) -> Iterator[None]:
        """Let one thread make the value of `key`: others with this key wait, those with another do not."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
            self._waiting[key] += 1
        try:
            if not making.acquire(blocking=False):
                with run_queue().leave():
                    making.acquire()
            try:
                yield
            finally:
                making.release()
        finally:
            with self._lock:
                self._waiting[key] -= 1
                if not self._waiting[key]:
                    del self._waiting[key], self._making[key]


def held_bytes(value: Any) -> int:
    """Estimate the bytes of memory that `value` takes: its numbers, and a little for each object.

    A tensor that lies in a file counts as if it were read: the system keeps the pages that were read in
    memory too.

    >>> import numpy as np
    >>> held_bytes({"a": np.zeros(1000)}) - held_bytes({"a": np.zeros(0)})
    8000
    """
    if isinstance(value, str | bytes):
        return _OBJECT + len(value)
    nbytes = getattr(value, "nbytes", None)  # arrays, tensors, and other values with that field
    if isinstance(nbytes, int):
        return _OBJECT + nbytes
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _OBJECT + sum(held_bytes(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, list | tuple):
        return _OBJECT + sum(map(held_bytes, value))
    if isinstance(value, Mapping):
        return _OBJECT + sum(map(held_bytes, value.values()))
    count = getattr(value, "count", None)  # Stored
    return _OBJECT + (4 * count if isinstance(count, int) else 0)


def shared_tensor(form: str, make: Callable[[], Stored]) -> Stored:
    """Return the tensor that the text `form` names, read-only, one for all sessions; `make` opens it."""
    return _cache(TENSOR_BYTES).get(form, make, aside=True)


def shared_fact(key: Hashable, make: Callable[[], T], *, aside: bool = False, by_job: bool = False) -> T:
    """Return a fact, read-only; `key` names the tensor and all that the value depends on."""
    return _cache(FACT_BYTES).get(key, make, aside=aside, by_job=by_job)


def forget_unused(*, is_alone: bool) -> bool:
    """Let go of large facts that no session has asked for in a while; without any session of tensors and
    smaller facts, too. Return whether there were some.
    """
    facts = _cache(FACT_BYTES).forget_unused(_SMALL if is_alone else _LARGE)
    return (is_alone and _cache(TENSOR_BYTES).forget_unused(_SMALL)) or facts


@functools.cache
def _cache(setting: str) -> Shared:
    return Shared(_bytes(setting))


def _bytes(setting: str) -> int:
    written = os.environ.get(setting, str(_DEFAULTS[setting]))
    if not re.fullmatch(r"[1-9]\d{0,17}", written, re.ASCII):
        raise QuantVizError("limit_setting", variable=setting, got=written)
    return int(written)
