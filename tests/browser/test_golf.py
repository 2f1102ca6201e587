"""Quantization golf in Chromium: a try without scrolling, and the browser's Back."""

from tests.helpers import ROOT
from tests.helpers.browser import wait_idle

#: The numbers beside the dots.
NUMBERS = "document.querySelectorAll('.st-key-golf_chart .scatterlayer .textpoint').length"


def tries(page, count):
    page.wait_for_function(f"{NUMBERS} === {count}")
    wait_idle(page)


def test_a_try_is_made_without_scrolling_and_back_undoes_it(new_page, serve):
    page = new_page()
    page.goto(f"{serve(ROOT / 'app.py')}/golf?lang=en&hole=heaps&heaps=int4")
    tries(page, 1)
    page.click(".st-key-per_row button")
    page.wait_for_function("document.querySelector('.st-key-golf_price').innerText.startsWith('4.0625')")
    wait_idle(page)
    button = page.locator(".st-key-golf_try_it button")
    for size in ({"width": 1366, "height": 625}, {"width": 390, "height": 664}):
        page.set_viewport_size(size)
        box = button.bounding_box()
        assert 0 <= box["y"] <= size["height"] - box["height"], size
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    button.click()
    tries(page, 2)
    assert page.url.endswith("hole=heaps&heaps=int4~int4%2C%2Cper_channel&lang=en")
    page.go_back()
    tries(page, 1)
    assert "~" not in page.url
    assert "Try 1" in page.inner_text(".st-key-golf_said")
