"""Long work in a process of its own, which runs at a lower priority than the server.

Python lets one thread of a process compute at a time, so a search in a thread would hold up all others again
and again. The caller passes a function that can be pickled, and waits for its result:

    WorkProcess().ask(partial(gaussian_sqnr_db, scheme, shape), seconds=20.0)

Both ends belong to this package, so pickle is safe between them.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, TypeVar, cast

from quantviz import own_process
from quantviz.budget import Ended, Spending, spending
from quantviz.errors import QuantVizError
from quantviz.streaming.compile_ahead import at_once

T = TypeVar("T")

#: Seconds between two checks whether a caller still waits.
_LOOK = 0.1
#: Seconds until the process of dropped work is killed if the work does not reach its next check; and seconds
#: that a process may take beyond the work's own: to start, to wait for the processor, to read.
_GRACE = 3.0
_LATE = 60.0
#: Seconds after which an idle process ends.
_PATIENCE = 900.0
#: Seconds between two answers that say how much of the work is done.
_BETWEEN_SHARES = 0.2
#: The answer that stands for a process that has ended.
_LOST = "lost", None
#: The kind of an answer that says how much of the work is done.
_SHARE = "share"


class WorkProcess:
    """A process that does one piece of work at a time, started on demand. Safe for many threads.

    Args:
        ready_for: Names of modules that the process imports at its start.
    """

    def __init__(self, ready_for: Iterable[str] = ()) -> None:
        self._ready_for = tuple(ready_for)
        self._running: _Running | None = None
        self._asking = threading.Lock()
        self._starting = threading.Lock()
        atexit.register(self.close)

    @property
    def pid(self) -> int | None:
        """Return the id of the process; none if none runs."""
        running = self._running
        return running.process.pid if running and running.process.poll() is None else None

    def prepare(self) -> None:
        """Start the process if none runs, which takes seconds."""
        with self._starting:
            # A changed environment variable takes effect at once, as it does in this process.
            settings = {name: value for name, value in os.environ.items() if name.startswith("QUANTVIZ_")}
            if self.pid is None or (self._running and self._running.settings != settings):
                self._end()
                self._running = _Running(self._ready_for, settings)

    def ask(
        self,
        work: Callable[[], T],
        seconds: float,
        is_wanted: Callable[[], bool] = lambda: True,
        on_share: Callable[[float], None] = lambda share: None,
    ) -> T:
        """Return the result of a function that runs in the process after all earlier calls are done.

        Args:
            work: The function; it and its result can be pickled.
            seconds: Seconds of processor time that it may take.
            is_wanted: Whether the caller still waits for the result.
            on_share: Gets the share of the work that is done now and then, where the work knows it.

        Raises:
            Ended: The work exceeds its seconds, nobody waits for it any more, or its process has ended.
        """
        while not self._asking.acquire(timeout=_LOOK):
            if not is_wanted():
                raise Ended("work.dropped")
        try:
            kind, found = self._answer(work, seconds, is_wanted, on_share)
        finally:
            self._asking.release()
        if kind == "raised":
            raise cast("BaseException", found)
        if kind == "lost":
            raise Ended("work.lost")
        return cast(T, found)

    def close(self) -> None:
        """End the process."""
        with self._starting:
            self._end()

    def _answer(
        self,
        work: Callable[[], object],
        seconds: float,
        is_wanted: Callable[[], bool],
        on_share: Callable[[float], None],
    ) -> tuple[str, Any]:
        running = self._send((work, seconds))
        until = time.monotonic() + seconds + _LATE
        while True:
            with contextlib.suppress(queue.Empty):
                answer = running.answers.get(timeout=_LOOK)
                if answer[0] == _SHARE:
                    self._say(running, on_share, answer[1])
                    continue
                if answer == _LOST:
                    self.close()
                return answer
            if not is_wanted():
                self._drop(running)
                raise Ended("work.dropped")
            if time.monotonic() > until:
                self.close()
                raise Ended("work.too_long", seconds=f"{seconds:.3g}")

    def _send(self, message: object) -> _Running:
        self.prepare()
        running = self._running
        assert running is not None
        try:
            running.send(message)
        except BrokenPipeError:  # it had waited for long, and has just ended
            self.close()
            return self._send(message)
        except BaseException:  # half a message would become the beginning of the next
            self.close()
            raise
        return running

    def _say(self, running: _Running, on_share: Callable[[float], None], share: float) -> None:
        """Pass on how much of the work is done; it is dropped if the caller leaves at that."""
        try:
            on_share(share)
        except BaseException:
            self._drop(running)
            raise

    def _drop(self, running: _Running) -> None:
        """Make the work end at its next check; kill a process that does not reach one."""
        try:
            running.send(None)
            while running.answers.get(timeout=_GRACE)[0] == _SHARE:
                pass
        except (BrokenPipeError, queue.Empty):
            self.close()

    def _end(self) -> None:
        if self._running is not None:
            self._running.end()
            self._running = None


class _Running:
    """A running process and the queue of its answers."""

    def __init__(self, ready_for: Iterable[str], settings: dict[str, str]) -> None:
        self.settings = settings
        self.process: subprocess.Popen[bytes] = own_process.start(
            "quantviz.work_process",
            ready_for,
            # One thread: two would only slow down the server's own threads.
            environment={"OMP_NUM_THREADS": "1", "QUANTVIZ_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.answers: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._hear, name="quantviz-work", daemon=True).start()

    def send(self, message: object) -> None:
        assert self.process.stdin is not None
        pickle.dump(message, self.process.stdin, protocol=5)
        self.process.stdin.flush()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            try:
                while True:
                    self.answers.put(pickle.load(stdout))
            except (EOFError, OSError, ValueError, pickle.UnpicklingError):
                self.answers.put(_LOST)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


# ---- the process itself --------------------------------------------------------------------------


def serve(ready_for: Iterable[str]) -> None:
    """Run the pickled work that arrives on stdin, one piece after the other, until none has come for long."""
    own_process.lower_priority()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Keep what the work prints out of the stream of answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    requests: queue.SimpleQueue[tuple[Callable[[], object], Spending]] = queue.SimpleQueue()
    shares = _Shares(answers)
    threading.Thread(target=_hear, args=(requests, shares.tell), daemon=True).start()
    for module in ready_for:
        importlib.import_module(module)
    while True:
        try:
            work, budget = requests.get(timeout=_PATIENCE)
        except queue.Empty:
            os._exit(0)
        pickle.dump(_done(work, budget), answers, protocol=5)
        answers.flush()
        del work


class _Shares:
    """Tells the server how much of the work is done, now and then. For the thread that does the work."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._told = 0.0

    def tell(self, share: float) -> None:
        now = time.monotonic()
        if now - self._told >= _BETWEEN_SHARES:
            self._told = now
            pickle.dump((_SHARE, share), self._answers, protocol=5)
            self._answers.flush()


