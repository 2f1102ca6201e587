"""The lessons page: words, a picture, a question to commit to, and then the answer.

What a question hides is not sent to the browser before the last answer of its step.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.picture_parts import PANEL_PARTS, TILE_PARTS
from quantviz.lab.state import LabState
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.code import step_code
from quantviz.teaching.lessons.formulas import HERE, Scene
from quantviz.teaching.lessons.model import Cell, Lesson, LessonStep, Question
from quantviz.teaching.lessons.progress import Answer, asked, reached
from quantviz.ui.components.cell import show_number_line, show_sentence, show_steps
from quantviz.ui.components.choice import choose
from quantviz.ui.components.code import show_python
from quantviz.ui.components.language_switch import show_language
from quantviz.ui.components.lesson_place import FOCUS, LOOK, MOVED, PLACE, PROBLEMS, Place, go, go_on_from
from quantviz.ui.components.panels import show_panels
from quantviz.ui.components.panels_bridge import clicked_cell
from quantviz.ui.components.scheme_words import scheme_words
from quantviz.ui.lab.tiles import cover_tile, show_tile, tiles
from quantviz.ui.lessons import questions
from quantviz.ui.lessons.progress import (
    answers,
    keep_answer,
    keep_in_browser,
    kept_words,
    show_progress,
    take_from_browser,
    unreadable,
)
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import classroom, parameters
from quantviz.ui.shell.startup import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, number, plain, say, say_error

if TYPE_CHECKING:
    from quantviz.quantization.explanation import Explanation
    from quantviz.quantization.quantizer import QuantResult

#: Parts that explain one cell.
_EXPLAINED = frozenset({"sentence", "number_line", "steps"})
_ATTEMPTS, _CELLS, _SCENES = "lesson_attempts", "lesson_cells", "lesson_scenes"
#: Whether a teacher wants to count hands.
_HANDS = "lesson_hands"
_PANELS = "lesson_panels"
_LAB = "pages/lab/playground.py"
#: Another step begins at its top; the script runs anew where its text is another.
_TO_THE_TOP = (
    """<script data-step="{step}">document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0);</script>"""
)
#: The button that was pressed is gone, and with it the place in the page of who goes by keys. What is to be
#: found may come after the script.
_TO_FOCUS = """<script data-turn="{turn}">
(() => {{
  const until = Date.now() + 4000;
  const find = () => {{
    const found = document.querySelector('{selector}');
    if (!found) return Date.now() < until && setTimeout(find, 50);
    found.tabIndex = -1;
    found.focus();
  }};
  find();
}})();
</script>"""
#: On a narrow screen the list lies over the lesson that was chosen in it; Streamlit closes it after a page's
#: link alone.
_CLOSE_THE_LIST = """<script>
if (!window.__quantvizList) {
  window.__quantvizList = true;
  document.addEventListener("click", (event) => {
    if (window.innerWidth > 768 || !event.target.closest(".st-key-lesson_contents button")) return;
    setTimeout(() => document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click());
  });
}
</script>"""


@dataclass(frozen=True, eq=False)
class Now:
    """The step on the screen."""

    place: Place
    lesson: Lesson
    step: LessonStep
    scenes: Mapping[str, Scene]
    attempt: int

    @property
    def id(self) -> str:
        """What tells this step from every other."""
        return f"{self.place.lesson}/{self.place.step}"

    @property
    def answers(self) -> tuple[Answer | None, ...]:
        """Return the answers to the step's questions at this attempt; none for one that is still open."""
        found = {
            a.question: a
            for a in answers()
            if (a.lesson, a.step, a.attempt) == (self.place.lesson, self.place.step, self.attempt)
        }
        return tuple(found.get(i) for i in range(len(self.step.questions)))

    @property
    def complete(self) -> bool:
        """Whether every question is answered."""
        return None not in self.answers

    @property
    def revealed(self) -> bool:
        """Whether the answers are told."""
        told = classroom().answers
        return not self.step.questions or told == "shown" or (told == "after" and self.complete)

    @property
    def covered(self) -> frozenset[str]:
        """Return the parts of the picture that are not to be seen yet."""
        return frozenset() if self.revealed else self.step.hidden


