"""The Lab in Chromium, as a student, a teacher and an engineer open it."""

import io
import itertools
import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

import quantviz as qv
from quantviz.lab.classroom import Classroom
from quantviz.lab.state import opening
from quantviz.sources import Builtin
from quantviz.ui.shell import streamlit_private
from tests.helpers.browser import (
    IN_ADDRESS,
    LOOKS_AFTER_A_RESIZE,
    box,
    click_until,
    resize,
    wait_idle,
    wait_link,
)
from tests.helpers.picture import address, drawn, middle, opened
from tests.helpers.sample import sample_of


def wait_address(page, name, value):
    wait_link(page, name, value)
    wait_idle(page)


def ranges(page, chart="panels"):
    return page.evaluate(
        """chart => {
            const layout = document.querySelector(`.st-key-${chart} .js-plotly-plot`)._fullLayout;
            return [layout.xaxis.range, layout.yaxis.range].flat();
        }""",
        chart,
    )


def test_what_draws_is_fetched_and_compiled_beside_the_page(new_page, url):
    """It took most of a second once the data had come, in which the page stood still."""
    drawing = streamlit_private.drawing_script()
    page, answers = new_page(), []
    page.on("response", lambda answer: answers.append(answer) if answer.url.endswith(drawing) else None)
    page.goto(f"{url}/lessons?lang=en")
    wait_idle(page)
    assert not answers, "the list of lessons draws nothing"
    opened(page, url, lang="en")
    [answer] = answers
    assert answer.body().startswith(b"//# allFunctionsCalledOnLoad\nimport")
    assert int(answer.headers["content-length"]) == len(answer.body())
    assert page.evaluate("document.querySelector('link[href*=PlotlyChart]').fetchPriority") == "low"


def choose_bits(page, bits):
    """Choose other bits of the first example."""
    page.locator("[data-field=bits] label", has_text=str(bits)).first.click()
    wait_address(page, "s", f"int{bits},symmetric,per_tensor,min_max,course")


def switch_to(page, language, words):
    page.locator("[data-field=language_choice] label", has_text=words).click()
    wait_address(page, "lang", language)


def shared(page):
    """Open *Share*, where it is not open."""
    if not page.locator(".st-key-share_pictures, .st-key-copy_link").count():
        page.locator(".st-key-share button:visible").click()


def saved(page, button):
    """Name and content of the picture that a button saves."""
    if "picture" in button:
        shared(page)
    with page.expect_download() as download:
        page.locator(button).first.click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


# ---- a visit of the first example: a page is opened once, and one thing is done after another -----


@pytest.mark.parametrize("language", sample_of(["en", "zh"], 1))
def test_a_visit_of_the_first_example(new_page, url, language):
    page, asked, received = new_page(1024, 700), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(frame)))
    opened(page, url, **{**opening().replace(baseline=qv.Scheme("int8")).written(), "lang": language})
    numbers_beside_the_open_sidebar_keep_their_words(page)
    if language == "zh":
        switch_to(page, "en", "English")
    resize(page, 1366, 625)
    drawn(page)
    a_saved_picture_is_named_and_titled_and_holds_the_values(page)
    copying_the_link_copies_the_address(page)
    a_change_of_the_scheme_sends_little(page, received)
    a_scheme_change_repaints_the_panels(page)
    undo_and_redo_by_the_keyboard_but_not_in_a_text(page)
    outside = [each for each in asked if each.startswith("http") and "127.0.0.1" not in each]
    assert outside == [], "something was asked of another machine"


def numbers_beside_the_open_sidebar_keep_their_words(page):
    page.wait_for_selector("[data-testid=stSidebar][data-collapsed=false]")
    cut = """() => [...document.querySelectorAll(".qv-numbers, .qv-numbers *:not(.qv-meaning)")]
        .filter((each) => each.clientWidth && each.scrollWidth > each.clientWidth + 1)
        .filter((each) => getComputedStyle(each).overflow !== "visible")
        .map((each) => each.textContent)"""
    assert page.evaluate(cut) == []


