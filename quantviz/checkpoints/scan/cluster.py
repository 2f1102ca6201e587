"""Tasks of a scan on other machines: the workers of a Dask scheduler, as people have on Slurm or
Kubernetes.

Workers measure and return rows, or of a giant tensor the parts of its rows. Only the process that scans keeps
them: a worker may die at any moment and a task be measured twice, and nothing is lost or counted twice.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from quantviz.checkpoints.scan.listing import Entry
from quantviz.checkpoints.scan.measuring import ContentMeasurement, KnownFacts
from quantviz.checkpoints.scan.reading import is_giant
from quantviz.checkpoints.scan.tasks import (
    BandMeasurements,
    GiantFacts,
    Joining,
    Measures,
    ScanBands,
    ScanTask,
    divided,
    measure_bands,
    measure_task,
    survey,
)
from quantviz.errors import QuantVizError
from quantviz.quantization.quantizer import ARITHMETIC
from quantviz.sources.files.file_data import clipped
from quantviz.sources.stores.addresses import is_address, name_of

if TYPE_CHECKING:
    from distributed import Client, Future

_T = TypeVar("_T")


class Done(NamedTuple):
    task: ScanTask
    measures: tuple[Measures, ...]


class WorkerCall(NamedTuple):
    task: Any
    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    #: Unique, so that the scheduler has no job twice.
    key: str
    name: str


_D = TypeVar("_D", covariant=True)


class WorkerQueue(Protocol[_D]):
    """Queue of jobs for workers, of a scan or of an audit, which also takes their results."""

    waiting: deque[WorkerCall]

    def take(self, job: WorkerCall, came: Any) -> _D | None:
        """Return the result of a job's task, or None while other jobs of it are open."""

    def check(self, job: WorkerCall, came: Any, address: str) -> None:
        """Raise a `QuantVizError` where a worker lacks a file or a reader: no problem of a tensor's."""


#: Runs jobs somewhere, and yields each result as it comes; None after a part of one, for a caller to end it.
Elsewhere: TypeAlias = Callable[[WorkerQueue[Any]], Generator[Any, None, None]]


#: Elements of a task, times its recipes: about half a second of one core, for each task takes the scheduler
#: some milliseconds. A worker holds but one tensor or band at a time.
WORK = 2**29
#: Seconds to wait for the scheduler, and for its first worker.
_PATIENCE = 10
#: Tasks that the scheduler has at a time: the death of a worker counts against all of them.
_MOST_SUBMITTED = 32
#: Repeats of a task whose worker died, beyond those of the scheduler.
_MOST_DEATHS = 5


@contextmanager
def joined(address: str, *, threads: int | None = None, patience: float = _PATIENCE) -> Iterator[Elsewhere]:
    """Join a Dask scheduler, such as tcp://10.0.0.5:8786, and yield a function that runs jobs on its workers,
    by default with one `threads` a task, for workers run several tasks at once.

    Raises:
        QuantVizError: Dask is not installed, the scheduler is away or goes away, it has no workers, or these
            have another version of QuantViz.
    """
    if find_spec("distributed") is None:
        raise QuantVizError("cluster.not_installed")
    from distributed import Client

    try:
        client = Client(address, timeout=patience, set_as_default=False)
    except (OSError, ValueError, TypeError):
        raise QuantVizError("cluster.away", address=address) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=patience)
        except TimeoutError:
            raise QuantVizError("cluster.no_workers", address=address) from None
        _check_versions(client, address)
        yield lambda jobs: _measured(client, address, jobs, threads or 1)


def _version() -> int:
    return ARITHMETIC


def _check_versions(client: Client, address: str) -> None:
    # A worker that is lost meanwhile answers with an error of the connection: its jobs go to others.
    answers = client.run(_version, on_error="return").values()
    if any(isinstance(answer, ImportError | AttributeError) for answer in answers):
        raise QuantVizError("cluster.no_package", address=address)
    if {answer for answer in answers if not isinstance(answer, OSError)} - {ARITHMETIC}:
        raise QuantVizError("cluster.other_version", address=address)


def _measured(
    client: Client, address: str, jobs: WorkerQueue[_T], threads: int
) -> Generator[_T | None, None, None]:
    """Yield the results of tasks in the order of their completion; None after a job that completes none."""
    from distributed import KilledWorker, as_completed
    from distributed.comm import CommClosedError

    running: dict[str, tuple[WorkerCall, int]] = {}

    def submit() -> Iterator[Future]:
        while jobs.waiting and len(running) < _MOST_SUBMITTED:
            job = jobs.waiting.popleft()
            running[job.key] = job, 0
            yield client.submit(job.call, *job.arguments, threads=threads, key=job.key, retries=2)

    coming: Any = as_completed(list(submit()), loop=client.loop)
    try:
        for future in coming:
            job, deaths = running[future.key]
            try:
                came = future.result()
            except KilledWorker:
                if deaths == _MOST_DEATHS:
                    raise QuantVizError("cluster.killed", name=job.name, count=deaths) from None
                running[future.key] = job, deaths + 1
                client.retry([future])
                coming.add(future)
                continue
            del running[future.key]
            jobs.check(job, came, address)
            yield jobs.take(job, came)
            for following in submit():
                coming.add(following)
    except (CancelledError, CommClosedError, OSError):
        raise QuantVizError("cluster.lost", address=address) from None
    finally:
        if running and client.status == "running":
            client.cancel(list(running), force=True)


