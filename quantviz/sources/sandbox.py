"""The one boundary: a file from outside is listed and cut in a confined process with limits of memory and of
processor time. What crosses back is typed data, and float32 in shared memory.

    read_apart(partial(content_of, content, "model.onnx"), ("content", digest), "model.onnx")
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from quantviz.budget import Ended
from quantviz.errors import QuantVizError
from quantviz.jobs import Cost, in_job, no_answer, runner
from quantviz.sources.files.file_data import FileData, clipped

T = TypeVar("T")

#: Three files are read at once, each of another person: one that takes long keeps nobody else waiting.
READING = Cost(
    products=0.0, seconds=60.0, bytes=3.0 * 2**30, threads=1, queue="files", places=3, confined=True
)


def read_apart(
    work: Callable[[], T],
    key: Hashable,
    file: str,
    *,
    owner: Hashable = None,
    is_wanted: Callable[[], bool] = lambda: True,
    cost: Cost = READING,
    answers: Callable[[Any], Any] = no_answer,
) -> T:
    """Return the result of work that reads a file from outside.

    Args:
        work: A function that can be pickled. Its result is typed data.
        key: Names the work and the version of the file.
        file: The file's name.
        owner: The session that asks.
        is_wanted: Whether it still waits.
        cost: What it may take.
        answers: Answers questions of the work, such as for bytes of a file on another machine.

    Raises:
        QuantVizError: It cannot be read, or not within the limits.
        Ended: Nobody waits for it.
    """
    if in_job():
        return work()
    try:
        return runner().submit(work, key, cost, owner=owner, answers=answers).result(is_wanted)
    except Ended as end:
        if end.problem.key == "work.dropped":
            raise
        raise QuantVizError("drop.too_long", file=clipped(file)) from None


class OutsideFile(Protocol):
    """The place of a file from outside; it can be pickled."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> Hashable:
        """Return a value that differs between two files, and between two ways to read one."""

    def data(self) -> FileData: ...


@dataclass(frozen=True)
class Held:
    """A file whose content is at hand, or the path of a dropped one."""

    name: str
    content: bytes | Path = field(repr=False)
    read_as: str = ""

    @property
    def version(self) -> Hashable:
        if isinstance(self.content, Path):
            facts = self.content.stat()
            return self.name, self.read_as, self.content, facts.st_size, facts.st_mtime_ns
        return self.name, self.read_as, hashlib.sha256(self.content).digest()

    def data(self) -> FileData:
        found = FileData(self.content, self.name)
        found.stored_as = self.read_as
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        content = self.content if isinstance(self.content, Path) else pickle.PickleBuffer(self.content)
        return Held, (self.name, content, self.read_as)


#: Does the work with the key that follows it, on the file of that name: `read_apart`.
Read = Callable[..., Any]
