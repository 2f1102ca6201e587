"""Writes the records anew: `python -m tests.witnesses.record`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.witnesses.commands import command_lines
from tests.witnesses.pages import answer, page_and_pairs, query_of
from tests.witnesses.signatures import signature_lines
from tests.witnesses.states import state_lines

FOLDER = Path(__file__).parent / "records"


def answer_line(link: str) -> str:
    """Return the answer to a link as a record has it: the parameters written and the keys of the problems."""
    page, pairs = page_and_pairs(link)
    written, problems = answer(page, pairs)
    again = query_of(written.items())
    return " | ".join(("=" if again == link.partition("?")[2] else again or "nothing", *problems))


def link_lines() -> list[str]:
    """Return each link of the record, and below it the answer; a new link is written there by hand."""
    return [line for link in recorded() for line in (link, f"  {answer_line(link)}")]


#: By the name of its record.
RECORDS: Mapping[str, Callable[[], list[str]]] = {
    "links.txt": link_lines,
    "signatures.txt": signature_lines,
    "states.txt": state_lines,
    "commands.txt": command_lines,
}


def recorded() -> dict[str, str]:
    """Return each link of the record with its answer."""
    lines = (FOLDER / "links.txt").read_text(encoding="utf-8").splitlines()
    return dict(zip(lines[::2], (line[2:] for line in lines[1::2]), strict=True))


def main(names: Iterable[str]) -> None:
    """Write the records of these names, or all."""
    for name in names:
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(RECORDS[name]()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or RECORDS)
