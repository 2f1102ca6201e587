"""The lessons in the app: every step in both languages, answered right and wrong, and nothing told before."""

import base64
import contextlib
import dataclasses
import html
import itertools
import json
import re
import shutil
import string
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import quantviz.teaching.lessons
from quantviz.errors import QuantVizError
from quantviz.figures.numbers import number
from quantviz.figures.raster import data_uri
from quantviz.figures.theme import THEMES
from quantviz.lab.classroom import CLOSED, Classroom
from quantviz.lab.moves import hand_choices
from quantviz.lab.picture_parts import PANEL_PARTS, TILE_PARTS
from quantviz.lab.scenarios import SCENARIOS
from quantviz.teaching.lessons import known_by, lessons, term_home
from quantviz.teaching.lessons.drags import drag_answer, dragged, moved_by
from quantviz.teaching.lessons.formulas import HERE, SOLUTION, Scene, quantities
from quantviz.teaching.lessons.model import DIRECTIONS, Cell, Choice, Direction, Drag, Number, Order
from quantviz.teaching.lessons.plan import FIRST_HOUR, legend_home
from quantviz.teaching.lessons.progress import Answer, as_json, judged
from quantviz.text import catalogue, languages
from quantviz.ui.components import hand
from quantviz.ui.lessons import moving, picture, second_look
from quantviz.ui.shell import errors
from tests.helpers.controls import choose, controls
from tests.helpers.lessons import right_answer
from tests.helpers.sample import sample_of
from tests.helpers.session import address, hint

IDS = list(lessons())


def opened(**params):
    at = AppTest.from_file("../../app.py", default_timeout=60)
    for name, value in params.items():
        at.query_params[name] = value
    return healthy(at.switch_page("pages/learn/lessons.py").run())


def healthy(at):
    assert not at.exception, at.exception
    return at


def asked(at, name):
    value = at.query_params[name]
    return value[0] if isinstance(value, list) else value


def everything(at):
    """All that the browser is sent, as bytes."""
    found = []

    def walk(block):
        for child in getattr(block, "children", {}).values():
            proto = getattr(child, "proto", None)
            if proto is not None and hasattr(proto, "SerializeToString"):
                found.append(proto.SerializeToString())
                spec = getattr(proto, "spec", "")
                if isinstance(spec, str) and spec.startswith("{"):
                    found.extend(arrays(json.loads(spec)))
            walk(child)

    walk(at._tree)
    return b"\n".join(found)


def arrays(value):
    if isinstance(value, dict):
        if "bdata" in value:
            yield base64.b64decode(value["bdata"])
        for each in value.values():
            yield from arrays(each)
    elif isinstance(value, list):
        for each in value:
            yield from arrays(each)


def wrong_answer(question, scenes):
    """An answer that is not right: a known mistake where there is one."""
    truth = question.truth(scenes)
    if isinstance(question, Direction):
        return next(name for name in DIRECTIONS if name != truth)
    if isinstance(question, Number):
        return next(
            (value for value in question.mistaken(scenes) if not question.within.accepts(value, truth)),
            1e6 + 7 * abs(truth),
        )
    if isinstance(question, Cell):
        rows, cols = scenes[HERE].state.source.shape
        return next(
            ((row, col) for row in range(rows) for col in range(cols) if (row, col) not in truth), None
        )
    if isinstance(question, Choice):
        return next(i for i in range(len(question.options)) if i != truth)
    if isinstance(question, Drag):
        return wrongly_dragged(question, scenes)
    return tuple(reversed(truth))


def wrongly_dragged(question, scenes):
    """The first state that is wrong, of some that a hand can come to."""
    start = scenes[HERE].state
    x = scenes[HERE].result.x
    lo, hi = float(x.min()), float(x.max())
    tried = [{"kind": "range", "lo": share * lo, "hi": share * hi} for share in (0.3, 0.9, 1.3)]
    tried += [{"kind": "range", "lo": -share * abs(hi), "hi": share * abs(hi)} for share in (1.0, 1.5)]
    tried += [{"kind": "given", "scale": scenes[HERE].why.scale, "zero_point": z} for z in (-7, -1, 0, 5)]
    tried += [{"kind": "given", "scale": each * scenes[HERE].why.scale, "zero_point": 0} for each in (2, 9)]
    tried += [{"kind": "cell", "cell": list(start.cell), "value": share * hi} for share in (0.11, 0.93)]
    tried += [{"kind": "format", "id": name} for name in hand_choices(start).formats.values]
    tried += [{"kind": "group", "size": size} for size in hand_choices(start).sizes.values]
    for message in tried:
        with contextlib.suppress(QuantVizError):
            given = drag_answer(start, moved_by(start, message, question.moves))
            if question.takes(given, scenes) and not question.judge(given, scenes).right:
                return given
    raise AssertionError(question)


def marked(at, name, i, attempt, question, where=0.5):
    """The session after a tap on the ruler: tests/browser/test_lessons.py has it tap."""
    marks = at.session_state.get("lesson_marks", {})
    at.session_state["lesson_marks"] = {**marks, (f"{name}/{i}", attempt, question.id): where}
    return healthy(at.run())


def moved(at, name, i, attempt, state):
    """The session after a hand has come to `state` in a step, and has marked first where that was asked:
    tests/browser/test_lessons.py has it come.
    """
    for question in lessons()[name].steps[i].questions:
        if lessons()[name].steps[i].opened_by_mark(question):
            marked(at, name, i, attempt, question)
    found = at.session_state.get("lesson_in_hand", {})
    at.session_state["lesson_in_hand"] = {**found, (f"{name}/{i}", attempt): state}
    return healthy(at.run())


def opened_in_hand(**params):
    """A step as `opened` shows it once a hand has moved something there and back: now it asks."""
    name, i = params["l"], int(params["p"]) - 1
    return moved(opened(**params), name, i, 0, lessons()[name].steps[i].scenes()[HERE].state)


def answer(at, question, given, key):
    if isinstance(question, Direction):
        at.segmented_control(key=key).set_value(given)
    elif isinstance(question, Number):
        at.text_input(key=key).set_value(repr(float(given)))
    elif isinstance(question, Cell):
        for axis, place in zip(("row", "col"), given, strict=True):
            at.number_input(key=f"{key}_{axis}").set_value(place)
    elif isinstance(question, Choice):
        at.radio(key=key).set_value(given)
    elif isinstance(question, Order):
        at.pills(key=key).set_value(list(given))
    return at


def commit(at, sure=True):
    return healthy(at.button(key="commit" if sure else "commit_guess").click().run())


def commits(at):
    """The buttons that commit an answer."""
    return [button for button in at.button if str(button.key).startswith("commit")]


def not_told(at, step, scenes, opened=frozenset()):
    """Nothing of what the step hides, but for what a mark has opened, and no word of its answers was sent."""
    sent = everything(at)
    r, hidden = scenes[HERE].result, step.hidden - opened
    for part in ("curve", "bits_plot", *TILE_PARTS):
        if part in step.show and step.move:
            assert is_sent(sent, part) == (part not in hidden), part
    for part in ("q", "x_hat", "error"):
        if part in hidden:
            values = getattr(r, part).numpy()
            for dtype in (values.dtype, np.float32, np.float64):
                # A few cells are no secret: x̂ of a whole tensor is.
                assert (
                    values.size < 4
                    or np.unique(values).size < 2
                    or values.astype(dtype).tobytes() not in sent
                ), part
    for question in step.questions:
        texts = [question.why, *(mistake.says for mistake in question.mistakes)]
        texts += [option.says for option in question.options] if isinstance(question, Choice) else []
        for words in texts:
            assert not (words and words.text) or words.say(question.named_scenes(scenes)).encode() not in sent
        if isinstance(question, Drag):
            # Neither the state that is right nor the grid that the ruler lays below the learner's.
            solution = question.truth(scenes)
            assert str(solution.scheme).encode() not in sent or solution.scheme == r.scheme
            assert b'"tone": "right"' not in sent
            for formula in question.solution.values():
                form = number(float(formula.value(scenes)), 4)
                # What stands in x is no secret.
                seen = {number(value, 4) for value in r.x.flatten().tolist()} if "x" in step.show else set()
                assert (
                    form in seen
                    or len(form.replace("−", "").replace(".", "")) < 4
                    or form.encode() not in sent
                )
        if isinstance(question, Number):
            truth = question.truth(scenes)
            # 255 or 3 may stand there for another reason; 3.579 may not.
            for form in {number(truth, digits) for digits in (4, 5, 6)} | {repr(truth)}:
                if len(form.replace("−", "").replace(".", "")) >= 4:
                    assert form.encode() not in sent, form
    assert step.rule is None or step.rule.say(scenes).encode() not in sent
    assert b"qv-whose" not in sent


