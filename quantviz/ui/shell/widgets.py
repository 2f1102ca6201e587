"""The widgets of a page: they show the state, and are compared with the browser's messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import streamlit as st

from quantviz.ui.shell import address, errors
from quantviz.ui.shell.words import language

_WIDGETS = "widgets"
#: No value that a widget may have.
_UNSET = object()


def show(key: str, value: object, field: str = "") -> str:
    """Let the widget `key` show `value`, unless there is an error about the text in its `field`."""
    # A widget must get its value again in another language, and until the browser has it: the run that showed
    # it may have been broken off, the next answer may come together with it and take its place, and a popover
    # makes its widgets when it is opened. Not longer: a value on its way takes back a click.
    widgets = _widgets()
    again = widgets.language != language() or key not in widgets.heard or key in widgets.sending
    widgets.showing.setdefault(key, ())
    if (again or st.session_state.get(key, _UNSET) != value) and (field or key) not in errors.input_errors():
        if st.session_state.get(key, _UNSET) != value:
            widgets.unseen.add(key)
            if key in widgets.heard:
                widgets.sending.add(key)
        st.session_state[key] = value
    return key


def is_behind(repeated: Mapping[str, bool]) -> bool:
    """Return whether the browser sent its message before the answer to the one before was on its screen: its
    widgets, by key, still have the values that the answer has replaced.

    With one such widget it may be a person who wants the value before: then the address decides.
    """
    widgets = _widgets()
    widgets.heard = repeated.keys()
    waiting = [repeated[key] for key in widgets.unseen if key in repeated]
    behind = address.is_behind() or (len(waiting) > 1 and all(waiting))
    if not behind:
        widgets.unseen.clear()
        widgets.sending.clear()
    # A browser that sends a new value of a widget has received it, also from a run that was broken off.
    for key in repeated.keys() & widgets.showing.keys():
        if not repeated[key]:
            widgets.shown[key] = widgets.showing[key]
    return behind


def tell_again(key: str, labels: tuple[str, ...]) -> None:
    """Send the choice of the widget `key` to the browser again, where its labels have changed since the last
    run: the browser holds a label.
    """
    widgets = _widgets()
    if widgets.shown.get(key) != labels and key in st.session_state:
        st.session_state[key] = st.session_state[key]
    widgets.showing[key] = labels


def note_names(key: str, names: Mapping[Any, str]) -> None:
    """Note the words of the choices that the widget `key` offers in this run, by their ids."""
    _widgets().names[key] = names


def names_shown() -> Mapping[str, Mapping[Any, str]]:
    """Return the words of the choices of each widget that this run has shown, by the widget's key."""
    return _widgets().names


@dataclass(eq=False)
class _Widgets:
    """The keys of widgets, and the words of the choices they offered."""

    #: Of the last run that came to its end, and so was received by the browser; and those heard of since.
    shown: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Those in the browser's last message.
    heard: Collection[str] = ()
    #: Of the run that goes on, as far as it is.
    showing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: The ids and words of choices in the run that goes on.
    names: dict[str, Mapping[Any, str]] = field(default_factory=dict)
    #: Those whose value the app has changed, and the browser has not been heard of since.
    unseen: set[str] = field(default_factory=set)
    #: Those that the browser had when the app changed their value, until it has the answer with that.
    sending: set[str] = field(default_factory=set)
    #: The language of the last run that came to its end.
    language: str | None = None


def _widgets() -> _Widgets:
    widgets = st.session_state.get(_WIDGETS)
    if widgets is None:
        widgets = st.session_state[_WIDGETS] = _Widgets()
    return cast(_Widgets, widgets)


def begin_run() -> None:
    """Note that a run begins, which has shown no widget yet."""
    _widgets().showing = {}
    _widgets().names = {}


def end_run() -> None:
    """Note that a run of a page, or of a part of it, came to its end: the browser receives its widgets."""
    widgets = _widgets()
    widgets.shown = dict(widgets.showing)
    widgets.language = language()
