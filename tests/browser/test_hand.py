"""What a hand drags in the Lab: the browser follows by itself, and the server hears of it at the end."""

import re

import pytest
import torch
from playwright.sync_api import expect

import quantviz as qv
from quantviz.analysis.calibration_comparison import compare_calibrations
from quantviz.lab.state import LabState, opening
from quantviz.sources import Normal
from quantviz.ui.lab.numbers.tiles import metric_texts
from tests.helpers.browser import (
    TWO_FRAMES,
    box,
    click_until,
    fingers,
    held,
    mouse,
    wait_idle,
    wait_link,
)
from tests.helpers.picture import RANGES, address, drawn, middle, opened
from tests.helpers.sample import sample_of

FIRST = opening()
#: A handle by its id, where on it to take hold (shares of its box), how far to drag it, and the part of the
#: link that says so then.
DRAGS = {
    "hi": (("hi", 0.5, 0.1), -180, FIRST, "s", r"manual_range\(lo=-(\d+\.?\d*),hi=\1\)"),
    "lo": (("lo", 0.5, 0.1), 90, FIRST, "s", r"manual_range\(lo=-(\d+\.?\d*),hi=\1\)"),
    "tooth": (("tooth:12", 0.5, 0.5), -60, FIRST, "s", r"given\(scale=\d+\.?\d*\)"),
    "zero": (
        ("zero", 0.5, 0.5),
        150,
        FIRST.with_scheme(qv.Scheme("int4", "asymmetric")),
        "s",
        r"given\(scale=[\d.]+,zero_point=-?\d+\)",
    ),
    "value": (("value", 0.5, 0.5), 120, FIRST, "t", r"edited\(builtin\(name=loud_column\),2\.3=-?[\d.]+\)"),
}
#: Whether the link has another part than before.
CHANGED = "([part, before]) => new URLSearchParams(location.search).get(part) !== before"


def open_lab(page, url, state=FIRST):
    ready(opened(page, url, **{**state.written(), "lang": "en"}))


def ready(page):
    drawn(page)
    page.wait_for_selector("[data-handle]")
    wait_idle(page)


def drag_end(page, dx, handle="hi"):
    """Drag a handle of the ruler with a mouse, and hold it."""
    drags = held(page, *place(page, handle, 0.5, 0.5 if handle == "zero" else 0.1), dx)
    next(drags)
    return drags


def figures(page):
    """The numbers above the panels, by their keys."""
    shown = page.locator("[data-qv-metric]").all()
    return {each.get_attribute("data-qv-metric"): each.inner_text() for each in shown}


def words(page):
    """The words that follow the hand: the cell's sentence, the second lines, the title of the codes, the
    label of the error's colours.
    """
    return page.evaluate(
        """() => [
            document.querySelector("[data-qv-sentence]").innerText,
            Object.fromEntries([...document.querySelectorAll("[data-qv-line], [data-qv-change]")].map(
                (place) => [place.dataset.qvLine ?? `change ${place.dataset.qvChange}`, place.innerText])),
            document.querySelector(".st-key-panels .annotation[data-index='1']").textContent,
            document.querySelector(".st-key-panels .xcbcoloraxis4tick text").textContent,
        ]"""
    )


def told(page):
    """What the hand shows: the numbers, what each handle says, and the canvas over the panels."""
    handles = page.locator("[data-handle]").all()
    says = {each.get_attribute("data-handle"): each.get_attribute("aria-valuetext") for each in handles}
    painted = page.evaluate("document.querySelector('canvas.qv-painting')?.toDataURL() ?? null")
    return figures(page), says, painted


def place(page, handle, across, down):
    on = box(page, f"[data-handle='{handle}']")
    return on.left + across * on.width, on.top + down * on.height


def by_keys(page, handle, dx):
    key = "ArrowLeft" if dx < 0 else "ArrowRight"
    page.locator(f"[data-handle='{handle}']").focus()
    page.keyboard.press(key)
    page.keyboard.press(f"Shift+{key}" if handle in ("hi", "lo", "value") else key)
    yield


