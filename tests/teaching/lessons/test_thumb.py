"""Lessons that a thumb can answer: no goal is finer than a finger, and a hand comes before each question."""

import itertools
import math
import re

import pytest

from quantviz.analysis.study import Study
from quantviz.figures.numbers import number as as_text
from quantviz.figures.ruler_data import ruler_of_cell
from quantviz.lab.moves import hand_choices
from quantviz.lab.picture_parts import PANEL_PARTS, RULER_STAGES
from quantviz.teaching.lessons import lessons, model
from quantviz.teaching.lessons.drags import drag_answer
from quantviz.teaching.lessons.finger import AXES, FINGER, axis_of
from quantviz.teaching.lessons.formulas import HAND, HERE, as_shown, quantities
from quantviz.teaching.lessons.model import CellQuestion, DragQuestion
from quantviz.text import languages, text
from tests.helpers.lessons import goal_moved, judged_around, read_plainly, words_of

STEPS = [(name, i, step) for name, lesson in lessons().items() for i, step in enumerate(lesson.steps, 1)]
DRAGS = [
    pytest.param(step, question, id=f"{name}/{i}/{question.id}")
    for name, i, step in STEPS
    for question in step.questions
    if isinstance(question, DragQuestion)
]
#: Pixels between the ends of a slider on pages of these widths.
SLIDERS = {390: 226, 1366: 240}
#: Pixels between the ends of a dial's track.
DIAL_TRACKS = {390: 346, 1366: 654}


# ---- how fine a drag is -----------------------------------------------------------------------------


def windows(step, question, around):
    """The pixels to either side of a drag's goal that count as it, by the page's width."""
    scenes = step.scenes()
    lo, hi = axis_of(scenes[HERE], step.move)
    if "dial" in question.solution:
        stops = len(scenes[HERE].state.series.stops)
        return {width: pixels / (stops - 1) / 2 for width, pixels in DIAL_TRACKS.items()}
    of_slider = {"bits": "formats", "size": "sizes"}
    for name in question.solution.keys() & of_slider.keys():
        stops = len(getattr(hand_choices(scenes[HERE].state), of_slider[name]).values)
        return {width: pixels / (stops - 1) / 2 for width, pixels in SLIDERS.items()}
    pixels = {width: axis / (hi - lo) for width, axis in AXES.items()}
    if "zero_point" in question.solution:
        return {width: scenes[HERE].why.scale * each / 2 for width, each in pixels.items()}
    if question.pulled:
        # `snapping.js` pulls from FINGER pixels, or from the middle between two places.
        levels = ruler_of_cell(Study.of_result(scenes[HERE].result), scenes[HERE].why).levels
        gap = min(b - a for a, b in itertools.pairwise(levels))
        return {width: min(gap * each / 2, FINGER) for width, each in pixels.items()}
    wrong = [[by for by, verdict in each.items() if not verdict.right] for each in around]
    counted = min(min(each, default=math.inf) - 2 for each in wrong)
    return {width: counted * axis / AXES[390] for width, axis in AXES.items()}


@pytest.mark.parametrize(("step", "question"), DRAGS)
def test_no_drag_is_finer_than_a_finger_and_a_near_miss_has_its_own_hint(step, question):
    """One wanted an error within 2.2 px of a mouse's way, and 1.1 of a finger's."""
    around = judged_around(step, question)
    assert all(window >= FINGER for window in windows(step, question, around).values())
    if "scale" not in question.solution:
        missed = [verdict for each in around for verdict in each.values() if not verdict.right]
        assert all(verdict.near in model.NEAR_WAYS for verdict in missed)
    if question.pulled:
        # The place at which the pull ends is right.
        scenes = step.scenes()
        truth = drag_answer(scenes[HERE].state, question.truth(scenes))
        assert question.judge(truth, scenes).right


def drag_called(id_):
    return next(each.values for each in DRAGS if each.id == id_)


@pytest.mark.parametrize(
    "id_", ["symmetric/1/narrowest", "per_channel/1/half_the_step", "engines_disagree/3/torchao_scale"]
)
def test_without_a_finger_a_drag_is_too_fine(monkeypatch, id_):
    monkeypatch.setattr(model, "FINGER", -1)
    step, question = drag_called(id_)
    assert min(windows(step, question, judged_around(step, question)).values()) < FINGER


def test_the_way_of_a_near_miss_is_the_way_to_the_goal():
    step, question = drag_called("per_channel/1/half_the_step")
    scenes = step.scenes()
    for by, way in ((-6, "right"), (6, "left")):
        assert question.judge(goal_moved(step, question, scenes, "hi", by), scenes).near == way
    step, question = drag_called("engines_disagree/3/torchao_scale")
    for by, way in ((-6, "wider"), (6, "narrower")):
        given = goal_moved(step, question, step.scenes(), "hi", by)
        assert question.judge(given, step.scenes()).near == way


# ---- a hand before a question, and where it is blind ------------------------------------------------


