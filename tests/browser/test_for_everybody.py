"""Every page in Chromium, at a laptop's and a phone's width in both themes: axe finds nothing but what is
Streamlit's own, headings are in their order, nothing moves by itself while the page is loaded,
and all have one look.
"""

import itertools

import pytest

from quantviz.text import text
from tests.helpers.addresses import go
from tests.helpers.browser import (
    LOOKS_AFTER_A_RESIZE,
    NOTE_SHIFTS,
    TWO_FRAMES,
    server,
    shifts,
    violations,
    wait_idle,
)
from tests.helpers.pages import APP, PAGES, address, shown
from tests.helpers.sample import sample_of

SIZES = {1366: 625, 390: 844}
THEMES = ("light", "dark")
#: The most that a page may move by itself while it is loaded; https://web.dev/articles/cls calls 0.1 good.
MOST_SHIFT = 0.03
LEVELS = """() => [...document.querySelectorAll("[data-testid=stMain] :is(h1, h2, h3, h4, h5, h6)")].map(
    (heading) => Number(heading.tagName[1]))"""
#: A step of each kind, as its lesson and number, and what is there when it can be used: a drag, a mark on the
#: ruler, a number, an order, sliders alone, bits to flip, a table, a dial, a picture not told yet.
STEPS = {
    "drag": ("range_to_grid", 4, "[data-handle]"),
    "mark": ("rounding_against_clipping", 3, "[data-handle=mark]"),
    "group": ("per_group", 1, "[data-handle]"),
    "order": ("asymmetric", 3, "[data-handle]"),
    "sliders": ("fewer_bits", 2, "[data-handle]"),
    "bits": ("float_formats", 4, "[data-handle]"),
    "table": ("engines_disagree", 6, ".st-key-lesson_picture canvas"),
    "dial": ("kv_cache", 2, ".qv-dial figcaption"),
    "not told yet": ("per_channel", 4, ".st-key-lesson_picture canvas"),
}


# ---- states of pages, each reached from the page as it was loaded


def a_tab_of_the_lab(name):
    def chosen(page):
        page.locator("[data-field=stage_tab] label", has_text=text(f"stage.{name}.name", "en")).click()

    return chosen


def a_step(lesson, number, until):
    def gone(page):
        go(page, f"/lessons?l={lesson}&p={number}&lang=en")
        page.locator(f"h1[data-step='{lesson}/{number - 1}']").wait_for(state="attached")
        page.locator(until).first.wait_for(state="attached")

    return gone


def an_answer(page):
    go(page, address("lesson", "en"))
    page.locator("[data-handle=bits]").press("ArrowLeft")
    page.get_by_label(text("lessons.your_number", "en")).fill("3.58")
    page.keyboard.press("Tab")
    page.locator("[data-field=commit] button").click()
    page.wait_for_selector("[class*=st-key-told_answer]")


def a_scanned_model(page):
    page.locator(".st-key-checkpoints_worst button:visible").first.wait_for()


def a_puzzle(page):
    go(page, "/bugs?spot=3&lang=en")
    page.wait_for_selector("[class*=st-key-gallery_line_]")


def a_puzzle_s_answer(page):
    a_puzzle(page)
    page.locator("[class*=st-key-gallery_line_] button").first.click()
    page.wait_for_selector(".st-key-gallery_lines .qv-broken, .st-key-gallery_board")


def a_try(page):
    page.locator(".st-key-golf_try button").click()
    page.wait_for_selector("[class*=st-key-golf_row_]")


def a_choice_under_the_pointer(page):
    """It looks as it does with the focus of a key."""
    page.locator("[data-field=template] label:has(:checked)").hover()


STATES = {
    "lab": {name: a_tab_of_the_lab(name) for name in ("range", "blame", "compare")},
    "checkpoints": {"scanned": a_scanned_model},
    "lesson": {"answer": an_answer, **{kind: a_step(*step) for kind, step in STEPS.items()}},
    "bugs": {"puzzle": a_puzzle, "answer": a_puzzle_s_answer},
    "golf": {"tried": a_try},
    "teacher": {"pointed at": a_choice_under_the_pointer},
}
#: A page, its state, a width and a theme.
LOOKS = sample_of(
    (
        (page, state, width, theme)
        for page in PAGES
        for state in ("loaded", *STATES.get(page, ()))
        for width in SIZES
        for theme in THEMES
    ),
    10,
)


