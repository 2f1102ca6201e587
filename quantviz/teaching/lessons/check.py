"""Checks of a lesson: too much to read, no answer, mistakes that are right, answers shown too early."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import number
from quantviz.lab.moves import hand_choices
from quantviz.lab.state import LabState
from quantviz.schemes.calibration import Given
from quantviz.teaching.lessons.formulas import HERE, SOLUTION, Scenes
from quantviz.teaching.lessons.model import (
    ChoiceQuestion,
    DragQuestion,
    Lesson,
    LessonStep,
    NumberQuestion,
    Question,
)

#: Seeds that each question is checked on, its own included.
_ATTEMPTS = 4
#: Limits of a lesson of ten minutes: questions, typed ones among them, words of a step, words in all.
MOST_QUESTIONS = 5
MOST_TYPED = 1
MOST_WORDS = 90
MOST_IN_LESSON = 650
#: Words that read as long as a Chinese character.
_CHARACTER = 0.6
#: Elements of a tensor that a hand can move, and in an integer format.
_MOST_CELLS = 64 * 64
_MOST_INTEGERS = 256 * 256
#: Bits of a code that has a button for each.
_MOST_FLIPPED = 8
_NUMBER = re.compile(r"[−-]?\d[\d.,]*\d|[−-]?\d")


def problems_of(lesson: Lesson, file: str) -> Iterator[QuantVizError]:
    """Yield the errors in a lesson's length and in its numbers on the first seeds."""
    if lesson.format > 1:
        for line, problem in _rules(lesson):
            yield QuantVizError("lessons.at", file=file, line=line, problem=problem)
    for step in lesson.steps:
        for attempt in range(_ATTEMPTS if step.questions else 1):
            try:
                for problem in _problems(step, step.scenes(attempt), not attempt, lesson.format):
                    yield QuantVizError("lessons.at", file=file, line=step.line, problem=problem)
            except QuantVizError as problem:
                yield QuantVizError("lessons.at", file=file, line=step.line, problem=problem)


# ---- the rules of a lesson ----------------------------------------------------------------------


def words_in(text: str) -> float:
    """Return how many words a text has; a formula is one, a Chinese character part of one.

    >>> words_in("The scale is {x_max - x_min}."), words_in("一个步长")
    (4.0, 2.4)
    """
    plain = re.sub(r"\{[^{}]*\}", "1", re.sub(r"\[\[\w+(?:\|([^\]]*))?\]\]", r"\1 ", text))
    characters = len(re.findall(r"[\u4e00-\u9fff]", plain))
    others = re.findall(
        r"[^\s\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]*\w[^\s\u4e00-\u9fff]*",
        re.sub(r"[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]", " ", plain),
    )
    return len(others) + _CHARACTER * characters


def _rules(lesson: Lesson) -> Iterator[tuple[int, QuantVizError]]:
    first = lesson.steps[0].line
    questions = [(step, question) for step in lesson.steps for question in step.questions]
    typed = [question for _, question in questions if isinstance(question, NumberQuestion)]
    if len(questions) > MOST_QUESTIONS:
        yield first, QuantVizError("lessons.too_many_questions", got=len(questions), most=MOST_QUESTIONS)
    if len(typed) > MOST_TYPED:
        yield first, QuantVizError("lessons.too_many_typed", got=len(typed), most=MOST_TYPED)
    marked = set[str]()
    for step in lesson.steps:
        if step.questions and not step.move:
            yield step.line, QuantVizError("lessons.nothing_moved")
        for words in filter(None, (step.words, step.note)):
            count = words_in(words.text)
            if count > MOST_WORDS:
                yield step.line, QuantVizError("lessons.too_many_words", got=round(count), most=MOST_WORDS)
        for term, _ in step.terms:
            if term in marked:
                yield step.line, QuantVizError("lessons.term_twice", got=term)
            marked.add(term)
        for question in step.questions:
            if not question.hint and not (
                isinstance(question, ChoiceQuestion) and len(question.options) == 2
            ):
                yield step.line, QuantVizError("lessons.no_hint")
    total = words_to_read(lesson)
    if total > MOST_IN_LESSON:
        yield first, QuantVizError("lessons.lesson_too_long", got=round(total), most=MOST_IN_LESSON)


