"""Components of our own: a browser fetches their scripts once, and after that gets only their data.

Streamlit sends the text of a component's script with each change of its data: 200 KB for each change
of a scheme in the Lab, times the heads of a class. So the component itself is a few lines that import the
script from its address.

A person may go back while a page is still being drawn. A message from a component of the page left names
that page, and Streamlit would run it once more, at the other page's address: it is not sent. A message during
a lost connection is sent when the connection is back (`connection.js`).

Messages of components come from a browser: `last_message` is the one place that receives them, checked
against their shapes in `quantviz.browser.messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any

import streamlit as st

from quantviz.browser.messages import ELEMENTS, MESSAGES, Shape, Unfit, decoded
from quantviz.ui.shell import errors
from quantviz.ui.shell.address import page_shown
from quantviz.ui.shell.dropped import drop
from quantviz.ui.shell.server import script_address

#: Streamlit calls a component again while its script is on the way: the last call has the current data. The
#: connection is looked up when something is said: its script may come after this one, which each mount sends.
_IMPORT = """
const streamlit = document.querySelector("script[type=module][src]").src;
let show;
const script = import(new URL("../..ADDRESS", streamlit)).then((module) => (show = module.default));
const page = "PAGE";

export default function (given) {
  const here = () => location.pathname.split("/").filter(Boolean).at(-1);
  const connection = () => window.__quantvizConnection ?? { say: (name, tell) => tell() };
  const said = (tell) => (name, value) =>
    connection().say(`NAME ${name}`, () => (!page || here() === page) && tell(name, value));
  const [setTriggerValue, setStateValue] = [given.setTriggerValue, given.setStateValue].map(said);
  const component = { ...given, setTriggerValue, setStateValue };
  if (show) return show(component);
  let leave, left;
  script.then(() => left || (leave = show(component)));
  return () => {
    left = true;
    leave?.();
  };
}
"""


def component(name: str, script: str, *, isolated: bool = True) -> Callable[..., Any]:
    """Return the function that mounts the component `name`; its `script` is a file of `quantviz.browser`.

    What its messages say goes to the callbacks `on_<message>_change`, one for each message of the script in
    `quantviz.browser.messages`: a function, or one with a second that says whether a value fits the page. A
    message without one does nothing; an error in one is shown as a sentence. A component that is not
    `isolated` has the page's style.
    """
    mount = _registered(name, script_address(script), page_shown(), isolated)

    def show(*, key: str, **given: Any) -> Any:
        for message in MESSAGES.get(script, ()):
            take = given.get(f"on_{message}_change")
            hear = _nothing if take is None else errors.safely(partial(_hear, key, script, message, take))
            given[f"on_{message}_change"] = hear
        return mount(key=key, **given)

    return show


def counted(key: str, act: Callable[[Mapping[str, Any]], None]) -> tuple[int, Callable[[Any], None]]:
    """Return the count of the last message that was taken for `key`, and `act` so that it counts: a browser
    that has said more since leaves an older answer aside.
    """
    name = f"{key}_count"

    def take(message: Mapping[str, Any]) -> None:
        st.session_state[name] = message.get("count", 0)
        act(message)

    return st.session_state.get(name, 0), take


def last_message(key: str, script: str, message: str, fits: Callable[[Any], bool] | None = None) -> Any:
    """Return the last value of a message from the component `key` of a `script`; None where it has sent
    nothing.

    A value without the message's shape, or one that does not fit the page, is dropped.
    """
    state = st.session_state.get(key)
    said = state.get(message) if isinstance(state, Mapping) else getattr(state, message, None)
    return _heard(MESSAGES[script][message], said, fits, f"{script}.{message}", key)


def chosen(key: str, what: str, fits: Callable[[Any], bool] | None = None) -> Any:
    """Return the selection in the chart or table `key`, one of `quantviz.browser.messages.ELEMENTS`; None
    where there is none, or one that does not fit: see `last_message`.
    """
    state = st.session_state.get(key)
    selection = state.get("selection") if isinstance(state, Mapping) else None
    said = selection.get(what) if isinstance(selection, Mapping) else None
    return _heard(ELEMENTS[what], said, fits, f"selection.{what}", key) or None


def clicked_mark(key: str, fits: Callable[[Any], bool]) -> Any:
    """Return the data of the mark that was clicked in the chart `key`, a text or a number; None where none is
    clicked, or it has no data.
    """

    def of(points: list[dict[str, Any]]) -> Any:
        mark = points[0].get("customdata") if points else None
        return mark[0] if isinstance(mark, list) else mark

    points = chosen(key, "points", lambda points: of(points) is None or fits(of(points)))
    return of(points or [])


def written(key: str, fits: Callable[[Any], bool] | None = None) -> dict[int, dict[str, Any]]:
    """Return the values that were written into the table `key`, by line and column."""
    state = st.session_state.get(key)
    said = state.get("edited_rows") if isinstance(state, Mapping) else None
    return _heard(ELEMENTS["edited_rows"], said, fits, "edited_rows", key) or {}


def _heard(shape: Shape, said: object, fits: Callable[[Any], bool] | None, what: str, key: str) -> Any:
    if said is None:
        return None
    with suppress(Unfit):
        message = decoded(shape, said)
        if fits is None or fits(message):
            return message
    drop(what, key, said)
    return None


def _hear(key: str, script: str, message: str, take: Any) -> None:
    act, fits = take if isinstance(take, tuple) else (take, None)
    value = last_message(key, script, message, fits)
    if value is not None:
        act(value)


def _nothing() -> None:
    """Hear of a message and do nothing: the run that follows asks for it."""


@cache
def _registered(name: str, address: str, page: str, isolated: bool) -> Callable[..., Any]:
    # Registered once a process: a second registration of the same name is a warning.
    script = _IMPORT.replace("ADDRESS", address).replace("PAGE", page).replace("NAME", name)
    mount: Callable[..., Any] = st.components.v2.component(
        f"{name}_{page}" if page else name, js=script, isolate_styles=isolated
    )
    return mount
