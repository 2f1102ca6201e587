"""The teacher's page: choose the page for a class, and hand it out as a link and a code to scan."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import segno
import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.classroom import (
    ANSWERS,
    GROUPS,
    LOCKABLE,
    LONGEST_PROMPT,
    RESULTS,
    read_prompt,
)
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.share_links import LONGEST, app_address, only_here, short_link, write_address
from quantviz.lab.state import LabState, opening
from quantviz.teaching.lessons import lessons, sound_lessons
from quantviz.text import languages
from quantviz.ui.components.buttons import show_button
from quantviz.ui.components.classroom_signs import project
from quantviz.ui.components.clipboard import copy_button
from quantviz.ui.components.component import component
from quantviz.ui.components.controls import Control, choice_control, choose_among, show_controls
from quantviz.ui.components.lesson_place import go
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.refusals import show_page_errors
from quantviz.ui.shell import session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.classroom import written
from quantviz.ui.shell.server import command_for_all, is_local_only, network_address
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, plain, say, say_error, sentences
from quantviz.ui.teacher.state import OPENS, OWNER, Choice, change, change_room, hide

#: The app's address until the browser has sent it.
_UNKNOWN = "http://localhost:8501/"
_LAB = "pages/lab/playground.py"
_LESSONS = "pages/learn/lessons.py"


def _segments(
    name: str, names: Mapping[str, str], now: str, take: Callable[[Any], None], **more: Any
) -> None:
    label = say(f"teacher.{name}")
    choose_among(f"teacher_{name}", "row", label, names, now, take, **more)


# ---- the page -----------------------------------------------------------------------------------


def show_page() -> None:
    """Show the choices left, in three groups with the link and its code right, and a link's uses below."""
    name_tab(say("pages.teacher"))
    show_header(say("pages.teacher"), say("teacher.hint"))
    show_page_errors()
    choice = OWNER.state
    if OWNER.problems:
        st.warning(say("teacher.damaged"))
    choices, link = st.columns([7, 5], gap="medium")
    with choices, st.container(key="teacher_choices", gap="medium"):
        with _group("what"):
            _show_what(choice)
        with _group("sees"):
            if choice.opens == "lesson":
                _show_answers(choice)
            else:
                _show_sees(choice)
            names = {"": say("teacher.own_language")}
            names |= {name: say(f"languages.{name}") for name in languages()}
            _segments("language", names, choice.language or "", lambda name: change(language=name or None))
        with st.container(key="teacher_words", gap="small"):
            st.markdown(f"## {say('teacher.limits_title')}\n\n{say('teacher.limits')}")
            st.markdown(f"## {say('teacher.hands_title')}\n\n{say('teacher.hands')}")
    with link, _group("link"):
        _show_link(choice)
    OWNER.show_link(more=session.state().written() if choice.opens == "lab" else {})


@contextlib.contextmanager
def _group(name: str) -> Iterator[None]:
    """Show the controls that follow under the name of their group."""
    with st.container(key=f"teacher_group_{name}", gap="small"):
        st.markdown(f"## {say(f'teacher.groups_of_choices.{name}')}")
        yield


def _show_what(choice: Choice) -> None:
    names = {name: say(f"teacher.open_{name}") for name in OPENS}
    _segments("opens", names, choice.opens, lambda name: change(opens=name), look="qv-unnamed")
    if choice.opens == "scenario":
        choose_among(
            "teacher_scenario",
            "list",
            say("sidebar.scenario"),
            {name: say(f"scenarios.{name}.name") for name in SCENARIOS},
            choice.scenario,
            lambda scenario: change(scenario=scenario),
            look="qv-unnamed",
        )
    elif choice.opens == "lesson":
        _show_lessons(choice)


def _show_lessons(choice: Choice) -> None:
    readable = sound_lessons(language())
    if not readable:
        return
    name = choice.lesson_in(readable)
    steps = readable[name].steps
    numbers = tuple(lessons(language()))
    one = choice_control(
        "teacher_lesson",
        "list",
        say("teacher.lesson"),
        # Numbered from 0, as their list is.
        {each: f"{numbers.index(each)} · {lesson.title}" for each, lesson in readable.items()},
        name,
        lambda lesson: change(lesson=lesson, step=1),
    )
    step = choice_control(
        "teacher_step",
        "list",
        say("teacher.step"),
        {number: f"{number} · {step.title}" for number, step in enumerate(steps, 1)},
        min(choice.step, len(steps)),
        lambda step: change(step=step),
    )
    show_controls("teacher_steps", OWNER, one, step, look="qv-pairs")


def _show_answers(choice: Choice) -> None:
    _segments(
        "answers",
        {name: say(f"teacher.{name}") for name in ANSWERS},
        choice.room.answers,
        lambda answers: change_room(answers=answers),
        help=say("teacher.answers_help"),
    )


def _show_sees(choice: Choice) -> None:
    """Show the choices of hidden and locked parts of the Lab, and of the question above it."""
    names = {
        "everything": say("teacher.everything"),
        "predict": say("teacher.predict"),
        "parts": say("teacher.by_parts"),
    }
    _segments("sees", names, _seen(choice), _see, look="qv-unnamed")
    if _seen(choice) == "parts":
        _show_parts(choice)
    elif _seen(choice) == "predict":
        st.caption(say("teacher.predict_help"))
    prompt = Control(
        "teacher_prompt",
        "text",
        say("teacher.prompt"),
        value=choice.room.prompt,
        example=say("room.predict" if choice.room.asks_to_predict else "teacher.prompt_example"),
        limits=("", str(LONGEST_PROMPT)),
        take=lambda form: change_room(prompt=read_prompt(form)),
    )
    show_controls("teacher_prompt", OWNER, prompt)


