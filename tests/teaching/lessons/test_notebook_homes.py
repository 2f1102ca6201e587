"""Every cell of the notebooks has a home, and where a step is to show a printed number, it shows that
number.
"""

import inspect
import re
from itertools import chain
from pathlib import Path

import pytest
import torch

import quantviz as qv
from quantviz.teaching import course
from quantviz.teaching.gallery import BUGS, run_bug
from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.formulas import HERE, Formula
from tests.helpers.notebooks import BY_ID, ITEMS, assert_printed

LINES = (
    Path(inspect.getfile(qv.teaching.lessons.reading))
    .with_name("NOTEBOOKS.md")
    .read_text(encoding="utf-8")
    .splitlines()
)
ROWS = [
    tuple(part.strip() for part in line.strip("|").split("|"))
    for line in LINES
    if re.match(r"\| \d{3} \|", line)
]


def numbers(*parts):
    return list(
        chain.from_iterable(
            range(part, part + 1) if isinstance(part, int) else range(part[0], part[1] + 1) for part in parts
        )
    )


#: The notebooks' code cells: those with a number (41 and 54 have lost theirs in print), and how many have
#: none.
CELLS = {
    "000": (numbers(1, (23, 32), (49, 54), 61, 62, (66, 76), (78, 80)), 2),
    "001": (numbers(4, 10, 12, (17, 21), 23, (33, 37), (39, 42)), 1),
    "002": (numbers(1, 47, 49, 51), 0),
    "003": (numbers((1, 55), (57, 59)), 0),
    "004": (numbers((47, 55), 57), 0),
}


def cells(notebook):
    return ", ".join(row[1] for row in ROWS if row[0] == notebook)


@pytest.mark.parametrize("notebook", CELLS)
def test_every_code_cell_is_listed_once(notebook):
    numbered, unnumbered = CELLS[notebook]
    assert sorted(int(n) for n in re.findall(r"\[(\d+)\]", cells(notebook))) == numbered
    assert len(re.findall(r'"[^"]+"', cells(notebook))) == unnumbered


def test_every_printed_item_is_listed():
    for item in ITEMS:
        number = re.match(r"In(\d+)", item["cell"])
        named = f"[{number[1]}]" if number else f"`{item['cell'].removesuffix('_xhat')}`"
        assert named in cells(item["notebook"]), item["id"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:2]))
def test_every_home_is_there(row):
    home = re.sub(r"\([^)]*\)", "", row[3])
    found = home.split(", ")
    for each in found:
        step, bug, function = (
            re.fullmatch(form, each.strip())
            for form in (r"`(\w+)` (\d+)", r"bug `(\w+)`", r"`course\.(\w+)`")
        )
        assert step or bug or function, each
        if step:
            assert 1 <= int(step[2]) <= len(lessons()[step[1]].steps), each
        if bug:
            assert bug[1] in BUGS
        if function:
            assert function[1] in course.__all__
    # What is only defined is also shown somewhere; a cell that imports has nothing to show.
    assert "import" in row[2] or not all(each.startswith("`course.") for each in found)


# ---- the printed numbers ------------------------------------------------------------------------

