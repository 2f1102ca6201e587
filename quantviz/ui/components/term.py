"""A word that explains itself: underlined by dots, its meaning on hover, focus or tap."""

from __future__ import annotations

import html

import streamlit as st


def show_words_with_terms(words: str) -> None:
    """Show a lesson's words, Markdown whose only HTML is that of `term`.

    `Words` refuse any other HTML, formulas give numbers, and `term` escapes its arguments.
    """
    st.markdown(words, unsafe_allow_html=True)


def term(word: str, meaning: str, *, key: str, short: str = "", more: tuple[str, str] | None = None) -> str:
    """Return a word as HTML whose meaning the page's style shows while it is pointed at or has the focus.

    `key` is unique on the page: a screen reader finds the meaning by it. `short` is the word where there is
    little room. `more` are the words and the address of a link below the meaning.

    >>> term("MSE", "mean of (x̂ − x)²", key="mse")[:46]
    '<span class="qv-term" tabindex="0" aria-descri'
    """
    words, address = more or ("", "")
    link = f'<a href="{html.escape(address)}" target="_self">{html.escape(words)}</a>' if more else ""
    return (
        f'<span class="qv-term" tabindex="0" aria-describedby="qv-{key}">'
        f'<span class="qv-word" data-short="{html.escape(short or word)}">{html.escape(word)}</span>'
        f'<span class="qv-meaning" role="tooltip" id="qv-{key}">{html.escape(meaning)}{link}</span></span>'
    )