# ---- the page -----------------------------------------------------------------------------------


def show_page() -> None:
    """The list of lessons, or a step of one."""
    place = _place()
    # First of all: what is clicked next comes with the new address.
    _write_address(place)
    take_from_browser()
    found = lessons(language())
    with st.sidebar:
        _show_contents(found, place)
        st.session_state[_HANDS] = st.toggle(
            say("lessons.hands"), st.session_state.get(_HANDS, False), help=say("lessons.hands_help")
        )
        show_language()
    for wrong in (*session.named(), *st.session_state.get(PROBLEMS, ()), *filter(None, (unreadable(),))):
        st.warning(say_error(wrong))
    lesson = found.get(place.lesson) if place.lesson else None
    name_tab(say("pages.lessons"), lesson.title if isinstance(lesson, Lesson) else "")
    if isinstance(lesson, QuantVizError):
        st.error(say_error(lesson))
    if isinstance(lesson, Lesson) and place.lesson:
        _show_step(place, lesson)
    else:
        _show_list(found)
    keep_in_browser()


def _place() -> Place:
    # A button of ours may be faster than the address.
    navigated = session.navigated() and not st.session_state.get(MOVED)
    st.session_state[MOVED] = False
    if PLACE not in st.session_state or navigated:
        st.session_state[PLACE], st.session_state[PROBLEMS] = _opening(
            st.query_params.get("l"), st.query_params.get("p", "1")
        )
    return cast(Place, st.session_state[PLACE])


def _opening(asked: str | None, step: str) -> tuple[Place, tuple[QuantVizError, ...]]:
    """What the address asks for, and what of it could not be had."""
    found = lessons(language())
    if asked is None:
        return Place(), ()
    if asked not in found:
        return Place(), (QuantVizError("lessons.unknown", got=asked, known=", ".join(found)),)
    lesson = found[asked]
    if isinstance(lesson, QuantVizError):
        return Place(asked), ()
    last = len(lesson.steps)
    shown = min(max(int(step), 1), last) if step.isascii() and step.isdigit() and len(step) < 4 else 1
    return Place(asked, shown - 1), () if step == str(shown) else (
        QuantVizError("lessons.unknown_step", got=step, last=last, shown=shown),
    )


def _show_focus() -> None:
    turn, selector = st.session_state.get(FOCUS, (0, ""))
    # Where nothing was pressed yet, the page begins where the browser begins it.
    st.html(
        _TO_FOCUS.format(turn=turn, selector=selector) if turn else "<span></span>",
        unsafe_allow_javascript=True,
        width="content",
    )


def _write_address(place: Place) -> None:
    wanted = {"l": place.lesson, "p": str(place.step + 1)} if place.lesson else {}
    wanted |= {"lang": language(), **parameters()}
    session.put_address(wanted)


def _show_contents(found: Mapping[str, Lesson | QuantVizError], place: Place) -> None:
    """All lessons, how far each is done, and the whole progress."""
    with st.container(key="lesson_contents", gap=None):
        for i, (name, lesson) in enumerate(found.items(), 1):
            if isinstance(lesson, QuantVizError):
                continue
            done, all_of = reached(answers(), name), asked(lesson)
            mark = "✓ " if all_of and done == all_of else ""
            st.button(
                f"{mark}{i} · {plain(lesson.title)}",
                key=f"go_{name}",
                type="primary" if name == place.lesson else "tertiary",
                on_click=session.safely(go),
                args=(name,),
                width="stretch",
            )
        st.html(_CLOSE_THE_LIST, unsafe_allow_javascript=True)
    show_progress({name: lesson for name, lesson in found.items() if isinstance(lesson, Lesson)})


