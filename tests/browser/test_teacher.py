"""The teacher's page and the projector in a real browser: what is seen from the back of the room, and the
code to scan.
"""

import socket
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from playwright.sync_api import expect

from quantviz.text import catalogue
from quantviz.ui.components.clipboard import qr_source
from tests.helpers.browser import Line, box, wait_idle
from tests.helpers.picture import drawn
from tests.helpers.sample import sample_of


def opened(page, address):
    page.goto(address)
    page.wait_for_selector("[data-testid=stMain] [data-testid=stVerticalBlock]")
    wait_idle(page)
    return page


@pytest.mark.nightly
@pytest.mark.parametrize(("language", "theme"), sample_of([("en", "light"), ("zh", "dark")], 1))
def test_the_projector_is_read_from_the_back(new_page, url, language, theme):
    page = new_page(1280, 720, theme=theme)
    opened(page, f"{url}/lab?k=projector&lang={language}")
    drawn(page)
    chart = "document.querySelector('.st-key-panels .js-plotly-plot')._fullLayout.meta"
    page.wait_for_function(f"{chart}.enlarged > 1.4")
    assert page.locator("[data-testid=stSidebar]:visible").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Tiles, panels and ruler without scrolling; the panels side by side.
    for part in (".qv-ruler canvas", ".st-key-panels .js-plotly-plot"):
        assert box(page, part).bottom <= 720
    assert page.evaluate(f"{chart}.arrangement") == "row"
    ink, paper = ("rgb(0, 0, 0)", "rgb(255, 255, 255)")[:: 1 if theme == "light" else -1]
    expect(page.locator(".qv-sentence")).to_have_css("color", ink)
    expect(page.locator("[data-testid=stApp]")).to_have_css("background-color", paper)
    page.locator(".st-key-leave_projector button:visible").click()
    page.wait_for_function("!location.search.includes('projector')")
    page.wait_for_selector("[data-testid=stSidebar]:visible")


def own_address():
    """This machine's address in its network; none where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only asks which way there would be
        except OSError:
            return None
        name = probe.getsockname()[0]
    return None if name.startswith("127.") else name


def test_a_class_scans_the_code_and_opens_what_was_chosen(new_page, url):
    host = own_address()
    if host is None:
        pytest.skip("this machine has no address of its own in a network")
    app = f"http://{host}:{urlsplit(url).port}"
    page = opened(new_page(), f"{app}/teacher?lang=zh")
    unfold = page.locator(".st-key-teacher_link summary")
    unfold.click()
    page.locator("[data-field=teacher_sees] .qv-segments label").nth(2).click()
    page.locator("[data-field=teacher_hidden_panels] .qv-segments label", has_text="误差").click()
    page.locator("[data-field=teacher_locked] .qv-segments label", has_text="方案").first.click()
    page.locator("[data-field=teacher_opens] .qv-segments label").nth(1).click()
    link = f"{app}/lab?k=2.no-error.lock-scheme.2"
    link_shown = "(link) => document.querySelector('.st-key-teacher_group_link code')?.innerText === link"
    page.wait_for_function(link_shown, arg=link)
    wait_idle(page)
    # What was chosen outlives a reload.
    page.reload()
    page.wait_for_function(link_shown, arg=link)
    wait_idle(page)
    unfold.click()
    the_code_fills_the_screen(page)
    a_printed_page_is_what_is_handed_out(page, link)
    assert page.get_attribute(".qv-qr", "src") == qr_source(link)
    with page.expect_popup() as opening:
        page.locator(".st-key-teacher_actions a:visible").click()
    class_page = opening.value
    class_page.wait_for_function(
        "document.querySelector('.st-key-panels .js-plotly-plot')?._fullLayout?.meta"
    )
    wait_idle(class_page)
    assert dict(parse_qsl(urlsplit(class_page.url).query))["k"] == "2.no-error.lock-scheme.2"
    assert class_page.locator("[data-field=bits] input").first.is_disabled()
    assert class_page.evaluate(
        "document.querySelector('.st-key-panels .js-plotly-plot')._fullLayout.meta.panels"
    ) == ["x", "q", "x_hat"]


def the_code_fills_the_screen(page):
    """The main button shows the code as large as the window, over everything; Escape closes it."""
    page.locator(".st-key-teacher_full_screen button").click()
    code = page.locator(".st-key-teacher_full_screen dialog img")
    code.wait_for()
    place, size = box(code), page.viewport_size
    assert min(place.left, place.top) >= 0
    assert place.right <= size["width"]
    assert 0.85 * size["height"] < place.height <= place.bottom <= size["height"]
    code.click(trial=True)  # nothing lies over it
    assert code.get_attribute("src") == page.get_attribute(".qv-qr", "src")
    page.keyboard.press("Escape")
    code.wait_for(state="hidden")


def a_printed_page_is_what_is_handed_out(page, link):
    page.emulate_media(media="print")
    assert page.locator("[data-testid=stMain]").inner_text().strip() == link
    assert page.locator(".qv-qr:visible").count() == 1
    page.emulate_media(media="screen")


@pytest.mark.nightly
def test_a_phone_in_class(new_page, url):
    """A lost connection is told, and what a hand does meanwhile is heard once it is back."""
    page = new_page(390, 844)
    line = Line(page)
    opened(page, f"{url}/lab?lang=en")
    page.wait_for_selector(".st-key-hand canvas, .qv-ruler canvas", state="attached")
    lost = page.locator(".qv-connection-lost:not(:empty)")
    assert lost.count() == 0
    line.lose()
    lost.wait_for()
    assert lost.inner_text() == catalogue("en")["app.connection_lost"]
    # Streamlit's own word for it is there, and not seen.
    status = page.locator("[data-testid=stStatusWidget]")
    status.wait_for(state="attached")
    assert not status.is_visible()
    page.locator(".qv-ruler-handle[aria-label='Upper end of the range']").focus()
    page.keyboard.press("ArrowLeft")
    before = page.url
    line.join()
    lost.wait_for(state="detached")
    page.wait_for_function("(before) => location.href !== before", arg=before)
    assert "manual_range" in unquote(page.url)
    wait_idle(page)