def words_to_read(lesson: Lesson) -> float:
    """Return how many words of steps, questions and rules everybody reads."""
    read = [words for step in lesson.steps for words in (step.words, step.rule) if words]
    questions = [question for step in lesson.steps for question in step.questions]
    read += [question.ask for question in questions]
    choices = [question for question in questions if isinstance(question, ChoiceQuestion)]
    read += [option.text for choice in choices for option in choice.options]
    return sum(words_in(words.text) for words in read)


# ---- numbers ------------------------------------------------------------------------------------


def _problems(step: LessonStep, scenes: Scenes, first: bool, form: int) -> Iterator[QuantVizError]:
    for words in (step.words, step.rule, step.note):
        if words:
            words.say(scenes)
    if step.table:
        for _, state in step.table.rows:
            for _, formula in step.table.columns:
                formula.value({**scenes, HERE: scenes[state]})
    yield from _handle_problems(step, scenes)
    for question in step.questions:
        yield from _question_problems(question, scenes, first, form)


def _handle_problems(step: LessonStep, scenes: Scenes) -> Iterator[QuantVizError]:
    if not step.move:
        return
    state = scenes[HERE].state
    most = _MOST_INTEGERS if state.scheme.number_format.kind == "integer" else _MOST_CELLS
    if math.prod(state.source.shape) > most:
        yield QuantVizError("lessons.ruler_too_large", shape=state.source.shape)
    choices = hand_choices(state)
    missing = {
        "zero": ("handle_symmetric", state.scheme.mode == "symmetric"),
        "held_zero": ("handle_symmetric", state.scheme.mode == "symmetric"),
        "bits": ("handle_choices", len(choices.formats.values) < 2),
        "group": ("handle_choices", len(choices.sizes.values) < 2),
        "flip": ("handle_codes", not _has_own_codes(state)),
    }
    for name in step.move:
        reason, lacks = missing.get(name, ("", False))
        if lacks:
            yield QuantVizError("lessons.handle_missing", got=name, reason=QuantVizError(f"lessons.{reason}"))


def _has_own_codes(state: LabState) -> bool:
    # Codes that each have one value, in whichever cell.
    scheme = state.scheme
    given = isinstance(scheme.calibration, Given) and scheme.mode == "symmetric"
    return given and bool(scheme.number_format.float_bits) and scheme.number_format.bits <= _MOST_FLIPPED


def _question_problems(question: Question, scenes: Scenes, first: bool, form: int) -> Iterator[QuantVizError]:
    truth = question.truth(scenes)
    named = question.named_scenes(scenes)
    if isinstance(question, DragQuestion):
        yield from _drag_problems(question, scenes)
        question.tolerance.say(named)
    for words in (question.ask, question.hint):
        if words:
            words.say(scenes)
    for words in (question.why, *(mistake.says for mistake in question.mistakes)):
        if words:
            words.say(named)
    if isinstance(question, ChoiceQuestion):
        for option in question.options:
            option.text.say(scenes)
            option.says.say(scenes)
    if isinstance(question, NumberQuestion):
        if not math.isfinite(truth):
            yield QuantVizError("formulas.no_number", got=question.answer.text)
        for mistake, value in zip(question.mistakes, question.mistaken(scenes), strict=True):
            # On another seed the two may meet by chance, and then the answer is right.
            if first and question.within.accepts(value, truth):
                yield QuantVizError("lessons.mistake_is_right", says=mistake.says.text)
        if first and form > 1:
            early = (question.hint, *(mistake.says for mistake in question.mistakes))
            told = {number(truth, digits) for digits in (4, 5, 6)}
            for words in filter(None, early):
                if told.intersection(_NUMBER.findall(words.say(scenes).replace("-", "−"))):
                    yield QuantVizError("lessons.told_too_early", says=words.text)


def _drag_problems(question: DragQuestion, scenes: Scenes) -> Iterator[QuantVizError]:
    named = question.named_scenes(scenes)
    if not question.right.holds_as_shown({**named, HERE: named[SOLUTION]}):
        yield QuantVizError("lessons.solution_is_wrong", right=question.right.text)
    if question.right.holds_as_shown(named):
        yield QuantVizError("lessons.start_is_right", right=question.right.text)
