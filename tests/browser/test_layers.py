"""The page of layers in a real browser: the pointer in the multiplication, on a laptop and on a phone."""

import pytest
from playwright.sync_api import expect

from tests.helpers.browser import TWO_FRAMES, box, coming, fingers, mouse, pulled, wait_idle, wait_link

DRAWN = ".st-key-layers_picture .qv-lights .qv-mark"
PART = """(at) => {
    const plot = document.querySelector(".st-key-layers_picture .js-plotly-plot");
    const box = plot.querySelector(".svg-container").getBoundingClientRect();
    const number = ["", "2", "3"][at[0]];
    const { [`xaxis${number}`]: x, [`yaxis${number}`]: y } = plot._fullLayout;
    return [box.x + x._offset + x.l2p(at[2]), box.y + y._offset + y.l2p(at[1])];
}"""
SETTLED = """() => {
    const { gd, known } = window.__quantviz.pictures.get("layers_picture") ?? {};
    return gd?._fullLayout && Math.abs(known.height - gd.parentElement.clientHeight) <= 1;
}"""
#: The hand of the layer, for a script to go on with.
HAND = "() => { const hand = window.__quantviz.hands.get('layers_picture'); "
#: Parts in their order, as the figure has them.
X, W, Y = range(3)


def opened(page, server, more):
    page.goto(f"{server}/layers?l=builtin(name=loud_input){more}")
    page.wait_for_selector(DRAWN, state="attached")
    # With the height of its place, once known, the chart is another one.
    page.wait_for_function(SETTLED)
    wait_idle(page)
    # A scrolled page forgets where the pointer was.
    page.locator(".st-key-layers_picture").scroll_into_view_if_needed()
    page.evaluate(TWO_FRAMES)


def place(page, part, row, col):
    """Where on the screen a cell of a part is."""
    return page.evaluate(PART, [part, row, col])


def wait_for_answer(page):
    """Wait until plotly has drawn, bit for bit, what the browser computed of a move."""
    page.wait_for_function(
        HAND + "return hand && !hand.isAhead && hand.painted === 0"
        " && hand.picture.gd && hand.isDrawn(hand.picture.gd); }"
    )
    expect(page.locator(".qv-painting, [data-qv-waits]")).to_have_count(0)


def give_up_the_ceiling(page):
    """Escape gives up a drag that a hand still holds: its end brings nothing back."""
    reach = page.locator(".qv-skyline p b")
    before, line = reach.inner_text(), box(page, ".qv-ceiling")
    drag = mouse(page)
    drag("start", line.left + 40, line.top)
    drag("move", line.left + 40, line.top + 15)
    expect(reach).not_to_have_text(before)
    page.keyboard.press("Escape")
    drag("end", line.left + 40, line.top + 15)
    page.evaluate(TWO_FRAMES)
    expect(reach).to_have_text(before)
    assert not page.evaluate(HAND + "return hand.isAhead; }")


def move_by_hand(page, *, touch):
    """Move a small layer by keys and by a drag in the picture: the picture follows, then the server answers
    the same.
    """
    if not touch:
        give_up_the_ceiling(page)
    page.locator(".qv-ceiling").focus()
    before = page.evaluate(HAND + "return hand.shown.yHat[0]; }")
    with coming(page, ".qv-painting"):
        for _ in range(12):
            page.keyboard.press("ArrowDown")
    assert page.evaluate(HAND + "return hand.shown.yHat[0]; }") != before
    wait_link(page, "a", "manual_range", within=True)
    wait_for_answer(page)
    # The answer to the last of the presses: it would be a step after the drag.
    wait_idle(page)
    numbers = ".qv-layer-numbers b, .qv-layer-numbers small, .qv-values b, .qv-skyline p b"
    output, channel = page.evaluate(HAND + "return hand.data.cell.slice(1); }")
    x, y = place(page, W, channel, output)
    drag = fingers(page) if touch else mouse(page)
    drag("start", x, y)
    for step in range(1, 6):
        drag("move", x + 4 * step, y)
    page.wait_for_function(HAND + "return hand.moving && hand.choice.message.kind === 'weight'; }")
    page.evaluate(TWO_FRAMES)
    live = page.locator(numbers).all_inner_texts()
    drag("end", x + 20, y)
    wait_link(page, "l", "changed", within=True)
    wait_for_answer(page)
    assert page.locator(numbers).all_inner_texts() == live
    # Each is a step that can be undone, by keys as well. An undo during the answer to another can be lost.
    wait_idle(page)
    page.keyboard.press("Control+z")
    wait_link(page, "l", "builtin(name=loud_input)")
    wait_idle(page)
    page.keyboard.press("Control+y")
    wait_link(page, "l", "changed", within=True)
    wait_idle(page)
    page.locator("[data-field=undo] button").click()
    wait_link(page, "l", "builtin(name=loud_input)")
    # An undo at once after a key, which the server has not heard of yet, takes that step back.
    wait_idle(page)
    held = page.evaluate(HAND + "return hand.skyline.value; }")
    page.locator(".qv-ceiling").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Control+z")
    page.wait_for_function(HAND + "return !hand.isAhead && !hand.painted; }")
    wait_idle(page)
    assert page.evaluate(HAND + "return hand.skyline.value; }") == held
    page.keyboard.press("Control+y")
    page.wait_for_function(HAND + f"return hand.skyline.value !== {held}; }}")


