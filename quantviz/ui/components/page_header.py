"""The top of a page: the language switch, the title, and buttons beside it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from quantviz.text import languages
from quantviz.ui.components.choice import choose_among
from quantviz.ui.shell.words import language, plain, say, set_language


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


def show_header(title: str, hint: str = "") -> tuple[Any, Any]:
    """Show the language switch, and a page's title and hint with room for buttons beside them.

    It is painted before torch comes in. Returns the place of the words, where a page whose hint is computed
    only then writes `title_words`, and the place of the buttons.
    """
    with st.sidebar:
        show_language()
    with st.container(key="header", horizontal=True, vertical_alignment="center", gap="small"):
        words = st.markdown(title_words(title, hint), width="stretch")
        actions = st.container(
            key="actions",
            horizontal=True,
            gap="small",
            width="content",
            wrap=False,
            vertical_alignment="center",
        )
    return words, actions


def title_words(title: str, hint: str = "") -> str:
    """Return a page's title and hint as Markdown."""
    return f"# {title}\n\n{plain(hint)}" if hint else f"# {title}"
