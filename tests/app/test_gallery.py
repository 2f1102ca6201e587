"""The bug gallery through AppTest: each bug in each language, and puzzles answered right and wrong."""

import itertools
import json
import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from quantviz.teaching.gallery import BUGS, differing, puzzle, run_bug
from quantviz.text import catalogue, languages
from tests.helpers.offered import of_today
from tests.helpers.session import address, chart, decoded

ALL = range(1, len(BUGS) + 1)
NAMED = re.compile("|".join(BUGS))


def opened(**params):
    """The gallery as a new session sees it at this address."""
    at = AppTest.from_file("../../app.py", default_timeout=60)
    for name, value in params.items():
        at.query_params[name] = value
    return healthy(at.switch_page("pages/learn/bugs.py").run())


def healthy(at):
    assert not at.exception, at.exception
    assert [error.value for error in at.error] == []
    return at


def drawn(at, row):
    """The four panels of a row as the browser gets them, and how many cells are framed or whether any is."""
    spec = json.loads(chart(at, f"gallery_{row}_panels_chart").proto.spec)
    return [decoded(trace["z"]) for trace in spec["data"]], [
        shape for shape in spec["layout"].get("shapes", ()) if shape["type"] == "path"
    ]


def read(at):
    """Every word on the page, without Markdown's backslashes."""
    parts = [*at.markdown, *at.caption, *at.success, *at.warning]
    html = [element.proto.body for element in at.get("html") if "<style" not in element.proto.body]
    return (
        " ".join([*(str(part.value) for part in parts), *html, *(button.label for button in at.button)])
        .replace("\\", "")
        .replace("\u2060", "")
    )


def source(at):
    """All that is sent to the browser for the page."""
    return " ".join(str(getattr(element, "proto", "")) for element in at.main)


def answer(at, key, number):
    """Point at the line `key` of puzzle `number`."""
    bug = puzzle(number)
    place = [line.key for line in bug.program(bug.cases[0], True)].index(key)
    return healthy(at.button(key=f"gallery_line_{place}").click().run())


# ---- side by side -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("bug", "language"), of_today(itertools.product(BUGS, languages()), 11))
def test_every_bug_is_shown_both_ways(bug, language):
    bug = BUGS[bug]
    at = opened(bug=bug.id, lang=language)
    x = bug.cases[0].source.tensor()
    correct, broken = (run_bug(bug, x, each) for each in (False, True))
    for row, outcome in (("correct", correct), ("broken", broken)):
        panels, frames = drawn(at, row)
        for got, wanted in zip(
            panels, (outcome.x, outcome.q, outcome.x_hat, outcome.x_hat - outcome.x), strict=True
        ):
            assert np.allclose(got.reshape(x.shape), wanted.numpy(), equal_nan=True)
        assert frames
    words, page = catalogue(language), read(at)
    for field in ("belief", "happens", "practice"):
        assert words[f"bugs.{bug.id}.{field}"] in page
    assert words[f"bugs.{bug.id}.notes.{bug.cases[0].id}"] in page
    assert (
        words["bugs.page.differ"].format(count=int(differing(correct, broken).sum()), all=x.numel()) in page
    )
    assert address(at) == {"bug": bug.id, "lang": language}
    assert bug.id in source(at)


@pytest.mark.parametrize("bug", of_today(BUGS.values(), 5), ids=lambda bug: bug.id)
def test_every_tensor_can_be_chosen_and_linked(bug):
    at = opened(bug=bug.id, lang="en")
    for case in bug.cases[1:]:
        at.segmented_control(key=f"gallery_case_{bug.id}").set_value(case.id).run()
        healthy(at)
        correct, broken = (run_bug(bug, case.source.tensor(), each, case) for each in (False, True))
        assert address(at) == {"bug": bug.id, "case": case.id, "lang": "en"}
        assert bool(drawn(at, "broken")[1]) == bool(differing(correct, broken).any())
        again = opened(**address(at))
        assert np.array_equal(drawn(again, "broken")[0][1], drawn(at, "broken")[0][1], equal_nan=True)


def test_both_rows_have_the_same_colours():
    for bug in BUGS:
        at = opened(bug=bug, lang="en")
        ends = [
            [
                (axis["cmin"], axis["cmax"])
                for name, axis in sorted(
                    json.loads(chart(at, f"gallery_{row}_panels_chart").proto.spec)["layout"].items()
                )
                if "coloraxis" in name
            ]
            for row in ("correct", "broken")
        ]
        assert ends[0] == ends[1]
        assert len(ends[0]) == 4


def test_a_seed_is_kept_in_the_link_and_dropped_with_the_bug():
    at = opened(bug="int8_difference_wraps", case="random", lang="en")
    before = drawn(at, "correct")[0][0]
    at.number_input(key="gallery_seed").set_value(7).run()
    assert address(healthy(at)) == {
        "bug": "int8_difference_wraps",
        "case": "random",
        "seed": "7",
        "lang": "en",
    }
    seeded = drawn(at, "correct")[0][0]
    assert not np.array_equal(seeded, before)
    assert np.array_equal(drawn(opened(**address(at)), "correct")[0][0], seeded)
    at.selectbox(key="gallery_bug").set_value("error_sign").run()
    assert address(healthy(at)) == {"bug": "error_sign", "lang": "en"}


