"""The doors for something of one's own: what is dropped or pasted on any page, chosen files, a folder.

`app.py` has `ui/drop` open what they bring, whose modules are imported only then: every page has a door.
"""

from __future__ import annotations

from typing import Any, Literal

import streamlit as st

from quantviz.ui.components.controls import hold_text
from quantviz.ui.shell import errors
from quantviz.ui.shell.long_work import prepare_reading
from quantviz.ui.shell.words import say

#: The pages that have a door of their own, by their paths: on others the menu has it.
WITH_DOOR = frozenset({"checkpoints"})
#: Widgets that take files: one on every page, and those of a door.
ANYWHERE = "drop_anywhere"
_FILES = "drop_files"
_FOLDER = "drop_folder"
#: Characters of an address.
_LONGEST = 2000
#: Number of times that files were taken.
_TAKEN = "drop_taken"
#: Files or an address, from the message that brought them until they are opened.
BROUGHT = "drop_brought"


def show_anywhere() -> None:
    """Have the page take what is dropped or pasted beside its own doors (`drop.js` hands it on)."""
    with st.container(key=ANYWHERE):
        show_uploader(f"{ANYWHERE}_files", say("drop.files"))
        _show_address(f"{ANYWHERE}_address")


def show_drop_zone() -> None:
    """Show the ways to open something of one's own: files, a folder, an address."""
    with st.container(key="drop_door", horizontal=True, vertical_alignment="center", gap="small"):
        show_uploader(_FILES, say("drop.files"))
        show_uploader(_FOLDER, say("drop.folder"), "directory")
        _show_address("drop_address")


def _show_address(field: str) -> None:
    words = say("drop.address")
    hold_text(field, words, _LONGEST, _bring, "qv-unnamed", example=words)


def show_uploader(key: str, label: str, several: bool | Literal["directory"] = True) -> None:
    """Show a place for files in the container `key`; each goes to the page that answers it."""
    prepare_reading()
    # Files that were taken are let go of: another widget has none.
    widget = f"{key}_{st.session_state.get(_TAKEN, 0)}"
    with st.container(key=key):
        st.file_uploader(
            label,
            key=widget,
            on_change=errors.safely(lambda: _bring(st.session_state.get(widget))),
            label_visibility="collapsed",
            accept_multiple_files=several,
        )


def _bring(brought: Any) -> None:
    st.session_state[BROUGHT] = brought or None
    st.session_state[_TAKEN] = st.session_state.get(_TAKEN, 0) + 1
