"""What only shows when a lesson's formulas are worked out: a question without an answer, or one whose
mistakes are right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons.formulas import HERE, Scenes
from quantviz.teaching.lessons.model import Choice, Lesson, LessonStep, Number, Question

#: How often each question is asked once more.
ATTEMPTS = 4


def problems_of(lesson: Lesson, file: str, attempts: int = ATTEMPTS) -> Iterator[QuantVizError]:
    """Yield what is wrong with the numbers of a lesson, on its own state and on the first seeds after it."""
    for step in lesson.steps:
        for attempt in range(attempts if step.questions else 1):
            try:
                for problem in _problems(step, step.scenes(attempt), first=not attempt):
                    yield QuantVizError("lessons.at", file=file, line=step.line, problem=problem)
            except QuantVizError as problem:
                yield QuantVizError("lessons.at", file=file, line=step.line, problem=problem)


def _problems(step: LessonStep, scenes: Scenes, first: bool) -> Iterator[QuantVizError]:
    for words in (step.words, step.rule):
        if words:
            words.say(scenes)
    if step.table:
        for _, state in step.table.rows:
            for _, formula in step.table.columns:
                formula.value({**scenes, HERE: scenes[state]})
    for question in step.questions:
        yield from _question_problems(question, scenes, first)


def _question_problems(question: Question, scenes: Scenes, first: bool) -> Iterator[QuantVizError]:
    truth = question.truth(scenes)
    for words in (question.ask, question.why, *(mistake.says for mistake in question.mistakes)):
        if words:
            words.say(scenes)
    if isinstance(question, Choice):
        for option in question.options:
            option.text.say(scenes)
            option.says.say(scenes)
    if isinstance(question, Number):
        if not math.isfinite(truth):
            yield QuantVizError("formulas.no_number", got=question.answer.text)
        for mistake, value in zip(question.mistakes, question.mistaken(scenes), strict=True):
            # On another seed the two may meet by chance, and then the answer is right.
            if first and question.within.accepts(value, truth):
                yield QuantVizError("lessons.mistake_is_right", says=mistake.says.text)
