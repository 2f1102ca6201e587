"""Controls of a page that the browser draws from data, and changes at once.

A page says of each control which field of its state it shows, its kind, and its choices. The browser numbers
what hands choose; each message has all choices that no answer knew, in their order, and each counts once.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from quantviz.ui.components.component import component, last_message
from quantviz.ui.shell import errors
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.words import say

_SCRIPT = "controls_component"
#: In the session: its name, the number of the last choice that was taken, and the owners of states by page.
_SESSION = "controls_session"
_TAKEN = "controls_taken"
_OWNERS = "controls_owners"


@dataclass(frozen=True)
class Control:
    """A control as the browser draws it."""

    #: The field of the state, or the name of one of its owner's acts.
    field: str
    #: One of "list", "row", "switch", "button", "text".
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

    def payload(self) -> dict[str, Any]:
        """Return its data for the browser."""
        choices = [(form, words, self.reasons.get(form, "")) for form, words in self.choices.items()]
        return {**asdict(self), "choices": choices}


def undo_controls(owner: PageOwner[Any]) -> tuple[Control, Control]:
    """Return undo and redo, by an icon each; `history.js` presses them for their keys."""
    history = owner.history()
    steps = {"undo": history.can_undo, "redo": history.can_redo}
    undo, redo = (
        Control(name, "button", say(f"lab.{name}"), say(f"lab.{name}_help"), icon=name, disabled=not possible)
        for name, possible in steps.items()
    )
    return undo, redo


def show_controls(key: str, owner: PageOwner[Any], *controls: Control, look: str = "") -> None:
    """Show controls of an owner's state beside each other."""
    page = owner.page
    st.session_state.setdefault(_OWNERS, {})[page] = owner
    data = {
        "session": st.session_state.setdefault(_SESSION, secrets.token_hex(8)),
        "page": page,
        "owner": page,
        "taken": st.session_state.get(_TAKEN, 0),
        "look": look,
        "controls": [each.payload() for each in controls],
    }
    component("quantviz_controls", _SCRIPT, isolated=False)(
        key=key, data=data, on_chosen_change=errors.safely(lambda: _take(key))
    )


def _take(key: str) -> None:
    for number, page, name, form in last_message(key, _SCRIPT, "chosen") or ():
        owner = st.session_state[_OWNERS].get(page)
        if owner is None or number <= st.session_state.get(_TAKEN, 0):
            continue
        st.session_state[_TAKEN] = number
        with errors.caught_beside(f"{page}_{name}"):
            owner.choose(name, form)
