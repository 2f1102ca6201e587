"""A matrix larger than the screen in the Lab: nothing is lost in it, and each zoom reads its window anew."""

import math
import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

import quantviz as qv
from quantviz.sources import Normal, OneOutlier, write_source
from tests.helpers.addresses import go
from tests.helpers.browser import TWO_FRAMES, box, pulled, wait_link
from tests.helpers.picture import MARKS, RANGES, address, card, middle, opened, wait_drawn

ROWS, COLS = 1000, 3000
PLANTED = OneOutlier(rows=ROWS, cols=COLS, value=61.0, row=737, col=370)
WINDOW = "() => document.querySelector('.st-key-panels .js-plotly-plot')?._fullLayout?.meta?.window"


@pytest.fixture
def open_lab(url, new_page):
    def start(source=PLANTED, **options):
        return opened(new_page(**options), url, t=write_source(source), lang="en")

    return start


def wait_window(page, told):
    """Until the server has read another window than `told` and it is drawn; tells which."""
    page.wait_for_function(
        f"""old => {{
            const now = ({WINDOW})();
            return now && Object.keys(now).some(name => now[name] !== old[name]);
        }}""",
        arg=told,
    )
    wait_drawn(page)
    return page.evaluate(WINDOW)


def sights(page):
    """What each panel shows: columns and rows from … to."""
    return page.evaluate(
        """() => [1, 2, 3, 4].map(i => {
            const layout = document.querySelector(".st-key-panels .js-plotly-plot")._fullLayout;
            const n = i > 1 ? i : "";
            return [...layout[`xaxis${n}`].range, ...layout[`yaxis${n}`].range.slice().reverse()];
        })"""
    )


def assert_one(page, window):
    """That all four panels show the window, whose edges the sight may cut."""
    seen = sights(page)
    assert all(each == pytest.approx(seen[0]) for each in seen)
    left, right, top, bottom = seen[0]
    for low, high, first, count in (
        (left, right, window["left"], window["cols"]),
        (top, bottom, window["top"], window["rows"]),
    ):
        assert first - 0.51 <= low < first + 0.51
        assert first + count - 1.51 < high <= first + count - 0.49


def drag(page, start, end, panel=0, lower=0):
    """Draw a box between two cells, so many pixels lower at its end."""
    x, y = middle(page, panel, *end)
    pulled(page.mouse, middle(page, panel, *start), (x, y + lower))


def turn(page, x, y, notch, times):
    """The wheel, faster than a slow machine could tell it."""
    page.evaluate(
        """([clientX, clientY, deltaY, times]) => {
            const at = document.elementFromPoint(clientX, clientY);
            const turn = { clientX, clientY, deltaY, bubbles: true, cancelable: true };
            while (times--) at.dispatchEvent(new WheelEvent("wheel", turn));
        }""",
        [x, y, notch, times],
    )


def place_under(page, panel, x, y):
    """(row, column), with fractions, of a point of the page."""
    (x0, y0), (x1, y1) = middle(page, panel, 0, 0), middle(page, panel, 1, 1)
    return (y - y0) / (y1 - y0), (x - x0) / (x1 - x0)


def told(page, panel, row, col):
    page.mouse.move(5, 5)
    page.mouse.move(*middle(page, panel, row, col))
    page.wait_for_selector(".qv-card", state="visible")
    page.evaluate(TWO_FRAMES)
    return card(page)


def show_all(page):
    """Go back to the whole picture, where some of it is shown."""
    window = page.evaluate(WINDOW)
    if (window["rows"], window["cols"]) != (ROWS, COLS):
        page.mouse.dblclick(
            *middle(page, 1, window["top"] + window["rows"] / 2, window["left"] + window["cols"] / 2)
        )
        whole = wait_window(page, window)
        assert (whole["rows"], whole["cols"]) == (ROWS, COLS)


def number(shown):
    return float(shown.replace("−", "-"))


def pixel_told(lines, how):
    """The rows and columns of the cells of which a card tells."""
    found = re.fullmatch(rf"{how} of rows (\d+)–(\d+) × columns (\d+)–(\d+)", lines[0])
    top, bottom, left, right = map(int, found.groups())
    return slice(top, bottom + 1), slice(left, right + 1)


def an_outlier_is_found_in_the_whole_picture_at_its_exact_place(page):
    row, col = PLANTED.row, PLANTED.col
    for panel in range(3):
        lines = told(page, panel, row, col)
        rows, cols = pixel_told(lines, "largest")
        assert rows.start <= row < rows.stop
        assert cols.start <= col < cols.stop
        assert lines[1] == f"row {row}, column {col}"
        assert number(lines[3]) == PLANTED.value
        expect(page.locator(".qv-cross")).to_have_count(4)
    page.mouse.click(*middle(page, 1, row, col))
    wait_link(page, "c", f"{row}.{col}")
    expect(page.locator(MARKS)).to_have_count(4)


