"""The ruler in a blank page: what it draws, and what a mouse, a finger and keys make it tell its owner."""

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

from quantviz.analysis.range_error import minima_of
from quantviz.browser import FOLDER, join_modules
from quantviz.lab.picture_parts import RULER_STAGES
from quantviz.live.hand_words import ruler_settings
from tests.helpers.browser import TWO_FRAMES, fingers, held, mouse, violations
from tests.helpers.sample import sample_of

DEMO = (Path(__file__).parent / "ruler_demo.js").read_text(encoding="utf-8")
EVERY = {"range": True, "zero": True, "tooth": True, "value": True, "bits": True, "group": True}
RANDOM = random.Random(3)
#: 64 values like N(0, 1), and one far away.
VALUES = [round(RANDOM.gauss(0, 1), 2) for _ in range(63)] + [3.6]
START = {
    "bits": 4,
    "bitsChoices": [2, 3, 4, 5, 6, 8],
    "group": 1,
    "lo": -3.5,
    "hi": 3.5,
    "symmetric": True,
    "selected": 5,
    "domain": [-4.5, 4.5],
    "handles": EVERY,
    "curve": True,
}

#: Press keys, a frame apart; gives the upper end after each. On a busy machine the test's own keys, or their
#: frames, would come too far apart to be one move: what a pause ends is put off until the last.
TYPE = """async (ways) => {
  const values = [], later = window.setTimeout, last = ways.length - 1;
  for (const [at, way] of ways.entries()) {
    window.setTimeout = at < last ? (act, wait) => later(act, 1000 * wait) : later;
    const key = way.replace("Shift+", ""), init = {key, shiftKey: key !== way, bubbles: true};
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", init));
    await new Promise((done) => requestAnimationFrame(done));
    values.push(demo.state.hi);
  }
  return values;
}"""

COLOUR_AT = """([x, y]) => {
  const canvas = demo.ruler.canvas, ratio = devicePixelRatio;
  return [...canvas.getContext('2d').getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data];
}"""


@pytest.fixture
def ruler(new_page):
    """`ruler(width=…, theme=…, touch=…, language=…, values=…, **state)` opens the demo's ruler in a page."""

    def open_ruler(width=1366, theme="light", touch=False, language="en", values=VALUES, **state):
        page = new_page(width, 700, theme, touch=touch)
        page.set_content(
            '<!doctype html><html lang="en"><title>Ruler</title>'
            '<body style="margin:0"><main></main></body></html>'
        )
        script = join_modules(FOLDER / "ruler" / "ruler.js")
        joined = f"{script}\n{DEMO}\nwindow.makeDemo = makeDemo;".replace("export ", "")
        page.add_script_tag(content=joined)
        page.evaluate(
            "([settings, values, state]) => { const host = document.querySelector('main'); "
            "window.demo = makeDemo(host, settings, Float32Array.from(values), state) }",
            [ruler_settings(theme, language), values, {**START, **state}],
        )
        return page

    return open_ruler


def handles(page):
    """What each handle is, by its name, with the place of its middle and of its target."""
    found = page.evaluate(
        """demo.ruler.handles.map((handle) => {
          const element = demo.ruler.elementOf(handle.id), box = element.getBoundingClientRect();
          return {id: handle.id, x: handle.box.x, y: handle.box.y, width: box.width, height: box.height,
            left: box.left, top: box.top, role: element.getAttribute('role'), tab: element.tabIndex,
            label: element.ariaLabel, now: element.ariaValueNow, least: element.ariaValueMin,
            most: element.ariaValueMax, told: element.ariaValueText};
        })"""
    )
    return {each["id"]: each for each in found}


def told(page):
    """What the owner was told; it is forgotten."""
    return page.evaluate("demo.told.splice(0)")


def frame(page):
    page.evaluate(TWO_FRAMES)


def kinds(messages):
    return [kind for kind, _ in messages]


