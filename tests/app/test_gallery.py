"""The bug gallery through AppTest: each bug in each language, and puzzles answered right and wrong."""

import itertools
import math
import re

import numpy as np
import pytest

from quantviz.teaching.bug_handles import HANDLES, frames
from quantviz.teaching.gallery import BUGS, differing, puzzle, run_bug
from quantviz.text import catalogue, languages
from tests.helpers.controls import choose
from tests.helpers.sample import sample_of
from tests.helpers.session import address, healthy, packed
from tests.helpers.session import opened as opened_at

ALL = range(1, len(BUGS) + 1)
NAMED = re.compile("|".join(BUGS))


def opened(**params):
    """The gallery as a new session sees it at this address."""
    return opened_at("pages/learn/bugs.py", **params)


def board(at):
    """The board as the browser gets it: its header, and its arrays by their names."""
    return packed(at, "gallery_board")


def drawn(at, row):
    """What x and a row show now, cell after cell, and which cells are framed."""
    header, arrays = board(at)
    cells = math.prod(header["shape"])
    now = slice(header["at"] * cells, (header["at"] + 1) * cells)
    place = [each["name"] for each in header["rows"]].index(row)
    shown = [arrays[name][now] for name in ("x", f"rows.{place}.q", f"rows.{place}.x_hat")]
    return shown, arrays["lit"][now] if "lit" in arrays else None


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


@pytest.mark.parametrize(("bug", "language"), sample_of(itertools.product(BUGS, languages()), 4))
def test_every_bug_is_shown_both_ways(bug, language):
    bug = BUGS[bug]
    at = opened(bug=bug.id, lang=language)
    x = bug.cases[0].source.tensor()
    correct, broken = (run_bug(bug, x, each) for each in (False, True))
    for row, outcome in (("correct", correct), ("broken", broken)):
        panels, framed = drawn(at, row)
        for got, wanted in zip(panels, (outcome.x, outcome.q, outcome.x_hat), strict=True):
            assert np.array_equal(got, wanted.numpy().ravel(), equal_nan=True)
        assert framed.tolist() == differing(correct, broken).int().ravel().tolist()
    words, page = catalogue(language), read(at)
    for field in ("belief", "happens", "practice"):
        assert words[f"bugs.{bug.id}.{field}"] in page
    assert words[f"bugs.{bug.id}.notes.{bug.cases[0].id}"] in page
    differ = words["bugs.page.differ"].format(count=int(differing(correct, broken).sum()), all=x.numel())
    assert board(at)[0]["rows"][1]["told"][0][3].endswith(differ)
    assert address(at) == {"bug": bug.id, "lang": language}
    assert bug.id in source(at)


@pytest.mark.parametrize(("bug", "language"), sample_of(itertools.product(HANDLES, languages()), 2))
def test_a_bug_is_dragged_into_view(bug, language):
    """A link opens each value; what is said is computed there, and Back and a bad link lose nothing."""
    found, words = frames(bug), catalogue(language)
    start = next(frame for frame in found if frame.value == HANDLES[bug].start)
    shown = [frame for frame in found if frame.shows]
    for frame in (start, shown[0], shown[-1]):
        at = opened(bug=bug, at=f"{frame.value:g}", lang=language)
        assert address(at) == {"bug": bug, "at": f"{frame.value:g}", "lang": language}
        header, arrays = board(at)
        place = found.index(frame)
        assert (header["at"], header["handle"]["shows"][place]) == (place, int(frame.shows))
        assert drawn(at, "broken")[1].tolist() == frame.hit.int().ravel().tolist()
        assert np.array_equal(drawn(at, "broken")[0][2], frame.broken.x_hat.ravel(), equal_nan=True)
        assert len(arrays["x"]) == len(found) * frame.hit.numel()
        said = header["handle"]["said"][place]
        words_of = words[f"bugs.{bug}.drag.{'shows' if frame.shows else 'hides'}"]
        assert re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", re.escape(words_of)), said)
    # A new visitor finds the first difference.
    at = opened(lang=language)
    choose(at, ("bug", bug))
    places = [found.index(frame) for frame in shown]
    first = found[min(places, key=lambda place: abs(place - found.index(start)))]
    assert address(healthy(at))["at"] == f"{first.value:g}"
    assert drawn(at, "broken")[1].any()


def test_the_program_is_followed_at_the_farthest_cell():
    page = read(opened(bug="int8_difference_wraps", lang="en"))
    assert "x_hat = 730.08" in page
    assert "x_hat = −186.1" in page
    assert "zero_point = −77" in page
    assert "NaN" in read(opened(bug="row_of_zeros", lang="en"))


# ---- spot the bug -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "language"), sample_of(itertools.product(ALL, languages()), 4))
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
        header, arrays = board(at)
        assert [each["name"] for each in header["rows"]] == ["broken"]
        assert set(arrays) == {"x", "rows.0.q", "rows.0.x_hat"}
        assert header["handle"] is None
    answer(at, bug.broken.key, number)
    assert puzzle(number).id not in address(at).values()
    page = read(at)
    assert name in page
    assert bug.fixed.code in board(at)[0]["rows"][0]["told"][0]
    assert words[f"bugs.{bug.id}.practice"] in page
    assert drawn(at, "correct")[1].any()
    assert address(at) == {"spot": str(number), "lang": language}


def test_the_score_counts_what_was_solved_and_how():
    at = opened(spot="1", lang="en")

    def score():
        return re.search(r"Solved (\d+) of \d+, (\d+) of them", read(at)).groups()

    assert score() == ("0", "0")
    answer(at, puzzle(1).broken.key, 1)
    assert score() == ("1", "1")
    healthy(choose(at, "another"))
    assert address(at)["spot"] == "2"
    answer(at, next(line.key for line in puzzle(2).lines if line.key != puzzle(2).broken.key), 2)
    assert score() == ("1", "1")
    answer(at, puzzle(2).broken.key, 2)
    assert score() == ("2", "1")
    # Looking around does not lose it.
    choose(at, ("mode", "compare"))
    choose(at, ("mode", "spot"))
    assert score() == ("2", "1")
    assert address(at)["spot"] == "2"
    for _ in ALL:
        healthy(choose(at, "another"))
    assert address(at)["spot"] == "2"