def test_the_program_is_followed_at_the_farthest_cell():
    page = read(opened(bug="int8_difference_wraps", lang="en"))
    assert "x_hat = 730.08" in page
    assert "x_hat = −186.1" in page
    assert "zero_point = −77" in page
    assert "NaN" in read(opened(bug="row_of_zeros", lang="en"))


def test_the_language_switches_in_place():
    at = opened(bug="zero_point_added", case="zero_point_0", lang="en")
    at.segmented_control(key="language_choice").set_value("zh").run()
    assert address(healthy(at)) == {"bug": "zero_point_added", "case": "zero_point_0", "lang": "zh"}
    assert catalogue("zh")["bugs.zero_point_added.happens"] in read(at)
    at.selectbox(key="gallery_bug").select_index(list(BUGS).index("row_of_zeros")).run()
    assert catalogue("zh")["bugs.row_of_zeros.belief"] in read(healthy(at))


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"bug": "nothing"}, "bugs.unknown"),
        ({"bug": "<b>"}, "bugs.unknown"),
        ({"bug": "error_sign", "case": "nothing"}, "bugs.unknown_case"),
        ({"bug": "error_sign", "seed": "x"}, "bugs.bad_seed"),
        ({"bug": "error_sign", "seed": "9" * 11}, "bugs.bad_seed"),
        ({"spot": "0"}, "bugs.unknown_puzzle"),
        ({"spot": "²"}, "bugs.unknown_puzzle"),
        ({"spot": "9" * 5000}, "bugs.unknown_puzzle"),
    ],
)
def test_a_bad_link_is_a_sentence(params, key):
    at = opened(**params, lang="en")
    start = catalogue("en")[f"errors.{key}"].partition("{")[0]
    assert [warning.value.replace("\\", "").startswith(start) for warning in at.warning] == [True]
    assert drawn(at, "broken")[0]
    at.segmented_control(key="gallery_mode").set_value("spot" if "bug" in params else "compare").run()
    assert not healthy(at).warning


# ---- spot the bug -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "language"), of_today(itertools.product(ALL, languages()), 11))
def test_every_puzzle_is_answered_wrong_and_right(number, language):
    bug, words = puzzle(number), catalogue(language)
    at = opened(spot=str(number), lang=language)
    name, lines = words[f"bugs.{bug.id}.name"], bug.program(bug.cases[0], True)
    wrong = [line.key for line in lines if line.key != bug.broken.key]
    for key in ("", *wrong):
        if key:
            answer(at, key, number)
            assert words[f"bugs.{bug.id}.why.{key}"] in read(at)
        assert name not in read(at)
        assert bug.fixed.code not in read(at)
        # Nor does the page's source tell: ids, keys, chart data.
        assert not NAMED.search(source(at))
        assert address(at) == {"spot": str(number), "lang": language}
        panels, frames = drawn(at, "broken")
        assert len(panels) == 4
        assert not frames
        assert not any("gallery_correct" in element.proto.id for element in at.get("plotly_chart"))
    answer(at, bug.broken.key, number)
    assert puzzle(number).id not in address(at).values()
    page = read(at)
    assert name in page
    assert bug.fixed.code.replace(">", "&gt;") in page
    assert words[f"bugs.{bug.id}.practice"] in page
    assert drawn(at, "correct")[1]
    assert drawn(at, "broken")[1]
    assert address(at) == {"spot": str(number), "lang": language}


def test_the_score_counts_what_was_solved_and_how():
    at = opened(spot="1", lang="en")

    def score():
        return re.search(r"Solved (\d+) of \d+, (\d+) of them", read(at)).groups()

    assert score() == ("0", "0")
    answer(at, puzzle(1).broken.key, 1)
    assert score() == ("1", "1")
    healthy(at.button(key="gallery_another").click().run())
    assert address(at)["spot"] == "2"
    answer(at, next(line.key for line in puzzle(2).lines if line.key != puzzle(2).broken.key), 2)
    assert score() == ("1", "1")
    answer(at, puzzle(2).broken.key, 2)
    assert score() == ("2", "1")
    # Looking around does not lose it.
    at.segmented_control(key="gallery_mode").set_value("compare").run()
    at.segmented_control(key="gallery_mode").set_value("spot").run()
    assert score() == ("2", "1")
    assert address(at)["spot"] == "2"
    for _ in ALL:
        healthy(at.button(key="gallery_another").click().run())
    assert address(at)["spot"] == "2"


def test_the_lab_is_left_alone():
    at = opened(bug="error_sign", lang="en")
    assert "lab_state" not in at.session_state
