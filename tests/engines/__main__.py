"""Run every case on every tensor, and write the tables of it into `README.md` beside this file; there and
into the repository's own goes the number of rows and values.

    python -m tests.engines [MODULE ...]

All of it takes minutes. With names of modules, only these are run, and the rows of the others are kept. It
exits with 1 where something differs.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from itertools import groupby
from pathlib import Path
from types import ModuleType

import torch

import quantviz as qv
from quantviz.schemes.arithmetic import PURPOSES
from quantviz.text import text as say
from tests.engines import ENGINES, QUESTIONS, WAYS, engine
from tests.engines.compare import COMPARED_PARTS, EngineTally, WayTally
from tests.engines.data import trials

README = Path(__file__).with_name("README.md")
#: The page whose first lines have the number of rows and values too.
FRONT_PAGE = Path(__file__).parents[2] / "README.md"
#: The tables, each between two marks.
TABLES = ("engines", "open")
COLUMNS = (
    "engine",
    "path",
    "convention",
    "formats",
    "cases",
    *(column for way in WAYS for column in (way, f"≠ in {way}")),
)
OPEN_COLUMNS = ("engine", "path", "of", "why nothing is compared")

#: A row of the first table: engine, path, convention, kind of format.
Row = tuple[str, str, str, str]


def main() -> None:
    """Run the grid; print what was run of the tables, and write it into `README.md` after each module."""
    torch.set_num_threads(1)
    different = 0
    for name in sys.argv[1:] or ENGINES:
        print(f"{name} …", file=sys.stderr, flush=True)
        tallies = compared(name)
        found = {
            "engines": [_line(row, tally) for row, tally in tallies.items()],
            "open": list(dict.fromkeys(_open_lines(tallies))),
        }
        for lines in found.values():
            print("\n".join(lines), flush=True)
        _write(name, found)
        for tally in tallies.values():
            different += tally.different
            for example in tally.examples.values():
                print(example, file=sys.stderr)
    sys.exit(different > 0)


def _write(name: str, found: Mapping[str, Sequence[str]]) -> None:
    """Write a module's lines of the tables, and keep those of the others."""
    text = README.read_text(encoding="utf-8")
    for table, columns in zip(TABLES, (COLUMNS, OPEN_COLUMNS), strict=True):
        kept: dict[str, list[str]] = defaultdict(list)
        for line in rows_of(text, table):
            kept[module_of(line)].append(line)
        kept[name] = list(found[table])
        lines = [line for each in ENGINES for line in kept[each]]
        written = "\n".join((*_head(columns), *lines) if table == "open" else _by_purpose(lines))
        begin, end = marks(table)
        before, after = text.partition(begin)[0], text.partition(end)[2]
        text = f"{before}{begin}\n{written}\n{end}{after}"
    README.write_text(text, encoding="utf-8")
    for page in (README, FRONT_PAGE):
        _write_headline(page, rows_of(text, "engines"))


def _write_headline(page: Path, lines: Sequence[str]) -> None:
    rows = [dict(zip(COLUMNS, cells_of(line), strict=True)) for line in lines]
    values = sum(int(row[way].replace(",", "")) for row in rows for way in WAYS if row[way] != "–")
    counts = (count for row in rows for way in WAYS for count in row[f"≠ in {way}"].split(" / "))
    different = sum(int(count.replace(",", "")) for count in counts if count != "–")
    words = f"{len(rows)} engine configurations, {values / 1e6:.0f} million values, {different:,} differences"
    text = page.read_text(encoding="utf-8")
    page.write_text(
        re.sub(r"\d+ engine configurations, \d+ million values, [\d,]+ differences", words, text),
        encoding="utf-8",
    )


def compared(name: str) -> Mapping[Row, EngineTally]:
    """Return the rows of a module, and what was compared for each."""
    module = engine(name)
    data = list(getattr(module, "trials", trials)())
    tallies: dict[Row, EngineTally] = defaultdict(EngineTally)
    for path in module.PATHS:
        for form in path.forms:
            scheme = qv.Scheme.parse(form)
            row = (producer(module), path.name, str(scheme.arithmetic), scheme.number_format.kind)
            tallies[row].add(path, form, data)
    return tallies


def producer(module: ModuleType) -> str:
    """Return the distribution that answers and its version."""
    version = getattr(module, "VERSION", None) or metadata.version(module.PRODUCER).partition("+")[0]
    return f"{module.PRODUCER} {version}"


def marks(table: str) -> tuple[str, str]:
    """Return the lines between which a table of `README.md` stands."""
    return f"<!-- {table}: begin -->", f"<!-- {table}: end -->"


def rows_of(text: str, table: str) -> list[str]:
    """Return the lines of a table of `README.md`, without its heads."""
    begin, end = marks(table)
    lines = text.partition(begin)[2].partition(end)[0].splitlines()
    heads = {next(_head(columns)) for columns in (COLUMNS, OPEN_COLUMNS)}
    return [line for line in lines if line.startswith("| ") and line not in heads]


def _by_purpose(lines: Sequence[str]) -> Iterator[str]:
    """Yield a table of rows for each purpose of the Lab's list of engines, under its name."""
    for purpose in PURPOSES:
        own = [line for line in lines if _convention_of(line).purpose == purpose]
        if own:
            name = say(f"purposes.{purpose}")
            yield from (f"### {name[0].upper()}{name[1:]}", "", *_head(COLUMNS), *own, "")


def _convention_of(line: str) -> qv.Convention:
    return qv.Convention.parse(cells_of(line)[COLUMNS.index("convention")].strip("`"))


def cells_of(line: str) -> list[str]:
    """Return the cells of a table's line."""
    return line.strip("| ").split(" | ")


def module_of(line: str) -> str:
    """Return the module that a row comes from: the one of its producer that has its path."""
    product, path = cells_of(line)[:2]
    found = [
        name
        for name in ENGINES
        if product.startswith(f"{engine(name).PRODUCER} ")
        and any(each.name == path for each in engine(name).PATHS)
    ]
    return found[0] if found else ""


def _head(columns: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "".join("--:|" if column in ("cases", *WAYS) else "---|" for column in columns)


def _line(row: Row, tally: EngineTally) -> str:
    product, path, convention, _ = row
    ways = [cell for way in WAYS for cell in _way_cells(tally.ways[way])]
    formats = folded(sorted({qv.Scheme.parse(form).format for form in tally.forms}))
    return f"| {' | '.join((product, path, f'`{convention}`', formats, f'{len(tally.forms):,}', *ways))} |"


def _way_cells(way: WayTally) -> tuple[str, str]:
    """Return how many values were compared, and how many of each part differ."""
    if not way.tensors:
        return "–", "–"
    found = [f"{way.different[part]:,}" if way.compared[part] else "–" for part in COMPARED_PARTS]
    return f"{way.compared['values']:,}", " / ".join(found)


def _open_lines(tallies: Mapping[Row, EngineTally]) -> Iterator[str]:
    for (product, path, _, _), tally in tallies.items():
        for question, why in sorted(tally.open, key=lambda pair: (list(QUESTIONS).index(pair[0]), pair[1])):
            yield f"| {product} | {path} | {question} | {why} |"


def folded(formats: Sequence[str]) -> str:
    """Return formats in few words: runs of widths as `int2–8`, the others one by one."""
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
