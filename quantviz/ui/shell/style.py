"""The page's own CSS: tighter than Streamlit's, so that cause and effect fit on one laptop screen."""

from __future__ import annotations

from pathlib import Path

import streamlit as st


def show_style() -> None:
    """Put `style.css` into the page."""
    st.html(Path(__file__).with_suffix(".css"))
