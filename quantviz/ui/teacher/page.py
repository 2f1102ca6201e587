"""The teacher's page: choose what a class opens, and hand it out as a link and a code to scan.

Its choices are one frozen value in the session under `teacher_choice`, as the Lab's state is under its own.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import segno
import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.classroom import ANSWERS, GROUPS, HIDEABLE, LOCKABLE, Classroom
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.scenarios import FIRST, SCENARIOS
from quantviz.lab.share_links import LONGEST, app_address, only_here, short_link, write_address
from quantviz.lab.state import LabState, opening
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.model import Lesson
from quantviz.text import languages
from quantviz.ui.components.choice import choose
from quantviz.ui.components.classroom_signs import project
from quantviz.ui.components.clipboard import copy_button
from quantviz.ui.components.language_switch import show_language
from quantviz.ui.components.lesson_place import go
from quantviz.ui.shell import address, session
from quantviz.ui.shell.classroom import PARAMETER, parameters
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.turning import turn_to
from quantviz.ui.shell.words import language, plain, say, say_error, sentences

_CHOICE = "teacher_choice"
#: What a link can open.
OPENS = ("lab", "scenario", "lesson")
#: All that tells a result: left out, a class has the tensor and the scheme to predict from.
RESULTS = frozenset(HIDEABLE) - {"tensor", "scheme", "range", "actions"}
#: Where the app is while the browser has not said so.
_UNKNOWN = "http://localhost:8501/"
_LAB, _LESSONS = "pages/lab/playground.py", "pages/learn/lessons.py"


@dataclass(frozen=True)
class Choice:
    """What the link is to open, and how."""

    #: One of `OPENS`.
    opens: str = OPENS[0]
    scenario: str = FIRST
    #: The lesson's id; empty for the first one.
    lesson: str = ""
    #: The lesson's step, from 1.
    step: int = 1
    room: Classroom = field(default_factory=Classroom)
    #: The language of the link; none for the reader's own.
    language: str | None = None

    def lesson_in(self, found: dict[str, Lesson]) -> str:
        """Return the lesson's id among those there are."""
        return self.lesson if self.lesson in found else next(iter(found), "")

    @property
    def applied(self) -> Classroom:
        """Return the classroom as far as it matters to what is opened: a lesson leaves out and locks nothing,
        the Lab has no answers.
        """
        if self.opens == "lesson":
            return Classroom(answers=self.room.answers, projector=self.room.projector)
        return dataclasses.replace(self.room, answers=ANSWERS[0])


# ---- state --------------------------------------------------------------------------------------


def _choice() -> Choice:
    return cast(Choice, st.session_state.setdefault(_CHOICE, Choice()))


def _change(**changes: object) -> None:
    st.session_state[_CHOICE] = dataclasses.replace(_choice(), **changes)  # type: ignore[arg-type]


def _change_room(**changes: object) -> None:
    _change(room=dataclasses.replace(_choice().room, **changes))  # type: ignore[arg-type]


def _lessons() -> dict[str, Lesson]:
    """Return the lessons that can be opened."""
    return {name: found for name, found in lessons(language()).items() if isinstance(found, Lesson)}


def _setting(key: str, name: str) -> Callable[..., None]:
    """Return a callback that takes what the widget `key` shows into the field `name`."""
    return session.safely(lambda: _change(**{name: st.session_state[key]}))


# ---- the page -----------------------------------------------------------------------------------


def show_page() -> None:
    """Show the choices left, the link and its code right, and what a link can do below."""
    name_tab(say("pages.teacher"))
    with st.sidebar:
        show_language()
    with st.container(key="header", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"# {say('teacher.title')}\n\n{say('teacher.hint')}", width="stretch")
    choices, link = st.columns([7, 5], gap="medium")
    with choices, st.container(key="teacher_choices", gap="small"):
        _show_what()
        if _choice().opens == "lesson":
            _show_answers()
        else:
            _show_hidden()
            _show_locked()
        _show_how()
        with st.container(key="teacher_words", gap="small"):
            st.markdown(f"## {say('teacher.limits_title')}\n\n{say('teacher.limits')}")
            st.markdown(f"## {say('teacher.hands_title')}\n\n{say('teacher.hands')}")
    with link, st.container(key="teacher_link", gap="small"):
        _show_link()
    address.write({"lang": language(), **parameters()})


