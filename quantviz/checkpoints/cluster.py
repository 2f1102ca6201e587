"""Tasks of a scan on other machines: the workers of a Dask scheduler, as people have on Slurm or Kubernetes.

Workers measure and return rows. Only the process that scans keeps them, so that a worker may die at any
moment and a task be measured twice: nothing is lost and nothing counted twice.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from quantviz.checkpoints.listing import Entry
from quantviz.checkpoints.measuring import Measures, Task, measure_task
from quantviz.errors import QuantVizError
from quantviz.quantization.quantizer import ARITHMETIC
from quantviz.sources.stores.addresses import is_address

if TYPE_CHECKING:
    from distributed import Client, Future

#: Measures tasks somewhere, and yields each with what came of it as soon as it is there.
Elsewhere: TypeAlias = Callable[[Sequence[Task]], Generator[tuple[Task, tuple[Measures, ...]], None, None]]

#: Seconds to wait for the scheduler, and for its first worker.
_PATIENCE = 10
#: Tasks that the scheduler has at a time: the death of a worker counts against all of them.
_MOST_SUBMITTED = 32
#: How often a task is given out again that was with a worker when it died, beyond what the scheduler does.
_MOST_DEATHS = 5


@contextmanager
def joined(address: str, *, threads: int | None = None, patience: float = _PATIENCE) -> Iterator[Elsewhere]:
    """Join a Dask scheduler while the `with` block lasts, and yield what measures tasks on its workers.

    Args:
        address: The scheduler's address, such as tcp://10.0.0.5:8786.
        threads: How many threads measure a task; by default one, for workers run several tasks at once.
        patience: Seconds to wait for the scheduler and for its first worker.

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
        yield lambda tasks: _measured(client, address, tasks, threads or 1)


def _version() -> int:
    """Return the reference's version, on whichever machine this runs."""
    return ARITHMETIC


def _check_versions(client: Client, address: str) -> None:
    # A worker that is lost meanwhile answers with an error of the connection: what it had goes to others.
    answers = client.run(_version, on_error="return").values()
    if any(isinstance(answer, ImportError | AttributeError) for answer in answers):
        raise QuantVizError("cluster.no_package", address=address)
    if {answer for answer in answers if not isinstance(answer, OSError)} - {ARITHMETIC}:
        raise QuantVizError("cluster.other_version", address=address)


def _measured(
    client: Client, address: str, tasks: Sequence[Task], threads: int
) -> Generator[tuple[Task, tuple[Measures, ...]], None, None]:
    """Yield tasks with what came of them, in the order in which they are done."""
    from distributed import KilledWorker, as_completed
    from distributed.comm import CommClosedError

    waiting = iter(tasks)
    running: dict[str, tuple[Task, int]] = {}

    def submit(count: int) -> list[Future]:
        futures = []
        for task in itertools.islice(waiting, count):
            key = _key(task)
            running[key] = task, 0
            futures.append(client.submit(measure_task, task, threads=threads, key=key, retries=2))
        return futures

    coming: Any = as_completed(submit(_MOST_SUBMITTED), loop=client.loop)
    try:
        for future in coming:
            task, deaths = running[future.key]
            try:
                measures = future.result()
            except KilledWorker:
                if deaths == _MOST_DEATHS:
                    raise QuantVizError("cluster.killed", name=task.entries[0].name, count=deaths) from None
                running[future.key] = task, deaths + 1
                client.retry([future])
                coming.add(future)
                continue
            del running[future.key]
            _check_files(measures, address)
            yield task, measures
            for following in submit(1):
                coming.add(following)
    except (CancelledError, CommClosedError, OSError):
        raise QuantVizError("cluster.lost", address=address) from None
    finally:
        if running and client.status == "running":
            client.cancel(list(running), force=True)


def _key(task: Task) -> str:
    """Return what tells a task from any other, so that the scheduler has none twice."""
    files = {entry.file: _stamp(entry) for entry in task.entries}
    asked = repr((files, task.entries, [list(map(str, schemes)) for schemes in task.schemes]))
    return f"quantviz-{hashlib.sha256(asked.encode('utf-8', 'backslashreplace')).hexdigest()}"


def _stamp(entry: Entry) -> tuple[int, int] | str:
    if is_address(entry.file):
        return entry.version or uuid.uuid4().hex  # nothing tells whether it is what it was
    try:
        found = os.stat(entry.file)
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def _check_files(measures: Sequence[Measures], address: str) -> None:
    """Raise a `QuantVizError` where a worker lacks a file that is here, or what reads it: no problem of the
    tensor's.
    """
    for each in measures:
        if each.problem is not None and each.problem.key in ("store.not_installed", "store.needs_package"):
            raise each.problem.again()
        if (
            each.problem is not None
            and each.problem.key == "file.missing"
            and os.path.exists(each.entry.file)
        ):
            raise QuantVizError("cluster.other_files", address=address, file=each.entry.file)