def the_error_panel_tells_the_cell_of_the_largest_error(page):
    error = qv.quantize(PLANTED.tensor(), qv.Scheme("int4")).error
    lines = told(page, 3, 500, 1500)
    rows, cols = pixel_told(lines, "largest error")
    block = error[rows, cols]
    row, col = divmod(int(block.abs().argmax()), block.shape[1])
    row, col = rows.start + row, cols.start + col
    assert lines[1] == f"row {row}, column {col}"
    assert number(lines[3]) == pytest.approx(float(error[row, col]), rel=1e-5)
    page.mouse.click(*middle(page, 3, 500, 1500))
    wait_link(page, "c", f"{row}.{col}")


def a_low_box_is_the_part_that_was_drawn(page):
    whole = page.evaluate(WINDOW)
    drag(page, (200, 600), (200, 1500), lower=12)
    window = wait_window(page, whole)
    assert_one(page, window)
    assert window["rows"] < 200
    assert abs(window["top"] - 200) < 20
    assert 800 < window["cols"] < 1000


def a_drag_reads_its_window_until_cells_are_seen(page):
    small = page.evaluate(WINDOW)
    # Plotly takes less than 20 pixels for no drag.
    for panel, start, end in (
        (1, (200, 600), (800, 2400)),
        (2, (430, 1380), (570, 1620)),
        (3, (460, 1460), (530, 1550)),
    ):
        drag(page, start, end, panel)
        small = wait_window(page, small)
        assert_one(page, small)
        if panel == 1:
            assert small["rows"] < 620
            assert "largest of" in told(page, 0, 500, 1500)[0]
    assert max(small["rows"], small["cols"]) <= 128
    types = "document.querySelector('.st-key-panels .js-plotly-plot').data.map(trace => trace.type)"
    assert page.evaluate(types) == ["heatmap"] * 4
    lines = told(page, 3, 500, 1500)
    assert lines[0] == "row 500, column 1500"
    assert "scale" in lines
    page.mouse.click(*middle(page, 3, 501, 1502))
    wait_link(page, "c", "501.1502")
    assert page.evaluate(WINDOW) == small
    # What was zoomed to stands while the data changes, to a cell: a box's edges lie within cells.
    before = sights(page)
    page.locator("[data-field=bits] input[value='5']").check(force=True)
    wait_link(page, "s", "int5", within=True)
    wait_drawn(page)
    assert sights(page) == [pytest.approx(each, abs=1) for each in before]


def the_house_shows_all(page):
    """As a double click does, by which each part goes back."""
    whole = page.evaluate(WINDOW)
    drag(page, (200, 900), (420, 1200))
    window = wait_window(page, whole)
    page.locator(".modebar-btn[data-attr=zoom][data-val=reset]").dispatch_event("click")
    assert wait_window(page, window) == whole
    assert_one(page, whole)


def the_wheel_zooms_about_the_pointer_and_scrolls_where_all_is_seen(page):
    whole = page.evaluate(WINDOW)
    row, col = PLANTED.row, PLANTED.col
    place = [round(at) for at in middle(page, 2, row, col)]
    under = place_under(page, 2, *place)
    page.mouse.move(*place)
    page.mouse.wheel(0, -120)
    first = wait_window(page, whole)
    assert first["cols"] == pytest.approx(COLS * math.exp(-0.24), abs=2)
    turn(page, *place, -120, 13)
    window = wait_window(page, first)
    assert_one(page, window)
    assert window["cols"] == pytest.approx(COLS * math.exp(-14 * 0.24), abs=2)
    # What was under the pointer still is, to a pixel of the picture there is now.
    assert place_under(page, 2, *place) == pytest.approx(under, abs=window["cols"] / 200)
    assert f"row {row}, column {col}" in told(page, 0, row, col)
    # Sideways it moves.
    page.mouse.wheel(100, 0)
    moved = wait_window(page, window)
    # Cells cut by an edge count.
    assert (moved["top"], moved["cols"]) == (window["top"], pytest.approx(window["cols"], abs=1))
    assert moved["left"] > window["left"]
    place = middle(page, 2, row, moved["left"] + moved["cols"] / 2)
    page.mouse.move(*place)
    turn(page, *place, 120, 20)
    assert wait_window(page, moved) == whole
    scrolled = "old => document.querySelector('[data-testid=stMain]').scrollTop > old"
    top = page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop")
    page.wait_for_timeout(500)
    page.mouse.wheel(0, 120)
    page.wait_for_function(scrolled, arg=top)