def drag(page, handle, by, way=mouse):
    """Drag a handle; returns what was told."""
    drags = held(page, handle["x"], handle["y"], by, way=way, steps=4)
    next(drags)
    next(drags, None)
    return told(page)


#: For each handle: how far it is dragged, a key, and what the last message says after either.
MOVES = {
    "lo": (60, "ArrowRight", {"kind": "range"}, lambda m: m["lo"] > -3.5 and m["hi"] == -m["lo"]),
    "hi": (-60, "ArrowLeft", {"kind": "range"}, lambda m: m["hi"] < 3.5 and m["lo"] == -m["hi"]),
    "zero": (70, "ArrowRight", {"kind": "zero", "index": 8}, lambda m: m["value"] > 0),
    "tooth:10": (30, "ArrowRight", {"kind": "tooth", "index": 10}, lambda m: m["value"] > 1.0),
    "value": (50, "ArrowRight", {"kind": "value", "cell": 5}, lambda m: m["value"] > VALUES[5]),
    "bits": (60, "ArrowRight", {"kind": "bits"}, lambda m: m["at"] > 2),
    "group": (60, "ArrowRight", {"kind": "group"}, lambda m: m["at"] > 1),
}


@pytest.mark.parametrize(("name", "by"), sample_of(itertools.product(MOVES, ("mouse", "touch", "keys")), 6))
def test_each_handle_tells_its_owner(ruler, name, by):
    page = ruler(touch=by == "touch", width=1000)
    pixels, key, expected, holds = MOVES[name]
    if by == "keys":
        page.locator(f"[data-handle='{name}']").focus()
        page.keyboard.press(key)
        frame(page)
        page.wait_for_function("demo.told.at(-1)?.[0] === 'release'")
        messages = told(page)
    else:
        messages = drag(page, handles(page)[name], pixels, {"mouse": mouse, "touch": fingers}[by])
    assert kinds(messages)[-1] == "release", messages
    assert set(kinds(messages)[:-1]) == {"move"}, messages
    assert messages[-1][1] == messages[-2][1], "the last move is what is released"
    last = messages[-1][1]
    assert expected.items() <= last.items(), last
    assert holds(last), last
    assert page.evaluate("demo.ruler.grasp.hand") is None


def test_keys_go_by_a_step_by_ten_and_to_the_ends(ruler):
    page = ruler(symmetric=False)
    page.locator("[data-handle='hi']").focus()
    values = page.evaluate(
        TYPE, ["ArrowLeft", "ArrowDown", "ArrowRight", "ArrowUp", "Shift+ArrowLeft", "End", "Home"]
    )
    # Farther out the last tooth could leave the axis, which ends at 4.5.
    assert values[:6] == [3.4, 3.3, 3.4, 3.5, 2.5, pytest.approx(4.241)]
    assert values[6] == pytest.approx(-3.5, abs=0.011)
    page.wait_for_function("demo.told.at(-1)[0] === 'release'")
    messages = told(page)
    assert kinds(messages) == ["move"] * 7 + ["release"], "one for all keys"
    assert messages[-1][1] == {"kind": "range", "lo": -3.5, "hi": values[6]}


@pytest.mark.parametrize("by", ["mouse", "keys"])
def test_escape_brings_back_what_was(ruler, by):
    page = ruler()
    before = handles(page)
    if by == "mouse":
        drags = held(page, before["hi"]["x"], before["hi"]["y"], -100, steps=1)
        next(drags)
        page.keyboard.press("Escape")
        next(drags, None)
    else:
        page.locator("[data-handle='hi']").focus()
        page.evaluate(TYPE, ["ArrowLeft", "Escape"])
    page.wait_for_timeout(450)
    messages = told(page)
    back = {"kind": "range", "lo": -3.5, "hi": 3.5}
    assert kinds(messages) == ["move", "move", "cancel"]
    assert messages[1][1] == messages[2][1] == back
    assert handles(page) == before


