"""The lessons in the app: every step in both languages, answered right and wrong, and nothing told before."""

import base64
import contextlib
import dataclasses
import itertools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import quantviz.teaching.lessons
from quantviz.errors import QuantVizError
from quantviz.figures.numbers import number
from quantviz.lab.classroom import CLOSED, Classroom
from quantviz.lab.moves import hand_choices
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.lab.scenarios import SCENARIOS
from quantviz.teaching.lessons import known_by, lessons, term_home
from quantviz.teaching.lessons.dials import DialState
from quantviz.teaching.lessons.drags import drag_answer, dragged, moved_by
from quantviz.teaching.lessons.formulas import HERE, Scene, quantities
from quantviz.teaching.lessons.model import (
    DIRECTIONS,
    CellQuestion,
    ChoiceQuestion,
    DirectionQuestion,
    DragQuestion,
    NumberQuestion,
    OrderQuestion,
)
from quantviz.teaching.lessons.plan import FIRST_HOUR, legend_home
from quantviz.teaching.lessons.progress import LearnerAnswer, as_json, judged
from quantviz.text import catalogue, languages
from quantviz.ui.lessons import second_look
from tests.helpers.controls import choose, controls, value_of, words_of
from tests.helpers.lessons import right_answer
from tests.helpers.messages import let_go
from tests.helpers.sample import sample_of
from tests.helpers.session import act, address, arrived, hint, keys_of, unfolded, went

IDS = list(lessons())


def opened(**params):
    return healthy(arrived("pages/learn/lessons.py", **params))


def healthy(at):
    """The session, of which a wrong answer is no failure."""
    assert not at.exception, at.exception
    return at


def step_at(name, p):
    """A step by its number in the address, and its scenes."""
    step = lessons()[name].steps[p - 1]
    return step, step.scenes()


def everything(at):
    """All that the browser is sent, as bytes: arrays too, which a chart has in base64."""
    found = []

    def note(part):
        if "bdata" in part:
            found.append(base64.b64decode(part["bdata"]))

    for node in at._tree:
        proto = getattr(node, "proto", None)
        if hasattr(proto, "SerializeToString"):
            found.append(proto.SerializeToString())
            spec = getattr(proto, "spec", "")
            if isinstance(spec, str) and spec.startswith("{"):
                json.loads(spec, object_hook=note)
    return b"\n".join(found)


def candidates(question, scenes):
    """Answers that somebody can give: the known mistakes, or all of a few."""
    if isinstance(question, NumberQuestion):
        away = 1e6 + 7 * abs(question.truth(scenes))
        return (*question.mistaken(scenes), away, 2 * away)
    if isinstance(question, DirectionQuestion):
        return DIRECTIONS
    if isinstance(question, ChoiceQuestion):
        return range(len(question.options))
    if isinstance(question, OrderQuestion):
        return itertools.permutations(range(len(question.items)))
    if isinstance(question, CellQuestion):
        return itertools.product(*map(range, scenes[HERE].state.source.shape))
    return dragged_answers(question, scenes)


def wrong_answers(question, scenes):
    """Answers that are not right, each once: none where every cell is right."""
    for given in dict.fromkeys(candidates(question, scenes)):
        if question.takes(given, scenes) and not question.judge(given, scenes).right:
            yield given


def dragged_answers(question, scenes):
    """Of some states that a hand can come to, those that are possible."""
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
    stops = start.series.stops if isinstance(start, DialState) else ()
    tried += [{"kind": "dial", "at": stop} for stop in stops]
    for message in tried:
        with contextlib.suppress(QuantVizError):
            yield drag_answer(start, moved_by(start, message, question.moves))


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
    name, p = params["l"], int(params["p"])
    return moved(opened(**params), name, p - 1, 0, step_at(name, p)[1][HERE].state)


#: The step whose question is answered by a number in most of what follows, and the answer's control.
SCALE = {"l": "range_to_grid", "p": "3"}
TYPED = "answer_range_to_grid_2_0_0"


def typed(at, text):
    """The step with a number typed and committed."""
    choose(at, (TYPED, text))
    return commit(at)


def answer(at, question, given, key):
    if isinstance(question, CellQuestion):
        for axis, place in zip(("row", "col"), given, strict=True):
            choose(at, (f"{key}_{axis}", place))
    elif isinstance(question, NumberQuestion):
        choose(at, (key, repr(float(given))))
    elif not isinstance(question, DragQuestion):
        choose(at, (key, given))


