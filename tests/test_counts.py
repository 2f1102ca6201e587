"""How the code reads, counted: each bound may only be lowered."""

import pytest

from tests.counts import HEADLESS, counted

#: The most there may be of each, by its name in `counted`.
MOST = {
    "headless": 0,
    "that return what": 0,
    "parallel assignments, %": 1.6,
    "conditional expressions, per 1000 lines": 31,
    "nested ones, per 1000 lines": 0,
    "functions over 60 lines": 0,
    "functions of over 8 parameters": 15,
    "modules of at most 60 lines": 99,
    "private helpers of at most 3 lines, called once": 258,
}


@pytest.fixture(scope="module")
def counts():
    return counted()


@pytest.mark.parametrize("name", MOST)
def test_no_count_is_above_its_bound(counts, name):
    """`python -m tests.counts headless` lists the places; likewise parallel, nested, long, wide and tiny."""
    assert counts[name] <= MOST[name]


def test_a_headless_docstring_is_found():
    headless = ["What is shown.", "Return what a page says.", "Return that it was one.", "#: Who may see it."]
    named = ["Return the errors of a link.", "Show what was found.", "#: The tools.", "Return whatever fits."]
    assert all(HEADLESS.match(words) for words in headless)
    assert not any(HEADLESS.match(words) for words in named)
