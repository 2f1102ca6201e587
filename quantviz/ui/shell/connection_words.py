"""The words of a page whose connection to the server is lost (`connection.js` notices it)."""

from __future__ import annotations

import json

import streamlit as st

from quantviz.browser import read_script
from quantviz.ui.shell.words import say


def watch_connection() -> None:
    """Put `connection.js` into the page, with the sentence that it shows."""
    words = json.dumps(say("app.connection_lost"))
    script = f"window.__quantvizLost = {words};\n{read_script('connection')}"
    st.html(f"<script>{script}</script>", unsafe_allow_javascript=True)
