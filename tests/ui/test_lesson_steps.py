"""A step of a lesson without the app: what it says, draws and keeps after what a learner does."""

from dataclasses import replace

import pytest
import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import number
from quantviz.figures.raster import data_uri
from quantviz.figures.ruler_detail import GridRow
from quantviz.figures.theme import THEMES
from quantviz.lab.classroom import Classroom
from quantviz.lab.moves import hand_choices
from quantviz.teaching.lessons import lessons, term_home
from quantviz.teaching.lessons.formulas import HAND, HERE, SOLUTION, Scene, quantities
from quantviz.teaching.lessons.model import ChoiceQuestion, DirectionQuestion, DragQuestion
from quantviz.teaching.lessons.plan import FIRST_HOUR
from quantviz.teaching.lessons.progress import LearnerAnswer
from quantviz.text import catalogue, languages
from quantviz.ui.checkpoints.state import CheckpointsState
from quantviz.ui.components.lesson_place import LOOK, PLACE, LessonPlace
from quantviz.ui.lessons import answering, hands, moving, page, picture, progress, second_look
from quantviz.ui.lessons import step as step_page
from quantviz.ui.lessons.now import ATTEMPTS, Now
from tests.helpers.lessons import right_answer
from tests.helpers.sample import sample_of

IDS = list(lessons())


pytestmark = pytest.mark.usefixtures("session")


def at(name, p, attempt=0):
    """A step of a lesson by its number in the address."""
    lesson = lessons(st.session_state["language"])[name]
    step = lesson.steps[p - 1]
    return Now(LessonPlace(name, p - 1), lesson, step, step.scenes(attempt), attempt)


def moved(now, **message):
    """The step after a hand has let go."""
    moving._let_go(now, message)
    return replace(now)


def moved_to(now, value):
    """The step after its cell was dragged to a value."""
    return moved(now, kind="cell", cell=list(now.scenes[HERE].state.cell), value=value)


def committed(now):
    """The step after its first question is committed to."""
    answering._commit(now, 0, now.step.questions[0], True, "")
    return replace(now)


def rows(now):
    """The rows below the ruler's comb."""
    return moving.ruler_detail(now, now.step.show - now.covered).rows


def mse_in_picture(now):
    return number(quantities()["mse"](Scene(picture.state_shown(now))))


def test_a_second_tap_that_comes_before_the_page_changes_nothing():
    """On a slow line it was “Unknown move: got 'mark'”, on every step that followed."""
    now = at("rounding_against_clipping", 3)
    for place in (1.5, 2.5):
        now = moved(now, kind="mark", at=place)
        assert now.mark(0) == 1.5
    with pytest.raises(QuantVizError, match="Unknown move"):
        moved(now, kind="unheard_of")


#: A step with what is dragged in it one after the other: a value or a message, what is said of it, and the
#: rows below the comb: their tones, how many teeth the last has, and the value marked on it. Who dragged one
#: to 460, which has the code asked for, was told "Right: value 486.7", with a mark there; one at the very
#: solution was told by a second comb, the same as the first. With half the outlier the step is half as wide:
#: 10.7 is 5 pixels of a phone away, 10.4 is 3. The outlier sets the step of all: 14 and 15 have other grids.
#: Who came back to where they began was told they had not moved.
DRAGGED = [
    ("range_to_grid", 5, (460.0, "Right: value 460.", ("right", 0, 460.0))),
    ("float_formats", 3, (3.0, "Right", ("right", 0, 3.0))),
    (
        "per_channel",
        1,
        (10.7, "Very near: a little farther to the left.", ("before wrong", 0, pytest.approx(10.7))),
    ),
    (
        "per_channel",
        1,
        (
            10.55,
            "Right, within a finger’s width: value 10.55",
            ("before right", 0, pytest.approx(10.55)),
        ),
    ),
    (
        "per_channel",
        1,
        (15.0, "One more try", ("before wrong", 0, 15.0)),
        (14.0, "Not this time", ("before wrong right", 16, pytest.approx(10.0))),
    ),
    (
        "fewer_bits",
        3,
        (None, "You have not moved anything yet\\. Slide the bits\\.", ("", 0, None)),
        ({"kind": "format", "id": "int4"}, "With 4 bits 25 of 32 become 0: more than half", ("", 0, None)),
    ),
    (
        "range_to_grid",
        4,
        (None, "You have not moved anything yet", ("", 0, None)),
        ({"kind": "given", "scale": 60.84, "zero_point": -7}, "too high: 1 of", ("before", 16, None)),
        ({"kind": "given", "scale": 60.84, "zero_point": -5}, "Right: zero", ("before right", 16, None)),
    ),
]


