"""The language switch."""

from __future__ import annotations

import streamlit as st

from quantviz.text import languages
from quantviz.ui.components.choice import choose_among
from quantviz.ui.shell.words import language, say, set_language


def show_language() -> None:
    """Show the language switch, the same on each page."""
    choose_among(
        st.segmented_control,
        "language_choice",
        say("sidebar.language"),
        {name: say(f"languages.{name}") for name in languages()},
        language(),
        set_language,
        required=True,
        label_visibility="collapsed",
    )
