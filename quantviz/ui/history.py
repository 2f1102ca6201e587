"""The browser's history: one entry for each thing that a person did (`history.js` says how)."""

from __future__ import annotations

from pathlib import Path

import streamlit as st


def keep_history() -> None:
    """Put `history.js` into the page."""
    script = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    st.html(f"<script>{script}</script>", unsafe_allow_javascript=True)