def is_sent(sent, part):
    """Whether a readout of a step with handles was sent: the number of a tile, a curve or a plot."""
    if part == "curve":
        return b'"curve": {' in sent
    if part == "bits_plot":
        return b"lesson_bits_plot" in sent
    return f'data-qv-metric="{part.removeprefix("tiles.")}"'.encode() in sent


def opened_before(step, k):
    """What the marks of the first `k` questions of a step have opened."""
    return frozenset().union(*(step.opened_by_mark(question) for question in step.questions[:k]))


@pytest.mark.parametrize(("name", "language"), sample_of(itertools.product(IDS, languages()), 3))
def test_each_step_answered_wrong_and_right(name, language):
    lesson, words = lessons(language)[name], catalogue(language)
    at = opened(l=name, lang=language)
    for i, step in enumerate(lesson.steps):
        assert asked(at, "p") == str(i + 1)
        for attempt, right in enumerate((False, True) if step.questions else ()):
            scenes = step.scenes(attempt)
            if step.move and step.questions and not isinstance(step.questions[0], Drag):
                # Nothing is asked before something was moved.
                assert not commits(at)
                moved(at, name, i, attempt, scenes[HERE].state)
            for k, question in enumerate(step.questions):
                if attempt == 0:
                    not_told(at, step, scenes, opened_before(step, k))
                if step.opened_by_mark(question):
                    # Blind first: there is nothing to commit, and nothing else to move.
                    assert not commits(at)
                    assert b'"asked": true' in everything(at)
                    marked(at, name, i, attempt, question)
                    assert b'"asked": false' in everything(at)
                    assert len(commits(at)) == 2
                    if attempt == 0:
                        not_told(at, step, scenes, opened_before(step, k + 1))
                if step.move:
                    # Other states have no handles: none can be looked at while something is to be moved.
                    assert not [pills.key for pills in at.pills if str(pills.key).startswith("look_")]
                given = right_answer(question, scenes) if right else wrong_answer(question, scenes)
                if given is None:  # every cell is right
                    given = right_answer(question, scenes)
                if isinstance(question, Drag):
                    moved(at, name, i, attempt, dragged(scenes[HERE].state, given))
                answer(at, question, given, f"answer_{name}_{i}_{k}_{attempt}")
                commit(at, sure=right)
                if not right and question.hint:
                    once_more(at, name, i, k, question, given, scenes)
            told = [element.value for element in (*at.success, *at.error)]
            assert len(told) == len(step.questions), told
            start = words["lessons.right" if right else "lessons.wrong"].partition("{")[0]
            assert sum(text.startswith(start) for text in told) >= len(step.questions) - sum(
                isinstance(q, Cell) for q in step.questions
            )
            if not right:
                healthy(at.button(key="lesson_again").click().run())
        healthy(at.button(key="lesson_next").click().run())


def once_more(at, name, i, k, question, first, scenes):
    """The second try: a hint was given, the truth was not, and another wrong answer ends it."""
    key = f"answer_{name}_{i}_{k}_0"
    assert question.hint.say(scenes) in at.warning[0].value
    assert not at.success
    if isinstance(question, Order):
        # Bars as long as the values would tell the order.
        assert b'class="qv-bars"' not in everything(at)
        assert at.pills(key=key).value == []
        answer(at, question, first, key)
    commit(at)
    assert at.error[0].value.startswith("This was") or at.error[0].value.startswith("这就是")
    not_told_again(at, question, scenes)
    second = another_wrong_answer(question, first, scenes)
    if isinstance(question, Drag):
        moved(at, name, i, 0, dragged(scenes[HERE].state, second))
    answer(at, question, second, key)
    commit(at, sure=False)


def not_told_again(at, question, scenes):
    sent = everything(at)
    told = question.named_scenes(scenes)
    assert question.why is None or question.why.say(told).encode() not in sent


def another_wrong_answer(question, first, scenes):
    truth = question.truth(scenes)
    if isinstance(question, Number):
        return 1e6 + 7 * abs(truth)
    if isinstance(question, Direction):
        return next(name for name in DIRECTIONS if name not in (truth, first))
    if isinstance(question, Choice):
        return next(i for i in range(len(question.options)) if i not in (truth, first))
    if isinstance(question, Cell):
        rows, cols = scenes[HERE].state.source.shape
        cells = ((row, col) for row in range(rows) for col in range(cols))
        return next(cell for cell in cells if cell not in truth and cell != tuple(first))
    if isinstance(question, Order):
        orders = itertools.permutations(range(len(question.items)))
        return next(o for o in orders if o != tuple(first) and not question.judge(o, scenes).right)
    start = dragged(scenes[HERE].state, first)
    for message in (
        *({"kind": "given", "scale": scenes[HERE].why.scale, "zero_point": z} for z in (-7, -1, 1, 6)),
        *({"kind": "given", "scale": end, "zero_point": 0} for end in (0.1, 70.0)),
        *({"kind": "range", "lo": -end, "hi": end} for end in (0.1, 1.0, 10.0, 100.0)),
        *({"kind": "cell", "cell": list(start.cell), "value": end} for end in (0.01, 1.0, 70.0, 300.0)),
        *({"kind": "format", "id": name} for name in hand_choices(start).formats.values),
        *({"kind": "group", "size": size} for size in hand_choices(start).sizes.values),
    ):
        with contextlib.suppress(QuantVizError):
            given = drag_answer(scenes[HERE].state, moved_by(start, message, question.moves))
            fits = question.takes(given, scenes) and given != first
            if fits and not question.judge(given, scenes).right:
                return given
    raise AssertionError(question)


def test_what_is_typed_wrongly_is_said_beside_it_and_nothing_is_lost():
    at = opened_in_hand(l="range_to_grid", p="3")
    key = next(widget.key for widget in at.text_input if widget.key.startswith("answer_range_to_grid_2"))
    commit(at)
    assert at.error[0].value.startswith("You have not typed a number yet")
    at.text_input(key=key).set_value("about four")
    commit(at)
    assert "not a number" in at.error[0].value
    assert at.text_input(key=key).value == "about four"
    at.text_input(key=key).set_value("1,234")
    commit(at)
    assert "1\\.234 or 1234" in at.error[0].value
    at.text_input(key=key).set_value("（１０+2.5)/ ３，５ + 1e-2")
    commit(at)
    assert at.success


def test_progress_is_kept_over_pages_and_languages():
    at = opened_in_hand(l="range_to_grid", p="3")
    at.text_input(key="answer_range_to_grid_2_0_0").set_value("3.58")
    commit(at)
    assert at.success
    healthy(at.switch_page("pages/lab/playground.py").run())
    healthy(at.switch_page("pages/learn/lessons.py").run())
    assert at.success
    at.segmented_control(key="language_choice").set_value("zh").run()
    assert at.success[0].value.startswith("答对了")
    # AppTest knows no popovers, and each run closes it again.
    at.session_state["progress"] = True
    sent = everything(healthy(at.run())).decode(errors="replace")
    for taken_along in ("我的进度（1）", "qv-card-progress", "共答 1 次，答对 1 次"):
        assert taken_along in sent
    assert [button.proto.label for button in at.get("download_button")] == ["下载"]


