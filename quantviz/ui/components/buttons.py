"""Buttons of a page: the only place that makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from quantviz.ui.shell import errors
from quantviz.ui.shell.classroom import locked
from quantviz.ui.shell.words import say


def show_button(label: str, key: str, on_click: Callable[..., None], *args: Any, **look: Any) -> None:
    """Show a button that calls `on_click` with `args`; an error in it is shown as a sentence."""
    st.button(label, key=key, on_click=errors.safely(on_click), args=args, **look)


def offer(label: str, key: str, on_click: Callable[..., None], *args: Any, lock: str = "scheme") -> None:
    """Show the button that applies an answer; it is grey where a teacher has locked its group of controls."""
    shut = locked(lock)
    show_button(label, key, on_click, *args, disabled=shut, help=say("room.locked") if shut else None)
