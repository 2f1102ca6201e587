"""Long work beside the server: each piece a job, in a process that can be bounded and ended.

    runner().submit(partial(gaussian_sqnr_db, scheme, shape), "gaussian", Cost(seconds=20.0)).result()

`concurrent.futures` can neither end a call that runs nor tell how far it is, and its processes run the
server's own main module again. So a process here reads pickled calls from its stdin and pickles answers to
its stdout; large arrays lie in memory that both map, where the system has such memory. Both ends belong to
this package, so pickle is safe between them; where a process reads a stranger's file it is `confined`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import itertools
import logging
import mmap
import os
import pickle
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

from quantviz.budget import Ended, TimeBudget, spending
from quantviz.errors import QuantVizError

T = TypeVar("T")

#: Gets a record of each event that a server counts, with its labels, nothing of a user's among them.
EVENTS = logging.getLogger("quantviz.events")
#: Multiplications of work that may pass by longer work: some two seconds.
SHORT = 2.0**35
#: Niceness of the processes: the server that answers the users comes first.
_NICE = 10
#: Seconds between two checks whether a caller waits, and between two reports of progress.
_LOOK = 0.1
_BETWEEN_SHARES = 0.2
#: Seconds until work that reaches no check is killed: after it was dropped, or beyond its processor time.
_GRACE = 3.0
#: Seconds after which an idle process ends, and the bytes that it may have grown by.
_PATIENCE = 900.0
_GROWTH = 2**27
#: Allocated objects between two garbage collections: compiling leaves hardly any garbage, and collections
#: took a sixth of its time.
_OBJECTS_BETWEEN_LOOKS = 200_000
#: Seconds for which work that took too long is not tried again, and the most keys of such work.
_REFUSED_SECONDS = 600.0
_KNOWN = 1000
#: Bytes from which an array goes by memory that both processes map, and its alignment there.
_LARGE = 2**16
_ALIGNED = 64
_THREADS = "QUANTVIZ_THREADS"
#: The signal that ends a process whose processor time is spent: SIGXCPU.
_CPU_SPENT = 24
#: Linux' file of a process's memory; and a limit that is none.
_STATM = Path("/proc/self/statm")
_ENDLESS = 2.0**62
#: glibc's settings and values: free memory at the end of the heap is given back from 1 GiB on, and blocks
#: below 32 MiB, the most that can be named, come from the heap.
_KEPT = ((-1, 2**30), (-3, 2**25))
#: Blocks from 256 KiB on are mapped by themselves: glibc would move that bound up to 32 MiB.
_RETURNED = ((-3, 2**18),)
#: Kinds of answers.
_BEGUN, _SHARE, _ASKED, _FOUND, _RAISED, _LOST = "begun", "share", "asked", "found", "raised", "lost"
_BEFORE_THE_END = (_BEGUN, _SHARE, _ASKED)
#: Asks the server, in the process of a confined job.
_ASK: ContextVar[Callable[[Any], Any] | None] = ContextVar("ask", default=None)


@dataclass(frozen=True)
class Cost:
    """The time, memory and threads of a job, known before it starts."""

    #: Multiplications, as far as they are known.
    products: float = SHORT
    #: Seconds of processor time after which it is ended.
    seconds: float = float("inf")
    #: Most bytes beyond those of an idle process.
    bytes: float = float("inf")
    #: Threads of a pass over a tensor; None for the server's setting. One leaves the others to the server.
    threads: int | None = None
    #: Seconds beyond `_GRACE` to reach its next check when it is dropped.
    grace: float = 0.0
    #: The queue that it waits in; by default by its multiplications.
    queue: str = ""
    #: Jobs of this queue that run at once, each of another owner.
    places: int = 1
    #: Whether it reads what a stranger wrote: its process cannot write files, start programs or connect.
    confined: bool = False
    #: Bytes of a file that it may write then, into a folder of its process alone.
    scratch: int = 0

    @property
    def line(self) -> str:
        return self.queue or ("short" if self.products < SHORT else "long")


@dataclass(eq=False)
class Job(Generic[T]):
    runner: Jobs
    work: Callable[[], T]
    key: Hashable
    cost: Cost
    #: Whether it goes on when nobody waits for its result.
    stays: bool
    #: Whether it is done ahead of need: it ends when another job comes into its queue.
    ahead: bool
    #: Answers the questions of a confined process.
    answers: Callable[[Any], Any]
    #: The sessions that submitted it.
    owners: set[Hashable]
    state: Literal["waits", "runs", "ended"] = "waits"
    #: Done and whole work; 0 where unknown.
    done: float = 0.0
    whole: float = 0.0
    #: Whether it was ended on purpose.
    dropped: bool = False
    _answer: tuple[str, Any] = (_LOST, None)
    _waiting: int = 0
    _process: _Process | None = None
    _end: threading.Event = field(default_factory=threading.Event)

    @property
    def share(self) -> float:
        return self.done / self.whole if self.whole else 0.0

    @property
    def found(self) -> T | None:
        """Return the result; None before there is one.

        Raises:
            QuantVizError: It ended without one, and not on purpose.
        """
        kind, found = self._answer
        if self.state != "ended" or (kind == _RAISED and self.dropped):
            return None
        if kind == _FOUND:
            return cast(T, found)
        raise found.problem.again() if isinstance(found, Ended) else found

    def result(
        self,
        is_wanted: Callable[[], bool] = lambda: True,
        on_share: Callable[[float], None] = lambda share: None,
    ) -> T:
        """Wait for the result. A job that nobody waits for any more ends.

        `is_wanted` says whether the caller still waits; `on_share` gets the done share now and then, where it
        is known.

        Raises:
            Ended: It takes too long or too much memory, nobody waits for it, or its process has ended.
        """
        with self.runner.lock:
            self._waiting += 1
        told = 0.0
        try:
            while not self._end.wait(_LOOK):
                if not is_wanted():
                    raise Ended("work.dropped")
                if self.share != told:
                    told = self.share
                    on_share(told)
        finally:
            with self.runner.lock:
                self._waiting -= 1
                if not self._waiting and not self.stays:
                    self.cancel()
        kind, found = self._answer
        if kind == _FOUND:
            return cast(T, found)
        raise found

    def wait(self, seconds: float | None = None) -> bool:
        return self._end.wait(seconds)

    def cancel(self) -> None:
        """End it: at its next check where it runs, and by a kill where it does not reach one."""
        with self.runner.lock:
            self.dropped |= self.state != "ended"
            if self._process is not None:
                self._process.drop(self)
            elif self.state == "waits":
                self.runner.finish(self, (_LOST, None))


def no_answer(question: Any) -> Any:
    raise QuantVizError("work.lost")


class Jobs:
    """Runs jobs, in each queue in turns, the owner served longest ago first. Safe for many threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: Jobs that have not ended, in the order in which they came.
        self._jobs: dict[Hashable, Job[Any]] = {}
        #: By whether it is confined: at most one of each kind, for each takes memory.
        self._idle: dict[bool, _Process] = {}
        self._running: set[_Process] = set()
        self._served: OrderedDict[Hashable, int] = OrderedDict()
        self._turns = itertools.count(1)
        self._refused: OrderedDict[Hashable, tuple[float, QuantVizError]] = OrderedDict()
        atexit.register(self.close)

    def submit(
        self,
        work: Callable[[], T],
        key: Hashable,
        cost: Cost = Cost(),
        *,
        owner: Hashable = None,
        stays: bool = False,
        ahead: bool = False,
        answers: Callable[[Any], Any] = no_answer,
    ) -> Job[T]:
        """Return the job of a key: the one that waits or runs, or a new one.

        Args:
            work: A function that can be pickled, as its result.
            key: Names the work and all that it depends on.
            cost: Its bounds and its queue.
            owner: Owners take turns.
            stays: Whether it goes on when nobody waits for its result.
            ahead: Whether it goes on likewise, until another job comes into its queue.
            answers: Answers a question of confined work: see `ask`. A stranger may have written the question.

        Raises:
            Ended: It took too long or too much memory a short while ago.
        """
        with self.lock:
            until, problem = self._refused.get(key, (0.0, None))
            if problem is not None and time.monotonic() < until:
                raise Ended(problem.key, **problem.params)
            job = self._jobs.get(key)
            if job is None or job.dropped:
                job = self._jobs[key] = Job(self, work, key, cost, stays or ahead, ahead, answers, set())
            job.owners.add(owner)
            self._begin()
            return cast("Job[T]", job)

    def before(self, job: Job[Any]) -> int:
        with self.lock:
            jobs = [each for each in self._jobs.values() if each.cost.line == job.cost.line]
            return jobs.index(job) if job in jobs else 0

    def prepare(self, modules: Iterable[str] = (), *, confined: bool = False) -> None:
        """Start a process, which takes seconds, and import modules in it, where none of its kind runs."""
        with self.lock:
            idle = self._idle.get(confined)
            if not any(each.confined == confined for each in self._running) and not (idle and idle.is_alive):
                self._idle[confined] = _Process(modules, confined=confined)

    @property
    def processes(self) -> list[int]:
        with self.lock:
            each = (*self._running, *self._idle.values())
            return [process.pid for process in each if process.is_alive]

    def rest(self) -> None:
        with self.lock:
            for process in self._idle.values():
                process.end()
            self._idle.clear()

    def close(self) -> None:
        with self.lock:
            for job in list(self._jobs.values()):
                job.cancel()
            for process in self._running:
                process.end()
            self.rest()

    def _begin(self) -> None:
        running = [job for job in self._jobs.values() if job.state == "runs"]
        waiting = [job for job in self._jobs.values() if job.state == "waits"]
        for job in sorted(waiting, key=lambda job: min(self._served.get(each, 0) for each in job.owners)):
            beside = [each for each in running if each.cost.line == job.cost.line]
            if len(beside) >= job.cost.places or any(each.owners & job.owners for each in beside):
                for other in [each for each in self._jobs.values() if each.ahead]:
                    if other.cost.line == job.cost.line and not job.ahead:
                        other.cancel()
            else:
                running.append(job)
                job.state = "runs"
                for owner in job.owners:
                    self._served[owner] = next(self._turns)
                    self._served.move_to_end(owner)
                while len(self._served) > _KNOWN:
                    self._served.popitem(last=False)
                threading.Thread(target=self._run, args=(job,), name="quantviz-job", daemon=True).start()

    def _run(self, job: Job[Any]) -> None:
        try:
            answer = self._answer(job)
        except BaseException as problem:  # it, or its result, cannot be sent
            answer = _RAISED, problem
        with self.lock:
            self.finish(job, answer)
            self._begin()

    def finish(self, job: Job[Any], answer: tuple[str, Any]) -> None:
        if answer[0] == _LOST:
            answer = _RAISED, Ended("work.dropped" if job.dropped else "work.lost")
        job._answer = answer
        job.state = "ended"
        outcome = "dropped" if job.dropped else answer[0]
        EVENTS.info("job", extra={"labels": {"queue": job.cost.line, "outcome": outcome}})
        if self._jobs.get(job.key) is job:
            del self._jobs[job.key]
        if isinstance(answer[1], Ended) and answer[1].problem.key != "work.dropped":
            self._refused[job.key] = time.monotonic() + _REFUSED_SECONDS, answer[1].problem
            while len(self._refused) > _KNOWN:
                self._refused.popitem(last=False)
        job._end.set()

    def _answer(self, job: Job[Any]) -> tuple[str, Any]:
        message = _Message((job.work, job.cost, _settings()))
        process, stays = self._take(job.cost.confined), False
        try:
            begun, kind, found, stays = process.do(job, message)
            if not begun and not job.dropped:  # it had waited for long, and has just ended
                with self.lock:
                    self._running.discard(process)
                process.end()
                process = self._take(job.cost.confined)
                _, kind, found, stays = process.do(job, message)
            stays |= job.ahead  # kernels that were loaded ahead are in this process
        finally:
            with self.lock:
                self._running.discard(process)
                idle = self._idle.get(process.confined)
                if stays and (idle is None or not idle.is_alive):
                    self._idle[process.confined] = process
                else:
                    process.end()
        return kind, found

    def _take(self, confined: bool) -> _Process:
        with self.lock:
            process = self._idle.pop(confined, None)
            if process is not None and not process.is_alive:
                process.end()
                process = None
            process = process or _Process(confined=confined)
            self._running.add(process)
            return process