def commit(at, sure=True):
    return healthy(choose(at, "commit" if sure else "commit_guess"))


def commits(at):
    """The buttons that commit an answer."""
    return keys_of(at, "commit")


def not_told(at, step, scenes, opened=frozenset()):
    """Nothing of what the step hides, but for what a mark has opened, and no word of its answers was sent."""
    sent = everything(at)
    r, hidden = scenes[HERE].result, step.hidden - opened
    for part in ("curve", "bits_plot", *TILE_PARTS):
        if part in step.show and step.move:
            assert is_sent(sent, part) == (part not in hidden), part
    for part in {"q", "x_hat", "error"} & hidden:
        values = getattr(r, part).numpy()
        # A few cells are no secret: x̂ of a whole tensor is.
        if values.size >= 4 and np.unique(values).size >= 2:
            for dtype in (values.dtype, np.float32, np.float64):
                assert values.astype(dtype).tobytes() not in sent, part

    if isinstance(scenes[HERE].state, DialState):
        series, dial = scenes[HERE].state.series, scenes[HERE].state.dial
        keys = {"dial.numbers": f"{dial}.said", "dial.picture": series.pictures[0].words}
        if len(series.pictures) > 1:
            keys["dial.beside"] = series.pictures[1].words
        for part, key in keys.items():
            # Up to the first number.
            said = [catalogue(each)[f"lessons.dials.{key}"].split("{")[0] for each in languages()]
            forms = {form.encode() for each in said for form in (each, json.dumps(each)[1:-1])}
            assert any(form in sent for form in forms) == (part in step.show - hidden), part

    def no_number(*forms):
        # 255 or 3 may stand there for another reason; 3.579 may not.
        telling = [form for form in forms if len(re.sub("[−.]", "", form)) >= 4]
        assert not [form for form in telling if form.encode() in sent]

    for question in step.questions:
        texts = [
            question.why,
            *(each.says for each in (*question.mistakes, *getattr(question, "options", ()))),
        ]
        said = [words.say(question.named_scenes(scenes)) for words in texts if words and words.text]
        assert not [words for words in said if words.encode() in sent]
        truth = question.truth(scenes)
        if isinstance(question, DragQuestion):
            # Neither the state that is right nor the grid that the ruler lays below the learner's.
            assert str(truth.scheme).encode() not in sent or truth.scheme == r.scheme
            assert b'"tone":"right"' not in sent
            forms = {number(float(formula.value(scenes)), 4) for formula in question.solution.values()}
            # What stands in x is no secret.
            seen = {number(value, 4) for value in r.x.flatten().tolist()} if "x" in step.show else set()
            no_number(*forms - seen)
        if isinstance(question, NumberQuestion):
            no_number(repr(truth), *(number(truth, digits) for digits in (4, 5, 6)))
    assert step.rule is None or step.rule.say(scenes).encode() not in sent
    assert b"qv-whose" not in sent


def is_sent(sent, part):
    """Whether a readout of a step with handles was sent: the number of a tile, a curve or a plot."""
    if part == "curve":
        return b'"curve":{' in sent
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
        assert address(at)["p"] == str(i + 1)
        for attempt, right in enumerate((False, True) if step.questions else ()):
            scenes = step.scenes(attempt)
            if step.move and step.questions and not isinstance(step.questions[0], DragQuestion):
                # Nothing is asked before something was moved.
                assert not commits(at)
                moved(at, name, i, attempt, scenes[HERE].state)
            for k, question in enumerate(step.questions):
                if attempt == 0:
                    not_told(at, step, scenes, opened_before(step, k))
                if step.opened_by_mark(question):
                    # Blind first: there is nothing to commit, and nothing else to move.
                    assert not commits(at)
                    assert b'"asked":true' in everything(at)
                    marked(at, name, i, attempt, question)
                    assert b'"asked":false' in everything(at)
                    assert len(commits(at)) == 2
                    if attempt == 0:
                        not_told(at, step, scenes, opened_before(step, k + 1))
                if step.move:
                    # Other states have no handles: none can be looked at while something is to be moved.
                    assert "lesson_looks" not in controls(at)
                wrong = () if right else itertools.islice(wrong_answers(question, scenes), 2)
                given, *others = (*wrong, right_answer(question, scenes))
                answered(at, name, i, k, question, given, scenes, attempt, sure=right)
                if not right and question.hint:
                    once_more(at, name, i, k, question, (given, others[0]), scenes)
            told = [element.value for element in (*at.success, *at.error)]
            assert len(told) == len(step.questions), told
            start = words["lessons.right" if right else "lessons.wrong"].partition("{")[0]
            assert sum(text.startswith(start) for text in told) >= len(step.questions) - sum(
                isinstance(q, CellQuestion) for q in step.questions
            )
            if not right:
                healthy(at.button(key="lesson_again").click().run())
        healthy(at.button(key="lesson_next").click().run())


