"""Writes the records anew: `python -m tests.witnesses.record`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote

from tests.witnesses.links import links
from tests.witnesses.pages import Pairs, answer
from tests.witnesses.signatures import signature_lines

FOLDER = Path(__file__).parent / "records"


def query_of(pairs: Iterable[tuple[str, str]]) -> str:
    """Return parameters as an address has them."""
    return "&".join(f"{name}={quote(value, ',()=:@/~! +', errors='surrogatepass')}" for name, value in pairs)


def pairs_of(query: str) -> Pairs:
    """Return the parameters of an address."""
    return parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, errors="surrogatepass")


def answer_line(link: str) -> str:
    """Return the answer to a link as a record has it: the parameters written and the keys of the problems."""
    page, _, query = link.partition("?")
    written, problems = answer(page, pairs_of(query))
    again = query_of(written.items())
    return " | ".join(("=" if again == query else again or "nothing", *problems))


def link_lines() -> list[str]:
    """Return each link, and below it the answer."""
    every = [f"{page}?{query_of(pairs)}" for page, pairs in links()]
    return [line for link in every for line in (link, f"  {answer_line(link)}")]


#: By the name of its record.
RECORDS: Mapping[str, Callable[[], list[str]]] = {
    "links.txt": link_lines,
    "signatures.txt": signature_lines,
}


def main(names: Iterable[str]) -> None:
    """Write the records of these names, or all."""
    for name in names:
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(RECORDS[name]()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or RECORDS)
