"""Quantization golf in Chromium: a try without scrolling, and the browser's Back."""

from tests.helpers.browser import resize, wait_idle

#: The numbers beside the dots.
NUMBERS = "document.querySelectorAll('.st-key-golf_chart .scatterlayer .textpoint').length"


def tries(page, count):
    page.wait_for_function(f"{NUMBERS} === {count}")
    wait_idle(page)


def test_a_try_is_made_without_scrolling_and_back_undoes_it(new_page, url):
    page = new_page()
    page.goto(f"{url}/golf?lang=en&hole=heaps&heaps=int4")
    tries(page, 1)
    page.click("[data-field=granularity] label:has([value=row])")
    page.wait_for_function("document.querySelector('.st-key-golf_price').innerText.startsWith('4.0625')")
    wait_idle(page)
    button = page.locator(".st-key-golf_try_it button")
    for width, height in ((1366, 625), (390, 664)):
        resize(page, width, height)
        box = button.bounding_box()
        assert 0 <= box["y"] <= height - box["height"], (width, height)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    button.click()
    tries(page, 2)
    page.wait_for_function("location.search.endsWith('hole=heaps&heaps=int4~int4%2C%2Cper_channel&lang=en')")
    page.go_back()
    tries(page, 1)
    page.wait_for_function("!location.href.includes('~')")
    page.wait_for_function("document.querySelector('.st-key-golf_said').innerText.includes('Try 1')")
