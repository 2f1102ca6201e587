"""The questions of a step: shown one after the other, answered, and judged once the answers are revealed."""

from __future__ import annotations

import html
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.typed_numbers import LONGEST, read_number
from quantviz.teaching.lessons.answer_words import (
    answer_words,
    as_vote,
    drag_words,
    lettered,
    of_vote,
    option_texts,
)
from quantviz.teaching.lessons.drags import drag_answer
from quantviz.teaching.lessons.formulas import HERE, Scenes
from quantviz.teaching.lessons.model import (
    DIRECTIONS,
    CellQuestion,
    ChoiceQuestion,
    DirectionQuestion,
    DragQuestion,
    NumberQuestion,
    OrderQuestion,
    Question,
)
from quantviz.teaching.lessons.progress import LearnerAnswer
from quantviz.ui.components import in_room
from quantviz.ui.components.controls import Control, hold_choice, hold_text, place_controls, show_controls
from quantviz.ui.components.lesson_place import go_on_from
from quantviz.ui.lessons import hands
from quantviz.ui.lessons.moving import has_moved, in_hand, scene_in_hand
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.progress import keep_answer, refused
from quantviz.ui.shell import errors
from quantviz.ui.shell.classroom import classroom
from quantviz.ui.shell.words import language, number, say, say_error, sentences


def given(question: Question, key: str) -> Any:
    """Return the answer in the control `key`, None where it is empty; `QuantVizError` if unreadable."""
    value = st.session_state.get(key)
    if isinstance(question, NumberQuestion):
        return read_number(value, question.unit) if value and value.strip() else None
    if isinstance(question, CellQuestion):
        places = [st.session_state.get(f"{key}_{axis}") for axis in ("row", "col")]
        return None if None in places else tuple(places)
    if isinstance(question, OrderQuestion):
        return tuple(value) if value and len(value) == len(question.items) else None
    return value


def truth_told(question: Question, scenes: Scenes) -> str:
    """Return the true answer in words."""
    if isinstance(question, DirectionQuestion):
        numbers = {
            name: number(formula.value(scenes))
            for name, formula in (("before", question.before), ("after", question.after))
        }
        return say(f"lessons.truth_{question.truth(scenes)}", **numbers)
    if isinstance(question, CellQuestion):
        return say("lessons.or").join(
            answer_words(question, place, scenes, language()) for place in sorted(question.truth(scenes))
        )
    if isinstance(question, OrderQuestion):
        values = [question.items[i].value.value(scenes) for i in question.truth(scenes)]
        names = [question.items[i].text.say(scenes) for i in question.truth(scenes)]
        return " < ".join(f"{name} ({number(value)})" for name, value in zip(names, values, strict=True))
    if isinstance(question, DragQuestion):
        return drag_words(question.truth(scenes), question.solution, scenes[HERE].state.cell, language())
    return answer_words(question, question.truth(scenes), scenes, language())


# ---- controls -----------------------------------------------------------------------------------


def ask(question: Question, scenes: Scenes, key: str) -> None:
    """Show the control in which the answer to a question is given; its value is kept under `key`."""
    texts = dict(enumerate(option_texts(question, scenes, language())))
    match question:
        case DragQuestion():
            st.caption(question.tolerance.say(question.named_scenes(scenes)))
        case DirectionQuestion():
            names = dict(zip(DIRECTIONS, lettered(texts.values()), strict=True))
            hold_choice(key, "row", say("lessons.your_answer"), names, look="qv-unnamed")
        case NumberQuestion():
            label = say("lessons.your_number")
            if question.unit:
                label = say("lessons.your_number_in", unit=question.unit)
            hold_text(key, label, LONGEST, example=say("lessons.number_example"))
        case CellQuestion():
            st.caption(say("lessons.click_a_cell"))
            names = {f"{key}_row": say("cell.row"), f"{key}_col": say("cell.column")}
            shape = scenes[HERE].state.source.shape
            fields = tuple(names)

            def take(axis: int, to: int) -> None:
                st.session_state[fields[axis]] = to

            controls = place_controls(names, map(st.session_state.get, fields), shape, take)
            show_controls("cell_answer", None, *controls)
        case ChoiceQuestion():
            options = dict(enumerate(lettered(texts.values())))
            hold_choice(key, "row", say("lessons.your_answer"), options, look="qv-unnamed qv-below")
        case OrderQuestion():
            # A list that opens would lie over the button that commits.
            chosen = hold_choice(key, "many", say("lessons.your_order"), texts)
            so_far = " < ".join(texts[i] for i in chosen)
            st.caption(so_far or say("lessons.order_smallest"))