def _show_what() -> None:
    choice = _choice()
    choose(
        st.segmented_control,
        say("teacher.opens"),
        OPENS,
        key=session.show("teacher_opens", choice.opens),
        required=True,
        on_change=_setting("teacher_opens", "opens"),
        format_func=lambda name: {
            "lab": say("teacher.open_lab"),
            "scenario": say("teacher.open_scenario"),
            "lesson": say("teacher.open_lesson"),
        }[name],
    )
    if choice.opens == "scenario":
        choose(
            st.selectbox,
            say("sidebar.scenario"),
            tuple(SCENARIOS),
            key=session.show("teacher_scenario", choice.scenario),
            on_change=_setting("teacher_scenario", "scenario"),
            format_func=lambda name: say(f"scenarios.{name}.name"),
            label_visibility="collapsed",
        )
    elif choice.opens == "lesson":
        _show_lessons(choice)


def _show_lessons(choice: Choice) -> None:
    found = _lessons()
    if not found:
        return
    name = choice.lesson_in(found)
    steps = found[name].steps
    left, right = st.columns(2, gap="small")
    choose(
        left.selectbox,
        say("teacher.lesson"),
        tuple(found),
        key=session.show("teacher_lesson", name),
        on_change=session.safely(lambda: _change(lesson=st.session_state["teacher_lesson"], step=1)),
        format_func=lambda each: (
            f"{tuple(found).index(each) + 1} · {found[each].title}" if each in found else each
        ),
    )
    # Its own key for each lesson: the steps have other names.
    key = f"teacher_step_{name}"
    choose(
        right.selectbox,
        say("teacher.step"),
        range(1, len(steps) + 1),
        key=session.show(key, min(choice.step, len(steps))),
        on_change=_setting(key, "step"),
        format_func=lambda number: f"{number} · {steps[number - 1].title}",
    )


def _show_answers() -> None:
    choose(
        st.segmented_control,
        say("teacher.answers"),
        ANSWERS,
        key=session.show("teacher_answers", _choice().room.answers),
        required=True,
        on_change=session.safely(lambda: _change_room(answers=st.session_state["teacher_answers"])),
        format_func=lambda name: {
            "after": say("teacher.after"),
            "withheld": say("teacher.withheld"),
            "shown": say("teacher.shown"),
        }[name],
        help=say("teacher.answers_help"),
    )


def part_name(part: str) -> str:
    """Return a part of `HIDEABLE` for people."""
    if part == "recipes":
        return say("recipes.question")
    return say(f"{part}.name") if part in TILE_PARTS else say(f"teacher.parts.{part}")


def _show_hidden() -> None:
    hidden = _choice().room.hidden
    with st.container(key="teacher_hidden", gap=None):
        with st.container(key="teacher_quick", horizontal=True, gap="small", vertical_alignment="center"):
            st.markdown(f"## {say('teacher.hidden')}", width="content")
            st.button(
                say("teacher.predict"),
                key="teacher_predict",
                on_click=_change_room,
                kwargs={"hidden": RESULTS},
                help=say("teacher.predict_help"),
            )
            st.button(
                say("teacher.nothing"),
                key="teacher_nothing",
                on_click=_change_room,
                kwargs={"hidden": frozenset()},
                disabled=not hidden,
            )
        for group, parts in GROUPS.items():
            key = f"teacher_hidden_{group}"
            choose(
                st.pills,
                say(f"teacher.groups.{group}"),
                parts,
                selection_mode="multi",
                key=session.show(key, [part for part in parts if part in hidden]),
                on_change=session.safely(_hide),
                args=(key, parts),
                format_func=part_name,
                label_visibility="collapsed",
            )


def _hide(key: str, parts: tuple[str, ...]) -> None:
    _change_room(hidden=_choice().room.hidden - set(parts) | set(st.session_state[key]))


