"""The four panels in a page: where a cell of them is, and what is drawn over them."""

from urllib.parse import parse_qs, urlencode, urlsplit

from tests.helpers.browser import LOOKS_AFTER_A_RESIZE, wait_idle

#: The place in the window of the middle of a cell in the i-th panel of a chart.
MIDDLE = """([i, row, col, chart]) => {
    const gd = document.querySelector(`.st-key-${chart} .js-plotly-plot`), frame = gd.getBoundingClientRect();
    const x = gd._fullLayout[i ? `xaxis${i + 1}` : "xaxis"];
    const y = gd._fullLayout[i ? `yaxis${i + 1}` : "yaxis"];
    return [frame.left + x._offset + (col - x.range[0]) / (x.range[1] - x.range[0]) * x._length,
            frame.top + y._offset + (row - y.range[1]) / (y.range[0] - y.range[1]) * y._length];
}"""
#: Columns in sight in each panel.
RANGES = """() => ["xaxis", "xaxis2", "xaxis3", "xaxis4"].map(
    axis => document.querySelector(".st-key-panels .js-plotly-plot")?._fullLayout?.[axis]?.range
        ?? [NaN, NaN])"""


def drawn(page):
    """Until four panels are on the screen, the bridge has found them and sent their width, and nothing
    changes any more.
    """
    page.wait_for_function("document.querySelectorAll('.st-key-panels :is(.hm, .im) image').length >= 4")
    wait_idle(page)
    page.wait_for_function("document.querySelectorAll('.st-key-panels .qv-mark').length >= 1")
    wait_idle(page, LOOKS_AFTER_A_RESIZE)


def opened(page, url, **params):
    page.goto(f"{url}/lab?{urlencode(params)}")
    drawn(page)
    return page


def address(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def wait_drawn(page):
    page.wait_for_selector(".st-key-panels .cartesianlayer image", state="attached")
    page.wait_for_selector(".qv-overlay", state="attached")
    wait_idle(page, LOOKS_AFTER_A_RESIZE)


def middle(page, panel, row, col, chart="panels"):
    return page.evaluate(MIDDLE, [panel, row, col, chart])


#: The frames of the selected cell, one in each panel.
MARKS = ".qv-overlay .qv-mark"


def marks(page):
    """Where the frames are now."""
    return page.locator(MARKS).evaluate_all(
        "marks => marks.map(mark => ['x', 'y'].map(name => Number(mark.getAttribute(name))))"
    )


def card(page):
    return page.locator(".qv-card:visible").inner_text().split("\n")