def show_on_paper(question: Question, scenes: Scenes) -> None:
    """Show the choices as they stand on paper. On a screen they are not seen: they keep the room."""
    texts = option_texts(question, scenes, language())
    items = "".join(f"<div><span>{html.escape(text)}</span></div>" for text in texts)
    look = "qv-below" if isinstance(question, ChoiceQuestion) else ""
    kind = "many" if isinstance(question, OrderQuestion) else "row"
    st.html(
        f'<div class="qv-room-{question.kind} qv-controls {look}"><div class="qv-control" data-kind="{kind}">'
        f'<div class="qv-segments">{items}</div></div></div>'
    )


# ---- pictures of a wrong answer ----------------------------------------------------------------------


def show_drawn(question: Question, answer: Any, scenes: Scenes) -> None:
    """Draw a wrong order as bars; other answers are drawn on the ruler or in the picture."""
    if isinstance(question, OrderQuestion):
        values = [question.items[i].value.value(scenes) for i in answer]
        most = max(map(abs, values)) or 1.0
        bars = [
            f'<div><span style="width: {100 * abs(value) / most:.1f}%"></span>'
            f"<b>{html.escape(question.items[i].text.say(scenes))}</b></div>"
            for i, value in zip(answer, values, strict=True)
        ]
        st.html(f'<div class="qv-bars">{"".join(bars)}</div>')


def refusal(key: str) -> str:
    """Return the reason why the answer in the control called `key` was not taken; "" where it was."""
    problem: QuantVizError | None = errors.input_errors().get(key)
    return say_error(problem) if problem else ""


#: Whether a teacher wants to count hands.
HANDS = "lesson_hands"


def answer_key(now: Now, i: int) -> str:
    return f"answer_{now.place.lesson}_{now.place.step}_{i}_{now.attempt}"


def _told_key(now: Now, i: int) -> str:
    return f"told_{answer_key(now, i)}"


def show_questions(now: Now) -> None:
    if comes_after_hand(now) and not (now.revealed or has_moved(now)):
        _show_room(now)
        return
    for i, (question, answer) in enumerate(zip(now.step.questions, now.answers, strict=True)):
        with st.container(key=f"lesson_ask_{i}"):
            st.markdown(f"## {question.ask.say(now.scenes)}")
            if answer is None and in_room.answers(now.place.lesson, now.place.step) != "shown":
                open_question(now, i, question)
                _hands(now, i, question)
                break  # one after the other: first the direction, then the size
            with st.container(key=_told_key(now, i)):
                _answered(now, i, question, answer)
            _hands(now, i, question)
        if answer is not None and not now.complete:
            st.caption(say("lessons.after_all"))
    if now.revealed:
        show_rule(now)
    elif now.step.questions and now.complete:
        kept = "withheld_not_kept" if refused() else "withheld"
        st.info(say("lessons.withheld_in_room" if classroom().room else f"lessons.{kept}"))


def show_rule(now: Now) -> None:
    if now.step.rule:
        words = html.escape(now.step.rule.say(now.scenes))
        st.html(f'<p class="qv-rule"><b>{html.escape(say("lessons.rule"))}</b> {words}</p>')


def _show_room(now: Now) -> None:
    """Show the request to move something first, and keep the room of the questions after it. On paper, where
    nothing can be moved, they are shown at once.
    """
    with st.container(key="lesson_room"):
        with st.container(key="lesson_move_first"):
            st.info(say("lessons.move_first", move=say_error(_ask_to_move(now, now.step.questions[0]))))
        with st.container(key="lesson_on_paper"):
            for question in now.step.questions:
                st.markdown(f"## {question.ask.say(now.scenes)}")
                show_on_paper(question, now.scenes)


