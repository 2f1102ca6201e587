"""The top of a page: the language switch, and one line with the title, a hint and at most three actions."""

from __future__ import annotations

import html
from typing import Any

import streamlit as st

from quantviz.text import languages
from quantviz.ui.components.controls import choose_among
from quantviz.ui.shell.words import language, say, set_language

#: The words that the page's title line begins a run with, and those that it had last.
_TITLE = "title_words"


def show_language() -> None:
    """Show the language switch, the same on each page."""
    choose_among(
        "language_choice",
        "row",
        say("sidebar.language"),
        {name: say(f"languages.{name}") for name in languages()},
        language(),
        set_language,
        look="qv-unnamed",
    )


def show_header(title: str, hint: str = "", way: tuple[str, str] | None = None) -> tuple[Any, Any]:
    """Show the language switch, and the title line of a page; see `show_title_line`."""
    with st.sidebar:
        show_language()
    return show_title_line(title, hint, way)


def show_title_line(title: str, hint: str = "", way: tuple[str, str] | None = None) -> tuple[Any, Any]:
    """Show a page's title and hint with room for buttons beside them.

    `way` is the page above it: its script and its title, a link in front of this page's title.

    It is painted before torch comes in. Returns the place of the words, where a page whose words are computed
    only then has them written by `write_title`, and the place of the buttons. Until then a page keeps the
    words of its last run: its heading is there all the time.
    """
    first = _title_words(title, hint)
    began, last = st.session_state.get(_TITLE, (None, first))
    if began != first:
        last = first
    st.session_state[_TITLE] = (first, last)
    with st.container(key="header", horizontal=True, vertical_alignment="center", gap="small"):
        if way is not None:
            st.page_link(way[0], label=f"{way[1]} ›")
        words = st.html(last, width="stretch")
        actions = st.container(
            key="actions",
            horizontal=True,
            gap="small",
            width="content",
            wrap=False,
            vertical_alignment="center",
        )
    return words, actions


def write_title(words: Any, title: str, hint: str = "", step: str = "") -> None:
    """Write a page's title and hint in the place that `show_title_line` has returned; see `_title_words`."""
    now = _title_words(title, hint, step)
    st.session_state[_TITLE] = (st.session_state[_TITLE][0], now)
    words.html(now, width="stretch")


def _title_words(title: str, hint: str = "", step: str = "") -> str:
    """Return a page's title and hint as HTML.

    A lesson's `step` names the heading, to which the keyboard's focus goes; its hint, the place of the step,
    is read with it.
    """
    title = html.escape(title)
    hint = html.escape(hint)
    if step:
        return (
            f'<h1 class="qv-title qv-place" data-step="{step}"><b>{title}</b> '
            f'<span class="qv-hint">{hint}</span></h1>'
        )
    about = f'<p class="qv-hint">{hint}</p>' if hint else ""
    return f'<h1 class="qv-title">{title}</h1>{about}'
