"""The lessons there are: sound in both languages, the same in both, and their code prints what they show."""

import contextlib
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import quantviz as qv
from quantviz.figures.numbers import number
from quantviz.lab.picture_parts import PANEL_PARTS
from quantviz.lab.typed_numbers import read_number
from quantviz.teaching.lessons import __main__ as command
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.check import problems_of
from quantviz.teaching.lessons.code import step_code
from quantviz.teaching.lessons.formulas import HERE, SOLUTION, Words, quantities
from quantviz.teaching.lessons.model import (
    QUESTIONS,
    ChoiceQuestion,
    DragQuestion,
    Lesson,
    NumberQuestion,
    OrderQuestion,
)
from quantviz.text import catalogue, languages

#: The lessons, a folder for each language.
FOLDER = Path(command.__file__).parent

ROOT = Path(__file__).parents[3]

IDS = list(lessons())
STEPS = [
    (name, i)
    for name, lesson in lessons().items()
    if isinstance(lesson, Lesson)
    for i in range(len(lesson.steps))
]


#: The ids in the order of the lessons: learners' progress and links have them, so none is lost or renamed.
ORDER = [
    "fewer_bits",
    "range_to_grid", "symmetric", "asymmetric", "zero_point_out_of_range", "rounding_against_clipping",
    "per_channel", "per_group", "w8a32", "bits_and_sqnr", "outliers",
    "float_formats", "four_bits", "block_formats", "engines_disagree",
    "inside_a_model", "loud_activations", "rounding_pays", "turn_the_tensor", "kv_cache",
    "learning_on_stairs", "training_in_few_bits", "bits_to_spend",
]  # fmt: skip


def test_the_lessons_are_in_their_order():
    assert IDS == ORDER, "add the id of a new lesson to ORDER, where its number puts it"


@pytest.mark.parametrize("language", languages())
def test_a_lessons_number_is_that_of_its_file(language):
    """The list counts from 0, as the files do."""
    names = sorted(path.stem for path in (FOLDER / language).glob("*.md"))
    assert names == [f"{number:02}_{name}" for number, name in enumerate(IDS)]


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("name", IDS)
def test_a_lesson_is_sound(name, language):
    lesson = lessons(language)[name]
    assert isinstance(lesson, Lesson), str(lesson)
    assert [str(problem) for problem in problems_of(lesson, name)] == []


def skeleton(value):
    """A lesson without its words: what has to be the same in each language."""
    if isinstance(value, Words):
        return sorted(match[1] for match in re.finditer(r"\{([^{}]*)\}", value.text))
    if hasattr(value, "__dataclass_fields__"):
        names = [
            name
            for name in value.__dataclass_fields__
            if name
            not in (
                "title",
                "summary",
                "line",
                "words",
                "rule",
                "why",
                "ask",
                "says",
                "text",
                "unit",
                "hint",
                "tolerance",
            )
        ]
        fields = [skeleton(getattr(value, name)) for name in names]
        return [type(value).__name__, *([value.text] if type(value).__name__ == "Formula" else []), *fields]
    if isinstance(value, tuple | list):
        return [skeleton(each) for each in value]
    if hasattr(value, "items"):
        return {key: skeleton(each) for key, each in value.items()}
    return str(value) if not isinstance(value, frozenset) else sorted(value)


@pytest.mark.parametrize("name", IDS)
def test_a_lesson_is_the_same_in_each_language(name):
    first, *others = (lessons(language)[name] for language in languages())
    for other in others:
        assert len(first.steps) == len(other.steps)
        for one, two in zip(first.steps, other.steps, strict=True):
            assert [q.kind for q in one.questions] == [q.kind for q in two.questions], one.title
            assert (one.state, one.again, one.show, dict(one.states)) == (
                two.state,
                two.again,
                two.show,
                dict(two.states),
            ), one.title
            tables = [
                [
                    ([state for _, state in s.table.rows], [f.text for _, f in s.table.columns])
                    if s.table
                    else None
                ]
                for s in (one, two)
            ]
            assert tables[0] == tables[1]
            for a, b in zip(one.questions, two.questions, strict=True):
                assert skeleton(a) == skeleton(b), (one.title, a.ask.text)


@pytest.mark.parametrize("language", languages())
def test_titles_and_words_are_of_their_language(language):
    for lesson in lessons(language).values():
        for step in lesson.steps:
            chinese = any("\u4e00" <= character <= "\u9fff" for character in step.words.text)
            assert chinese == (language == "zh"), step.title