def test_the_lab_opens_with_the_steps_state():
    lesson = lessons()["rounding_against_clipping"]
    at = opened(l="rounding_against_clipping", k="shown")
    healthy(at.button(key="lesson_to_lab").click().run())
    # The Lab begins here: there is no state before that anybody has seen.
    assert controls(at)["undo"]["disabled"]
    assert asked(at, "s") == str(lesson.steps[0].state.scheme)
    assert "Opened from step 1 of the lesson" in hint(at)
    # It is the tensor of an example too, whose words are not this lesson's.
    assert not [name for name in SCENARIOS if catalogue("en")[f"scenarios.{name}.look"] in hint(at)]
    healthy(at.button(key="back_to_lesson").click().run())
    assert (asked(at, "l"), asked(at, "p")) == ("rounding_against_clipping", "1")
    # Who takes an example in the Lab is told of that example, and has left the lesson.
    healthy(at.switch_page("pages/lab/playground.py").run())
    healthy(at.button(key="reset").click().run())
    assert not [button for button in at.button if button.key == "back_to_lesson"]
    assert "Opened from step" not in hint(at)


def test_undo_in_a_lab_that_was_open_before_keeps_the_way_back():
    at = opened(l="rounding_against_clipping", k="shown")
    healthy(at.switch_page("pages/lab/playground.py").run())
    before = at.session_state["lab_state"].now
    healthy(at.switch_page("pages/learn/lessons.py").run())
    healthy(at.button(key="lesson_to_lab").click().run())
    healthy(at.switch_page("pages/lab/playground.py").run())
    from_lesson = at.session_state["lab_state"].now
    healthy(choose(at, "undo"))
    assert at.session_state["lab_state"].now == before
    assert "Opened from step" not in hint(at)
    assert at.button(key="back_to_lesson")
    healthy(choose(at, "redo"))
    assert at.session_state["lab_state"].now == from_lesson
    assert "Opened from step 1" in hint(at)
    # Another step from the state before leads elsewhere.
    healthy(choose(at, "undo"))
    healthy(at.selectbox(key="kind").set_value("random").run())
    assert not [button for button in at.button if button.key == "back_to_lesson"]


@pytest.mark.parametrize(
    ("params", "words", "kept"),
    [
        ({"l": "no_such"}, "There is no lesson", None),
        ({"l": "<b>*"}, "There is no lesson", None),
        ({"l": "symmetric", "p": "99"}, "no step '99'", str(len(lessons()["symmetric"].steps))),
        ({"l": "symmetric", "p": "0"}, "no step '0'; step 1 is shown", "1"),
        ({"l": "symmetric", "p": "-1"}, "no step", "1"),
        ({"l": "symmetric", "p": "2"}, None, "2"),
        ({"k": "nonsense"}, "settings in this link are damaged", None),
    ],
)
def test_an_address_that_asks_for_what_is_not_there(params, words, kept):
    at = opened(**params)
    said = [warning.value.replace("\\", "") for warning in at.warning]
    assert said == [] if words is None else words in said[0]
    # The address is that of what is shown.
    assert (address(at).get("p"), address(at).get("l")) == (kept, kept and params["l"])
    if words and "l" in params:
        healthy(at.button(key="go_symmetric" if kept else "open_symmetric").click().run())
        assert not at.warning


def test_a_teacher_can_withhold_the_answers():
    at = opened_in_hand(l="range_to_grid", p="3", k="withheld")
    step = lessons()["range_to_grid"].steps[2]
    at.text_input(key="answer_range_to_grid_2_0_0").set_value("3.58")
    commit(at)
    if len(step.questions) == 1:
        assert at.info[0].value == catalogue("en")["lessons.withheld"]
        assert not at.success
        not_told(at, step, step.scenes())


@pytest.mark.parametrize(
    "damaged",
    sample_of(["withhe1d", "", ["withheld", "shown"], "withheld.shown", "2.no-below", "no-below.2"], 2),
)
def test_a_damaged_class_setting_withholds_the_answers(damaged):
    at = opened_in_hand(l="range_to_grid", p="3", k=damaged)
    step = lessons()["range_to_grid"].steps[2]
    at.text_input(key="answer_range_to_grid_2_0_0").set_value("3.58")
    commit(at)
    assert "damaged" in at.warning[0].value
    not_told(at, step, step.scenes())
    assert Classroom.parse(address(at)["k"]) == CLOSED


def progress(at):
    """What is sent with the learner's progress opened."""
    at.session_state["progress"] = True
    return everything(healthy(at.run())).decode(errors="replace")


@pytest.mark.parametrize("language", languages())
def test_withheld_answers_are_not_told_by_the_progress_either(language):
    sent = {}
    for given in ("3.58", "99"):
        at = opened_in_hand(l="range_to_grid", p="3", k="withheld", lang=language)
        at.text_input(key="answer_range_to_grid_2_0_0").set_value(given)
        commit(at)
        sent[given] = progress(at)
        assert catalogue(language)["lessons.progress.noted"].format(count=1) in sent[given]
        assert "right" not in at.session_state["lesson_answers"][0].__dict__
    # But for the answer itself, the same is sent to who is right and to who is wrong.
    for telling in ("✓ </td>", "1 / 1", "right", "答对 1", "✓"):
        assert sent["3.58"].count(telling) == sent["99"].count(telling)
    assert "qv-card-progress" in sent["99"]
    assert [button.proto.label for button in at.get("download_button")] == [
        catalogue(language)["lessons.progress.download"]
    ]


def test_what_comes_after_the_next_question_is_not_told_by_the_progress_before():
    steps = [(name, i, step) for name, lesson in lessons().items() for i, step in enumerate(lesson.steps)]
    name, i, step = next(each for each in steps if len(each[2].questions) == 2)
    at, scenes = opened(l=name, p=str(i + 1)), step.scenes()
    for k, question in enumerate(step.questions):
        given = right_answer(question, scenes)
        if isinstance(question, Drag):
            moved(at, name, i, 0, dragged(scenes[HERE].state, given))
        answer(at, question, given, f"answer_{name}_{i}_{k}_0")
        commit(at)
        assert f"{2 * k} of {2 * k} answers right" in progress(at)


def restored(at, stored):
    """The session after the browser told what it had kept: tests/browser/test_lessons.py has it tell."""
    at.session_state["lesson_answers"] = stored
    return healthy(at.run())


def test_noted_answers_get_their_feedback_when_the_teacher_opens_them():
    at = opened_in_hand(l="range_to_grid", p="3", k="withheld")
    at.text_input(key="answer_range_to_grid_2_0_0").set_value("3.58")
    commit(at)
    noted = at.session_state["lesson_answers"]
    assert not at.success
    for room in ({}, {"k": "shown"}):
        at = restored(opened(l="range_to_grid", p="3", **room), noted)
        assert at.success[0].value.startswith("Right")
        assert "1 of 1 answers right" in progress(at)


def test_a_step_asked_again_is_at_the_same_attempt_after_a_reload():
    at = restored(
        opened(l="range_to_grid", p="3"),
        [
            Answer("range_to_grid", 2, "scale", attempt, 99.0 - tried, True, tried)
            for attempt in (0, 1)
            for tried in (0, 1)
        ],
    )
    assert at.error
    healthy(at.button(key="lesson_again").click().run())
    moved(at, "range_to_grid", 2, 2, lessons()["range_to_grid"].steps[2].scenes(2)[HERE].state)
    assert at.text_input(key="answer_range_to_grid_2_0_2")


def load(at, content):
    progress(at)
    at.session_state["progress"] = True
    healthy(at.file_uploader(key="progress_load").set_value(("x.json", content, "application/json")).run())