def _show_list(found: Mapping[str, Lesson | QuantVizError]) -> None:
    with st.container(key="lesson_title"):
        st.markdown(f"# {say('lessons.title')}")
        _show_focus()
    st.markdown(say("lessons.about"))
    st.caption(kept_words())
    with st.container(key="lesson_list"):
        for i, (name, lesson) in enumerate(found.items(), 1):
            with st.container(border=True):
                if isinstance(lesson, QuantVizError):
                    st.error(say_error(lesson))
                    continue
                st.button(
                    f"**{i} · {plain(lesson.title)}**",
                    key=f"open_{name}",
                    type="tertiary",
                    on_click=session.safely(go),
                    args=(name,),
                )
                st.markdown(lesson.summary)
                st.caption(
                    say(
                        "lessons.done",
                        done=reached(answers(), name),
                        asked=asked(lesson),
                        steps=len(lesson.steps),
                    )
                )


# ---- a step -------------------------------------------------------------------------------------


def _show_step(place: Place, lesson: Lesson) -> None:
    warm_up()
    step = lesson.steps[place.step]
    attempt = _attempt(place)
    now = Now(place, lesson, step, _scenes(place, step, attempt), attempt)
    _header(now)
    try:
        with st.container(key="lesson_step"):
            with st.container(key="lesson_words"):
                st.markdown(step.words.say(now.scenes))
            with st.container(key="lesson_picture"):
                _picture(now)
            with st.container(key="lesson_question"):
                _questions(now)
                _onward(now)
    except QuantVizError as error:
        # A formula without a value on this tensor must not take the rest of the lessons away.
        st.error(say_error(error))
        _onward(now)


def _attempt(place: Place) -> int:
    """Return how often the step was asked anew: as in this session, else as its last answers tell, which the
    browser has kept.
    """
    last = max((a.attempt for a in answers() if (a.lesson, a.step) == (place.lesson, place.step)), default=0)
    return cast(int, st.session_state.setdefault(_ATTEMPTS, {}).get(f"{place.lesson}/{place.step}", last))


def _scenes(place: Place, step: LessonStep, attempt: int) -> Mapping[str, Scene]:
    """Return the step's states; those last worked out are kept in the session, for the next click."""
    key = (place, attempt, language())
    kept = st.session_state.get(_SCENES)
    if kept is None or kept[0] != key:
        kept = st.session_state[_SCENES] = (key, step.scenes(attempt))
    return cast("Mapping[str, Scene]", kept[1])


def _header(now: Now) -> None:
    place, lesson = now.place, now.lesson
    ids = list(lessons(language()))
    with st.container(key="lesson_header", horizontal=True, vertical_alignment="center", gap="small"):
        title = say(
            "lessons.place",
            number=ids.index(cast(str, place.lesson)) + 1,
            lesson=lesson.title,
            step=place.step + 1,
            steps=len(lesson.steps),
        )
        st.html(
            f'<h1 class="qv-place" data-step="{now.id}"><span>{html.escape(title)}</span> '
            f"<b>{html.escape(now.step.title)}</b></h1>",
            width="stretch",
        )
        st.html(
            _TO_THE_TOP.format(step=f"{now.id}/{now.attempt}"), unsafe_allow_javascript=True, width="content"
        )
        _show_focus()
        st.button(say("lessons.all"), key="lesson_all", on_click=session.safely(go), args=(None,))


def _onward(now: Now) -> None:
    """Back and next."""
    ids = [name for name, lesson in lessons(language()).items() if isinstance(lesson, Lesson)]
    at, last = ids.index(cast(str, now.place.lesson)), now.place.step + 1 == len(now.lesson.steps)
    following = ids[at + 1] if at + 1 < len(ids) else None
    with st.container(key="lesson_onward", horizontal=True, gap="small"):
        st.button(
            say("lessons.back"),
            key="lesson_back",
            on_click=session.safely(go),
            args=(now.place.lesson, now.place.step - 1),
            disabled=now.place.step == 0,
        )
        goal = (following, 0) if last else (now.place.lesson, now.place.step + 1)
        label = say(
            "lessons.next_lesson" if last and following else "lessons.finish" if last else "lessons.next"
        )
        # What is to be done next stands out: the answer while there is one to give.
        st.button(
            label,
            key="lesson_next",
            type="primary" if now.revealed else "secondary",
            on_click=session.safely(go),
            args=goal,
        )
        if now.revealed:
            if now.step.questions:
                st.button(
                    say("lessons.again"),
                    key="lesson_again",
                    on_click=session.safely(_again),
                    args=(now,),
                    help=say("lessons.again_help"),
                )
            _to_the_lab(now)
    if now.revealed:
        _code(now)


