"""The server's answer meets a hand that has gone on: a component alone in a blank page."""

import pytest

from quantviz.browser import read_script

#: Timers run at once.
AT_ONCE = "const later = window.setTimeout; window.setTimeout = (act) => later(act, 0);"
#: A bar of one control, as an answer that knows the choices up to `taken` writes it.
BAR = """
    window.answer = (bar, taken, control) => bar.update({
        key: "bar", owner: "page", look: "", session: "one", page: "page", taken, controls: [control],
    }, () => {});
    window.bar = () => new Bar(document.body);
"""
#: A dial at a stop of three, as an answer that knows so many of its messages writes it.
DIAL = """
    window.dial = new Dial(document.body);
    window.answer = (count, now) => dial.update({
        key: "dial", count, now, title: "", stops: ["1", "2", "3"], words: ["", "", ""], presses: false,
        plots: {}, colors: {},
    }, () => {});
    window.turn = (...events) => events.forEach(([name, value]) => {
        dial.input.value = value ?? dial.input.value;
        dial.input.dispatchEvent(new Event(name));
    });
"""


def test_what_is_being_typed_outlives_an_answer(blank_with):
    page = blank_with(read_script("controls_component") + BAR)
    page.evaluate("window.low = bar()")
    answer = "([taken, value]) => answer(low, taken, { field: 'low', kind: 'text', value })"
    page.evaluate(answer, [0, "1"])
    field = page.locator("input")
    field.fill("2.50")
    page.evaluate(answer, [0, "1"])
    assert field.input_value() == "2.50"
    field.press("Enter")
    page.evaluate(answer, [1, "2.5"])
    assert field.input_value() == "2.5"


@pytest.mark.parametrize("goes", [False, True])
def test_a_choice_that_is_given_up_leaves_no_other_bar_behind(blank_with, goes):
    page = blank_with(AT_ONCE + read_script("controls_component") + BAR)
    got = page.evaluate(
        """goes => {
            document.body.dataset.testid = "stApp";
            document.body.dataset.testScriptState = "notRunning";
            const [one, other] = [bar(), bar()];
            answer(one, 0, { field: "press", kind: "button", label: "Press" });
            answer(other, 0, { field: "text", kind: "text", value: "before" });
            one.root.querySelector("button").click();
            answer(other, 0, { field: "text", kind: "text", value: "after" });
            if (goes) one.close();
            return other.root.querySelector("input").value;
        }""",
        goes,
    )
    assert got == "before"
    page.wait_for_function("document.querySelector('input').value === 'after'")


def test_a_dial_that_came_back_to_where_it_began_hears_answers(blank_with):
    page = blank_with(read_script("dial_component") + DIAL)
    page.evaluate("answer(0, 1); turn(['input', 2], ['input', 1], ['pointerup']); answer(0, 0);")
    assert page.evaluate("dial.input.value") == "0"


def test_a_dial_follows_an_answer_that_knows_its_stop_and_undid_it(blank_with):
    page = blank_with(read_script("dial_component") + DIAL)
    page.evaluate("answer(0, 1); turn(['input', 2], ['change']); answer(0, 1);")
    assert page.evaluate("dial.input.value") == "2"
    page.evaluate("answer(1, 1)")
    assert page.evaluate("dial.input.value") == "1"


def test_a_pixel_of_nan_alone_shows_no_other_cell(blank_with):
    page = blank_with(f"{read_script('hand_component')}\nwindow.livePixels = livePixels;")
    got = page.evaluate(
        """() => {
            const sent = { rows: 1, cols: 2, row_edges: [0, 1], col_edges: [0, 2, 4], open: ["x", "error"] };
            const cells = { x: Float32Array.of(5, 1, NaN, NaN), error: Float32Array.of(0.5, 1, NaN, NaN) };
            const result = { ...cells, step: [1, 1, 1, 1], block: [0, 0, 0, 0] };
            const { x, error } = livePixels(sent, result, {}, [0, 1, 2, 3], [1, 4]);
            return [...x, ...error].map(String);
        }"""
    )
    assert got == ["5", "NaN", "1", "NaN"]


def test_the_ruler_of_a_large_tensor_ends_before_infinity(blank_with):
    page = blank_with(f"{read_script('hand_component')}\nwindow.Hand = Hand;")
    ends = page.evaluate(
        """() => {
            const x = Float32Array.of(-1, 1, Infinity);
            const [zero, one] = [[0, 0, 0], [1, 1, 1]];
            const cells = { x, x_hat: x, error: zero, clipped: zero, step: one, q: zero, block: zero };
            const result = { ...cells, codes: [0, 1], blocks: { lo: [-1], hi: [1] }, params: {} };
            const data = { far: true, x, selected: 2, bar_edges: [-2, 2], rows: [], handles: {} };
            const hand = Object.assign(Object.create(Hand.prototype), {
                data: { ...data, variants: [{}], settings: {} },
                quantized: () => result,
                partsOf: () => ({ arithmetic: { facts: {} } }),
                metrics: new Proxy({}, { get: () => () => 0 }),
            });
            hand.shown = hand.computed({ variant: 0, edits: new Map(), calibration: null });
            return hand.domainNow().map(Number.isFinite);
        }"""
    )
    assert ends == [True, True]


def test_a_number_that_is_typed_next_stands_beside_the_newest_other_one(blank_with):
    """Also beside one that was left to the server, as an answer to the one before was waited for."""
    page = blank_with(f"{read_script('hand_component')}\nObject.assign(window, {{ PageChoice, SHARED }});")
    shown = page.evaluate(
        """() => {
            SHARED.answers = { calibration: { id: "manual_range", numbers: { lo: -1, hi: 1 } } };
            const data = { scheme: "", current: 0, variants: [{}], settings: {} };
            const told = { begin() {}, tell() {}, takeBack() {} };
            const choice = new PageChoice({ data, told, partsOf: () => ({}), update() {} });
            const shown = [];
            choice.show = (_, __, { number }, calibration) => {
                choice.number = number;
                return shown.push(calibration);
            };
            choice.calibrate("range_lo", "lo", "-2", 1);
            choice.calibrate("range_lo", "lo", "-5", 2);
            choice.calibrate("range_hi", "hi", "3", 3);
            return shown.at(-1);
        }"""
    )
    assert shown == {"id": "manual_range", "lo": -5, "hi": 3}