def test_a_downloaded_file_is_loaded_again_and_a_bad_one_refused():
    given = [Answer("range_to_grid", 2, "scale", 0, 3.58, True)]
    at = opened_in_hand(l="range_to_grid", p="3")
    for content, said in (
        (b"{", "cannot be read"),
        (b" " * 300_000, "too large"),
        (as_json(given).replace(b"3.58", b"Infinity"), "cannot be read"),
    ):
        load(at, content)
        assert said in at.error[0].value
        assert not at.session_state["lesson_answers"]
    load(at, as_json([*given, Answer("no_such", 0, 0, 0, 1.0, True)]))
    assert any(
        "loaded from the file: 1" in element.value and "no question of these lessons: 1" in element.value
        for element in at.success
    )
    assert any(element.value.startswith("Right") for element in at.success)
    # Another learner's turn at the same computer.
    progress(at)
    healthy(at.button(key="progress_clear").click().run())
    assert not at.session_state["lesson_answers"]
    assert not at.success
    moved(at, "range_to_grid", 2, 0, lessons()["range_to_grid"].steps[2].scenes()[HERE].state)
    assert at.text_input(key="answer_range_to_grid_2_0_0").value == ""


def test_the_next_learner_at_the_computer_marks_anew():
    at = opened(l="rounding_against_clipping", p="3")
    step = lessons()["rounding_against_clipping"].steps[2]
    moved(at, "rounding_against_clipping", 2, 0, step.questions[0].truth(step.scenes()))
    commit(at)
    progress(at)
    healthy(at.button(key="progress_clear").click().run())
    assert not commits(at)
    assert b'"asked": true' in everything(at)
    not_told(at, step, step.scenes())


def test_a_second_tap_that_comes_before_the_page_changes_nothing(monkeypatch):
    """On a slow line it was “Unknown move: got 'mark'”, on every step that followed."""
    name, i = "rounding_against_clipping", 2
    at = opened(l=name, p=str(i + 1))
    marked(at, name, i, 0, lessons()[name].steps[i].questions[0], where=1.5)
    taps = {"kind": "mark", "at": 2.5}

    def tapped():
        monkeypatch.setattr(hand, "released", lambda key: taps)
        with monkeypatch.context() as patch:
            patch.setattr(picture, "show_hand_ruler", let_go)
            return healthy(at.run())

    def let_go(now, *_, **__):
        errors.safely(lambda: moving._let_go(now))()

    tapped()
    ((_, where),) = at.session_state["lesson_marks"].items()
    assert where == 1.5
    assert not healthy(at.run()).warning
    # A message that is none is told, and left behind with the step.
    taps["kind"] = "unheard_of"
    tapped()
    assert "Unknown move" in healthy(at.run()).warning[0].value
    monkeypatch.undo()
    assert not healthy(at.button(key="lesson_next").click().run()).warning


def test_who_has_not_heard_of_teeth_sees_none_in_the_row_from_before():
    at, step = opened(l="range_to_grid"), lessons()["range_to_grid"].steps[0]
    moved(at, "range_to_grid", 0, 0, dragged_value(step, 26.0))
    sent = everything(at)
    (row,) = json.loads(re.search(rb'"rows": (\[\{"words": "before".*?\}\])', sent)[1])
    assert (row["tone"], row["levels"]) == ("before", [])
    assert row["range"] == pytest.approx([-184, 728.6])


def dragged_value(step, value):
    state = step.scenes()[HERE].state
    return moved_by(state, {"kind": "cell", "cell": list(state.cell), "value": value}, step.move)


def test_a_pointer_and_a_screen_reader_are_told_in_words_that_are_known():
    """Over lesson 0 the card said x̂ and a cause, and the ruler of lesson 1 told a code and an error."""
    words = catalogue("en")
    sent = everything(opened(l="fewer_bits", p="3", lang="en"))
    assert json.dumps(words["panels.plain_field.x_hat"]).encode() in sent
    assert b'"cause"' not in cells_of(everything(opened(l="range_to_grid", p="3", k="shown")))
    sent = everything(opened(l="range_to_grid", lang="en"))
    assert "Ruler: the values lie from −184 to 728.6; the selected one is 728.6" in plain(sent)
    assert b"goes to the nearest" not in sent
    sent = everything(opened(l="range_to_grid", p="7", lang="en"))
    assert b"goes to the nearest" in sent
    assert json.dumps(words["panels.plain_field.x_hat"]).encode() not in sent
    assert b'"cause"' in cells_of(everything(opened(l="symmetric", p="6")))


def cells_of(sent):
    """The headers of the cells that the panels' cards tell."""
    found = re.findall(rb'\{"chart": "lesson_panels", "stamp".*?"arrays": \{.*?\}\}', sent, re.DOTALL)
    assert found
    return b"".join(found)


def plain(sent):
    """What was sent, with the marks of JSON read."""
    return sent.decode(errors="replace").replace("\\u2212", "−")


def test_a_reason_says_of_when_its_numbers_are_where_something_was_moved_since():
    """“From 0.5 to 1.4” stood beside a tile that told what the hand had made by then."""
    name, i = "symmetric", 3
    step, said = lessons()[name].steps[i], catalogue("en")["lessons.as_at_first"]
    (question,) = step.questions
    for hi, dated in ((300.0, True), (None, False)):
        at = opened(l=name, p=str(i + 1), lang="en")
        state = step.scenes()[HERE].state
        if hi:
            state = moved_by(state, {"kind": "range", "lo": -hi, "hi": hi}, step.move)
        moved(at, name, i, 0, state)
        answer(at, question, right_answer(question, step.scenes()), f"answer_{name}_{i}_0_0")
        commit(at)
        assert (said in [words.value for words in at.caption]) == dated


def test_a_teacher_can_show_them_at_once():
    at = opened(l="range_to_grid", p="3", k="shown")
    assert at.info[0].value.startswith("The answer:")
    assert not [button for button in at.button if button.key == "commit"]


def starts(at):
    """The words on cards that say where to start or go on, by the card's own words."""
    facts = [each.proto.body for each in at.get("html") if 'class="qv-card-facts"' in each.proto.body]
    return [re.search('qv-start">(.*?)<', each)[1] if "qv-start" in each else "" for each in facts]


def test_the_list_stands_once_and_begins_at_lesson_0():
    at = opened(lang="en")
    assert starts(at) == ["Start here", *[""] * (len(IDS) - 1)]
    assert not [button for button in at.button if button.key.startswith("go_")]
    assert [button.key for button in at.button if button.key.startswith("hour_")] == [
        f"hour_{name}" for name in FIRST_HOUR
    ]
    healthy(at.button(key="hour_symmetric").click().run())
    assert address(at)["l"] == "symmetric"
    assert [button.key for button in at.button if button.key.startswith("go_")] == [f"go_{n}" for n in IDS]


def test_the_list_goes_on_where_one_stopped_and_a_wrong_try_finishes_nothing():
    at = opened(l="fewer_bits", lang="en")
    steps = lessons("en")["fewer_bits"].steps
    (i, question), *others = [(i, each) for i, step in enumerate(steps) for each in step.questions]
    assert question.hint
    assert not others
    start = steps[i].scenes()[HERE].state
    first = [Answer("fewer_bits", i, question.id, 0, drag_answer(start, start), True)]
    at.session_state["lesson_answers"] = first
    healthy(at.button(key="lesson_all").click().run())
    following = [f"Go on at step {i + 2}"] if i + 1 < len(steps) else ["", "Go on at step 1"]
    assert starts(at)[: len(following)] == following
    assert not [each for each in at.get("html") if 'class="qv-done"' in each.proto.body]
    at.session_state["lesson_answers"] = [*first, *(dataclasses.replace(each, tried=1) for each in first)]
    healthy(at.run())
    assert len([each for each in at.get("html") if 'class="qv-done"' in each.proto.body]) == 1