def held_by(page, way, name):
    """The handle `name`, taken and moved where it is first asked for, and let go of after that."""
    (handle, across, down), dx, *_ = DRAGS[name]
    if way == "keys":
        return by_keys(page, handle, dx)
    return held(page, *place(page, handle, across, down), dx, way={"mouse": mouse, "touch": fingers}[way])


@pytest.mark.parametrize(
    "way",
    ["mouse", *(pytest.param(way, marks=pytest.mark.nightly) for way in ("touch", "keys"))],
)
def test_every_handle_moves_all_that_follows_and_is_one_step(way, url, new_page):
    """Panels, ruler and numbers follow without a message to the server; then it is one state, one link and
    one step to undo, and the server's numbers are the browser's.
    """
    page = new_page(touch=way == "touch")
    sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda _: sent.append(1)))
    shown = None
    # The ruler's own tests move them all, in each way.
    for name in sample_of(tuple(DRAGS), 3 if way == "mouse" else 1):
        _, _, state, part, wanted = DRAGS[name]
        if state != shown:
            open_lab(page, url, state)
            shown = state
        before, link = told(page), address(page)
        worded = words(page)
        drags = held_by(page, way, name)
        silent = len(sent)
        next(drags)
        expect(page.locator("canvas.qv-painting")).to_have_count(1)
        page.evaluate(TWO_FRAMES)
        during = told(page)
        while_held = words(page)
        assert while_held != worded
        if way != "keys":  # these let go by themselves after a while
            assert len(sent) == silent, name
            assert all(now != then for now, then in zip(during, before, strict=True)), name
        next(drags, None)
        page.wait_for_function(CHANGED, arg=[part, link[part]])
        expect(page.locator("canvas.qv-painting")).to_have_count(0)
        wait_idle(page)
        assert re.search(wanted, address(page)[part]), address(page)[part]
        assert (figures(page), words(page)) == (during[0], while_held), name
        reached, problems = LabState.read(address(page))
        assert not problems
        r = qv.quantize(reached.source.tensor(), reached.scheme)
        assert figures(page)["mse"] == metric_texts(qv.metrics(r))["mse"], name
        there = address(page)[part]
        undo = page.get_by_role("button", name="Undo")
        undo.click()
        page.wait_for_function(CHANGED, arg=[part, there])
        wait_idle(page)
        assert (address(page)[part], figures(page)) == (link[part], before[0]), name
        assert undo.is_disabled()


#: A move that the server has not heard of, then what it says of the one before, and of this one.
LATE_ANSWERS = """async () => {
    const hand = window.__quantviz.hands.get("panels");
    const place = document.querySelector("[data-qv-metric=mse]");
    const { data, send } = hand;
    const server = place.innerText;
    hand.send = () => {};
    hand.move({ kind: "range", lo: -1, hi: 1 });
    hand.release({ kind: "range", lo: -1, hi: 1 });
    const held = place.innerText;
    place.innerHTML = server;
    await new Promise(requestAnimationFrame);
    const written = place.innerText;
    hand.update({ ...data, released: hand.count - 1 }, send);
    const answered = [hand.data === data, place.innerText];
    hand.update({ ...data, released: hand.count }, send);
    return [server !== held, written === held, answered[0], answered[1] === held, place.innerText === server];
}"""


def test_an_answer_to_an_earlier_move_gives_way_to_what_the_hand_has(url, new_page):
    page = new_page()
    open_lab(page, url)
    assert page.evaluate(LATE_ANSWERS) == [True] * 5