def comes_after_hand(now: Now) -> bool:
    """Return whether the questions appear once something was moved: a drag is made by moving.

    On a phone these stand below the ruler, all others above it. A class is asked at once, as on its wall.
    """
    first = next(iter(now.step.questions), None)
    if first is None or in_room.round_of(now.place.lesson, now.place.step, first.id) is not None:
        return False
    return bool(now.step.move) and not isinstance(first, DragQuestion)


def open_question(now: Now, i: int, question: Question) -> None:
    """Show the control in which a question is answered, and the buttons that commit to it."""
    key = answer_key(now, i)
    tries = now.tries[i]
    if now.is_blind(i):
        assert isinstance(question, DragQuestion)
        with st.container(key="lesson_blind"):
            where = "axis" if question.marked_on == "axis" else "slider"
            st.markdown(say(f"lessons.mark_{where}"))
        _show_refusal(key)
        return
    on_wall = classroom().projector and tries
    if on_wall:
        # One line: more would take its height from the picture.
        with st.container(key=_told_key(now, i)):
            st.markdown(refusal(key) or _first_try(now, question, tries[-1], short=True))
    elif tries:
        with st.container(key=_told_key(now, i)):
            _you_said(now, question, tries[-1])
            if not now.once:
                st.warning(_first_try(now, question, tries[-1]))
    elif now.mark(i) is not None:
        st.caption(say("lessons.marked"))
    if not (on_wall and isinstance(question, DragQuestion)):
        ask(question, now.scenes, key)
    if not on_wall:
        _show_refusal(key)
    # Two buttons alike: the learner chooses how sure they are, and no choice is the default.
    controls = []
    for name, sure in (("commit", True), ("commit_guess", False)):
        commit = partial(_commit, now, i, question, sure)
        controls.append(Control(name, "button", say(f"lessons.{name}"), take=commit))
        if classroom().projector:
            # No answers to count before the right one: the room says how sure it is of its own.
            controls.append(hands.box(say(f"lessons.{name}"), f"{key}_sure_{int(sure)}"))
    show_controls("lesson_commit", None, *controls, look="qv-primary qv-unnamed")


def with_votes(now: Now) -> Now:
    """Return the step with the answer that the phone has sent to its room, where the session lost it."""
    voted = in_room.voted()
    for question in now.step.questions:
        if voted and in_room.round_of(now.place.lesson, now.place.step, question.id) is not None:
            tried, vote, sure = voted
            given = of_vote(question, vote)
            if not now.attempt and question.takes(given, now.scenes):
                place = (cast(str, now.place.lesson), now.place.step, question.id, now.attempt)
                keep_answer(LearnerAnswer(*place, given, sure, tried, room=classroom().room))
                return replace(now)
    return now


def offer_votes(now: Now) -> None:
    """Have a room's phone send what is answered here to the question of the class's stop."""
    for i, question in enumerate(now.step.questions):
        round = in_room.round_of(now.place.lesson, now.place.step, question.id)
        if round is None or now.attempt:
            continue
        last = now.tries[i][-1] if now.tries[i] else None
        key = answer_key(now, i)
        given = None
        with suppress(QuantVizError):
            given = _given(now, question, key)
        in_room.offer(
            kind=question.kind,
            key=key,
            place=i,
            read=None if given is None else as_vote(question, given),
            round=last.tried if last else 0,
            vote={"answer": as_vote(question, last.given), "sure": last.sure} if last else None,
        )


def _show_refusal(key: str) -> None:
    if words := refusal(key):
        st.error(words)


def _you_said(now: Now, question: Question, answer: LearnerAnswer) -> None:
    words = answer_words(question, answer.given, now.scenes, language())
    sure = say("lessons.was_sure" if answer.sure else "lessons.was_guess")
    st.markdown(say("lessons.you_said", answer=words, sure=sure))


