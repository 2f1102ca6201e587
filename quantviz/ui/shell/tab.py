"""The browser's tab: its title and language, the style, and the scripts that every page gets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import streamlit as st

from quantviz.browser import read_script
from quantviz.text import visible
from quantviz.ui.shell.server import script_address
from quantviz.ui.shell.streamlit_private import session_id
from quantviz.ui.shell.words import language, say, theme

#: The value of `<html lang>` for each language: "zh" alone leaves open which characters.
_HTML_LANG: Mapping[str, str] = {"zh": "zh-CN"}
_TITLE = "tab_title"
#: Streamlit's page has the language "en" whatever it shows; the script runs anew where its text is another.
#: The page knows what to say of a lost connection, and its session, which it asks for when it is loaded anew.
_SPEAK = """document.documentElement.lang = "{lang}";
Object.assign(window, {{ __quantvizLost: {lost}, __quantvizSession: {session} }});"""
#: Scripts that a browser fetches once and keeps: with each answer they would be an eighth of it. That of the
#: history has to be there before the first address is written.
_KEPT = ("connection", "printing", "drop", "tooltips", "theme", "stage_tabs")
_FETCH = """{{
  const streamlit = document.querySelector("script[type=module][src]").src;
  for (const address of {addresses}) import(new URL(`../..${{address}}`, streamlit));
}}"""
#: A line of a script that is a comment: what comes with each answer leaves them out.
_COMMENT = re.compile(r"^ *//.*\n", re.MULTILINE)
#: The style with which another page was sent (`server.Styled`) goes: each page brings its own.
_LEAVE = """{{
  const first = document.getElementById("qv-first");
  if (first && first.dataset.page !== {page}) first.remove();
}}"""


def begin() -> None:
    """Set up the page on each run: icon, layout, and until `name_tab` the title that the last run gave."""
    title = st.session_state.get(_TITLE, say("app.title"))
    st.set_page_config(page_title=title, page_icon="🧮", layout="wide", initial_sidebar_state=212)


def show_style() -> None:
    """Put `style.css` into the page: tighter, so that cause and effect fit on a laptop's screen."""
    sheet = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    # Lists and popovers stand beside the app, which alone has the scheme of its theme.
    st.html(f"<style>{sheet}body {{ color-scheme: {theme().partition('_')[0]}; }}</style>")


def show_sheets(*sheets: Path) -> None:
    """Put style sheets into the page at once: it would be laid out by the first alone until the next came."""
    st.html(f"<style>{''.join(sheet.read_text(encoding='utf-8') for sheet in sheets)}</style>")


def run_scripts(page: str) -> None:
    """Have the browser run the scripts of every page; `page` is the last part of its address.

    They set the page's language, remove the style of a page that was left, keep one entry of the history for
    each action of a person and hear the keys of undo and redo (`history.js`), notice a lost connection
    (`connection.js`), close the sidebar of narrow screens (`sidebar.js`), dim the last tab of the Lab's
    stage (`stage_tabs.js`), fit plots on paper (`printing.js`), hand on what is dropped or pasted beside the
    doors (`drop.js`), and show explanations where they cover no control (`tooltips.js`).
    """
    scripts = (
        _SPEAK.format(
            lang=_HTML_LANG.get(language(), language()),
            lost=json.dumps(say("app.connection_lost")),
            session=json.dumps(session_id()),
        ),
        # An address that leads to no page is anybody's text.
        _LEAVE.format(page=json.dumps(page).replace("<", "\\u003c")),
        _COMMENT.sub("", read_script("history")),
        _FETCH.format(addresses=json.dumps([script_address(name) for name in _KEPT])),
        _COMMENT.sub("", read_script("sidebar")),
    )
    st.html(f"<script>{chr(10).join(scripts)}</script>", unsafe_allow_javascript=True)


def name_tab(page: str, *shown: str) -> None:
    """Title the tab by the page's contents, its name and the app's, so that tabs and bookmarks differ."""
    # A file's name may not be valid text, which cannot be sent to the browser.
    title = visible(" · ".join((*filter(None, shown), page, say("app.title"))))
    if st.session_state.get(_TITLE) != title:
        st.session_state[_TITLE] = title
        st.set_page_config(page_title=title)
