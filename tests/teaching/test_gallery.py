"""The bug gallery: what is shown is what ran, each bug shows and hides where it says so, and every bug has
its words.
"""

import dataclasses
import math
import re

import numpy as np
import pytest
import torch

from quantviz.errors import QuantVizError
from quantviz.figures.arrangement import PanelsStyle
from quantviz.figures.panel_painter import panels_alt
from quantviz.figures.panels import panels_figure
from quantviz.figures.panels_data import panels_data
from quantviz.teaching.bug_handles import HANDLES, frames, value_written
from quantviz.teaching.gallery import BUGS, differing, find_bug, puzzle, run_bug
from quantviz.text import catalogue, languages
from tests.helpers.notebooks import BY_ID, assert_printed

CASES = [pytest.param(bug, case, id=f"{bug.id}-{case.id}") for bug in BUGS.values() for case in bug.cases]
#: Beside the first, the cases that show their bug.
ALSO_SHOWN = {("constant_tensor", "no_eps")}


def both(bug, case=None):
    x = (case or bug.cases[0]).source.tensor()
    return run_bug(bug, x, False, case), run_bug(bug, x, True, case)


def same(one, other):
    if isinstance(one, torch.Tensor):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and torch.equal(one.nan_to_num(nan=12345.0), other.nan_to_num(nan=12345.0))
        )
    return type(one) is type(other) and one == other


# ---- what is shown is what ran --------------------------------------------------------------------


@pytest.mark.parametrize("broken", [False, True], ids=["correct", "broken"])
@pytest.mark.parametrize(("bug", "case"), CASES)
def test_the_shown_lines_run_alone_give_the_outcome(bug, case, broken):
    x = case.source.tensor()
    outcome = run_bug(bug, x, broken, case)
    shown = {"torch": torch, "x": x.clone()}
    for line, given in zip(outcome.lines, outcome.steps, strict=True):
        exec(line.code, shown)
        assert set(given) == set(line.names)
        for name in line.names:
            assert same(shown[name], given[name]), line.code
    for name in ("q", "x_hat"):
        assert same(shown[name].expand(x.shape), getattr(outcome, name))
    assert same(shown["x"], x)


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_one_line_differs(bug):
    assert bug.broken.code != bug.fixed.code
    for case in bug.cases:
        correct, broken = bug.program(case, False), bug.program(case, True)
        assert [
            (good.key, bad.key) for good, bad in zip(correct, broken, strict=True) if good is not bad
        ] == [(bug.broken.key, bug.broken.key)]
        assert len({line.key for line in broken}) == len(broken)
        assert correct[-1].names == ("x_hat",)
        assert max(len(line.code) for line in (*correct, *broken)) <= 90  # a line on a page


# ---- where it shows -------------------------------------------------------------------------------


@pytest.mark.parametrize(("bug", "case"), CASES)
def test_the_cells_that_differ_are_the_lit_ones(bug, case):
    correct, broken = both(bug, case)
    lit = differing(correct, broken)
    assert lit.shape == correct.x.shape
    for place in np.ndindex(*lit.shape):
        pairs = [
            (float(getattr(correct, name)[place]), float(getattr(broken, name)[place]))
            for name in ("q", "x_hat")
        ]
        assert bool(lit[place]) == any(
            good != bad and not (math.isnan(good) and math.isnan(bad)) for good, bad in pairs
        )
    if case is bug.cases[0] or (bug.id, case.id) in ALSO_SHOWN:
        assert lit.any()
    elif case.id != "random":
        assert not lit.any()


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_correct_program_is_right(bug):
    """Each value comes back to within a rough step of int4, unless it was clipped on purpose."""
    for case in bug.cases:
        correct, _ = both(bug, case)
        wanted = (
            correct.x.clamp(-correct.values["top"], correct.values["top"])
            if "top" in correct.values
            else correct.x
        )
        assert (correct.x_hat - wanted).abs().max() <= 1 / 7 * correct.x.abs().max()


def test_a_difference_wraps_where_it_leaves_int8():
    bug = BUGS["int8_difference_wraps"]
    for seed in range(20):
        case = dataclasses.replace(bug.cases[-1], source=dataclasses.replace(bug.cases[-1].source, seed=seed))
        correct, broken = both(bug, case)
        difference = correct.q.int() - correct.values["zero_point"]
        assert torch.equal(differing(correct, broken), (difference > 127) | (difference < -128))


