"""What a scan has to do, in tasks: groups of small tensors, and each large one by itself.

A giant tensor's task is divided into bands where it is measured on other machines: see `tasks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from quantviz.checkpoints.listing import Entry
from quantviz.checkpoints.reading import is_giant
from quantviz.checkpoints.recipes import refusal_of
from quantviz.checkpoints.tasks import Task
from quantviz.schemes.scheme import Scheme

#: Elements of a group, times the recipes it is measured under: about a tenth of a second of one core, so that
#: whoever looks on sees it go on.
WORK = 2**27
#: Most elements of a group: it is held in memory as float32.
MOST_TOGETHER = 2**24


def plan(
    entries: Sequence[Entry],
    schemes: Iterable[Scheme],
    wanted: Callable[[int, Scheme], bool] = lambda position, scheme: True,
    *,
    work: float = WORK,
    together: float = MOST_TOGETHER,
) -> tuple[Task, ...]:
    """Return the tasks of a scan, in the order of the checkpoint.

    Args:
        entries: The tensors, of which those that are not to be measured have no task.
        schemes: What each is measured under, where it fits its shape.
        wanted: Whether the tensor at a position still needs a scheme.
        work: Elements of a group, times its recipes, that are enough.
        together: Most elements of a group.
    """
    listed, tasks = tuple(schemes), list[Task]()
    group: list[tuple[int, Entry, tuple[Scheme, ...]]] = []
    done = elements = 0

    def close() -> None:
        nonlocal done, elements
        if group:
            positions, members, asked = zip(*group, strict=True)
            tasks.append(Task(positions, members, asked))
        group.clear()
        done = elements = 0

    for position, entry in enumerate(entries):
        if entry.unmeasured is not None:
            continue
        asked = tuple(
            scheme
            for scheme in listed
            if refusal_of(scheme, entry.shape) is None and wanted(position, scheme)
        )
        count = math.prod(entry.shape)
        if not asked:
            continue
        if group and (entry.file != group[-1][1].file or elements + count > together or is_giant(entry)):
            close()
        group.append((position, entry, asked))
        elements, done = elements + count, done + count * len(asked)
        if done >= work or is_giant(entry):
            close()
    close()
    return tuple(tasks)