# ---- the picture --------------------------------------------------------------------------------


def _picture(now: Now) -> None:
    look = _look(now)
    scene = now.scenes[look]
    state = scene.state.replace(cell=_cell(now, scene.state))
    r, show, covered = scene.result, now.step.show, now.covered
    from quantviz.quantization.explanation import explain

    if "scheme" in show - covered:
        st.caption(plain(scheme_words(state.scheme, state.source)))
    _tiles(now, r, state)
    panels = [name for name in PANEL_PARTS if name in show]
    if panels:
        _panels(now, r, state, panels)
    if _pointing(now) and _pointed(now):
        _chosen_cell(now, r, cast("tuple[int, ...]", _pointed(now)))
    if _EXPLAINED & (show - covered):
        _why(explain(r, state.cell), r, state, show - covered)
    if "table" in show and now.step.table:
        _table(now)


def _look(now: Now) -> str:
    """Return which of the table's states the panels show."""
    found = st.session_state.get(LOOK)
    return found if isinstance(found, str) and found in now.scenes and "table" not in now.covered else HERE


def _cell(now: Now, state: LabState) -> tuple[int, ...]:
    """Return the cell selected in this step."""
    own = st.session_state.setdefault(_CELLS, {}).get((now.id, now.attempt))
    fits = (
        own is not None
        and len(own) == len(state.source.shape)
        and all(i < n for i, n in zip(own, state.source.shape, strict=True))
    )
    return own if fits and own is not None else state.cell


def _tiles(now: Now, r: QuantResult, state: LabState) -> None:
    wanted = [part for part in TILE_PARTS if part in now.step.show]
    if not wanted:
        return
    from quantviz.analysis.study import Study

    computed = {f"tiles.{tile.key}": tile for tile in tiles(Study.of_result(r), state)}
    with st.container(key="lesson_tiles", horizontal=True, gap="small"):
        for part in wanted:
            if part in now.covered:
                cover_tile(part.removeprefix("tiles."))
            else:
                show_tile(computed[part], line="tile_lines" in now.step.show)


def _panels(now: Now, r: QuantResult, state: LabState, panels: list[str]) -> None:
    from quantviz.figures.panels_data import result_panels

    data = result_panels(r, view=state.view).only(
        panels, now.covered | ({"scale"} if "scale" not in now.step.show else set())
    )
    pointing = _pointing(now)
    selected = _pointed(now) if pointing else _framed(now, state)
    bridge = st.container(key="lesson_bridge")
    area = st.container(key=_PANELS)
    show_panels(
        data,
        key=_PANELS,
        bridge_area=bridge,
        area=area,
        tensor_key=f"{now.id} {now.attempt}",
        selected=state.view.seen(selected, state.source.shape) if selected else None,
        on_cell=session.safely(lambda: _clicked(now, state, pointing)),
        first="x" if pointing else None,
    )


def _framed(now: Now, state: LabState) -> tuple[int, ...]:
    """Return the cell that is explained; where none is, and one was asked for, what was answered, and once it
    is told, what is right.
    """
    clicked = (now.id, now.attempt) in st.session_state.get(_CELLS, {})
    if clicked or _EXPLAINED & (now.step.show - now.covered):
        return state.cell
    for question, answer in zip(reversed(now.step.questions), reversed(now.answers), strict=True):
        if isinstance(question, Cell) and answer is not None:
            given, right = cast("tuple[int, ...]", tuple(answer.given)), question.truth(now.scenes)
            return given if given in right or not now.revealed else min(right)
    return state.cell


