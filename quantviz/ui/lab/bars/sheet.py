"""All settings on a phone: a sheet that a box in its bar opens."""

from __future__ import annotations

import streamlit as st

#: The box's key.
KEY = "all_settings"


def is_open() -> bool:
    """Return whether a phone shows all settings."""
    return bool(st.session_state.get(KEY))
