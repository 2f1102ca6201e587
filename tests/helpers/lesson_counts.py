"""How much a lesson asks, in which way, and what its learner has moved by then: counted from its data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from quantviz.teaching.lessons.check import MOST_QUESTIONS, MOST_TYPED
from quantviz.teaching.lessons.model import DragQuestion, Lesson, NumberQuestion
from quantviz.teaching.lessons.plan import minutes

#: Steps in a row that ask nothing, and steps of a lesson that neither ask nor let the hand move anything.
MOST_SILENT_IN_A_ROW, MOST_STILL = 2, 1


@dataclass(frozen=True)
class LessonCounts:
    """What a lesson has of each; the fields are the table's columns."""

    steps: int
    questions: int
    #: Answered by a number that is typed.
    typed: int
    #: Answered by moving the step's own state.
    drags: int
    #: Answered by choosing: one of several, a direction, an order, a cell.
    choices: int
    #: Steps that ask nothing, and the most of them in a row.
    silent: int
    silent_in_a_row: int
    #: Steps in which there is nothing to answer and nothing to move.
    still: int
    #: Questions that a learner meets before anything could be moved in the lesson.
    before_a_move: int
    minutes: int

    def __add__(self, other: LessonCounts) -> LessonCounts:
        """Return the counts of both lessons; of steps in a row the larger."""
        both = {name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__}
        row = max(self.silent_in_a_row, other.silent_in_a_row)
        return LessonCounts(**{**both, "silent_in_a_row": row})


def lesson_counts(lesson: Lesson) -> LessonCounts:
    """Return what a lesson asks, and when."""
    asked = [question for step in lesson.steps for question in step.questions]
    typed = sum(isinstance(question, NumberQuestion) for question in asked)
    drags = sum(isinstance(question, DragQuestion) for question in asked)
    moved, early, row, longest = False, 0, 0, 0
    for step in lesson.steps:
        moved |= bool(step.move)
        early += 0 if moved else len(step.questions)
        row = 0 if step.questions else row + 1
        longest = max(longest, row)
    return LessonCounts(
        steps=len(lesson.steps),
        questions=len(asked),
        typed=typed,
        drags=drags,
        choices=len(asked) - typed - drags,
        silent=sum(not step.questions for step in lesson.steps),
        silent_in_a_row=longest,
        still=sum(not step.questions and not step.move for step in lesson.steps),
        before_a_move=early,
        minutes=minutes(lesson),
    )


def broken_rules(counts: LessonCounts) -> list[str]:
    """Return the names of the counts that a lesson must not have."""
    kept = {
        "questions": 1 <= counts.questions <= MOST_QUESTIONS,
        "typed": counts.typed <= MOST_TYPED,
        # Each lesson has something to be made by the hand, and never more to type.
        "drags": counts.drags >= max(1, counts.typed),
        "silent_in_a_row": counts.silent_in_a_row <= MOST_SILENT_IN_A_ROW,
        "still": counts.still <= MOST_STILL,
        "before_a_move": counts.before_a_move == 0,
    }
    return [name for name, holds in kept.items() if not holds]


def counts_table(rows: Iterable[tuple[str, LessonCounts]]) -> str:
    """Return the counts of lessons by name as a table, with what they come to together."""
    rows = list(rows)
    total = rows[0][1]
    for _, each in rows[1:]:
        total += each
    names = [name.replace("_", " ") for name in LessonCounts.__dataclass_fields__]
    left = max(len(name) for name, _ in (*rows, ("in all", total)))
    lines = [" " * left + "".join(f"  {name}" for name in names)]
    for name, each in (*rows, ("in all", total)):
        cells = (f"  {value:>{len(head)}}" for value, head in zip(astuple(each), names, strict=True))
        lines.append(f"{name:<{left}}" + "".join(cells))
    return "\n".join(lines)
