"""Below a path of a host, as behind JupyterHub's proxy: every request and every link stays below it."""

from urllib.parse import urlsplit

import pytest

from tests.helpers import ROOT
from tests.helpers.browser import server, wait_idle

BASE = "user/ann/proxy/8501"
PAGES = "", "lab", "lessons?l=range_to_grid&p=1", "formats", "golf", "checkpoints", "layers", "teacher"
#: The links of a page, those in components too, and in what explains a control.
LINKS = """() => {
    const links = (root) => [...root.querySelectorAll("*")].flatMap((each) => [
        ...(each.matches("a[href]") ? [each.href] : []),
        ...(each.shadowRoot ? links(each.shadowRoot) : []),
    ]);
    return links(document);
}"""


@pytest.mark.nightly
def test_every_request_and_link_stays_below_the_path(new_page, tmp_path):
    with server(ROOT / "app.py", tmp_path / "log", base=BASE) as url:
        origin = url.removesuffix(f"/{BASE}")

        def outside(addresses):
            return [each for each in addresses if each.startswith(origin) and not each.startswith(url)]

        page = new_page(1366, 768)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("response", lambda answer: answer.status < 400 or pytest.fail(answer.url))
        for path in PAGES:
            page.goto(f"{url}/{path}")
            wait_idle(page)
            assert outside(page.evaluate(LINKS)) == [], path
        assert urlsplit(page.url).path == f"/{BASE}/teacher"
        page.locator(".st-key-teacher_open button:visible").click()
        page.locator("[data-act=close]").wait_for()
        code = page.evaluate("() => JSON.parse(localStorage.getItem('quantviz.room.v1')).code")
        page.goto(f"{url}/join")
        page.fill("#c", code)
        page.click("button")
        wait_idle(page)
        assert f"room={code}" in page.url
        assert asked
        assert outside(asked) == []
