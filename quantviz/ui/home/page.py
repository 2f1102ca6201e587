"""The front door: a picture with fewer bits, moved by hand, and three doors behind it.

The frame is painted first, then the picture and its slider; torch comes in at the end, for the next page.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.theme import THEMES
from quantviz.lab.state import LabState, has_state
from quantviz.ui.components.component import component, last_message
from quantviz.ui.components.drop_zone import show_anywhere
from quantviz.ui.components.lesson_place import PLACE
from quantviz.ui.components.page_header import show_language
from quantviz.ui.home.play import FieldOfSums, fields_of_sums, play_data
from quantviz.ui.lab.bars.title_line import tensor_name
from quantviz.ui.shell import address, classroom, errors, session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.long_work import heavily
from quantviz.ui.shell.shared_cache import shared_fact
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, say, say_error, theme

LAB = "pages/lab/playground.py"
MODEL = "pages/explore/checkpoints.py"
LESSONS = "pages/learn/lessons.py"
TEACHER = "pages/learn/teacher.py"
_PLAY = "quantviz_home"
_CONTINUE = "quantviz_continue"
_SUMS = "home_sums"


def show_page() -> None:
    """Show the front door; the Lab instead, where the address has anything of the Lab's."""
    parameters = st.query_params.to_dict()
    if has_state(parameters) or classroom.PARAMETER in parameters:
        # Until now this was the Lab's address, and such links exist.
        st.switch_page(LAB, query_params=parameters)
    address.write({"lang": language()})
    name_tab(say("pages.home"))
    st.html(Path(__file__).with_name("home.css"))
    with st.container(key="home_head", horizontal=True):
        st.html(f'<span class="qv-brand">{say("app.title")}</span>')
        show_language()
    with st.container(key="home"):
        with st.container(key="home_words"):
            _show_words()
        play = st.container(key="home_play")
        with st.container(key="home_doors"):
            _show_doors()
    with play:
        component(_PLAY, "home_component")(
            key=_PLAY,
            data=play_data(language(), theme(), st.session_state.get(_SUMS, ())),
            on_go_change=errors.safely(_go(_PLAY, "home_component")),
        )
    # The page behind any of the doors then opens sooner.
    warm_up()
    if _SUMS not in st.session_state:
        st.session_state[_SUMS] = _sums()
        st.rerun()


def _sums() -> tuple[FieldOfSums, ...]:
    """Return the adder's answers by bits, measured once for all sessions; none where no work is taken."""
    with contextlib.suppress(QuantVizError):
        return shared_fact("fields of sums", lambda: heavily("fields of sums", fields_of_sums), by_job=True)
    return ()


def _show_words() -> None:
    st.html(
        f"<h1 class='qv-headline'><span>{say('home.headline')}</span> "
        f"<span>{say('home.question')}</span></h1>"
        f"<p class='qv-about-home'>{say('home.sentence')}</p>"
    )


# ---- doors --------------------------------------------------------------------------------------


def _show_doors() -> None:
    for problem in errors.page_errors():
        st.error(say_error(problem))
    with st.container(key="home_learn"):
        st.page_link(LESSONS, label=_door("learn"), width="stretch")
    with st.container(key="home_explore"):
        st.page_link(MODEL, label=_door("explore"), width="stretch")
        show_anywhere()
    with st.container(key="home_teach"):
        st.page_link(TEACHER, label=_door("teach"), width="stretch")
    _show_continue()


def _door(name: str) -> str:
    # The style distinguishes its parts; Markdown has no other mark that leaves 汉字 upright.
    return f"**{say(f'home.doors.{name}.name')}** **{say(f'home.doors.{name}.about')}**"


# ---- going on -----------------------------------------------------------------------------------


def _show_continue() -> None:
    colours = THEMES[theme()]
    # The state that this session has open in the Lab is newer than the browser's copy, and may hold an
    # upload, which no link carries.
    here = {}
    if session.was_seen():
        here["lab"] = {"name": tensor_name(session.state()), "parameters": None}
    component(_CONTINUE, "continue_component")(
        key=_CONTINUE,
        data={
            "key": address.PLACES_KEY,
            "title": say("home.continue.title"),
            "labels": {
                "lab": say("home.continue.lab", name="{name}"),
                "lesson": say("home.continue.lesson", name="{name}", step="{step}"),
            },
            "pages": {"lab": "lab", "lesson": "lessons"},
            "here": here,
            "language": language(),
            "colors": {"muted": colours.muted, "handle": colours.accent},
        },
        on_go_change=errors.safely(_go(_CONTINUE, "continue_component")),
    )


def _go(key: str, script: str) -> Callable[[], None]:
    """Return the callback for a request for a page by the component `key` of a `script`."""

    def go_there() -> None:
        message = last_message(key, script, "go")
        if message is None:
            return
        wanted = message["parameters"]
        if message["page"] == "lesson":
            # The page reads its address again.
            st.session_state.pop(PLACE, None)
            turn_to(LESSONS, wanted)
        elif message["page"] == "model":
            turn_to(MODEL, wanted)
        else:
            if wanted is not None:
                session.put_from_page(*LabState.read(wanted))
            turn_to(LAB)

    return go_there