def answered(at, name, i, k, question, given, scenes, attempt=0, sure=True):
    """A question answered and committed."""
    if isinstance(question, DragQuestion):
        moved(at, name, i, attempt, dragged(scenes[HERE].state, given))
    answer(at, question, given, f"answer_{name}_{i}_{k}_{attempt}")
    return commit(at, sure=sure)


def once_more(at, name, i, k, question, wrong, scenes):
    """The second try: a hint was given, the truth was not, and another wrong answer ends it."""
    key = f"answer_{name}_{i}_{k}_0"
    assert question.hint.say(scenes) in at.warning[0].value
    assert not at.success
    if isinstance(question, OrderQuestion):
        # Bars as long as the values would tell the order.
        assert b'class="qv-bars"' not in everything(at)
        assert value_of(at, key) == ""
        answer(at, question, wrong[0], key)
    commit(at)
    assert at.error[0].value.startswith("This was") or at.error[0].value.startswith("这就是")
    why = question.why and question.why.say(question.named_scenes(scenes)).encode()
    assert why is None or why not in everything(at)
    answered(at, name, i, k, question, wrong[1], scenes, sure=False)


def test_what_is_typed_wrongly_is_said_beside_it_and_nothing_is_lost():
    at = opened_in_hand(**SCALE)
    for text, said in (
        ("", "You have not typed a number yet"),
        ("about four", "not a number"),
        ("1,234", "1\\.234 or 1234"),
    ):
        typed(at, text)
        assert said in at.error[0].value
        assert value_of(at, TYPED) == text
    assert typed(at, "（１０+2.5)/ ３，５ + 1e-2").success


def test_a_dial_that_is_let_go_brings_the_question_and_leads_to_its_page():
    at = opened(l="loud_activations", p="2")
    assert not commits(at)
    assert len(commits(healthy(let_go(at, 6)))) == 2
    step, scenes = step_at("loud_activations", 2)
    answered(at, "loud_activations", 1, 0, step.questions[0], "falls", scenes)
    assert at.success
    healthy(at.button(key="lesson_to_app").click().run())
    assert address(at)["m"] == "smoothquant(alpha=0.3)"


def test_progress_is_kept_over_pages_and_languages():
    at = typed(opened_in_hand(**SCALE), "3.58")
    assert at.success
    for page in ("lab/playground", "learn/lessons"):
        healthy(at.switch_page(f"pages/{page}.py").run())
    assert at.success
    choose(at, ("language_choice", "zh"))
    assert at.success[0].value.startswith("答对了")
    sent = progress(at)
    for taken_along in ("我的进度（1）", "qv-card-progress", "共答 1 次，答对 1 次"):
        assert taken_along in sent


def test_the_lab_opens_with_the_steps_state_and_undo_keeps_the_way_back():
    at = opened(l="rounding_against_clipping", k="shown")
    healthy(at.button(key="lesson_to_lab").click().run())
    # The Lab begins here: there is no state before that anybody has seen.
    assert controls(at)["undo"]["disabled"]
    scheme = str(step_at("rounding_against_clipping", 1)[0].state.scheme)
    assert address(at)["s"] == scheme
    assert "Opened from step 1 of the lesson" in hint(at)
    # It is the tensor of an example too, whose words are not this lesson's.
    assert not [name for name in SCENARIOS if catalogue("en")[f"scenarios.{name}.look"] in hint(at)]
    healthy(at.button(key="back_to_lesson").click().run())
    assert (address(at)["l"], address(at)["p"]) == ("rounding_against_clipping", "1")
    # Who takes an example in the Lab is told of that example, and has left the lesson.
    healthy(at.switch_page("pages/lab/playground.py").run())
    act(unfolded(at), "reset")
    assert not [button for button in at.button if button.key == "back_to_lesson"]
    assert "Opened from step" not in hint(at)
    # In a Lab that was open before, undo leads out of the lesson and redo back.
    at = opened(l="rounding_against_clipping", k="shown")
    healthy(at.switch_page("pages/lab/playground.py").run())
    before = str(at.session_state["lab_state"].now.scheme)
    healthy(at.switch_page("pages/learn/lessons.py").run())
    healthy(at.button(key="lesson_to_lab").click().run())
    healthy(at.switch_page("pages/lab/playground.py").run())
    for press, state, from_lesson in (("undo", before, False), ("redo", scheme, True)):
        healthy(choose(at, press))
        assert str(at.session_state["lab_state"].now.scheme) == state
        assert ("Opened from step 1" in hint(at)) == from_lesson
        assert at.button(key="back_to_lesson")