def test_every_question_comes_after_a_hand():
    """Thirteen had nothing to move."""
    assert [(name, i) for name, i, step in STEPS if step.questions and not step.move] == []


#: Steps that begin with a mark, blind: the goal is not where one expects it.
SURPRISING = 8


def test_a_mark_is_asked_for_only_where_the_goal_surprises():
    blind = [(name, i) for name, i, step in STEPS if any(map(step.opened_by_mark, step.questions))]
    assert 0 < len(blind) <= SURPRISING


def test_an_error_has_its_value_beside_it():
    assert [(name, i) for name, i, step in STEPS if "error" in step.show and "x" not in step.show] == []


# ---- bits and quoted numbers ------------------------------------------------------------------------

#: What names the bits of a step's codes.
NAMED_BITS = re.compile(
    r"\{(?:\w+\.)?bits\}|\bu?int\d|\b\d+(?:-bit\b| bits?\b| ?位)|\bFP\d|\bNF4\b|\bE\dM\d\b|\bQ4_0\b"
)


@pytest.mark.parametrize("language", languages())
def test_bits_do_not_change_silently_from_step_to_step(language):
    silent, before = [], None
    for name, lesson in lessons(language).items():
        for i, step in enumerate(lesson.steps, 1):
            bits = step.state.scheme.number_format.bits
            if bits != before and "scheme" not in step.show and not NAMED_BITS.search(step.words.text):
                silent.append((name, i, before, bits))
            before = bits
    assert silent == []


#: What makes a paragraph one about an earlier step: its lesson, or its picture.
QUOTING = {
    "en": r"\blesson (\d+)|\b(?:had|gave)\b|\bfrom before\b|\bthat was the best\b",
    "zh": r"第 (\d+) 课|前面|刚才|原先|还是上一步",
}
#: Numbers that a picture shows, and the parts that show them.
SHOWN_BY = {"mse": "tiles.mse", "sqnr_db": "tiles.sqnr", "zeroed_share": "tiles.zeroed"}
QUOTED = re.compile(r"(?:(\w+)\.)?(" + "|".join(SHOWN_BY) + r")\b")


def quotations(words, language):
    """The results of quantizing that a text's paragraphs on earlier steps name: a lesson, state and number.
    Beside another state's number the step's own is none of an earlier one.
    """
    for paragraph in words.text.split("\n\n"):
        if cue := re.search(QUOTING[language], paragraph):
            named = [each for hole in re.findall(r"\{([^{}|]+)", paragraph) for each in QUOTED.findall(hole)]
            others = [each for each in named if each[0]]
            for state, number in others or named:
                yield cue[1], state or HERE, number


def shows(step, state, number):
    """Whether an earlier step shows a number of a state: above its picture, in its table or its words."""
    scenes = step.scenes()
    same = [
        name
        for name, scene in scenes.items()
        if (scene.state.source, scene.state.scheme) == (state.source, state.scheme)
    ]
    told = "".join(words.text for words in words_of(step))
    in_table = step.table and any(
        row in same and number in formula.text
        for _, row in step.table.rows
        for _, formula in step.table.columns
    )
    in_words = any(
        re.search(rf"\{{(?:{'|'.join(names)}){number}\b", told)
        for names in [[f"{name}." for name in same] + [""] * (HERE in same)]
        if same
    )
    return bool(in_table or in_words or (HERE in same and SHOWN_BY[number] in step.show))


@pytest.mark.parametrize("language", languages())
def test_a_number_quoted_from_an_earlier_step_is_seen_there(language):
    """An MSE of 1.573 in 8 bits was quoted from a step whose errors were shown in 4 bits."""
    quoted = 0
    known = list(lessons(language).values())
    earlier = []
    for name, lesson in lessons(language).items():
        for i, step in enumerate(lesson.steps, 1):
            for number_of_lesson, state, number in quotations(step.words, language):
                quoted += 1
                within = known[int(number_of_lesson)].steps if number_of_lesson else earlier
                state = step.scenes()[state].state
                assert any(shows(each, state, number) for each in within), (name, i, number)
            earlier.append(step)
    assert quoted > 1


def test_the_range_that_was_the_best_for_int4_is_the_one_found_there():
    steps = lessons()["rounding_against_clipping"].steps
    best = quantities()["range_hi"](steps[2].scenes()["best"])
    assert as_shown(best, 3) == as_shown(quantities()["range_hi"](steps[4].scenes()[HERE]), 3)


@pytest.mark.parametrize("language", languages())
def test_no_number_of_a_lesson_is_a_power_of_ten(language):
    """“1.93e−5” was to be read from the back of a room."""
    power, written = re.compile(r"\de[−-]?\d"), []
    for lesson in lessons(language).values():
        for step in lesson.steps:
            scenes = step.scenes()
            written += [step.words.say({**scenes, HAND: scenes[HERE]})]
            written += [q.why.say(q.named_scenes(scenes)) for q in step.questions if q.why]
            side_by_side = [each.number for q in step.questions for each in q.compared(scenes)]
            written += [as_text(formula.value(scenes)) for formula in side_by_side]
            for _, row in step.table.rows if step.table else ():
                own = {**scenes, HERE: scenes[row]}
                cells = [float(formula.value(own)) for _, formula in step.table.columns]
                written += [as_text(value, 7 if value % 1 == 0 else 4) for value in cells]
    assert len(written) > 300
    assert [words for words in written if power.search(words)] == []