def _pointing(now: Now) -> bool:
    """Return whether a cell is being asked for."""
    asks = next(
        (
            question
            for question, answer in zip(now.step.questions, now.answers, strict=True)
            if answer is None
        ),
        None,
    )
    return isinstance(asks, Cell) and not now.revealed


def _chosen_cell(now: Now, r: QuantResult, place: tuple[int, ...]) -> None:
    """The numbers of the cell pointed at, as far as they may be told, with more digits than the picture has
    room for.
    """
    told = [name for name in PANEL_PARTS if name in now.step.show - now.covered]
    numbers = ", ".join(
        f"{say(f'panels.field.{name}')} = {number(float(getattr(r, name)[place]), 6)}" for name in told
    )
    st.caption(
        plain(say("app.labelled", name=say("lessons.cell", row=place[0], col=place[1]), value=numbers))
    )


def _clicked(now: Now, state: LabState, pointing: bool) -> None:
    """A cell was clicked: it is the answer where one is asked for, else the one that is explained."""
    cell = clicked_cell(f"{_PANELS}_bridge")
    if not cell:
        return
    if pointing:
        key = _answer_key(now, now.answers.index(None))
        for axis, place in zip(("row", "col"), cell, strict=True):
            st.session_state[f"{key}_{axis}"] = place
        session.forgive()
    else:
        st.session_state.setdefault(_CELLS, {})[(now.id, now.attempt)] = state.view.index(*cell)


def _pointed(now: Now) -> tuple[int, ...] | None:
    key = _answer_key(now, now.answers.index(None))
    place = tuple(st.session_state.get(f"{key}_{axis}") for axis in ("row", "col"))
    return None if None in place else cast("tuple[int, ...]", place)


def _why(why: Explanation, r: QuantResult, state: LabState, show: frozenset[str]) -> None:
    if "sentence" in show:
        show_sentence(why, state.source)
    if "number_line" in show:
        show_number_line(why, r.qparams)
    if "steps" in show:
        show_steps(why)


