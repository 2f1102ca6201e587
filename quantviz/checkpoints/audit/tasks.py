"""The tasks of an audit, some pairs of tensors each. On other machines they go the way of a scan's: see
`cluster`.
"""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath

from quantviz.checkpoints.audit.pair_audit import audited
from quantviz.checkpoints.audit.pairing import TensorPair
from quantviz.checkpoints.audit.tensor_audit import TensorAudit
from quantviz.checkpoints.model.opening import OpenModel, open_model
from quantviz.checkpoints.scan.cluster import WorkerCall, check_worker
from quantviz.errors import QuantVizError
from quantviz.schemes.orientation import Named, named_outputs
from quantviz.sources.stores.addresses import is_address

#: Elements of a task: some seconds of one core, for each task opens both models.
WORK = 2**27


@dataclass(frozen=True, eq=False)
class AuditTask:
    quantized: str
    original: str
    outputs: Named
    #: Places of the pairs among those of the audit.
    positions: tuple[int, ...]
    pairs: tuple[TensorPair, ...]


@dataclass(frozen=True, eq=False)
class Answers:
    found: tuple[TensorAudit, ...] = ()
    problem: QuantVizError | None = None


@contextmanager
def both_open(
    quantized: str | PurePath, original: str | PurePath, outputs: Named = None
) -> Iterator[tuple[OpenModel, OpenModel]]:
    """Open both checkpoints while the `with` block lasts; `outputs` are the axes of outputs in the original,
    where its files do not contain them.
    """
    with open_model(quantized) as one, open_model(original) as other:
        one.check_names()
        other.check_names()
        other.tensors.file.name_outputs(named_outputs(outputs))
        yield one, other


def audit_task(task: AuditTask, *, threads: int | None = None) -> Answers:
    """Return the results of a task's pairs. It opens the files itself and keeps nothing: it runs wherever
    they are.
    """
    try:
        with both_open(task.quantized, task.original, task.outputs) as (quantized, original):
            return Answers(tuple(audited(pair, quantized, original, threads=threads) for pair in task.pairs))
    except QuantVizError as problem:
        return Answers(problem=problem.again())


class AuditJobs:
    def __init__(
        self,
        quantized: str | PurePath,
        original: str | PurePath,
        outputs: Named,
        pairs: Sequence[tuple[int, TensorPair]],
    ) -> None:
        places = [
            str(path) if is_address(str(path)) else os.path.abspath(path) for path in (quantized, original)
        ]
        groups = (tuple(zip(*group, strict=True)) for group in _groups(pairs))
        tasks = [AuditTask(places[0], places[1], outputs, *group) for group in groups]
        self.waiting = deque(map(_job, tasks))

    def take(self, job: WorkerCall, came: Answers) -> tuple[AuditTask, tuple[TensorAudit, ...]]:
        if came.problem is not None:
            raise came.problem.again()
        return job.task, came.found

    def check(self, job: WorkerCall, came: Answers, address: str) -> None:
        """Raise a `QuantVizError` where a worker lacks a file that is here, or the file's reader."""
        task: AuditTask = job.task
        for place in (task.quantized, task.original):
            check_worker(came.problem, place, address)


def _job(task: AuditTask) -> WorkerCall:
    pair = task.pairs[0]
    name = next(each.name for each in (pair.item, pair.partner) if each is not None)
    # Each audit reads the files as they are then: no answer of another one is taken.
    return WorkerCall(task, audit_task, (task,), f"quantviz-{uuid.uuid4().hex}", name)


def _groups(pairs: Sequence[tuple[int, TensorPair]]) -> Iterator[list[tuple[int, TensorPair]]]:
    group: list[tuple[int, TensorPair]] = []
    elements = 0
    for at, pair in pairs:
        group.append((at, pair))
        elements += max((each.elements for each in (pair.item, pair.partner) if each), default=0)
        if elements >= WORK:
            yield group
            group = []
            elements = 0
    if group:
        yield group
