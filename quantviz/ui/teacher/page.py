"""The teacher's page: a class that runs, its plan, and single links with their code to scan."""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.classroom import ANSWERS, GROUPS, LOCKABLE, LONGEST_PROMPT, RESULTS, read_prompt
from quantviz.lab.picture_parts import PANEL_PARTS, TILE_PARTS
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.share_links import short_link, write_address
from quantviz.lab.state import LabState, opening
from quantviz.rooms.plan import OWN, PLANS, WHERE, Plan, Stop
from quantviz.rooms.room import FEWEST, Room
from quantviz.rooms.serving import rooms
from quantviz.teaching.golf import HOLES
from quantviz.teaching.lessons import lessons, sound_lessons
from quantviz.teaching.lessons.answer_words import lettered, option_texts
from quantviz.teaching.lessons.formulas import HERE, Scenes
from quantviz.teaching.lessons.model import LessonStep
from quantviz.text import languages, templates
from quantviz.ui.components.classroom_signs import project
from quantviz.ui.components.clipboard import app_for_all, copy_button, qr_image, show_code
from quantviz.ui.components.component import component
from quantviz.ui.components.controls import (
    Control,
    choice_control,
    choose_among,
    hold_choice,
    show_controls,
    show_undo,
)
from quantviz.ui.components.lesson_place import go
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.small_parts import (
    error_beside,
    offer_file,
    show_button,
    show_error_beside,
    show_page_errors,
)
from quantviz.ui.layers.state import OWNER as LAYERS
from quantviz.ui.lessons.answering import truth_told
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.classroom import written
from quantviz.ui.shell.startup import run_queue
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, say, say_error, sentences
from quantviz.ui.teacher.state import OPENS, OWNER, TeacherState, add, change_room, hide

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
        name, key = "quantviz_plan.json", "teacher_plan_download"
        offer_file("teacher.plan.download", plan.as_file(), name, key)
        st.file_uploader(
            say("teacher.plan.upload"), ["json"], key=_FILE, max_upload_size=1, on_change=errors.safely(_load)
        )


def _load() -> None:
    if (file := st.session_state[_FILE]) is not None:
        OWNER.change(plan=Plan.of_file(file.getvalue()))


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


_SCRIPT = "desk_component"
_KEY = "teacher_desk"
#: In the session: the code and the key of the room that is led, and the code of one that cannot be.
_ROOM = "teacher_room"
_LOST = "teacher_room_lost"


def show_desk() -> Room | None:
    """Show the room that this browser leads, and return it; else the button that opens one."""
    room, problem = _led()
    if problem:
        st.warning(say_error(problem))
    if room:
        _show(
            {
                "code": room.code,
                "key": room.key,
                "words": dict(templates("teacher.desk", language())),
                "stops": [_for_desk(stop, language()) for stop in room.plan.stops],
                "answers": {name: say(f"teacher.desk.{name}") for name in ANSWERS},
                "fewest": FEWEST,
                "language": language(),
            }
        )
    elif not st.session_state.get(_ROOM):
        show_button(
            say("teacher.open_room"),
            "teacher_open",
            lambda: _lead(rooms().open(OWNER.state.plan)),
            type="primary",
            help=say("teacher.open_room_help"),
        )
    return room


def find_room() -> None:
    """Have the browser say which room it leads; it shows nothing, and stands below what could move."""
    _show({"code": "", "lost": st.session_state.get(_LOST, "")})


def _show(data: dict[str, object]) -> None:
    component("quantviz_desk", _SCRIPT)(key=_KEY, data=data, on_found_change=_find, on_ended_change=_forget)


@lru_cache(maxsize=256)
def _for_desk(stop: Stop, language: str) -> dict[str, object]:
    """Return a stop for the desk, in the lecturer's language: a lesson's numbers are worked out once."""
    asked = stop.asked
    place = say(f"teacher.plan.{stop.where}"), say("lessons.minutes", minutes=stop.minutes)
    return {
        "title": " · ".join((stop_title(stop), *place)),
        "kind": asked.kind,
        "ask": dict(asked.words)[language],
    }


def _led() -> tuple[Room | None, QuantVizError | None]:
    held = st.session_state.get(_ROOM)
    if not held:
        return None, None
    try:
        with run_queue().leave():
            return rooms().lead(*held), None
    except QuantVizError as problem:
        if problem.key != "rooms.away":
            _forget()
        return None, problem


def _lead(room: Room) -> None:
    st.session_state[_ROOM] = room.code, room.key


def _find(found: Mapping[str, str]) -> None:
    """Take the room whose key the browser has: kept from before, or brought to a second device by a link."""
    try:
        _lead(rooms().lead(found["code"], found["key"]))
    except QuantVizError as problem:
        if problem.key == "rooms.away":
            st.session_state[_ROOM] = found["code"], found["key"]
        else:
            # It has ended, or is another's: the page is as without it.
            st.session_state[_LOST] = found["code"]