@cache
def runner() -> Jobs:
    return Jobs()


# A child that is forked has none of its processes.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=runner.cache_clear)


def in_job() -> bool:
    return Path(sys.argv[0]) == Path(__file__)


def can_ask() -> bool:
    """Return whether this process is that of a confined job, which has no connections."""
    return _ASK.get() is not None


def ask(question: Any) -> Any:
    """Return the server's answer to a question of a confined job, both typed data.

    Raises:
        QuantVizError: The answer is an error.
    """
    asked = _ASK.get()
    assert asked is not None
    problem, answer = asked(question)
    if problem is not None:
        raise problem
    return answer


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("QUANTVIZ_")}


class _Pickler(pickle.Pickler):
    """Writes a tensor as the array of its bytes, for torch's own way copies it several times; read-only
    mappings, which Python does not write; and errors as they are, whatever a package has registered for them.
    """

    def reducer_override(self, value: Any) -> Any:
        if type(value) is MappingProxyType:
            return _read_only, (dict(value),)
        if isinstance(value, BaseException):
            return value.__reduce_ex__(5)
        torch = sys.modules.get("torch")
        if torch is None or type(value) is not torch.Tensor or value.is_quantized:
            return NotImplemented
        if value.requires_grad or value.device.type != "cpu" or value.layout != torch.strided:
            return NotImplemented
        dense = value.resolve_conj().resolve_neg().contiguous()
        if value.numel() < 2:  # its stride may be any
            dense = dense.clone(memory_format=torch.contiguous_format)
        return _tensor, (
            dense.flatten().view(torch.uint8).numpy(),
            str(value.dtype),
            tuple(value.shape),
            dense.stride(),
        )


