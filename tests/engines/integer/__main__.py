"""Run every kernel on every layer, and write the table of `README.md` beside this file.

    python -m tests.engines.integer

It exits with 1 where something differs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path as File
from types import ModuleType
from typing import Any

import numpy as np
import torch

from tests.engines.integer import MODULES, Path, module_of

README = File(__file__).with_name("README.md")
COLUMNS = ("engine", "kernel", "held to it", "configurations", "values", "differences")
#: The lines between which the table stands.
BEGIN, END = "<!-- kernels: begin -->", "<!-- kernels: end -->"


@dataclass
class Tally:
    """What was compared for one kernel."""

    configurations: int = 0
    values: int = 0
    differences: int = 0
    #: The first difference, in words.
    example: str = ""


@functools.cache
def answers(path: Path) -> tuple[tuple[Any, np.ndarray], ...]:
    """Return the layers that a kernel is asked of, each with its answer."""
    return tuple((case, np.asarray(path.theirs(case))) for case in path.cases())


def compared(path: Path) -> Tally:
    """Return how many numbers of a kernel were compared, and how many differ."""
    tally = Tally()
    for number, (case, theirs) in enumerate(answers(path)):
        ours = path.ours(case).numpy()
        assert theirs.shape == ours.shape, (path.name, theirs.shape, ours.shape)
        different = theirs.astype(np.int64) != ours.astype(np.int64)
        if different.any() and not tally.example:
            place = tuple(np.argwhere(different)[0])
            tally.example = f"{path.name}, layer {number}, {place}: {theirs[place]} is not {ours[place]}"
        tally.configurations += 1
        tally.values += theirs.size
        tally.differences += int(different.sum())
    return tally


def producer(module: ModuleType) -> str:
    """Return the distribution that answers and its version, or what a module says of itself."""
    if " " in module.PRODUCER:
        return str(module.PRODUCER)
    return f"{module.PRODUCER} {metadata.version(module.PRODUCER).partition('+')[0]}"


def lines(name: str) -> Iterator[tuple[str, Tally]]:
    """Yield the table's line of each kernel of a module, and what was compared for it."""
    module = module_of(name)
    for path in module.PATHS:
        tally = compared(path)
        counts = (tally.configurations, tally.values, tally.differences)
        cells = (producer(module), path.name, path.arithmetic, *(f"{count:,}" for count in counts))
        yield f"| {' | '.join(cells)} |", tally


def main() -> None:
    """Run all, and write the table."""
    torch.set_num_threads(1)
    found = [pair for name in MODULES for pair in lines(name)]
    head = [f"| {' | '.join(COLUMNS)} |", "|---|---|---|--:|--:|--:|"]
    text = README.read_text(encoding="utf-8")
    table = "\n".join([*head, *(line for line, _ in found)])
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    README.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    print(table)
    for _, tally in found:
        if tally.example:
            print(tally.example, file=sys.stderr)
    sys.exit(any(tally.differences for _, tally in found))


if __name__ == "__main__":
    main()