def test_an_address_that_asks_for_what_is_not_there_is_told_until_one_goes_on_and_back_comes_back_to_it():
    at = opened(l="symmetric", p="99")
    assert "no step '99'" in at.warning[0].value
    # The address is that of what is shown.
    shown = address(at)
    assert shown["p"] == str(len(lessons()["symmetric"].steps))
    healthy(at.button(key="go_asymmetric").click().run())
    assert (address(at)["l"], address(at)["p"]) == ("asymmetric", "1")
    assert not at.warning
    assert address(went(at, shown)) == shown


def test_withheld_answers_have_no_second_try_and_are_kept_on_the_device():
    """“Noted” and “Skip” said that somebody had received it, and that nothing was answered."""
    words = catalogue("en")
    at = opened_in_hand(**SCALE, k="withheld")
    assert at.button(key="lesson_next").label == words["lessons.skip"]
    typed(at, "99")
    assert at.info[0].value == words["lessons.withheld"]
    assert "Kept on this phone" in at.info[0].value
    assert at.button(key="lesson_next").label == words["lessons.next"]
    assert not at.warning
    assert not commits(at)
    not_told(at, *step_at("range_to_grid", 3))


@pytest.mark.parametrize(
    "damaged",
    sample_of(["withhe1d", "", ["withheld", "shown"], "withheld.shown", "2.no-below", "no-below.2"], 2),
)
def test_a_damaged_class_setting_withholds_the_answers(damaged):
    at = typed(opened_in_hand(**SCALE, k=damaged), "3.58")
    assert "damaged" in at.warning[0].value
    not_told(at, *step_at("range_to_grid", 3))
    assert Classroom.parse(address(at)["k"]) == CLOSED


def progress(at):
    """What is sent with the learner's progress opened."""
    at.session_state["progress"] = True
    return everything(healthy(at.run())).decode(errors="replace")


@pytest.mark.parametrize("language", languages())
def test_withheld_answers_are_not_told_by_the_progress_either(language):
    sent = {}
    for given in ("3.58", "99"):
        at = typed(opened_in_hand(**SCALE, k="withheld", lang=language), given)
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


def restored(at, stored):
    """The session after the browser told what it had kept: tests/browser/test_lessons.py has it tell."""
    at.session_state["lesson_answers"] = stored
    return healthy(at.run())


def test_noted_answers_get_their_feedback_when_the_teacher_opens_them():
    at = typed(opened_in_hand(**SCALE, k="withheld"), "3.58")
    noted = at.session_state["lesson_answers"]
    assert not at.success
    at = restored(opened(**SCALE), noted)
    assert at.success[0].value.startswith("Right")
    assert "1 of 1 answers right" in progress(at)


def test_a_step_asked_again_is_at_the_same_attempt_after_a_reload():
    tries = itertools.product((0, 1), (0, 1))
    kept = [LearnerAnswer("range_to_grid", 2, "scale", n, 99.0 - tried, True, tried) for n, tried in tries]
    at = restored(opened(**SCALE), kept)
    assert at.error
    healthy(at.button(key="lesson_again").click().run())
    moved(at, "range_to_grid", 2, 2, step_at("range_to_grid", 3)[0].scenes(2)[HERE].state)
    assert "answer_range_to_grid_2_0_2" in controls(at)


def load(at, content):
    progress(at)
    at.session_state["progress"] = True
    healthy(at.file_uploader(key="progress_load").set_value(("x.json", content, "application/json")).run())


