"""The bridge between the Lab's four panels: clicks, taps, hover card, zoom and the phone's one panel."""

import itertools

import pytest
from playwright.sync_api import expect

from tests.helpers.browser import TWO_FRAMES, box, pulled, resize, wait_idle, wait_link
from tests.helpers.picture import MARKS, RANGES, card, marks, middle, opened, wait_drawn
from tests.helpers.sample import sample_of

PANELS = ("x", "q", "x_hat", "error")


@pytest.fixture
def open_lab(url, new_page):
    def start(n, **options):
        page = new_page(**options)
        scheme = f"int4,symmetric,per_group(size={n // 2},axis=1),min_max,course"
        return opened(page, url, t=f"normal(rows={n},cols={n},seed=3)", s=scheme, c="1.2", lang="en")

    return start


def said_cell(page, row, col):
    wait_link(page, "c", f"{row}.{col}")


def change_bits(page):
    """Chooses other bits once the page has answered what went before, and waits for the new panels."""
    wait_idle(page)
    before = page.evaluate("document.querySelector('.st-key-panels .js-plotly-plot').layout.meta.stamp")
    page.locator("[data-field=bits] input:is(:checked, [type=range]):visible").press("ArrowRight")
    page.wait_for_function(
        """old => {
            const gd = document.querySelector(".st-key-panels .js-plotly-plot");
            return gd?.layout?.meta.stamp !== old;
        }""",
        arg=before,
    )
    wait_drawn(page)