def test_a_press_tells_nothing_and_many_moves_of_one_frame_are_told_once(ruler):
    page = ruler()
    x, y = (handles(page)["hi"][side] for side in "xy")
    page.mouse.click(x, y)
    page.wait_for_timeout(450)
    assert told(page) == []
    assert page.evaluate("document.activeElement.dataset.handle") == "hi"
    page.evaluate(
        """([x, y]) => {
          const send = (type, at) => demo.ruler.root.dispatchEvent(new PointerEvent(type,
            {clientX: at, clientY: y, pointerId: 1, bubbles: true, isPrimary: true}));
          demo.ruler.root.setPointerCapture = () => {};
          send('pointerdown', x);
          for (let k = 1; k <= 50; k++) send('pointermove', x - k);
        }""",
        [x, y],
    )
    frame(page)
    (only,) = told(page)
    assert only[0] == "move"
    assert only[1]["hi"] == pytest.approx(3.5 - 50 * 9 / 1318, abs=0.006)


def test_an_older_picture_does_not_move_the_end_under_the_hand(ruler):
    page = ruler(deaf=True)
    start = handles(page)["hi"]
    drags = held(page, start["x"], start["y"], -200, steps=1)
    next(drags)
    moved = handles(page)["hi"]
    assert moved["x"] == pytest.approx(start["x"] - 200, abs=1), "it moves before the owner answers"
    page.evaluate("demo.state.domain = [-9, 9]; demo.show()")
    assert handles(page)["hi"] == moved
    next(drags, None)
    assert told(page)[-1][1]["hi"] == pytest.approx(float(moved["now"]))
    assert handles(page)["hi"]["now"] == moved["now"], "and it stays until there is a newer picture"
    page.evaluate("demo.show()")
    # Without a hand on them, handles are placed once the picture was painted.
    page.wait_for_function("demo.ruler.elementOf('hi').ariaValueNow === '3.5'")


def targets_of_rings_lie_side_by_side(page):
    """Those of rings close to each other covered one another: 24 pixels are the least that is tapped."""
    targets = "xs => targetsOf(xs.map((x, take) => ({ x, take }))).map(({ take, left }) => [take, left])"
    for rings, beside in (
        ([40, 100], [[0, 28], [1, 88]]),
        ([110, 100], [[1, 81], [0, 105]]),
        ([100, 106, 140], [[0, 79], [1, 103], [2, 128]]),
        ([100, 100, 130], [[0, 74], [1, 98], [2, 122]]),
        ([100, 100, 100, 100], [[0, 52], [1, 76], [2, 100], [3, 124]]),
        ([], []),
    ):
        assert page.evaluate(targets, rings) == beside


def test_handles_are_sliders_with_names_and_limits(ruler):
    page = ruler()
    found = handles(page)
    assert {name.split(":")[0] for name in found} == {"lo", "hi", "zero", "tooth", "value", "bits", "group"}
    assert all(each["role"] == "slider" and each["label"] for each in found.values())
    for each in found.values():
        assert float(each["least"]) <= float(each["now"]) <= float(each["most"]), each
    assert found["lo"]["label"] == "Lower end of the range"
    assert found["lo"]["told"] == "−3.50"
    assert found["tooth:10"]["told"] == "code 2 at 1"
    # Of all teeth one is on the way of Tab; Page Up and Page Down lead to the others.
    assert [each["id"] for each in found.values() if each["id"].startswith("tooth") and each["tab"] == 0] == [
        "tooth:15"
    ]
    page.locator("[data-handle='tooth:15']").focus()
    page.keyboard.press("PageDown")
    assert page.evaluate("document.activeElement.dataset.handle") == "tooth:14"
    assert page.locator("canvas").get_attribute("aria-label") == "The demo's ruler."
    assert violations(page) == []
    targets_of_rings_lie_side_by_side(page)


def test_a_finger_scrolls_the_page_beside_the_handles(ruler):
    page = ruler(width=390, touch=True)
    action = "(name) => getComputedStyle(name ? demo.ruler.elementOf(name) : demo.ruler.root).touchAction"
    assert page.evaluate(action, None) == "pan-x pan-y"
    for name, each in handles(page).items():
        assert page.evaluate(action, name) == "none"
        assert min(each["width"], each["height"]) >= 44, each


