"""The bug gallery in Chromium: one x beside two rows, a bug dragged into view, a puzzle to solve."""

from urllib.parse import parse_qs, urlencode, urlsplit

from quantviz.teaching.gallery import puzzle
from tests.helpers.addresses import go
from tests.helpers.browser import wait_idle

BOARD = ".st-key-gallery_board"


def opened(page, url, **params):
    page.goto(f"{url}/bugs?{urlencode(params)}")
    page.locator(f"{BOARD} table").first.wait_for()
    wait_idle(page)
    return page


def at_of(page):
    return parse_qs(urlsplit(page.url).query).get("at", [None])[0]


def a_bug_is_dragged_into_view(page):
    """By mouse and keys; the page answers at once, the address follows, and Back undoes."""
    # One x, and both rows on a laptop's first screen. Some pixels are left for a machine whose letters are
    # higher.
    assert page.locator(f"{BOARD} [data-panel=x] table").count() == 1
    assert page.locator(f"{BOARD} [data-row=broken] tbody").last.bounding_box()["y"] + 120 <= 620
    said, slider = page.locator(f"{BOARD} .qv-said"), page.get_by_role("slider", name="x moved by")
    lit = page.locator(f"{BOARD} [data-row=broken][data-panel=x_hat] .qv-lit")
    # It opens at the first difference.
    assert said.inner_text().startswith("With x moved by")
    assert lit.count() > 0
    box, start = slider.bounding_box(), at_of(page)
    assert box["height"] >= 44
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.2, middle, steps=4)
    # Before the hand lets go.
    page.locator(f"{BOARD} .qv-shown").wait_for()
    assert at_of(page) == start == "1"
    value = slider.get_attribute("aria-valuetext")
    assert said.inner_text().startswith(f"With x moved by {value} the zero point is")
    assert lit.count() > 2
    page.mouse.up()
    page.wait_for_function(
        "value => new URL(location).searchParams.get('at') === String(-Math.round(100 * value))",
        arg=float(value.replace("−", "-")),
    )
    page.keyboard.press("End")
    page.wait_for_function("new URL(location).searchParams.get('at') === '-128'")
    wait_idle(page)
    assert slider.get_attribute("aria-valuetext") == "1.28"
    page.go_back()
    page.locator(f'{BOARD} input[aria-valuetext="{value}"]').wait_for()
    assert lit.count() > 2
    # A click follows a cell through the program.
    page.locator(f"{BOARD} [data-row=broken][data-panel=x_hat] tbody td").nth(7).click()
    page.wait_for_function("document.body.innerText.includes('at the cell (1, 3)')")


def test_on_a_phone_nothing_is_off_the_screen(new_page, url):
    # Puzzle 1 is that of the zeros: solved, its one row becomes two.
    page = opened(new_page(390, 844, touch=True), url, spot=1, lang="zh")
    page.locator(
        f".st-key-gallery_line_{[line.key for line in puzzle(1).lines].index(puzzle(1).broken.key)} button"
    ).tap()
    page.locator(f"{BOARD} [data-row=correct]").first.wait_for()
    wait_idle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # The bug with the longest words: what a hand does to the broken program is seen while it drags.
    go(page, "/bugs?bug=one_code_too_many&at=0.7&lang=en")
    page.get_by_role("slider", name="share").wait_for()
    wait_idle(page)
    broken = page.locator(f"{BOARD} [data-row=broken] tbody").last.bounding_box()
    assert broken["y"] + broken["height"] <= 844


def test_a_bug_is_dragged_into_view(new_page, url):
    page = opened(new_page(), url, lang="en")
    a_bug_is_dragged_into_view(page)
