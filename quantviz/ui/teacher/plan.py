"""The plan of a class on the teacher's page: its stops, which are added, moved and removed; and its file."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

import streamlit as st

from quantviz.lab.classroom import read_prompt
from quantviz.lab.share_links import short_link, write_address
from quantviz.rooms.plan import OWN, PLANS, WHERE, Plan, Stop
from quantviz.teaching.golf import HOLES
from quantviz.teaching.lessons import lessons, sound_lessons
from quantviz.ui.components.controls import Control, hold_choice, show_controls, show_undo
from quantviz.ui.components.small_parts import error_beside, show_button, show_error_beside
from quantviz.ui.layers.state import OWNER as LAYERS
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.words import language, say
from quantviz.ui.teacher.state import OWNER, add, change

_FILE = "teacher_plan_file"
#: The form of no choice.
_NOTHING = "-"
_OWN = ("own_kind", "own_ask", "own_options")


def stop_title(stop: Stop) -> str:
    """Return a stop's name."""
    if stop.kind == "lesson":
        number = tuple(lessons(language())).index(stop.address[1]["l"])
        return say("teacher.plan.lesson", number=number, step=stop.step(language())[0].title)
    if stop.kind == "bug":
        return say(f"bugs.{stop.at}.name")
    if stop.kind == "hole":
        return f"{say('pages.golf')} · {say(f'golf.holes.{stop.at}.name')}"
    return stop.ask or say(f"pages.{stop.address[0]}")


def student_address(stop: Stop, app: str) -> str:
    """Return the address of a stop of the app at `app`, as a student opens it."""
    page, query = stop.address
    return write_address(app, page, {**query, "lang": language()})


def show_plan(plan: Plan, app: str) -> None:
    """Show the stops with their controls, what can be added, and the plan's file."""
    template = next((name for name, each in PLANS.items() if each == plan), "")
    names = {name: say(f"rooms.plans.{name}") for name in PLANS}
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="teacher_plan_head"):
        label = say("teacher.plan.minutes", stops=len(plan.stops), minutes=plan.minutes)
        show_controls(
            "teacher_plan_choice", OWNER, Control("template", "row", label, value=template, choices=names)
        )
        show_undo(OWNER)
        st.link_button(say("teacher.plan.student"), student_address(plan.stops[0], app))
    where = {name: say(f"teacher.plan.{name}") for name in WHERE}
    controls = []
    for at, stop in enumerate(plan.stops):
        title = f"{at + 1} · {stop_title(stop)}"
        see = f"[{say('teacher.plan.student')}]({student_address(stop, app)})"
        wrong = error_beside(f"teacher_minutes_stop_{at}") is not None
        minutes = str(stop.minutes)
        controls += [
            Control(f"where_stop_{at}", "row", title, see, stop.where, where),
            Control(f"minutes_stop_{at}", "text", say("teacher.plan.min"), value=minutes, wrong=wrong),
            Control(f"up_stop_{at}", "button", say("teacher.plan.up"), icon="arrow_upward", disabled=not at),
            Control(f"remove_stop_{at}", "button", say("teacher.plan.remove"), icon="close"),
        ]
    st.html(f"<style>.st-key-teacher_stops_room {{ --qv-stops: {len(plan.stops)}; }}</style>")
    with st.container(key="teacher_stops_room"):
        show_controls("teacher_stops", OWNER, *controls, look="qv-plan")
    for at in range(len(plan.stops)):
        show_error_beside(f"teacher_minutes_stop_{at}")
        show_error_beside(f"teacher_remove_stop_{at}")
    _show_adding()
    with st.popover(say("teacher.plan.file"), key="teacher_plan_ways"):
        st.download_button(
            say("teacher.plan.download"),
            plan.as_file(),
            "quantviz_plan.json",
            "application/json",
            key="teacher_plan_download",
            on_click="ignore",
        )
        st.file_uploader(
            say("teacher.plan.upload"), ["json"], key=_FILE, max_upload_size=1, on_change=errors.safely(_load)
        )


def _load() -> None:
    if (file := st.session_state[_FILE]) is not None:
        change(plan=Plan.of_file(file.getvalue()))


def _show_adding() -> None:
    """Show lists of the stops that can be added, of which a choice adds one, and a question of one's own."""
    from quantviz.teaching.gallery import BUGS

    steps = {
        f"{name}.{question.id}": f"{number} · {lesson.title} · {step.title}"
        for number, name in enumerate(lessons(language()))
        if (lesson := sound_lessons(language()).get(name))
        for step in lesson.steps
        for question in step.questions
    }
    offered = {
        "lesson": steps,
        "bug": {name: say(f"bugs.{name}.name") for name in BUGS},
        "hole": {name: say(f"golf.holes.{name}.name") for name in HOLES},
    }
    nothing = {_NOTHING: say("teacher.plan.choose")}
    controls = []
    for kind in ("lesson", "bug", "hole", "lab", "layer"):
        label = say(f"teacher.plan.kinds.{kind}")
        choices = nothing | offered.get(kind, {})
        looks = "list" if kind in offered else "button"
        controls.append(
            Control(f"add_{kind}", looks, label, "", _NOTHING, choices, take=partial(_add_stop, kind))
        )
    with st.expander(say("teacher.plan.add"), key="teacher_add"):
        show_controls("teacher_adding", OWNER, *controls)
        for control in controls:
            show_error_beside(f"teacher_{control.field}")
        kinds = {kind: say(f"teacher.plan.own.{kind}") for kind in OWN}
        kind = hold_choice(_OWN[0], "row", say("teacher.plan.own.title"), kinds, OWN[0])
        st.text_input(say("teacher.plan.own.ask"), key=_OWN[1])
        if kind == "choice":
            st.text_input(
                say("teacher.plan.own.options"), key=_OWN[2], placeholder=say("teacher.plan.own.example")
            )
        show_button(say("teacher.plan.own.add"), "own_add", _add_own)


def _lab_now() -> str:
    """Return the Lab as it is now as the query of its link; `QuantVizError` where a link cannot have it."""
    if problem := session.state().source.link_problem():
        raise problem
    return urlencode(short_link(session.state()))


def _add_stop(kind: str, at: str) -> None:
    if kind == "lab":
        at = _lab_now()
    elif kind == "layer":
        at = urlencode(LAYERS.state.written())
    elif at == _NOTHING:
        return
    add(Stop(kind, at))


def _add_own() -> None:
    kind, ask, options = (st.session_state.get(name) or "" for name in _OWN)
    parts = [part.strip() for part in options.split(";")] if kind == "choice" else []
    add(Stop(kind, _lab_now(), ask=read_prompt(ask), options=tuple(filter(None, parts))))
    st.session_state.update({_OWN[1]: "", _OWN[2]: ""})