def _seen(choice: Choice) -> str:
    """Return which parts of the Lab its readers see: all, all but the results, or those chosen one by one."""
    if choice.by_parts or choice.room.locked:
        return "parts"
    return {frozenset(): "everything", RESULTS: "predict"}.get(choice.room.hidden, "parts")


def _see(chosen: str) -> None:
    change(by_parts=chosen == "parts")
    if chosen != "parts":
        change_room(hidden=RESULTS if chosen == "predict" else frozenset(), locked=frozenset())


def part_name(part: str) -> str:
    """Return a part of `HIDEABLE` for people."""
    if part == "recipes":
        return say("recipes.question")
    return say(f"{part}.name") if part in TILE_PARTS else say(f"teacher.parts.{part}")


def _show_parts(choice: Choice) -> None:
    with st.container(key="teacher_parts", gap="small"):
        st.caption(say("teacher.hidden"))
        for group, parts in GROUPS.items():
            choose_among(
                f"teacher_hidden_{group}",
                "many",
                say(f"teacher.groups.{group}"),
                {part: part_name(part) for part in parts},
                [part for part in parts if part in choice.room.hidden],
                partial(hide, parts),
            )
        st.caption(say("teacher.locked"))
        choose_among(
            "teacher_locked",
            "many",
            say("teacher.locked"),
            {name: part_name(name) for name in LOCKABLE},
            [name for name in LOCKABLE if name in choice.room.locked],
            lambda locked: change_room(locked=frozenset(locked)),
            look="qv-unnamed",
        )


# ---- the link -----------------------------------------------------------------------------------


def _state(choice: Choice) -> LabState:
    state = opening(choice.scenario) if choice.opens == "scenario" else session.state()
    # The end of the error's colours reveals the largest error.
    return state.replace(held=None) if "error" in choice.room.hidden else state


def link(choice: Choice, app: str) -> str:
    """Return the address for the class, of the app at `app`."""
    if choice.opens == "lesson":
        opened = {"l": choice.lesson_in(sound_lessons(language())), "p": str(choice.step)}
    else:
        opened = short_link(_state(choice))
    # Hidden and locked parts come first: a link that is cut off behind them opens none of these.
    query = {**written(choice.applied), **opened}
    if choice.language:
        query["lang"] = choice.language
    return write_address(app, "lessons" if choice.opens == "lesson" else "lab", query)


def _show_link(choice: Choice) -> None:
    app = app_address(st.context.url or _UNKNOWN)
    host = plain(urlsplit(app).hostname)
    network = network_address(app) if only_here(app) and not is_local_only() else None
    app = network or app
    problem: QuantVizError | None = session.state().source.link_problem() if choice.opens == "lab" else None
    if problem:
        st.warning(sentences(say_error(problem), say("teacher.no_link")))
        return
    opened = link(choice, app)
    scanned = not only_here(app) and len(opened) <= LONGEST
    if only_here(app):
        st.info(say("teacher.only_here" if is_local_only() else "teacher.no_network", host=host))
        if is_local_only():
            st.code(command_for_all(), language=None, wrap_lines=True)
    elif not scanned:
        st.warning(say("teacher.too_long", length=len(opened), longest=LONGEST))
    else:
        with st.container(key="teacher_qr"):
            st.html(qr_image(opened, say("teacher.qr_alt")))
        component("quantviz_code", "code_component")(
            key="teacher_full_screen",
            data={
                "label": say("teacher.full_screen"),
                "alt": say("teacher.qr_alt"),
                "source": qr_source(opened),
                "address": opened,
            },
            height="content",
        )
        if network:
            st.caption(say("teacher.own_address", host=urlsplit(app).hostname))
    with st.container(key="teacher_actions", horizontal=True, gap="small", vertical_alignment="center"):
        show_button(
            say("teacher.project"),
            "teacher_project",
            _project,
            type="secondary" if scanned else "primary",
            help=say("teacher.project_help"),
        )
        st.link_button(say("teacher.preview"), opened, help=say("teacher.preview_help"))
        copy_button("copy_class_link", say("lab.share"), say("lab.copied"), text=opened)
    st.code(opened, language=None, wrap_lines=True)


def qr_source(address: str) -> str:
    """Return the code of an address as an image's address, with its white edge.

    The lowest error correction has the coarsest squares: on a wall nothing is torn or dirty, but far away.
    """
    code = segno.make(address, error="l", micro=False)
    return str(code.svg_data_uri(border=4, dark="#000", light="#fff", omitsize=True))


def qr_image(address: str, alt: str) -> str:
    """Return the code of an address as an HTML image, white around it on a dark page too."""
    return f'<img class="qv-qr" alt="{html.escape(alt)}" src="{html.escape(qr_source(address))}">'


def _project() -> None:
    """Show the link's page in this window, enlarged: parts that the link hides are hidden here too."""
    choice = OWNER.state
    project(True, choice.applied)
    if choice.opens == "lesson":
        go(choice.lesson_in(sound_lessons(language())), choice.step - 1)
        turn_to(_LESSONS)
        return
    session.put(_state(choice))
    turn_to(_LAB)