def move_a_dial(page, drag):
    """Move a method's parameter: its sentence follows, and the link has it once the slider is let go."""
    page.evaluate("location.search += '&m=smoothquant'")
    page.wait_for_selector(".qv-dial input", state="attached")
    wait_idle(page)
    page.locator(".qv-dial .qv-track").scroll_into_view_if_needed()
    track, words = box(page, ".qv-dial .qv-track"), page.locator(".qv-dial p")
    before = words.inner_text()
    places = [track.left + 10 + share * (track.width - 20) for share in (0.5, 0.55, 0.8)]
    for kind, x in zip(("start", "move", "move"), places, strict=True):
        drag(kind, x, track.top + 22)
    page.evaluate(TWO_FRAMES)
    expect(words).not_to_have_text(before)
    live = words.inner_text()
    drag("end", places[-1], track.top + 22)
    wait_link(page, "m", "smoothquant(alpha=0.8)")
    assert words.inner_text() == live


@pytest.mark.parametrize(
    ("width", "more"), [(390, "&lang=zh"), pytest.param(1366, "&lang=en", marks=pytest.mark.nightly)]
)
def test_a_pointer_lights_the_lines_of_an_output_and_a_click_opens_it(new_page, url, width, more):
    page = new_page(width, 625 if width > 640 else 844, touch=width < 640)
    opened(page, url, more)
    page.mouse.move(*place(page, Y, 2, 3))
    # A band in X for its token, one in Wᵀ for its channel; in Y both and the cell itself.
    page.wait_for_function(
        "document.querySelectorAll('.st-key-layers_picture .qv-lights rect[fill-opacity]').length === 4"
    )
    page.mouse.click(*place(page, Y, 2, 3))
    wait_link(page, "c", "2.3")
    page.wait_for_function("document.querySelector('[data-field=layers_token] input').value === '2'")
    # A cell of X chooses the token and the channel of a product.
    page.wait_for_selector(DRAWN, state="attached")
    wait_idle(page)
    page.mouse.click(*place(page, X, 0, 1))
    wait_link(page, "j", "1")
    wait_link(page, "c", "0.3")
    # So does a line of the table of products.
    page.wait_for_selector(".qv-products tr.qv-selected[data-channel='1']")
    wait_idle(page)
    page.locator(".qv-products tr[data-channel='3'] button").first.click()
    wait_link(page, "j", "3")
    move_by_hand(page, touch=width < 640)
    move_a_dial(page, fingers(page) if width < 640 else mouse(page))


FIRST = "builtin(name=minilm_1_intermediate)"
#: The characters that are read on the first screen, but for names of icons, and the page's controls on it
#: that can be used, each option of a choice by itself.
COUNTED = """() => {
  const seen = (box) => box.width > 1 && box.height > 1 && box.top < innerHeight && box.bottom > 0
    && box.left < innerWidth && box.right > 0;
  const plain = (each) => !each.closest("script, style") && getComputedStyle(each).visibility === "visible"
    && !getComputedStyle(each).fontFamily.includes("Material");
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  let read = 0;
  while (texts.nextNode()) {
    range.selectNodeContents(texts.currentNode);
    if (plain(texts.currentNode.parentElement) && seen(range.getBoundingClientRect()))
      read += texts.currentNode.textContent.trim().length;
  }
  const kinds = ":is(button, input, select, a[href], summary, [role=slider], [role=combobox])";
  const controls = [...document.querySelectorAll(`[data-testid=stMain] ${kinds}`)].filter((each) =>
    !each.disabled && plain(each) && seen((each.closest("label") ?? each).getBoundingClientRect()));
  return [read, controls.length];
}"""


def first_screen(page, address):
    """Open a layer; its first screen has few characters and few controls."""
    page.goto(address)
    page.wait_for_selector(DRAWN, state="attached")
    page.wait_for_function(SETTLED)
    wait_idle(page)
    read, controls = page.evaluate(COUNTED)
    assert 600 < read <= 1200
    assert 10 < controls <= 25