#: Where each printed number is on screen: a panel of a step, or formulas; `row.q` is that of the step's state
#: called row.
SHOWN = {
    "s0_In26": ("range_to_grid", 2, "full.code_min"),
    "s0_In27": ("range_to_grid", 2, "full.code_max"),
    "s0_In28": ("range_to_grid", 1, "x_min"),
    "s0_In29": ("range_to_grid", 1, "x_max"),
    "s0_In30": ("range_to_grid", 3, "scale"),
    "s0_In31": ("range_to_grid", 4, "full.zero_point"),
    "s0_In51": ("range_to_grid", 3, "scale"),
    "s0_In52": ("range_to_grid", 4, "full.zero_point"),
    "s0_In61": ("range_to_grid", 5, "panel full.q"),
    "s0_In67": ("range_to_grid", 6, "panel full.x_hat"),
    "s0_In69": ("symmetric", 3, "nine.mse"),
    "s0_In74": ("range_to_grid", 8, "panel q"),
    "s0_In75": ("range_to_grid", 8, "scale"),
    "s0_In76": ("range_to_grid", 8, "zero_point"),
    "s0_In78": ("range_to_grid", 8, "panel x_hat"),
    "s0_In79": ("asymmetric", 5, "a.mse"),
    "s1_In10": ("asymmetric", 6, "panel x"),
    "s1_In17_scale": ("asymmetric", 6, "sym.scale"),
    "s1_In17_zp": ("asymmetric", 6, "sym.zero_point"),
    "s1_In18_scale": ("per_channel", 7, "panel scale"),
    "s1_In20_scale": ("asymmetric", 6, "here.scale"),
    "s1_In20_zp": ("asymmetric", 6, "here.zero_point"),
    "s1_In21_scale": ("per_channel", 7, "panel asym.scale"),
    "s1_In21_zp": ("per_channel", 7, "steps asym.zero_point"),
    "s1_In33": ("per_channel", 7, "panel q"),
    "s1_In34": ("per_channel", 7, "panel asym.q"),
    "s1_In36": ("per_channel", 7, "panel x_hat"),
    "s1_In37": ("per_channel", 7, "panel asym.x_hat"),
    "s1_In39_asym": ("per_channel", 7, "panel asym.error"),
    "s1_In41_q": ("asymmetric", 6, "panel sym.q"),
    "s1_In41_xhat": ("asymmetric", 6, "panel sym.x_hat"),
    "s1_In42_q": ("asymmetric", 6, "panel q"),
    "s1_In42_xhat": ("asymmetric", 6, "panel x_hat"),
    "s2_In51": ("rounding_against_clipping", 1, "panel x_hat"),
    "s2_In51_norm": ("rounding_against_clipping", 2, "l2_norm_error"),
    "s3_In6": ("rounding_against_clipping", 1, "panel q"),
    "s3_In8": ("rounding_against_clipping", 1, "panel x_hat"),
    "s3_In11": ("rounding_against_clipping", 2, "mse"),
    "s3_In12": ("range_to_grid", 2, "full.code_min", "full.code_max"),
    "s3_In13": ("range_to_grid", 1, "x_min"),
    "s3_In14": ("range_to_grid", 1, "x_max"),
    "s3_In15": ("range_to_grid", 3, "scale"),
    "s3_In16": ("range_to_grid", 4, "full.zero_point"),
    "s3_In18": ("range_to_grid", 3, "scale"),
    "s3_In18_zp": ("range_to_grid", 4, "full.zero_point"),
    "s3_In21": ("symmetric", 3, "nine.mse"),
    "s3_In25_q": ("asymmetric", 5, "panel q"),
    "s3_In25_s": ("asymmetric", 5, "here.scale"),
    "s3_In25_z": ("asymmetric", 5, "here.zero_point"),
    "s3_In26": ("asymmetric", 5, "panel x_hat"),
    "s3_In27": ("asymmetric", 5, "here.mse"),
    "s3_In30": ("symmetric", 6, "scale"),
    "s3_In34": ("symmetric", 6, "mse"),
    "s3_In39": ("per_channel", 2, "panel scale"),
    "s3_In44": ("per_channel", 2, "panel q"),
    "s3_In47": ("per_channel", 2, "here.mse"),
    "s3_In48": ("per_channel", 2, "col.mse"),
    "s3_In57_q": ("w8a32", 1, "panel q"),
    "s3_In57_s": ("w8a32", 1, "scale"),
    "s3_In58": (
        "w8a32",
        5,
        "output_hat(here, inputs)",
        "output_hat(second, inputs)",
        "output_hat(third, inputs)",
    ),
    "s3_In59": ("w8a32", 5, "output(here, inputs)", "output(second, inputs)", "output(third, inputs)"),
    "s4_In48": ("symmetric", 7, "panel x"),
    "s4_In50": ("symmetric", 7, "x_absmax"),
    "s4_In51": ("symmetric", 7, "scale"),
    "s4_In54": ("symmetric", 7, "panel q"),
    "s4_In55": ("symmetric", 7, "panel x_hat"),
}
#: What the tests below hold in a way of their own, or what is words.
OTHERWISE = {
    "s0_In68", "s0_clip_rule_allpos", "s0_clip_rule_allpos_xhat", "s0_clip_rule_allneg",
    "s0_clip_rule_allneg_xhat", "s0_const",
    "s1_In39_sym", "s1_const", "s1_perchannel_1d", "s2_In49_rounded", "s2_In47_norm", "s2_In47_q",
    "s2_In47_xhat", "s2_In47_err",
    "s3_In9", "s3_In52", "s4_In52", "s4_In57",
}  # fmt: skip


def step_of(name, number):
    return lessons()[name].steps[number - 1]


def formulas_on_screen(step):
    """The formulas in a step's words, answers and table, each as it is written; those of the table with their
    row's state.
    """
    words = [
        step.words,
        step.rule,
        step.note,
        *(words for question in step.questions for words in (question.ask, question.why)),
    ]
    found = {match for each in words if each for match in re.findall(r"\{([^{}|]*)", each.text)}
    # What the hand has made of the step's state is at first that itself.
    found |= {formula.replace("hand.", "") for formula in found}
    found |= {question.answer.text for question in step.questions if question.kind == "number"}
    if step.table:
        found |= {
            f"{state}.{formula.text}" for _, state in step.table.rows for _, formula in step.table.columns
        }
    return found


def test_every_printed_number_is_looked_for():
    assert {*SHOWN, *OTHERWISE} == set(BY_ID)
    assert not {*SHOWN} & OTHERWISE