#: The comb's line and the ruler's height in the tabs Cell, Range and Blame, and the curve's height in Range.
TABS = """([width, height]) => {
  const sliders = { bits: {}, group: {} }, curve = { at: [0, 1] };
  const narrow = width < NARROW, inRange = narrow ? { group: {} } : {};
  const tabs = [[narrow ? { group: {} } : sliders, null], [inRange, curve], [inRange, null]];
  const bands = tabs.map(([handles, curve]) =>
    bandsOf(width, { standing: true, handles, curve }, false, height));
  return [bands.map(({ line, height }) => [line, height]), bands[1].base - bands[1].curve];
}"""


def test_the_comb_has_one_place_in_every_tab_of_the_lab(ruler):
    """It jumped by the sliders' height, and the curve was 60 px high below it."""
    page = ruler(handles={})
    for width, height, most in ((1116, 625, 192), (1116, 1080, 242), (366, 664, 164)):
        places, curve = page.evaluate(TABS, [width, height])
        assert len(set(map(tuple, places))) == 1, places
        assert places[0][1] <= most
        assert curve >= (160 if width > 500 else 90)


def test_the_dragged_end_rides_on_the_curve_in_decibels(ruler):
    # In the Lab the sliders are controls of their own.
    page = ruler(standing=True, handles={"range": True, "value": True})
    heights = []
    for hi in (1.2, 2.0, 3.0, 3.75):
        page.evaluate("hi => { Object.assign(demo.state, { hi, lo: -hi }); demo.show(); }", hi)
        knob, curve = page.evaluate(
            "() => { const { marks, axis } = demo.ruler;"
            " return [marks.knobs, heightAt(marks.curve, axis.at(demo.state.hi))]; }"
        )
        assert knob == pytest.approx(curve, abs=0.5)
        heights.append(knob)
    assert heights[0] < heights[1] < heights[2] - 5, "the error falls until the range covers enough"
    # As many pixels for each decibel, an error of 0 at the foot, also where all errors are 0.
    ten, twenty, none = page.evaluate(
        """() => { const { yOf } = decibels([1, 2, 500], 163, 3);
          return [yOf(1) - yOf(10), yOf(1) - yOf(100), decibels([0, 0], 163, 3).yOf(0)]; }"""
    )
    assert twenty == pytest.approx(2 * ten)
    assert (page.evaluate("decibels([1, 500], 163, 3).yOf(0)"), none) == (163, 163)


def test_a_value_that_becomes_an_outlier_goes_past_the_axis(ruler):
    """The axis of the tab Blame was twice as long for it."""
    page = ruler(outlier=True, curve=False)
    value = handles(page)["value"]
    assert (float(value["least"]), float(value["most"])) == (-9, 9)
    told = [page.evaluate("x => demo.ruler.axis.valueBeyond(x)", x) for x in (683, 1342, 1354, 1366, 1400)]
    assert told == pytest.approx([0, 4.5, 6.75, 9, 9])


#: What is drawn when a picture is shown: each call of the canvas with its colour, and of a text its box.
CALLS = """(stage) => {
  const calls = [], proto = CanvasRenderingContext2D.prototype, real = {};
  for (const name of ["fillRect", "stroke", "fill", "fillText", "arc", "moveTo"]) {
    real[name] = proto[name];
    proto[name] = function (...given) {
      const call = { name, given, colour: this[name === "stroke" ? "strokeStyle" : "fillStyle"] };
      if (name === "fillText") {
        const [text, x, y] = given, width = this.measureText(text).width;
        const size = parseFloat(this.font.match(/([\\d.]+)px/)[1]);
        const left = x - ({ center: width / 2, right: width }[this.textAlign] ?? 0), right = left + width;
        Object.assign(call, { text, left, right, top: y - size * 0.72, bottom: y + size * 0.05 });
      }
      calls.push(call);
      return real[name].apply(this, given);
    };
  }
  demo.ruler.show(stage ? { ...demo.ruler.picture, stage } : demo.picture());
  Object.assign(proto, real);
  return calls;
}"""