def test_a_number_that_its_step_does_not_show_is_found():
    lesson = lessons()["range_to_grid"]
    told = type(lesson.steps[0].words)("The grid of lesson 1 gave its nine numbers an MSE of {mse}.")
    assert list(quotations(told, "en")) == [("1", HERE, "mse")]
    assert not any(shows(step, lesson.steps[2].state, "mse") for step in lesson.steps)


# ---- messages ---------------------------------------------------------------------------------------


def has_ruler(step, stage="dots"):
    return "number_line" in step.show and RULER_STAGES.index(step.ruler) >= RULER_STAGES.index(stage)


#: Parts of a step as messages name them, and whether a step has each.
PARTS = {
    "en": r"(?P<ruler>\bruler\b)|(?P<slider>\bslider\b|\b[Ss]lide\b)|(?P<curve>(?<!bell )\bcurve\b)"
    r"|(?P<plot>\bplot\b)|(?P<table>\btable (?:comes|compares|has)\b|\bin the table\b)"
    r"|(?P<panel>\bpanels?\b)|(?P<dot>\blarge dot\b)"
    r"|(?P<tooth>\b[Dd]rag (?:a|the) tooth\b)|(?P<handle>\bhandle\b)|(?P<keys>\barrow keys\b)"
    r"|(?P<zeroed>“Rounded to zero”)",
    "zh": r"(?P<ruler>标尺)|(?P<slider>滑块|滑动)|(?P<curve>(?<!钟形)曲线)|(?P<plot>这张图在)"
    r"|(?P<table>表格|看表|表里比较)|(?P<panel>面板)|(?P<dot>大圆点|大点)|(?P<tooth>拖动一个齿)"
    r"|(?P<handle>手柄)|(?P<keys>方向键)|(?P<zeroed>“归零”)",
}
HAS = {
    "ruler": has_ruler,
    "slider": lambda step: {"bits", "group"} & {*step.move},
    "curve": lambda step: "curve" in step.show,
    "plot": lambda step: "bits_plot" in step.show,
    "table": lambda step: step.table is not None,
    "panel": lambda step: step.show & {*PANEL_PARTS},
    "dot": has_ruler,
    "tooth": lambda step: {"zero", "held_zero", "tooth"} & {*step.move} and has_ruler(step, "codes"),
    "handle": lambda step: step.move,
    # No part of any step: a phone has none.
    "keys": lambda step: False,
    "zeroed": lambda step: "tiles.zeroed" in step.show,
}


def messages_of(step, language):
    """All messages that the page itself can show in a step, but for those that name no part of any."""

    def say(key, **values):
        return text(key, language, **values)

    yield say("lessons.no_diagnosis")
    if step.questions and not isinstance(step.questions[0], DragQuestion):
        move = say(f"errors.lessons.moves.{step.handle_of(step.questions[0])}")
        yield say("lessons.move_first", move=move)
    if "bits_plot" in step.hidden & step.show:
        yield say("lessons.plot_later")
    if "table" in step.hidden & step.show:
        yield say("lessons.table_later")
    for question in step.questions:
        if isinstance(question, DragQuestion):
            move = say(f"errors.lessons.moves.{step.handle_of(question)}")
            yield say("errors.lessons.no_answer.drag", move=move)
            if step.opened_by_mark(question):
                yield say(f"lessons.mark_{'axis' if question.marked_on == 'axis' else 'slider'}")
                yield say("lessons.marked")
        elif isinstance(question, CellQuestion):
            yield say("errors.lessons.no_answer.cell")


@pytest.mark.parametrize("language", languages())
def test_a_message_names_only_what_its_step_has(language):
    """“Drag a handle of the ruler” stood where there is a slider and no ruler."""
    named, wrong = set(), []
    for name, lesson in lessons(language).items():
        for i, step in enumerate(lesson.steps, 1):
            said = [*map(read_plainly, words_of(step)), *messages_of(step, language)]
            for message in said:
                for part in re.finditer(PARTS[language], message):
                    named.add(part.lastgroup)
                    if not HAS[part.lastgroup](step):
                        wrong.append((name, i, part[0], message))
    assert wrong == []
    assert named >= {"ruler", "slider", "curve", "dot", "zeroed"}


@pytest.mark.parametrize("language", languages())
def test_the_message_of_every_handle_names_what_is_moved_by_it(language):
    wanted = {
        "en": {"range": "range", "zero": "zero point", "tooth": "tooth", "value": "dot", "bits": "bits"},
        "zh": {"range": "范围", "zero": "零点", "tooth": "齿", "value": "圆点", "bits": "位"},
    }[language]
    for handle, word in wanted.items():
        assert word in text(f"errors.lessons.moves.{handle}", language)
