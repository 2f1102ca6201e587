"""The step on the screen: its answers, and its hidden parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import streamlit as st

from quantviz.teaching.lessons.formulas import Scene
from quantviz.teaching.lessons.model import Lesson, LessonStep, Question
from quantviz.teaching.lessons.progress import LearnerAnswer
from quantviz.ui.components import in_room
from quantviz.ui.components.lesson_place import LessonPlace
from quantviz.ui.lessons.progress import answers
from quantviz.ui.shell.classroom import classroom

#: In the session: number of restarts of each step.
ATTEMPTS = "lesson_attempts"
#: The steps, with the attempt, whose answers a teacher has revealed on the projector.
_TOLD = "lesson_told"
#: Marks of this session, by the step, the attempt and the question.
_MARKS = "lesson_marks"


@dataclass(frozen=True, eq=False)
class Now:
    """The step on the screen."""

    place: LessonPlace
    lesson: Lesson
    step: LessonStep
    scenes: Mapping[str, Scene]
    attempt: int

    @property
    def id(self) -> str:
        """Return the step's unique id: that of its lesson, and its place there."""
        return f"{self.place.lesson}/{self.place.step}"

    @cached_property
    def tries(self) -> tuple[tuple[LearnerAnswer, ...], ...]:
        """Return the answers to each of the step's questions at this attempt, the first try first."""
        attempts = [
            a
            for a in answers()
            if (a.lesson, a.step, a.attempt) == (self.place.lesson, self.place.step, self.attempt)
            and a.room == classroom().room
        ]
        return tuple(
            tuple(sorted((a for a in attempts if a.question == question.id), key=lambda a: a.tried))
            for question in self.step.questions
        )

    @property
    def once(self) -> bool:
        """Whether one answer settles a question: a withheld one is kept, right or wrong; a shown one needs no
        second try. A class may be asked again.
        """
        return in_room.answers(self.place.lesson, self.place.step) != "after"

    def round_of(self, question: Question) -> int:
        """Return the round, from 0, in which a class in a room is asked a question; elsewhere 0."""
        return in_room.round_of(self.place.lesson, self.place.step, question.id) or 0

    @cached_property
    def settled(self) -> tuple[bool, ...]:
        """Return whether each question is done with: right, or wrong without another try."""
        return tuple(
            bool(tries)
            and (
                tries[-1].tried >= self.round_of(question)
                if self.once
                else not question.hint
                or tries[-1].tried > 0
                or question.judge(tries[-1].given, self.scenes).right
            )
            for question, tries in zip(self.step.questions, self.tries, strict=True)
        )

    @property
    def answers(self) -> tuple[LearnerAnswer | None, ...]:
        """Return the last answer to each of the step's questions; none for one that is still open."""
        return tuple(
            tries[-1] if settled else None for tries, settled in zip(self.tries, self.settled, strict=True)
        )

    @property
    def open_question(self) -> int | None:
        """Return the place of the open question; None where all are answered."""
        return self.answers.index(None) if None in self.answers else None

    def mark(self, i: int) -> float | None:
        """Return the place of the learner's mark for a question; None before it is set."""
        kept = next((each.mark for each in self.tries[i] if each.mark is not None), None)
        return cast("float | None", st.session_state.get(_MARKS, {}).get(self._mark_key(i), kept))

    def keep_mark(self, i: int, at: float) -> None:
        """Keep a mark for as long as the session, and from the first answer on with it."""
        st.session_state.setdefault(_MARKS, {})[self._mark_key(i)] = at

    def _mark_key(self, i: int) -> tuple[str, int, int | str]:
        return self.id, self.attempt, self.step.questions[i].id

    def is_blind(self, i: int) -> bool:
        """Return whether a question waits for the learner's mark; older answers have none."""
        waits = self.mark(i) is None and not self.tries[i] and not self.revealed
        return waits and bool(self.step.opened_by_mark(self.step.questions[i]))

    @property
    def marks_now(self) -> bool:
        """Whether the open question waits for a mark."""
        i = self.open_question
        return i is not None and self.is_blind(i)

    @property
    def complete(self) -> bool:
        """Whether every question is answered."""
        return None not in self.answers

    @property
    def revealed(self) -> bool:
        """Whether the answers are revealed."""
        when = in_room.answers(self.place.lesson, self.place.step)
        if not self.step.questions or when == "shown" or self._key in st.session_state.get(_TOLD, ()):
            return True
        return when == "after" and self.complete

    def tell(self) -> None:
        """Reveal the step's answers, whether or not the class has answered."""
        st.session_state[_TOLD] = {*st.session_state.get(_TOLD, ()), self._key}

    @property
    def _key(self) -> tuple[str, int]:
        return self.id, self.attempt

    @property
    def covered(self) -> frozenset[str]:
        """Return the parts of the picture that are not to be seen yet."""
        if self.revealed:
            return frozenset()
        seeing = (i for i in range(len(self.answers)) if not self.is_blind(i))
        opened = (self.step.opened_by_mark(self.step.questions[i]) for i in seeing)
        return self.step.hidden.difference(*opened)