def _hear(
    requests: queue.SimpleQueue[tuple[Callable[[], object], Spending]], on_share: Callable[[float], None]
) -> None:
    budget = Spending(0.0)
    while True:
        try:
            message = pickle.load(sys.stdin.buffer)
        except BaseException as problem:
            if not isinstance(problem, EOFError):
                traceback.print_exc()
            # The server has ended, or the start of the next message in its stream is lost.
            os._exit(1)
        if message is None:
            budget.drop()
        else:
            work, seconds = message
            # Processor time of this work alone: earlier work uses up none of it.
            budget = Spending(seconds, time.process_time, on_share)
            requests.put((work, budget))


def _done(work: Callable[[], object], budget: Spending) -> tuple[str, object]:
    try:
        with at_once(), spending(budget):
            return "found", work()
    except (Ended, QuantVizError) as problem:
        return "raised", problem
    except BaseException as problem:
        # The caller raises it again, without the traceback of this process.
        problem.add_note("".join(traceback.format_exception(problem)))
        try:
            pickle.dumps(problem)
        except Exception:
            return "raised", RuntimeError(f"{type(problem).__name__}: {problem}")
        return "raised", problem


if __name__ == "__main__":
    # Import by the module's own name, because pickled objects refer to that name and not to `__main__`.
    importlib.import_module("quantviz.work_process").serve(sys.argv[1:])