@dataclass(eq=False)
class _Giant:
    known: KnownFacts
    joining: Joining
    #: Of its file when the bands were given out.
    stamp: object
    #: Number of its rows, and the rows so far.
    count: int
    rows: list[ContentMeasurement] = field(default_factory=list)


class ScanJobs:
    """Queue of a scan's jobs for workers: tasks, and of a giant tensor first a survey, then its bands."""

    def __init__(self, tasks: Sequence[ScanTask], known: Callable[[str], Collection[str]]) -> None:
        self._known = known
        self._giants: dict[ScanTask, _Giant] = {}
        self.waiting = deque(self._first(task) for task in tasks)

    def _first(self, task: ScanTask) -> WorkerCall:
        (entry, *others), stamp = task.entries, _stamp(task.entries[0])
        # Where a change of the file could go unnoticed, one worker reads all of a tensor in one go.
        if others or not is_giant(entry) or isinstance(stamp, uuid.UUID):
            return _whole(task)
        return WorkerCall(task, survey, (entry,), _key(task, "survey"), entry.name)

    def take(self, job: WorkerCall, came: object) -> Done | None:
        task = job.task
        match came:
            case GiantFacts():
                return self._surveyed(task, came)
            case BandMeasurements():
                return self._of_bands(task, job.arguments[1], came)
            case tuple():
                return Done(task, came)
        raise TypeError(came)

    def check(
        self, job: WorkerCall, came: GiantFacts | BandMeasurements | tuple[Measures, ...], address: str
    ) -> None:
        results = came if isinstance(came, tuple) else [came]
        for result, entry in zip(results, job.task.entries, strict=True):
            check_worker(result.problem, entry.file, address)

    def _surveyed(self, task: ScanTask, survey: GiantFacts) -> Done | None:
        (entry,), (schemes,) = task.entries, task.schemes
        if survey.known is None:
            return Done(task, (Measures(entry, "", (), survey.problem),))
        facts = survey.known
        there = self._known(facts.content)
        missing = [scheme for scheme in schemes if entry.key(scheme) not in there]
        if not missing:
            return Done(task, (Measures(entry, facts.content, ()),))
        if not survey.by_parts:
            self.waiting.appendleft(_whole(task))
            return None
        self._giants[task] = _Giant(facts, Joining(facts), _stamp(entry), len(missing))
        parts = divided(facts.seen, missing, WORK, experts=facts.experts)
        jobs = (
            WorkerCall(task, measure_bands, (entry, part, facts), _key(task, part), entry.name)
            for part in parts
        )
        self.waiting.extendleft(reversed(list(jobs)))
        return None

    def _of_bands(self, task: ScanTask, bands: ScanBands, came: BandMeasurements) -> Done | None:
        giant = self._giants.get(task)
        (entry,) = task.entries
        if giant is None:
            return None  # another part of it could not be read
        problem = came.problem
        for k, parts in enumerate(came.bands):
            giant.rows += giant.joining.take(bands, bands.first + k, parts)
        if len(giant.rows) == giant.count and _stamp(entry) != giant.stamp:
            # Its parts may be of two contents.
            problem = QuantVizError("file.changed", file=clipped(name_of(entry.file)))
        if problem is None and len(giant.rows) < giant.count:
            return None
        del self._giants[task]
        self.waiting = deque(job for job in self.waiting if job.task is not task)
        if problem is not None:
            return Done(task, (Measures(entry, "", (), problem),))
        return Done(task, (Measures(entry, giant.known.content, tuple(giant.rows)),))


def _whole(task: ScanTask) -> WorkerCall:
    return WorkerCall(task, measure_task, (task,), _key(task), task.entries[0].name)


def _key(task: ScanTask, part: object = None) -> str:
    """Return the unique key of a task, or of a part of it, from the hash of its content."""
    files = {entry.file: str(_stamp(entry)) for entry in task.entries}
    content = repr((files, task.entries, [list(map(str, schemes)) for schemes in task.schemes], part))
    return f"quantviz-{hashlib.sha256(content.encode('utf-8', 'backslashreplace')).hexdigest()}"


def _stamp(entry: Entry) -> tuple[int, int] | str | uuid.UUID:
    """Return a stamp that changes with the file of a tensor; a new one each time if it has no version."""
    if is_address(entry.file):
        return entry.version or uuid.uuid4()
    try:
        stat = os.stat(entry.file)
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def check_worker(problem: QuantVizError | None, file: str, address: str) -> None:
    """Raise a `QuantVizError` where a worker lacks a file that is here, or its reader: no problem of a
    tensor's.
    """
    if problem is not None and problem.key in ("store.not_installed", "store.needs_package"):
        raise problem.again()
    if problem is not None and problem.key == "file.missing" and os.path.exists(file):
        raise QuantVizError("cluster.other_files", address=address, file=file)
