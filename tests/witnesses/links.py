"""Links of every page: those that the app writes, drawn ones, links of before, and damaged ones.

They are made as texts, so that no class of a page's state is needed for it.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote

from quantviz.lab import state
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.share_links import short_link
from quantviz.layers.built_in import BUILT_IN_LAYERS
from quantviz.sources.builtin import BUILTINS
from quantviz.teaching.gallery import BUGS
from quantviz.teaching.lessons import sound_lessons
from tests.helpers import ROOT

#: A page, and the parameters of the link.
Link = tuple[str, list[tuple[str, str]]]
#: By part of a link: the choices that are read, and others that are refused.
Parts = Mapping[str, tuple[list[str], list[str]]]

_HERE = Path(__file__).parent
#: Links that are drawn of each page's parts.
_DRAWN = {
    "lab": 70,
    "layers": 40,
    "attention": 8,
    "formats": 25,
    "bugs": 8,
    "bugs_puzzle": 3,
    "golf": 12,
    "checkpoints": 25,
}
_DRAWN |= {"attention": 8, "checkpoints_model": 20, "teacher": 15, "lessons": 4, "class": 8}


def query_of(pairs: Iterable[tuple[str, str]]) -> str:
    """Return parameters as a record has them."""
    return "&".join(f"{name}={quote(value, ',()=:@/~! +', errors='surrogatepass')}" for name, value in pairs)


def page_and_pairs(link: str) -> Link:
    """Return the page of a link of a record, and its parameters."""
    page, _, query = link.partition("?")
    return page, parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, errors="surrogatepass")


def links() -> list[Link]:
    """Return all links, each once."""
    parts = tomllib.loads((_HERE / "parts.toml").read_text(encoding="utf-8"))
    tensors = parts.pop("tensors")
    parts["lab"]["b"] = parts["lab"]["s"]
    every = [*_written(), *_old(), *_too_long()]
    for name, count in _DRAWN.items():
        page = name.partition("_")[0]
        for i in range(count):
            drawn = random.Random(f"{name} {i}")
            of_tensor = _of_tensor(tensors, i) if page == "lab" else {}
            every.append((page, _drawn(parts[name] | of_tensor, drawn, 1.0 if i == 0 else drawn.random())))
            if i < 4:
                every.append((page, _drawn(parts[name] | of_tensor, drawn, 1.0, wrong=0.3)))
        whole = parts[name] | (_of_tensor(tensors, 0) if page == "lab" else {})
        every += [(page, each) for each in _damaged(parts[name], whole)]
    return list({(page, tuple(pairs)): (page, pairs) for page, pairs in every}.values())


def _written() -> Iterator[Link]:
    """Yield the links that the app itself hands out."""
    for name in SCENARIOS:
        yield "lab", list(state.opening(name).written().items())
        yield "lab", list(short_link(state.opening(name)).items())
    for name in BUILTINS:
        yield "lab", [("t", f"builtin(name={name})")]
    for path in sorted((ROOT / "quantviz" / "teaching" / "lessons" / "en").glob("*.md")):
        for link in re.findall(r'^link = "(.*)"$', path.read_text(encoding="utf-8"), re.MULTILINE):
            yield "lab", parse_qsl(link)
    for name in BUILT_IN_LAYERS:
        yield "layers", [("l", f"builtin(name={name})")]
        yield "lab", [("t", f"weight_of(builtin(name={name}))"), ("e", "seen")]
    for bug in BUGS.values():
        for more in ([], [("case", bug.cases[-1].id), ("seed", "5")], [("at", "0.5")]):
            yield "bugs", [("bug", bug.id), *more]
    for name, lesson in sound_lessons("en").items():
        yield "lessons", [("l", name), ("p", str(len(lesson.steps)))]


def _of_tensor(tensors: Parts, i: int) -> Parts:
    """Return the parts of the Lab's link that go with one of its tensors."""
    name = list(tensors)[i % len(tensors)]
    cells, views = tensors[name]
    return {"t": ([name], []), "c": (cells, []), "a": (views, [])}


def _drawn(parts: Parts, drawn: random.Random, share: float, wrong: float = 0.0) -> list[tuple[str, str]]:
    """Return a link with about a `share` of the parts, of which a share is `wrong`."""
    found = []
    for name, (read, refused) in parts.items():
        choices = refused if refused and drawn.random() < wrong else read
        if choices and (name == "t" or drawn.random() < share):
            found.append((name, drawn.choice(choices)))
    return found


def _damaged(parts: Parts, whole: Parts) -> Iterator[list[tuple[str, str]]]:
    """Yield a link with each part wrong in turn, now with all others and now with the first of them."""
    usual = [(name, read[0]) for name, (read, _) in whole.items() if read]
    wrong = [(name, each) for name, (_, refused) in parts.items() for each in refused]
    for at, (name, each) in enumerate(wrong):
        others = [pair for pair in usual if pair[0] != name]
        yield [*(others if at % 2 else others[:1]), (name, each)]


def _old() -> Iterator[Link]:
    """Yield the links of before, and those of documents and tests."""
    for line in (_HERE / "old_links.txt").read_text(encoding="utf-8").splitlines():
        page, _, query = line.partition("?")
        yield page, parse_qsl(query, keep_blank_values=True)


def _too_long() -> Iterator[Link]:
    yield "lab", [("t", "builtin(name=picture)"), ("y", "int4~" * 800)]
    yield "layers", [("w", "int4_per_row"), ("y", "none!none~" * 401)]
    yield "checkpoints", [("f", "example:"), ("p", "a!stored~" * 445)]
    yield "golf", [("hole", "heaps"), ("heaps", "int4~" * 370)]
