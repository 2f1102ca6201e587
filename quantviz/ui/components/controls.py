"""Controls of a page that the browser draws from data, and changes at once.

A page says of each control which field of its state it shows, its kind, and its choices. The browser numbers
what hands choose; each message has all choices that no answer knew, in their order, and each counts once.
"""

from __future__ import annotations

import dataclasses
import html
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from quantviz.browser.packing import pack
from quantviz.ui.components.component import component, last_message
from quantviz.ui.shell import errors
from quantviz.ui.shell.address import page_shown
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.words import say

_SCRIPT = "controls_component"
#: In the session: its name, the number of the last choice that was taken, and what takes one.
_SESSION = "controls_session"
_TAKEN = "controls_taken"
_TAKES = "controls_takes"
#: Marks of Markdown in explanations, with their HTML.
_MARKS = (
    (r"\*\*(.+?)\*\*", r"<b>\1</b>"),
    (r"`(.+?)`", r"<code>\1</code>"),
    (r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2" target="_self">\1</a>'),
    (r"\n\n", "<br><br>"),
    (r"\\([^\w\s])", r"\1"),
)


@dataclass(frozen=True)
class Control:
    """A control as the browser draws it."""

    #: The field of the state, or the name of one of its owner's acts.
    field: str
    #: One of "list", "row", "radio", "switch", "button", "text", "number".
    kind: str
    label: str
    help: str = ""
    #: The form of the present value in links.
    value: str = ""
    #: The words of choices by their forms, and the reasons why some are impossible.
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    disabled: bool = False
    icon: str = ""
    #: Whether what was typed last could not be read.
    wrong: bool = False

    #: Takes the form of a choice, in place of the owner.
    take: Callable[[str], None] | None = None

    def payload(self) -> dict[str, Any]:
        """Return its data for the browser."""
        data = {
            each.name: getattr(self, each.name)
            for each in dataclasses.fields(self)
            if each.name not in ("take", "reasons")
        }
        choices = [
            (form, words, *filter(None, (self.reasons.get(form),))) for form, words in self.choices.items()
        ]
        data |= {"choices": choices, "help": as_html(self.help)}
        # Values that are as usual are not sent, see `USUAL` in `controls/bar.js`.
        return {name: value for name, value in data.items() if value}


def as_html(words: str) -> str:
    r"""Return the Markdown of an explanation as HTML: strong words, code, links and paragraphs.

    >>> as_html("**a < b** `c`\n\n[d](/e) \\*")
    '<b>a &lt; b</b> <code>c</code><br><br><a href="/e" target="_self">d</a> *'
    """
    safe = html.escape(words.strip())
    for pattern, made in _MARKS:
        safe = re.sub(pattern, made, safe)
    return safe


def undo_controls(owner: PageOwner[Any]) -> tuple[Control, Control]:
    """Return undo and redo, by an icon each; `history.js` presses them for their keys."""
    steps = {"undo": owner.can_undo, "redo": owner.can_redo}
    undo, redo = (
        Control(name, "button", say(f"lab.{name}"), say(f"lab.{name}_help"), icon=name, disabled=not possible)
        for name, possible in steps.items()
    )
    return undo, redo


def show_undo(owner: PageOwner[Any]) -> None:
    """Show undo and redo."""
    show_controls("undo_controls", owner, *undo_controls(owner))


def show_controls(key: str, owner: PageOwner[Any], *controls: Control, look: str = "") -> None:
    """Show controls of an owner's state beside each other, in one of the style's looks."""
    takes = st.session_state.setdefault(_TAKES, {})
    for each in controls:
        takes[owner.page, each.field] = each.take or partial(owner.choose, each.field)
    data = {
        "session": st.session_state.setdefault(_SESSION, secrets.token_hex(4)),
        "page": page_shown(),
        "owner": owner.page,
        "taken": st.session_state.get(_TAKEN, 0),
        "key": key,
        "look": look,
        "controls": [each.payload() for each in controls],
    }
    component("quantviz_controls", _SCRIPT, isolated=False)(
        key=key, data=pack(data, {}), on_chosen_change=errors.safely(lambda: _take(key))
    )


def _take(key: str) -> None:
    for number, page, name, form in last_message(key, _SCRIPT, "chosen") or ():
        take = st.session_state[_TAKES].get((page, name))
        if take is None or number <= st.session_state.get(_TAKEN, 0):
            continue
        st.session_state[_TAKEN] = number
        with errors.caught_beside(f"{page}_{name}"):
            take(form)
