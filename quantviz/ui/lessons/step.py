"""A step of a lesson: words, a picture, a question to commit to, and then the answer.

Hidden parts are not sent to the browser before the last answer of their step.
"""

from __future__ import annotations

import html
import string
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import streamlit as st
from markupsafe import Markup

from quantviz.errors import QuantVizError
from quantviz.figures.ruler_detail import RulerDetail
from quantviz.lab.picture_parts import PANEL_PARTS
from quantviz.live.hand_words import Looks
from quantviz.teaching.lessons import known_by, sound_lessons
from quantviz.teaching.lessons.answer_words import answer_words, lettered, made, option_texts
from quantviz.teaching.lessons.code import step_code
from quantviz.teaching.lessons.dials import DialState
from quantviz.teaching.lessons.formulas import HAND, HERE, SOLUTION, Formula, Scene
from quantviz.teaching.lessons.model import (
    CellQuestion,
    ChoiceQuestion,
    DirectionQuestion,
    DragQuestion,
    Lesson,
    LessonStep,
    NumberQuestion,
    OrderQuestion,
    Question,
)
from quantviz.teaching.lessons.plan import FIRST_HOUR
from quantviz.ui.components import class_votes
from quantviz.ui.components.class_wall import Running, put_on_ruler, running
from quantviz.ui.components.controls import as_html, show_controls
from quantviz.ui.components.lesson_place import LessonPlace, go, go_on_from, show_focus
from quantviz.ui.components.page_header import write_title
from quantviz.ui.components.small_parts import (
    show_button,
    show_python,
    show_save_page,
    show_words_with_terms,
    term,
)
from quantviz.ui.lessons import hands
from quantviz.ui.lessons.answering import (
    answer_key,
    comes_after_hand,
    offer_votes,
    open_question,
    show_questions,
    show_rule,
    truth_told,
    with_votes,
)
from quantviz.ui.lessons.moving import TOLD, bell_of, curve_in_hand, ruler_of_step, scene_in_hand
from quantviz.ui.lessons.now import ATTEMPTS, Now
from quantviz.ui.lessons.picture import panels_of_step, selected_cell, show_looks, show_picture, state_shown
from quantviz.ui.lessons.progress import answers
from quantviz.ui.lessons.second_look import (
    due_now,
    number_of,
    show_once_more,
    show_second_look,
    show_why_asked,
    way_back,
    words_back,
)
from quantviz.ui.lessons.wall import asked_on_wall
from quantviz.ui.shell import session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.classroom import classroom
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.words import language, say, say_error, theme

if TYPE_CHECKING:
    from quantviz.live.standalone import LivePage


#: Mistakes that are named below the dots.
_NAMED = 2


def show_class(now: Now, question: Question) -> None:
    """Show the answers of the class, and once it is told the right one in words."""
    there = cast(Running, running())
    match question:
        case ChoiceQuestion() | DirectionQuestion():
            names = hands.hand_names(question, now.scenes, now.revealed)
            texts = lettered(text for text, _ in names)
            class_votes.show_bars(zip(texts, (right for _, right in names), strict=True), there)
        case NumberQuestion():
            _show_numbers(now, question, there)
        case DragQuestion():
            _show_drags(now, question, there)
        case CellQuestion():
            shape = now.scenes[HERE].state.view.matrix(now.scenes[HERE].state.source.shape)
            right = [(cell[0], cell[-1]) for cell in question.truth(now.scenes)] if now.revealed else []
            class_votes.show_cells(there, shape, right)
        case OrderQuestion():
            most = sorted(there.rows, key=lambda row: -row[1] - row[2])
            class_votes.show_board(
                there, {row[0]: answer_words(question, row[0], now.scenes, language()) for row in most}
            )
    if now.revealed and isinstance(question, CellQuestion | OrderQuestion):
        st.markdown(say("lessons.the_answer", truth=truth_told(question, now.scenes).rstrip(".。")))