def test_zeros_make_not_a_number_and_only_there():
    correct, broken = both(BUGS["row_of_zeros"])
    zeros = (correct.x == 0).all(dim=1, keepdim=True).expand(correct.x.shape)
    assert zeros.any()
    assert torch.equal(broken.x_hat.isnan(), zeros)
    assert math.isnan(broken.mse)


def test_the_sign_of_the_error_doubles_what_it_should_remove():
    correct, broken = both(BUGS["error_sign"])
    bias = (correct.values["y"] - correct.x).mean(dim=1)
    assert torch.allclose((correct.x_hat - correct.x).mean(dim=1), torch.zeros(5), atol=1e-6)
    assert torch.allclose((broken.x_hat - broken.x).mean(dim=1), 2 * bias, atol=1e-6)


def test_the_zero_point_added_moves_all_cells_alike():
    correct, broken = both(BUGS["zero_point_added"])
    z, s = broken.values["zero_point"], broken.values["scale"]
    assert torch.allclose(broken.x_hat - correct.x_hat, (z + s * z).expand(3, 3), atol=1e-5)


# ---- dragged into view ------------------------------------------------------------------------------


@pytest.mark.parametrize("bug", HANDLES)
def test_a_handle_begins_where_its_bug_hides_and_runs_what_is_shown(bug):
    handle, found = HANDLES[bug], frames(bug)
    assert [frame.value for frame in found] == list(handle.values)
    assert not found[handle.values.index(handle.start)].shows
    shown = [frame for frame in found if frame.shows]
    for frame in (found[0], shown[0], shown[-1], found[-1]):
        for outcome in (frame.correct, frame.broken):
            values = {"torch": torch, "x": frame.correct.x.clone()}
            for line, given in zip(outcome.lines, outcome.steps, strict=True):
                exec(line.code, values)
                assert all(same(values[name], given[name]) for name in line.names), line.code
        # Whatever else it is that hits a cell, its value comes back another one.
        assert bool((frame.hit <= differing(frame.correct, frame.broken)).all())
        assert value_written(bug, f"{frame.value:g}") == frame.value


def test_a_handle_moves_what_it_says():
    for bug in ("int8_difference_wraps", "zero_point_added"):
        assert all(frame.correct.values["zero_point"] == frame.value for frame in frames(bug))
    for frame in frames("times_255_wraps"):
        codes = frame.broken.x.double() / 728.6 * frame.value
        assert torch.equal(frame.hit, codes.abs().round() > 127)
    for frame in frames("zero_point_clamped"):
        assert frame.shows == (frame.value > 0)
    assert [frame.value for frame in frames("row_of_zeros") if frame.shows] == [0.0]
    # Codes reach 255 times eps.
    assert [frame.shows for frame in frames("constant_tensor")] == [
        255 * frame.value < 5 for frame in frames("constant_tensor")
    ]


# ---- the notebooks' own accidents -------------------------------------------------------------------


def test_times_255_gives_what_the_notebook_printed():
    _, broken = both(BUGS["times_255_wraps"])
    assert_printed(BY_ID["s2_In47_q"], broken.q)
    assert_printed(BY_ID["s2_In47_xhat"], broken.x_hat)
    assert_printed(BY_ID["s2_In47_err"], torch.linalg.norm(broken.x_hat - broken.x))


def test_leftover_parameters_give_what_the_notebook_printed():
    correct, broken = both(BUGS["leftover_parameters"])
    assert_printed(BY_ID["s1_In41_q"], correct.q)
    assert_printed(BY_ID["s1_In41_xhat"], correct.x_hat)
    assert_printed(BY_ID["s1_In39_sym"], broken.x_hat - broken.x)
    assert broken.mse < correct.mse


def test_five_becomes_almost_zero():
    correct, broken = both(BUGS["constant_tensor"])
    assert correct.x_hat.tolist() == [[5.0] * 4] * 4
    assert_printed(BY_ID["s1_const"], broken.x_hat[0, :3])


def test_per_channel_on_one_axis_gives_the_one_scale_of_the_notebook():
    item = BY_ID["s1_perchannel_1d"]
    bug = BUGS["one_axis_one_scale"]
    assert_printed(item, run_bug(bug, torch.tensor(item["input"]), True).values["scale"])
    assert run_bug(bug, torch.tensor(item["input"]), False).values["scale"].shape == (3,)


