"""The front door in Chromium: what moves, what a hand does, and where its doors lead."""

import re
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

import quantviz as qv
from quantviz.sources import Builtin
from quantviz.text import text
from quantviz.ui.home.page import TOYS
from tests.helpers.addresses import go
from tests.helpers.browser import box, held, wait_idle
from tests.helpers.sample import sample_of

#: What is drawn on a canvas of the front door, as one string.
DRAWN = "element => element.toDataURL()"


def opened(page, url, query="lang=en", still=True):
    if still:
        page.emulate_media(reduced_motion="reduce")
    page.goto(f"{url}/?{query}")
    page.wait_for_selector(".qv-play .qv-count")
    if still:
        wait_idle(page)
    return page


def bits(page, number):
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(number - int(slider.get_attribute("min"))):
        page.keyboard.press("ArrowRight")
    return page.locator(".qv-count").inner_text()


def drawn(page, name="made"):
    return page.locator(f".qv-{name}").evaluate(DRAWN)


def numbers(page):
    """The numbers of the way of the touched one: x, scale, quotient, code, scale, x̂, error."""
    said = page.locator(".qv-sum").inner_text().replace("−", "-")
    return [float(number) for number in re.findall(r"[+-]?\d+\.?\d*(?:e-?\d+)?", said)]


def the_first_thing_moves_by_itself_and_ends_at_a_telling_place(page):
    seen, until = [], time.monotonic() + 8
    # Down to one bit, and up again to three.
    while time.monotonic() < until and not ("1" in seen and seen[-1] == "3"):
        seen.append(page.get_by_role("slider").input_value())
    assert "1" in seen
    assert seen[-1] == "3"
    # Then the touched number goes its way: not all of it is said at once.
    page.wait_for_selector(".qv-sum span:not(.qv-said)")
    page.wait_for_selector(".qv-sum span:last-child.qv-said")


def nothing_moves_for_who_wants_it_still(page):
    assert page.locator(".qv-count").inner_text() == text("home.bits", "en", bits=3, levels=8)
    before = (drawn(page), page.locator(".qv-way canvas").evaluate(DRAWN))
    page.wait_for_timeout(1200)
    assert (drawn(page), page.locator(".qv-way canvas").evaluate(DRAWN)) == before
    # Neither does what is chosen then.
    page.locator(".qv-switch button").nth(1).click()
    assert page.locator(".qv-sum span:not(.qv-said)").count() == 0
    assert page.get_by_role("slider").input_value() == "4"
    page.locator(".qv-switch button").nth(0).click()


def the_bits_change_picture_label_and_numbers_as_the_reference_says(page):
    x, cell, pictures = Builtin("landscape").tensor(), (39, 145), set()
    for number in range(1, 9):
        assert f"{2**number} levels" in bits(page, number)
        pictures.add(drawn(page))
        result = qv.quantize(x, qv.Scheme(f"uint{number}"))
        scale = float(result.qparams.scale)
        expected = [float(x[cell]), scale, float(x[cell]) / scale, int(result.q[cell])]
        expected += [scale, float(result.x_hat[cell]), float(result.error[cell])]
        assert numbers(page) == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert len(pictures) == 8
    # The same by the thumb.
    thumb = box(page, ".qv-thumb")
    to_the_end = box(page, ".qv-track").left + 2 - thumb.left - 10
    for _ in held(page, thumb.left + 10, thumb.top + 10, to_the_end):
        pass
    assert page.get_by_role("slider").input_value() == "1"


def holding_shows_the_original_by_pointer_and_by_key(page):
    picture = page.locator(".qv-made")
    # A press chooses the number under it: the one that is chosen already.
    bits(page, 3)
    assert numbers(page)[0] == 155
    picture.focus()
    quantized = drawn(page)
    page.keyboard.down(" ")
    original = drawn(page)
    assert picture.get_attribute("aria-pressed") == "true"
    page.keyboard.up(" ")
    assert drawn(page) == quantized != original
    bits(page, 8)
    assert drawn(page) == original, "with 8 bits this picture is the original"
    bits(page, 2)
    place = box(page, ".qv-made")
    for _ in held(page, place.left + 40, place.top + 30, 0, steps=1):
        original = drawn(page)
        assert picture.get_attribute("aria-pressed") == "true"
    assert picture.get_attribute("aria-pressed") == "false"
    assert drawn(page) != original
    assert numbers(page)[0] != 155, "the touched number is another one"


def a_number_is_chosen_by_keys_and_opens_in_the_lab(page):
    page.locator(".qv-made").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowLeft")
    row, col = TOYS["picture"].cell
    row, col = row + 1, col - 10
    assert numbers(page)[0] == float(Builtin("landscape").tensor()[row, col])
    bits(page, 2)
    page.locator(".qv-every").click()
    page.wait_for_selector(".st-key-panels .js-plotly-plot")
    page.wait_for_url("**/lab?*c=*")
    asked = parse_qs(urlsplit(page.url).query)
    assert (asked["t"], asked["c"]) == (["builtin(name=landscape)"], [f"{row}.{col}"])
    assert asked["s"][0].startswith("uint2,symmetric,per_tensor")
    # "See every number" shows numbers: the cells around the touched one, printed.
    assert asked["a"] == [f"0.1_0.0_{row - 3}.{col - 3}.6.6"]
    page.wait_for_function("document.querySelectorAll('.st-key-panels .qv-overlay text').length >= 36")


