"""A lesson with a mistake gives the file, the line and the rule, and the others still work."""

import pytest
import torch

import quantviz as qv
from quantviz.figures.numbers import number
from quantviz.lab.picture_parts import TILE_PARTS
from quantviz.teaching.lessons import lessons, load, term_home
from quantviz.teaching.lessons.__main__ import main
from quantviz.teaching.lessons.check import problems_of
from quantviz.teaching.lessons.drags import drag_answer, moved_by
from quantviz.teaching.lessons.formulas import HERE, SOLUTION, Scene, quantities
from quantviz.teaching.lessons.model import (
    CellQuestion,
    ChoiceQuestion,
    DirectionQuestion,
    NumberQuestion,
    OrderQuestion,
    Verdict,
)
from quantviz.teaching.lessons.reading import read_lesson

GOOD = """# A title

What it is about.

## One step

The scale is {scale|3}.

```lab
link = "t=builtin(name=course_3x3)&s=int8,asymmetric,per_tensor,min_max,course&c=0.2"
show = ["x", "q", "tiles"]
again = "t=uniform(rows=3,cols=3,lo=-200.0,hi=700.0)"
[states]
row = "s=int8,symmetric,per_channel(axis=0),min_max,course"
column = "s=int8,symmetric,per_channel(axis=1),min_max,course"
```

```table
rows = [["each row", "row"], ["each column", "column"]]
columns = [["MSE", "mse"], ["against here", "mse / here.mse"]]
```

```question
kind = "direction"
ask = "Does the error fall from rows to columns?"
hidden = ["q", "tiles", "table"]
before = "row.mse"
after = "column.mse"
[[mistakes]]
given = "rises"
says = "Columns hold {column.mse|3}."
```

```question
kind = "number"
ask = "How large is the MSE with one scale a column?"
hidden = ["tiles"]
answer = "column.mse"
within = "5 %"
unit = "squared"
why = "It is {column.mse}."
[[mistakes]]
value = "row.mse"
says = "{row.mse|3} is what one scale per *row* gives."
[[mistakes]]
value = "2 * column.mse"
says = "That is twice as much."
```

```question
kind = "cell"
ask = "Which cell errs most?"
hidden = []
answer = "largest abs_error"
[[mistakes]]
cells = "largest abs_x"
says = "That is the largest value."
```

```question
kind = "choice"
ask = "Which is smaller?"
hidden = []
[[options]]
text = "rows"
when = "row.mse < column.mse"
says = "No."
[[options]]
text = "columns"
when = "row.mse > column.mse"
says = "No."
```

```question
kind = "order"
ask = "Order them."
hidden = []
[[items]]
text = "here"
value = "mse"
[[items]]
text = "rows"
value = "row.mse"
[[items]]
text = "columns"
value = "column.mse"
[[mistakes]]
values = ["bits", "scales", "row.scales"]
says = "Not by cost."
```

> What remains.
"""


def replaced(*pairs):
    text = GOOD
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def wrong(text, language="en"):
    with pytest.raises(qv.QuantVizError) as caught:
        read_lesson(text, "en/99_test.md")
    assert caught.value.key == "lessons.at"
    return caught.value


def test_a_good_lesson():
    lesson = read_lesson(GOOD, "en/99_test.md")
    (step,) = lesson.steps
    assert [type(question) for question in step.questions] == [
        DirectionQuestion,
        NumberQuestion,
        CellQuestion,
        ChoiceQuestion,
        OrderQuestion,
    ]
    assert step.hidden == {
        "q",
        "tiles.mse",
        "tiles.sqnr",
        "tiles.zeroed",
        "tiles.clipped",
        "tiles.bits",
        "table",
    }
    assert list(problems_of(lesson, "en/99_test.md")) == []
    scenes = step.scenes()
    assert step.words.say(scenes) == "The scale is 3.58."
    direction, number, cell, choice, order = step.questions
    assert direction.truth(scenes) == "falls"
    assert direction.judge("rises", scenes).diagnosis == "Columns hold 1.08."
    assert round(number.truth(scenes), 5) == 1.07815
    assert number.judge(1.08, scenes).right
    assert number.judge(1.81, scenes).diagnosis == "1.81 is what one scale per *row* gives."
    assert number.judge(1.04, scenes).right
    assert number.judge(40.0, scenes) == type(number.judge(1.0, scenes))(False, None)
    assert cell.judge((0, 2), scenes).diagnosis == "That is the largest value." or (0, 2) in cell.truth(
        scenes
    )
    assert choice.truth(scenes) == 1
    assert choice.judge(0, scenes).diagnosis == "No."
    assert order.truth(scenes) == (2, 0, 1)
    assert order.judge((2, 0, 1), scenes).right
    assert not order.judge((0, 1, 2), scenes).right