def test_each_kind_of_question_is_asked():
    asked = {question.kind for name, i in STEPS for question in lessons()[name].steps[i].questions}
    assert asked == set(QUESTIONS)


@pytest.mark.parametrize(("name", "i"), STEPS)
def test_the_code_of_a_step_prints_its_numbers(name, i):
    step = lessons()[name].steps[i]
    scenes = step.scenes()
    told = printed(step_code(step, scenes, scenes[HERE].state))
    numbers = qv.metrics(scenes[HERE].result)
    # The tiles' numbers, the cell's steps, the table, and what is asked.
    assert (f"MSE {numbers['mse']:.4g}\n" in told) == ("tiles.mse" in step.show)
    assert all(f"# {step.output:.8g}\n" in told for step in scenes[HERE].why.steps)
    if step.table:
        for _, state in step.table.rows:
            for heading, formula in step.table.columns:
                assert f"  {heading} {formula.value({**scenes, HERE: scenes[state]})}\n" in told
    for question in step.questions:
        if isinstance(question, NumberQuestion):
            assert f"{question.answer.text} {question.answer.value(scenes)}\n" in told


def printed(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "snippet", "exec"), {})
    return out.getvalue()


@pytest.mark.parametrize(("name", "i"), STEPS)
def test_wrong_answers_can_be_told_from_right_ones(name, i):
    step = lessons()[name].steps[i]
    scenes = step.scenes()
    for question in step.questions:
        if isinstance(question, ChoiceQuestion):
            assert question.judge(question.truth(scenes), scenes).right
            wrong = [k for k in range(len(question.options)) if k != question.truth(scenes)]
            assert all(question.judge(k, scenes).diagnosis for k in wrong)
        if isinstance(question, OrderQuestion):
            values = [item.value.value(scenes) for item in question.items]
            assert len(set(values)) > 1, "an order needs different values"
            assert not question.judge(tuple(reversed(question.truth(scenes))), scenes).right


@pytest.mark.parametrize(
    ("belief", "name"),
    [
        ("q is the number", "range_to_grid"),
        ("int4 uses 16 levels", "symmetric"),
        ("asymmetric is never worse", "asymmetric"),
        ("asymmetric is never worse", "zero_point_out_of_range"),
        ("the largest error is always s/2", "zero_point_out_of_range"),
        ("a lower MSE means every value improved", "per_channel"),
        ("clipping is always bad", "rounding_against_clipping"),
        ("clipping is always good", "rounding_against_clipping"),
        ("RMSE under 0.289 steps is good", "rounding_against_clipping"),
        ("MSE compares across tensors", "rounding_against_clipping"),
        ("per channel always helps", "per_channel"),
        ("4-bit means 4 bits", "per_group"),
        ("int8 weights mean integer arithmetic", "w8a32"),
        ("a lower weight error means a better model", "w8a32"),
        ("one more bit is worth 6.02 dB, always", "bits_and_sqnr"),
    ],
)
def test_what_people_believe_is_said_and_put_to_a_question(belief, name):
    (step,) = (step for step in lessons()[name].steps if belief in step.words.text)
    assert step.questions
    assert step.rule


@pytest.mark.parametrize("language", languages())
def test_no_wrong_answer_is_written_as_the_right_one(language):
    """An MSE of 0.01228 was called wrong, and the least one was told as 0.012."""
    judged = 0
    for name, lesson in lessons(language).items():
        for step in lesson.steps:
            for question in step.questions:
                if not isinstance(question, DragQuestion) or question.why is None:
                    continue
                limit = re.search(r"mse <= ([\d.]+) \* solution\.mse", question.right.text)
                if limit is None:
                    continue
                judged += 1
                least = quantities()["mse"](question.named_scenes(step.scenes())[SOLUTION])
                digits = [
                    int(each or 4) for each in re.findall(r"\{solution\.mse(?:\|(\d))?\}", question.why.text)
                ]
                for count in digits:
                    wrong = float(limit[1]) * least * (1 + 1e-6)
                    assert number(wrong, count) != number(least, count), (name, question.id)
    assert judged > 8