def the_selected_cell_is_dragged_in_xs_panel(page):
    x, y = middle(page, 0, 2, 3)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 20, steps=4)
    page.wait_for_selector("canvas.qv-painting")
    page.mouse.up()
    wait_link(page, "t", "edited", within=True)
    ((cell, value),) = LabState.read(address(page))[0].source.edits
    assert cell == (2, 3)
    assert value > -1.35
    # Plotly drew no box to zoom to; it makes the chart anew for the new data.
    wait_idle(page)
    page.wait_for_function(f"({RANGES})()[0].join() === '-0.5,7.5'")
    # In the tab Blame keys do the same, and it is told who pays.
    page.locator(".st-key-tabs").get_by_role("radio", name="Blame").click()
    page.wait_for_selector(".qv-payers")
    wait_idle(page)
    before = LabState.read(address(page))[0]
    part = address(page)["t"]
    page.locator("[data-handle=value]").press("End")
    page.wait_for_function(CHANGED, arg=["t", part])
    wait_idle(page)
    after = LabState.read(address(page))[0]
    was, now = (qv.quantize(state.source.tensor(), state.scheme) for state in (before, after))
    others = torch.ones(8, 8, dtype=torch.bool)
    others[2, 3] = False
    squares = [r.error[others].double().square().sum().item() for r in (was, now)]
    zeroed = [int((r.x_hat[others] == 0).sum()) for r in (was, now)]
    grown = ((now.error.abs() - was.error.abs())[others] > was.step_of_cells().expand(8, 8)[others] / 2).sum()
    said = re.findall(r"[\d.]+", page.locator(".qv-payers").inner_text().partition("×")[2])
    assert float(said[0]) == pytest.approx(squares[1] / squares[0], rel=5e-3)
    assert [int(each.rstrip(".")) for each in said[1:]] == [*zeroed, grown]
    assert squares[1] > 1.2 * squares[0]


def a_mark_on_the_curve_and_a_line_of_the_table_take_their_range(page):
    state, _ = LabState.read(address(page))
    page.locator(".st-key-tabs").get_by_role("radio", name="Range").click()
    wait_idle(page)
    before = address(page).get("s")
    page.get_by_role("button", name="Use the range of least squared error", exact=True).click()
    page.wait_for_function(CHANGED, arg=["s", before])
    assert qv.Scheme.parse(address(page)["s"]).calibration == qv.MSE()
    wait_idle(page)
    table = page.locator(".st-key-calibrations_table canvas").first
    table.scroll_into_view_if_needed()
    table.element_handle().wait_for_element_state("stable")
    lines = box(page, ".st-key-calibrations_table canvas")
    click_until(page, lines.left + 60, lines.top + 29 * 2 + 10, CHANGED, ["s", address(page)["s"]])
    rows = compare_calibrations(state.source.tensor(), state.scheme).rows
    by_error = sorted((row for row in rows if row.problem is None), key=lambda row: row.mse)
    assert qv.Scheme.parse(address(page)["s"]).calibration == by_error[1].calibration


def a_range_dragged_over_several_blocks_says_that_it_sets_all(page):
    page.locator("[data-field=granularity] label:has([value=column])").click()
    wait_link(page, "s", "per_channel(axis=1)", within=True)
    wait_idle(page)
    drags = drag_end(page, -60)
    expect(page.locator(".qv-hand-status")).to_have_text("sets all 8 blocks")
    next(drags, None)


def the_tooth_of_the_zero_point_stays_on_the_comb(page):
    """Dragged on from the last code the comb stays, and with it the tooth to drag it back by: the browser
    showed a zero point beyond the codes, which the server did not take.
    """
    link, tooth = address(page), page.locator("[data-handle=zero]")
    told_at_first = tooth.get_attribute("aria-valuetext")
    for _ in range(2):
        drags = drag_end(page, -150, "zero")
        assert tooth.get_attribute("aria-valuetext") == told_at_first
        next(drags, None)
        wait_idle(page)
    assert address(page) == link
    next(drag_end(page, 150, "zero"), None)
    page.wait_for_function(CHANGED, arg=["s", link["s"]])


