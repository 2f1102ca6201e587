"""The formats page in a real browser: what AppTest cannot press, and what must be in sight."""

import contextlib

import pytest
from playwright.sync_api import TimeoutError

from tests.helpers.addresses import go
from tests.helpers.browser import wait_idle, wait_link

DRAWN = ".st-key-formats_line .js-plotly-plot .scatterlayer"


def opened(page, address):
    page.goto(address)
    page.wait_for_selector(DRAWN)
    wait_idle(page)
    return page


def gone(page, formats):
    """The open page with other formats, from its top."""
    go(page, f"/formats?{formats}")
    a, b = (parameter.partition("=")[2] for parameter in formats.split("&")[:2])
    page.wait_for_function(
        "([a, b]) => { const all = new URLSearchParams(location.search);"
        " return all.get('a') === a && all.get('b') === b && all.get('lang') }",
        arg=[a, b],
    )
    page.wait_for_selector(DRAWN)
    wait_idle(page)
    return page


def mark(page, value, row):
    """Where on the screen the mark of a value is."""
    return page.evaluate(
        """([value, row]) => {
            const plot = document.querySelector(".st-key-formats_line .js-plotly-plot");
            const box = plot.getBoundingClientRect();
            const trace = plot._fullData.filter((each) => each.name === "values")[row];
            const { xaxis, yaxis } = plot._fullLayout;
            const at = Array.from(trace.customdata).indexOf(value);
            return [
                box.x + xaxis._offset + xaxis.l2p(trace.x[at]),
                box.y + yaxis._offset + yaxis.l2p(trace.y[at]),
            ];
        }""",
        [value, row],
    )


def press(page, value, row):
    """Press a mark as a person does: once more where nothing came of it, as on a busy machine while the plot
    is drawn anew.
    """
    reached = f"new URLSearchParams(location.search).get('x') === '{value}'"
    for _ in range(4):
        x, y = mark(page, value, row)
        page.mouse.move(x + 2, y)
        page.mouse.click(x + 2, y)
        with contextlib.suppress(TimeoutError):
            page.wait_for_function(reached, timeout=12_000)
            break
    assert page.evaluate(reached), (page.url, mark(page, value, row))
    wait_idle(page)


def bottom(page, name):
    return page.evaluate("(name) => document.querySelector(name).getBoundingClientRect().bottom", name)


def what_is_on_the_first_screen_can_be_pressed(page):
    # Line, facts and bits without scrolling.
    for part in (".st-key-formats_line", ".st-key-formats_code", ".qv-wide"):
        assert 0 < bottom(page, part) <= 625, part
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # A value on the line, twice the same one with another between.
    for value, row in ((4, 0), (-7, 1), (4, 0)):
        press(page, value, row)
    # A row of the table, and a bit.
    page.locator('.qv-codes tr[data-code="13"]').click()
    wait_link(page, "x", "-3")
    page.locator(".st-key-formats_bit_sign_3 button:visible").first.click()
    wait_link(page, "x", "3")


def the_chosen_row_is_in_view_on_a_phone(page):
    page.wait_for_function("document.querySelector('.qv-codes').scrollTop > 0")
    seen = page.evaluate(
        """() => {
            const box = document.querySelector(".qv-codes").getBoundingClientRect();
            const row = document.querySelector(".qv-selected").getBoundingClientRect();
            return box.top <= row.top && row.bottom <= box.bottom;
        }"""
    )
    assert seen
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


#: What stands on the buttons of the bits, as it is seen: a hand's digits cover the server's.
BITS = """() => [...document.querySelectorAll("[class*=st-key-formats_bit_] button p")]
    .filter((words) => words.checkVisibility({visibilityProperty: true})).map((words) => {
    const cover = getComputedStyle(words, "::after").content;
    return cover === "none" ? words.textContent : cover.replaceAll('"', "");
}).join("")"""


def a_hand_moves_the_number_on_the_ruler(page):
    width, height = page.viewport_size["width"], page.viewport_size["height"]
    dot = page.locator('.st-key-formats_ruler [data-handle="value"]')
    box = dot.bounding_box()
    assert box["y"] + box["height"] <= height
    assert min(box["width"], box["height"]) >= (44 if width < 500 else 24)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    assert page.evaluate(BITS) == "0100"
    # The axis goes from -8 to 8, 24 pixels inside the ruler.
    step = (page.locator(".st-key-formats_ruler canvas").bounding_box()["width"] - 48) / 16
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 1.4 * step, y, steps=3)
    # The bits follow the hand, the address does not yet.
    page.wait_for_function(f"({BITS})() === '0110'")
    assert "x=2.5" in page.url
    page.keyboard.press("Escape")
    page.mouse.up()
    page.wait_for_function(f"({BITS})() === '0100'")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 1.4 * step, y, steps=3)
    page.mouse.up()
    wait_link(page, "x", "3.9", within=True)
    page.wait_for_function("document.querySelector('.qv-reading').innerText.endsWith('= 4')")
    wait_idle(page)
    assert page.evaluate(BITS) == "0110"
    # Keys go on from there, and the focus stays when the page has answered.
    dot.press("End")
    wait_link(page, "x", "8")
    wait_idle(page)
    assert page.evaluate(BITS) == "0111"
    dot.press("Home")
    wait_link(page, "x", "-8")
    wait_idle(page)
    assert page.evaluate(BITS) == "1111"
    focused = "document.activeElement.closest('.st-key-formats_ruler') !== null"
    assert page.evaluate(focused)


def the_axis_stays_while_the_number_is_well_in_sight(page):
    dot = page.locator('.st-key-formats_ruler [data-handle="value"]')

    def ends():
        return dot.get_attribute("aria-valuemin"), dot.get_attribute("aria-valuemax")

    first = ends()
    dot.press("Shift+ArrowRight")
    wait_link(page, "x", "2.4")
    wait_idle(page)
    assert ends() == first
    dot.press("End")
    page.wait_for_function("Number(new URLSearchParams(location.search).get('x')) > 5")
    wait_idle(page)
    assert float(ends()[1]) > float(first[1])


def a_format_of_more_than_8_bits_has_too_many_values_for_teeth(page):
    assert not page.locator(".st-key-formats_ruler").count()


def test_pressing_and_dragging_on_a_laptop(new_page, url):
    page = opened(new_page(1366, 625, theme="dark"), f"{url}/formats?lang=zh")
    what_is_on_the_first_screen_can_be_pressed(page)
    gone(page, "a=float8_e4m3fn&b=none&x=2.3")
    the_axis_stays_while_the_number_is_well_in_sight(page)
    gone(page, "a=bfloat16&b=int4&x=2.3")
    a_format_of_more_than_8_bits_has_too_many_values_for_teeth(page)
    gone(page, "a=float4_e2m1fn&b=none&x=2.5")
    a_hand_moves_the_number_on_the_ruler(page)


@pytest.mark.nightly
def test_looking_and_dragging_on_a_phone(new_page, url):
    page = opened(
        new_page(390, 844, touch=True), f"{url}/formats?a=float8_e4m3fn&b=float16&x=300&v=symlog&lang=en"
    )
    the_chosen_row_is_in_view_on_a_phone(page)
    gone(page, "a=float4_e2m1fn&b=none&x=2.5")
    a_hand_moves_the_number_on_the_ruler(page)
