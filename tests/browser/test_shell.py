"""What all pages share, in Chromium: the tab's title, the page's language, a wrong address, and room for the
text at each width.
"""

import itertools
import re

import pytest
from playwright.sync_api import expect

from quantviz.text import languages, text
from tests.helpers.addresses import go
from tests.helpers.browser import box, resize, server, violations, wait_idle
from tests.helpers.pages import APP, PAGES, address, shown
from tests.helpers.sample import sample_of

#: Words of the page's text that stand in a column narrower than six letters and higher than four lines; those
#: cut off at the right.
SQUEEZED = """() => {
    const main = document.querySelector("[data-testid=stMain]"), found = [];
    const edge = main.getBoundingClientRect().right;
    const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT), range = document.createRange();
    while (walk.nextNode()) {
        const words = walk.currentNode.textContent.trim(), parent = walk.currentNode.parentElement;
        if (!words || parent.closest("script, style, svg, .katex, .katex-mathml")) continue;
        // A name for a screen reader alone is a pixel wide.
        if (parent.closest(".qv-name-of")?.clientWidth <= 1) continue;
        if (!parent.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
        range.selectNodeContents(walk.currentNode);
        const box = range.getBoundingClientRect(), size = parseFloat(getComputedStyle(parent).fontSize);
        const squeezed = box.height > 4 * 1.2 * size && box.width < 6 * size;
        if (squeezed) found.push(["squeezed", words, box.width, box.height]);
        // What scrolls by itself, or ends in dots, may be wider than the page.
        let box_of = parent;
        while (box_of !== main && !getComputedStyle(box_of).overflowX === "visible")
            box_of = box_of.parentElement;
        if (box_of === main && box.width > 1 && box.right > edge + 1)
            found.push(["cut off", words, box.right, edge]);
    }
    return found;
}"""
HEADER = """(document.querySelector('.st-key-header, .st-key-title')
    ?.getBoundingClientRect().height ?? 0)"""
#: As a person sets it who wants larger letters: all lengths of the page follow.
LARGER = """addEventListener("DOMContentLoaded", () => {
    document.head.insertAdjacentHTML("beforeend", "<style>html { font-size: 200% !important }</style>");
})"""


def test_every_page_is_one_of_these():
    addresses = set(re.findall(r'url_path="(\w+)"', APP.read_text(encoding="utf-8")))
    visited = {address.partition("?")[0] for address, _ in PAGES.values()} | {"home"}
    missing = sorted(addresses - visited)
    assert not missing, f"add {missing} to PAGES of tests/helpers/pages.py, with the name of each tab"


def opened(page, url, name, language):
    page.goto(f"{url}{address(name, language)}")
    return shown(page)


def titled(page, *parts):
    page.wait_for_function("(title) => document.title === title", arg=" · ".join((*parts, "QuantViz")))


def the_tab_follows_the_tensor_the_page_and_the_language(page):
    titled(page, "One loud column", "Lab")
    page.select_option("[data-field=scenario] select", "picture")
    titled(page, text("scenarios.picture.name", "en"), "Lab")
    page.locator("[data-field=language_choice] label", has_text="中文").click()
    titled(page, text("scenarios.picture.name", "zh"), text("pages.lab", "zh"))
    page.wait_for_function("document.documentElement.lang === 'zh-CN'")
    page.locator("[data-testid=stSidebarNavLink]", has_text=text("pages.lessons", "zh")).click()
    titled(page, text("pages.lessons", "zh"))
    page.locator("[data-testid=stSidebarNavLink]", has_text=text("pages.teacher", "zh")).click()
    titled(page, text("pages.teacher", "zh"))
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.locator("[data-field=language_choice] label", has_text="English").click()
    titled(page, text("pages.teacher", "en"))
    page.wait_for_function("document.documentElement.lang === 'en'")


def a_puzzle_s_tab_does_not_tell_the_bug(page):
    go(page, "/bugs?spot=3&lang=en")
    titled(page, "Spot the bug", "Common bugs")


def is_not_told_by_streamlit(page):
    assert page.locator("[data-testid=stException], [data-testid=stDialog]").count() == 0


@pytest.mark.nightly
@pytest.mark.parametrize("path", sample_of(["n%20o", "%3Cb%3E", "LAB"], 1))
def test_the_tab_of_each_page_after_an_address_that_is_not_found(new_page, url, path):
    page = new_page()
    page.goto(f"{url}/{path}?lang=en")
    wait_idle(page)
    is_not_told_by_streamlit(page)
    go(page, address("lab", "en"))
    the_tab_follows_the_tensor_the_page_and_the_language(page)
    a_puzzle_s_tab_does_not_tell_the_bug(page)