def _show_numbers(now: Now, question: NumberQuestion, there: Running) -> None:
    at = {row[0]: float(cast(float, row[0])) for row in there.rows + there.before}
    truth, named, places = None, [], {}
    said = []
    if now.revealed:
        mistakes = [each for each in question.mistakes if isinstance(each.formula, Formula)]
        places = dict(zip(string.ascii_lowercase, question.mistaken(now.scenes), strict=False))
        made_by = {
            sign: sum(row[1] + row[2] for row in there.rows if question.within.accepts(at[row[0]], place))
            for sign, place in places.items()
        }
        named = sorted(filter(made_by.get, places), key=lambda sign: -made_by[sign])[:_NAMED]
        truth = question.truth(now.scenes)
        of_sign = dict(zip(places, mistakes, strict=True))
        said = [(sign, made_by[sign], of_sign[sign].says.say(now.scenes)) for sign in named]
    class_votes.show_places(there, at, truth, {sign: places[sign] for sign in named})
    for sign, count, words in said:
        st.html(f'<p class="qv-mistake"><b>{sign}</b> {count} · {html.escape(words)}</p>')


def mark_drags(now: Now) -> None:
    """Put the answers that were dragged on the ruler of the step's picture, once the class may see them."""
    at = asked_on_wall(now)
    question = now.step.questions[at] if at is not None and running() else None
    if isinstance(question, DragQuestion) and (name := _on_ruler(question)):
        places, truth = _dragged(now, question, name)
        put_on_ruler(places, question.marked_on, truth)


def _on_ruler(question: DragQuestion) -> str:
    """Return the quantity of a drag that has its place on the ruler; "" for a zero point or a scale."""
    return next((name for name in ("hi", "value", "bits", "size") if name in question.solution), "")


def _dragged(now: Now, question: DragQuestion, name: str) -> tuple[dict[Any, float], float | None]:
    """Return the place of each dragged answer by a quantity, and the true one once it is revealed."""
    start = now.scenes[HERE].state
    places = class_votes.dragged_places(cast(Running, running()), start, lambda scene: made(name, scene))
    return places, made(name, question.named_scenes(now.scenes)[SOLUTION]) if now.revealed else None


def _show_drags(now: Now, question: DragQuestion, there: Running) -> None:
    """Show drags that have no place on the ruler as dots on an axis; else how many were right, once told."""
    if not _on_ruler(question):
        places, truth = _dragged(now, question, next(iter(question.solution)))
        class_votes.show_places(there, places, truth)
        return
    if now.revealed and there.rows:
        right = sum(row[1] + row[2] for row in there.rows if _is_right(now, question, row[0]))
        words = say("lessons.class_right", right=right, answered=there.rounds[-1].answered)
        st.html(f'<p class="qv-mistake">{html.escape(words)}</p>')
    class_votes.show_few(there)


def _is_right(now: Now, question: DragQuestion, answer: Any) -> bool:
    try:
        return question.judge(str(answer), now.scenes).right
    except (QuantVizError, ValueError):  # a forged text
        return False


def offer_page(now: Now) -> None:
    """Show a button that saves a step as a page; its picture is a tensor's, no dial's."""
    file = f"{now.place.lesson}_{now.place.step + 1}.html"
    show_save_page(page_of(now), file, "lesson_to_page", "lessons.page_help")