def calls(page, stage=None):
    return page.evaluate(CALLS, stage)


def labels(page):
    return [call for call in calls(page) if call["name"] == "fillText"]


def written(drawn):
    """Numbers among what was drawn."""
    return {each for each in drawn if each[:1] in {*"−0123456789"} and "→" not in each}


def test_what_is_drawn_comes_stage_by_stage(ruler):
    page = ruler(curve=False, handles={"value": True, "bits": True}, bits=3)
    texts, colours, teeth, heights = {}, {}, [], []
    for stage in RULER_STAGES:
        drawn = calls(page, stage)
        texts[stage] = {call["text"] for call in drawn if call["name"] == "fillText"}
        colours[stage] = {call["colour"] for call in drawn if call["name"] != "fillText"}
        teeth.append(page.evaluate("demo.ruler.marks.teeth.length > 0"))
        heights.append(page.evaluate("demo.ruler.canvas.clientHeight"))
    assert teeth == [False, False, True, True, True]
    # Sliders alone take no room for the rest.
    assert heights == [26, *[26 + 84 + 40] * 4]
    own = ruler_settings("light", "en")["colors"]
    errors = {own["over"], own["under"]}
    assert [bool(errors & colours[stage]) for stage in RULER_STAGES] == [False] * 4 + [True]
    # The second scale: the values at the teeth, below their codes.
    codes, values, everything = (written(texts[stage]) for stage in RULER_STAGES[2:])
    assert {"−2", "2"} <= codes < values == everything
    # Dots alone: only the ends of the range and the selected value are written.
    assert {"−3.5", "3.5"} <= written(texts["dots"])
    assert not any("→" in each for each in texts["dots"])
    assert any("→" in each for each in texts["codes"])


@pytest.mark.parametrize(
    ("width", "bits", "asymmetric", "standing"),
    sample_of(itertools.product((390, 820, 1366, 1920), (2, 3, 4, 6, 8), (False, True), (False, True)), 4),
)
def test_no_label_touches_another_or_leaves_the_ruler(ruler, width, bits, asymmetric, standing):
    # In the Lab the curve takes the sliders' room.
    own = {"range": True, "value": True} if standing else EVERY
    page = ruler(width=width, standing=standing, handles=own, bits=bits, symmetric=not asymmetric)
    marked = 0
    for hi, mark in itertools.product(
        (0.4, 1.7, 3.5, 4.4), (-4, -1.5, -0.3, 0.3, 0.6, 1.2, 1.9, 3.3, 3.6, 4.4)
    ):
        lo = -hi / 3 if asymmetric else -hi
        page.evaluate("state => Object.assign(demo.state, state)", {"hi": hi, "lo": lo, "mark": mark})
        found = labels(page)
        assert len(found) > 4
        marked += "your mark" in {each["text"] for each in found}
        assert all(0 <= each["left"] < each["right"] <= width for each in found), found
        for one, other in itertools.combinations(found, 2):
            apart = one["left"] >= other["right"] or one["right"] <= other["left"]
            assert apart or one["top"] >= other["bottom"] or one["bottom"] <= other["top"], (one, other)
    assert marked >= 35, "its words have room nearly everywhere"


