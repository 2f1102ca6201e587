"""An audit in a process of its own: `python -m quantviz.checkpoints.audit.process QUANTIZED ORIGINAL`.

The page's server starts it, reads its progress, and shows its results. It writes one JSON
document to stdout, and to stderr a line for each tensor that is done. What it compares it keeps where scans
and the command `compare` keep theirs, and takes from there what they have compared.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from quantviz import own_process
from quantviz.errors import QuantVizError
from quantviz.text import languages

#: Audits that are kept.
_MOST_KEPT = 8
#: Characters of a running audit's output that are read for its progress.
_LOOKED_AT = 64


@dataclass(frozen=True, eq=False)
class Answer:
    """Results of an audit, or the reason it could not begin, by language."""

    messages: Mapping[str, tuple[str, ...]]
    #: A row for each tensor, as `Audit.rows` has them.
    rows: Mapping[str, list[dict[str, Any]]]
    is_complete: bool
    is_sound: bool
    #: Reasons why there is no audit; empty where there is one.
    problem: Mapping[str, str]


@dataclass(eq=False)
class Job:
    """An audit that was begun."""

    process: subprocess.Popen[str]
    stdout: IO[str]
    stderr: IO[str]
    #: Whether the user ended it.
    cancelled: bool = False
    _answer: Answer | None = None

    @property
    def running(self) -> bool:
        """Whether its process has not ended."""
        return self.process.poll() is None

    @property
    def progress(self) -> tuple[int, int]:
        """Return the number of tensors done, and of all; zeros before the first."""
        stderr = self.stderr.fileno()
        tail = os.pread(stderr, _LOOKED_AT, max(0, os.fstat(stderr).st_size - _LOOKED_AT))
        lines = [line.split() for line in tail.decode("ascii", "replace").splitlines()]
        numbers = [line for line in lines if len(line) == 2 and all(map(str.isdigit, line))]
        return (int(numbers[-1][0]), int(numbers[-1][1])) if numbers else (0, 0)

    @property
    def answer(self) -> Answer | None:
        """Return the results; None while it runs, and where it was ended."""
        if self._answer is None and self.process.poll() == 0 and not self.stdout.closed:
            self.stdout.seek(0)
            self._answer = Answer(**json.load(self.stdout))
        return self._answer

    def close(self) -> None:
        """Keep the results of an audit that has ended, and close its files."""
        _ = self.answer
        self.stdout.close()
        self.stderr.close()


class AuditProcess:
    """The audits of a server, of which one runs at a time. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[tuple[str, str], Job] = OrderedDict()
        atexit.register(self.close)

    def job(self, quantized: str | Path, original: str | Path) -> Job | None:
        """Return the last audit of two checkpoints; None before the first."""
        return self._jobs.get((str(quantized), str(original)))

    @property
    def busy(self) -> bool:
        """Whether any audit is running."""
        return any(job.running for job in tuple(self._jobs.values()))

    def start(self, quantized: str | Path, original: str | Path) -> Job:
        """Begin an audit.

        Raises:
            QuantVizError: Another one is running.
        """
        with self._lock:
            if self.busy:
                raise QuantVizError("audit.busy")
            stdout, stderr = (
                tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (kept open)
                for _ in range(2)
            )
            process = own_process.start(
                "quantviz.checkpoints.audit.process",
                (str(quantized), str(original)),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                text=True,
            )
            key = str(quantized), str(original)
            before = self._jobs.pop(key, None)
            if before is not None:
                before.close()
            self._jobs[key] = Job(process, stdout, stderr)
            while len(self._jobs) > _MOST_KEPT:
                self._jobs.popitem(last=False)[1].close()
            return self._jobs[key]

    def cancel(self, quantized: str | Path, original: str | Path) -> None:
        """End an audit that is running. The tensors compared so far are kept: the next one goes on there."""
        job = self.job(quantized, original)
        if job is not None and job.running:
            job.cancelled = True
            job.process.terminate()

    def close(self) -> None:
        """End the running audit."""
        for job in tuple(self._jobs.values()):
            if job.running:
                job.process.terminate()


def main(quantized: str, original: str) -> None:
    """Compare two checkpoints and write the results."""
    from quantviz.checkpoints.audit.auditing import audit
    from quantviz.checkpoints.results.store import default_results
    from quantviz.checkpoints.results.typed_values import sentences

    own_process.lower_priority()
    own_process.keep_memory()

    def report(done: int, count: int) -> None:
        print(done, count, file=sys.stderr, flush=True)

    try:
        result = audit(quantized, original, results=default_results(), report=report)
        messages = {language: result.messages(language) for language in languages()}
        rows = {language: result.rows(language) for language in languages()}
        answer = Answer(messages, rows, result.is_complete, result.is_sound, {})
    except QuantVizError as problem:
        answer = Answer({}, {}, False, False, sentences(problem))
    json.dump(vars(answer), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:3])