@pytest.mark.parametrize(("name", "p", "tries"), [(name, p, tries) for name, p, *tries in DRAGGED])
def test_a_drag_is_told_and_drawn_as_it_was_made(said, name, p, tries):
    """The right one is drawn only once it is told; a reload finds the step as the answer left it."""
    now = at(name, p)
    for value, words, expected in tries:
        if value is not None:
            now = moved(now, **value) if isinstance(value, dict) else moved_to(now, value)
            assert "right" not in [each.tone for each in rows(now)]
        said.clear()
        now = committed(now)
        answering.show_questions(now)
        assert [words in each for kind, each in said if kind in ("success", "warning", "error")] == [True]
        last = rows(now)[-1] if rows(now) else GridRow("", "")
        assert (" ".join(each.tone for each in rows(now)), len(last.levels), last.at) == expected
    drawn = rows(now)
    del st.session_state[moving._MOVED]
    assert rows(replace(now)) == drawn


@pytest.mark.parametrize("language", languages())
def test_sentences_and_rows_follow_the_hand(session, language):
    """Who has not heard of teeth sees none in the row from before; a reason says of when its numbers are."""
    session["language"] = language
    now = moved_to(at("range_to_grid", 1), 26.0)
    words = now.step.words.say({**now.scenes, HAND: moving.scene_in_hand(now)})
    assert [each in words for each in ("728.6", "684.6", "868.6")] == [False, True, True]
    (row,) = rows(now)
    assert (row.tone, row.levels, row.range) == ("before", (), pytest.approx((-184, 728.6)))


def test_a_reason_says_of_when_its_numbers_are_where_something_was_moved_since(said):
    """“From 0.5 to 1.4” stood beside a tile that told what the hand had made by then."""
    (question,) = at("symmetric", 4).step.questions
    session = st.session_state
    for place in (300.0, float(at("symmetric", 4).scenes[HERE].result.range.hi)):
        now = moved(at("symmetric", 4), kind="range", lo=-place, hi=place)
        session[answering.answer_key(now, 0)] = right_answer(question, now.scenes)
        said.clear()
        answering.show_questions(committed(now))
        dated = catalogue("en")["lessons.as_at_first"] in [words for _, words in said]
        assert dated == (place == 300.0)
        session["lesson_answers"] = []


def test_the_numbers_above_the_picture_say_whose_they_are(said, session):
    """After a drag they were the learner's, beside the answer's in the words; on a wall they the goal's."""
    session["classroom"] = Classroom(answers="shown")
    now = at("rounding_against_clipping", 3)
    least = number(quantities()["mse"](now.step.questions[0].named_scenes(now.scenes)[SOLUTION]), 4)
    for whose in ("before", "yours"):
        picture.show_picture(now)
        words = catalogue("en")[f"lessons.whose.{whose}"].format(value=least)
        assert any(words in each for _, each in said)
        now = moved(now, kind="range", lo=-1.9, hi=1.9)
        said.clear()
    session.update(classroom=Classroom(projector=True), lesson_in_hand={})
    now = replace(now)
    before = mse_in_picture(now)
    now.tell()
    assert before != mse_in_picture(now) == least


@pytest.mark.parametrize("language", languages())
def test_a_flipped_bit_moves_the_value_to_the_tooth_of_the_new_code(monkeypatch, session, language):
    shown = []
    monkeypatch.setattr(
        moving, "show_bit_row", lambda fmt, code, title, flip, **_: shown.append((code, flip))
    )
    session["language"] = language
    now = at("float_formats", 4)
    fmt, code = now.step.state.scheme.number_format, int(now.scenes[HERE].why.q)
    for bit in (3, 0, 2, 1):
        why = moving.scene_in_hand(now).why
        moving.show_bits_in_hand(now, moving.in_hand(now), why)
        assert (why.q, shown[-1][0]) == (code, code)
        shown[-1][1](bit)
        code ^= 1 << bit
        why = moving.scene_in_hand(now).why
        assert (why.q, why.x, why.x_hat) == (code, fmt.value(code), fmt.value(code))
    assert rows(now) == (), "the comb stays as it is"
    # Bits that tell a hidden code wait for the answer.
    hidden = replace(
        now.step, questions=(replace(at("float_formats", 3).step.questions[0], hidden={"x_hat"}),)
    )
    moving.show_bits_in_hand(replace(now, step=hidden), moving.in_hand(now), why)
    assert len(shown) == 4