def test_only_the_end_of_the_first_hour_has_a_door_to_course_2():
    doors = [
        name
        for name in ("fewer_bits", *FIRST_HOUR)
        if any(
            button.key == "lesson_course_2"
            for button in opened(l=name, p=str(len(lessons()[name].steps)), k="shown").button
        )
    ]
    assert doors == [FIRST_HOUR[-1]]


def test_hands_are_counted_where_a_teacher_wants_it():
    at = opened(l="symmetric")
    assert not [box for box in at.number_input if "_hands_" in box.key]
    before = at.sidebar.toggle[0].proto.id
    healthy(at.sidebar.toggle[0].set_value(True).run())
    assert at.sidebar.toggle[0].proto.id == before, "a second press, sent by now, would be lost"
    direction = [
        (i, k)
        for i, step in enumerate(lessons()["symmetric"].steps)
        for k, q in enumerate(step.questions[:1])
        if q.kind in ("direction", "choice")
    ]
    i = direction[0][0]
    for _ in range(i):
        healthy(at.button(key="lesson_next").click().run())
    moved(at, "symmetric", i, 0, lessons()["symmetric"].steps[i].scenes()[HERE].state)
    boxes = [box for box in at.number_input if "_hands_" in box.key]
    assert len(boxes) >= 2
    boxes[0].set_value(6)
    boxes[1].set_value(2)
    healthy(at.run())
    bars = [
        element.proto.body
        for element in at.get("html")
        if element.proto.body.startswith('<div class="qv-hands')
    ]
    assert "width: 75.0%" in bars[0]
    assert "width: 25.0%" in bars[1]
    assert not any("qv-right" in bar for bar in bars)


def compared(at):
    """The figures side by side on the wall: name, number, words on it, and image."""
    shown = [each.proto.body for each in at.get("html") if 'class="qv-compared"' in each.proto.body]
    return re.findall(
        r"<figure><span>(.*?)</span><b>(.*?)</b><small>(.*?)</small>(?:<img[^>]*src=\"(.*?)\">)?</figure>",
        "".join(shown),
    )


#: Questions on the wall by kind: lesson, step, the state told, and the numbers side by side.
ON_THE_WALL = {
    "choice": ("per_channel", 4, "col", {"0.102", "0.0223", "0.54"}),
    "choice of counts": ("per_channel", 5, None, {"0.0116", "0.0206"}),
    "choice of codes": ("four_bits", 4, "int4", {"0.00157", "0.00395", "0.00287"}),
    "direction": ("w8a32", 4, "best", {"70.9", "171"}),
    "order": ("zero_point_out_of_range", 5, "free", {"32.3", "0.000514", "0.000126", "0.00202"}),
    "number": ("rounding_against_clipping", 7, None, {"0.00642", "0.0000642"}),
    "drag": ("per_channel", 1, None, set()),
    "cell": ("per_group", 1, None, set()),
}


@pytest.mark.parametrize("kind", ON_THE_WALL)
def test_the_wall_shows_the_right_answer_with_the_others_beside_it(kind):
    lesson, step, told, numbers = ON_THE_WALL[kind]
    at = opened(l=lesson, p=str(step), k="projector", lang="en")
    assert not compared(at)
    healthy(at.button(key="lesson_tell").click().run())
    assert {value for _, value, _, _ in compared(at)} == numbers
    if told:
        assert at.selectbox(key=f"look_{lesson}/{step - 1}").value == told
    # Each kind has boxes for hands, and these are kept in the address, from which a reload begins.
    boxes = [box for box in at.number_input if "_hands_" in box.key]
    assert len(boxes) >= 2
    boxes[1].set_value(7)
    healthy(at.run())
    again = opened(l=lesson, p=str(step), k="projector", lang="en", hands=asked(at, "hands"))
    healthy(again.button(key="lesson_tell").click().run())
    assert [box.value for box in again.number_input if "_hands_" in box.key][1] == 7


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("lesson", "i"),
    [
        (name, i)
        for name, lesson in lessons().items()
        for i, step in enumerate(lesson.steps)
        if step.questions and step.questions[-1].kind == "choice"
    ],
)
def test_the_mark_of_each_choice_on_the_wall_is_the_picture_s(lesson, i):
    step = lessons()[lesson].steps[i]
    scenes, question = step.scenes(), step.questions[-1]
    at = opened(l=lesson, p=str(i + 1), k="projector", lang="en")
    healthy(at.button(key="lesson_tell").click().run())
    parts = [each.proto.body for each in at.get("html")]
    (marked,) = (part for part in parts if 'class="qv-bar qv-right"' in part)
    right = question.truth(scenes)
    words = html.unescape(re.sub("<.*?>", "", marked))
    assert words.startswith(string.ascii_uppercase[right])
    assert question.options[right].text.say(scenes) in words
    found = question.compared(scenes)
    shown = [value for _, value, _, _ in compared(at)]
    assert shown == [number(each.number.value(scenes), 3) for each in found]
    # No table repeats the numbers in smaller digits beside their pictures.
    panels = step.show & set(PANEL_PARTS)
    assert not (shown and panels and any('class="qv-steps qv-table"' in part for part in parts))
    if any(box.key == f"look_{lesson}/{i}" for box in at.selectbox):
        told = question.state_told(scenes)
        assert at.selectbox(key=f"look_{lesson}/{i}").value == ("in_hand" if told == HERE else told)


def test_the_wall_compares_errors_in_one_colour_scale_and_says_how_many_times():
    at = opened(l="per_channel", p="6", k="projector", lang="en")
    healthy(at.button(key="lesson_tell").click().run())
    (_, _, least, quiet), (_, _, words, loud) = compared(at)
    assert least == ""
    assert words == "305 times the least"
    scenes = lessons()["per_channel"].steps[5].scenes()
    errors = [scenes[name].result.error.numpy() for name in ("all", HERE)]
    most = max(float(abs(error).max()) for error in errors)
    assert [quiet, loud] == [data_uri(error, -most, most, THEMES["light"].errors) for error in errors]
    # A look at another state brings its panels back.
    healthy(at.selectbox(key="look_per_channel/5").set_value("free").run())
    assert not compared(at)


def test_hands_in_the_address_that_cannot_be_read_are_named():
    at = opened(l="per_channel", p="4", k="projector", lang="en", hands="0_0_hands_1_x")
    assert [warning.value for warning in at.warning if "hands" in warning.value]


@pytest.mark.parametrize("room", ["projector", "projector.withheld"])
def test_a_projected_question_has_its_answers_as_bars_and_one_button_that_tells(room):
    lesson, i = "rounding_against_clipping", 3
    question = lessons()[lesson].steps[i].questions[0]
    at = opened(l=lesson, p=str(i + 1), k=room)

    def bars():
        return [each.proto.body for each in at.get("html") if 'class="qv-bar' in each.proto.body]

    # The class is asked at once: nobody has to move anything first, nor to choose an answer.
    assert [h.value for h in at.markdown if h.value.startswith("## ")] == [
        f"## {question.ask.say(lessons()[lesson].steps[i].scenes(0))}"
    ]
    assert not at.radio
    assert len(bars()) == len(question.options)
    for box, hands in zip([box for box in at.number_input if "_hands_" in box.key], (6, 2, 0), strict=True):
        box.set_value(hands)
    healthy(at.run())
    assert [bar.partition('style="')[2].partition('"')[0] for bar in bars()] == [
        "width: 75.0%",
        "width: 25.0%",
        "width: 0.0%",
    ]
    assert not any("qv-right" in bar for bar in bars())
    healthy(at.button(key="lesson_tell").click().run())
    right = question.truth(lessons()[lesson].steps[i].scenes(0))
    assert ["qv-right" in bar for bar in bars()] == [k == right for k in range(len(bars()))]
    assert "width: 75.0%" in bars()[0]
    assert not [button for button in at.button if button.key == "lesson_tell"]
    # Once more begins anew, and the next step is not told.
    healthy(at.button(key="lesson_again").click().run())
    assert not any("qv-right" in bar for bar in bars())