@pytest.mark.parametrize("width", [390, 1366])
def test_no_name_on_the_curve_stands_over_a_ring_and_the_best_has_one(ruler, width):
    page = ruler(width=width, handles={})
    curve = page.evaluate("demo.ruler.bands.curve")
    for best in (0.9, 2.6, 3.15, 3.3, 3.45):
        marks = [
            {"at": at, "label": label, "told": label, "take": None, "best": label == "best"}
            for label, at in (("best", best), ("99.9 %", 3.4), ("99 %", 3.25))
        ]
        page.evaluate("marks => { demo.state.marks = marks; }", marks)
        drawn = calls(page)
        arcs = [call["given"][:3] for call in drawn if call["name"] == "arc"]
        rings = [(x, y, radius) for x, y, radius in arcs if y > curve and radius >= 4]
        assert len(rings) == 4, "three marks and the range that is set"
        named = {call["text"]: call for call in drawn if call.get("text") in ("best", "99.9 %", "99 %")}
        assert "best" in named
        for name, (x, y, radius) in itertools.product(named.values(), rings):
            beside = name["left"] >= x + radius or name["right"] <= x - radius
            assert beside or name["top"] >= y + radius or name["bottom"] <= y - radius, (name, x, y)
        if width > 1000:
            assert len(named) == 3


def test_the_script_finds_the_minima_that_python_finds(ruler):
    chance = np.random.default_rng(7)
    curves = [np.exp(np.cumsum(chance.normal(0, 0.05, 72))) for _ in range(20)]
    found = ruler(handles={}).evaluate(
        "curves => curves.map((each) => minimaOf(each))", [each.tolist() for each in curves]
    )
    assert found == [list(minima_of(each)) for each in curves]
    assert len(set(map(len, found))) > 2


#: Show the comb of other bits as the page does; tells whether its teeth glide there.
GLIDES = """(bits) => {
  Object.assign(demo.state, { bits });
  demo.ruler.show(demo.picture(), true);
  return demo.ruler.motion.runs;
}"""


def test_teeth_glide_to_another_comb_but_not_for_who_wants_it_still(ruler):
    page = ruler(curve=False, bits=2)
    assert page.evaluate(GLIDES, 3)
    page.wait_for_function("!demo.ruler.motion.runs")
    at_the_end = [each["x"] for each in handles(page).values()]
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(GLIDES, 2)
    assert not page.evaluate(GLIDES, 3)
    frame(page)
    assert [each["x"] for each in handles(page).values()] == at_the_end


def test_what_is_clipped_piles_up_at_the_end_tooth(ruler):
    page = ruler(symmetric=False, lo=-1, hi=1, curve=False)
    clipped, values = page.evaluate(
        "(() => { const p = demo.picture(); return [[...p.clipped], [...p.values]] })()"
    )
    flat = page.evaluate("[...demo.ruler.painter.places]")
    places = list(zip(flat[::2], flat[1::2], strict=True))
    tooth = handles(page)["tooth:15"]["x"]
    upper = [i for i, is_clipped in enumerate(clipped) if is_clipped and i != 5 and values[i] > 0]
    assert len(upper) > 3
    for i in upper:
        assert 0 < places[i][0] - tooth < 30
    assert len({tuple(map(round, places[i])) for i in upper}) == len(upper)
    farthest = max(upper, key=lambda i: values[i])
    assert places[farthest][1] == max(places[i][1] for i in upper)


def test_only_what_is_clipped_has_the_colour_of_clipping(ruler):
    """Beside "clipped 0 %" all was orange that lay outside the range."""
    values = [0.1] * 200 + [2.5] * 200 + [-2.5] * 200 + [3.7] * 200
    page = ruler(values=values, alone=True, selected=-1, bits=2, lo=-2, hi=2, curve=False, handles={})
    orange = []
    for value in (0.1, 2.5, -2.5, 3.7):
        place = page.evaluate("value => [demo.ruler.axis.at(value), demo.ruler.bands.tips - 3]", value)
        red, _, blue, alpha = page.evaluate(COLOUR_AT, place)
        assert alpha > 80, value
        orange.append(red > blue)
    # The range ends at 2, the last tooth stands there, and half a gap goes on to 3.
    assert orange == [False, False, False, True]


TEETH = """() => {
  const { picture, axis, painter } = demo.ruler;
  return [painter.teeth.length, picture.levels.length, Math.min(...painter.teeth.map(({ x }) => x)),
    Math.max(...painter.teeth.map(({ x }) => x)), axis.left, axis.right];
}"""


