"""What a learner has answered: kept by who shows the lesson, told as text or as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from quantviz.lessons.model import Lesson
from quantviz.text import DEFAULT_LANGUAGE, text


@dataclass(frozen=True)
class Answer:
    """One answer that was committed to."""

    #: Id of the lesson, numbers of its step and of the step's question, from 0, and how often it was asked before.
    lesson: str
    step: int
    question: int
    attempt: int
    #: As the question's kind has it.
    given: Any
    #: How sure the learner was.
    sure: bool
    right: bool


@dataclass(frozen=True)
class Tally:
    """How answers came out, by how sure the learner was."""

    sure_right: int = 0
    sure_wrong: int = 0
    guessed_right: int = 0
    guessed_wrong: int = 0

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> Tally:
        """The tally of some answers.

        >>> Tally.of([Answer("a", 0, 0, 0, 1.0, True, False)])
        Tally(sure_right=0, sure_wrong=1, guessed_right=0, guessed_wrong=0)
        """
        each = [(answer.sure, answer.right) for answer in answers]
        return cls(*(each.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))))

    @property
    def right(self) -> int:
        """Right answers."""
        return self.sure_right + self.guessed_right

    @property
    def count(self) -> int:
        """All answers."""
        return self.right + self.sure_wrong + self.guessed_wrong


def asked(lesson: Lesson) -> int:
    """How many questions a lesson asks."""
    return sum(len(step.questions) for step in lesson.steps)


def reached(answers: Iterable[Answer], lesson_id: str) -> int:
    """How many different questions of a lesson were answered."""
    return len({(answer.step, answer.question) for answer in answers if answer.lesson == lesson_id})


def as_text(answers: list[Answer], lessons: Mapping[str, Lesson], language: str = DEFAULT_LANGUAGE) -> str:
    """Progress in a few lines, for a message or a notebook."""
    tally = Tally.of(answers)
    lines = [text("lessons.progress.total", language, right=tally.right, count=tally.count)]
    for name, lesson in lessons.items():
        done = reached(answers, name)
        if done:
            own = Tally.of(answer for answer in answers if answer.lesson == name)
            lines.append(text("lessons.progress.line", language, lesson=lesson.title, done=done, asked=asked(lesson), right=own.right, count=own.count))
    lines.append(text("lessons.progress.sure", language, right=tally.sure_right, wrong=tally.sure_wrong))
    lines.append(text("lessons.progress.guessed", language, right=tally.guessed_right, wrong=tally.guessed_wrong))
    return "\n".join(lines) + "\n"


def as_json(answers: list[Answer]) -> bytes:
    """Every answer, as a file."""
    return json.dumps({"quantviz": "lessons", "answers": [asdict(answer) for answer in answers]}, ensure_ascii=False, indent=1).encode()
