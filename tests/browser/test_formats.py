"""The formats page in a real browser: what AppTest cannot press, and what must be in sight."""

import contextlib

import pytest
from playwright.sync_api import TimeoutError

from tests.helpers import ROOT
from tests.helpers.browser import wait_idle

APP = ROOT / "app.py"
DRAWN = ".st-key-formats_line .js-plotly-plot .scatterlayer"


def opened(page, address):
    page.goto(address)
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


@pytest.mark.parametrize(("language", "theme"), [("en", "light"), ("zh", "dark")])
def test_the_first_screen_and_what_can_be_pressed(new_page, serve, shot, language, theme):
    page = opened(new_page(1366, 625, theme=theme), f"{serve(APP)}/formats?lang={language}")
    shot(page, f"first_{language}_{theme}")
    # Line, facts and bits without scrolling.
    for part in (".st-key-formats_line", ".st-key-formats_code", ".qv-wide"):
        assert 0 < bottom(page, part) <= 625, part
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # A value on the line, twice the same one with another between.
    for value, row in ((4, 0), (-7, 1), (4, 0)):
        press(page, value, row)
    # A row of the table, and a bit.
    page.locator('.qv-codes tr[data-code="13"]').click()
    page.wait_for_function("new URLSearchParams(location.search).get('x') === '-3'")
    page.locator(".st-key-formats_bit_sign_3 button:visible").first.click()
    page.wait_for_function("new URLSearchParams(location.search).get('x') === '3'")


def test_on_a_phone_the_chosen_row_is_in_view(new_page, serve, shot):
    page = opened(
        new_page(390, 844, touch=True),
        f"{serve(APP)}/formats?a=float8_e4m3fn&b=float16&x=300&v=symlog&lang=en",
    )
    page.wait_for_function("document.querySelector('.qv-codes').scrollTop > 0")
    shot(page, "phone")
    seen = page.evaluate(
        """() => {
            const box = document.querySelector(".qv-codes").getBoundingClientRect();
            const row = document.querySelector(".qv-selected").getBoundingClientRect();
            return box.top <= row.top && row.bottom <= box.bottom;
        }"""
    )
    assert seen
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Its line is laid out for the phone: no number stands on another.
    labels = page.evaluate(
        """() => [...document.querySelectorAll(".st-key-formats_line .annotation")].map((each) => {
            const box = each.getBoundingClientRect();
            return [box.left, box.right, box.top, box.bottom, each.textContent];
        })"""
    )
    for i, one in enumerate(labels):
        assert one[0] >= 0, one
        assert one[1] <= 390, one
        for other in labels[:i]:
            apart = (
                one[1] <= other[0] + 1
                or other[1] <= one[0] + 1
                or one[3] <= other[2] + 2
                or other[3] <= one[2] + 2
            )
            assert apart, (one, other)