def test_the_plot_and_the_code_go_by_the_state_in_hand():
    """The code of int1 compared it with a symmetric one, which there is not, and the page failed."""
    start = at("bits_and_sqnr", 5)
    now = moved(start, kind="range", lo=-3.4, hi=3.4)
    shown = dict(picture.sqnr_of_bits(picture.state_shown(now)))[8]
    assert shown == pytest.approx(quantities()["sqnr_db"](moving.scene_in_hand(now)))
    assert shown > quantities()["sqnr_db"](start.scenes[HERE]) + 10
    now = at("range_to_grid", 8)
    now = moved(now, kind="format", id=hand_choices(now.step.state).formats.values[-1])
    assert "int1" in step_page.step_code(now.step, now.scenes, picture.state_shown(now), "en")


def test_a_tables_state_is_looked_at_as_it_is_and_what_was_moved_stays(session):
    """The picture of groups of 256 was called that of groups of 16, the step's own."""
    session["classroom"] = Classroom(answers="shown")
    now = at("per_group", 4)
    start = number(quantities()["mse"](now.scenes[HERE]))
    assert (picture.state_looked_at(now), mse_in_picture(now)) == ("in_hand", start)
    now = moved(now, kind="group", size=256)
    in_hand = number(quantities()["mse"](moving.scene_in_hand(now)))
    for look, mse in (("in_hand", in_hand), (HERE, start), ("in_hand", in_hand)):
        picture._look(now, look)
        assert (picture.state_looked_at(now), mse_in_picture(now)) == (look, mse)
    assert start != in_hand
    # One that was looked at gives way to the one that is asked about: its ruler had no handles.
    session.update({"classroom": Classroom(), LOOK: "full"})
    assert picture.state_looked_at(at("range_to_grid", 5)) == "in_hand"


#: Questions on the wall by kind: lesson, step, the state told, and the numbers side by side, which
#: `tests/teaching/lessons/test_compared.py` has of all questions.
ON_THE_WALL = {
    "choice": ("per_channel", 4, "col", {"0.102", "0.0223", "0.54"}),
    "direction": ("w8a32", 4, "best", {"70.9", "171"}),
    "order": ("zero_point_out_of_range", 5, "free", {"32.3", "0.000514", "0.000126", "0.00202"}),
    "number": ("rounding_against_clipping", 7, "in_hand", {"0.00642", "0.0000642"}),
    "drag": ("per_channel", 1, "in_hand", set()),
    "cell": ("per_group", 1, "in_hand", set()),
}


@pytest.mark.parametrize("kind", ON_THE_WALL)
def test_the_wall_shows_the_right_answer_with_the_others_beside_it(session, kind):
    lesson, step, told, numbers = ON_THE_WALL[kind]
    session["classroom"] = Classroom(projector=True)
    now = at(lesson, step)
    assert not picture.compared_now(now)
    now.tell()
    assert {number(each.number.value(now.scenes), 3) for each in picture.compared_now(now)} == numbers
    assert picture.state_looked_at(now) == told
    # Each kind has boxes for hands, and these are kept in the address, from which a reload begins.
    names = step_page._bar_names(now.step.questions[-1], now)
    assert sum(right for _, right in names) == 1 < len(names)
    hands.box(names[1][0], f"{answering.answer_key(now, 0)}_hands_1").take("7")
    kept = hands.written(lesson, step - 1)
    session.pop(hands._COUNTS)
    assert hands.read(kept[hands.PARAMETER], lesson, step - 1) == ()
    assert hands.written(lesson, step - 1) == kept == {"hands": "0_0_hands_1_7"}
    assert [each.key for each in hands.read("0_0_hands_1_x", lesson, step - 1)] == ["lessons.hands"]


