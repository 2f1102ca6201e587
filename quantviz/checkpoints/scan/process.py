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
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from quantviz import own_process
from quantviz.errors import QuantVizError

#: Characters of a failed scan's error output that are read.
_MOST_SAID = 2000
#: Seconds that a cancelled scan has to store its results.
_GRACE = 20.0


@dataclass(frozen=True, eq=False)
class Job:
    """A scan that was begun."""

    path: str
    recipes: tuple[str, ...]
    #: Time of its start, in seconds of `time.time`.
    started: float
    process: subprocess.Popen[str]
    stderr: IO[str]

    @property
    def running(self) -> bool:
        """Whether its process has not ended."""
        return self.process.poll() is None

    @property
    def failure(self) -> str:
        """Return the process's error output if the scan could not begin; "" if it did."""
        if self.process.poll() in (None, 0, 1, 130, -15, -9):
            return ""
        self.stderr.seek(0)
        return self.stderr.read(_MOST_SAID).strip() or "?"


class ScanProcess:
    """The one scan that a server runs at a time. Safe for many threads.

    Args:
        waiting: Name of the module whose process waits for the arguments of a command, and then runs it.
        ready_for: Recipes whose kernels that process loads meanwhile.
    """

    def __init__(self, waiting: str, ready_for: Iterable[str] = ()) -> None:
        self._module = waiting
        self._ready_for = tuple(ready_for)
        self._lock = threading.Lock()
        self._waiting: tuple[subprocess.Popen[str], IO[str]] | None = None
        self._job: Job | None = None
        atexit.register(self.close)

    @property
    def job(self) -> Job | None:
        """Return the last scan that was begun."""
        return self._job

    def prepare(self) -> None:
        """Have a process wait ready, where none does and none is needed now."""
        with self._lock:
            if self._job is None or not self._job.running:
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
        """Begin a scan; where an engine is named by its id, of the tensors that it quantizes.

        `language` is that of the error messages, `imatrix` the path of an importance matrix, `results` that
        of the results, by default the usual one.

        Raises:
            QuantVizError: Another one is running.
        """
        with self._lock:
            if self._job is not None and self._job.running:
                raise QuantVizError("checkpoint.busy")
            named = tuple(recipes)
            arguments = ["--lang", language, "scan", "--no-progress"]
            for recipe in named:
                arguments += ["-r", recipe]
            if engine:
                arguments += ["--engine", engine]
            if imatrix:
                arguments += ["--imatrix", imatrix]
            if results is not None:
                arguments += ["--results", str(results)]
            arguments += ["--", str(path)]
            line = json.dumps(arguments) + "\n"
            try:
                process, stderr = self._handed(line)
            except OSError:  # the one that waited has just ended
                process, stderr = self._handed(line)
            self._job = Job(str(path), named, time.time(), process, stderr)
            return self._job

    def cancel(self) -> None:
        """End the scan that is running: its measurements are kept."""
        job = self._job
        if job is not None and job.running:
            job.process.terminate()
            threading.Thread(target=_end, args=(job.process,), daemon=True).start()

    def close(self) -> None:
        """End the running scan and the waiting process."""
        processes = [self._job.process] if self._job else []
        processes += [self._waiting[0]] if self._waiting else []
        for process in processes:
            if process.poll() is None:
                process.terminate()

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