def _table(now: Now) -> None:
    """States one below the other; each can be looked at in the panels."""
    table = now.step.table
    assert table
    if "table" in now.covered:
        st.caption(say("lessons.table_later"))
        return
    head = "".join(
        f"<th>{html.escape(name)}</th>" for name in ("", *(heading for heading, _ in table.columns))
    )
    rows = []
    for words, state in table.rows:
        own = {**now.scenes, HERE: now.scenes[state]}
        cells = "".join(f"<td>{number(float(formula.value(own)), 4)}</td>" for _, formula in table.columns)
        rows.append(f"<tr><td>{html.escape(words.say(now.scenes))}</td>{cells}</tr>")
    st.html(
        f'<div class="qv-steps qv-table"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    states = {state: words.say(now.scenes) for words, state in table.rows}
    if len(states) > 1 and now.step.show & set(PANEL_PARTS):
        choose(
            st.pills,
            say("lessons.look"),
            list(states),
            key=session.show(f"look_{now.id}", _look(now) if _look(now) in states else None),
            format_func=states.__getitem__,
            on_change=session.safely(
                lambda: st.session_state.__setitem__(LOOK, st.session_state[f"look_{now.id}"] or HERE)
            ),
        )


# ---- questions ----------------------------------------------------------------------------------


def _answer_key(now: Now, i: int) -> str:
    return f"answer_{now.place.lesson}_{now.place.step}_{i}_{now.attempt}"


def _told_key(now: Now, i: int) -> str:
    return f"told_{_answer_key(now, i)}"


def _questions(now: Now) -> None:
    for i, (question, answer) in enumerate(zip(now.step.questions, now.answers, strict=True)):
        with st.container(key=f"lesson_ask_{i}"):
            st.markdown(f"## {question.ask.say(now.scenes)}")
            if answer is None and classroom().answers != "shown":
                _open_question(now, i, question)
                _hands(now, i, question)
                break  # one after the other: first the direction, then the size
            with st.container(key=_told_key(now, i)):
                _answered(now, i, question, answer)
            _hands(now, i, question)
        if answer is not None and not now.complete:
            st.caption(say("lessons.after_all"))
    if now.step.questions and now.revealed:
        if now.step.rule:
            st.html(
                f'<p class="qv-rule"><b>{html.escape(say("lessons.rule"))}</b> '
                f"{html.escape(now.step.rule.say(now.scenes))}</p>"
            )
    elif now.step.questions and now.complete:
        st.info(say("lessons.withheld"))


def _open_question(now: Now, i: int, question: Question) -> None:
    key = _answer_key(now, i)
    questions.ask(question, now.scenes, key)
    questions.complaint(key)
    st.caption(say("lessons.how_sure"))
    with st.container(key="lesson_commit", horizontal=True, gap="small"):
        for sure in (True, False):
            st.button(
                say("lessons.sure" if sure else "lessons.guess"),
                key=f"commit_{'sure' if sure else 'guess'}",
                type="primary",
                on_click=session.safely(_commit),
                args=(now, i, question, sure),
            )


def _commit(now: Now, i: int, question: Question, sure: bool) -> None:
    key = _answer_key(now, i)
    with session.complaining(key):
        answer = questions.given(question, key)
        if answer is None:
            raise QuantVizError(f"lessons.no_answer.{question.kind}")
        keep_answer(Answer(cast(str, now.place.lesson), now.place.step, i, now.attempt, answer, sure))
        go_on_from(f".st-key-{_told_key(now, i)}")
        session.forgive()


def _hands(now: Now, i: int, question: Question) -> None:
    """Boxes for counting hands, where a teacher wants them."""
    if classroom().projector or st.session_state.get(_HANDS):
        questions.show_hands(question, now.scenes, _answer_key(now, i), now.revealed)


def _answered(now: Now, i: int, question: Question, answer: Answer | None) -> None:
    """What was answered, and, once the answers are told, what became of it."""
    verdict = question.judge(answer.given, now.scenes) if answer is not None and now.revealed else None
    if answer is not None and not (verdict and verdict.right):
        words = questions.told(question, answer.given, now.scenes)
        st.markdown(
            say(
                "lessons.you_said",
                answer=words,
                sure=say("lessons.was_sure" if answer.sure else "lessons.was_guess"),
            )
        )
    if not now.revealed:
        return
    truth = questions.truth_told(question, now.scenes).rstrip(".。")
    if answer is None or verdict is None:
        st.info(say("lessons.the_answer", truth=truth))
    elif verdict.right:
        st.success(
            say("lessons.right", truth=truth)
            + (" " + say("lessons.good_guess") if question.why and not answer.sure else "")
        )
    else:
        # What was given is spoken of before the answer, or it would be taken for it.
        said = [
            say("lessons.wrong"),
            verdict.diagnosis or say("lessons.no_diagnosis"),
            say("lessons.the_answer", truth=truth),
        ]
        st.error(" ".join([*said, say("lessons.was_too_sure")] if answer.sure else said))
    if question.why:
        st.markdown(question.why.say(now.scenes))


def _again(now: Now) -> None:
    st.session_state[_ATTEMPTS][now.id] = now.attempt + 1
    go_on_from(f'[data-step="{now.id}"]')


def _to_the_lab(now: Now) -> None:
    if st.button(say("lessons.open_in_lab"), key="lesson_to_lab", help=say("lessons.open_in_lab_help")):
        state = now.scenes[_look(now)].state
        session.put_from_lesson(
            state.replace(cell=_cell(now, state)), cast(str, now.place.lesson), now.place.step
        )
        st.switch_page(st.Page(_LAB, url_path="lab"))


def _code(now: Now) -> None:
    state = now.scenes[_look(now)].state
    show_python(
        say("lessons.code"),
        "lesson_code",
        lambda: step_code(now.step, now.scenes, state.replace(cell=_cell(now, state)), language()),
    )
