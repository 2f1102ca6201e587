"""The address bar: which page it shows, and the parameters that the page wrote there; turning to another
page; the last places of a person, kept in their browser for the front door to lead back to.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import streamlit as st

from quantviz.ui.shell.classroom import PARAMETER, PROMPT, ROOM
from quantviz.ui.shell.run_facts import keep, kept

#: The path of the page on the screen, and of the one before it where this run shows another.
_PAGE = "page_shown"
_FROM = "page_before"
#: The beginning of the keys of the values on the desk in use.
_DESK = "desk"
#: The last parameters that each page wrote to the address, by its path.
_WRITTEN = "addresses_written"
#: The page that the address asks for a state, and that state's parameters, until the page takes them.
_ASKED = "address_asked"
#: The parameter that `history.js` adds to an address after the browser's Back or Forward.
WENT = "went"
#: The parameters that are no part of a page's state.
_SHELL = frozenset({WENT, "lang", PARAMETER, PROMPT, ROOM})
#: The page that is to be shown next, as its script, and its parameters.
_GOAL = "page_goal"
#: Key of the places in the browser. Another form of them gets another number, and leaves these alone.
PLACES_KEY = "quantviz.places.v1"
_KEEP = """<script>
try {
  const [key, page, place] = WORDS;
  const kept = JSON.parse(localStorage.getItem(key) ?? "{}");
  localStorage.setItem(key, JSON.stringify({ ...kept, [page]: { ...place, at: Date.now() } }));
} catch {
  // Storage can be switched off, or be full: then the front door leads nowhere back.
}
</script>"""


def on_desk(key: str) -> str:
    """Return the session's key of a value of the Lab: golf has a desk with such values of its own."""
    return kept(_DESK, "") + key


@contextlib.contextmanager
def lab_desk() -> Iterator[None]:
    """Have the Lab's own desk in use meanwhile: another page opens something there."""
    before = kept(_DESK, "")
    keep(_DESK, "")
    try:
        yield
    finally:
        keep(_DESK, before)


def arrive(page: str) -> None:
    """Note the path of the page that this run shows, and what the address asks it for."""
    keep(_DESK, "golf_" if page == "golf" else "")
    before = kept(_PAGE, None)
    st.session_state[_FROM] = before if before != page else None
    keep(_PAGE, page)
    listen()


def page_shown() -> str:
    """Return the path of the page on the screen; "" for the front door."""
    return kept(_PAGE, None) or ""


def write(wanted: dict[str, str]) -> None:
    """Write a page's parameters to the address bar."""
    present = st.query_params.to_dict()
    # Streamlit drops them when the page is switched. Where it is the browser's button for going back that
    # emptied them, writing them again would keep the person on this page for ever.
    before = _written(page_shown())
    went_back = not present and st.session_state.get(_FROM) is None and before == wanted
    # The browser sent this message from the address that is wanted again, and will get the last answer's.
    on_its_way = before not in (None, wanted)
    # Noted first: the next message can end this run as soon as the address is sent.
    _remember(wanted)
    if (present != wanted or on_its_way) and not went_back:
        st.query_params.from_dict(wanted)


def listen() -> None:
    """Note the state that the address asks for, once a message: after the browser's Back or Forward, and
    where another page has turned to this one with a link. Else the page's state is the session's own,
    whatever address an older message came from.
    """
    present = st.query_params.to_dict()
    asked = _of_state(present)
    before = st.session_state.get(_FROM)
    # The address of the page before may still be there.
    came = bool(asked) and before is not None and present != _written(before)
    if (came or WENT in present) and present != _written(page_shown()):
        _remember(present)
        keep(_ASKED, (page_shown(), asked))


def asked_for(page: str, *, first: bool = False) -> dict[str, str] | None:
    """Return the parameters of the state that the address asks a page for, once for each: any address does in
    a session's `first` look at the page, later one that `listen` has noted. None where it asks for none.
    """
    noted: tuple[str, dict[str, str]] | None = kept(_ASKED, None)
    if noted is not None and (first or noted[0] == page):
        keep(_ASKED, None)
    if first:
        present = st.query_params.to_dict()
        _remember(present)
        return _of_state(present)
    return noted[1] if noted is not None and noted[0] == page else None


def _of_state(present: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in present.items() if name not in _SHELL}


def _remember(address: dict[str, str]) -> None:
    st.session_state[_WRITTEN] = {**st.session_state.get(_WRITTEN, {}), page_shown(): address}


def _written(page: str | None) -> dict[str, str] | None:
    return cast("dict[str | None, dict[str, str]]", st.session_state.get(_WRITTEN, {})).get(page)


def turn_to(page: str, parameters: Mapping[str, str] | None = None) -> None:
    """Have the run that follows show `page`, the path of its script. Called in a callback.

    `if st.button(…): st.switch_page(…)` loses the click where another message of the browser ends the run
    before it comes to the button.
    """
    st.session_state[_GOAL] = page, dict(parameters) if parameters else None


def go_on() -> None:
    """Turn to the page that a callback has chosen."""
    goal = st.session_state.pop(_GOAL, None)
    if goal:
        page, parameters = goal
        st.switch_page(page, query_params=parameters)


def keep_place(page: str, name: str, parameters: Mapping[str, str], **more: Any) -> None:
    """Have the browser keep this place of a page, "lab" or "lesson", called `name`.

    Args:
        page: "lab" or "lesson".
        name: its label, in the session's language.
        parameters: its address.
        more: further fields of its entry.
    """
    words = [PLACES_KEY, page, {"name": name, "parameters": dict(parameters), **more}]
    # A name may hold the end tag of a script.
    script = _KEEP.replace("WORDS", json.dumps(words).replace("<", "\\u003c"))
    with st.container(key="keep_place"):
        st.html(script, unsafe_allow_javascript=True)