@pytest.mark.parametrize(("symmetric", "bits"), [(True, 2), (True, 4), (False, 2), (False, 4)])
def test_no_hand_drags_a_tooth_of_few_out_of_view(ruler, symmetric, bits):
    """At 2 bits three of four teeth were on the canvas."""
    lo, hi = (-2.0, 2.0) if symmetric else (-1.0, 2.5)
    page = ruler(symmetric=symmetric, bits=bits, lo=lo, hi=hi, curve=False, domain=[-4.8, 4.8])
    for name, ways in itertools.product(handles(page), (["End"], ["Home"])):
        # A symmetric zero point is not moved.
        if name in ("bits", "group", *(["zero"] if symmetric else [])):
            continue
        page.evaluate("([lo, hi]) => { Object.assign(demo.state, {lo, hi}); demo.show(); }", [lo, hi])
        page.locator(f"[data-handle='{name}']").focus()
        page.evaluate(TYPE, ways)
        drawn, there, left, right, first, last = page.evaluate(TEETH)
        assert drawn == there == 2**bits, (name, ways)
        assert first - 1 <= left < right <= last + 1, (name, ways)
        # Pressed together, the comb had no tooth left to open it with.
        assert any(each.startswith("tooth") for each in handles(page)), (name, ways)
        page.evaluate("document.activeElement.blur()")


def test_few_dots_are_drawn_as_many_are(ruler):
    """Of one line without length Chromium draws nothing: the first clipped dot was not there."""
    page = ruler(symmetric=False, lo=-1, hi=1, curve=False, selected=0, values=[0.0, 0.4, -0.4, 0.7, 0.2])
    for count in (0, 1, 2, 3):
        page.evaluate(
            "values => { demo.values.set(values, 1); demo.show(); }", [2.2] * count + [0.4] * (3 - count)
        )
        clipped = page.evaluate("[...demo.picture().clipped]")
        assert sum(clipped) == count
        for i in range(1, 5):
            place = page.evaluate("i => [...demo.ruler.painter.places.slice(2 * i, 2 * i + 2)]", i)
            red, _, blue, alpha = page.evaluate(COLOUR_AT, place)
            assert alpha > 150, (count, i)
            assert (red > blue) == bool(clipped[i]), (count, i)
            # A pixel further out it is still the dot.
            assert page.evaluate(COLOUR_AT, [place[0] + 1.5, place[1]])[3] > 150, (count, i)


def test_a_value_keeps_its_height_while_the_range_moves(ruler):
    page = ruler(symmetric=True)
    heights = "[...demo.ruler.painter.places]"
    before, clipped = page.evaluate(heights), page.evaluate("[...demo.picture().clipped]")
    page.evaluate("demo.state.hi = 3.2; demo.state.lo = -3.2; demo.show()")
    after, clipped_after = page.evaluate(heights), page.evaluate("[...demo.picture().clipped]")
    kept = [i for i in range(len(VALUES)) if not clipped[i] and not clipped_after[i]]
    assert len(kept) > 50
    assert [before[2 * i : 2 * i + 2] for i in kept] == [after[2 * i : 2 * i + 2] for i in kept]
    # Nor do the others move when one is dragged.
    page.evaluate("demo.values[5] = 2.7; demo.show()")
    dragged = page.evaluate(heights)
    assert all(dragged[2 * i + 1] == after[2 * i + 1] for i in kept if i != 5)


def test_an_end_beyond_the_axis_can_be_brought_back(ruler):
    page = ruler(symmetric=False, hi=60, curve=False)
    upper = handles(page)["hi"]
    assert upper["x"] == 1366 - 24
    assert page.evaluate(COLOUR_AT, [upper["x"], upper["y"] - 6])[3] == 255, "its knob is drawn"
    messages = drag(page, upper, -300)
    assert -3.5 < messages[-1][1]["hi"] < 4.5
