"""The bridge in a real browser: clicks, taps, hover card, zoom and the phone's one panel, on
`panels_demo.py`.
"""

import re
from pathlib import Path

import pytest

from tests.helpers.browser import wait_idle
from tests.helpers.offered import of_today
from tests.helpers.picture import RANGES, card, marks, middle, wait_drawn

DEMO = Path(__file__).parent / "panels_demo.py"
PANELS = ("x", "q", "x_hat", "error")


@pytest.fixture
def open_demo(serve, new_page):
    def start(query="", **options):
        page = new_page(**options)
        page.goto(f"{serve(DEMO)}/?{query}")
        wait_drawn(page)
        return page

    return start


def said_cell(page, row, col):
    page.get_by_text(f"cell ({row}, {col}) ").wait_for()


def change_bits(page, key="ArrowRight"):
    """Moves the slider once the page has answered what went before, and waits for the new panels."""
    wait_idle(page)
    before = page.evaluate("document.querySelector('.st-key-panels .js-plotly-plot').layout.meta.stamp")
    page.locator(".st-key-bits input").focus()
    page.keyboard.press(key)
    page.wait_for_function(
        """old => {
            const gd = document.querySelector(".st-key-panels .js-plotly-plot");
            return gd?.layout?.meta.stamp !== old;
        }""",
        arg=before,
    )
    wait_drawn(page)