def _forget(_: object = None) -> None:
    st.session_state[_LOST] = (st.session_state.pop(_ROOM, None) or ("",))[0]


def show_ways(room: Room, app: str) -> None:
    """Show the wall's link, and the link by which a second device leads the room."""
    wall = write_address(app, "join", {"c": room.code, "wall": "1", "lang": language()})
    with st.container(key="teacher_ways", horizontal=True, gap="small"):
        st.link_button(say("teacher.wall"), wall, help=say("teacher.wall_help"))
        with st.popover(say("teacher.second"), key="teacher_second"):
            second = f"{write_address(app, 'teacher', {'lang': language()})}#room={room.code}.{room.key}"
            st.html(qr_image(second, say("teacher.second_alt")))
            st.caption(say("teacher.second_help"))
            st.code(second, language=None, wrap_lines=True)


#: In the session: whether the paper is shown.
_PAPER = "teacher_paper_shown"
_PRINT = """<script data-turn="{turn}">
setTimeout(() => window.print(), 600);
</script>"""


def show_print() -> None:
    """Show the button that shows the paper and prints it."""
    turn = st.session_state.get(_PAPER, 0) + 1
    show_button(
        say("teacher.paper.print"),
        "teacher_print",
        lambda: st.session_state.update({_PAPER: turn}),
        help=say("teacher.paper.help"),
    )


def show_paper(plan: Plan) -> None:
    """Show the paper below the page once it was asked for, and have the browser print it."""
    turn = st.session_state.get(_PAPER)
    if not turn:
        return
    with st.container(key="teacher_paper"):
        st.html(paper_html(plan))
        st.html(_PRINT.format(turn=turn), unsafe_allow_javascript=True)


def paper_html(plan: Plan) -> str:
    """Return the questions of a plan as HTML, several on a page, and their answers on one of their own."""
    asked, answers = [], []
    for number, stop in enumerate(plan.stops, 1):
        parts, answer = _stop_on_paper(stop)
        if parts:
            asked.append(f'<section class="qv-asked"><h3>{number} · {parts}</section>')
        if answer:
            answers.append(f"<li><b>{number}</b> {answer}</li>")
    head = html.escape(say("teacher.paper.answers"))
    last = f'<section class="qv-paper-answers"><h2>{head}</h2><ul>{"".join(answers)}</ul></section>'
    return f'<div class="qv-paper">{"".join(asked)}{last if answers else ""}</div>'


def _stop_on_paper(stop: Stop) -> tuple[str, str]:
    """Return the words and the picture of a stop that asks something, and its answer; both as HTML."""
    if stop.kind != "lesson":
        return (_asked(stop.ask, "", stop.options), "") if stop.ask else ("", "")
    step, question = stop.step(language())
    if question is None:
        return "", ""
    scenes = step.scenes()
    ask = question.ask.say(question.named_scenes(scenes))
    parts = _asked(ask, _picture(step, scenes), option_texts(question, scenes, language()))
    rule = step.rule.say(scenes) if step.rule else ""
    return parts, " · ".join(filter(None, (_inline(truth_told(question, scenes)), html.escape(rule))))


def _asked(ask: str, picture: str, options: tuple[str, ...] | list[str]) -> str:
    items = "".join(f"<li>▢ {_inline(text)}</li>" for text in lettered(options))
    sure, guess = (html.escape(say(f"teacher.paper.{name}")) for name in ("sure", "guess"))
    line = f'<p class="qv-line">▢ {sure} &emsp; ▢ {guess}</p>'
    return f"{_inline(ask)}</h3>{picture}<ul>{items}</ul>{line}"


def _inline(words: str) -> str:
    """Return a lesson's words, Markdown of one line, as HTML."""
    return re.sub(r"\*\*(.+?)\*\*|`(.+?)`|\*(.+?)\*", r"\1\2\3", html.escape(words).replace("\\", ""))


def _picture(step: LessonStep, scenes: Scenes) -> str:
    """Return the parts of a step's picture that are seen before its answer."""
    from quantviz.analysis.study import Study
    from quantviz.figures.panels_data import as_picture, result_panels
    from quantviz.figures.paper import panels_on_paper, ruler_on_paper
    from quantviz.figures.ruler_data import ruler_of_cell

    scene = scenes[HERE]
    shown = step.show - step.hidden
    parts = ""
    panels = [name for name in PANEL_PARTS if name in shown]
    if panels:
        data = result_panels(scene.result, view=scene.state.view).only(panels)
        if scene.state.source.picture:
            data = as_picture(data, symmetric=scene.state.scheme.mode == "symmetric")
        parts += panels_on_paper(data, {name: say(f"panels.field.{name}") for name in panels})
    if "number_line" in shown and step.ruler != "slider" and scene.why.cause != "left_out":
        study = Study.of_result(scene.result)
        parts += ruler_on_paper(ruler_of_cell(study, scene.why))
    return parts


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
    app = app_for_all()
    room = show_desk()
    choices, link = st.columns([7, 5], gap="medium")
    with choices, st.container(key="teacher_choices", gap="medium"):
        if room and room.plan != choice.plan:
            st.caption(say("teacher.plan.running"))
        show_plan(choice.plan, app)
        with st.expander(say("teacher.link_title"), key="teacher_link"):
            _show_choices(choice)
    with link, _group("link", "room" if room else "link"):
        if room:
            show_ways(room, app)
            show_code(write_address(app, "join", {"c": room.code}), write_address(app, "join", {}))
        else:
            _show_link(choice, app)
        show_print()
    show_paper(room.plan if room else choice.plan)
    if not room:
        find_room()
    OWNER.show_link(more=session.state().written() if choice.opens == "lab" else {})


