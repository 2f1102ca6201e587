"""Expander with the equivalent Python code."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st


def show_python(label: str, key: str, lines: Callable[[], str]) -> None:
    """Show the lines once their expander is opened: the code that colours them takes a browser half a second
    to load.
    """
    opened = st.expander(label, key=key, on_change="rerun")
    if opened.open:
        with opened:
            st.code(lines(), language="python")
