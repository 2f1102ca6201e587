"""Run every case on every tensor, and write the table of it into `README.md` beside this file.

    python -m tests.engines

It takes minutes, and exits with 1 where something differs.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib import metadata
from itertools import groupby
from pathlib import Path
from types import ModuleType

import torch

import quantviz as qv
from tests.engines import ENGINES, engine
from tests.engines.compare import COMPARED_PARTS, EngineTally
from tests.engines.data import tensors

README = Path(__file__).with_name("README.md")
MARKS = ("<!-- engines: begin -->", "<!-- engines: end -->")
COLUMNS = (
    "engine",
    "convention",
    "formats",
    "cases",
    "tensors",
    "values",
    *(f"≠ {part}" for part in COMPARED_PARTS),
)


def main() -> None:
    """Run the grid, print the table, write it into `README.md`."""
    torch.set_num_threads(1)
    tallies: dict[tuple[str, str, str], EngineTally] = defaultdict(EngineTally)
    for name in ENGINES:
        module = engine(name)
        data = list(getattr(module, "tensors", tensors)())
        for form, case in module.CASES.items():
            scheme = qv.Scheme.parse(form)
            tallies[producer(module), str(scheme.arithmetic), scheme.number_format.kind].add(form, case, data)
    table = "\n".join(_lines(tallies))
    print(table)
    for tally in tallies.values():
        for example in tally.examples.values():
            print(example, file=sys.stderr)
    begin, end = MARKS
    text = README.read_text(encoding="utf-8")
    README.write_text(
        re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{table}\n{end}", text, flags=re.S), encoding="utf-8"
    )
    sys.exit(any(tally.different.total() for tally in tallies.values()))


def producer(module: ModuleType) -> str:
    """The distribution that answers and its version."""
    version = getattr(module, "VERSION", None) or metadata.version(module.PRODUCER).partition("+")[0]
    return f"{module.PRODUCER} {version}"


def _lines(tallies: dict[tuple[str, str, str], EngineTally]) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * 3}{'--:|' * (len(COLUMNS) - 3)}"
    for (producer_of, convention, _), tally in tallies.items():
        found = [f"{tally.different[part]:,}" if tally.compared[part] else "–" for part in COMPARED_PARTS]
        counts = [f"{count:,}" for count in (tally.cases, tally.tensors, tally.compared["values"])]
        formats = folded(sorted({fmt for fmt, _ in tally.reached}))
        yield f"| {' | '.join((producer_of, f'`{convention}`', formats, *counts, *found))} |"


def folded(formats: Sequence[str]) -> str:
    """Formats in few words: runs of widths as `int2–8`, the others one by one."""
    split = [(re.fullmatch(r"(u?int)(\d+)", fmt), fmt) for fmt in formats]
    words = [fmt for match, fmt in split if not match]
    for kind in ("int", "uint"):
        widths = sorted(int(match[2]) for match, _ in split if match and match[1] == kind)
        runs = [
            [width for _, width in run]
            for _, run in groupby(enumerate(widths), lambda pair: pair[1] - pair[0])
        ]
        parts = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
        words += [kind + ", ".join(parts)] if parts else []
    return ", ".join(words)


if __name__ == "__main__":
    main()
