"""The page for an address that leads to none: a message in the reader's language, and a link home.

Streamlit's own message for this is English, lies over another page and changes the address. It is not shown
for a page in `st.navigation`, so the wrong address is registered as a page of this session.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

import streamlit as st

from quantviz.ui.components.page_header import show_header
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.streamlit_private import StreamlitPage
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import plain, say

_ASKED = "page_asked"
_LONGEST = 60


def missing_pages(pages: Iterable[StreamlitPage]) -> list[StreamlitPage]:
    """Return the page for the address this session began at, where it is none of `pages`; else nothing.

    Behind a proxy, a text that looks like a page's name can be the folder of the app: Streamlit then never
    requests it.
    """
    path = unquote(urlsplit(st.context.url or "").path).rstrip("/ ")
    path_name = st.session_state.setdefault(_ASKED, path.rpartition("/")[2].strip())
    if not path_name or path_name in {page.url_path for page in pages}:
        return []
    return [
        st.Page(
            lambda: _show_missing(path_name),
            title=say("missing.title"),
            url_path=path_name,
            visibility="hidden",
        )
    ]


def _show_missing(path_name: str) -> None:
    name_tab(say("missing.title"))
    show_header(say("missing.title"))
    st.markdown(say("missing.none", asked=plain(f"/{path_name[:_LONGEST]}")))
    st.button(
        say("missing.home"),
        key="missing_home",
        type="primary",
        on_click=turn_to,
        args=("pages/home/home.py",),
    )
