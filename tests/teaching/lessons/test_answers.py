"""An answer is close enough or not, and a progress is what was answered."""

import json
from dataclasses import replace

import pytest

import quantviz as qv
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.close_enough import Tolerance
from quantviz.teaching.lessons.drags import drag_answer, moved_by
from quantviz.teaching.lessons.formulas import HERE, Scene
from quantviz.teaching.lessons.model import QUESTIONS, Lesson
from quantviz.teaching.lessons.progress import (
    MOST_ANSWERS,
    AnswerCounts,
    LearnerAnswer,
    as_json,
    as_text,
    judged,
    merged,
    reached,
    read_json,
    revealed,
)
from quantviz.text import languages, text
from tests.helpers.lessons import right_answer


@pytest.mark.parametrize(
    ("form", "given", "right"),
    [
        ("0.5", 3.5, True),
        ("0.5", 3.51, False),
        ("5 %", 2.85, True),
        ("5 %", 2.84, False),
        ("factor 2", 6, True),
        ("factor 2", 6.1, False),
        ("0", 3, True),
    ],
)
def test_tolerances(form, given, right):
    assert Tolerance.read(form).accepts(given, 3.0) is right


@pytest.mark.parametrize("form", ["", "-1", "factor 1", "factor", "five", "5%%", "nan", "inf"])
def test_what_is_no_tolerance(form):
    with pytest.raises(qv.QuantVizError):
        Tolerance.read(form)


def answers():
    return [
        LearnerAnswer("range_to_grid", 2, "scale", 0, 3.58, True),
        LearnerAnswer("symmetric", 0, 0, 0, "rises", False),
        LearnerAnswer("range_to_grid", 2, "scale", 1, 255.0, False),
    ]


def test_progress_counts_questions_once_and_answers_each_time():
    known = {name: lesson for name, lesson in lessons().items() if isinstance(lesson, Lesson)}
    assert reached(answers(), "range_to_grid") == 1
    mine = [answer for answer in answers() if answer.lesson == "range_to_grid"]
    verdicts = judged(revealed(mine, known), known, {})
    assert verdicts[answers()[0]]
    assert not verdicts[answers()[2]]
    assert AnswerCounts.of(verdicts, "range_to_grid") == AnswerCounts(sure_right=1, guessed_wrong=1)
    # What is known is not computed again.
    assert judged(answers()[:1], known, {answers()[0]: False}) == {answers()[0]: False}


def test_an_answer_is_told_of_when_its_step_is_complete():
    known = {name: lesson for name, lesson in lessons().items() if isinstance(lesson, Lesson)}
    name, i, step = next(
        (name, i, step)
        for name, lesson in known.items()
        for i, step in enumerate(lesson.steps)
        if len(step.questions) == 2
    )
    first, second = (
        LearnerAnswer(name, i, question.id, 0, right_answer(question, step.scenes()), True)
        for question in step.questions
    )
    assert list(revealed([first], known)) == []
    assert list(revealed([first, second], known)) == [first, second]


@pytest.mark.slow
def test_a_file_comes_back_and_does_not_say_itself_what_is_right():
    known = {name: lesson for name, lesson in lessons().items() if isinstance(lesson, Lesson)}
    every = [
        LearnerAnswer(name, i, question.id, attempt, given, True)
        for name, lesson in known.items()
        for i, step in enumerate(lesson.steps)
        for question in step.questions
        for attempt in range(2)
        for given in [right_answer(question, step.scenes(attempt))]
    ]
    assert len({known[a.lesson].question(a.step, a.question).kind for a in every}) == len(QUESTIONS)
    for verdicts in (None, dict.fromkeys(every, False)):
        assert read_json(as_json(every, verdicts), known) == (every, 0)
    assert b"right" not in as_json(every)
    marked = [replace(every[0], mark=-1.5)]
    assert read_json(as_json(marked), known) == (marked, 0)
    # Files from before they had a number, and answers from before there were second tries and marks.
    old = json.loads(as_json(every[:1]))
    del old["version"], old["answers"][0]["tried"], old["answers"][0]["mark"]
    assert read_json(json.dumps(old).encode("utf-8-sig"), known) == (every[:1], 0)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"", "no_progress"), (b"\xff\xfe", "no_progress"), (b"[]", "no_progress"), (b"{}", "no_progress"),
        (b"[" * 100_000, "no_progress"),
        (b'{"quantviz": "lessons", "answers": {}}', "no_progress"),
        (b'{"quantviz": "lab", "answers": []}', "no_progress"),
        (b'{"quantviz": "lessons", "answers": [NaN]}', "no_progress"), (b" " * 200_001, "progress_too_large"),
        (b'{"quantviz": "lessons", "answers": [%s]}' % b",".join([b"0"] * 501), "progress_too_many"),
        (b'{"quantviz": "lessons", "version": 2, "answers": []}', "progress_version"),
        (b'{"quantviz": "lessons", "version": true, "answers": []}', "progress_version"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(content, key):
    with pytest.raises(qv.QuantVizError) as raised:
        read_json(content, {})
    assert raised.value.key == f"lessons.{key}"
    for language in languages():
        assert raised.value.message(language)


def raw(**changes):
    return {
        "lesson": "range_to_grid",
        "step": 2,
        "question": 0,
        "attempt": 0,
        "given": 3.58,
        "sure": True,
    } | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"lesson": "no_such"}, {"lesson": ["range_to_grid"]}, {"lesson": "\ud800"}, {"step": 99},
        {"step": -1}, {"step": True}, {"step": 2.0}, {"question": 9},
        {"attempt": 10**9}, {"attempt": -1}, {"given": "3.58"}, {"given": None}, {"given": 1e999},
        {"given": [3.58]}, {"given": {"a": 1}}, {"given": True},
        {"sure": 1}, {"mark": "left"}, {"mark": 1e999}, {"mark": True},
        {"lesson": "symmetric", "step": 0, "given": "up"},
    ],
)  # fmt: skip
def test_what_fits_no_question_is_left_out(changes):
    known = {name: lesson for name, lesson in lessons().items() if isinstance(lesson, Lesson)}
    content = (
        json.dumps({"quantviz": "lessons", "answers": [raw(**changes), raw(), "nothing", {}]})
        .replace("Infinity", "1e999")
        .encode()
    )
    assert read_json(content, known) == ([LearnerAnswer("range_to_grid", 2, "scale", 0, 3.58, True)], 3)