def a_saved_picture_is_named_and_titled_and_holds_the_values(page):
    name, content = saved(page, ".st-key-picture_svg button")
    assert name == "loud_column_int4-symmetric-per_tensor-min_max-course_15.3dB.svg"
    svg = content.decode("utf-8")
    titled = ("one loud column · 8 × 8", "one scale for the whole tensor", "SQNR 15.3 dB", "error x̂ − x")
    for told in (*titled, ">−11.95<", "−1.64 fixed"):
        assert told in svg, told
    # So do the frames of values that became 0.
    (frames,) = re.findall(r'<path[^>]* d="((?:M[^MZ]*Z)+)"[^>]*opacity: 0\.5', svg)
    rounded = qv.quantize(Builtin("loud_column").tensor(), "int4,symmetric,per_tensor,min_max,course")
    assert frames.count("M") == int((rounded.x_hat == 0).sum())
    # Plotly's camera saves the same.
    page.keyboard.press("Escape")
    page.locator(".st-key-picture_svg").wait_for(state="hidden")
    page.locator(".st-key-panels .js-plotly-plot").hover()
    name, content = saved(page, ".st-key-panels .modebar-btn")
    assert name.endswith("_15.3dB.png")
    width, height = Image.open(io.BytesIO(content)).size
    assert width > 2000
    assert height > 600


def copying_the_link_copies_the_address(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shared(page)
    page.locator(".st-key-copy_link button").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text === location.href)")
    page.keyboard.press("Escape")


def a_change_of_the_scheme_sends_little(page, received):
    page.wait_for_selector("[data-handle=hi]")
    wait_idle(page)  # the server has heard that *Share* is closed
    for bits in (8, 3):
        received.clear()
        choose_bits(page, bits)
        # The scripts alone are 200,000.
        assert 4_000 < sum(map(len, received)) < 120_000


def a_scheme_change_repaints_the_panels(page):
    choose_bits(page, 8)
    expect(page.locator(".st-key-panels")).to_contain_text("int8")
    page.locator("[data-field=granularity] label:has([value=column])").click()
    wait_address(page, "s", "int8,symmetric,per_channel(axis=1),min_max,course")
    r = qv.quantize(Builtin("loud_column").tensor(), qv.Scheme("int8", granularity=qv.PerChannel(1)))
    expect(page.locator(".st-key-numbers")).to_contain_text(f"{qv.metrics(r)['mse']:.4g}")
    # The help of a control answers where its label is, stays under the pointer, and leads to the lessons.
    page.locator("[data-field=recipe] .qv-name-of").hover()
    link = page.locator("[data-field=recipe] .qv-meaning a[href*='term=bit']")
    link.hover()
    assert link.evaluate("link => link.pathname") == "/lessons"


def undo_and_redo_by_the_keyboard_but_not_in_a_text(page):
    before = "int8,symmetric,per_tensor,min_max,course"
    after = "int8,symmetric,per_channel(axis=1),min_max,course"
    wait_address(page, "s", after)
    for redo in ("Control+Shift+z", "Control+y"):
        page.keyboard.press("Control+z")
        wait_address(page, "s", before)
        page.keyboard.press(redo)
        wait_address(page, "s", after)
    # The browser's own buttons do the same, an action at a time.
    page.go_back()
    wait_address(page, "s", before)
    wait_link(page, "went", None)
    page.go_forward()
    wait_address(page, "s", after)
    # Icons have names for those who hear them.
    expect(page.get_by_role("button", name="Undo", exact=True)).to_be_enabled()
    expect(page.get_by_role("button", name="Redo", exact=True)).to_be_disabled()
    page.locator("[data-field=cell_row] input").click()
    page.keyboard.press("Control+z")
    page.wait_for_timeout(1000)
    wait_address(page, "s", after)


@pytest.mark.nightly
def test_a_recipe_is_loaded_by_a_click(new_page, url):
    page = opened(new_page(), url, t="normal(rows=64,cols=128)", lang="en")
    page.locator("[data-field=stage_tab] label", has_text="Compare").click()
    table = page.locator(".st-key-recipe_table canvas").first
    table.wait_for()
    table.scroll_into_view_if_needed()
    wait_idle(page)
    table.element_handle().wait_for_element_state("stable")
    lines = box(page, ".st-key-recipe_table canvas")
    fifth = lines.top + 29 * 4 + 50
    click_until(page, lines.left + 120, fifth, IN_ADDRESS, ["s", str(qv.RECIPES["int8_g128"])])


# ---- a visit with one's own numbers ---------------------------------------------------------------