def test_the_clamp_to_minus_128_does_no_harm_where_nothing_is_clipped():
    bug = BUGS["one_code_too_many"]
    correct, broken = both(bug, bug.case("absmax"))
    assert torch.equal(correct.q, broken.q)
    assert correct.q.min() >= -127
    # Where it is used, it is the sign that is lost: without the line that takes the size, -128 were nearer.
    correct, broken = both(bug)
    lit = differing(correct, broken)
    assert (broken.q[lit] == -128).all()
    assert (broken.x_hat[lit] == -broken.values["scale"] * broken.q[lit].float()).all()
    plain = broken.values["scale"] * broken.q.float()
    assert ((plain - broken.x).abs()[lit] < (correct.x_hat - correct.x).abs()[lit]).all()


# ---- the registry -----------------------------------------------------------------------------------


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_every_bug_has_its_words_and_no_others(bug, language):
    assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", bug.id)
    named = [case.id for case in bug.cases if case.id != "random"]
    keys = {line.key for case in bug.cases for line in bug.program(case, True)} - {bug.broken.key}
    wanted = {f"bugs.{bug.id}.{field}" for field in ("name", "goal", "belief", "happens", "practice")}
    wanted |= {f"bugs.{bug.id}.cases.{name}" for name in named} | {
        f"bugs.{bug.id}.notes.{name}" for name in named
    }
    wanted |= {f"bugs.{bug.id}.why.{key}" for key in keys}
    if bug.id in HANDLES:
        wanted |= {f"bugs.{bug.id}.drag.{part}" for part in ("name", "ask", "hides", "shows")}
    assert {key for key in catalogue(language) if key.startswith(f"bugs.{bug.id}.")} == wanted
    assert all(catalogue(language)[key].strip() for key in wanted)


@pytest.mark.parametrize("language", languages())
def test_a_puzzle_does_not_tell_its_answer(language):
    """What is read before the answer: the goal, and what is said of a wrong line."""
    words = catalogue(language)
    for bug in BUGS.values():
        before = [
            words[f"bugs.{bug.id}.goal"],
            *(words[key] for key in words if key.startswith(f"bugs.{bug.id}.why.")),
        ]
        assert not any(
            words[f"bugs.{bug.id}.name"].lower() in sentence.lower() or bug.fixed.code in sentence
            for sentence in before
        )


def test_every_bug_is_one_puzzle_in_another_order():
    order = [puzzle(number).id for number in range(1, len(BUGS) + 1)]
    assert sorted(order) == sorted(BUGS)
    assert order != list(BUGS)


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (lambda: find_bug("nothing"), "bugs.unknown"),
        (lambda: puzzle(0), "bugs.unknown_puzzle"),
        (lambda: puzzle(len(BUGS) + 1), "bugs.unknown_puzzle"),
        (lambda: BUGS["error_sign"].case("nothing"), "bugs.unknown_case"),
        (lambda: value_written("error_sign", "nan"), "bugs.bad_value"),
    ],
)
def test_an_unknown_name_is_said(call, key):
    with pytest.raises(QuantVizError) as caught:
        call()
    assert caught.value.key == key
    assert all(caught.value.message(language) for language in languages())


# ---- panels of results that are not numbers -----------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shown_error", ["signed", "absolute", "relative"])
def test_panels_draw_what_is_not_a_number(bad, shown_error):
    for x_hat in ([[1.0, bad], [0.0, 2.0]], [[bad, bad], [bad, bad]]):
        data = panels_data([[1.0, 2.0], [0.0, 3.0]], [[1.0, bad], [0.0, 1.0]], x_hat, error_view=shown_error)
        assert all(math.isfinite(end) for name in data.panels for end in data.panel(name)[1])
        for told in (False, True):
            assert len(panels_figure(data, PanelsStyle(hover=told, printed=told)).data) == 4
        assert "4" in panels_alt(data) or "2" in panels_alt(data)


def test_what_a_handle_shows_grows_to_the_right():
    """“Drag share down” went to the right, as three others did."""
    for bug, handle in HANDLES.items():
        shown = [handle.shown(value) for value in handle.values]
        assert shown == sorted(set(shown)), bug


@pytest.mark.parametrize("language", languages())
def test_a_handle_that_changes_the_original_says_so(language):
    """“Zero point” moved all values of x."""
    for bug, handle in HANDLES.items():
        first, last = (handle.source(value).tensor() for value in (handle.values[0], handle.values[-1]))
        name = catalogue(language)[f"bugs.{bug}.drag.name"]
        ask = catalogue(language)[f"bugs.{bug}.drag.ask"]
        of_values = re.search(r"\bx\b|[Rr]ow|grid|行|网格|值", f"{name} {ask}")
        assert first.equal(last) or of_values, bug
        if "zero" in name.lower() or "零点" in name:
            assert first.equal(last), bug
