"""Tasks of a scan: groups of small tensors, and each large one by itself.

A giant tensor's task is divided into bands where it is measured on other machines: see `tasks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from quantviz.checkpoints.scan.listing import Entry
from quantviz.checkpoints.scan.reading import is_giant
from quantviz.checkpoints.scan.tasks import ScanTask
from quantviz.schemes.scheme import Scheme

#: Elements of a group, times its recipes: about a tenth of a second of one core, so that whoever looks on
#: sees it go on.
WORK = 2**27
#: Most elements of a group: it is loaded into memory as float32.
MOST_TOGETHER = 2**24


def plan(
    entries: Sequence[Entry],
    schemes: Iterable[Scheme],
    wanted: Callable[[int, Scheme], bool] = lambda position, scheme: True,
    *,
    work: float = WORK,
    together: float = MOST_TOGETHER,
) -> tuple[ScanTask, ...]:
    """Return the tasks of a scan, in the order of the checkpoint.

    Args:
        entries: The tensors; those that are not to be measured have no task.
        schemes: The schemes for each, used where they fit its shape.
        wanted: Whether the tensor at a position still needs a scheme.
        work: Elements of a group, times its recipes, that are enough.
        together: Most elements of a group.
    """
    listed = tuple(schemes)
    tasks = list[ScanTask]()
    group: list[tuple[int, Entry, tuple[Scheme, ...]]] = []
    done = elements = 0

    def close() -> None:
        nonlocal done, elements
        if group:
            positions, members, fitting = zip(*group, strict=True)
            tasks.append(ScanTask(positions, members, fitting))
        group.clear()
        done = elements = 0

    for position, entry in enumerate(entries):
        if entry.unmeasured is not None:
            continue
        fitting = tuple(scheme for scheme in entry.fitting(listed) if wanted(position, scheme))
        count = math.prod(entry.shape)
        if not fitting:
            continue
        if group and (entry.file != group[-1][1].file or elements + count > together or is_giant(entry)):
            close()
        group.append((position, entry, fitting))
        elements, done = elements + count, done + count * len(fitting)
        if done >= work or is_giant(entry):
            close()
    close()
    return tuple(tasks)


def smallest_first(tasks: Sequence[ScanTask]) -> tuple[ScanTask, ...]:
    """Return the tasks with the smallest of all tensors before them: whoever looks on sees something at once,
    where an embedding, which comes first, takes long.
    """
    sizes = {
        (of_task, k): math.prod(entry.shape)
        for of_task, task in enumerate(tasks)
        for k, entry in enumerate(task.entries)
    }
    if not sizes:
        return ()
    of_task, k = min(sizes, key=sizes.__getitem__)
    task = tasks[of_task]

    def part(members: Sequence[int]) -> ScanTask:
        return ScanTask(
            tuple(task.positions[j] for j in members),
            tuple(task.entries[j] for j in members),
            tuple(task.schemes[j] for j in members),
        )

    others = [j for j in range(len(task.entries)) if j != k]
    rest = (part(others),) if others else ()
    return (part([k]), *tasks[:of_task], *rest, *tasks[of_task + 1 :])