def is_for_everybody(page, *where):
    assert violations(page) == [], where
    levels = page.evaluate(LEVELS)
    assert levels[0] == 1, where
    assert levels.count(1) == 1, where
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), where


def stands_still(page, *where):
    moved, what = shifts(page)
    assert moved <= MOST_SHIFT, (where, what)


def turned(page, theme):
    """An open page when it has another theme, and figures in its colours."""
    page.emulate_media(color_scheme=theme)
    page.wait_for_function(
        """isDark => {
            const app = document.querySelector("[data-testid=stApp]");
            return (Number(getComputedStyle(app).backgroundColor.match(/\\d+/)[0]) < 128) === isDark;
        }""",
        arg=theme == "dark",
    )
    # Its figures come with a run that it asks for a moment later.
    wait_idle(page, LOOKS_AFTER_A_RESIZE)


@pytest.mark.parametrize("width", SIZES)
def test_every_page_is_for_everybody_and_stands_still(new_page, url, width):
    page = new_page(width, SIZES[width], touch=width < 500)
    # What is on its way is pale for a moment.
    page.emulate_media(reduced_motion="reduce")
    page.add_init_script(NOTE_SHIFTS)
    here = [look for look in LOOKS if look[2] == width]
    for name, looks in itertools.groupby(here, key=lambda look: look[0]):
        colours = None
        page.goto(f"{url}{address(name, 'en')}")
        shown(page)
        stands_still(page, name, width)
        for state, looks_of_it in itertools.groupby(looks, key=lambda look: look[1]):
            if state != "loaded":
                STATES[name][state](page)
                wait_idle(page)
            for *_, theme in looks_of_it:
                if theme != colours:
                    turned(page, theme)
                    colours = theme
                is_for_everybody(page, name, state, width, theme)


#: Addresses beside `PAGES`: a class, models that run, and two of their parts.
MORE = {
    "class": "lab?k=2.no-error.lock-scheme.2",
    "model": "checkpoints?f=model:character_twin&bits=6&part=depth",
    "adder": "checkpoints?f=model:adder&bits=3&part=depth",
    "mixed bits": "checkpoints?f=model:character_twin&part=mix",
    "salient": "checkpoints?f=model:character_twin&part=salient",
}
HEIGHTS = {390: 844, 820: 1100, 1366: 768, 1920: 1000}
#: What is loaded on every pull request beside the pages above, which are at two widths, and by a visitor who
#: has closed the menu before; all the rest, of which a night has some, and which a server that has just
#: started is asked for.
FEW = (("lessons", 1920, "en"), ("lab", 820, "zh"), ("model", 1366, "en"), ("adder", 390, "zh"))
AT_REST = sample_of(itertools.product((*PAGES, *MORE), HEIGHTS, ("en", "zh")), 24)
AT_START = sample_of(itertools.product((*PAGES, *MORE), HEIGHTS), 6)


def loaded(page, url, name, width, language="en"):
    """A page that has come to rest, and has stood still meanwhile."""
    page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
    page.goto(f"{url}/{MORE[name]}&lang={language}" if name in MORE else url + address(name, language))
    shown(page)
    stands_still(page, name, width, language)


@pytest.mark.parametrize("looks", [FEW, pytest.param(AT_REST, marks=pytest.mark.nightly)])
def test_a_page_stands_still_while_it_is_loaded(new_page, url, looks):
    page = new_page(1366, 625)
    page.add_init_script(NOTE_SHIFTS)
    page.goto(f"{url}{address('lessons', 'en')}")
    shown(page)
    page.locator("[data-testid=stSidebarContent]").hover(position={"x": 100, "y": 500})
    page.locator("[data-testid=stSidebarCollapseButton] button").click()
    page.wait_for_selector("[data-testid=stSidebar][data-collapsed=true]", state="attached")
    for look in looks:
        loaded(page, url, *look)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "width"), [*AT_START, *(("teacher", width) for width in HEIGHTS)])
