"""The Lab in a frame of another page: the stage alone, at any size."""

from playwright.sync_api import expect

SIZES = ((300, 200), (600, 400), (1366, 700))
FRAME = """address => {
  const frame = Object.assign(document.createElement("iframe"), { src: address, width: 300, height: 200 });
  document.body.replaceChildren(frame);
}"""
RESIZE = """([width, height]) => Object.assign(document.querySelector("iframe"), { width, height })"""


def test_in_a_frame_the_stage_stands_alone_and_works(url, new_page):
    page = new_page(1400, 760)
    # A browser lets a page of no address open none of this machine.
    page.goto(f"{url}/_stcore/health")
    page.evaluate(FRAME, f"{url}/lab?lang=en&embed=true")
    frame = page.frame_locator("iframe")
    handle = frame.locator("[data-handle=hi]")
    expect(handle).to_be_attached()
    inside = page.frames[-1]
    for size in SIZES:
        page.evaluate(RESIZE, size)
        for gone in ("[data-testid=stSidebar]", ".st-key-title", ".st-key-share", "[data-testid=stExpander]"):
            expect(frame.locator(f"{gone} >> visible=true")).to_have_count(0)
        assert inside.evaluate("document.documentElement.scrollWidth") <= size[0]
        # Nothing stands over the stage while it is scrolled.
        scheme = frame.locator(".st-key-scheme")
        assert scheme.evaluate("(bar) => getComputedStyle(bar).position") != "fixed"
    handle.press("ArrowLeft")
    inside.wait_for_function("() => location.search.includes('manual_range')")
    assert "embed=true" in inside.url
