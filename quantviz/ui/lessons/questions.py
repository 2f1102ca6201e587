"""A question's controls and the words for its answer, by its kind. A kind's control is added here."""

from __future__ import annotations

import html
from typing import Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.typed_numbers import LONGEST, read_number
from quantviz.teaching.lessons.answer_words import answer_words, drag_words, lettered, option_texts
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
from quantviz.ui.components.controls import hold_choice, hold_text, place_controls, show_controls
from quantviz.ui.shell import errors
from quantviz.ui.shell.words import language, number, say, say_error


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


def begin_again(question: Question, key: str) -> None:
    """Make the control called `key` ready for a second try: an order is chosen anew, from nothing."""
    if isinstance(question, OrderQuestion):
        st.session_state[key] = []


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


def ask_for_mark(question: DragQuestion) -> None:
    """Ask for a mark on the ruler, before anything that a drag is made with is seen."""
    with st.container(key="lesson_blind"):
        where = "axis" if question.marked_on == "axis" else "slider"
        st.markdown(say(f"lessons.mark_{where}"))


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