def test_a_page_of_a_server_that_has_just_started_stands_still(new_page, tmp_path, name, width):
    """One that listens on all addresses, as README's command does, has a class's code to scan."""
    page = new_page()
    page.add_init_script(NOTE_SHIFTS)
    with server(APP, tmp_path / "log", host="0.0.0.0" if name == "teacher" else "127.0.0.1") as url:
        loaded(page, url, name, width)
        # Nor is the first visitor told that the page was not found.
        assert page.locator("[data-testid=stDialog]").count() == 0


def test_an_opened_program_is_for_everybody(new_page, url):
    page = new_page(390, 844, touch=True)
    page.goto(f"{url}{address('checkpoints', 'en')}")
    program = page.locator(".st-key-checkpoints_python")
    program.locator("summary").press("Enter")
    program.locator(".token").first.wait_for()
    # All of it is in sight, so that only its button needs the focus of a key.
    assert program.locator("pre").evaluate("code => code.scrollWidth <= code.clientWidth")
    wait_idle(page)
    program.locator("summary").focus()
    page.keyboard.press("Tab")
    assert program.locator("[data-testid=stCode]:focus").count() == 1
    for theme in THEMES:
        turned(page, theme)
        is_for_everybody(page, "program", theme)


#: What is explained, and the words of an explanation that are seen.
EXPLAINED = "[data-testid=stTooltipHoverTarget]:visible, .qv-term:visible"
EXPLANATION = "[role=tooltip]:visible"
#: The names of the controls that an explanation covers, or that it leaves the window.
COVERED = """tip => {
    const box = tip.getBoundingClientRect();
    const isOut = box.left < 0 || box.right > innerWidth || box.top < 0 || box.bottom > innerHeight;
    if (isOut) return ["the window"];
    const controls = "button, a[href], input, textarea, [role=slider]";
    return [...document.querySelectorAll(controls)].filter((each) => {
        const { left, right, top, bottom } = each.getBoundingClientRect();
        const across = Math.min(right, box.right) - Math.max(left, box.left);
        const down = Math.min(bottom, box.bottom) - Math.max(top, box.top);
        return across > 1 && down > 1 && each.checkVisibility() && !tip.contains(each);
    }).map((each) => each.innerText || each.ariaLabel || each.outerHTML);
}"""


def placed(page, tip):
    """Wait until an explanation is in its place, which it is given in a frame after it is shown."""
    page.evaluate(TWO_FRAMES)
    tip.element_handle().wait_for_element_state("stable")


def explanations(page, height):
    """What each explanation on the first screen covers, shown by the pointer."""
    for place in page.locator(EXPLAINED).all():
        box = place.bounding_box()
        if box["y"] + box["height"] > height:
            continue
        page.mouse.move(2, height - 2)
        page.locator(EXPLANATION).first.wait_for(state="detached")
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.locator(EXPLANATION).first.wait_for()
        tip = page.locator(EXPLANATION).first
        placed(page, tip)
        yield tip.evaluate(COVERED)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.nightly) if each != "golf" else each for each in PAGES]
)
def test_an_explanation_covers_no_control(new_page, url, name):
    page = new_page(1366, 768)
    page.goto(f"{url}{address(name, 'en')}")
    shown(page)
    wait_idle(page, LOOKS_AFTER_A_RESIZE)
    covered = list(explanations(page, 768))
    assert len(covered) > 6 or name not in ("lab", "layers", "checkpoints", "formats")
    assert [each for each in covered if each] == []


def test_an_explanation_with_the_focus_of_a_key_covers_no_control(new_page, url):
    page = new_page(1366, 768)
    page.goto(f"{url}{address('layers', 'en')}")
    shown(page)
    page.locator(".st-key-layers_numbers .qv-term").nth(2).focus()
    tip = page.locator(".st-key-layers_numbers [role=tooltip]:visible")
    tip.wait_for()
    placed(page, tip)
    assert tip.evaluate(COVERED) == []
