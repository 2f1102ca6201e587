"""A scan in a process of its own: the page's server starts it, reads its results, and can end it.

The process runs the command itself, so that page and command cannot differ. It waits ready from the moment
the page is opened: Python and torch alone take seconds to start.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from quantviz import own_process

#: Characters of a failed scan's error output that are read.
_MOST_SAID = 2000
#: Seconds that a cancelled scan has to store its results.
_GRACE = 20.0
#: Scans that have ended, of which the last are known.
_MOST_ENDED = 16


@dataclass(eq=False)
class Job:
    """A scan that was begun, or waits for those before it."""

    path: str
    #: The arguments of the command, as the process reads them.
    line: str
    #: Its process and that one's error output; None as long as it waits.
    process: subprocess.Popen[str] | None = None
    stderr: IO[str] | None = None
    #: Whether it was cancelled before its turn.
    dropped: bool = False

    @property
    def waits(self) -> bool:
        """Whether its turn has not come."""
        return self.process is None and not self.dropped

    @property
    def running(self) -> bool:
        """Whether its process has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def failure(self) -> str:
        """Return the process's error output if the scan could not begin; "" if it did."""
        if self.stderr is None or self.process is None or self.process.poll() in (None, 0, 1, 130, -15, -9):
            return ""
        self.stderr.seek(0)
        return self.stderr.read(_MOST_SAID).strip() or "?"


class ScanProcess:
    """Runs the scans of a server, one at a time in the order of their requests. Safe for many threads.

    Args:
        waiting: Name of the module whose process waits for the arguments of a command, and then runs it.
        ready_for: Recipes whose kernels that process loads meanwhile.
    """

    def __init__(self, waiting: str, ready_for: Iterable[str] = ()) -> None:
        self._module = waiting
        self._ready_for = tuple(ready_for)
        self._lock = threading.Lock()
        self._waiting: tuple[subprocess.Popen[str], IO[str]] | None = None
        #: In the order of their requests: the last that have ended, the running one, and those that wait.
        self._jobs: list[Job] = []
        atexit.register(self.close)

    def job(self, path: str | Path) -> Job | None:
        """Return the last scan of a checkpoint; None where none is known."""
        return next((job for job in reversed(self._jobs) if job.path == str(path)), None)

    def before(self, job: Job) -> int:
        """Return the number of scans that end before one begins."""
        jobs = self._jobs
        return sum(each.running or each.waits for each in jobs[: jobs.index(job)])

    def prepare(self) -> None:
        """Have a process wait ready, where none does and none is needed now."""
        with self._lock:
            if not any(job.running for job in self._jobs):
                self._take_ready()

    def start(
        self,
        path: str | Path,
        recipes: Iterable[str],
        language: str,
        engine: str = "",
        imatrix: str = "",
        results: Path | None = None,
    ) -> Job:
        """Begin a scan, after those that were requested before; where an engine is named by its id, of the
        tensors that it quantizes. One that was requested already is not begun again.

        `language` is that of the error messages, `imatrix` the path of an importance matrix, `results` that
        of the results, by default the usual one.
        """
        arguments = ["--lang", language, "scan", "--no-progress"]
        for recipe in recipes:
            arguments += ["-r", recipe]
        if engine:
            arguments += ["--engine", engine]
        if imatrix:
            arguments += ["--imatrix", imatrix]
        if results is not None:
            arguments += ["--results", str(results)]
        arguments += ["--", str(path)]
        job = Job(str(path), json.dumps(arguments) + "\n")
        with self._lock:
            going = [each for each in self._jobs if each.running or each.waits]
            same = next((each for each in going if each.line == job.line), None)
            if same is not None:
                return same
            ended = [each for each in self._jobs if each not in going]
            self._jobs = [*ended[-_MOST_ENDED:], *going, job]
            self._begin_next()
        return job

    def cancel(self, path: str | Path) -> None:
        """End the last scan of a checkpoint, or its wait: its measurements are kept."""
        with self._lock:
            job = self.job(path)
            if job is not None and job.process is None:
                job.dropped = True
            elif job is not None and job.process is not None and job.running:
                job.process.terminate()
                threading.Thread(target=_end, args=(job.process,), daemon=True).start()

    def close(self) -> None:
        """End all scans and the waiting process."""
        with self._lock:
            processes = [self._waiting[0]] if self._waiting else []
            for job in self._jobs:
                job.dropped = True
                processes += [job.process] if job.process else []
            for process in processes:
                if process.poll() is None:
                    process.terminate()

    def _begin_next(self) -> None:
        """Begin the first scan that waits, where none is running."""
        job = next((each for each in self._jobs if each.waits), None)
        if job is None or any(each.running for each in self._jobs):
            return
        try:
            job.process, job.stderr = self._handed(job.line)
        except OSError:  # the one that waited has just ended
            job.process, job.stderr = self._handed(job.line)
        threading.Thread(target=self._follow, args=(job.process,), name="quantviz-scans", daemon=True).start()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        """Begin the next scan when a process has ended."""
        process.wait()
        with self._lock:
            self._begin_next()

    def _handed(self, line: str) -> tuple[subprocess.Popen[str], IO[str]]:
        """Hand the arguments to the process that waits, and return it with its error output."""
        process, stderr = self._take_ready()
        self._waiting = None
        assert process.stdin is not None
        process.stdin.write(line)
        process.stdin.close()
        return process, stderr

    def _take_ready(self) -> tuple[subprocess.Popen[str], IO[str]]:
        if self._waiting is None or self._waiting[0].poll() is not None:
            stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (kept open)
            process = own_process.start(
                self._module,
                self._ready_for,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                text=True,
                encoding="utf-8",
            )
            self._waiting = process, stderr
        return self._waiting


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process that does not end within `_GRACE` seconds."""
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
