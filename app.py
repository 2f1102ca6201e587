"""Page config, language, navigation, error boundary. Nothing else.

`streamlit run` imports this file for the server, which then begins its imports before anybody has come, and
runs it for each session.
"""

from functools import partial
from typing import Literal

import streamlit as st
from starlette.middleware import Middleware

from quantviz.jobs import Job
from quantviz.public_calls import inside
from quantviz.sources.limits import Limits
from quantviz.streaming.compiling import without_compiling
from quantviz.ui.components.classroom_signs import follow_letters, show_room
from quantviz.ui.components.drop_zone import BROUGHT, WITH_DOOR, show_anywhere
from quantviz.ui.components.in_room import begin, shown
from quantviz.ui.missing.page import missing_pages
from quantviz.ui.shell import dropped, errors, run_facts, tab
from quantviz.ui.shell.address import arrive, go_on
from quantviz.ui.shell.events import note_session, operator_routes
from quantviz.ui.shell.imports import Ahead, frames, importing
from quantviz.ui.shell.room_routes import room_routes
from quantviz.ui.shell.runs import error_boundary
from quantviz.ui.shell.server import (
    Announced,
    CompiledAhead,
    ProbeAnswers,
    Resumed,
    Styled,
    script_routes,
    starting,
)
from quantviz.ui.shell.shared_cache import forget_unused
from quantviz.ui.shell.startup import forget_ended_sessions, run_queue
from quantviz.ui.shell.streamlit_private import (
    forget_parts_left_behind,
    is_asked_for,
    read_what_widgets_say,
    take_messages_whole,
)
from quantviz.ui.shell.words import say

#: Modules that the server imports before anybody needs them: the Lab's frame takes longest.
AHEAD = Ahead(
    frame=("quantviz.ui.lab.page",),
    after=("quantviz.analysis.engine_comparison", "quantviz.analysis.study", "quantviz.rooms.serving"),
    long_work=("quantviz.analysis.calibration_comparison",),
)
#: Style sheets of each page that has its own, below `quantviz/ui`: a page is sent with them.
SHEETS = {
    "": ("home/home.css",),
    "attention": ("layers/layers.css", "layers/attention.css"),
    "checkpoints": ("checkpoints/checkpoints.css", "checkpoints/models.css"),
    "golf": ("lab/lab.css", "golf/golf.css"),
    "lab": ("lab/lab.css",),
    "layers": ("layers/layers.css",),
    "lessons": ("lessons/title_room.css",),
}
#: Pages that draw as soon as they are there, and what their address has in its query then.
DRAWN = {
    "attention": "",
    "checkpoints": "",
    "formats": "",
    "golf": "",
    "lab": "",
    "layers": "",
    "lessons": "l=",
}


def begin_work() -> Job[None]:
    """Begin the work of a server that has just started; return the job."""
    from quantviz.ui.checkpoints.reading import prepare_scans

    return prepare_scans()


def show_page() -> None:
    """Show a session the page that it asks for."""
    frames().begin()
    take_messages_whole()
    dropped.begin()
    read_what_widgets_say(dropped.drop)
    note_session()
    run_facts.begin()
    tab.begin()
    home = st.Page("pages/home/home.py", title=say("pages.home"), url_path="home", default=True)
    # Reached from a page to which they belong: the lessons, or the layers.
    hidden = partial(st.Page, visibility="hidden")
    sections = {
        "learn": [
            st.Page("pages/learn/lessons.py", title=say("pages.lessons"), url_path="lessons"),
            st.Page("pages/learn/formats.py", title=say("pages.formats"), url_path="formats"),
            st.Page("pages/learn/bugs.py", title=say("pages.bugs"), url_path="bugs"),
            hidden("pages/learn/golf.py", title=say("pages.golf"), url_path="golf"),
        ],
        "explore": [
            st.Page("pages/explore/checkpoints.py", title=say("pages.checkpoints"), url_path="checkpoints"),
            st.Page("pages/explore/layers.py", title=say("pages.layers"), url_path="layers"),
            hidden("pages/explore/attention.py", title=say("pages.attention"), url_path="attention"),
            st.Page("pages/lab/playground.py", title=say("pages.lab"), url_path="lab"),
        ],
        "teach": [st.Page("pages/learn/teacher.py", title=say("pages.teacher"), url_path="teacher")],
    }
    pages = [home, *(page for section in sections.values() for page in section)]
    named = {say(f"pages.sections.{name}"): section for name, section in sections.items()}
    # The front door has no sidebar: it has the same doors on it.
    position: Literal["hidden", "sidebar"] = "hidden" if is_asked_for(home) else "sidebar"
    # Before anything is shown: the sidebar takes its room from the rest.
    page = st.navigation({"": [home, *missing_pages(pages)], **named}, position=position)
    tab.show_style()
    unseen = st.container(key="unseen")
    with unseen:  # scripts without a picture
        tab.run_scripts(page.url_path)
        follow_letters()
    if (files := st.session_state.get(BROUGHT)) is not None:
        from quantviz.ui.drop.taking import take_brought

        errors.safely(take_brought)(files)
        del st.session_state[BROUGHT]  # not before: where another message ends this run, the next opens them
    go_on()
    forget_ended_sessions(forget_unused)
    with run_queue().take(), error_boundary(), without_compiling(), inside(), importing(AHEAD):
        Limits.of_environment()  # a setting that is none is said at once
        arrive(page.url_path)
        if page is not home:  # it has it among its doors
            with unseen if page.url_path in WITH_DOOR else st.sidebar:
                show_anywhere()
        begin()
        show_room()
        with shown():
            page.run()
        frames().end()
    forget_parts_left_behind()


if __name__ == "__main__":
    show_page()
else:
    middleware = [
        *map(Middleware, (Announced, ProbeAnswers, Resumed, CompiledAhead)),
        Middleware(Styled, SHEETS, DRAWN),
    ]
    lifespan = starting(AHEAD, begin_work)
    routes = [*script_routes(), *room_routes(), *operator_routes()]
    app = st.App(__file__, routes=routes, lifespan=lifespan, middleware=middleware)