def _read_only(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(items)


def _tensor(content: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    import torch

    kind = getattr(torch, dtype.removeprefix("torch."))
    values = torch.frombuffer(content, dtype=kind) if len(content) else torch.empty(0, dtype=kind)
    return values.as_strided(shape, strides)


class _TypedData(pickle.Unpickler):
    """Reads the answers of a confined process: arrays, and types that only hold values. It calls nothing
    else.
    """

    def find_class(self, module: str, name: str) -> Any:
        refusal = pickle.UnpicklingError(f"{module}.{name} is no data")
        is_plain = f"{module}.{name}" in _PLAIN
        # Before it is looked up: that imports the module, which runs it.
        if not is_plain and module.partition(".")[0] not in ("quantviz", "builtins", "torch"):
            raise refusal
        found = super().find_class(module, name)
        holds_values = isinstance(found, type) and (
            issubclass(found, tuple | Enum | BaseException) or is_dataclass(found)
        )
        is_own = holds_values and found.__module__.partition(".")[0] in ("quantviz", "builtins")
        if is_plain or is_own or type(found).__name__ == "dtype":
            return found
        raise refusal


#: Functions that make arrays, mappings and errors from plain values.
_PLAIN = frozenset(
    {
        *(
            "quantviz.jobs._tensor",
            "quantviz.jobs._read_only",
            "quantviz.tensors.lazy._in_memory",
            "functools.partial",
        ),
        *(
            "numpy.dtype",
            "numpy.ndarray",
            "numpy.core.numeric._frombuffer",
            "numpy._core.numeric._frombuffer",
        ),
        *("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"),
        *("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "collections.OrderedDict"),
    }
)


class _Message:
    """A pickled value whose large arrays lie apart."""

    def __init__(self, value: object) -> None:
        self._arrays: list[memoryview] = []
        stream = io.BytesIO()
        _Pickler(stream, protocol=5, buffer_callback=self._is_small).dump(value)
        self._content = stream.getvalue()

    def _is_small(self, array: pickle.PickleBuffer) -> bool:
        raw = array.raw()
        if raw.nbytes < _LARGE or not _maps_memory():
            return True
        self._arrays.append(raw)
        return False

    def send(self, stream: IO[bytes], channel: socket.socket) -> None:
        """Write it to a stream, and its arrays into memory whose descriptor goes through a channel.

        That memory has no name: it is free once no array of it is left, however the processes end.
        """
        sizes = [each.nbytes for each in self._arrays]
        if sizes:
            descriptor = os.memfd_create("quantviz")
            try:
                places, whole = _places(sizes)
                os.truncate(descriptor, whole)
                with mmap.mmap(descriptor, whole) as room:
                    for place, array in zip(places, self._arrays, strict=True):
                        room[place : place + array.nbytes] = array
                socket.send_fds(channel, [b"\0"], [descriptor])
            finally:
                os.close(descriptor)
        pickle.dump(sizes, stream, protocol=5)
        stream.write(self._content)
        stream.flush()


def _received(
    stream: IO[bytes], channel: socket.socket, read: type[pickle.Unpickler] = pickle.Unpickler
) -> Any:
    """Return the next value of a stream; its arrays stay in the memory that they came in."""
    sizes = read(stream).load()
    if not sizes:
        return read(stream).load()
    _, (descriptor,), _, _ = socket.recv_fds(channel, 1, 1)
    places, whole = _places(sizes)
    try:
        room = memoryview(mmap.mmap(descriptor, whole))
    finally:
        os.close(descriptor)
    buffers = [room[at : at + n] for at, n in zip(places, sizes, strict=True)]
    return read(stream, buffers=buffers).load()


def _places(sizes: Iterable[int]) -> tuple[list[int], int]:
    """Return the places of arrays behind each other, and their end."""
    *places, whole = itertools.accumulate((-(-n // _ALIGNED) * _ALIGNED for n in sizes), initial=0)
    return places, whole


def _maps_memory() -> bool:
    return hasattr(os, "memfd_create") and hasattr(socket, "send_fds")


class _Reply(NamedTuple):
    problem: QuantVizError | None
    answer: Any


def _answered(job: Job[Any], question: Any) -> tuple[QuantVizError | None, Any]:
    try:
        return None, job.answers(question)
    except QuantVizError as problem:
        return problem.again(), None


class _Process:
    def __init__(self, modules: Iterable[str] = (), *, confined: bool = False) -> None:
        self.confined = confined
        self._channel, its = socket.socketpair()
        #: The one folder that a confined process may write into.
        self._scratch = tempfile.TemporaryDirectory(prefix="quantviz-") if confined else None
        paths = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "quantviz.jobs", str(its.fileno()), "confined" * confined, *modules],
            # Torch's own threads would only slow down the server's.
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "OMP_NUM_THREADS": "1",
                **({"TMPDIR": self._scratch.name} if self._scratch else {}),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(its.fileno(),) if _maps_memory() else (),
        )
        its.close()
        self._sending = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def do(self, job: Job[Any], message: _Message) -> tuple[bool, str, Any, bool]:
        """Return whether the job in a message began, the kind and value of its answer, and whether the
        process stays.
        """
        begun = False
        try:
            self._send(message)
            with job.runner.lock:
                job._process = self
                if job.dropped:
                    self.drop(job)
            assert self._process.stdout is not None
            read = _TypedData if self.confined else pickle.Unpickler
            while (answer := _received(self._process.stdout, self._channel, read))[0] in _BEFORE_THE_END:
                begun = True
                if answer[0] == _ASKED:
                    self._send(_Message(_Reply(*_answered(job, answer[1]))))
                else:
                    _, job.done, job.whole = answer
            return begun, *answer
        except (EOFError, ConnectionError, pickle.UnpicklingError):
            self._process.kill()
            killed = self._process.wait()
            if killed == -_CPU_SPENT:
                return begun, _RAISED, Ended("work.too_long", seconds=f"{job.cost.seconds:.3g}"), False
            return begun, _LOST, None, False
        finally:
            job._process = None

    def drop(self, job: Job[Any]) -> None:
        """Make a job end at its next check; kill the process if it reaches none."""
        with contextlib.suppress(ConnectionError, ValueError):
            self._send(_Message(None))

        def look() -> None:
            if job._process is self:
                self._process.kill()

        later = threading.Timer(_GRACE + job.cost.grace, look)
        later.daemon = True
        later.start()

    def end(self) -> None:
        self._process.kill()
        # Its pipes are closed, what was not sent included.
        with contextlib.suppress(BrokenPipeError), self._channel, self._process:
            pass
        if self._scratch is not None:
            self._scratch.cleanup()

    def _send(self, message: _Message) -> None:
        assert self._process.stdin is not None
        with self._sending:
            message.send(self._process.stdin, self._channel)


# ---- the process itself --------------------------------------------------------------------------

#: Work, what it may take, the server's settings, and what is left of it.
_Asked: TypeAlias = tuple[Callable[[], object], Cost, dict[str, str], TimeBudget]


def serve(channel: int, confined: str, *modules: str) -> None:
    """Do the jobs that arrive on stdin, one after the other, until none has come for `_PATIENCE`."""
    if confined:
        _confine()
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    if hasattr(os, "nice"):
        os.nice(_NICE)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Keep what the work prints out of the stream of answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    arrays = socket.socket(fileno=channel) if _maps_memory() else socket.socket()
    requests: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
    replies: queue.SimpleQueue[_Reply] = queue.SimpleQueue()
    told = 0.0

    def tell(kind: str, *answer: object) -> None:
        _Message((kind, *answer)).send(answers, arrays)

    def share(done: float, whole: float) -> None:
        nonlocal told
        if time.monotonic() - told >= _BETWEEN_SHARES:
            told = time.monotonic()
            tell(_SHARE, done, whole)

    def asked(question: Any) -> _Reply:
        tell(_ASKED, question)
        return replies.get()

    if confined:
        _ASK.set(asked)
    threading.Thread(target=_hear, args=(requests, replies, arrays, share), daemon=True).start()
    for module in ("torch", *modules):
        importlib.import_module(module)
    # Modules stay: to look through their objects took 0.2 s after each job.
    gc.collect()
    gc.freeze()
    before = _own_bytes()
    while True:
        try:
            work, cost, settings, budget = requests.get(timeout=_PATIENCE)
        except queue.Empty:
            os._exit(0)
        tell(_BEGUN, 0.0, 0.0)
        for name in _settings():
            del os.environ[name]
        os.environ.update(settings if cost.threads is None else {**settings, _THREADS: str(cost.threads)})
        kind, found = _done(work, cost, budget)
        del work
        _give_back()
        tell(kind, found, _own_bytes() - before <= _GROWTH)
        del found


def _hear(
    requests: queue.SimpleQueue[_Asked],
    replies: queue.SimpleQueue[_Reply],
    arrays: socket.socket,
    share: Callable[[float, float], None],
) -> None:
    budget = TimeBudget(0.0)
    while True:
        try:
            message = _received(sys.stdin.buffer, arrays)
        except BaseException as problem:
            if not isinstance(problem, EOFError):
                traceback.print_exc()
            # The server has ended, or the start of the next message in its stream is lost.
            budget.drop()
            time.sleep(_GRACE)
            os._exit(1)
        if message is None:
            budget.drop()
        elif isinstance(message, _Reply):
            replies.put(message)
        else:
            work, cost, settings = message
            # Processor time of this work alone: earlier work uses up none of it.
            budget = TimeBudget(cost.seconds, time.process_time, share)
            requests.put((work, cost, settings, budget))
            # Its operands are let go of where it ends.
            del work, message


def _done(work: Callable[[], object], cost: Cost, budget: TimeBudget) -> tuple[str, object]:
    try:
        with _limited(cost), spending(budget):
            return _FOUND, work()
    except (Ended, QuantVizError) as problem:
        return _RAISED, problem
    except BaseException as problem:
        # Torch says it in an error of its own.
        if isinstance(problem, MemoryError) or "DefaultCPUAllocator" in str(problem):
            return _RAISED, Ended("work.memory", most=cost.bytes / 2**30)
        # The caller raises it again, without the traceback of this process.
        problem.add_note("".join(traceback.format_exception(problem)))
        try:
            pickle.dumps(problem)
        except Exception:
            return _RAISED, RuntimeError(f"{type(problem).__name__}: {problem}")
        return _RAISED, problem


@contextlib.contextmanager
def _limited(cost: Cost) -> Iterator[None]:
    """Bound this process's memory, and its processor time for work that reaches no check, where the system
    can.
    """
    try:
        import resource
    except ImportError:
        yield
        return
    limits = {resource.RLIMIT_CPU: time.process_time() + cost.seconds + _GRACE}
    if cost.confined:
        limits[resource.RLIMIT_FSIZE] = cost.scratch
    if asked := _own_bytes(data=True):
        limits[resource.RLIMIT_DATA] = asked + cost.bytes
    usual = {each: resource.getrlimit(each) for each in limits}
    for each, most in limits.items():
        if most < _ENDLESS:
            resource.setrlimit(each, (int(most), usual[each][1]))
    try:
        yield
    finally:
        for each, before in usual.items():
            resource.setrlimit(each, before)


#: Flags of Linux' `unshare`: a name space of users, and one of networks, which has no connection.
_NEW_USERS, _NEW_NETWORK = 0x10000000, 0x40000000
#: Audit events that a confined process refuses, by the beginnings of their names.
_REFUSED = (
    *("subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "pty.", "socket.bind"),
    *("socket.connect", "socket.get", "socket.sendto", "os.kill"),
)
#: Audit events that it allows in its own folder alone.
_IN_SCRATCH = frozenset(
    {
        *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"),
        *("os.truncate", "os.utime"),
    }
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


def _confine() -> None:
    """Give up, for good, what the reader of a stranger's file does not need: connections, where the system
    lets a process do so, and in Python also starting programs, and writing outside its own folder.
    """
    scratch = os.path.realpath(tempfile.gettempdir()) + os.sep
    unshare = getattr(ctypes.CDLL(None), "unshare", None) if sys.platform == "linux" else None
    if unshare is not None and unshare(_NEW_NETWORK):
        unshare(_NEW_USERS | _NEW_NETWORK)

    def elsewhere(event: str, given: tuple[Any, ...]) -> bool:
        named = given[: 1 if event == "open" else 2]
        paths = [os.fsdecode(each) for each in named if isinstance(each, str | bytes | os.PathLike)]
        if event in ("os.remove", "os.rmdir") and given[-1] >= 0:  # a bare name in a folder that is open
            paths = [os.readlink(f"/proc/self/fd/{given[-1]}")]
        return any(not f"{os.path.realpath(path)}/".startswith(scratch) for path in paths)

    def refuse(event: str, given: tuple[Any, ...]) -> None:
        changes = event in _IN_SCRATCH or (event == "open" and given[2] & _WRITES)
        if event.startswith(_REFUSED) or (changes and elsewhere(event, given)):
            raise PermissionError(f"{event}: a process that reads a stranger's file has no right to it")

    sys.addaudithook(refuse)


def _own_bytes(*, data: bool = False) -> int:
    """Return the bytes that are this process's alone, or with `data` those asked for; 0 where unknown."""
    if not _STATM.exists():
        return 0
    pages = list(map(int, _STATM.read_text().split()))
    return (pages[5] if data else pages[1] - pages[2]) * os.sysconf("SC_PAGESIZE")


def _give_back() -> None:
    """Give free memory back to the system, where the C library can."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_memory() -> None:
    """Have this process keep freed memory: for large tensors that come and go, making their pages anew took a
    quarter of the time.

    For a process that does one thing and ends. Where the C library has no such setting nothing is done.
    """
    _set_allocator(_KEPT)


def return_memory() -> None:
    """Have this process return freed memory, for one that waits most of the time: heaps with large blocks
    among small ones kept a fifth of the server's memory after a class.

    Where the C library has no such setting nothing is done.
    """
    _set_allocator(_RETURNED)


def _set_allocator(settings: Iterable[tuple[int, int]]) -> None:
    setting = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if setting is not None:
        for parameter, value in settings:
            setting(parameter, value)


if __name__ == "__main__":
    # Import by the module's own name, because pickled objects refer to that name and not to `__main__`.
    importlib.import_module("quantviz.jobs").serve(int(sys.argv[1]), *sys.argv[2:])
