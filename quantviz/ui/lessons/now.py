"""The step on the screen: its answers, and what is still hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quantviz.teaching.lessons.formulas import Scene
from quantviz.teaching.lessons.model import Lesson, LessonStep
from quantviz.teaching.lessons.progress import Answer
from quantviz.ui.components.lesson_place import Place
from quantviz.ui.lessons.progress import answers
from quantviz.ui.shell.classroom import classroom


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
        """Return what tells this step from every other."""
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
