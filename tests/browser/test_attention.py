"""The page of attention in a real browser: a click in the scores tells how one of them was computed."""

from playwright.sync_api import expect

from tests.browser.test_layers import APP, DRAWN, SETTLED, Y, place
from tests.helpers.browser import wait_idle


def test_a_click_on_a_score_opens_its_arithmetic_and_the_link_has_it(new_page, serve):
    page = new_page()
    page.goto(f"{serve(APP)}/attention")
    page.wait_for_selector(DRAWN, state="attached")
    page.wait_for_function(SETTLED)
    wait_idle(page)
    page.mouse.click(*place(page, Y, 12, 7))
    steps = page.locator(".qv-steps-told li")
    expect(steps).to_have_count(4)
    wait_idle(page)
    assert "c=12.7" in page.url
    assert page.locator("[data-field=attention_token] input").input_value() == "12"
    before = steps.first.inner_text()
    page.locator(".qv-products tr[data-channel] button").nth(1).click()
    wait_idle(page)
    assert "j=" in page.url
    assert steps.first.inner_text() == before