def a_row_with_an_outlier_is_ruined_by_one_scale(page):
    page.locator(".qv-switch button", has_text=text("home.toys.row", "en")).click()
    x = Builtin("outlier_row").tensor()
    for number in (2, 4, 8):
        # The last code below 0 never occurs where the scale is the largest magnitude / the largest code.
        assert f"{2**number - 1} of {2**number} levels" in bits(page, number)
        zeros = int((qv.quantize(x, qv.Scheme(f"int{number}")).x_hat == 0).sum())
        told = text("home.made_row", "en", few=f"{number} bits", zeros=zeros, count=32)
        assert page.locator("figcaption").first.inner_text() == told
    page.keyboard.press("Home")
    assert page.get_by_role("slider").input_value() == "2"


def an_adder_adds_as_a_run_does_and_opens_in_the_room_of_models(page):
    page.locator(".qv-switch button", has_text=text("home.toys.sums", "en")).click()
    page.locator(".qv-sum b").wait_for()
    seen = set()
    for number in (8, 3):
        bits(page, number)
        found = qv.run("adder", qv.Scheme(f"int{number}", granularity=qv.PerChannel(0))).sums
        told = text("home.right_sums", "en", count="1,000", right=f"{found.right:,}")
        assert page.locator(".qv-sum").inner_text().startswith(re.sub("<.*?>", "", told))
        seen.add(drawn(page))
    wrong = next(each for each in found.field() if not each.is_right)
    assert f"= {wrong.answer}, in truth {wrong.truth}" in page.locator(".qv-sum").inner_text()
    page.locator(".qv-made").focus()
    page.keyboard.down(" ")
    seen.add(drawn(page))
    page.keyboard.up(" ")
    assert len(seen) == 2, "at 8 bits all is as in the original"
    page.locator(".qv-every").click()
    page.locator(".qv-sums", has_text=f"Of 1,000 sums {found.right} are right").wait_for()
    assert parse_qs(urlsplit(page.url).query)["f"] == ["model:adder"]


def home_again(page, language):
    """By the link that leads there from each page."""
    page.locator("[data-testid=stSidebarNavLink]", has_text=text("pages.home", language)).click()
    page.wait_for_selector(".qv-play .qv-count")
    wait_idle(page)


def keeps(page, *words):
    """Wait until the browser keeps a place whose address has these words."""
    page.wait_for_function(
        "words => words.every((each) => localStorage.getItem('quantviz.places.v1')?.includes(each))",
        arg=list(words),
    )


def who_returns_goes_on_where_they_were(page, url):
    go(page, "/lessons?l=range_to_grid&p=3&lang=en")
    keeps(page, "lesson", "range_to_grid")
    page.goto(f"{url}/?t=builtin(name=picture)&s=uint2,symmetric,per_tensor,min_max,course&lang=en")
    keeps(page, "uint2", "name=picture")
    assert urlsplit(page.url).path == "/lab", "a link of before opens its state"
    opened(page, url, "lang=zh")
    page.wait_for_selector(".qv-continue")
    links = page.locator(".qv-continue a")
    assert links.count() == 2
    assert text("scenarios.picture.name", "en") in links.nth(0).inner_text(), "the newest first"
    links.nth(1).click()
    page.wait_for_selector(".st-key-lesson_step")
    page.wait_for_url("**/lessons?*p=3*")
    wait_idle(page)
    home_again(page, "zh")
    page.locator(".qv-continue a", has_text=text("scenarios.picture.name", "en")).click()
    page.wait_for_url("**/lab?*s=uint2*")


def all_of_it_is_seen_at_once(page):
    width, height = page.viewport_size["width"], page.viewport_size["height"]
    parts = page.locator(".st-key-home_doors, .st-key-home_play")
    assert all(box(part).bottom <= height for part in parts.all())
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= width
    if width == 390:
        # The row of weights is there too, under a finger.
        pressed = ("[data-testid=stPageLink-NavLink]", ".qv-switch button", ".qv-track input")
        heights = [[box(each).height for each in page.locator(part).all()] for part in pressed]
        assert heights[0] == [48, 48, 48]
        assert [height >= 44 for height in heights[1]] == [True, True, True]
        assert heights[2] == [44]


def another_language(page, button, tag):
    page.locator("[data-field=language_choice] label", has_text=button).click()
    page.wait_for_function("tag => document.documentElement.lang === tag", arg=tag)
    wait_idle(page)


def another_language_keeps_what_was_chosen(page):
    page.locator(".qv-switch button").nth(0).click()
    bits(page, 5)
    before = drawn(page)
    another_language(page, "中文", "zh-CN")
    expect(page.locator(".qv-count")).to_have_text(text("home.bits", "zh", bits=5, levels=32))
    assert drawn(page) == before


def test_what_one_plays_with(new_page, url):
    page = opened(new_page(), url)
    all_of_it_is_seen_at_once(page)
    nothing_moves_for_who_wants_it_still(page)
    the_bits_change_picture_label_and_numbers_as_the_reference_says(page)
    holding_shows_the_original_by_pointer_and_by_key(page)
    a_row_with_an_outlier_is_ruined_by_one_scale(page)
    another_language_keeps_what_was_chosen(page)
    another_language(page, "English", "en")
    an_adder_adds_as_a_run_does_and_opens_in_the_room_of_models(page)


@pytest.mark.nightly
def test_who_returns_goes_on_where_they_were(new_page, url):
    page = opened(new_page(), url)
    assert page.locator(".qv-continue").count() == 0, "nobody was here before"
    a_number_is_chosen_by_keys_and_opens_in_the_lab(page)
    home_again(page, "en")
    who_returns_goes_on_where_they_were(page, url)


@pytest.mark.nightly
@pytest.mark.parametrize("language", sample_of(["en", "zh"], 1))
def test_a_phone_that_opens_it(new_page, url, language):
    page = opened(new_page(390, 844, touch=True), url, f"lang={language}", still=False)
    all_of_it_is_seen_at_once(page)
    the_first_thing_moves_by_itself_and_ends_at_a_telling_place(page)