#: A number or a sum in a sentence.
EXAMPLE = r"[−]?\d[\d.]*(?:[-+−*/^e]+\d[\d.]*)*(?<!\.)"
#: What a step asks the hand to do, and words about a frame.
HANDS_ON = {"en": r"(?:^|[.:!?] |\n)(?:Drag|Slide|Try|Move|Press)\b", "zh": "试试|试一试|拖动|滑动"}
FRAMED = {"en": r"\bframed\b", "zh": "带框"}
#: What a step says that the hand drags, and the handles that can be meant.
DRAGGED = {
    "en": r"\bDrag (?:the |an? |one |its )?(bits|(?:lower |upper )?end|range|(?:tooth of the )?zero point|"
    r"size of the groups|large dot|framed value|value|outlier|tooth)\b",
    "zh": r"拖动?(位宽|位数|下端|上端|端点|一端|范围|零点|组的大小|大圆点|带框的值|离群值)",
}
MEANT = [
    (r"bits|位", {"bits"}),
    (r"end|range|端|范围", {"range"}),
    (r"zero point|零点", {"zero", "held_zero"}),
    (r"group|组", {"group"}),
    (r"tooth", {"tooth", "zero"}),
    (r"", {"value"}),
]


@pytest.mark.parametrize("language", languages())
def test_what_is_to_be_moved_can_be_and_what_is_framed_has_a_frame(language):
    framed = dragged = 0
    for name, lesson in lessons(language).items():
        for i, step in enumerate(lesson.steps, 1):
            asked = [words.text for each in step.questions for words in (each.ask, each.hint) if words]
            said = "\n".join([step.words.text, *asked])
            assert step.move or not re.search(HANDS_ON[language], said), (name, i)
            for match in re.finditer(DRAGGED[language], re.sub(r"\[\[\w+\|([^\]]*)\]\]", r"\1", said)):
                meant = next(handles for word, handles in MEANT if re.search(word, match[1]))
                assert meant & set(step.move), (name, i, match[0])
                dragged += 1
            if re.search(FRAMED[language], said):
                framed += 1
                assert step.speaks_of_cell, (name, i)
                # A panel that is shown only after the answer has no frame before.
                assert (step.show - step.hidden) & set(PANEL_PARTS), (name, i)
    assert framed > 5
    assert dragged > (40 if language == "en" else 10)


#: Places of a picture's parts, which are others on a phone, on a laptop and on a wall.
PLACED = {
    "en": r"\b(?:[Bb]elow|[Aa]bove|[Bb]eside|[Uu]nder|[Nn]ext to|[Ll]eft of|[Rr]ight of) (?:the |its )?"
    r"(?:\*\*)?(?:table|picture|ruler|panels?|plot|tiles?|question)\b|\bnames below\b|\bline below\b",
    "zh": r"(?:表|图|标尺|面板|方框|问题)的?(?:下面|下方|上面|上方|左边|右边|旁边)|下面一行|上面一行",
}


@pytest.mark.parametrize("language", languages())
def test_no_sentence_says_where_a_part_of_the_picture_stands(language):
    """A wall has its table beside the ruler, no names below it, and no second line below a slider's comb."""
    allowed = 0
    for path in sorted((FOLDER / language).glob("*.md")):
        lesson = lessons(language)[path.stem[3:]]
        for words in path.read_text(encoding="utf-8").splitlines():
            if re.search(PLACED[language], words):
                # The bits that are flipped stand below the ruler wherever it stands.
                assert any("flip" in step.move and words in step.words.text for step in lesson.steps), words
                allowed += 1
    assert allowed == 1


@pytest.mark.parametrize("language", languages())
def test_the_goal_of_a_drag_is_a_number_as_the_tile_writes_it(language):
    """“Within 5 %” of a number that nobody saw, and 0.012 in the words beside 0.01228 on the tile."""
    for name, lesson in lessons(language).items():
        for i, step in enumerate(lesson.steps):
            for question in step.questions:
                if not isinstance(question, DragQuestion):
                    continue
                if re.search(r"\bmse\b", question.right.text):
                    assert re.search(r"\{[^}]*\bmse\b[^}|]*\}", question.tolerance.text), (name, i)
                said = [question.why, *(mistake.says for mistake in question.mistakes)]
                shorter = [words.text for words in said if words and re.search(r"\{[a-z.]*mse\|", words.text)]
                assert shorter == [], (name, i)


