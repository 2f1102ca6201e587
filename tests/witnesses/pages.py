"""What each page makes of a link: the only module here that knows how pages read and write theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from importlib import import_module
from unittest.mock import patch
from urllib.parse import parse_qsl, quote

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.state import has_state

#: The parameters of a link with their values, and those that a page writes with the keys of its problems.
Pairs = Sequence[tuple[str, str]]
Answer = tuple[dict[str, str], tuple[str, ...]]


def query_of(pairs: Iterable[tuple[str, str]]) -> str:
    """Return parameters as a record has them."""
    return "&".join(f"{name}={quote(value, ',()=:@/~! +', errors='surrogatepass')}" for name, value in pairs)


def page_and_pairs(link: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the page of a link of a record, and its parameters."""
    page, _, query = link.partition("?")
    return page, parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, errors="surrogatepass")


class Query(dict[str, str]):
    """The parameters of an address, as Streamlit gives them."""

    def __init__(self, pairs: Pairs) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def to_dict(self) -> dict[str, str]:
        return dict(self)

    def from_dict(self, wanted: Mapping[str, str]) -> None:
        self.clear()
        self.update(wanted)

    def get_all(self, name: str) -> list[str]:
        return [value for each, value in self.pairs if each == name]


def answer(page: str, pairs: Pairs) -> Answer:
    """Return the parameters that a page writes for those of a link, and the keys of the problems."""
    with patch.multiple(st, query_params=Query(pairs), session_state={"language": "en"}):
        written, problems = copy_context().run(PAGES[page], Query(pairs))
    return dict(written), tuple(map(key_of, problems))


def key_of(problem: QuantVizError) -> str:
    """Return the key of a problem with those of its reasons.

    >>> key_of(QuantVizError("link.part", part=QuantVizError("link.names.s"), reason=QuantVizError("a")))
    'link.part(link.names.s a)'
    """
    reasons = [key_of(each) for each in problem.params.values() if isinstance(each, QuantVizError)]
    return f"{problem.key}({' '.join(reasons)})" if reasons else problem.key


Read = tuple[Mapping[str, str], Iterable[QuantVizError]]


def declared(place: str) -> Callable[[Query], Read]:
    """Return what is read of a page whose state is the class at `place`."""

    def read(query: Query) -> Read:
        module, _, name = place.rpartition(".")
        found, problems = getattr(import_module(module), name).read(query)
        return found.written(), problems

    return read


def _home(query: Query) -> Read:
    return PAGES["lab"](query) if has_state(query) else ({}, ())


def _checkpoints(_: Query) -> Read:
    from quantviz.ui.checkpoints.model_state import RUNNING, ModelState
    from quantviz.ui.checkpoints.state import OWNER, CheckpointsState

    found = OWNER.state
    if found.chosen in RUNNING:
        return CheckpointsState(found.chosen, model=found.model).written(), OWNER.problems
    return found.replace(model=ModelState()).written(), OWNER.problems


def _teacher(_: Query) -> Read:
    from quantviz.ui.shell import session
    from quantviz.ui.teacher.state import OWNER

    lab = session.OWNER.history() if OWNER.state.opens == "lab" else None
    written = lab.now.written() if lab else {}
    return {**written, **OWNER.state.written()}, (*OWNER.problems, *(lab.problems if lab else ()))


def _lessons(_: Query) -> Read:
    from quantviz.ui.components.lesson_place import PROBLEMS
    from quantviz.ui.lessons import hands, page

    place = page._place()
    at = {"l": place.lesson, "p": str(place.step + 1)} if place.lesson else {}
    return {**at, **hands.written(place.lesson, place.step)}, st.session_state[PROBLEMS]


def _class(_: Query) -> Read:
    from quantviz.ui.shell.classroom import parameters, problem

    problems = filter(None, (problem(),))
    return parameters(), problems


#: By the path of each page; the front door has none, and `class` is what a link of any page says of a class.
PAGES: Mapping[str, Callable[[Query], Read]] = {
    "": _home,
    "lab": declared("quantviz.lab.state.LabState"),
    "layers": declared("quantviz.lab.layer_state.LayerState"),
    "attention": declared("quantviz.lab.attention_state.AttentionState"),
    "golf": declared("quantviz.teaching.golf.GolfRound"),
    "formats": declared("quantviz.ui.formats.state.FormatsState"),
    "bugs": declared("quantviz.ui.gallery.state.GalleryState"),
    "checkpoints": _checkpoints,
    "teacher": _teacher,
    "lessons": _lessons,
    "class": _class,
}