def an_impossible_place_keeps_the_last_possible_one_and_says_why(page):
    moves = "(message) => window.__quantviz.hands.get('panels').move(message)"
    page.evaluate(moves, {"kind": "range", "lo": -4, "hi": 5})
    possible = figures(page)
    page.evaluate(moves, {"kind": "range", "lo": 5, "hi": 5})
    assert figures(page) == possible
    expect(page.locator(".qv-hand-status")).to_have_text(
        "The lower end of the range must stay below the upper end."
    )


@pytest.mark.nightly
def test_a_visit_of_the_first_example_with_a_mouse(url, new_page):
    page = new_page()
    open_lab(page, url)
    the_selected_cell_is_dragged_in_xs_panel(page)
    page.locator(".st-key-tabs").get_by_role("radio", name="Cell").click()
    page.wait_for_selector("[data-handle=hi]")
    wait_idle(page)
    a_mark_on_the_curve_and_a_line_of_the_table_take_their_range(page)
    a_range_dragged_over_several_blocks_says_that_it_sets_all(page)


@pytest.mark.nightly
def test_a_visit_with_a_zero_point(url, new_page):
    page = new_page()
    open_lab(page, url, FIRST.with_scheme(qv.Scheme("int4", "asymmetric", calibration=qv.Given(0.5, 7))))
    the_tooth_of_the_zero_point_stays_on_the_comb(page)
    wait_idle(page)
    an_impossible_place_keeps_the_last_possible_one_and_says_why(page)


@pytest.mark.nightly
def test_the_range_of_a_large_tensor_is_dragged_with_the_servers_sums(url, new_page):
    """The numbers while the hand holds still are those of all its values, and stay when it lets go."""
    source = Normal(2048, 1024)
    page = new_page()
    open_lab(page, url, opening().with_source(source).with_scheme(qv.Scheme("int4")))
    before = figures(page)
    drags = drag_end(page, -160)
    page.wait_for_function("window.__quantviz.hands.get('panels').asked === null")
    during = figures(page)
    assert during != before
    next(drags, None)
    wait_link(page, "s", "manual_range", within=True)
    wait_idle(page)
    state, _ = LabState.read(address(page))
    m = qv.metrics(qv.quantize(source.tensor(), state.scheme))
    assert figures(page) == during
    assert metric_texts(m).items() <= during.items()
    # In the tab Range the curve has a real quantization at every point.
    page.locator("[data-field=stage_tab] label", has_text="Range").click()
    page.wait_for_function("window.__quantviz.hands.get('panels')?.found?.points")
    end, found = page.evaluate(
        "(({ curve }) => [curve.at[7], curve.clipping[7]])(window.__quantviz.hands.get('panels'))"
    )
    scheme = state.scheme.replace(calibration=qv.ManualRange(-end, end))
    m = qv.metrics(qv.quantize(source.tensor(), scheme))
    assert found == pytest.approx(m["clipping_mse"], rel=1e-6)


def test_a_locked_scheme_has_no_handles(url, new_page):
    page = opened(new_page(), url, **FIRST.written(), lang="en", k="lock-scheme")
    page.wait_for_selector("canvas[role=img]")
    wait_idle(page)
    assert page.locator("[data-handle]").count() == 0


def test_the_bits_in_a_phones_bar_follow_the_finger(url, new_page):
    page = new_page(390, 664, touch=True)
    open_lab(page, url)
    slider = page.locator("[data-field=bits] input")
    before = figures(page)
    slider.evaluate(
        "(input) => { input.value = '1'; input.dispatchEvent(new Event('input', {bubbles: true})) }"
    )
    page.wait_for_selector("canvas.qv-painting")
    assert figures(page) != before
    expect(page.locator("[data-field=bits]")).to_contain_text("2 bits")
    expect(page.locator("[data-field=bits]")).to_contain_text("3 of 4 levels")
    # All four teeth are in view, that of −2 too, beyond all values; the one of 0 has no handle.
    expect(page.locator("[data-handle^='tooth']")).to_have_count(3)
    slider.evaluate("(input) => input.dispatchEvent(new Event('change'))")
    wait_link(page, "s", "int2,", within=True)