def _show_locked() -> None:
    choose(
        st.pills,
        say("teacher.locked"),
        LOCKABLE,
        selection_mode="multi",
        key=session.show("teacher_locked", [group for group in LOCKABLE if group in _choice().room.locked]),
        on_change=session.safely(lambda: _change_room(locked=frozenset(st.session_state["teacher_locked"]))),
        format_func=part_name,
        help=say("teacher.locked_help"),
    )


def _show_how() -> None:
    choice = _choice()
    with st.container(key="teacher_how", horizontal=True, gap="medium", vertical_alignment="bottom"):
        choose(
            st.segmented_control,
            say("teacher.language"),
            ("", *languages()),
            key=session.show("teacher_language", choice.language or ""),
            required=True,
            on_change=session.safely(lambda: _change(language=st.session_state["teacher_language"] or None)),
            format_func=lambda name: say(f"languages.{name}") if name else say("teacher.own_language"),
        )
        st.toggle(
            say("teacher.projector"),
            key=session.show("teacher_projector", choice.room.projector),
            on_change=session.safely(lambda: _change_room(projector=st.session_state["teacher_projector"])),
            help=say("teacher.projector_help"),
        )


# ---- the link -----------------------------------------------------------------------------------


def _state(choice: Choice) -> LabState:
    """Return what of the Lab the link opens."""
    return opening(choice.scenario) if choice.opens == "scenario" else session.state()


def link(choice: Choice, app: str) -> str:
    """Return the address for the class, of the app at `app`."""
    opened = (
        {"l": choice.lesson_in(_lessons()), "p": str(choice.step)}
        if choice.opens == "lesson"
        else short_link(_state(choice))
    )
    room = str(choice.applied)
    last = {**({PARAMETER: room} if room else {}), **({"lang": choice.language} if choice.language else {})}
    return write_address(app, "lessons" if choice.opens == "lesson" else "lab", opened | last)


def _show_link() -> None:
    choice, app = _choice(), app_address(st.context.url or _UNKNOWN)
    problem: QuantVizError | None = session.state().source.link_problem() if choice.opens == "lab" else None
    if problem:
        st.warning(sentences(say_error(problem), say("teacher.no_link")))
        return
    opened = link(choice, app)
    if only_here(app):
        host = plain(urlsplit(app).hostname)
        st.info(
            f"{say('teacher.only_here', host=host)}\n\n"
            f"1. {say('teacher.only_here_start')}\n2. {say('teacher.only_here_open')}"
        )
    elif len(opened) > LONGEST:
        st.warning(say("teacher.too_long", length=len(opened), longest=LONGEST))
    else:
        st.html(qr_image(opened, say("teacher.qr_alt")))
    st.code(opened, language=None, wrap_lines=True)
    with st.container(key="teacher_actions", horizontal=True, gap="small", vertical_alignment="center"):
        copy_button("copy_class_link", say("lab.copy_link"), say("lab.copied"), text=opened)
        st.link_button(say("teacher.preview"), opened, help=say("teacher.preview_help"))
        st.button(
            say("teacher.project"),
            key="teacher_project",
            on_click=session.safely(_project),
            args=(choice,),
            help=say("teacher.project_help"),
        )
    if len(opened) <= LONGEST:
        st.caption(say("teacher.length", length=len(opened), longest=LONGEST))


def qr_image(address: str, alt: str) -> str:
    """Return the code of an address as an HTML image, white around it on a dark page too.

    The lowest error correction has the coarsest squares: on a wall nothing is torn or dirty, but far away.
    """
    source = segno.make(address, error="l", micro=False).svg_data_uri(
        border=4, dark="#000", light="#fff", omitsize=True
    )
    return f'<img class="qv-qr" alt="{html.escape(alt)}" src="{html.escape(source)}">'


def _project(choice: Choice) -> None:
    """Show in this window, large, what the link opens; what the link leaves out stays in sight of the
    teacher.
    """
    project(True)
    if choice.opens == "lesson":
        go(choice.lesson_in(_lessons()), choice.step - 1)
        turn_to(_LESSONS)
        return
    session.put(_state(choice))
    turn_to(_LAB)