def test_a_lesson_with_a_mistake_is_told_and_the_others_work(tmp_path, monkeypatch):
    for language in languages():
        shutil.copytree(Path(quantviz.teaching.lessons.__file__).parent / language, tmp_path / language)
    broken = next((tmp_path / "en").glob("02_*.md"))
    broken.write_text(
        broken.read_text(encoding="utf-8").replace("```lab\nlink = ", "```lab\nlinc = ", 1), encoding="utf-8"
    )
    line = (
        broken.read_text(encoding="utf-8")
        .splitlines()
        .index(
            next(line for line in broken.read_text(encoding="utf-8").splitlines() if line.startswith("linc"))
        )
        + 1
    )
    monkeypatch.setattr(quantviz.teaching.lessons, "_FOLDER", tmp_path)
    # What is kept of the lessons goes with them, before and after: others of this process read it.
    kept = (lessons, known_by, term_home, legend_home)
    for each in kept:
        each.cache_clear()
    try:
        at = opened(lang="en")
        assert len(at.error) == 1
        assert f"02\\_symmetric\\.md, line {line}" in at.error[0].value
        assert "Unknown field" in at.error[0].value
        assert [button.key for button in at.button if button.key.startswith("open_")] == [
            f"open_{name}" for name in IDS if name != "symmetric"
        ]
        healthy(at.button(key="open_asymmetric").click().run())
        assert not at.error
        at = opened(l="symmetric", lang="en")
        assert f"line {line}" in at.error[0].value
        assert any(button.key == "go_asymmetric" for button in at.button)
    finally:
        monkeypatch.undo()
        for each in kept:
            each.cache_clear()


def test_a_dragged_answer_is_drawn_over_the_right_one_only_when_it_is_told():
    lesson = lessons()["range_to_grid"]
    scenes = lesson.steps[3].scenes()
    question = lesson.steps[3].questions[0]
    at = opened(l="range_to_grid", p="4")
    commit(at)
    assert at.error[0].value.startswith("You have not moved anything yet")
    wrong = wrongly_dragged(question, scenes)
    moved(at, "range_to_grid", 3, 0, dragged(scenes[HERE].state, wrong))
    assert b'"tone": "before"' in everything(at)
    commit(at)
    assert at.warning
    assert b'"tone": "right"' not in everything(at)
    moved(at, "range_to_grid", 3, 0, question.truth(scenes))
    assert b'"tone": "wrong"' in everything(at)
    commit(at)
    assert at.success[0].value.startswith("Right")
    assert b'"tone": "right"' in everything(at)
    # A reload finds the step as the answer left it.
    again = restored(opened(l="range_to_grid", p="4"), at.session_state["lesson_answers"])
    assert again.success
    assert b'"tone": "before"' in everything(again)


def test_who_came_back_to_where_they_began_is_judged_by_that():
    """They were told “you have not moved anything yet”, and asked for a handle of a ruler where none is."""
    step = lessons()["fewer_bits"].steps[2]
    at = opened(l="fewer_bits", p="3", lang="en")
    commit(at)
    assert at.error[0].value == "You have not moved anything yet\\. Slide the bits\\."
    moved(at, "fewer_bits", 2, 0, step.scenes()[HERE].state)
    commit(at)
    assert "With 4 bits 25 of 32 become 0: more than half" in at.warning[0].value


def test_a_near_miss_is_told_the_way_and_a_fingers_width_counts():
    """With half the outlier the step is half as wide: 10.7 is 5 pixels of a phone away, 10.4 is 3."""
    name, i = "per_channel", 0
    start = lessons()[name].steps[i].scenes()[HERE].state
    at = opened(l=name, p="1", lang="en")
    moved(at, name, i, 0, _with_value(start, 10.7))
    commit(at)
    assert "Very near: a little farther to the left." in at.warning[0].value
    moved(at, name, i, 0, _with_value(start, 10.55))
    commit(at)
    assert at.success[0].value.startswith("Right, within a finger’s width: value 10.55")


@pytest.mark.parametrize("whose", ["yours", "before"])
def test_the_numbers_above_the_picture_say_whose_they_are(whose):
    """After a drag they were the learner's, beside the answer's in the words."""
    at = opened(l="rounding_against_clipping", p="3", k="shown")
    step = lessons()["rounding_against_clipping"].steps[2]
    scenes = step.scenes()
    if whose == "yours":
        narrow = {"kind": "range", "lo": -1.9, "hi": 1.9}
        moved(at, "rounding_against_clipping", 2, 0, moved_by(scenes[HERE].state, narrow, step.move))
    least = quantities()["mse"](step.questions[0].named_scenes(scenes)[SOLUTION])
    assert catalogue("en")[f"lessons.whose.{whose}"].format(value=number(least, 4)).encode() in everything(at)


@pytest.mark.parametrize("language", languages())
def test_sentences_follow_the_hand(language):
    """The largest value was told as 728.6 after it was dragged to 26."""
    at = opened(l="range_to_grid", p="1", lang=language)
    start = lessons()["range_to_grid"].steps[0].scenes()[HERE].state
    assert any("728.6" in each.value for each in at.markdown)
    moved(at, "range_to_grid", 0, 0, _with_value(start, 26.0))
    assert not any("728.6" in each.value for each in at.markdown)
    (words,) = (each.value for each in at.markdown if "−184" in each.value)
    assert "684.6" in words
    assert "868.6" in words


def test_a_right_drag_is_told_as_it_was_made():
    """Who dragged a value to 460, which has the code asked for, was told "Right: value 486.7"."""
    at = opened(l="range_to_grid", p="5")
    step = lessons()["range_to_grid"].steps[4]
    start = step.scenes()[HERE].state
    made = moved_by(start, {"kind": "cell", "cell": [0, 0], "value": 460.0}, step.move)
    moved(at, "range_to_grid", 4, 0, made)
    commit(at)
    assert at.success[0].value == "Right: value 460."
    # The mark on the ruler stood at 486.7.
    assert re.search(rb'"tone": "right", [^}]*"at": 460\.0', everything(at))


def test_a_value_dragged_to_the_very_solution_is_told_by_a_dot():
    """It was told by a second comb, the same as the first."""
    scenes = lessons()["float_formats"].steps[2].scenes()
    (question,) = lessons()["float_formats"].steps[2].questions
    at = opened(l="float_formats", p="3")
    moved(at, "float_formats", 2, 0, question.truth(scenes))
    commit(at)
    assert at.success
    assert re.search(rb'"tone": "right", [^}]*"at": 3\.0', everything(at))


def test_a_teacher_who_shows_the_answers_at_once_shows_the_right_grid_too():
    assert b'"tone": "right"' in everything(opened(l="range_to_grid", p="4", k="shown"))


def test_the_grid_that_a_dragged_value_makes_is_drawn_with_the_one_before_and_the_right_one():
    at = opened(l="per_channel", p="1")
    start = lessons()["per_channel"].steps[0].scenes()[HERE].state
    for value in (15.0, 14.0):  # the outlier, which sets the step of all
        moved(at, "per_channel", 0, 0, _with_value(start, value))
        assert b'"tone": "before", "levels": [-' in everything(at)
        commit(at)
    assert at.error
    assert b'"tone": "right", "levels": [-' in everything(at)


def test_a_dragged_value_that_leaves_the_grid_as_it_was_has_no_grid_before():
    at = opened(l="w8a32", p="1")
    start = lessons()["w8a32"].steps[0].scenes()[HERE].state
    moved(at, "w8a32", 0, 0, _with_value(start, -1.2))
    assert at.radio
    assert b'"tone": "before"' not in everything(at)


def _with_value(state, value):
    return moved_by(state, {"kind": "cell", "cell": list(state.cell), "value": value}, ("value",))