def page_of(now: Now) -> LivePage:
    """Return the page of a step whose picture is a tensor's, as long as its questions are open."""
    from quantviz.analysis.study import Study
    from quantviz.live.standalone import LivePage, LiveStep

    start = now.scenes[HERE]
    step = now.step
    # While its questions are open, and what a mark opens is seen.
    shown = step.show - step.hidden.difference(*map(step.opened_by_mark, step.questions))
    panels = [name for name in PANEL_PARTS if name in shown]
    detail = RulerDetail((), bell_of(now) if "bell" in shown else None, step.ruler)
    said = [step.words.say({**now.scenes, HAND: start})]
    for question in step.questions:
        answers = lettered(option_texts(question, now.scenes, language()))
        said.append("\n".join((question.ask.say(now.scenes), *answers)))
    live = LiveStep(
        ruler_of_step(now, detail, bool(panels)),
        curve_in_hand(now, shown),
        step.show & TOLD <= shown and step.ruler != "slider",
        panels_of_step(now, start.state, panels, step.show - shown),
        shown,
        tuple(Markup(as_html(each)) for each in said),
    )
    study = Study.of_result(start.result)
    title = f"{now.lesson.title} · {step.title}"
    looks = Looks(language(), theme())
    return LivePage(study, title, start.state.cell, looks, bool(panels), step=live)


def show_top(now: Now, words: str) -> None:
    """Show the question, or the step's `words` (HTML in Markdown) where it asks nothing."""
    i = asked_on_wall(now)
    if i is None:
        show_words_with_terms(words)
        return
    with st.container(key=f"lesson_ask_{i}"):
        st.markdown(f"## {now.step.questions[i].ask.say(now.scenes)}")


def show_bottom(now: Now) -> None:
    """Show the answers that hands are raised for, or the control, and the right one once revealed."""
    i = asked_on_wall(now)
    if i is None:
        return
    question = now.step.questions[i]
    if running():
        show_class(now, question)
        return
    if not _is_counted(question) and not now.revealed:
        if now.answers[i] is None:
            open_question(now, i, question)
        return
    _show_bars(_bar_names(question, now), answer_key(now, i))


def show_tell(now: Now) -> None:
    """Show the button that reveals the answer, as long as it is hidden."""
    i = asked_on_wall(now)
    if i is None or now.revealed:
        return
    counted = _is_counted(now.step.questions[i]) or now.complete
    show_button(say("lessons.tell"), "lesson_tell", now.tell, type="primary" if counted else "secondary")


def show_words(now: Now, words: str) -> None:
    """Show a button that opens the step's `words`, and its reasons and rule once the answer is revealed."""
    if not now.step.questions:
        return
    with st.popover(say("lessons.words"), key="lesson_words_open"), st.container(key="lesson_told"):
        show_words_with_terms(words)
        if not now.revealed:
            return
        for question in now.step.questions:
            if question.why:
                st.markdown(question.why.say(question.named_scenes(now.scenes)))
        show_rule(now)


def _is_counted(question: Question) -> bool:
    """Return whether a question lists all its answers, so that hands can be counted before the right one."""
    return isinstance(question, ChoiceQuestion | DirectionQuestion)


def _bar_names(question: Question, now: Now) -> list[tuple[str, bool]]:
    """Return each answer that hands are raised for and whether it is the right one, which is then said in
    full: a line of its own would take its height from the picture.
    """
    names = hands.hand_names(question, now.scenes, now.revealed)
    if not now.revealed or isinstance(question, ChoiceQuestion):
        return names
    truth = "; ".join(truth_told(each, now.scenes).rstrip(".。") for each in now.step.questions)
    return [(truth if right else name, right) for name, right in names]


def _show_bars(names: list[tuple[str, bool]], key: str) -> None:
    """Show each answer as a bar with a box for its hands; the right one is marked once revealed."""
    with st.container(key="lesson_bars"):
        places = [column.container(horizontal=True, gap="small") for column in st.columns(len(names))]
    counts = [0] * len(names)
    bars = []
    for i, ((name, _), place) in enumerate(zip(names, places, strict=True)):
        with place:
            bars.append(st.empty())
            box = hands.box(name, f"{key}_hands_{i}")
            show_controls(f"{box.field}_box", None, box, look="qv-unnamed")
            counts[i] = int(box.value)
    most = sum(counts) or 1
    texts = lettered(name for name, _ in names)
    for text, (_, right), bar, count in zip(texts, names, bars, counts, strict=True):
        mark = " ✓" if right else ""
        bar.html(
            f'<div class="qv-bar{" qv-right" if right else ""}">'
            f'<span style="width: {100 * count / most:.1f}%"></span>'
            f"<p><b>{html.escape(text[0])}</b>{html.escape(text[1:])}{mark}</p></div>"
        )