@pytest.mark.parametrize("id_", SHOWN)
def test_a_step_shows_the_printed_number(id_):
    name, number, *whats = SHOWN[id_]
    step = step_of(name, number)
    scenes, got = step.scenes(), []
    for what in whats:
        part, _, field = what.rpartition(" ")
        if part in ("panel", "steps"):
            state, _, field = field.rpartition(".")
            result = scenes[state or HERE].result
            # Another state can be looked at where the table has it as a row.
            assert not state or state in [row for _, row in step.table.rows]
            assert (field if part == "panel" else part) in step.show
            got.append(getattr(result.qparams if field in ("scale", "zero_point") else result, field))
        else:
            assert what in formulas_on_screen(step)
            got.append(Formula.read(what, scenes).value(scenes))
    got = torch.as_tensor(got if len(got) > 1 else got[0], dtype=torch.float64)
    # Where the notebook divided float32 tensors, the core's float64 is as precise as that.
    assert_printed(BY_ID[id_], got.to(torch.float32) if BY_ID[id_]["call"].get("math") == "float32" else got)


def test_the_error_of_a_row_is_the_printed_one():
    # The core divides in float64, the notebook in float32, so that an end of the range is off by the last bit
    # or not.
    error = step_of("per_channel", 7).scenes()[HERE].result.error
    torch.testing.assert_close(error, torch.tensor(BY_ID["s1_In39_sym"]["expected"]), rtol=5e-5, atol=1e-5)


def test_the_code_beyond_the_last_one_is_said():
    step = step_of("rounding_against_clipping", 1)
    assert "round(x / scale + zero_point)" in formulas_on_screen(step)
    rounded = BY_ID["s2_In49_rounded"]["expected"]
    assert Formula.read("round(x / scale + zero_point)").value(step.scenes()) == rounded[0][2] == 138
    assert step.scenes()[HERE].result.q.tolist() == [[min(q, 127) for q in row] for row in rounded]


def test_the_wrapped_difference_is_told():
    wrapped = BY_ID["s3_In9"]["expected"]
    step = step_of("rounding_against_clipping", 1)
    formula = "scale * (code_max - zero_point - 2 ** bits)"
    assert formula in formulas_on_screen(step)
    assert Formula.read(formula).value(step.scenes()) == wrapped[0][2]
    q = step.scenes()[HERE].result.q.to(torch.int8)
    values = BUGS["int8_difference_wraps"].broken.given({"scale": 3.5, "zero_point": -70, "q": q})
    assert values["x_hat"].tolist() == wrapped


def test_the_gallery_shows_times_255():
    bug = BUGS["times_255_wraps"]
    outcome = run_bug(bug, bug.cases[0].source.tensor(), broken=True)
    for id_, got in {
        "s2_In47_norm": [outcome.values["absmax"]],
        "s2_In47_q": outcome.q,
        "s2_In47_xhat": outcome.x_hat,
        "s2_In47_err": [(outcome.mse * outcome.x.numel()) ** 0.5],
    }.items():
        got = torch.as_tensor(got, dtype=torch.float64)
        torch.testing.assert_close(
            got,
            torch.tensor(BY_ID[id_]["expected"], dtype=torch.float64).reshape(got.shape),
            rtol=1e-6,
            atol=5.1e-5,
        )


def test_the_vector_is_divided_and_its_error_turned():
    step = step_of("symmetric", 7)
    r = step.scenes()[HERE].result
    assert "steps" in step.show
    assert "x / scale" in formulas_on_screen(step)
    assert_printed(BY_ID["s4_In52"], r.x / r.qparams.scale)
    assert "-error" in formulas_on_screen(step)
    assert_printed(BY_ID["s4_In57"], -r.error)


def test_groups_of_three_come_near_what_was_printed():
    item = BY_ID["s3_In52"]
    mse = Formula.read("mse").value(step_of("per_group", 1).scenes())
    assert item["tolerance"]["min"] < mse < item["tolerance"]["max"]


def test_all_values_on_one_side_come_back_as_one():
    r = step_of("zero_point_out_of_range", 2).scenes()[HERE].result
    assert int(r.qparams.zero_point) == BY_ID["s0_clip_rule_allpos"]["expected"]
    assert torch.allclose(r.x_hat, r.x.max() - r.x.min())


def test_a_constant_tensor_comes_back_as_printed():
    bug = BUGS["constant_tensor"]
    outcome = run_bug(bug, bug.cases[0].source.tensor(), broken=True)
    assert outcome.x_hat.unique().tolist() == [pytest.approx(BY_ID["s1_const"]["expected"][0], rel=1e-3)]


def test_a_vector_gets_one_scale():
    bug = BUGS["one_axis_one_scale"]
    x = torch.tensor(BY_ID["s1_perchannel_1d"]["input"])
    assert_printed(BY_ID["s1_perchannel_1d"], run_bug(bug, x, broken=True).values["scale"])
