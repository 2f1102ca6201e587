"""The tries on the hole, the newest first."""

from __future__ import annotations

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.golf import HoleResults, counts
from quantviz.tensors.views import View
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.golf.state import clear_tries, set_controls
from quantviz.ui.golf.words import bits_words, db_words, score_words
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.words import plain, say


def show_tries(now: HoleResults) -> None:
    """Show each try with its numbers, and the ways to set it again and to open it in the Lab."""
    st.markdown(f"## {say('golf.tries')}")
    if not now.tries:
        st.caption(say("golf.no_tries"))
        return
    with st.container(key="golf_tries", gap=None):
        for at in reversed(range(len(now.tries))):
            _try(now, at)
    st.button(
        say("golf.clear"),
        key="golf_clear",
        type="tertiary",
        on_click=errors.safely(clear_tries),
        help=say("golf.clear_help"),
    )


def _try(now: HoleResults, at: int) -> None:
    row = now.tries[at]
    against = score_words(now.gain(row)) if counts(row) else say("golf.over_short")
    numbers = plain(f"{bits_words(row.bits)} · {db_words(row.sqnr_db)} dB · {against}")
    mark = " ★" if row is now.best else ""
    with st.container(
        key=f"golf_row_{at}", horizontal=True, gap="small", vertical_alignment="center", wrap=False
    ):
        st.markdown(
            f"**{at + 1}{mark}** · **{numbers}** · {plain(scheme_words(row.scheme, now.hole.source))}",
            width="stretch",
        )
        st.button(
            say("golf.use"),
            key=f"golf_use_{at}",
            on_click=errors.safely(set_controls),
            args=(row.scheme,),
            help=say("golf.use_help"),
        )
        st.button(
            say("golf.open_in_lab"),
            key=f"golf_lab_{at}",
            on_click=errors.safely(_open_in_lab),
            args=(now, row.scheme),
        )


def _open_in_lab(now: HoleResults, scheme: Scheme) -> None:
    shape = now.hole.source.shape
    session.put_in_lab(LabState(now.hole.source, scheme, View.of(shape), (0,) * len(shape)))
    turn_to("pages/lab/playground.py")
