"""The page of attention in a real browser: a click in the scores tells how one of them was computed."""

from playwright.sync_api import expect

from tests.helpers.browser import wait_idle, wait_link

#: Where a score is on the screen, of a query and a token; nothing before the picture has its height.
PLACE = """([query, token]) => {
    const { gd, known } = window.__quantviz?.pictures.get("layers_picture") ?? {};
    if (!gd?._fullLayout || Math.abs(known.height - gd.parentElement.clientHeight) > 1) return null;
    const box = gd.querySelector(".svg-container").getBoundingClientRect();
    const { xaxis3: x, yaxis3: y } = gd._fullLayout;
    return [box.x + x._offset + x.l2p(token), box.y + y._offset + y.l2p(query)];
}"""


def test_a_click_on_a_score_opens_its_arithmetic_and_the_link_has_it(new_page, url):
    page = new_page()
    page.goto(f"{url}/attention")
    page.wait_for_function(PLACE, arg=[12, 7])
    wait_idle(page)
    page.mouse.click(*page.evaluate(PLACE, [12, 7]))
    steps = page.locator(".qv-steps-told li")
    expect(steps).to_have_count(4)
    wait_link(page, "c", "12.7")
    expect(page.locator("[data-field=attention_token] input")).to_have_value("12")
    wait_idle(page)
    before = steps.first.inner_text()
    page.locator(".qv-products tr[data-channel] button").nth(1).click()
    page.wait_for_function("new URLSearchParams(location.search).has('j')")
    wait_idle(page)
    assert steps.first.inner_text() == before
