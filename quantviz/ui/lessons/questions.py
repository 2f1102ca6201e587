"""A question's controls and the words for its answer, by its kind. A kind's control is added here."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.state import LabState
from quantviz.lab.typed_numbers import LONGEST, read_number
from quantviz.teaching.lessons.drags import dragged
from quantviz.teaching.lessons.formulas import HERE, Scene, Scenes, quantities
from quantviz.teaching.lessons.model import (
    DIRECTIONS,
    Cell,
    Choice,
    Direction,
    Drag,
    Number,
    Order,
    Question,
)
from quantviz.ui.components.choice import choose
from quantviz.ui.shell import errors
from quantviz.ui.shell.words import number, plain, say, say_error


def ask(question: Question, scenes: Scenes, key: str) -> None:
    """Show the control in which the answer to a question is given; its value is kept under `key`."""
    _ASK[question.kind](question, scenes, key)


def given(question: Question, key: str) -> Any:
    """Return the answer in the control called `key`, None where it is empty; `QuantVizError` for a text that
    cannot be read.
    """
    value = st.session_state.get(key)
    if isinstance(question, Number):
        return read_number(value, question.unit) if value and value.strip() else None
    if isinstance(question, Cell):
        places = [st.session_state.get(f"{key}_{axis}") for axis in ("row", "col")]
        return None if None in places else tuple(places)
    if isinstance(question, Order):
        return tuple(value) if value and len(value) == len(question.items) else None
    return value


def begin_again(question: Question, key: str) -> None:
    """Make the control called `key` ready for a second try: an order is chosen anew, from nothing."""
    if isinstance(question, Order):
        st.session_state[key] = []


def told(question: Question, answer: Any, scenes: Scenes) -> str:
    """Return an answer in words, as Markdown; of a cell question the truth may be several cells."""
    return _TELL[question.kind](question, answer, scenes)


def truth_told(question: Question, scenes: Scenes) -> str:
    """Return the true answer in words."""
    if isinstance(question, Direction):
        numbers = {
            name: number(formula.value(scenes))
            for name, formula in (("before", question.before), ("after", question.after))
        }
        return say(f"lessons.truth_{question.truth(scenes)}", **numbers)
    if isinstance(question, Cell):
        return say("lessons.or").join(
            told(question, place, scenes) for place in sorted(question.truth(scenes))
        )
    if isinstance(question, Order):
        values = [question.items[i].value.value(scenes) for i in question.truth(scenes)]
        names = [question.items[i].text.say(scenes) for i in question.truth(scenes)]
        return " < ".join(f"{name} ({number(value)})" for name, value in zip(names, values, strict=True))
    if isinstance(question, Drag):
        return _made(question.truth(scenes), question, scenes)
    return told(question, question.truth(scenes), scenes)


# ---- controls -----------------------------------------------------------------------------------


def _ask_direction(question: Question, scenes: Scenes, key: str) -> None:
    names = {name: say(f"lessons.directions.{name}") for name in DIRECTIONS}
    choose(
        st.segmented_control,
        say("lessons.your_answer"),
        DIRECTIONS,
        key=key,
        format_func=names.__getitem__,
        label_visibility="collapsed",
    )


def _ask_number(question: Question, scenes: Scenes, key: str) -> None:
    assert isinstance(question, Number)
    label = say("lessons.your_number_in", unit=question.unit) if question.unit else say("lessons.your_number")
    st.text_input(label, key=key, max_chars=LONGEST, placeholder=say("lessons.number_example"))


def _ask_cell(question: Question, scenes: Scenes, key: str) -> None:
    rows, cols = scenes[HERE].state.source.shape
    st.caption(say("lessons.click_a_cell"))
    with st.container(key="cell_answer", horizontal=True, gap="small", wrap=False):
        st.number_input(say("cell.row"), 0, rows - 1, value=None, key=f"{key}_row")
        st.number_input(say("cell.column"), 0, cols - 1, value=None, key=f"{key}_col")


def _ask_choice(question: Question, scenes: Scenes, key: str) -> None:
    assert isinstance(question, Choice)
    texts = [option.text.say(scenes) for option in question.options]
    choose(
        st.radio,
        say("lessons.your_answer"),
        range(len(texts)),
        key=key,
        index=None,
        format_func=texts.__getitem__,
        label_visibility="collapsed",
        width="stretch",
    )


def _ask_order(question: Question, scenes: Scenes, key: str) -> None:
    assert isinstance(question, Order)
    texts = [item.text.say(scenes) for item in question.items]
    # A list that opens would lie over the button that commits.
    chosen = choose(
        st.pills,
        say("lessons.your_order"),
        range(len(texts)),
        key=key,
        format_func=texts.__getitem__,
        selection_mode="multi",
    )
    so_far = " < ".join(texts[i] for i in chosen)
    st.caption(so_far or say("lessons.order_smallest"))


def ask_for_mark(question: Drag) -> None:
    """Ask for a mark on the ruler, before anything that a drag is made with is seen."""
    with st.container(key="lesson_blind"):
        where = "axis" if question.marked_on == "axis" else "slider"
        st.markdown(say(f"lessons.mark_{where}"))


def stand_above_the_picture() -> None:
    """Place the question above the picture on a narrow screen, and a ruler that is moved above the panels."""
    st.html(Path(__file__).with_name("asked_above.css"))


def _ask_drag(question: Question, scenes: Scenes, key: str) -> None:
    assert isinstance(question, Drag)
    st.caption(question.tolerance.say(question.told(scenes)))


_ASK: Mapping[str, Callable[[Question, Scenes, str], None]] = MappingProxyType(
    {
        "drag": _ask_drag,
        "direction": _ask_direction,
        "number": _ask_number,
        "cell": _ask_cell,
        "choice": _ask_choice,
        "order": _ask_order,
    }
)


def show_on_paper(question: Question, scenes: Scenes) -> None:
    """Show the choices as they stand on paper. On a screen they are not seen: they keep the room."""
    if isinstance(question, Choice):
        texts = [option.text.say(scenes) for option in question.options]
    elif isinstance(question, Direction):
        texts = [say(f"lessons.directions.{name}") for name in DIRECTIONS]
    elif isinstance(question, Order):
        texts = [item.text.say(scenes) for item in question.items]
    else:
        texts = []
    items = "".join(f"<li>{html.escape(text)}</li>" for text in texts)
    st.html(f'<ul class="qv-room qv-room-{question.kind}">{items}</ul>')


# ---- answers in words ---------------------------------------------------------------------------


def _tell_number(question: Question, answer: float, scenes: Scenes) -> str:
    assert isinstance(question, Number)
    return f"{number(answer, 5)} {plain(question.unit)}".strip()


def _tell_choice(question: Question, answer: int, scenes: Scenes) -> str:
    assert isinstance(question, Choice)
    return question.options[answer].text.say(scenes)


def _tell_order(question: Question, answer: tuple[int, ...], scenes: Scenes) -> str:
    assert isinstance(question, Order)
    return " < ".join(question.items[i].text.say(scenes) for i in answer)


def _tell_drag(question: Question, answer: str, scenes: Scenes) -> str:
    assert isinstance(question, Drag)
    return _made(dragged(scenes[HERE].state, answer), question, scenes)


def _made(state: LabState, question: Drag, scenes: Scenes) -> str:
    """Return the quantities of a dragged state that the solution names, in words."""
    scene = Scene(state.replace(cell=scenes[HERE].state.cell))
    values = {name: quantities()[_QUANTITIES[name]](scene) for name in question.solution}
    return say("lessons.and").join(
        say(f"lessons.made.{name}", value=number(value)) for name, value in values.items()
    )


#: Quantities of a dragged state, by the fields of the solution.
_QUANTITIES: Mapping[str, str] = MappingProxyType(
    {
        "lo": "range_lo",
        "hi": "range_hi",
        "scale": "scale",
        "zero_point": "zero_point",
        "value": "x",
        "bits": "bits",
        "size": "block_size",
    }
)

_TELL: Mapping[str, Callable[[Question, Any, Scenes], str]] = MappingProxyType(
    {
        "drag": _tell_drag,
        "direction": lambda question, answer, scenes: say(f"lessons.directions.{answer}"),
        "number": _tell_number,
        "cell": lambda question, answer, scenes: say("lessons.cell", row=answer[0], col=answer[1]),
        "choice": _tell_choice,
        "order": _tell_order,
    }
)


# ---- pictures of a wrong answer ----------------------------------------------------------------------


def show_drawn(question: Question, answer: Any, scenes: Scenes) -> None:
    """Draw a wrong order as bars; other answers are drawn on the ruler or in the picture."""
    if isinstance(question, Order):
        values = [question.items[i].value.value(scenes) for i in answer]
        most = max(map(abs, values)) or 1.0
        bars = [
            f'<div><span style="width: {100 * abs(value) / most:.1f}%"></span>'
            f"<b>{html.escape(question.items[i].text.say(scenes))}</b></div>"
            for i, value in zip(answer, values, strict=True)
        ]
        st.html(f'<div class="qv-bars">{"".join(bars)}</div>')


# ---- show of hands ------------------------------------------------------------------------------


def show_hands(question: Question, scenes: Scenes, key: str, revealed: bool) -> None:
    """Show boxes in which a teacher counts hands, and the counts as bars, the right answer marked once it is
    revealed.
    """
    names = hand_names(question, scenes, revealed)
    with st.container(key=f"{key}_hands", gap="small"):
        if not names:
            st.caption(say("lessons.hands_later"))
            return
        counts = []
        for i, (name, right) in enumerate(names):
            label, box = st.columns([3, 1], gap="small", vertical_alignment="center")
            with box:
                count = st.number_input(name, 0, 999, key=f"{key}_hands_{i}", label_visibility="collapsed")
            counts.append((label, name, right, int(count)))
        total = sum(count for _, _, _, count in counts)
        for label, name, right, count in counts:
            label.html(_bar(name, right, count, total))


def hand_names(question: Question, scenes: Scenes, revealed: bool) -> list[tuple[str, bool]]:
    """Return the answers that hands can be raised for, and whether each is right, once that is revealed."""
    if isinstance(question, Direction):
        return [
            (say(f"lessons.directions.{name}"), revealed and name == question.truth(scenes))
            for name in DIRECTIONS
        ]
    if isinstance(question, Choice):
        return [
            (option.text.say(scenes), revealed and i == question.truth(scenes))
            for i, option in enumerate(question.options)
        ]
    return [(say("lessons.hands_right"), True), (say("lessons.hands_wrong"), False)] if revealed else []


def _bar(name: str, right: bool, count: int, total: int) -> str:
    width = 100 * count / total if total else 0
    mark = " ✓" if right else ""
    text = f"{html.escape(name)}{mark}"
    return (
        f'<div class="qv-hands{" qv-right" if right else ""}">'
        f'<span style="width: {width:.1f}%"></span><b>{text}</b></div>'
    )


def refusal(key: str) -> str:
    """Return the reason why the answer in the control called `key` was not taken; "" where it was."""
    problem: QuantVizError | None = errors.input_errors().get(key)
    return say_error(problem) if problem else ""


def complaint(key: str) -> None:
    """Say why the answer in the control called `key` could not be taken."""
    words = refusal(key)
    if words:
        st.error(words)
