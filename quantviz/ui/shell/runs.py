"""A run of a page, or of a part of it by itself: no error shows a traceback, and each leaves a way back."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.public_calls import inside
from quantviz.streaming.compiling import without_compiling
from quantviz.ui.shell import run_facts, session
from quantviz.ui.shell.events import refused
from quantviz.ui.shell.startup import run_queue
from quantviz.ui.shell.words import say, say_error


@contextlib.contextmanager
def error_boundary() -> Iterator[None]:
    """Show an error as a sentence with a way back; a bug of ours goes to the server's log in full."""
    try:
        yield
    except QuantVizError as error:
        refused(error)
        st.error(say_error(error))
        _way_back()
    except Exception:
        logging.getLogger("quantviz").exception("a page failed")
        st.error(say("app.bug"))
        _way_back()


def _way_back() -> None:
    with st.container(horizontal=True):
        st.button(
            say("lab.undo"),
            key="boundary_undo",
            on_click=session.OWNER.undo,
            disabled=not session.OWNER.history().can_undo,
        )
        st.button(say("lab.reset"), key="boundary_reset", on_click=session.reset)


def fragment(function: Callable[..., None], run_every: float | None = None) -> Callable[..., None]:
    """Make `function` a part of the page that runs again by itself after a change of its widgets, and every
    so many seconds.

    Streamlit skips `app.py` then, so the part repeats the work of `app.py` for a page: it sets the session's
    language, waits for its turn, and shows an error as a sentence.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        if run_queue().held:  # as a part of the whole page's run
            return function(*args, **kwargs)
        run_facts.begin()
        with run_queue().take(), error_boundary(), without_compiling(), inside():
            function(*args, **kwargs)
        return None

    part: Callable[..., None] = st.fragment(run, run_every=run_every)
    return part
