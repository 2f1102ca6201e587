"""The sidebar on narrow screens: closed at first (see `sidebar.js`)."""

from __future__ import annotations

import streamlit as st

from quantviz.browser import read_script


def close_sidebar_at_first() -> None:
    """Put `sidebar.js` into the page."""
    st.html(f"<script>{read_script('sidebar')}</script>", unsafe_allow_javascript=True)