@pytest.mark.nightly
def test_typed_cells_are_edited_in_place(new_page, url):
    page = opened(new_page(), url, t="builtin(name=course_3x3)", lang="en")
    page.select_option("[data-field=kind] select", label="Type or paste")
    wait_idle(page)
    canvas = page.locator("[data-testid=stDataFrame] canvas, [data-testid=stDataEditor] canvas").first
    canvas.wait_for()
    canvas.scroll_into_view_if_needed()
    page.wait_for_timeout(800)
    canvas.dblclick(position={"x": 30, "y": 50}, force=True)
    page.wait_for_selector("input.gdg-input")  # the grid opens its own editor over the cell
    page.locator("input.gdg-input").fill("100")
    page.wait_for_timeout(300)
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.st-key-typed_text textarea').value.startsWith('[[100')")
    wait_idle(page)
    assert address(page)["t"].startswith("typed.3x3.")
    assert (
        page.evaluate("document.querySelector('.st-key-panels .js-plotly-plot')._fullData[0].z[0][0]") == 100
    )


# ---- a visit of a large tensor --------------------------------------------------------------------


@pytest.mark.nightly
def test_a_visit_of_a_large_tensor(new_page, url):
    tensor = "one_outlier(rows=300,cols=260,row=200,col=31)"
    page = opened(new_page(1366, 1100), url, t=tensor, b=str(qv.RECIPES["int4_per_row"]), lang="en")
    zoom_cross_hair_and_mark_are_one_for_all_charts(page)
    the_whole_of_it_is_saved_while_a_window_is_seen(page)


def zoom_cross_hair_and_mark_are_one_for_all_charts(page):
    """For its own panels, which `test_zoom.py` has alone, and the schemes compared side by side."""
    page.locator("[data-field=stage_tab] label", has_text="Compare").click()
    page.wait_for_selector(".st-key-beside .qv-overlay .qv-mark")
    wait_idle(page)
    for chart, panel in (("beside", 2), ("panels", 0)):
        page.mouse.move(*middle(page, panel, 100, 100, chart))
        expect(page.locator(".st-key-panels .qv-cross")).to_have_count(4)
        expect(page.locator(".st-key-beside .qv-cross")).to_have_count(3)
    assert "ahead by" not in page.locator("body").inner_text()
    page.mouse.move(*middle(page, 2, 200, 31, "beside"))
    page.wait_for_function("document.body.innerText.includes('ahead by')")
    # A box drawn in the map is the window of all, read anew.
    page.mouse.down()
    page.mouse.move(*middle(page, 2, 240, 91, "beside"), steps=4)
    page.mouse.up()
    page.wait_for_function(
        """() => ["panels", "beside"].every(chart => {
            const { meta } = document.querySelector(`.st-key-${chart} .js-plotly-plot`)._fullLayout;
            return meta.window.rows < 60 && meta.shape[0] === meta.window.rows;
        })"""
    )
    wait_idle(page)
    assert ranges(page) == pytest.approx(ranges(page, "beside"))
    page.mouse.click(*middle(page, 0, 210, 50, "beside"))
    wait_address(page, "c", "210.50")


def the_whole_of_it_is_saved_while_a_window_is_seen(page):
    window = saved(page, ".st-key-picture_svg button")[1].decode("utf-8")
    assert "x original" in window
    shared(page)
    page.locator(".st-key-picture_whole label").first.click()
    # The button saves the window until the server's answer has come.
    for _ in range(20):
        wait_idle(page)
        whole = saved(page, ".st-key-picture_svg button")[1].decode("utf-8")
        if "x, largest of 2 × 2" in whole:
            break
    assert "x, largest of 2 × 2" in whole
    assert ">250<" in whole.replace(" ", "")


# ---- narrow pages ---------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_visit_of_a_narrow_page(new_page, url):
    page = opened(new_page(820, 900), url, x="percentile", r="half_step", lang="en")
    the_sidebar_is_closed_at_first_and_stays_as_it_was_put(page)
    choices_in_a_closed_popover_show_the_state_after_later_runs(page)


def the_sidebar_is_closed_at_first_and_stays_as_it_was_put(page):
    page.wait_for_selector("[data-testid=stSidebar][data-collapsed=true]", state="attached")
    # Its button has the place of Streamlit's menu, and the title makes room for it.
    padding = 'parseFloat(getComputedStyle(document.querySelector(".st-key-title")).paddingLeft)'
    room = page.evaluate(padding)
    assert page.locator("[data-testid=stMainMenu]").is_hidden()
    page.locator("[data-testid=stExpandSidebarButton]").click()
    page.wait_for_selector("[data-testid=stSidebar][data-collapsed=false]")
    page.wait_for_function(f"room => {padding} < room - 30", arg=room)
    choose_bits(page, 8)
    page.wait_for_timeout(500)
    assert page.locator("[data-testid=stSidebar][data-collapsed=false]").count() == 1


def choices_in_a_closed_popover_show_the_state_after_later_runs(page):
    """The browser makes them when the popover is opened, from the last run, which need not be the one that
    set them.
    """
    page.locator(".st-key-more button:visible").click()
    for choice, chosen in (("value_scale", 3), ("error_range", 2)):
        radios = page.locator(f".st-key-{choice} input")
        radios.first.wait_for(state="attached")
        assert [radio.is_checked() for radio in radios.all()].index(True) == chosen


@pytest.mark.nightly
def test_a_visit_on_a_phone(new_page, url):
    page = opened(new_page(390, 844, touch=True), url, lang="en")
    a_phone_saves_the_panel_it_shows(page)
    resize(page, 390, 664)
    its_bar_opens_all_settings_and_a_number_explains_itself(page)


def a_phone_saves_the_panel_it_shows(page):
    svg = saved(page, ".st-key-picture_svg button")[1].decode("utf-8")
    # It opens on what came back, not on an error of what was not seen.
    named = ("x original", "q codes", "x̂ dequantized", "error x̂ − x")
    assert [name for name in named if name in svg] == ["x̂ dequantized"]
    page.keyboard.press("Escape")
    page.locator(".st-key-picture_svg").wait_for(state="hidden")


def its_bar_opens_all_settings_and_a_number_explains_itself(page):
    assert page.locator("[data-field=mode]:visible, .st-key-cell_inputs:visible").count() == 0
    settings = page.locator("[data-field=settings] button")
    settings.tap()
    page.wait_for_selector("[data-field=mode]:visible")
    page.locator("[data-field=mode] label", has_text="asymmetric").tap()
    wait_address(page, "s", "int4,asymmetric,per_tensor,min_max,course")
    page.locator("[data-field=cell_row] input").fill("5")
    page.keyboard.press("Tab")
    wait_address(page, "c", "5.3")
    settings.tap()
    page.wait_for_selector("[data-field=mode]", state="hidden")
    page.locator(".qv-number-sqnr .qv-term").focus()
    assert "10·log₁₀" in page.locator(".qv-number-sqnr .qv-meaning:visible").inner_text()


TABS = {"range": "calibrations", "blame": "blame", "compare": "recipe_table"}


def test_every_tab_ends_on_a_laptop_s_screen_and_no_control_stands_twice(new_page, url):
    page = opened(new_page(1366, 768), url, **{**opening().written(), "lang": "en"})
    wait_idle(page, LOOKS_AFTER_A_RESIZE)
    for tab, part in TABS.items():
        page.click(f"[data-field=stage_tab] label:has([value={tab}])")
        page.locator(f".st-key-{part} canvas").first.wait_for()
        wait_idle(page)
        stage = box(page, ".st-key-stage")
        assert stage.height > 236, part
        assert stage.bottom <= 768, part
        table = page.locator(f".st-key-{part} .dvn-scroller").first
        assert table.evaluate("table => table.scrollWidth <= table.clientWidth"), f"{part} scrolls sideways"
        # The scheme's row has bits and groups.
        assert page.locator("[data-handle=bits], [data-handle=group]").count() == 0
    plot, body = box(page, ".st-key-recipe_plot .js-plotly-plot"), box(page, ".st-key-stage_body")
    assert plot.height >= 240
    assert body.top <= plot.top < plot.bottom <= body.bottom


SIZES = ((390, 844), (1366, 625), (1920, 1080))


@pytest.mark.parametrize(
    ("size", "theme", "language"), sample_of(itertools.product(SIZES, ["light", "dark"], ["en", "zh"]), 1)
)
def test_every_size_theme_and_language(new_page, url, size, theme, language):
    width, height = size
    page = new_page(width, height, theme, touch=width < 500)
    opened(page, url, **{**opening().written(), "lang": language})
    wait_idle(page, LOOKS_AFTER_A_RESIZE)
    sideways = "main => main.scrollWidth - main.clientWidth"
    assert page.locator("[data-testid=stMain]").evaluate(sideways) <= 0
    wide = ("title", "scheme", "numbers", "panels", "stage")
    narrow = ("title", "panels", "numbers", "sentence", "ruler", "scheme")
    places = [box(page, f".st-key-{part}") for part in (wide if width >= 1366 else narrow)]
    assert all(place.height > 20 and place.bottom <= height for place in places), places
    assert places == sorted(places, key=lambda place: place.top)
    assert page.locator(".qv-number b:visible").count() == 5


def test_a_saved_picture_tells_nothing_that_is_hidden(new_page, url):
    page = opened(new_page(), url, lang="en", k=str(Classroom(hidden=frozenset({"tiles.sqnr", "scheme"}))))
    name, content = saved(page, ".st-key-picture_svg button")
    assert name == "loud_column.svg"
    assert b"SQNR" not in content
    assert b"symmetric" not in content