def test_the_first_screen_says_which_channel_is_to_blame_and_the_hand_lowers_its_ceiling(new_page, url):
    page = new_page(1366, 768)
    first_screen(page, f"{url}/layers?lang=en&e=error&l={FIRST}")
    said = page.locator(".qv-finding").inner_text().replace("\xa0", " ")
    assert said.startswith("Channel 99 is 20× louder than the rest. One scale for all of X must reach it.")
    assert page.locator(".qv-loud").inner_text() == "99"
    assert page.locator(".qv-loud-way").count() == 1
    assert "0.0229 %, 21 times less" in page.locator(".st-key-layers_fix").inner_text().replace("\xa0", " ")
    assert (
        page.locator("[data-qv-layer=rel_out] b").evaluate("each => getComputedStyle(each).fontSize")
        == "48px"
    )
    towers = box(page, ".qv-towers")
    assert (round(towers.width), towers.height) == (pytest.approx(620, abs=15), 57)
    # The ceiling falls with the hand, and with it the error; the server then draws the same X.
    y = box(page, ".qv-ceiling").top
    drag = mouse(page)
    for kind, down in (("start", 0), ("move", 20), ("move", 30)):
        drag(kind, towers.left + 300, y + down)
    page.wait_for_function(HAND + "return hand.moving && hand.shown.heldBack > 0.01; }")
    shown = "[data-qv-layer=rel_out] b, .qv-skyline p b"
    live = page.locator(shown).all_inner_texts()
    drag("end", towers.left + 300, y + 30)
    wait_link(page, "a", "manual_range", within=True)
    wait_for_answer(page)
    assert page.locator(shown).all_inner_texts() == live


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("view", ["", "&e=error"])
def test_the_first_screen_of_a_layer_whose_cells_are_written_is_as_short(new_page, url, language, view):
    first_screen(new_page(1366, 768), f"{url}/layers?lang={language}{view}&l=builtin(name=loud_input)")


@pytest.mark.parametrize(
    "more",
    [
        "&g=litert_ruy&r=relu6&f=uint8",
        *(pytest.param(more, marks=pytest.mark.nightly) for more in ("", "&g=onednn_avx2")),
    ],
)
def test_steps_in_integers_follow_the_hand_as_the_server_writes_them(new_page, url, more):
    page = new_page(1366, 625)
    opened(page, url, f"&lang=en&w=int8_per_row&a=int8_per_tensor&t=integer&c=2.1{more}")
    table = page.locator(".qv-integers tbody")
    moves = ((".qv-knob input >> nth=-1", "l", "changed"), (".qv-ceiling", "a", "manual_range"))
    for knob, parameter, word in moves:
        before = table.inner_html()
        table.evaluate("table => table.dataset.byHand = true")
        page.locator(knob).focus()
        for _ in range(12):
            page.keyboard.press("ArrowLeft")
        page.evaluate(TWO_FRAMES)
        live = table.inner_html()
        assert live != before
        answer = page.locator(".st-key-layers_integer_answer")
        answered = None if answer.get_attribute("data-qv-waits") is not None else answer.inner_text()
        # With kernels whose pairs may saturate it waits for the server, which may have answered by now.
        assert answered or "onednn" in more
        wait_link(page, parameter, word, within=True)
        # A table of the server, not the one that the hand wrote into.
        page.wait_for_function("!document.querySelector('.qv-integers tbody').dataset.byHand")
        wait_for_answer(page)
        # The first answer can be to one of the presses before the last.
        page.wait_for_function(
            "live => document.querySelector('.qv-integers tbody').innerHTML === live", arg=live
        )
        assert answered in (None, answer.inner_text())
    # What the server writes of an earlier move gives way to what a hand holds.
    stays = """
        const body = document.querySelector(".qv-integers tbody");
        hand.move("ceiling", 10);
        const held = body.innerHTML;
        body.replaceChildren();
        hand.update(hand.data, hand.send);
        const written = body.innerHTML;
        hand.giveUp();
        return written === held; }"""
    assert page.evaluate(HAND + stays)


def test_a_box_zooms_along_all_axes_and_a_double_click_shows_all(new_page, url):
    page = new_page(1366, 625)
    opened(page, url, "&lang=en&e=x")
    # The picture ends where a laptop's screen does.
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight <= innerHeight")
    rows = "document.querySelector('.st-key-layers_picture .js-plotly-plot')?._fullData?.[2]?.z?.length"
    pulled(page.mouse, place(page, Y, 0.9, 0.9), place(page, Y, 3.1, 3.1))
    wait_link(page, "v", "1.4_0.4_1.4")
    page.wait_for_function(f"{rows} === 3")
    page.mouse.dblclick(*place(page, Y, 1, 1))
    wait_link(page, "v", None)
    page.wait_for_function(f"{rows} === 4")


@pytest.mark.nightly
def test_long_work_of_a_method_shows_its_share_and_is_cancelled_while_another_page_answers(new_page, url):
    page, other = new_page(1366, 900), new_page(1366, 900)
    layers = f"{url}/layers?lang=en&l=builtin"
    other.goto(f"{layers}(name=loud_input)")
    other.locator(".st-key-layers_tabs").wait_for()
    page.goto(f"{layers}(name=minilm_0_output)&w=int4_per_row&m=adaround(steps=6000)")
    working = page.locator("[class*=st-key-layers_working][class*=_progress]")
    working.get_by_role("button", name="Cancel").wait_for()
    page.wait_for_function(
        "document.querySelector('[class*=st-key-layers_working] [role=progressbar]')?.ariaValueNow > 0"
    )
    other.locator(".st-key-layers_tabs").get_by_role("radio", name="Compare", exact=True).click()
    other.locator(".st-key-layers_tab_compare").wait_for()
    assert working.count() == 1
    working.get_by_role("button", name="Cancel").click()
    page.locator(".st-key-layers_tab_cell").wait_for()
    assert working.count() == 0
    wait_link(page, "m", None)