_SCENES = "lesson_scenes"
_LAB = "pages/lab/playground.py"
_GOLF = "pages/learn/golf.py"
_MODEL = "pages/explore/checkpoints.py"
#: The adder at the bits where its first sums come out wrong.
_ADDER: Mapping[str, str] = {"f": "model:adder", "bits": "3"}


def show_step(place: LessonPlace, lesson: Lesson, words: Any, actions: Any) -> None:
    """Show a step: its title in the places of `show_title_line`, then words, picture and question."""
    warm_up()
    step = lesson.steps[place.step]
    # The number of restarts, in this session or in the kept answers.
    here = (place.lesson, place.step, classroom().room)
    kept = max((a.attempt for a in answers() if (a.lesson, a.step, a.room) == here), default=0)
    restarts = st.session_state.setdefault(ATTEMPTS, {})
    attempt = cast(int, restarts.get(f"{place.lesson}/{place.step}", kept))
    now = with_votes(Now(place, lesson, step, _scenes(place, step, attempt), attempt))
    there = running()
    if there and there.told:
        now.tell()
    _fill_header(now, words, actions)
    projector = classroom().projector
    offer_votes(now)
    sheets = {"one_screen": projector, "after_hand": not projector and comes_after_hand(now)}
    for name in (name for name, wanted in sheets.items() if wanted):
        st.html(Path(__file__).with_name(f"{name}.css"))
    try:
        with st.container(key="lesson_step"):
            with st.container(key="lesson_words"):
                show_why_asked(now)
                said = step.words.say({**now.scenes, HAND: scene_in_hand(now)}, _term)
                if projector:
                    show_top(now, said)
                else:
                    show_words_with_terms(said)
            with st.container(key="lesson_picture"):
                mark_drags(now)
                show_picture(now)
            with st.container(key="lesson_question"):
                if projector:
                    show_bottom(now)
                else:
                    show_questions(now)
            if not there:  # whose pages the lecturer's device turns
                with st.container(key="lesson_below"):
                    _onward(now, said)
                    _below(now)
    except QuantVizError as error:
        # A formula without a value on this tensor must not take the rest of the lessons away.
        st.error(say_error(error))
        _onward(now)


def _term(name: str, words: str) -> str:
    return term(words, say(f"glossary.{name}.meaning"), key=f"term_{name}")


def _scenes(place: LessonPlace, step: LessonStep, attempt: int) -> Mapping[str, Scene]:
    """Return the step's states; those last worked out are kept in the session, for the next click."""
    key = (place, attempt, language())
    kept = st.session_state.get(_SCENES)
    if kept is None or kept[0] != key:
        kept = st.session_state[_SCENES] = (key, step.scenes(attempt))
    return cast("Mapping[str, Scene]", kept[1])


def _fill_header(now: Now, words: Any, actions: Any) -> None:
    """Show the step's title, its place in the lesson, and the way to the list of lessons."""
    place = say(
        "lessons.place",
        number=number_of(now.place),
        lesson=now.lesson.title,
        step=now.place.step + 1,
        steps=len(now.lesson.steps),
    )
    write_title(words, now.step.title, place, now.id)
    with actions:
        show_button(say("lessons.all"), "lesson_all", go, None)
    show_focus(f"{now.id}/{now.attempt}")


