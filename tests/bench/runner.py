"""One runner for all benchmarks: cases by name, works in turns, ratios beside their bars.

A module of cases ends with `main()`. `python -m tests.bench.MODULE CASE --option …` runs one; the options of
a case are its function's parameters, and `--help` says what it measures.
"""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[2]
CASES: dict[str, Callable[..., object]] = {}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "QUANTVIZ_THREADS": "1"}


def case(run):
    """Register a case under its name."""
    CASES[run.__name__] = run
    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="case", required=True)
    for name, run in CASES.items():
        told = inspect.getdoc(run) or ""
        command = commands.add_parser(
            name,
            help=told.partition("\n")[0],
            description=told,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for option, parameter in inspect.signature(run).parameters.items():
            usual = parameter.default
            several, switch = isinstance(usual, tuple), usual is False
            ways = (
                {"nargs": "*"} if several else {"action": "store_true"} if switch else {"type": type(usual)}
            )
            command.add_argument(f"--{option}", default=usual, **ways)
    asked = vars(parser.parse_args())
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    sys.exit(CASES[asked.pop("case")](**asked))


def timed(work: Callable[[], object], clock: Callable[[], Any] = time.perf_counter) -> Callable[[], Any]:
    """Return what does the work and returns its seconds."""

    def run():
        start = clock()
        work()
        return clock() - start

    return run


def in_turns(works: Mapping[Any, Callable[[], Any]], rounds: int, warm: int = 1) -> dict[Any, list[Any]]:
    """Return what each work says of itself, as `timed` does, run one after the other in each round."""
    found: dict[Any, list[Any]] = {name: [] for name in works}
    for turn in range(warm + rounds):
        for name, work in works.items():
            told = work()
            found[name] += [told] if turn >= warm else []
    return found


def ratio(own: list[float], other: list[float]) -> float:
    """Return the median of the ratios, round by round."""
    return statistics.median(one / two for one, two in zip(own, other, strict=True))


def p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20, method="inclusive")[-1]


def judged(value: float, bar: float, digits: int = 2, least: bool = False) -> str:
    missed = value < bar if least else value > bar
    return f"{value:.{digits}f}{' (missed)' if missed else ''}"


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*cells: object) -> None:
    row(*cells)
    row(*["---"] * len(cells))


def process(**env: str) -> ProcessPoolExecutor:
    """Return a process of its own, which has imported nothing before its environment was set."""
    with mock.patch.dict(os.environ, env):
        made = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        made.submit(int).result()
    return made


def held_beyond(prepare: Callable[..., Callable[[], object]], *given: object) -> int:
    """Return the bytes that work holds at most beyond what was there before, in its own process. On Linux."""
    with process() as aside:
        return aside.submit(_held, prepare, given).result()


def _held(prepare, given):
    def status(name):
        return 1024 * int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1])

    work = prepare(*given)
    # The most that was held so far is forgotten.
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    work()
    return status("VmHWM") - before