@pytest.mark.parametrize("n", of_today([8, 256], 1))
def test_a_click_tells_the_exact_cell_in_each_panel(open_demo, n):
    page = open_demo(f"n={n}")
    for panel in range(len(PANELS)):
        for row, col in ((n * (panel + 2) // 7, n * (5 - panel) // 6), (n - 1, panel)):
            page.mouse.click(*middle(page, panel, row, col))
            said_cell(page, row, col)


def test_the_mark_is_in_all_panels_before_the_server_answers(open_demo):
    page = open_demo("n=8")
    place = middle(page, 1, 5, 6)
    page.evaluate("window.before = document.querySelectorAll('.qv-mark').length")
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
    assert len(marks(page)) == 4


def test_a_tap_selects_too(open_demo):
    page = open_demo("n=8", width=820, height=900, touch=True)
    page.touchscreen.tap(*middle(page, 2, 3, 4))
    said_cell(page, 3, 4)


@pytest.mark.parametrize(
    ("query", "block"),
    of_today(
        [
            ("n=8&by=group", "4, 1"),
            ("n=8&by=row", "4"),
            ("n=8&by=tensor", "the whole tensor"),
            ("n=256&by=row", "4"),
        ],
        2,
    ),
)
def test_the_card_tells_the_cell_in_each_panel(open_demo, query, block):
    page = open_demo(query)
    cards = []
    for panel in range(4):
        page.mouse.move(*middle(page, panel, 4, 5))
        page.wait_for_selector(".qv-card", state="visible")
        page.wait_for_timeout(60)
        cards.append(card(page))
        assert page.locator(".qv-cross").count() == 4
    assert all(each == cards[0] for each in cards)
    told = dict(zip(cards[0][1::2], cards[0][2::2], strict=True))
    assert cards[0][0] == "row 4, column 5"
    assert list(told) == ["x", "q", "x̂", "error x̂ − x", "block", "scale", "cause"]
    number = {
        name: float(value.replace("−", "-")) for name, value in told.items() if name not in ("block", "cause")
    }
    assert number["x̂"] == pytest.approx(number["q"] * number["scale"], rel=1e-4)
    assert number["error x̂ − x"] == pytest.approx(number["x̂"] - number["x"], abs=1e-4)
    assert told["block"] == block
    page.mouse.move(5, 5)
    page.wait_for_selector(".qv-card", state="hidden")


def test_the_card_stays_inside_the_window(open_demo):
    page = open_demo("n=8", height=480)
    for row, col in ((0, 0), (7, 7), (7, 0)):
        for panel in (0, 3):
            page.mouse.move(*middle(page, panel, row, col))
            page.wait_for_timeout(80)
            box = page.locator(".qv-card").bounding_box()
            assert box["x"] >= 0
            assert box["y"] >= 0
            assert box["x"] + box["width"] <= 1366
            assert box["y"] + box["height"] <= 480


def zoom_in(page, n=8):
    left, top = middle(page, 0, 0.2 * n, 0.2 * n)
    right, bottom = middle(page, 0, 0.67 * n, 0.67 * n)
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(right, bottom, steps=8)
    page.mouse.up()
    page.wait_for_function(f"({RANGES})()[0][0] > 1")


@pytest.mark.parametrize("n", of_today([8, 256], 1))
def test_zoom_is_one_for_all_panels_kept_over_a_data_change_and_dropped_with_the_tensor(open_demo, n):
    page = open_demo(f"n={n}")
    zoom_in(page, n)
    ranges = page.evaluate(RANGES)
    assert all(each == pytest.approx(ranges[0]) for each in ranges)
    change_bits(page)
    page.wait_for_timeout(400)
    assert page.evaluate(RANGES) == [pytest.approx(each) for each in ranges]
    page.mouse.click(*middle(page, 3, n // 2, n // 2 - 1))
    said_cell(page, n // 2, n // 2 - 1)
    page.locator(".st-key-seed input").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"({RANGES})()[0][0] < 0")
    page.wait_for_timeout(400)
    assert page.evaluate(RANGES)[3] == pytest.approx([-0.5, n - 0.5])


def test_a_double_click_shows_all_and_that_is_kept(open_demo):
    page = open_demo("n=8")
    zoom_in(page)
    page.mouse.dblclick(*middle(page, 1, 3, 3))
    page.wait_for_function(f"({RANGES})()[2][0] < 0")
    said_cell(page, 3, 3)
    change_bits(page)
    assert page.evaluate(RANGES)[0] == pytest.approx([-0.5, 7.5])


def test_no_frame_is_empty_while_the_data_changes(open_demo):
    page = open_demo("n=32")
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
    frames = page.evaluate("window.frames_seen")
    assert len(frames) > 5
    assert {tuple(frame) for frame in frames if frame[0] < 4 or frame[2]} == set()
    assert len({frame[1] for frame in frames}) == 1


def test_arrow_keys_move_the_selected_cell(open_demo):
    page = open_demo("n=8")
    page.locator(".st-key-panels .stPlotlyChart").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    said_cell(page, 3, 3)
    assert card(page)[0] == "row 3, column 3"
    for _ in range(9):
        page.keyboard.press("ArrowUp")
    said_cell(page, 0, 3)


def test_values_are_printed_while_they_fit(open_demo):
    page = open_demo("n=8")
    printed = page.locator(".qv-overlay g[data-panel=x] text")
    assert printed.count() == 64
    page = open_demo("n=32")
    assert page.locator(".qv-overlay g[data-panel=x] text").count() == 0
    zoom_in(page)
    assert page.locator(".qv-overlay g[data-panel=q] text").count() >= 9
    page.mouse.dblclick(*middle(page, 1, 3, 3))
    page.wait_for_function(f"({RANGES})()[2][0] < 0")
    assert page.locator(".qv-overlay g[data-panel=q] text").count() == 0


@pytest.mark.parametrize("theme", of_today(["light", "dark"], 1))
def test_a_phone_shows_one_panel_and_a_switch(open_demo, shot, theme):
    page = open_demo("n=8", width=390, height=844, theme=theme, touch=True)
    buttons = page.get_by_role("group", name="Panel shown").get_by_role("button")
    assert buttons.all_inner_texts() == ["x", "q", "x̂", "error"]
    assert min(button.bounding_box()["height"] for button in buttons.all()) >= 40

    def shown():
        count = "all => all.filter(one => one.getClientRects().length).length"
        return page.locator(".st-key-panels .subplot").evaluate_all(count)

    assert shown() == 1
    for i, name in enumerate(PANELS):
        buttons.nth(i).click()
        assert buttons.nth(i).get_attribute("aria-pressed") == "true"
        assert shown() == 1
        page.touchscreen.tap(*middle(page, i, i, 2 * i))
        said_cell(page, i, 2 * i)
        assert len(marks(page)) == 1
        shot(page, f"phone_{theme}_{name}")
    buttons.nth(1).focus()
    page.keyboard.press("Enter")
    change_bits(page)
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(
    ("width", "name"), of_today([(390, "single"), (760, "grid"), (1366, "row"), (1920, "row")], 2)
)
def test_the_arrangement_follows_the_width(open_demo, width, name):
    page = open_demo("n=8", width=width, height=900)
    assert (
        page.evaluate("document.querySelector('.st-key-panels .js-plotly-plot').layout.meta.arrangement")
        == name
    )
    told = int(re.search(r"width (\d+)", page.inner_text("body"))[1])
    assert told == pytest.approx(page.locator(".st-key-panels").bounding_box()["width"], rel=0.03)


def test_a_narrowed_window_is_laid_out_anew(open_demo):
    page = open_demo("n=8", width=1366, height=1200)
    page.set_viewport_size({"width": 700, "height": 1200})
    page.wait_for_function(
        "document.querySelector('.st-key-panels .js-plotly-plot')?.layout?.meta.arrangement === 'grid'"
    )
    wait_drawn(page)
    page.mouse.click(*middle(page, 3, 7, 7))
    said_cell(page, 7, 7)
