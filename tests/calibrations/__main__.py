"""Write the table of `README.md` beside this file; the packages that are named are asked anew first.

    python -m tests.calibrations [PACKAGE ...]

It exits with 1 where something is unexplained. llmcompressor wants older packages than the tests do: it is
asked in an environment of its own, which has it and its compressed-tensors (both with `--no-deps`) before the
tests' own.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import torch

import quantviz as qv
from tests.calibrations import CASES, RECORDED, digest, tensors
from tests.calibrations.compare import KINDS, Tally, record, tallies
from tests.calibrations.packages import ASKED

README = Path(__file__).with_name("README.md")
MARKS = ("<!-- calibrations: begin -->", "<!-- calibrations: end -->")
COLUMNS = (
    "calibration",
    "package",
    "schemes",
    "tensors",
    "blocks",
    "equal",
    "within one bin or step",
    "further, no worse",
    "unexplained",
)


def main() -> None:
    """Ask what is named, compare, and write the table."""
    torch.set_num_threads(1)
    for package in sys.argv[1:]:
        _record(package)
    made = tallies(tuple(CASES))
    table = "\n".join(lines(made))
    print(table)
    for tally in made.values():
        for example in tally.examples:
            print(example, file=sys.stderr)
    begin, end = MARKS
    text = README.read_text(encoding="utf-8")
    README.write_text(
        re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{table}\n{end}", text, flags=re.S), encoding="utf-8"
    )
    sys.exit(any(tally.found["unexplained"] for tally in made.values()))


def lines(made: dict[str, Tally]) -> Iterator[str]:
    """The table's lines."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * 2}{'--:|' * (len(COLUMNS) - 2)}"
    for name, tally in made.items():
        version = record(tally.package)["version"]
        counts = (tally.cases, tally.tensors, tally.found.total(), *(tally.found[kind] for kind in KINDS))
        yield f"| `{name}` | {tally.package} {version} | {' | '.join(f'{count:,}' for count in counts)} |"


def _record(package: str) -> None:
    known = tensors()
    answers = {
        form: {name: ASKED[package](qv.Scheme.parse(form), x) for name, x in known.items()}
        for form in CASES[package]
    }
    about = {
        "producer": package,
        "version": metadata.version(package).partition("+")[0],
        "command": f"python -m tests.calibrations {package}",
        "torch": torch.__version__.partition("+")[0],
        "tensors": {name: digest(x) for name, x in known.items()},
        "answers": answers,
    }
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"{package}.json"
    path.write_text(json.dumps(about, indent=0, allow_nan=False) + "\n", encoding="utf-8")
    record.cache_clear()


if __name__ == "__main__":
    main()