def _first_try(now: Now, question: Question, answer: LearnerAnswer, *, short: bool = False) -> str:
    """Return the feedback to a first wrong answer: in `short` without the hint after a diagnosis."""
    verdict = question.judge(answer.given, now.scenes)
    diagnosis = verdict.diagnosis or ""
    hint = question.hint.say(now.scenes) if question.hint else ""
    if verdict.near:
        hint = say(f"lessons.near.{verdict.near}")
    elif short and diagnosis:
        hint = ""
    return sentences(say("lessons.wrong"), diagnosis, hint, say("lessons.once_more"))


def _commit(now: Now, i: int, question: Question, sure: bool, _pressed: str) -> None:
    key = answer_key(now, i)
    with errors.caught_beside(key):
        answer = _given(now, question, key)
        if answer is None:
            moves = {"move": _ask_to_move(now, question)} if isinstance(question, DragQuestion) else {}
            raise QuantVizError(f"lessons.no_answer.{question.kind}", **moves)
        if not now.once and answer in [each.given for each in now.tries[i]]:
            raise QuantVizError("lessons.same_answer")
        place = (cast(str, now.place.lesson), now.place.step, question.id, now.attempt)
        tried = max(len(now.tries[i]), now.round_of(question))
        keep_answer(LearnerAnswer(*place, answer, sure, tried, now.mark(i), classroom().room))
        if isinstance(question, OrderQuestion):
            st.session_state[key] = []  # a second order is chosen from nothing
        go_on_from(f".st-key-{_told_key(now, i)}")
        errors.clear()


def _given(now: Now, question: Question, key: str) -> object:
    """Return the answer in a question's control; None where nothing was chosen, typed or moved yet."""
    if not isinstance(question, DragQuestion):
        return given(question, key)
    # A hand that came back to where it began has an answer too.
    return drag_answer(now.scenes[HERE].state, in_hand(now)) if has_moved(now) else None


def _ask_to_move(now: Now, question: Question) -> QuantVizError:
    return QuantVizError(f"lessons.moves.{now.step.handle_of(question)}")


def _hands(now: Now, i: int, question: Question) -> None:
    if st.session_state.get(HANDS):
        hands.show_hands(question, now.scenes, answer_key(now, i), now.revealed)


def _answered(now: Now, i: int, question: Question, answer: LearnerAnswer | None) -> None:
    """Show the learner's answer, and, once the answers are revealed, the verdict on it."""
    verdict = question.judge(answer.given, now.scenes) if answer is not None and now.revealed else None
    if answer is not None and not (verdict and verdict.right):
        _you_said(now, question, answer)
    if not now.revealed:
        return
    truth = truth_told(question, now.scenes).rstrip(".。")
    if answer is None or verdict is None:
        st.info(say("lessons.the_answer", truth=truth))
    elif verdict.right:
        if isinstance(question, DragQuestion):
            # Within the tolerance other places are right too: this one is the learner's.
            truth = answer_words(question, answer.given, now.scenes, language())
        st.success(
            say("lessons.right_by_finger" if verdict.by_finger else "lessons.right", truth=truth)
            + (" " + say("lessons.good_guess") if question.why and not answer.sure else "")
        )
    else:
        # The learner's answer comes before the right one, or it would be taken for it.
        said = [
            say("lessons.wrong"),
            verdict.diagnosis or say("lessons.no_diagnosis"),
            say("lessons.the_answer", truth=truth),
        ]
        st.error(sentences(*said, say("lessons.was_too_sure") if answer.sure else ""))
        show_drawn(question, answer.given, now.scenes)
    if question.why:
        if _tells_of_the_start(now, question):
            st.caption(say("lessons.as_at_first"))
        st.markdown(question.why.say(question.named_scenes(now.scenes)))


def _tells_of_the_start(now: Now, question: Question) -> bool:
    """Return whether a reason names numbers of the start, where the picture shows others by now."""
    in_hand_now = scene_in_hand(now)
    if in_hand_now is now.scenes[HERE] or isinstance(question, DragQuestion) or not question.why:
        return False
    named = question.named_scenes(now.scenes)
    return question.why.say(named) != question.why.say({**named, HERE: in_hand_now})
