"""The top of a page that has buttons beside its title."""

from __future__ import annotations

from typing import Any

import streamlit as st

from quantviz.ui.components.language_switch import show_language
from quantviz.ui.shell.words import plain


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
