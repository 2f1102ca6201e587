"""Parts of a page that run again by themselves, as `st.fragment` makes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import streamlit as st

from quantviz.streaming.compile_ahead import at_once
from quantviz.ui.shell import classroom, words
from quantviz.ui.shell.error_boundary import error_boundary
from quantviz.ui.shell.startup import turns


def fragment(function: Callable[..., None], run_every: float | None = None) -> Callable[..., None]:
    """Make `function` a part of the page that runs again by itself after a change of its widgets, and every
    so many seconds.

    Streamlit skips `app.py` then, so the part repeats the work of `app.py` for a page: it sets the session's
    language, waits for its turn, and shows an error as a sentence.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        if turns().held:  # as a part of the whole page's run
            return function(*args, **kwargs)
        classroom.begin()
        words.begin()
        with turns().take(), error_boundary(), at_once():
            function(*args, **kwargs)
        return None

    made: Callable[..., None] = st.fragment(run, run_every=run_every)
    return made
