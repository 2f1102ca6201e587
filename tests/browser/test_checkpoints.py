"""The page of checkpoints in Chromium: a scan in a process of its own, and a square that leads to the Lab."""

import re

from tests.helpers import ROOT
from tests.helpers.browser import wait_idle

MAP = "[class*=st-key-checkpoints_map] .js-plotly-plot"
#: Whether a square has a number.
COLOURED = f"""() => (document.querySelector("{MAP}")?._fullData ?? []).some(
    (trace) => trace.type === "heatmap" && trace.zmax !== 1
        && Array.from(trace.z ?? []).some((row) => Array.from(row).some(Number.isFinite)))"""


def test_a_scan_fills_the_map_and_a_square_leads_to_the_lab_and_back(new_page, serve, logs, shot):
    url = serve(ROOT / "app.py")
    earlier = logs[url].stat().st_size
    page = new_page()
    page.goto(f"{url}/checkpoints?lang=en")
    page.wait_for_selector(f"{MAP} .nsewdrag")
    wait_idle(page)
    # "Scan again" where the cache of this machine has the example's results already.
    page.get_by_role("button", name=re.compile("^Scan( again)?$")).click()
    page.wait_for_function(COLOURED)
    page.get_by_text("First fix:").wait_for()
    page.get_by_role("button", name="Scan again", disabled=False).first.wait_for()
    wait_idle(page)
    shot(page, "example")
    # A part of the page runs alone here; the link to copy has what was chosen all the same.
    page.locator(".st-key-checkpoints_allocate summary").click()
    page.locator(".st-key-checkpoints_fused label").click()
    page.wait_for_function("location.search.includes('u=1')")
    page.locator(".st-key-checkpoints_allocate summary").click()
    wait_idle(page)
    page.locator(MAP).first.scroll_into_view_if_needed()
    # The second row of eight, the first kind: layer 1, down_proj.
    box = page.locator(f"{MAP} .nsewdrag").first.bounding_box()
    kinds = page.evaluate(f"document.querySelector('{MAP}')._fullLayout.xaxis.range[1] + 0.5")
    page.mouse.click(box["x"] + box["width"] * 0.5 / kinds, box["y"] + box["height"] * 1.5 / 8)
    page.wait_for_function("location.pathname.endsWith('/lab')")
    page.wait_for_function("location.search.includes('loud_columns')")
    assert "int4" in page.url
    page.locator(".st-key-crumbs a").first.click()
    page.wait_for_selector(f"{MAP} .nsewdrag")
    assert "/checkpoints" in page.url
    page.goto("about:blank")
    assert "Traceback" not in logs[url].read_text(encoding="utf-8")[earlier:]
