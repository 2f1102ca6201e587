"""The widgets of a page: they show the state. Each message of the browser names the answer it was made on.

Every answer has a revision, a number in a field at its end that nobody sees, and the browser sends the field
back with each message. A message made on an older answer counts for the widgets that it changes alone. A
widget gets its value again until the browser has the answer with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

import streamlit as st

from quantviz.ui.shell import errors
from quantviz.ui.shell.words import language

_WIDGETS = "widgets"
#: The key of the field with the revision; that of a part of a page that runs by itself has another end.
REVISION = "revision"
#: Digits of a revision at most.
_LONGEST = 15
#: No value that a widget may have.
_UNSET = object()


@dataclass(eq=False)
class _Widgets:
    """The widgets of a session."""

    #: The revision of the answer that is being made, or of the last one.
    revision: int = 0
    #: That of the answer which the browser had when it sent its last message.
    known: int = -1
    #: The keys of the widgets in that message.
    heard: Collection[str] = ()
    #: The revision in which the value or the choices of a widget changed last, by its key.
    changed: dict[str, int] = field(default_factory=dict)
    #: The words of the choices that a widget offers, by its key: a browser holds a choice by its words.
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    language: str = ""

    def is_known(self, key: str) -> bool:
        """Return whether the browser has the present value of a widget, as far as the app has set it."""
        return key in self.heard and self.changed.get(key, -1) <= self.known


def _widgets() -> _Widgets:
    widgets = st.session_state.get(_WIDGETS)
    if widgets is None:
        widgets = st.session_state[_WIDGETS] = _Widgets()
    return cast(_Widgets, widgets)


def show(key: str, value: object, field: str = "") -> str:
    """Let the widget `key` show `value`, unless there is an error about the text in its `field`."""
    widgets = _widgets()
    if (field or key) in errors.input_errors():
        return key
    is_new = st.session_state.get(key, _UNSET) != value
    if is_new and key in widgets.heard:
        widgets.changed[key] = widgets.revision
    # Not longer than it has to be told: a value on its way takes back a click.
    if is_new or not widgets.is_known(key):
        st.session_state[key] = value
    return key


def tell_again(key: str, labels: tuple[str, ...]) -> None:
    """Send the choice of the widget `key` to the browser again, where its labels have changed."""
    widgets = _widgets()
    if widgets.labels.setdefault(key, labels) != labels:
        widgets.labels[key] = labels
        widgets.changed[key] = widgets.revision
    if not widgets.is_known(key) and key in st.session_state:
        st.session_state[key] = st.session_state[key]


def is_behind(told: Mapping[str, str]) -> bool:
    """Return whether a message of the browser was made before the last answer was all on its screen.

    `told` are the texts of its widgets by their keys, "" where a value is no text.
    """
    widgets = _widgets()
    widgets.heard = told.keys()
    numbers = (text for key, text in told.items() if key.startswith(REVISION))
    known = (int(text) for text in numbers if text.isdecimal() and len(text) <= _LONGEST)
    widgets.known = max(known, default=widgets.known)
    return widgets.known < widgets.revision


def begin_run(part: str = "") -> None:
    """Begin an answer, of a whole page or of a `part` of it; a whole one has shown no widget yet."""
    widgets = _widgets()
    widgets.revision += 1
    if widgets.language != language():
        widgets.language = language()
        widgets.changed = dict.fromkeys(widgets.heard, widgets.revision)


def end_run(part: str = "") -> None:
    """End an answer, of a whole page or of a `part` of it: the browser then knows its revision."""
    key = f"{REVISION}{part}"
    st.session_state[key] = str(_widgets().revision)
    st.text_input(REVISION, key=key, label_visibility="collapsed")
