"""The browser's history: one entry for each action of a person (see `history.js`)."""

from __future__ import annotations

import streamlit as st

from quantviz.browser import read_script


def keep_history() -> None:
    """Put `history.js` into the page."""
    script = read_script("history")
    st.html(f"<script>{script}</script>", unsafe_allow_javascript=True)
