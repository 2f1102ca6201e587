"""The bug gallery in Chromium: two rows that go together, a cell to follow, a puzzle to solve."""

from urllib.parse import urlencode

import pytest

from quantviz.teaching.gallery import BUGS, puzzle
from tests.helpers import ROOT
from tests.helpers.browser import wait_idle

ROWS = ("correct", "broken")


@pytest.fixture(scope="module")
def url(serve):
    return serve(ROOT / "app.py")


def opened(page, url, rows=ROWS, **params):
    page.goto(f"{url}/bugs?{urlencode(params)}")
    for row in rows:
        drawn(page, row)
    return page


def drawn(page, row):
    page.wait_for_function(
        "row => document.querySelectorAll(`.st-key-gallery_${row}_panels .qv-mark`).length >= 1", arg=row
    )
    wait_idle(page)


def cell_at(page, row, panel, cell):
    """Where the middle of a cell is on the screen."""
    return page.evaluate(
        """([row, panel, [down, across]]) => {
            const gd = document.querySelector(`.st-key-gallery_${row}_panels .js-plotly-plot`);
            const n = panel ? panel + 1 : "", box = gd.getBoundingClientRect();
            const x = gd._fullLayout["xaxis" + n], y = gd._fullLayout["yaxis" + n];
            return [box.left + x._offset + x.l2p(across), box.top + y._offset + y.l2p(down)];
        }""",
        [row, panel, cell],
    )


def test_both_rows_fit_a_laptop_and_a_click_follows_a_cell(new_page, url, shot):
    page = opened(new_page(), url, bug="int8_difference_wraps", lang="en")
    bottom = page.evaluate(
        "document.querySelector('.st-key-gallery_broken_panels').getBoundingClientRect().bottom"
    )
    # Some pixels are left for a machine whose letters are higher.
    assert bottom <= 620
    frames = page.evaluate(
        "[...document.querySelectorAll('.shapelayer path')].map(path => path.getAttribute('d'))"
    )
    assert frames
    assert not any("NaN" in path for path in frames)
    assert "x_hat = 730.08" in page.inner_text(".qv-program")
    page.mouse.click(*cell_at(page, "broken", 2, (2, 1)))
    page.wait_for_function("document.querySelector('.qv-program').innerText.includes('x_hat = −232.62')")
    shot(page, "compare")


def test_on_a_phone_one_switch_turns_both_rows(new_page, url, shot):
    # Puzzle 1 is that of the zeros: solved, its one row becomes two.
    page = opened(new_page(390, 844, touch=True), url, rows=("broken",), spot=1, lang="zh")
    page.locator(
        f".st-key-gallery_line_{[line.key for line in puzzle(1).lines].index(puzzle(1).broken.key)} button"
    ).tap()
    for row in ROWS:
        drawn(page, row)
    assert page.locator("[role=group] button[value=q]:visible").count() == 1
    page.locator("button[value=x_hat]:visible").tap()
    shown = page.evaluate(
        "[...document.querySelectorAll('[data-qv-panel]')].map(each => each.dataset.qvPanel)"
    )
    assert shown == ["x_hat", "x_hat"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for row, count in (("correct", 0), ("broken", 4)):
        printed = page.evaluate(
            """row => {
                const panels = document.querySelector(`.st-key-gallery_${row}_panels`);
                return [...panels.querySelectorAll("[data-panel=x_hat] text")].map(text => text.textContent);
            }""",
            row,
        )
        assert printed.count("NaN") == count
    shot(page, "phone")


def test_a_puzzle_is_solved(new_page, url, shot):
    bug = puzzle(2)
    lines = [line.key for line in bug.program(bug.cases[0], True)]
    right = lines.index(bug.broken.key)
    page = opened(new_page(), url, rows=("broken",), spot=2, lang="en")
    assert not any(name in page.content() for name in BUGS)
    page.locator(f".st-key-gallery_line_{(right + 1) % len(lines)} button").click()
    page.wait_for_function("document.body.innerText.includes('is not the cause')")
    shot(page, "wrong")
    wait_idle(page)
    page.locator(f".st-key-gallery_line_{right} button").click()
    for row in ROWS:
        drawn(page, row)
    assert "Solved 1 of 11, 0 of them on the first try" in page.inner_text("[data-testid=stMain]")
    assert bug.id not in page.url
    shot(page, "right")