@pytest.mark.parametrize("language", languages())
def test_a_flipped_bit_moves_the_value_to_the_tooth_of_the_new_code(language):
    step = lessons()["float_formats"].steps[3]
    assert "flip" in step.move
    at = opened(l="float_formats", p="4", lang=language)
    fmt = step.state.scheme.number_format
    code = int(step.scenes()[HERE].why.q)
    for role, bit in (("sign", 3), ("mantissa", 0), ("exponent", 2), ("exponent", 1)):
        code ^= 1 << bit
        healthy(at.button(key=f"formats_bit_{role}_{bit}").click().run())
        ((_, state),) = at.session_state["lesson_in_hand"].items()
        why = Scene(state).why
        assert (why.q, why.x, why.x_hat) == (code, fmt.value(code), fmt.value(code))
        assert [b.label for b in at.button if str(b.key).startswith("formats_bit_")] == list(f"{code:04b}")
    assert b'"tone": "before"' not in everything(at), "the comb stays as it is"


def test_bits_that_tell_a_hidden_code_wait_for_the_answer(monkeypatch):
    step = lessons()["float_formats"].steps[2]
    hiding = dataclasses.replace(step.questions[0], hidden=frozenset({"x_hat"}))
    flipped = dataclasses.replace(step, move=("value", "flip"), questions=(hiding,))
    lesson = lessons()["float_formats"]
    changed = dataclasses.replace(lesson, steps=(*lesson.steps[:2], flipped, *lesson.steps[3:]))
    monkeypatch.setattr("quantviz.ui.lessons.page.lessons", lambda _: {"float_formats": changed})
    at = opened(l="float_formats", p="3")
    assert not [button for button in at.button if str(button.key).startswith("formats_bit_")]
    at = opened(l="float_formats", p="3", k="shown")
    assert [button for button in at.button if str(button.key).startswith("formats_bit_")]


def test_a_tooth_between_two_exponents_is_answered_by_the_exponent_it_gives():
    """A shared exponent is in the hand: what a tooth is dragged to is rounded to a power of two."""
    step = lessons()["block_formats"].steps[0]
    start, (question,) = step.scenes()[HERE], step.questions
    judged = {}
    for scale in (0.3, 0.45, 0.8, 1.3, 1.7):
        state = moved_by(start.state, {"kind": "given", "scale": scale, "zero_point": 0}, step.move)
        verdict = question.judge(drag_answer(start.state, state), step.scenes())
        judged[Scene(state).why.scale] = verdict.right
    assert judged == {0.25: False, 0.5: False, 1.0: True, 2.0: False}
    at = opened(l="block_formats", p="1")
    moved(
        at,
        "block_formats",
        0,
        0,
        moved_by(start.state, {"kind": "given", "scale": 1.3, "zero_point": 0}, step.move),
    )
    assert b'"tone": "before"' in everything(at)
    commit(at)
    assert at.success[0].value.startswith("Right")


def test_the_plot_against_bits_goes_by_the_range_in_hand():
    at = opened(l="bits_and_sqnr", p="5")
    start = lessons()["bits_and_sqnr"].steps[4].scenes()[HERE]
    state = moved_by(start.state, {"kind": "range", "lo": -3.4, "hi": 3.4}, ("range",))
    moved(at, "bits_and_sqnr", 4, 0, state)
    (line,) = (json.loads(chart.proto.spec)["data"][0] for chart in at.get("plotly_chart"))
    shown = line["y"][line["x"].index(8)]
    assert shown == pytest.approx(quantities()["sqnr_db"](Scene(state)))
    assert shown > quantities()["sqnr_db"](start) + 10


def test_a_tables_state_is_looked_at_as_it_is_and_what_was_moved_stays():
    """The picture of groups of 256 was called that of groups of 16, the step's own."""
    at = opened(l="per_group", p="4", k="shown")
    start = lessons()["per_group"].steps[3].scenes()[HERE].state
    state = moved_by(start, {"kind": "group", "size": 256}, ("group",))
    # It is there from the start: a choice that comes on a release moved what is below it.
    assert looked_at(at) == ("in_hand", mse_of(start))
    moved(at, "per_group", 3, 0, state)
    assert looked_at(at) == ("in_hand", mse_of(state))
    for name, shown in ((HERE, start), ("in_hand", state)):
        healthy(at.pills(key="look_per_group/3").set_value(name).run())
        assert looked_at(at) == (name, mse_of(shown))


def test_a_state_that_was_looked_at_gives_way_to_the_one_that_is_asked_about():
    """Its ruler had no handles, and the question could not be answered."""
    at = opened(l="range_to_grid", p="5")
    at.session_state["lesson_look"] = "full"
    assert b'"holds_codes"' in everything(healthy(at.run()))


def test_the_bits_of_a_step_go_down_to_one():
    """The code of int1 compared it with a symmetric one, which there is not, and the page failed."""
    at = opened(l="range_to_grid", p="8")
    start = lessons()["range_to_grid"].steps[7].scenes()[HERE].state
    lowest = hand_choices(start).formats.values[-1]
    moved(at, "range_to_grid", 7, 0, moved_by(start, {"kind": "format", "id": lowest}, ("bits",)))
    assert b"int1 " in everything(at)
    assert not at.error


def test_an_error_below_a_step_leaves_its_buttons(monkeypatch):
    """The buttons came a second time with the error, and the page failed for their equal keys."""

    def fail(*args):
        raise QuantVizError("lessons.same_answer")

    monkeypatch.setattr("quantviz.ui.lessons.step.step_code", fail)
    at = opened(l="range_to_grid", p="8")
    assert [each.value.startswith("This was your first answer") for each in at.error] == [True]
    assert at.button(key="lesson_next")


def test_a_wall_has_the_names_that_its_words_speak_of():
    """“Below the table, choose B” stood beside a table without names."""
    at = opened(l="w8a32", p="5", k="projector")
    step = lessons()["w8a32"].steps[4]
    scenes = step.scenes()
    names = at.selectbox(key="look_w8a32/4")
    assert names.options == [words.say(scenes) for words, _ in step.table.rows]
    for _, state in reversed(step.table.rows):
        healthy(at.selectbox(key=names.key).set_value(state).run())
        assert mse_shown(at) == mse_of(scenes[state].state)


def mse_shown(at):
    (error,) = re.findall(rb'data-qv-metric="mse">([^<]+)<', everything(at))
    return error.decode()


def looked_at(at):
    """Which state is named as the one in the picture, and its error there."""
    return at.pills(key="look_per_group/3").value, mse_shown(at)


def mse_of(state):
    return number(quantities()["mse"](Scene(state)))


@pytest.mark.parametrize("language", languages())
def test_what_was_wrong_and_sure_is_listed_at_the_end_and_asked_once_more_two_lessons_later(language):
    name, later = IDS[2], IDS[4]
    steps, words = lessons(language)[name].steps, catalogue(language)
    i, question = next(
        (i, q) for i, step in enumerate(steps) for q in step.questions if isinstance(q, Choice)
    )
    wrong = wrong_answer(question, steps[i].scenes())
    sure = Answer(name, i, question.id, 0, wrong, True)
    guess = next(
        Answer(name, k, q.id, 0, wrong_answer(q, step.scenes()), False)
        for k, step in enumerate(steps)
        for q in step.questions
        if k != i
    )
    stored = [answer for each in (sure, guess) for answer in (each, dataclasses.replace(each, tried=1))]

    def at_the_end(lesson, kept):
        last = lessons(language)[lesson].steps[-1]
        ended = [
            Answer(
                lesson,
                len(lessons(language)[lesson].steps) - 1,
                q.id,
                0,
                right_answer(q, last.scenes()),
                True,
            )
            for q in last.questions
        ]
        return restored(
            opened(l=lesson, p=str(len(lessons(language)[lesson].steps)), lang=language), kept + ended
        )

    def second_looks(at):
        return [str(b.key) for b in at.button if str(b.key).startswith("second_look_")]

    # Of the answers that were wrong, the one that was a guess is not told of.
    assert second_looks(at_the_end(name, stored)) == [f"second_look_{i}_{question.id}"]
    assert second_looks(at_the_end(IDS[3], stored)) == []
    at = at_the_end(later, stored)
    assert at.button(key="lesson_once_more").label == words["lessons.second_look.ask"].format(number=2)
    assert second_looks(at) == []
    healthy(at.button(key="lesson_once_more").click().run())
    assert (asked(at, "l"), asked(at, "p")) == (name, str(i + 1))
    answered_once_more(at, name, i, language)
    assert at.button(key="lesson_next").label == words["lessons.second_look.back"].format(number=4)
    healthy(at.button(key="lesson_next").click().run())
    assert asked(at, "l") == later
    # Once, and no more.
    assert not [b for b in at.button if b.key == "lesson_once_more"]
    assert second_looks(at_the_end(name, at.session_state["lesson_answers"])) == []


