"""Set the tab's title, and the language that screen readers speak."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import streamlit as st

from quantviz.text import visible
from quantviz.ui.shell.words import language, say

#: The value of `<html lang>` for each language: "zh" alone leaves open which characters.
_HTML_LANG: Mapping[str, str] = MappingProxyType({"zh": "zh-CN"})
_TITLE = "tab_title"
#: Streamlit's page has the language "en" whatever it shows; the script runs anew where its text is another.
_SPEAK = """<script>document.documentElement.lang = "{lang}";</script>"""


def begin() -> None:
    """Set up the page on each run: icon, layout, and until `name_tab` the title that the last run gave."""
    title = st.session_state.get(_TITLE, say("app.title"))
    st.set_page_config(page_title=title, page_icon="🧮", layout="wide", initial_sidebar_state=212)


def speak() -> None:
    """Tell the browser the page's language."""
    st.html(_SPEAK.format(lang=_HTML_LANG.get(language(), language())), unsafe_allow_javascript=True)


def name_tab(page: str, *shown: str) -> None:
    """Title the tab by the page's contents, its name and the app's, so that tabs and bookmarks differ."""
    # A file's name may not be valid text, which cannot be sent to the browser.
    title = visible(" · ".join((*filter(None, shown), page, say("app.title"))))
    if st.session_state.get(_TITLE) != title:
        st.session_state[_TITLE] = title
        st.set_page_config(page_title=title)
