"""Answers in words, and as a room counts them."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from quantviz.figures.numbers import number, raised
from quantviz.lab.state import LabState
from quantviz.teaching.lessons.dials import DialState
from quantviz.teaching.lessons.drags import dragged
from quantviz.teaching.lessons.formulas import HERE, Scene, Scenes, quantities
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
from quantviz.text import text

#: Quantities whose fields in the solution have another name.
_QUANTITIES: Mapping[str, str] = MappingProxyType(
    {"lo": "range_lo", "hi": "range_hi", "value": "x", "size": "block_size"}
)


def as_vote(question: Question, answer: Any) -> Any:
    """Return an answer as a room counts it: options by their places from 0."""
    return DIRECTIONS.index(answer) if isinstance(question, DirectionQuestion) else answer


def of_vote(question: Question, vote: Any) -> Any:
    return DIRECTIONS[vote] if isinstance(question, DirectionQuestion) else vote


def option_texts(question: Question, scenes: Scenes, language: str) -> list[str]:
    """Return the answers that a question lists; none where it is typed or pointed at."""
    match question:
        case ChoiceQuestion():
            return [option.text.say(scenes) for option in question.options]
        case DirectionQuestion():
            return [text(f"lessons.directions.{name}", language) for name in DIRECTIONS]
        case OrderQuestion():
            return [item.text.say(scenes) for item in question.items]
    return []


def lettered(texts: Iterable[str]) -> list[str]:
    """Return the answers with their letters on the wall, unless they begin with them.

    >>> lettered(["rises", "B: falls"])
    ['A · rises', 'B: falls']
    """
    named = zip(string.ascii_uppercase, texts, strict=False)
    return [text if text[:2] in (f"{sign}:", f"{sign}：") else f"{sign} · {text}" for sign, text in named]


def answer_words(question: Question, answer: Any, scenes: Scenes, language: str) -> str:
    """Return an answer, as Markdown; a cell question's truth may be several cells."""
    match question:
        case DragQuestion():
            start = scenes[HERE].state
            return drag_words(dragged(start, answer), question.solution, start.cell, language)
        case NumberQuestion():
            return f"{number(answer, 5)} {question.unit}".strip()
        case CellQuestion():
            return text("lessons.cell", language, row=answer[0], col=answer[1])
        case OrderQuestion():
            names = option_texts(question, scenes, language)
            return " < ".join(names[place] for place in answer)
        case ChoiceQuestion() | DirectionQuestion():
            return option_texts(question, scenes, language)[int(as_vote(question, answer))]
    raise AssertionError(question.kind)


def drag_words(state: LabState, names: Iterable[str], cell: tuple[int, ...], language: str) -> str:
    """Return quantities of a dragged state in words."""
    scene = Scene(state.replace(cell=cell))
    values = {name: made(name, scene) for name in names}
    return text("lessons.and", language).join(
        text(f"lessons.dials.{state.dial}.made", language, at=state.at, power=raised(state.at))
        if isinstance(state, DialState)
        else text(f"lessons.made.{name}", language, value=number(value))
        for name, value in values.items()
    )


def made(name: str, scene: Scene) -> float:
    # By its name in a solution.
    return float(quantities()[_QUANTITIES.get(name, name)](scene))