def answered_once_more(at, name, i, language):
    """Answer the questions of a step right at their second look."""
    step = lessons(language)[name].steps[i]
    assert catalogue(language)["lessons.second_look.asked"].encode() in everything(at)
    scenes = step.scenes(1)
    not_told(at, step, scenes)
    if step.move:
        moved(at, name, i, 1, scenes[HERE].state)
    for k, each in enumerate(step.questions):
        answer(at, each, right_answer(each, scenes), f"answer_{name}_{i}_{k}_1")
        commit(at)


def sure_of(name, i, question, given):
    """The answers of who was sure twice."""
    first = Answer(name, i, question.id, 0, given, True)
    return [first, dataclasses.replace(first, tried=1)]


def done(name):
    """The right answers to all questions of a lesson."""
    return [
        Answer(name, i, question.id, 0, right_answer(question, step.scenes()), False)
        for i, step in enumerate(lessons()[name].steps)
        for question in step.questions
    ]


@pytest.mark.parametrize(("name", "language"), sample_of(itertools.product(IDS[-2:], languages()), 1))
def test_the_last_lessons_are_asked_once_more_from_the_list(name, language):
    """Two lessons after them there is none: what one was sure of there was never asked again."""
    steps, words = lessons(language)[name].steps, catalogue(language)
    i, question = next(
        (i, q) for i, step in enumerate(steps) for q in step.questions if isinstance(q, Choice | Direction)
    )
    wrong = sure_of(name, i, question, wrong_answer(question, steps[i].scenes()))
    others = [each for each in (*done(IDS[-2]), *done(IDS[-1])) if each.place != wrong[0].place]

    def on_the_list(kept):
        at = restored(opened(lang=language), kept)
        return at, [button for button in at.button if button.key == "lesson_once_more"]

    # It comes when the course is done, and only for who was wrong.
    open_still = next(each for each in others if each.lesson == IDS[-1])
    assert on_the_list([*wrong, *(each for each in others if each != open_still)])[1] == []
    assert on_the_list([*done(IDS[-2]), *done(IDS[-1])])[1] == []
    at, (button,) = on_the_list([*others, *wrong])
    number_ = IDS.index(name)
    assert button.label == words["lessons.second_look.ask"].format(number=number_)
    healthy(button.click().run())
    assert (asked(at, "l"), asked(at, "p")) == (name, str(i + 1))
    answered_once_more(at, name, i, language)
    assert at.button(key="lesson_next").label == words["lessons.second_look.back_to_list"]
    healthy(at.button(key="lesson_next").click().run())
    assert "l" not in address(at)
    assert not [each for each in at.button if each.key == "lesson_once_more"]


@pytest.mark.parametrize("leaks", [False, True])
def test_nothing_of_a_second_look_leaves_the_server_where_answers_are_withheld(leaks, monkeypatch):
    """Who was right and who was wrong is sent the same, byte for byte but for the answer itself and what is
    drawn by chance. Where verdicts leaked, it is not the same: so this would find it.
    """
    name, i, question = next(
        (name, i, q)
        for name in IDS[2:]
        for i, step in enumerate(lessons()[name].steps)
        for q in step.questions
        if isinstance(q, Choice)
    )
    scenes = lessons()[name].steps[i].scenes()
    given = {"right": right_answer(question, scenes), "wrong": wrong_answer(question, scenes)}
    if leaks:
        known = dict(lessons())
        monkeypatch.setattr(second_look, "verdicts", lambda: judged(second_look.answers(), known, {}))
    # At the lesson's own end and two lessons later.
    places = [(name, str(len(lessons()[name].steps)))]
    later = IDS[IDS.index(name) + 2]
    places.append((later, str(len(lessons()[later].steps))))
    found = {}
    for lesson, step in places:
        for kind, one in given.items():
            ended = [
                Answer(
                    lesson, len(lessons()[lesson].steps) - 1, q.id, 0, right_answer(q, last.scenes()), True
                )
                for last in lessons()[lesson].steps[-1:]
                for q in last.questions
            ]
            at = restored(opened(l=lesson, p=step, k="withheld"), [*sure_of(name, i, question, one), *ended])
            sent = everything(at)
            found[lesson, kind] = len(sent)
            telling = [
                words.say(question.named_scenes(scenes))
                for words in (question.why, question.options[one].says)
                if words and words.text
            ]
            told = [words for words in telling if words.encode() in sent]
            buttons = [
                b.key for b in at.button if str(b.key).startswith(("second_look_", "lesson_once_more"))
            ]
            if not leaks:
                assert (told, buttons) == ([], [])
    alike = [found[lesson, "right"] == found[lesson, "wrong"] for lesson, _ in places]
    assert all(alike) != leaks


def test_withheld_answers_have_no_second_try():
    at = opened_in_hand(l="range_to_grid", p="3", k="withheld")
    at.text_input(key="answer_range_to_grid_2_0_0").set_value("99")
    commit(at)
    assert at.info[0].value == catalogue("en")["lessons.withheld"]
    assert not at.warning
    assert not [button for button in at.button if button.key == "commit"]


def test_a_withheld_answer_is_kept_on_the_device_and_the_way_on_is_next():
    """“Noted” and “Skip” said that somebody had received it, and that nothing was answered."""
    at = opened_in_hand(l="range_to_grid", p="3", k="withheld")
    onward = at.button(key="lesson_next").label
    at.text_input(key="answer_range_to_grid_2_0_0").set_value("99")
    commit(at)
    assert "Kept on this phone" in at.info[0].value
    assert (onward, at.button(key="lesson_next").label) == (
        catalogue("en")["lessons.skip"],
        catalogue("en")["lessons.next"],
    )


def test_a_handout_has_the_question_of_a_step_where_nothing_was_moved():
    """The style shows it on paper alone (`lesson_on_paper`), in place of the wish to move something."""
    at = opened(l="symmetric", p="4")
    step = lessons()["symmetric"].steps[3]
    assert at.info[0].value.startswith("Drag an end of the range")
    scenes = step.scenes()
    assert [f"## {each.ask.say(scenes)}" for each in step.questions] == [
        words.value for words in at.markdown if words.value.startswith("## ")
    ]


def test_the_wall_shows_the_goal_of_a_drag_when_it_is_told():
    """Beside the right answer's place stood the panels and the numbers of the step as it was."""
    name, i = "rounding_against_clipping", 2
    at = opened(l=name, p=str(i + 1), k="projector", lang="en")
    step = lessons()[name].steps[i]
    scenes = step.scenes()
    least = quantities()["mse"](step.questions[0].named_scenes(scenes)[SOLUTION])
    shown = f'data-qv-metric="mse">{number(least, 4)}<'.encode()
    assert shown not in everything(at)
    healthy(at.button(key="lesson_tell").click().run())
    assert shown in everything(at)
    assert b"as it was; the answer" not in everything(at)
