"""The last net: no error shows a traceback, and each leaves a way back."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.ui.shell import session, undo
from quantviz.ui.shell.words import say, say_error


@contextlib.contextmanager
def error_boundary() -> Iterator[None]:
    """Show an error as a sentence with a way back; a bug of ours goes to the server's log in full."""
    try:
        yield
    except QuantVizError as error:
        st.error(say_error(error))
        _way_back()
    except Exception:
        logging.getLogger("quantviz").exception("a page failed")
        st.error(say("app.bug"))
        _way_back()


def _way_back() -> None:
    with st.container(horizontal=True):
        st.button(
            say("lab.undo"), key="boundary_undo", on_click=session.undo_step, disabled=not undo.can_undo()
        )
        st.button(say("lab.reset"), key="boundary_reset", on_click=session.reset)