def test_a_downloaded_file_is_loaded_again_and_a_bad_one_refused():
    given = [LearnerAnswer("range_to_grid", 2, "scale", 0, 3.58, True)]
    at = opened_in_hand(**SCALE)
    for content, said in ((b"{", "cannot be read"), (b" " * 300_000, "too large")):
        load(at, content)
        assert said in at.error[0].value
        assert not at.session_state["lesson_answers"]
    load(at, as_json([*given, LearnerAnswer("no_such", 0, 0, 0, 1.0, True)]))
    told = [element.value for element in at.success]
    assert any("from the file: 1" in each and "no question of these lessons: 1" in each for each in told)
    assert any(each.startswith("Right") for each in told)


def test_the_next_learner_at_the_computer_begins_anew():
    step, scenes = step_at("rounding_against_clipping", 3)
    at = opened(l="rounding_against_clipping", p="3")
    moved(at, "rounding_against_clipping", 2, 0, step.questions[0].truth(scenes))
    assert commit(at).success
    progress(at)
    healthy(at.button(key="progress_clear").click().run())
    assert not at.session_state["lesson_answers"]
    assert not at.success
    assert not commits(at)
    assert b'"asked":true' in everything(at)
    not_told(at, step, scenes)


def test_a_pointer_and_a_screen_reader_are_told_in_words_that_are_known():
    """Over lesson 0 the card said x̂ and a cause, and the ruler of lesson 1 told a code and an error."""
    plain_x_hat = json.dumps(catalogue("en")["panels.plain_field.x_hat"]).encode()
    cards = rb'\{"chart":"lesson_panels","stamp".*?"arrays":\{.*?\}\}'

    def tells_cause(**params):
        sent = b"".join(re.findall(cards, everything(opened(**params)), re.DOTALL))
        return b'"cause"' in sent

    assert plain_x_hat in everything(opened(l="fewer_bits", p="3", lang="en"))
    assert not tells_cause(l="range_to_grid", p="3", k="shown")
    assert tells_cause(l="symmetric", p="6")
    sent = everything(opened(l="range_to_grid", lang="en"))
    assert "Ruler: the values lie from −184 to 728.6; the selected one is 728.6".encode() in sent
    assert b"goes to the nearest" not in sent
    sent = everything(opened(l="range_to_grid", p="7", lang="en"))
    assert b"goes to the nearest" in sent
    assert plain_x_hat not in sent


def test_a_teacher_can_show_the_answers_at_once_and_the_right_grid_too():
    at = opened(**SCALE, k="shown")
    assert at.info[0].value.startswith("The answer:")
    assert not commits(at)
    assert b'"tone":"right"' in everything(opened(l="range_to_grid", p="4", k="shown"))


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


def hands_boxes(at):
    return [key for key in controls(at) if key.startswith("answer_") and "_hands_" in key]


def test_hands_are_counted_where_a_teacher_wants_it():
    at = opened(l="symmetric", p="4")
    moved(at, "symmetric", 3, 0, step_at("symmetric", 4)[1][HERE].state)
    assert not hands_boxes(at)
    healthy(choose(at, ("lesson_hands_switch", True)))
    choose(at, *zip(hands_boxes(at), (6, 2), strict=False))
    bars = [element.proto.body for element in healthy(at.run()).get("html")]
    bars = [body for body in bars if body.startswith('<div class="qv-hands')]
    assert [f"width: {share}%" in bar for share, bar in zip((75.0, 25.0), bars, strict=False)] == [True, True]
    assert not any("qv-right" in bar for bar in bars)


@pytest.mark.parametrize("room", ["projector", "projector.withheld"])
def test_a_projected_question_has_its_answers_as_bars_and_one_button_that_tells(room):
    step, scenes = step_at("rounding_against_clipping", 4)
    question = step.questions[0]
    at = opened(l="rounding_against_clipping", p="4", k=room)

    def right_bars():
        bodies = [each.proto.body for each in at.get("html")]
        return ["qv-right" in body for body in bodies if 'class="qv-bar' in body]

    # The class is asked at once: nobody has to move anything first, nor to choose an answer.
    asked = [each.value for each in at.markdown if each.value.startswith("## ")]
    assert asked == [f"## {question.ask.say(scenes)}"]
    assert not [each for each in keys_of(at, "answer_") if "hands" not in each]
    healthy(choose(at, *zip(hands_boxes(at), (6, 2, 0), strict=True)))
    for width in ("75.0", "25.0", "0.0"):
        assert f"width: {width}%".encode() in everything(at)
    assert address(at)["hands"] == "0_0_hands_0_6-0_0_hands_1_2"
    assert right_bars() == [False] * len(question.options)
    healthy(at.button(key="lesson_tell").click().run())
    right = question.truth(scenes)
    assert right_bars() == [k == right for k in range(len(question.options))]
    assert not [button for button in at.button if button.key == "lesson_tell"]
    # Once more begins anew, and the next step is not told.
    healthy(at.button(key="lesson_again").click().run())
    assert not any(right_bars())


