"""What each page makes of a link: the only module here that knows how pages read and write theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from unittest.mock import patch

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab import layer_state, state
from quantviz.teaching import golf

#: The parameters of a link with their values, and those that a page writes with the keys of its problems.
Pairs = Sequence[tuple[str, str]]
Answer = tuple[dict[str, str], tuple[str, ...]]


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


def _lab(query: Query) -> Read:
    found, problems = state.read_link(query)
    return state.write_link(found), problems


def _home(query: Query) -> Read:
    return _lab(query) if state.has_state(query) else ({}, ())


def _layers(query: Query) -> Read:
    found, problems = layer_state.read_link(query)
    return layer_state.write_link(found), problems


def _golf(query: Query) -> Read:
    played, problems = golf.read_round(query)
    return golf.write_round(played), problems


def _formats(_: Query) -> Read:
    from quantviz.ui.formats.state import PROBLEMS, address_of, current_state

    return address_of(current_state()), st.session_state[PROBLEMS]


def _bugs(_: Query) -> Read:
    from quantviz.ui.gallery.state import PROBLEMS, current_state, show_link

    current_state()
    problems = st.session_state[PROBLEMS]
    show_link()
    return {
        name: value for name, value in st.query_params.items() if name not in ("lang", "k", "ask")
    }, problems


def _checkpoints(_: Query) -> Read:
    from quantviz.ui.checkpoints import model_state
    from quantviz.ui.checkpoints.state import address_of, current_state, problems

    found = current_state()
    if found.chosen in model_state.RUNNING:
        schemes = model_state.model_address(model_state.current_model_state())
        return {"f": found.chosen, **schemes}, (*problems(), *model_state.model_problems())
    return address_of(found), problems()


def _teacher(_: Query) -> Read:
    from quantviz.ui.shell import errors
    from quantviz.ui.teacher.state import address_of, current_choice, is_damaged

    written = address_of(current_choice())
    return written, (*((QuantVizError("teacher.damaged"),) if is_damaged() else ()), *errors.page_errors())


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
    "lab": _lab,
    "layers": _layers,
    "golf": _golf,
    "formats": _formats,
    "bugs": _bugs,
    "checkpoints": _checkpoints,
    "teacher": _teacher,
    "lessons": _lessons,
    "class": _class,
}