@pytest.mark.nightly
def test_a_small_matrix_leaves_the_wheel_to_the_page(open_lab):
    page = open_lab(Normal(100, 120))
    before = address(page)
    page.mouse.move(*middle(page, 0, 50, 60))
    page.mouse.wheel(0, 120)
    page.wait_for_function("document.querySelector('[data-testid=stMain]').scrollTop > 0")
    assert page.evaluate(RANGES)[0] == pytest.approx([-0.5, 119.5])
    drag(page, (40, 50), (55, 70))
    page.wait_for_timeout(700)
    # It is all here: no server is asked.
    assert page.evaluate(RANGES)[0][0] > 40
    assert address(page) == before
    assert page.locator(".qv-minimap").count() == 0


def two_fingers_zoom_and_move(page):
    whole, chosen = page.evaluate(WINDOW), address(page)["c"]
    touch = page.context.new_cdp_session(page)
    x, y = middle(page, 0, 500, 1500)

    def fingers(kind, *points):
        touch.send(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": [{"x": px, "y": py, "id": i} for i, (px, py) in enumerate(points)]},
        )

    fingers("touchStart", (x - 15, y))
    fingers("touchStart", (x - 15, y), (x + 15, y))
    for step in range(1, 9):
        fingers("touchMove", (x - 15 - 5 * step, y), (x + 15 + 5 * step, y))
        page.wait_for_timeout(20)
    fingers("touchEnd")
    window = wait_window(page, whole)
    assert_one(page, window)
    # From 30 to 110 pixels apart.
    assert window["cols"] == pytest.approx(COLS * 30 / 110, rel=0.03)
    assert window["left"] + window["cols"] / 2 == pytest.approx(1500, abs=20)
    # No cell was chosen by the fingers.
    assert address(page)["c"] == chosen


def the_mini_map_moves_the_window(page):
    whole = page.evaluate(WINDOW)
    small = page.locator(".qv-minimap")
    assert small.count() == 0
    drag(page, (100, 300), (300, 600))
    window = wait_window(page, whole)
    small.wait_for()
    place = box(small)
    assert place.width <= 120
    assert place.height <= 90
    bottom, right = window["top"] + window["rows"] - 1, window["left"] + window["cols"] - 1
    last = f"rows {window['top']}–{bottom} × columns {window['left']}–{right} of 1000 × 3000"
    page.get_by_text(last).wait_for()
    small.click(position={"x": 0.75 * place.width, "y": 0.5 * place.height})
    moved = wait_window(page, window)
    assert (moved["rows"], moved["cols"]) == (window["rows"], window["cols"])
    assert moved["left"] + moved["cols"] / 2 == pytest.approx(0.75 * COLS, abs=30)
    assert_one(page, moved)
    small.focus()
    page.keyboard.press("ArrowLeft")
    stepped = wait_window(page, moved)
    assert stepped["left"] == pytest.approx(moved["left"] - moved["cols"] / 2, abs=2)
    page.get_by_role("button", name="Whole tensor").click()
    assert wait_window(page, stepped) == whole
    page.wait_for_selector(".qv-minimap", state="detached")


def a_mean_has_no_place(page):
    go(page, f"/lab?{urlencode({**address(page), 'p': 'mean'})}")
    wait_drawn(page)
    lines = told(page, 0, 500, 1500)
    assert lines[0].startswith("mean of rows ")
    assert lines[1::2] == ["x", "q", "x̂", "error x̂ − x"]


def test_a_pointer_in_a_large_matrix(open_lab):
    """One visit; each part begins with the whole picture."""
    page = open_lab()
    the_error_panel_tells_the_cell_of_the_largest_error(page)
    an_outlier_is_found_in_the_whole_picture_at_its_exact_place(page)
    for part in (
        the_mini_map_moves_the_window,
        a_low_box_is_the_part_that_was_drawn,
        the_house_shows_all,
        the_wheel_zooms_about_the_pointer_and_scrolls_where_all_is_seen,
        a_drag_reads_its_window_until_cells_are_seen,
    ):
        page.evaluate("document.querySelector('[data-testid=stMain]').scrollTo(0, 0)")
        show_all(page)
        part(page)
    show_all(page)
    a_mean_has_no_place(page)


@pytest.mark.nightly
def test_fingers_in_a_large_matrix(open_lab):
    two_fingers_zoom_and_move(open_lab(width=820, height=900, touch=True))