def test_the_wall_compares_errors_in_one_colour_scale_and_says_how_many_times(said, session):
    session["classroom"] = Classroom(projector=True)
    now = at("per_channel", 6)
    now.tell()
    picture.show_compared(now, picture.compared_now(now))
    (_, shown), *_ = said
    errors = [now.scenes[name].result.error.numpy() for name in ("all", HERE)]
    most = max(float(abs(error).max()) for error in errors)
    uris = [data_uri(error, -most, most, THEMES["light_projected"].errors) for error in errors]
    quiet, loud = shown.split("</figure>")[:2]
    assert ("<small></small>" in quiet, uris[0] in quiet) == (True, True)
    assert ("<small>305 times the least</small>" in loud, uris[1] in loud) == (True, True)
    # A look at another state brings its panels back.
    picture._look(now, "free")
    assert not picture._tells(now)


@pytest.mark.parametrize(
    ("room", "step", "there"),
    [
        ("shown", ("symmetric", 3), True),
        ("", ("symmetric", 3), False),
        ("withheld", ("symmetric", 3), False),
        ("2.projector.shown.2", ("symmetric", 3), False),
        ("shown", ("learning_on_stairs", 1), False),  # a dial
    ],
)
def test_an_answered_step_can_be_saved_as_a_page(session, pressed, monkeypatch, room, step, there):
    saved = []
    monkeypatch.setattr(st, "download_button", lambda label, *_, **__: saved.append(label))
    session["classroom"] = Classroom.parse(room)
    step_page._more(at(*step))
    assert saved == [catalogue("en")["below.page"]] * there


# ---- where a lesson is opened, and where it leads --------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "place", "problem"),
    [
        (("no_such", "1"), LessonPlace(), "unknown"),
        (("<b>*", "1"), LessonPlace(), "unknown"),
        (
            ("symmetric", "99"),
            LessonPlace("symmetric", len(lessons()["symmetric"].steps) - 1),
            "unknown_step",
        ),
        (("symmetric", "0"), LessonPlace("symmetric"), "unknown_step"),
        (("symmetric", "-1"), LessonPlace("symmetric"), "unknown_step"),
        (("symmetric", "2"), LessonPlace("symmetric", 1), None),
        ((None, "1", "zero_point"), LessonPlace(*term_home("zero_point")), None),
        ((None, "1", "no_such_term"), LessonPlace(), "term_without_step"),
    ],
)
def test_an_address_that_asks_for_what_is_not_there(asked, place, problem):
    found, problems = page._opening(*asked)
    assert (found, [each.key for each in problems]) == (place, [f"lessons.{problem}"] if problem else [])


def sure_of(name, i, question, given, sure=True):
    """The answers of who tried twice."""
    return [LearnerAnswer(name, i, question.id, 0, given, sure, tried) for tried in (0, 1)]


def wrong_answer(question, scenes):
    if isinstance(question, DragQuestion):
        return answering.drag_answer(scenes[HERE].state, scenes[HERE].state)
    others = answering.DIRECTIONS if isinstance(question, DirectionQuestion) else range(len(question.options))
    return next(each for each in others if each != question.truth(scenes))


def first_of(name, *kinds):
    """The first question of these kinds in a lesson, with the index of its step and a wrong answer."""
    steps = lessons()[name].steps
    i, question = next((i, q) for i, step in enumerate(steps) for q in step.questions if isinstance(q, kinds))
    return i, question, wrong_answer(question, steps[i].scenes())


def done(name):
    """The right answers to all questions of a lesson."""
    return [
        LearnerAnswer(name, i, question.id, 0, right_answer(question, step.scenes()), False)
        for i, step in enumerate(lessons()[name].steps)
        for question in step.questions
    ]


def looks_again(pressed, kept, name=None):
    """The buttons that lead to a second look for who has given these answers: at the end of a lesson, which
    is answered, or on the list.
    """
    pressed.clear()
    st.session_state["lesson_answers"] = kept
    if name is None:
        second_look.show_due_at_the_end()
    else:
        step_page._onward(now := at(name, len(lessons()[name].steps)))
        second_look.show_second_look(now)
    return [key for key in pressed if key.startswith(("second_look_", "lesson_once_more"))]