def test_a_lesson_with_a_mistake_is_told_and_the_others_work(tmp_path, monkeypatch):
    shutil.copytree(Path(quantviz.teaching.lessons.__file__).parent, tmp_path, dirs_exist_ok=True)
    broken = tmp_path / "en" / "02_symmetric.md"
    text = broken.read_text().replace("```lab\nlink = ", "```lab\nlinc = ", 1)
    broken.write_text(text)
    line = text[: text.index("linc = ")].count("\n") + 1
    monkeypatch.setattr(quantviz.teaching.lessons, "_FOLDER", tmp_path)
    # What is kept of the lessons goes with them, before and after: others of this process read it.
    kept = (lessons, known_by, term_home, legend_home)
    for each in kept:
        each.cache_clear()
    try:
        for params, others in (({}, "open_asymmetric"), ({"l": "symmetric"}, "go_asymmetric")):
            at = opened(**params, lang="en")
            assert f"02\\_symmetric\\.md, line {line}" in at.error[0].value
            assert "Unknown field" in at.error[0].value
            assert "open_symmetric" not in [button.key for button in at.button]
            healthy(at.button(key=others).click().run())
            assert not at.error
    finally:
        monkeypatch.undo()
        for each in kept:
            each.cache_clear()


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
    assert words_of(at, "lesson_looks") == [words.say(scenes) for words, _ in step.table.rows]
    for _, state in reversed(step.table.rows):
        healthy(choose(at, ("lesson_looks", state)))
        assert mse_shown(at) == mse_of(scenes[state].state)


def mse_shown(at):
    (error,) = re.findall(rb'data-qv-metric="mse">([^<]+)<', everything(at))
    return error.decode()


def mse_of(state):
    return number(quantities()["mse"](Scene(state)))


def at_the_end(name, kept, language="en", **params):
    """The last step of a lesson, answered, for who has given the answers `kept` before."""
    steps = lessons(language)[name].steps
    i, scenes = len(steps) - 1, steps[-1].scenes()
    ended = [LearnerAnswer(name, i, q.id, 0, right_answer(q, scenes), True) for q in steps[-1].questions]
    return restored(opened(l=name, p=str(len(steps)), lang=language, **params), [*kept, *ended])


def looks_again(at):
    """The buttons that lead to a second look."""
    keys = [str(button.key) for button in at.button]
    return [key for key in keys if key.startswith(("second_look_", "lesson_once_more"))]


def first_of(name, *kinds):
    """The first question of these kinds in a lesson, with the index of its step and the scenes there."""
    steps = lessons()[name].steps
    i, question = next((i, q) for i, step in enumerate(steps) for q in step.questions if isinstance(q, kinds))
    return i, question, steps[i].scenes()


def sure_of(name, i, question, given):
    """The answers of who was sure twice."""
    first = LearnerAnswer(name, i, question.id, 0, given, True)
    return [first, dataclasses.replace(first, tried=1)]


@pytest.mark.parametrize("leaks", [False, True])
def test_nothing_of_a_second_look_leaves_the_server_where_answers_are_withheld(leaks, monkeypatch):
    """Who was right and who was wrong is sent the same, byte for byte but for the answer itself and what is
    drawn by chance. Where verdicts leaked, it is not the same: so this would find it.
    """
    name = IDS[2]
    i, question, scenes = first_of(name, ChoiceQuestion)
    if leaks:
        known = dict(lessons())
        monkeypatch.setattr(second_look, "verdicts", lambda: judged(second_look.answers(), known, {}))
    alike = []
    # At the lesson's own end and two lessons later.
    for lesson in (name, IDS[4]):
        lengths = []
        for given in (right_answer(question, scenes), next(wrong_answers(question, scenes))):
            at = at_the_end(lesson, sure_of(name, i, question, given), k="withheld")
            sent = everything(at)
            lengths.append(len(sent))
            telling = [
                words.say(question.named_scenes(scenes)).encode()
                for words in (question.why, question.options[given].says)
                if words and words.text
            ]
            assert leaks or not [words for words in telling if words in sent]
            assert leaks or looks_again(at) == []
        alike.append(lengths[0] == lengths[1])
    assert all(alike) != leaks