def test_once_more_is_on_other_numbers_for_all_states():
    step = read_lesson(GOOD, "en/99_test.md").steps[0]
    first, second, third = (step.scenes(attempt) for attempt in range(3))
    assert first["row"].state.source == first["here"].state.source
    assert second["row"].state.source == second["here"].state.source
    assert len({str(scenes["here"].state.source) for scenes in (first, second, third)}) == 3
    assert second["row"].state.scheme == first["row"].state.scheme


LINES = {content: number for number, content in enumerate(GOOD.splitlines(), 1)}


@pytest.mark.parametrize(
    ("pairs", "line", "rule"),
    [
        ([("# A title", "A title")], 1, "begins with its title"),
        ([("What it is about.\n", "\n")], 1, "what the lesson is about"),
        ([("{scale|3}", "{skale|3}")], 7, "Unknown name"),
        ([("{scale|3}", "{1/}")], 7, "cannot be read"),
        ([("```lab", "```lob")], 9, "Unknown block"),
        ([("name=course_3x3", "name=course_9x9")], 10, "course_9x9"),
        ([("int8,asymmetric", "int9,asymmetric")], 10, "int9"),
        ([('show = ["x", "q", "tiles"]', 'show = ["x", "qq"]')], 11, "Unknown part"),
        ([('show = ["x", "q", "tiles"]', "show = x")], 11, "not TOML"),
        ([('show = ["x", "q", "tiles"]', 'show = "x"')], 11, "a list in brackets"),
        ([('show = ["x", "q", "tiles"]\n', "")], 10, "show is missing"),
        ([("again = \"t=uniform(rows=3,cols=3,lo=-200.0,hi=700.0)\"\n", "")], 10, "once more"),
        ([("again = \"t=uniform(rows=3,cols=3,lo=-200.0,hi=700.0)\"",
           'again = "t=builtin(name=course_3x3)"')], 12, "no seed"),
        ([("row = \"s=int8,symmetric", "row = \"s=int8,sideways")], 14, "sideways"),
        ([('rows = [["each row", "row"]', 'rows = [["each row", "rows"]')], 19, "Unknown state"),
        ([('["MSE", "mse"]', '["MSE"]')], 20, "pair"),
        ([('kind = "direction"', 'kind = "riddle"')], 24, "Unknown kind"),
        ([('before = "row.mse"', 'before = "rows.mse"')], 27, "Unknown state"),
        ([('before = "row.mse"\n', "")], 24, "before is missing"),
        ([('given = "rises"', 'given = "up"')], 30, "Unknown direction"),
        ([('within = "5 %"', 'within = "about"')], 39, "`within`"),
        ([('unit = "squared"', 'units = "squared"')], 40, "Unknown field"),
        ([('value = "row.mse"\nsays = "{row', 'value = "row.mse +"\nsays = "{row')], 43, "cannot be read"),
        ([('value = "2 * column.mse"', 'val = "2 * column.mse"')], 46, "Unknown field"),
        ([('answer = "largest abs_error"', 'answer = "biggest error"')], 54, "largest or smallest"),
        ([('show = ["x", "q", "tiles"]', 'show = ["q", "tiles"]')], 51, "must see x"),
        ([('when = "row.mse > column.mse"', 'when = "row.mse > colum.mse"')], 70, "Unknown state"),
        ([('values = ["bits", "scales", "row.scales"]', 'values = ["bits"]')], 88,
         "one formula for each item"),
        ([("> What remains.\n", "")], 5, "rule"),
        ([("says = \"Not by cost.\"\n```", "says = \"Not by cost.\"\n")], 74, "never closed"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_line_and_the_rule(pairs, line, rule):
    error = wrong(replaced(*pairs))
    assert error.params["file"] == "en/99_test.md"
    assert (error.params["line"], rule in str(error)) == (line, True), str(error)
    assert error.message("zh").startswith(f"en/99_test.md 第 {line} 行")


def test_a_cell_is_asked_for_only_on_a_small_tensor():
    error = wrong(replaced(("t=builtin(name=course_3x3)", "t=normal(rows=7,cols=7)"), ("&c=0.2", "&c=0.0")))
    assert "6 × 6" in str(error)


def test_what_only_shows_when_worked_out_is_found_too():
    twice = read_lesson(replaced(('when = "row.mse < column.mse"', 'when = "1 < 2"')), "x")
    assert any(
        problem.params["problem"].key == "lessons.not_one_option" for problem in problems_of(twice, "x")
    )
    same = read_lesson(
        replaced(('value = "row.mse"\nsays = "{row', 'value = "column.mse * 1.01"\nsays = "{row')), "x"
    )
    assert any(
        problem.params["problem"].key == "lessons.mistake_is_right" for problem in problems_of(same, "x")
    )


def test_the_other_lessons_still_work(tmp_path, capsys):
    (tmp_path / "01_good.md").write_text(GOOD, encoding="utf-8")
    (tmp_path / "02_bad.md").write_text(replaced(("{scale|3}", "{skale}")), encoding="utf-8")
    (tmp_path / "03_bytes.md").write_bytes(b"# \xff")
    found = load(tmp_path)
    assert list(found) == ["good", "bad", "bytes"]
    assert found["good"].title == "A title"
    assert "02_bad.md, line 7" in str(found["bad"])
    assert "UTF-8" in str(found["bytes"])
    assert main([str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "good: ok" in told
    assert "line 7" in told


# ---- lessons that are moved by hand ----------------------------------------------------------------

MOVED = """---
format: 2
---
# A title

What it is about.

## One step

The **[[scale]]** is {scale|3}.

```lab
link = "t=normal(rows=8,cols=8,mean=0.0,std=1.0,seed=1)&s=int4,symmetric,per_tensor,min_max,course&c=0.2"
show = ["x", "number_line", "bell", "tiles"]
move = ["range", "value"]
[states]
best = "s=int4,symmetric,per_tensor,mse,course"
```

```question
id = "least"
kind = "drag"
ask = "Drag the end to the least error."
hidden = ["tiles"]
right = "mse <= 1.05 * solution.mse"
solution = { hi = "best.range_hi" }
tolerance = "Within 5 % of the least."
hint = "Look at the dots."
why = "From {start.mse} to {solution.mse}."
[[mistakes]]
when = "range_hi < solution.range_hi"
says = "Too narrow: {clipped_count}."
```

> A rule.
"""


def changed(old, new):
    assert MOVED.count(old) == 1, old
    return MOVED.replace(old, new)


def complaints(text):
    """The keys of what is wrong with a lesson."""
    try:
        lesson = read_lesson(text, "x")
    except qv.QuantVizError as problem:
        return [problem.params["problem"].key]
    return [problem.params["problem"].key for problem in problems_of(lesson, "x")]


def test_a_lesson_that_is_moved_by_hand():
    lesson = read_lesson(MOVED, "x")
    assert complaints(MOVED) == []
    (step,) = lesson.steps
    (question,) = step.questions
    assert (lesson.format, lesson.course, step.move, question.id) == (2, 1, ("range", "value"), "least")
    scenes = step.scenes()
    start, right = scenes[HERE].state, question.truth(scenes)
    assert question.judge(drag_answer(start, right), scenes) == Verdict(True)
    narrow = moved_by(start, {"kind": "range", "lo": -0.5, "hi": 0.5}, step.move)
    given = drag_answer(start, narrow)
    assert given == "s=int4%2Csymmetric%2Cper_tensor%2Cmanual_range%28lo%3D-0.5%2Chi%3D0.5%29%2Ccourse"
    assert question.takes(given, scenes)
    assert question.judge(given, scenes).diagnosis.startswith("Too narrow: ")
    assert step.words.say(scenes, lambda name, words: f"<{name}>").startswith("The <b><scale></b> is 0.")


def test_a_drag_is_judged_by_the_numbers_on_the_screen():
    """An MSE of 0.01228 was wrong where the screen showed 0.01228 as the limit: the sixth digit decided."""
    (step,) = read_lesson(MOVED, "x").steps
    (question,) = step.questions
    scenes = step.scenes()
    start, best = scenes[HERE].state, question.named_scenes(scenes)[SOLUTION]
    limit = 1.05 * metric(best)

    def made(hi):
        return moved_by(start, {"kind": "range", "lo": -hi, "hi": hi}, step.move)

    right, wrong = quantities()["range_hi"](best), 2.0 * quantities()["range_hi"](best)
    while metric(Scene(made(wrong))) > limit * (1 + 1e-6) and wrong - right > 1e-6:
        middle = (right + wrong) / 2
        right, wrong = (middle, wrong) if metric(Scene(made(middle))) <= limit else (right, middle)
    beyond = metric(Scene(made(wrong)))
    assert beyond > limit
    assert number(beyond) == number(limit)
    assert question.judge(drag_answer(start, made(wrong)), scenes).right
    # Where the screen tells them apart, so does the verdict.
    assert not question.judge(drag_answer(start, made(1.5 * wrong)), scenes).right


def metric(scene):
    return quantities()["mse"](scene)


@pytest.mark.parametrize(
    "given",
    [
        "s=int8,symmetric,per_tensor,min_max,course",  # the bits cannot be moved
        "s=int4,symmetric,per_channel(axis=0),manual_range(lo=-1.0,hi=1.0),course",
        "s=int4,symmetric,per_tensor,given(scale=1.0,zero_point=0),course",
        "t=normal(rows=999,cols=999,mean=0.0,std=1.0,seed=1)",
        "t=edited(normal(rows=8,cols=8,mean=0.0,std=1.0,seed=1),0.0=1.0,0.1=1.0)",  # two values
        "s=int4,symmetric,per_tensor,manual_range(lo=1.0,hi=-1.0),course",
        "x" * 100_000,
    ],
)
def test_only_what_a_hand_can_do_is_an_answer(given):
    step = read_lesson(MOVED, "x").steps[0]
    assert not step.questions[0].takes(given, step.scenes())


def test_a_hand_that_came_back_has_an_answer():
    """“You have not moved anything yet” was said to who had moved, and come back."""
    step = read_lesson(MOVED, "x").steps[0]
    scenes, question = step.scenes(), step.questions[0]
    back = drag_answer(scenes[HERE].state, scenes[HERE].state)
    assert question.takes(back, scenes)
    assert not question.judge(back, scenes).right


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("format: 2", "format: 3", "bad_front"),
        ("---\n# A", "# A", "open_front"),
        ('move = ["range", "value"]', 'move = ["lid"]', "unknown_handle"),
        ('move = ["range", "value"]', "", "drag_needs_move"),
        ('"number_line", "bell"', '"bell"', "needs_ruler"),
        ('hidden = ["tiles"]', 'hidden = ["number_line"]', "ruler_hidden"),
        ('id = "least"', "", "missing_field"),
        ('id = "least"', 'id = "Least!"', "bad_id"),
        ('id = "least"', 'id = "least"\nwas = [0, 1]', "bad_was"),
        ('{ hi = "best.range_hi" }', '{ bits = "4" }', "bad_solution"),
        ('{ hi = "best.range_hi" }', '{ lo = "-1" }', "no_solution"),
        ("mse <= 1.05 * solution.mse", "mse <= 0.5 * solution.mse", "solution_is_wrong"),
        ("mse <= 1.05 * solution.mse", "mse <= 99", "start_is_right"),
        ('hint = "Look at the dots."', "", "no_hint"),
        ("[[scale]]", "[[scaleless]]", "unknown_term"),
        ("{scale|3}.", "{scale|3}, and the [[scale]] again.", "term_twice"),
        ("The **[[scale]]**", "word " * 90 + "The **[[scale]]**", "too_many_words"),
        ("rows=8,cols=8", "rows=300,cols=300", "ruler_too_large"),
        ('move = ["range", "value"]', 'move = ["range", "zero"]', "handle_missing"),
        ('move = ["range", "value"]', 'move = ["range", "flip"]', "handle_missing"),
    ],
)
def test_what_is_wrong_with_a_lesson_that_is_moved(old, new, key):
    assert f"lessons.{key}" in complaints(changed(old, new))


def test_a_mark_opens_the_numbers_that_a_drag_is_made_with():
    """What a table tells of other states, and what another question of the step asks for, stays hidden."""
    (step,) = read_lesson(MOVED, "x").steps
    assert step.opened_by_mark(step.questions[0]) == step.show & set(TILE_PARTS)
    (open_step,) = read_lesson(changed('hidden = ["tiles"]', "hidden = []"), "x").steps
    assert open_step.opened_by_mark(open_step.questions[0]) == frozenset(), "nothing to be blind to"
    layer = lessons()["w8a32"].steps[3]
    assert layer.opened_by_mark(layer.questions[0]) == {"curve", "tiles.mse", "tiles.clipped"}
    assert layer.opened_by_mark(layer.questions[1]) == frozenset()
    rules = lessons()["engines_disagree"].steps[2]
    assert rules.opened_by_mark(rules.questions[0]) == frozenset(), "the order of the scales is asked next"
    for name, i, on in (("bits_and_sqnr", 0, "bits"), ("per_group", 2, "group"), ("outliers", 0, "axis")):
        assert lessons()[name].steps[i].questions[0].marked_on == on


@pytest.mark.parametrize("attempt", [0, 1])
def test_codes_are_held_while_the_readers_zero_point_is_moved(attempt):
    step = lessons()["range_to_grid"].steps[5]
    start = step.scenes(attempt)[HERE]
    before, why = start.result, start.why
    for z in (int(why.zero_point) + 1, int(why.zero_point) - 2):
        state = moved_by(start.state, {"kind": "given", "scale": why.scale, "zero_point": z}, step.move)
        after = Scene(state).result
        assert after.q.equal(before.q)
        assert after.error.abs().max() <= 1e-3
        torch.testing.assert_close(
            after.x_hat - before.x_hat, torch.full((3, 3), why.scale * (why.zero_point - z))
        )
    assert "zero" not in step.move


def test_a_value_is_moved_by_its_bits():
    flipped = changed('move = ["range", "value"]', 'move = ["flip"]').replace(
        "int4,symmetric,per_tensor,min_max,course",
        "float4_e2m1fn,symmetric,per_tensor,given(scale=0.5),course",
    )
    flipped = flipped.replace('solution = { hi = "best.range_hi" }', 'solution = { value = "1" }')
    flipped = flipped.replace("mse <= 1.05 * solution.mse", "x == 1").replace("range_hi <", "x <")
    assert complaints(flipped) == []
    (step,) = read_lesson(flipped, "x").steps
    scenes, (question,) = step.scenes(), step.questions
    state = moved_by(scenes[HERE].state, {"kind": "cell", "cell": [0, 2], "value": 1.0}, step.move)
    given = drag_answer(scenes[HERE].state, state)
    assert question.takes(given, scenes)
    assert question.judge(given, scenes).right
    assert step.speaks_of_cell
    for other in (
        "float4_e2m1fn,symmetric,per_tensor,min_max",
        "float16,symmetric,per_tensor,given(scale=0.5)",
    ):
        text = flipped.replace("float4_e2m1fn,symmetric,per_tensor,given(scale=0.5)", other)
        assert "lessons.handle_missing" in complaints(text)


@pytest.mark.slow
def test_a_lesson_is_neither_long_nor_typed_nor_asked_before_it_is_moved():
    begin = MOVED.index("## One step")
    head, step = MOVED[:begin], MOVED[begin:].replace("**[[scale]]**", "scale")
    number = step[: step.index("```question")].replace('move = ["range", "value"]', "") + (
        '```question\nid = "n"\nkind = "number"\nask = "?"\nhidden = []\nanswer = "scale"\nwithin = "0"\n'
        'hint = "It is {scale}."\n```\n\n> A rule.\n'
    )
    assert "lessons.nothing_moved" in complaints(head + number)
    assert "lessons.told_too_early" in complaints(head + step + number)
    assert complaints(head + step + step) == ["lessons.id_twice"]
    many = "".join(step.replace('"least"', f'"least{i}"') for i in range(6))
    assert "lessons.too_many_questions" in complaints(head + many)
    twice = "".join(number.replace('"n"', f'"n{i}"') for i in range(2))
    assert "lessons.too_many_typed" in complaints(head + step + twice)
    long = "".join(
        step.replace('"least"', f'"least{i}"').replace("The scale", "word " * 88 + "The scale")
        for i in range(8)
    )
    assert "lessons.lesson_too_long" in complaints(head + long)
    assert "lessons.too_many_words" not in complaints(head + step)


def test_every_term_is_introduced_once():
    homes = [
        term
        for lesson in lessons().values()
        for step in lesson.steps
        for term, introduced in step.terms
        if introduced
    ]
    assert len(homes) == len(set(homes))
    assert term_home("zero_point") == ("range_to_grid", 3)
