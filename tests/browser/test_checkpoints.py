"""The page of checkpoints in Chromium: a scan in a process of its own, and a square that leads to the Lab."""

import pytest
from playwright.sync_api import expect

from tests.helpers.browser import LOOKS_AFTER_A_RESIZE, wait_idle

MAP = "[class*=st-key-checkpoints_map] .js-plotly-plot"
RUNS = ".st-key-models_map .js-plotly-plot"
#: Whether a square has a number.
COLOURED = f"""() => (document.querySelector("{MAP}")?._fullData ?? []).some(
    (trace) => trace.type === "heatmap" && trace.zmax !== 1
        && Array.from(trace.z ?? []).some((row) => Array.from(row).some(Number.isFinite)))"""


#: The text before the first difference, the character there, and all of a text.
PARTS = """(pre) => {
    const mark = pre.querySelector("mark");
    const range = document.createRange();
    range.selectNodeContents(pre);
    if (mark) range.setEndBefore(mark);
    return [range.toString(), mark?.textContent, pre.textContent];
}"""


def opened(page, url):
    """The page with its example scanned: its button to scan again."""
    page.goto(f"{url}/checkpoints?lang=en")
    # The example is scanned at the first visit, if the cache of this machine has no results of it yet; a new
    # machine compiles the scan's kernels before, beside other tests.
    page.wait_for_function(COLOURED, timeout=300_000)
    again = page.get_by_role("button", name="Scan again", disabled=False).first
    again.wait_for()
    wait_idle(page)
    return again


@pytest.mark.nightly
def test_a_square_of_the_scanned_map_leads_to_the_lab_and_back(new_page, served):
    url, log = served
    earlier = log.stat().st_size
    page = new_page()
    opened(page, url)
    page.locator(MAP).first.scroll_into_view_if_needed()
    # The second row of eight, the first kind: layer 1, down_proj.
    box = page.locator(f"{MAP} .nsewdrag").first.bounding_box()
    kinds = page.evaluate(f"document.querySelector('{MAP}')._fullLayout.xaxis.range[1] + 0.5")
    page.mouse.click(box["x"] + box["width"] * 0.5 / kinds, box["y"] + box["height"] * 1.5 / 8)
    page.wait_for_function("location.pathname.endsWith('/lab')")
    page.wait_for_function("location.search.includes('loud_columns')")
    assert "int4" in page.url
    assert "model.layers.1.mlp.down_proj" in page.locator("h1.qv-crumbs bdi").get_attribute("title")
    page.locator(".st-key-crumbs a").first.click()
    page.wait_for_selector(f"{MAP} .nsewdrag")
    assert "/checkpoints" in page.url
    page.goto("about:blank")
    assert "Traceback" not in log.read_text(encoding="utf-8")[earlier:]


def test_bits_under_the_thumb_change_the_text_and_a_square_opens_its_layer(new_page, url):
    page = new_page()
    page.goto(f"{url}/checkpoints?f=model:character_twin&bits=6&part=depth&lang=en")
    original, own = (page.locator(".qv-texts pre").nth(n) for n in range(2))
    own.locator("mark").first.wait_for()
    # Up to the first changed character both texts are the same; the original's has no mark.
    before, after = (each.evaluate(PARTS) for each in (original, own))
    assert before[1] is None
    assert before[0].startswith(after[0])
    assert before[0][len(after[0])] != after[1][0]
    page.locator("[data-field=models_bits]").get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("location.search.includes('bits=8')")
    page.locator(".qv-texts mark").first.wait_for(state="detached")
    assert original.text_content() == own.text_content() == before[2]
    page.locator("[data-field=models_part] .qv-segments label").first.click()
    page.locator(f"{RUNS} .nsewdrag").first.wait_for()
    # The part that was open before stands until its run is over.
    wait_idle(page)
    expect(page.locator(".stPlotlyChart:has(.nsewdrag)")).to_have_count(3)
    page.locator(f"{RUNS} .nsewdrag").first.scroll_into_view_if_needed()
    wait_idle(page)
    box = page.locator(f"{RUNS} .nsewdrag").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 12, box["y"] + box["height"] / 8)
    page.wait_for_function("location.pathname.endsWith('/layers')")
    page.get_by_role("heading", name="Twin with loud channels, layers.0.self_attn.q_proj").wait_for()
    page.wait_for_function("location.search.includes('int8_per_row')")


@pytest.mark.nightly
def test_a_dot_of_the_adder_s_schemes_opens_its_scheme(new_page, url):
    page = new_page()
    page.goto(f"{url}/checkpoints?f=model:adder&part=predict&lang=en")
    dot = page.locator(".st-key-models_schemes .scatterlayer .point").first
    dot.wait_for(timeout=180_000)
    dot.scroll_into_view_if_needed()
    # Below the dots words come, and plotly measures itself anew: a place taken before that was missed.
    wait_idle(page, LOOKS_AFTER_A_RESIZE)
    box = dot.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("location.search.includes('bits=2')")
    page.locator(".qv-sums", has_text="Of 1,000 sums 0 are right").wait_for()
    wait_idle(page)
    # One press goes back by all that the dot has chosen.
    page.keyboard.press("Control+z")
    page.wait_for_function("!location.search.includes('bits=')")