@pytest.mark.parametrize("language", languages())
def test_no_example_of_a_number_is_the_answer_to_a_question(language):
    """The refusal of "abc" gave the sum that was asked for, with the scale in it."""
    words = catalogue(language)
    said = [words[f"errors.number_{key}"] for key in ("unreadable", "strange")]
    told = [each for text in (*said, words["lessons.number_example"]) for each in re.findall(EXAMPLE, text)]
    assert len(told) > 8
    # Each sum, and each number with a point that it is made of.
    parts = [part for each in told for part in (each, *re.findall(r"\d+\.\d+", each))]
    told = {abs(read_number(part)) for part in parts}
    for name, lesson in lessons(language).items():
        for step in lesson.steps:
            scenes = step.scenes()
            for question in (each for each in step.questions if isinstance(each, NumberQuestion)):
                # What the answer is made of is no example either.
                known = (question.truth(scenes), scenes[HERE].why.scale)
                near = [x for x in told for other in known if x > 1 and abs(x / other - 1) < 0.005]
                assert not near, (name, near)


@pytest.mark.parametrize(("language", "words"), [("en", "in every engine"), ("zh", "在每个引擎里")])
def test_a_tie_is_asked_about_for_every_engine(language, words):
    """In this course a tie goes to the even code, so that 2 was right as well."""
    (question,) = lessons(language)["engines_disagree"].steps[1].questions
    assert words in question.ask.text


#: What a formula about the hand must not name while a part of the picture is hidden.
TELLING = {
    "q": "q",
    "x_hat": "x_hat|error|abs_error",
    "error": "error|abs_error|x_hat",
    "scale": "scale",
    "tiles.mse": "mse|rmse|sqnr_db",
    "tiles.sqnr": "sqnr_db|mse",
    "tiles.zeroed": "zeroed_share|zeroed_count",
    "tiles.clipped": "clipped_share|clipped_count",
}


@pytest.mark.parametrize("language", languages())
def test_no_sentence_that_follows_the_hand_tells_what_is_hidden(language):
    followed = 0
    for name, lesson in lessons(language).items():
        for i, step in enumerate(lesson.steps, 1):
            followed += "{hand." in step.words.text
            assert step.move or "hand." not in step.words.text, (name, i)
            for part in step.hidden & TELLING.keys():
                assert not re.search(rf"hand\.(?:{TELLING[part]})\b", step.words.text), (name, i, part)
    assert followed > 5


def test_a_phone_never_opens_a_step_on_an_error():
    """It shows one panel at a time, x̂ or x first where they may be seen: a picture of errors alone says
    nothing to who has not seen their values.
    """
    seen = 0
    for name, lesson in lessons().items():
        for i, step in enumerate(lesson.steps, 1):
            if "error" in step.show:
                seen += 1
                assert {"x", "x_hat"} & (step.show - step.hidden), (name, i)
    assert seen > 20


def test_the_command_has_kept_its_first_address(tmp_path):
    folder = tmp_path / "en"
    folder.mkdir()
    shutil.copy(Path(command.__file__).parent / "en" / "02_symmetric.md", folder)

    # One process for both, since its imports take most of the time: `python -m` is this call.
    program = """
import runpy, sys
for module in ("quantviz.lessons", "quantviz.teaching.lessons"):
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        assert not end.code, end.code
    print(module)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "en/symmetric: ok\nquantviz.lessons\nen/symmetric: ok\nquantviz.teaching.lessons\n"
    )


def test_the_command_checks_every_lesson_where_no_folder_is_named(monkeypatch, capsys):
    """That each has no problems is `test_a_lesson_is_sound`."""
    checked = []
    monkeypatch.setattr(command, "problems_of", lambda lesson, name: checked.append(name) or ())
    assert command.main([]) == 0
    assert checked == [f"{language}/{name}" for language in sorted(languages()) for name in lessons(language)]
    assert capsys.readouterr().out == "".join(f"{name}: ok\n" for name in checked)


@pytest.mark.parametrize("text", ["a <b>bold</b> word", "<script>alert(1)</script>", "an </i>", "<!-- -->"])
def test_a_lesson_with_html_is_refused(text):
    """The page shows terms as HTML, and would show a lesson's own as well."""
    for made in (Words, Words.read):
        with pytest.raises(qv.QuantVizError) as refused:
            made(text)
        assert refused.value.key == "lessons.html"
    assert Words.read("x < 0 and y <3").text == "x < 0 and y <3"