def test_answers_from_before_a_lesson_was_rewritten_stay_answers():
    known = {name: lesson for name, lesson in lessons().items() if isinstance(lesson, Lesson)}
    content = json.dumps({"quantviz": "lessons", "answers": [raw(), raw(question=1), raw(step=7)]}).encode()
    assert "tried" not in raw()
    assert read_json(content, known) == ([LearnerAnswer("range_to_grid", 2, "scale", 0, 3.58, True, 0)], 2)


def test_of_two_tries_the_second_one_counts():
    first = LearnerAnswer("range_to_grid", 2, "scale", 0, 255.0, True)
    second = replace(first, given=3.58, sure=False, tried=1)
    assert merged([first], [second]) == [first, second]
    assert AnswerCounts.of({second: True, first: False}) == AnswerCounts(guessed_right=1)
    assert reached([first, second], "range_to_grid") == 1


@pytest.mark.parametrize("kind", list(QUESTIONS))
def test_each_kind_of_question_takes_its_own_answers_only(kind):
    question, scenes = next(
        (question, step.scenes())
        for lesson in lessons().values()
        for step in lesson.steps
        for question in step.questions
        if question.kind == kind
    )
    assert question.takes(right_answer(question, scenes), scenes)
    refused = [
        None,
        True,
        "",
        "up",
        -1,
        10**6,
        float("nan"),
        float("inf"),
        (),
        (0,),
        (-1, 0),
        (99, 99),
        (0, 0, 0),
        (0.0, 1.0),
        ("0", "1"),
        ((0,), (1,)),
    ]
    assert not [given for given in refused if question.takes(given, scenes)]


def test_only_so_many_answers_are_kept():
    many = [LearnerAnswer("a", 0, 0, i, 1.0, True) for i in range(MOST_ANSWERS + 5)]
    assert merged([], many) == many[5:]
    assert merged(many[:2], [replace(many[0], given=2.0), many[3]]) == [many[0], many[1], many[3]]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_progress_as_text(language):
    known = lessons(language)
    verdicts = {answers()[0]: True, answers()[2]: False}
    said = as_text(answers(), known, verdicts, language)
    assert "1" in said
    assert "2" in said
    # A teacher who withholds the answers withholds what is right too.
    withheld = as_text(answers(), known, None, language)
    assert withheld.splitlines()[0] == text("lessons.progress.noted", language, count=3)
    assert len(withheld.splitlines()) == 3
    assert as_text(answers(), known, dict.fromkeys(verdicts, True), language) != said


def test_a_tooth_between_two_exponents_is_answered_by_the_exponent_it_gives():
    """A shared exponent is in the hand: what a tooth is dragged to is rounded to a power of two."""
    step = lessons()["block_formats"].steps[0]
    scenes, (question,), judged = step.scenes(), step.questions, {}
    for scale in (0.3, 0.45, 0.8, 1.3, 1.7):
        message = {"kind": "given", "scale": scale, "zero_point": 0}
        state = moved_by(scenes[HERE].state, message, step.move)
        judged[Scene(state).why.scale] = question.judge(drag_answer(scenes[HERE].state, state), scenes).right
    assert judged == {0.25: False, 0.5: False, 1.0: True, 2.0: False}
