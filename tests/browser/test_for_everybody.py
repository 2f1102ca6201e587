"""Every page in Chromium, at a laptop's and a phone's width in both themes: axe finds nothing but what is
Streamlit's own, headings are in their order, and nothing moves by itself while the page is loaded.
"""

import itertools

import pytest

from quantviz.text import languages, text
from tests.browser.test_shell import APP, PAGES, shown
from tests.helpers.addresses import go
from tests.helpers.browser import NOTE_SHIFTS, shifts, violations, wait_idle
from tests.helpers.sample import sample_of

#: An address of each page; the lesson's step asks for a number.
ADDRESSES = {name: address for name, (address, _) in PAGES.items()} | {
    "golf": "golf",
    "lesson": "lessons?l=range_to_grid&p=3",
}
SIZES = {1366: 625, 390: 844}
#: The most that a page may move by itself: a good page, by https://web.dev/articles/cls.
MOST_SHIFT = 0.1
LEVELS = """() => [...document.querySelectorAll("[data-testid=stMain] :is(h1, h2, h3, h4, h5, h6)")].map(
    (heading) => Number(heading.tagName[1]))"""


@pytest.fixture(scope="module")
def url(serve):
    return serve(APP)


def sized(page, width):
    page.set_viewport_size({"width": width, "height": SIZES[width]})
    page.wait_for_timeout(500)
    wait_idle(page)


def is_for_everybody(page, *where):
    assert violations(page) == [], where
    levels = page.evaluate(LEVELS)
    assert levels[0] == 1, where
    assert levels.count(1) == 1, where
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), where


def stands_still(page, *where):
    moved, what = shifts(page)
    assert moved <= MOST_SHIFT, (where, what)


# ---- states of pages ----------------------------------------------------------------------------


def tabs_of_the_lab(page, language):
    """Each tab of the stage, which shows another part."""
    for tab in ("range", "blame", "compare"):
        page.locator(".st-key-tabs [role=radio]", has_text=text(f"stage.{tab}.name", language)).click()
        page.wait_for_timeout(300)
        wait_idle(page)
        yield tab


def an_answer_and_a_picture_that_is_not_told_yet(page, language):
    page.get_by_label(text("lessons.your_number", language)).fill("3.58")
    page.keyboard.press("Tab")
    page.locator(".st-key-commit button").click()
    page.wait_for_selector("[class*=st-key-told_answer]")
    wait_idle(page)
    yield "answer"
    # Its ruler was a picture with an empty name.
    go(page, f"/lessons?l=per_channel&p=4&lang={language}")
    page.wait_for_selector(".st-key-lesson_picture canvas", state="attached")
    wait_idle(page)
    yield "question"


def a_puzzle(page, language):
    go(page, f"/bugs?spot=3&lang={language}")
    page.wait_for_selector("[class*=st-key-gallery_line_]")
    wait_idle(page)
    yield "puzzle"


def a_choice_under_the_pointer(page, language):
    """It looks as it does with the focus of a key."""
    page.locator(".st-key-teacher_opens button[data-selected]").hover()
    yield "hovered"


STATES = {
    "lab": tabs_of_the_lab,
    "lesson": an_answer_and_a_picture_that_is_not_told_yet,
    "bugs": a_puzzle,
    "teacher": a_choice_under_the_pointer,
}


@pytest.mark.parametrize(
    ("theme", "language"), sample_of(itertools.product(["light", "dark"], languages()), 2)
)
def test_every_page_is_for_everybody_and_stands_still(new_page, url, theme, language):
    page = new_page(theme=theme)
    page.add_init_script(NOTE_SHIFTS)
    for turn, (name, address) in enumerate(ADDRESSES.items()):
        # A page is loaded at one width in one theme, and at the other in the other theme.
        widths = sorted(SIZES, reverse=(turn % 2 == 0) == (theme == "light"))
        page.set_viewport_size({"width": widths[0], "height": SIZES[widths[0]]})
        page.goto(f"{url}/{address}{'&' if '?' in address else '?'}lang={language}")
        shown(page)
        is_for_everybody(page, name, widths[0])
        stands_still(page, name, widths[0])
        sized(page, widths[1])
        is_for_everybody(page, name, widths[1])
        for state in STATES[name](page, language) if name in STATES else ():
            is_for_everybody(page, name, state, widths[1])