@pytest.mark.nightly
@pytest.mark.parametrize("visitors", sample_of(itertools.permutations(("en", "zh")), 1), ids="-".join)
def test_a_wrong_address_says_so_and_leads_home(new_page, tmp_path, visitors):
    # The first visitor of a process, whom Streamlit tells it in another way, and the second.
    with server(APP, tmp_path / "log") as cold:
        for language in visitors:
            page = opened(new_page(), cold, "missing", language)
            page.wait_for_function("!document.querySelector('[data-testid=stDialog]')")
            said = page.inner_text("[data-testid=stMain]")
            assert text("missing.title", language) in said
            assert "/nonexistent" in said
        page.locator(".st-key-missing_home button").click()
        titled(page, text("pages.home", language))
        page.wait_for_selector(".qv-play")
        # A page that is still open when its server stops complains of it.
        page.goto("about:blank")
        assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")


def has_room(page, header, *where):
    assert page.evaluate(SQUEEZED) == [], where
    assert (
        page.evaluate(
            """() => {
                const main = document.querySelector("[data-testid=stMain]");
                return main.scrollWidth - main.clientWidth;
            }"""
        )
        <= 0
    ), where
    # A title, its sentence and the buttons: never most of the screen.
    assert page.evaluate(HEADER) <= header, where


def is_titled_as(page, name, language):
    lesson = {"en": "From a range to a grid", "zh": "从范围到网格"}[language]
    titled(page, *([lesson] if name == "lesson" else []), *(text(key, language) for key in PAGES[name][1]))
    page.wait_for_function(
        "lang => document.documentElement.lang === lang", arg={"en": "en", "zh": "zh-CN"}[language]
    )


def visited(page, url, places):
    """The page at each of some of `PAGES`: loaded once for a language, then gone from one to another."""
    spoken = None
    for name, language in sorted(places, key=lambda place: place[1]):
        # An address that is not found is told as such only where it is the first.
        if language == spoken and name != "missing":
            shown(go(page, address(name, language)))
        else:
            opened(page, url, name, language)
        spoken = language
        is_titled_as(page, name, language)
        yield name, language


@pytest.mark.nightly
@pytest.mark.parametrize("larger", [False, True])
def test_there_is_room_for_the_text_under_each_page_s_own_title(new_page, url, larger):
    """At each width, 683 of them a laptop's 1366 at 200 %; with larger letters on a phone."""
    widths = (390,) if larger else (1024, 820, 768, 683, 641, 600)
    page = new_page(widths[0], 900, touch=larger)
    page.add_init_script(LARGER if larger else "")
    for name, language in visited(page, url, sample_of(itertools.product(PAGES, languages()), 2)):
        for width in (*widths, widths[0]):
            resize(page, width, 900)
            has_room(page, 560 if larger else 120, name, language, width)


#: Pages on paper.
PRINTED = {
    "lab": "lab?lang=en",
    "lesson": "lessons?l=symmetric&p=1&lang=en&k=shown",
    "model": "checkpoints?f=model:character_twin&bits=6&lang=en",
}


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "theme"), sample_of(itertools.product(PRINTED, ("light", "dark")), 4))
def test_a_page_is_printed_whole_in_black_on_white(new_page, url, name, theme):
    page = new_page(theme=theme)
    page.goto(f"{url}/{PRINTED[name]}")
    page.locator(".stPlotlyChart .main-svg").first.wait_for()
    wait_idle(page)
    # What a printer does: its own event, its own style, and a page as wide as A4 less its margins.
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme=theme)
    assert violations(page) == []
    page.set_viewport_size({"width": 703, "height": 1000})
    for gone in ("[data-testid=stSidebar]", "[data-testid=stHeader]", "[data-testid=stButton]"):
        assert page.locator(f"{gone}:visible").count() == 0, gone
    for each in page.locator("[data-testid=stMain] :is(h1, .stPlotlyChart, .qv-rule):visible").all():
        place = box(each)
        assert 0 <= place.left < place.right <= 703, each
    # White in the negative is black on paper.
    negative = "invert(1) hue-rotate(180deg)" if theme == "dark" else "none"
    for part, style, value in (
        ("[data-testid=stMain]", "overflow", "visible"),
        ("[data-testid=stApp]", "background-color", "rgb(255, 255, 255)"),
        (".stPlotlyChart", "filter", negative),
    ):
        expect(page.locator(part).first).to_have_css(style, value)
