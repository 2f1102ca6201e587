"""The language switch."""

from __future__ import annotations

import streamlit as st

from quantviz.text import languages
from quantviz.ui.components.choice import choose
from quantviz.ui.shell import errors, widgets
from quantviz.ui.shell.words import language, say, set_language


def show_language() -> None:
    """Show the language switch, the same on each page."""
    choose(
        st.segmented_control,
        say("sidebar.language"),
        languages(),
        key=widgets.show("language_choice", language()),
        required=True,
        on_change=errors.safely(lambda: set_language(st.session_state["language_choice"])),
        format_func=lambda name: say(f"languages.{name}"),
        label_visibility="collapsed",
    )