def _onward(now: Now, words: str = "") -> None:
    """Show the buttons for back and next; on a projector also for the answer and the `words`."""
    projector = classroom().projector
    ids = list(sound_lessons(language()))
    at = ids.index(cast(str, now.place.lesson))
    last = now.place.step + 1 == len(now.lesson.steps)
    following = ids[at + 1] if at + 1 < len(ids) else None
    with st.container(key="lesson_onward", horizontal=True, gap="small"):
        before = now.place.lesson, now.place.step - 1
        show_button(say("lessons.back"), "lesson_back", go, *before, disabled=now.place.step == 0)
        if projector:
            show_tell(now)
        goal = (following, 0) if last else (now.place.lesson, now.place.step + 1)
        if last and following:
            after = "lessons.next_lesson"
        elif last:
            after = "lessons.finish"
        else:
            after = "lessons.next"
        # The next action stands out: the answer while there is one to give, then a question that is due once
        # more.
        done = now.revealed or now.complete
        due = due_now(now) if done and not projector else None
        if due:
            show_once_more(now.place, due, help=say("lessons.second_look.ask_help"))
        back = way_back(now)
        onward = say(after if done else "lessons.skip")
        if back:
            goal = (back.lesson, back.step)
            onward = words_back(back)
        show_button(onward, "lesson_next", go, *goal, type="primary" if done and not due else "tertiary")
        if projector:
            _more(now)
            show_words(now, words)
            show_looks(now)


def _below(now: Now) -> None:
    """Show the further buttons of a revealed step, the remark on the notebooks and the code, or the error of
    one of these: by then the buttons for back and next are there.
    """
    if not now.revealed or classroom().projector:
        return
    try:
        with st.container(key="lesson_more", horizontal=True, gap="small"):
            _more(now)
        if now.place.step + 1 == len(now.lesson.steps):
            show_second_look(now)
            _way_on(now)
        if now.step.note:
            with st.expander(say("lessons.note"), key="lesson_note"):
                show_words_with_terms(now.step.note.say(now.scenes, _term))
        _code(now)
    except QuantVizError as error:
        st.error(say_error(error))


def _more(now: Now) -> None:
    if not now.revealed:
        return
    if now.step.questions:
        show_button(say("lessons.again"), "lesson_again", _again, now, help=say("lessons.again_help"))
    state = state_shown(now)
    if isinstance(state, DialState):
        show_button(say("lessons.open_in_app"), "lesson_to_app", turn_to, *state.series.app(state.at))
        return
    show_button(
        say("lessons.open_in_lab"), "lesson_to_lab", _open_in_lab, now, help=say("lessons.open_in_lab_help")
    )
    if not classroom().projector:
        offer_page(now)


def _way_on(now: Now) -> None:
    """Show the further ways on: from the first lesson an adder, from the end of the first hour course 2, and
    from the last lesson a game.
    """
    readable = sound_lessons(language())
    second = next((name for name, each in readable.items() if each.course == 2), None)
    if second and now.place.lesson == FIRST_HOUR[-1]:
        label = say("lessons.to_course_2", lesson=readable[second].title)
        show_button(label, "lesson_course_2", go, second, type="tertiary")
    if now.place.lesson == next(iter(readable)):
        st.page_link(_MODEL, label=say("lessons.to_adder"), query_params={**_ADDER, "lang": language()})
    if now.place.lesson == list(readable)[-1]:
        st.page_link(_GOLF, label=say("golf.from_lesson"))


def _again(now: Now) -> None:
    st.session_state[ATTEMPTS][now.id] = now.attempt + 1
    go_on_from(f'[data-step="{now.id}"]')


def _open_in_lab(now: Now) -> None:
    state = state_shown(now)
    session.put_from_lesson(
        state.replace(cell=selected_cell(now, state)), cast(str, now.place.lesson), now.place.step
    )
    turn_to(_LAB)


def _code(now: Now) -> None:
    """Show the step as Python, as soon as it can be written in words that have been introduced."""
    state = state_shown(now)
    if isinstance(state, DialState):
        return
    state = state.replace(cell=selected_cell(now, state))
    known = known_by(cast(str, now.place.lesson), now.place.step)
    code = step_code(now.step, now.scenes, state, language(), known)
    if code:
        show_python(say("lessons.code"), "lesson_code", lambda: code)