def goes_once_more(pressed, name, i):
    """Go to a second look, and answer the questions there right; where its way back leads."""
    words = catalogue(st.session_state["language"])
    label, press = pressed["lesson_once_more"]
    assert label == words["lessons.second_look.ask"].format(number=IDS.index(name))
    press()
    assert st.session_state[PLACE] == LessonPlace(name, i)
    now = at(name, i + 1, st.session_state[ATTEMPTS][f"{name}/{i}"])
    assert (now.attempt, now.revealed) == (1, False)
    back = second_look.way_back(now)
    for question in now.step.questions:
        given = LearnerAnswer(name, i, question.id, 1, right_answer(question, now.scenes), True)
        progress.keep_answer(given)
    return back, second_look.words_back(back)


@pytest.mark.parametrize("language", languages())
def test_what_was_wrong_and_sure_is_listed_at_the_end_and_asked_once_more_two_lessons_later(
    session, pressed, language
):
    session["language"] = language
    name, later = IDS[2], IDS[4]
    i, question, given = first_of(name, ChoiceQuestion)
    k, other, guess = first_of(name, DragQuestion)
    kept = [*sure_of(name, i, question, given), *sure_of(name, k, other, guess, sure=False)]
    kept += done(IDS[3])[-1:] + done(later)[-1:] + [each for each in done(name) if each.step > max(i, k)]
    # Of the answers that were wrong, the one that was a guess is not told of.
    assert looks_again(pressed, kept, name) == [f"second_look_{i}_{question.id}"]
    assert looks_again(pressed, kept, IDS[3]) == []
    assert looks_again(pressed, kept, later) == ["lesson_once_more"]
    back, label = goes_once_more(pressed, name, i)
    assert back == LessonPlace(later, len(lessons()[later].steps) - 1)
    assert label == catalogue(language)["lessons.second_look.back"].format(number=4)
    # Once, and no more.
    assert [looks_again(pressed, session["lesson_answers"], each) for each in (later, name)] == [[], []]


@pytest.mark.parametrize("name", sample_of(IDS[-2:], 1))
def test_the_last_lessons_are_asked_once_more_from_the_list(pressed, name):
    """Two lessons after them there is none: what one was sure of there was never asked again."""
    i, question, given = first_of(name, ChoiceQuestion, DirectionQuestion)
    wrong, right = sure_of(name, i, question, given), [*done(IDS[-2]), *done(IDS[-1])]
    others = [each for each in right if each.place != wrong[0].place]
    # It comes when the course is done, and only for who was wrong.
    assert [looks_again(pressed, kept) for kept in ([*wrong, *others[:-1]], right)] == [[], []]
    assert looks_again(pressed, [*others, *wrong]) == ["lesson_once_more"]
    back, label = goes_once_more(pressed, name, i)
    assert (back, label) == (LessonPlace(), catalogue("en")["lessons.second_look.back_to_list"])
    assert looks_again(pressed, st.session_state["lesson_answers"]) == []


def test_the_list_goes_on_where_one_stopped_and_a_wrong_try_finishes_nothing(session):
    i, question, wrong = first_of("fewer_bits", DragQuestion)
    assert question.hint
    assert progress.place_to_go_on() is None
    session["lesson_answers"] = sure_of("fewer_bits", i, question, wrong)[:1]
    assert progress.place_to_go_on() == (IDS[1], 0)
    assert not progress.is_finished("fewer_bits", lessons()["fewer_bits"])
    session["lesson_answers"] = sure_of("fewer_bits", i, question, wrong)
    assert progress.is_finished("fewer_bits", lessons()["fewer_bits"])


def test_the_ends_of_lessons_lead_to_the_adder_and_to_course_2(monkeypatch, pressed):
    links = []
    monkeypatch.setattr(st, "page_link", lambda page, **more: links.append((page, more)))
    step_page._way_on(at("fewer_bits", 3))
    ((page, more),) = links
    state, problems = CheckpointsState.read(more["query_params"])
    assert (page, state.chosen, state.model.bits, problems) == (step_page._MODEL, "model:adder", 3, ())
    # The door to course 2 is at the end of the first hour alone.
    assert not pressed
    step_page._way_on(at(FIRST_HOUR[-1], 1))
    assert list(pressed) == ["lesson_course_2"]