def clicks_tell_the_exact_cell_in_each_panel(page, n):
    for panel in range(len(PANELS)):
        for row, col in ((n * (panel + 2) // 7, n * (5 - panel) // 6), (n - 1, panel)):
            page.mouse.click(*middle(page, panel, row, col))
            said_cell(page, row, col)


def the_mark_is_in_all_panels_before_the_server_answers(page):
    place = middle(page, 1, 5, 6)
    page.mouse.move(*place)
    page.mouse.down()
    page.mouse.up()
    # One round trip to the browser only: the server has had no time.
    drawn = marks(page)
    assert len(drawn) == 4
    middles = [middle(page, i, 5, 6) for i in range(4)]
    frame = page.locator(".st-key-panels .js-plotly-plot").bounding_box()
    for (x, y), (mid_x, mid_y) in zip(drawn, middles, strict=True):
        assert x < mid_x - frame["x"] < x + 60
        assert y < mid_y - frame["y"] < y + 60
    said_cell(page, 5, 6)
    expect(page.locator(MARKS)).to_have_count(4)


def the_card_tells_the_cell_in_each_panel(page, block):
    cards = []
    for panel in range(4):
        page.mouse.move(*middle(page, panel, 4, 5))
        page.wait_for_selector(".qv-card", state="visible")
        page.evaluate(TWO_FRAMES)
        cards.append(card(page))
        expect(page.locator(".qv-cross")).to_have_count(4)
    assert all(each == cards[0] for each in cards)
    told = dict(zip(cards[0][1::2], cards[0][2::2], strict=True))
    assert cards[0][0] == "row 4, column 5"
    assert list(told) == ["x", "q", "x̂", "error x̂ − x", "block", "scale", "cause"]
    x, q, x_hat, error, scale = (
        float(told[name].replace("−", "-")) for name in ("x", "q", "x̂", "error x̂ − x", "scale")
    )
    assert x_hat == pytest.approx(q * scale, rel=1e-4)
    assert error == pytest.approx(x_hat - x, abs=1e-4)
    assert told["block"] == block
    page.mouse.move(5, 5)
    page.wait_for_selector(".qv-card", state="hidden")


def the_card_stays_inside_a_low_window(page):
    before = page.viewport_size
    resize(page, 1366, 480)
    wait_drawn(page)
    for (row, col), panel in itertools.product(((0, 0), (7, 7), (7, 0)), (0, 3)):
        page.mouse.move(*middle(page, panel, row, col))
        page.evaluate(TWO_FRAMES)
        told = box(page, ".qv-card")
        assert min(told.left, told.top) >= 0
        assert told.right <= 1366
        assert told.bottom <= 480
    resize(page, **before)
    wait_drawn(page)


def zoom_in(page, n):
    pulled(page.mouse, middle(page, 0, 0.2 * n, 0.2 * n), middle(page, 0, 0.67 * n, 0.67 * n))
    page.wait_for_function(f"({RANGES})()[0][0] > 1")


def zoom_is_one_for_all_panels_kept_over_a_data_change_and_dropped_with_the_tensor(page, n):
    zoom_in(page, n)
    ranges = page.evaluate(RANGES)
    assert all(each == pytest.approx(ranges[0]) for each in ranges)
    change_bits(page)
    page.wait_for_timeout(400)
    assert page.evaluate(RANGES) == [pytest.approx(each) for each in ranges]
    page.mouse.click(*middle(page, 3, n // 2, n // 2 - 1))
    said_cell(page, n // 2, n // 2 - 1)
    seed = page.locator("[data-field=random_seed] input")
    seed.fill("4")
    seed.press("Enter")
    page.wait_for_function(f"({RANGES})()[0][0] < 0")
    page.wait_for_timeout(400)
    assert page.evaluate(RANGES)[3] == pytest.approx([-0.5, n - 0.5])


def a_double_click_shows_all(page, n):
    # On a cell in sight.
    page.mouse.dblclick(*middle(page, 1, n // 2 - 1, n // 2 - 1))
    page.wait_for_function(f"({RANGES})()[2][0] < 0")


def what_a_double_click_shows_is_kept(page):
    zoom_in(page, 8)
    a_double_click_shows_all(page, 8)
    said_cell(page, 3, 3)
    change_bits(page)
    assert page.evaluate(RANGES)[0] == pytest.approx([-0.5, 7.5])


def no_frame_is_empty_while_the_data_changes(page):
    page.evaluate("""() => {
        window.frames_seen = [];
        const tick = () => {
            const box = document.querySelector(".st-key-panels");
            const stale = [...box.querySelectorAll("[data-stale]")];
            const faded = stale.some(part => getComputedStyle(part).opacity < 1);
            const images = box.querySelectorAll(".cartesianlayer image");
            window.frames_seen.push([images.length, box.clientHeight, faded]);
            requestAnimationFrame(tick);
        };
        tick();
    }""")
    change_bits(page)
    page.wait_for_function("window.frames_seen.length > 5")
    frames = page.evaluate("window.frames_seen")
    assert {tuple(frame) for frame in frames if frame[0] < 4 or frame[2]} == set()
    assert len({frame[1] for frame in frames}) == 1


def arrow_keys_move_the_selected_cell(page):
    page.locator(".st-key-panels .stPlotlyChart").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    said_cell(page, 3, 3)
    assert card(page)[0] == "row 3, column 3"
    for _ in range(9):
        page.keyboard.press("ArrowUp")
    said_cell(page, 0, 3)


def printed(page, panel):
    return page.locator(f".qv-overlay g[data-panel={panel}] text")


def values_are_printed_while_they_fit(page, n):
    assert printed(page, "x").count() == 0
    zoom_in(page, n)
    printed(page, "q").nth(8).wait_for(state="attached")
    a_double_click_shows_all(page, n)
    expect(printed(page, "q")).to_have_count(0)


ARRANGEMENT = "() => document.querySelector('.st-key-panels .js-plotly-plot')?.layout?.meta.arrangement"


def the_arrangement_follows_the_width(page, name):
    page.wait_for_function(f"name => ({ARRANGEMENT})() === name", arg=name)


def laid_out_anew(page, width, height):
    """In a window of another size there is another arrangement, and a click or a tap still chooses."""
    resize(page, width, height)
    page.wait_for_function(f"({ARRANGEMENT})() === 'grid'")
    wait_drawn(page)
    (page.touchscreen.tap if width == 820 else page.mouse.click)(*middle(page, 3, 7, 7))
    said_cell(page, 7, 7)


def test_a_pointer_and_keys_in_a_small_matrix(open_lab):
    """All in one visit, from what needs a fresh page to what leaves another one."""
    page = open_lab(8)
    the_arrangement_follows_the_width(page, "row")
    expect(printed(page, "x")).to_have_count(64)
    arrow_keys_move_the_selected_cell(page)
    the_mark_is_in_all_panels_before_the_server_answers(page)
    clicks_tell_the_exact_cell_in_each_panel(page, 8)
    the_card_tells_the_cell_in_each_panel(page, "4, 1")
    the_card_stays_inside_a_low_window(page)
    zoom_is_one_for_all_panels_kept_over_a_data_change_and_dropped_with_the_tensor(page, 8)
    what_a_double_click_shows_is_kept(page)
    laid_out_anew(page, 700, 1200)


def test_what_is_drawn_while_the_data_and_the_zoom_change(open_lab):
    page = open_lab(32, width=760, height=900)
    the_arrangement_follows_the_width(page, "grid")
    values_are_printed_while_they_fit(page, 32)
    no_frame_is_empty_while_the_data_changes(page)


@pytest.mark.nightly
@pytest.mark.parametrize("theme", sample_of(["light", "dark"], 1))
def test_a_phone_shows_one_panel_and_a_switch_and_a_tap_selects(open_lab, theme):
    page = open_lab(8, width=390, height=844, theme=theme, touch=True)
    the_arrangement_follows_the_width(page, "single")
    buttons = page.get_by_role("group", name="Panel shown").get_by_role("button")
    assert buttons.all_inner_texts() == ["x", "q", "x̂", "error"]
    assert min(box(button).height for button in buttons.all()) >= 40
    panels = page.locator(".st-key-panels .subplot:visible")
    for i in range(len(PANELS)):
        buttons.nth(i).click()
        expect(buttons.nth(i)).to_have_attribute("aria-pressed", "true")
        expect(panels).to_have_count(1)
        page.touchscreen.tap(*middle(page, i, i, 2 * i))
        said_cell(page, i, 2 * i)
        expect(page.locator(MARKS)).to_have_count(1)
    buttons.nth(1).focus()
    page.keyboard.press("Enter")
    change_bits(page)
    expect(buttons.nth(1)).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # And where all four are shown.
    laid_out_anew(page, 820, 900)
