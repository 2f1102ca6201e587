"""A learner's answers: written as text or as a file, and read again from one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons.formulas import Scene
from quantviz.teaching.lessons.model import Lesson, Question
from quantviz.text import DEFAULT_LANGUAGE, text

#: The longest file that is read, in bytes, and the most answers kept: each costs a quantization to judge.
LONGEST = 200_000
MOST_ANSWERS = 500
#: Times that a question can be put anew.
_MOST_ATTEMPTS = 1000
#: The form of the file; files without a number have the same.
VERSION = 1
_KIND = "lessons"


@dataclass(frozen=True)
class LearnerAnswer:
    """An answer that was committed to; whether it is right must not be given away by a file."""

    #: Lesson's id, step from 0, question's id (in the old format its number), how often it was put before.
    lesson: str
    step: int
    question: int | str
    attempt: int
    given: Any
    sure: bool
    #: Tries before: 1 for a second try.
    tried: int = 0
    #: The place where the learner expected the goal of a drag: on the ruler's axis or a slider.
    mark: float | None = None
    #: Code of the class's room; "" for an answer of the learner's own.
    room: str = ""

    @property
    def place(self) -> tuple[str, int, int | str, int]:
        return self.lesson, self.step, self.question, self.attempt


#: Whether each answer is right, of those that may be shown.
Verdicts = Mapping[LearnerAnswer, bool]


@dataclass(frozen=True)
class AnswerCounts:
    """How answers came out, by how sure the learner was."""

    sure_right: int = 0
    sure_wrong: int = 0
    guessed_right: int = 0
    guessed_wrong: int = 0

    @classmethod
    def of(cls, verdicts: Verdicts, lesson: str = "") -> AnswerCounts:
        """Return the counts of all judged answers, or of one lesson's.

        >>> AnswerCounts.of({LearnerAnswer("a", 0, 0, 0, 1.0, True): False})
        AnswerCounts(sure_right=0, sure_wrong=1, guessed_right=0, guessed_wrong=0)
        """
        # Of two tries the second one counts.
        last = {answer.place: answer for answer in sorted(verdicts, key=lambda answer: answer.tried)}
        outcomes = [
            (answer.sure, verdicts[answer]) for answer in last.values() if lesson in ("", answer.lesson)
        ]
        return cls(
            *(outcomes.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False)))
        )

    @property
    def right(self) -> int:
        return self.sure_right + self.guessed_right

    @property
    def count(self) -> int:
        return self.right + self.sure_wrong + self.guessed_wrong


def asked(lesson: Lesson) -> int:
    return sum(len(step.questions) for step in lesson.steps)


def reached(answers: Iterable[LearnerAnswer], lesson_id: str) -> int:
    """Return how many questions of a lesson were answered."""
    return len({(answer.step, answer.question) for answer in answers if answer.lesson == lesson_id})


def finished(
    answers: Iterable[LearnerAnswer],
    lesson_id: str,
    lesson: Lesson,
    judge: Callable[[list[LearnerAnswer]], Verdicts],
) -> bool:
    """Return whether each question is done with: right, or wrong without another try. `judge` judges all."""
    in_lesson = [answer for answer in answers if answer.lesson == lesson_id]
    if not asked(lesson) or reached(in_lesson, lesson_id) < asked(lesson):
        return False
    asked_now = [(answer, lesson.question(answer.step, answer.question)) for answer in in_lesson]
    done = {
        (answer.step, answer.question)
        for answer, asks in asked_now
        if asks and (answer.tried or not asks.hint)
    }
    first = [answer for answer, asks in asked_now if asks and (answer.step, answer.question) not in done]
    done |= {(answer.step, answer.question) for answer, right in judge(first).items() if right}
    return len(done) == asked(lesson)


def merged(answers: Iterable[LearnerAnswer], others: Iterable[LearnerAnswer]) -> list[LearnerAnswer]:
    """Return `answers` and those `others` that answer something else; the last `MOST_ANSWERS` of them.

    >>> first, second = LearnerAnswer("a", 0, 0, 0, 1.0, True), LearnerAnswer("a", 0, 0, 0, 2.0, True)
    >>> merged([first], [second, LearnerAnswer("a", 0, 1, 0, "same", False)])[-1].given
    'same'
    """
    by_place: dict[Any, LearnerAnswer] = {}
    for answer in (*answers, *others):
        by_place.setdefault((*answer.place, answer.room, answer.tried), answer)
    return list(by_place.values())[-MOST_ANSWERS:]


# ---- judging ------------------------------------------------------------------------------------


def revealed(answers: Iterable[LearnerAnswer], lessons: Mapping[str, Lesson]) -> Iterator[LearnerAnswer]:
    """Yield the answers of complete steps, whose verdicts may be shown."""
    answers = list(answers)
    answered = {answer.place for answer in answers}
    for answer in answers:
        questions = lessons[answer.lesson].steps[answer.step].questions
        every = ((answer.lesson, answer.step, question.id, answer.attempt) for question in questions)
        if all(place in answered for place in every):
            yield answer


def surely_wrong(verdicts: Verdicts, lesson_id: str) -> list[LearnerAnswer]:
    """Return a lesson's last sure and wrong answer to each question that was not answered right since.

    >>> first = LearnerAnswer("a", 0, "q", 0, 1.0, True)
    >>> surely_wrong({first: False}, "a") == [first]
    True
    >>> surely_wrong({first: False, replace(first, attempt=1, sure=False): True}, "a")
    []
    """
    wrong: dict[tuple[int, int | str], LearnerAnswer] = {}
    for answer in sorted(verdicts, key=lambda answer: (answer.step, answer.attempt, answer.tried)):
        question = (answer.step, answer.question)
        if answer.lesson != lesson_id:
            continue
        if not verdicts[answer] and answer.sure:
            wrong[question] = answer
        # A second try on the same numbers comes after a hint.
        elif verdicts[answer] and question in wrong and answer.attempt > wrong[question].attempt:
            del wrong[question]
    return list(wrong.values())


def still_wrong(
    verdicts: Verdicts, answers: Iterable[LearnerAnswer], lesson_id: str
) -> Iterator[LearnerAnswer]:
    """Yield the answers of `surely_wrong` whose question was not answered on other numbers since."""
    answered = {
        (answer.step, answer.question, answer.attempt) for answer in answers if answer.lesson == lesson_id
    }
    for wrong in surely_wrong(verdicts, lesson_id):
        later = any(
            (step, question) == (wrong.step, wrong.question) and attempt > wrong.attempt
            for step, question, attempt in answered
        )
        if not later:
            yield wrong


def judged(
    answers: Iterable[LearnerAnswer], lessons: Mapping[str, Lesson], known: Verdicts
) -> dict[LearnerAnswer, bool]:
    """Return whether each of `answers` is right; those in `known` are not computed again."""
    scenes = _Scenes(lessons)
    verdicts = {}
    for answer in answers:
        if answer in known:
            verdicts[answer] = known[answer]
        else:
            verdicts[answer] = scenes.question(answer).judge(answer.given, scenes.of(answer)).right
    return verdicts


class _Scenes:
    def __init__(self, lessons: Mapping[str, Lesson]) -> None:
        self._lessons = lessons
        self._made: dict[tuple[str, int, int], Mapping[str, Scene]] = {}

    def of(self, answer: LearnerAnswer) -> Mapping[str, Scene]:
        key = (answer.lesson, answer.step, answer.attempt)
        if key not in self._made:
            self._made[key] = self._lessons[answer.lesson].steps[answer.step].scenes(answer.attempt)
        return self._made[key]

    def question(self, answer: LearnerAnswer) -> Question:
        question = self._lessons[answer.lesson].question(answer.step, answer.question)
        assert question
        return question

    def fits(self, answer: LearnerAnswer) -> bool:
        lesson = self._lessons.get(answer.lesson)
        if lesson is None or lesson.question(answer.step, answer.question) is None:
            return False
        return self.question(answer).takes(answer.given, self.of(answer))


# ---- as text and as a file ----------------------------------------------------------------------


def as_text(
    answers: list[LearnerAnswer],
    lessons: Mapping[str, Lesson],
    verdicts: Verdicts | None,
    language: str = DEFAULT_LANGUAGE,
) -> str:
    """Return progress in a few lines, for a message or a notebook; without `verdicts` only the answers."""
    if verdicts is None:
        lines = [text("lessons.progress.noted", language, count=len(answers))]
    else:
        tally = AnswerCounts.of(verdicts)
        lines = [text("lessons.progress.total", language, right=tally.right, count=tally.count)]
    for name, lesson in lessons.items():
        done = reached(answers, name)
        named = {"lesson": lesson.title, "asked": asked(lesson)}
        if done and verdicts is None:
            lines.append(text("lessons.progress.line_noted", language, done=done, **named))
        elif done:
            counts = AnswerCounts.of(verdicts or {}, name)
            named |= {"right": counts.right, "count": counts.count}
            lines.append(text("lessons.progress.line", language, done=done, **named))
    if verdicts is not None:
        lines.append(text("lessons.progress.sure", language, right=tally.sure_right, wrong=tally.sure_wrong))
        lines.append(
            text("lessons.progress.guessed", language, right=tally.guessed_right, wrong=tally.guessed_wrong)
        )
    return "\n".join(lines) + "\n"


def as_json(answers: Iterable[LearnerAnswer], verdicts: Verdicts | None = None) -> bytes:
    """Return the answers as a file, with those verdicts."""
    shown = verdicts or {}
    records = [asdict(answer) | ({"right": shown[answer]} if answer in shown else {}) for answer in answers]
    return json.dumps(
        {"quantviz": _KIND, "version": VERSION, "answers": records}, ensure_ascii=False, indent=1
    ).encode()


def read_json(content: bytes, lessons: Mapping[str, Lesson]) -> tuple[list[LearnerAnswer], int]:
    """Return the answers to questions of `lessons` in a file of `as_json`, and how many others there were.

    Verdicts are not read. `QuantVizError` where the file is too long, no such file, or of a later version.
    """
    if len(content) > LONGEST:
        raise QuantVizError("lessons.progress_too_large", got=len(content), longest=LONGEST)
    try:
        parsed = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise QuantVizError("lessons.no_progress") from None
    if (
        not isinstance(parsed, dict)
        or parsed.get("quantviz") != _KIND
        or not isinstance(parsed.get("answers"), list)
    ):
        raise QuantVizError("lessons.no_progress")
    version = parsed.get("version", VERSION)
    listed = parsed["answers"]
    if version != VERSION or type(version) is not int:
        raise QuantVizError("lessons.progress_version", got=str(version)[:20], known=VERSION)
    if len(listed) > MOST_ANSWERS:
        raise QuantVizError("lessons.progress_too_many", got=len(listed), most=MOST_ANSWERS)
    scenes = _Scenes(lessons)
    moved = [_moved(answer, lessons) for answer in map(_answer, listed) if answer]
    read = [answer for answer in moved if scenes.fits(answer)]
    return merged([], read), len(listed) - len(read)


#: Conditions on the fields of an answer.
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "lesson": lambda value: isinstance(value, str),
    "step": lambda value: type(value) is int and value >= 0,
    "question": lambda value: isinstance(value, str) or (type(value) is int and value >= 0),
    "attempt": lambda value: type(value) is int and 0 <= value < _MOST_ATTEMPTS,
    "given": lambda value: value is None or isinstance(value, str | int | float | tuple),
    "sure": lambda value: isinstance(value, bool),
    "tried": lambda value: type(value) is int and value in (0, 1),
    "mark": lambda value: value is None or (type(value) in (int, float) and math.isfinite(value)),
    "room": lambda value: isinstance(value, str) and len(value) <= 4,
}
assert [field.name for field in fields(LearnerAnswer)] == list(_FIELDS)
#: Fields that older files do not have.
_USUAL = {"tried": 0, "mark": None, "room": ""}


def _answer(raw: object) -> LearnerAnswer | None:
    # None where it is no answer.
    if not isinstance(raw, dict) or not _FIELDS.keys() <= {**_USUAL, **raw}.keys():
        return None
    raw = {**_USUAL, **raw}
    values: dict[str, Any] = {
        name: tuple(raw[name]) if isinstance(raw[name], list) else raw[name] for name in _FIELDS
    }
    if not all(fits(values[name]) for name, fits in _FIELDS.items()):
        return None
    return LearnerAnswer(**values)


def _moved(answer: LearnerAnswer, lessons: Mapping[str, Lesson]) -> LearnerAnswer:
    if answer.lesson not in lessons:
        return answer
    step, question = lessons[answer.lesson].place_now(answer.step, answer.question)
    return replace(answer, step=step, question=question)


def _refuse(constant: str) -> float:
    raise ValueError(constant)