def _show_choices(choice: TeacherState) -> None:
    """Show the choices of a single link, and what such links and a show of hands can do."""
    with _group("what"):
        _show_what(choice)
    with _group("sees"):
        if choice.opens == "lesson":
            _show_answers(choice)
        else:
            _show_sees(choice)
        names = {"": say("teacher.own_language")}
        names |= {name: say(f"languages.{name}") for name in languages()}
        _segments("language", names, choice.language or "", lambda name: OWNER.change(language=name or None))
    with st.container(key="teacher_words", gap="small"):
        st.markdown(f"## {say('teacher.limits_title')}\n\n{say('teacher.limits')}")
        st.markdown(f"## {say('teacher.hands_title')}\n\n{say('teacher.hands')}")


@contextlib.contextmanager
def _group(name: str, title: str = "") -> Iterator[None]:
    """Show the controls that follow under the name of their group, or another title."""
    with st.container(key=f"teacher_group_{name}", gap="small"):
        st.markdown(f"## {say(f'teacher.groups_of_choices.{title or name}')}")
        yield


def _show_what(choice: TeacherState) -> None:
    names = {name: say(f"teacher.open_{name}") for name in OPENS}
    _segments("opens", names, choice.opens, lambda name: OWNER.change(opens=name), look="qv-unnamed")
    if choice.opens == "scenario":
        choose_among(
            "teacher_scenario",
            "list",
            say("sidebar.scenario"),
            {name: say(f"scenarios.{name}.name") for name in SCENARIOS},
            choice.scenario,
            lambda scenario: OWNER.change(scenario=scenario),
            look="qv-unnamed",
        )
    elif choice.opens == "lesson":
        _show_lessons(choice)


def _show_lessons(choice: TeacherState) -> None:
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
        lambda lesson: OWNER.change(lesson=lesson, step=1),
    )
    step = choice_control(
        "teacher_step",
        "list",
        say("teacher.step"),
        {number: f"{number} · {step.title}" for number, step in enumerate(steps, 1)},
        min(choice.step, len(steps)),
        lambda step: OWNER.change(step=step),
    )
    show_controls("teacher_steps", OWNER, one, step, look="qv-pairs")


def _show_answers(choice: TeacherState) -> None:
    _segments(
        "answers",
        {name: say(f"teacher.{name}") for name in ANSWERS},
        choice.room.answers,
        lambda answers: change_room(answers=answers),
        help=say("teacher.answers_help"),
    )


def _show_sees(choice: TeacherState) -> None:
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


def _seen(choice: TeacherState) -> str:
    """Return which parts of the Lab its readers see: all, all but the results, or those chosen one by one."""
    if choice.by_parts or choice.room.locked:
        return "parts"
    return {frozenset(): "everything", RESULTS: "predict"}.get(choice.room.hidden, "parts")


def _see(chosen: str) -> None:
    OWNER.change(by_parts=chosen == "parts")
    if chosen != "parts":
        change_room(hidden=RESULTS if chosen == "predict" else frozenset(), locked=frozenset())


def part_name(part: str) -> str:
    """Return a part of `HIDEABLE` for people."""
    if part == "recipes":
        return say("recipes.question")
    return say(f"{part}.name") if part in TILE_PARTS else say(f"teacher.parts.{part}")


def _show_parts(choice: TeacherState) -> None:
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


def _state(choice: TeacherState) -> LabState:
    state = opening(choice.scenario) if choice.opens == "scenario" else session.state()
    # The end of the error's colours reveals the largest error.
    return state.replace(held=None) if "error" in choice.room.hidden else state


def link(choice: TeacherState, app: str) -> str:
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


def _show_link(choice: TeacherState, app: str) -> None:
    problem: QuantVizError | None = session.state().source.link_problem() if choice.opens == "lab" else None
    if problem:
        st.warning(sentences(say_error(problem), say("teacher.no_link")))
        return
    opened = link(choice, app)
    show_code(opened)
    with st.container(key="teacher_actions", horizontal=True, gap="small", vertical_alignment="center"):
        copy_button("copy_class_link", say("lab.share"), say("lab.copied"), text=opened)
        show_button(say("teacher.project"), "teacher_project", _project, help=say("teacher.project_help"))
        st.link_button(say("teacher.preview"), opened, help=say("teacher.preview_help"))
    st.code(opened, language=None, wrap_lines=True)


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
